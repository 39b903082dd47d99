"""The topology of this machine, from two sources."""

import os
import shutil

import pytest

from programs import finished
from reframe_tests.harness.machine.topology import Topology
from synthetic_node import cpus_by, from_lscpu


def test_what_reframe_detects_here_is_what_lscpu_says():
    if not shutil.which("lscpu"):
        pytest.skip("[debian] no lscpu here")
    from reframe.utility.cpuinfo import cpuinfo

    detected = Topology.from_processor(cpuinfo())
    said = from_lscpu(finished("lscpu", "-p=CPU,CORE,SOCKET,NODE").stdout)
    assert set(os.sched_getaffinity(0)) <= set(said.cpus)
    for what in ("core", "socket", "numa"):
        assert sorted(cpus_by(detected, what).values()) == sorted(cpus_by(said, what).values()), (
            what
        )
