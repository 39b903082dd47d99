"""A node's ``/proc`` and ``/sys`` in a folder, and topologies as other programs tell them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from reframe_tests.harness.machine.placement import RankPlacement
from reframe_tests.harness.machine.topology import Topology

# ---- A node's ``/proc`` and ``/sys`` in a folder, with the cards that are asked for, in the
# kernel's own formats.

#: A quiet node of two sockets (formats: proc(5),
#: Documentation/ABI/stable/sysfs-devices-system-cpu).
QUIET: Mapping[str, str] = {
    "proc/sys/kernel/osrelease": "5.14.0-427.el9.x86_64",
    "proc/cmdline": "BOOT_IMAGE=(hd0,gpt2)/vmlinuz root=UUID=0f2c ro nosmt mitigations=off",
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 9654\nmicrocode\t: 0xa101144\n\n"
    "processor\t: 1\nmodel name\t: AMD EPYC 9654\nmicrocode\t: 0xa101144\n",
    "proc/meminfo": "MemTotal:       1056000000 kB\nMemAvailable:   1030000000 kB\nSwapTotal: 0 "
    "kB\nSwapFree: 0 kB\n",
    "proc/stat": "cpu  100 0 100 100000 0 0 0 0 0 0\ncpu0 50 0 50 50000 0 0 0 0 0 0\nbtime "
    "1795311410\n",
    "proc/1/status": "Name:\tsystemd\nUid:\t0\t0\t0\t0\n",
    "proc/sys/vm/zone_reclaim_mode": "0",
    "proc/sys/kernel/numa_balancing": "0",
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
    "sys/kernel/mm/transparent_hugepage/defrag": "always defer defer+madvise [madvise] never",
    "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "0",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
    "sys/devices/system/cpu/online": "0-191",
    "sys/devices/system/cpu/smt/active": "0",
    "sys/devices/system/cpu/cpufreq/boost": "1",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance",
    "sys/devices/system/node/online": "0-1",
}
#: An InfiniBand port (drivers/infiniband/core/sysfs.c; mlx5).
MLX5: Mapping[str, str] = {
    "sys/class/infiniband/mlx5_0/fw_ver": "28.39.3004",
    "sys/class/infiniband/mlx5_0/board_id": "MT_0000000838",
    "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE",
    "sys/class/infiniband/mlx5_0/ports/1/phys_state": "5: LinkUp",
    "sys/class/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)",
    "sys/class/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand",
    "sys/class/infiniband/mlx5_0/device/numa_node": "1",
    "sys/class/infiniband/mlx5_0/device/current_link_speed": "32.0 GT/s PCIe",
    "sys/class/infiniband/mlx5_0/device/max_link_speed": "32.0 GT/s PCIe",
    "sys/class/infiniband/mlx5_0/device/current_link_width": "16",
    "sys/class/infiniband/mlx5_0/device/max_link_width": "16",
}
#: An Omni-Path port (hfi1).
HFI1: Mapping[str, str] = {
    "sys/class/infiniband/hfi1_0/fw_ver": "1.27.0",
    "sys/class/infiniband/hfi1_0/ports/1/state": "4: ACTIVE",
    "sys/class/infiniband/hfi1_0/ports/1/phys_state": "5: LinkUp",
    "sys/class/infiniband/hfi1_0/ports/1/rate": "100 Gb/sec (4X EDR)",
    "sys/class/infiniband/hfi1_0/ports/1/link_layer": "InfiniBand",
}
#: A Slingshot device (the cxi driver's sysfs, as ``cxi_stat`` reads it).
CXI: Mapping[str, str] = {
    "sys/class/cxi/cxi0/device/port/link": "on",
    "sys/class/cxi/cxi0/device/port/speed": "BS_200G",
    "sys/class/cxi/cxi0/device/uc/qspi_blob_version": "1.5.41",
}
#: What is loaded for GPUs of NVIDIA; the version as the open
#: modules of 590.48.01 have it in ``/proc``.
NVIDIA: Mapping[str, str] = {
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
    "590.48.01  Release Build  (a@b)\n"
    "GCC version:  gcc version 13.2.0",
    "sys/module/nvidia_peermem/refcnt": "0",
}


def gpu(
    address: str, driver: str = "nvidia", *, speed: str = "32.0", width: int = 16, numa: int = 0
) -> dict[str, str]:
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
        f"{at}/max_link_speed": f"{speed} GT/s PCIe",
        f"{at}/current_link_width": str(width),
        f"{at}/max_link_width": "16",
        f"{at}/link_to_driver": driver,
    }


#: An Ethernet interface with a card below it, and one without.
ETHERNET: Mapping[str, str] = {
    "sys/class/net/eth0/operstate": "up",
    "sys/class/net/eth0/mtu": "9000",
    "sys/class/net/eth0/speed": "25000",
    "sys/class/net/eth0/duplex": "full",
    "sys/class/net/eth0/device/vendor": "0x15b3",
    "sys/class/net/br0/operstate": "up",
    "sys/class/net/br0/mtu": "1500",
    "sys/class/net/br0/speed": "10000",
}


def make_node(folder: Path, *trees: Mapping[str, str]) -> Path:
    """Write the files; later parts replace those of earlier ones. Returns the folder."""
    for name, text in {key: value for part in trees for key, value in part.items()}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name == "link_to_driver":
            path.with_name("driver").symlink_to(f"../../drivers/{text}")
            continue
        path.write_text(text + "\n")
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
