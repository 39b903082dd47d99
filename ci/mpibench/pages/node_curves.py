"""Curves over the number of nodes, for what is measured at several node counts.

Such a sample has the node count in its variant (``nodes=4``): collectives that grow inside one job,
and the time to start, which each job measures on all of its nodes. One chart per benchmark and
condition, one line per stack. A job that grows is a separate line; jobs with one node count each
are joined.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from reframe_tests.harness.samples import Sample
from reframe_tests.harness.vocabulary import QUANTITIES

from ..store.quantity_text import better_text, nodes_text, size_text, unit_text
from ..store.sessions import Case, Session

_NODES = re.compile(r"(?:^|,)nodes=([1-9][0-9]{0,8})(?=,|\Z)")
#: What is drawn of a benchmark with all three quantities: what it is
#: called, the point, and the ends of its bar.
SHOWN = (
    (
        "mean of the ranks, bar from the fastest to the slowest",
        ("t_avg_us", "t_min_us", "t_max_us"),
    ),
    (
        "median of the repetitions, bar up to the 99th percentile",
        ("latency_p50_us", "latency_p50_us", "latency_p99_us"),
    ),
)


class Point(NamedTuple):
    """One node count of a line; values are medians of the repeats, in the chart's unit."""

    nodes: int
    ranks: int
    middle: float
    low: float
    high: float
    case: Case


@dataclass(frozen=True)
class Line:
    """One line, its points by node count."""

    stack: str
    points: tuple[Point, ...]


class What(NamedTuple):
    """What a chart shows, and under which condition.

    :param shared: ranks share cores; such numbers are never beside others.
    """

    suite: str
    benchmark: str
    variant: str
    message_bytes: int | None
    quantity: str
    partition: str
    fabric: str
    ppn: int | None
    pinning: str
    options: str
    shared: bool


@dataclass(frozen=True)
class NodeChart:
    """The lines of all stacks.

    :param bars: what point and bar of each node count are.
    """

    what: What
    unit: str
    bars: str
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        subject = self.what
        size = "" if subject.message_bytes is None else size_text(subject.message_bytes)
        return ", ".join(filter(None, (subject.benchmark, size, subject.variant)))

    @property
    def condition(self) -> str:
        subject = self.what
        words = (
            subject.partition,
            subject.fabric,
            f"ppn {subject.ppn}",
            subject.pinning,
            subject.options,
        )
        return ", ".join(
            [
                *filter(None, words),
                *(["oversubscribed: ranks share cores"] if subject.shared else []),
            ]
        )

    @property
    def axis(self) -> str:
        better = better_text(self.what.quantity)
        return f"{QUANTITIES[self.what.quantity].title} ({self.unit}){better and f', {better}'}"

    @property
    def counts(self) -> dict[int, int]:
        return dict(
            sorted((point.nodes, point.ranks) for line in self.lines for point in line.points)
        )

    @property
    def labels(self) -> list[str]:
        """A name for each line: its stack, and where that has several
        jobs that grow, how far this one did.
        """
        stacks = [line.stack for line in self.lines]
        ends = [nodes_text(line.points[-1].nodes) for line in self.lines]
        return [
            name if stacks.count(name) == 1 else f"{name}, up to {end}"
            for name, end in zip(stacks, ends, strict=True)
        ]

    def rows(self) -> list[tuple[int, int, list[list[Point]]]]:
        return [
            (
                nodes,
                ranks,
                [[point for point in line.points if point.nodes == nodes] for line in self.lines],
            )
            for nodes, ranks in self.counts.items()
        ]


def is_over_nodes(sample: Sample) -> bool:
    return bool(_NODES.search(sample.variant))


def node_charts(session: Session) -> list[NodeChart]:
    """The charts of a session's proven cases, in the order in which they were measured."""
    found: dict[What, tuple[str, dict[tuple[str, str], list[Point]]]] = {}
    for case in filter(session.is_proven, session.cases):
        by_name: dict[tuple[str, str, str, int | None, int], dict[str, Sample]] = {}
        for sample in filter(is_over_nodes, case.samples):
            key = (
                sample.suite,
                sample.benchmark,
                sample.variant,
                sample.message_bytes,
                sample.ranks,
            )
            by_name.setdefault(key, {})[sample.quantity] = sample
        several = {(benchmark, size) for _, benchmark, _, size, _ in by_name}
        grows = len(by_name) > len(several)
        for (suite, benchmark, variant, size, ranks), samples in by_name.items():
            measured = {
                quantity: sample.measured for quantity, sample in samples.items() if sample.measured
            }
            if not measured:
                continue
            quantity, values = next(iter(measured.items()))
            bars = "median of the repeats, bar over all of them"
            point = (median(values), min(values), max(values))
            for shown, (first, low, high) in reversed(SHOWN):
                if {first, low, high} <= measured.keys():
                    quantity = first
                    bars = shown
                    point = (median(measured[first]), median(measured[low]), median(measured[high]))
            nodes = next(_NODES.finditer(variant))[1]
            options = str(case.condition.get("suite_options") or "")
            shared = bool(case.condition.get("oversubscribed"))
            name = (suite, benchmark, _NODES.sub("", variant).strip(","), size, quantity)
            what = What(*name, case.partition, case.fabric, case.ppn, case.pinning, options, shared)
            lines = found.setdefault(what, (bars, {}))[1]
            lines.setdefault((case.stack, case.uuid if grows else ""), []).append(
                Point(int(nodes), ranks, *point, case)
            )
    charts = []
    for what, (bars, lines) in found.items():
        unit = QUANTITIES[what.quantity].unit
        factor = 1.0
        if unit == "us" and max(point.high for points in lines.values() for point in points) >= 1e4:
            unit = "ms"
            factor = 1e-3
        drawn = [
            Line(
                stack,
                tuple(
                    point._replace(
                        middle=point.middle * factor,
                        low=point.low * factor,
                        high=point.high * factor,
                    )
                    for point in sorted(points, key=lambda point: point.nodes)
                ),
            )
            for (stack, _), points in lines.items()
        ]
        charts.append(NodeChart(what, unit_text(unit), bars, tuple(drawn)))
    return charts
