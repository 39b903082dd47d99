"""``python -m studies.error_rates``: what it draws, counts and prints."""

import json

import numpy as np
import pytest
from scipy import stats

from mpibench.judge import engine
from mpibench.judge.engine import RowOutcome
from studies import error_rates


def test_a_rate_is_what_counting_gives(tmp_path, monkeypatch):
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


def test_intervals_hold_as_often_as_they_say():
    count = 25
    draws = [[1.0] * hits + [0.0] * (count - hits) for hits in range(count + 1)]
    ends = [error_rates.interval(values, median=False) for values in draws]
    for share in np.linspace(0.01, 0.99, 50):
        held = [hits for hits, (_, low, high) in enumerate(ends) if low <= share <= high]
        assert stats.binom.pmf(held, count, share).sum() >= 0.95
    assert error_rates.interval([1, 1, 2, 4, np.inf], median=True) == (2, 1, np.inf)
    mean, low, high = error_rates.interval([0.4, 0.5, 0.6], median=False)
    assert (mean, low, high) == pytest.approx((0.5, 0.252, 0.748), abs=0.001)


@pytest.mark.parametrize("kind", ["t2", "disturbed", "bimodal"])
def test_nothing_hides_a_doubled_time(kind):
    noise = error_rates.made_up(kind)
    for number in range(5):
        found = error_rates.doubled_times(noise, number, np.random.default_rng(number), None)
        assert [answer for answer in found if answer[2] and "called" not in answer[1]] == []
