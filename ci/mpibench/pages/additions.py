"""What tools add to the page of a session: sections, lines for the terminal, other curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reframe_tests.harness import tools

from ..store.sessions import Session


@dataclass(frozen=True)
class Curve:
    """One published curve, put beside the session's fabric ``fabric``.

    :param source: data set, ``<published system>/<its fabric>``.
    :param title: table of the paper, with what distinguishes it from others of the same table.
    :param quantity: key of ``vocabulary.QUANTITIES``; values are in its unit.
    :param points: message size in bytes to the value as printed, ascending.
    """

    source: str
    title: str
    conditions: str
    fabric: str
    benchmark: str
    quantity: str
    nodes: int
    ppn: int
    points: Mapping[int, str]

    def number(self, size: int) -> float:
        return float(self.points[size].replace(",", ""))


def _no_curves(session: Session, given: Sequence[str]) -> list[Curve]:
    return []


@dataclass(frozen=True)
class Addition:
    """What one entry point of the group ``mpibench.pages`` adds.

    :param section: as of :data:`.session.SECTIONS`: id, heading, name in the navigation, and what
        makes its content of a :class:`.session.View`.
    :param lines: for the terminal, of a session and the curves beside it.
    :param curves: to be drawn beside those of a session, by what ``report --published`` was given.
    :param answer: for ``report --guidelines``, whether as JSON; exit status.
    """

    section: tuple[str, str, str, Callable[[Any], Any]]
    lines: Callable[[Session, Sequence[Curve]], list[str]]
    curves: Callable[[Session, Sequence[str]], list[Curve]] = _no_curves
    answer: Callable[[Session, bool], int] | None = None


def additions() -> list[Addition]:
    """What the tools that are here add."""
    return list(tools.load(tools.PAGES).values())
