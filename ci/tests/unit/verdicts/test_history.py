"""A history of sessions as the baseline: what changes from night to night anyway is known, and a change beyond it is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mpibench.judge import accept, comparison, curve_tests
from mpibench.judge.curve_tests import REGRESSED
from mpibench.judge.policy import Policy
from mpibench.store.store import Store
from synthetic_verdicts import write_session

NIGHTS = 8
POLICY = Policy(margins_percent={"latency_us": 2.0, "bandwidth_mb_per_s": 2.0})


def night(spread: float, number: int, slower: float = 0.0) -> Callable[[str, int, str], float]:
    """What all metrics of a session share."""
    factor = float(np.exp(spread * np.random.default_rng(300 + number).standard_normal())) * (1 + slower)
    return lambda *_: factor


def write_nights(folder: Path, spread: float, slower: float = 0.0, **options: object) -> None:
    for number in range(NIGHTS):
        write_session(folder, number, change=night(spread, number), **options)
    write_session(folder, NIGHTS, change=night(spread, NIGHTS, slower), **options)


def judge(folder: Path, baseline: str, **options: bool) -> comparison.Judgement:
    sides = [Store(folder).select("testbed", name) for name in (baseline, "latest")]
    return comparison.judge(sides[0], sides[1], POLICY, **options)


#: All sessions of :func:`write_nights` but the last.
HISTORY = "20260101:20260113"


def test_a_machine_that_changes_from_night_to_night_is_not_refused_for_it(tmp_path: Path) -> None:
    write_nights(tmp_path, spread=0.04)
    against = {baseline: judge(tmp_path, baseline) for baseline in (HISTORY, "20260109:20260110")}
    assert set(against[HISTORY].metrics["units"]) == {curve_tests.SESSIONS}
    assert against[HISTORY].verdict != REGRESSED
    alone = against["20260109:20260110"]
    assert set(alone.metrics["units"]) == {curve_tests.REPEATS}
    assert alone.verdict == REGRESSED, "what one night alone cannot know"


def test_a_slower_night_is_found_against_a_quiet_history(tmp_path: Path) -> None:
    write_nights(tmp_path, spread=0.002, slower=0.05)
    judgement = judge(tmp_path, HISTORY)
    assert judgement.counts()["regressed"] == judgement.metrics.height == 21
    assert judgement.metrics["slower"].to_numpy() == pytest.approx(0.05, abs=0.015)
    row = judgement.metrics.row(5, named=True)
    assert (row["baseline_jobs"], row["candidate_jobs"]) == (NIGHTS, 1)


def test_a_history_that_is_too_wild_says_how_many_sessions_would_decide(tmp_path: Path) -> None:
    write_nights(tmp_path, spread=0.03)
    found = accept.decide(Store(tmp_path), HISTORY, "latest")
    text = " ".join(found.sentences)
    assert "sessions of the candidate would decide" in text or "a longer history may decide" in text


def test_two_stacks_are_no_history_of_one_another(tmp_path: Path) -> None:
    write_nights(tmp_path, spread=0.002)
    assert set(judge(tmp_path, HISTORY, history=False).metrics["units"]) == {curve_tests.REPEATS}


def test_sessions_of_several_versions_or_depths_are_no_history(tmp_path: Path) -> None:
    write_nights(tmp_path / "versions", spread=0.002)
    write_session(tmp_path / "versions", 2, mpi_version="4.1.6")
    write_nights(tmp_path / "depths", spread=0.002, condition={"depth": "nightly"})
    write_session(tmp_path / "depths", 2, condition={"depth": "smoke"})
    for name, said in (("versions", "MPI versions 4.1.6 and 5.0.10"), ("depths", "levels nightly and smoke")):
        found = accept.decide(Store(tmp_path / name), HISTORY, "latest")
        assert set(found.judgement.metrics["units"]) == {curve_tests.REPEATS}
        assert any("are no one history and are compared job by job" in one and said in one for one in found.notes)


def test_one_night_each_says_what_it_cannot_know(tmp_path: Path) -> None:
    for number in range(2):
        write_session(tmp_path, number)
    found = accept.decide(Store(tmp_path), "latest~1", "latest")
    (said,) = [one for one in found.notes if "from night to night" in one]
    assert said.startswith("21 metrics rest on 1 job and 1 job: ")
    assert "taken as 1 % (defaults: between_jobs_percent), where something is called at least as 2 times what" in said
    assert "so that differences below 2.8 % are no finding" in said


def test_gaps_in_a_history_are_nights_that_are_not_there(tmp_path: Path) -> None:
    """A metric that some nights lack is judged by those that have it, and one of few nights as one without a history."""
    for number in range(NIGHTS + 1):
        sizes = (8, 4096) if number in (1, 4) else (8, 4096, 1048576)
        benchmarks = {"PingPong": "latency_us"} | ({"Uniband": "bandwidth_mb_per_s"} if number > 5 else {})
        write_session(tmp_path, number, sizes=sizes, benchmarks=benchmarks, noise=0.002)
    rows = {(row["benchmark"], row["message_bytes"]): row for row in judge(tmp_path, HISTORY).metrics.to_dicts()}
    assert rows["PingPong", 1048576]["units"] == curve_tests.SESSIONS
    assert rows["PingPong", 1048576]["ratio"] == pytest.approx(1, abs=0.01)
    assert rows["Uniband", 4096]["units"] == curve_tests.REPEATS
