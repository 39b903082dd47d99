"""Outputs of mpi4py.bench pingpong: values and units of complete ones, refusal of the others."""

import re

import pytest

from reframe_tests.harness.suites import reader
from reframe_tests.harness.suites.benchmark import OutputError
from reframe_tests.harness.suites.catalogue import Expected
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


def change(pattern, by):
    changed = re.sub(pattern, by, MPICH, flags=re.MULTILINE)
    assert changed != MPICH
    return changed


MEAN = r"^( +64 .*\| )\S+"


@pytest.mark.parametrize(
    "text",
    [
        golden("mpi4py-pingpong-mpich-singletons.txt"),
        MPICH[:-3],
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
def test_what_is_damaged_is_refused(text):
    with pytest.raises(OutputError, match=r"^job\.out"):
        reader.parse(text, source="job.out")
