"""What each rank recorded: the recorder's files, read strictly into plain data.

``recorder.c`` writes the files; ``checks`` and ``traffic`` judge their contents. A file that is
damaged or has another layout is an error, never a default: evidence that needs guessing is none.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..vocabulary import BadInput

#: Layout that this reader understands (``FORMAT`` in recorder.c).
FORMAT = 5
#: Bytes of the longest line that is read as one; of a node with 1,000
#: interfaces and 64 threads it has some 300 kB.
MOST_BYTES = 16 << 20

#: What a record has of its node beside the kernel's settings.
_NOT_KERNEL = ("interfaces", "ports", "boot_id", "gpus", "adapters")

Cpus = frozenset[int]
#: Two addresses, from and to.
Way = tuple[str, str]


class EvidenceError(BadInput):
    """A rank record that cannot be read: cut short, damaged, or of another layout."""


class Bytes(msgspec.Struct, frozen=True, rename="{}_bytes".format):
    """Counters of one network interface or RDMA port, in bytes since
    it came up; ``None`` if it counts none.
    """

    rx: int | None = None
    tx: int | None = None


class TcpWire(msgspec.Struct, frozen=True, rename={"out": "out_bytes", "again": "again_bytes"}):
    """A TCP connection as the wire has it, since it was opened.

    :param out: payload in bytes, sent again or not (``tcpi_bytes_sent``).
    :param again: payload in bytes sent again (``tcpi_bytes_retrans``).
    :param segments_out: packets sent, acknowledgements among them (``tcpi_segs_out``).
    :param segments_in: packets received, likewise (``tcpi_segs_in``).
    """

    out: int
    again: int
    segments_out: int
    segments_in: int


class TcpPair(
    msgspec.Struct, frozen=True, rename={"sent": "sent_bytes", "received": "received_bytes"}
):
    """The rank's TCP connections between two addresses: payload in bytes since they were opened.

    :param sent: acknowledged by the peer (``tcpi_bytes_acked``), so a lower bound of what went out.
    :param wire: what went out and came in with everything that was
        sent again; ``None`` before Linux 4.19.
    """

    local: str
    peer: str
    count: int
    sent: int
    received: int
    wire: TcpWire | None = None


class Connection(NamedTuple):
    """What the rank's TCP connections between two addresses carried between the snapshots.

    :param wire: see :class:`TcpPair`.
    :param closed: some of them were closed meanwhile and took their counts with them.
    """

    local: str
    peer: str
    sent: int
    received: int
    wire: TcpWire | None
    closed: bool


@dataclass(frozen=True)
class NodeGpu:
    """A GPU of the node as the kernel has it.

    :param path: where it hangs, from the PCI host bridge on, a bridge a part
        (``pci0000:00/0000:00:01.0/0000:03:00.0``).
    :param numa_node: ``None`` if the kernel knows none.
    """

    path: str = ""
    vendor: str = ""
    device: str = ""
    numa_node: int | None = None
    current_link_speed: str = ""
    current_link_width: int | None = None
    max_link_speed: str = ""
    max_link_width: int | None = None


@dataclass(frozen=True)
class Adapter:
    """Where a network adapter hangs, as :class:`NodeGpu` has it."""

    path: str
    numa_node: int | None = None


@dataclass(frozen=True)
class UsedGpu:
    """A GPU that the process uses, as its driver names it.

    :param bus_id: PCI address as the kernel writes it.
    :param current: the thread that ends MPI works on it; without, the process has a context on it.
    :param uuid: of the GPU or of the instance of it (MIG), in hexadecimal digits.
    """

    bus_id: str
    current: bool
    name: str = ""
    uuid: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The rank at one moment.

    :param realtime_ns: CLOCK_REALTIME in ns; comparable between nodes as far as their clocks agree.
    :param monotonic_ns: CLOCK_MONOTONIC in ns; comparable on one node only.
    :param uptime_s: of the node, to a hundredth, as its ``/proc/uptime`` says.
    :param cpus: CPUs the kernel lets the main thread run on (``Cpus_allowed_list``).
    :param cpu: CPU it was on at this moment.
    :param numa_node: NUMA node of that CPU.
    :param threads: name and CPUs of the other threads (the first 64).
    :param interfaces: counters of the network interfaces, by name.
    :param ports: counters of the RDMA and Slingshot ports, by ``device/port``.
    :param tcp: the rank's own TCP connections.
    :param tcp_known: false when some of its IP sockets could not be counted.
    :param links: settings and counters of errors per interface and port, as recorder.c names them;
        one rank of a node is enough to read them, so ``None`` for the others.
    :param siblings: all CPUs of the cores that ``cpus`` are of: several of a core with SMT;
        ``None`` if the kernel does not say.
    :param waited_ns: how long the rank's main thread was ready to run and had no core
        (``/proc/self/schedstat``, sched-stats.rst); ``None`` if the kernel does not count it.
    :param errors: the kernel's counters of errors and drops per interface (``/proc/net/dev``).
    :param tcp_node: TCP counters of all connections of the node, whoever's (``/proc/net/snmp``).
    :param gpus: the GPUs that the process uses, the one it works on first.
    :param gpu_library: library it was asked of, which the process had loaded;
        ``None``: there is none, so no GPU is used.
    """

    realtime_ns: int
    monotonic_ns: int
    uptime_s: float
    cpus: Cpus
    threads: tuple[tuple[str, Cpus], ...]
    interfaces: Mapping[str, Bytes]
    ports: Mapping[str, Bytes]
    tcp: tuple[TcpPair, ...]
    tcp_known: bool
    involuntary_switches: int
    errors: Mapping[str, Mapping[str, int]]
    gpus: tuple[UsedGpu, ...]
    gpu_library: str | None
    siblings: Cpus | None = None
    waited_ns: int | None = None
    cpu: int | None = None
    numa_node: int | None = None
    links: Mapping[str, Mapping[str, int | str]] | None = None
    tcp_node: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Interface:
    """What a network interface is.

    :param slot: bus address of its card, where it has one.
    :param dev_port: its port on that card, from 0.
    :param lower: interfaces it is made of (of a bond, VLAN or bridge).
    """

    addresses: tuple[str, ...]
    lower: tuple[str, ...]
    slot: str | None = None
    dev_port: int = 0


@dataclass(frozen=True)
class Port:
    """What an RDMA port is: its ``link_layer`` in sysfs, and the bus address of its card."""

    link_layer: str | None = None
    slot: str | None = None


@dataclass(frozen=True)
class RankEvidence:
    """The record of one rank.

    :param executable: resolved path of the program
        (``/proc/self/exe``), of ``executable_bytes`` bytes.
    :param nonce: what its launch was given; ``None`` without.
    :param rank: rank in MPI_COMM_WORLD, from MPI itself where
        ``world_known``, else from the launcher's variables.
    :param size: size of MPI_COMM_WORLD, likewise.
    :param world_unknown: why MPI could not be asked for them; empty if it was.
    :param rank_source: variable the launcher announced the rank in; empty if there is none.
    :param job: batch job; empty outside of one.
    :param library_version: MPI_Get_library_version; ``None`` where
        the library has no such function.
    :param library: resolved path of the library that answered, of
        ``library_bytes`` bytes; ``None`` if unknown.
    :param mapped: resolved paths of the MPI and network libraries in the process.
    :param environment: variables that choose or tune network, binding or
        MPI, as set once MPI was initialised.
    :param kernel: settings of the node that bear on measurements (release, zone_reclaim_mode, ...).
    :param parent_cpus: CPUs allowed to the process that started the rank; ``None`` if hidden.
    :param cpuset: CPUs the cgroup leaves to the rank; ``None`` if there is no such controller.
    :param online: CPUs online on the node.
    :param finalize: snapshot before MPI_Finalize; ``None`` if the rank never got there.
    :param source: name of the file.
    :param boot_id: of the kernel's start (``random(4)``): nodes that say the same are on one
        machine; ``None`` if it is not said.
    :param forum_abi: major version of the MPI Forum's ABI that the library says it has
        (``MPI_Abi_get_version``); -1: none.
    :param clocks: resolved path of the file that answers, by the function that the program asks for
        the time (``MPI_Wtime``, ``clock_gettime``, ...).
    :param announced: rank and size in the launcher's variables, whatever MPI says; ``None`` where
        there is no number.
    :param loaded_ns: when the process was loaded, on the snapshots' monotonic clock.
    :param node_gpus: the node's GPUs by PCI address; ``None`` if no driver of GPUs is loaded,
        and for all but one rank of a node.
    :param adapters: its network adapters by name (``mlx5_0``, ``hsn0``); likewise.
    """

    host: str
    pid: int
    loaded_ns: int
    executable: str
    executable_bytes: int | None
    nonce: str | None
    rank: int | None
    size: int | None
    world_known: bool
    rank_source: str
    job: str
    library_version: str | None
    library: str | None
    library_bytes: int | None
    mapped: tuple[str, ...]
    environment: Mapping[str, str]
    kernel: Mapping[str, str | None]
    interfaces: Mapping[str, Interface]
    ports: Mapping[str, Port]
    parent_cpus: Cpus | None
    cpuset: Cpus | None
    online: Cpus
    init: Snapshot
    finalize: Snapshot | None
    node_gpus: Mapping[str, NodeGpu] | None
    adapters: Mapping[str, Adapter] | None
    source: str = field(default="", compare=False)
    world_unknown: str = ""
    boot_id: str | None = None
    announced: tuple[int | None, int | None] = (None, None)
    forum_abi: int = -1
    clocks: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How sentences call it: ``rank 3 on c2``."""
        return f"rank {'?' if self.rank is None else self.rank} on {self.host}"

    @property
    def last(self) -> Snapshot:
        return self.finalize or self.init

    @property
    def gpu(self) -> UsedGpu | None:
        """The GPU it worked on to its end; ``None`` if it used none."""
        return next(iter(self.last.gpus), None)

    @property
    def seconds(self) -> float | None:
        """Time in s between the end of MPI_Init and the start of
        MPI_Finalize; ``None`` if it never finalised.
        """
        return (
            None
            if self.finalize is None
            else (self.finalize.monotonic_ns - self.init.monotonic_ns) / 1e9
        )

    @property
    def connections(self) -> list[Connection]:
        start, end = (
            {(pair.local, pair.peer): pair for pair in at.tcp} if at else {}
            for at in (self.init, self.finalize)
        )
        rows = []
        for way in {**end, **start}:
            before = start.get(way, TcpPair(*way, 0, 0, 0, TcpWire(0, 0, 0, 0)))
            after = end.get(way)
            if after is None:
                rows.append(Connection(*way, 0, 0, None, closed=True))
                continue
            sent = after.sent - before.sent
            received = after.received - before.received
            wire = None
            if after.wire and before.wire:
                old = msgspec.structs.astuple(before.wire)
                new = msgspec.structs.astuple(after.wire)
                wire = TcpWire(*(count - was for count, was in zip(new, old, strict=True)))
            closed = (
                after.count < before.count
                or min(sent, received, *(msgspec.structs.astuple(wire) if wire else ())) < 0
            )
            rows.append(Connection(*way, max(sent, 0), max(received, 0), wire, closed))
        return rows


def parse_cpus(text: str) -> Cpus:
    """CPUs of a list as the kernel writes it (``0-3,8``; Linux cpusets(7), section "List format").

    :raises ValueError: when it is not such a list.
    """
    cpus: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        first, dash, last = part.partition("-")
        cpus.update(range(int(first), int(last if dash else first) + 1))
    return frozenset(cpus)


def spell_bus_id(text: str) -> str:
    """PCI address as the kernel writes it (``0000:3b:00.0``); drivers write
    large letters, longer domains, or no function.

    :raises ValueError: when it is no such address.
    """
    match = re.fullmatch(
        r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?", text.strip().lower()
    )
    if not match:
        raise ValueError(f"'{text}' is not a PCI address")
    domain, bus, device, function = (int(part or "0", 16) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


def read(directory: Path) -> list[RankEvidence]:
    """The record of every rank that left one in ``directory``, by rank; empty if there is none.

    :raises EvidenceError: for a line that is damaged or of another layout; the sentence names it.
    """
    ranks, damaged = read_all(directory)
    for error in damaged:
        raise error
    return ranks


def read_all(directory: Path) -> tuple[list[RankEvidence], list[EvidenceError]]:
    """The same, and what cannot be read."""
    ranks = []
    damaged = []
    for path in sorted(directory.glob("*.jsonl")):
        processes: dict[str, tuple[dict[str, Any], str]] = {}
        try:
            for line, source in _lines(path):
                try:
                    document = _document(line, source)
                except EvidenceError as error:
                    damaged.append(error)
                    continue
                process = " ".join(str(document.get(key)) for key in ("host", "pid", "loaded_ns"))
                if document.get("finalized") is True and process in processes:
                    # The end of one that began: what it knew then stays.
                    document = {**processes[process][0], **document}
                processes[process] = document, source
        except (OSError, UnicodeError) as error:
            sentence = f"The evidence {path} cannot be read ({error}); run the case again."
            damaged.append(EvidenceError("evidence-damaged", sentence))
        for document, source in processes.values():
            try:
                ranks.append(_checked(document, source))
            except EvidenceError as error:
                damaged.append(error)
    return sorted(ranks, key=lambda r: (r.rank is None, r.rank, r.source)), damaged


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Lines of a node's file that are not empty, and how sentences name them."""
    with path.open(encoding="ascii") as file:
        number = 0
        while line := file.readline(MOST_BYTES):
            number += 1
            if line.strip():
                yield line, f"{path}:{number}"


def _document(line: str, source: str) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise EvidenceError(
            "output-cut",
            f"The evidence {source} is truncated or damaged ({error}); run the case again.",
        ) from error
    layout = document.get("format") if isinstance(document, dict) else None
    if layout != FORMAT:
        raise EvidenceError(
            "other-release",
            f"The evidence {source} has layout {layout} instead of {FORMAT}; rebuild the evidence "
            "library.",
        )
    return dict(document)


def parse_rank(text: str, source: str) -> RankEvidence:
    """The record of one process as one JSON document; ``source`` names it in sentences.

    :raises EvidenceError: when it is damaged or of another layout.
    """
    return _checked(_document(text, source), source)


def _checked(document: dict[str, Any], source: str) -> RankEvidence:
    try:
        return _rank(_decode(document), source)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise EvidenceError(
            "evidence-damaged", f"The evidence {source} is damaged ({reason}); run the case again."
        ) from error


def _decode(value: Any) -> Any:
    """The document with file names and values as Python spells them: the
    recorder writes each byte as one character.
    """
    if isinstance(value, str):
        return value if value.isascii() else os.fsdecode(value.encode("latin-1"))
    if isinstance(value, dict):
        return {_decode(key): _decode(item) for key, item in value.items()}
    return [_decode(item) for item in value] if isinstance(value, list) else value


def _rank(document: dict[str, Any], source: str) -> RankEvidence:
    load, library, node, world = (document[key] for key in ("load", "library", "node", "world"))
    # What the launcher announced, value and variable; a number that no C int holds is none.
    rank, size, job = (
        document[key] or {"value": "", "source": ""} for key in ("rank", "size", "job")
    )
    announced = {
        key: int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None
        for key, text in {"rank": rank["value"], "size": size["value"]}.items()
    }
    if document["finalized"] is not ("finalize" in document):
        raise ValueError("'finalized' and the snapshot of MPI_Finalize disagree")
    facts = {
        **document,
        **{key: world[key] if world else number for key, number in announced.items()},
        "announced": tuple(announced.values()),
        "world_known": bool(world),
        "rank_source": rank["source"],
        "job": job["value"],
        "library": library["path"],
        "library_bytes": library["size_bytes"],
        "library_version": library["version"],
        "mapped": library["mapped"],
        "forum_abi": library.get("abi", -1),
        "clocks": library.get("clocks", {}),
        "kernel": {key: value for key, value in node.items() if key not in _NOT_KERNEL},
        **{key: node[key] for key in ("interfaces", "ports", "adapters")},
        "node_gpus": None
        if node["gpus"] is None
        else {bus_id.lower(): gpu for bus_id, gpu in node["gpus"].items()},
        "boot_id": node.get("boot_id"),
        **{
            key: None if load[key] is None else parse_cpus(load[key])
            for key in ("parent_cpus", "cpuset")
        },
        "online": parse_cpus(load["online"]),
        "init": _snapshot(document["init"]),
        "finalize": _snapshot(document["finalize"]) if "finalize" in document else None,
        "source": source,
    }
    return msgspec.convert(facts, RankEvidence)


def _snapshot(row: dict[str, Any]) -> dict[str, Any]:
    tcp = row["tcp"]
    interfaces = row["interfaces"]
    schedstat = row["usage"]["schedstat"]
    return {
        **row,
        "uptime_s": float(row["uptime"].split()[0]),
        "cpus": parse_cpus(row["cpus"]),
        "siblings": None if row["siblings"] is None else parse_cpus(row["siblings"]),
        # A thread may end while it is looked at; then it has no mask.
        "threads": [
            (thread["name"], parse_cpus(thread["cpus"]))
            for thread in row["threads"]
            if thread["name"] is not None and thread["cpus"] is not None
        ],
        "tcp": [{**pair, "wire": pair if "out_bytes" in pair else None} for pair in tcp["pairs"]],
        "gpus": [{**gpu, "bus_id": spell_bus_id(gpu["bus_id"])} for gpu in row["gpus"]],
        "tcp_known": msgspec.convert(tcp["complete"], bool)
        and msgspec.convert(tcp["uncounted"], int) == 0,
        "involuntary_switches": row["usage"]["involuntary_switches"],
        "waited_ns": int(schedstat.split()[1]) if schedstat else None,
        "errors": {
            name: {key: count for key, count in counters.items() if not key.endswith("_bytes")}
            for name, counters in interfaces.items()
        },
    }


def check_hosts(ranks: Iterable[RankEvidence], hosts: Mapping[int, str]) -> list[str]:
    """A sentence for each rank that was on another host than its program says.

    :param hosts: names without a domain, by rank.
    """
    there = {rank.rank: rank.host.partition(".")[0] for rank in ranks}
    return [
        f"rank {rank} was on {there[rank]}, but its output says {host}; run it again."
        for rank, host in hosts.items()
        if there.get(rank, host) != host
    ]
