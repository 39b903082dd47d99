"""The page of ``mpibench locate``: its sentences and tables, with the maps that :mod:`figures` draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from reframe_tests.harness.vocabulary import QUANTITIES

from ..locate import sentences
from ..locate.answers.node_trends import Trend
from ..locate.effects import Accused
from ..locate.judgement import Localisation
from . import figures
from .page import number, render


class Shown(NamedTuple):
    """One map with its answer.

    :param say: a finding as a sentence.
    """

    title: str
    answer: Localisation
    say: Callable[[Accused], str]


def page(maps: Sequence[Shown], title: str, trends: Sequence[Trend] = ()) -> str:
    """The answer as one HTML file.

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
                "headline": sentences.headline(one.answer),
                "accused": [*one.answer.evident.values(), *map(one.say, one.answer.findings)],
                "inconclusive": one.answer.inconclusive,
                "notes": [*sentences.floors(one.answer), *one.answer.notes],
                "table": _table(one),
            }
            for one in maps
        ],
        figures=[*(figure for one in maps for figure in figures.map_figures(one.answer)), *map(figures.node_trend, trends)],
    )


HEAD = ("suspect", "quantity", "direction", "times as slow", "interval", "slow", "of", "rounds", "probability if innocent")


def _table(shown: Shown) -> list[list[str]]:
    return [
        [
            *(sentences.name(one.suspect), QUANTITIES[finding.quantity].title, one.suspect.way, number(one.times)),
            *(f"{number(one.low)} to {number(one.high)}", str(one.slow), str(one.count)),
            *(f"{one.moments} of {one.all_moments}", f"{one.probability:.1e}"),
        ]
        for finding in shown.answer.findings
        for one in finding.directions
    ]
