"""Lanes: every test lies in one, is marked with it, and the run ends with the time of each."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import lanes
from folders import DATA, SUPPORT, TESTS

#: A run of which a part was asked for.
PART = SimpleNamespace(args_source=pytest.Config.ArgsSource.ARGS, getoption=lambda name: True)


def test_lanes_are_folders_and_run_in_order(pytestconfig: pytest.Config) -> None:
    assert [TESTS.parents[1] / path for path in pytestconfig.getini("testpaths")] == [
        TESTS / name for name in lanes.LANES
    ]
    folders = {path for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {SUPPORT, DATA, *(TESTS / name for name in lanes.LANES)}


@pytest.mark.parametrize(
    "path", [TESTS / "test_x.py", SUPPORT / "test_x.py", Path("/elsewhere/unit/test_x.py")]
)
def test_a_test_in_no_lane_is_refused(path: Path) -> None:
    with pytest.raises(
        pytest.UsageError, match=r"lies in no lane: move it to a folder of .*unit, cluster, process"
    ):
        lanes.pytest_collection_modifyitems(PART, [SimpleNamespace(path=path)])


@pytest.mark.parametrize(
    "start",
    [
        lambda: subprocess.run(["true"], check=False),
        lambda: subprocess.run("exit 0", shell=True, check=False),
        lambda: os.posix_spawn("/bin/true", ["true"], {}),
        os.fork,
    ],
)
def test_this_lane_starts_nothing(start: Callable[[], object]) -> None:
    with pytest.raises(RuntimeError, match="lane 'unit' starts nothing"):
        start()


def test_a_folder_of_the_cluster_lane_is_a_part_and_elsewhere_a_file_is() -> None:
    for place, part in (
        ("cluster/faults/test_x.py", "cluster/faults"),
        ("cluster/test_x.py", "cluster/test_x.py"),
        ("process/cluster/test_x.py", "process/cluster/test_x.py"),
    ):
        assert lanes.part_of(f"ci/tests/{place}::test_x[a::b]") == f"ci/tests/{part}"


def test_a_whole_run_without_the_tests_of_a_lane_is_refused() -> None:
    whole = SimpleNamespace(
        args_source=pytest.Config.ArgsSource.TESTPATHS, getoption=lambda name: True
    )
    items = [
        SimpleNamespace(path=TESTS / lane / "test_x.py", add_marker=lambda mark: None)
        for lane in lanes.LANES
    ]
    lanes.pytest_collection_modifyitems(whole, list(items))
    lanes.pytest_collection_modifyitems(PART, items[1:])
    with pytest.raises(pytest.UsageError, match="lane 'process' has no test any more"):
        lanes.pytest_collection_modifyitems(
            whole, [item for item in items if "process" not in item.path.parts]
        )


def test_nothing_is_skipped_or_expected_to_fail_whatever_is_here() -> None:
    """A reason to skip is found where the test runs; one that
    always holds would hide the test for ever.
    """
    always = re.compile(r"mark\.(?:skip\b|xfail\b)|\bxfail\(|skipif\((?:True|1)\b")
    there = [path for path in sorted(TESTS.rglob("*.py")) if always.search(path.read_text())]
    assert [path.name for path in there] == ["test_untested.py"], "which has it as material"


@pytest.fixture
def ends_with_a_program() -> Iterator[None]:
    yield
    subprocess.run(["true"], check=True)


@pytest.mark.usefixtures("ends_with_a_program")
def test_what_other_lanes_share_may_be_ended_after_the_last_test() -> None:
    """By programs, as the mini-cluster is; a refusal there would be an error of this test."""
