"""A node's ``/proc`` and ``/sys`` in a folder, and topologies as other programs tell them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from folders import DATA, write
from reframe_tests.harness.machine.placement import RankPlacement
from reframe_tests.harness.machine.topology import Topology

# ---- A node's ``/proc`` and ``/sys`` in a folder, with the cards that are asked for, in the
# kernel's own formats.

TREES: dict[str, dict[str, str]] = yaml.safe_load((DATA / "nodes.yaml").read_text())
QUIET, MLX5, HFI1, CXI, NVIDIA, ETHERNET = TREES.values()


def gpu(address: str, driver: str = "nvidia", *, numa: int = 0) -> dict[str, str]:
    """A GPU's PCI device (sysfs-bus-pci), idle: an H100, or an MI100 of AMD."""
    at = f"sys/bus/pci/devices/{address}"
    vendor, device, kind = (
        ("0x10de", "0x2330", "0x030200") if driver == "nvidia" else ("0x1002", "0x738c", "0x038000")
    )
    return {
        f"{at}/vendor": vendor,
        f"{at}/device": device,
        f"{at}/class": kind,
        f"{at}/numa_node": str(numa),
        f"{at}/current_link_speed": "2.5 GT/s PCIe",
        f"{at}/max_link_speed": "32.0 GT/s PCIe",
        f"{at}/current_link_width": "16",
        f"{at}/max_link_width": "16",
        f"{at}/link_to_driver": driver,
    }


def make_node(folder: Path, *trees: Mapping[str, str]) -> Path:
    """Write the files; later parts replace those of earlier ones. Returns the folder."""
    for name, text in {key: value for part in trees for key, value in part.items()}.items():
        path = folder / name
        if path.name == "link_to_driver":
            path.with_name("driver").symlink_to(f"../../drivers/{text}")
        else:
            write(path, text + "\n")
    return folder


# ---- Topologies as programs list them: to hold ours against.

#: One CPU: its number, core (unique within the socket), socket, NUMA node.
Row = tuple[int, int, int, int | None]


def _masks(rows: Iterable[tuple[int, int]]) -> list[str]:
    """Masks of CPUs by position, from (CPU, position)."""
    members: dict[int, int] = {}
    for cpu, position in rows:
        members[position] = members.get(position, 0) | 1 << cpu
    return [hex(members.get(position, 0)) for position in range(max(members, default=-1) + 1)]


def from_lscpu(text: str) -> Topology:
    """From the lines of ``lscpu -p=CPU,CORE,SOCKET,NODE`` (lscpu(1)), offline CPUs left out."""
    rows: list[Row] = []
    for line in text.splitlines():
        if line and not line.startswith("#") and "-" not in line:
            cpu, core, socket, node = line.split(",")
            rows.append((int(cpu), int(core), int(socket), int(node) if node else None))
    cores = list(dict.fromkeys((socket, core) for _, core, socket, _ in rows))
    masks = {
        "cores": _masks((cpu, cores.index((socket, core))) for cpu, core, socket, _ in rows),
        "sockets": _masks((cpu, socket) for cpu, _, socket, _ in rows),
        "numa_nodes": _masks((cpu, node) for cpu, _, _, node in rows if node is not None),
    }
    return Topology.from_processor({"topology": masks})


# ---- A topology as whoever looks at it groups it.


def cpus_by(topology: Topology, part: str) -> dict[int | None, tuple[int, ...]]:
    """CPUs per socket, NUMA node, core or cache."""
    cpus: dict[int | None, tuple[int, ...]] = {}
    for unit in topology.units:
        key = getattr(unit, part)
        cpus[key] = (*cpus.get(key, ()), unit.cpu)
    return cpus


# ---- Ranks with several CPUs each, which launchers can be told of and no policy of
# :mod:`machine.placement` asks for.


def with_whole_cores(placement: RankPlacement) -> RankPlacement:
    """The same cores, with all their hardware threads."""
    assert placement.topology is not None and placement.ranks is not None
    siblings = {
        unit.cpu: {other.cpu for other in core}
        for core in placement.topology.cores
        for unit in core
    }
    whole = (set().union(*(siblings[cpu] for cpu in rank)) for rank in placement.ranks)
    return replace(placement, ranks=tuple(tuple(sorted(cpus)) for cpus in whole))
