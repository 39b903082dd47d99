"""What is plugged in where, as discovered by the tools of InfiniBand and Omni-Path; and which
adapter of a host belongs to the fabric.

A host with several adapters is on several switches, and a fabric uses one of them (or, if striped,
some). The GUID of the port in the host's kernel tells which; failing that, the adapter's
description, ``HOST DEVICE``, which ``rdma-ndd(8)`` writes (its format ``%h %d``). ``HOST HCA-2`` of
older scripts counts the devices in arbitrary order, and ``MT4123 ConnectX6 Mellanox Technologies``
is the factory default: neither names a device.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from ..vocabulary import BadInput
from .switch_paths import name_of

#: Descriptions that name no device.
_NUMBERED = re.compile(r"(?:HCA-\d+)?")
#: ``HOST`` or ``HOST DEVICE``. A host that had no name yet is left out, or
#: is ``(none)``, Linux's own, or ``localhost``.
_DESCRIPTION = re.compile(r"(?!localhost(?:[.\s]|$)|HCA-\d)([\w.-]+)(?:\s+(\S+))?\s*")


@dataclass(frozen=True)
class FabricPort:
    """One rail of a fabric, as it is sought among what is plugged in.

    :param device: RDMA device; empty: any; ``None``: a network
        interface, which only its GUID tells.
    :param guids: of the port, by host without a domain (``port_guid`` of
        :mod:`..evidence.link_state`).
    """

    device: str | None = ""
    port: int = 1
    guids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plug:
    """A port of an adapter that is plugged into a switch.

    :param host: without a domain; empty where the description names none.
    :param label: the rest of the description.
    :param guids: of the port, and of the adapter.
    """

    host: str
    label: str
    port: int
    guids: tuple[int, ...]
    switch: str


@dataclass(frozen=True)
class Cabling:
    """Everything that was discovered.

    :param links: pairs of switches that are joined, in any direction and any number.
    """

    origin: str
    source: str
    plugs: tuple[Plug, ...]
    links: tuple[tuple[str, str], ...]

    def leaves(self, rails: Iterable[FabricPort], hosts: Collection[str]) -> list[dict[str, str]]:
        """Host to the switch of its adapter on the fabric: one table if known, several if it may be
        any of several switches (or, if striped, is on all of them), none if unknown.

        :param hosts: those that count; empty: all.
        """
        found = [self._of_rail(rail, hosts) for rail in rails]
        return list(chain.from_iterable(found)) if all(found) else []

    def _of_rail(self, rail: FabricPort, hosts: Collection[str]) -> list[dict[str, str]]:
        known = self._by_guid(rail, hosts)
        if rail.device is None:
            return [known] if known else []
        taken = {int(guid, 16) for guid in rail.guids.values()}
        named = dict[str, list[Plug]]()
        numbered = dict[str, list[Plug]]()
        others = False
        for plug in self.plugs:
            if (
                not plug.host
                or plug.host in rail.guids
                or (hosts and plug.host not in hosts)
                or plug.guids[0] in taken
            ):
                continue
            if not rail.device or _NUMBERED.fullmatch(plug.label):
                numbered.setdefault(plug.host, []).append(plug)
            elif (plug.label, plug.port) == (rail.device, rail.port):
                named.setdefault(plug.host, []).append(plug)
            else:
                others = True
        known |= {
            host: plugs[0].switch
            for host, plugs in named.items()
            if len({plug.switch for plug in plugs}) == 1
        }
        number_of = self.parts()
        unset = Counter(number_of[plug.switch] for plug in self.plugs if not plug.host)
        if known:
            # The others are on the same network, and on it each has one adapter, if those that are
            # known have one there and none is there that may be anybody's.
            parts = {number_of[switch] for switch in known.values()}
            here = Counter(plug.host for plug in self.plugs if number_of[plug.switch] in parts)
            one_each = all(here[host] <= 1 for host in known) and not any(
                unset[part] for part in parts
            )
            for host in numbered.keys() - named.keys() if one_each else ():
                there = [plug for plug in numbered[host] if number_of[plug.switch] in parts]
                if len(there) == here[host] == 1:
                    known[host] = there[0].switch
            return [known]
        return [] if others or rail.guids else _alike(numbered, number_of, unset.total(), rail)

    def _by_guid(self, rail: FabricPort, hosts: Collection[str]) -> dict[str, str]:
        switch_of: dict[int, str] = {}
        for place in (1, 0):  # a port's own before an adapter's
            switch_of |= {
                plug.guids[place]: plug.switch
                for plug in self.plugs
                if len(plug.guids) > place and (place == 0 or plug.port == rail.port)
            }
        found = {
            host: switch_of.get(int(guid, 16), "")
            for host, guid in rail.guids.items()
            if not hosts or host in hosts
        }
        return {host: switch for host, switch in found.items() if switch}

    def parts(self) -> dict[str, int]:
        """Switch to the number of its network: what no link joins are several."""
        near = self.neighbours()
        number_of: dict[str, int] = {}
        for name in near:
            new = set() if name in number_of else {name}
            while new:
                number_of |= dict.fromkeys(new, number_of.get(name, len(near) + len(number_of)))
                new = {other for one in new for other in near[one]} - set(number_of)
        return number_of

    def neighbours(self) -> dict[str, set[str]]:
        """Switch to those that it is joined with."""
        near: dict[str, set[str]] = {plug.switch: set() for plug in self.plugs}
        for left, right in self.links:
            near.setdefault(left, set())
            near.setdefault(right, set())
            if left != right:
                near[left].add(right)
                near[right].add(left)
        return near


def _alike(
    plugs_of: Mapping[str, Sequence[Plug]],
    number_of: Mapping[str, int],
    unset: int,
    rail: FabricPort,
) -> list[dict[str, str]]:
    """Tables of hosts whose adapters name no device: one for each of a
    host's adapters, as all hosts have the same ones; none where a file lacks one of them.

    :param unset: adapters that may be anybody's.
    """
    tables: dict[tuple[int, str], dict[str, list[Plug]]] = {}
    for host, plugs in plugs_of.items():
        for plug in plugs:
            tables.setdefault((number_of[plug.switch], plug.label), {}).setdefault(host, []).append(
                plug
            )
    # Devices are counted from 0, HCA-N from 1.
    least = [
        1,
        *(int(last) + 1 for last in re.findall(r"\d+$", rail.device or "")),
        *(int(last) for _, label in tables for last in re.findall(r"HCA-(\d+)", label)),
    ]
    if len(tables) < max(least) or max(map(len, tables.values())) <= unset:
        return []
    chosen = [
        {
            host: {plug.switch for plug in plugs if not rail.device or plug.port == rail.port}
            for host, plugs in table.items()
        }
        for table in tables.values()
    ]
    return [
        {host: min(switches) for host, switches in table.items() if len(switches) == 1}
        for table in chosen
    ]


def _described(title: str) -> tuple[str, str]:
    """Host and device of an adapter's description; empty if it is none of a host."""
    words = _DESCRIPTION.fullmatch(title)
    return (name_of(words[1]), words[2] or "") if words else ("", "")


def _owned(plugs: Iterable[Plug]) -> tuple[Plug, ...]:
    """Plugs without the host where several adapters have one
    description: no two devices of a host have one name.
    """
    found = list(plugs)
    adapters = Counter(
        (host, label)
        for host, label, _ in {(plug.host, plug.label, plug.guids[-1]) for plug in found}
    )
    return tuple(
        replace(plug, host="", label="")
        if plug.label and adapters[plug.host, plug.label] > 1
        else plug
        for plug in found
    )


class _Names:
    """What switches are called: of two with one description, the
    second has its own GUID in its name.
    """

    def __init__(self) -> None:
        self._of: dict[int, str] = {}
        self._taken: set[str] = set()

    def of(self, guid: str, title: str) -> str:
        number = int(guid, 16)
        if number not in self._of:
            name = re.sub(r"[^A-Za-z0-9_-]+", "_", title).strip("_") or "switch"
            self._of[number] = f"{name}-{guid}" if name in self._taken else name
            self._taken.add(self._of[number])
        return self._of[number]


def read_ibnetdiscover(text: str, source: str) -> Cabling:
    """What ``ibnetdiscover`` writes: a block for each switch and each
    channel adapter, a line for each cabled port.

    A block begins with ``Switch 36 "S-0002..." # "NAME" ...`` or ``Ca 1 "H-0002..." # "HOST
    DEVICE"``; its lines are ``[1](GUID) "S-0002..."[5] # lid 5 lmc 0 "NAME" lid 9 4xEDR``: its own
    port, that port's GUID, the other end.

    :raises BadInput: it is truncated.
    """
    titles: dict[str, str] = {}
    ports: dict[str, list[tuple[int, str, str]]] = {}
    block = ""
    for line in text.splitlines():
        if match := re.match(r'(?:Switch|Ca)\s+\d+\s+"([SH]-[0-9a-fA-F]+)"\s+#\s*"([^"]*)"', line):
            block = match[1]
            titles[block] = match[2]
            ports[block] = []
        elif match := re.match(
            r'\[(\d+)\](?:\(([0-9a-fA-F]+)\))?\s+"([SHR]-[0-9a-fA-F]+)"\[\d+\]', line
        ):
            if not block:
                raise BadInput(
                    "file-damaged",
                    f"{source} has a port before the first switch or adapter; it is truncated, "
                    "record it again.",
                )
            ports[block].append((int(match[1]), match[2] or "", match[3]))
        elif not line.strip():
            block = ""
    unknown = {
        other for others in ports.values() for *_, other in others if other[0] in "SH"
    } - set(titles)
    if unknown:
        raise BadInput(
            "file-damaged",
            f"{source} names {min(unknown)} without describing it; it is truncated, record it "
            "again.",
        )
    names = _Names()
    name = {guid: names.of(guid[2:], title) for guid, title in titles.items() if guid[0] == "S"}
    plugs = []
    links = []
    for guid, others in ports.items():
        for port, port_guid, other in others:
            if other[0] == guid[0] == "S":
                links.append((name[guid], name[other]))
            # Adapters that are part of a switch (SHARP's) are no hosts.
            elif other[0] == "S" and "aggregation node" not in titles[guid].lower():
                own = (int(port_guid or guid[2:], 16), int(guid[2:], 16))
                plugs.append(Plug(*_described(titles[guid]), port, own, name[other]))
    return Cabling("ibnetdiscover", source, _owned(plugs), tuple(links))


_OPA_END = re.compile(r"\s*(<->|[0-9.]+g)\s+0x([0-9a-fA-F]+)\s+(\d+)\s+(FI|SW)\s+(\S.*?)\s*")


def read_opa(text: str, source: str) -> Cabling:
    """What ``opareport -o links`` of Omni-Path's FastFabric tools writes: two lines for each link.

    ``100g 0x00117501017bfd2d   1 FI c1 hfi1_0`` and ``<->  0x00117501026a5683  13 SW leaf1``: rate,
    GUID, port, type (FI: host fabric interface, SW: switch) and node description (FastFabric CLI
    reference). An interface's GUID is that of its one port (``drivers/infiniband/hw/hfi1/chip.c``).

    :raises BadInput: it is truncated.
    """
    ends = [match for match in map(_OPA_END.fullmatch, text.splitlines()) if match]
    names = _Names()
    plugs = list[Plug]()
    links = list[tuple[str, str]]()
    for number in range(0, len(ends), 2):
        pair = ends[number : number + 2]
        if [end[1] == "<->" for end in pair] != [False, True]:
            raise BadInput(
                "file-damaged",
                f"{source}: link {number // 2 + 1} lacks one of its two ends; the report is "
                "truncated, write it again.",
            )
        switches = [names.of(end[2], end[5]) for end in pair if end[4] == "SW"]
        if len(switches) == 2:
            links.append((switches[0], switches[1]))
        for end in pair:
            if end[4] == "FI" and switches:
                plugs.append(
                    Plug(*_described(end[5]), int(end[3]), (int(end[2], 16),), switches[0])
                )
    return Cabling("opa", source, _owned(plugs), tuple(links))


def heights(cabling: Cabling, leaves: Collection[str]) -> dict[str, int]:
    """Distance of each switch that joins leaves from the nearest of these leaves; for a network
    that is not a tree, only the leaves.

    A tree never joins switches of one height, and has a switch above any two leaves; rings, meshes
    and chains differ.
    """
    near = cabling.neighbours()
    part_of = cabling.parts()
    found = dict[str, int]()
    level = set(leaves)
    while level:
        found |= dict.fromkeys(level, max(found.values(), default=-1) + 1)
        level = {other for name in level for other in near[name]} - set(found)
    upwards = sorted(found, key=found.__getitem__)

    def beside(name: str, step: int) -> list[str]:
        return [other for other in near[name] if found[other] == found[name] + step]

    below = {name: {name} if not found[name] else set() for name in found}
    for name in upwards:
        below[name] = below[name].union(*(below[other] for other in beside(name, -1)))
    reached = dict(below)  # below it, and below what is above it
    joining = set(leaves)  # and what joins some that nothing lower joins, with all on the way there
    for name in reversed(upwards):
        above = beside(name, 1)
        reached[name] = below[name].union(*(reached[other] for other in above))
        if not joining.isdisjoint(above) or all(
            below[other] != below[name] for other in beside(name, -1)
        ):
            joining.add(name)
    together = Counter(part_of[leaf] for leaf in leaves)
    no_tree = {
        part_of[name]
        for name, height in found.items()
        if beside(name, 0) or (not height and len(reached[name]) < together[part_of[name]])
    }
    return {
        name: height
        for name, height in found.items()
        if not height or (name in joining and part_of[name] not in no_tree)
    }


def spans(hosts: Iterable[str]) -> str:
    """Names of hosts in short, at most three: ``n001-004, n009``."""
    runs: list[list[tuple[str, str]]] = []
    split = [
        (match[1], match[2])
        for match in (re.fullmatch(r"(.*?)(\d*)", host) for host in hosts)
        if match
    ]
    for prefix, digits in sorted(split, key=lambda one: (one[0], int(one[1] or 0), one)):
        before, last = runs[-1][-1] if runs else ("", "")
        if last and (prefix, digits) == (before, f"{int(last) + 1:0{len(last)}d}"):
            runs[-1].append((prefix, digits))
        else:
            runs.append([(prefix, digits)])
    shown = ["".join(run[0]) + (f"-{run[-1][1]}" if run[1:] else "") for run in runs]
    return ", ".join(shown[:3]) + (f" and {sum(map(len, runs[3:]))} more" if runs[3:] else "")
