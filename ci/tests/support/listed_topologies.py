"""Topologies as programs list them, and what Intel MPI makes of one by default: to hold ours against."""

from __future__ import annotations

import re
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
    rows = [line.split(",") for line in text.splitlines() if line and not line.startswith("#") and "-" not in line]
    return topology_of([(int(cpu), int(core), int(socket), int(node) if node else None) for cpu, core, socket, node in rows])


def from_cpuinfo(text: str) -> Topology:
    """From the table "Processor identification" of Intel MPI's ``cpuinfo``: processor, thread, core and package."""
    table = re.findall(r"^\s*(\d+)\s+\d+\s+(\d+)\s+(\d+)\s*$", text, re.MULTILINE)
    return topology_of([(int(cpu), int(core), int(package), None) for cpu, core, package in table])


def auto_domains(ppn: int, topology: Topology) -> tuple[tuple[int, ...], ...]:
    """CPUs per rank under Intel MPI's own default, ``I_MPI_PIN_DOMAIN=auto``: what ``default`` means on that stack.

    Section 3.4 of the Cambridge paper with its table for 12 cores (Intel MPI 4.0.1): as many domains as processes, each of
    cores / processes cores (rounded down), scattered evenly between the sockets, the first half of the ranks on socket 0, on
    consecutive cores; a single process is not pinned. Its row for 3 processes, domains of four cores each on one socket of
    six, cannot hold for the third rank: where a socket's share does not fit, the domains follow each other over all cores.

    :param ppn: processes per node, at most the number of cores.
    """
    per_socket = [[core for core in topology.cores if core[0].socket == socket] for socket in topology.sockets]
    size = len(topology.cores) // ppn
    shares = [ppn // len(per_socket) + (index < ppn % len(per_socket)) for index in range(len(per_socket))]
    if any(share * size > len(cores) for share, cores in zip(shares, per_socket, strict=True)):
        shares, per_socket = [ppn], [list(topology.cores)]
    return tuple(
        tuple(sorted(unit.cpu for core in cores[index * size : (index + 1) * size] for unit in core))
        for share, cores in zip(shares, per_socket, strict=True)
        for index in range(share)
    )
