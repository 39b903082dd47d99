"""What holds of the engine whatever the nights are like: seeded random histories, and bad input."""

import warnings

import numpy as np
import pytest
from hypothesis import settings

from mpibench.judge import engine
from mpibench.judge.engine import RowOutcome

MARGIN = float(np.log(1.05))
#: Random histories that each property is asked of: few for every change, more with --all.
DRAWS = settings().max_examples


@pytest.fixture(autouse=True)
def no_warning():
    """Nothing is divided by zero and no mean is of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def rows_of(order):
    """Curves of three sizes in three bands, all of one machine, in any order."""
    numbers = list(order)
    curves = [number // 3 for number in numbers]
    bands = [number % 3 for number in numbers]
    return engine.rows_of(np.full(len(numbers), MARGIN), curves, bands, [0] * len(numbers))


def history(rng, metrics, nights, gaps=True):
    """Noise with glitches of one metric or all, drifts, level shifts and gaps."""
    values = rng.normal(0, rng.choice([0.001, 0.01, 0.05]), (metrics, nights))
    values += rng.normal(0, 0.01, nights)
    for _ in range(rng.integers(0, 6)):
        what = rng.integers(5)
        night = rng.integers(nights)
        jump = rng.choice([-1, 1]) * rng.uniform(0.1, 3)
        if what == 0:
            values[rng.integers(metrics), night] += jump
        elif what == 1:
            values[:, night] += jump
        elif what == 2:
            values += np.arange(nights) * rng.normal(0, 0.02)
        elif what == 3:
            values[:, night:] += rng.normal(0, 0.7)
        elif gaps:
            values[rng.random((metrics, nights)) < 0.3] = np.nan
    return values


def draws(least=1, gaps=True):
    """Histories with a night after them, the shortest one first."""
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        metrics = int(rng.integers(1, 13))
        nights = int(rng.integers(least, 61)) if seed else least
        yield rng, history(rng, metrics, nights + 1, gaps), rows_of(range(metrics))


def same(first, second):
    return first.outcome.tolist() == second.outcome.tolist() and np.allclose(
        first.effect, second.effect, equal_nan=True
    )


def test_a_constant_factor_changes_nothing():
    for _, values, rows in draws():
        assert same(engine.tonight(values, rows), engine.tonight(values + 7.0, rows))
        assert same(engine.lasting(values, rows), engine.lasting(values + 7.0, rows))


def test_the_order_of_metrics_does_not_matter():
    for rng, values, rows in draws():
        order = rng.permutation(len(values)).tolist()
        first = engine.tonight(values, rows).outcome[order]
        second = engine.tonight(values[order], rows_of(order)).outcome
        assert first.tolist() == second[: len(values)].tolist()


def test_a_glitch_of_one_metric_hides_no_loss_of_another():
    """Nor calls one: on quiet nights the outcome of all others stays."""
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        nights = int(rng.integers(10, 61))
        values = rng.normal(0, 0.01, (12, nights + 1))
        values[1, -1] += rng.choice([0.0, 0.5])
        glitched = values.copy()
        glitched[0, rng.integers(nights)] += rng.choice([-1, 1]) * rng.uniform(0.1, 3)
        first, second = (
            engine.tonight(one, rows_of(range(12))).outcome[1:12] for one in (values, glitched)
        )
        assert first.tolist() == second.tolist(), seed


def test_no_history_holds_a_doubled_night_or_a_tenfold_metric():
    """A night twice as slow as the median of the last five, in all
    metrics; and one metric of a usual night.
    """
    for rng, values, rows in draws():
        metrics = len(values)
        usual = np.nan_to_num(engine.medians(values[:, :-1][:, -5:]))
        night = usual + rng.normal(0, 0.01, metrics)
        values[:, -1] = night + np.log(2)
        outcomes = engine.tonight(values, rows).outcome[:metrics].tolist()
        assert RowOutcome.SLOWER in outcomes or RowOutcome.HELD not in outcomes, outcomes
        one = int(rng.integers(metrics))
        values[:, -1] = night
        values[one, -1] += np.log(10)
        assert engine.tonight(values, rows).outcome[one] not in (RowOutcome.HELD, RowOutcome.FASTER)


def test_several_sessions_are_judged_whatever_their_order():
    for rng, values, rows in draws(least=9, gaps=False):
        before = values[:, :-3]
        after = values[:, -3:]
        least = np.full(len(values), 0.01)
        first = engine.hold(before, after, rows, least)
        second = engine.hold(before - 3.0, after[:, rng.permutation(3)] - 3.0, rows, least)
        assert same(first, second) and np.allclose(first.upper, second.upper)
        assert np.allclose(first.p, second.p)
