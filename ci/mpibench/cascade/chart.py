"""The chart of a fabric as bars that need no script: a block for each question, a row for each program or stack of a level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .judgement import unit_of, value_text
from .levels import LEVELS, Cascade, CascadeAnswer

#: Width in px of the chart, and where its bars begin.
WIDTH, LEFT = 760, 250
#: Heights in px of a row and of a heading; room for a bar's text.
ROW, HEAD, TEXT = 22, 30, 250


@dataclass(frozen=True)
class Bar:
    """One row: a bar, or a level that is absent.

    :param y: of its upper edge, in px.
    :param width: in px; 0 where there is nothing.
    :param level: number of its level, for its colour.
    """

    y: int
    label: str
    text: str
    width: float
    level: int


@dataclass(frozen=True)
class Block:
    """The bars of one question.

    :param y: of its heading, in px.
    :param limit: where payload ends, in px; ``None``: not shown.
    :param end: of its last row, in px.
    """

    y: int
    title: str
    bars: tuple[Bar, ...]
    limit: float | None
    end: int


@dataclass(frozen=True)
class Chart:
    """All of a fabric.

    :param height: in px.
    """

    blocks: tuple[Block, ...]
    height: int
    width: int = WIDTH
    left: int = LEFT


def draw(cascade: Cascade) -> Chart:
    """The chart of a fabric; questions that nothing answers are left to the sentences."""
    blocks, y = [], 0
    for answer in (answer for answer in cascade.answers if answer.reached):
        block = _block(answer, y)
        blocks.append(block)
        y = block.end + ROW // 2
    return Chart(tuple(blocks), y)


def _block(answer: CascadeAnswer, y: int) -> Block:
    numbers = [one for row in answer.reached.values() for one in row]
    shares = all(one.share is not None for one in numbers)
    # Shares are of the whole line rate, and other numbers of the largest one.
    whole = 1.0 if shares else max(one.value for one in numbers)
    room = WIDTH - LEFT - TEXT
    bars = tuple(_bars(answer, y + HEAD, room / whole, shares))
    title = f"{answer.question.title} ({'share of line rate' if shares else unit_of(answer)})"
    limit = LEFT + room * answer.limit if shares and answer.limit is not None else None
    return Block(y, title, bars, limit, y + HEAD + ROW * len(bars))


def _bars(answer: CascadeAnswer, y: int, scale: float, shares: bool) -> Iterator[Bar]:
    for number, level in enumerate(LEVELS):
        for one in answer.reached.get(level, ()):
            value = one.share if shares and one.share is not None else one.value
            yield Bar(y, f"{level}: {one.name}", value_text(answer, one).partition(" (")[0], value * scale, number)
            y += ROW
        if level in answer.absent:
            yield Bar(y, f"{level}: absent", "", 0.0, number)
            y += ROW
