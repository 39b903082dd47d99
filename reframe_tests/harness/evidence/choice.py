"""Which network an MPI took where nothing forced one: found in what the ranks' sockets and the network cards counted.

The plain start of a user is measured as it is, so the MPI is not asked to say what it chose. Bytes say it: between nodes each
of them is counted on the card that sent it. Where the ranks' own TCP sockets are all known and had bytes to send, they say it
exactly; else the cards' counters do, as soon as the benchmark has sent more than a node sends anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..machine.fabric import Fabric
from ..mpis import registry as mpis
from ..printable import format_bytes
from ..vocabulary import SITE_FILES
from .counters import (
    LOOPBACK,
    MIRRORS,
    OTHER_FLOOR_BYTES,
    OTHER_FRACTION,
    SHORTFALL_FRACTION,
    NodeTraffic,
    counter_names,
    total_sent,
)


@dataclass(frozen=True)
class Choice:
    """What one launch took.

    :param network: name of the fabric that carried everything; else the devices, ``eth1 + eth2``; empty where too little was
        sent to see it.
    :param fabric: the fabric, where it was one of those that the partition describes.
    :param sentences: contradictions.
    :param notes: how the bytes were shared by several devices.
    :param too_little: something was sent, and too little to show where.
    """

    network: str = ""
    fabric: Fabric | None = None
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    too_little: bool = False


def name_networks(networks: Iterable[str]) -> str:
    """What several launches took, each once: ``eth1g``, or ``eth1g / eth1 + eth2`` where it was not the same for all."""
    return " / ".join(sorted({network for network in networks if network}))


def judge_case(fabric: Fabric, launches: Sequence[Choice]) -> list[str]:
    """What a case lacks as a whole: one launch at least must show that the network is the expected one."""
    if not fabric.expect or any(row.network for row in launches) or not any(row.too_little for row in launches):
        return []
    return [
        f"nothing was forced and the site expects {fabric.expect}, but no launch sent enough on {fabric.name} to show which "
        "network it took; measure larger messages (-S level=nightly)."
    ]


def find_choice(nodes: Sequence[NodeTraffic], fabric: Fabric, expected_bytes: float) -> Choice:
    """What the ranks of one launch took of ``fabric.choices``, or else.

    :param expected_bytes: lower bound of the payload that all nodes together must have sent.
    """
    if not nodes:
        return Choice(sentences=(f"no rank left counters, so nothing shows what {fabric.name} took.",))
    if problems := tuple(problem for node in nodes for problem in node.problems):
        return Choice(sentences=problems)
    limit = max(OTHER_FLOOR_BYTES * len(nodes), OTHER_FRACTION * expected_bytes)
    if expected_bytes <= limit:
        return Choice(too_little=expected_bytes > 0)
    carried = {name: sent for name, sent in _carried(nodes, expected_bytes).items() if sent > limit}
    if not fabric.within_node:
        carried.pop(LOOPBACK, None)  # ranks of one node that did not use shared memory
    if sum(carried.values()) < (1 - SHORTFALL_FRACTION) * expected_bytes:
        return _uncounted(fabric, carried, expected_bytes)
    taken = next((each for each in fabric.choices if _is_taken(each, carried)), None)
    network = taken.name if taken else " + ".join(sorted(carried))
    notes = (f"nothing was forced, and several networks were used at once: {_shares(carried)}",) if len(carried) > 1 else ()
    return Choice(network, taken, _unexpected(fabric, network, carried), () if taken else notes)


def _carried(nodes: Sequence[NodeTraffic], expected_bytes: float) -> dict[str, int]:
    """Bytes per device, most first: by the ranks' sockets where they have it all, else by the cards; each wire once."""
    if all(node.ranks_known for node in nodes):
        sent: dict[str, int] = {}
        for node in nodes:
            for name, count in node.sent_by_ranks.items():
                sent[name] = sent.get(name, 0) + count
        if sum(sent.values()) >= (1 - SHORTFALL_FRACTION) * expected_bytes:
            return dict(sorted(sent.items(), key=lambda row: (-row[1], row[0])))
    again: set[str] = set()
    kept: dict[str, int] = {}
    total = total_sent(nodes)
    # Of a wire that is counted twice, the port of an RDMA device says more than the interface above it.
    for name in sorted(total, key=lambda name: (-total[name], "/" not in name, name)):
        if name not in again and not MIRRORS.fullmatch(name):
            kept[name] = total[name]
            again |= {other for node in nodes for other in node.same_wire.get(name, ())}
    return kept


def _is_taken(fabric: Fabric, carried: Mapping[str, int]) -> bool:
    """Whether all that was carried went over rails of a fabric."""
    return not mpis.transport(fabric.transport).in_memory and set(carried) <= {*counter_names(fabric)}


def _uncounted(fabric: Fabric, carried: Mapping[str, int], expected_bytes: float) -> Choice:
    """Most of the bytes are in no counter: inside a node they were in memory, between nodes nothing shows where they went."""
    memory = next((each for each in fabric.choices if mpis.transport(each.transport).in_memory), None)
    if fabric.within_node and not carried:
        network = memory.name if memory else "shared memory"
        return Choice(network, memory, _unexpected(fabric, network, carried))
    shown = _shares(carried) or "no device carried more than a node sends anyway"
    return Choice(
        sentences=(
            f"nothing shows which network carried {format_bytes(expected_bytes)} of {fabric.name}: {shown}; describe the "
            f"network in {SITE_FILES}, or measure where its cards count bytes.",
        )
    )


def _shares(carried: Mapping[str, int]) -> str:
    """``eth1 61 %, eth2 39 %``."""
    total = sum(carried.values())
    return ", ".join(f"{name} {100 * sent / total:.0f} %" for name, sent in carried.items())


def _unexpected(fabric: Fabric, network: str, carried: Mapping[str, int]) -> tuple[str, ...]:
    """The sentence for a network that is not the one the site expects."""
    if not fabric.expect or network == fabric.expect:
        return ()
    listed = ", ".join(f"{name} carried {format_bytes(sent)}" for name, sent in carried.items())
    what = f" ({listed})" if listed else ""
    return (f"nothing was forced and the site expects {fabric.expect}, but the MPI took {network}{what}.",)
