"""What `mpibench catalogue` prints, and the pages of the documentation that are generated: current and whole."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest
from rich.console import Console

from mpibench.commands.listings import catalogue as listing
from mpibench.commands.listings import coverage
from mpibench.store import dataset_layout
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.model import Suite
from reframe_tests.harness.vocabulary import QUANTITIES, ROOT
from refusals import refused_as
from studies import reference_pages

#: Lines of a terminal of 80 columns that count as one screen.
SCREEN = 50


def shown(name: str | None = None, *, tests: bool = False, width: int = 80) -> str:
    out = io.StringIO()
    listing.show(name, Console(file=out, width=width), tests_of_groups=tests)
    return out.getvalue()


def test_the_contents_are_one_screen_and_name_every_group() -> None:
    text = shown(width=100)
    assert len(text.splitlines()) <= 24
    words = {word.strip(",.") for word in text.split()}
    assert [name for name in catalogue.GROUPS if name not in words] == []
    assert f"({listing.NOT_RUN})" not in " ".join(text.split())


def test_a_test_is_named_for_every_group() -> None:
    text = shown(tests=True)
    assert [name for name in catalogue.GROUPS if f"  {name} " not in text] == []
    assert listing.NOT_RUN not in [word for line in text.splitlines() for word in line.split("  ")]


def test_a_group_that_no_test_names_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "tests_by_group", lambda folders: {"p2p": "Pairs"})
    assert " ".join(shown().split()).count(f"({listing.NOT_RUN})") == len(catalogue.GROUPS) - 1
    lines = [line.split("  ") for line in shown(tests=True).splitlines()]
    assert sum(listing.NOT_RUN in [word.strip() for word in line] for line in lines) == len(catalogue.GROUPS) - 1


@pytest.mark.parametrize("suite", [name for name, suite in catalogue.SUITES.items() if suite.groups])
def test_a_suite_fits_a_screen_and_names_all_its_benchmarks(suite: str) -> None:
    text = shown(suite)
    assert len(text.splitlines()) <= SCREEN
    words = {word.strip(",. ") for word in text.split()}
    rows = [row for group in catalogue.SUITES[suite].groups for row in catalogue.rows(group)]
    assert rows and [row.name for row in rows if row.name not in words] == []


@pytest.mark.parametrize("suite", [name for name, suite in catalogue.SUITES.items() if suite.pairs])
def test_a_suite_without_mpi_is_shown_under_its_name(suite: str) -> None:
    (pair,) = catalogue.SUITES[suite].pairs
    assert shown(suite).startswith(f"{pair.name}: ") and list(listing.as_data(suite)) == [pair.name]
    assert listing.as_data(suite)[pair.name]["suite"] == suite
    assert [pair.name] in listing.groups_by_suite().values()


@pytest.mark.parametrize("group", catalogue.GROUPS)
def test_a_group_shows_each_benchmark_once_with_its_units_and_sizes(group: str) -> None:
    words = [word.strip(",:; ") for word in shown(group).split()]
    for row in catalogue.rows(group):
        assert row.name in words, "no name is folded"
        assert {str(size) for sizes in row.gated_sizes.values() for size in sizes if size is not None} <= set(words)
        assert {f"[{QUANTITIES[name].unit}]" for name in row.quantities} <= set(words)


def test_rows_that_are_alike_are_listed_together_and_what_all_share_once() -> None:
    lines = shown("transfer").splitlines()
    assert "  Sendrecv, Exchange" in [line.rstrip() for line in lines] and "  Uniband, Biband" in [
        line.rstrip() for line in lines
    ]
    assert [line.strip() for line in lines].count("program: IMB-MPI1") == 1


def test_a_benchmark_is_found_in_all_suites_whatever_its_letters() -> None:
    text = shown("ALLREDUCE")
    assert "collectives: " in text and "growth: " in text and "Bcast," not in text
    assert "collectives_osu: " in shown("osu_allreduce") and "PingPong, PingPing" in shown("IMB-MPI1")


@pytest.mark.parametrize("name", ["nosuch", "", "[bold]", "p2p "])
def test_another_name_is_refused(name: str) -> None:
    with refused_as("catalogue-name-unknown"):
        shown(name)


# ---- What is offered by releases of the suites is measured by a test or left out for a reason, and the page says so ----

FOLDERS = (ROOT / "reframe_tests",)
OFFERING = [suite for suite in catalogue.SUITES.values() if suite.offer]


def test_the_page_is_that_of_the_records():
    """``mpibench catalogue --coverage > docs/reference/coverage.md`` after a change of rows, plans or tests."""
    assert coverage.PAGE.read_text() == coverage.page()


def test_both_suites_say_what_they_offer():
    assert {suite.name: suite.offer.version for suite in OFFERING} == {"imb": "2021.11", "osu": "7.5"}
    counts = {suite.name: sum(map(len, suite.offer.programs.values())) for suite in OFFERING}
    assert counts == {"imb": 157, "osu": 78}


@pytest.mark.parametrize("suite", OFFERING, ids=lambda suite: suite.name)
def test_everything_offered_is_measured_or_left_out(suite: Suite):
    tests = coverage.tests_by_group(FOLDERS)
    assert coverage.uncovered(suite.offer, tests) == []
    both = set(suite.offer.programs) & {name for names in suite.offer.left_out.values() for name in names}
    assert not both


@pytest.mark.parametrize("suite", OFFERING, ids=lambda suite: suite.name)
def test_every_row_is_planned(suite: Suite):
    """That rows and programs of releases are the same, ``mpi/test_suite_releases_mpi.py`` asks of builds."""
    planned = {(plan.binary, name) for group in suite.groups.values() for plan in group.plans for name in plan.benchmarks}
    assert {(row.binary, row.name) for row in suite.rows} == planned


def test_what_no_test_measures_is_named():
    offer = catalogue.SUITES["imb"].offer
    more = replace(offer, programs={**offer.programs, "IMB-MPI5": ("Teleport",)})
    tests = coverage.tests_by_group(FOLDERS)
    assert coverage.uncovered(more, tests) == ["IMB-MPI5 Teleport"]
    without = {group: test for group, test in tests.items() if group != "p2p"}
    assert coverage.uncovered(offer, without) == ["IMB-MPI1 PingPong", "IMB-MPI1 PingPing"]


def test_groups_are_read_from_classes_without_running_them(tmp_path):
    (tmp_path / "one.py").write_text("raise SystemExit\n\nclass Mine:\n    group = 'p2p'\n")
    (tmp_path / "two.py").write_text("this is no Python\n")
    assert coverage.tests_by_group([tmp_path, tmp_path / "absent"]) == {"p2p": "Mine"}


# ---- The generated pages of the documentation are current and whole ----


@pytest.mark.parametrize("name", reference_pages.PAGES)
def test_the_generated_pages_are_current(name: str) -> None:
    """If this fails after a change: cd ci && python -m studies.reference_pages."""
    text = reference_pages.PAGES[name]()
    assert (reference_pages.FOLDER / f"{name}.md").read_text() == text and str(ROOT) not in text


def test_every_property_of_every_schema_is_on_the_page() -> None:
    page = reference_pages.files()
    for folder in reference_pages.SCHEMA_FOLDERS:
        for path in (ROOT / folder).rglob("*.schema.json"):
            [section] = re.findall(rf"(?ms)^Schema: `{re.escape(str(path.relative_to(ROOT)))}`\n(.*?)(?=^## |\Z)", page)
            for name in json.loads(path.read_text()).get("properties", {}):
                assert f"`{name}`" in section, (path.name, name)


def test_every_column_and_benchmark_is_on_its_page() -> None:
    page = reference_pages.dataset()
    for table, schema in dataset_layout.SCHEMAS.items():
        section = page.partition(f"## {table}\n")[2].partition("\n## ")[0]
        assert [name for name in schema if f"`{name}`" not in (page if name in dataset_layout.CASE_COLUMNS else section)] == []
    assert "in unit; null where this repeat gave none" in page.partition("## samples")[2].partition("\n## ")[0]
