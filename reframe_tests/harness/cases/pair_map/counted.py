"""Bytes that each node counted on its links against those of the schedule that it sent and received."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ...instruments.pairs.output import MapOutput
from ...instruments.pairs.pair_values import BANDWIDTH
from ...machine.switch_paths import name_of
from ...printable import format_bytes
from ...samples import DeviceTraffic

#: Beyond what the schedule has: headers (66 of 1514 bytes), acknowledgements of what came in (one of 66 bytes for each packet
#: at worst), what was lost and sent again; and the MPI's own start, steps and reports.
MORE_SENT, MORE_ACKNOWLEDGED, MORE_BYTES = 1.15, 0.06, 8 << 20


class Volume(NamedTuple):
    """Bytes of payload that the schedule has one node send and receive."""

    sent: int
    received: int


def volumes(found: MapOutput) -> dict[str, Volume]:
    """What the measured bandwidths sent, by node; latencies are too little to count."""
    sent, received = dict.fromkeys(found.nodes, 0), dict.fromkeys(found.nodes, 0)
    for one in found.values:
        if one.quantity == BANDWIDTH and one.value is not None:
            sent[one.source] += one.message_bytes * found.message_count
            received[one.target] += one.message_bytes * found.message_count
    return {node: Volume(sent[node], received[node]) for node in found.nodes}


def judge(
    found: MapOutput, devices: Iterable[DeviceTraffic], rails: Collection[str]
) -> tuple[Mapping[str, bool], list[str], list[str]]:
    """Whether each node's links carried what the schedule has, then sentences of those that carried less, then notes on more.

    :param devices: counted around the launch; nodes without a count are in no answer.
    :param rails: the fabric's devices.
    """
    counted: dict[str, list[int]] = {}
    for one in devices:
        if one.device in rails:
            row = counted.setdefault(name_of(one.node), [0, 0])
            row[0] += one.tx_bytes
            row[1] += one.rx_bytes
    right, less, more = dict[str, bool](), list[str](), list[str]()
    for node, volume in volumes(found).items():
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
