"""The records of several programs joined: a core that two of them use, and programs that did not run at the same time."""

from __future__ import annotations

import pytest

from reframe_tests.harness.cases.sharing import proof
from reframe_tests.harness.evidence.rank_records import RankEvidence
from reframe_tests.harness.samples import Sample
from reframe_tests.harness.suites import side_by_side
from reframe_tests.harness.suites.benchmark import Record
from synthetic_evidence import make_rank


def identity(cpu: int) -> int:
    return cpu


def rank(number: int, cpus: str, host: str = "c1") -> RankEvidence:
    return make_rank(number, host, init__cpus=cpus, finalize__cpus=cpus)


def programs(*listed: tuple[str, ...]) -> dict[int, list[RankEvidence]]:
    """Programs by their ranks' CPUs."""
    return {number: [rank(at, cpus) for at, cpus in enumerate(one)] for number, one in enumerate(listed, 1)}


# Cores.


def test_programs_apart_are_proven() -> None:
    assert proof.check_apart(programs(("0", "1"), ("2", "3")), identity) == []
    assert proof.check_apart(programs(("0-1",), ("2-3",), ("4-5",)), identity) == []


def test_a_core_of_two_programs_is_named_with_programs_and_ranks() -> None:
    assert proof.check_apart(programs(("0", "1"), ("2", "1")), identity) == [
        "core 1 of c1 is used by program 1 (rank 1) and program 2 (rank 1): the programs are not pinned apart."
    ]
    [sentence] = proof.check_apart(programs(("0",), ("0",), ("0",)), identity)
    assert sentence.startswith("core 0 of c1 is used by program 1 (rank 0), program 2 (rank 0) and program 3 (rank 0): ")
    [sentence] = proof.check_apart(programs(("0-3", "0-3"), ("3",)), identity)
    assert sentence.startswith("core 3 of c1 is used by program 1 (ranks 0 and 1) and program 2 (rank 0): ")


def test_two_hardware_threads_of_a_core_are_one_core() -> None:
    """CPUs 0 and 16 are siblings."""
    assert proof.check_apart(programs(("0",), ("16",)), identity) == []
    [sentence] = proof.check_apart(programs(("0",), ("16",)), lambda cpu: cpu % 16)
    assert sentence.startswith("the core of CPUs 0,16 of c1 is used by program 1 (rank 0) and program 2 (rank 0): ")


def test_ranks_of_one_program_are_not_two_programs() -> None:
    """That two ranks of one program share a core is said of that program by itself."""
    assert proof.check_apart(programs(("0", "0"), ("1",)), identity) == []


def test_the_same_number_on_another_node_is_another_core() -> None:
    assert proof.check_apart({1: [rank(0, "0", "c1")], 2: [rank(0, "0", "c2")]}, identity) == []


def test_programs_on_two_nodes_share_nothing() -> None:
    apart = {1: [rank(0, "0", "c1")], 2: [rank(0, "0", "c2"), rank(1, "1", "c2")]}
    assert proof.check_node(apart) == ["the programs did not share a node: program 1 on c1, program 2 on c2."]
    assert proof.check_node(programs(("0",), ("1",))) == proof.check_node({}) == []


def test_a_program_that_moved_onto_the_others_core_is_found() -> None:
    """Only at the end of its run: the mask after MPI_Init was its own."""
    moved = make_rank(0, init__cpus="1", finalize__cpus="0")
    [sentence] = proof.check_apart({1: [rank(0, "0")], 2: [moved]}, identity)
    assert sentence.startswith("core 0 of c1 is used by program 1 (rank 0) and program 2 (rank 0)")


def test_many_shared_cores_are_counted() -> None:
    twelve = tuple(map(str, range(12)))
    sentences = proof.check_apart(programs(twelve, twelve), identity)
    assert len(sentences) == proof.MOST_NAMED + 1
    assert sentences[-1] == "8 more cores are used by several programs."


# Launches that do not know of each other.


def test_unaware_programs_on_the_same_first_core_are_the_finding() -> None:
    assert proof.describe_unaware(programs(("0",), ("0",)), identity) == (
        "the 2 programs were unaware of each other and got in each other's way: of 2 ranks at most 1 can have a core of their "
        "own (core 0 of c1 is used by program 1 (rank 0) and program 2 (rank 0))"
    )
    # Six ranks of each are pinned to the first six of twelve cores: the other six are idle.
    six = tuple(map(str, range(6)))
    said = proof.describe_unaware(programs(six, six), identity)
    assert "of 12 ranks at most 6 can have a core of their own" in said and said.endswith("; 2 more cores likewise)")


def test_unaware_programs_that_nothing_pins_are_kept_apart_by_nothing() -> None:
    assert proof.describe_unaware(programs(("0-1",), ("0-1",)), identity) == (
        "nothing keeps the 2 programs apart: 2 cores are open to several of them, enough for each of their ranks to have one "
        "if the kernel sees to it"
    )


def test_unaware_programs_may_be_lucky() -> None:
    said = proof.describe_unaware(programs(("0",), ("1",)), identity)
    assert said == "the 2 programs were unaware of each other and still had no core in common"


def test_seats_are_a_matching_and_not_a_count_of_cores() -> None:
    """Three ranks and three cores, but two of the ranks may use the same one only."""
    assert proof.seat([rank(0, "0"), rank(1, "0"), rank(2, "0-2")], identity) == 2
    assert proof.seat([rank(0, "0-1"), rank(1, "0"), rank(2, "1-2")], identity) == 3


# Time.


def measured(*spans: tuple[float, float], size: int = 65536) -> dict[int, list[Record]]:
    """One row of each program, with its begin and end in seconds."""
    return {
        number: [Record("sharing", "Copy", 1, 1, size, 10, {}, measured_ns=(int(begin * 1e9), int(end * 1e9)))]
        for number, (begin, end) in enumerate(spans, 1)
    }


@pytest.mark.parametrize("spans", [((0, 1), (0, 1)), ((0, 1), (0.1, 1.1)), ((0, 1), (0.05, 0.95)), ((5, 6),)])
def test_programs_that_ran_at_the_same_time_are_proven(spans: tuple[tuple[float, float], ...]) -> None:
    assert proof.check_overlap(measured(*spans)) == []


def test_one_after_the_other_is_no_sharing() -> None:
    assert proof.check_overlap(measured((7, 8), (8.5, 9.5))) == [
        "Copy of 65536 bytes: all programs ran at the same time for 0% of what program 1 was measured for, and 80% are asked "
        "for (program 1 from 0.000 to 1.000 s, program 2 from 1.500 to 2.500 s)."
    ]


def test_a_program_that_ran_mostly_alone_is_named() -> None:
    """The second ended long before the first, which had the node for itself from then on."""
    [sentence] = proof.check_overlap(measured((0, 10), (0, 5)))
    assert "for 50% of what program 1 was measured for" in sentence
    [sentence] = proof.check_overlap(measured((0, 1), (0, 1), (0.5, 1.5)))
    assert "for 50% of what program 1 was measured for" in sentence and "program 3 from 0.500 to 1.500 s" in sentence


def test_a_row_without_a_time_is_no_proof() -> None:
    rows = {number: [Record("sharing", "Copy", 1, 1, 8, 10, {})] for number in (1, 2)}
    [sentence] = proof.check_overlap(rows)
    assert "for 0% of what" in sentence


# Ratios.


def sample(how: str, *values: float | None, quantity: str = "bandwidth_mb_per_s", program: int = 1) -> Sample:
    variant = side_by_side.variant(2, program, how)
    return Sample("sharing", "Copy", "sharing", 1, 1, variant, 8, 5, quantity, values)


def test_half_a_throughput_is_half_and_so_is_twice_a_time() -> None:
    [half] = proof.ratios([sample("alone", 8.0, 10.0, 12.0), sample("shared", 4.0, 5.0, 12.0)])
    assert (half.quantity, half.variant, half.values) == ("shared_over_alone", "programs=2,program=1", (0.5, 0.5, 1.0))
    assert (half.unit, half.direction, half.message_bytes, half.repetitions) == ("1", "higher", 8, None)
    [slow] = proof.ratios([sample("alone", 3.0, quantity="t_max_us"), sample("shared", 6.0, quantity="t_max_us")])
    assert slow.values == (0.5,)


def test_each_program_is_held_against_itself() -> None:
    alone, shared = (
        [sample(how, value, program=number) for number, value in enumerate(values, 1)]
        for how, values in (("alone", (10.0, 20.0)), ("shared", (5.0, 20.0)))
    )
    assert {one.variant: one.values for one in proof.ratios([*alone, *shared])} == {
        "programs=2,program=1": (0.5,),
        "programs=2,program=2": (1.0,),
    }


def test_a_repeat_without_both_has_no_ratio() -> None:
    [ratio] = proof.ratios([sample("alone", None, 10.0, 10.0), sample("shared", 5.0, None, 5.0)])
    assert ratio.values == (None, None, 0.5)
    assert proof.ratios([sample("alone", 1.0)]) == proof.ratios([sample("shared", 1.0)]) == []
