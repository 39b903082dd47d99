"""Who may be at fault, and which observations each would show in: nodes, cables of a pair, switches and links between them.

A suspect is a row of a sparse matrix over the observations. Of a directed quantity each direction is a suspect of its own:
observations of both directions of one moment share its disturbances, and counted together they would prove too much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse

from .baseline import loads
from .observations import Flags, Integers, Observations, Places

SENDS, RECEIVES, BOTH = "sends", "receives", "both"
#: Kinds in the order in which one is named where several would show in the same observations.
NODE, LINK, UPLINK, SWITCH, PAIR = "node", "link", "uplink", "switch", "pair"
KINDS = (NODE, LINK, UPLINK, SWITCH, PAIR)
#: A link between two switches, or a pair, is only tested where it was crossed at so many moments.
LEAST_MOMENTS = 2
#: Loads of links that are judged on their own, at most; and links from switch to switch that are judged by their load.
_MOST_LOADS, _MOST_BUSY_LINKS = 4, 64


class Suspect(NamedTuple):
    """One that may be at fault.

    :param kind: one of :data:`KINDS`: a node; the way from one switch to another; all ways of a switch to others; a switch with
        what is below it; a pair of nodes.
    :param names: its name; of a link and a pair both ends, the sending one first where there is a direction.
    :param way: :data:`SENDS`, :data:`RECEIVES` or, of a quantity without a direction, :data:`BOTH`.
    :param level: of a switch: 0 a leaf, 1 what is above it.
    :param load: of a link between switches: only where so many or more messages shared it, as a slow one carries one of them
        as fast as a good one does; 0: all.
    """

    kind: str
    names: tuple[str, ...]
    way: str
    level: int = 0
    load: int = 0


@dataclass(frozen=True)
class Suspects:
    """All suspects of a map.

    :param named: suspect of each row.
    :param rows: ``rows[suspect, observation]`` is 1 where it would show.
    :param moments: how many moments each was observed at.
    """

    named: Sequence[Suspect]
    rows: scipy.sparse.csr_matrix
    moments: Integers

    def observations_of(self, row: int) -> Integers:
        """Places of the observations in which a suspect would show."""
        return self.rows.indices[self.rows.indptr[row] : self.rows.indptr[row + 1]]


class _Labels(NamedTuple):
    """Suspects of one kind and direction: for each observation the suspect it would show (-1: none)."""

    names: Sequence[Suspect]
    label: Integers


def of_map(seen: Observations, places: Places) -> Suspects:
    """Suspects of a map of pairs."""
    parts = [*_ends(seen), *_switches(seen, places), *_pairs(seen)]
    return _joined(seen, parts)


def _ends(seen: Observations) -> Iterator[_Labels]:
    """Nodes."""
    if seen.directed:
        for way, label in ((SENDS, seen.source), (RECEIVES, seen.target)):
            yield _Labels([Suspect(NODE, (node,), way) for node in seen.nodes], label)
        return
    names = [Suspect(NODE, (node,), BOTH) for node in seen.nodes]
    yield _Labels(names, seen.source)
    yield _Labels(names, seen.target)


def _switches(seen: Observations, places: Places) -> Iterator[_Labels]:
    """At each level the ways from switch to switch, those of one switch to all others, and the switch with all below it."""
    for level, switch_of in enumerate(places.levels(seen.nodes)):
        names = sorted(set(switch_of) - {""})
        number = {name: place for place, name in enumerate(names)}
        label = np.array([number.get(name, -1) for name in switch_of], dtype=np.intp)
        source, target = label[seen.source], label[seen.target]
        known = (source >= 0) & (target >= 0)
        across = known & (source != target)
        if not across.any():
            continue
        first, second = (source, target) if seen.directed else (np.minimum(source, target), np.maximum(source, target))
        way = SENDS if seen.directed else BOTH
        code = np.where(across, first * len(names) + second, -1)
        codes = np.unique(code[across])
        links = [Suspect(LINK, (names[one // len(names)], names[one % len(names)]), way, level) for one in codes.tolist()]
        yield _Labels(links, np.where(across, np.searchsorted(codes, code), -1))
        ends = ((SENDS, source), (RECEIVES, target)) if seen.directed else ((BOTH, source), (BOTH, target))
        for direction, end in ends:
            yield _Labels([Suspect(UPLINK, (name,), direction, level) for name in names], np.where(across, end, -1))
        for load, busy in _busy(seen, label, across):
            if len(links) <= _MOST_BUSY_LINKS:
                yield _Labels([one._replace(load=load) for one in links], np.where(busy, np.searchsorted(codes, code), -1))
            for direction, end in ends:
                yield _Labels([Suspect(UPLINK, (name,), direction, level, load) for name in names], np.where(busy, end, -1))
        if (known & ~across).any():
            for direction, end in ends:
                yield _Labels([Suspect(SWITCH, (name,), direction, level) for name in names], np.where(known, end, -1))


def _busy(seen: Observations, label: Integers, across: Flags) -> Iterator[tuple[int, Flags]]:
    """Loads above the smallest, each with the observations across switches that shared an uplink with so many or more."""
    if not seen.directed:
        return
    load = np.where(across, loads(seen, label), 0)
    several = np.unique(load[across])[1:]
    # Of many the octaves.
    chosen = several if len(several) <= _MOST_LOADS else 2 ** np.arange(1, int(np.log2(several[-1])) + 1)[-_MOST_LOADS:]
    for least in chosen.tolist():
        yield int(least), across & (load >= least)


def _pairs(seen: Observations) -> Iterator[_Labels]:
    """Pairs of nodes that were measured at several moments."""
    first, second = seen.source, seen.target
    if not seen.directed:
        first, second = np.minimum(first, second), np.maximum(first, second)
    code = first * len(seen.nodes) + second
    codes, place = np.unique(code, return_inverse=True)
    way = SENDS if seen.directed else BOTH
    count = len(seen.nodes)
    often = _moments_of(place, seen.moment, len(codes)) >= LEAST_MOMENTS
    if not often.any():
        return
    kept = np.where(often, np.cumsum(often) - 1, -1)
    names = [Suspect(PAIR, (seen.nodes[one // count], seen.nodes[one % count]), way) for one in codes[often].tolist()]
    yield _Labels(names, kept[place])


def _moments_of(label: Integers, moment: Integers, count: int) -> Integers:
    """How many distinct moments each label has."""
    there = label >= 0
    span = int(moment.max(initial=0)) + 1
    distinct = np.unique(label[there] * span + moment[there])
    return np.bincount(distinct // span, minlength=count)


def _joined(seen: Observations, parts: Sequence[_Labels]) -> Suspects:
    """One matrix of all parts; what was observed at too few moments, and in nothing, is no suspect."""
    numbers: dict[Suspect, int] = {}
    suspects, at = [], []
    for part in parts:
        numbering = np.array([numbers.setdefault(name, len(numbers)) for name in part.names], dtype=np.intp)
        labelled = np.flatnonzero(part.label >= 0)
        suspects.append(numbering[part.label[labelled]])
        at.append(labelled)
    who, where = np.concatenate(suspects), np.concatenate(at)
    names = list(numbers)
    moments = _moments_of(who, seen.moment[where], len(names))
    kept = moments >= LEAST_MOMENTS
    place = np.where(kept, np.cumsum(kept) - 1, -1)[who]
    there = place >= 0
    # A switch of which both ends of a pair are below would be counted twice.
    rows = scipy.sparse.csr_matrix(
        (np.ones(int(there.sum()), dtype=np.int32), (place[there], where[there])), shape=(int(kept.sum()), len(seen))
    )
    rows.sum_duplicates()
    rows.data[:] = 1
    return Suspects([name for name, keep in zip(names, kept.tolist(), strict=True) if keep], rows, moments[kept])
