"""The mini-cluster really up: Slurm, names, cores, rates."""

import os
from pathlib import Path

import pytest

from mpibench_cluster import namespaces, plan


def test_status_is_healthy_and_names_every_link(cluster):
    shown = cluster.good("status")
    rows = [line.split() for line in shown.splitlines() if " up " in line]
    links = {(node, fabric): said for node, fabric, *said in rows}
    nodes = ("mc-head", "c1", "c2")
    assert set(links) == {(node, fabric.name) for node in nodes for fabric in plan.FABRICS}
    assert links["c1", "eth1g"] == ["up", "984400Kbit"]
    assert links["c2", "eth40g"] == ["up", "unshaped"]
    assert "no fault in force" in shown


def test_two_nodes_run_a_job_and_bind_to_different_cores(cluster):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("[cores] this machine has one core")

    def on_both(script, ppn=1, *more):
        words = ("srun", "-N", "2", f"--ntasks-per-node={ppn}", *more, "sh", "-c", script)
        return cluster.on(plan.HEAD, *words).splitlines()

    show = "echo $(hostname) $(grep Cpus_allowed_list /proc/self/status)"
    rows = [line.split() for line in on_both(show, 1, "--cpu-bind=cores")]
    assert sorted(row[0] for row in rows) == ["c1", "c2"]
    assert len({row[-1] for row in rows}) == 2
    assert len(set(on_both(show, 2))) == 4
    # What an mpirun starts once per node keeps the whole node for the ranks it will start.
    assert on_both("nproc") == [str(len(cluster.state().plan.host_cpus))] * 2


def test_slurm_and_the_kernel_have_what_they_were_told(cluster):
    text = cluster.on(plan.HEAD, "scontrol", "show", "partition")
    assert text.count("OverSubscribe=EXCLUSIVE") == len(plan.DATA_FABRICS), (
        "jobs do not share a node"
    )
    assert {"pmi2", "pmix"} <= set(cluster.on(plan.HEAD, "srun", "--mpi=list").split()), (
        "for every MPI"
    )
    assert "can not load PMIx library" not in (cluster.runtime / "log/slurmd-c1.log").read_text()
    # tc takes a wrong clock, and so a bucket of 246 bytes, where it cannot read /proc/net/psched.
    words = cluster.on("c1", "tc", "class", "show", "dev", "eth1g").split()
    assert int(words[words.index("burst") + 1].removesuffix("b")) == pytest.approx(5_000, rel=0.05)
    routes = cluster.on("c2", "ip", "route", "show").splitlines()
    assert len(routes) == len(plan.FABRICS) and all("congctl cubic" in line for line in routes)


def test_daemons_belong_to_their_nodes_init_and_to_nobody_outside(cluster):
    # An orphan that goes to the machine's own process 1 outlives the cluster until that one looks.
    for name, init in cluster.state().nodes.items():
        inside = namespaces.processes_of(init)
        for pid in set(inside) - {init.pid}:
            text = Path(f"/proc/{pid}/stat").read_text()
            assert int(text[text.rindex(")") + 2 :].split()[1]) in inside, (
                f"{inside[pid]} on {name}"
            )
