"""Which network carried the bytes: counters around a run against the fabric that was asked for.

There are two sources. The kernel's counters of each interface and RDMA port see every byte of a node, whoever sent
it; the ranks' own TCP sockets (``TCP_INFO``) show whose bytes they were, but not which card they left through. A
fabric is proven by both where both speak; traffic of others on a shared node is distinguished only with the second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..machine.fabric import Fabric
from ..mpis import registry as mpis
from ..printable import format_bytes
from ..vocabulary import SITE_FILES
from .rank_records import Bytes, RankEvidence

#: Part of the expected bytes that may be missing: the expectation counts what a benchmark says it sent, and warm-up,
#: padding and the moments of reading leave a few per mille of play; a fallback to another network misses nearly all.
SHORTFALL_FRACTION = 0.05
#: Part of the expected bytes another network may carry: launcher, file system and other users of the node.
OTHER_FRACTION = 0.05
#: Bytes per node another network may carry whatever was expected: output through the launcher, monitoring, and what is
#: left of wiring up the ranks (0.2 MB a rank with Open MPI 5.0 and PMIx, nearly all of it inside MPI_Init).
OTHER_FLOOR_BYTES = 1_000_000
#: Adapters that copy their counters to the host on a timer do it about once a second (tg3, bnx2, bnxt_en: ethtool(8)
#: ``stats-block-usecs``, by default 1000000 in these drivers); the last second may not be counted yet.
COUNTER_LAG_S = 1.0
#: Largest value in bytes of a 32-bit port counter, which stays there (InfiniBand Architecture Specification, volume 1,
#: PortCounters).
SATURATED_BYTES = 4 * (2**32 - 1)
#: The kernel's loopback interface (Linux, drivers/net/loopback.c): nothing on it ever leaves the node.
LOOPBACK = "lo"
#: Interfaces that only see other interfaces' packets a second time (ifb: Linux, drivers/net/ifb.c).
MIRRORS = re.compile(r"ifb\d+")
#: Variables that choose a network; those set are quoted when the wrong one was used.
CHOOSERS = (
    "I_MPI_FABRICS",
    "I_MPI_OFI_PROVIDER",
    "FI_PROVIDER",
    "FI_TCP_IFACE",
    "UCX_TLS",
    "UCX_NET_DEVICES",
    "OMPI_MCA_pml",
    "OMPI_MCA_btl",
    "OMPI_MCA_btl_tcp_if_include",
    "OMPI_MCA_mtl",
    "PSM2_DEVICES",
    "PSM2_MULTIRAIL",
    "UCX_MAX_EAGER_RAILS",
    "UCX_MAX_RNDV_RAILS",
    "UCX_MAX_RMA_RAILS",
    "MPIR_CVAR_CH4_NETMOD",
    "MPIR_CVAR_NOLOCAL",
    "MPIR_CVAR_CH3_NOLOCAL",
    "MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE",
    "MV2_IBA_HCA",
    "MVP_IBA_HCA",
)


@dataclass(frozen=True)
class NodeTraffic:
    """Bytes of one node between its first rank's MPI_Init and its last rank's MPI_Finalize.

    :param present: interfaces and ports the node had when the run began.
    :param counted: received and sent bytes per interface (``eth1``) and port (``mlx5_0/1``) that can be believed.
    :param sent_by_ranks: bytes the ranks' own TCP sockets sent, per interface their addresses belong to.
    :param ranks_known: true when ``sent_by_ranks`` covers every IP socket the ranks had.
    :param same_wire: per name, others that count the same bytes again (bond and member, IPoIB and its port).
    :param problems: sentences about counters that cannot be believed.
    """

    host: str
    seconds: float
    present: frozenset[str]
    counted: Mapping[str, Bytes]
    sent_by_ranks: Mapping[str, int]
    ranks_known: bool
    same_wire: Mapping[str, frozenset[str]]
    problems: tuple[str, ...] = ()


@dataclass
class Finding:
    """What a check says about one run.

    :param sentences: contradictions; empty when the fabric is proven.
    :param notes: what is no contradiction (traffic of others, an idle rail).
    """

    sentences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class TrafficFinding(Finding):
    """Of the counters.

    :param carried: bytes sent per interface or port, summed over nodes.
    """

    carried: dict[str, int] = field(default_factory=dict)


def node_traffic(ranks: Sequence[RankEvidence]) -> list[NodeTraffic]:
    """Traffic of each node, by host name; ranks that never finalised are left out, and nodes with only such ranks."""
    hosts: dict[str, list[RankEvidence]] = {}
    for rank in ranks:
        if rank.finalize is not None:
            hosts.setdefault(rank.host, []).append(rank)
    arrived = _received(rank for there in hosts.values() for rank in there)
    return [_node(host, hosts[host], arrived) for host in sorted(hosts)]


@dataclass(frozen=True)
class Arrived:
    """Bytes received by all ranks, per (sending address, receiving address).

    A connection that was opened late and closed before the last snapshot left no trace at that end (Open MPI's tcp BTL closes
    its socket when the peer finalises first); the other end still knows what came over it.

    :param incomplete: ways of which a receiver closed a connection, too.
    """

    received: Mapping[tuple[str, str], int]
    incomplete: frozenset[tuple[str, str]]

    def knows(self, way: tuple[str, str]) -> bool:
        """Whether the receivers tell all that came this way."""
        return way in self.received and way not in self.incomplete


def _received(ranks: Iterable[RankEvidence]) -> Arrived:
    """What the receiving ends tell of all ranks' connections."""
    arrived: dict[tuple[str, str], int] = {}
    incomplete: set[tuple[str, str]] = set()
    for local, peer, start, end in (row for rank in ranks for row in rank.connections):
        grown = end.received - (start.received if start else 0) if end else -1
        if end:
            arrived[peer, local] = arrived.get((peer, local), 0) + max(grown, 0)
        if grown < 0 or (start and end and end.count < start.count):
            incomplete.add((peer, local))
    return Arrived(arrived, frozenset(incomplete))


def _node(host: str, ranks: Sequence[RankEvidence], arrived: Arrived) -> NodeTraffic:
    ends = [rank.finalize for rank in ranks if rank.finalize is not None]
    first = min((rank.init for rank in ranks), key=lambda snapshot: snapshot.monotonic_ns)
    last = max(ends, key=lambda snapshot: snapshot.monotonic_ns)
    counted: dict[str, Bytes] = {}
    problems: list[str] = []
    for before, after in ((first.interfaces, last.interfaces), (first.ports, last.ports)):
        for name in before:
            if name not in after:
                problems.append(f"{name} on {host} vanished during the run; what it carried is unknown.")
        for name, end in after.items():
            start = before.get(name, Bytes(0, 0))  # it appeared during the run: all of it counts
            rx, tx = _growth(start.rx, end.rx), _growth(start.tx, end.tx)
            if any(grown is not None and grown < 0 for grown in (rx, tx)):
                problems.append(
                    f"the byte counters of {name} on {host} went backwards during the run (reset or overflow), so they "
                    "prove nothing; run the case again."
                )
            elif name in last.ports and SATURATED_BYTES in (end.rx, end.tx):
                problems.append(
                    f"a byte counter of {name} on {host} stands at its 32-bit limit and no longer counts; reset it "
                    "(perfquery -R) or update the driver."
                )
            else:
                counted[name] = Bytes(rx, tx)
    sent, known = _sent_by_ranks(ranks, arrived)
    return NodeTraffic(
        host=host,
        seconds=(last.monotonic_ns - first.monotonic_ns) / 1e9,
        present=frozenset((*first.interfaces, *first.ports)),
        counted=counted,
        sent_by_ranks=sent,
        ranks_known=known,
        same_wire=_same_wire(ranks[0], counted),
        problems=tuple(problems),
    )


def _growth(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _sent_by_ranks(ranks: Sequence[RankEvidence], arrived: Arrived) -> tuple[dict[str, int], bool]:
    """Bytes the ranks' TCP sockets sent per interface, and whether no socket escaped the count.

    A connection that was closed took its count with it, and another node's end may still know it: where two ranks connect to
    each other at once, one of the two connections is closed after MPI_Init (UCX, wireup of the tcp transport).

    :param arrived: what the ranks of all nodes received.
    """
    owner = {address: name for rank in ranks for name, facts in rank.interfaces.items() for address in facts.addresses}
    loopback = owner.get("127.0.0.1", "lo")
    ways: dict[tuple[str, str], int] = {}
    known, lost = True, set[tuple[str, str]]()
    for rank in ranks:
        known &= rank.init.tcp_known and rank.finalize is not None and rank.finalize.tcp_known
        for local, peer, start, end in rank.connections:
            grown = end.sent - (start.sent if start else 0) if end else -1
            if end:
                ways[local, peer] = ways.get((local, peer), 0) + max(grown, 0)
            if grown < 0 or (start and end and end.count < start.count):
                lost.add((local, peer))
    known &= all(peer not in owner and arrived.knows((local, peer)) for local, peer in lost)
    for way, received in arrived.received.items():
        if way[0] in owner and way[1] not in owner:
            ways[way] = max(ways.get(way, 0), received)
    sent: dict[str, int] = {}
    for (local, peer), count in ways.items():
        # Between two addresses of one node the kernel takes the loopback, whatever card they belong to.
        name = loopback if peer in owner else owner.get(local, f"address {local}")
        sent[name] = sent.get(name, 0) + count
    return sent, known


def _same_wire(rank: RankEvidence, counted: Mapping[str, Bytes]) -> dict[str, frozenset[str]]:
    """Per name, the others that count its bytes again."""
    lower = {name: set(facts.lower) for name, facts in rank.interfaces.items()}
    upper = {name: {other for other, below in lower.items() if name in below} for name in lower}
    wire: dict[str, frozenset[str]] = {}
    for name in counted:
        related = _reachable(name, lower) | _reachable(name, upper)
        for interface in (name, *related):
            facts = rank.interfaces.get(interface)
            if facts and facts.slot:
                related |= {
                    port
                    for port, about in rank.ports.items()
                    # A RoCE port counts RDMA only; an InfiniBand or Omni-Path port counts the IP over it as well.
                    if about.slot == facts.slot
                    and about.link_layer != "Ethernet"
                    and port.rpartition("/")[2] == str(facts.dev_port + 1)
                }
        wire[name] = frozenset(related)
    return wire


def _reachable(name: str, links: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    new = set(links.get(name, ()))
    while new:
        found |= new
        new = {below for above in new for below in links.get(above, ())} - found
    return found


def counter_names(fabric: Fabric) -> list[str]:
    """Names the rails of a fabric are counted under: the interface, or ``device/port`` for RDMA."""
    interfaces = mpis.transport(fabric.transport).interfaces
    return [rail.device if interfaces else f"{rail.device}/{rail.port}" for rail in fabric.rails]


def chosen_by(ranks: Sequence[RankEvidence]) -> str:
    """The settings that chose a network, in brackets; empty where none is set."""
    environment = ranks[0].environment if ranks else {}
    words = [f"{name}={environment[name]}" for name in CHOOSERS if name in environment]
    return f" ({' '.join(words)})" if words else ""


def check_traffic(ranks: Sequence[RankEvidence], fabric: Fabric, expected_bytes: float) -> TrafficFinding:
    """Judge whether the fabric, and nothing else, carried the benchmark's bytes.

    :param expected_bytes: lower bound of the payload all nodes together must have sent on the fabric.
    """
    nodes, settings = node_traffic(ranks), chosen_by(ranks)
    finding = TrafficFinding(carried=total_sent(nodes))
    if not nodes:
        finding.sentences.append(f"no rank left counters, so nothing proves that {fabric.name} was used.")
        return finding
    rails = counter_names(fabric)
    finding.sentences += [problem for node in nodes for problem in node.problems]
    finding.sentences += _unusable_rails(nodes, fabric, rails)
    if any(rail not in finding.carried for rail in rails):
        return finding
    limit = max(OTHER_FLOOR_BYTES * len(nodes), OTHER_FRACTION * expected_bytes)
    wanted = (1 - SHORTFALL_FRACTION) * expected_bytes
    carried = sum(finding.carried[rail] for rail in rails)
    others = {name: sent for name, sent in _others(nodes, fabric, rails).items() if sent > limit}
    others = _without_foreign(finding, nodes, fabric, rails, others, limit)
    if not fabric.within_node and (local := others.pop(LOOPBACK, 0)):
        finding.notes.append(f"ranks of one node exchanged {format_bytes(local)} over {LOOPBACK}, not in shared memory")
    said = "asked for " + (fabric.name if [fabric.name] == rails or not rails else f"{fabric.name} ({', '.join(rails)})")
    listed = ", ".join(f"{name} carried {format_bytes(sent)}" for name, sent in others.items())
    mine = ", ".join(f"{rail} carried {format_bytes(finding.carried[rail])}" for rail in rails)
    own = _own_on(nodes, rails) if mpis.transport(fabric.transport).connections else None
    if rails and others and carried > limit:
        total = carried + sum(others.values())
        finding.sentences.append(
            f"{said}, but {listed} of {format_bytes(total)}: {_count_networks(1 + len(others))} networks were "
            f"used at once{settings}."
        )
    elif rails and carried < wanted and not _only_lagging(finding, nodes, fabric, carried, wanted, own, others):
        finding.sentences.append(
            f"{said}, {format_bytes(expected_bytes - carried)} of at least {format_bytes(expected_bytes)} went "
            f"elsewhere: {mine}{', ' + listed if listed else ''}{settings}."
        )
    elif rails and own is not None and own < wanted:
        finding.sentences.append(
            f"{said}, {mine}, but the ranks themselves sent only {format_bytes(own)} of at least "
            f"{format_bytes(expected_bytes)} there: the rest is other traffic of the node{settings}."
        )
    elif others:
        of_all = f" of at least {format_bytes(expected_bytes)}" if expected_bytes else ""
        finding.sentences.append(f"{said}, but {listed}{of_all}{settings}.")
    if not finding.sentences and expected_bytes > limit and len(rails) > 1:
        finding.notes += [f"rail {rail} of {fabric.name} carried nothing" for rail in rails if not finding.carried[rail]]
    return finding


def _count_networks(number: int) -> str:
    return {2: "two", 3: "three", 4: "four"}.get(number, str(number))


def total_sent(nodes: Sequence[NodeTraffic]) -> dict[str, int]:
    """Bytes sent per interface or port, summed over nodes."""
    total: dict[str, int] = {}
    for node in nodes:
        for name, count in node.counted.items():
            total[name] = total.get(name, 0) + (count.tx or 0)
    return total


def _unusable_rails(nodes: Sequence[NodeTraffic], fabric: Fabric, rails: Sequence[str]) -> list[str]:
    """Sentences for rails a node does not have, or has no byte counter for; such a fabric cannot be judged."""
    sentences = []
    for node in nodes:
        for rail in rails:
            if rail not in node.present:
                there = ", ".join(sorted(node.present)) or "none"
                sentences.append(
                    f"fabric {fabric.name} names {rail}, which {node.host} does not have (it has {there}); "
                    f"correct {SITE_FILES}."
                )
            elif rail in node.counted and node.counted[rail].tx is None:
                sentences.append(f"{rail} on {node.host} has no counter of sent bytes, so {fabric.name} cannot be proven.")
    return sentences


def _others(nodes: Sequence[NodeTraffic], fabric: Fabric, rails: Sequence[str]) -> dict[str, int]:
    """Bytes sent by everything that is neither a rail nor its wire, summed over nodes; each wire once, most first."""
    total: dict[str, int] = {}
    for node in nodes:
        excused = {*rails, *fabric.tcp_interfaces}
        if mpis.transport(fabric.transport).interfaces:
            excused |= _on_wire(node, rails)
        for name, count in node.counted.items():
            if name not in excused and not MIRRORS.fullmatch(name):
                total[name] = total.get(name, 0) + (count.tx or 0)
    again: set[str] = set()
    kept: dict[str, int] = {}
    for name in sorted(total, key=lambda name: (-total[name], name)):
        if name not in again:
            kept[name] = total[name]
            again |= {other for node in nodes for other in node.same_wire.get(name, ())}
    return kept


def _on_wire(node: NodeTraffic, names: Iterable[str]) -> set[str]:
    """The names themselves and all that count the same bytes on a node."""
    return {other for name in names for other in (name, *node.same_wire.get(name, ()))}


def _own_on(nodes: Sequence[NodeTraffic], rails: Sequence[str]) -> int | None:
    """Bytes the ranks' sockets sent from addresses of the rails; ``None`` where a node's sockets are not all known."""
    if not all(node.ranks_known for node in nodes):
        return None
    return sum(node.sent_by_ranks.get(name, 0) for node in nodes for name in _on_wire(node, rails))


def _without_foreign(
    finding: TrafficFinding,
    nodes: Sequence[NodeTraffic],
    fabric: Fabric,
    rails: Sequence[str],
    others: Mapping[str, int],
    limit: float,
) -> dict[str, int]:
    """Others less those whose bytes are certainly not the ranks'; these become notes.

    Certain is it when every socket of the ranks is known, none of their addresses belongs to the interface, and
    what they sent altogether is found again on the rails. The last keeps two cards in one subnet from passing, where
    bytes leave through the card whose address they do not bear.
    """
    if not all(node.ranks_known for node in nodes):
        return dict(others)
    everything = sum(sum(node.sent_by_ranks.values()) for node in nodes)
    on_rails = sum(finding.carried[rail] for rail in rails) if mpis.transport(fabric.transport).connections else 0
    suspects: dict[str, int] = {}
    for name, sent in others.items():
        addressed = sum(node.sent_by_ranks.get(name, 0) for node in nodes)
        if "/" not in name and addressed <= limit and everything <= on_rails + limit:
            finding.notes.append(f"{name} carried {format_bytes(sent)} that are not the ranks' (other traffic of the node)")
        else:
            suspects[name] = sent
    return suspects


def _only_lagging(
    finding: TrafficFinding,
    nodes: Sequence[NodeTraffic],
    fabric: Fabric,
    carried: float,
    wanted: float,
    own: int | None,
    others: Mapping[str, int],
) -> bool:
    """True when what is missing fits into the counters' last second and the ranks' own sockets have it all."""
    rate = fabric.line_rate_gbit_per_s
    if own is None or own < wanted or others or rate is None:
        return False
    if wanted - carried > len(nodes) * rate * 1e9 / 8 * COUNTER_LAG_S:
        return False
    finding.notes.append(f"the counters of {fabric.name} lag behind the ranks' sockets, which are used instead")
    return True
