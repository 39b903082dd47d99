"""What of a map of pairs is not the network's: bytes that went elsewhere, ranks that had to share
cores of one machine; and the switches above its nodes: those of a file, else those that Slurm tells
the job.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ... import optional_file
from ...evidence.checks import format_cpus
from ...evidence.link_state import PORT_GUID
from ...evidence.rank_records import Cpus, parse_cpus
from ...evidence.traffic import counter_names
from ...instruments.pairs.output import MapOutput
from ...instruments.pairs.pair_values import BANDWIDTH
from ...machine import switches
from ...machine.cabling import FabricPort
from ...machine.fabric import Fabric
from ...machine.switch_paths import name_of
from ...machine.switches import Description, SwitchTree
from ...mpis import registry as mpis
from ...printable import format_bytes
from ...samples import DeviceTraffic, Evidence
from ...sites import site
from ...vocabulary import BadInput
from ..job import script

#: Beyond what the schedule has: headers (66 of 1514 bytes), acknowledgements of what came in (one
#: of 66 bytes for each packet at worst), what was lost and sent again; and the MPI's own start,
#: steps and reports.
MORE_SENT = 1.15
MORE_ACKNOWLEDGED = 0.06
MORE_BYTES = 8 << 20


class Volume(NamedTuple):
    """Bytes of payload that the schedule has one node send and receive."""

    sent: int
    received: int


def volumes(measured: MapOutput) -> dict[str, Volume]:
    """What the measured bandwidths sent, by node; latencies are too little to count."""
    size = measured.values.message_bytes(BANDWIDTH) * measured.message_count
    source, target, _ = measured.values.measured(BANDWIDTH)
    sent = Counter(source)
    received = Counter(target)
    return {
        node: Volume(size * sent[at], size * received[at]) for at, node in enumerate(measured.nodes)
    }


def judge_bytes(
    measured: MapOutput, devices: Iterable[DeviceTraffic], rails: Collection[str]
) -> tuple[Mapping[str, bool], list[str], list[str]]:
    """Whether each node's links carried what the schedule has, then sentences
    of those that carried less, then notes on more.

    :param devices: counted around the launch; nodes without a count are in no answer.
    """
    counted: dict[str, list[int]] = {}
    for traffic in devices:
        if traffic.device in rails:
            row = counted.setdefault(name_of(traffic.node), [0, 0])
            row[0] += traffic.tx_bytes
            row[1] += traffic.rx_bytes
    right = dict[str, bool]()
    less = list[str]()
    more = list[str]()
    for node, volume in volumes(measured).items():
        if node not in counted:
            continue
        tx, rx = counted[node]
        most = volume.sent * MORE_SENT + volume.received * MORE_ACKNOWLEDGED + MORE_BYTES
        named = f"{node} counted {format_bytes(tx)} sent and {format_bytes(rx)} received"
        scheduled = (
            f"the schedule has {format_bytes(volume.sent)} and {format_bytes(volume.received)}"
        )
        right[node] = volume.sent <= tx <= most and volume.received <= rx
        if tx < volume.sent or rx < volume.received:
            less.append(f"{named}; {scheduled}: some of it took another way.")
        elif tx > most:
            more.append(f"{named}; {scheduled}: much was sent again, or others used the link")
    return right, less, more


def find_shared(ranks: Iterable[Mapping[str, Any]], at_once: float = math.inf) -> str:
    """Which ranks of several nodes had to share the cores of one machine, as
    part of a sentence; empty: none are known to.

    Nodes of a cluster in a box, and containers, are on one machine where the kernel's ``boot_id``
    is one (``random(4)``); nodes of different machines have the same numbers of CPUs, and share
    none.
    """
    machines: dict[str, dict[str, Cpus]] = {}
    for row in ranks:
        machine = row.get("boot_id")
        cpus = row.get("cpus_allowed")
        if isinstance(machine, str) and isinstance(cpus, str):
            machines.setdefault(machine, {})[f"{row.get('host')}:{row.get('rank')}"] = parse_cpus(
                cpus
            )
    for masks in machines.values():
        for cpus in sorted(set(masks.values()), key=lambda mask: (len(mask), sorted(mask))):
            there = [
                name.partition(":")[0].partition(".")[0]
                for name, mask in masks.items()
                if mask <= cpus
            ]
            if len(set(there)) > 1 and min(len(there), at_once) > len(cpus):
                names = ", ".join(dict.fromkeys(there))
                return (
                    f"the ranks of {names} share core{'' if len(cpus) == 1 else 's'} "
                    f"{format_cpus(cpus)} of one machine"
                )
    return ""


#: Why a map is left out of a partition; fewest nodes of one.
FEW_NODES = (
    "one pair of nodes has nothing to be compared with: node_counts of the partition has no more "
    "than 2"
)
FEW_GPUS = "the one pair of a node's two GPUs has nothing to be compared with"
FEWEST = 3
ONE_RANK = "one rank on each node, but for the map of a node's GPUs"
#: What Slurm says of its switches when the job starts.
SLURM_FILE = "switches-slurm.txt"
#: Shell line that writes it.
ASK_SLURM = f"scontrol show topology >{SLURM_FILE} 2>/dev/null || true"


#: Share of what a fabric's rails carried from which on a rail is one that the messages took.
_TAKEN = 0.05


def ports_of(fabric: Fabric, evidence: Evidence | None = None) -> list[FabricPort]:
    """The rails of a fabric that the messages took, as they are
    sought among what is plugged into switches.

    :param evidence: of the launch; ``None``: not known yet, all may be taken.
    """
    by_name = not mpis.transport(fabric.transport).interfaces
    names = counter_names(fabric)
    carried = dict.fromkeys(names, 0)
    guids: dict[str, dict[str, str]] = {name: {} for name in names}
    for row in evidence.devices if evidence else ():
        if row.device in carried:
            carried[row.device] += row.tx_bytes
    for link in evidence.links if evidence else ():
        if link["link"] in guids and PORT_GUID in link:
            guids[link["link"]][name_of(str(link["node"]))] = str(link[PORT_GUID])
    least = _TAKEN * sum(carried.values())
    return [
        FabricPort(rail.device if by_name else None, rail.port, guids[name])
        for rail, name in zip(fabric.rails, names, strict=True)
        if fabric.striped or carried[name] >= least
    ]


def describe_switches(named: str, extras: Mapping[str, Any], fabric: Fabric) -> Description | None:
    """The file that describes the switches, which can be read; ``None`` where none is named.

    :param named: the file (``-S switches=``), else that of the partition's extras.
    :raises BadInput: it cannot be read.
    """
    named = named or extras.get("switches", "")
    if not named:
        return None
    path = optional_file.named(named)
    described = switches.read(path if path.is_absolute() else [site.ROOT, *site.LOADED][-1] / path)
    described.tree(ports_of(fabric))
    return described


def find_switches(
    described: Description | None, rails: Sequence[FabricPort], folder: Path, nodes: Sequence[str]
) -> tuple[SwitchTree | None, list[str]]:
    """The switches of a file or of Slurm; and what is wrong with them.

    :param rails: that the messages took.
    :param folder: of the job, with what Slurm said.
    """
    faults: list[str] = []
    text = script.beginning_of(folder / SLURM_FILE)
    try:
        if described:
            tree: SwitchTree | None = described.tree(rails, nodes)
        else:
            tree = switches.read_slurm(text, "Slurm") if switches.is_of_slurm(text) else None
    except BadInput as error:
        faults = [str(error)]
        tree = None
    if tree and (wrong := switches.contradiction(tree, nodes)):
        faults.append(wrong)
    return tree, faults
