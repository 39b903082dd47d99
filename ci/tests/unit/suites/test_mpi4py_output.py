"""Outputs of mpi4py.bench pingpong: values and units of complete ones, refusal of the others."""

from __future__ import annotations

import re

import pytest

from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.catalogue import Expected
from reframe_tests.harness.suites.records import OutputError
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


def test_programs_of_one_rank_each_are_refused():
    refuse(golden("mpi4py-pingpong-mpich-singletons.txt"), "second table", "one MPI program")


def test_the_end_must_be_asked_for():
    """A table cut between two rows looks complete; only the caller knows the sizes."""
    text = golden(MPICH)
    cut = text[: text.rindex("\n   4194304") + 1]
    records = reader.parse(cut)
    with pytest.raises(OutputError, match="lacks the size of 4194304 bytes"):
        reader.check_complete(records, [Expected("pingpong", 2, SIZES)])
    reader.check_complete(reader.parse(text), [Expected("pingpong", 2, SIZES)])
    with pytest.raises(OutputError, match="2097152 bytes, which was not asked for"):
        reader.check_complete(records, [Expected("pingpong", 2, SIZES[:-2])])
    with pytest.raises(OutputError, match="is missing"):
        reader.check_complete([], [Expected("pingpong", 2, SIZES)])


def test_a_last_row_that_is_cut():
    refuse(golden(MPICH)[:-3], "no end")


def test_a_size_that_is_missing():
    refuse(re.sub(r"^ +64 .*\n", "", golden(MPICH), flags=re.MULTILINE), "128 bytes follow 32 bytes")


def test_a_row_that_is_there_twice():
    refuse(re.sub(r"^( +64 .*\n)", r"\1\1", golden(MPICH), flags=re.MULTILINE), "64 bytes follow 64 bytes")


def test_columns_that_contradict_each_other():
    refuse(re.sub(r"^( +64 +)([0-9])", r"\g<1>9\2", golden(MPICH), flags=re.MULTILINE), "size / time")


def test_samples_that_grow():
    refuse(re.sub(r"^( +64 .*)50$", r"\g<1>60", golden(MPICH), flags=re.MULTILINE), "samples")


@pytest.mark.parametrize(("cell", "words"), [("nan", "no number"), ("-4.4e-07", "negative"), ("4.47", "not a row")])
def test_values_that_are_none(cell, words):
    refuse(re.sub(r"^( +64 .*\| )\S+", rf"\g<1>{cell}", golden(MPICH), flags=re.MULTILINE), words)


def test_another_header():
    refuse(golden(MPICH).replace("Bandwidth [MB/s]", "Bandwidth [GB/s]"), "not a header")
    refuse(golden(MPICH).replace("Samples", "Loops"), "not a header")


def test_a_table_without_rows():
    head = golden(MPICH).splitlines(keepends=True)
    refuse("".join(head[:2]), "no rows")


def test_lines_of_other_programs():
    refuse("hello from the prologue\n" + golden(MPICH), "stands before")
    refuse(golden(MPICH) + "done\n", "not a row")
