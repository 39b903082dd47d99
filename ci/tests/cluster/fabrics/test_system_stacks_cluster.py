"""Debian's Open MPI and MPICH on the mini-cluster: measured with
proof, and another network is noticed.
"""

from pathlib import Path

import pytest

import live_cluster
import synthetic_stack
from reframe_tests.harness.stacks import metadata


def test_both_are_measured_with_proof(cluster, visible, require_stack):
    """Between nodes, by srun and by their own mpirun; inside a node is a test of the lane mpi.
    MPICH runs the IMB of the Intel wheel.
    """
    imb = require_stack("intelmpi-wheels")
    if reason := synthetic_stack.missing():
        pytest.skip(f"[host-mpi] {reason}")
    place = visible / "system"
    synthetic_stack.register_debian(place, {imb.abi: [Path(imb.prefix, "bin")]})
    words = "--system=minicluster -p (openmpi|mpich)-debian -S repeats=1 -S limit_s=60"
    words += " -n Mpi4pyPingPong%fabric=eth1g%nodes=2%ppn=1%pinning=default"
    there = {metadata.EXTRA_STACKS: synthetic_stack.named(place)}
    for number in range(synthetic_stack.MOST_STARTS):
        folder = visible / str(number)
        done = live_cluster.run(cluster, folder, *words.split(), environ=there)
        if synthetic_stack.HUNG not in done.output:
            break
    # What a link reaches while others use the cores is not a test; whatever else may fail here is.
    assert len(done.measured) == 2 * 2, done.output
    for case in done.measured:
        assert case.evidence == "proven", case.reason
        assert case.result == "pass" or case.fail_phase == "performance", case.reason
