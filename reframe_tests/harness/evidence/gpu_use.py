"""Which GPU each rank used, and what is next to it: judged by what drivers and kernel report, never
by what was requested.

CUDA's driver names the GPU of a context; paths in sysfs show which adapter is nearest to it.
Everything here is pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..machine.fabric import Fabric
from ..machine.gpu import KINDS
from ..machine.placement import GPU_POLICIES
from ..vocabulary import SITE_FILES
from .checks import by_host, format_cpus, name_ranks
from .rank_records import Adapter, NodeGpu, RankEvidence, UsedGpu, spell_bus_id

#: What two devices have in common on their way through PCI, the nearest first, and how sentences
#: say it: as the columns PIX and PXB, PHB, NODE, SYS of ``nvidia-smi topo -m``.
SWITCH, ROOT_PORT, HOST_BRIDGE, NUMA_NODE, NOTHING = range(5)
_IN_COMMON = (
    "a PCI switch",
    "a root port",
    "a PCI host bridge",
    "a NUMA node",
    "not even a NUMA node",
)
#: How programs of CUDA see an instance of a GPU called, in outputs of others: ``NVIDIA
#: A100-SXM4-40GB MIG 1g.5gb``.
_INSTANCE = re.compile(r"\bMIG\b")
#: What stands for none: zeros, or ``GPU-XX`` with or without its first
#: letters (hsa_ext_amd.h, HSA_AMD_AGENT_INFO_UUID).
_NO_UUID = re.compile("(4750552d)?(5858)?0*")
_DRIVER = re.compile(r"\d+\.\d[\d.]*")
#: Nodes whose ranks are named with their GPUs in a note.
_MOST_NODES = 4


class Nearness(NamedTuple):
    """How near a GPU and an adapter are; the smaller the nearer.

    :param level: what they have in common.
    :param bridges: PCI bridges between two that share a switch.
    """

    level: int
    bridges: int = 0


@dataclass
class GpuFinding:
    sentences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def nearness(
    gpu: str, adapter: str, numa_node: int | None, adapter_numa: int | None = None
) -> Nearness:
    """How near they are, by their paths in sysfs (:attr:`rank_records.NodeGpu.path`)."""
    mine = gpu.split("/")
    theirs = adapter.split("/")
    shared = next(
        (at for at, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b),
        min(len(mine), len(theirs)),
    )
    if shared > 2:  # host bridge, root port, and the switch's own way up
        return Nearness(SWITCH, len(mine) + len(theirs) - 2 * shared - 2)
    if shared:
        return Nearness(ROOT_PORT if shared == 2 else HOST_BRIDGE)
    return Nearness(NUMA_NODE if numa_node is not None and numa_node == adapter_numa else NOTHING)


def check_gpus(
    ranks: Sequence[RankEvidence], fabric: Fabric, pinning: str = "", platform: str = ""
) -> GpuFinding:
    """Sentences unless each rank used the GPU that the site gives it,
    alone, and all that hangs where the site says.

    Where host memory is measured, a note on ranks that used a GPU all the same.

    :param pinning: policy requested.
    :param platform: of GPUs, as the output says (:attr:`Facts.platform`).
    """
    finding = GpuFinding()
    using = [rank for rank in ranks if rank.gpu]
    if not fabric.memory.on_gpu:
        if using:
            finding.notes.append(
                f"{name_ranks(using)} also used a GPU, although host memory was measured"
            )
        return finding
    none: dict[str, list[RankEvidence]] = {}
    other: dict[tuple[int, str], list[RankEvidence]] = {}
    instances: dict[str, list[RankEvidence]] = {}
    # By host and PCI address, and by UUID: several containers of
    # one machine have names of their own.
    holders: dict[tuple[str, str], list[RankEvidence]] = {}
    for host, there in by_host(ranks).items():
        for place, rank in enumerate(there):
            gpu = rank.gpu
            if gpu is None and rank.finalize is None:
                continue  # it ended before it was asked, which is said elsewhere
            if gpu is None:
                library = rank.last.gpu_library
                none.setdefault(
                    f"{library} had none for it" if library else "it loaded no GPU library",
                    [],
                ).append(rank)
                continue
            holders.setdefault((host, gpu.bus_id), []).append(rank)
            if not _NO_UUID.fullmatch(gpu.uuid):
                holders.setdefault(("", f"UUID {gpu.uuid}"), []).append(rank)
            if _INSTANCE.search(gpu.name):
                instances.setdefault(gpu.name, []).append(rank)
            wanted = fabric.gpus[place].bus_id if place < len(fabric.gpus) else ""
            if wanted and gpu.bus_id != spell_bus_id(wanted):
                other.setdefault((place, gpu.bus_id), []).append(rank)
        finding.sentences += _check_node(host, there, fabric, local=pinning == GPU_POLICIES[0])
    finding.sentences[:0] = [
        f"{name_ranks(same)} used one GPU, {name}{_as_instances(same)}; each rank needs its own."
        for (host, name), same in holders.items()
        if len(same if host else by_host(same)) > 1
    ]
    asked = fabric.memory.text
    if platform not in ("", fabric.memory.kind):
        finding.sentences.append(f"asked for {asked}, but the output is for memory of {platform}.")
    finding.sentences[:0] = [
        *(
            f"asked for {asked}, but {name_ranks(same)} used no GPU: {why}."
            for why, same in none.items()
        ),
        *(
            f"{name_ranks(same)} used GPU {bus_id}, but the site's GPU {place} is "
            f"{fabric.gpus[place].bus_id}."
            for (place, bus_id), same in other.items()
        ),
        *(
            f"{name_ranks(same)} used a GPU instance ({name}); switch MIG off and measure whole "
            "GPUs."
            for name, same in instances.items()
        ),
    ]
    finding.notes += _notes(ranks, using)
    return finding


def rows_of(ranks: Sequence[RankEvidence]) -> list[dict[str, Any]]:
    """What is stored of the GPU of each rank, in the order of the
    ranks: nothing if it used none.

    Address, model, and as far as the kernel says: its NUMA node, its PCIe link now and at most, and
    its nearest adapters. An idle GPU may lower its link.
    """
    nodes = {
        rank.host: rank
        for rank in ranks
        if rank.node_gpus is not None and rank.adapters is not None
    }
    return [_row_of(rank.gpu, nodes.get(rank.host)) if rank.gpu else {} for rank in ranks]


def _row_of(used: UsedGpu, node: RankEvidence | None) -> dict[str, Any]:
    row: dict[str, Any] = {"gpu": used.bus_id, "gpu_name": used.name}
    gpu = (node.node_gpus or {}).get(used.bus_id) if node else None
    if gpu is None or node is None:
        return row
    near = {
        name: nearness(gpu.path, adapter.path, gpu.numa_node, adapter.numa_node)
        for name, adapter in (node.adapters or {}).items()
    }
    links = (
        (gpu.current_link_speed, gpu.current_link_width),
        (gpu.max_link_speed, gpu.max_link_width),
    )
    return {
        **row,
        "gpu_numa_node": gpu.numa_node,
        "gpu_link": " of ".join(f"{speed} x{width}" for speed, width in links if speed and width),
        "nearest_adapters": sorted(
            name for name, distance in near.items() if distance == min(near.values())
        ),
    }


def _as_instances(ranks: Iterable[RankEvidence]) -> str:
    uuids = {rank.gpu.uuid for rank in ranks if rank.gpu}
    return f", in {len(uuids)} instances" if len(uuids) > 1 else ""


def _check_node(
    host: str, ranks: Sequence[RankEvidence], fabric: Fabric, *, local: bool
) -> list[str]:
    """Sentences on where the GPUs and adapters of one node hang, as far as its kernel says."""
    there: Mapping[str, NodeGpu] = next(
        (rank.node_gpus for rank in ranks if rank.node_gpus is not None), {}
    )
    adapters: Mapping[str, Adapter] = next(
        (rank.adapters for rank in ranks if rank.adapters is not None), {}
    )
    sentences = []
    for place, rank in enumerate(ranks):
        described = fabric.gpus[place] if place < len(fabric.gpus) else None
        gpu = there.get(rank.gpu.bus_id) if rank.gpu else None
        if gpu is None or described is None or rank.gpu is None:
            continue
        name = f"GPU {rank.gpu.bus_id} of {host}"
        said = described.numa_node
        if described.bus_id and spell_bus_id(described.bus_id) != rank.gpu.bus_id:
            continue  # what the site says is about another one
        if None not in (said, gpu.numa_node) and said != gpu.numa_node:
            sentences.append(
                f"{name} is on NUMA node {gpu.numa_node}, but the site says {said}: correct "
                f"numa_node of 'gpus' in {SITE_FILES}."
            )
        elif (
            local
            and None not in (rank.init.numa_node, gpu.numa_node)
            and rank.init.numa_node != gpu.numa_node
        ):
            where = f"cores {format_cpus(rank.init.cpus)} of NUMA node {rank.init.numa_node}"
            sentences.append(
                f"asked for gpu_local, but {rank.name} was on {where} and its GPU is on "
                f"{gpu.numa_node}."
            )
        if described.nic:
            sentences += _check_nic(name, gpu, described.nic, fabric.devices, adapters)
    return sentences


def _check_nic(
    name: str, gpu: NodeGpu, stated: str, devices: Sequence[str], adapters: Mapping[str, Adapter]
) -> list[str]:
    """Sentence if another rail of the fabric is nearer to a GPU than the one
    that the site names; of bonds nothing is known.
    """
    near = {
        device: nearness(gpu.path, adapter.path, gpu.numa_node, adapter.numa_node)
        for device, adapter in adapters.items()
        if device == stated or device in devices
    }
    nearest = min(near, key=near.__getitem__, default=stated)
    if stated not in near or near[stated] == near[nearest]:
        return []
    shares = (
        f"shares {_IN_COMMON[near[nearest].level]} with it, {stated} "
        f"{_IN_COMMON[near[stated].level]}"
    )
    if near[nearest].level == near[stated].level:
        shares = f"is {near[nearest].bridges} PCI bridges away, {stated} {near[stated].bridges}"
    return [
        f"{nearest} is nearer to {name} than {stated} ({nearest} {shares}): correct nic of "
        f"'gpus' in {SITE_FILES}."
    ]


def _notes(ranks: Sequence[RankEvidence], using: Sequence[RankEvidence]) -> list[str]:
    """Which GPU each rank used, contexts on further ones, and the drivers of the nodes."""
    hosts = by_host(using)
    used = [
        f"GPUs of the ranks on {host}: "
        f"{', '.join(f'{rank.rank} on {_text(rank.gpu)}' for rank in there if rank.gpu)}"
        for host, there in list(hosts.items())[:_MOST_NODES]
    ]
    used += (
        [f"GPUs of the ranks on {len(hosts) - _MOST_NODES} more nodes are in the evidence"]
        if len(hosts) > _MOST_NODES
        else []
    )
    used += [
        f"{name_ranks(more)} also had contexts on other GPUs"
        for more in [[rank for rank in using if len(rank.last.gpus) > 1]]
        if more
    ]
    drivers: dict[str, set[str]] = {}
    for rank in ranks:
        for kind in KINDS.values():
            if text := rank.kernel.get(kind.driver):
                drivers.setdefault(f"{kind.driver} {_version(text)}", set()).add(rank.host)
    used += [
        f"{driver} on {', '.join(sorted(there))}"
        for driver, there in drivers.items()
        if len(drivers) > 1
    ]
    return [*used, *([next(iter(drivers))] if len(drivers) == 1 else [])]


def _text(gpu: UsedGpu) -> str:
    return f"{gpu.bus_id} ({gpu.name})" if gpu.name else gpu.bus_id


def _version(text: str) -> str:
    """Release of a driver in what it says of itself: ``NVRM version:
    NVIDIA UNIX x86_64 Kernel Module  535.104.05``.
    """
    found = _DRIVER.search(text)
    return found[0] if found else text
