"""Topologies as programs list them: to hold ours against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reframe_tests.harness.machine.topology import Topology

#: One CPU: its number, core (unique within the socket), socket, NUMA node.
Row = tuple[int, int, int, int | None]


def _masks(rows: Iterable[tuple[int, int]]) -> list[str]:
    """Masks of CPUs by position, from (CPU, position)."""
    members: dict[int, int] = {}
    for cpu, position in rows:
        members[position] = members.get(position, 0) | 1 << cpu
    return [hex(members.get(position, 0)) for position in range(max(members, default=-1) + 1)]


def topology_of(rows: Sequence[Row]) -> Topology:
    """The topology of listed CPUs."""
    cores = list(dict.fromkeys((socket, core) for _, core, socket, _ in rows))
    masks = {
        "cores": _masks((cpu, cores.index((socket, core))) for cpu, core, socket, _ in rows),
        "sockets": _masks((cpu, socket) for cpu, _, socket, _ in rows),
        "numa_nodes": _masks((cpu, node) for cpu, _, _, node in rows if node is not None),
    }
    return Topology.from_processor({"topology": masks})


def from_lscpu(text: str) -> Topology:
    """From the lines of ``lscpu -p=CPU,CORE,SOCKET,NODE`` (lscpu(1)), offline CPUs left out."""
    rows = [
        line.split(",")
        for line in text.splitlines()
        if line and not line.startswith("#") and "-" not in line
    ]
    return topology_of(
        [
            (int(cpu), int(core), int(socket), int(node) if node else None)
            for cpu, core, socket, node in rows
        ]
    )
