"""The report in a real browser: it draws, it answers clicks, it says nothing on the console, it asks for nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import chromium
import synthetic_session as synthetic
from mpibench.pages import outcomes as report_summary
from mpibench.pages import session as report
from mpibench.store import sessions
from synthetic_report import HOSTILE, session_of

pytestmark = [
    pytest.mark.skipif(
        chromium.find_browser() is None, reason=f"[browser] no Chromium on PATH ({', '.join(chromium.NAMES)}): install chromium"
    ),
]


def wider_plan() -> list[dict[str, object]]:
    """Four pinnings and two fabrics for point to point, beside one case of every kind of end."""
    more = [
        synthetic.case(stack, fabric, pinning=pinning, ppn=ppn)
        for stack in synthetic.STACKS
        for fabric in ("shm", "lo")
        for pinning in ("default", "scatter")
        for ppn in (2, 4)
    ]
    return [*synthetic.mixed_plan(), *more]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("session")
    synthetic.run_session(wider_plan(), folder, ["run=nightly"])
    return folder


@pytest.fixture(scope="module")
def session(folder: Path) -> sessions.Session:
    return sessions.read_session(folder / "results.db")


@pytest.fixture(scope="module")
def url(folder: Path, session: sessions.Session) -> str:
    return report.write_report(report.View(session, folder), "report.html").as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    with chromium.open_browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser: chromium.Page, url: str) -> Iterator[chromium.Page]:
    """The report, freshly opened; afterwards nothing may have been complained of or asked for."""
    browser.problems.clear()
    browser.requests.clear()
    browser.open(url)
    yield browser
    assert browser.problems == []
    assert set(browser.requests) == {url}


#: The first chart that has been drawn, as plotly.js keeps it.
FIRST_PLOT = "document.querySelector('#charts .js-plotly-plot')"


def choose(page: chromium.Page, form: str, label: str, text: str) -> None:
    """Choose an option of a select by its text, as a reader does."""
    page.evaluate(
        f"""(() => {{
            const node = document.querySelector('#{form} select[aria-label="{label}"]');
            node.value = [...node.options].find((option) => option.textContent === {json.dumps(text)}).value;
            node.dispatchEvent(new Event("change"));
        }})()"""
    )


def draw_all(page: chromium.Page) -> None:
    """Scroll through the charts until each has come into view."""
    count = page.evaluate("document.querySelectorAll('#charts figure').length")
    for number in range(count):
        page.evaluate(f"document.querySelectorAll('#charts figure')[{number}].scrollIntoView()")
        page.wait(f"document.querySelectorAll('#charts figure')[{number}].dataset.drawn")


def text(page: chromium.Page, selector: str) -> str:
    return str(page.evaluate(f"document.querySelector('{selector}').innerText"))


def test_charts_are_drawn_when_they_come_into_view(page: chromium.Page) -> None:
    benchmarks = sum(map(len, synthetic.GROUPS.values()))
    assert page.evaluate("document.querySelectorAll('#charts figure').length") == benchmarks
    assert page.evaluate("document.querySelectorAll('#charts figure[data-drawn]').length") < benchmarks
    draw_all(page)
    drawn = page.evaluate("[...document.querySelectorAll('#charts figure')].map((one) => Number(one.dataset.curves))")
    assert drawn == [3] * benchmarks
    # A line with 24 points for each of three stacks, and one point each where there is no size.
    points = page.evaluate(
        "[...document.querySelectorAll('#charts figure')].map((one) => one.querySelectorAll('.points path').length)"
    )
    assert points[0] == 3 * 24
    assert points[-1] == 3
    assert page.evaluate("document.querySelectorAll('#charts .js-fill').length") > 0


def test_plotly_runs_only_when_a_chart_is_needed(browser: chromium.Page, url: str) -> None:
    browser.open(url, height=200)
    assert browser.evaluate("typeof window.Plotly") == "undefined"


def test_axes_carry_units(page: chromium.Page) -> None:
    draw_all(page)
    titles = set(
        page.evaluate("[...document.querySelectorAll('#charts .g-ytitle, #charts .g-xtitle')].map((one) => one.textContent)")
    )
    assert titles == {"message size (bytes)", "latency (µs)", "bandwidth (MB/s)", "slowest rank's time (µs)", "stack"}


def test_a_click_on_a_point_opens_its_case(page: chromium.Page, session: sessions.Session) -> None:
    page.evaluate("document.getElementById('curves').scrollIntoView()")
    page.wait("document.querySelector('#charts figure').dataset.drawn")
    place = page.evaluate(
        """(() => {
            const point = document.querySelectorAll('#charts figure .points path')[10].getBoundingClientRect();
            return [point.x + point.width / 2, point.y + point.height / 2];
        })()"""
    )
    page.wait("document.readyState === 'complete'")
    page.click(*place)
    page.wait("!document.getElementById('panel').hidden")
    shown = text(page, "#panel")
    number = int(str(page.evaluate("location.hash")).removeprefix("#case-"))
    case = session.cases[number]
    assert case.group == "p2p"
    sample = next(
        one for one in case.samples if (one.benchmark, one.quantity, one.message_bytes) == ("PingPong", "latency_us", 512)
    )
    assert "PingPong, latency, 512 B, 2 ranks" in shown
    for value in sample.values:
        assert f"{report_summary.format_number(value)} µs" in shown
    for word in (case.job_id, case.nodelist, case.directory, "rfm_job.sh", "rfm_job.out", "benchmark.txt", "condition proven"):
        assert word in shown
    files = page.evaluate("[...document.querySelectorAll('#panel a')].map((one) => one.href)")
    assert all(Path(file.removeprefix("file://")).exists() for file in files)
    assert len(files) == 5
    assert "[object" not in shown
    page.evaluate("document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")
    assert page.evaluate("document.getElementById('panel').hidden && location.hash === ''")


def test_every_case_has_a_panel(page: chromium.Page, session: sessions.Session) -> None:
    for number, case in enumerate(session.cases):
        page.evaluate(f"location.hash = '#case-{number}'")
        page.wait(f"document.getElementById('panel').innerText.includes({json.dumps(case.uuid)})")
        shown = text(page, "#panel")
        assert "[object" not in shown
        assert "undefined" not in shown
        for sentence in report_summary.sentences(case):
            assert sentence in shown
        assert case.job_id in shown


def test_failures_are_the_first_thing_listed(page: chromium.Page) -> None:
    first = page.evaluate("document.querySelector('main button.case').closest('section').id")
    assert first == "failures"
    assert text(page, ".failures li").startswith("✕")
    assert synthetic.CONTRADICTED in text(page, ".failures li")
    assert "5 of " in text(page, "header .verdict")
    page.evaluate("document.querySelector('.failures button.case').click()")
    page.wait("!document.getElementById('panel').hidden")
    assert "condition contradicted" in text(page, "#panel")


def test_unproven_curves_are_drawn_only_when_asked_for(page: chromium.Page) -> None:
    choose(page, "curve-controls", "Pinning", "bunch")
    choose(page, "curve-controls", "Fabric", "lo")
    page.evaluate("document.getElementById('curves').scrollIntoView()")
    page.wait("document.querySelector('#charts figure').dataset.drawn")
    assert "No proven measurement" in text(page, "#charts figure")
    assert "✕ failed" in text(page, "#charts figure .absent")
    assert "\N{EN DASH} skipped" in text(page, "#charts figure .absent")
    page.evaluate("document.querySelector('#curve-controls input[type=checkbox]').click()")
    page.wait("document.querySelector('#charts figure').dataset.curves === '1'")
    dashes = page.evaluate("[...document.querySelectorAll('#charts figure .js-line')].at(-1).style.strokeDasharray")
    assert dashes not in ("", "none", "0px", "0")


@pytest.mark.parametrize(
    ("facet", "charts", "title"), [("pinning", 4, "pinning none"), ("fabric", 2, "fabric lo"), ("benchmark", 15, "PingPing")]
)
def test_charts_per_dimension(page: chromium.Page, facet: str, charts: int, title: str) -> None:
    if facet == "benchmark":
        choose(page, "curve-controls", "One chart per", "pinning")
    choose(page, "curve-controls", "One chart per", facet)
    titles = page.evaluate("[...document.querySelectorAll('#charts figcaption b')].map((one) => one.textContent)")
    assert len(titles) == charts
    assert title in titles
    draw_all(page)


def test_ratio_to_a_stack(page: chromium.Page) -> None:
    choose(page, "curve-controls", "Show", "ratio to mpich-wheels")
    draw_all(page)
    ratios = page.evaluate(f"{FIRST_PLOT}.data.filter((one) => one.name === 'mpich-wheels').map((one) => [...new Set(one.y)])")
    assert ratios == [[1]]
    assert "ratio to mpich-wheels" in page.evaluate("document.querySelector('#charts .g-ytitle').textContent")


def test_values_as_a_table_lead_to_the_case(page: chromium.Page) -> None:
    page.evaluate(
        "[...document.querySelectorAll('#charts figcaption button')].find((one) => one.textContent === 'values').click()"
    )
    assert page.evaluate("document.querySelectorAll('#charts figure tbody tr').length") == 24
    page.evaluate("document.querySelector('#charts figure tbody button').click()")
    page.wait("!document.getElementById('panel').hidden")
    assert "PingPong, latency, 0 B" in text(page, "#panel")


def test_stacks_can_be_hidden(page: chromium.Page) -> None:
    page.evaluate("document.querySelector('#legend button').click()")
    page.evaluate("document.getElementById('curves').scrollIntoView()")
    page.wait("document.querySelector('#charts figure').dataset.curves === '2'")
    assert page.evaluate("document.querySelector('#legend button').getAttribute('aria-pressed')") == "false"


def test_a_stack_without_a_case_is_reported(browser: chromium.Page, tmp_path: Path) -> None:
    """A line that is not there is explained: the stack has no case of this group."""
    session = session_of(synthetic.case(), synthetic.case(group="transfer"), synthetic.case("mpich-wheels", group="transfer"))
    browser.open(report.write_report(report.View(session, tmp_path), "r.html").as_uri())
    draw_all(browser)
    assert "mpich-wheels no case" in text(browser, "#charts figure .absent")
    assert "no case" not in browser.evaluate("[...document.querySelectorAll('#charts figure .absent')].at(-1).innerText")


def test_map_of_pinning_and_ppn(page: chromium.Page) -> None:
    choose(page, "heat-controls", "Message size", "1 KiB")
    page.evaluate("document.getElementById('heat').scrollIntoView()")
    page.wait("[...document.querySelectorAll('#maps figure')].every((one) => one.dataset.drawn)")
    cells = page.evaluate(
        "[...document.querySelectorAll('#maps .map')].flatMap((one) => one.cells.flat().map(({text}) => text))"
    )
    assert len(cells) == 3 * 2 * 4
    assert sum("best" in cell for cell in cells) >= 1
    filled = [cell for cell in cells if cell and not cell.startswith(("✕", "\N{EN DASH}"))]
    assert len(filled) == 15
    shown = page.evaluate("[...document.querySelectorAll('#maps .annotation-text')].map((one) => one.textContent)")
    assert filled[0].replace("<br>", "") in "".join(shown)
    place = page.evaluate(
        """(() => {
            const box = document.querySelector('#maps .annotation-text').getBoundingClientRect();
            return [box.x + box.width / 2, box.y + 3];
        })()"""
    )
    page.click(*place)
    page.wait("!document.getElementById('panel').hidden")
    said = text(page, "#panel")
    assert "PingPong, latency, 1 KiB" in said
    assert filled[0].partition("<br>")[0] in said


def test_evidence_can_be_filtered(page: chromium.Page) -> None:
    page.evaluate(
        "const box = document.getElementById('filter'); box.value = 'MPICH tcp scatter'; box.dispatchEvent(new Event('input'))"
    )
    shown = page.evaluate(
        "[...document.querySelectorAll('#evidence-table tbody tr')].filter((one) => !one.hidden).map((one) => one.innerText)"
    )
    assert len(shown) == 2
    assert all("mpich-wheels" in row and "scatter" in row for row in shown)
    assert text(page, "#filter-count").startswith("2 of ")


def test_few_sizes_are_spread_over_the_axis(browser: chromium.Page, tmp_path: Path) -> None:
    """0 bytes stand beside the smallest size of the session, not twelve powers of two away."""
    plan = synthetic.case()
    plan["samples"] = [row for row in plan["samples"] if row["message_bytes"] in (0, 1024, 4096)]
    browser.open(report.write_report(report.View(session_of(plan), tmp_path), "r.html").as_uri())
    browser.evaluate("document.getElementById('curves').scrollIntoView()")
    browser.wait("document.querySelector('#charts figure').dataset.drawn")
    assert browser.evaluate(f"{FIRST_PLOT}.data[1].x") == [512, 1024, 4096]
    ticks = browser.evaluate("[...document.querySelectorAll('#charts .xtick')].map((one) => one.textContent)")
    assert ticks[:3] == ["0", "1 Ki", "4 Ki"]


@pytest.mark.parametrize("width", [390, 820, 1600])
def test_page_fits_its_window(browser: chromium.Page, url: str, width: int) -> None:
    browser.open(url, width=width, touch=width < 800)
    browser.evaluate("document.getElementById('curves').scrollIntoView()")
    browser.wait("document.querySelector('#charts figure').dataset.drawn")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    browser.evaluate("location.hash = '#case-0'")
    browser.wait("!document.getElementById('panel').hidden")
    assert browser.evaluate("document.getElementById('panel').scrollWidth <= document.getElementById('panel').clientWidth")


def test_dark_page_has_its_own_colours(browser: chromium.Page, url: str) -> None:
    colours = []
    for dark in (False, True):
        browser.open(url, dark=dark)
        browser.evaluate("document.getElementById('curves').scrollIntoView()")
        browser.wait("document.querySelector('#charts figure').dataset.drawn")
        colours.append(browser.evaluate(f"[getComputedStyle(document.body).backgroundColor, {FIRST_PLOT}.data[1].line.color]"))
    assert all(light != dark for light, dark in zip(*colours, strict=True))


def test_print_has_all_charts_in_light_colours(browser: chromium.Page, url: str, tmp_path: Path) -> None:
    browser.open(url, dark=True, height=300)
    browser.evaluate(
        f"""addEventListener('beforeprint', () => {{
            window.colour = {FIRST_PLOT}.data[1].line.color;
            window.drawn = document.querySelectorAll('#charts .js-plotly-plot').length;
        }})"""
    )
    browser.print_pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert browser.evaluate("window.drawn") == 15
    assert browser.evaluate("window.colour") == "#0072b2"


def test_hostile_text_is_not_run(browser: chromium.Page, tmp_path: Path) -> None:
    stack = "intelmpi-wheels"
    plan = synthetic.case(stack)
    plan["proof"].update(transport=HOSTILE, library_version=HOSTILE, notes=[HOSTILE])
    plan["condition"].update(launcher=HOSTILE, job_env={"A": HOSTILE})
    for row in plan["samples"]:
        row["benchmark"] += HOSTILE
    session = session_of(plan, {**synthetic.case("mpich-wheels"), "name": HOSTILE}, cmdline=HOSTILE, why=HOSTILE)
    url = report.write_report(report.View(session, tmp_path), "r.html").as_uri()
    browser.problems.clear()
    browser.open(url)
    browser.evaluate("document.getElementById('curves').scrollIntoView()")
    browser.wait("document.querySelector('#charts figure').dataset.drawn")
    browser.evaluate("location.hash = '#case-0'")
    browser.wait("!document.getElementById('panel').hidden")
    assert "hacked=1" in text(browser, "#panel")
    assert browser.evaluate("typeof window.hacked") == "undefined"
    assert browser.problems == []


def test_an_injected_script_would_be_stopped(browser: chromium.Page, url: str) -> None:
    """The policy of the page is a second wall: even markup that got in would not run."""
    browser.open(url)
    browser.problems.clear()
    browser.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked = 1\">')")
    browser.evaluate("const s = document.createElement('script'); s.textContent = 'window.hacked = 2'; document.body.append(s)")
    browser.wait("true")
    assert browser.evaluate("typeof window.hacked") == "undefined"
    assert any("Content Security Policy" in problem for problem in browser.problems)


def test_a_session_without_measurements(browser: chromium.Page, session: sessions.Session, tmp_path: Path) -> None:
    empty = sessions.Session(session.info, tuple(case for case in session.cases if not case.samples))
    browser.problems.clear()
    browser.open(report.write_report(report.View(empty, tmp_path), "r.html").as_uri())
    assert "Nothing was measured." in text(browser, "#curves")
    assert browser.problems == []


def test_a_broken_page_is_noticed(browser: chromium.Page, tmp_path: Path) -> None:
    """The browser tests can fail: an error of a script and a request to the network both show."""
    page = tmp_path / "broken.html"
    script = "<script>console.error('wrong'); missing();</script>"
    page.write_text(f"<!DOCTYPE html><html data-ready=yes><body><img src='file:///nowhere.png'>{script}")
    browser.problems.clear()
    browser.requests.clear()
    browser.open(page.as_uri())
    browser.wait("document.readyState === 'complete'")
    assert any("wrong" in problem for problem in browser.problems)
    assert any("missing is not defined" in problem for problem in browser.problems)
    assert "file:///nowhere.png" in browser.requests
