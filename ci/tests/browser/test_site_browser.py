"""The site in a real browser, from a file share: from the first screen to
a job's output, at a desk's and a phone's width.
"""

from datetime import timedelta

import pytest

from mpibench.store.store import Store
from mpibench_site import site as building
from synthetic_fabric import MAPS_BEGAN, export_map, pair_map, sends_slowly
from synthetic_session import HOSTILE
from synthetic_verdicts import FIRST, NIGHTS, RED, SLOWER_FROM, write_nights, write_session

NOW = FIRST + timedelta(days=NIGHTS - 1, hours=12)
WIDTHS = {"desk": (1280, 900), "phone": (390, 844)}
#: Texts with less contrast than 4.5 to what is behind them (WCAG 2.2,
#: "relative luminance" and "contrast ratio").
CONTRAST = """
(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (text) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = (text) => { const [r, g, b] = rgb(text).map((one) => one / 255).map((one) =>
    one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (node) => { for (; node; node = node.parentElement) {
    const colour = getComputedStyle(node).backgroundColor; if (rgb(colour)[3] > 250) return colour; } return 'white'; };
  const bad = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest('.unseen, .skip, svg, .plot')) continue;
    const [one, other] = [light(getComputedStyle(node).color), light(behind(node))].sort((a, b) => b - a);
    if ((one + 0.05) / (other + 0.05) < 4.5) bad.push(`${node.tagName}.${node.className}: ${node.textContent.trim()}`);
  }
  return bad;
})()
"""
#: What a person without eyes or mouse would miss: names of links, buttons, pictures and fields, one
#: heading of the first level.
UNNAMED = """
(() => {
  const named = (node) => (node.getAttribute('aria-label') || node.textContent || '').trim();
  const markup = (list) => list.map((one) => one.outerHTML);
  const bad = markup([...document.querySelectorAll('a, button, [role=img], table.month td a')].filter((one) => !named(one)));
  bad.push(...markup([...document.querySelectorAll('select, input')].filter((one) => !one.closest('label'))));
  if (document.querySelectorAll('h1').length !== 1) bad.push(`${document.querySelectorAll('h1').length} h1`);
  if (!document.documentElement.lang || !document.title) bad.push('no language or title');
  const side = (box) => Math.min(box.width, box.height);
  const small = [...document.querySelectorAll('.month td a, .legend button, select')]
    .filter((one) => one.checkVisibility() && side(one.getBoundingClientRect()) < 24);
  bad.push(...small.map((one) => `small: ${one.outerHTML.slice(0, 80)}`));
  return bad;
})()
"""


@pytest.fixture(scope="module")
def top(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    ids = write_nights(folder / "dataset")
    Store(folder / "dataset").withdraw(ids[25], "maintenance of the switches")
    building.build(Store(folder / "dataset"), folder / "site", now=NOW)
    return folder


def follow(page, link, width):
    """Click a link, as a person does, and wait until its page is ready; its address."""
    href = page.evaluate(f"document.querySelector({link!r}).href")
    page.evaluate(f"document.querySelector({link!r}).click()")
    page.wait(
        f"location.href === {str(href)!r} && document.documentElement?.dataset.ready === 'yes'"
    )
    assert page.needed_width <= width, f"{href} is wider than the window"
    return str(href)


def walk(page, first, width, height):
    """Index, red night, metric over time, case, job output and proof."""
    page.open(first, width=width, height=height)
    assert "red: 1 of 2 cases failed" in page.text() and "went over lo" in page.text()
    day = FIRST + timedelta(days=RED)
    follow(page, f".month td.red a[aria-label*='{day.day} {day:%b %Y}']", width)
    assert "asked for eth1g, 2.1 GB went over lo" in page.text(".failures li")
    follow(page, ".failures li .links a[href*='uniband']", width)
    assert page.evaluate("document.getElementById('plot').data.length") >= 2
    assert "kernel release 6.1.0-18" in page.text("#changes")
    follow(page, "#cases a[href*='scatter']", width)
    assert "Fails since" in page.text(".verdict")
    href = follow(page, "#runs tbody a[href*='-proof.html#']", width=width)
    place = href.partition("#")[2]
    said = page.text(f"#{place}")
    assert "contradicted" in said and "# Uniband <b>not markup</b>" in said and "job" in said
    assert page.evaluate(
        f"document.getElementById({place!r}).getBoundingClientRect().top < innerHeight"
    )


@pytest.mark.parametrize("window", WIDTHS)
def test_from_the_first_screen_to_the_jobs_output(browser, top, window):
    walk(browser, (top / "site" / "index.html").as_uri(), *WIDTHS[window])
    assert browser.problems == []
    assert all(url.startswith("file:") for url in browser.requests)
    files = browser.evaluate(
        "[...document.querySelectorAll('.proof:target a[href$=\"rfm_job.out\"]')].map((one) => "
        "one.href)"
    )
    assert files == [(top / "jobs" / str(RED) / "rfm_job.out").as_uri()]


def pages_of(top):
    """A page of each kind."""
    site = top / "site"
    patterns = ("index.html", "*/index.html", "*/metrics/uniband*.html", "*/cases/*scatter*.html")
    there = site.glob(f"*/nights/{FIRST + timedelta(days=SLOWER_FROM):%Y-%m-%d}-*.html")
    night = next(page for page in there if not page.stem.endswith("-proof"))
    red = next(site.glob(f"*/nights/{FIRST + timedelta(days=RED):%Y-%m-%d}-*-proof.html"))
    return [
        *(next(site.glob(pattern)) for pattern in patterns),
        night,
        red,
        red.with_name(red.name.replace("-proof", "")),
    ]


@pytest.mark.parametrize("dark", [False, True])
def test_every_kind_of_page_can_be_read_by_everybody(browser, top, dark):
    for page in pages_of(top):
        for width, height in WIDTHS.values():
            browser.open(page.as_uri(), width=width, height=height, dark=dark)
            assert browser.evaluate(UNNAMED) == [], page
            assert browser.evaluate(CONTRAST) == [], page
            assert browser.needed_width <= width, page


def test_pages_of_nodes_can_be_read_by_everybody(browser, tmp_path):
    for number, times in enumerate((1.0, 2.0)):
        measured = pair_map(8, sends_slowly("c5", times), seed=number)
        export_map(tmp_path / "dataset", number, measured)
    now = MAPS_BEGAN + timedelta(days=3)
    building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=now)
    width = 390
    own, *_, index = sorted(tmp_path.glob("site/*/nodes/*.html"))
    for page in (own, index):
        browser.open(page.as_uri(), width=width)
        assert browser.evaluate(UNNAMED) == [] and browser.evaluate(CONTRAST) == [], page
        assert browser.needed_width <= width, page
    follow(browser, "table a[href^='c5']", width)
    assert browser.text("h1").startswith("c5")
    follow(browser, "table .when a", width)
    assert browser.problems == []


def test_chart_has_medians_intervals_bounds_line_rate_and_what_changed(browser, top):
    page = next((top / "site").glob("*/metrics/uniband*.html"))
    browser.open(page.as_uri())
    drawn = "document.getElementById('plot')"
    kinds = browser.evaluate(f"{drawn}.data.map((one) => one.name)")
    assert {"line rate", "changed that night", "withdrawn"} <= set(kinds)
    assert any("reference, at least" in name for name in kinds)
    rate = browser.evaluate(f"[...new Set({drawn}.data.find((one) => one.name === 'line rate').y)]")
    assert rate == [1250]
    measured = f"{drawn}.data.find((one) => one.error_y?.array?.length)"
    assert browser.evaluate(f"{measured}.error_y.array.every((one) => one >= 0)")
    changes = browser.evaluate(f"{drawn}.layout.shapes.map((one) => one.x0.slice(0, 10))")
    assert changes == [f"{FIRST + timedelta(days=SLOWER_FROM):%Y-%m-%d}"]
    before = browser.evaluate(f"{measured}.y[0]")
    browser.evaluate(
        "const s = document.getElementById('size'); s.value = '8'; s.dispatchEvent(new "
        "Event('change'))"
    )
    browser.wait(f"{measured}.y[0] !== {before}")


def test_hostile_names_run_nothing(browser, tmp_path):
    names = ("fabric", "partition", "nodelist", "name", "group")
    shared = dict.fromkeys(names, HOSTILE)
    failed = {**shared, "pinning": HOSTILE, "reason": HOSTILE, "sentences": [HOSTILE]}
    failed |= {"result": "fail", "evidence": "missing"}
    for number in range(8):
        write_session(
            tmp_path / "dataset",
            number,
            stacks=(HOSTILE,),
            benchmarks={HOSTILE: "bandwidth_mb_per_s"},
            labels={"run": HOSTILE},
            mpi_version=f"{HOSTILE}{number}",
            change=lambda *_, slow=number > 3: 1.2 if slow else 1.0,
            condition={HOSTILE: HOSTILE, "machine": {HOSTILE: [f"{HOSTILE}{number}"]}},
            where=[shared, failed],
        )
    building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=NOW)
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        browser.open(page.as_uri())
        assert browser.evaluate("typeof hacked") == "undefined"
        assert browser.problems == [], page
    assert all(url.startswith((tmp_path / "site").as_uri()) for url in browser.requests)
