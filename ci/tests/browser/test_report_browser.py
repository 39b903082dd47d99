"""The report in a real browser: it draws, it answers clicks, it says
nothing on the console, it asks for nothing.
"""

import json
from pathlib import Path

import pytest

import synthetic_session as synthetic
from mpibench.pages import outcomes as report_summary
from mpibench.pages import session as report
from mpibench.store import sessions


def wider_plan():
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
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("session")
    synthetic.run_session(wider_plan(), folder, ["run=nightly"])
    return folder


@pytest.fixture(scope="module")
def session(folder):
    return sessions.read_session(folder / "results.db")


@pytest.fixture(scope="module")
def url(folder, session):
    return report.write_report(report.View(session, folder), "report.html").as_uri()


@pytest.fixture
def page(browser, folder, url):
    """The report, freshly opened; afterwards nothing may have been complained of or asked for."""
    browser.open(url)
    yield browser
    assert browser.problems == []
    beside = {one.as_uri() for one in folder.glob("plotly*.js")}
    assert set(browser.requests) <= {url, *beside}


def each(page, what, selector="#charts figure"):
    """A property of each element of that kind."""
    nodes = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return list(page.evaluate(f"{nodes}.map((one) => one.{what})"))


def test_a_click_on_a_point_opens_its_case(page, session):
    page.show_curves()
    place = page.evaluate(
        """(() => {
            const point = document.querySelectorAll('#charts figure .points path')[10].getBoundingClientRect();
            return [point.x + point.width / 2, point.y + point.height / 2];
        })()"""
    )
    page.wait("document.readyState === 'complete'")
    page.click(*place)
    page.wait("!document.getElementById('panel').hidden")
    shown = page.text("#panel")
    case = session.cases[int(str(page.evaluate("location.hash")).removeprefix("#case-"))]
    wanted = ("PingPong", "latency_us", 512)
    rows = {(one.benchmark, one.quantity, one.message_bytes): one for one in case.samples}
    assert "PingPong, latency, 512 B, 2 ranks" in shown
    for value in rows[wanted].values:
        assert f"{report_summary.format_number(value)} µs" in shown
    for word in (case.job_id, case.nodelist, case.directory, "rfm_job.sh", "condition proven"):
        assert word in shown
    files = each(page, "href", "#panel a")
    assert len(files) == 5
    assert all(Path(str(file).removeprefix("file://")).exists() for file in files)
    page.evaluate("document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")
    assert page.evaluate("document.getElementById('panel').hidden && location.hash === ''")


def test_unproven_curves_are_drawn_only_when_asked_for(page):
    page.choose("curve-controls", "Pinning", "bunch")
    page.choose("curve-controls", "Fabric", "lo")
    page.show_curves()
    assert "No proven measurement" in page.text("#charts figure")
    absent = page.text("#charts figure .absent")
    assert "✕ failed" in absent and "\N{EN DASH} skipped" in absent
    page.evaluate("document.querySelector('#curve-controls input[type=checkbox]').click()")
    page.wait("document.querySelector('#charts figure').dataset.curves === '1'")
    dashes = each(page, "style.strokeDasharray", "#charts figure .js-line")
    assert dashes[-1] not in ("", "none", "0px", "0")


@pytest.mark.parametrize("width", [390, 1600])
def test_page_fits_its_window(browser, url, width):
    browser.open(url, width=width)
    browser.show_curves()
    assert browser.needed_width <= width
    browser.evaluate("location.hash = '#case-0'")
    browser.wait("!document.getElementById('panel').hidden")
    panel = "document.getElementById('panel')"
    assert browser.evaluate(f"{panel}.scrollWidth <= {panel}.clientWidth")


def test_an_injected_script_would_be_stopped(browser, url):
    """The policy of the page is a second wall: even markup that got in would not run."""
    browser.open(url)
    browser.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked = 1\">')"
    )
    browser.evaluate(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 2'; "
        "document.body.append(s)"
    )
    browser.wait("true")
    assert browser.evaluate("typeof window.hacked") == "undefined"
    assert any("Content Security Policy" in problem for problem in browser.problems)


def test_a_report_says_that_plotly_is_not_beside_it(browser, url, folder, tmp_path):
    alone = tmp_path / "alone.html"
    alone.write_bytes((folder / "report.html").read_bytes())
    shown = "!document.getElementById('no-plotly').hidden"
    browser.open(url)
    browser.wait("window.Plotly")
    assert not browser.evaluate(shown)
    browser.open(alone.as_uri())
    browser.wait(shown)
    assert browser.text("#evidence-table tbody tr:first-child")


def test_a_broken_page_is_noticed(browser, tmp_path):
    """The browser tests can fail: an error of a script and a request to the network both show."""
    page = tmp_path / "broken.html"
    script = "<script>console.error('wrong'); missing();</script>"
    image = "<img src='file:///nowhere.png'>"
    page.write_text(f"<!DOCTYPE html><html data-ready=yes><body>{image}{script}")
    browser.open(page.as_uri())
    browser.wait("document.readyState === 'complete'")
    said = "\n".join(browser.problems)
    assert "wrong" in said and "missing is not defined" in said
    assert "file:///nowhere.png" in browser.requests
