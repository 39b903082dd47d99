"""The part of a report that puts measured curves beside published ones, size by size; there without any script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from reframe_tests.harness.vocabulary import QUANTITIES

from ..published.curves import Beside, Curve, beside
from ..results.sessions import Session
from .charts import unit_text
from .summary import format_number, size_text
from .tables import Tables, html_table

_NOTE = (
    "What others printed about another machine, from site_configs/&lt;system&gt;/published: it carries no proof, and nothing "
    "here is judged by it. A ratio is the median measured here over the published figure."
)


def section(session: Session, curves: Sequence[Curve], tables: Tables) -> str:
    """A table per published curve with a measured one beside it; nothing where the site chose no published data."""
    if not curves:
        return ""
    shown = [(curve, found) for curve in curves if (found := beside(session, curve))]
    parts = [_comparison(curve, found, tables, number == 0) for number, (curve, found) in enumerate(shown)]
    alone = [f"{curve.source}: {_name(curve)}, {curve.title}" for curve in curves if curve not in [one for one, _ in shown]]
    if alone:
        items = "".join(f"<li>{escape(text)}</li>" for text in alone)
        summary = f"<summary>Published, and not measured here: <b>{len(alone)}</b></summary>"
        parts.append(f"<details>{summary}<ul>{items}</ul></details>")
    body = "".join(parts)
    return f'<section id="published"><h2>Beside published figures</h2><p class="note">{_NOTE}</p>{body}</section>'


def _name(curve: Curve) -> str:
    return f"{curve.benchmark} {QUANTITIES[curve.quantity].title}"


def _comparison(curve: Curve, found: Sequence[Beside], tables: Tables, first: bool) -> str:
    unit = unit_text(QUANTITIES[curve.quantity].unit)
    head = ["size", f"published{f' ({unit})' if unit else ''}"]
    for one in found:
        where = ", ".join(filter(None, (one.case.stack, one.case.partition, one.case.pinning, one.variant)))
        head += [f"{where}{f' ({unit})' if unit else ''}", "ratio"]
    rows = []
    for size, printed in curve.points.items():
        cells = [escape(size_text(size)), escape(printed)]
        for one in found:
            value = format_number(one.measured.get(size))
            cells += [tables.button(one.case, value) if value else "", f"{one.ratios[size]:.3f}" if size in one.ratios else ""]
        rows.append(cells)
    title = f"{escape(curve.fabric)}: {escape(_name(curve))} beside {escape(curve.source)}"
    spans = [f"{one.case.stack} {min(one.ratios.values()):.2f} to {max(one.ratios.values()):.2f}" for one in found]
    conditions = f"; {escape(curve.conditions)}" if curve.conditions else ""
    return (
        f"<details{' open' if first else ''}><summary><b>{title}</b>: {escape(', '.join(spans))}</summary>"
        f"<p class='note'>Published: {escape(curve.title)}; {curve.nodes} nodes, {curve.ppn} per node{conditions}.</p>"
        f"{html_table(head, rows, numeric=range(1, len(head)))}</details>"
    )
