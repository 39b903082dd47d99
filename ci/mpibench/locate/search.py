"""Detections with a stated error rate: where slow observations concentrate that should be anywhere.

What healthy pairs reach
------------------------
slowness of an observation
    = level of its class + drift of its moment + node that sends + node that receives + links
    between switches + pair + noise, additive on the log scale, where only the first two and the
    noise differ from 0 unless something is wrong.

A class holds the pairs that should be alike: the same distance in the tree of switches, the same
kinds of nodes and, where that matters, as many others on the same uplink at the same time (links
between switches may be oversubscribed). Its level is at least that of its fastest quarter, so it is
valid as long as less than three quarters of a small map are slow: one slow node of four is in half
of all pairs. The drift of a moment is how much slower its fastest quarter is than usual. It is
removed only if observations show it that nothing flagged explains (:func:`drifts`), because rounds
in which most pairs cross slow uplinks look like drift. The error rates depend on neither: they only
count ranks.

What is flagged
---------------
An observation is slow if it exceeds its class by a threshold. If nothing is wrong with a suspect,
its observations are slow as often as all others of the same classes, whatever the noise: their
number has a hypergeometric distribution in each class (Fisher 1935), which needs no estimate and no
assumption on tails. Where healthy nodes differ in how noisy they are, the number has longer tails;
for ``some`` a beta-binomial distribution with the overdispersion of all others of the kind covers
that, and the larger of both probabilities counts.

error rate
    The probability of each suspect at each threshold is compared with a share of the rate, and the
    shares of all tests add up to the rate (both extents below count the same slow observations, so
    they are one test). So the expected number of false positives in a run is at most the rate,
    however the tests depend on each other (Bonferroni; Lehmann and Romano 2005, "per-family error
    rate"). Nodes, links between switches, and pairs each have a share of the rate, because a small
    map has few nodes and many pairs.
which one
    A slow uplink makes pairs of each node below it slow, and a slow node a part of its switch's. Of
    all that pass, the one that explains most is flagged: the largest likelihood ratio of its number
    of slow observations to that of the others; slow in ``all`` before slow in ``some`` (two slow
    nodes are not part of their switch), and pairs last (the pair that a slow uplink hits most
    explains none of the rest). Its observations are then removed and the search continues, so that
    no observation flags two suspects.
extent
    ``all``: at least two thirds of its observations are slow. ``some``: fewer, at three moments or
    more: an intermittent fault, or one of several parallel cables. They must exceed twice the
    margin and, for a node, be at least a sixth, because some nodes are noisier than others; for a
    switch or link, most of them must not belong to one node.
several nodes
    What joins nodes is slow for all of them: a switch or link is flagged only if nearly every node
    at it is equally slow, and a switch only if this includes traffic below it (otherwise it is the
    uplink). Without this rule, three slow nodes below one switch, or a slow node below a slow
    uplink, would flag the switch.
a pair
    A route is flagged only by itself. Several remaining pairs of one node, or one of a flagged
    node, show more faults than the map can separate: they flag nothing and are reported as
    unexplained.
where it can be seen
    A bandwidth is limited by the narrowest part of its path, so a slow node is invisible behind an
    equally slow uplink. Nodes are therefore searched among all observations, and again only among
    those of the fastest classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple

import numpy as np
import scipy.stats

from reframe_tests.harness.machine.switches import JOINED

from .maps import (
    BOTH,
    INDEX,
    KINDS,
    LINK,
    NODE,
    PAIR,
    RECEIVES,
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
#: Codes are numbered by a table where there may be at most so many times as many as there are.
_TABLE = 4
#: Of more observations the distribution of how many are slow is computed so many standard
#: deviations around its mean, beyond which it is nothing.
_WIDE = 4096
_DEVIATIONS = 40
#: False positives per run, expected at most.
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
#: Detections in one run, at most: who finds more has a machine that is broken as a whole.
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
    far = np.zeros(len(seen), dtype=np.int8)
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
    every_load = loads(seen, leaf) if seen.directed else np.zeros(len(seen), dtype=INDEX)

    def classes(slowness: Floats) -> tuple[Integers, Integers, Floats]:
        load = _if_it_matters(every_load, slowness)
        stratum = numbered_together(alike, load)
        many = int(stratum.max()) + 1
        levels = [level_of(slowness[stratum == number]) for number in range(many)]
        return load, stratum, np.array(levels)

    left = seen.slowness
    if drifting:
        # Drift is what a moment has beyond its loads: rounds differ in how many of their pairs
        # cross an uplink, and a slow one must not be mistaken for what came and went.
        _, stratum, own = classes(left)
        left = left - drift(left - own[stratum], seen.moment)
    load, stratum, healthy = classes(left)
    many = int(leaf.max(initial=0)) + 1
    levels = []
    for number, level in enumerate(healthy.tolist()):
        mine = np.flatnonzero(stratum == number)
        block = np.zeros(many * many, dtype=bool)
        block[leaf[seen.source[mine]].astype(np.int64) * many + leaf[seen.target[mine]]] = True
        first = mine[0]
        ends = kind[seen.source[first]], kind[seen.target[first]]
        levels.append(
            PairClass(
                int(distance[first]),
                ends,
                int(load[first]),
                level,
                len(mine),
                int(block.sum()),
            )
        )
    names, of_kinds = numbered([level.kinds for level in levels])
    best = np.array([healthy[of_kinds == number].min() for number in range(len(names))])[of_kinds]
    if full_rate:
        healthy = best
    excess = left - healthy[stratum]
    # Of a latency nothing, in no memory.
    held = (healthy - best)[stratum] if seen.directed else np.broadcast_to(0.0, excess.shape)
    return Residuals(
        tuple(levels), of_kinds[stratum] if full_rate else stratum, excess, spread(excess), held
    )


def loads(seen: Observations, leaf: Integers) -> Integers:
    """For each observation: how many others use the busier of its two uplinks at the same time, in
    the busier direction; 0 below one switch.

    Traffic in the other direction also counts: acknowledgements wait in its queue, and one message
    opposite three that share a slow uplink was as slow as these (TCP on the mini-cluster).
    """
    across = leaf[seen.source] != leaf[seen.target]
    load = np.zeros(len(seen), dtype=INDEX)
    many = int(leaf.max(initial=0)) + 2
    # Nodes without a switch, -1, share one.
    together = seen.together[across].astype(np.int64) * many + 1
    places = [together + leaf[end[across]] for end in (seen.source, seen.target)]
    most = np.zeros(len(together), dtype=INDEX)
    for end in places:
        count = np.bincount(end, minlength=(int(seen.together.max(initial=0)) + 1) * many)
        for own in places:
            np.maximum(most, count[own], out=most, casting="unsafe")
    load[across] = most
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
    ).astype(INDEX)


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
    """For each observation: how much slower the fastest quarter of its moment is than that of all,
    i.e. what affected all.

    A slow uplink that up to three quarters of a moment cross does not count as drift.
    """
    which, starts, counts, ordered = grouped(moment, excess)
    shift = np.zeros(int(moment.max(initial=0)) + 1)
    if (enough := counts >= _LEAST_AT_A_MOMENT).any():
        fast = ordered[starts + np.floor((counts - 1) * _FASTEST).astype(np.intp)][enough]
        shift[which[enough]] = fast - np.median(fast)
    return shift[moment]


def drifts(excess: Floats, moment: Integers, rest: Flags, margin: float) -> bool:
    """Whether at some moment nearly all observations that no flagged
    thing explains were slower, or faster, by the margin.

    :param rest: observations that no detection took; of a moment
        more than half, or it says nothing.
    """
    which, starts, counts, ordered = grouped(moment[rest], excess[rest])
    enough = (counts >= LEAST_OF_A_CLASS) & (2 * counts > np.bincount(moment)[which])
    fast = np.floor((counts - 1) * _FASTEST).astype(np.intp)
    ends = ordered[starts + fast], -ordered[starts + counts - 1 - fast]
    return any(bool((end[enough] > margin).any()) for end in ends)


def numbered_together(first: Integers, second: Integers) -> Integers:
    """A number for each two values, in their order: a class at a moment, or two nodes."""
    codes = first.astype(np.int64)
    codes *= int(second.max(initial=0)) + 1
    codes += second
    return numbered_codes(codes)[1]


def numbered_codes(codes: Integers) -> tuple[Integers, Integers]:
    """Distinct codes in order, and for each its place in them."""
    most = int(codes.max(initial=-1)) + 1
    if most > _TABLE * len(codes):
        names, place = np.unique(codes, return_inverse=True)
        return names, place.astype(INDEX)
    # Without sorting: a table of all that there may be.
    there = np.zeros(most, dtype=bool)
    there[codes] = True
    rank = np.cumsum(there, dtype=INDEX)
    rank -= 1
    return np.flatnonzero(there), rank[codes]


def spread(excess: Floats) -> float:
    """Standard deviation of the middle half, as if it were normal; 0 of nothing."""
    return float(_NORMAL * np.median(np.abs(excess - np.median(excess)))) if len(excess) else 0.0


class SuspectGroup(NamedTuple):
    """Suspects of one kind and direction by numbers, their labels.

    :param many: labels; ``named``: the suspect of one.
    :param labels: of observations at some places (``None``: of all), one array for each suspect
        that may show in one of them: -1 if there is none, and no label twice.
    """

    kind: str
    many: int
    named: Callable[[int], Suspect]
    labels: Callable[[Integers | None], Sequence[Integers]]

    def counts(self, at: Integers | None) -> Integers:
        """Number of observations of each label."""
        count = np.zeros(self.many + 1, dtype=np.int64)
        for label in self.labels(at):
            count += np.bincount(label + 1, minlength=self.many + 1)
        return count[1:]

    def several(self, moment: Integers) -> Flags:
        """Whether each label was observed at :data:`LEAST_MOMENTS` moments."""
        first = np.full(self.many + 1, np.iinfo(INDEX).max, dtype=INDEX)
        last = np.full(self.many + 1, -1, dtype=INDEX)
        for label in self.labels(None):
            np.minimum.at(first, label, moment.astype(INDEX, copy=False))
            np.maximum.at(last, label, moment.astype(INDEX, copy=False))
        return (first < last)[:-1]


class Suspects:
    """All suspects of a map that were observed at several moments, a row each. For a directed
    quantity each direction is a separate suspect: both directions of one moment share its
    disturbances, and together they would prove too much.

    :param never: whether the search never flags one.
    """

    def __init__(
        self,
        groups: Iterable[SuspectGroup],
        moment: Integers,
        never: Callable[[Suspect], bool] | None = None,
    ) -> None:
        known = [(group, np.flatnonzero(group.several(moment))) for group in groups]
        #: Each group with its labels that have a row.
        self.groups = [(group, labels) for group, labels in known if len(labels)]
        sizes = [len(labels) for _, labels in self.groups]
        self.starts = np.cumsum([0, *sizes])
        kinds = [KINDS.index(group.kind) for group, _ in self.groups]
        #: Place in :data:`KINDS` of each row.
        self.kind = np.repeat(np.array(kinds, dtype=np.int8), sizes)
        self.observed = len(moment)
        self.unjudged = [
            row
            for row in np.flatnonzero(np.isin(self.kind, [KINDS.index(LINK), KINDS.index(UPLINK)]))
            if never and never(self[int(row)])
        ]

    def __len__(self) -> int:
        return int(self.starts[-1])

    def _place(self, row: int) -> tuple[SuspectGroup, int]:
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        group, labels = self.groups[number]
        return group, int(labels[row - self.starts[number]])

    def __getitem__(self, row: int) -> Suspect:
        group, label = self._place(row)
        return group.named(label)

    def find(self, suspect: Suspect) -> int | None:
        """Its row."""
        rows = np.flatnonzero(self.kind == KINDS.index(suspect.kind)).tolist()
        return next((row for row in rows if self[row] == suspect), None)

    def counts(self, at: Integers | None = None) -> Integers:
        """Number of observations in each row, of some (default: all)."""
        found = [group.counts(at)[labels] for group, labels in self.groups]
        return np.concatenate([np.zeros(0, dtype=np.int64), *found])

    def observations_of(self, row: int) -> Integers:
        """Places of the observations in which a suspect would show."""
        group, label = self._place(row)
        mine = np.zeros(self.observed, dtype=bool)
        for labels in group.labels(None):
            mine |= labels == label
        return np.flatnonzero(mine)


def of_map(seen: Observations, places: Places) -> Suspects:
    """Nodes; at each level the paths between two switches, those of one switch to all others, and
    the switch with all below it; and pairs that were measured at several moments.
    """
    # Where switches are joined with one another, it is unknown which others a message crosses.
    paths = [path for path in places.switches.values() if path[-1] == JOINED]
    within = {name for path in paths for name in path}
    highest = {path[-2] for path in paths}
    among = {LINK: within, UPLINK: highest}

    def never(one: Suspect) -> bool:
        return not among[one.kind].isdisjoint(one.names)

    return Suspects(_groups(seen, places), seen.moment, never if paths else None)


def _groups(seen: Observations, places: Places) -> Iterator[SuspectGroup]:
    nodes = np.arange(len(seen.nodes), dtype=INDEX)
    sides = ((SENDS, (0,)), (RECEIVES, (1,))) if seen.directed else ((BOTH, (0, 1)),)

    def node(label: int, way: str) -> Suspect:
        return Suspect(NODE, (seen.nodes[label],), way)

    def at_ends(at: Integers | None, which: tuple[int, ...]) -> list[Integers]:
        ends = _ends(seen, nodes, at)
        return [ends[end] for end in which]

    for way, which in sides:
        labels = partial(at_ends, which=which)
        yield SuspectGroup(NODE, len(nodes), partial(node, way=way), labels)
    for level, switch_of in enumerate(places.levels(seen.nodes)):
        names = sorted(set(switch_of) - {""})
        place_of = {name: place for place, name in enumerate(names)}
        label = np.array([place_of.get(name, -1) for name in switch_of], dtype=INDEX)
        yield from _of_level(seen, level, names, label, sides)
    count = len(seen.nodes)
    pairs = seen.pairs(seen.source.astype(np.int64), seen.target.astype(np.int64), count)
    codes, place = numbered_codes(pairs)
    del pairs
    way = SENDS if seen.directed else BOTH

    def pair(label: int) -> Suspect:
        one, other = divmod(int(codes[label]), count)
        return Suspect(PAIR, (seen.nodes[one], seen.nodes[other]), way)

    yield SuspectGroup(PAIR, len(codes), pair, lambda at: [place if at is None else place[at]])


def _ends(seen: Observations, table: Integers, at: Integers | None) -> list[Integers]:
    """What a table of nodes says of both ends of some observations."""
    ends = (seen.source, seen.target)
    return [table[end if at is None else end[at]] for end in ends]


def _of_level(
    seen: Observations,
    level: int,
    names: Sequence[str],
    label: Integers,
    sides: Sequence[tuple[str, tuple[int, ...]]],
) -> Iterator[SuspectGroup]:
    """Suspects of one level of switches.

    :param label: of each node its switch, -1: none.
    """
    many = len(names)
    source, target = _ends(seen, label, None)
    known = (source >= 0) & (target >= 0)
    across = known & (source != target)
    if not across.any():
        return
    there = np.zeros(many * many, dtype=bool)
    there[seen.pairs(source[across], target[across], many)] = True
    links = np.flatnonzero(there)
    link_of = np.cumsum(there, dtype=INDEX) - 1
    below = bool((known & ~across).any())
    load = np.where(across, loads(seen, label), 0) if seen.directed else None
    least_loads = _busy(load, across) if load is not None else []
    del source, target, known, across, there
    if not least_loads:
        load = None

    def crossing(at: Integers | None, least: int) -> tuple[list[Integers], Flags]:
        ends = _ends(seen, label, at)
        crosses = (ends[0] >= 0) & (ends[1] >= 0) & (ends[0] != ends[1])
        if least and load is not None:
            crosses &= (load if at is None else load[at]) >= least
        return ends, crosses

    def link(at: Integers | None, least: int) -> list[Integers]:
        ends, crosses = crossing(at, least)
        return [np.where(crosses, link_of[seen.pairs(ends[0], ends[1], many)], -1)]

    def uplink(at: Integers | None, least: int, which: tuple[int, ...]) -> list[Integers]:
        ends, crosses = crossing(at, least)
        return [np.where(crosses, ends[end], -1) for end in which]

    def switch(at: Integers | None, which: tuple[int, ...]) -> list[Integers]:
        ends = _ends(seen, label, at)
        both = (ends[0] >= 0) & (ends[1] >= 0)
        found = [np.where(both, ends[end], -1) for end in which]
        # One of which both ends of a pair are below is there once.
        for more in found[1:]:
            more[more == found[0]] = -1
        return found

    def named(kind: str, way: str, least: int = 0) -> Callable[[int], Suspect]:
        return lambda number: Suspect(kind, (names[number],), way, level, least)

    def link_named(least: int) -> Callable[[int], Suspect]:
        way = SENDS if seen.directed else BOTH
        return lambda number: Suspect(
            LINK,
            (names[int(links[number]) // many], names[int(links[number]) % many]),
            way,
            level,
            least,
        )

    for least in (0, *least_loads):
        if not least or len(links) <= _MOST_BUSY_LINKS:
            yield SuspectGroup(LINK, len(links), link_named(least), partial(link, least=least))
        for way, which in sides:
            labels = partial(uplink, least=least, which=which)
            yield SuspectGroup(UPLINK, many, named(UPLINK, way, least), labels)
    if below:
        for way, which in sides:
            labels = partial(switch, which=which)
            yield SuspectGroup(SWITCH, many, named(SWITCH, way), labels)


def _busy(load: Integers, across: Flags) -> list[int]:
    """Loads above the smallest that are judged on their own: observations
    across switches that shared an uplink with so many or more.
    """
    several = np.unique(load[across])[1:]
    # Of many the octaves.
    if len(several) <= _MOST_JUDGED_LOADS:
        return [int(least) for least in several]
    octaves = range(1, int(np.log2(several[-1])) + 1)
    return [2**octave for octave in octaves][-_MOST_JUDGED_LOADS:]


@dataclass(frozen=True, eq=False)
class Detection:
    """One suspect that is flagged.

    :param alike: others that would show in just the same observations.
    :param extent: :data:`ALL` or :data:`SOME`.
    :param slow: observations beyond the threshold; ``count``: all of its
        that no earlier detection had taken.
    :param probability: of so many slow ones if it is healthy.
    :param observations: places of what it is flagged by.
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
    """All detections of a run.

    :param tests: how many were made; what they were held against sums up to the rate.
    :param rest: observations that no detection took.
    :param unexplained: pairs that are slow and flag nothing, as no
        pair of theirs is slow for itself.
    :param floor: the smallest threshold at which a node that is slow in all of its observations
        would have been flagged; ``None``: not at any, so that silence says nothing.
    """

    detections: tuple[Detection, ...]
    tests: int
    rest: Flags
    unexplained: tuple[Suspect, ...]
    floor: float | None


class _View(NamedTuple):
    """Observations among which suspects are sought.

    :param where: which; ``None``: all.
    :param limits: of the probability of each row.
    :param own: of each row its observations that no detection has taken.
    :param everything: of each class likewise.
    """

    where: Flags | None
    limits: Floats
    own: Integers
    everything: Integers


class Search:
    """Flags whoever explains most, takes its observations out, and goes on.

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
        self.kind = suspects.kind
        self.margin = margin
        self.thresholds = [margin * step for step in LADDER]
        self.rest = np.ones(len(excess), dtype=bool) if usable is None else usable.copy()
        # Part of the rate of each suspect, at each threshold.
        groups = [
            (np.isin(self.kind, [KINDS.index(kind) for kind in kinds]), share)
            for kinds, share in _SHARES
        ]
        shared = sum(share for group, share in groups if group.any())
        self.limits = np.zeros(len(suspects))
        for group, share in groups:
            if group.any():  # of two nodes that met once nobody is a suspect
                self.limits[group] = rate * share / shared / int(group.sum()) / len(LADDER)
        # No probability is below 0.
        self.limits[suspects.unjudged] = -1.0
        free = np.ones(0, dtype=bool) if held is None else held <= margin
        self.tests = max(1, len(LADDER) * len(suspects))
        views: list[tuple[Flags | None, Floats]] = [(None, self.limits)]
        if not free.all():
            is_node = self.kind == KINDS.index(NODE)
            self.limits = np.where(is_node, self.limits / 2, self.limits)
            # What is no node is not sought again.
            views = [(None, self.limits), (free, np.where(is_node, self.limits, -1.0))]
            self.tests += len(LADDER) * int(is_node.sum())
        self.strata = int(stratum.max(initial=0)) + 1
        self.views = [self._view(*view) for view in views]

    def _view(self, where: Flags | None, limits: Floats) -> _View:
        gone = np.flatnonzero(~(self.rest if where is None else self.rest & where))
        everything = np.bincount(self.stratum, minlength=self.strata)
        count = self.suspects.counts()
        if len(gone):
            count = count - self.suspects.counts(gone)
            everything -= np.bincount(self.stratum[gone], minlength=self.strata)
        return _View(where, limits, count, everything)

    def _take_out(self, mine: Integers) -> None:
        """Observations explain nothing any more."""
        mine = mine[self.rest[mine]]
        for view in self.views:
            own = mine if view.where is None else mine[view.where[mine]]
            view.own[:] -= self.suspects.counts(own)
            view.everything[:] -= np.bincount(self.stratum[own], minlength=self.strata)
        self.rest[mine] = False

    def run(self) -> Verdict:
        found: list[Detection] = []
        while len(found) < MOST:
            strongest = [
                self._strongest(view, threshold)
                for view in self.views
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
            self._take_out(self.suspects.observations_of(best[1]))
        # Pairs of which a node has another one, or is flagged, explain nothing.
        pairs = {detection.suspect.names for detection in found if detection.suspect.kind == PAIR}
        partners: dict[str, set[str]] = {}
        for node, other in pairs | {names[::-1] for names in pairs}:
            partners.setdefault(node, set()).add(other)
        several = {
            detection.suspect.names[0] for detection in found if detection.suspect.kind == NODE
        }
        several |= {node for node in partners if len(partners[node]) > 1}
        echoes = [
            detection
            for detection in found
            if detection.suspect.kind == PAIR and not several.isdisjoint(detection.suspect.names)
        ]
        kept = tuple(detection for detection in found if detection not in echoes)
        return Verdict(
            kept, self.tests, self.rest, tuple(echo.suspect for echo in echoes), self._floor()
        )

    def _strongest(self, view: _View, threshold: float) -> tuple[float, int, Detection] | None:
        """Whoever explains most at one threshold, of those that pass:
        logarithm of the likelihood ratio, and its row.
        """
        active = self.rest if view.where is None else self.rest & view.where
        slow = self.excess > threshold
        slow &= active
        places = np.flatnonzero(slow)
        if not len(places):
            return None
        suspects = self.suspects
        kind = self.kind
        count, limits = view.own, view.limits
        hits = suspects.counts(places)
        slow_ones = np.bincount(self.stratum[places], minlength=self.strata)
        # Who has no slow observation explains nothing.
        rows = np.flatnonzero(hits)
        ratio = _likelihood_ratio(hits[rows], count[rows], len(places), int(view.everything.sum()))
        enough = ratio >= -math.log(limits.max()) - _SLACK
        rows, ratio = rows[enough], ratio[enough]
        order = np.argsort(-ratio, kind="stable")
        part: tuple[float, int, Detection] | None = None
        for row, explained in zip(rows[order].tolist(), ratio[order].tolist(), strict=True):
            extent = ALL if hits[row] / max(count[row], 1) >= _ALL_SHARE else SOME
            if extent == SOME and (part or threshold <= self.margin):
                continue
            mine = suspects.observations_of(row)
            mine = mine[active[mine]]
            if extent == SOME and not self._is_partial(
                mine[slow[mine]], len(mine), KINDS[kind[row]]
            ):
                continue
            joins = KINDS[kind[row]] in (LINK, UPLINK, SWITCH)
            if joins and not self._is_shared(suspects[row], mine, slow, extent):
                continue
            probability = self._exact(view.everything, slow_ones, slow, mine)
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
                named = suspects[first], tuple(suspects[other] for other in alike)
                what = Detection(
                    *named, extent, threshold, int(hits[row]), int(count[row]), probability, mine
                )
                if extent == ALL:
                    return explained, first, what
                part = explained, first, what
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
            uplink = self.suspects.find(suspect._replace(kind=UPLINK))
            outside = mine[:0] if uplink is None else self.suspects.observations_of(uplink)
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

    def _exact(
        self, everything: Integers, slow_ones: Integers, slow: Flags, mine: Integers
    ) -> float:
        """Probability of at least so many slow ones among its own, if those
        of each class are anywhere in the class.

        :param everything: of each class, with ``slow_ones`` among them.
        """
        drawn = np.bincount(self.stratum[mine], minlength=self.strata)
        hits = int(slow[mine].sum())
        there = np.flatnonzero(drawn).tolist()
        if len(there) == 1:
            (member,) = there
            return float(
                scipy.stats.hypergeom.sf(
                    hits - 1, everything[member], slow_ones[member], drawn[member]
                )
            )
        parts = []
        least = 0
        for place in there:
            # no frozen distribution: most of the time would go into its docstring
            urn = (everything[place], slow_ones[place], drawn[place])
            low, high = 0, int(drawn[place])
            if high > _WIDE:
                mean = float(scipy.stats.hypergeom.mean(*urn))
                reach = _DEVIATIONS * (1 + float(scipy.stats.hypergeom.std(*urn)))
                low = max(low, int(mean - reach))
                high = min(high, int(mean + reach))
            least += low
            parts.append(scipy.stats.hypergeom.pmf(np.arange(low, high + 1), *urn))
        return float(min(1.0, reduce(np.convolve, parts)[max(0, hits - least) :].sum()))

    def _floor(self) -> float | None:
        """The smallest threshold at which the typical node would be
        flagged if all of its observations were slow.
        """
        count = self.views[0].own
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
