"""Changes of level: called where there are some, and hardly ever where there are none, whatever the noise."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from mpibench.judge.statistics import level_changes
from mpibench.judge.statistics.level_changes import LevelStep
from mpibench.judge.statistics.two_sides import Array

ROWS, WINDOW, MARGIN = 12, 30, 0.02
GROUPS = [np.arange(ROWS), np.arange(6), np.arange(6, ROWS)]


def search(series: Array, *, seed: int = 1, lasting: bool = True) -> list[LevelStep]:
    return list(level_changes.search(series, np.full(len(series), MARGIN), GROUPS, WINDOW, seed, lasting=lasting))


def noisy(nights: int, seed: int = 1, df: float = 4.0) -> Array:
    """What each night does to all series, and what it does to each."""
    rng = np.random.default_rng(seed)
    return 0.01 * (rng.standard_t(df, (1, nights)) + rng.standard_t(df, (ROWS, nights)))


def disturbed(nights: int, seed: int) -> Array:
    """One night in ten is 1.1 to 2 times as slow as a whole."""
    rng = np.random.default_rng(seed)
    return noisy(nights, seed, 30.0) + np.where(rng.random(nights) < 0.1, np.log(rng.uniform(1.1, 2.0, nights)), 0.0)


@pytest.mark.parametrize(
    "noise", [lambda seed: noisy(60, seed, 2.0), lambda seed: disturbed(60, seed)], ids=["t2", "disturbed"]
)
def test_heavy_tails_are_no_change(noise) -> None:
    """By design one order of 200 is called: of 60 draws three or more with a probability of 0.4 %."""
    assert sum(bool(search(noise(seed), seed=seed)) for seed in range(60)) <= 2


def test_a_change_that_all_share_is_one_step_with_its_size_and_the_same_each_time() -> None:
    series = noisy(66)
    series[:, 60:] += 0.1
    (step,) = search(series)
    assert step.night == 60 and step.rows.tolist() == list(range(ROWS))
    assert np.median(step.slower) == pytest.approx(0.1, abs=0.02)
    (again,) = search(series)
    assert np.array_equal(step.slower, again.slower)


def test_of_a_group_only_those_change_that_do() -> None:
    series = noisy(70, 2, 30.0) / 3
    series[6:, 60:] -= 0.1
    series[0, 55:] += 0.3
    found = {step.night: step.rows.tolist() for step in search(series)}
    assert found == {60: list(range(6, ROWS)), 55: [0]}


def test_what_came_and_went_is_told_only_where_it_is_asked_for() -> None:
    series = noisy(74, df=30.0)
    series[:, 40:50] += 0.15
    assert search(series) == []
    assert [(step.night, bool(np.median(step.slower) > 0)) for step in search(series, lasting=False)] == [
        (40, True),
        (50, False),
    ]


def test_a_change_below_the_margin_is_none() -> None:
    series = noisy(70, df=30.0) / 20
    series[:, 60:] += MARGIN / 2
    assert search(series) == []


def test_three_nights_show_nothing_where_chance_repeats_them() -> None:
    """Three of 8 nights come last in one order of 56."""
    series = noisy(8, df=30.0)
    series[:, 5:] += 1.0
    assert search(series) == []


def test_nights_that_depend_on_the_night_before_are_no_change() -> None:
    rng, called = np.random.default_rng(3), 0
    for seed in range(40):
        nights = rng.standard_normal(120)
        for night in range(1, 120):
            nights[night] = 0.5 * nights[night - 1] + np.sqrt(0.75) * nights[night]
        called += bool(search(noisy(120, seed) + 0.03 * nights, seed=seed))
    assert called <= 4


def test_nor_are_they_in_the_first_weeks_in_which_no_series_shows_it_by_itself() -> None:
    rng, called = np.random.default_rng(6), 0
    for seed in range(60):
        nights = rng.standard_normal((ROWS + 1, 30))
        for night in range(1, 30):
            nights[:, night] = 0.5 * nights[:, night - 1] + np.sqrt(0.75) * nights[:, night]
        called += bool(search(0.01 * (nights[:1] + nights[1:]), seed=seed))
    assert called <= 2


def test_nor_are_they_in_the_whole_of_a_year() -> None:
    rng, called = np.random.default_rng(5), 0
    for seed in range(8):
        nights = rng.standard_normal((ROWS + 1, 365))
        for night in range(1, 365):
            nights[:, night] = 0.5 * nights[:, night - 1] + np.sqrt(0.75) * nights[:, night]
        called += bool(search(0.01 * (nights[:1] + nights[1:]), seed=seed, lasting=False))
    assert called <= 3


@pytest.mark.parametrize("slow", [5, 6, 9])
def test_a_level_of_any_length_is_told_of_in_a_short_history(slow: int) -> None:
    series = noisy(36 + slow, df=30.0)
    series[:, 30 : 30 + slow] += 0.2
    first = search(series, lasting=False)[0]
    assert first.night == 30 and np.median(first.slower) > 0.1


def test_gaps_are_no_values_and_absent_series_and_constants_do_not_change() -> None:
    series = noisy(80, df=30.0)
    series[:, 60:] += 0.1
    series[np.random.default_rng(4).random(series.shape) < 0.3] = np.nan
    series[0], series[1] = np.nan, 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = search(series)
        for nights in range(6):
            assert search(series[:, :nights]) == []
    assert {step.night for step in found} == {60}
    assert sorted(row for step in found for row in step.rows) == list(range(2, ROWS))
