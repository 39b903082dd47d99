"""Outputs of mpi4py.bench pingpong: values and units of complete ones, refusal of the others."""

from __future__ import annotations

import re

import pytest

from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.benchmark import OutputError
from reframe_tests.harness.suites.catalogue import Expected
from refusals import refused_as
from studies.output_damage import golden

MPICH = golden("mpi4py-pingpong-mpich-n2.txt")
SIZES = tuple(1 << log for log in range(23))


def test_recorded_outputs():
    records = reader.parse(MPICH)
    reader.check_complete(records, [Expected("pingpong", 2, SIZES)])
    assert [record.repetitions for record in records] == [50] * 15 + [20] * 6 + [5] * 2
    without = reader.parse(golden("mpi4py-pingpong-mpich-n2-no-stats.txt"))
    assert [record.message_bytes for record in without] == [8 << log for log in range(8)]
    assert {tuple(record.values) for record in without} == {("bandwidth_mb_per_s",)}
    assert {record.repetitions for record in without} == {None}


def test_time_is_one_way_in_microseconds():
    (record,) = reader.parse(
        "# MPI PingPong Test\n"
        "# Size [B]  Bandwidth [MB/s] | Time Mean [s] \u00b1 StdDev [s]  Samples\n"
        "         8             17.89 | 4.4722501e-07 \u00b1 1.0669e-08       20\n"
    )
    assert record.values == {
        "bandwidth_mb_per_s": 17.89,
        "latency_us": 0.44722501,
        "latency_stddev_us": 0.010669,
    }
    assert (record.suite, record.benchmark, record.ranks) == ("mpi4py", "pingpong", 2)


def test_the_end_must_be_asked_for():
    """A table cut between two rows looks complete; only the caller knows the sizes."""
    cut = reader.parse(MPICH[: MPICH.rindex("\n   4194304") + 1])
    for records, sizes in ((cut, SIZES), (cut, SIZES[:-2]), ([], SIZES)):
        with refused_as("output-damaged"):
            reader.check_complete(records, [Expected("pingpong", 2, sizes)])


def change(pattern: str, by: str) -> str:
    changed = re.sub(pattern, by, MPICH, flags=re.MULTILINE)
    assert changed != MPICH
    return changed


MEAN = r"^( +64 .*\| )\S+"


@pytest.mark.parametrize(
    "text",
    [
        golden("mpi4py-pingpong-mpich-singletons.txt"),
        MPICH[:-3],
        change(r"^ +64 .*\n", ""),
        change(r"^( +64 .*\n)", r"\1\1"),
        change(r"^( +64 .*)50$", r"\g<1>60"),
        change(MEAN, r"\g<1>nan"),
        change(MEAN, r"\g<1>-4.4e-07"),
        change(MEAN, r"\g<1>4.47"),
        MPICH.replace("Bandwidth [MB/s]", "Bandwidth [GB/s]"),
        "".join(MPICH.splitlines(keepends=True)[:2]),
        "hello from the prologue\n" + MPICH,
        MPICH + "done\n",
    ],
)
def test_what_is_damaged_is_refused(text: str) -> None:
    with pytest.raises(OutputError, match=r"^job\.out"):
        reader.parse(text, source="job.out")
