"""What ordinary sessions show of nodes: a node that is slow in all of its jobs, and nodes that were always together."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import pytest

from mpibench import cli
from synthetic_verdicts import write_session

NODES = tuple(f"n{number}" for number in range(1, 9))


def month(folder: Path, pairs: Iterable[tuple[str, ...]], slow: Iterable[str] = (), times: float = 1.5) -> None:
    """A session a day, each on some nodes."""
    for number, nodes in enumerate(pairs):
        factor = times if set(nodes) & set(slow) else 1.0
        write_session(
            folder,
            number,
            change=lambda benchmark, size, stack, factor=factor: factor,
            where={"nodelist": ",".join(nodes), "nodes": 2},
            noise=0.01,
        )


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def run(*options: str) -> tuple[int, str]:
        status = cli.main(["locate", "--ordinary", "20260101:20261231", "--dataset-only", "--dataset", str(tmp_path), *options])
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


def test_a_node_that_is_slow_in_all_of_its_jobs(ask, tmp_path: Path) -> None:
    month(tmp_path, itertools.combinations(NODES, 2), {"n3"})
    status, said = ask()
    assert status == 1
    assert "\n  n3: 7 of 7 jobs are slow, and take 1.5 times as long as the same on other nodes (bandwidth_mb_per_s)\n" in said
    assert "nodename=n3" in said and "n1:" not in said
    assert (
        "note: 28 jobs (bandwidth_mb_per_s), 28 jobs (latency_us) of ordinary sessions: no directions, cables or switches"
        in said
    )


def test_nodes_that_were_always_together_are_both_named_and_none_is_drained(ask, tmp_path: Path) -> None:
    month(tmp_path, [("n1", "n2"), ("n3", "n4"), ("n5", "n6"), ("n7", "n8")] * 8, {"n1"})
    status, said = ask()
    assert status == 1
    assert "n1 or n2, which had all these jobs together: 8 of 8 jobs are slow" in said
    assert "scontrol" not in said


def test_a_healthy_month(ask, tmp_path: Path) -> None:
    month(tmp_path, list(itertools.combinations(NODES, 2)) * 2)
    status, said = ask()
    assert (status, "nobody is accused among 8 nodes" in said) == (0, True), said


def test_nodes_with_one_job_are_no_green(ask, tmp_path: Path) -> None:
    month(tmp_path, [*itertools.combinations(NODES[:6], 2), *itertools.combinations(NODES[:6], 2), ("n7", "n8")])
    status, said = ask()
    assert status == 3
    assert "2 of 8 nodes had fewer than 2 jobs and are not judged: n7, n8" in said


def test_too_few_jobs_are_bad_input(ask, tmp_path: Path) -> None:
    month(tmp_path, [("n1", "n2"), ("n1", "n3")])
    status, said = ask()
    assert status == 2 and "too few jobs that measured the same on several nodes: measure a map: reframe -c" in said


def test_jobs_on_one_node_are_bad_input(ask, tmp_path: Path) -> None:
    month(tmp_path, [("n1",)] * 8)
    status, said = ask()
    assert status == 2 and "ran on two nodes and says on which" in said
