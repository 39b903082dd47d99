"""Programs side by side: what each is started for, how its table is read, and which metrics may have a reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reframe_tests.harness.cases.sharing.shared_node import launches_of
from reframe_tests.harness.sites import references
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue, reader, side_by_side
from reframe_tests.harness.suites.benchmark import OutputError
from studies.output_damage import golden
from synthetic_stack import DOCUMENT

GROUP = side_by_side.NAME
STACK = metadata.parse(DOCUMENT, Path("stack.json"))
#: Recorded outputs: program, of how many, ranks of each, how.
RECORDED = {
    "sharing-openmpi-n1-2of2.txt": (2, 2, 1, side_by_side.SHARED),
    "sharing-mpich-n2-1of1.txt": (1, 1, 2, side_by_side.ALONE),
    "sharing-intelmpi-n2-1of2.txt": (1, 2, 2, side_by_side.SHARED),
}
COPY, ALL = "sharing-openmpi-n1-2of2.txt", "sharing-intelmpi-n2-1of2.txt"


def planned(ranks: int, level: str = "smoke") -> catalogue.Launch:
    (launch,) = catalogue.launches(GROUP, STACK, ranks, level)
    return launch


def test_a_rank_alone_copies_and_several_communicate() -> None:
    assert planned(1).args == ("--seconds", "1.000", "Copy:65536,16777216")
    assert planned(4, "nightly").args == (
        *("--seconds", "1.000", "Copy:65536,16777216", "Allreduce:8,65536", "Alltoall:8,65536"),
    )
    assert planned(4).args[1] == "0.333" and planned(4, "acceptance").args[1] == "3.333"


def test_each_program_has_metrics_of_its_own() -> None:
    pairs = [launches_of(planned(1), number, 2) for number in (1, 2)]
    assert [launch.name for pair in pairs for launch in pair] == ["alone_1", "shared_1", "alone_2", "shared_2"]
    names = [metric.name for pair in pairs for metric in catalogue.metrics(pair)]
    assert len(names) == len(set(names)) == 8
    assert names[:3:2] == [
        "Copy.programs2_program1_alone.bandwidth.0000065536",
        "Copy.programs2_program1_shared.bandwidth.0000065536",
    ]
    assert all(metric.gated for pair in pairs for metric in catalogue.metrics(pair))


@pytest.mark.parametrize(
    "metric",
    [
        "Copy.programs2_program1_alone.bandwidth.0000065536",
        "Allreduce.programs6_program6_shared.t_max.0000000008",
        "Copy.programs4_program3.shared_over_alone.0016777216",
    ],
)
def test_every_metric_may_have_a_reference(metric: str) -> None:
    keys = ("NodeSharing", "big:cpu", "mpich-wheels", "shm", 1, 12, "bunch", metric)
    extras = {"fabrics": {"shm": {"transport": "shm", "scope": "node"}}}
    assert references.fault_of_keys(keys, {"name": "big", "partitions": [{"name": "cpu", "extras": extras}]}) == ""


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
    asked = dict(zip((side_by_side.ALONE, side_by_side.SHARED), launches_of(planned(ranks), program, programs), strict=True))
    records = reader.complete(reader.parse(text), asked[how].expected, source=name)
    assert {record.variant for record in records} == {side_by_side.variant(programs, program, how)}
    assert {record.ranks for record in records} == {ranks}
    begins, ends = zip(*(record.measured_ns for record in records), strict=True)
    assert all(begin < end for begin, end in zip(begins, ends, strict=True))
    assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False)), "one after the other"


def test_the_output_of_another_program_is_no_output_of_this_one() -> None:
    records = reader.parse(golden(COPY))
    alone, shared = launches_of(planned(1), 2, 2)
    assert reader.complete(records, shared.expected) == records
    for other in (alone, *launches_of(planned(1), 1, 2), *launches_of(planned(1), 2, 3)):
        with pytest.raises(OutputError, match="has the variants 'programs=2,program=2,shared', asked for were"):
            reader.complete(records, other.expected)


def test_a_record_of_another_time_is_another_record() -> None:
    """Damage to the times alone is seen by the checksum, and they are part of what is compared."""
    [first, *_] = reader.parse(golden(ALL))
    assert replace(first, measured_ns=(0, 1)) != first
