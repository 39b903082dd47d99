"""What healthy pairs of one class reach, and how much slower each observation is than that.

slowness of an observation
    = level of its class + drift of its moment + node that sends + node that receives + links between switches + pair + noise,
    additive on the log scale, where all but the first two and the noise are 0 unless something is wrong.

A class holds the pairs that should be alike: the same distance in the tree of switches, the same kinds of nodes and, where
that matters, as many others on the same uplink at the same time (links between switches may be oversubscribed). Its level is
that of its fastest quarter at least, so that it holds while less than three quarters of a small map are slow: of four nodes one
slow one is in half of all pairs. The drift of a moment is how much slower its fastest quarter is than usual; it is taken out
only where what nobody is accused of shows one (:func:`drifts`), as rounds in which most pairs cross slow uplinks look like it.
Neither is what the error rates rest on, which count ranks only (:mod:`.search`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.stats

from .observations import Flags, Floats, Integers, Observations, Places, numbered

#: A level is sought above this share of the fastest, and among what lies within so many times their spread.
_FASTEST, _REACH = 0.25, 2.0
#: Moments with fewer observations than this have no drift of their own: one slow pair would be a part of it.
_LEAST_AT_A_MOMENT = 8
#: Classes with fewer observations are too small to judge one of them by the others.
LEAST_OF_A_CLASS = 4
#: Busy uplinks make classes of their own where their pairs are slower by so much (log scale); so many loads are kept apart.
_BUSY, _MOST_LOADS = 0.03, 16
#: As the median absolute deviation of a normal distribution is related to its standard deviation.
_NORMAL = 1.4826


@dataclass(frozen=True)
class PairClass:
    """One class of pairs.

    :param distance: switch levels that a message climbs: 0 below one leaf.
    :param kinds: of source and target; ``("", "")`` where all nodes are alike.
    :param load: observations on the busier of its two uplinks at the same time, itself among them; 0: below one switch, or it
        makes no difference.
    :param slowness: what its healthy pairs have, log scale.
    :param count: observations.
    :param blocks: pairs of switches it has observations of.
    """

    distance: int
    kinds: tuple[str, str]
    load: int
    slowness: float
    count: int
    blocks: int


@dataclass(frozen=True)
class Residuals:
    """How much slower each observation is than its class, log scale.

    :param stratum: class of each observation, or what several classes are that should be equally fast.
    :param spread: standard deviation of the middle of the residuals.
    :param held: by how much its class as a whole is slower than the fastest of the same kinds: a bandwidth is that of the
        narrowest part of its way, so that what costs a node no more than this does not show there.
    """

    levels: tuple[PairClass, ...]
    stratum: Integers
    excess: Floats
    spread: float
    held: Floats


def distances(seen: Observations, places: Places) -> Integers:
    """How many switch levels the message of each observation climbs; those of nodes without a switch count as the farthest."""
    far = np.zeros(len(seen), dtype=np.intp)
    for switch_of in places.levels(seen.nodes):
        _, number = numbered(switch_of)
        unknown = np.array([not name for name in switch_of])
        ends = number[seen.source], number[seen.target]
        far += (ends[0] != ends[1]) | unknown[seen.source]
    return far


def residuals(
    seen: Observations, places: Places, kinds: Mapping[str, str], *, full_rate: bool = False, drifting: bool = True
) -> Residuals:
    """Levels of all classes, and what is left without them and without the drift.

    :param kinds: node to its kind, where there are several.
    :param full_rate: a pair across switches should be as fast as one below a switch, however busy the uplinks are.
    :param drifting: what came and went for all is taken out.
    """
    distance = distances(seen, places)
    kind = [kinds.get(node, "") for node in seen.nodes]
    _, kind_number = numbered(kind)
    leaves = numbered([places.leaf(node) for node in seen.nodes])[1]
    many = int(kind_number.max(initial=0)) + 1
    code = (distance * many + kind_number[seen.source]) * many + kind_number[seen.target]
    # Drift is what a moment has beyond its loads: rounds differ in how many of their pairs cross an uplink, and a slow one must
    # not be taken for what came and went.
    every_load = loads(seen, leaves) if seen.directed else np.zeros(len(seen), dtype=np.intp)
    load = _if_it_matters(every_load, seen.slowness)
    members, stratum = _members(code * (int(load.max(initial=0)) + 1) + load)
    own = np.array([level_of(seen.slowness[there]) for there in members])
    left = seen.slowness - drift(seen.slowness - own[stratum], seen.moment) if drifting else seen.slowness
    load = _if_it_matters(every_load, left)
    members, stratum = _members(code * (int(load.max(initial=0)) + 1) + load)
    block = leaves[seen.source] * (int(leaves.max(initial=0)) + 1) + leaves[seen.target]
    levels = []
    for there in members:
        first = there[0]
        pair = kind[seen.source[first]], kind[seen.target[first]]
        blocks = len(np.unique(block[there]))
        level = level_of(left[there])
        levels.append(PairClass(int(distance[first]), pair, int(load[first]), level, len(there), blocks))
    best: dict[tuple[str, str], float] = {}
    for one in levels:
        best[one.kinds] = min(best.get(one.kinds, np.inf), one.slowness)
    healthy = np.array([best[one.kinds] if full_rate else one.slowness for one in levels])
    excess = left - healthy[stratum]
    held = (healthy - np.array([best[one.kinds] for one in levels]))[stratum] * seen.directed
    if full_rate:
        _, pairs_of_kinds = numbered([one.kinds for one in levels])
        stratum = pairs_of_kinds[stratum]
    return Residuals(tuple(levels), stratum.astype(np.intp), excess, spread(excess), held)


def _members(code: Integers) -> tuple[list[Integers], Integers]:
    """Places of the observations of each class, and the class of each observation."""
    names, stratum = np.unique(code, return_inverse=True)
    order = np.argsort(stratum, kind="stable")
    ends = np.cumsum(np.bincount(stratum, minlength=len(names)))
    return list(np.split(order, ends[:-1])), stratum


def loads(seen: Observations, leaves: Integers) -> Integers:
    """Observations on the busier of the two uplinks of each at the same time, in its busier direction; 0 below one switch.

    What goes the other way counts as well: acknowledgements wait in its queue, and one message against three that share a slow
    uplink was as slow as these (TCP on the mini-cluster).
    """
    across = leaves[seen.source] != leaves[seen.target]
    load = np.zeros(len(seen), dtype=np.intp)
    many = int(leaves.max(initial=0)) + 1
    ends = [seen.together[across] * many + leaves[end[across]] for end in (seen.source, seen.target)]
    _, place = np.unique(np.concatenate(ends), return_inverse=True)
    places = np.split(place, 2)
    for end in places:
        count = np.bincount(end, minlength=int(place.max(initial=0)) + 1)
        for own in places:
            load[across] = np.maximum(load[across], count[own])
    return load


def _if_it_matters(load: Integers, slowness: Floats) -> Integers:
    """The loads, in quarters of an octave where there are many; all 0 where pairs on busy uplinks are as fast as others."""
    across = np.flatnonzero(load)
    # Where most have the largest load, that against the others.
    middle = min(float(np.median(load[across])), int(load.max()) - 0.5) if len(across) else 0.0
    busy, free = across[load[across] > middle], across[load[across] <= middle]
    if len(busy) < LEAST_OF_A_CLASS or len(free) < LEAST_OF_A_CLASS:
        return np.zeros_like(load)
    if level_of(slowness[busy]) - level_of(slowness[free]) < _BUSY:
        return np.zeros_like(load)
    if len(np.unique(load[across])) <= _MOST_LOADS:
        return load
    return np.where(load > 0, np.round(2.0 ** (np.round(4 * np.log2(np.maximum(load, 1))) / 4)), 0).astype(np.intp)


def level_of(slowness: Floats) -> float:
    """The middle of the fastest observations that lie together; of at most three quarters that are slower nothing is in it."""
    low, quarter = np.quantile(slowness, [_FASTEST / 2, _FASTEST], method="lower")
    room = _REACH * max(float(quarter - low) / float(np.diff(scipy.stats.norm.ppf([_FASTEST / 2, _FASTEST]))[0]), 1e-3)
    return float(np.median(slowness[slowness <= quarter + room]))


def drift(excess: Floats, moment: Integers) -> Floats:
    """For each observation how much slower the fastest quarter of its moment is than that of all: what came and went for all.

    Of a moment in which up to three quarters cross a slow uplink nothing of that is drift.
    """
    order = np.lexsort((excess, moment))
    counts = np.bincount(moment)
    enough = counts >= _LEAST_AT_A_MOMENT
    if not enough.any():
        return np.zeros(len(excess))
    starts = np.cumsum(counts) - counts
    shift = np.zeros(len(counts))
    quarter = np.floor((counts[enough] - 1) * _FASTEST).astype(np.intp)
    shift[enough] = excess[order][starts[enough] + quarter]
    shift[enough] -= np.median(shift[enough])
    return shift[moment]


def drifts(excess: Floats, moment: Integers, rest: Flags, margin: float) -> bool:
    """Whether at some moment nearly all of what nobody is accused of was slower, or faster, by the margin.

    :param rest: observations that no accusation took; of a moment more than half, or it says nothing.
    """
    order = np.lexsort((excess[rest], moment[rest]))
    which, starts, counts = np.unique(moment[rest][order], return_index=True, return_counts=True)
    enough = (counts >= LEAST_OF_A_CLASS) & (2 * counts > np.bincount(moment)[which])
    ordered, fast = excess[rest][order], np.floor((counts - 1) * _FASTEST).astype(np.intp)
    ends = ordered[starts + fast], -ordered[starts + counts - 1 - fast]
    return any(bool((end[enough] > margin).any()) for end in ends)


def numbered_together(first: Integers, second: Integers) -> Integers:
    """A number for each pair of values: a class at a moment, or two nodes."""
    return np.unique(first * (int(second.max(initial=0)) + 1) + second, return_inverse=True)[1]


def spread(excess: Floats) -> float:
    """Standard deviation of the middle half, as if it were normal; 0 of nothing."""
    return float(_NORMAL * np.median(np.abs(excess - np.median(excess)))) if len(excess) else 0.0


def too_small(found: Residuals) -> Flags:
    """Observations of classes with fewer than :data:`LEAST_OF_A_CLASS`."""
    few: Flags = np.bincount(found.stratum)[found.stratum] < LEAST_OF_A_CLASS
    return few
