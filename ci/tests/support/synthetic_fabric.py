"""Fabrics as ``ibnetdiscover`` writes them and maps of pairs, with known faults."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import synthetic_session
from mpibench.store import dataset
from mpibench.store.sessions import Session
from reframe_tests.harness.instruments import schedule
from reframe_tests.harness.instruments.pairs.pair_values import (
    BANDWIDTH,
    LATENCY,
    MEAN,
    PairMap,
    PairValue,
)
from reframe_tests.harness.machine.switch_paths import gpu_of
from reframe_tests.harness.machine.switches import SLURM, Switch, SwitchTree
from reframe_tests.harness.samples import Sample

# ---- Fabrics as ``ibnetdiscover`` writes them, of hosts with several adapters, and maps of pairs
# on them with a fault.

UNSET = "MT4123 ConnectX6   Mellanox Technologies"
MB_PER_S = 12000.0


@dataclass
class Fabric:
    """What is plugged in where.

    :param leaf_of: device to host to its switch.
    :param unset: (host, device) whose adapter nobody described; ``numbered``: hosts that call
        theirs ``HCA-N``; ``titles``: (host, device) to another description.
    :param others: further hosts, each with its switch.
    """

    hosts: tuple[str, ...]
    leaf_of: dict[str, dict[str, str]]
    links: list[tuple[str, str]]
    unset: set[tuple[str, str]] = field(default_factory=set)
    numbered: set[str] = field(default_factory=set)
    titles: dict[tuple[str, str], str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    #: Distances of all switches to one, where they are known.
    _far: dict[str, dict[str, int]] = field(default_factory=dict, init=False)

    def guids(self, device: str) -> dict[str, str]:
        """Host to the GUID of its port."""
        at = list(self.leaf_of).index(device)
        return {
            host: f"{0x98039B0000000000 + 64 * number + at:016x}"
            for number, host in enumerate(self.hosts)
        }

    def text(self, seed: int = 0) -> str:
        """As ``ibnetdiscover`` writes it, blocks in an order drawn by chance."""
        switches = sorted(
            {name for pair in self.links for name in pair}
            | {leaf for row in self.leaf_of.values() for leaf in row.values()}
        )
        id_of = {name: f"S-{0xE41D000000000000 + at:016x}" for at, name in enumerate(switches)}
        title_of = {each: name for name, each in id_of.items()}
        ports: dict[str, list[str]] = {}

        def plug(one: str, other: str) -> None:
            ports.setdefault(one, []).append(other)
            ports.setdefault(other, []).append(one)

        for number, (device, row) in enumerate(self.leaf_of.items(), 1):
            guids = self.guids(device)
            for host, leaf in row.items():
                title = f"{host} HCA-{number}" if host in self.numbered else f"{host} {device}"
                title = self.titles.get((host, device), title)
                card = f"H-{guids[host]}"
                title_of[card] = UNSET if (host, device) in self.unset else title
                plug(card, id_of[leaf])
        for at, (title, leaf) in enumerate(self.others.items()):
            title_of[f"H-{0x0C42A10000000000 + at:016x}"] = title
            plug(f"H-{0x0C42A10000000000 + at:016x}", id_of[leaf])
        for left, right in self.links:
            plug(id_of[left], id_of[right])
        blocks = []
        for one, others in ports.items():
            kind, own = ("Switch", "") if one[0] == "S" else ("Ca", f"({one[2:]})")
            rows = [
                f'[{at}]{own}\t"{other}"[1]\t\t# "{title_of[other]}" lid 1 4xHDR'
                for at, other in enumerate(others, 1)
            ]
            blocks.append("\n".join([f'{kind}\t41 "{one}"\t\t# "{title_of[one]}"', *rows, ""]))
        random.Random(seed).shuffle(blocks)
        return "\n".join(blocks)

    def route(self, device: str, source: str, target: str) -> tuple[str, ...]:
        """Switches that a message crosses: of several shortest ways one,
        chosen by the target, as subnet managers do.
        """
        start = self.leaf_of[device][source]
        end = self.leaf_of[device][target]
        return self._way(start, end, self.hosts.index(target))

    @cached_property
    def _near(self) -> dict[str, list[str]]:
        near: dict[str, list[str]] = {}
        for left, right in dict.fromkeys(self.links):
            near.setdefault(left, []).append(right)
            near.setdefault(right, []).append(left)
        return near

    def _distances(self, end: str) -> dict[str, int]:
        if end not in self._far:
            found = {end: 0}
            for one in (reached := [end]):
                new = [other for other in self._near.get(one, ()) if other not in found]
                found |= dict.fromkeys(new, found[one] + 1)
                reached += new
            self._far[end] = found
        return self._far[end]

    def _way(self, start: str, end: str, chosen: int) -> tuple[str, ...]:
        far = self._distances(end)
        way = [start]
        while way[-1] != end:
            nearer = [name for name in self._near[way[-1]] if far[name] == far[way[-1]] - 1]
            way.append(nearer[chosen % len(nearer)])
        return tuple(way)

    def measured(
        self,
        device: str,
        tree: SwitchTree | None,
        bad: Sequence[str] = (),
        *,
        rounds: int = 24,
        seed: int = 1,
        times: float = 2.0,
    ) -> PairMap:
        """Bandwidths of random matchings, ``times`` lower where a message crosses what is bad: a
        switch, a host, or the cable ``LOWER UPPER`` of two switches.
        """
        rng = np.random.default_rng(seed)
        rows = []
        leaves = [
            tree.path(host) or (host,) if tree and tree.leaf_of else () for host in self.hosts
        ]
        _, matchings = schedule.make(leaves, rounds, seed)
        for number, pairs in enumerate(matchings, 1):
            for first, second in pairs:
                for phase in (1, 2):
                    source, target = (self.hosts[first], self.hosts[second])[
                        :: 1 if phase == 1 else -1
                    ]
                    way = self.route(device, source, target)
                    crossed = {source, target, *way, *(" ".join(pair) for pair in pairwise(way))}
                    crossed |= {" ".join(pair[::-1]) for pair in pairwise(way)}
                    factor = float(np.exp(rng.exponential(0.01))) * (
                        times if crossed & set(bad) else 1.0
                    )
                    rows.append(
                        PairValue(
                            1,
                            number,
                            phase,
                            source,
                            target,
                            BANDWIDTH,
                            1 << 20,
                            1,
                            MB_PER_S / factor,
                            True,
                        )
                    )
        return PairMap("sampled", seed, rounds, self.hosts, {}, tuple(rows), tree, 1.0)


def fat_trees(
    count: int,
    rails: int,
    *,
    leaf: int = 16,
    spines: int = 4,
    pods: int = 1,
    shared: bool = False,
) -> Fabric:
    """Hosts with so many adapters: each rail has leaf switches of its own, in
    a network of its own or below ``shared`` spines.

    :param leaf: hosts on a leaf; with ``pods`` a third level of switches is above.
    """
    hosts = tuple(f"n{number:04d}" for number in range(1, count + 1))
    leaf_of: dict[str, dict[str, str]] = {}
    links: list[tuple[str, str]] = []
    for rail in range(rails):
        leaves = {host: f"r{rail}leaf{at // leaf + 1}" for at, host in enumerate(hosts)}
        names = list(dict.fromkeys(leaves.values()))
        plane = "" if shared else f"r{rail}"
        for at, name in enumerate(names):
            pod = at * pods // len(names)
            links += [
                (name, f"{plane}pod{pod}spine{spine}" if pods > 1 else f"{plane}spine{spine}")
                for spine in range(spines)
            ]
        if pods > 1:
            links += [
                (f"{plane}pod{pod}spine{spine}", f"{plane}core{spine}x{core}")
                for pod in range(pods)
                for spine in range(spines)
                for core in range(2)
            ]
        leaf_of[f"mlx5_{rail}"] = leaves
    return Fabric(hosts, leaf_of, links)


def ring(count: int, rails: int, switches: int = 6) -> Fabric:
    """Switches in a ring, each with hosts; every rail has a ring of its own."""
    hosts = tuple(f"n{number:04d}" for number in range(1, count + 1))
    leaf_of = {
        f"mlx5_{rail}": {host: f"r{rail}s{at * switches // count}" for at, host in enumerate(hosts)}
        for rail in range(rails)
    }
    links = [
        (f"r{rail}s{at}", f"r{rail}s{(at + 1) % switches}")
        for rail in range(rails)
        for at in range(switches)
    ]
    return Fabric(hosts, leaf_of, links)


# ---- Maps of pairs with known faults, as the test stores them: 11 MB/s and 50 us where nothing
# is wrong, and some noise.

PAIR_MB_PER_S = 11.0
US = 50.0
#: Factor of the time of a pair: (quantity, source, target, round) to 1.0 where nothing is wrong.
Slow = Callable[[str, str, str, int], float]


def names(count: int) -> tuple[str, ...]:
    return tuple(f"c{number + 1}" for number in range(count))


def tree_of(count: int, leaf: int) -> SwitchTree:
    """Leaves of so many nodes below one spine."""
    nodes = names(count)
    leaves = {
        f"leaf{number + 1}": Switch("spine", nodes[first : first + leaf])
        for number, first in enumerate(range(0, count, leaf))
    }
    return SwitchTree(SLURM, {"spine": Switch(), **leaves})


def pair_map(
    count: int = 8,
    slow: Slow = lambda quantity, source, target, round_: 1.0,
    *,
    leaf: int | None = 4,
    orders: int = 2,
    seed: int = 1,
    noise: float = 0.02,
    silent: Mapping[str, str] | None = None,
    oversubscription: float | None = None,
) -> PairMap:
    """All pairs in some orders, both directions; a silent node
    gives no value from the second order on.
    """
    nodes = names(count)
    rng = np.random.default_rng(seed)
    rounds = schedule.circle_rounds(count)
    rows: list[PairValue] = []
    number = 0
    for order in range(1, orders + 1):
        for pairs in schedule.in_order(rounds, order, seed):
            number += 1
            for phase in (1, 2):
                for first, second in pairs:
                    source, target = (nodes[first], nodes[second])[:: 1 if phase == 1 else -1]
                    gone = order > 1 and bool({source, target} & set(silent or {}))
                    for quantity, size, healthy in (
                        (LATENCY, 8, US),
                        (MEAN, 8, US),
                        (BANDWIDTH, 1 << 20, PAIR_MB_PER_S),
                    ):
                        factor = slow(quantity, source, target, number) * np.exp(
                            rng.exponential(noise)
                        )
                        value = healthy / factor if quantity == BANDWIDTH else healthy * factor
                        rows.append(
                            PairValue(
                                order,
                                number,
                                phase,
                                source,
                                target,
                                quantity,
                                size,
                                1,
                                None if gone else value,
                                None if gone else True,
                            )
                        )
    tree = tree_of(count, leaf) if leaf else None
    return PairMap(
        "all", seed, number, nodes, dict(silent or {}), tuple(rows), tree, oversubscription
    )


def of_one_node(measured: PairMap) -> PairMap:
    """The map of as many GPUs of one node, with no switches."""
    gpu = {name: gpu_of("n1", place) for place, name in enumerate(measured.nodes)}
    values: Any = measured.values
    rows = tuple(row._replace(source=gpu[row.source], target=gpu[row.target]) for row in values)
    return replace(measured, nodes=tuple(gpu.values()), values=rows, tree=None)


def sends_slowly(node: str, times: float) -> Slow:
    return lambda quantity, source, target, round_: (
        times if quantity == BANDWIDTH and source == node else 1.0
    )


def late(node: str, times: float, quantities: Sequence[str] = (LATENCY, MEAN)) -> Slow:
    return lambda quantity, source, target, round_: (
        times if quantity in quantities and node in (source, target) else 1.0
    )


def across(leaves: Sequence[Sequence[str]], times: float) -> Slow:
    """All pairs from the first group to the second."""
    first, second = (set(leaf) for leaf in leaves)
    return lambda quantity, source, target, round_: (
        times if quantity == BANDWIDTH and source in first and target in second else 1.0
    )


def session_of(
    *maps: PairMap | None,
    status: str = "proven",
    result: str = "pass",
    links: Sequence[Mapping[str, Any]] = (),
    transport: str = "",
) -> Session:
    condition = {
        "stack": "mpich-wheels",
        "fabric": "eth100m",
        "nodes": 8,
        "ppn": 1,
        "line_rate_gbit_per_s": 0.1,
        **({"transport": transport} if transport else {}),
    }
    entry = {
        "name": "PairMap",
        "system": "minicluster",
        "partition": "eth100m",
        "result": result,
        "condition": {},
        "fail_phase": "sanity" if result == "fail" else "",
    }
    best = Sample(
        "pair_map",
        "pairs",
        "pair_map",
        8,
        1,
        "",
        1 << 20,
        3,
        "bandwidth_p50_mb_per_s",
        (PAIR_MB_PER_S,),
    )
    return synthetic_session.stored(
        entry,
        condition,
        {"verdict": status, "links": list(links)},
        [((best,), measured) for measured in maps],
    )


#: Start of the first session of :func:`export_map`.
MAPS_BEGAN = datetime(2026, 11, 1, 2, tzinfo=timezone.utc)


def export_map(folder: Path, number: int, measured: PairMap, status: str = "proven") -> str:
    """Add a session with a map to a dataset, so many days after the first; its id."""
    session = session_of(measured, status=status)
    uuid = f"aaaa000{number}-1"
    started = (MAPS_BEGAN + timedelta(days=number)).timestamp()
    info = {**session.info, "uuid": uuid, "time_start_unix": started, "time_end_unix": started + 60}
    cases = tuple(
        replace(case, uuid=name, entry={**case.entry, "uuid": name})
        for at, case in enumerate(session.cases)
        for name in [f"{uuid}:0:{at}"]
    )
    dataset.export_session(replace(session, info=info, cases=cases), folder)
    return uuid
