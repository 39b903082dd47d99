"""The page of ``mpibench locate``: sentences, tables, and the maps drawn by :mod:`figures`."""

from __future__ import annotations

from collections.abc import Sequence

from reframe_tests.harness.printable import few
from reframe_tests.harness.vocabulary import QUANTITIES

from ..locate.findings import MapJudgement
from ..locate.nights import Trend
from . import figures
from .page import Block, Section, Table, number, sections

#: Suspects that the title names.
MOST_IN_TITLE = 2
HEAD = (
    "suspect",
    "quantity",
    "direction",
    "times as slow",
    "interval",
    "slow",
    "of",
    "rounds",
    "probability by chance",
)


def page(maps: Sequence[MapJudgement], title: str, trends: Sequence[Trend] = ()) -> str:
    """The answers as one HTML file.

    :param trends: of the nodes over earlier nights.
    """
    content: list[Section] = []
    found: list[str] = []
    for answer in maps:
        flagged = [*answer.evident.values(), *(answer.say(finding) for finding in answer.findings)]
        found += flagged
        rows = [
            (
                direction.suspect.text,
                QUANTITIES[finding.quantity].title,
                direction.suspect.way,
                number(direction.times),
                f"{number(direction.low)} to {number(direction.high)}",
                direction.slow,
                direction.count,
                f"{direction.moments} of {direction.all_moments}",
                f"{direction.probability:.1e}",
            )
            for finding in answer.findings
            for direction in finding.directions
        ]
        blocks: list[Block | Table] = [
            *([Block("items", flagged)] if flagged else []),
            *([Block("items", answer.inconclusive, "Inconclusive")] if answer.inconclusive else []),
            *([Table(HEAD, rows, (3, 5, 6), title="Numbers")] if rows else []),
            Block("items", answer.remarks, "What this rests on"),
        ]
        content.append((answer.title, [answer.headline, *blocks]))
    drawn = [
        *(figure for answer in maps for figure in figures.map_figures(answer)),
        *map(figures.node_trend, trends),
    ]
    tables = list(filter(None, map(figures.as_table, drawn)))
    fold = [Block("fold", tables, label="The same values as tables")] if tables else []
    shown: Section = ("Maps", [Block("charts", drawn), *fold])
    headline = few(found, MOST_IN_TITLE, "; ") or "; ".join(answer.headline for answer in maps)
    return sections(f"Locate: {title}", headline, [*content, shown])
