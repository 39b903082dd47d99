"""One session against a history: spreads, prediction, and how often a session is called where nothing has changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy import stats

from mpibench.judge.statistics import prediction
from mpibench.judge.statistics.two_sides import Array

Draw = Callable[[np.random.Generator, int, int], Array]


def units(values: Array) -> prediction.Units:
    """Sessions of one job each."""
    return prediction.Units(values, (~np.isnan(values)).astype(float), np.full(len(values), np.nan))


def one_kind(values: Array) -> np.ndarray:
    return np.zeros(len(values), dtype=int)


def own_kinds(values: Array) -> np.ndarray:
    """Each row a kind of its own: nothing is borrowed."""
    return np.arange(len(values))


def independent(rng: np.random.Generator, rows: int, sessions: int) -> Array:
    return 0.01 * rng.standard_normal((rows, sessions))


def heavy(rng: np.random.Generator, rows: int, sessions: int) -> Array:
    """Student's t with 3 degrees of freedom, which every row and every session has of its own."""
    return 0.006 * (rng.standard_t(3, (rows, sessions)) + rng.standard_t(3, (1, sessions)))


def disturbed(rng: np.random.Generator, rows: int, sessions: int) -> Array:
    """One session in twelve is slow as a whole."""
    return 0.01 * rng.standard_normal((rows, sessions)) + np.where(rng.random(sessions) < 1 / 12, 0.08, 0.0)


def in_step(rng: np.random.Generator, rows: int, sessions: int) -> Array:
    """All rows are the same disturbance."""
    return 0.01 * np.repeat(rng.standard_normal((1, sessions)), rows, axis=0)


def calls(draw: Draw, history: int, new: int = 1, trials: int = 100, rows: int = 20, shift: float = 0.0) -> float:
    """Share of sessions in which anything is called as worse, at a rate of 1 %."""
    rng = np.random.default_rng(11)
    found = 0
    for _ in range(trials):
        values = draw(rng, rows, history + new)
        baseline = prediction.learn(units(values[:, :history]), one_kind(values))
        effects = prediction.predict(baseline, units(values[:, history:] + shift))
        p = prediction.trusted(effects, prediction.widening(baseline, 0.01)).p_values()
        found += bool((prediction.called(p, 0.01, history) & (effects.effect > 0)).any())
    return found / trials


@pytest.mark.parametrize(
    ("draw", "history", "most"),
    [(independent, 5, 0.02), (in_step, 5, 0.02), (heavy, 5, 0.04), (independent, 15, 0.02), (heavy, 15, 0.02)],
)
def test_a_session_is_rarely_called_where_nothing_has_changed(draw: Draw, history: int, most: float) -> None:
    assert calls(draw, history) <= most


def test_whole_slow_sessions_are_known_from_a_history_that_has_them() -> None:
    """They have no Student's tail, and one in twelve would be called; the history's own sessions are the yardstick."""
    assert calls(disturbed, 120, trials=80) <= 0.025


@pytest.mark.parametrize(("history", "new", "shift"), [(15, 1, 0.06), (15, 3, 0.04), (5, 1, 0.25)])
def test_a_slowdown_of_all_rows_is_found(history: int, new: int, shift: float) -> None:
    assert calls(independent, history, new, trials=30, shift=shift) >= 0.95


@pytest.mark.parametrize(("history", "new"), [(5, 1), (15, 3)])
def test_intervals_hold_the_truth_as_often_as_they_say(history: int, new: int) -> None:
    rng = np.random.default_rng(12)
    inside = []
    for _ in range(150):
        values = independent(rng, 30, history + new)
        baseline = prediction.learn(units(values[:, :history]), one_kind(values))
        low, high = prediction.predict(baseline, units(values[:, history:])).interval(0.95)
        inside.append(np.mean((low <= 0) & (high >= 0)))
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)


def test_an_odd_session_among_the_new_ones_is_no_change() -> None:
    """A history of five may have none; the candidate itself shows that there are some."""
    values = independent(np.random.default_rng(3), 20, 8)
    baseline = prediction.learn(units(values[:, :5]), one_kind(values))
    odd = values[:, 5:] + np.array([0.0, 0.3, 0.0])
    effects = prediction.predict(baseline, units(odd))
    assert (prediction.trusted(effects).p_values() > 0.1).all()
    low, high = effects.interval(0.95)
    assert ((low < 0) & (high > 0)).all()
    alike = prediction.predict(baseline, units(values[:, 5:] + 0.1))
    assert (prediction.trusted(alike).p_values() < 0.001).all()


def test_one_row_is_predicted_as_textbooks_do() -> None:
    values = np.array([[1.0, 2.0, 4.0, 7.0, 11.0, 12.0]])
    baseline = prediction.learn(units(values[:, :5]), own_kinds(values))
    effects = prediction.predict(baseline, units(values[:, 5:]))
    error = np.std(values[0, :5], ddof=1) * np.sqrt(1 + 1 / 5)
    assert effects.effect == pytest.approx([7.0])
    assert effects.error == pytest.approx([error])
    assert effects.interval(0.95)[0] == pytest.approx([7.0 - stats.t.ppf(0.975, 4) * error])


def test_each_session_is_left_out_as_if_it_had_not_been_there() -> None:
    values = np.random.default_rng(3).normal(size=(6, 9))
    values[2, 4] = np.nan
    t, df = prediction.left_out(prediction.learn(units(values), own_kinds(values)))
    for session in range(9):
        others = prediction.learn(units(np.delete(values, session, axis=1)), own_kinds(values))
        effects = prediction.predict(others, units(values[:, [session]]))
        assert t[:, session] == pytest.approx(effects.effect / effects.error, nan_ok=True)
        known = np.isfinite(t[:, session])
        assert df[known, 0] == pytest.approx(effects.df[known])


def test_rows_that_move_together_are_worth_one() -> None:
    rng = np.random.default_rng(4)
    assert prediction.effective_rows(in_step(rng, 50, 20)) == pytest.approx(1)
    assert prediction.effective_rows(independent(rng, 50, 20)) > 25
    half = np.concatenate([in_step(rng, 25, 200), in_step(rng, 25, 200)])
    assert prediction.effective_rows(half) == pytest.approx(2, abs=0.1)
    together = prediction.learn(units(in_step(rng, 50, 20)), one_kind(np.zeros((50, 1))))
    assert together.df == pytest.approx(19), "one's spread says nothing new of the others'"


def test_spreads_are_moderated_within_a_kind_only() -> None:
    rng = np.random.default_rng(5)
    values = np.concatenate([0.01 * rng.standard_normal((30, 8)), 0.5 * rng.standard_normal((30, 8))])
    baseline = prediction.learn(units(values), np.repeat([0, 1], 30))
    assert (baseline.df > 7).all()
    assert np.ptp(np.log(baseline.variance[:30])) < np.ptp(np.log(values[:30].var(axis=1, ddof=1)))
    assert np.sqrt(baseline.common[[0, -1]]) == pytest.approx([0.01, 0.5], rel=0.15)


def test_squeezed_variances_lie_between_their_own_and_the_common_one() -> None:
    variance, df = np.array([1.0, 2.0, 4.0, 8.0, np.nan]), np.array([4.0, 4.0, 4.0, 4.0, 0.0])
    moderated, more, borrowed, common = prediction.squeeze(variance, df, independent=3)
    assert 0 < borrowed <= 8
    assert moderated[:4] == pytest.approx((borrowed * common + 4 * variance[:4]) / (borrowed + 4))
    assert more == pytest.approx([*[4 + borrowed] * 4, 0])
    assert np.isnan(moderated[4])


def test_jobs_of_one_night_are_one_unit() -> None:
    jobs = np.array([[1.0, 3.0, 10.0, np.nan], [2.0, np.nan, np.nan, 5.0]])
    found = prediction.by_session(jobs, ["a", "a", "b", "b"], ["a", "b", "c"])
    assert found.values == pytest.approx(np.array([[2, 10, np.nan], [2, 5, np.nan]]), nan_ok=True)
    assert found.jobs.tolist() == [[2, 1, 0], [1, 1, 0]]
    assert found.within == pytest.approx([2.0, np.nan], nan_ok=True)
    assert found.count.tolist() == [2, 2]


def test_a_night_of_fewer_jobs_is_less_certain() -> None:
    rng = np.random.default_rng(6)
    nights = np.repeat(0.01 * rng.standard_normal((20, 10)), 4, axis=1) + 0.04 * rng.standard_normal((20, 40))
    baseline = prediction.learn(prediction.by_session(nights, list(np.repeat(range(10), 4))), one_kind(nights))
    four = prediction.predict(baseline, prediction.by_session(nights[:, :4], [0] * 4))
    one = prediction.predict(baseline, prediction.by_session(nights[:, :1], [0]))
    assert (one.error > four.error).all()
    assert one.error**2 - four.error**2 == pytest.approx(0.75 * baseline.units.within)


def test_what_cannot_be_judged_is_not_called() -> None:
    nothing = np.full((3, 6), np.nan)
    single = np.concatenate([np.ones((3, 1)), nothing[:, 1:]], axis=1)
    for history in (nothing, single):
        baseline = prediction.learn(units(history), one_kind(history))
        effects = prediction.predict(baseline, units(np.full((3, 1), 9.0)))
        assert (effects.p_values() == 1).all()
        assert prediction.widening(baseline, 0.01) == 1
    assert prediction.called(np.zeros(0), 0.01, 6).tolist() == []


def test_constant_values_are_rounded_ones_and_no_certainty() -> None:
    constant = np.zeros((5, 12))
    baseline = prediction.learn(units(constant), one_kind(constant))
    for shift, found in ((0.0, False), (0.001, False), (0.05, True)):
        effects = prediction.predict(baseline, units(np.full((5, 1), shift)))
        assert prediction.called(prediction.trusted(effects).p_values(), 0.01, 12).any() == found


def test_gaps_and_young_rows_have_fewer_degrees_of_freedom() -> None:
    values = np.random.default_rng(7).normal(size=(4, 12))
    values[1, ::2] = np.nan
    values[2, :11] = np.nan
    baseline = prediction.learn(units(values), own_kinds(values))
    assert baseline.df.tolist() == [11, 5, 0, 11]
    assert np.isfinite(baseline.location).all()
    assert prediction.widening(baseline, 0.01) >= 1


def test_the_most_unusual_session_of_the_history_widens_errors() -> None:
    values = 0.01 * np.random.default_rng(8).standard_normal((40, 15))
    quiet = prediction.widening(prediction.learn(units(values), own_kinds(values)), 0.01)
    values[:20, 7] += 0.12
    baseline = prediction.learn(units(values), own_kinds(values))
    factor = prediction.widening(baseline, 0.01)
    assert factor > quiet
    trusted = prediction.MOST_TRUSTED
    t, df = prediction.left_out(baseline)
    least = min(
        prediction.smallest_adjusted(column) for column in (2 * stats.t.sf(np.abs(t) / factor, np.minimum(df, trusted))).T
    )
    assert least >= 1 / 16


def plain_widening(baseline: prediction.Baseline, rate: float) -> float:
    """The same factor with the p-values of all rows at each step."""
    t, df = prediction.left_out(baseline)
    sessions = np.flatnonzero(np.isfinite(t).any(axis=0))
    count = len(sessions)
    if count < prediction.FEWEST_CALIBRATED:
        return 1.0
    rank = max(1, math.floor(rate * (count + 1) + 1e-9))

    def holds(factor: float) -> bool:
        p = 2 * stats.t.sf(np.abs(t[:, sessions]) / factor, np.minimum(df, prediction.MOST_TRUSTED))
        return sorted(prediction.smallest_adjusted(column) for column in p.T)[rank - 1] >= max(rate, 1 / (count + 1))

    low = high = 1.0
    while not holds(high):
        if high >= prediction.MOST_WIDENED:
            return prediction.MOST_WIDENED
        low, high = high, 2 * high
    for _ in range(prediction.WIDENING_STEPS if high > 1 else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def odd_histories() -> Iterator[Array]:
    """Heavy tails, gaps, constant and empty rows, wild values; few rows and more than one product of matrices holds."""
    for seed, (rows, sessions) in enumerate([(3, 6), (40, 15), (700, 30), (2000, 8), (5, 120), (600, 25)] * 4):
        rng = np.random.default_rng(seed)
        values = 0.01 * rng.standard_t(2, (rows, sessions)) + 0.01 * rng.standard_t(3, sessions) * (seed % 2)
        values[rng.random(values.shape) < 0.1 * (seed % 3)] = np.nan
        values[0] = 1.0
        values[1] = np.nan
        values[-1, 0] = 1e3
        yield values


def test_errors_are_widened_as_if_all_rows_were_looked_at_each_time() -> None:
    factors = []
    for values in odd_histories():
        for kinds in (one_kind(values), np.arange(len(values)) % 3):
            baseline = prediction.learn(units(values), kinds)
            for rate in (0.01, 0.1):
                factors.append(prediction.widening(baseline, rate))
                assert factors[-1] == plain_widening(baseline, rate)
    assert len(set(factors)) > 10, "no trivial ones"


def test_effective_rows_are_those_of_all_pairs() -> None:
    """Of rows without gaps, by their correlations themselves."""
    for seed, (rows, sessions) in enumerate([(2, 3), (40, 15), (700, 30), (5, 120), (900, 20)]):
        rng = np.random.default_rng(seed)
        values = rng.standard_normal((rows, sessions)) + rng.standard_normal(sessions)
        r2 = np.corrcoef(values) ** 2
        chance = 1 / (sessions - 1)
        true = min(max(((r2.sum() - rows) / (rows * (rows - 1)) - chance) / (1 - chance), 0.0), 1.0)
        constant = np.ones((3, sessions))
        assert prediction.effective_rows(np.vstack([values, constant])) == pytest.approx(
            rows / (1 + (rows - 1) * true), rel=1e-9
        )


def test_few_sessions_are_judged_for_any_dependence() -> None:
    p = np.array([0.002, *[0.5] * 9])
    assert stats.false_discovery_control(p)[0] == pytest.approx(0.02)
    assert prediction.called(p, 0.02, prediction.FEWEST_CALIBRATED).tolist() == [True, *[False] * 9]
    assert not prediction.called(p, 0.02, prediction.FEWEST_SESSIONS).any()
