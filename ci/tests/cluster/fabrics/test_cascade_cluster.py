"""Tests below MPI through ReFrame and Slurm on two fabrics: proven where all is well, and what went wrong is said."""

from __future__ import annotations

from pathlib import Path

import pytest

import cluster_reframe
from live_cluster import LiveCluster
from mpibench.locate import cascade
from mpibench.store.sessions import Case
from reframe_tests.harness.suites import catalogue

TESTS = {"WireTcp", "TransportUcx", "TransportLibfabric"}
#: What eth1g can carry as payload, as a share of its rate.
LIMIT = 1448 / 1538


@pytest.fixture(autouse=True)
def programs(cluster: LiveCluster) -> None:
    for program in sorted({row.binary for group in catalogue.PAIRS for row in catalogue.rows(group)}):
        if cluster("exec", "--node", "c1", "--", "sh", "-c", f"command -v {program}").returncode:
            pytest.skip(f"[cluster] the cluster's nodes have no {program}")


def run(cluster: LiveCluster, folder: Path, fabric: str, *options: str) -> cluster_reframe.Done:
    where = (f"--system=minicluster:{fabric}", "-S", "repeats=1")
    return cluster_reframe.run(cluster, folder, *where, *options, files=["cascade.py"])


@pytest.mark.parametrize("fabric", ["eth1g", "eth10g"])
def test_each_level_is_measured_and_proven(cluster: LiveCluster, visible: Path, fabric: str) -> None:
    """How fast a busy machine is, is not asked."""
    done = run(cluster, visible / "well", fabric)
    cases = {case.name.split()[0]: case for case in done.measured}
    assert set(cases) == TESTS, done.output[-3000:]
    for case in cases.values():
        assert case.evidence == "proven" and case.fail_phase in ("", "performance", "None"), case.reason
        assert case.proof is not None and [rank["host"] for rank in case.proof.ranks] == ["c1", "c2"]
        assert {row.device for row in case.proof.devices} == {fabric}
        assert all(sample.measured for sample in case.samples) and case.samples
    assert cases["TransportUcx"].proof.transport == f"ucx_perftest (UCX_NET_DEVICES={fabric} UCX_TLS=tcp,self)"  # type: ignore[union-attr]
    [found] = cascade.find(done.session)
    assert [set(answer.reached) for answer in found.answers] == [{"wire", "transport"}, {"transport"}, {"transport"}]
    assert all("MPI: not measured in this session" in answer.sentence for answer in found.answers)


def test_bytes_on_another_network_fail_the_case_and_are_named(cluster: LiveCluster, visible: Path) -> None:
    """A route of one node, as a wrong netmask or policy makes one: what should leave over eth1g leaves over eth10g."""
    address = "10.61.1.1/32"
    cluster.on("c2", "ip", "route", "add", address, "dev", "eth10g")
    try:
        done = run(cluster, visible / "wrong", "eth1g")
    finally:
        cluster.on("c2", "ip", "route", "del", address)
    cases = done.measured
    assert done.status == 1 and {case.name.split()[0] for case in cases} == TESTS
    for case in cases:
        assert (case.result, case.evidence) == ("fail", "contradicted"), case.reason
        assert "but eth10g of c2 carried" in case.reason
        assert "it went over another network" in case.reason or "server was asked by 10.61.10.2 and not by" in case.reason


def test_a_slow_link_misses_its_line_rate_on_the_wire(cluster: LiveCluster, visible: Path) -> None:
    cluster.good("fault", "slow-link", "eth1g", "--fraction", "0.25")
    try:
        done = run(cluster, visible / "slow", "eth1g", "-n", "WireTcp|TransportUcx")
    finally:
        cluster.good("fault", "clear")
    cases = {case.name.split()[0]: case for case in done.measured}
    assert {case.evidence for case in cases.values()} == {"proven"}
    assert cases["WireTcp"].result == "fail" and cases["TransportUcx"].gates, done.output[-3000:]
    missed = [gate for gate in cases["WireTcp"].gates if gate.layer == "physics" and gate.outcome == "fail"]
    assert missed and all(gate.value is not None and 0 < gate.value < LIMIT / 4 * 1.1 for gate in missed)
    [found] = cascade.find(done.session)
    sentence = found.answers[0].sentence
    assert "the most is lost below the wire: " in sentence and "% of the line rate less than packets leave" in sentence


def without_iperf3(cluster: LiveCluster, folder: Path, nodes: tuple[str, ...]) -> Case:
    """The case of a session while some nodes have no iperf3."""
    path = cluster.on("c1", "sh", "-c", "command -v iperf3").strip()
    try:
        for node in nodes:
            cluster.on(node, "mount", "--bind", "/dev/null", path)
        done = run(cluster, folder, "eth1g", "-n", "WireTcp")
    finally:
        for node in nodes:
            cluster.on(node, "umount", path)
    [case] = done.session.cases
    return case


def test_without_the_program_the_case_is_skipped_and_names_its_package(cluster: LiveCluster, visible: Path) -> None:
    case = without_iperf3(cluster, visible / "absent", ("c1", "c2"))
    assert case.result == "skip", case.reason
    assert case.reason.startswith("no iperf3 on the PATH of the nodes: install Debian's iperf3 or Spack's iperf3")


@pytest.mark.parametrize("node", ["c1", "c2"])
def test_a_node_without_what_the_other_has_is_broken_and_named(cluster: LiveCluster, visible: Path, node: str) -> None:
    case = without_iperf3(cluster, visible / f"absent-{node}", (node,))
    assert (case.result, case.evidence) == ("fail", "missing"), case.reason
    assert f"no iperf3 on the PATH of {node}, and on the other node there is: install Debian's iperf3" in case.reason
