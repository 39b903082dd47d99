"""The site as a whole: which pages there are, what they say, what a further night writes, and what is never written."""

from __future__ import annotations

import json
import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from mpibench.pages import site as building
from mpibench.pages.site import SiteWriter, references_title
from mpibench.store import records
from mpibench.store.store import Store
from page_reader import Reader
from reframe_tests.harness.samples import NO_REFERENCE, PASS
from refusals import refused_as
from site_nights import GAPS, NIGHTS, RED, SLOWER_FROM, TWICE, write_night, write_nights
from synthetic_report import HOSTILE
from synthetic_verdicts import FIRST, write_session

NOW = FIRST + timedelta(days=NIGHTS - 1, hours=12)


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, str]]:
    top = tmp_path_factory.mktemp("year")
    ids = write_nights(top / "dataset")
    Store(top / "dataset").withdraw(ids[25], "maintenance of the switches")
    building.build(Store(top / "dataset"), top / "site", now=NOW)
    return top, ids


def night_page(top: Path, session: str) -> Path:
    (found,) = top.glob(f"site/*/nights/*-{building.digest(session)}.html")
    return found


def links(path: Path) -> list[str]:
    return [one["href"] or "" for one in Reader(path.read_text()).named("a")]


def test_a_metric_without_reference_is_not_counted_as_one() -> None:
    held, without = {"outcome": PASS}, {"outcome": NO_REFERENCE}
    assert references_title([held]) == "1 reference"
    assert references_title([held, held, without]) == "2 references, 1 metric without"
    assert references_title([without] * 15) == "0 references, 15 metrics without"


def test_every_link_between_pages_leads_somewhere(year: tuple[Path, dict[int, str]]) -> None:
    pages = sorted((year[0] / "site").rglob("*.html"))
    assert len(pages) > 2 * (NIGHTS - len(GAPS))
    ids = {page: {value["id"] for _, value in Reader(page.read_text()).tags if value.get("id")} for page in pages}
    dead = set()
    for page in pages:
        reader = Reader(page.read_text())
        wanted = [value for _, value in reader.tags if value.get("href") or value.get("src")]
        for value in wanted:
            target, _, place = (value.get("href") or value.get("src") or "").partition("#")
            if target.startswith("data:"):
                continue
            path = (page.parent / target).resolve() if target else page
            if not path.exists() or (place and place not in ids.get(path, {place})):
                dead.add(f"{page.name}: {target}#{place}")
    assert dead == set()


def test_the_first_screen_says_the_verdict_and_what_is_worse_since_when(year: tuple[Path, dict[int, str]]) -> None:
    text = Reader((year[0] / "site" / "index.html").read_text())
    said = " ".join(" ".join(text.text.values()).split())
    red, slower = (FIRST + timedelta(days=day) for day in (RED, SLOWER_FROM))
    assert f"{red.day} {red:%b %Y}, red: 1 of " in said and "asked for eth1g, 2.1 GB went over lo" in said
    assert f"since {red.day} {red:%b %Y}: ImbPointToPoint: p2p of openmpi-spack on eth1g" in said
    assert f"since {slower.day} {slower:%b %Y}:" in said and "Uniband" in said
    assert "% of the line rate, 1250 MB/s" in said and "reference: at least 900 MB/s" in said
    assert "PingPong latency, 8 B" in said
    assert text.tags[1][1].get("data-built") or any(one.get("data-built") for one in text.named("html"))


def test_what_changed_most_comes_first_and_a_terminal_is_told_the_key_figures(year: tuple[Path, dict[int, str]]) -> None:
    built = building.build(Store(year[0] / "dataset"), year[0] / "site", now=NOW)
    [(latency, bandwidth)] = built.figures.values()
    assert latency.startswith("eth1g on node: PingPong latency, 8 B: ") and "no reference; as usual" in latency
    assert (
        bandwidth.startswith("eth1g on node: Uniband, 4 MiB: 9")
        and " % of the line rate, 1250 MB/s; reference at least" in bandwidth
    )
    assert " % worse than usual" in bandwidth and "as a week before" in bandwidth
    (page,) = year[0].glob("site/testbed-*/index.html")
    rows = re.findall(r"<tr><td class=\"when\">(.*?) .*?>([^<>]+), (?:8 B|4 MiB)</a>", page.read_text())
    assert [metric for _, metric in rows] == ["Uniband: bandwidth", "PingPong: latency"]


def test_the_calendar_is_green_for_nothing_that_was_not_measured(year: tuple[Path, dict[int, str]]) -> None:
    (page,) = (year[0] / "site").glob("*/index.html")
    cells = re.findall(r'<td class="day (\w+)"[^>]*>(?:<a[^>]*aria-label="([^"]*)")?', page.read_text())
    counted = {name: sum(state == name for state, _ in cells) for name in ("green", "red", "none", "withdrawn")}
    assert counted["none"] == len(GAPS) and counted["withdrawn"] == 1 and counted["red"] >= 1
    # From the change on, which lasts and nobody accepted, no night is green.
    assert counted["red"] == NIGHTS - SLOWER_FROM and counted["green"] == SLOWER_FROM - len(GAPS) - 1
    twice = FIRST + timedelta(days=TWICE)
    assert any(f"{twice.day} {twice:%b %Y}" in said and "(2 sessions)" in said for _, said in cells)


def test_the_red_night_names_case_output_and_what_changed(year: tuple[Path, dict[int, str]]) -> None:
    top, ids = year
    page = night_page(top, ids[RED])
    text = " ".join(" ".join(Reader(page.read_text()).text.values()).split())
    assert "asked for eth1g, 2.1 GB went over lo" in text and "1 skipped: no cores left" in text
    assert text.index("no cores left") > text.index("Key figures"), "what was skipped comes last"
    proof = page.with_name(f"{page.stem}-proof.html").read_text()
    assert "libfabric: no such device: eth1" in proof and "&lt;b&gt;not markup&lt;/b&gt;" in proof
    assert any(link.endswith("/jobs/43/rfm_job.out") for link in links(page.with_name(f"{page.stem}-proof.html")))
    slower = " ".join(Reader(night_page(top, ids[SLOWER_FROM]).read_text()).text.values())
    assert "kernel release" in slower and "6.1.0-21" in slower and "Uniband" in slower


def test_a_withdrawn_session_is_shown_and_no_part_of_the_curves(year: tuple[Path, dict[int, str]]) -> None:
    top, ids = year
    page = night_page(top, ids[25])
    assert "maintenance of the switches" in page.read_text()
    assert all(page.stem not in one.read_text() for one in top.glob("site/*/metrics/data/*.2026-*.js"))
    (changes,) = top.glob("site/*/metrics/data/changes.js")
    assert "maintenance of the switches" in changes.read_text()


def test_values_of_a_family_have_bounds_and_line_rate(year: tuple[Path, dict[int, str]]) -> None:
    files = sorted(year[0].glob("site/*/metrics/data/uniband-*.2026-01.js"))
    text = files[0].read_text()
    found = re.fullmatch(r"mpibenchValues\((\{.*?\}),(\{.*\})\);\n", text)
    assert found
    header, values = (json.loads(part) for part in found.groups())
    assert len(header["days"]) == len(header["pages"])
    steps = [step for _, _, _, steps in values.values() for step in steps]
    assert [0, 900.0, None, 1250.0] in steps
    median, low, high, _ = next(iter(values.values()))
    assert all(a <= b <= c for a, b, c in zip(low, median, high, strict=True) if b is not None)


def test_a_further_night_writes_only_what_is_new(tmp_path: Path) -> None:
    write_nights(tmp_path / "dataset", 16)
    first = building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=FIRST + timedelta(days=15, hours=9))
    again = building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=FIRST + timedelta(days=15, hours=9))
    assert again.written == 0 and again.unchanged == first.written
    old = {path: path.stat().st_mtime_ns for path in (tmp_path / "site").rglob("*") if path.is_file()}
    write_night(tmp_path / "dataset", 16)
    building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=FIRST + timedelta(days=16, hours=9))
    changed = {path.parent.name for path, when in old.items() if path.stat().st_mtime_ns != when}
    assert "nights" not in changed and "assets" not in changed
    assert {"site", "metrics", "data", "cases"} <= changed


def test_what_is_withdrawn_later_changes_its_pages(tmp_path: Path) -> None:
    ids = write_nights(tmp_path / "dataset", 9)
    building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=NOW)
    Store(tmp_path / "dataset").withdraw(ids[3], "wrong cable")
    building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=NOW)
    page = night_page(tmp_path, ids[3])
    assert "wrong cable" in page.read_text()
    assert all(page.stem not in one.read_text() for one in tmp_path.glob("site/*/metrics/data/*.2026-*.js"))


def test_pages_of_sessions_that_are_gone_go_and_nothing_else(tmp_path: Path) -> None:
    ids = write_nights(tmp_path / "dataset", 3)
    building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=NOW)
    page = night_page(tmp_path, ids[1])
    kept = tmp_path / "site" / "CNAME"
    kept.write_text("of the centre")
    for path in (tmp_path / "dataset").rglob(f"{ids[1]}*"):
        path.unlink()
    building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=NOW)
    assert not page.exists() and kept.read_text() == "of the centre"


def test_hostile_names_become_text_and_plain_file_names(tmp_path: Path) -> None:
    shared = {"fabric": HOSTILE, "partition": HOSTILE, "nodelist": HOSTILE, "outputdir": "/jobs/" + HOSTILE.replace("/", "")}
    failed = {**shared, "pinning": HOSTILE, "result": "fail", "evidence": "missing", "reason": HOSTILE, "sentences": [HOSTILE]}
    for number in range(8):
        write_session(
            tmp_path / "dataset",
            number,
            stacks=(HOSTILE,),
            benchmarks={HOSTILE: "bandwidth_mb_per_s"},
            sizes=(8, 4194304),
            labels={"run": HOSTILE},
            mpi_version=f"{HOSTILE}{number}",
            condition={HOSTILE: HOSTILE, "machine": {HOSTILE: [f"{HOSTILE}{number}"]}},
            where=[{**shared, "name": HOSTILE, "group": HOSTILE}, {**failed, "name": HOSTILE}],
        )
    session = write_session(tmp_path / "dataset", 8, labels={"run": HOSTILE})
    Store(tmp_path / "dataset").withdraw(session, HOSTILE)
    records.answer(tmp_path / "dataset", None, records.NIGHT, HOSTILE, [HOSTILE], [HOSTILE])
    building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=NOW)
    files = [path.relative_to(tmp_path / "site") for path in (tmp_path / "site").rglob("*") if path.is_file()]
    assert all(re.fullmatch(r"[a-z0-9.\-/]+", str(path)) and len(path.name) < 120 for path in files)
    for path in (tmp_path / "site").rglob("*.html"):
        text = path.read_text()
        assert "<script>hacked" not in text and "<img src=x" not in text
        assert "default-src 'none'" in text
        scripts = [one for one in Reader(text).named("script") if one.get("type") != "application/json"]
        assert scripts and all(one.get("src") and one.get("nonce") for one in scripts)
    assert all("</script" not in path.read_text() for path in (tmp_path / "site").rglob("data/*.js"))


def test_nonces_differ_from_page_to_page_and_stay_with_it(tmp_path: Path) -> None:
    write_nights(tmp_path / "dataset", 2)
    found = []
    for _ in range(2):
        building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=NOW)
        pages = sorted((tmp_path / "site").rglob("*.html"))
        found.append([re.findall(r"'nonce-(\w+)'", page.read_text())[0] for page in pages])
    assert found[0] == found[1] and len(set(found[0])) == len(found[0])


def test_two_systems_a_renamed_one_and_other_labels(tmp_path: Path) -> None:
    for number in range(3):
        write_session(tmp_path / "dataset", number, system="former-name", labels={"run": "nightly"})
        write_session(tmp_path / "dataset", 200 + number, system="new-name", labels={"run": "nightly"})
    write_session(tmp_path / "dataset", 300, system="new-name", labels={"run": "smoke"})
    now = FIRST + timedelta(days=203)
    building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=now)
    text = (tmp_path / "site" / "index.html").read_text()
    assert text.index("new-name") < text.index("former-name"), "the one that is measured comes first"
    assert "new-name, smoke" in text
    assert "Not measured since 7 Jan 2026, 201 days ago" in text and 'class="badge none"' in text
    (old,) = (tmp_path / "site").glob("former-name-*/index.html")
    cells = re.findall(r'<td class="day (\w+)"', old.read_text())
    assert cells.count("none") >= 190 and "green" not in cells


def test_a_night_without_a_session_is_a_red_day(tmp_path: Path) -> None:
    write_nights(tmp_path / "dataset", 3)
    when = FIRST + timedelta(days=4)
    records.answer(tmp_path / "dataset", None, records.NIGHT, "nightly", ["no session: ReFrame selected no case"], now=when)
    building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=when)
    (page,) = (tmp_path / "site").glob("testbed-*/index.html")
    assert "A night stored no session: no session: ReFrame selected no case" in page.read_text()
    cells = re.findall(r'<td class="day (\w+)"', page.read_text())
    assert cells.count("red") == 1 and cells.count("none") == 1


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    with refused_as("no-dataset", match="there is no dataset in"):
        building.build(Store(tmp_path / "none"), tmp_path / "site")
    write_nights(tmp_path / "dataset", 1)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with refused_as("not-a-site-folder"):
        building.build(Store(tmp_path / "dataset"), tmp_path / "mine")
    (tmp_path / "file").write_text("x")
    with refused_as("cannot-write"):
        building.build(Store(tmp_path / "dataset"), tmp_path / "file" / "site")


def test_what_another_program_kept_is_not_trusted(tmp_path: Path) -> None:
    write_nights(tmp_path / "dataset", 2)
    first = building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=NOW)
    for text in ("", "[]", '{"files": 1, "program": 2}'):
        (tmp_path / ".site-kept" / "manifest.json").write_text(text)
        assert building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=NOW).written == first.written
    shutil.rmtree(tmp_path / ".site-kept")
    assert building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=NOW).written == first.written


def test_the_headline_is_the_last_whole_night_and_names_what_was_measured_in_part_since(tmp_path: Path) -> None:
    """A case that somebody measured again turns no red night, and makes no old one young."""
    for number in range(RED - 3, RED + 1):
        write_night(tmp_path / "dataset", number)
    part = {"started": FIRST + timedelta(days=RED, hours=5), "command_line": "reframe -c reframe_tests -r -n ImbPointToPoint"}
    write_night(tmp_path / "dataset", 2000, **part)
    building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=FIRST + timedelta(days=RED, hours=9))
    page = (tmp_path / "site" / "index.html").read_text()
    assert 'class="verdict red"' in page and "went over lo" in page
    assert "In part since, " in page and page.index("went over lo") < page.index("In part since, ")
    building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=FIRST + timedelta(days=RED, hours=40))
    assert "Not measured whole since" in (tmp_path / "site" / "index.html").read_text()


def test_that_the_machine_was_busy_is_said_where_the_numbers_are(tmp_path: Path) -> None:
    for number in range(3):
        write_night(tmp_path / "dataset", number, condition={"lost_cores": True})
    building.build(Store(tmp_path / "dataset"), tmp_path / "site", now=FIRST + timedelta(days=2, hours=9))
    assert (
        "In 2 of 2 cases ranks often lost their core to other programs: the machine was busy"
        in (tmp_path / "site" / "index.html").read_text()
    )


def test_after_a_build_that_was_killed_half_way_no_page_of_before_stays(tmp_path: Path) -> None:
    def pages(*names: str) -> SiteWriter:
        writer = SiteWriter(tmp_path / "site", tmp_path / "kept", "program")
        for name in names:
            writer.put(name, "content", lambda: "page")
        return writer

    pages("a.html", "b.html").finish()
    killed = pages("a.html")
    del killed  # its lock goes with it, and nothing says that it ended
    pages("a.html").finish()
    assert sorted(path.name for path in (tmp_path / "site").glob("*.html")) == ["a.html"]
