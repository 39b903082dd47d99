"""Two halves of the mini-cluster stream to each other, and a latency is
measured alone and beside streams, with evidence.
"""

import pytest

import live_cluster

pytestmark = pytest.mark.usefixtures("mpich")
NAMES = "(Bisection%fabric=eth1g%nodes=2%ppn=1%|LoadedLatency%fabric=eth1g%nodes=2%ppn=2%)"
#: As a site would say it; the cluster's own Slurm knows no switches.
WHERE = (
    "-p",
    "mpich-wheels",
    "--system=minicluster:eth1g",
    "-S",
    "env_vars=MPIBENCH_SWITCHES:left=c1;right=c2",
)


def test_pairs_on_different_switches_and_latency_alone_and_under_load(cluster, visible):
    files = ("parallel_transfer.py",)
    done = live_cluster.run(cluster, visible / "both", "-n", NAMES, *WHERE, files=files)
    cases = {case.name.split()[0]: case for case in done.measured}
    for case in cases.values():
        assert case.evidence == "proven", case.reason
        # How fast a link is where others use the cores too is not a test.
        failed = {gate.layer for gate in case.gates if gate.outcome == "fail"}
        assert failed <= {"physics"} and (case.result == "pass") != bool(failed), case.reason
        assert case.proof and {device.device for device in case.proof.devices} >= {"eth1g"}
    bisection = cases.pop("Bisection")
    assert (
        "the nodes were split by switches as the site has them, 1 of 1 pairs of nodes on "
        "different ones" in bisection.proof.notes
    )
    assert {
        value
        for one in bisection.samples
        if one.quantity == "across_switches"
        for value in one.values
    } == {1.0}
    [case] = cases.values()
    found = {(sample.benchmark, sample.variant, sample.quantity) for sample in case.samples}
    assert {("Victim", state, "latency_p99_us") for state in ("alone", "loaded")} <= found
    assert {("Victim_impact", "", "impact"), ("Victim_impact", "", "impact_p99")} <= found
    [load] = [sample for sample in case.samples if sample.benchmark == "Load"]
    assert min(value or 0 for value in load.values) > 0
