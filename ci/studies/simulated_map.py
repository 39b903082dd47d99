"""Simulated maps of fat trees and dragonflies with faults: what ``mpibench
locate`` would be given, and what it should say.

A bandwidth is that of the narrowest part of its way, times noise; a latency the sum of its parts,
times noise. Healthy nodes differ by 1 % and in how noisy they are. What each fault is, and what
counts as having named it, is in :data:`KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mpibench.locate.maps import LINK, NODE, PAIR, UPLINK, Observations, Places, Suspect
from reframe_tests.harness.vocabulary import BadInput

#: Random places that are tried for a fault.
_TRIES = 1000

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]
Rng = np.random.Generator

#: Latency of an adapter pair and of each switch level, in microseconds.
_BASE_US = 1.2
_LEVEL_US = 0.35
#: Standard deviations on the log scale: between healthy nodes, and how much they differ in noise.
_NODES = 0.01
_NOISES = 0.3


@dataclass(frozen=True)
class Fabric:
    """Where each node is plugged in.

    :param leaf: switch of each node; ``above``: pod of a fat tree, or
        group of a dragonfly, of each node.
    """

    name: str
    leaf: Integers
    above: Integers

    @property
    def size(self) -> int:
        return len(self.leaf)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(f"n{number:05}" for number in range(self.size))

    def places(self) -> Places:
        """As the site would have written it."""
        known = zip(self.nodes, self.leaf.tolist(), self.above.tolist(), strict=True)
        return Places(
            {node: (f"leaf{leaf}", f"{self.name}{above}") for node, leaf, above in known},
            "simulated",
        )


def fat_tree(size: int, leaf: int = 32, pod: int = 16) -> Fabric:
    """A fat tree with so many nodes a leaf and leaves a pod."""
    leaves = np.arange(size) // leaf
    return Fabric("pod", leaves, leaves // pod)


def dragonfly(size: int, leaf: int = 16, group: int = 16) -> Fabric:
    """A dragonfly with so many nodes a switch and switches a group."""
    leaves = np.arange(size) // leaf
    return Fabric("group", leaves, leaves // group)


Matching = tuple[Integers, Integers]


def matchings(size: int, rounds: int, rng: Rng) -> list[Matching]:
    """Random perfect matchings; of an odd number of nodes one rests."""
    found = []
    for _ in range(rounds):
        order = rng.permutation(size)[: size - size % 2]
        found.append((order[::2], order[1::2]))
    return found


def all_pairs(size: int) -> list[Matching]:
    """Each pair once: the circle method."""
    even = size + size % 2
    places = np.arange(even)
    found = []
    for _ in range(even - 1):
        first = places[: even // 2]
        second = places[even // 2 :][::-1]
        there = (first < size) & (second < size)
        found.append((first[there], second[there]))
        places = np.concatenate([places[:1], np.roll(places[1:], 1)])
    return found


@dataclass(frozen=True)
class Noise:
    """How values differ where nothing is wrong.

    :param draw: noise on the log scale, more is slower; of so many observations.
    :param drift: standard deviation of the steps of a random walk from round to round.
    """

    name: str
    draw: Callable[[Rng, int], Floats]
    drift: float = 0.0
    kinds: int = 1


def _slow_tail(rng: Rng, count: int) -> Floats:
    """As the maps of the mini-cluster look: near the best, and a tail to the slow side."""
    return rng.exponential(0.025, count)


def _outliers(rng: Rng, count: int) -> Floats:
    """One of a hundred takes 1.2 to 4 times as long."""
    base: Floats = 0.02 * rng.standard_normal(count)
    return base + np.where(
        rng.random(count) < 0.01, rng.uniform(np.log(1.2), np.log(4), count), 0.0
    )


NOISES = {
    noise.name: noise
    for noise in (
        Noise("slow tail", _slow_tail),
        Noise("normal 2 %", lambda rng, count: 0.02 * rng.standard_normal(count)),
        Noise("t with 3 degrees, 3 %", lambda rng, count: 0.03 * rng.standard_t(3, count)),
        Noise("t with 2 degrees, 5 %", lambda rng, count: 0.05 * rng.standard_t(2, count)),
        Noise("1 of 100 an outlier", _outliers),
        Noise(
            "drift of 5 % a round", lambda rng, count: 0.02 * rng.standard_normal(count), drift=0.05
        ),
        Noise("two kinds of nodes", _slow_tail, kinds=2),
    )
}


@dataclass(frozen=True)
class Fault:
    """One fault.

    :param kind: a key of :data:`KINDS`.
    :param at: node, leaf, or both ends; ``loss``: on the log scale.
    :param truth: suspects any of which names it rightly.
    """

    kind: str
    at: tuple[int, ...]
    loss: float
    truth: frozenset[Suspect]


def _node(fabric: Fabric, rng: Rng) -> tuple[int, ...]:
    return (int(rng.integers(fabric.size)),)


def _leaf(fabric: Fabric, rng: Rng) -> tuple[int, ...]:
    return (int(rng.integers(fabric.leaf[-1] + 1)),)


def _groups(fabric: Fabric, rng: Rng) -> tuple[int, ...]:
    first, second = rng.choice(int(fabric.above[-1]) + 1, 2, replace=False).tolist()
    return (first, second)


def _named(kind: str, fabric: Fabric, at: Sequence[int]) -> frozenset[Suspect]:
    if kind == "uplink":
        return frozenset(
            Suspect(UPLINK, (f"leaf{at[0]}",), way) for way in ("sends", "receives", "both")
        )
    if kind == "global link":
        return frozenset(
            Suspect(LINK, (f"{fabric.name}{at[0]}", f"{fabric.name}{at[1]}"), way, 1)
            for way in ("sends", "both")
        )
    if kind == "pair":
        return frozenset(
            Suspect(PAIR, tuple(fabric.nodes[one] for one in at), way) for way in ("sends", "both")
        )
    return frozenset(
        Suspect(NODE, (fabric.nodes[at[0]],), way) for way in ("sends", "receives", "both")
    )


#: Kind to where it may be.
KINDS: dict[str, Callable[[Fabric, Rng], tuple[int, ...]]] = {
    "sends": _node,
    "receives": _node,
    "both": _node,
    "intermittent": _node,
    "latency": _node,
    "uplink": _leaf,
    "global link": _groups,
}


def place_faults(
    fabric: Fabric, kinds: Sequence[str], fraction: float, rng: Rng, *, anywhere: bool = False
) -> list[Fault]:
    """Faults at random places that are not below one another.

    :param anywhere: a slow node may be below a slow uplink, where a part of it cannot be seen.
    :param fraction: of the rate that is left; of a latency, that is added 1 / fraction - 1 times.
    """
    found: list[Fault] = []
    taken: set[tuple[int, ...]] = set()
    cut: set[int] = set()
    busy: set[int] = set()
    there: set[tuple[bool, tuple[int, ...]]] = set()
    for kind in kinds:
        for _ in range(_TRIES):
            at = KINDS[kind](fabric, rng)
            leaf = (
                at[0]
                if kind == "uplink"
                else int(fabric.leaf[at[0]])
                if KINDS[kind] is _node
                else -1
            )
            if anywhere:
                if (KINDS[kind] is _node, at) not in there:
                    break
                continue
            if (
                (kind == "uplink" and leaf in cut | busy)
                or leaf in cut
                or (KINDS[kind] is _node and at in taken)
            ):
                continue
            break
        else:
            raise BadInput(
                "tool-failed",
                f"{fabric.size} nodes have no room for {', '.join(kinds)}: simulate more nodes.",
            )
        there.add((KINDS[kind] is _node, at))
        (cut if kind == "uplink" else busy).add(leaf)
        taken |= {at} if KINDS[kind] is _node else set()
        found.append(Fault(kind, at, -np.log(fraction), _named(kind, fabric, at)))
    return found


def observe(
    fabric: Fabric,
    rounds: Sequence[Matching],
    faults: Sequence[Fault],
    noise: Noise,
    rng: Rng,
    *,
    latency: bool = False,
    first_moment: int = 0,
) -> Observations:
    """Run the rounds, each in both directions; a latency once."""
    source = np.concatenate([one for one, _ in rounds])
    target = np.concatenate([other for _, other in rounds])
    moment = np.repeat(np.arange(len(rounds)), [len(one) for one, _ in rounds]) + first_moment
    if not latency:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
        moment = np.concatenate([moment, moment])
    together = 2 * moment
    if not latency:
        together[len(together) // 2 :] += 1
    count = len(source)
    level = (fabric.leaf[source] != fabric.leaf[target]).astype(np.intp) + (
        fabric.above[source] != fabric.above[target]
    )
    base = np.log(_BASE_US + _LEVEL_US * level) if latency else np.zeros(count)
    values = base + _lost(fabric, faults, source, target, moment, rng, latency=latency)
    if noise.kinds == 2:
        old = rng.permutation(fabric.size) < 0.4 * fabric.size
        values += 0.4 * (old[source] | old[target])
    nodes = _NODES * rng.standard_normal(fabric.size)
    louder = np.exp(_NOISES * rng.standard_normal(fabric.size))
    values += (
        nodes[source]
        + nodes[target]
        + noise.draw(rng, count) * np.sqrt(louder[source] * louder[target])
    )
    if noise.drift:
        walk = np.cumsum(noise.drift * rng.standard_normal(len(rounds)))
        values += walk[moment - first_moment]
    quantity = "latency_us" if latency else "bandwidth_mb_per_s"
    return Observations(
        quantity, fabric.nodes, source, target, values, moment, together, directed=not latency
    )


def slowness_again(
    fabric: Fabric,
    seen: Observations,
    which: Integers,
    faults: Sequence[Fault],
    noise: Noise,
    rng: Rng,
) -> Floats:
    """Slowness of some observations of a bandwidth, measured once more: the
    same faults, other noise, no load by others.
    """
    source = seen.source[which]
    target = seen.target[which]
    lost = _lost(fabric, faults, source, target, np.arange(len(which)), rng, latency=False)
    return lost + noise.draw(rng, len(which))


def _lost(
    fabric: Fabric,
    faults: Sequence[Fault],
    source: Integers,
    target: Integers,
    moment: Integers,
    rng: Rng,
    *,
    latency: bool,
) -> Floats:
    """What faults cost each observation: the worst of those on its way."""
    lost = np.zeros(len(source))
    for fault in faults:
        at = fault.at[0]
        sends = source == at
        receives = target == at
        if fault.kind == "latency":
            hit = (sends | receives) & latency
        elif fault.kind in ("uplink", "global link"):
            ends = fabric.leaf if fault.kind == "uplink" else fabric.above
            sends = ends[source] == at
            receives = ends[target] == at
            hit = (
                sends ^ receives
                if fault.kind == "uplink"
                else sends & (ends[target] == fault.at[1])
            )
            hit = hit & (not latency)
        elif fault.kind == "intermittent":
            hit = (
                (sends | receives)
                & (rng.random(int(moment.max(initial=0)) + 1) < 0.5)[moment]
                & (not latency)
            )
        else:
            hit = {"sends": sends, "receives": receives, "both": sends | receives}[fault.kind] & (
                not latency
            )
        lost = np.maximum(lost, fault.loss * hit)
    return lost
