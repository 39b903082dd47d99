"""Who used the link: bytes around a run beyond what its ranks can have sent are somebody else's.

Two arguments, neither of which models a benchmark or an MPI's algorithms:

*sockets* (TCP): the kernel counts for each connection of the ranks the payload it sent, what it sent again, and its packets in
both directions (``TCP_INFO``, Linux 4.19). With the largest headers a packet can have, that is the most the ranks can have put
on the wire, retransmissions, acknowledgements, warm-up and the MPI's own messages included.

*balance* (where no sockets are counted): what messages between a pair of ranks, or between neighbours, brings onto the link
leaves one node of the job and arrives at another. More sent than received, or the other way, came from or went to somebody
outside the job. Traffic of others between the very nodes of the job is not seen. Collectives are left out: a switch may add up
or multiply their packets (SHARP, multicast).

A loopback is not a link: what others do there costs processor time and shows in the ranks' context switches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..machine.fabric import Fabric
from ..mpis import registry as mpis
from ..printable import format_bytes
from .counters import (
    COUNTER_LAG_S,
    LOOPBACK,
    OTHER_FLOOR_BYTES,
    OTHER_FRACTION,
    Finding,
    NodeTraffic,
    counter_names,
    node_traffic,
)
from .rank_records import RankEvidence, TcpPair, TcpWire

#: Largest headers of a TCP packet in bytes as an interface counts them: Ethernet 14 and a VLAN tag 4 (IEEE 802.3), IPv6 40
#: (RFC 8200), TCP 20 with 40 of options (RFC 9293, section 3.1). IPv4 with time stamps has 66: the bound is 3.4 % above what
#: full packets at an MTU of 1500 take.
HEADER_BYTES = 118
#: Part by which one node's count of a message may differ from another's: a driver may count the headers of a large send once
#: (veth, virtio_net), and the receiver those of each packet, at most :data:`HEADER_BYTES` of 1500.
COUNTING_FRACTION = 0.08
#: Share of a link that others may use before a number measured beside them says nothing about it: batch system, monitoring,
#: logs and the job's own files on a network that carries everything. A fifth of the 5 % a link is gated by.
BACKGROUND_FRACTION = 0.01
#: Drivers that count a packet when they see it. Hardware of others may hand its counters over late, and then what an earlier
#: launch sent within :data:`COUNTER_LAG_S` appears in this one's (Linux, drivers/net, ``ndo_get_stats64``).
IMMEDIATE: tuple[str, ...] = (
    "veth",
    "virtio_net",
    "vmxnet3",
    "hv_netvsc",
    "ena",
    "gve",
    "e1000e",
    "igb",
    "ixgbe",
    "i40e",
    "ice",
)
IMMEDIATE += ("ice", "mlx4_en", "mlx5_core")
#: Nodes named in one sentence.
MOST_NAMED = 3

#: Two addresses, from and to.
Way = tuple[str, str]


@dataclass(frozen=True)
class NodeUse:
    """Bytes on the fabric's links of one node, and the most of them that can be the ranks' own; ``None``: not known.

    :param allowed: bytes of others that change no number.
    """

    host: str
    sent: int
    received: int
    most_sent: int | None
    most_received: int | None
    allowed: float

    @property
    def foreign_sent(self) -> int:
        """Bytes sent that are certainly not the ranks'."""
        return 0 if self.most_sent is None else max(self.sent - self.most_sent, 0)

    @property
    def foreign_received(self) -> int:
        """Bytes received that are certainly not for the ranks."""
        return 0 if self.most_received is None else max(self.received - self.most_received, 0)

    def as_dict(self) -> dict[str, Any]:
        return {
            "node": self.host,
            "sent_bytes": self.sent,
            "received_bytes": self.received,
            "most_sent_bytes": self.most_sent,
            "most_received_bytes": self.most_received,
            "allowed_bytes": round(self.allowed),
        }


@dataclass
class UseFinding(Finding):
    """What is to be said about others on the link: a sentence means that the numbers are not the link's."""

    nodes: list[NodeUse] = field(default_factory=list)


def check_use(ranks: Sequence[RankEvidence], fabric: Fabric, *, balanced: bool, files: bool = False) -> UseFinding:
    """Judge whether somebody else used the fabric's links.

    :param balanced: every byte the benchmark sends on the fabric arrives at another node of the job (no collectives).
    :param files: the benchmark reads and writes files, whose bytes a network file system may send over the same link: nobody
        can say whose they are, and nothing is judged.
    """
    rails = counter_names(fabric)
    traffic = node_traffic(ranks)
    if not rails or LOOPBACK in rails or any(rail not in node.counted for node in traffic for rail in rails):
        return UseFinding()  # no link, or which node lacks a rail is said elsewhere
    most = most_sent(ranks)
    by_host = {host: [rank for rank in ranks if rank.host == host] for host in {rank.host for rank in ranks}}
    if mpis.transport(fabric.transport).connections:
        nodes = [_use(node, by_host[node.host], fabric, rails, most) for node in traffic]
        finding = UseFinding(_exceeded(nodes, ", ".join(rails), fabric), nodes=nodes)
    else:
        beside = {node.host: same_port(by_host[node.host][0], fabric) for node in traffic}
        shared = [_use(node, by_host[node.host], fabric, beside[node.host], most) for node in traffic]
        nodes = [_use(node, by_host[node.host], fabric, rails, None) for node in traffic]
        names = ", ".join(dict.fromkeys(name for row in beside.values() for name in row))
        finding = UseFinding(_exceeded(shared, names, fabric), nodes=nodes)
    if files:
        why = f"who else used {fabric.name} is not judged: files may have gone over it, and are in no rank's connection"
        return UseFinding(notes=[why], nodes=finding.nodes)
    if balanced and not finding.sentences and any(node.most_sent is None for node in nodes):
        finding.sentences += _unbalanced(nodes, fabric)
    return finding


def most_sent(ranks: Sequence[RankEvidence]) -> dict[Way, int] | None:
    """The most bytes, headers included, that the ranks' connections can have put on the wire, per way between two addresses.

    ``None`` where some of their bytes are in no count. Each way is counted at both ends; what one end lost, since it closed a
    connection, the other still knows.
    """
    ends: tuple[dict[Way, int], dict[Way, int]] = ({}, {})
    lost: tuple[set[Way], set[Way]] = (set(), set())
    own = _addresses(ranks)
    for rank in ranks:
        if rank.finalize is None or not (rank.init.tcp_known and rank.finalize.tcp_known):
            return None
        for local, peer, start, end in rank.connections:
            if peer in own[rank.host]:
                continue  # stays on the node
            grown = _growth(start, end)
            if grown is None:
                return None
            for way, count, side in (((local, peer), grown[0], 0), ((peer, local), grown[1], 1)):
                ends[side][way] = ends[side].get(way, 0) + max(count, 0)
                if count < 0:
                    lost[side].add(way)
    ways = ends[0].keys() | ends[1].keys()
    if any(all(way in lost[end] or way not in ends[end] for end in (0, 1)) for way in ways):
        return None
    return {way: max(ends[0].get(way, 0), ends[1].get(way, 0)) for way in ways}


def _addresses(ranks: Sequence[RankEvidence]) -> dict[str, set[str]]:
    own: dict[str, set[str]] = {}
    for rank in ranks:
        own.setdefault(rank.host, set()).update(a for facts in rank.interfaces.values() for a in facts.addresses)
    return own


def _growth(before: TcpPair | None, after: TcpPair | None) -> tuple[int, int] | None:
    """Most bytes sent and received between two addresses; -1 where a connection was closed, ``None`` where nobody counts."""
    if after is None or (before is not None and after.count < before.count):
        return (-1, -1)
    if after.wire is None or (before is not None and before.wire is None):
        return None
    old = before.wire if before is not None and before.wire is not None else TcpWire(0, 0, 0, 0)
    received = after.received - (before.received if before else 0)
    counts = (after.wire.out - old.out, after.wire.segments_out - old.segments_out, after.wire.segments_in - old.segments_in)
    if min(*counts, received) < 0:
        return (-1, -1)
    return counts[0] + counts[1] * HEADER_BYTES, received + counts[2] * HEADER_BYTES


def same_port(rank: RankEvidence, fabric: Fabric) -> list[str]:
    """Interfaces on the very ports of an RDMA fabric over Ethernet, whose own counters leave their bytes out."""
    ports = [(rank.ports.get(f"{rail.device}/{rail.port}"), rail.port) for rail in fabric.rails]
    return [
        name
        for name, facts in rank.interfaces.items()
        for port, number in ports
        if port and port.link_layer == "Ethernet" and facts.slot and (facts.slot, facts.dev_port + 1) == (port.slot, number)
    ]


def _use(
    node: NodeTraffic, ranks: Sequence[RankEvidence], fabric: Fabric, names: Sequence[str], most: Mapping[Way, int] | None
) -> NodeUse:
    """Use of some of a node's counters by all, and by its ranks."""
    own = _addresses(ranks)[node.host]
    counted = [node.counted[name] for name in names if name in node.counted]
    sent, received = sum(count.tx or 0 for count in counted), sum(count.rx or 0 for count in counted)
    return NodeUse(
        host=node.host,
        sent=sent,
        received=received,
        most_sent=None if most is None else sum(count for (local, _), count in most.items() if local in own),
        most_received=None if most is None else sum(count for (_, peer), count in most.items() if peer in own),
        allowed=_allowed(node, ranks[0], fabric, names, max(sent, received)),
    )


def _allowed(node: NodeTraffic, rank: RankEvidence, fabric: Fabric, names: Sequence[str], carried: int) -> float:
    """Bytes of others on one node that prove nothing: background, and what a late counter still had of an earlier launch."""
    rate = fabric.line_rate_gbit_per_s
    if rate is None:
        return OTHER_FLOOR_BYTES + OTHER_FRACTION * carried
    late_s = COUNTER_LAG_S if any(_may_lag(rank, name) for name in names) else 0.0
    return OTHER_FLOOR_BYTES + rate * 1e9 / 8 * (BACKGROUND_FRACTION * node.seconds + late_s)


def _may_lag(rank: RankEvidence, name: str) -> bool:
    """Whether an interface, or one it sits on, is hardware whose driver is not known to count at once; RDMA ports do."""
    facts = rank.interfaces.get(name)
    if facts is None:
        return False
    driver = (rank.kernel.get(f"driver of {name}") or "").partition(" ")[0]
    return (facts.slot is not None and driver not in IMMEDIATE) or any(_may_lag(rank, below) for below in facts.lower)


def _exceeded(nodes: Sequence[NodeUse], names: str, fabric: Fabric) -> list[str]:
    """Sentence for nodes whose links carried more than the ranks' bytes."""
    said = []
    for node in nodes:
        for what, own, more, most in (
            ("sent", "its ranks can have sent", node.foreign_sent, node.most_sent),
            ("received", "its ranks can have been sent", node.foreign_received, node.most_received),
        ):
            if more > node.allowed:
                said.append(
                    (more, f"{names} of {node.host} {what} {format_bytes(more)} more than the {format_bytes(most or 0)} {own}")
                )
    return _sentence([text for _, text in sorted(said, reverse=True)], fabric)


def _unbalanced(nodes: Sequence[NodeUse], fabric: Fabric) -> list[str]:
    """Sentence when the job's nodes did not receive what they sent: of two nodes each way by itself, of more their sums."""
    if len(nodes) == 2:
        pairs = [((a.host, a.sent), (b.host, b.received)) for a, b in (tuple(nodes), tuple(reversed(nodes)))]
    elif len(nodes) > 2:
        sums = sum(node.sent for node in nodes), sum(node.received for node in nodes)
        pairs = [(("all nodes together", sums[0]), ("the same nodes", sums[1]))]
    else:
        return []
    allowed = sum(node.allowed for node in nodes)
    said = []
    for (sender, sent), (receiver, received) in pairs:
        if abs(sent - received) > allowed + COUNTING_FRACTION * min(sent, received):
            most, least = (sent, received) if sent > received else (received, sent)
            said.append(
                f"{sender} sent {format_bytes(sent)} and {receiver} received {format_bytes(received)}, "
                f"{format_bytes(most - least)} {'more' if sent < received else 'less'}"
            )
    return _sentence(said, fabric)


def _sentence(said: Sequence[str], fabric: Fabric) -> list[str]:
    if not said:
        return []
    rest = f" and so on ({len(said)} in all)" if len(said) > MOST_NAMED else ""
    return [
        f"somebody else used the link: {', '.join(said[:MOST_NAMED])}{rest}; this says nothing about {fabric.name}, measure "
        "again when nobody else uses it (exclusive nodes)."
    ]
