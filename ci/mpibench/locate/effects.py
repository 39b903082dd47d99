"""How much slower an accused suspect is, with an interval, and how its accusations of several directions are one finding."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats

from .baseline import Residuals
from .observations import Floats, Observations
from .search import ALL, Accusation
from .suspects import BOTH, LINK, NODE, PAIR, RECEIVES, SENDS, Suspect, Suspects

#: Confidence of the interval of an effect.
CONFIDENCE = 0.95
#: Kinds whose directions are one thing: a node, an uplink, a switch. The directions of a link and a pair are two names.
_FLIPPED = (LINK, PAIR)


@dataclass(frozen=True)
class Direction:
    """One accusation in words of the machine.

    :param times: how many times as long it takes as others of its class, or by how much its bandwidth is divided; median of
        what it is accused by. ``low``, ``high``: its interval.
    :param added_us: of a latency, what it takes longer, in microseconds.
    :param value: median of the values themselves, in the quantity's unit.
    :param slow: observations beyond the threshold, of ``count``; ``partners``: nodes at the other end.
    :param pairs: pairs of nodes it was observed in; ``moments``: how many had slow ones, of ``all_moments``.
    :param alike: others that show in just the same observations.
    """

    suspect: Suspect
    extent: str
    times: float
    low: float
    high: float
    added_us: float | None
    value: float
    slow: int
    count: int
    partners: int
    pairs: int
    moments: int
    all_moments: int
    probability: float
    threshold: float
    alike: tuple[Suspect, ...]


@dataclass(frozen=True)
class Accused:
    """One thing that is accused, in all its directions.

    :param quantity: what shows it.
    :param directions: sending before receiving.
    :param said: its sentence, where it is not the usual one.
    """

    quantity: str
    kind: str
    names: tuple[str, ...]
    level: int
    directions: tuple[Direction, ...]
    said: str = ""

    @property
    def way(self) -> str:
        """Its direction, or :data:`BOTH`."""
        ways = {one.suspect.way for one in self.directions}
        return ways.pop() if len(ways) == 1 and not self.is_two_way else BOTH

    @property
    def is_two_way(self) -> bool:
        """Whether both directions of a link or pair are accused."""
        return self.kind in _FLIPPED and len(self.directions) > 1

    @property
    def worst(self) -> Direction:
        """The direction that loses most."""
        return max(self.directions, key=lambda one: one.times)

    @property
    def extent(self) -> str:
        """``all`` if any direction is slow throughout."""
        return ALL if any(one.extent == ALL for one in self.directions) else self.directions[0].extent

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that are accused: itself if it is one and nothing else shows in the same observations."""
        sure = all(not one.alike for one in self.directions)
        return self.names if self.kind == NODE and sure else ()


def findings(seen: Observations, found: Residuals, suspects: Suspects, accusations: Iterable[Accusation]) -> list[Accused]:
    """Accusations as findings, the worst first."""
    gathered: dict[tuple[str, tuple[str, ...], int], list[Direction]] = {}
    for one in accusations:
        direction = _direction(seen, found, suspects, one)
        suspect = direction.suspect
        names = tuple(sorted(suspect.names)) if suspect.kind in _FLIPPED else suspect.names
        gathered.setdefault((suspect.kind, names, suspect.level), []).append(direction)
    rows = [
        Accused(seen.quantity, kind, names, level, tuple(sorted(directions, key=_order)))
        for (kind, names, level), directions in gathered.items()
    ]
    return sorted(rows, key=lambda one: (one.extent != ALL, -one.worst.times))


def without_islands(
    seen: Observations, found: Residuals, suspects: Suspects, accusations: Sequence[Accusation], margin: float
) -> tuple[list[Accusation], list[tuple[tuple[str, ...], str]]]:
    """Accusations without nodes that are slow with others only, and these nodes together, each time with their direction.

    Two nodes that send slowly do so to each other, too. Several that are slow with others and not with one another are below
    something slow that no description has, and none of them is accused.
    """
    slow = [suspects.named[one.row] for one in accusations if one.extent == ALL]
    place = {name: at for at, name in enumerate(seen.nodes)}
    islands: list[tuple[tuple[str, ...], str]] = []
    for way in (SENDS, RECEIVES, BOTH):
        left = sorted(place[one.names[0]] for one in slow if (one.kind, one.way) == (NODE, way))
        fast = _fast_among(seen, found, left, margin)
        while left:
            island, new = list[int](), [left[0]]
            while new:
                island, left = [*island, *new], [node for node in left if node not in new]
                new = [node for node in left if any({node, one} in fast for one in new)]
            if len(island) > 1:
                islands.append((tuple(seen.nodes[node] for node in sorted(island)), way))
    gone = {Suspect(NODE, (name,), way) for names, way in islands for name in names}
    return [one for one in accusations if suspects.named[one.row] not in gone], islands


def _fast_among(seen: Observations, found: Residuals, nodes: Sequence[int], margin: float) -> set[frozenset[int]]:
    """Pairs of these nodes that were measured with each other and were not slow in either direction."""
    values: dict[tuple[int, int], list[float]] = {}
    for at in np.flatnonzero(np.isin(seen.source, nodes) & np.isin(seen.target, nodes)).tolist():
        values.setdefault((int(seen.source[at]), int(seen.target[at])), []).append(float(found.excess[at]))
    slow = {frozenset(pair) for pair, measured in values.items() if statistics.median(measured) > margin}
    return {frozenset(pair) for pair in values} - slow


def _order(direction: Direction) -> tuple[int, tuple[str, ...]]:
    return (SENDS, RECEIVES, BOTH).index(direction.suspect.way), direction.suspect.names


def _direction(seen: Observations, found: Residuals, suspects: Suspects, one: Accusation) -> Direction:
    suspect = suspects.named[one.row]
    mine = one.observations
    slow = mine[found.excess[mine] > one.threshold]
    judged = mine if one.extent == ALL else slow
    low, middle, high = _median(found.excess[judged])
    lower_is_better = _is_time(seen)
    values = np.exp(seen.slowness[judged] if lower_is_better else -seen.slowness[judged])
    added = np.exp(seen.slowness[judged]) - np.exp(seen.slowness[judged] - found.excess[judged])
    ends = np.concatenate([seen.source[mine], seen.target[mine]])
    pair = np.minimum(seen.source[mine], seen.target[mine]) * len(seen.nodes) + np.maximum(seen.source[mine], seen.target[mine])
    return Direction(
        suspect=suspect,
        extent=one.extent,
        times=float(np.exp(middle)),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        added_us=float(np.median(added)) if lower_is_better else None,
        value=float(np.median(values)),
        slow=one.slow,
        count=one.count,
        partners=len(np.unique(ends)) - (suspect.kind == NODE),
        pairs=len(np.unique(pair)),
        moments=len(np.unique(seen.moment[slow])),
        all_moments=len(np.unique(seen.moment[mine])),
        probability=one.probability,
        threshold=one.threshold,
        alike=tuple(suspects.named[row] for row in one.alike),
    )


def _is_time(seen: Observations) -> bool:
    return seen.quantity.endswith("_us")


def _median(values: Floats) -> tuple[float, float, float]:
    """Median and its interval from order statistics, whatever the distribution (Conover 1999, section 3.2)."""
    ordered = np.sort(values)
    place = int(scipy.stats.binom.ppf((1 - CONFIDENCE) / 2, len(ordered), 0.5))
    return (
        float(ordered[max(0, place - 1)]),
        float(np.median(ordered)),
        float(ordered[min(len(ordered) - 1, len(ordered) - place)]),
    )


#: Quantity to the one that shows the same where both do.
_SAME: Mapping[str, str] = {"latency_mean_us": "latency_us"}


def without_echoes(findings: Sequence[Accused]) -> list[Accused]:
    """Findings without those by a mean latency of what the latency shows as well."""
    there = {(one.quantity, one.kind, one.names) for one in findings}
    return [one for one in findings if (_SAME.get(one.quantity, ""), one.kind, one.names) not in there]


def gather(parts: Sequence[Sequence[Accused]]) -> list[Accused]:
    """Findings of several quantities: those of one thing beside each other, in the order of the worst."""
    rows = [one for part in parts for one in part]
    first: dict[tuple[str, tuple[str, ...], int], int] = {}
    for place, one in enumerate(rows):
        first.setdefault((one.kind, one.names, one.level), place)
    return sorted(rows, key=lambda one: first[one.kind, one.names, one.level])
