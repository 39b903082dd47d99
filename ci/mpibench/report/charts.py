"""What the browser draws: colours, quantities with their axes, and all curves of a session as compact JSON.

Curves are kept whole (every size, every repeat) and split into one chunk per benchmark, so that a page with hundreds
of them opens at once and decodes only what is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reframe_tests.harness.samples import PROVEN, Sample
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import QUANTITIES

from ..pages.palette import PALETTE, SYMBOLS
from ..published.curves import Curve
from ..results.quantity_text import unit_text
from ..results.sessions import Session
from . import node_curves
from .summary import outcome_of

#: Which quantity stands for a benchmark when only one is shown: the first of these it has.
MAIN = ("latency_us", "t_max_us", "t_avg_us", "t_ovrl_us", "bandwidth_mb_per_s", "message_rate_per_s")
#: Units whose values have no decades to show.
LINEAR_UNITS = ("%", "1")


@dataclass(frozen=True)
class Measure:
    """What one curve is a curve of, apart from its condition."""

    suite: str
    benchmark: str
    variant: str
    groups: int

    @classmethod
    def of(cls, sample: Sample) -> Measure:
        return cls(sample.suite, sample.benchmark, sample.variant, sample.groups)

    def label(self, ambiguous: bool) -> str:
        """Name for a reader, with the suite only where two suites share the benchmark's name."""
        words = [self.benchmark, self.variant, f"{self.groups} groups" if self.groups > 1 else ""]
        text = ", ".join(filter(None, words))
        return f"{text} ({self.suite})" if ambiguous else text


def _rounded(value: float | None) -> float | int | None:
    """Six significant digits are more than any suite prints; whole numbers lose their point."""
    if value is None:
        return None
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def curves(session: Session) -> dict[Measure, list[dict[str, Any]]]:
    """All curves per measure: case number, group, ranks, quantity, sizes, and per size the values of all repeats.

    Those over the number of nodes are drawn by themselves (:mod:`node_curves`).
    """
    found: dict[Measure, dict[tuple[int, int, str], dict[str, Any]]] = {}
    for number, case in enumerate(session.cases):
        for sample in case.samples:
            if not sample.measured or node_curves.is_over_nodes(sample):
                continue
            rows = found.setdefault(Measure.of(sample), {})
            empty = {"c": number, "r": sample.ranks, "q": sample.quantity, "x": [], "y": []}
            curve = rows.setdefault((number, sample.ranks, sample.quantity), empty)
            curve["x"].append(sample.message_bytes)
            curve["y"].append([_rounded(value) for value in sample.values])
    for rows in found.values():
        for curve in rows.values():
            points = sorted(zip(curve["x"], curve["y"], strict=True), key=lambda point: point[0] or 0)
            curve["x"], curve["y"] = [size for size, _ in points], [values for _, values in points]
    return {measure: list(rows.values()) for measure, rows in found.items()}


def stack_names(session: Session) -> list[str]:
    """Stacks of a session in the order that gives each its colour and marker."""
    return sorted({case.stack for case in session.cases if case.is_measurement})


def _in_order(
    session: Session, found: Mapping[Measure, list[dict[str, Any]]]
) -> list[tuple[int, tuple[Measure, list[dict[str, Any]]]]]:
    """Measures as the catalogue orders their groups, whatever order the session ran in; numbered as in ``found``."""
    groups = [*catalogue.GROUPS]

    def place(item: tuple[int, tuple[Measure, list[dict[str, Any]]]]) -> int:
        group = session.cases[item[1][1][0]["c"]].group
        return groups.index(group) if group in groups else len(groups)

    return sorted(enumerate(found.items()), key=place)


def _main_quantity(present: Sequence[str]) -> str:
    return next((name for name in MAIN if name in present), present[0])


def _published(measure: Measure, published: Sequence[Curve]) -> list[dict[str, Any]]:
    """Published curves of a measure's benchmark, kept apart from measured ones: no case, no repeats, no proof."""
    return [
        {
            **{"source": one.source, "title": one.title, "conditions": one.conditions, "q": one.quantity},
            **{"fabric": one.fabric, "nodes": one.nodes, "ppn": one.ppn},
            **{"x": [*one.points], "y": [_rounded(one.number(size)) for size in one.points]},
        }
        for one in published
        if one.benchmark == measure.benchmark
    ]


def index(session: Session, found: Mapping[Measure, list[dict[str, Any]]], published: Sequence[Curve] = ()) -> dict[str, Any]:
    """What the page needs before any curve: stacks, quantities, measures, published curves, the conditions of all cases."""
    names = [measure.benchmark.lower() for measure in {(m.suite, m.benchmark): m for m in found}.values()]
    stacks = stack_names(session)
    resolved = {(case.partition, case.ppn_symbol): case.ppn for case in session.cases if case.ppn is not None}
    measures = []
    for number, (measure, rows) in _in_order(session, found):
        present = list(dict.fromkeys(row["q"] for row in rows))
        measures.append(
            {
                "label": measure.label(names.count(measure.benchmark.lower()) > 1),
                "group": session.cases[rows[0]["c"]].group,
                "quantities": present,
                "main": _main_quantity(present),
                "chunk": f"curves-{number}",
                "cases": sorted({row["c"] for row in rows}),
                "ranks": sorted({row["r"] for row in rows}),
                # Several rank counts in one case: the suite ran a subset of the ranks as well.
                "nested": len({(row["c"], row["q"]) for row in rows}) < len(rows),
                "sizes": sorted({size for row in rows for size in row["x"] if size is not None}),
                "published": _published(measure, published),
            }
        )
    return {
        "stacks": stacks,
        "palette": PALETTE,
        "symbols": list(SYMBOLS),
        "quantities": {
            name: {
                "title": QUANTITIES[name].title,
                "unit": unit_text(one.unit),
                "direction": one.direction,
                "log": one.unit not in LINEAR_UNITS,
            }
            for name, one in QUANTITIES.items()
        },
        "measures": measures,
        "cases": [
            {
                "stack": stacks.index(case.stack) if case.stack in stacks else -1,
                "partition": case.partition,
                "fabric": case.fabric,
                "nodes": case.nodes,
                # A case that was skipped before its symbol was resolved has the number others resolved it to.
                "ppn": resolved.get((case.partition, case.ppn_symbol), case.ppn),
                "symbol": case.ppn_symbol,
                "pinning": case.pinning,
                "group": case.group,
                "outcome": outcome_of(session, case),
                "proven": case.evidence == PROVEN and case.uuid not in session.superseded,
                "oversubscribed": bool(case.condition.get("oversubscribed")),
            }
            for case in session.cases
        ],
    }
