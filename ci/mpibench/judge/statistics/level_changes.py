"""Changes of level in many series at once, called rarely where there are none, whatever the noise.

Series of a night share its disturbances, and noise has heavy tails, so that no formula says how large the largest of all
differences is where nothing has changed. The nights themselves do: they are put into another order, all series of a night
together, and searched again. A change is called that is larger than everything in :data:`ORDERS` other orders (a permutation
test of the largest statistic: Westfall and Young 1993, Resampling-Based Multiple Testing, section 2.3). That holds for all
series together, and where there are too few nights nothing is called, as the order itself then comes again.

Looked at are steps: nights from one on against the nights before it. Values count in deviations (median absolute ones) from the
median of their series, at most :data:`MOST_DEVIATION`, so that one wild night is no change. Beside each series stand sums of
series, in which a change that all share shows sooner.

Nights in another order are alike only where no night depends on the one before. Where it does, a step is taken to be smaller by
the factor by which a mean of so dependent nights is less certain, sqrt((1 - r) / (1 + r)) with the correlation r of neighbours
beside the step (of first order: Bartlett 1935, doi:10.2307/2342284). This part is no exact test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from . import two_sides
from .two_sides import Array

#: Other orders of the nights; one of so many and the true one is larger than all others by chance: one night in 200. With more
#: of them three slow nights come together again in some order, and are not seen before they are more.
ORDERS = 199
#: Fewest nights of each level.
FEWEST = 3
#: Fewest nights: :data:`FEWEST` of them can come last in more ways (286) than there are :data:`ORDERS`.
FEWEST_NIGHTS = 13
#: A wild value counts as this many deviations at most.
MOST_DEVIATION = 4.0
#: Nights after a step that are taken together, where it may have passed. In other orders a part of a level comes together far
#: more often than all of it, so there is a length for most of any level.
LENGTHS = (3, 4, 5, 6, 8, 10, 13, 18, 24, 30)
#: Nights that are put into other orders.
MOST_NIGHTS = 74
#: A row of a group takes part in its change where its own step is this many deviations.
LEAST_SHOWN = 2.0
#: Correlations of n independent neighbours are below this over the root of n, all but one in 40 (Bartlett). The median of all
#: rows, which few nights show better than a row does, counts for each from half of it on.
BY_CHANCE = 2.0
#: How often what was found is taken out and the rest searched again.
MOST_ROUNDS = 20
#: Standard deviations in the median absolute deviation of a normal distribution.
_MAD_TO_DEVIATION = 1.4826
Rows = NDArray[np.int_]


@dataclass(frozen=True)
class LevelStep:
    """A change of level.

    :param rows: series that changed.
    :param night: column of the first night after it.
    :param slower: of each row, later level minus earlier one.
    """

    rows: Rows
    night: int
    slower: Array


@dataclass(frozen=True)
class Steps:
    """All steps of some nights that are looked at.

    :param begin: of each step, first night of the earlier level; ``at``: of the later one; ``end``: first night after that.
    :param weights: the difference of the two means as a sum over nights, of variance 1, shape (nights, steps).
    """

    begin: Rows
    at: Rows
    end: Rows
    weights: NDArray[np.float32]

    @classmethod
    @cache
    def of(cls, nights: int, window: int, *, lasting: bool) -> Steps:
        """Steps of so many nights.

        :param window: nights of the earlier level at most.
        :param lasting: the later level reaches to the last night.
        """
        starts = range(FEWEST, nights - FEWEST + 1)
        ends = {at: {nights} if lasting else {min(at + length, nights) for length in LENGTHS} for at in starts}
        places = [(max(0, at - window), at, end) for at in starts for end in sorted(ends[at])]
        begin, at, end = np.array(places, dtype=int).reshape(-1, 3).T
        night = np.arange(nights)[:, None]
        before, after = (night >= begin) & (night < at), (night >= at) & (night < end)
        weights = after / (end - at) - before / (at - begin)
        return cls(begin, at, end, (weights / np.sqrt((weights**2).sum(axis=0))).astype(np.float32))


def scaled(series: Array, *, lasting: bool) -> NDArray[np.float32]:
    """Distance of each value from its row's median in deviations, bounded; 0 where there is none.

    Rows with gaps are enlarged, so that all vary as much.

    :param lasting: deviations are those of the values, which do not depend on their order; else those of differences between
        neighbours, as in a long series changes of level are no deviations.
    """
    count = (~np.isnan(series)).sum(axis=1)
    away = series - _medians(series, count)[:, None]
    spread = _MAD_TO_DEVIATION * _medians(np.abs(away), count)
    if not lasting:
        steps = np.abs(np.diff(series, axis=1))
        known = (~np.isnan(steps)).sum(axis=1)
        # Of two values, hence the root.
        spread = np.where(known >= FEWEST, _MAD_TO_DEVIATION * _medians(steps, known) / np.sqrt(2), spread)
    away = np.clip(away / np.maximum(spread, two_sides.LEAST_SPREAD)[:, None], -MOST_DEVIATION, MOST_DEVIATION)
    gaps = np.sqrt(series.shape[1] / np.maximum(count, 1))
    return (np.nan_to_num(away) * gaps[:, None]).astype(np.float32)


def _medians(values: Array, count: Rows) -> Array:
    """Median of the known values of each row."""
    ordered, row = np.sort(values, axis=1), np.arange(len(values))  # NaN last
    middle: Array = (
        ordered[row, np.maximum(count - 1, 0) // 2] + ordered[row, np.minimum(count // 2, values.shape[1] - 1)]
    ) / 2
    return middle


def _with_sums(series: Array, groups: Sequence[Rows], *, lasting: bool) -> NDArray[np.float32]:
    """Sums of groups of rows, then the rows, each as :func:`scaled`."""
    own = scaled(series, lasting=lasting)
    known = np.where(np.isnan(series), np.float32(0), np.float32(1))
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = [own[rows].sum(axis=0) / np.sqrt(known[rows].sum(axis=0)) for rows in groups]
    wide = np.array(sums, dtype=float).reshape(-1, series.shape[1])
    return np.concatenate([scaled(wide, lasting=lasting), own])


def _dependence(values: NDArray[np.float32], steps: Steps, best: Rows, *, lasting: bool) -> Array:
    """Factor of each row: how much less a mean of its nights is certain than one of independent nights.

    :param best: step of each row, which is taken out first.
    :param lasting: all nights tell; else those of the step, as there may be others.
    """
    night = np.arange(values.shape[1])
    begin, at, end = (field[best][:, None] for field in (steps.begin, steps.at, steps.end))
    after = (night >= at) & (night < end)
    before = (night < at) if lasting else (night >= begin) & (night < at)
    rest = np.zeros(values.shape)
    for part in (before, after):
        rest += part * (values - (values * part).sum(axis=1, keepdims=True) / part.sum(axis=1, keepdims=True))
    squares, count = np.maximum((rest**2).sum(axis=1), 1e-9), (before | after).sum(axis=1)
    # The mean of so few nights makes neighbours look alike by less than they are.
    correlation = np.minimum((rest[:, 1:] * rest[:, :-1]).sum(axis=1) / squares + 1 / count, 0.95)
    typical = float(np.median(correlation)) if lasting else 0.0
    correlation = np.where(correlation > BY_CHANCE / np.sqrt(count), correlation, 0.0)
    if typical > BY_CHANCE / 2 / np.sqrt(values.shape[1]):
        correlation = np.fmax(correlation, typical)
    if not lasting and values.shape[1] > 2 * MOST_NIGHTS:
        # A step of few nights does not show it; two nights apart values differ by 1 + r as much as one night apart, wherever
        # the level changed between.
        one, two = (((values[:, apart:] - values[:, :-apart]) ** 2).mean(axis=1) for apart in (1, 2))
        throughout = np.clip(two / np.maximum(one, 1e-9) - 1, 0.0, 0.95)
        correlation = np.fmax(correlation, np.where(throughout > BY_CHANCE / np.sqrt(values.shape[1]), throughout, 0.0))
    factor: Array = np.sqrt((1 - correlation) / (1 + correlation))
    return factor


@dataclass
class _Orders:
    """The largest step in other orders of the nights, made as far as they are asked for."""

    values: NDArray[np.float32]
    window: int
    lasting: bool
    rng: np.random.Generator
    largest: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        nights = self.values.shape[1]
        self.count = nights if self.lasting else min(nights, MOST_NIGHTS)
        self.weights = Steps.of(self.count, self.window, lasting=self.lasting).weights

    @property
    def limit(self) -> float:
        """What is larger than all steps of the orders made so far, rounding aside."""
        return max(self.largest, default=0.0) + 1e-4

    def all_smaller(self, size: float) -> bool:
        """Whether no order has a step as large as this."""
        while self.limit < size and len(self.largest) < ORDERS:
            order = self.rng.permutation(self.values.shape[1])[: self.count]
            self.largest.append(float(np.abs(self.values[:, order] @ self.weights).max()))
        return self.limit < size


def search(
    series: Array, margins: Array, groups: Sequence[Rows], window: int, seed: int, *, lasting: bool = True
) -> Iterator[LevelStep]:
    """Changes of level, the clearest first.

    :param series: shape (rows, nights), NaN where a night lacks it.
    :param margins: change of each row below which it is none.
    :param groups: rows that may change together; each row stands for itself besides.
    :param window: nights of a level at most.
    :param seed: of the other orders, so that the same question has the same answer.
    :param lasting: only what is still there in the last nights; else also what came and went.
    """
    steps = Steps.of(series.shape[1], window, lasting=lasting)
    if not len(steps.at) or not len(series):
        return
    rows = [*groups, *np.arange(len(series))[:, None]]
    rest, open_ = series.copy(), np.ones(len(rows), dtype=bool)
    orders = _Orders(_with_sums(series, groups, lasting=lasting), window, lasting, np.random.default_rng(seed))
    for _ in range(MOST_ROUNDS):
        values = _with_sums(rest, groups, lasting=lasting)
        differences = values @ steps.weights
        best = np.abs(differences).argmax(axis=1)
        way = np.take_along_axis(differences, best[:, None], axis=1)[:, 0]
        size = np.abs(way) * _dependence(values, steps, best, lasting=lasting) * open_
        taken = np.zeros(len(series), dtype=bool)
        if not orders.all_smaller(float(size.max())):
            return
        # The widest groups stand first.
        for place in np.flatnonzero(size > orders.limit):
            own = rows[place]
            if taken[own].any():
                continue
            begin, at, end = (int(field[best[place]]) for field in (steps.begin, steps.at, steps.end))
            later, earlier = (two_sides.describe(part).location for part in (rest[own, at:end], rest[own, begin:at]))
            slower = np.nan_to_num(later - earlier)
            shown = differences[len(groups) + own, best[place]] * np.sign(way[place])
            changed = (shown > LEAST_SHOWN) & (slower * np.sign(way[place]) >= margins[own])
            if lasting:
                changed &= _is_there(rest[own], earlier, slower)
            if changed.any():
                yield LevelStep(own[changed], at, slower[changed])
            else:
                open_[place] = False
            rest[own, at:] -= slower[:, None]
            taken[own] = True


def _is_there(series: Array, earlier: Array, slower: Array) -> NDArray[np.bool_]:
    """Whether the last :data:`FEWEST` known nights of each row are nearer to its later level than to the earlier one."""
    known_last = np.argsort(~np.isnan(series), axis=1, kind="stable")
    now = two_sides.describe(np.take_along_axis(series, known_last[:, -FEWEST:], axis=1)).location
    with np.errstate(invalid="ignore"):
        there: NDArray[np.bool_] = (now - earlier) * np.sign(slower) > np.abs(slower) / 2
    return there
