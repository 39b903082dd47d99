"""The page of ``mpibench locate``: its sentences and tables, with the maps that :mod:`figures` draws."""

from __future__ import annotations

from collections.abc import Sequence

from reframe_tests.harness.vocabulary import QUANTITIES

from ..locate import sentences
from ..locate.judgement import Answer
from ..locate.nights import Trend
from . import figures
from .page import number, render

HEAD = ("suspect", "quantity", "direction", "times as slow", "interval", "slow", "of", "rounds", "probability if innocent")


def page(maps: Sequence[Answer], title: str, trends: Sequence[Trend] = ()) -> str:
    """The answers as one HTML file.

    :param trends: of the nodes over the nights before.
    """
    return render(
        "map.html",
        script=True,
        title=f"Locate: {title}",
        head=HEAD,
        maps=[
            {
                "title": one.title,
                "headline": sentences.headline(one),
                "accused": [*one.evident.values(), *(sentences.say(one, finding) for finding in one.findings)],
                "inconclusive": one.inconclusive,
                "notes": [*sentences.floors(one), *one.notes],
                "table": _table(one),
            }
            for one in maps
        ],
        figures=[*(figure for one in maps for figure in figures.map_figures(one)), *map(figures.node_trend, trends)],
    )


def _table(answer: Answer) -> list[list[str]]:
    return [
        [
            *(sentences.name(one.suspect), QUANTITIES[finding.quantity].title, one.suspect.way, number(one.times)),
            *(f"{number(one.low)} to {number(one.high)}", str(one.slow), str(one.count)),
            *(f"{one.moments} of {one.all_moments}", f"{one.probability:.1e}"),
        ]
        for finding in answer.findings
        for one in finding.directions
    ]
