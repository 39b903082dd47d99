"""The cores of a node dealt to several programs: on real kinds of nodes, under each policy, and what cannot be dealt."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from listed_topologies import from_lscpu
from reframe_tests.harness.cases.sharing import shared_node
from reframe_tests.harness.machine import placement
from reframe_tests.harness.machine.topology import Topology, describe
from reframe_tests.harness.vocabulary import BadInput, NotMeasured

#: Dual hexa-core, as Cambridge had them (2011, section 3.3): neighbouring CPUs are on different sockets.
WESTMERE = Topology.from_processor(describe(2, 6, numbering="alternating"))
CONSECUTIVE = Topology.from_processor(describe(2, 6))
#: Two NUMA nodes a socket.
SNC2 = Topology.from_processor(describe(2, 8, numa_per_socket=2))
SMT = Topology.from_processor(describe(2, 4, smt=2, numbering="smt_last"))
TWO_CORES = Topology.from_processor(describe(1, 2))
NO_NUMA = from_lscpu("".join(f"{cpu},{cpu},{cpu // 4},\n" for cpu in range(8)))
TOPOLOGIES = (WESTMERE, CONSECUTIVE, SNC2, SMT, TWO_CORES, NO_NUMA)


def cpus(policy: str, programs: int, ppn: int, topology: Topology = CONSECUTIVE) -> list[tuple[int, ...]]:
    """The only CPU of each rank of each program."""
    placed = shared_node.deal(policy, programs, ppn, topology)
    assert len(placed) == programs
    for one in placed:
        assert one.ranks is not None and len(one.ranks) == one.ppn == ppn // programs
        assert all(len(rank) == 1 for rank in one.ranks)
    return [tuple(rank[0] for rank in one.ranks or ()) for one in placed]


def homes(shared: list[tuple[int, ...]], topology: Topology, part: str) -> list[list[int]]:
    """How many ranks of each program are on each socket or NUMA node that has some of it, in their order."""
    of_cpu = {unit.cpu: getattr(unit, part) for unit in topology.units}
    return [[sum(of_cpu[cpu] == home for cpu in one) for home in sorted({of_cpu[cpu] for cpu in one})] for one in shared]


@pytest.mark.parametrize(
    ("programs", "bunch", "scatter"),
    [
        (2, [(0, 1, 2, 3, 4, 5), (6, 7, 8, 9, 10, 11)], [(0, 6, 1, 7, 2, 8), (3, 9, 4, 10, 5, 11)]),
        # Six cores a socket hold one program of four and half of another.
        (3, [(0, 1, 2, 3), (6, 7, 8, 9), (4, 5, 10, 11)], [(0, 6, 1, 7), (2, 8, 3, 9), (4, 10, 5, 11)]),
        (4, [(0, 1, 2), (3, 4, 5), (6, 7, 8), (9, 10, 11)], [(0, 6, 1), (7, 2, 8), (3, 9, 4), (10, 5, 11)]),
        (6, [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11)], [(0, 6), (1, 7), (2, 8), (3, 9), (4, 10), (5, 11)]),
    ],
)
def test_twelve_cores_are_dealt_to_two_to_six_programs(
    programs: int, bunch: list[tuple[int, ...]], scatter: list[tuple[int, ...]]
) -> None:
    assert cpus("bunch", programs, 12) == bunch
    assert cpus("scatter", programs, 12) == scatter


def test_the_numbering_of_the_cores_does_not_matter() -> None:
    """Socket 0 has the even CPUs: a program of six is on all of them, and nothing follows from a number."""
    assert cpus("bunch", 2, 12, WESTMERE) == [(0, 2, 4, 6, 8, 10), (1, 3, 5, 7, 9, 11)]
    assert cpus("scatter", 6, 12, WESTMERE) == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11)]


def test_a_program_that_fits_a_socket_is_not_spread_over_two_where_cores_are_left() -> None:
    """Two programs of four on two sockets of six: in the order of the cores, the second would be on both."""
    assert cpus("bunch", 2, 8) == [(0, 1, 2, 3), (6, 7, 8, 9)]
    assert homes(cpus("scatter", 2, 8), CONSECUTIVE, "socket") == [[2, 2], [2, 2]]


def test_numa_nodes_come_before_sockets() -> None:
    assert homes(cpus("bunch", 4, 16, SNC2), SNC2, "numa") == [[4]] * 4
    # Six ranks fit no NUMA node of four, but a socket of eight.
    assert homes(cpus("bunch", 2, 12, SNC2), SNC2, "socket") == [[6], [6]]
    assert homes(cpus("scatter", 4, 16, SNC2), SNC2, "socket") == [[2, 2]] * 4
    assert homes(cpus("bunch", 2, 8, NO_NUMA), NO_NUMA, "socket") == [[4], [4]]


def test_each_rank_has_a_core_and_not_a_hardware_thread() -> None:
    dealt = [cpu for one in cpus("bunch", 4, 8, SMT) for cpu in one]
    assert sorted(dealt) == list(range(8)) and len({SMT.core_of(cpu) for cpu in dealt}) == 8


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
    dealt = [topology.core_of(cpu) for one in cpus(policy, programs, programs * ranks, topology) for cpu in one]
    assert len(dealt) == len(set(dealt)) == programs * ranks
    if policy == "scatter":
        # Each program on its own: no socket has two ranks more of it than another with as many cores.
        for one in homes(cpus(policy, programs, programs * ranks, topology), topology, "socket"):
            assert max(one) - min(one) <= 1


@pytest.mark.parametrize("policy", placement.UNLISTED)
def test_launches_that_do_not_know_of_each_other_are_told_nothing(policy: str) -> None:
    assert [one.ranks for one in shared_node.deal(policy, 3, 12, CONSECUTIVE)] == [None] * 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("bunch", 5, 12), "12 ranks of a node are not 5 programs of equal size; -P ppn=10 would do"),
        (("default", 5, 12), "12 ranks of a node are not 5 programs of equal size; -P ppn=10 would do"),
        (("bunch", 13, 12), "12 ranks of a node are not 13 programs of equal size"),
        (("scatter", 2, 1), "1 rank of a node are not 2 programs of equal size"),
        (("scatter", 2, 14), "2 programs of 7 ranks need 14 cores of their own and the node has 12"),
        (("nic_local", 2, 12), "pinning=nic_local means nothing for programs that leave no node; there are default, none, "),
    ],
)
def test_what_cannot_be_dealt_is_refused_in_a_sentence(words: tuple[str, int, int], sentence: str) -> None:
    with pytest.raises(NotMeasured) as refused:
        shared_node.deal(*words, CONSECUTIVE)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize("programs", [1, 0, -2])
def test_one_program_or_none_shares_nothing(programs: int) -> None:
    with pytest.raises(BadInput, match=rf"programs={programs} shares a node with nobody: ask for 2 or more; each is "):
        shared_node.deal("bunch", programs, 12, CONSECUTIVE)


def test_of_policies_that_deal_the_same_cores_the_first_is_measured() -> None:
    order = shared_node.POLICIES
    assert shared_node.first_equal("scatter", order, 2, 2, TWO_CORES) == "bunch"
    assert shared_node.first_equal("scatter", order, 2, 12, CONSECUTIVE) == "scatter"
    assert shared_node.first_equal("none", order, 2, 12, CONSECUTIVE) == "none", "no binding is not the stack's own"
    for policy, programs in itertools.product(order, (2, 3, 4)):
        assert shared_node.first_equal(policy, (policy,), programs, 12, CONSECUTIVE) == policy
    # Policies that mean nothing here are in a site's list all the same.
    assert shared_node.first_equal("bunch", ("nic_local", "bunch"), 2, 12, CONSECUTIVE) == "bunch"
