"""Many metrics that changed for one reason: the size at which an MPI switches to another protocol has moved.

That is looked for curve by curve (:mod:`..statistics.switches`); curves of one stack on one fabric whose switch moved from the
same place to the same place are one finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from reframe_tests.harness.vocabulary import QUANTITIES

from ...store.session_values import CURVE, METRIC, UNIT, slowness
from ..statistics import switches
from ..statistics.two_sides import Array

#: Quantities of benchmarks in which more than two ranks take part; what switches there may be an algorithm.
COLLECTIVE = ("t_avg_us", "t_ovrl_us", "t_max_us")


@dataclass(frozen=True)
class ChangedCurve:
    """A curve of which some sizes were called.

    :param metrics: one row per size: :data:`METRIC`, ``slower`` (as a fraction), ``called``, ``margin`` (in log).
    :param baseline: slowness in log, shape (sizes, units), NaN where a unit lacks one; likewise ``candidate``.
    """

    metrics: pl.DataFrame
    baseline: Array
    candidate: Array


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
        """What switches."""
        return "algorithm or protocol" if self.metrics["quantity"].is_in(COLLECTIVE).any() else "protocol"

    @property
    def slower(self) -> float:
        """Median change for the worse, as a fraction."""
        return float(np.median(self.metrics["slower"].to_numpy()))


def explain(curves: Iterable[ChangedCurve]) -> list[MovedSwitch]:
    """The moves that explain what changed, those of most metrics first; empty where there is none."""
    found: dict[tuple[object, ...], list[pl.DataFrame]] = {}
    for curve in curves:
        one = _explain_one(curve)
        if one:
            key, rows = one
            found.setdefault(key, []).append(rows)
    moves = []
    for (partition, stack, fabric, old, new), parts in found.items():
        moves.append(MovedSwitch(str(partition), str(stack), str(fabric), old, new, pl.concat(parts)))  # type: ignore[arg-type]
    return sorted(moves, key=lambda move: (-move.metrics.height, move.partition, move.stack, move.fabric, move.old, move.new))


def _explain_one(curve: ChangedCurve) -> tuple[tuple[object, ...], pl.DataFrame] | None:
    rows = curve.metrics
    first = rows.row(0, named=True)
    sizes = rows["message_bytes"].fill_null(0).to_numpy().astype(float)
    # A bandwidth is sizes per time; the time of a message is what a protocol adds to.
    more = np.log(np.maximum(sizes, 1.0)) if QUANTITIES[first["quantity"]].unit == "MB/s" else np.zeros(len(sizes))
    sides = [side + more[:, None] for side in (curve.baseline, curve.candidate)]
    move = switches.find_move(sizes, sides[0], sides[1], rows["called"].to_numpy(), rows["margin"].to_numpy())
    if move is None:
        return None
    lower, upper = ((int(sizes[at - 1]), int(sizes[at])) for at in (move.first, move.last + 1))
    old, new = (lower, upper) if move.upwards else (upper, lower)
    key = (first["partition"], first["stack"], first["fabric"], old, new)
    return key, rows[move.first : move.last + 1].select(*METRIC, "slower")


def changed_curves(metrics: pl.DataFrame, baseline: pl.DataFrame, candidate: pl.DataFrame) -> Iterator[ChangedCurve]:
    """Curves of two sides of which something was called.

    :param metrics: one row per metric: :data:`METRIC`, ``slower``, ``called``, ``margin``.
    :param baseline: values with :data:`METRIC`, :data:`UNIT`, ``direction``, ``value``; likewise ``candidate``.
    """
    touched = metrics.filter(pl.col("called")).select(CURVE).unique()
    chosen = metrics.join(touched, on=CURVE, how="semi", nulls_equal=True).sort("message_bytes")
    sides = []
    for side in (baseline, candidate):
        values = side.join(touched, on=CURVE, how="semi", nulls_equal=True)
        sides.append(values.with_columns(slowness(values)).partition_by(CURVE, as_dict=True))
    for key, rows in chosen.partition_by(CURVE, as_dict=True, maintain_order=True).items():
        if all(key in side for side in sides):
            yield ChangedCurve(rows, *(_matrix(rows["message_bytes"], side[key]) for side in sides))


def _matrix(sizes: pl.Series, values: pl.DataFrame) -> Array:
    """Slowness, shape (sizes, units)."""
    wide = values.pivot(on=UNIT, index="message_bytes", values="slowness", aggregate_function="median")
    order = pl.DataFrame({"message_bytes": sizes})
    placed = order.join(wide, on="message_bytes", how="left", nulls_equal=True, maintain_order="left")
    return placed.drop("message_bytes").to_numpy().astype(float)
