"""The statistics: against scipy, on known distributions, and what they must never do."""

import numpy as np
import pytest
from scipy import stats

from mpibench.judge import engine


def test_location_and_error_are_yuens():
    rng = np.random.default_rng(3)
    left = rng.standard_t(3, (40, 9))
    right = rng.standard_t(3, (40, 7)) + 0.5
    one = engine.describe(left)
    two = engine.describe(right)
    theirs = stats.ttest_ind(left, right, axis=1, equal_var=False, trim=0.2)
    error = np.sqrt(one.squared_error() + two.squared_error())
    assert (one.location - two.location) / error == pytest.approx(theirs.statistic)


@pytest.mark.parametrize("heavy", [False, True])
def test_intervals_hold_what_they_promise(heavy):
    rng = np.random.default_rng(6)
    draw = (lambda shape: rng.standard_t(3, shape)) if heavy else rng.standard_normal
    effects = engine.compare(0.02 * draw((3600, 3)), 0.02 * draw((3600, 3)))
    low, high = effects.interval(0.95)
    assert 0.93 <= np.mean((low <= 0) & (high >= 0)) <= 0.985


def test_few_false_discoveries_and_real_ones_are_found():
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
