"""Tests that were given another name: references, history and command lines of before go on as they were."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from mpibench.listings import doctor
from mpibench.results import dataset, selection_options
from reframe_tests.harness import former_names
from reframe_tests.harness.sites import reference_keys, references, site
from synthetic_report import session_of
from synthetic_session import case
from synthetic_verdicts import write_session

FORMER, NAME = "PointToPoint", "ImbPointToPoint"
METRIC = "PingPong.latency.0000000008"
ORIGIN = {"session": "4f2a", "date": "2026-11-02", "n": 25, "spread": 0.03}
PLACE = ("testbed:node", "openmpi-spack", "eth1g", 2, 1, "bunch")
write = partial(write_session, benchmarks={"PingPong": "latency_us", "PingPing": "bandwidth_mb_per_s"})


def nest(keys: tuple[Any, ...], leaf: Any) -> Any:
    for key in reversed(keys):
        leaf = {key: leaf}
    return leaf


def file_of(test: str, value: float = 5.0, origin: dict[str, Any] | None = None, metric: str = METRIC) -> dict[str, Any]:
    """A references.yaml of one entry."""
    entries = {"$index": list(references.INDEX), **nest(PLACE, {metric: [value, None, 0.1, "us"]})}
    return {test: entries, "provenance": {test: nest(PLACE, {metric: origin or ORIGIN})}}


def both(older: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
    """A file in which a test stands under both names."""
    return {**older, **newer, "provenance": {**older["provenance"], **newer["provenance"]}}


def write_references(root: Path, content: Any) -> Path:
    path = site.references_file("testbed", root)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def get(tree: Any, *keys: Any) -> Any:
    for key in keys:
        tree = tree[key]
    return tree


def test_every_name_of_the_table_is_a_test_and_no_former_one_is() -> None:
    there = reference_keys.tests()
    assert set(former_names.TESTS.values()) <= there.keys()
    assert not former_names.TESTS.keys() & there.keys()


# References


def test_references_under_a_former_name_hold(tmp_path: Path) -> None:
    path = write_references(tmp_path, file_of(FORMER))
    found = site.read_references("testbed", tmp_path)
    assert list(found) == [NAME, "provenance"]
    assert get(found, NAME, *PLACE, METRIC) == [5.0, None, 0.1, "us"]
    assert get(found, "provenance", NAME, *PLACE, METRIC) == ORIGIN
    assert references.stacks_of(found) == {"openmpi-spack": 1}
    findings = [finding.detail for finding in doctor.check_references("testbed", False, tmp_path)]
    assert f"{path}: '{FORMER}' is the former name of '{NAME}' and still read; rename it in the file" in findings


def test_reframe_is_given_todays_names(tmp_path: Path) -> None:
    assert site.references_for_reframe("testbed", tmp_path, tmp_path) is None
    path = write_references(tmp_path, file_of(FORMER))
    stage = tmp_path / "stage"
    stage.mkdir()
    copy = site.references_for_reframe("testbed", stage, tmp_path)
    assert copy is not None and copy.parent == stage
    assert get(yaml.safe_load(copy.read_text()), NAME, *PLACE, METRIC) == [5.0, None, 0.1, "us"]
    path.write_text(path.read_text().replace(FORMER, NAME))
    assert site.references_for_reframe("testbed", stage, tmp_path) == path, "as the site wrote it"


def test_a_test_under_both_names_is_one(tmp_path: Path) -> None:
    other = "PingPong.latency.0000000064"
    older = both(file_of(FORMER, metric=other), {"provenance": {}})
    later = {**ORIGIN, "date": "2026-11-20", "session": "77b0"}
    for content in (both(older, file_of(NAME)), both(file_of(NAME), older)):
        write_references(tmp_path, content)
        assert set(get(site.read_references("testbed", tmp_path), NAME, *PLACE)) == {METRIC, other}
    for content in (both(file_of(FORMER), file_of(NAME, origin=later)), both(file_of(NAME, origin=later), file_of(FORMER))):
        write_references(tmp_path, content)
        found = site.read_references("testbed", tmp_path)
        assert get(found, "provenance", NAME, *PLACE, METRIC) == later, "today's name goes before"


def test_two_values_of_one_entry_are_bad_input(tmp_path: Path) -> None:
    path = write_references(tmp_path, both(file_of(FORMER, 5.0), file_of(NAME, 6.0)))
    with pytest.raises(references.ReferenceError) as error:
        site.read_references("testbed", tmp_path)
    assert str(error.value) == (
        f"{path}: '{'.'.join(map(str, (*PLACE, METRIC)))}' is [5.0, None, 0.1, 'us'] under '{FORMER}' and "
        f"[6.0, None, 0.1, 'us'] under '{NAME}', and '{FORMER}' is the former name of '{NAME}': remove one of the two."
    )


def test_a_file_that_is_renamed_in_part_is_read_too(tmp_path: Path) -> None:
    write_references(tmp_path, {**file_of(FORMER), "provenance": file_of(NAME)["provenance"]})
    assert get(site.read_references("testbed", tmp_path), "provenance", NAME, *PLACE, METRIC) == ORIGIN


def test_a_file_without_entries_or_with_an_odd_provenance_is_one_sentence_at_most(tmp_path: Path) -> None:
    write_references(tmp_path, {"provenance": "by hand"})
    assert site.read_references("testbed", tmp_path) == {}
    write_references(tmp_path, {**file_of(FORMER), "provenance": ["by hand"]})
    with pytest.raises(references.ReferenceError, match=f"'provenance.{FORMER}.* must say date, n, session, spread"):
        site.read_references("testbed", tmp_path)


def test_a_metric_of_another_test_is_refused_under_a_former_name(tmp_path: Path) -> None:
    write_references(tmp_path, file_of(FORMER, metric="Allreduce.t_avg.0000000008"))
    with pytest.raises(references.ReferenceError, match=f"'{FORMER}.*would never be looked up: {NAME} never gives a metric"):
        site.read_references("testbed", tmp_path)


# History


def test_stored_sessions_are_read_and_exported_under_todays_names(tmp_path: Path) -> None:
    session = session_of({**case(), "name": f"{FORMER} %fabric=shm"}, {**case(), "name": "Mine %of=PointToPoint"})
    assert [one.name for one in session.cases] == [f"{NAME} %fabric=shm", "Mine %of=PointToPoint"]
    dataset.export_session(session, tmp_path)
    [path] = tmp_path.glob("cases/*/*/*.parquet")
    assert set(pl.read_parquet(path)["name"]) == {f"{NAME} %fabric=shm", "Mine %of=PointToPoint"}


# Command lines


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("-n ^PointToPoint%fabric=shm", ("--name=^ImbPointToPoint%fabric=shm",)),
        ("-n PointToPoint@3", ("--name=ImbPointToPoint@3",)),
        ("-x ^Collectives", ("--exclude=^ImbCollectives",)),
        ("-S PointToPoint.valid_systems=x", ("--setvar=ImbPointToPoint.valid_systems=x",)),
        # These fit OsuPointToPoint as well, then as now.
        ("-n PointToPoint", ("--name=PointToPoint",)),
        ("-n OsuPointToPoint", ("--name=OsuPointToPoint",)),
        ("-p ^Collectives", ("--prgenv=^Collectives",)),
    ],
)
def test_one_selection_reads_the_same_before_and_after(before: str, after: tuple[str, ...]) -> None:
    assert selection_options.narrowing(f"reframe -c reframe_tests -r {before}") == after


def test_recorded_conditions_are_left_alone() -> None:
    """Only names are renamed: what a session stored of itself is what it stored."""
    stored = session_of({**case(), "name": f"{FORMER} %fabric=shm"}, cmdline=f"reframe -r -n {FORMER}")
    assert json.dumps(stored.cases[0].entry).count(FORMER) == 1
    assert stored.command_line == f"reframe -r -n {FORMER}"
