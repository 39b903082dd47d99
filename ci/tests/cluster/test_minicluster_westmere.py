"""Twelve ranks per node on a faked dual six-core Westmere, through ReFrame and Slurm.

On faked cores it can be proven that twelve ranks per node start, are recorded and are refused, rank
by rank, because the kernel has no such cores. Which list each launcher is handed is a test without
a cluster (unit/launchers); real masks are compared on real cores (test_binding_mpi).
"""

import re

import pytest

import live_cluster


@pytest.mark.whole
def test_twelve_ranks_start_and_cores_that_are_not_there_are_no_proof(tmp_path, require_stack):
    """Socket 0 has the even numbers, as on a dual Xeon X5650 (Cambridge white paper, 2011)."""
    require_stack("mpich-wheels")
    (tmp_path / "seen").mkdir()
    case_name = "Placement%fabric=shm%nodes=1%ppn=full%pinning=bunch"
    words = f"--system=minicluster:shm -n {case_name} -p mpich-wheels -S limit_s=400"
    layout = ("--layout", "westmere", "--share", str(tmp_path / "seen"))
    with live_cluster.running(tmp_path, *layout) as cluster:
        folder = tmp_path / "seen" / "live"
        done = live_cluster.run(cluster, folder, *words.split(), files=["startup.py"])
    (case,) = done.measured
    assert (done.status, case.result) == (1, "fail")
    assert case.proof and case.proof.status == "contradicted"
    assert [rank["rank"] for rank in case.proof.ranks] == list(range(12))
    said = re.findall(r"asked for rank (\d+) on \w+ on core (\d+) \(bunch\)", case.reason)
    asked = {int(rank): int(core) for rank, core in said}
    # Pinned ranks may not share, whatever the site lets launchers do.
    assert case.condition["oversubscribed"].startswith("12 ranks on ")
    # Where the machine has one core only, the rank that asked for it has it.
    wanted = dict(enumerate((0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11)))
    assert asked.items() <= wanted.items() and len(asked) >= 11
