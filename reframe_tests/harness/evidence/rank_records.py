"""What each rank recorded: the recorder's files, read strictly into plain data.

``recorder.c`` writes the files; ``checks`` and ``counters`` judge what they say. A file that is damaged or
of another layout is an error, never a default: evidence that had to be guessed at is none.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any

from ..vocabulary import BadInput

#: Versions of the layout this reader understands (``FORMAT`` in recorder.c); the first knew nothing of the state of links.
FORMATS = (1, 2)

#: Bytes of the largest record that is read; one of a node with 1,000 interfaces and 64 threads has some 300 kB.
MOST_BYTES = 16 << 20

Cpus = frozenset[int]


class EvidenceError(BadInput):
    """A rank record that cannot be read: cut short, damaged, or of another layout."""


@dataclass(frozen=True)
class Bytes:
    """Counters of one network interface or RDMA port, in bytes since it came up; ``None`` where it counts none."""

    rx: int | None
    tx: int | None


@dataclass(frozen=True)
class TcpPair:
    """The rank's TCP connections between two addresses: payload in bytes since they were opened.

    :param sent: acknowledged by the peer (``tcpi_bytes_acked``), so a lower bound of what went out.
    :param wire: what went out and came in with everything that was sent again; ``None`` before Linux 4.19.
    """

    local: str
    peer: str
    count: int
    sent: int
    received: int
    wire: TcpWire | None = None


@dataclass(frozen=True)
class TcpWire:
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


@dataclass(frozen=True)
class Snapshot:
    """The rank at one moment.

    :param realtime_ns: CLOCK_REALTIME in ns; comparable between nodes as far as their clocks agree.
    :param monotonic_ns: CLOCK_MONOTONIC in ns; comparable on one node only.
    :param cpus: CPUs the kernel lets the main thread run on (``Cpus_allowed_list``).
    :param cpu: CPU it was on at this moment.
    :param numa_node: NUMA node of that CPU.
    :param mempolicy: number of the memory policy (``<linux/mempolicy.h>``; 0 is the default, local).
    :param threads: name and CPUs of the other threads (the first 64).
    :param interfaces: counters of the network interfaces, by name.
    :param ports: counters of the RDMA and Slingshot ports, by ``device/port``.
    :param tcp: the rank's own TCP connections.
    :param tcp_known: false when some of its IP sockets could not be counted.
    :param user_us: CPU time in user mode in us.
    :param system_us: CPU time in the kernel in us.
    :param links: settings and counters of errors per interface and port, as links.h names them; one rank of a node is
        enough to read them, so ``None`` for the others.
    :param errors: the kernel's counters of errors and drops per interface (``/proc/net/dev``).
    :param tcp_node: TCP counters of all connections of the node, whoever's (``/proc/net/snmp``).
    """

    realtime_ns: int
    monotonic_ns: int
    cpus: Cpus
    cpu: int | None
    numa_node: int | None
    mempolicy: int | None
    threads: tuple[tuple[str, Cpus], ...]
    thread_count: int
    interfaces: Mapping[str, Bytes]
    ports: Mapping[str, Bytes]
    tcp: tuple[TcpPair, ...]
    tcp_known: bool
    user_us: int
    system_us: int
    voluntary_switches: int
    involuntary_switches: int
    links: Mapping[str, Mapping[str, int | str]] | None = None
    errors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    tcp_node: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Interface:
    """What a network interface is.

    :param slot: bus address of its card, where it has one.
    :param dev_port: its port on that card, from 0.
    :param lower: interfaces it is made of (of a bond, VLAN or bridge).
    """

    addresses: tuple[str, ...] = ()
    mtu_bytes: int | None = None
    speed_mbit_per_s: int | None = None
    slot: str | None = None
    dev_port: int = 0
    lower: tuple[str, ...] = ()


@dataclass(frozen=True)
class Port:
    """What an RDMA port is: sysfs ``state``, ``rate`` and ``link_layer``, and the bus address of its card."""

    state: str | None = None
    rate: str | None = None
    link_layer: str | None = None
    slot: str | None = None


@dataclass(frozen=True)
class RankEvidence:
    """The record of one rank.

    :param rank: rank in MPI_COMM_WORLD, from MPI itself where ``world_known``, else from the launcher's variables.
    :param size: size of MPI_COMM_WORLD, likewise.
    :param world_unknown: why MPI could not be asked for them; empty where it was, and in records of former versions.
    :param rank_source: variable the launcher announced the rank in; empty where there is none.
    :param job: batch job; empty outside of one.
    :param library_version: MPI_Get_library_version; ``None`` where the library has no such function.
    :param library: resolved path of the library that answered; ``None`` if unknown.
    :param mapped: resolved paths of the MPI and network libraries in the process.
    :param environment: variables that choose or tune network, binding or MPI, as set once MPI was initialised.
    :param kernel: settings of the node that bear on measurements (release, zone_reclaim_mode, ...).
    :param load_cpus: CPUs allowed when the program was loaded, before MPI had a say.
    :param parent_cpus: CPUs allowed to the process that started the rank; ``None`` if hidden.
    :param cpuset: CPUs the cgroup leaves to the rank; ``None`` where there is no such controller.
    :param online: CPUs online on the node.
    :param finalize: snapshot before MPI_Finalize; ``None`` if the rank never got there.
    :param source: name of the file.
    :param layout: version of its layout.
    :param boot_id: of the kernel's start (``random(4)``): nodes that say the same are on one machine; ``None`` where it is not
        said, as in records of former versions.
    """

    host: str
    pid: int
    executable: str
    rank: int | None
    size: int | None
    world_known: bool
    rank_source: str
    job: str
    library_version: str | None
    library: str | None
    mapped: tuple[str, ...]
    environment: Mapping[str, str]
    kernel: Mapping[str, str | None]
    interfaces: Mapping[str, Interface]
    ports: Mapping[str, Port]
    load_cpus: Cpus
    parent_cpus: Cpus | None
    cpuset: Cpus | None
    online: Cpus
    init: Snapshot
    finalize: Snapshot | None
    source: str = field(default="", compare=False)
    layout: int = FORMATS[-1]
    world_unknown: str = ""
    boot_id: str | None = None

    @property
    def name(self) -> str:
        """How sentences call it: ``rank 3 on c2``."""
        return f"rank {'?' if self.rank is None else self.rank} on {self.host}"

    @property
    def seconds(self) -> float | None:
        """Time in s between the end of MPI_Init and the start of MPI_Finalize; ``None`` if it never finalised."""
        return None if self.finalize is None else (self.finalize.monotonic_ns - self.init.monotonic_ns) / 1e9


def parse_cpus(text: str) -> Cpus:
    """CPUs of a list as the kernel writes it (``0-3,8``; Linux cpusets(7), section "List format").

    :raises ValueError: when it is not such a list.
    """
    cpus: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        first, dash, last = part.partition("-")
        cpus.update(range(int(first), int(last if dash else first) + 1))
    return frozenset(cpus)


def read(directory: Path) -> list[RankEvidence]:
    """The record of every rank that left one in ``directory``, by rank; empty if there is none.

    :raises EvidenceError: for a file that is damaged or of another layout; the sentence names it.
    """
    return sorted((read_rank(path) for path in directory.glob("*.json")), key=lambda r: (r.rank is None, r.rank, r.source))


def read_rank(path: Path) -> RankEvidence:
    """The record in one file.

    :raises EvidenceError: when it cannot be read, is damaged or of another layout.
    """
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise EvidenceError(f"The evidence {path} has {size} bytes, more than any rank writes; run the case again.")
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeError) as error:
        raise EvidenceError(f"The evidence {path} cannot be read ({error}); run the case again.") from error
    return parse_rank(text, str(path))


def parse_rank(text: str, source: str) -> RankEvidence:
    """The record in the text of one file; ``source`` names it in sentences.

    :raises EvidenceError: when it is damaged or of another layout.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise EvidenceError(f"The evidence {source} is cut short or damaged ({error}); run the case again.") from error
    layout = document.get("format") if isinstance(document, dict) else None
    if layout not in FORMATS or isinstance(layout, bool):
        known = " or ".join(map(str, FORMATS))
        raise EvidenceError(f"The evidence {source} has layout {layout}, not {known}; rebuild the evidence library.")
    try:
        return _rank(_decode(document), source)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise EvidenceError(f"The evidence {source} is damaged ({reason}); run the case again.") from error


def _decode(value: Any) -> Any:
    """The document with file names and values as Python spells them: the recorder writes each byte as one character."""
    if isinstance(value, str):
        return value if value.isascii() else os.fsdecode(value.encode("latin-1"))
    if isinstance(value, dict):
        return {_decode(key): _decode(item) for key, item in value.items()}
    return [_decode(item) for item in value] if isinstance(value, list) else value


def _get(row: Any, key: str, *kinds: type) -> Any:
    """Value of a key that must be of one of these types; ``True`` is not a number."""
    value = row[key]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise TypeError(f"'{key}' is {value!r}")
    return value


def _texts(row: Any, key: str) -> tuple[str, ...]:
    """List of strings under a key."""
    values = _get(row, key, list)
    if not all(isinstance(value, str) for value in values):
        raise TypeError(f"'{key}' is {values!r}")
    return tuple(values)


def _cpus_or_none(row: Any, key: str) -> Cpus | None:
    text = _get(row, key, str, NoneType)
    return None if text is None else parse_cpus(text)


def _announced(document: dict[str, Any], key: str) -> tuple[str, str]:
    """Value and variable of what the launcher announced; both empty where it did not."""
    row = _get(document, key, dict, NoneType)
    return (_get(row, "value", str), _get(row, "source", str)) if row else ("", "")


def _rank(document: dict[str, Any], source: str) -> RankEvidence:
    load, library, node = (_get(document, key, dict) for key in ("load", "library", "node"))
    world = _get(document, "world", dict, NoneType)
    rank, rank_source = _announced(document, "rank")
    size, _ = _announced(document, "size")
    finalized = _get(document, "finalized", bool)
    if finalized != ("finalize" in document):
        raise ValueError("'finalized' and the snapshot of MPI_Finalize disagree")
    return RankEvidence(
        host=_get(document, "host", str),
        pid=_get(document, "pid", int),
        executable=_get(document, "executable", str),
        rank=_get(world, "rank", int) if world else _number(rank),
        size=_get(world, "size", int) if world else _number(size),
        world_known=bool(world),
        rank_source=rank_source,
        job=_announced(document, "job")[0],
        library_version=_get(library, "version", str, NoneType),
        library=_get(library, "path", str, NoneType),
        mapped=_texts(library, "mapped"),
        environment=dict(_get(document, "environment", dict)),
        kernel={key: value for key, value in node.items() if key not in ("interfaces", "ports", "boot_id")},
        interfaces={name: _interface(row) for name, row in _get(node, "interfaces", dict).items()},
        ports={name: Port(**row) for name, row in _get(node, "ports", dict).items()},
        load_cpus=parse_cpus(_get(load, "cpus", str)),
        parent_cpus=_cpus_or_none(load, "parent_cpus"),
        cpuset=_cpus_or_none(load, "cpuset"),
        online=parse_cpus(_get(load, "online", str)),
        init=_snapshot(_get(document, "init", dict)),
        finalize=_snapshot(_get(document, "finalize", dict)) if finalized else None,
        source=source,
        layout=_get(document, "format", int),
        boot_id=_get(node, "boot_id", str, NoneType) if "boot_id" in node else None,
        world_unknown=_get(document, "world_unknown", str) if "world_unknown" in document else "",
    )


def _number(text: str) -> int | None:
    """A rank or a size as a launcher writes it; ``None`` for anything else, such as a number no C int holds."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _interface(row: dict[str, Any]) -> Interface:
    return Interface(**{**row, "addresses": _texts(row, "addresses"), "lower": _texts(row, "lower")})


def _snapshot(row: dict[str, Any]) -> Snapshot:
    usage, tcp = _get(row, "usage", dict), _get(row, "tcp", dict)
    return Snapshot(
        realtime_ns=_get(row, "realtime_ns", int),
        monotonic_ns=_get(row, "monotonic_ns", int),
        cpus=parse_cpus(_get(row, "cpus", str)),
        cpu=row.get("cpu"),
        numa_node=row.get("numa_node"),
        mempolicy=row.get("mempolicy"),
        threads=tuple(
            # A thread may end while it is looked at; then it has no mask.
            (_get(thread, "name", str), parse_cpus(_get(thread, "cpus", str)))
            for thread in _get(row, "threads", list)
            if thread["name"] is not None and thread["cpus"] is not None
        ),
        thread_count=_get(row, "thread_count", int),
        interfaces=_counters(_get(row, "interfaces", dict)),
        ports=_counters(_get(row, "ports", dict)),
        tcp=tuple(_tcp_pair(pair) for pair in _get(tcp, "pairs", list)),
        tcp_known=_get(tcp, "complete", bool) and _get(tcp, "uncounted", int) == 0,
        user_us=_get(usage, "user_us", int),
        system_us=_get(usage, "system_us", int),
        voluntary_switches=_get(usage, "voluntary_switches", int),
        involuntary_switches=_get(usage, "involuntary_switches", int),
        links=_links(_get(row, "links", dict)) if "links" in row else None,
        errors={name: _errors(counters) for name, counters in _get(row, "interfaces", dict).items()},
        tcp_node={key: _get(row["tcp_node"], key, int) for key in _get(row, "tcp_node", dict)} if "tcp_node" in row else {},
    )


def _links(rows: dict[str, Any]) -> dict[str, dict[str, int | str]]:
    return {name: {key: _get(row, key, int, str) for key in _get(rows, name, dict)} for name, row in rows.items()}


def _errors(row: dict[str, Any]) -> dict[str, int]:
    return {key: _get(row, key, int) for key in row if not key.endswith("_bytes")}


def _tcp_pair(row: dict[str, Any]) -> TcpPair:
    local, peer = (_get(row, key, str) for key in ("local", "peer"))
    keys = ("out_bytes", "again_bytes", "segments_out", "segments_in")
    wire = TcpWire(*(_get(row, key, int) for key in keys)) if keys[0] in row else None
    count, sent, received = (_get(row, key, int) for key in ("count", "sent_bytes", "received_bytes"))
    return TcpPair(local, peer, count, sent, received, wire)


def _counters(rows: dict[str, Any]) -> dict[str, Bytes]:
    """Counters by name; a missing one (a port without any) is ``None``, anything but a number is damage."""
    return {
        name: Bytes(*(_get(row, key, int) if key in row else None for key in ("rx_bytes", "tx_bytes")))
        for name, row in rows.items()
    }


def check_hosts(ranks: Iterable[RankEvidence], hosts: Mapping[int, str]) -> list[str]:
    """A sentence for each rank that was on another host than its program says.

    :param hosts: names without a domain, by rank.
    """
    there = {rank.rank: rank.host.partition(".")[0] for rank in ranks}
    return [
        f"rank {rank} was on {there[rank]} and not on {host}, as its output says."
        for rank, host in hosts.items()
        if there.get(rank, host) != host
    ]
