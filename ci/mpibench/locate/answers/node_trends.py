"""Each node over the nights: how its pairs compare with those of others, map by map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from ..judgement import Part
from ..observations import Floats, Integers
from ..suspects import BOTH, RECEIVES, SENDS
from .beside_curves import MapAnswer

#: Nodes with a line of their own, at most: those accused in any night first, then those that were slowest.
MOST_NODES = 8
#: Quantiles of all nodes of a night, between which most lie.
BAND = (0.05, 0.95)


@dataclass(frozen=True)
class Trend:
    """One quantity and direction of the maps of one stack and fabric.

    :param way: sends, receives or, of a latency, both.
    :param nights: start of each map and its session, oldest first.
    :param percent: of what others of the class reach, median of the pairs of each node that has a line; ``nan``: not measured.
    :param low: band of all nodes; ``high`` likewise.
    """

    stack: str
    fabric: str
    quantity: str
    way: str
    nights: tuple[tuple[datetime, str], ...]
    nodes: tuple[str, ...]
    percent: Floats
    low: Floats
    high: Floats


def of_maps(answers: Sequence[MapAnswer]) -> list[Trend]:
    """Trends of what two maps or more measured, the oldest map first."""
    kinds = dict.fromkeys(
        (*one.key, part.seen.quantity, way) for one in answers for part in one.answer.parts for way in _ways(part)
    )
    found = []
    for stack, fabric, quantity, way in kinds:
        mine = [
            (one, part)
            for one in answers
            for part in one.answer.parts
            if (*one.key, part.seen.quantity) == (stack, fabric, quantity)
        ]
        if len(mine) > 1:
            found.append(_trend(stack, fabric, quantity, way, mine))
    return found


def _ways(part: Part) -> tuple[str, ...]:
    return (SENDS, RECEIVES) if part.seen.directed else (BOTH,)


def _trend(stack: str, fabric: str, quantity: str, way: str, maps: Sequence[tuple[MapAnswer, Part]]) -> Trend:
    nodes = list(dict.fromkeys(node for _, part in maps for node in part.seen.nodes))
    place = {node: at for at, node in enumerate(nodes)}
    table = np.full((len(maps), len(nodes)), np.nan)
    for row, (_, part) in enumerate(maps):
        table[row, [place[node] for node in part.seen.nodes]] = _percent(part, way)
    accused = {node for one, _ in maps for node in one.answer.accused}
    worst = np.nanmin(np.where(np.isfinite(table), table, np.inf), axis=0)
    order = sorted(range(len(nodes)), key=lambda at: (nodes[at] not in accused, worst[at]))[:MOST_NODES]
    there = np.isfinite(table).any(axis=1)
    band = np.full((2, len(maps)), np.nan)
    band[:, there] = np.nanquantile(table[there], BAND, axis=1)
    nights = tuple((one.started, one.session) for one, _ in maps)
    return Trend(stack, fabric, quantity, way, nights, tuple(nodes[at] for at in order), table[:, order], band[0], band[1])


def _percent(part: Part, way: str) -> Floats:
    """Of each node the median of its pairs, in percent of what others reach."""
    seen, excess = part.seen, part.residuals.excess
    if way == BOTH:
        return _medians(np.concatenate([seen.source, seen.target]), np.concatenate([excess, excess]), len(seen.nodes))
    return _medians(seen.source if way == SENDS else seen.target, excess, len(seen.nodes))


def _medians(node: Integers, excess: Floats, count: int) -> Floats:
    found = np.full(count, np.nan)
    order = np.lexsort((excess, node))
    which, starts, sizes = np.unique(node[order], return_index=True, return_counts=True)
    low, high = excess[order][starts + (sizes - 1) // 2], excess[order][starts + sizes // 2]
    found[which] = 100 * np.exp(-(low + high) / 2)
    return found
