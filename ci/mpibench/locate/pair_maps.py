"""A map of pairs as it was stored, made ready to be judged: a value for each pair, direction and round.

Of a bandwidth that is the median of its repeats. Of a latency it is the least of both directions: of one round trip which node
began means nothing, and what other programs do to one of them can only add.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH, LATENCY, MEAN, PairMap, PairValue
from reframe_tests.harness.machine.switches.tree import GUESSED, Switch, SwitchTree
from reframe_tests.harness.vocabulary import LOWER, BadInput
from reframe_tests.harness.vocabulary import QUANTITIES as WORDS

from ..store.quantity_text import size_text
from .observations import Observations, Places, numbered

#: Order in which quantities are judged and shown.
_ORDER = (BANDWIDTH, LATENCY, MEAN)


@dataclass(frozen=True)
class Prepared:
    """What can be judged of a map, and what cannot.

    :param parts: observations of each quantity.
    :param missing: sentences on what was to be measured and was not: with these nobody can be called healthy.
    :param notes: sentences on how it was measured.
    """

    parts: tuple[Observations, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]


def prepare(pair_map: PairMap) -> Prepared:
    """Observations of each quantity and size.

    :raises BadInput: there are not two nodes, or no value that can be used.
    """
    if len(pair_map.nodes) < 2:
        raise BadInput("a map of pairs needs two nodes, and this one has fewer: measure on more nodes.")
    usable = [row for row in pair_map.values if row.value is not None and row.value > 0 and row.counted is not False]
    if not usable:
        raise BadInput("the map of pairs holds no value that can be used: measure it again.")
    kinds = sorted({(row.quantity, row.message_bytes) for row in usable}, key=lambda kind: (_ORDER.index(kind[0]), -kind[1]))
    parts = [_observations(pair_map, [row for row in usable if (row.quantity, row.message_bytes) == kind]) for kind in kinds]
    return Prepared(tuple(parts), tuple(_missing(pair_map)), tuple(_notes(pair_map, usable)))


def _observations(pair_map: PairMap, rows: Sequence[PairValue]) -> Observations:
    """Rows of one quantity and size."""
    quantity = rows[0].quantity
    lower = WORDS[quantity].direction == LOWER
    place = {node: at for at, node in enumerate(pair_map.nodes)}
    values: dict[tuple[int, ...], list[float]] = {}
    for row in rows:
        ends = (place[row.source], place[row.target])
        key = (row.order, row.round, *(sorted(ends) if lower else ends), 0 if lower else row.phase)
        values.setdefault(key, []).append(row.value or math.nan)
    keys = list(values)
    middle = np.array([min(values[key]) if lower else median(values[key]) for key in keys])
    return Observations(
        quantity=quantity,
        nodes=pair_map.nodes,
        source=np.array([key[2] for key in keys], dtype=np.intp),
        target=np.array([key[3] for key in keys], dtype=np.intp),
        slowness=np.log(middle) if lower else -np.log(middle),
        moment=numbered([key[:2] for key in keys])[1],
        together=numbered([(*key[:2], key[4]) for key in keys])[1],
        directed=not lower,
    )


def silent_nodes(pair_map: PairMap) -> dict[str, str]:
    """A sentence on each node that stopped answering."""
    return {node: f"{node}: stopped answering ({why})" for node, why in pair_map.silent.items()}


def _missing(pair_map: PairMap) -> list[str]:
    found = []
    silent = set(pair_map.silent)
    lost = {tuple(sorted((row.source, row.target))) for row in pair_map.values if row.value is None}
    others = sorted(pair for pair in lost if not silent & set(pair))
    if others:
        shown = ", ".join("-".join(pair) for pair in others[:5])
        found.append(f"{len(others)} pairs were to be measured and were not: {shown}{', ...' if len(others) > 5 else ''}")
    uncounted = {tuple(sorted((row.source, row.target))) for row in pair_map.values if row.counted is False}
    if uncounted:
        shown = ", ".join("-".join(pair) for pair in sorted(uncounted)[:5])
        found.append(
            f"of {len(uncounted)} pairs the nodes did not count the bytes that were sent on the fabric, so these are not used: "
            f"{shown}{', ...' if len(uncounted) > 5 else ''}"
        )
    seen = {node for row in pair_map.values if row.value is not None for node in (row.source, row.target)}
    unseen = [node for node in pair_map.nodes if node not in seen and node not in silent]
    if unseen:
        found.append(f"nothing was measured of {', '.join(unseen[:10])}{', ...' if len(unseen) > 10 else ''}")
    ran = len({row.round for row in pair_map.values})
    if ran < pair_map.rounds:
        found.append(f"{ran} of {pair_map.rounds} rounds were measured")
    return found


def _notes(pair_map: PairMap, rows: Sequence[PairValue]) -> list[str]:
    sizes = ", ".join(
        f"{WORDS[quantity].title} at {size_text(size)}"
        for quantity, size in dict.fromkeys((row.quantity, row.message_bytes) for row in rows)
    )
    what = "each pair with each" if pair_map.design == "all" else "a sample of the pairs"
    passes = len({row.order for row in rows})
    rounds = f"{len({row.round for row in rows})} rounds in {passes} pass{'es' * (passes != 1)}"
    found = [f"{what} of {len(pair_map.nodes)} nodes, {rounds}: {sizes}"]
    if any(row.counted is None for row in rows):
        found.append("of some values it is not known whether the nodes counted their bytes on the fabric")
    return [*found, *(pair_map.tree.notes if pair_map.tree else ())]


def places_of(tree: SwitchTree | None, nodes: Sequence[str]) -> tuple[Places, list[str]]:
    """Where the nodes are plugged in, and sentences where the description contradicts the nodes that were measured."""
    if tree is None:
        return Places({}), []
    described = {node: tuple(reversed(tree.path(node))) for node in nodes if tree.path(node)}
    unknown = [node for node in nodes if node not in described]
    if len(unknown) == len(nodes):
        others = ", ".join(sorted(tree.leaf_of)[:3])
        return Places({}), [
            f"the switches ({tree.origin}) have none of the nodes that were measured, but {others}, ...: "
            "its names contradict the host names, and it is not used"
        ]
    said = (
        [f"the switches ({tree.origin}) lack {', '.join(unknown[:10])}{', ...' if len(unknown) > 10 else ''}"]
        if unknown
        else []
    )
    return Places(described, tree.origin, tree.origin == GUESSED), said


def tree_of(places: Places) -> SwitchTree:
    """Groups that were found in the map, as a tree."""
    below: dict[str, list[str]] = {}
    for node, path in places.switches.items():
        below.setdefault(path[0], []).append(node)
    return SwitchTree(GUESSED, {name: Switch(None, tuple(nodes)) for name, nodes in below.items()})
