"""The statistics: against scipy, on known distributions, and what they must never do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mpibench.judge import engine


def test_location_and_error_are_yuens() -> None:
    rng = np.random.default_rng(3)
    left = rng.standard_t(3, (40, 9))
    right = rng.standard_t(3, (40, 7)) + 0.5
    one = engine.describe(left)
    two = engine.describe(right)
    theirs = stats.ttest_ind(left, right, axis=1, equal_var=False, trim=0.2)
    error = np.sqrt(one.squared_error() + two.squared_error())
    assert (one.location - two.location) / error == pytest.approx(theirs.statistic)


def test_single_units_decide_nothing() -> None:
    effects = engine.compare(np.zeros((4, 1)), np.ones((4, 1)))
    assert (effects.p_values() == 1).all()


def test_equal_repeats_are_rounded_values_and_no_certainty() -> None:
    effects = engine.compare(np.zeros((4, 5)), np.full((4, 5), 0.0005))
    low, high = effects.interval(0.95)
    assert (high - low > 0.001).all()
    assert (effects.p_values() > 0.01).all()


def test_spreads_are_moderated_towards_the_common_one() -> None:
    rng = np.random.default_rng(5)
    alike = engine.describe(0.01 * rng.standard_normal((400, 7)))
    [drawn] = engine.moderate(alike)
    assert np.std(np.log(drawn.variance)) < 0.8 * np.std(np.log(alike.variance))
    assert (drawn.df > alike.df).all()
    few = engine.SideValues(
        *(column[:2] for column in (alike.location, alike.variance, alike.df, alike.count))
    )
    assert engine.moderate(few)[0].df == pytest.approx(few.df), "of two nothing is borrowed"


@pytest.mark.parametrize("heavy", [False, True])
def test_intervals_hold_what_they_promise(heavy: bool) -> None:
    rng = np.random.default_rng(6)
    draw = (lambda shape: rng.standard_t(3, shape)) if heavy else rng.standard_normal
    effects = engine.compare(0.02 * draw((3600, 3)), 0.02 * draw((3600, 3)))
    low, high = effects.interval(0.95)
    assert 0.93 <= np.mean((low <= 0) & (high >= 0)) <= 0.985


def test_few_false_discoveries_and_real_ones_are_found() -> None:
    rng = np.random.default_rng(7)
    false = found = 0
    for _ in range(50):
        left = 0.01 * rng.standard_normal((200, 5))
        right = 0.01 * rng.standard_normal((200, 5))
        right[:20] += 0.05
        called = engine.discoveries(engine.compare(left, right).p_values(), 0.01)
        found += called[:20].sum()
        false += called[20:].sum()
    assert found >= 0.97 * 20 * 50
    assert false <= 0.03 * found


def test_pairs_cancel_what_both_share() -> None:
    rng = np.random.default_rng(8)
    shared = 0.5 * rng.standard_normal((10, 5))
    a = shared + 0.005 * rng.standard_normal((10, 5))
    b = shared + 0.03 + 0.005 * rng.standard_normal((10, 5))
    assert (engine.compare_pairs(b - a).p_values() < 0.01).all()
    assert (engine.compare(a, b).p_values() > 0.5).all()
