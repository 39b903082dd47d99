"""Tests below MPI through ReFrame and Slurm on two fabrics: proven
where all is well, and what went wrong is said.
"""

import re

import pytest

import live_cluster
from mpibench.locate import cascade
from reframe_tests.harness.suites import catalogue

TESTS = {"WireTcp", "TransportUcx", "TransportLibfabric"}
#: What eth1g can carry as payload, as a share of its rate.
LIMIT = 1448 / 1538


@pytest.fixture(autouse=True)
def programs(cluster):
    rows = [row for group in catalogue.PAIRS for row in catalogue.rows(group)]
    for program in sorted({row.binary for row in rows}):
        if cluster("exec", "--node", "c1", "--", "sh", "-c", f"command -v {program}").returncode:
            pytest.skip(f"[cluster] the cluster's nodes have no {program}")


def run(cluster, folder, fabric, *options):
    where = (f"--system=minicluster:{fabric}", "-S", "repeats=1")
    return live_cluster.run(cluster, folder, *where, *options, files=["cascade.py"])


def test_each_level_is_measured_and_proven(cluster, visible):
    """How fast a busy machine is, is not asked."""
    fabric = "eth10g"
    done = run(cluster, visible / "well", fabric)
    cases = {case.name.split()[0]: case for case in done.measured}
    assert set(cases) == TESTS, done.output[-3000:]
    for case in cases.values():
        assert case.evidence == "proven", case.reason
        assert case.fail_phase in ("", "performance", "None"), case.reason
        assert case.proof is not None
        assert [rank["host"] for rank in case.proof.ranks] == ["c1", "c2"]
        assert {row.device for row in case.proof.devices} == {fabric}
        assert all(sample.measured for sample in case.samples) and case.samples
    transport = cases["TransportUcx"].proof.transport
    assert transport == f"ucx_perftest (UCX_NET_DEVICES={fabric} UCX_TLS=tcp,self)"
    [found] = cascade.find(done.session)
    first, *others = (set(answer.reached) for answer in found.answers)
    assert first == {"wire", "transport"} and others == [{"transport"}] * 2


def test_bytes_on_another_network_fail_the_case_and_are_named(cluster, visible):
    """A route of one node, as a wrong netmask or policy makes one: what
    should leave over eth1g leaves over eth10g.
    """
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
        assert "but eth10g of c2 also carried" in case.reason
        assert (
            "it used another network" in case.reason
            or "server was asked by 10.61.10.2 and not by" in case.reason
        )


@pytest.mark.whole
def test_a_slow_link_misses_its_line_rate_on_the_wire(cluster, visible):
    cluster.good("fault", "slow-link", "eth1g", "--fraction", "0.25")
    try:
        done = run(cluster, visible / "slow", "eth1g", "-n", "WireTcp|TransportUcx")
    finally:
        cluster.good("fault", "clear")
    assert {case.evidence for case in done.measured} == {"proven"}
    [wire] = [case for case in done.measured if case.name.startswith("WireTcp")]
    missed = [gate for gate in wire.gates if (gate.layer, gate.outcome) == ("physics", "fail")]
    assert wire.result == "fail" and missed, done.output[-3000:]
    assert all(0 < (gate.value or 0) < LIMIT / 4 * 1.1 for gate in missed)
    [found] = cascade.find(done.session)
    # on a busy machine UCX may be faster than iperf3, and then the loss is below both
    said = found.answers[0].sentence
    assert re.search("the most is lost below the (?:wire|transport): ", said), said


@pytest.mark.parametrize(
    ("nodes", "outcome", "said"),
    [
        (("c1", "c2"), ("skip", ""), "no iperf3 on the PATH of the nodes: install "),
        (("c2",), ("fail", "missing"), "no iperf3 on the PATH of c2, but the other node"),
    ],
)
def test_a_node_without_what_the_other_has_is_broken_and_named(
    cluster, visible, nodes, outcome, said
):
    """Without the program on any node the case is skipped."""
    path = cluster.on("c1", "sh", "-c", "command -v iperf3").strip()
    try:
        for node in nodes:
            cluster.on(node, "mount", "--bind", "/dev/null", path)
        done = run(cluster, visible / "absent", "eth1g", "-n", "WireTcp")
    finally:
        for node in nodes:
            cluster.on(node, "umount", path)
    [case] = done.session.cases
    result, evidence = outcome
    assert case.result == result and (not evidence or case.evidence == evidence), case.reason
    assert said in case.reason
