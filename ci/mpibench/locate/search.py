"""Accusations with a stated error rate: in whom slow observations gather that would otherwise be anywhere.

An observation is slow if it exceeds its class by a threshold. If nothing is wrong with a suspect, its observations are as often
slow as those of all others of the same classes, whatever the noise is: their number has a hypergeometric distribution in each
class (Fisher 1935), which needs no estimate and no assumption on tails. Where healthy nodes differ in how noisy they are, the
number has longer tails; for ``some`` a beta-binomial distribution with the overdispersion of all others of the kind covers
that, and the larger of both probabilities counts.

error rate
    The probabilities of all suspects and thresholds are each held against a part of the rate; the parts of all such tests sum
    up to it (of both extents below the number of slow observations is the same: one test). So the expected number of innocents
    that are accused in a run is at most the rate, however the tests depend on each other (Bonferroni; Lehmann and Romano 2005,
    "per-family error rate"). Nodes, what is between switches, and pairs have a share of the rate each, as a small map has few
    nodes and many pairs.
which one
    A slow uplink makes pairs of each node below it slow, and a slow node a part of its switch's. Of all that pass, the one is
    accused which explains most: the largest likelihood ratio of its number of slow observations to that of the others, whoever
    is slow in ``all`` before ``some`` (two slow nodes are not a part of their switch), and a pair after all others (that which
    a slow uplink hits most explains none of the rest). What it shows in is then taken out, and the search goes on with the
    rest, so that no observation accuses two.
extent
    ``all``: at least two thirds of its observations are slow. ``some``: fewer, at three moments or more: an intermittent fault,
    or one of several parallel cables. By twice the margin, and of a node at least a sixth, as some are noisier than others;
    of a switch or link they must not be one node's for the most part.
several nodes
    What joins nodes is slow for all of them: a switch or link is accused only where nearly each node at it is as slow as it is,
    and a switch only where that holds of what stays below it as well, or it would be its uplink. Without that, three slow
    nodes below one switch, or a slow node below a slow uplink, accuse the switch.
a pair
    A route is accused for itself alone. Several pairs of one node that are left, or one of a node that is accused, say that
    more is wrong than the map can tell apart: they accuse nobody and are named as unexplained.
where it can be seen
    Of a bandwidth the narrowest part of the way counts: a slow node does not show behind an uplink that is as slow. So nodes
    are sought among all observations, and again among those alone whose class is as fast as the fastest.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import scipy.stats

from .observations import Flags, Floats, Integers
from .suspects import KINDS, LINK, NODE, PAIR, SWITCH, UPLINK, Suspect, Suspects

#: Innocents accused per run, expected at most.
RATE = 0.05
ALL, SOME = "all", "some"
#: Share of observations that must be slow for ``all``; for ``some`` moments with slow ones, and of a node the share.
_ALL_SHARE, _SOME_MOMENTS, _SOME_SHARE = 2 / 3, 3, 1 / 6
#: Thresholds: the margin on the log scale, and so many times it.
LADDER = (1.0, 2.0, 4.0, 8.0)
#: Shares of the rate: nodes, switches and what is between them, pairs. That of a group without suspects goes to the others.
_SHARES: tuple[tuple[frozenset[str], float], ...] = (
    (frozenset({NODE}), 0.5),
    (frozenset({LINK, UPLINK, SWITCH}), 0.25),
    (frozenset({PAIR}), 0.25),
)
#: What joins nodes: of those with so many observations in it, the share that must be slow in half of these; for ``some`` the
#: share that must be slow half as often as all of them.
_JOINED_LEAST, _JOINED_ALL, _JOINED_SOME = 3, 0.8, 0.75
#: The probability can be smaller than the bound that sorts out whom to compute it for, by no more than this (natural log).
_SLACK = 6.0
#: Share of the others that are left out where their overdispersion is estimated: those slow most often, which may be at fault.
_TRIMMED = 0.02
#: Accusations in one run, at most: who finds more has a machine that is broken as a whole.
MOST = 500


@dataclass(frozen=True)
class Accusation:
    """One suspect that is accused.

    :param row: place in the suspects; ``alike``: others that would show in just the same observations.
    :param extent: :data:`ALL` or :data:`SOME`.
    :param slow: observations beyond the threshold; ``count``: all of its that no earlier accusation had taken.
    :param probability: of so many slow ones if it is innocent.
    :param observations: places of what it is accused by.
    """

    row: int
    alike: tuple[int, ...]
    extent: str
    threshold: float
    slow: int
    count: int
    probability: float
    observations: Integers


@dataclass(frozen=True)
class Verdict:
    """All accusations of a run.

    :param tests: how many were made; what they were held against sums up to ``rate``.
    :param rest: observations that no accusation took.
    :param unexplained: pairs that are slow and accuse nobody, as no pair of theirs is slow for itself.
    :param floor: the smallest threshold at which a node that is slow in all of its observations would have been accused;
        ``None``: not at any, so that silence says nothing.
    """

    accusations: tuple[Accusation, ...]
    tests: int
    rate: float
    rest: Flags
    floor: float | None
    unexplained: tuple[Suspect, ...] = ()


class _State:
    """Observations that are left, and at each threshold which of them are slow."""

    def __init__(self, suspects: Suspects, excess: Floats, stratum: Integers, moment: Integers, usable: Flags) -> None:
        self.suspects, self.excess, self.stratum, self.moment = suspects, excess, stratum, moment
        self.ends: tuple[Integers, ...] = ()
        self.active = usable.copy()
        self.strata = int(stratum.max(initial=0)) + 1
        self.row_of = {suspect: row for row, suspect in enumerate(suspects.named)}

    def only(self, where: Flags) -> _State:
        """The same with a part of the observations."""
        part = copy.copy(self)
        part.active = self.active & where
        return part

    def slow(self, threshold: float) -> Flags:
        return self.active & (self.excess > threshold)

    def counts(self, which: Flags) -> Integers:
        return np.asarray(self.suspects.rows @ which.astype(np.int32), dtype=np.intp)


def search(
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
) -> Verdict:
    """Accuse whoever explains most, take its observations out, and go on.

    :param excess: how much slower each observation is than its class, log scale.
    :param margin: what is called slow at least, log scale.
    :param ends: node of each observation at either end, where these are known.
    :param held: how much slower its class is than it could be (:class:`.baseline.Residuals`).
    """
    state = _State(suspects, excess, stratum, moment, np.ones(len(excess), dtype=bool) if usable is None else usable)
    state.ends = ends
    thresholds = [margin * step for step in LADDER]
    kind = np.array([KINDS.index(one.kind) for one in suspects.named], dtype=np.intp)
    limits = rate * _parts(suspects) / len(thresholds)
    free = np.ones(len(excess), dtype=bool) if held is None else held <= margin
    views = [(np.ones(len(excess), dtype=bool), limits)]
    tests = max(1, len(thresholds) * len(suspects.named))
    if not free.all():
        is_node = kind == KINDS.index(NODE)
        limits = np.where(is_node, limits / 2, limits)
        # No probability is below 0: what is no node is not sought again.
        views = [(views[0][0], limits), (free, np.where(is_node, limits, -1.0))]
        tests += len(thresholds) * int(is_node.sum())
    found: list[Accusation] = []
    while len(found) < MOST:
        best = max(
            (
                one
                for where, parts in views
                for each in thresholds
                if (one := _strongest(state.only(where), each, parts, kind, partial=each > margin)) is not None
            ),
            key=lambda one: (one[1].extent == ALL, kind[one[1].row] != KINDS.index(PAIR), one[0]),
            default=None,
        )
        if best is None:
            break
        found.append(best[1])
        state.active[suspects.observations_of(best[1].row)] = False
    kept, unexplained = _explained(suspects, found)
    return Verdict(tuple(kept), tests, rate, state.active, _floor(state, thresholds, limits, kind), unexplained)


def _explained(suspects: Suspects, found: Sequence[Accusation]) -> tuple[list[Accusation], tuple[Suspect, ...]]:
    """Accusations without pairs of which a node has another one, or is accused; and these pairs."""
    named = [suspects.named[one.row] for one in found]
    nodes = {name for one in named if one.kind == NODE for name in one.names}
    partners: dict[str, set[str]] = {}
    for one in named:
        if one.kind == PAIR:
            for node, other in (one.names, one.names[::-1]):
                partners.setdefault(node, set()).add(other)
    several = nodes | {node for node, others in partners.items() if len(others) > 1}
    echoes = [one.kind == PAIR and bool(several & set(one.names)) for one in named]
    kept = [one for one, echo in zip(found, echoes, strict=True) if not echo]
    return kept, tuple(one for one, echo in zip(named, echoes, strict=True) if echo)


def _parts(suspects: Suspects) -> Floats:
    """Part of the rate that each suspect has."""
    groups = [np.array([one.kind in kinds for one in suspects.named], dtype=bool) for kinds, _ in _SHARES]
    shares = [share if group.any() else 0.0 for group, (_, share) in zip(groups, _SHARES, strict=True)]
    parts = np.zeros(len(suspects.named))
    for group, share in zip(groups, shares, strict=True):
        # Of two nodes that met once nobody is a suspect.
        parts[group] = share / (sum(shares) or 1.0) / max(1, int(group.sum()))
    return parts


def _strongest(
    state: _State, threshold: float, limits: Floats, kind: Integers, *, partial: bool
) -> tuple[float, Accusation] | None:
    """Whoever explains most at one threshold, of those that pass; with the logarithm of the likelihood ratio."""
    slow = state.slow(threshold)
    total, all_slow = int(state.active.sum()), int(slow.sum())
    if all_slow == 0:
        return None
    count, hits = state.counts(state.active), state.counts(slow)
    ratio = _likelihood_ratio(hits, count, all_slow, total)
    share = hits / np.maximum(count, 1)
    order = np.argsort(-ratio, kind="stable")
    part: tuple[float, Accusation] | None = None
    for row in order[: np.searchsorted(-ratio[order], math.log(limits.max()) + _SLACK)].tolist():
        limit = limits[row]
        extent = ALL if share[row] >= _ALL_SHARE else SOME
        if extent == SOME and part:
            continue
        mine = state.suspects.observations_of(row)
        mine = mine[state.active[mine]]
        if extent == SOME and not (partial and _is_partial(state, mine[slow[mine]], len(mine), kind[row])):
            continue
        if _joins_nodes(kind[row]) and not _is_shared(state, row, mine, slow, extent):
            continue
        probability = _exact(state, slow, mine)
        if extent == SOME and probability <= limit:
            others = _others(hits, count, kind == kind[row], row)
            probability = max(probability, _overdispersed(hits[row], count[row], hits[others], count[others]))
        if probability <= limit:
            alike = _alike(state, row, mine, np.flatnonzero((hits == hits[row]) & (count == count[row])))
            first, *rest = sorted([row, *alike], key=lambda one: (kind[one], one))
            what = Accusation(first, tuple(rest), extent, threshold, int(hits[row]), int(count[row]), probability, mine)
            if extent == ALL:
                return float(ratio[row]), what
            part = float(ratio[row]), what
    return part


def _is_partial(state: _State, slow: Integers, count: int, kind: int) -> bool:
    """Whether slow observations may be a part of a suspect's: at several moments, and of a switch not one node's."""
    if len(np.unique(state.moment[slow])) < _SOME_MOMENTS:
        return False
    if kind in (KINDS.index(NODE), KINDS.index(PAIR)):
        return len(slow) >= _SOME_SHARE * count
    return all(2 * np.bincount(end[slow]).max() <= len(slow) for end in state.ends)


def _joins_nodes(kind: int) -> bool:
    return KINDS[kind] in (LINK, UPLINK, SWITCH)


def _is_shared(state: _State, row: int, mine: Integers, slow: Flags, extent: str) -> bool:
    """Whether the nodes at a switch or link are slow alike in it; of a switch also in what stays below it."""
    parts = [mine]
    suspect = state.suspects.named[row]
    if suspect.kind == SWITCH:
        across = state.row_of.get(suspect._replace(kind=UPLINK))
        outside = state.suspects.observations_of(across) if across is not None else mine[:0]
        parts = [np.intersect1d(mine, outside), np.setdiff1d(mine, outside)]
    return all(_is_alike(state, part, slow, extent) for part in parts)


def _is_alike(state: _State, part: Integers, slow: Flags, extent: str) -> bool:
    """Whether nearly all nodes at either end of some observations are as slow in them as they should be."""
    if not slow[part].any():
        return False
    least, wanted = (0.5, _JOINED_ALL) if extent == ALL else (0.5 * float(slow[part].mean()), _JOINED_SOME)
    for end in state.ends:
        count, hits = np.bincount(end[part]), np.bincount(end[part[slow[part]]], minlength=int(end[part].max()) + 1)
        often = count >= _JOINED_LEAST
        share = hits[often] / count[often]
        if often.any() and (share >= least).mean() < wanted:
            return False
    return True


def _others(hits: Integers, count: Integers, like_it: Flags, row: int) -> Integers:
    """Suspects of the same kind, without those that are slow most often."""
    like_it = like_it & (count > 0)
    like_it[row] = False
    places = np.flatnonzero(like_it)
    worst = max(1, math.ceil(_TRIMMED * len(places)))
    ordered: Integers = places[np.argsort(hits[places] / count[places], kind="stable")]
    return ordered[: max(len(ordered) - worst, 0)]


def _likelihood_ratio(hits: Integers, count: Integers, all_slow: int, total: int) -> Floats:
    """Logarithm of how much likelier each number of slow observations is with its own share than with that of all others."""
    share = hits / np.maximum(count, 1)
    outside = (all_slow - hits + 0.5) / (total - count + 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.where(hits > 0, hits * np.log(share / outside), 0.0)
        other = np.where(hits < count, (count - hits) * np.log((1 - share) / (1 - np.minimum(outside, 1 - 1e-12))), 0.0)
    return np.where(share > outside, one + other, 0.0)


def _exact(state: _State, slow: Flags, mine: Integers) -> float:
    """Probability of at least so many slow ones among its own, if those of each class are anywhere in the class."""
    drawn = np.bincount(state.stratum[mine], minlength=state.strata)
    everything = np.bincount(state.stratum[state.active], minlength=state.strata)
    slow_ones = np.bincount(state.stratum[slow], minlength=state.strata)
    parts = [
        scipy.stats.hypergeom.pmf(np.arange(drawn[one] + 1), everything[one], slow_ones[one], drawn[one])
        for one in np.flatnonzero(drawn).tolist()
    ]
    hits = int(slow[mine].sum())
    if len(parts) == 1:
        one = int(np.flatnonzero(drawn)[0])
        return float(scipy.stats.hypergeom.sf(hits - 1, everything[one], slow_ones[one], drawn[one]))
    return float(min(1.0, reduce(np.convolve, parts)[hits:].sum()))


def _overdispersed(hits: int, count: int, other_hits: Integers, other_counts: Integers) -> float:
    """The same probability where suspects of its kind differ in how often they are slow (beta-binomial, by moments).

    The correlation of two observations of one suspect is estimated from the others: Kleinman 1973, J. Am. Stat. Assoc. 68:46.
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


def _alike(state: _State, row: int, mine: Integers, candidates: Integers) -> Sequence[int]:
    """Others with just the same observations left."""
    found = []
    for other in candidates.tolist():
        if other != row:
            theirs = state.suspects.observations_of(other)
            theirs = theirs[state.active[theirs]]
            if len(theirs) == len(mine) and np.array_equal(np.sort(theirs), np.sort(mine)):
                found.append(other)
    return found


def _floor(state: _State, thresholds: Sequence[float], limits: Floats, kind: Integers) -> float | None:
    """The smallest threshold at which the typical node would be accused if all of its observations were slow."""
    count = state.counts(state.active)
    nodes = (kind == 0) & (count > 0)
    if not nodes.any():
        return None
    typical, limit = int(np.median(count[nodes])), float(limits[nodes].min())
    total = int(state.active.sum())
    for threshold in thresholds:
        slow = int(state.slow(threshold).sum())
        if scipy.stats.hypergeom.sf(typical - 1, total, min(total, slow + typical), typical) <= limit:
            return threshold
    return None
