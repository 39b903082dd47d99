"""Has the message size moved at which a curve switches from one protocol to the other?

An MPI sends small messages eagerly and large ones by rendezvous. Each protocol has its own cost,
close to a + b x size (Hockney 1994, doi:10.1016/S0167-8191(06)80021-9), so the curve breaks at the
switch. If the switch moves, only the sizes between its old and its new place change, and each curve
breaks at one end of them: the old one where the switch was, the new one where it is. Other causes
break one curve at both ends.

Whether a curve continues without a break is predicted from its neighbours on the far side: a
straight line in the size through the nearest :data:`NEIGHBOURS`. The quality of such predictions is
learned from all other sizes of both curves. A break of only one curve is accepted if it is likelier
by :data:`SUPPORT` in twice the logarithm ("strong": Kass and Raftery 1995,
doi:10.1080/01621459.1995.10476572). Errors follow Student's t with :data:`TAIL` degrees of freedom
(Lange, Little and Taylor 1989, doi:10.2307/2290063), because real curves have other bends. One case
cannot be distinguished: a change of sizes next to a switch that happens to give them the cost of
the other protocol.

Curves of one stack on one fabric whose switch moved between the same places are one finding: many
metrics that changed for one reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reframe_tests.harness.vocabulary import QUANTITIES

from ..store.session_values import CURVE, METRIC, among
from . import engine
from .comparison import REPEAT, matrix
from .engine import Array

#: Sizes on either side that did not change, from which the next one is predicted.
NEIGHBOURS = 2
#: Twice the logarithm of the likelihood ratio from which a place is believed, at each end.
SUPPORT = 6.0
#: Usual misses by which a prediction may be missed where a curve is said to go on without a break.
MOST_MISSED = 3.0
#: Degrees of freedom of the errors of predictions.
TAIL = 4.0
#: Least error of a prediction, in log: no cost is exactly straight.
LEAST_ERROR = 0.02
#: Standard deviations in the median absolute deviation of a normal distribution.
_MAD_TO_DEVIATION = 1.4826


@dataclass(frozen=True)
class Move:
    """A switch that moved.

    :param first: place of the first size that changed; the lower
        switch is between it and the size before.
    :param last: place of the last one; the upper switch is between it and the size after.
    :param upwards: the lower place is the baseline's.
    :param support: twice the logarithm of the likelihood ratio at both ends.
    """

    first: int
    last: int
    upwards: bool
    support: tuple[float, float]


def find_move(
    sizes: Array, baseline: Array, candidate: Array, changed: NDArray[np.bool_], margin: Array
) -> Move | None:
    """The move of a switch that explains neighbouring sizes that changed;
    ``None`` if another cause is as likely.

    What changed elsewhere on the curve has causes of its own; of several
    such runs of sizes that of most support is taken.

    :param sizes: in bytes, ascending, shape (sizes,).
    :param baseline: logarithms of times, shape (sizes, units), NaN where a
        unit lacks one; likewise ``candidate``.
    :param changed: which sizes were called.
    :param margin: change of each size, in log, below which it is none.
    """
    known = (sizes > 0) & ~np.isnan(baseline).all(axis=1) & ~np.isnan(candidate).all(axis=1)
    if not changed[known].any():
        return None
    places = np.flatnonzero(known)
    sides = [engine.describe(side[known]) for side in (baseline, candidate)]
    times = np.stack([side.location for side in sides])
    errors = np.stack([np.nan_to_num(side.squared_error()) for side in sides])
    shift = np.abs(times[1] - times[0])
    found = []
    edges = np.flatnonzero(np.diff(np.concatenate([[False], changed[known], [False]]).astype(int)))
    for first, end in edges.reshape(-1, 2).tolist():  # of each run of neighbours that changed
        last = end - 1
        neighbours = [*range(first - NEIGHBOURS, first), *range(end, end + NEIGHBOURS)]
        # There must be enough beside it on both sides that did not change.
        if (
            min(neighbours) < 0
            or max(neighbours) >= len(places)
            or changed[known][neighbours].any()
        ):
            continue
        if (shift[first:end] < margin[known][first:end]).any():
            continue
        lower, upper = (
            _lean(sizes[known], times, errors, place, side)
            for place, side in ((first, -1), (last, 1))
        )
        if min(abs(lower), abs(upper)) >= SUPPORT and lower * upper < 0:
            found.append(
                Move(int(places[first]), int(places[last]), lower > 0, (abs(lower), abs(upper)))
            )
    return max(found, key=lambda move: min(move.support), default=None)


def _lean(size: Array, times: Array, errors: Array, place: int, side: int) -> float:
    """Which curve breaks between a place and its neighbour: positive for
    the baseline, negative for the candidate.

    0 where neither goes on without a break.

    :param side: on which side of the place the neighbours lie: -1
        for smaller sizes, 1 for larger ones.
    """
    misses = np.abs(times[:, place] - _predict(size, times.mean(axis=0), np.array([place]), side))
    if not np.isfinite(misses).all():
        return 0.0
    # How far predictions miss on these curves, as a standard deviation in log.
    places = np.arange(len(size))[NEIGHBOURS:] if side < 0 else np.arange(len(size))[:-NEIGHBOURS]
    usual = np.concatenate(
        [np.abs(curve[places] - _predict(size, curve, places, side)) for curve in times]
    )
    usual = usual[np.isfinite(usual)]
    deviation = max(LEAST_ERROR, _MAD_TO_DEVIATION * float(np.median(usual)) if len(usual) else 0.0)
    missed = misses**2 / (deviation**2 + errors[:, place])
    if missed.min() > MOST_MISSED**2:
        return 0.0
    likely = np.log1p(missed / TAIL)
    return float((TAIL + 1) * (likely[0] - likely[1]))


def _predict(size: Array, times: Array, places: NDArray[np.int_], side: int) -> Array:
    """Logarithm of the time at some places on the line through their
    neighbours on one side; NaN where that is no time.
    """
    near = places + side
    far = places + NEIGHBOURS * side
    slope = (np.exp(times[far]) - np.exp(times[near])) / (size[far] - size[near])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.log(np.exp(times[near]) + slope * (size[places] - size[near]))


#: Quantities of benchmarks in which more than two ranks take part;
#: what switches there may be an algorithm.
COLLECTIVE = ("t_avg_us", "t_ovrl_us", "t_max_us")


#: A curve of which some sizes were called: a row per size, with :data:`METRIC`, ``slower`` (a
#: fraction), ``called``, ``margin`` (in log); and slowness of baseline and candidate in log, shape
#: (sizes, units), NaN where a unit lacks one.
ChangedCurve = tuple[pl.DataFrame, Array, Array]


@dataclass(frozen=True)
class MovedSwitch:
    """One cause of many changes.

    :param old: sizes between which the switch was, in bytes; likewise ``new``.
    :param metrics: what changed because of it: :data:`METRIC`, ``slower``.
    """

    partition: str
    stack: str
    fabric: str
    old: tuple[int, int]
    new: tuple[int, int]
    metrics: pl.DataFrame

    @property
    def what(self) -> str:
        return (
            "algorithm or protocol"
            if self.metrics["quantity"].is_in(COLLECTIVE).any()
            else "protocol"
        )

    @property
    def slower(self) -> float:
        """Median change for the worse, as a fraction."""
        return float(np.median(self.metrics["slower"].to_numpy()))


def explain(curves: Iterable[ChangedCurve]) -> list[MovedSwitch]:
    """The moves that explain the changes, those with most metrics first; empty if there is none."""
    found: dict[tuple[str, str, str, tuple[int, int], tuple[int, int]], list[pl.DataFrame]] = {}
    for rows, baseline, candidate in curves:
        first = rows.row(0, named=True)
        sizes = rows["message_bytes"].fill_null(0).to_numpy().astype(float)
        # A bandwidth is sizes per time; the time of a message is what a protocol adds to.
        more = (
            np.log(np.maximum(sizes, 1.0))
            if QUANTITIES[first["quantity"]].unit == "MB/s"
            else np.zeros(len(sizes))
        )
        sides = [side + more[:, None] for side in (baseline, candidate)]
        move = find_move(
            sizes, sides[0], sides[1], rows["called"].to_numpy(), rows["margin"].to_numpy()
        )
        if move:
            low, high = ((int(sizes[at - 1]), int(sizes[at])) for at in (move.first, move.last + 1))
            old, new = (low, high) if move.upwards else (high, low)
            key = (first["partition"], first["stack"], first["fabric"], old, new)
            found.setdefault(key, []).append(
                rows[move.first : move.last + 1].select(*METRIC, "slower")
            )
    moves = [MovedSwitch(*key, pl.concat(tables)) for key, tables in found.items()]
    return sorted(
        moves,
        key=lambda move: (
            -move.metrics.height,
            move.partition,
            move.stack,
            move.fabric,
            move.old,
            move.new,
        ),
    )


def changed_curves(
    metrics: pl.DataFrame, baseline: pl.DataFrame, candidate: pl.DataFrame
) -> Iterator[ChangedCurve]:
    """Curves of two sides with a reported change.

    :param metrics: one row per metric: :data:`METRIC`, ``slower``, ``called``, ``margin``.
    :param baseline: values with :data:`METRIC`, :data:`.session_values.UNIT`,
        ``direction``, ``value``; so ``candidate``.
    """
    touched = metrics.filter(pl.col("called")).select(CURVE).unique()
    chosen = among(metrics, touched, CURVE).sort("message_bytes")
    sides = []
    for side in (baseline, candidate):
        values = among(side, touched, CURVE)
        sides.append(values.partition_by(CURVE, as_dict=True))
    for key, rows in chosen.partition_by(CURVE, as_dict=True, maintain_order=True).items():
        if all(key in side for side in sides):
            before, after = (matrix(rows, side[key], REPEAT) for side in sides)
            yield rows, before, after
