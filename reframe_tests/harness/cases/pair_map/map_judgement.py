"""What of a map of pairs is not the network's: bytes that went elsewhere, ranks that had to share cores of one machine; and the
switches above its nodes: those of a file, else those that Slurm tells the job.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ... import optional_file
from ...evidence.checks import format_cpus
from ...evidence.rank_records import Cpus, parse_cpus
from ...instruments.pairs.output import MapOutput
from ...instruments.pairs.pair_values import BANDWIDTH
from ...machine import switches
from ...machine.switch_paths import name_of
from ...machine.switches import SwitchTree
from ...printable import format_bytes
from ...samples import DeviceTraffic
from ...sites import site
from ...vocabulary import BadInput
from ..job import script

#: Beyond what the schedule has: headers (66 of 1514 bytes), acknowledgements of what came in (one of 66 bytes for each packet
#: at worst), what was lost and sent again; and the MPI's own start, steps and reports.
MORE_SENT, MORE_ACKNOWLEDGED, MORE_BYTES = 1.15, 0.06, 8 << 20


class Volume(NamedTuple):
    """Bytes of payload that the schedule has one node send and receive."""

    sent: int
    received: int


def volumes(measured: MapOutput) -> dict[str, Volume]:
    """What the measured bandwidths sent, by node; latencies are too little to count."""
    sent, received = dict.fromkeys(measured.nodes, 0), dict.fromkeys(measured.nodes, 0)
    for value in measured.values:
        if value.quantity == BANDWIDTH and value.value is not None:
            sent[value.source] += value.message_bytes * measured.message_count
            received[value.target] += value.message_bytes * measured.message_count
    return {node: Volume(sent[node], received[node]) for node in measured.nodes}


def judge_bytes(
    measured: MapOutput, devices: Iterable[DeviceTraffic], rails: Collection[str]
) -> tuple[Mapping[str, bool], list[str], list[str]]:
    """Whether each node's links carried what the schedule has, then sentences of those that carried less, then notes on more.

    :param devices: counted around the launch; nodes without a count are in no answer.
    """
    counted: dict[str, list[int]] = {}
    for traffic in devices:
        if traffic.device in rails:
            row = counted.setdefault(name_of(traffic.node), [0, 0])
            row[0] += traffic.tx_bytes
            row[1] += traffic.rx_bytes
    right, less, more = dict[str, bool](), list[str](), list[str]()
    for node, volume in volumes(measured).items():
        if node not in counted:
            continue
        tx, rx = counted[node]
        most = volume.sent * MORE_SENT + volume.received * MORE_ACKNOWLEDGED + MORE_BYTES
        named = f"{node} counted {format_bytes(tx)} sent and {format_bytes(rx)} received"
        scheduled = f"the schedule has {format_bytes(volume.sent)} and {format_bytes(volume.received)}"
        right[node] = volume.sent <= tx <= most and volume.received <= rx
        if tx < volume.sent or rx < volume.received:
            less.append(f"{named}; {scheduled}: some of it took another way.")
        elif tx > most:
            more.append(f"{named}; {scheduled}: much was sent again, or others used the link")
    return right, less, more


def find_shared(ranks: Iterable[Mapping[str, Any]], at_once: float = math.inf) -> str:
    """Which ranks of several nodes had to share the cores of one machine, as part of a sentence; empty: none are known to.

    Nodes of a cluster in a box, and containers, are on one machine where the kernel's ``boot_id`` is one (``random(4)``); nodes
    of different machines have the same numbers of CPUs, and share none.
    """
    machines: dict[str, dict[str, Cpus]] = {}
    for row in ranks:
        machine, cpus = row.get("boot_id"), row.get("cpus_allowed")
        if isinstance(machine, str) and isinstance(cpus, str):
            machines.setdefault(machine, {})[f"{row.get('host')}:{row.get('rank')}"] = parse_cpus(cpus)
    for masks in machines.values():
        for cpus in sorted(set(masks.values()), key=lambda mask: (len(mask), sorted(mask))):
            there = [name.partition(":")[0].partition(".")[0] for name, mask in masks.items() if mask <= cpus]
            if len(set(there)) > 1 and min(len(there), at_once) > len(cpus):
                names = ", ".join(dict.fromkeys(there))
                return f"the ranks of {names} share core{'s'[: len(cpus) != 1]} {format_cpus(cpus)} of one machine"
    return ""


#: Why a map is left out of a partition; fewest nodes of one.
FEW_NODES = "one pair of nodes has nothing to be held against: node_counts of the partition has no more than 2"
FEW_GPUS = "the one pair of a node's two GPUs has nothing to be held against"
FEWEST = 3
ONE_RANK = "one rank on each node, but for the map of a node's GPUs"
#: What Slurm says of its switches when the job starts.
SLURM_FILE = "switches-slurm.txt"
#: Shell line that writes it.
ASK_SLURM = f"scontrol show topology >{SLURM_FILE} 2>/dev/null || true"


def describe_switches(named: str, extras: Mapping[str, Any]) -> SwitchTree | None:
    """The switches that a file describes; ``None`` where none is named. The job's nodes are not known yet.

    :param named: the file (``-S switches=``), else that of the partition's extras.
    :raises BadInput: it cannot be read.
    """
    named = named or extras.get("switches", "")
    if not named:
        return None
    path = optional_file.named(named)
    return switches.read(path if path.is_absolute() else [site.ROOT, *site.LOADED][-1] / path)


def find_switches(described: SwitchTree | None, folder: Path, nodes: Sequence[str]) -> tuple[SwitchTree | None, list[str]]:
    """The switches of a file or of Slurm; and what is wrong with them.

    :param folder: of the job, with what Slurm said.
    """
    faults: list[str] = []
    text = script.beginning_of(folder / SLURM_FILE)
    try:
        tree = described or (switches.read_slurm(text, "Slurm") if switches.is_of_slurm(text) else None)
    except BadInput as error:
        faults, tree = [str(error)], None
    if tree and (wrong := switches.contradiction(tree, nodes)):
        faults.append(wrong)
    return tree, faults
