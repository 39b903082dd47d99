"""Every kind of page, of recorded nights: for eyes, keyboards, screen readers and paper."""

import tarfile
from pathlib import Path

import pytest

from mpibench.judge import accept
from mpibench.pages import acceptance
from mpibench.stacks.suite_builds import sources_folder
from mpibench.store.store import Store
from mpibench_site import demo

#: Widths and themes that every page is looked at in.
WINDOWS = [(width, dark) for width in (1280, 390) for dark in (False, True)]
#: A4 across between the margins of ``@page``, in CSS pixels.
PAPER = 1032
VIOLATIONS = """
axe.run(document, {resultTypes: ['violations'], iframes: false, preload: false}).then(({violations}) => violations.map(
  ({id, nodes}) => `${id}: ${nodes.length}, ${nodes[0].html.slice(0, 200)}, ${nodes[0].any[0]?.message ?? ''}`))
"""
UNFOLDED = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
#: What a pointer can use and a keyboard cannot.
UNREACHED = """
[...document.querySelectorAll('body *')].filter((one) => one.checkVisibility() && getComputedStyle(one).cursor === 'pointer'
  && !one.closest('svg, .modebar') && !(one.closest('a[href], button, summary, select, input, label, [tabindex="0"]')))
  .map((one) => one.outerHTML.slice(0, 120))
"""
#: What is wider than its place, and there cannot be scrolled to: what paper cuts off.
CUT_OFF = """
[...document.querySelectorAll('body, main, section, figure, table, svg.main-svg, pre')].filter((one) => one.checkVisibility()
  && one.getBoundingClientRect().right > innerWidth + 1).map((one) => `${one.outerHTML.slice(0, 80)} ${one.getBoundingClientRect().right}`)
"""
#: Pairs of names of curves that lie on one another.
OVERLAPS = """
[...document.querySelectorAll('.js-plotly-plot')].flatMap((plot) => {
  const boxes = [...plot.querySelectorAll('.annotation-text-g, .xtick, .ytick')].map((one) => [one.textContent, one.getBoundingClientRect()]);
  return boxes.flatMap(([text, one], at) => boxes.slice(at + 1).filter(([, other]) => one.left < other.right - 1
    && other.left < one.right - 1 && one.top < other.bottom - 2 && other.top < one.bottom - 2).map(([other]) => `${text} and ${other}`));
})
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page of each kind: of the site, of a session, and of what compares sessions."""
    out = tmp_path_factory.mktemp("pages") / "demo"
    demo.make(out)
    store = Store(out / "dataset")
    first, *_, last = [row["session"] for row in store.session_rows(store.systems[0])]
    acceptance.write(accept.decide(store, first, last), out / "accept")
    kinds = ("*/index.html", "*/metrics/*.html", "*/cases/*.html", "*/nodes/index.html")
    found = [sorted(out.glob(f"site/{kind}"))[0] for kind in kinds]
    found += [sorted(out.glob("site/*/nodes/*.html"))[0], *sorted(out.glob("site/*/nights/*"))[-2:]]
    alone = (demo.SITE, demo.REPORT, demo.COMPARISON, demo.MAP, f"accept/{acceptance.PAGE}")
    return [*found, *(out / name for name in alone)]


def show(browser, path, width=1280, dark=False):
    ready = path.name != acceptance.PAGE
    browser.open(path.as_uri(), width=width, dark=dark, ready=ready)


def test_axe_finds_nothing(browser, pages):
    tarball = max(sources_folder().glob("axe-core-*.tgz"), default=None)
    if tarball is None:
        pytest.skip(f"[sources] no axe-core-*.tgz in {sources_folder()} (npm pack axe-core, there)")
    with tarfile.open(tarball) as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        axe = script.read().decode()
    found = {}
    for path in pages:
        for window in WINDOWS:
            show(browser, path, *window)
            browser.evaluate(UNFOLDED)
            browser.evaluate(f"{axe}; undefined")
            if violations := browser.evaluate(VIOLATIONS):
                found[(path.name, *window)] = violations
    assert found == {}


def test_a_keyboard_reaches_and_opens_everything(browser, pages):
    focused = "document.activeElement"
    for path in pages:
        show(browser, path)
        assert browser.evaluate(UNREACHED) == [], path
        fold = browser.evaluate("document.querySelectorAll('summary').length > 0")
        for _ in range(3):
            browser.press("Tab")
            outline = f"{focused} === document.body || getComputedStyle({focused}).outlineStyle"
            assert browser.evaluate(outline) != "none", path
        if fold:
            browser.evaluate("document.querySelector('summary').focus()")
            before = browser.evaluate(f"{focused}.parentElement.open")
            browser.press("Enter")
            assert browser.evaluate(f"{focused}.parentElement.open") is not before, path


def test_a_page_without_its_script_says_what_is_missing(browser, pages):
    drawn = ["data-figure" in (text := path.read_text()) or "data-curve" in text for path in pages]
    assert sum(drawn) > 5
    with browser.without_script():
        for path, draws in zip(pages, drawn, strict=True):
            browser.open(path.as_uri(), ready=False)
            said = "document.body.innerText.includes('need a script')"
            assert not draws or browser.evaluate(said), path


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_cut_off_on_paper_or_dark(browser, pages, dark):
    for path in pages:
        show(browser, path, PAPER, dark)
        browser.evaluate("dispatchEvent(new Event('beforeprint'))")
        with browser.on_paper(dark):
            assert browser.evaluate(CUT_OFF) == [], path
            paper = browser.evaluate("getComputedStyle(document.body).backgroundColor")
            assert paper == "rgb(255, 255, 255)", path


@pytest.mark.parametrize("width", [1280, 390])
def test_names_of_curves_and_axes_do_not_overlap(browser, pages, width):
    for path in pages:
        show(browser, path, width)
        if path.name == Path(demo.REPORT).name:
            browser.show_curves()
        assert browser.evaluate(OVERLAPS) == [], path
