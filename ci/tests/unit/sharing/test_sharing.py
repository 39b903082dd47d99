"""A node that programs share: their cores, what their records
prove together, and what they print.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from reframe_tests.harness.cases.sharing import proof, shared_node
from reframe_tests.harness.cases.sharing.shared_node import launches_of
from reframe_tests.harness.machine.topology import Topology, describe
from reframe_tests.harness.samples import Sample
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue, reader, side_by_side
from reframe_tests.harness.suites.benchmark import Record
from studies.output_damage import golden
from synthetic_evidence import make_rank
from synthetic_stack import DOCUMENT

CONSECUTIVE = Topology.from_processor(describe(2, 6))
TWO_CORES = Topology.from_processor(describe(1, 2))


def test_of_policies_that_deal_the_same_cores_the_first_is_measured():
    order = shared_node.POLICIES
    for policy, policies, ppn, topology, first in (
        ("scatter", order, 2, TWO_CORES, "bunch"),
        ("scatter", order, 12, CONSECUTIVE, "scatter"),
        ("none", order, 12, CONSECUTIVE, "none"),  # no binding is not the stack's own
        # Policies that mean nothing here are in a site's list all the same.
        ("bunch", ("nic_local", "bunch"), 12, CONSECUTIVE, "bunch"),
    ):
        assert shared_node.first_equal(policy, policies, 2, ppn, topology) == first


def identity(cpu):
    return cpu


def rank(number, cpus, host="c1"):
    return make_rank(number, host, init__cpus=cpus, finalize__cpus=cpus)


def programs(*listed):
    """Programs by their ranks' CPUs."""
    return {
        number: [rank(at, cpus) for at, cpus in enumerate(one)]
        for number, one in enumerate(listed, 1)
    }


# Cores.


@pytest.mark.parametrize(
    ("listed", "core", "named"),
    [
        ((("0", "0"), ("1",)), identity, ""),  # said of that program by itself
        (
            (("0", "1"), ("2", "1")),
            identity,
            "core 1 of c1 is used by program 1 (rank 1) and program 2 (rank 1)",
        ),
        (
            (("0-3", "0-3"), ("3",)),
            identity,
            "core 3 of c1 is used by program 1 (ranks 0 and 1) and",
        ),
        ((("0",), ("16",)), identity, ""),
        (
            (("0",), ("16",)),
            lambda cpu: cpu % 16,
            "the core of CPUs 0,16 of c1 is used by program 1",
        ),
    ],
)
def test_a_core_of_two_programs_is_named_with_programs_and_ranks(listed, core, named):
    """CPUs 0 and 16 may be siblings."""
    found = proof.check_apart(programs(*listed), core)
    assert [named in sentence for sentence in found] == ([True] if named else [])


def test_programs_on_two_nodes_share_nothing():
    apart = {1: [rank(0, "0", "c1")], 2: [rank(0, "0", "c2"), rank(1, "1", "c2")]}
    assert proof.check_apart(apart, identity) == []
    [sentence] = proof.check_node(apart)
    assert "did not share a node: program 1 on c1, program 2 on c2" in sentence
    assert proof.check_node(programs(("0",), ("1",))) == []


# Launches that do not know of each other.


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ((("0",), ("0",)), "of 2 ranks, at most 1 can have their own core"),
        # Six ranks of each are pinned to the first six of twelve cores: the other six are idle.
        ((tuple("012345"),) * 2, "of 12 ranks, at most 6 can have their own core"),
        ((("0-1",), ("0-1",)), "nothing keeps the 2 programs apart"),
        ((("0",), ("1",)), "but had no core in common"),
    ],
)
def test_unaware_programs_on_the_same_first_core_are_the_finding(listed, said):
    assert said in proof.describe_unaware(programs(*listed), identity)


# Time.


# Ratios.


def sample(how, *values, quantity="bandwidth_mb_per_s", program=1):
    variant = side_by_side.variant(2, program, how)
    return Sample("sharing", "Copy", "sharing", 1, 1, variant, 8, 5, quantity, values)


@pytest.mark.parametrize(
    ("spans", "said"),
    [
        (((0, 1), (0.1, 1.1)), ""),
        (((5, 6),), ""),
        (((7, 8), (8.5, 9.5)), "for 0% of what program 1 was measured for"),
        # The second ended long before the first, which had the node for itself from then on.
        (((0, 10), (0, 5)), "for 50% of what program 1 was measured for"),
        (((0, 1), (0, 1), (0.5, 1.5)), "for 50% of what program 1 was measured for"),
    ],
)
def test_only_programs_that_ran_at_the_same_time_are_proven(spans, said):
    row = Record("sharing", "Copy", 1, 1, 65536, 10, {})
    measured = {
        number: [replace(row, measured_ns=(int(begin * 1e9), int(end * 1e9)))]
        for number, (begin, end) in enumerate(spans, 1)
    }
    found = proof.check_overlap(measured)
    assert [said in sentence for sentence in found] == ([True] if said else [])


def test_half_a_throughput_is_half_and_so_is_twice_a_time():
    """Each program is held against itself."""
    [half] = proof.ratios([sample("alone", 8.0, 10.0, 12.0), sample("shared", 4.0, 5.0, 12.0)])
    assert (half.quantity, half.values) == ("shared_over_alone", (0.5, 0.5, 1.0))
    assert (half.variant, half.direction) == ("programs=2,program=1", "higher")
    times = {"quantity": "t_max_us", "program": 2}
    pairs = [sample("alone", 8.0), sample("shared", 8.0)]
    pairs += [sample("alone", 3.0, **times), sample("shared", 6.0, **times)]
    assert [one.values for one in proof.ratios(pairs)] == [(1.0,), (0.5,)]


GROUP = side_by_side.NAME
STACK = metadata.parse(DOCUMENT, Path("stack.json"))
#: Recorded outputs: program, of how many, ranks of each, how.
RECORDED = {
    "sharing-openmpi-n1-2of2.txt": (2, 2, 1, side_by_side.SHARED),
    "sharing-mpich-n2-1of1.txt": (1, 1, 2, side_by_side.ALONE),
    "sharing-intelmpi-n2-1of2.txt": (1, 2, 2, side_by_side.SHARED),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs(name):
    program, programs, ranks, how = RECORDED[name]
    text = golden(name)
    (planned,) = catalogue.launches(GROUP, STACK, ranks, "smoke")
    alone, shared = launches_of(planned, program, programs)
    asked = alone if how == side_by_side.ALONE else shared
    records = reader.complete(reader.parse(text), asked.expected, source=name)
    assert {record.variant for record in records} == {side_by_side.variant(programs, program, how)}
    assert {record.ranks for record in records} == {ranks}
    moments = [moment for record in records for moment in record.measured_ns]
    assert moments == sorted(moments), "one after the other"
