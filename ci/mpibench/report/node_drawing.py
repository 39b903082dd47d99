"""A chart over the number of nodes as lines and marks of an SVG: positions only, its template says how they look."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .node_curves import NodeChart, Point
from .summary import format_number

#: Sizes in px of a chart, and of the room around its axes.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 280, 64, 24, 12, 56
#: Least distance in px between two labels of the axis of nodes.
APART = 46
#: Ratio of largest to smallest value from which the axis of values is logarithmic; below, it begins at zero.
DECADES = 20
#: About so many labels on a linear axis of values.
LABELS = 5


class Tick(NamedTuple):
    """A label of an axis at a position in px; ``more`` is its second line."""

    at: float
    text: str
    more: str = ""


class Mark(NamedTuple):
    """A point with its bar, in px."""

    x: float
    y: float
    low: float
    high: float
    point: Point


class DrawnLine(NamedTuple):
    """The line of a stack.

    :param path: its points as an SVG polyline has them.
    """

    stack: str
    path: str
    marks: tuple[Mark, ...]


class Drawing(NamedTuple):
    """A whole chart.

    :param nodes: labels of the axis of nodes, with the ranks; ``values``: of the other.
    """

    nodes: tuple[Tick, ...]
    values: tuple[Tick, ...]
    lines: tuple[DrawnLine, ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def draw(chart: NodeChart) -> Drawing:
    """A chart; node counts stand at their logarithm, so that doublings are equally far apart."""
    counts = [*chart.counts]
    span = math.log2(counts[-1] / counts[0]) or 1.0
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x_of(nodes: int) -> float:
        place = math.log2(nodes / counts[0]) / span if len(counts) > 1 else 0.5
        return LEFT + width * (0.04 + 0.92 * place)

    values = [value for line in chart.lines for point in line.points for value in (point.low, point.middle, point.high)]
    share, labels = _scale(min(values), max(values))

    def y_of(value: float) -> float:
        return TOP + height * (1 - share(value))

    lines = []
    for line in chart.lines:
        marks = [Mark(x_of(one.nodes), y_of(one.middle), y_of(one.low), y_of(one.high), one) for one in line.points]
        path = " ".join(f"{mark.x:.1f},{mark.y:.1f}" for mark in marks)
        lines.append(DrawnLine(line.stack, path, tuple(marks)))
    return Drawing(_ticks(chart, x_of), tuple(Tick(y_of(value), format_number(value)) for value in labels), tuple(lines))


def _ticks(chart: NodeChart, x_of: Callable[[int], float]) -> tuple[Tick, ...]:
    """Labels of node counts, the largest first of all; those that would run into another are left out."""
    kept: list[Tick] = []
    for nodes, ranks in sorted(chart.counts.items(), reverse=True):
        if not kept or kept[-1].at - x_of(nodes) >= APART:
            kept.append(Tick(x_of(nodes), str(nodes), str(ranks)))
    return tuple(reversed(kept))


def _scale(low: float, high: float) -> tuple[Callable[[float], float], Sequence[float]]:
    """Where a value stands on an axis from 0 to 1, and the values that are labelled."""
    if low > 0 and high / low >= DECADES:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        step = math.ceil((last - first) / LABELS)
        return lambda value: (math.log10(value) - first) / (last - first), [10.0**at for at in range(first, last + 1, step)]
    top = high or 1.0
    rough = top / LABELS
    unit = 10.0 ** math.floor(math.log10(rough))
    step_of = next(unit * each for each in (1, 2, 5, 10) if unit * each >= rough)
    labels = [step_of * at for at in range(int(top / step_of) + 1)]
    return lambda value: value / (1.04 * top), labels
