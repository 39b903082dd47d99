"""``python -m studies.error_rates``: what it draws, counts and prints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from mpibench.judge import engine
from mpibench.judge.engine import RowOutcome
from studies import error_rates
from synthetic_verdicts import write_session

FILES = [error_rates.RECORDED / f"{name}.parquet" for name in ("repeats", "another_day")]


def test_a_rate_is_what_counting_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_rates, "ASKED", (error_rates.nights_called,))
    monkeypatch.setattr(error_rates, "NIGHTS", (15,))
    words = ("--only", "t2", "--draws", "60", "--json", str(tmp_path / "rates.json"))
    assert error_rates.main([*words, "--page", str(tmp_path / "page.md")]) == 0
    rows = json.loads((tmp_path / "rates.json").read_text())
    [row] = [row for row in rows if row["asked"] == "called"]
    noise = error_rates.made_up("t2")
    called = 0
    limit = 0
    for number in range(60):
        nights = noise.drawn(16, number, np.random.default_rng([1, 0, number]))[:, :-1]
        called += RowOutcome.SLOWER in engine.tonight(nights, noise.rows).outcome
        limit += bool((nights[:, -1] > np.median(nights[:, :-1], axis=1) + np.log(1.1)).any())
    assert 0 < called < 30
    assert (row["share"], row["draws"], row["case"]) == (called / 60, 60, "15 nights before")
    assert next(one["share"] for one in rows if one["asked"] == "fixed 10 %") == limit / 60
    assert f"{round(100 * called / 60, 1):g} [" in (tmp_path / "page.md").read_text()


def test_intervals_hold_as_often_as_they_say() -> None:
    count = 25
    draws = [[1.0] * hits + [0.0] * (count - hits) for hits in range(count + 1)]
    ends = [error_rates.interval(values, median=False) for values in draws]
    for share in np.linspace(0.01, 0.99, 50):
        held = [hits for hits, (_, low, high) in enumerate(ends) if low <= share <= high]
        assert stats.binom.pmf(held, count, share).sum() >= 0.95
    assert error_rates.interval([1, 1, 2, 4, np.inf], median=True) == (2, 1, np.inf)
    mean, low, high = error_rates.interval([0.4, 0.5, 0.6], median=False)
    assert (mean, low, high) == pytest.approx((0.5, 0.252, 0.748), abs=0.001)


def test_recorded_jobs_stay_whole() -> None:
    found = {one.name: one for path in FILES for one in error_rates.read_file(path)}
    shapes = {name: one.logs.shape for name, one in found.items()}
    assert shapes == {"shm": (24, 47), "lo": (24, 47), "eth1g": (22, 20)}
    assert {one.logs.shape for one in error_rates.read_file(FILES[0])} == {(48, 80), (22, 20)}
    noises = {one.name: one for one in error_rates.recorded(found["lo"])}
    rng = np.random.default_rng(1)
    scaled = noises["lo, scaled, at random"].drawn(5000, 0, rng)
    assert error_rates.typical_spread(scaled) == pytest.approx(error_rates.SPREAD, rel=0.1)
    assert len(np.unique(scaled, axis=1).T) == 47, "whole jobs, not values"
    in_order = noises["lo, as recorded, in order"].drawn
    assert np.array_equal(in_order(30, 1, rng)[:, :-1], in_order(30, 0, rng)[:, 1:])
    assert [in_order(30, number, rng) is None for number in (16, 17)] == [False, True]


def test_student_is_welch_and_of_one_night_a_prediction() -> None:
    rng = np.random.default_rng(2)
    before = rng.normal(size=(24, 9))
    now = rng.normal(size=(24, 3)) + np.arange(24)[:, None] / 5
    welch = stats.ttest_ind(now, before, axis=1, equal_var=False, alternative="greater").pvalue
    expected = stats.false_discovery_control(welch) <= 0.01
    assert np.array_equal(error_rates.student(before, now), expected) and expected.any()
    assert not error_rates.student(np.zeros((3, 9)), np.array([[0.0], [0.0], [9.0]]))[:2].any()


@pytest.mark.parametrize("kind", ["t2", "disturbed", "bimodal"])
def test_nothing_hides_a_doubled_time(kind: str) -> None:
    noise = error_rates.made_up(kind)
    for number in range(5):
        found = error_rates.doubled_times(noise, number, np.random.default_rng(number), None)
        assert [answer for answer in found if answer[2] and "called" not in answer[1]] == []


def test_a_sites_own_nights(tmp_path: Path) -> None:
    for number in range(16):
        write_session(tmp_path, number, sizes=(8, 65536), noise=0.01)
    random, in_order = error_rates.recorded(error_rates.own_history(tmp_path, "testbed"))
    assert random.drawn(3, 0, np.random.default_rng(1)).shape == (4, 4)
    assert 0.001 < random.spread < 0.02
    assert random.rows.margins == pytest.approx(in_order.rows.margins)
