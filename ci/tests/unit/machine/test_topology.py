"""Topologies from every source and numbering, and a sentence for each contradiction."""

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reframe_tests.harness.cases.job import condition
from reframe_tests.harness.machine import placement
from reframe_tests.harness.machine.topology import NUMBERINGS, Topology, describe
from refusals import refused_as
from synthetic_node import cpus_by, from_lscpu


def processor(**changes):
    """Two sockets of two cores, consecutive, with changes to its topology or counts."""
    row = describe(2, 2)
    for key, value in changes.items():
        (row if key.startswith("num_") else row["topology"])[key] = value
    return row


def test_the_share_of_this_process():
    from reframe.utility.cpuinfo import cpuinfo

    whole = Topology.from_processor(cpuinfo())
    before = os.sched_getaffinity(0)
    everything = whole.of_this_process()
    assert set(everything.cpus) == before
    one = max(before)
    try:
        os.sched_setaffinity(0, {one})
        mine = whole.of_this_process()
        assert os.sched_getaffinity(0) == {one}, "asking changes nothing"
    finally:
        os.sched_setaffinity(0, before)
    assert mine.cpus == (one,)
    assert mine.logical == everything.logical, "hwloc still counts the others"
    with refused_as("system-description"):
        from_lscpu("4095,0,0,0\n").of_this_process()


def test_logical_numbers_are_those_of_hwloc():
    # lstopo 2.9.0 --if synthetic "pack:2 [numa] l3:1 core:3
    # pu:2(indexes=0,6,2,8,4,10,1,7,3,9,5,11)"
    shown_by_hwloc = (0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11)
    logical = Topology.from_processor(describe(2, 3, smt=2, numbering="alternating")).logical
    assert tuple(sorted(logical, key=logical.__getitem__)) == shown_by_hwloc


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({}, "no topology.cores"),
        (
            processor(cores=["0x0"], sockets=[], numa_nodes=[], num_cpus=None, num_sockets=None),
            "no CPU in topology.cores",
        ),
        (processor(cores=["0x1", "0x2", "0x4", "zero"]), "'zero' is not a hexadecimal CPU mask"),
        (processor(sockets=["0x3", "0x4"]), "CPU 3 in topology.cores but not in topology.sockets"),
        (
            processor(numa_nodes=["0x3", "0x1c"]),
            "CPU 4 in topology.numa_nodes but not in topology.cores",
        ),
        (processor(cores=["0x1", "0x6", "0x8"]), "puts the core of CPUs 1,2 on two sockets"),
        (processor(num_cpus=3), "num_cpus=3 but its masks show 4"),
    ],
)
def test_contradictions_in_a_processor_description(row, sentence):
    with refused_as("file-damaged", match=re.escape(sentence)):
        Topology.from_processor(row)


@given(*(st.integers(1, most) for most in (4, 3, 3, 4, 4)), st.sampled_from(NUMBERINGS))
def test_every_description_is_read_back(sockets, numa, caches, cores, smt, numbering):
    smt = 1 if numbering == "consecutive" else smt
    per_socket = numa * caches * cores
    row = describe(
        sockets,
        per_socket,
        numa_per_socket=numa,
        caches_per_socket=caches,
        smt=smt,
        numbering=numbering,
    )
    topology = Topology.from_processor(row)
    total = sockets * per_socket
    assert topology.cpus == tuple(range(total * smt))
    assert [len(core) for core in topology.cores] == [smt] * total
    assert {len(cpus) for cpus in cpus_by(topology, "socket").values()} == {per_socket * smt}
    assert {len(cpus) for cpus in cpus_by(topology, "numa").values()} == {cores * caches * smt}
    assert len(topology.sockets) == sockets
    assert topology.numa_nodes == tuple(range(sockets * numa))
    assert sorted(topology.logical.values()) == list(range(total * smt))
    firsts = [core[0].socket for core in topology.cores]
    assert firsts == sorted(firsts)
    if numbering in ("consecutive", "smt_adjacent"):
        assert topology.logical == {cpu: cpu for cpu in topology.cpus}


def test_nothing_is_placed_on_reserved_cpus():
    """Slurm reserves whole cores: with one thread of a core the other is gone, too."""
    node = describe(sockets=2, cores_per_socket=4, smt=2, numbering="smt_last")
    left = condition.Partition(node, {"reserved_cpus": "0,12-13"}).topology
    assert [core[0].cpu for core in left.cores] == [1, 2, 3, 6, 7]
    assert (
        placement.place("bunch", 2, left).ranks == ((1,), (2,))
        and placement.resolve_ppn("full", left) == 5
    )
    assert condition.Partition(node, {}).topology.cpus == tuple(range(16))
    with refused_as("nothing-measured"):
        _ = condition.Partition(node, {"reserved_cpus": "0-7"}).topology
    with refused_as("system-description", match="no node has CPUs 16-17: correct cpus of 'gpus'"):
        _ = condition.Partition(
            node, {"gpus": {"kind": "rocm", "of_node": [{"cpus": "14-17"}]}}
        ).topology
