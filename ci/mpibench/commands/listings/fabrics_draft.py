"""What ``doctor`` reports of a system in the centre's own ReFrame configuration, and a draft of its
missing ``extras`` from the networks of this machine, to be corrected by hand.

It reads the same places as ``NodePreflight`` on nodes (:mod:`node_facts`): ``net``, ``infiniband``
and ``cxi`` in ``/sys/class``.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reframe_tests.harness import batch_systems
from reframe_tests.harness.cases.preflight import node_facts
from reframe_tests.harness.sites import centre as centres
from reframe_tests.harness.sites import site, systems
from reframe_tests.harness.vocabulary import BadInput, meant

#: Names of InfiniBand's rates over four lanes, in Gbit/s (sysfs ``rate``: ``200 Gb/sec (4X HDR)``).
INFINIBAND: Mapping[float, str] = {
    40: "qdr",
    56: "fdr",
    100: "edr",
    200: "hdr",
    400: "ndr",
    800: "xdr",
}
#: Driver of an RDMA device, which its name begins with, and the fastest link in Gbit/s that has
#: transport and beginning of the fabric's name; of others the link layer decides. Omni-Path's 100
#: series has PSM2, what came after it OPX only.
DRIVERS: Sequence[tuple[str, float, str, str]] = (
    ("hfi1", 100, "psm2", "opa"),
    ("hfi1", float("inf"), "opx", "opx"),
    ("efa", float("inf"), "efa", "efa"),
)
#: Link layer of an RDMA port, the same.
LINK_LAYERS: Mapping[str, tuple[str, str]] = {
    "InfiniBand": ("ucx", "ib"),
    "Ethernet": ("ucx", "roce"),
}
#: Hardware type of Ethernet interfaces (``ARPHRD_ETHER`` of
#: linux/if_arp.h); IP over InfiniBand is named with its port.
ETHERNET = 1
UP = ("up", "active", "unknown")
SHM = {"transport": "shm", "scope": "node"}
#: Transports whose adapters can read and write GPU memory.
REACHING_GPUS = ("ucx", "cxi", "efa")


class MachinePort(NamedTuple):
    """A port as the machine shows it.

    :param kind: beginning of the fabric's name; ports of the same kind and rate are rails of one
        fabric, but for Ethernet interfaces, each of which may be a network of its own.
    :param interfaces: network interfaces over the same link, for an RDMA port.
    """

    kind: str
    transport: str
    device: str
    rate: float | None
    numa_node: int | None
    number: int = 1
    mtu_bytes: int | None = None
    interfaces: tuple[str, ...] = ()

    @property
    def fabric(self) -> str:
        if self.rate is None:
            return re.sub(r"\W", "_", self.device)
        kind = INFINIBAND.get(self.rate, self.kind) if self.kind == "ib" else self.kind
        return re.sub(r"\W", "_", f"{kind}{self.rate:g}{'g' if self.kind == 'eth' else ''}")

    def rail(self) -> dict[str, Any]:
        row: dict[str, Any] = {"device": self.device}
        row |= (
            {"line_rate_gbit_per_s": int(self.rate) if self.rate == int(self.rate) else self.rate}
            if self.rate
            else {}
        )
        row |= {"numa_node": self.numa_node} if self.numa_node is not None else {}
        return row | ({"port": self.number} if self.number != 1 else {})


def ports(node: node_facts.Node) -> Iterator[MachinePort]:
    """Those that are up: of InfiniBand and its like, then Slingshot's, then Ethernet interfaces."""

    def number(facts: Mapping[str, Any], fact: str, name: str) -> float | None:
        return float(str(facts.get(fact, {}).get(name) or 0)) or None

    facts = node_facts.ports(node)
    states = facts.get("state", {})
    for name, state in states.items():
        device, colon, port = name.partition(":")
        if state not in UP or not colon:
            continue
        folder = f"sys/class/infiniband/{device}"
        rate = number(facts, "rate_gbit_per_s", name)
        driver = facts.get("driver", {}).get(name, "")
        layer = facts.get("link_layer", {}).get(name, "")
        fitting = (
            row[2:]
            for row in DRIVERS
            if (driver == row[0] or device.startswith(row[0])) and (rate or 0) <= row[1]
        )
        transport, kind = next(fitting, LINK_LAYERS.get(str(layer), ("ucx", "rdma")))
        over = tuple(node.entries(f"{folder}/device/net"))
        yield MachinePort(
            kind,
            transport,
            device,
            rate,
            node_facts.numa_node(node, f"{folder}/device"),
            int(port),
            interfaces=over,
        )
    for device in node.entries("sys/class/cxi"):
        if states.get(device, "active") in UP:
            folder = f"sys/class/cxi/{device}"
            rate = number(facts, "rate_gbit_per_s", device)
            over = tuple(node.entries(f"{folder}/device/net"))
            yield MachinePort(
                "ss",
                "cxi",
                device,
                rate,
                node_facts.numa_node(node, f"{folder}/device"),
                interfaces=over,
            )
    facts = node_facts.interfaces(node, tuple(node.entries("sys/class/net")))
    for name, state in facts.get("state", {}).items():
        folder = f"sys/class/net/{name}"
        devtype = re.search(r"(?m)^DEVTYPE=(\w+)$", node.text(f"{folder}/uevent") or "")
        # Parts of a bond, ends of a bridge or tunnel, and what a
        # container or virtual machine is connected by.
        part = {"master", "bridge", "tun_flags"} & set(node.entries(folder)) or (
            devtype and devtype[1] not in ("bond", "vlan")
        )
        if state in UP and not part and node.number(f"{folder}/type") == ETHERNET:
            rate = number(facts, "rate_gbit_per_s", name)
            mtu = number(facts, "mtu_bytes", name)
            yield MachinePort(
                "eth",
                "tcp",
                name,
                rate,
                node_facts.numa_node(node, f"{folder}/device"),
                mtu_bytes=int(mtu) if mtu else None,
            )


def fabrics(found: Iterable[MachinePort]) -> dict[str, dict[str, Any]]:
    """Fabrics of ports, as the file has them, by name; the node's own memory last."""
    groups: dict[str, list[MachinePort]] = {}
    for port in found:
        name = port.fabric
        if port.kind == "eth" and name in groups:
            name = re.sub(r"\W", "_", f"{name}_{port.device}")
        groups.setdefault(name, []).append(port)
    rows: dict[str, dict[str, Any]] = {}
    for name, members in groups.items():
        interfaces = list(
            dict.fromkeys(interface for port in members for interface in port.interfaces)
        )
        rows[name] = {
            "transport": members[0].transport,
            "scope": "cluster",
            **({"mtu_bytes": members[0].mtu_bytes} if members[0].mtu_bytes else {}),
            **({"tcp_interfaces": interfaces} if interfaces else {}),
            "rails": [port.rail() for port in members],
        }
    return {**rows, "shm": dict(SHM)}


def gpus(node: node_facts.Node) -> dict[str, Any]:
    """``extras.gpus`` of the GPUs that the kernel shows, in the order
    of their PCI addresses; empty without any.
    """
    facts = node_facts.gpus(node)
    vendors = {name: str(text).partition(":")[0] for name, text in facts.get("gpu", {}).items()}
    kind = next(
        (kind for kind, vendor in node_facts.VENDORS.items() if vendor in vendors.values()), ""
    )
    numa = facts.get("numa_node", {})
    rows = [
        {"bus_id": name, **({"numa_node": numa[name]} if numa.get(name) is not None else {})}
        for name in sorted(vendors)
        if vendors[name] == node_facts.VENDORS.get(kind)
    ]
    return {"kind": kind, "of_node": rows} if rows else {}


def write(
    partitions: Sequence[Mapping[str, Any]],
    command: str,
    node: node_facts.Node | None = None,
    environ: Mapping[str, str] = os.environ,
) -> str:
    """The draft's text for partitions of a centre's ReFrame
    configuration, in words that Python and YAML both read.

    :param node: the machine; by default this one.
    """
    node = node or node_facts.Node()
    found = list(ports(node))
    cards = gpus(node)
    described = fabrics(found)
    if cards:
        for fabric in described.values():
            fabric |= {"memory": ["host", "device"]} if fabric["transport"] in REACHING_GPUS else {}
        described["gpu_ipc"] = {"transport": "gpu_ipc", "scope": "node", "memory": ["device"]}
    seen = (
        f"up on {socket.gethostname()}" if found else f"no network found on {socket.gethostname()}"
    )
    lines = [
        f"# Begun by '{command}': {seen}. Remove networks that MPI must not use; add what must be "
        "reached,",
        '# e.g. "min_efficiency": 0.9 (of the line rate), where you know it. Keys: '
        "site_configs/system.schema.json, extras.",
    ]
    for row in partitions:
        if row["scheduler"] == "local":
            lines.append(
                f"# {row['name']} is where ReFrame runs: it needs no fabrics unless MPI jobs run "
                "on it."
            )
            continue
        options = " ".join(row.get("access", ())) or "without options"
        batch = batch_systems.find(row["scheduler"])
        inside = batch and batch.job and batch.job in environ
        elsewhere = (
            ""
            if inside
            else f" its nodes may differ: run the same command in a job there ({options})."
        )
        extras = json.dumps(
            {"node_counts": [2], **({"gpus": cards} if cards else {}), "fabrics": described},
            indent=4,
        )
        lines += [f"# {row['name']}:{elsewhere}", f'"extras": {extras},']
        if not (row.get("processor", {}).get("topology") or {}).get("cores"):
            lines.append(
                "# No topology: put what 'reframe --detect-host-topology' prints in a job there "
                "into 'processor'."
            )
        if cards:
            lines.append(
                '# GPUs: add "nic" to each, the rail next to it (nvidia-smi topo -m, rocm-smi '
                "--showtoponuma), and rates."
            )
    return "\n".join(lines) + "\n"


def describe(system: Mapping[str, Any], root: Path) -> list[tuple[str, bool | None, str]]:
    """Places with sentences, and whether each is only a note (``None``:
    nothing is the matter); none for other systems.
    """
    centre = centres.read(root)
    name = system["name"]
    if centre is None or name not in {row["name"] for row in centre.systems}:
        return []
    rows: list[tuple[str, bool | None, str]] = [
        (name, None, f"is in {centre.source}, including its fabrics")
    ]
    for mode in site.MODES:
        if mode["name"] in centre.modes:
            rows.append(
                (
                    f"mode {mode['name']}",
                    True,
                    f"replaces the one in {centre.source} as long as both are read",
                )
            )
    return rows + [
        (shortcoming.place, shortcoming.note, shortcoming.sentence)
        for shortcoming in systems.shortcomings(name, root)
    ]


def draft(system: Mapping[str, Any], root: Path) -> str:
    """A draft of ``extras`` for the partitions of a centre's system that
    have no fabrics; empty if there are none.
    """
    centre = centres.read(root)
    name = system["name"]
    if centre is None or name not in {row["name"] for row in centre.systems}:
        return ""
    partitions = [
        row for row in system["partitions"] if not row.get("extras", {}).get(systems.FABRICS)
    ]
    return write(partitions, f"mpibench doctor --system {name} --draft") if partitions else ""


def require_draft(name: str | None, root: Path) -> str:
    """The draft that was requested.

    :param name: of the system; by default the one that ReFrame finds this machine to be.
    """
    centre = centres.read(root)
    if centre is None:
        raise BadInput(
            "file-missing",
            f"no configuration of a centre is loaded: name yours in {centres.VARIABLE}, "
            f"before {root}/site_configs/settings.py; for a system.py begin with "
            "site_configs/template.",
        )
    name = name or next(iter(centres.matching(centre)), None)
    system = next((row for row in centre.systems if row["name"] == name), None)
    if system is None:
        known = [row["name"] for row in centre.systems]
        raise BadInput(
            "unknown-name",
            f"system {name or 'of this machine'} is not in {centre.source}"
            f"{meant(name or '', known)}: choose one with --system ({', '.join(known)}).",
        )
    if text := draft(system, root):
        return text
    raise BadInput(
        "name-taken", f"every partition of {name} has fabrics in {centre.source} already."
    )
