"""Which network carried what a server and a client exchanged, from the byte counters of both nodes: not less, and not more.

That their interfaces carried at least the payload is what the readers ask (:func:`pair.expect_carried`). Here: that no other
interface or port of a node carried a part of it, and that nobody else used the link.
"""

from __future__ import annotations

import math

from ...evidence.link_state import NOT_UP, RATE, SLOW_SHARE
from ...evidence.traffic import (
    BACKGROUND_FRACTION,
    COUNTING_FRACTION,
    HEADER_BYTES,
    LOOPBACK,
    MIRRORS,
    OTHER_FLOOR_BYTES,
    OTHER_FRACTION,
)
from ...machine.fabric import Fabric
from ...mpis import registry as mpis
from ...printable import format_bytes
from ...suites.pair import End, Exchanged, Pair
from ...vocabulary import SITE_FILES

#: Packets of RDMA carry at least this much (InfiniBand Architecture Specification, volume 1, 5.2.8: the smallest MTU in use),
#: and those of a network whose MTU the site does not say.
LEAST_MTU_BYTES = 1024


def judge(ends: Pair, moved: Exchanged, fabric: Fabric) -> list[str]:
    """Sentences unless the fabric, and nothing else, carried it, between two nodes and as the site describes it.

    :param fabric: as the site describes it, with the one rail that was measured.
    """
    return [*judge_links(ends, fabric), *judge_bytes(ends, moved, fabric)]


def judge_links(ends: Pair, fabric: Fabric) -> list[str]:
    """Sentences unless both links are up, alike, and as the site describes them: what such a link carries it does carry."""
    return [*_unlike(ends, fabric), *_links(ends.server, fabric), *_links(ends.client, fabric)]


def judge_bytes(ends: Pair, moved: Exchanged, fabric: Fabric) -> list[str]:
    """Sentences unless the fabric, and nothing else, carried it between two nodes: else something else was timed."""
    if ends.server.host == ends.client.host:
        return [f"server and client both ran on {ends.server.host}, so that nothing went over {fabric.name}."]
    both = (ends.server, ends.client)
    return [sentence for end in both for sentence in (*_others(end, moved, fabric), *_more(end, moved, fabric))]


def _links(end: End, fabric: Fabric) -> list[str]:
    """The link is up and as the site describes it; of an interface's speed the kernel says something only where it is real."""
    state, mtu, speed = (end.before.link[key] for key in ("operstate", "mtu", "speed"))
    where, sentences = f"{end.interface} of {end.host}", []
    if NOT_UP.fullmatch(state):
        sentences.append(f"the link of {where} is not up (state {state}).")
    if mpis.transport(fabric.transport).interfaces and fabric.mtu_bytes is not None and mtu != str(fabric.mtu_bytes):
        sentences.append(f"the MTU of {where} is {mtu}, the site says {fabric.mtu_bytes} for {fabric.name}.")
    rate, described = _gbit_per_s(speed), fabric.line_rate_gbit_per_s
    if rate is not None and described is not None and rate < SLOW_SHARE * described:
        sentences.append(
            f"{where} came up at {rate:g} Gbit/s, the site says {described:g} for {fabric.name}; see cable and switch port, or "
            f"correct {SITE_FILES}."
        )
    return sentences


def _gbit_per_s(speed: str) -> float | None:
    """Of an interface's Mbit/s, or of a port's rate (``100 Gb/sec (4X EDR)``); ``None`` where there is none."""
    if speed.isdecimal():
        return int(speed) / 1000 or None
    found = RATE.match(speed)
    return float(found[1] or found[2]) if found else None


def _unlike(ends: Pair, fabric: Fabric) -> list[str]:
    """Both ends of a link negotiate one rate, and packets of one size pass."""
    server, client = (end.before.link for end in (ends.server, ends.client))
    return [
        f"{what} of {fabric.name} is {server[key]} on {ends.server.host} and {client[key]} on {ends.client.host}; make them "
        "equal."
        for key, what in (("mtu", "the MTU"), ("speed", "the rate"))
        if server[key] != client[key]
    ]


def _others(end: End, moved: Exchanged, fabric: Fabric) -> list[str]:
    """Other interfaces that carried more than a node's background."""
    if not end.after.others:
        return [f"{end.host} recorded no interface but {end.interface}, so that nothing shows that no other one was used."]
    return name_others(end, fabric, max(OTHER_FLOOR_BYTES, OTHER_FRACTION * (moved.sent + moved.returned)))


def name_others(end: End, fabric: Fabric, most: float = OTHER_FLOOR_BYTES) -> list[str]:
    """A sentence for each other interface or port of a node that carried more than so many bytes."""
    excused = {LOOPBACK, *fabric.tcp_interfaces}
    return [
        f"asked for {fabric.name} ({end.interface}), but {name} of {end.host} carried {format_bytes(carried)} meanwhile."
        for name, carried in end.others_carried().items()
        if carried > most and name not in excused and not MIRRORS.fullmatch(name)
    ]


def most_bytes(moved: Exchanged, fabric: Fabric, seconds: float) -> tuple[float, float]:
    """The most bytes that an exchange puts on the link from client to server, and back, headers and acknowledgements included.

    Each packet has the largest headers there are and is acknowledged by one of its own; added is what the counters of two
    nodes may differ by, what a segment sent again takes, and what others may use of a link before that changes a number.

    :param seconds: how long it took.
    """
    payload = max((fabric.mtu_bytes or LEAST_MTU_BYTES) - HEADER_BYTES, 1)
    packets = [math.ceil(data / payload) + moved.messages if data else 0 for data in (moved.sent, moved.returned)]
    rate = fabric.line_rate_gbit_per_s
    allowed = max(OTHER_FLOOR_BYTES, 0.0 if rate is None else BACKGROUND_FRACTION * rate * 1e9 / 8 * seconds)
    headers = HEADER_BYTES * sum(packets)
    to, fro = ((data + headers) * (1 + COUNTING_FRACTION) + allowed for data in (moved.sent, moved.returned))
    return to, fro


def _more(end: End, moved: Exchanged, fabric: Fabric) -> list[str]:
    """The link carried no more than the two can have sent."""
    to, fro = most_bytes(moved, fabric, end.seconds)
    sent, received = (fro, to) if end.end == "server" else (to, fro)
    return [
        f"somebody else used the link: {end.interface} of {end.host} {verb} {format_bytes(end.bytes_of(counter))}, and the two "
        f"can have exchanged {format_bytes(round(most))} that way, or the link loses packets; measure again when it is quiet."
        for counter, most, verb in (("tx_bytes", sent, "sent"), ("rx_bytes", received, "received"))
        if end.bytes_of(counter) > most
    ]
