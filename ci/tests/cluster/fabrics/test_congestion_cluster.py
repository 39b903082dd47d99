"""Two halves of the mini-cluster stream to each other, and a latency is
measured alone and beside streams, with evidence.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import live_cluster
from live_cluster import LiveCluster
from mpibench.store.sessions import Case

pytestmark = pytest.mark.usefixtures("mpich")
FILES = ("parallel_transfer.py",)
WHERE = ("-p", "mpich-wheels", "--system=minicluster:eth1g")


def proven(cluster: LiveCluster, folder: Path, *options: str) -> Case:
    """The one case of a session, which proved its condition."""
    done = live_cluster.run(cluster, folder, *options, *WHERE, files=FILES)
    (case,) = done.measured
    assert case.result == "pass" and case.evidence == "proven", case.reason
    assert case.proof is not None and {device.device for device in case.proof.devices} >= {"eth1g"}
    return case


def test_pairs_on_different_switches(cluster: LiveCluster, visible: Path) -> None:
    """As a site would say it; the cluster's own Slurm knows no switches."""
    switches = ("-S", "env_vars=MPIBENCH_SWITCHES:left=c1;right=c2")
    case = proven(
        cluster, visible / "switches", "-n", "Bisection%fabric=eth1g%nodes=2%ppn=1%", *switches
    )
    assert case.proof is not None
    assert (
        "the nodes were split by switches as the site has them, 1 of 1 pairs of nodes on "
        "different ones" in case.proof.notes
    )
    assert {
        value for one in case.samples if one.quantity == "across_switches" for value in one.values
    } == {1.0}


def test_latency_alone_and_under_load(cluster: LiveCluster, visible: Path) -> None:
    case = proven(cluster, visible / "loaded", "-n", "LoadedLatency%fabric=eth1g%nodes=2%ppn=2%")
    found = {(sample.benchmark, sample.variant, sample.quantity) for sample in case.samples}
    assert {("Victim", state, "latency_p99_us") for state in ("alone", "loaded")} <= found
    assert {("Victim_impact", "", "impact"), ("Victim_impact", "", "impact_p99")} <= found
    [load] = [sample for sample in case.samples if sample.benchmark == "Load"]
    assert min(value or 0 for value in load.values) > 0
