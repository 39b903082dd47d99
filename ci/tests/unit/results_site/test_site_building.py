"""The site as a whole: which pages there are, what they say, what a
further night writes, and what is never written.
"""

import re
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from mpibench.store import records
from mpibench.store.store import Store
from mpibench_site import site as building
from mpibench_site.site import SiteWriter
from page_reader import Reader
from synthetic_fabric import export_map, pair_map
from synthetic_session import HOSTILE
from synthetic_verdicts import (
    FIRST,
    GAPS,
    NIGHTS,
    RED,
    SLOWER_FROM,
    TWICE,
    write_night,
    write_nights,
    write_session,
)

NOW = FIRST + timedelta(days=NIGHTS - 1, hours=12)


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    top = tmp_path_factory.mktemp("year")
    ids = write_nights(top / "dataset")
    Store(top / "dataset").withdraw(ids[25], "maintenance of the switches")
    when = FIRST + timedelta(days=GAPS[0])
    records.answer(top / "dataset", None, records.NIGHT, "nightly", ["no session"], now=when)
    return top, build(top)


def build(top, now=NOW):
    return building.build(Store(top / "dataset"), top / "site", now=now)


def date(number):
    day = FIRST + timedelta(days=number)
    return f"{day.day} {day:%b %Y}"


def test_every_link_between_pages_leads_somewhere(year):
    read = {page: Reader(page.read_text()) for page in (year[0] / "site").rglob("*.html")}
    assert len(read) > 2 * (NIGHTS - len(GAPS))
    ids = {page: {one[1].get("id") for one in reader.tags} for page, reader in read.items()}
    dead = set()
    for page, reader in read.items():
        links = {one.get("href") or one.get("src") or "data:" for _, one in reader.tags}
        for link in links:
            target, _, place = link.partition("#")
            path = (page.parent / target).resolve() if target else page
            missing = place and place not in ids.get(path, {place})
            if not target.startswith("data:") and (missing or not path.exists()):
                dead.add(f"{page.name}: {link}")
    assert dead == set()


def test_the_first_screen_says_the_verdict_and_what_is_worse_since_when(year):
    page = Reader((year[0] / "site" / "index.html").read_text())
    said = " ".join(" ".join(page.text.values()).split())
    for words in (
        f"{date(RED)}, red: 1 of ",
        "asked for eth1g, 2.1 GB went over lo",
        f"since {date(RED)}: ImbPointToPoint: p2p of openmpi-spack on eth1g",
        f"since {date(SLOWER_FROM)}:",
        "% of the line rate, 1250 MB/s",
        "reference: at least 900 MB/s",
    ):
        assert words in said


def test_what_changed_most_comes_first_and_a_terminal_is_told_the_key_figures(year):
    [(latency, bandwidth)] = year[1].figures.values()
    assert latency.startswith("eth1g on node: PingPong latency, 8 B: ") and "as usual" in latency
    assert " % of the line rate, 1250 MB/s; reference at least" in bandwidth
    assert " % worse than usual" in bandwidth and "as a week before" in bandwidth
    (page,) = year[0].glob("site/testbed-*/index.html")
    rows = re.findall(r"<tr><td class=\"when\">.*?>([^<>]+), (?:8 B|4 MiB)</a>", page.read_text())
    assert rows == ["Uniband: bandwidth", "PingPong: latency"]
    pages = [*year[0].glob("site/testbed-*/metrics/*.html")]
    assert {("latency" in page.name, "lower is better" in page.read_text()) for page in pages} == {
        (True, True),
        (False, False),
    }


def test_the_calendar_is_green_for_nothing_that_was_not_measured(year):
    """From the change on, which lasts and nobody accepted, no night is green; one without a
    session is a red day.
    """
    (page,) = (year[0] / "site").glob("*/index.html")
    text = page.read_text()
    cells = re.findall(r'<td class="day (\w+)"[^>]*>(?:<a[^>]*aria-label="([^"]*)")?', text)
    counted = Counter(state for state, _ in cells)
    assert (counted["none"], counted["withdrawn"]) == (len(GAPS) - 1, 1)
    assert counted["red"] == NIGHTS - SLOWER_FROM + 1
    assert counted["green"] == SLOWER_FROM - len(GAPS) - 1
    assert any(date(TWICE) in said and "(2 sessions)" in said for _, said in cells)


def test_hostile_names_become_text_and_plain_file_names(tmp_path):
    """And nonces differ from page to page, and stay with it."""
    names = ("fabric", "partition", "nodelist", "name", "group", "pinning", "reason")
    failed = {**dict.fromkeys(names, HOSTILE), "outputdir": "/jobs/" + HOSTILE.replace("/", "")}
    failed |= {"result": "fail", "evidence": "missing", "sentences": [HOSTILE]}
    for number in range(8):
        write_session(
            tmp_path / "dataset",
            number,
            stacks=(HOSTILE,),
            benchmarks={HOSTILE: "bandwidth_mb_per_s"},
            labels={"run": HOSTILE},
            mpi_version=f"{HOSTILE}{number}",
            condition={HOSTILE: HOSTILE, "machine": {HOSTILE: [f"{HOSTILE}{number}"]}},
            where=[{"fabric": HOSTILE, "partition": HOSTILE, "name": HOSTILE}, failed],
        )
    between = pair_map(4)
    nodes = (HOSTILE, *between.nodes[1:])
    names_of = dict(zip(between.nodes, nodes, strict=True))
    values = tuple(
        one._replace(source=names_of[one.source], target=names_of[one.target])
        for one in between.rows()
    )
    export_map(tmp_path / "dataset", 0, replace(between, nodes=nodes, values=values))
    session = write_session(tmp_path / "dataset", 8, labels={"run": HOSTILE})
    Store(tmp_path / "dataset").withdraw(session, HOSTILE)
    records.answer(tmp_path / "dataset", None, records.NIGHT, HOSTILE, [HOSTILE], [HOSTILE])
    found = []
    for _ in range(2):
        build(tmp_path)
        pages = sorted((tmp_path / "site").rglob("*.html"))
        found.append([re.findall(r"'nonce-(\w+)'", page.read_text())[0] for page in pages])
    assert found[0] == found[1] and len(set(found[0])) == len(pages)
    [behind] = (tmp_path / "site").glob("*/nodes/index.html")
    assert HOSTILE in "".join(Reader(behind.read_text()).text.values())
    files = [path for path in (tmp_path / "site").rglob("*") if path.is_file()]
    for path in files:
        name = str(path.relative_to(tmp_path / "site"))
        assert re.fullmatch(r"[a-z0-9.\-/]+", name) and len(path.name) < 120
        assert path.parent.name != "data" or "</script" not in path.read_text()
    for page in pages:
        text = page.read_text()
        assert "<script>hacked" not in text and "<img src=x" not in text
        assert "default-src 'none'" in text
        scripts = Reader(text).named("script")
        run = [one for one in scripts if one.get("type") != "application/json"]
        assert run and all(one.get("src") and one.get("nonce") for one in run)


def test_two_systems_a_renamed_one_and_other_labels(tmp_path):
    """The one that is measured comes first."""
    for number in range(3):
        for first, system in ((0, "former-name"), (200, "new-name")):
            labels = {"run": "nightly"}
            write_session(tmp_path / "dataset", first + number, system=system, labels=labels)
    write_session(tmp_path / "dataset", 300, system="new-name", labels={"run": "smoke"})
    build(tmp_path, FIRST + timedelta(days=203))
    text = (tmp_path / "site" / "index.html").read_text()
    assert text.index("new-name") < text.index("former-name") and "new-name, smoke" in text
    assert "Not measured since 7 Jan 2026, 201 days ago" in text and 'class="badge none"' in text
    (old,) = (tmp_path / "site").glob("former-name-*/index.html")
    cells = re.findall(r'<td class="day (\w+)"', old.read_text())
    assert cells.count("none") >= 190 and "green" not in cells


def test_the_headline_is_the_last_whole_night_and_names_what_was_measured_in_part_since(
    tmp_path,
):
    """A case that somebody measured again turns no red night, and makes no old one young."""
    for number in range(RED - 3, RED + 1):
        write_night(tmp_path / "dataset", number)
    red = FIRST + timedelta(days=RED)
    words = "reframe -c reframe_tests -r -n ImbPointToPoint"
    later = red + timedelta(hours=5)
    write_night(tmp_path / "dataset", 2000, started=later, command_line=words)
    page = tmp_path / "site" / "index.html"
    build(tmp_path, red + timedelta(hours=9))
    text = page.read_text()
    assert 'class="verdict red"' in text
    headline, since = text.index(" cases failed"), text.index("In part since, ")
    assert 0 < headline < since < text.index("went over lo"), "what is wrong is folded below"
    build(tmp_path, red + timedelta(hours=40))
    assert "Not measured whole since" in page.read_text()


def test_after_a_build_that_was_killed_half_way_no_page_of_before_stays(tmp_path):
    def pages(*names):
        writer = SiteWriter(tmp_path / "site", tmp_path / "kept", "program")
        for name in names:
            writer.put(name, "content", lambda: "page")
        return writer

    pages("a.html", "b.html").finish()
    killed = pages("a.html")
    del killed  # its lock goes with it, and nothing says that it ended
    pages("a.html").finish()
    assert sorted(path.name for path in (tmp_path / "site").glob("*.html")) == ["a.html"]
