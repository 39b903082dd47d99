"""The rules of two other programs, as their documents describe
them, on the observations that ours are given.

ClusterKit (NVIDIA HPC-X 2.24, "ClusterKit"): a pair is bad whose latency is above 2.1 times the
least or whose bandwidth is below 93 % of the greatest; suspects are measured again, pairs in half
as many rounds each time, and those bad in the last round are reported. It names pairs: here a node
is taken as named if more than half of its pairs are bad.

LinkTest 1.2 (Juelich): the N slowest pairs (N nodes) are measured again, one at a time, and both
numbers are printed, without a rule. Here those are taken as reported that are slow again, below 93
% of the median of all pairs; a node is taken as named if it is in at least three of them.

The second measurement of a simulated map is drawn by the caller, with the same faults and other
noise. Of a measured one (:func:`on_map`) it is that of the next pass over all rounds, in which
other pairs run beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from mpibench.locate import maps
from mpibench.locate.maps import Floats, Integers, Observations
from reframe_tests.harness.instruments.pairs.pair_values import MEAN, PairMap

#: ClusterKit's bounds, and the rounds in which it measures suspects again here.
_LATENCY_TIMES = 2.1
_BANDWIDTH_SHARE = 0.93
_AGAIN = 2
#: Pairs of a node among those LinkTest's reader is left with, from
#: which on the node is taken as named.
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


def on_map(measured: PairMap) -> dict[str, set[str]]:
    """Nodes that each rule names on a map with several passes: the first is
    the measurement, the next are those of suspects.

    Latency and bandwidth are judged each for itself, as both programs do; means are ours alone.
    """
    found: dict[str, set[str]] = {"ClusterKit": set(), "LinkTest": set()}
    values = [row for row in measured.rows() if row.quantity != MEAN]
    passes = sorted({row.order for row in values})
    by_pass = [
        replace(measured, values=tuple(row for row in values if row.order == each))
        for each in passes
    ]
    for parts in zip(*(maps.prepare(one)[0] for one in by_pass), strict=False):
        for name, rule in (("ClusterKit", clusterkit), ("LinkTest", linktest)):
            found[name] |= rule(parts[0], _again(parts[0], parts[1:] or parts))
    return found


def _again(first: Observations, later: tuple[Observations, ...]) -> Again:
    """What later passes have of the same pairs and directions, one pass
    each time it is asked, and then again the last.
    """
    tables = [dict(zip(_pairs(one), one.slowness.tolist(), strict=True)) for one in later]
    keys = _pairs(first)
    left = iter(tables)

    def again(which: Integers) -> Floats:
        table = next(left, tables[-1])
        # Of what was not measured again the first value counts.
        return np.array(
            [table.get(keys[place], first.slowness[place]) for place in which.tolist()],
            dtype=np.float64,
        )

    return again


def _pairs(seen: Observations) -> list[tuple[int, int]]:
    """Both nodes of each, in an order that means something where there is a direction."""
    ends: Iterator[tuple[int, int]] = zip(seen.source.tolist(), seen.target.tolist(), strict=True)
    return [pair if seen.directed else (min(pair), max(pair)) for pair in ends]


def _named(
    seen: Observations, bad: Integers, rule: Callable[[Integers, Integers], np.ndarray]
) -> set[str]:
    """Nodes for which a rule on the number of bad observations,
    of all, holds; by its directions.
    """
    found: set[str] = set()
    ends = (seen.source, seen.target)
    size = len(seen.nodes)
    parts = (
        [(end[bad], end) for end in ends]
        if seen.directed
        else [(np.concatenate([end[bad] for end in ends]), np.concatenate(ends))]
    )
    for hit, everything in parts:
        count = np.bincount(hit, minlength=size)
        of = np.bincount(everything, minlength=size)
        found |= {
            seen.nodes[place] for place in np.flatnonzero((count > 0) & rule(count, of)).tolist()
        }
    return found
