"""What a map says of the machine where nobody wrote it down: nodes of two kinds, and groups of nodes. Both are guesses.

Two kinds
    Even the fastest pairs of a node (:data:`_FASTEST`) are slow for some nodes, which are too many to be faults
    (:data:`_LEAST_SHARE`) and slow among themselves as well; below a slow uplink a node's pairs with its neighbours are not.
    Pairs of each combination of kinds are then a class of their own.
Groups
    Average linkage (Sokal and Michener 1958) of the nodes by how slow their pairs are, the nodes' own effects taken out by
    median polish (Tukey 1977), cut at the largest step; accepted only where nearly all pairs inside groups are faster than
    those across (Cliff's delta, 1993).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import scipy.cluster.hierarchy
import scipy.spatial.distance
import scipy.stats

from .baseline import distances
from .observations import Floats, Observations, Places

#: Nodes of a second kind, at least; fewer are faults.
_LEAST_SHARE, _LEAST_NODES = 0.2, 3
#: Quantile of the observations of a node that says whether all of them are slow.
_FASTEST = 0.15
#: Quantile of all observations of one distance that two of the faster kind reach.
_BEST = 0.1
#: The step between the kinds, at least so many times the spread within each.
_CLEAR = 4.0
#: Share of pairs of pairs, one inside groups and one across, of which the inside one must be the faster.
_LEAST_DELTA = 0.9
#: Step from pairs inside to those across, at least so many times the spread (between the quartiles) of those across.
_LEAST_STEP = 2.0
#: Groups are sought in maps of so many nodes, with this share of all pairs at least.
_FEWEST, _MOST, _LEAST_PAIRS = 6, 500, 0.6
_POLISHES = 10
SLOWER = "slower"


def slower_kind(seen: Observations, margin: float, places: Places) -> dict[str, str]:
    """Nodes of a second, slower kind, each to :data:`SLOWER`; empty where there is none.

    :param margin: the least step between kinds, log scale.
    """
    excess = _excess(seen, places)
    fastest = _by_node(seen, excess)
    order = np.argsort(fastest)
    ordered = fastest[order]
    least = max(_LEAST_NODES, int(np.ceil(_LEAST_SHARE * len(ordered))))
    if len(ordered) < 2 * least or not np.isfinite(ordered).all():
        return {}
    steps = np.diff(ordered)[least - 1 : len(ordered) - least]
    cut = least + int(np.argmax(steps))
    step = float(steps.max())
    within = max(_spread(ordered[:cut]), _spread(ordered[cut:]))
    # The larger half is the reference: of two kinds the slower one may be the majority.
    if step <= max(margin, _CLEAR * within):
        return {}
    slow = np.zeros(len(ordered), dtype=bool)
    slow[order[cut:]] = True
    among = slow[seen.source] & slow[seen.target]
    leaf = np.array([hash(places.leaf(node)) for node in seen.nodes])
    inside = among & (leaf[seen.source] == leaf[seen.target]) if places.switches else among
    # Nodes below one slow uplink are slow to others and not among themselves.
    if not among.any() or float(np.median(excess[inside if inside.any() else among])) <= margin:
        return {}
    return {seen.nodes[place]: SLOWER for place in np.flatnonzero(slow).tolist()}


def _excess(seen: Observations, places: Places) -> Floats:
    """How much slower each is than the fastest tenth of its distance, which are two of the faster kind."""
    distance = distances(seen, places)
    best = np.array(
        [
            np.quantile(seen.slowness[distance == one], _BEST)
            for one in range(int(distance.max(initial=0)) + 1)
            if (distance == one).any()
        ]
    )
    found: Floats = seen.slowness - best[np.unique(distance, return_inverse=True)[1]]
    return found


def _by_node(seen: Observations, excess: Floats) -> Floats:
    """Excess of the fastest observations of each node; ``nan`` of one without any."""
    node = np.concatenate([seen.source, seen.target])
    value = np.concatenate([excess, excess])
    order = np.lexsort((value, node))
    counts = np.bincount(node, minlength=len(seen.nodes))
    starts = np.cumsum(counts) - counts
    ordered = value[order]
    found = np.full(len(counts), np.nan)
    there = counts > 0
    found[there] = ordered[starts[there] + np.floor((counts[there] - 1) * _FASTEST).astype(np.intp)]
    return found


def _spread(values: Floats) -> float:
    return float(np.quantile(values, 0.75) - np.quantile(values, 0.25))


def groups(seen: Observations) -> Places | None:
    """Groups of nodes whose pairs are faster; ``None`` where the map shows none."""
    count = len(seen.nodes)
    if not _FEWEST <= count <= _MOST:
        return None
    table = pair_table(seen)
    known = np.isfinite(table)
    if known.sum() < _LEAST_PAIRS * count * (count - 1):
        return None
    left = _polished(table)
    left[~np.isfinite(left)] = np.nanmedian(left)
    np.fill_diagonal(left, 0.0)
    distance = left - left.min() + 1e-9
    np.fill_diagonal(distance, 0.0)
    tree = scipy.cluster.hierarchy.linkage(scipy.spatial.distance.squareform(distance, checks=False), "average")
    heights = tree[:, 2]
    # So many groups that each has two nodes on average; the step up to a single one is a cut, too.
    steps = np.diff(heights)[max(0, count - 1 - count // 2) :]
    if not len(steps):
        return None
    number = len(steps) - int(np.argmax(steps)) + 1
    group = scipy.cluster.hierarchy.fcluster(tree, number, "maxclust")
    if np.bincount(group)[1:].min() < 2:
        return None
    same = group[:, None] == group[None, :]
    upper = np.triu(np.ones_like(same), 1).astype(bool) & known
    inside, across = left[same & upper], left[~same & upper]
    if not len(inside) or not len(across) or _delta(inside, across) < _LEAST_DELTA:
        return None
    # The fastest pairs of any map are faster than its others.
    if float(np.median(across) - np.median(inside)) < _LEAST_STEP * _spread(across):
        return None
    names = _names(group)
    return Places({node: (names[place],) for node, place in zip(seen.nodes, group.tolist(), strict=True)}, "the map", True)


def _names(group: npt.NDArray[np.int32]) -> Mapping[int, str]:
    """Groups in the order of their first nodes."""
    return {place: f"group{number}" for number, place in enumerate(dict.fromkeys(group.tolist()), 1)}


def pair_table(seen: Observations) -> Floats:
    """Mean of both directions' median slowness of each pair, symmetric; ``nan`` where nothing was measured."""
    count = len(seen.nodes)
    table = np.full((count, count), np.nan)
    code = seen.source * count + seen.target
    order = np.lexsort((seen.slowness, code))
    codes, starts, counts = np.unique(code[order], return_index=True, return_counts=True)
    middle = seen.slowness[order][starts + counts // 2]
    table[codes // count, codes % count] = middle
    both = np.stack([table, table.T])
    there = np.isfinite(both)
    summed = np.where(there, both, 0.0).sum(axis=0)
    return np.where(there.any(axis=0), summed / np.maximum(there.sum(axis=0), 1), np.nan)


def _polished(table: Floats) -> Floats:
    """Without the effect of each node: its median over all its pairs."""
    left = table.copy()
    for _ in range(_POLISHES):
        middle = np.nanmedian(left, axis=1)
        middle = np.where(np.isfinite(middle), middle, 0.0) / 2
        left -= middle[:, None] + middle[None, :]
    return left


def _delta(inside: Floats, across: Floats) -> float:
    """Cliff's delta: how much more often a pair across is slower than one inside than the reverse."""
    ranks = scipy.stats.mannwhitneyu(across, inside).statistic
    return float(2 * ranks / (len(inside) * len(across)) - 1)
