"""Fabrics as ``ibnetdiscover`` writes them, of hosts with several
adapters, and maps of pairs on them with a fault.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from reframe_tests.harness.instruments import schedule
from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH, PairMap, PairValue
from reframe_tests.harness.machine.switches import SwitchTree

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

    def guids(self, device: str) -> dict[str, str]:
        """Host to the GUID of its port."""
        at = list(self.leaf_of).index(device)
        return {
            host: f"{0x98039B0000000000 + 64 * number + at:016x}"
            for number, host in enumerate(self.hosts)
        }

    def text(self, seed: int = 0) -> str:
        """As ``ibnetdiscover`` writes it, blocks in an order drawn by chance."""
        ports: dict[str, list[tuple[str, str]]] = {}
        switches = sorted(
            {name for pair in self.links for name in pair}
            | {leaf for row in self.leaf_of.values() for leaf in row.values()}
        )
        guid_of = {
            name: f"S-{0xE41D000000000000 + number:016x}" for number, name in enumerate(switches)
        }
        title_of = {guid: name for name, guid in guid_of.items()}
        plugs = []
        for number, (device, row) in enumerate(self.leaf_of.items(), 1):
            guids = self.guids(device)
            for host, leaf in row.items():
                title = f"{host} HCA-{number}" if host in self.numbered else f"{host} {device}"
                title = (
                    UNSET
                    if (host, device) in self.unset
                    else self.titles.get((host, device), title)
                )
                plugs.append((guids[host], title, leaf))
        plugs += [
            (f"{0x0C42A10000000000 + at:016x}", title, leaf)
            for at, (title, leaf) in enumerate(self.others.items())
        ]
        for guid, title, leaf in plugs:
            title_of[f"H-{guid}"] = title
            ports.setdefault(f"H-{guid}", []).append((guid_of[leaf], guid))
            ports.setdefault(guid_of[leaf], []).append((f"H-{guid}", ""))
        for left, right in self.links:
            ports.setdefault(guid_of[left], []).append((guid_of[right], ""))
            ports.setdefault(guid_of[right], []).append((guid_of[left], ""))
        blocks = []
        for guid, others in ports.items():
            kind, own = ("Switch", "") if guid[0] == "S" else ("Ca", f"({guid[2:]})")
            rows = [
                f'[{at}]{own}\t"{other}"[1]\t\t# "{title_of[other]}" lid 1 4xHDR'
                for at, (other, _) in enumerate(others, 1)
            ]
            blocks.append("\n".join([f'{kind}\t41 "{guid}"\t\t# "{title_of[guid]}"', *rows, ""]))
        random.Random(seed).shuffle(blocks)
        return "\n".join(blocks)

    def route(self, device: str, source: str, target: str) -> tuple[str, ...]:
        """Switches that a message crosses: of several shortest ways one,
        chosen by the target, as subnet managers do.
        """
        start = self.leaf_of[device][source]
        end = self.leaf_of[device][target]
        return self._way(start, end, self.hosts.index(target))

    def _near(self) -> dict[str, list[str]]:
        if not hasattr(self, "_known"):
            near: dict[str, list[str]] = {}
            for left, right in dict.fromkeys(self.links):
                near.setdefault(left, []).append(right)
                near.setdefault(right, []).append(left)
            self._known = near
            self._far = {}
        return self._known

    def _distances(self, end: str) -> dict[str, int]:
        near = self._near()
        if end not in self._far:
            found = {end: 0}
            level = [end]
            distance = 0
            while level:
                distance += 1
                level = list(
                    dict.fromkeys(
                        other for one in level for other in near.get(one, ()) if other not in found
                    )
                )
                found |= dict.fromkeys(level, distance)
            self._far[end] = found
        return self._far[end]

    def _way(self, start: str, end: str, chosen: int) -> tuple[str, ...]:
        far = self._distances(end)
        way = [start]
        while way[-1] != end:
            nearer = [name for name in self._near()[way[-1]] if far[name] == far[way[-1]] - 1]
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
    seed: int = 0,
) -> Fabric:
    """Hosts with so many adapters: each rail has leaf switches of its own, in
    a network of its own or below ``shared`` spines.

    :param leaf: hosts on a leaf; with ``pods`` a third level of switches is above.
    """
    hosts = tuple(f"n{number:04d}" for number in range(1, count + 1))
    order = list(hosts)
    leaf_of: dict[str, dict[str, str]] = {}
    links: list[tuple[str, str]] = []
    for rail in range(rails):
        leaves = {host: f"r{rail}leaf{at // leaf + 1}" for at, host in enumerate(order)}
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
