"""The rules of two other programs, as their documents describe them, on the observations that ours are given.

ClusterKit (NVIDIA HPC-X 2.24, "ClusterKit"): a pair is bad whose latency is above 2.1 times the least or whose bandwidth is
below 93 % of the greatest; suspects are measured again, pairs in half as many rounds each time, and those bad in the last round
are reported. It names pairs: here a node is taken as named if more than half of its pairs are bad.

LinkTest 1.2 (Juelich): the N slowest pairs (N nodes) are measured again, one at a time, and both numbers are printed, without a
rule. Here those are taken as reported that are slow again, below 93 % of the median of all pairs; a node is taken as named if
it is in at least three of them.

The second measurement is drawn by the caller, with the same faults and other noise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mpibench.locate.observations import Floats, Integers, Observations

#: ClusterKit's bounds, and the rounds in which it measures suspects again here.
_LATENCY_TIMES, _BANDWIDTH_SHARE, _AGAIN = 2.1, 0.93, 2
#: Pairs of a node among those LinkTest's reader is left with, from which on the node is taken as named.
_LEAST_PAIRS = 3

#: Slowness of some observations, by place, measured again.
Again = Callable[[Integers], Floats]


def clusterkit(seen: Observations, again: Again) -> set[str]:
    """Nodes that ClusterKit's rule leaves bad."""
    bound = np.log(_LATENCY_TIMES) if seen.quantity == "latency_us" else -np.log(_BANDWIDTH_SHARE)
    best = float(seen.slowness.min())
    bad = np.flatnonzero(seen.slowness > best + bound)
    for _ in range(_AGAIN):
        bad = bad[again(bad) > best + bound]
    return _named(seen, bad, lambda count, of: count > of / 2)


def linktest(seen: Observations, again: Again) -> set[str]:
    """Nodes that a reader of LinkTest's list would name."""
    middle = float(np.median(seen.slowness))
    slowest = np.argsort(-seen.slowness, kind="stable")[: len(seen.nodes)]
    bad = slowest[again(slowest) > middle - np.log(_BANDWIDTH_SHARE)]
    return _named(seen, bad, lambda count, of: count >= np.minimum(_LEAST_PAIRS, of))


def _named(seen: Observations, bad: Integers, rule: Callable[[Integers, Integers], np.ndarray]) -> set[str]:
    """Nodes for which a rule on the number of bad observations, of all, holds; by its directions."""
    found: set[str] = set()
    ends = (seen.source, seen.target)
    size = len(seen.nodes)
    parts = (
        [(end[bad], end) for end in ends]
        if seen.directed
        else [(np.concatenate([end[bad] for end in ends]), np.concatenate(ends))]
    )
    for hit, everything in parts:
        count, of = np.bincount(hit, minlength=size), np.bincount(everything, minlength=size)
        found |= {seen.nodes[place] for place in np.flatnonzero((count > 0) & rule(count, of)).tolist()}
    return found
