"""Outputs of mpi4py.bench pingpong: values and units of complete ones, refusal of the others."""

from __future__ import annotations

import re

import pytest

from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.benchmark import OutputError
from reframe_tests.harness.suites.catalogue import Expected
from refusals import refused_as
from studies.output_damage import golden

MPICH = "mpi4py-pingpong-mpich-n2.txt"
SIZES = tuple(1 << log for log in range(23))


def refuse(text: str, *words: str) -> None:
    with pytest.raises(OutputError) as error:
        reader.parse(text, source="job.out")
    sentence = str(error.value)
    assert sentence.startswith("job.out")
    assert sentence.endswith(".")
    for word in words:
        assert word in sentence


def test_a_recorded_output():
    records = reader.parse(golden(MPICH))
    reader.check_complete(records, [Expected("pingpong", 2, SIZES)])
    assert [record.repetitions for record in records] == [50] * 15 + [20] * 6 + [5] * 2
    assert {tuple(sorted(record.values)) for record in records} == {
        ("bandwidth_mb_per_s", "latency_stddev_us", "latency_us"),
    }


def test_time_is_one_way_in_microseconds():
    text = (
        "# MPI PingPong Test\n"
        "# Size [B]  Bandwidth [MB/s] | Time Mean [s] \u00b1 StdDev [s]  Samples\n"
        "         8             17.89 | 4.4722501e-07 \u00b1 1.0669e-08       20\n"
    )
    (record,) = reader.parse(text)
    assert record.values == {"bandwidth_mb_per_s": 17.89, "latency_us": 0.44722501, "latency_stddev_us": 0.010669}
    assert (record.suite, record.benchmark, record.ranks, record.message_bytes) == ("mpi4py", "pingpong", 2, 8)


def test_a_table_without_statistics():
    records = reader.parse(golden("mpi4py-pingpong-mpich-n2-no-stats.txt"))
    assert [record.message_bytes for record in records] == [8 << log for log in range(8)]
    assert {tuple(record.values) for record in records} == {("bandwidth_mb_per_s",)}
    assert {record.repetitions for record in records} == {None}


def test_the_end_must_be_asked_for():
    """A table cut between two rows looks complete; only the caller knows the sizes."""
    text = golden(MPICH)
    cut = text[: text.rindex("\n   4194304") + 1]
    records = reader.parse(cut)
    with refused_as("output-damaged", match="lacks the size of 4194304 bytes"):
        reader.check_complete(records, [Expected("pingpong", 2, SIZES)])
    reader.check_complete(reader.parse(text), [Expected("pingpong", 2, SIZES)])
    with refused_as("output-damaged", match="2097152 bytes, which was not asked for"):
        reader.check_complete(records, [Expected("pingpong", 2, SIZES[:-2])])
    with refused_as("output-damaged", match="is missing"):
        reader.check_complete([], [Expected("pingpong", 2, SIZES)])


def change(pattern: str, by: str) -> str:
    return re.sub(pattern, by, golden(MPICH), flags=re.MULTILINE)


#: What was done to an output -> the text, and words of the refusal.
DAMAGED = {
    "programs of one rank each": (golden("mpi4py-pingpong-mpich-singletons.txt"), "second table", "one MPI program"),
    "a last row that is cut": (golden(MPICH)[:-3], "no end"),
    "a size is missing": (change(r"^ +64 .*\n", ""), "128 bytes follow 32 bytes"),
    "a row twice": (change(r"^( +64 .*\n)", r"\1\1"), "64 bytes follow 64 bytes"),
    "samples that grow": (change(r"^( +64 .*)50$", r"\g<1>60"), "samples"),
    "nan": (change(r"^( +64 .*\| )\S+", r"\g<1>nan"), "no number"),
    "negative": (change(r"^( +64 .*\| )\S+", r"\g<1>-4.4e-07"), "negative"),
    "another form": (change(r"^( +64 .*\| )\S+", r"\g<1>4.47"), "not a row"),
    "another unit": (golden(MPICH).replace("Bandwidth [MB/s]", "Bandwidth [GB/s]"), "not a header"),
    "an unknown column": (golden(MPICH).replace("Samples", "Loops"), "not a header"),
    "no rows": ("".join(golden(MPICH).splitlines(keepends=True)[:2]), "no rows"),
    "a line above": ("hello from the prologue\n" + golden(MPICH), "stands before"),
    "a line below": (golden(MPICH) + "done\n", "not a row"),
}


@pytest.mark.parametrize(("text", "words"), [(text, words) for text, *words in DAMAGED.values()], ids=DAMAGED)
def test_what_is_damaged_is_refused(text: str, words: list[str]) -> None:
    refuse(text, *words)
