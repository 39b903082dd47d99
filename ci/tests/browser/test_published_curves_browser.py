"""What stands beside measured curves in a chart, drawn by a browser:
published ones, the other memory, the line rate.
"""

from mpibench.pages import session as report
from synthetic_session import session_of
from synthetic_tuning import SOURCE, chosen, eth1g_case, published_session


def test_measured_and_published_curves_share_a_chart(tmp_path, browser):
    session = published_session()
    url = report.write_report(
        report.View(session, tmp_path, (), chosen(session)), "report.html"
    ).as_uri()
    browser.open(url)
    browser.show_curves()
    first = "document.querySelector('#charts figure')"
    assert browser.evaluate(f"[{first}.dataset.curves, {first}.dataset.published]") == ["2", "1"]
    plot = "document.querySelector('#charts .js-plotly-plot')"
    names = browser.evaluate(
        f"{plot}.data.filter((one) => one.mode === 'lines+markers').map((one) => [one.name, "
        "one.line.dash])"
    )
    assert names == [[SOURCE, "dash"], ["intelmpi-wheels", "solid"], ["mpich-wheels", "solid"]]
    assert browser.evaluate(f"{plot}.data[0].y.length") == 24
    assert "2.000 of openhpc-mini/eth1g" in browser.evaluate(f"{plot}.data[2].text[0]")
    browser.evaluate(f"{first}.querySelector('figcaption button').click()")
    cells = browser.evaluate(
        f"[...{first}.querySelectorAll('tbody tr')].map((row) => "
        "[...row.children].map((cell) => cell.textContent))"
    )
    assert cells[0] == ["0 B", "99.62", "24.91", "49.81", "2.000", "0.500"]
    browser.choose("curve-controls", "Show", "ratio to published figures")
    browser.wait("document.querySelector('#charts figure').dataset.drawn")
    ratios = "[...new Set(one.y.map((value) => value.toFixed(3)))]"
    flat = browser.evaluate(
        f"{plot}.data.filter((one) => one.mode === 'lines+markers').map((one) => {ratios})"
    )
    assert flat == [["1.000"], ["2.000"], ["0.500"]], "curves keep six digits"
    assert browser.problems == []


def of_memory(fabric, factor, **memory):
    """A case over one link of 1 Gbit/s; of GPUs it says so in its
    condition and variants, as cases do.
    """
    case = eth1g_case(factor)
    over = {"fabric": fabric, "devices": ["eth1"], "line_rate_gbit_per_s": 1, **memory}
    variant = ",".join(f"{name}={word}" for name, word in memory.items())
    samples = [{**sample, "variant": variant} for sample in case["samples"]]
    condition = {**case["condition"], **over}
    return {**case, "fabric": fabric, "condition": condition, "samples": samples}


def test_memory_of_host_and_gpus_and_the_line_rate_share_a_chart(tmp_path, browser):
    session = session_of(
        of_memory("eth1g", 2.0),
        of_memory("eth1g_device", 1.0, memory="device"),
        of_memory("eth1g_managed", 0.5, memory="managed"),
    )
    url = report.write_report(report.View(session, tmp_path, ()), "report.html").as_uri()
    browser.open(url)
    browser.show_curves()
    browser.choose("curve-controls", "One chart per", "fabric")
    browser.choose("curve-controls", "Quantity", "bandwidth")
    browser.wait(
        "[...document.querySelectorAll('#charts figure')].every((figure) => figure.dataset.drawn)"
    )
    lines = (
        "plot.data.filter((line) => line.mode === 'lines+markers').map((line) => "
        "[line.name, line.line.dash])"
    )
    drawn = browser.evaluate(
        f"[...document.querySelectorAll('#charts .js-plotly-plot')].map((plot) => {lines})"
    )
    own = ["intelmpi-wheels", "solid"]
    host = ["intelmpi-wheels, eth1g", "dash"]
    assert drawn == [[["intelmpi-wheels, eth1g_device", "dash"], own], [host, own], [host, own]]
    limits = browser.evaluate(
        "[...document.querySelectorAll('#charts figure')].map((figure) => figure.dataset.limits)"
    )
    assert limits == ["125", "125", "125"], "MB/s of 1 Gbit/s"
    assert "Dashed: eth1g, over the same links." in browser.evaluate(
        "document.getElementById('charts').textContent"
    )
    assert browser.problems == []
