"""Nodes that the tree of switches lists under one leaf, and whose latencies say another one."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from math import comb

import polars as pl

from mpibench.locate.maps import Places
from reframe_tests.harness.instruments.pairs.pair_values import LATENCY, PairMap

#: Nodes that may be called misplaced by chance, expected in a map at most.
RATE = 0.05
#: How much longer a message takes across leaves than inside one at least (share), for latencies to
#: say anything of leaves.
SEEN_FROM = 0.03


def misplaced(pair_map: PairMap, places: Places) -> dict[str, str]:
    """Node to the leaf that its latencies say, for those listed under another one.

    All its latencies to that leaf are below all those to its own leaf. Where leaves made no
    difference, that would be so once in ``comb(a + b, b)`` draws for ``a`` nodes there and ``b``
    beside it; over all nodes and leaves that may come to :data:`RATE`, or nothing is said.
    """
    both = pl.min_horizontal("source", "target"), pl.max_horizontal("source", "target")
    rows = pair_map.table().filter(pl.col("quantity") == LATENCY, pl.col("value").is_not_null())
    pairs = rows.group_by(one=both[0], other=both[1]).agg(pl.col("value").min()).collect()
    names = pair_map.nodes
    least = {
        frozenset((names[one], names[other])): value for one, other, value in pairs.iter_rows()
    }
    leaf_of = {node: leaf for node in pair_map.nodes if (leaf := places.leaf(node))}
    leaves = sorted(set(leaf_of.values()))
    inside = [value for pair, value in least.items() if _same(pair, leaf_of)]
    across = [value for pair, value in least.items() if not _same(pair, leaf_of)]
    if pair_map.shared_cores or places.guessed or not inside or not across:
        return {}
    if statistics.median(across) < (1 + SEEN_FROM) * statistics.median(inside):
        return {}
    found: dict[str, str] = {}
    chance = 0.0
    for node, own in leaf_of.items():
        to = {
            leaf: [
                least[frozenset((node, other))]
                for other, at in leaf_of.items()
                if at == leaf and other != node and frozenset((node, other)) in least
            ]
            for leaf in leaves
        }
        for leaf in leaves:
            if leaf == own or not to[leaf] or not to[own]:
                continue
            chance += 1 / comb(len(to[leaf]) + len(to[own]), len(to[own]))
            if max(to[leaf]) < min(to[own]):
                found[node] = leaf
    return found if chance <= RATE else {}


def _same(pair: frozenset[str], leaf_of: Mapping[str, str]) -> bool:
    first, second = pair
    return leaf_of.get(first) == leaf_of.get(second)
