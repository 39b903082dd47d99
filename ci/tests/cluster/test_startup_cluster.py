"""Start-up over node counts for real, on four nodes of a cluster, as one chart; more ranks than cores are said to be that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cluster_reframe
import live_cluster
import startup_programs
from live_cluster import LiveCluster
from mpibench.pages import node_curves
from mpibench.pages import session as report
from page_reader import Reader
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("startup")


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[LiveCluster]:
    with live_cluster.running(tmp_path_factory.mktemp("cluster"), "--nodes", "4", "--share", str(folder)) as cluster:
        yield cluster


def test_a_point_for_each_node_count(four: LiveCluster, folder: Path, require_stack: Callable[[str], Stack]) -> None:
    name = startup_programs.add_to(require_stack("mpich-wheels"), folder / "programs")
    words = ("-n", "OsuStartup%fabric=eth1g%.*%ppn=1%", "-p", name, "--system=minicluster:eth1g", "-S", "repeats=2")
    there = {metadata.EXTRA_STACKS: str(folder / "programs")}
    done = cluster_reframe.run(four, folder / "run", *words, files=["startup.py"], environ=there)
    found = {case.nodes: case for case in done.measured}
    assert (done.status, sorted(found)) == (0, [2, 4]), done.output[-4000:]
    for nodes, case in found.items():
        assert (case.result, case.evidence) == ("pass", "proven"), case.reason
        assert case.proof is not None and [rank["host"] for rank in case.proof.ranks] == [f"c{n + 1}" for n in range(nodes)]
        assert {(sample.benchmark, sample.variant, sample.ranks) for sample in case.samples} == {
            *((benchmark, f"nodes={nodes}", nodes) for benchmark in ("osu_init", "osu_hello")),
        }
    charts = node_curves.node_charts(done.session)
    assert {(chart.what.benchmark, nodes) for chart in charts for nodes in chart.counts} == {
        *((benchmark, nodes) for benchmark in ("osu_init", "osu_hello") for nodes in (2, 4)),
    }
    cores = four.shown()["cores"]
    for nodes, case in found.items():
        label = f"{nodes} ranks on {cores} core{'s'[: cores != 1]}" if nodes > cores else None
        assert case.condition.get("oversubscribed") == label
    said = Reader(report.render(report.View(done.session, folder))).text["over_nodes"]
    assert ("oversubscribed: ranks share cores" in said) == (cores < 4)
