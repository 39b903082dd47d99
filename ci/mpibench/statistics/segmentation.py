"""Changes of level in many series at once: the best piecewise constant fit to each.

The fit minimises the squared distances from the levels plus a price per level. It is found exactly by dynamic programming
(optimal partitioning: Jackson et al. 2005, doi:10.1109/LSP.2001.838216), one night after the other for all series together.
The pruning that makes it PELT (Killick et al. 2012, doi:10.1080/01621459.2012.737745) finds the same fit and differs from
series to series, so that nothing could be computed for all of them at once. Wild values count as :data:`MOST_DEVIATION` at
most.

Chosen on recorded noise (``studies.change_points``), 25 histories of 40 nights drawn with all they share: of the same fit to
ranks and of binary segmentation none called fewer quiet histories (all: none) or found a change in fewer nights. E-divisive
found one of several changes after five nights instead of seven, at some twenty times the cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from . import two_sides
from .two_sides import Array

#: A wild value counts as this many standard deviations at most.
MOST_DEVIATION = 8.0
#: Series fitted together, so that what each step needs stays in a processor's cache.
ROWS_AT_ONCE = 128
#: Standard deviations in the median absolute deviation of a normal distribution.
_MAD_TO_DEVIATION = 1 / NormalDist().inv_cdf(0.75)


@dataclass(frozen=True)
class Steps:
    """Changes of level of some series, by row, then by place.

    :param row: of the series.
    :param place: column of the first value after the change.
    :param slower: later level minus earlier one, around the change.
    :param p: of no difference between them (Yuen, with pooled spread).
    """

    row: NDArray[np.int_]
    place: NDArray[np.int_]
    slower: Array
    p: Array


def pack(series: Array) -> tuple[Array, NDArray[np.int_], NDArray[np.int_]]:
    """Known values of each row moved to its beginning.

    :param series: shape (rows, columns), NaN where a value is absent.
    :returns: the same with NaN at the end, the column each came from, and how many values each row has.
    """
    absent = np.isnan(series)
    columns = np.argsort(absent, axis=1, kind="stable")
    return np.take_along_axis(series, columns, axis=1), columns, (~absent).sum(axis=1)


def _medians(values: Array, count: NDArray[np.int_]) -> Array:
    """Median of the known values of each row; of packed rows or others; 0 where there is none."""
    if not values.shape[1]:
        return np.zeros(len(values))
    ordered = np.sort(values, axis=1)  # NaN last
    rows = np.arange(len(values))
    middle = (ordered[rows, np.maximum(count - 1, 0) // 2] + ordered[rows, np.minimum(count // 2, values.shape[1] - 1)]) / 2
    return np.where(count > 0, middle, 0.0)


def scaled(packed: Array, count: NDArray[np.int_]) -> Array:
    """Distance of each value from its row's median in standard deviations, bounded; 0 where there is none.

    The deviation is that of differences between neighbours, so that changes of level do not count.
    """
    steps = np.diff(packed, axis=1)
    known = np.maximum(count - 1, 0)
    distances = np.abs(steps - _medians(steps, known)[:, None])
    # sqrt(2), as a difference has the variance of two values.
    spread = _MAD_TO_DEVIATION * _medians(distances, known) / math.sqrt(2)
    away = (packed - _medians(packed, count)[:, None]) / np.maximum(spread, two_sides.LEAST_SPREAD)[:, None]
    return np.nan_to_num(np.clip(away, -MOST_DEVIATION, MOST_DEVIATION))


def split(packed: Array, count: NDArray[np.int_], fewest: int, penalty: float) -> NDArray[np.bool_]:
    """Where the level of each series changes: true at the first value after.

    :param packed: as :func:`pack` gives them, with ``count`` values in each row.
    :param fewest: values of each level.
    :param penalty: price of a level, in variances times the logarithm of the number of values.
    """
    values = scaled(packed, count)
    found = np.zeros(values.shape, dtype=bool)
    price = penalty * np.log(np.maximum(count, 1))
    for first in range(0, len(values), ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        found[part] = _fit(values[part], count[part], fewest, price[part])
    return found


def _fit(values: Array, count: NDArray[np.int_], fewest: int, price: Array) -> NDArray[np.bool_]:
    """Optimal partitioning of some rows.

    Of the values from ``s`` to ``t`` the squared distance from their mean is Q(t) - Q(s) - (S(t) - S(s))² / (t - s), with sums
    S of the values and Q of their squares; ``gain`` is the best of all fits of the first ``s`` values, less Q(s).
    """
    rows, length = values.shape
    sums = np.zeros((rows, length + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    squares = np.zeros((rows, length + 1))
    np.cumsum(values**2, axis=1, out=squares[:, 1:])
    gain = np.full((rows, length + 1), np.inf)
    gain[:, 0] = 0.0
    before = np.zeros((rows, length + 1), dtype=int)
    every = np.arange(rows)
    share = 1.0 / np.arange(length, 0, -1)  # 1 / (t - s) for s from 0, at its end
    for end in range(fewest, length + 1):
        starts = end - fewest + 1
        cost = sums[:, end, None] - sums[:, :starts]
        cost *= cost
        cost *= share[length - end : length - end + starts]
        np.subtract(gain[:, :starts], cost, out=cost)
        best = np.argmin(cost, axis=1)
        before[:, end] = best
        gain[:, end] = cost[every, best] + price
    found = np.zeros(values.shape, dtype=bool)
    place = np.where(count >= fewest, count, 0)
    while (place := before[every, place]).any():
        found[every[place > 0], place[place > 0]] = True
    return found


#: Packed series, values in each, fewest values of a level, penalty: where levels change.
Splitter = Callable[[Array, NDArray[np.int_], int, float], NDArray[np.bool_]]


def steps(series: Array, fewest: int, penalty: float, window: int, splitter: Splitter = split) -> Steps:
    """Changes of level of all series, each with its size and its p-value.

    Around a change at most ``window`` values a side are compared, and none beyond the change next to it.

    :param series: shape (rows, nights), NaN where a night lacks it; rows of fewer than two levels' values have no change.
    :param splitter: what finds the changes; others are for comparing them.
    """
    packed, columns, count = pack(series)
    row, place = np.nonzero(splitter(packed, count, fewest, penalty))
    other = row[1:] != row[:-1]
    first = np.r_[True, other] if len(row) else other
    last = np.r_[other, True] if len(row) else other
    begin = np.where(first, 0, np.r_[0, place[:-1]][: len(place)])
    end = np.where(last, count[row], np.r_[place[1:], 0][: len(place)])
    left = _around(packed, row, np.maximum(begin, place - window), place, window)
    right = _around(packed, row, place, np.minimum(end, place + window), window)
    one, two = two_sides.describe(left), two_sides.describe(right)
    # Few new nights say little of their own spread; the machine's noise is taken to be what it was.
    pooled = np.maximum((one.df * one.variance + two.df * two.variance) / (one.df + two.df), two_sides.LEAST_SPREAD**2)
    error = np.sqrt(pooled / one.count + pooled / two.count)
    effects = two_sides.Effects(two.location - one.location, error, one.df + two.df, 2 * pooled)
    return Steps(row, columns[row, place], effects.effect, effects.p_values())


def _around(packed: Array, row: NDArray[np.int_], begin: NDArray[np.int_], end: NDArray[np.int_], width: int) -> Array:
    """Values ``begin`` to ``end`` of the rows, NaN behind them, shape (changes, width)."""
    at = begin[:, None] + np.arange(width)
    inside = at < end[:, None]
    values = packed[row[:, None], np.minimum(at, packed.shape[1] - 1)] if packed.size else np.zeros(at.shape)
    return np.where(inside, values, np.nan)
