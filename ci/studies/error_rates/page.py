"""The answer as a page: its sentences, charts of the smallest slowdown found, and the tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import plotly.graph_objects as go

from mpibench.pages.page import PALETTE, SYMBOLS, Block, Section, Table, sections

from .answer import Row, spread_text, tables
from .shares import FOUND_WITH

#: Legend under the chart, so that a phone has room for the chart.
_BELOW = {"orientation": "h", "y": -0.3}


def figures(answers: Sequence[Row]) -> list[go.Figure]:
    """Smallest slowdown found over the jobs of the candidate, a line per band: one figure per fabric, spread and history.

    What is not found at all has no point.
    """
    found = []
    for _, part in groupby(answers, key=lambda row: (row["fabric"], row["spread_percent"], row["history_jobs"])):
        rows = list(part)
        figure = go.Figure()
        for place, pattern in enumerate(rows[0]["smallest_found_percent"]):
            shown = [row for row in rows if row["smallest_found_percent"][pattern] is not None]
            values = [row["smallest_found_percent"][pattern] for row in shown]
            ends = [row["interval_95"]["smallest_found_percent"][pattern] for row in shown]
            figure.add_scatter(
                x=[str(row["candidate_jobs"]) for row in shown],
                y=values,
                error_y={
                    "array": [0 if high is None else high - value for value, (_, high) in zip(values, ends, strict=True)],
                    "arrayminus": [value - low for value, (low, _) in zip(values, ends, strict=True)],
                    "thickness": 1,
                },
                name=pattern,
                mode="lines+markers",
                marker_symbol=list(SYMBOLS)[place % len(SYMBOLS)],
                line_color=PALETTE["light"][place % len(PALETTE["light"])],
            )
        figure.update_xaxes(type="category", title="jobs of the candidate")
        figure.update_yaxes(type="log", dtick="D1", title=f"% slower, found in {100 * FOUND_WITH:g} of 100")
        first = rows[0]
        spread = "noise as recorded" if first["spread_percent"] is None else f"spread {spread_text(first)}"
        title = f"{first['fabric']}: {spread}, history of {first['history_jobs']}"
        figure.update_layout(title=title, height=420, legend=_BELOW)
        found.append(figure)
    return found


def page(answers: Sequence[Row], sentences: Sequence[str], notes: Sequence[str], title: str) -> str:
    """The answer as one HTML file."""
    content: list[Section] = [
        ("What can be seen here, and how often is nothing called something?", sentences),
        ("Smallest slowdown found", [Block("charts", figures(answers))]),
        *((heading, [Table(head, rows, range(2, len(head)))]) for heading, head, rows in tables(answers)),
        ("What this rests on", [Block("items", notes)]),
    ]
    return sections("Error rates", title, content)
