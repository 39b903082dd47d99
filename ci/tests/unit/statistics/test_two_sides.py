"""The statistics: against scipy, on known distributions, and what they must never do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mpibench.judge.statistics import two_sides


def test_location_and_error_are_yuens() -> None:
    rng = np.random.default_rng(3)
    left, right = rng.standard_t(3, (40, 9)), rng.standard_t(3, (40, 7)) + 0.5
    effects = two_sides.contrast(two_sides.describe(right), two_sides.describe(left))
    theirs = stats.ttest_ind(left, right, axis=1, equal_var=False, trim=0.2)
    assert effects.effect / effects.error == pytest.approx(theirs.statistic)
    assert effects.p_values() == pytest.approx(theirs.pvalue)


def test_absent_units_change_nothing() -> None:
    values = np.random.default_rng(4).normal(size=(6, 5))
    padded = np.concatenate([values, np.full((6, 3), np.nan)], axis=1)
    one, two = two_sides.describe(values), two_sides.describe(padded)
    for name in ("location", "variance", "df", "count"):
        assert getattr(one, name) == pytest.approx(getattr(two, name))


def test_single_units_decide_nothing() -> None:
    effects = two_sides.compare(np.zeros((4, 1)), np.ones((4, 1)))
    assert (effects.p_values() == 1).all()
    assert not two_sides.discoveries(effects.p_values(), 0.05).any()


def test_equal_repeats_are_rounded_values_and_no_certainty() -> None:
    effects = two_sides.compare(np.zeros((4, 5)), np.full((4, 5), 0.0005))
    low, high = effects.interval(0.95)
    assert (high - low > 0.001).all()
    assert (effects.p_values() > 0.01).all()


def test_spreads_are_moderated_towards_the_common_one() -> None:
    rng = np.random.default_rng(5)
    df = np.full(4000, 4.0)
    # s² of a scaled inverse chi-square with 6 degrees of freedom around 0.01, as limma assumes.
    true = 0.01 * 6 / rng.chisquare(6, df.size)
    seen = true * rng.chisquare(4, df.size) / 4
    d0, s0 = two_sides.prior(seen, df, most=1000)
    assert d0 == pytest.approx(6, rel=0.25)
    assert s0 == pytest.approx(0.01, rel=0.1)
    assert two_sides.prior(seen, df)[0] == two_sides.MOST_BORROWED
    assert two_sides.prior(seen[:2], df[:2])[0] == 0


@pytest.mark.parametrize("repeats", [3, 5])
@pytest.mark.parametrize("heavy", [False, True])
def test_intervals_hold_what_they_promise(repeats: int, heavy: bool) -> None:
    rng = np.random.default_rng(6)
    draw = (lambda shape: rng.standard_t(3, shape)) if heavy else rng.standard_normal
    inside = []
    for _ in range(60):
        effects = two_sides.compare(0.02 * draw((60, repeats)), 0.02 * draw((60, repeats)))
        low, high = effects.interval(0.95)
        inside.append(np.mean((low <= 0) & (high >= 0)))
    assert 0.93 <= np.mean(inside) <= 0.985


def test_few_false_discoveries_and_real_ones_are_found() -> None:
    rng = np.random.default_rng(7)
    false = found = 0
    for _ in range(50):
        left, right = 0.01 * rng.standard_normal((200, 5)), 0.01 * rng.standard_normal((200, 5))
        right[:20] += 0.05
        called = two_sides.discoveries(two_sides.compare(left, right).p_values(), 0.01)
        found += called[:20].sum()
        false += called[20:].sum()
    assert found >= 0.97 * 20 * 50
    assert false <= 0.03 * found


def test_pairs_cancel_what_both_share() -> None:
    rng = np.random.default_rng(8)
    shared = 0.5 * rng.standard_normal((10, 5))
    a, b = shared + 0.005 * rng.standard_normal((10, 5)), shared + 0.03 + 0.005 * rng.standard_normal((10, 5))
    assert (two_sides.compare_pairs(b - a).p_values() < 0.01).all()
    assert (two_sides.compare(a, b).p_values() > 0.5).all()
