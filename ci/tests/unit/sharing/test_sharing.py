"""A node that programs share: their cores, what their records
prove together, and what they print.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from listed_topologies import from_lscpu
from reframe_tests.harness.cases.sharing import proof, shared_node
from reframe_tests.harness.cases.sharing.shared_node import launches_of
from reframe_tests.harness.evidence.rank_records import RankEvidence
from reframe_tests.harness.machine import placement
from reframe_tests.harness.machine.topology import Topology, describe
from reframe_tests.harness.samples import Sample
from reframe_tests.harness.sites import references
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue, reader, side_by_side
from reframe_tests.harness.suites.benchmark import Record
from reframe_tests.harness.vocabulary import NotMeasured
from refusals import refused_as
from studies.output_damage import golden
from synthetic_evidence import make_rank
from synthetic_stack import DOCUMENT

#: Dual hexa-core, as Cambridge had them (2011, section 3.3):
#: neighbouring CPUs are on different sockets.
WESTMERE = Topology.from_processor(describe(2, 6, numbering="alternating"))
CONSECUTIVE = Topology.from_processor(describe(2, 6))
#: Two NUMA nodes a socket.
SNC2 = Topology.from_processor(describe(2, 8, numa_per_socket=2))
SMT = Topology.from_processor(describe(2, 4, smt=2, numbering="smt_last"))
TWO_CORES = Topology.from_processor(describe(1, 2))
NO_NUMA = from_lscpu("".join(f"{cpu},{cpu},{cpu // 4},\n" for cpu in range(8)))
TOPOLOGIES = (WESTMERE, CONSECUTIVE, SNC2, SMT, TWO_CORES, NO_NUMA)


def cpus(
    policy: str, programs: int, ppn: int, topology: Topology = CONSECUTIVE
) -> list[tuple[int, ...]]:
    """The only CPU of each rank of each program."""
    placed = shared_node.deal(policy, programs, ppn, topology)
    assert len(placed) == programs
    for one in placed:
        assert one.ranks is not None and len(one.ranks) == one.ppn == ppn // programs
        assert all(len(rank) == 1 for rank in one.ranks)
    return [tuple(rank[0] for rank in one.ranks or ()) for one in placed]


def homes(shared: list[tuple[int, ...]], topology: Topology, part: str) -> list[list[int]]:
    """How many ranks of each program are on each socket or NUMA
    node that has some of it, in their order.
    """
    of_cpu = {unit.cpu: getattr(unit, part) for unit in topology.units}
    return [
        [sum(of_cpu[cpu] == home for cpu in one) for home in sorted({of_cpu[cpu] for cpu in one})]
        for one in shared
    ]


@pytest.mark.parametrize(
    ("topology", "programs", "bunch", "scatter"),
    [
        (CONSECUTIVE, 2, ["0 1 2 3 4 5", "6 7 8 9 10 11"], ["0 6 1 7 2 8", "3 9 4 10 5 11"]),
        # Six cores a socket hold one program of four and half of another.
        (CONSECUTIVE, 3, ["0 1 2 3", "6 7 8 9", "4 5 10 11"], ["0 6 1 7", "2 8 3 9", "4 10 5 11"]),
        (
            CONSECUTIVE,
            4,
            ["0 1 2", "3 4 5", "6 7 8", "9 10 11"],
            ["0 6 1", "7 2 8", "3 9 4", "10 5 11"],
        ),
        # Socket 0 has the even CPUs: nothing follows from a number.
        (WESTMERE, 2, ["0 2 4 6 8 10", "1 3 5 7 9 11"], ["0 1 2 3 4 5", "6 7 8 9 10 11"]),
    ],
)
def test_twelve_cores_are_dealt_to_programs(
    topology: Topology, programs: int, bunch: list[str], scatter: list[str]
) -> None:
    for policy, wanted in (("bunch", bunch), ("scatter", scatter)):
        dealt = cpus(policy, programs, 12, topology)
        assert [" ".join(map(str, one)) for one in dealt] == wanted


def test_numa_nodes_come_before_sockets() -> None:
    """A program that fits one is not spread over two where cores are left."""
    for policy, programs, ppn, topology, part, wanted in (
        ("bunch", 2, 8, CONSECUTIVE, "socket", [[4], [4]]),
        ("bunch", 4, 16, SNC2, "numa", [[4]] * 4),
        # Six ranks fit no NUMA node of four, but a socket of eight.
        ("bunch", 2, 12, SNC2, "socket", [[6], [6]]),
        ("scatter", 4, 16, SNC2, "socket", [[2, 2]] * 4),
        ("bunch", 2, 8, NO_NUMA, "socket", [[4], [4]]),
    ):
        assert homes(cpus(policy, programs, ppn, topology), topology, part) == wanted


@given(
    topology=st.sampled_from(TOPOLOGIES),
    policy=st.sampled_from(("bunch", "scatter")),
    programs=st.integers(2, 16),
    ranks=st.integers(1, 16),
)
def test_no_core_is_dealt_twice(topology: Topology, policy: str, programs: int, ranks: int) -> None:
    if programs * ranks > len(topology.cores):
        with pytest.raises(NotMeasured, match="cores of their own and the node has"):
            shared_node.deal(policy, programs, programs * ranks, topology)
        return
    dealt = [
        topology.core_of(cpu)
        for one in cpus(policy, programs, programs * ranks, topology)
        for cpu in one
    ]
    assert len(dealt) == len(set(dealt)) == programs * ranks
    if policy == "scatter":
        # Each program on its own: no socket has two ranks more of it
        # than another with as many cores.
        for one in homes(cpus(policy, programs, programs * ranks, topology), topology, "socket"):
            assert max(one) - min(one) <= 1


@pytest.mark.parametrize("policy", placement.UNLISTED)
def test_launches_that_do_not_know_of_each_other_are_told_nothing(policy: str) -> None:
    assert [one.ranks for one in shared_node.deal(policy, 3, 12, CONSECUTIVE)] == [None] * 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("default", 5, 12), "12 ranks of a node are not 5 programs of equal size; -P ppn=10"),
        (("bunch", 13, 12), "12 ranks of a node are not 13 programs of equal size"),
        (("scatter", 2, 14), "2 programs of 7 ranks need 14 cores of their own"),
        (("nic_local", 2, 12), "pinning=nic_local means nothing for programs that leave no node"),
    ],
)
def test_what_cannot_be_dealt_is_refused_in_a_sentence(
    words: tuple[str, int, int], sentence: str
) -> None:
    with pytest.raises(NotMeasured, match=sentence):
        shared_node.deal(*words, CONSECUTIVE)


@pytest.mark.parametrize("programs", [1, 0, -2])
def test_one_program_or_none_shares_nothing(programs: int) -> None:
    with refused_as("bad-option"):
        shared_node.deal("bunch", programs, 12, CONSECUTIVE)


def test_of_policies_that_deal_the_same_cores_the_first_is_measured() -> None:
    order = shared_node.POLICIES
    for policy, policies, ppn, topology, first in (
        ("scatter", order, 2, TWO_CORES, "bunch"),
        ("scatter", order, 12, CONSECUTIVE, "scatter"),
        ("none", order, 12, CONSECUTIVE, "none"),  # no binding is not the stack's own
        # Policies that mean nothing here are in a site's list all the same.
        ("bunch", ("nic_local", "bunch"), 12, CONSECUTIVE, "bunch"),
    ):
        assert shared_node.first_equal(policy, policies, 2, ppn, topology) == first


def identity(cpu: int) -> int:
    return cpu


def rank(number: int, cpus: str, host: str = "c1") -> RankEvidence:
    return make_rank(number, host, init__cpus=cpus, finalize__cpus=cpus)


def programs(*listed: tuple[str, ...]) -> dict[int, list[RankEvidence]]:
    """Programs by their ranks' CPUs."""
    return {
        number: [rank(at, cpus) for at, cpus in enumerate(one)]
        for number, one in enumerate(listed, 1)
    }


# Cores.


@pytest.mark.parametrize(
    ("listed", "core", "named"),
    [
        ((("0", "1"), ("2", "3")), identity, ""),
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
def test_a_core_of_two_programs_is_named_with_programs_and_ranks(
    listed: tuple[tuple[str, ...], ...], core: Callable[[int], int], named: str
) -> None:
    """CPUs 0 and 16 may be siblings."""
    found = proof.check_apart(programs(*listed), core)
    assert [named in sentence for sentence in found] == ([True] if named else [])


def test_programs_on_two_nodes_share_nothing() -> None:
    apart = {1: [rank(0, "0", "c1")], 2: [rank(0, "0", "c2"), rank(1, "1", "c2")]}
    assert proof.check_apart(apart, identity) == []
    [sentence] = proof.check_node(apart)
    assert "did not share a node: program 1 on c1, program 2 on c2" in sentence
    assert proof.check_node(programs(("0",), ("1",))) == []


def test_a_program_that_moved_onto_the_others_core_is_found() -> None:
    """Only at the end of its run: the mask after MPI_Init was its own."""
    moved = make_rank(0, init__cpus="1", finalize__cpus="0")
    [sentence] = proof.check_apart({1: [rank(0, "0")], 2: [moved]}, identity)
    assert sentence.startswith("core 0 of c1 is used by program 1 (rank 0) and program 2 (rank 0)")


# Launches that do not know of each other.


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ((("0",), ("0",)), "of 2 ranks at most 1 can have a core of their own"),
        # Six ranks of each are pinned to the first six of twelve cores: the other six are idle.
        ((tuple("012345"),) * 2, "of 12 ranks at most 6 can have a core of their own"),
        ((("0-1",), ("0-1",)), "nothing keeps the 2 programs apart"),
        ((("0",), ("1",)), "still had no core in common"),
    ],
)
def test_unaware_programs_on_the_same_first_core_are_the_finding(
    listed: tuple[tuple[str, ...], ...], said: str
) -> None:
    assert said in proof.describe_unaware(programs(*listed), identity)


def test_seats_are_a_matching_and_not_a_count_of_cores() -> None:
    """Three ranks and three cores, but two of the ranks may use the same one only."""
    assert proof.seat([rank(0, "0"), rank(1, "0"), rank(2, "0-2")], identity) == 2
    assert proof.seat([rank(0, "0-1"), rank(1, "0"), rank(2, "1-2")], identity) == 3


# Time.


def measured(*spans: tuple[float, float]) -> dict[int, list[Record]]:
    """One row of each program, with its begin and end in seconds."""
    row = Record("sharing", "Copy", 1, 1, 65536, 10, {})
    return {
        number: [replace(row, measured_ns=(int(begin * 1e9), int(end * 1e9)))]
        for number, (begin, end) in enumerate(spans, 1)
    }


def test_a_row_without_a_time_is_no_proof() -> None:
    rows = {number: [Record("sharing", "Copy", 1, 1, 8, 10, {})] for number in (1, 2)}
    [sentence] = proof.check_overlap(rows)
    assert "for 0% of what" in sentence


# Ratios.


def sample(
    how: str, *values: float | None, quantity: str = "bandwidth_mb_per_s", program: int = 1
) -> Sample:
    variant = side_by_side.variant(2, program, how)
    return Sample("sharing", "Copy", "sharing", 1, 1, variant, 8, 5, quantity, values)


@pytest.mark.parametrize(
    ("spans", "said"),
    [
        (((0, 1), (0.1, 1.1)), ""),
        (((0, 1), (0.05, 0.95)), ""),
        (((5, 6),), ""),
        (((7, 8), (8.5, 9.5)), "for 0% of what program 1 was measured for"),
        # The second ended long before the first, which had the node for itself from then on.
        (((0, 10), (0, 5)), "for 50% of what program 1 was measured for"),
        (((0, 1), (0, 1), (0.5, 1.5)), "for 50% of what program 1 was measured for"),
    ],
)
def test_only_programs_that_ran_at_the_same_time_are_proven(
    spans: tuple[tuple[float, float], ...], said: str
) -> None:
    found = proof.check_overlap(measured(*spans))
    assert [said in sentence for sentence in found] == ([True] if said else [])


def test_half_a_throughput_is_half_and_so_is_twice_a_time() -> None:
    """Each program is held against itself."""
    [half] = proof.ratios([sample("alone", 8.0, 10.0, 12.0), sample("shared", 4.0, 5.0, 12.0)])
    assert (half.quantity, half.values) == ("shared_over_alone", (0.5, 0.5, 1.0))
    assert (half.variant, half.direction) == ("programs=2,program=1", "higher")
    times = {"quantity": "t_max_us", "program": 2}
    pairs = [sample("alone", 8.0), sample("shared", 8.0)]
    pairs += [sample("alone", 3.0, **times), sample("shared", 6.0, **times)]
    assert [one.values for one in proof.ratios(pairs)] == [(1.0,), (0.5,)]


def test_a_repeat_without_both_has_no_ratio() -> None:
    [ratio] = proof.ratios([sample("alone", None, 10.0, 10.0), sample("shared", 5.0, None, 5.0)])
    assert ratio.values == (None, None, 0.5)
    assert proof.ratios([sample("alone", 1.0)]) == proof.ratios([sample("shared", 1.0)]) == []


GROUP = side_by_side.NAME
STACK = metadata.parse(DOCUMENT, Path("stack.json"))
#: Recorded outputs: program, of how many, ranks of each, how.
RECORDED = {
    "sharing-openmpi-n1-2of2.txt": (2, 2, 1, side_by_side.SHARED),
    "sharing-mpich-n2-1of1.txt": (1, 1, 2, side_by_side.ALONE),
    "sharing-intelmpi-n2-1of2.txt": (1, 2, 2, side_by_side.SHARED),
}
COPY = "sharing-openmpi-n1-2of2.txt"
RATIO = "Copy.programs4_program3.shared_over_alone.0016777216"


def planned(ranks: int, level: str = "smoke") -> catalogue.Launch:
    (launch,) = catalogue.launches(GROUP, STACK, ranks, level)
    return launch


def test_a_rank_alone_copies_and_several_communicate() -> None:
    copies = ("--seconds", "1.000", "Copy:65536,16777216")
    assert planned(1).args == copies
    assert planned(4, "nightly").args == (*copies, "Allreduce:8,65536", "Alltoall:8,65536")
    assert planned(4).args[1] == "0.333" and planned(4, "acceptance").args[1] == "3.333"


def test_each_program_has_metrics_of_its_own() -> None:
    """Any of them may have a reference."""
    pairs = [launches_of(planned(1), number, 2) for number in (1, 2)]
    names = [launch.name for pair in pairs for launch in pair]
    assert names == ["alone_1", "shared_1", "alone_2", "shared_2"]
    metrics = [metric for pair in pairs for metric in catalogue.metrics(pair)]
    assert len({metric.name for metric in metrics}) == len(metrics) == 8
    assert all(metric.gated for metric in metrics)
    fabrics = {"shm": {"transport": "shm", "scope": "node"}}
    system = {"name": "big", "partitions": [{"name": "cpu", "extras": {"fabrics": fabrics}}]}
    where = ("NodeSharing", "big:cpu", "mpich-wheels", "shm", 1, 12, "bunch")
    for name in (*(metric.name for metric in metrics), RATIO):
        assert references.fault_of_keys((*where, name), system) == ""


@pytest.mark.parametrize(
    "metric",
    [
        "Copy.bandwidth.0000065536",
        "Copy.programs2_program1.bandwidth.0000065536",
        "Copy.programs2_program1_alone.shared_over_alone.0000065536.0000065536",
        "Copy.programs2_program1.shared_over_alone.0000000008",
    ],
)
def test_a_metric_that_no_case_gives_is_refused(metric: str) -> None:
    assert references.quantity_of("NodeSharing", metric) is None


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs(name: str) -> None:
    program, programs, ranks, how = RECORDED[name]
    text = golden(name)
    alone, shared = launches_of(planned(ranks), program, programs)
    asked = alone if how == side_by_side.ALONE else shared
    records = reader.complete(reader.parse(text), asked.expected, source=name)
    assert {record.variant for record in records} == {side_by_side.variant(programs, program, how)}
    assert {record.ranks for record in records} == {ranks}
    moments = [moment for record in records for moment in record.measured_ns]
    assert moments == sorted(moments), "one after the other"


def test_the_output_of_another_program_is_no_output_of_this_one() -> None:
    records = reader.parse(golden(COPY))
    alone, shared = launches_of(planned(1), 2, 2)
    assert reader.complete(records, shared.expected) == records
    for other in (alone, *launches_of(planned(1), 1, 2), *launches_of(planned(1), 2, 3)):
        with refused_as("output-damaged"):
            reader.complete(records, other.expected)
