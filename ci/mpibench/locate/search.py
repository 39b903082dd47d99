"""Accusations with a stated error rate: in whom slow observations
gather that would otherwise be anywhere.

What healthy pairs reach
------------------------
slowness of an observation
    = level of its class + drift of its moment + node that sends + node that receives + links
    between switches + pair + noise, additive on the log scale, where all but the first two and the
    noise are 0 unless something is wrong.

A class holds the pairs that should be alike: the same distance in the tree of switches, the same
kinds of nodes and, where that matters, as many others on the same uplink at the same time (links
between switches may be oversubscribed). Its level is that of its fastest quarter at least, so that
it holds while less than three quarters of a small map are slow: of four nodes one slow one is in
half of all pairs. The drift of a moment is how much slower its fastest quarter is than usual; it is
taken out only where what nobody is accused of shows one (:func:`drifts`), as rounds in which most
pairs cross slow uplinks look like it. Neither is what the error rates rest on, which count ranks
only.

Who is accused
--------------
An observation is slow if it exceeds its class by a threshold. If nothing is wrong with a suspect,
its observations are as often slow as those of all others of the same classes, whatever the noise
is: their number has a hypergeometric distribution in each class (Fisher 1935), which needs no
estimate and no assumption on tails. Where healthy nodes differ in how noisy they are, the number
has longer tails; for ``some`` a beta-binomial distribution with the overdispersion of all others of
the kind covers that, and the larger of both probabilities counts.

error rate
    The probabilities of all suspects and thresholds are each held against a part of the rate; the
    parts of all such tests sum up to it (of both extents below the number of slow observations is
    the same: one test). So the expected number of innocents that are accused in a run is at most
    the rate, however the tests depend on each other (Bonferroni; Lehmann and Romano 2005,
    "per-family error rate"). Nodes, what is between switches, and pairs have a share of the rate
    each, as a small map has few nodes and many pairs.
which one
    A slow uplink makes pairs of each node below it slow, and a slow node a part of its switch's. Of
    all that pass, the one is accused which explains most: the largest likelihood ratio of its
    number of slow observations to that of the others, whoever is slow in ``all`` before ``some``
    (two slow nodes are not a part of their switch), and a pair after all others (that which a slow
    uplink hits most explains none of the rest). What it shows in is then taken out, and the search
    goes on with the rest, so that no observation accuses two.
extent
    ``all``: at least two thirds of its observations are slow. ``some``: fewer, at three moments or
    more: an intermittent fault, or one of several parallel cables. By twice the margin, and of a
    node at least a sixth, as some are noisier than others; of a switch or link they must not be one
    node's for the most part.
several nodes
    What joins nodes is slow for all of them: a switch or link is accused only where nearly each
    node at it is as slow as it is, and a switch only where that holds of what stays below it as
    well, or it would be its uplink. Without that, three slow nodes below one switch, or a slow node
    below a slow uplink, accuse the switch.
a pair
    A route is accused for itself alone. Several pairs of one node that are left, or one of a node
    that is accused, say that more is wrong than the map can tell apart: they accuse nobody and are
    named as unexplained.
where it can be seen
    Of a bandwidth the narrowest part of the way counts: a slow node does not show behind an uplink
    that is as slow. So nodes are sought among all observations, and again among those alone whose
    class is as fast as the fastest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np
import scipy.sparse
import scipy.stats

from reframe_tests.harness.machine.switches import JOINED

from .maps import (
    BOTH,
    KINDS,
    LINK,
    NODE,
    PAIR,
    SENDS,
    SWITCH,
    UPLINK,
    Flags,
    Floats,
    Integers,
    Observations,
    Places,
    Suspect,
    grouped,
    numbered,
)

#: A level is sought above this share of the fastest, and among what
#: lies within so many times their spread.
_FASTEST = 0.25
_REACH = 2.0
#: Moments with fewer observations than this have no drift of their
#: own: one slow pair would be a part of it.
_LEAST_AT_A_MOMENT = 8
#: Classes with fewer observations are too small to judge one of them by the others.
LEAST_OF_A_CLASS = 4
#: Busy uplinks make classes of their own where their pairs are slower by so
#: much (log scale); so many loads are kept apart.
_BUSY = 0.03
_MOST_LOADS = 16
#: As the median absolute deviation of a normal distribution is related to its standard deviation.
_NORMAL = 1.4826
#: A link between two switches, or a pair, is only tested where it was crossed at so many moments.
LEAST_MOMENTS = 2
#: Loads of links that are judged on their own, at most; and links from
#: switch to switch that are judged by their load.
_MOST_JUDGED_LOADS = 4
_MOST_BUSY_LINKS = 64
#: Innocents accused per run, expected at most.
RATE = 0.05
ALL = "all"
SOME = "some"
#: Share of observations that must be slow for ``all``; for ``some``
#: moments with slow ones, and of a node the share.
_ALL_SHARE = 2 / 3
_SOME_MOMENTS = 3
_SOME_SHARE = 1 / 6
#: Thresholds: the margin on the log scale, and so many times it.
LADDER = (1.0, 2.0, 4.0, 8.0)
#: Shares of the rate: nodes, switches and what is between them, pairs. That of a group without
#: suspects goes to the others.
_SHARES: tuple[tuple[frozenset[str], float], ...] = (
    (frozenset({NODE}), 0.5),
    (frozenset({LINK, UPLINK, SWITCH}), 0.25),
    (frozenset({PAIR}), 0.25),
)
#: What joins nodes: of those with so many observations in it, the share that must be slow in half
#: of these; for ``some`` the share that must be slow half as often as all of them.
_JOINED_LEAST = 3
_JOINED_ALL = 0.8
_JOINED_SOME = 0.75
#: The probability can be smaller than the bound that sorts out whom to
#: compute it for, by no more than this (natural log).
_SLACK = 6.0
#: Share of the others that are left out where their overdispersion is estimated: those slow most
#: often, which may be at fault.
_TRIMMED = 0.02
#: Accusations in one run, at most: who finds more has a machine that is broken as a whole.
MOST = 500


@dataclass(frozen=True)
class PairClass:
    """One class of pairs.

    :param distance: switch levels that a message climbs: 0 below one leaf.
    :param kinds: of source and target; ``("", "")`` where all nodes are alike.
    :param load: observations on the busier of its two uplinks at the same time, itself among them;
        0: below one switch, or it makes no difference.
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

    :param stratum: class of each observation, or what several
        classes are that should be equally fast.
    :param spread: standard deviation of the middle of the residuals.
    :param held: by how much its class as a whole is slower than the fastest of the same kinds: a
        bandwidth is that of the narrowest part of its way, so that what costs a node no more than
        this does not show there.
    """

    levels: tuple[PairClass, ...]
    stratum: Integers
    excess: Floats
    spread: float
    held: Floats


def distances(seen: Observations, places: Places) -> Integers:
    """How many switch levels the message of each observation climbs; those
    of nodes without a switch count as the farthest.
    """
    far = np.zeros(len(seen), dtype=np.intp)
    for switch_of in places.levels(seen.nodes):
        number = numbered(switch_of)[1]
        unknown = np.array([not name for name in switch_of])
        far += (number[seen.source] != number[seen.target]) | unknown[seen.source]
    return far


def residuals(
    seen: Observations,
    places: Places,
    kinds: Mapping[str, str],
    *,
    full_rate: bool = False,
    drifting: bool = True,
) -> Residuals:
    """Levels of all classes, and what is left without them and without the drift.

    :param kinds: node to its kind, where there are several.
    :param full_rate: a pair across switches should be as fast as one below
        a switch, however busy the uplinks are.
    :param drifting: what came and went for all is taken out.
    """
    distance = distances(seen, places)
    kind = [kinds.get(node, "") for node in seen.nodes]
    kind_of = numbered(kind)[1]
    leaf = numbered([places.leaf(node) for node in seen.nodes])[1]
    alike = numbered_together(
        numbered_together(distance, kind_of[seen.source]), kind_of[seen.target]
    )
    every_load = loads(seen, leaf) if seen.directed else np.zeros(len(seen), dtype=np.intp)

    def classes(slowness: Floats) -> tuple[Integers, Integers, list[Integers], Floats]:
        load = _if_it_matters(every_load, slowness)
        stratum = numbered_together(alike, load)
        members = [
            np.flatnonzero(stratum == stratum_number)
            for stratum_number in range(int(stratum.max()) + 1)
        ]
        return load, stratum, members, np.array([level_of(slowness[mine]) for mine in members])

    left = seen.slowness
    if drifting:
        # Drift is what a moment has beyond its loads: rounds differ in how many of their pairs
        # cross an uplink, and a slow one must not be taken for what came and went.
        _, stratum, _, own = classes(left)
        left = left - drift(left - own[stratum], seen.moment)
    load, stratum, members, healthy = classes(left)
    block = leaf[seen.source] * (int(leaf.max(initial=0)) + 1) + leaf[seen.target]
    levels = []
    for mine, level in zip(members, healthy.tolist(), strict=True):
        first = mine[0]
        ends = kind[seen.source[first]], kind[seen.target[first]]
        levels.append(
            PairClass(
                int(distance[first]),
                ends,
                int(load[first]),
                level,
                len(mine),
                len(np.unique(block[mine])),
            )
        )
    names, of_kinds = numbered([level.kinds for level in levels])
    best = np.array([healthy[of_kinds == number].min() for number in range(len(names))])[of_kinds]
    if full_rate:
        healthy = best
    excess = left - healthy[stratum]
    held = (healthy - best)[stratum] * seen.directed
    return Residuals(
        tuple(levels), of_kinds[stratum] if full_rate else stratum, excess, spread(excess), held
    )


def loads(seen: Observations, leaf: Integers) -> Integers:
    """Observations on the busier of the two uplinks of each at the same time, in its busier
    direction; 0 below one switch.

    What goes the other way counts as well: acknowledgements wait in its queue, and one message
    against three that share a slow uplink was as slow as these (TCP on the mini-cluster).
    """
    across = leaf[seen.source] != leaf[seen.target]
    load = np.zeros(len(seen), dtype=np.intp)
    many = int(leaf.max(initial=0)) + 1
    ends = [seen.together[across] * many + leaf[end[across]] for end in (seen.source, seen.target)]
    place = np.unique(np.concatenate(ends), return_inverse=True)[1]
    places = np.split(place, 2)
    for end in places:
        count = np.bincount(end, minlength=int(place.max(initial=0)) + 1)
        for own in places:
            load[across] = np.maximum(load[across], count[own])
    return load


def _if_it_matters(load: Integers, slowness: Floats) -> Integers:
    """The loads, in quarters of an octave where there are many; all 0 where
    pairs on busy uplinks are as fast as others.
    """
    across = np.flatnonzero(load)
    # Where most have the largest load, that against the others.
    middle = min(float(np.median(load[across])), int(load.max()) - 0.5) if len(across) else 0.0
    busy = across[load[across] > middle]
    free = across[load[across] <= middle]
    if (
        min(len(busy), len(free)) < LEAST_OF_A_CLASS
        or level_of(slowness[busy]) - level_of(slowness[free]) < _BUSY
    ):
        return np.zeros_like(load)
    if len(np.unique(load[across])) <= _MOST_LOADS:
        return load
    return np.where(
        load > 0, np.round(2.0 ** (np.round(4 * np.log2(np.maximum(load, 1))) / 4)), 0
    ).astype(np.intp)


def level_of(slowness: Floats) -> float:
    """The middle of the fastest observations that lie together; of at most
    three quarters that are slower nothing is in it.
    """
    low, quarter = np.quantile(slowness, [_FASTEST / 2, _FASTEST], method="lower")
    room = _REACH * max(
        float(quarter - low) / float(np.diff(scipy.stats.norm.ppf([_FASTEST / 2, _FASTEST]))[0]),
        1e-3,
    )
    return float(np.median(slowness[slowness <= quarter + room]))


def drift(excess: Floats, moment: Integers) -> Floats:
    """For each observation how much slower the fastest quarter of its moment
    is than that of all: what came and went for all.

    Of a moment in which up to three quarters cross a slow uplink nothing of that is drift.
    """
    which, starts, counts, ordered = grouped(moment, excess)
    shift = np.zeros(int(moment.max(initial=0)) + 1)
    if (enough := counts >= _LEAST_AT_A_MOMENT).any():
        fast = ordered[starts + np.floor((counts - 1) * _FASTEST).astype(np.intp)][enough]
        shift[which[enough]] = fast - np.median(fast)
    return shift[moment]


def drifts(excess: Floats, moment: Integers, rest: Flags, margin: float) -> bool:
    """Whether at some moment nearly all of what nobody is accused of
    was slower, or faster, by the margin.

    :param rest: observations that no accusation took; of a moment
        more than half, or it says nothing.
    """
    which, starts, counts, ordered = grouped(moment[rest], excess[rest])
    enough = (counts >= LEAST_OF_A_CLASS) & (2 * counts > np.bincount(moment)[which])
    fast = np.floor((counts - 1) * _FASTEST).astype(np.intp)
    ends = ordered[starts + fast], -ordered[starts + counts - 1 - fast]
    return any(bool((end[enough] > margin).any()) for end in ends)


def numbered_together(first: Integers, second: Integers) -> Integers:
    """A number for each two values, in their order: a class at a moment, or two nodes."""
    return np.unique(first * (int(second.max(initial=0)) + 1) + second, return_inverse=True)[1]


def spread(excess: Floats) -> float:
    """Standard deviation of the middle half, as if it were normal; 0 of nothing."""
    return float(_NORMAL * np.median(np.abs(excess - np.median(excess)))) if len(excess) else 0.0


@dataclass(frozen=True)
class Suspects:
    """All suspects of a map. Of a directed quantity each direction is a suspect of its own:
    observations of both directions of one moment share its disturbances, and counted together they
    would prove too much.

    :param named: suspect of each row.
    :param rows: ``rows[suspect, observation]`` is 1 where it would show.
    :param unjudged: those that the search never accuses.
    """

    named: Sequence[Suspect]
    rows: scipy.sparse.csr_matrix
    unjudged: frozenset[Suspect] = frozenset()

    def observations_of(self, row: int) -> Integers:
        """Places of the observations in which a suspect would show."""
        return self.rows.indices[self.rows.indptr[row] : self.rows.indptr[row + 1]]


def of_map(seen: Observations, places: Places) -> Suspects:
    """Nodes, and at each level the ways from switch to switch, those of one switch to all others,
    and the switch with all below it; pairs that were measured at several moments.
    """
    every = np.arange(len(seen))
    found = joined(((*part, every) for part in _suspects(seen, places)), seen.moment)
    # Where switches are joined with one another, it is not known which others a message crosses.
    paths = [path for path in places.switches.values() if path[-1] == JOINED]
    within = {name for path in paths for name in path}
    highest = {path[-2] for path in paths}
    among = {LINK: within, UPLINK: highest}
    return replace(
        found,
        unjudged=frozenset(
            one for one in found.named if not among.get(one.kind, set()).isdisjoint(one.names)
        ),
    )


def joined(
    parts: Iterable[tuple[Sequence[Suspect], Integers, Integers]], moment: Integers
) -> Suspects:
    """One matrix of suspects that were observed at several moments, from
    names, places in these, and observations.
    """
    numbers: dict[Suspect, int] = {}
    suspects = []
    at = []
    for names, label, observation in parts:
        number = np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.intp)
        suspects.append(number[label[label >= 0]])
        at.append(observation[label >= 0])
    who = np.concatenate(suspects)
    where = np.concatenate(at)
    kept = _moments_of(who, moment[where], len(numbers)) >= LEAST_MOMENTS
    place = np.where(kept, np.cumsum(kept) - 1, -1)[who]
    there = place >= 0
    # A switch of which both ends of a pair are below would be counted twice.
    rows = scipy.sparse.csr_matrix(
        (np.ones(int(there.sum()), dtype=np.int32), (place[there], where[there])),
        shape=(int(kept.sum()), len(moment)),
    )
    rows.sum_duplicates()
    rows.data[:] = 1
    return Suspects([name for name, keep in zip(numbers, kept.tolist(), strict=True) if keep], rows)


def _suspects(seen: Observations, places: Places) -> Iterator[tuple[Sequence[Suspect], Integers]]:
    """Suspects of one kind and direction, for each observation the place
    of that in which it would show (-1: none).
    """
    way = SENDS if seen.directed else BOTH
    for direction, end in seen.ends:
        yield [Suspect(NODE, (node,), direction) for node in seen.nodes], end
    for level, switch_of in enumerate(places.levels(seen.nodes)):
        names = sorted(set(switch_of) - {""})
        place_of = {name: place for place, name in enumerate(names)}
        label = np.array([place_of.get(name, -1) for name in switch_of], dtype=np.intp)
        source = label[seen.source]
        target = label[seen.target]
        known = (source >= 0) & (target >= 0)
        across = known & (source != target)
        if not across.any():
            continue
        codes, link = np.unique(seen.pairs(source, target, len(names))[across], return_inverse=True)
        link_of = np.full(len(seen), -1)
        link_of[across] = link
        links = [(names[code // len(names)], names[code % len(names)]) for code in codes.tolist()]
        for load, busy in [(0, across), *(_busy(seen, label, across) if seen.directed else ())]:
            if not load or len(links) <= _MOST_BUSY_LINKS:
                yield (
                    [Suspect(LINK, ends, way, level, load) for ends in links],
                    np.where(busy, link_of, -1),
                )
            for direction, end in seen.ends:
                yield (
                    [Suspect(UPLINK, (name,), direction, level, load) for name in names],
                    np.where(busy, label[end], -1),
                )
        if (known & ~across).any():
            for direction, end in seen.ends:
                yield (
                    [Suspect(SWITCH, (name,), direction, level) for name in names],
                    np.where(known, label[end], -1),
                )
    count = len(seen.nodes)
    codes, place = np.unique(seen.pairs(seen.source, seen.target, count), return_inverse=True)
    often = _moments_of(place, seen.moment, len(codes)) >= LEAST_MOMENTS
    if often.any():
        ends_of = [
            (seen.nodes[code // count], seen.nodes[code % count]) for code in codes[often].tolist()
        ]
        yield (
            [Suspect(PAIR, ends, way) for ends in ends_of],
            np.where(often, np.cumsum(often) - 1, -1)[place],
        )


def _busy(seen: Observations, label: Integers, across: Flags) -> Iterator[tuple[int, Flags]]:
    """Loads above the smallest, each with the observations across switches
    that shared an uplink with so many or more.
    """
    load = np.where(across, loads(seen, label), 0)
    several = np.unique(load[across])[1:]
    # Of many the octaves.
    many = len(several) > _MOST_JUDGED_LOADS
    chosen = (
        2 ** np.arange(1, int(np.log2(several[-1])) + 1)[-_MOST_JUDGED_LOADS:] if many else several
    )
    for least in chosen.tolist():
        yield int(least), across & (load >= least)


def _moments_of(label: Integers, moment: Integers, count: int) -> Integers:
    """At how many distinct moments each label was observed."""
    span = int(moment.max(initial=0)) + 1
    return np.bincount(np.unique(label * span + moment) // span, minlength=count)


@dataclass(frozen=True, eq=False)
class Accusation:
    """One suspect that is accused.

    :param alike: others that would show in just the same observations.
    :param extent: :data:`ALL` or :data:`SOME`.
    :param slow: observations beyond the threshold; ``count``: all of its
        that no earlier accusation had taken.
    :param probability: of so many slow ones if it is innocent.
    :param observations: places of what it is accused by.
    """

    suspect: Suspect
    alike: tuple[Suspect, ...]
    extent: str
    threshold: float
    slow: int
    count: int
    probability: float
    observations: Integers


class Verdict(NamedTuple):
    """All accusations of a run.

    :param tests: how many were made; what they were held against sums up to the rate.
    :param rest: observations that no accusation took.
    :param unexplained: pairs that are slow and accuse nobody, as no
        pair of theirs is slow for itself.
    :param floor: the smallest threshold at which a node that is slow in all of its observations
        would have been accused; ``None``: not at any, so that silence says nothing.
    """

    accusations: tuple[Accusation, ...]
    tests: int
    rest: Flags
    unexplained: tuple[Suspect, ...]
    floor: float | None


class Search:
    """Accuses whoever explains most, takes its observations out, and goes on.

    :param excess: how much slower each observation is than its class, log scale.
    :param margin: what is called slow at least, log scale.
    :param ends: node of each observation at either end, where these are known.
    :param held: how much slower its class is than it could be (:class:`Residuals`).
    """

    def __init__(
        self,
        suspects: Suspects,
        excess: Floats,
        stratum: Integers,
        moment: Integers,
        *,
        margin: float,
        rate: float = RATE,
        usable: Flags | None = None,
        ends: tuple[Integers, ...] = (),
        held: Floats | None = None,
    ) -> None:
        self.suspects = suspects
        self.excess = excess
        self.stratum = stratum
        self.moment = moment
        self.ends = ends
        self.kind = np.array(
            [KINDS.index(suspect.kind) for suspect in suspects.named], dtype=np.intp
        )
        self.margin = margin
        self.thresholds = [margin * step for step in LADDER]
        self.rest = np.ones(len(excess), dtype=bool) if usable is None else usable.copy()
        # Part of the rate of each suspect, at each threshold.
        groups = [
            (np.isin(self.kind, [KINDS.index(kind) for kind in kinds]), share)
            for kinds, share in _SHARES
        ]
        shared = sum(share for group, share in groups if group.any())
        self.limits = np.zeros(len(suspects.named))
        for group, share in groups:
            if group.any():  # of two nodes that met once nobody is a suspect
                self.limits[group] = rate * share / shared / int(group.sum()) / len(LADDER)
        # No probability is below 0.
        self.limits[[one in suspects.unjudged for one in suspects.named]] = -1.0
        whole = np.ones(len(excess), dtype=bool)
        free = whole if held is None else held <= margin
        self.views = [(whole, self.limits)]
        self.tests = max(1, len(LADDER) * len(suspects.named))
        if not free.all():
            is_node = self.kind == KINDS.index(NODE)
            self.limits = np.where(is_node, self.limits / 2, self.limits)
            # What is no node is not sought again.
            self.views = [(whole, self.limits), (free, np.where(is_node, self.limits, -1.0))]
            self.tests += len(LADDER) * int(is_node.sum())

    def run(self) -> Verdict:
        found: list[Accusation] = []
        while len(found) < MOST:
            strongest = [
                self._strongest(self.rest & where, threshold, limits)
                for where, limits in self.views
                for threshold in self.thresholds
            ]
            best = max(
                (candidate for candidate in strongest if candidate),
                key=lambda one: (one[2].extent == ALL, one[2].suspect.kind != PAIR, one[0]),
                default=None,
            )
            if best is None:
                break
            found.append(best[2])
            self.rest[self.suspects.observations_of(best[1])] = False
        # Pairs of which a node has another one, or is accused, explain nothing.
        pairs = {
            accusation.suspect.names for accusation in found if accusation.suspect.kind == PAIR
        }
        partners: dict[str, set[str]] = {}
        for node, other in pairs | {names[::-1] for names in pairs}:
            partners.setdefault(node, set()).add(other)
        several = {
            accusation.suspect.names[0] for accusation in found if accusation.suspect.kind == NODE
        }
        several |= {node for node in partners if len(partners[node]) > 1}
        echoes = [
            accusation
            for accusation in found
            if accusation.suspect.kind == PAIR and not several.isdisjoint(accusation.suspect.names)
        ]
        kept = tuple(accusation for accusation in found if accusation not in echoes)
        return Verdict(
            kept, self.tests, self.rest, tuple(echo.suspect for echo in echoes), self._floor()
        )

    def _counts(self, which: Flags) -> Integers:
        """Of each suspect how many of some observations are its."""
        return np.asarray(self.suspects.rows @ which.astype(np.int32), dtype=np.intp)

    def _strongest(
        self, active: Flags, threshold: float, limits: Floats
    ) -> tuple[float, int, Accusation] | None:
        """Whoever explains most at one threshold, of those that pass:
        logarithm of the likelihood ratio, and its row.
        """
        slow = active & (self.excess > threshold)
        if not slow.any():
            return None
        suspects = self.suspects
        kind = self.kind
        count = self._counts(active)
        hits = self._counts(slow)
        ratio = _likelihood_ratio(hits, count, int(slow.sum()), int(active.sum()))
        order = np.argsort(-ratio, kind="stable")
        part: tuple[float, int, Accusation] | None = None
        for row in order[
            : np.searchsorted(-ratio[order], math.log(limits.max()) + _SLACK)
        ].tolist():
            extent = ALL if hits[row] / max(count[row], 1) >= _ALL_SHARE else SOME
            if extent == SOME and (part or threshold <= self.margin):
                continue
            mine = suspects.observations_of(row)
            mine = mine[active[mine]]
            if extent == SOME and not self._is_partial(
                mine[slow[mine]], len(mine), suspects.named[row].kind
            ):
                continue
            joins = suspects.named[row].kind in (LINK, UPLINK, SWITCH)
            if joins and not self._is_shared(suspects.named[row], mine, slow, extent):
                continue
            probability = self._exact(active, slow, mine)
            if extent == SOME and probability <= limits[row]:
                # Suspects of the same kind, without those that are slow most often.
                others = np.flatnonzero(
                    (kind == kind[row]) & (count > 0) & (np.arange(len(kind)) != row)
                )
                others = others[np.argsort(hits[others] / count[others], kind="stable")]
                others = others[: max(len(others) - max(1, math.ceil(_TRIMMED * len(others))), 0)]
                probability = max(
                    probability, _overdispersed(hits[row], count[row], hits[others], count[others])
                )
            if probability <= limits[row]:
                same = [
                    other
                    for other in np.flatnonzero(
                        (hits == hits[row]) & (count == count[row])
                    ).tolist()
                    if np.array_equal(
                        np.sort(mine),
                        np.sort((theirs := suspects.observations_of(other))[active[theirs]]),
                    )
                ]
                first, *alike = sorted(same, key=lambda other: (kind[other], other))
                named = suspects.named[first], tuple(suspects.named[other] for other in alike)
                what = Accusation(
                    *named, extent, threshold, int(hits[row]), int(count[row]), probability, mine
                )
                if extent == ALL:
                    return float(ratio[row]), first, what
                part = float(ratio[row]), first, what
        return part

    def _is_partial(self, slow: Integers, count: int, kind: str) -> bool:
        """Whether slow observations may be a part of a suspect's: at
        several moments, and of a switch not one node's.
        """
        if len(np.unique(self.moment[slow])) < _SOME_MOMENTS:
            return False
        if kind in (NODE, PAIR):
            return len(slow) >= _SOME_SHARE * count
        return all(2 * np.bincount(end[slow]).max() <= len(slow) for end in self.ends)

    def _is_shared(self, suspect: Suspect, mine: Integers, slow: Flags, extent: str) -> bool:
        """Whether nearly all nodes at either end of what joins them are slow
        alike; of a switch also in what stays below.
        """
        parts = [mine]
        if suspect.kind == SWITCH:
            uplink = suspect._replace(kind=UPLINK)
            named = self.suspects.named
            outside = (
                self.suspects.observations_of(named.index(uplink)) if uplink in named else mine[:0]
            )
            parts = [np.intersect1d(mine, outside), np.setdiff1d(mine, outside)]
        for part in parts:
            if not slow[part].any():
                return False
            least, wanted = (
                (0.5, _JOINED_ALL)
                if extent == ALL
                else (0.5 * float(slow[part].mean()), _JOINED_SOME)
            )
            for end in self.ends:
                count = np.bincount(end[part])
                hits = np.bincount(end[part[slow[part]]], minlength=int(end[part].max()) + 1)
                often = count >= _JOINED_LEAST
                if often.any() and (hits[often] / count[often] >= least).mean() < wanted:
                    return False
        return True

    def _exact(self, active: Flags, slow: Flags, mine: Integers) -> float:
        """Probability of at least so many slow ones among its own, if those
        of each class are anywhere in the class.
        """
        many = int(self.stratum.max(initial=0)) + 1
        drawn, everything, slow_ones = (
            np.bincount(self.stratum[which], minlength=many) for which in (mine, active, slow)
        )
        hits = int(slow[mine].sum())
        there = np.flatnonzero(drawn).tolist()
        if len(there) == 1:
            (member,) = there
            return float(
                scipy.stats.hypergeom.sf(
                    hits - 1, everything[member], slow_ones[member], drawn[member]
                )
            )
        parts = [
            scipy.stats.hypergeom.pmf(
                np.arange(drawn[place] + 1), everything[place], slow_ones[place], drawn[place]
            )
            for place in there
        ]
        return float(min(1.0, reduce(np.convolve, parts)[hits:].sum()))

    def _floor(self) -> float | None:
        """The smallest threshold at which the typical node would be
        accused if all of its observations were slow.
        """
        count = self._counts(self.rest)
        nodes = (self.kind == KINDS.index(NODE)) & (count > 0)
        if not nodes.any():
            return None
        typical = int(np.median(count[nodes]))
        limit = float(self.limits[nodes].min())
        total = int(self.rest.sum())
        for threshold in self.thresholds:
            slow = int((self.rest & (self.excess > threshold)).sum())
            if (
                scipy.stats.hypergeom.sf(typical - 1, total, min(total, slow + typical), typical)
                <= limit
            ):
                return threshold
        return None


def _likelihood_ratio(hits: Integers, count: Integers, all_slow: int, total: int) -> Floats:
    """Logarithm of how much likelier each number of slow observations is
    with its own share than with that of all others.
    """
    share = hits / np.maximum(count, 1)
    outside = (all_slow - hits + 0.5) / (total - count + 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        likelihood = np.where(hits > 0, hits * np.log(share / outside), 0.0)
        other = np.where(
            hits < count,
            (count - hits) * np.log((1 - share) / (1 - np.minimum(outside, 1 - 1e-12))),
            0.0,
        )
    return np.where(share > outside, likelihood + other, 0.0)


def _overdispersed(hits: int, count: int, other_hits: Integers, other_counts: Integers) -> float:
    """The same probability where suspects of its kind differ in how often
    they are slow (beta-binomial, by moments).

    The correlation of two observations of one suspect is estimated from the
    others: Kleinman 1973, J. Am. Stat. Assoc. 68:46.
    """
    total = int(other_counts.sum())
    if len(other_counts) < 2 or total == 0:
        return 0.0
    mean = (other_hits.sum() + 0.5) / (total + 1.0)
    spread = float(((other_hits - other_counts * mean) ** 2).sum())
    pairs = float((other_counts * (other_counts - 1.0)).sum())
    binomial = mean * (1 - mean)
    rho = min(0.99, max(0.0, (spread - total * binomial) / (pairs * binomial))) if pairs else 0.0
    if rho < 1e-6:
        return float(scipy.stats.binom.sf(hits - 1, count, mean))
    size = 1 / rho - 1
    return float(scipy.stats.betabinom.sf(hits - 1, count, mean * size, (1 - mean) * size))
