"""What is judged: times between nodes on a log scale, the nodes' places in the network, and the
suspects.

A stored map of pairs gives one value for each pair, direction and round. For a bandwidth it is the
median of the repeats. For a latency it is the lower of both directions: which node starts a round
trip is irrelevant, and other programs can only add to it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from reframe_tests.harness.instruments.pairs.pair_values import (
    BANDWIDTH,
    LATENCY,
    MEAN,
    PairMap,
)
from reframe_tests.harness.machine.switch_paths import kind_of
from reframe_tests.harness.machine.switches import GUESSED, SwitchTree
from reframe_tests.harness.printable import plural
from reframe_tests.harness.vocabulary import LOWER, QUANTITIES, BadInput

from ..store.quantity_text import size_text

Floats = npt.NDArray[np.float64]
#: Places and labels of a map are below 2**31: half the memory of a pointer.
INDEX = np.int32
Integers = npt.NDArray[np.signedinteger[Any]]
Flags = npt.NDArray[np.bool_]

SENDS = "sends"
RECEIVES = "receives"
BOTH = "both"
#: Kinds in the order in which one is named where several would show in the same observations.
NODE = "node"
LINK = "link"
UPLINK = "uplink"
SWITCH = "switch"
PAIR = "pair"
KINDS = (NODE, LINK, UPLINK, SWITCH, PAIR)
#: Order in which quantities are judged and shown.
_ORDER = (BANDWIDTH, LATENCY, MEAN)


class Suspect(NamedTuple):
    """One that may be at fault.

    :param kind: one of :data:`KINDS`: a node; the way from one switch to another; all ways of a
        switch to others; a switch with what is below it; a pair of nodes.
    :param names: its name; of a link and a pair both ends, the sending
        one first where there is a direction.
    :param way: :data:`SENDS`, :data:`RECEIVES` or, of a quantity without a direction, :data:`BOTH`.
    :param level: of a switch: 0 a leaf, 1 what is above it.
    :param load: of a link between switches: only where so many or more messages shared it, as a
        slow one carries one of them as fast as a good one does; 0: all.
    """

    kind: str
    names: tuple[str, ...]
    way: str
    level: int = 0
    load: int = 0

    @property
    def text(self) -> str:
        """In words."""
        name = self.names[0]
        if self.kind in (LINK, PAIR):
            return f"the way from {name} to {self.names[1]}"
        if self.kind == UPLINK:
            return f"the uplink of {name}"
        name = f"{name} as a whole" if self.kind == SWITCH else name
        return name if self.way == BOTH else f"what {name} {self.way}"


@dataclass(frozen=True)
class Observations:
    """Measurements of one quantity between two nodes each.

    :param quantity: what was measured, a name of
        :data:`reframe_tests.harness.vocabulary.QUANTITIES`.
    :param nodes: names; ``source`` and ``target`` are places in it.
    :param slowness: natural logarithm, turned so that more is worse: of a
        latency, or minus that of a bandwidth.
    :param moment: in which round: disturbances of one round are one event.
    :param together: what ran at the same time and shares the links
        between switches: a round's one direction.
    :param directed: source sends and target receives; else both ends do
        both, and their order means nothing.
    """

    quantity: str
    nodes: tuple[str, ...]
    source: Integers
    target: Integers
    slowness: Floats
    moment: Integers
    together: Integers
    directed: bool

    def __post_init__(self) -> None:
        if not np.isfinite(self.slowness).all():
            raise BadInput(
                "output-damaged",
                f"the map of {self.quantity} has a value that is not positive: measure it again.",
            )
        if (self.source == self.target).any():
            name = self.nodes[int(self.source[self.source == self.target][0])]
            raise BadInput(
                "output-damaged",
                f"the map of {self.quantity} has {name} paired with itself: measure pairs of "
                "nodes.",
            )

    def __len__(self) -> int:
        return len(self.slowness)

    @property
    def title(self) -> str:
        return QUANTITIES[self.quantity].title

    @property
    def ends(self) -> tuple[tuple[str, Integers], ...]:
        """What either end does, with the node of each observation."""
        return (SENDS if self.directed else BOTH, self.source), (
            RECEIVES if self.directed else BOTH,
            self.target,
        )

    def pairs(self, first: Integers, second: Integers, many: int) -> Integers:
        """A number for each two of so many things at the ends; without a
        direction their order does not count.
        """
        if not self.directed:
            first, second = np.minimum(first, second), np.maximum(first, second)
        return first * many + second


@dataclass(frozen=True)
class Places:
    """Where each node is plugged in.

    :param switches: node to its switches, the leaf first, then what is
        above it (a pod, a group of a dragonfly).
    :param origin: where that is written: ``topology.conf``, ...; ``""``: nothing is known.
    :param guessed: found in the map itself and written nowhere.
    """

    switches: Mapping[str, Sequence[str]]
    origin: str = ""
    guessed: bool = False

    def levels(self, nodes: Sequence[str]) -> list[list[str]]:
        """For each level, the leaves first, the switch of each
        node; empty where a node has none.
        """
        paths = [self.switches.get(node, ()) for node in nodes]
        depth = max(map(len, paths), default=0)
        return [
            [path[level] if level < len(path) else "" for path in paths] for level in range(depth)
        ]

    def leaf(self, node: str) -> str:
        """The switch a node is plugged into; empty if that is unknown."""
        return next(iter(self.switches.get(node, ())), "")


def numbered(names: Sequence[Any]) -> tuple[list[Any], Integers]:
    """Distinct names in the order of their first appearance, and for each its place in them."""
    order: dict[Any, int] = {}
    places = [order.setdefault(name, len(order)) for name in names]
    return list(order), np.array(places, dtype=np.intp)


def grouped(key: Integers, value: Floats) -> tuple[Integers, Integers, Integers, Floats]:
    """Keys, where in the values each begins, how many it has, and
    the values, in order within each key.
    """
    order = np.lexsort((value, key))
    ordered = key[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    counts = np.diff(starts, append=len(ordered))
    return ordered[starts], starts, counts, value[order]


def listed(names: Sequence[str], most: int = 8) -> str:
    """The first of some names."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


#: What of a value is used.
_USABLE = (pl.col("value") > 0) & pl.col("counted").ne_missing(False)


def prepare(
    pair_map: PairMap, quantities: Collection[str] = _ORDER
) -> tuple[list[Observations], list[str], list[str]]:
    """Observations by quantity and size; sentences on what is missing; and on how it was measured.

    :param quantities: those to be judged.
    :raises BadInput: there are not two nodes, or no value that can be used; or its file is not
        there, or not the one that was written.
    """
    if len(pair_map.nodes) < 2:
        raise BadInput(
            "nothing-measured",
            "a map of pairs needs at least two nodes: measure on more.",
        )
    rows = pair_map.table().filter(pl.col("quantity").is_in(list(quantities)))
    found = rows.filter(_USABLE).select("quantity", "message_bytes").unique().collect().rows()
    if not found:
        raise BadInput("session-missing", "the map of pairs has no usable value: measure it again.")
    kinds = sorted(found, key=lambda kind: (_ORDER.index(kind[0]), -kind[1]))
    return (
        [_observations(pair_map.nodes, rows, *kind) for kind in kinds],
        _missing(pair_map, rows),
        _notes(pair_map, rows, kinds),
    )


def _observations(
    nodes: tuple[str, ...], rows: pl.LazyFrame, quantity: str, size: int
) -> Observations:
    lower = QUANTITIES[quantity].direction == LOWER
    wanted = (pl.col("quantity") == quantity) & (pl.col("message_bytes") == size)
    table = (
        rows.filter(_USABLE & wanted)
        .select("order", "round", "phase", "source", "target", "value")
        .collect()
    )
    order, round_, phase, source, target = (
        column.to_numpy().astype(INDEX) for column in table.get_columns()[:5]
    )
    values = table["value"].to_numpy()
    del table
    if lower:
        source, target = np.minimum(source, target), np.maximum(source, target)
        phase[:] = 0
    # One number for all values of an observation, in which they ran.
    when = order.astype(np.int64) * (int(round_.max()) + 1) + round_
    pair = (source.astype(np.int64) * len(nodes) + target) * 3 + phase
    key = when * (3 * len(nodes) ** 2) + pair
    del pair, order, round_
    at = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[at], prepend=-1))
    if len(first) < len(at):
        values = _of_each(values[at], first, lower=lower)
        # In the order in which they ran.
        first = at[first]
        ran = np.argsort(first)
        at, values = first[ran], values[ran]
        source, target, phase, when = source[at], target[at], phase[at], when[at]
    del key, at, first
    slowness = np.log(values)
    return Observations(
        quantity,
        nodes,
        source,
        target,
        slowness if lower else np.negative(slowness, out=slowness),
        in_order(when),
        in_order(when * 3 + phase),
        directed=not lower,
    )


def _of_each(values: Floats, first: Integers, *, lower: bool) -> Floats:
    """The least or the median of each observation's values, which begin at ``first``."""
    if lower:
        return np.minimum.reduceat(values, first)
    which = np.repeat(np.arange(len(first)), np.diff(first, append=len(values)))
    _, starts, counts, ordered = grouped(which, values)
    return (ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) / 2


def in_order(label: Integers) -> Integers:
    """For each label its place among the distinct ones, in the order of their first appearance."""
    new = label[1:] != label[:-1]
    if (label[1:] >= label[:-1]).all():
        return np.concatenate([np.zeros(1, dtype=INDEX), np.cumsum(new, dtype=INDEX)])
    _, first, place = np.unique(label, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=INDEX)
    rank[np.argsort(first)] = np.arange(len(first), dtype=INDEX)
    return rank[place]


def _missing(pair_map: PairMap, rows: pl.LazyFrame) -> list[str]:
    found = []
    name = pair_map.nodes.__getitem__
    silent = set(pair_map.silent)

    def pairs(which: pl.Expr) -> list[tuple[str, ...]]:
        ends = rows.filter(which).select("source", "target").unique().collect().rows()
        return sorted({tuple(sorted(map(name, pair))) for pair in ends})

    lost = pairs(pl.col("value").is_null())
    if others := ["-".join(pair) for pair in lost if not silent & set(pair)]:
        found.append(
            f"not measured, though planned: {plural(len(others), 'pair')}, {listed(others, 5)}"
        )
    if uncounted := pairs(~pl.col("counted")):
        shown = listed(["-".join(pair) for pair in uncounted], 5)
        found.append(
            f"of {plural(len(uncounted), 'pair')} the nodes did not count the bytes that were sent "
            f"on the fabric; not used: {shown}"
        )
    measured = rows.filter(pl.col("value").is_not_null())
    seen = {
        name(at)
        for end in ("source", "target")
        for at in measured.select(pl.col(end).unique()).collect()[end]
    }
    if unseen := [node for node in pair_map.nodes if node not in seen | silent]:
        found.append(f"nothing was measured of {listed(unseen, 10)}")
    ran = rows.select(pl.col("round").n_unique()).collect().item()
    if ran < pair_map.rounds:
        found.append(f"{ran} of {pair_map.rounds} rounds were measured")
    return found


def _notes(pair_map: PairMap, rows: pl.LazyFrame, kinds: Sequence[tuple[str, int]]) -> list[str]:
    sizes = ", ".join(
        f"{QUANTITIES[quantity].title} at {size_text(size)}"
        for quantity, size in sorted(kinds, key=lambda kind: kind[0] == BANDWIDTH)
    )
    what = "each pair with each" if pair_map.design == "all" else "a sample of the pairs"
    facts = (
        rows.filter(_USABLE)
        .select(pl.col("order", "round").n_unique(), unknown=pl.col("counted").is_null().any())
        .collect()
    )
    passes, ran, unknown = facts.row(0)
    rounds = f"{ran} rounds in {passes} pass{'es' * (passes != 1)}"
    found = [f"{what} of {len(pair_map.nodes)} {kind_of(pair_map.nodes)}, {rounds}: {sizes}"]
    if unknown:
        found.append(
            "for some values it is unknown whether the nodes counted their bytes on the fabric"
        )
    return [*found, *(pair_map.tree.notes if pair_map.tree else ())]


def places_of(tree: SwitchTree | None, nodes: Sequence[str]) -> tuple[Places, list[str]]:
    """Where the nodes are plugged in, and sentences where the
    description contradicts the nodes that were measured.
    """
    if tree is None or not tree.leaf_of:
        return Places({}), []
    described = {node: tuple(reversed(tree.path(node))) for node in nodes if tree.path(node)}
    unknown = [node for node in nodes if node not in described]
    if not described:
        others = ", ".join(sorted(tree.leaf_of)[:3])
        return Places({}), [
            f"the switches ({tree.origin}) have none of the measured nodes, but {others}, ...: the "
            "names do not match the host names, so they are not used"
        ]
    said = [f"the switches ({tree.origin}) lack {listed(unknown, 10)}"] if unknown else []
    return Places(described, tree.origin, tree.origin == GUESSED), said
