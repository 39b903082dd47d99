"""Three key figures of each fabric in the last night, beside line rate and reference, and the picture that shows them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reframe_tests.harness.suites.model import KeyFigure
from reframe_tests.harness.vocabulary import LOWER, QUANTITIES

from ..report.summary import KEY_FIGURES, format_number
from ..results.quantity_text import nodes_text, size_text, unit_text
from .nights import SiteNight
from .over_time import FAMILY, OverTime

#: Figures shown of each fabric.
MOST_FIGURES = 3
#: Nights that stand for the usual.
USUAL_NIGHTS = 30
#: Size in px of the small curve.
WIDTH, HEIGHT = 132, 34
#: Percent of the line rate above which a number is not that of the fabric (``references.PAYLOAD_EXCESS``).
ABOVE_PERCENT = 103.0
#: Nights in the small curve.
CURVE_NIGHTS = 60


@dataclass(frozen=True)
class FabricFigure:
    """One number people quote, of one fabric.

    :param value: the best median of the last night over stacks and conditions, in ``unit``.
    :param percent_of_line_rate: ``None`` where the fabric has none or the figure is no bandwidth.
    :param bound: its reference in words; empty where it has none.
    :param held: whether the reference was held; ``None`` without one.
    :param usual: median of the nights before; ``None`` before there are three.
    :param change: by how much it is worse (positive) than usual, a fraction.
    :param family: words of its family (:data:`FAMILY`).
    :param curve: points of the small curve in px, newest last.
    :param limit_y: where the line rate is in it, in px; ``None``: outside or unknown.
    """

    title: str
    value: float
    unit: str
    stack: str
    condition: str
    line_rate: float | None
    percent_of_line_rate: float | None
    bound: str
    held: bool | None
    usual: float | None
    change: float | None
    family: tuple[Any, ...]
    curve: str
    limit_y: float | None
    nights: int

    @property
    def text(self) -> str:
        """The number as it is printed."""
        return format_number(self.value)

    @property
    def rate_text(self) -> str:
        """Line rate in words."""
        if self.line_rate is None or self.percent_of_line_rate is None:
            return ""
        return f"{self.percent_of_line_rate:.0f} % of the line rate, {format_number(self.line_rate)} {self.unit}"

    @property
    def above_line_rate(self) -> bool:
        """Whether it is more than the fabric can carry, rounding and timers allowed for."""
        return (self.percent_of_line_rate or 0) > ABOVE_PERCENT

    @property
    def change_text(self) -> str:
        """The change in words."""
        if self.change is None or self.usual is None:
            return ""
        usual = f"{format_number(self.usual)} {self.unit}"
        if abs(self.change) < 0.005:
            return f"as usual ({usual})"
        return f"{abs(self.change):.1%} {'worse' if self.change > 0 else 'better'} than usual ({usual})"

    @property
    def alternative(self) -> str:
        """The small curve in words, for who does not see it."""
        limit = f"; {self.rate_text}" if self.rate_text else ""
        return f"{self.title} over the last {self.nights} nights, now {self.text} {self.unit}{limit}"


@dataclass(frozen=True)
class FabricFigures:
    """The figures of one fabric."""

    partition: str
    fabric: str
    figures: Sequence[FabricFigure]


def of_last_night(over: OverTime, night: SiteNight) -> list[FabricFigures]:
    """Key figures of a night, by partition and fabric."""
    at = over.place.get(night.session)
    if at is None:
        return []
    found: dict[tuple[str, str], list[FabricFigure]] = {}
    for figure in KEY_FIGURES:
        for place, row in _best(over, at, figure).items():
            known = found.setdefault(place, [])
            if len(known) < MOST_FIGURES:
                known.append(_figure(over, at, row, figure))
    return [FabricFigures(partition, fabric, figures) for (partition, fabric), figures in sorted(found.items())]


def _best(over: OverTime, at: int, figure: KeyFigure) -> Mapping[tuple[str, str], int]:
    """Row of the best median of a figure at one size, by partition and fabric."""
    metrics, columns, medians = over.metrics, over.columns, over.drawn["median"][:, at]
    mask = ((metrics["benchmark"] == figure.benchmark) & (metrics["quantity"] == figure.quantity)).fill_null(False).to_numpy()
    best: dict[tuple[str, str], tuple[tuple[float, float], int]] = {}
    for row in map(int, np.flatnonzero(mask & (medians > 0))):
        size = columns["message_bytes"][row]
        if size == 0 and not figure.empty:
            continue
        place = (str(columns["partition"][row]), str(columns["fabric"][row] or ""))
        lower = columns["direction"][row] == LOWER
        rank = ((size or 0) * (1 if figure.largest else -1), float(-medians[row] if lower else medians[row]))
        if place not in best or rank > best[place][0]:
            best[place] = (rank, row)
    return {place: row for place, (_, row) in best.items()}


def _figure(over: OverTime, at: int, row: int, figure: KeyFigure) -> FabricFigure:
    named = over.metrics.row(row, named=True)
    medians = over.drawn["median"][row]
    value, rate = float(medians[at]), float(over.drawn["line_rate"][row, at])
    before = medians[max(0, at - USUAL_NIGHTS) : at]
    before = before[~np.isnan(before)]
    usual = float(np.median(before)) if len(before) >= 3 else None
    lower, upper = (float(over.drawn[name][row, at]) for name in ("lower", "upper"))
    unit = unit_text(QUANTITIES[named["quantity"]].unit)
    size = "" if named["message_bytes"] is None else f", {size_text(named['message_bytes'])}"
    change = None if usual is None or usual <= 0 else (value / usual - 1) * (1 if named["direction"] == LOWER else -1)
    line_rate = rate if math.isfinite(rate) and rate > 0 else None
    drawn = medians[max(0, at + 1 - CURVE_NIGHTS) : at + 1]
    top = float(np.nanmax(drawn)) * 1.05
    top = max(top, line_rate) if line_rate and line_rate < 2.5 * top else top
    ppn = "" if named["ppn"] is None else f" x {named['ppn']}"
    return FabricFigure(
        f"{figure.title}{size}",
        value,
        unit,
        str(named["stack"]),
        f"{nodes_text(named['nodes'])}{ppn}, {named['pinning']}",
        line_rate,
        100 * value / line_rate if line_rate else None,
        bounds_text(lower, upper, unit),
        None if not (math.isfinite(lower) or math.isfinite(upper)) else not bool(over.missed[row, at]),
        usual,
        change,
        tuple(named[name] for name in FAMILY),
        _curve(drawn, top),
        HEIGHT * (1 - line_rate / top) if line_rate and line_rate <= top else None,
        int((~np.isnan(drawn)).sum()),
    )


def bounds_text(lower: float, upper: float, unit: str) -> str:
    """Bounds of a reference in words; empty without any."""
    low = f"at least {format_number(lower)} {unit}" if math.isfinite(lower) else ""
    high = f"at most {format_number(upper)} {unit}" if math.isfinite(upper) else ""
    return " and ".join(filter(None, (low, high)))


def _curve(values: np.ndarray, top: float) -> str:
    """Points of a polyline; nights without a value are left out."""
    step = WIDTH / max(len(values) - 1, 1)
    points = (
        f"{(number * step if len(values) > 1 else WIDTH / 2):.1f},{HEIGHT * (1 - value / top):.1f}"
        for number, value in enumerate(values)
        if math.isfinite(value)
    )
    return " ".join(points)
