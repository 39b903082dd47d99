"""The guidelines' instrument: what is planned, what it is asked for, and how its table is read."""

from __future__ import annotations

import ast
import re
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.suites.records import OutputError
from reframe_tests.harness.vocabulary import NotMeasured
from studies.output_damage import golden
from synthetic_stack import DOCUMENT

GROUP = "guidelines"
STACK = metadata.parse(DOCUMENT, Path("stack.json"))
NAME = "guidelines-mpich-n2-vectors.txt"
RECORDED = [
    f"guidelines-{run}-{launch}.txt" for run in ("mpich-n2", "intelmpi-n3", "openmpi-n3") for launch in ("blocks", "vectors")
]
#: The fifteen of PGMPI.
PGMPI = {
    *("Gather-vs-Allgather", "Gather-vs-Reduce", "Allgather-vs-Alltoall", "Allgather-vs-Allreduce"),
    *("Allgather-vs-Gather-Bcast", "Scatter-vs-Bcast", "Bcast-vs-Scatter-Allgather", "Reduce-vs-Allreduce"),
    *("Reduce-vs-Reduce_scatter_block-Gather", "Allreduce-vs-Reduce-Bcast", "Allreduce-vs-Reduce_scatter_block-Allgather"),
    *("Reduce_scatter_block-vs-Reduce-Scatter", "Reduce_scatter-vs-Allreduce", "Reduce_scatter-vs-Reduce-Scatterv"),
    "Scan-vs-Exscan-Reduce_local",
}


def launches(level: str = "nightly", ranks: int = 4) -> tuple[catalogue.Launch, ...]:
    return catalogue.launches(GROUP, STACK, ranks, level)


def sealed(text: str) -> str:
    """The text with the checksum and number of rows it should have, so that only what was changed can be wrong."""
    body = text[: text.index("# end:")]
    return f"{body}# end: {len(body.splitlines()) - 4} rows, received data all right, CRC-32 {zlib.crc32(body.encode()):08x}\n"


def refuse(text: str, *words: str) -> None:
    with pytest.raises(OutputError) as error:
        reader.parse(text, source="job.out")
    sentence = str(error.value)
    assert sentence.startswith("job.out") and sentence.endswith(".")
    for word in words:
        assert word in sentence


def test_all_patterns_are_measured_with_monotony_and_parts() -> None:
    names = {row.name for row in catalogue.rows(GROUP)}
    assert {name for name in names if not name.endswith(("-larger", "-parts"))} == PGMPI
    calls = {name.partition("-vs-")[0] for name in PGMPI}
    assert {name.removesuffix("-vs-larger") for name in names if name.endswith("-larger")} == {*calls, "Alltoall"}
    assert {name for name in names if name.endswith("-parts")} == {
        f"{call}-vs-parts" for call in ("Bcast", "Reduce", "Allreduce", "Scan")
    }
    planned = [item.benchmark for launch in launches() for item in launch.expected]
    assert sorted(planned) == sorted(names)


def test_the_instrument_knows_every_guideline() -> None:
    """It runs where nothing of the project can be imported, so that names must fit by themselves."""
    path = catalogue.SUITES[GROUP].script.path
    (calls,) = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef) and node.name == "Calls"]
    methods = {node.name for node in calls.body if isinstance(node, ast.FunctionDef)}
    for row in catalogue.rows(GROUP):
        call, _, mockup = row.name.lower().partition("-vs-")
        assert call in methods
        assert mockup in ("larger", "parts") or f"{call}_by_{mockup.replace('-', '_')}" in methods


def test_sizes_are_four_times_apart_and_time_is_bounded() -> None:
    blocks, vectors = launches()
    assert {item.sizes for item in vectors.expected} == {(8, 16, 64, 256, 1024, 4096, 16384, 65536, 262144)}
    assert vectors.args[:2] == ("--sizes", "8,16,64,256,1024,4096,16384,65536,262144")
    assert vectors.args[2:8] == ("--repetitions", "1000", "--volume-mib", "256", "--budget-s", "20")
    # Four times the largest block of all ranks together fits into the buffers a benchmark is allowed.
    (blocks, _) = launches(ranks=1024)
    assert blocks.expected[0].sizes[-1] * 4 * 1024 <= 128 << 20
    assert all(item.sizes == (1024,) for launch in launches("smoke") for item in launch.expected)


def test_the_stacks_own_python_runs_the_instrument() -> None:
    (blocks, _) = launches()
    assert blocks.words(STACK)[:2] == ["/bin/true", str(catalogue.SUITES[GROUP].script.path)]
    assert catalogue.suites(GROUP) == ("mpi4py",)
    assert catalogue.stack_selection(GROUP) == ["+mpi4py"]
    with pytest.raises(NotMeasured, match=r"has no mpi4py\.bench"):
        catalogue.launches(GROUP, replace(STACK, commands={}), 4, "smoke")


def test_what_must_be_sent_is_that_of_both() -> None:
    rows = {row.name: row for row in catalogue.rows(GROUP)}
    assert rows["Allreduce-vs-Reduce-Bcast"].traffic(1024, 4) == 2 * 4 * 1024
    assert rows["Allgather-vs-Alltoall"].traffic_between(1024, 8, 2) == 2 * 2 * 4 * 1024
    assert rows["Reduce_scatter-vs-Allreduce"].traffic_between(1024, 8, 2) == 0


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs_of_every_mpi(name: str) -> None:
    text = golden(name)
    (launch,) = [
        one for one in launches("smoke", ranks=int(re.search(r"-n(\d)-", name)[1])) if name.endswith(f"-{one.name}.txt")
    ]
    records = reader.complete(reader.parse(text), launch.expected, source=name)
    assert {tuple(record.values) for record in records} == {("call_us", "mockup_us", "call_over_mockup")}
    assert {record.repetitions >= 2 for record in records} == {True}
    assert sealed(text) == text


def test_values_are_those_printed() -> None:
    line = f"{'Reduce-vs-Allreduce':<48} {4096:>10} {512:>12} {12.5:>14.3f} {10:>14.3f} {1.25:>12.6f}\n"
    head = golden(NAME).splitlines(keepends=True)[:4]
    (record,) = reader.parse(sealed("".join([*head, line, "# end:"])))
    assert record.values == {"call_us": 12.5, "mockup_us": 10.0, "call_over_mockup": 1.25}
    assert (record.suite, record.benchmark, record.ranks, record.message_bytes, record.repetitions) == (
        *(GROUP, "Reduce-vs-Allreduce", 2, 4096, 512),
    )


@pytest.mark.parametrize(
    ("pattern", "replacement", "words"),
    [
        (r"^Scan-vs-Exscan-Reduce_local", "Scan-vs-Exscan-Reduce_global", "is not a row"),
        (r"^(Bcast-vs-parts +1024 +)\d+", r"\g<1>0", "no repetitions"),
        (r"^(Bcast-vs-parts +1024 +\d+ +)\S+", r"\g<1>0.000", "a time of nothing"),
        (r"^(Bcast-vs-parts +1024 +\d+ +)\S+", r"\g<1>nan", "is not a row"),
        (r"^(Bcast-vs-parts +1024 +\d+ +)", r"\g<1>-", "is not a row"),
        (r"MPI_SUM of MPI_FLOAT", "MPI_SUM of MPI_DOUBLE", "the head of the table"),
        (r"order A B B A", "order A A B B", "the head of the table"),
        (r"mockup\[us\]", "mockup[ms]", "the head of the table"),
    ],
)
def test_lines_that_cannot_be(pattern: str, replacement: str, words: str) -> None:
    changed = re.sub(pattern, replacement, golden(NAME), count=1, flags=re.MULTILINE)
    assert changed != golden(NAME)
    refuse(sealed(changed), words)


def test_a_changed_digit_is_seen() -> None:
    """Nobody could see it but for the checksum."""
    text = golden(NAME)
    at = text.index("Bcast-vs-parts") + 80
    digit = next(place for place in range(at, len(text)) if text[place].isdigit())
    refuse(text[:digit] + str((int(text[digit]) + 1) % 10) + text[digit + 1 :], "checksum")


def test_outputs_that_are_not_whole() -> None:
    text = golden(NAME)
    refuse(text[: text.index("# end:")], "no last line")
    refuse(sealed("".join(text.splitlines(keepends=True)[:4]) + "# end:"), "no rows")
    refuse(text + text, "behind the last line")
    refuse(text.replace("received data all right", "received data 3 wrong"), "is not a row")
