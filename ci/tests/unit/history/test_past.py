"""The sessions before: found without being named, never
pooled with others, and counted in words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpibench.judge import accept, comparison
from mpibench.judge.accept import ACCEPTED, REFUSED, AcceptanceOptions
from mpibench.judge.comparison import INCONCLUSIVE, REGRESSED
from mpibench.judge.history import (
    NO_HISTORY,
    Past,
    find_history,
)
from mpibench.judge.policy import Policy
from mpibench.store.store import Store
from synthetic_verdicts import by, write_session

NIGHTS = 8


def write_nights(folder: Path, first: int = 0, count: int = NIGHTS, **options: Any) -> None:
    for number in range(first, first + count):
        write_session(folder, number, **{"noise": 0.004, **options})


def find(folder: Path, **options: Any) -> Past:
    """The history of the newest session."""
    newest = Store(folder).select("testbed", "latest")
    return find_history(Store(folder), "testbed", newest.cases, Policy(), **options)


def units(found: accept.Acceptance) -> set[str]:
    return set(found.judgement.metrics["units"])


def test_a_baseline_of_one_session_has_the_sessions_before_it(tmp_path: Path) -> None:
    write_nights(tmp_path)
    write_session(tmp_path, NIGHTS, change=by(1.04), noise=0.004)
    found = accept.decide(Store(tmp_path), "latest~1", "latest")
    assert units(found) == {comparison.SESSIONS}
    assert found.decision == REFUSED
    row = found.judgement.metrics.row(0, named=True)
    assert (row["baseline_jobs"], row["candidate_jobs"]) == (NIGHTS, 1)
    assert row["slower"] == pytest.approx(0.04, abs=0.015)
    assert any("8 sessions, 1 of them named on 8 days" in one for one in found.notes)
    alone = AcceptanceOptions(history=NO_HISTORY)
    found = accept.decide(Store(tmp_path), "latest~1", "latest", alone)
    assert found.decision == INCONCLUSIVE, "what one night alone cannot know"


def test_a_damaged_session_of_long_ago_stops_nobody(tmp_path: Path) -> None:
    write_nights(tmp_path)
    write_session(tmp_path, 50, night=2, edit=lambda row: {**row, "value": float("nan")})
    write_session(tmp_path, 99)
    found = find(tmp_path)
    assert found.strata[0].count == NIGHTS + 1
    assert any("is not used as history" in one and "nan" in one for one in found.sentences())


def test_renamed_stacks_keep_their_history(tmp_path: Path) -> None:
    write_nights(tmp_path, stacks=("old-name",))
    write_session(tmp_path, 99, stacks=("new-name",))
    renamed = AcceptanceOptions(rename={"old-name": "new-name"})
    found = accept.decide(Store(tmp_path), "latest~1", "latest", renamed)
    assert units(found) == {comparison.SESSIONS}


def test_constant_values_and_zeros_in_a_history_are_no_certainty(tmp_path: Path) -> None:
    def zero(row: dict[str, Any]) -> dict[str, Any]:
        dead = (row["benchmark"], row["message_bytes"]) == ("Uniband", 4096)
        return {**row, "value": 0.0} if dead else row

    write_nights(tmp_path, noise=0.0)
    write_nights(tmp_path, 2, 3, noise=0.0, edit=zero)
    write_session(tmp_path, NIGHTS, noise=0.0, change=by(1.001))
    found = accept.decide(Store(tmp_path), "latest~1", "latest")
    assert found.decision == ACCEPTED
    jobs = found.judgement.metrics.filter(benchmark="Uniband").sort("message_bytes")
    assert jobs["baseline_jobs"].to_list() == [NIGHTS] * 4 + [NIGHTS - 3] + [NIGHTS] * 5
    write_session(tmp_path, NIGHTS + 1, noise=0.0, change=by(1.1))
    assert accept.decide(Store(tmp_path), "latest~1", "latest").decision == REFUSED


POLICY = Policy(margins_percent={"latency_us": 2.0, "bandwidth_mb_per_s": 2.0})


def write_unsteady(folder: Path, spread: float, **options: Any) -> None:
    """Nights that differ in what all of their metrics share."""
    for number in range(NIGHTS + 1):
        drawn = np.random.default_rng(300 + number).standard_normal()
        write_session(folder, number, change=by(float(np.exp(spread * drawn))), **options)


def judged(folder: Path, baseline: str, **options: Any) -> comparison.Judgement:
    sides = [Store(folder).select("testbed", name) for name in (baseline, "latest")]
    return comparison.judge(sides[0], sides[1], POLICY, **options)


#: All sessions of :func:`write_nights` but the last.
HISTORY = "20260101:20260113"


def test_a_machine_that_changes_from_night_to_night_is_not_refused_for_it(tmp_path: Path) -> None:
    write_unsteady(tmp_path, spread=0.04)
    assert judged(tmp_path, HISTORY).verdict != REGRESSED
    alone = judged(tmp_path, "20260109:20260110")
    assert alone.verdict == INCONCLUSIVE, "what one night alone cannot know"


def test_two_stacks_are_no_history_of_one_another(tmp_path: Path) -> None:
    write_unsteady(tmp_path, spread=0.002)
    judgement = judged(tmp_path, HISTORY, asked=comparison.Question.SIDES)
    assert set(judgement.metrics["units"]) == {comparison.REPEATS}


def test_sessions_of_several_versions_or_depths_are_no_history(tmp_path: Path) -> None:
    write_unsteady(tmp_path, spread=0.002, condition={"depth": "nightly"})
    write_session(tmp_path, 2, condition={"depth": "smoke"}, mpi_version="4.1.6")
    found = accept.decide(Store(tmp_path), HISTORY, "latest")
    [said] = [one for one in found.notes if "are no one history" in one]
    assert "MPI versions 4.1.6 and 5.0.10" in said and "levels nightly and smoke" in said
