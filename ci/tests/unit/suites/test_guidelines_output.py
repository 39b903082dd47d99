"""The guidelines' instrument: what is planned, what it is asked for, and how its table is read."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from instrument_output import lines_of, sealed
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.vocabulary import NotMeasured
from studies.output_damage import golden
from synthetic_stack import DOCUMENT

GROUP = "guidelines"
STACK = metadata.parse(DOCUMENT, Path("stack.json"))
RECORDED = [
    f"guidelines-{run}-{launch}.txt"
    for run in ("mpich-n2", "intelmpi-n3", "openmpi-n3")
    for launch in ("blocks", "vectors")
]


#: The fifteen of PGMPI.
PGMPI = {
    "Gather-vs-Allgather",
    "Gather-vs-Reduce",
    "Allgather-vs-Alltoall",
    "Allgather-vs-Allreduce",
    "Allgather-vs-Gather-Bcast",
    "Scatter-vs-Bcast",
    "Bcast-vs-Scatter-Allgather",
    "Reduce-vs-Allreduce",
    "Reduce-vs-Reduce_scatter_block-Gather",
    "Allreduce-vs-Reduce-Bcast",
    "Allreduce-vs-Reduce_scatter_block-Allgather",
    "Reduce_scatter_block-vs-Reduce-Scatter",
    "Reduce_scatter-vs-Allreduce",
    "Reduce_scatter-vs-Reduce-Scatterv",
    "Scan-vs-Exscan-Reduce_local",
}


def launches(level: str = "nightly", ranks: int = 4) -> tuple[catalogue.Launch, ...]:
    return catalogue.launches(GROUP, STACK, ranks, level)


def test_what_must_be_sent_is_that_of_both() -> None:
    rows = {row.name: row for row in catalogue.rows(GROUP)}
    assert rows["Allreduce-vs-Reduce-Bcast"].traffic(1024, 4) == 2 * 4 * 1024
    assert rows["Allgather-vs-Alltoall"].traffic_between(1024, 8, 2) == 2 * 2 * 4 * 1024
    assert rows["Reduce_scatter-vs-Allreduce"].traffic_between(1024, 8, 2) == 0


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs_of_every_mpi(name: str) -> None:
    text = golden(name)
    (launch,) = [
        one
        for one in launches("smoke", ranks=int(re.search(r"-n(\d)-", name)[1]))
        if name.endswith(f"-{one.name}.txt")
    ]
    records = reader.complete(reader.parse(text), launch.expected, source=name)
    assert {tuple(record.values) for record in records} == {
        ("call_us", "mockup_us", "call_over_mockup")
    }
    assert {record.repetitions >= 2 for record in records} == {True}


def test_all_patterns_are_measured_with_monotony_and_parts() -> None:
    calls = {name.partition("-vs-")[0] for name in PGMPI}
    larger = {f"{call}-vs-larger" for call in (*calls, "Alltoall")}
    parts = {f"{call}-vs-parts" for call in ("Bcast", "Reduce", "Allreduce", "Scan")}
    planned = [item.benchmark for launch in launches() for item in launch.expected]
    assert sorted(planned) == sorted(PGMPI | larger | parts)


def test_sizes_are_four_times_apart_and_time_is_bounded() -> None:
    _, vectors = launches()
    sizes = (8, 16, 64, 256, 1024, 4096, 16384, 65536, 262144)
    assert {item.sizes for item in vectors.expected} == {sizes}
    words = f"--sizes {','.join(map(str, sizes))} --repetitions 1000 --volume-mib 256 --budget-s 20"
    assert vectors.args[:8] == tuple(words.split())
    assert vectors.words(STACK)[:2] == ["/bin/true", str(catalogue.SUITES[GROUP].script.path)]
    # Four times the largest block of all ranks together fits into
    # the buffers a benchmark is allowed.
    (blocks, _) = launches(ranks=1024)
    assert blocks.expected[0].sizes[-1] * 4 * 1024 <= 128 << 20
    with pytest.raises(NotMeasured, match=r"has no mpi4py\.bench"):
        catalogue.launches(GROUP, replace(STACK, commands={}), 4, "smoke")


def test_values_are_those_printed() -> None:
    values = {"call_us": 12.5, "mockup_us": 10.0, "call_over_mockup": 1.25}
    row = {"benchmark": "Reduce-vs-Allreduce", "bytes": 4096, "repetitions": 512, **values}
    (record,) = reader.parse(sealed(lines_of(golden(RECORDED[1]))[0], [row]))
    assert record.values == values
    assert (record.suite, record.ranks) == (GROUP, 2)
    assert (record.message_bytes, record.repetitions) == (4096, 512)
