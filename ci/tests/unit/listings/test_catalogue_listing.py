"""What `mpibench catalogue` prints: a table of contents, a screen for each suite, and where a benchmark is."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mpibench.commands.listings import catalogue as listing
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import QUANTITIES, BadInput

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
    with pytest.raises(BadInput, match="there is no group, suite, benchmark or program"):
        shown(name)
