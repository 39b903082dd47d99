"""Changes of level: the fit is the best there is, of any series, gaps and constants included."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from mpibench.error_rates import answer, noise
from mpibench.statistics import segmentation
from mpibench.statistics.two_sides import Array
from mpibench.verdicts.policy import Policy
from mpibench.watch import drift
from studies import change_points, detection

FEWEST, PENALTY = 3, 5.0


def places(series: Array) -> list[list[int]]:
    """Columns of the first value after each change, of each row."""
    packed, columns, count = segmentation.pack(series)
    found = segmentation.split(packed, count, FEWEST, PENALTY)
    return [columns[row, np.flatnonzero(line)].tolist() for row, line in enumerate(found)]


def noisy(rows: int, nights: int, seed: int = 1) -> Array:
    return 0.02 * np.random.default_rng(seed).standard_t(4, (rows, nights))


def cheapest(values: Array) -> float:
    """Price of the best fit of one series, of all there are."""
    best = np.inf
    for count in range(len(values) // FEWEST):
        for cuts in itertools.combinations(range(FEWEST, len(values) - FEWEST + 1), count):
            best = min(best, price(values, cuts))
    return best


def price(values: Array, cuts: tuple[int, ...] | list[int]) -> float:
    ends = [0, *cuts, len(values)]
    if min(np.diff(ends)) < FEWEST:
        return np.inf
    levels = [values[start:end] for start, end in itertools.pairwise(ends)]
    return sum(float(((one - one.mean()) ** 2).sum()) for one in levels) + PENALTY * np.log(len(values)) * len(cuts)


def test_no_fit_is_better() -> None:
    series = noisy(60, 13)
    series[:30, 7:] += 0.08
    series[20:40, 3:8] -= 0.2
    packed, _, count = segmentation.pack(series)
    values = segmentation.scaled(packed, count)
    found = places(series)
    assert sum(map(bool, found)) > 30
    for row, cuts in enumerate(found):
        assert price(values[row], cuts) == pytest.approx(cheapest(values[row]))


def test_the_fit_is_that_of_ruptures() -> None:
    """``ruptures.KernelCPD(kernel="linear", min_size=3)`` 1.1.10, which prunes, on the same scaled values."""
    series = noisy(6, 60, seed=7)
    series[0, 40:] += 0.1
    series[1, 20:35] -= 0.12
    series[2, 55:] += 0.15
    series[3, 30:] += 0.02
    series[4, 10:13] += 0.3
    assert places(series) == RUPTURES


RUPTURES = [[40], [20, 35], [55], [], [10, 13], []]


def test_a_series_is_fitted_alone_whatever_stands_beside_it() -> None:
    series = noisy(300, 40)
    series[::3, 25:] += 0.1
    together = places(series)
    assert together == [places(series[row : row + 1])[0] for row in range(300)]
    assert together == places(series), "the same input gives the same answer"


def test_gaps_are_no_values() -> None:
    """A series with nights left out changes where the same series without these nights does."""
    series = noisy(40, 50)
    series[:20, 30:] += 0.12
    lost = np.random.default_rng(4).random(series.shape) < 0.2
    gapped = np.where(lost, np.nan, series)
    for row, cuts in enumerate(places(gapped)):
        known = np.flatnonzero(~lost[row])
        assert cuts == [known[place] for place in places(series[row, known][None, :])[0]]


@pytest.mark.parametrize("nights", [0, 1, 2, 3, 5])
def test_short_series_have_no_change(nights: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps = segmentation.steps(np.arange(4.0 * nights).reshape(4, nights), FEWEST, PENALTY, 30)
    assert (len(steps.row), len(steps.place), len(steps.slower), len(steps.p)) == (0, 0, 0, 0)


def test_constants_and_absent_series_have_no_change_and_a_step_of_constants_is_one() -> None:
    series = np.full((4, 20), 2.0)
    series[1] = np.nan
    series[2, 12:] = 2.1
    series[3, :15] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps = segmentation.steps(series, FEWEST, PENALTY, 30)
    assert (steps.row.tolist(), steps.place.tolist()) == ([2], [12])
    assert steps.slower == pytest.approx([0.1])
    assert steps.p[0] < 1e-6


def test_around_a_change_only_its_own_levels_are_compared() -> None:
    series = noisy(1, 90)
    series[0, 30:60] += 0.5
    series[0, 60:] += 1.5
    whole = segmentation.steps(series, FEWEST, PENALTY, 30)
    assert whole.place.tolist() == [30, 60]
    assert whole.slower == pytest.approx([0.5, 1.0], abs=0.03)
    near = segmentation.steps(series, FEWEST, PENALTY, 10)
    assert near.slower == pytest.approx([np.median(series[0, 30:40]) - np.median(series[0, 20:30]), 1.0], abs=0.06)


@pytest.mark.parametrize("method", change_points.METHODS)
def test_other_searches_can_stand_in_for_the_products(method: str) -> None:
    trace = next(one for one in noise.read_file(detection.NOISE) if one.fabric == "shm").scaled(0.005)
    found = detection.measure(
        trace, answer.with_margin(Policy(), answer.MARGIN_PERCENT), 1, splitter=change_points.METHODS[method]
    )
    assert found.called == 0
    assert found.waited["all sizes", 10.0] == [drift.FEWEST_CHANGED]
