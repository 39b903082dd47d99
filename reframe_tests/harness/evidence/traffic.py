"""What the counters around a run show: which network carried the bytes, and who used it.

There are two sources. The kernel's counters of each interface and RDMA port see every byte of a
node, whoever sent it. The ranks' own TCP sockets (``TCP_INFO``) show whose bytes they were, but not
through which card they left. A fabric is proven by both if both are available; only the second can
distinguish other traffic on a shared node.

Did the fabric, and nothing else, carry the benchmark's bytes (:func:`check_traffic`), and each rail
of a striped one its share (:func:`check_stripes`)? Which network did an MPI use that was not forced
to any (:func:`find_choice`)? Did somebody else use the link (:func:`check_use`)?
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ..machine.fabric import Fabric
from ..mpis import registry as mpis
from ..printable import format_bytes
from ..vocabulary import SITE_FILES
from .rank_records import Bytes, RankEvidence, Way

#: Part of the expected bytes that may be missing: the expectation counts what a benchmark says it
#: sent, and warm-up, padding and the moments of reading leave a few per mille of play; a fallback
#: to another network misses nearly all.
SHORTFALL_FRACTION = 0.05
#: Part of the expected bytes another network may carry: launcher,
#: file system and other users of the node.
OTHER_FRACTION = 0.05
#: Bytes per node another network may carry whatever was expected: output through the launcher,
#: monitoring, and what is left of wiring up the ranks (0.2 MB a rank with Open MPI 5.0 and PMIx,
#: nearly all of it inside MPI_Init).
OTHER_FLOOR_BYTES = 1_000_000
#: Adapters that copy their counters to the host on a timer do it about once a second (tg3, bnx2,
#: bnxt_en: ethtool(8) ``stats-block-usecs``, by default 1000000 in these drivers); the last second
#: may not be counted yet.
COUNTER_LAG_S = 1.0
#: Largest value in bytes of a 32-bit port counter, which stays there (InfiniBand Architecture
#: Specification, volume 1, PortCounters).
SATURATED_BYTES = 4 * (2**32 - 1)
#: The kernel's loopback interface (Linux,
#: drivers/net/loopback.c): nothing on it ever leaves the node.
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
#: Part of its fair share that each rail must have carried of messages that are striped: MPIs split
#: by rates they estimate, and send heads, tails and small fragments over one rail; a rail that is
#: not in use carries nothing.
LEAST_FAIR_SHARE = 0.5
#: Messages from this size on are striped by every MPI (thresholds in their manuals: MVAPICH2 16
#: KiB, ob1's tcp BTL 128 KiB of eager and first fragment; UCX by its own estimate of the links).
STRIPED_FROM_BYTES = 1 << 20
#: Largest headers of a TCP packet in bytes as an interface counts them: Ethernet 14 and a VLAN tag
#: 4 (IEEE 802.3), IPv6 40 (RFC 8200), TCP 20 with 40 of options (RFC 9293, section 3.1). IPv4 with
#: time stamps has 66: the bound is 3.4 % above what full packets at an MTU of 1500 take.
HEADER_BYTES = 118
#: Part by which one node's count of a message may differ from another's: a driver may count the
#: headers of a large send once (veth, virtio_net), and the receiver those of each packet, at most
#: :data:`HEADER_BYTES` of 1500.
COUNTING_FRACTION = 0.08
#: Share of a link that others may use before a number measured beside them says nothing about it:
#: batch system, monitoring, logs and the job's own files on a network that carries everything. A
#: fifth of the 5 % a link is gated by.
BACKGROUND_FRACTION = 0.01
#: Drivers that count a packet when they see it. Hardware of others may hand its counters over late,
#: and then what an earlier launch sent within :data:`COUNTER_LAG_S` appears in this one's (Linux,
#: drivers/net, ``ndo_get_stats64``).
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
    "mlx4_en",
    "mlx5_core",
)
#: Nodes named in one sentence.
MOST_NAMED = 3


@dataclass
class TrafficCheck:
    """What a check says about one run.

    :param sentences: contradictions; empty when the condition is proven.
    :param notes: what is no contradiction (traffic of others, an idle rail).
    """

    sentences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


# ---- what each node counted ----


@dataclass(frozen=True)
class NodeTraffic:
    """Bytes of one node between its first rank's MPI_Init and its last rank's MPI_Finalize.

    :param present: interfaces and ports the node had when the run began.
    :param counted: received and sent bytes per interface (``eth1``) and
        port (``mlx5_0/1``) that can be believed.
    :param sent_by_ranks: bytes the ranks' own TCP sockets sent, per
        interface their addresses belong to.
    :param ranks_known: true when ``sent_by_ranks`` covers every IP socket the ranks had.
    :param same_wire: per name, others that count the same bytes again
        (bond and member, IPoIB and its port).
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


def node_traffic(ranks: Sequence[RankEvidence]) -> list[NodeTraffic]:
    """Traffic of each node, by host name; ranks that never finalised are
    left out, and nodes with only such ranks.
    """
    hosts: dict[str, list[RankEvidence]] = {}
    for rank in ranks:
        if rank.finalize is not None:
            hosts.setdefault(rank.host, []).append(rank)
    # A connection that was opened late and closed before the last snapshot left no trace at that
    # end (Open MPI's tcp BTL closes its socket when the peer finalises first); the other end still
    # knows what came over it.
    received = Counter[Way]()
    closed = set[Way]()
    for row in (row for there in hosts.values() for rank in there for row in rank.connections):
        received[row.peer, row.local] += row.received
        if row.closed:
            closed.add((row.peer, row.local))
    return [_node(host, hosts[host], received, closed) for host in sorted(hosts)]


def _node(
    host: str, ranks: Sequence[RankEvidence], received: Mapping[Way, int], closed: set[Way]
) -> NodeTraffic:
    """:param received: by all ranks, per way from one address to another;
    ``closed``: ways of which a receiver closed some.
    """
    first = min((rank.init for rank in ranks), key=lambda snapshot: snapshot.monotonic_ns)
    last = max(
        (rank.finalize for rank in ranks if rank.finalize),
        key=lambda snapshot: snapshot.monotonic_ns,
    )
    counted: dict[str, Bytes] = {}
    problems: list[str] = []
    for before, after in ((first.interfaces, last.interfaces), (first.ports, last.ports)):
        for name in before:
            if name not in after:
                problems.append(
                    f"{name} on {host} disappeared during the run, so what it carried is unknown."
                )
        for name, end in after.items():
            start = before.get(name, Bytes(0, 0))  # it appeared during the run: all of it counts
            rx, tx = (
                None if was is None or now is None else now - was
                for was, now in ((start.rx, end.rx), (start.tx, end.tx))
            )
            if min(rx or 0, tx or 0) < 0:
                problems.append(
                    f"the byte counters of {name} on {host} went backwards during the run (reset "
                    "or overflow), so they prove nothing; run the case again."
                )
            elif name in last.ports and SATURATED_BYTES in (end.rx, end.tx):
                problems.append(
                    f"a byte counter of {name} on {host} stands at its 32-bit limit and stopped "
                    "counting; reset it (perfquery -R) or update the driver."
                )
            else:
                counted[name] = Bytes(rx, tx)
    owner = {
        address: name
        for rank in ranks
        for name, facts in rank.interfaces.items()
        for address in facts.addresses
    }
    ways = Counter[Way]()
    lost = set[Way]()
    for row in (row for rank in ranks for row in rank.connections):
        ways[row.local, row.peer] += row.sent
        if row.closed:
            lost.add((row.local, row.peer))
    # Closed connections took their count with them, and another node's end may still know it: where
    # two ranks connect to each other at once, one of the two connections is closed after MPI_Init
    # (UCX, wireup of the tcp transport).
    for way, count in received.items():
        if way[0] in owner and way[1] not in owner:
            ways[way] = max(ways[way], count)
    sent = Counter[str]()
    for (local, peer), count in ways.items():
        # Between two addresses of one node the kernel takes the
        # loopback, whatever card they belong to.
        name = (
            owner.get("127.0.0.1", LOOPBACK)
            if peer in owner
            else owner.get(local, f"address {local}")
        )
        sent[name] += count
    return NodeTraffic(
        host=host,
        seconds=(last.monotonic_ns - first.monotonic_ns) / 1e9,
        present=frozenset((*first.interfaces, *first.ports)),
        counted=counted,
        sent_by_ranks={name: count for name, count in sent.items() if count},
        ranks_known=all(
            rank.init.tcp_known and rank.finalize is not None and rank.finalize.tcp_known
            for rank in ranks
        )
        and all(way[1] not in owner and way in received and way not in closed for way in lost),
        same_wire=_same_wire(ranks[0], counted),
        problems=tuple(problems),
    )


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
                    # A RoCE port counts RDMA only; an InfiniBand or Omni-Path
                    # port counts the IP over it as well.
                    if about.slot == facts.slot
                    and about.link_layer != "Ethernet"
                    and port.rpartition("/")[2] == str(facts.dev_port + 1)
                }
        wire[name] = frozenset(related)
    return {
        name: related | {other for other, on in wire.items() if name in on} - {name}
        for name, related in wire.items()
    }


def _reachable(name: str, links: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    new = set(links.get(name, ()))
    while new:
        reached |= new
        new = {below for above in new for below in links.get(above, ())} - reached
    return reached


def each_wire_once(total: Mapping[str, int], nodes: Sequence[NodeTraffic]) -> dict[str, int]:
    """Bytes per device, largest first. If a wire is counted twice, the port of the RDMA device is
    used instead of the interface above it; devices that only mirror another are left out.
    """
    again: set[str] = set()
    kept: dict[str, int] = {}
    for name in sorted(total, key=lambda name: (-total[name], "/" not in name, name)):
        if name not in again and not MIRRORS.fullmatch(name):
            kept[name] = total[name]
            again |= {other for node in nodes for other in node.same_wire.get(name, ())}
    return kept


def _on_wire(node: NodeTraffic, names: Iterable[str]) -> set[str]:
    """The names themselves and all that count the same bytes on a node."""
    return {other for name in names for other in (name, *node.same_wire.get(name, ()))}


def total_sent(nodes: Sequence[NodeTraffic]) -> Mapping[str, int]:
    """Bytes sent per interface or port, summed over nodes."""
    total = Counter[str]()
    for node in nodes:
        total.update({name: count.tx or 0 for name, count in node.counted.items()})
    return total


def counter_names(fabric: Fabric) -> list[str]:
    """Names the rails of a fabric are counted under: the interface, or ``device/port`` for RDMA."""
    interfaces = mpis.transport(fabric.transport).interfaces
    return [rail.device if interfaces else f"{rail.device}/{rail.port}" for rail in fabric.rails]


def chosen_by(ranks: Sequence[RankEvidence]) -> str:
    """The settings that chose a network, in brackets; empty if none is set."""
    environment = ranks[0].environment if ranks else {}
    words = [f"{name}={environment[name]}" for name in CHOOSERS if name in environment]
    return f" ({' '.join(words)})" if words else ""


def _carried(sent: Mapping[str, int]) -> str:
    return ", ".join(f"{name} carried {format_bytes(count)}" for name, count in sent.items())


# ---- did the fabric carry the bytes? ----


@dataclass(frozen=True)
class Counted:
    """Bytes that all nodes together sent, of a run whose rails all have counters.

    :param wanted: what the rails must have carried; ``limit``: what another network may have.
    :param known: whether all sockets of the ranks are known.
    :param own: what the ranks' sockets sent on the rails; ``everything``: altogether.
    """

    rails: Mapping[str, int]
    wanted: float
    limit: float
    known: bool
    own: int
    everything: int

    @property
    def carried(self) -> int:
        return sum(self.rails.values())


def check_traffic(
    ranks: Sequence[RankEvidence], fabric: Fabric, expected_bytes: float
) -> TrafficCheck:
    """Judge whether the fabric, and nothing else, carried the benchmark's bytes.

    :param expected_bytes: lower bound of the payload all nodes
        together must have sent on the fabric.
    """
    nodes = node_traffic(ranks)
    rails = counter_names(fabric)
    if not nodes:
        return TrafficCheck(
            [f"no rank recorded counters, so nothing proves that {fabric.name} was used."]
        )
    problems = [
        *(problem for node in nodes for problem in node.problems),
        *_without_counters(nodes, fabric, rails),
    ]
    total = total_sent(nodes)
    if any(rail not in total for rail in rails):
        return TrafficCheck(problems)
    counted = Counted(
        {rail: total[rail] for rail in rails},
        wanted=(1 - SHORTFALL_FRACTION) * expected_bytes,
        limit=max(OTHER_FLOOR_BYTES * len(nodes), OTHER_FRACTION * expected_bytes),
        known=all(node.ranks_known for node in nodes),
        own=sum(
            node.sent_by_ranks.get(name, 0) for node in nodes for name in _on_wire(node, rails)
        ),
        everything=sum(sum(node.sent_by_ranks.values()) for node in nodes),
    )
    others, notes = _others(nodes, fabric, counted)
    carried = counted.carried
    own = counted.own
    few = counted.carried < counted.wanted
    least = format_bytes(expected_bytes)
    rate = fabric.line_rate_gbit_per_s
    sockets = counted.known and mpis.transport(fabric.transport).connections
    # What is missing fits into the counters' last second, and the ranks' sockets have it all.
    late = sockets and own >= counted.wanted and not others and rate is not None
    late = late and counted.wanted - carried <= len(nodes) * (rate or 0.0) * 1e9 / 8 * COUNTER_LAG_S
    count = {2: "two", 3: "three", 4: "four"}.get(1 + len(others), str(1 + len(others)))
    both = ", ".join(filter(None, (_carried(counted.rails), _carried(others))))
    # The first that holds is the answer.
    answers = (
        (
            rails and others and carried > counted.limit,
            f"but {_carried(others)} of {format_bytes(carried + sum(others.values()))}: {count} "
            "networks were used at the same time",
        ),
        (
            rails and few and not late,
            f"{format_bytes(expected_bytes - carried)} of at least {least} went elsewhere: {both}",
        ),
        (
            rails and sockets and own < counted.wanted,
            f"{_carried(counted.rails)}, but the ranks themselves sent only {format_bytes(own)} "
            f"of at least {least} there: the rest is other traffic of the node",
        ),
        (others, f"but {_carried(others)}" + (f" of at least {least}" if expected_bytes else "")),
    )
    asked = (
        fabric.name
        if [fabric.name] == rails or not rails
        else f"{fabric.name} ({', '.join(rails)})"
    )
    if said := next((sentence for holds, sentence in answers if holds), ""):
        problems.append(f"asked for {asked}, {said}{chosen_by(ranks)}.")
    elif rails and few:
        notes.append(
            f"the counters of {fabric.name} lag behind the ranks' sockets, which are used instead"
        )
    if not problems and expected_bytes > counted.limit and len(rails) > 1:
        notes += [
            f"rail {rail} of {fabric.name} carried nothing" for rail in rails if not total[rail]
        ]
    return TrafficCheck(problems, notes)


def _without_counters(
    nodes: Sequence[NodeTraffic], fabric: Fabric, rails: Sequence[str]
) -> Iterator[str]:
    for node in nodes:
        for rail in rails:
            if rail not in node.present:
                there = ", ".join(sorted(node.present)) or "none"
                names = f"fabric {fabric.name} names {rail}"
                yield (f"{names}, which {node.host} lacks (it has {there}); correct {SITE_FILES}.")
            elif rail in node.counted and node.counted[rail].tx is None:
                yield (
                    f"{rail} on {node.host} has no counter of sent bytes, so {fabric.name} cannot "
                    "be proven."
                )


def _others(
    nodes: Sequence[NodeTraffic], fabric: Fabric, counted: Counted
) -> tuple[dict[str, int], list[str]]:
    """What neither a rail nor its wire carried, and notes on what of it is no contradiction.

    It is certainly not the ranks' where every socket of theirs is known, none of their addresses
    belongs to the interface, and what they sent altogether is found again on the rails. The last
    keeps two cards in one subnet from passing, where bytes leave through the card whose address
    they do not bear.
    """
    transport = mpis.transport(fabric.transport)
    elsewhere = Counter[str]()
    for node in nodes:
        excused = {*counted.rails, *fabric.tcp_interfaces}
        excused |= _on_wire(node, counted.rails) if transport.interfaces else set()
        elsewhere.update(
            {name: count.tx or 0 for name, count in node.counted.items() if name not in excused}
        )
    found_again = (
        counted.everything <= (counted.carried if transport.connections else 0) + counted.limit
    )
    others = dict[str, int]()
    notes = []
    for name, sent in each_wire_once(elsewhere, nodes).items():
        addressed = sum(node.sent_by_ranks.get(name, 0) for node in nodes)
        if sent <= counted.limit:
            continue
        if counted.known and "/" not in name and addressed <= counted.limit and found_again:
            notes.append(
                f"{name} carried {format_bytes(sent)} that are not the ranks' (other traffic of "
                "the node)"
            )
        else:
            others[name] = sent
    if not fabric.within_node and (local := others.pop(LOOPBACK, 0)):
        notes.append(
            f"ranks of one node exchanged {format_bytes(local)} over {LOOPBACK} instead of shared "
            "memory"
        )
    return others, notes


# ---- did striping take place? ----
# That a fabric as a whole carried the bytes would hold as well if all had taken one rail. What no
# counter shows is whether each message was split: whole messages that take the rails in turn leave
# the same sums. Only time tells: a message that is sent alone, after the one before has arrived,
# and stays whole cannot be faster than its rail.


def check_stripes(
    ranks: Sequence[RankEvidence],
    fabric: Fabric,
    striped_bytes: float,
    alone_mb_per_s: float | None = None,
) -> TrafficCheck:
    """Whether each rail of a striped fabric carried its share; other fabrics are not checked.

    :param striped_bytes: lower bound of the payload that all nodes together sent in messages of at
        least :data:`STRIPED_FROM_BYTES`.
    :param alone_mb_per_s: bandwidth of such messages one at a time;
        ``None`` if all were sent several at a time.
    """
    if not fabric.striped:
        return TrafficCheck()
    nodes = node_traffic(ranks)
    if striped_bytes <= OTHER_FLOOR_BYTES * len(nodes):
        size = format_bytes(STRIPED_FROM_BYTES)
        why = (
            f"striping of {fabric.name} is not shown: no pairs of ranks exchanged enough messages "
            f"of {size} or more"
        )
        return TrafficCheck(notes=[why])
    names = counter_names(fabric)
    total = total_sent(nodes)
    settings = chosen_by(ranks)
    if any(name not in total for name in names):
        # which node lacks a rail is said elsewhere
        return TrafficCheck(notes=[describe_splitting(fabric, alone_mb_per_s)])
    rates = [rail.line_rate_gbit_per_s for rail in fabric.rails]
    weights = [1.0 if None in rates or rate is None else rate for rate in rates]
    fair = {
        name: striped_bytes * weight / sum(weights)
        for name, weight in zip(names, weights, strict=True)
    }
    asked = f"asked for {fabric.name} striped over {len(names)} rails"
    all_rails = {name: total[name] for name in names}
    sentences = [
        f"{asked}, but {name} carried less than half of the {format_bytes(fair[name])} that is its "
        f"share of large messages: {_carried(all_rails)}{settings}."
        for name in names
        if total[name] < LEAST_FAIR_SHARE * fair[name]
    ]
    for node in () if sentences else nodes:
        # Two nodes that each use one rail, but not the same, carry equal sums. A node that sent
        # less than half of an even part is not judged: where data goes one way, it only
        # acknowledges.
        sent = {name: node.counted.get(name, Bytes()).tx or 0 for name in names}
        if sum(sent.values()) >= LEAST_FAIR_SHARE * striped_bytes / len(nodes):
            idle = [
                name for name in names if sent[name] < LEAST_FAIR_SHARE * fair[name] / len(nodes)
            ]
            sentences += [f"{asked}, but on {node.host} {_carried(sent)}{settings}." for _ in idle]
    return TrafficCheck(
        sentences, [] if sentences else [describe_splitting(fabric, alone_mb_per_s)]
    )


def describe_splitting(fabric: Fabric, alone_mb_per_s: float | None) -> str:
    """Note on whether messages were split, or whole ones took the
    rails in turn, as far as their times tell.

    :param alone_mb_per_s: as of :func:`check_stripes`.
    """
    rates = [rail.line_rate_gbit_per_s for rail in fabric.rails]
    fastest = None if None in rates else max(rate or 0.0 for rate in rates)
    gbit_per_s = (alone_mb_per_s or 0.0) * 8 / 1000
    if fastest is not None and gbit_per_s > fastest:
        return (
            f"each message was split over the rails of {fabric.name}: single messages reached "
            f"{gbit_per_s:.3g} Gbit/s, but its fastest rail has {fastest:g}"
        )
    return (
        f"all rails of {fabric.name} carried their share, but counters do not show whether each "
        "message was split or whole messages alternated: no message sent alone was faster than one "
        "rail"
    )


# ---- which network was taken, where nothing was forced? ----
# The plain start of a user is measured as it is, so the MPI is not asked to say what it chose.
# Bytes say it: between nodes each of them is counted on the card that sent it. Where the ranks' own
# TCP sockets are all known and had bytes to send, they say it exactly; else the cards' counters do,
# as soon as the benchmark has sent more than a node sends anyway.


@dataclass(frozen=True)
class Choice:
    """What one launch took.

    :param network: name of the fabric that carried everything; else the devices, ``eth1 + eth2``;
        empty where too little was sent to see it.
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
    """What several launches took, each once: ``eth1g``, or ``eth1g / eth1
    + eth2`` where it was not the same for all.
    """
    return " / ".join(sorted({network for network in networks if network}))


def judge_case(fabric: Fabric, launches: Sequence[Choice]) -> list[str]:
    """What a case as a whole lacks: at least one launch must show that the network is the expected
    one.
    """
    if (
        not fabric.expect
        or any(row.network for row in launches)
        or not any(row.too_little for row in launches)
    ):
        return []
    return [
        f"nothing was forced and the site expects {fabric.expect}, but no launch sent enough on "
        f"{fabric.name} to show which network was used; measure larger messages (-S level=nightly)."
    ]


def find_choice(nodes: Sequence[NodeTraffic], fabric: Fabric, expected_bytes: float) -> Choice:
    """What the ranks of one launch took of ``fabric.choices``, or else.

    :param expected_bytes: lower bound of the payload that all nodes together must have sent.
    """
    if not nodes:
        return Choice(
            sentences=(f"no rank recorded counters, so nothing shows what {fabric.name} used.",)
        )
    if problems := tuple(problem for node in nodes for problem in node.problems):
        return Choice(sentences=problems)
    limit = max(OTHER_FLOOR_BYTES * len(nodes), OTHER_FRACTION * expected_bytes)
    wanted = (1 - SHORTFALL_FRACTION) * expected_bytes
    if expected_bytes <= limit:
        return Choice(too_little=expected_bytes > 0)
    # By the ranks' sockets where they have it all, else by the cards.
    by_ranks = Counter[str]()
    for node in nodes:
        by_ranks.update(node.sent_by_ranks)
    sockets = all(node.ranks_known for node in nodes) and sum(by_ranks.values()) >= wanted
    by_device = dict(sorted(by_ranks.items(), key=lambda row: (-row[1], row[0])))
    by_device = by_device if sockets else each_wire_once(total_sent(nodes), nodes)
    carried = {name: sent for name, sent in by_device.items() if sent > limit}
    if not fabric.within_node:
        carried.pop(LOOPBACK, None)  # ranks of one node that did not use shared memory
    total = sum(carried.values())
    shares = ", ".join(f"{name} {100 * sent / total:.0f} %" for name, sent in carried.items())
    memory = [row for row in fabric.choices if mpis.transport(row.transport).in_memory]
    if total >= wanted:
        wires = [
            row
            for row in fabric.choices
            if row not in memory and set(carried) <= {*counter_names(row)}
        ]
        taken = next(iter(wires), None)
        network = " + ".join(sorted(carried))
    elif fabric.within_node and not carried:  # what is in no counter was in memory
        taken = next(iter(memory), None)
        network = "shared memory"
    else:
        shown = shares or "no device carried more than usual background traffic"
        why = (
            f"nothing shows which network carried {format_bytes(expected_bytes)} of "
            f"{fabric.name}: {shown}; describe the network in {SITE_FILES}, or measure where its "
            "cards count bytes."
        )
        return Choice(sentences=(why,))
    network = taken.name if taken else network
    sentences: tuple[str, ...] = ()
    if fabric.expect and network != fabric.expect:
        listed = f" ({_carried(carried)})" if carried else ""
        sentences = (
            f"nothing was forced and the site expects {fabric.expect}, but the MPI took "
            f"{network}{listed}.",
        )
    several = f"nothing was forced, and several networks were used at the same time: {shares}"
    return Choice(network, taken, sentences, (several,) if len(carried) > 1 and not taken else ())


# ---- who used the link? ----
# Bytes around a run beyond what its ranks could have sent are somebody else's. Two arguments,
# neither of which models a benchmark or an MPI's algorithms:
#
# *sockets* (TCP): the kernel counts for each connection of the ranks the payload it sent, what it
# sent again, and its packets in both directions (``TCP_INFO``, Linux 4.19). With the largest
# headers a packet can have, that is the most the ranks can have put on the wire, retransmissions,
# acknowledgements, warm-up and the MPI's own messages included.
#
# *balance* (where no sockets are counted): what messages between a pair of ranks, or between
# neighbours, brings onto the link leaves one node of the job and arrives at another. More sent than
# received, or the other way, came from or went to somebody outside the job. Traffic of others
# between the very nodes of the job is not seen. Collectives are left out: a switch may add up or
# multiply their packets (SHARP, multicast).
#
# A loopback is not a link: what others do there costs processor time
# and shows in the ranks' context switches.


class NodeUse(
    msgspec.Struct,
    frozen=True,
    rename=lambda field: "node" if field == "host" else f"{field}_bytes",
):
    """Bytes on the fabric's links of one node, and how many of them the ranks could have sent;
    ``None``: unknown.

    :param allowed: bytes of others that change no number.
    """

    host: str
    sent: int
    received: int
    most_sent: int | None
    most_received: int | None
    allowed: int


@dataclass
class UseFinding(TrafficCheck):
    """What is to be said about others on the link: a sentence means
    that the numbers are not the link's.
    """

    nodes: list[NodeUse] = field(default_factory=list)


def check_use(
    ranks: Sequence[RankEvidence], fabric: Fabric, *, balanced: bool, files: bool = False
) -> UseFinding:
    """Judge whether somebody else used the fabric's links.

    :param balanced: every byte the benchmark sends on the fabric arrives at
        another node of the job (no collectives).
    :param files: the benchmark reads and writes files, whose bytes a network file system may send
        over the same link: nobody can say whose they are, and nothing is judged.
    """
    rails = counter_names(fabric)
    traffic = node_traffic(ranks)
    if (
        not rails
        or LOOPBACK in rails
        or any(rail not in node.counted for node in traffic for rail in rails)
    ):
        return UseFinding()  # no link, or which node lacks a rail is said elsewhere
    there = {node.host: [rank for rank in ranks if rank.host == node.host] for node in traffic}
    most = most_sent(ranks)
    names = {node.host: rails for node in traffic}
    if mpis.transport(fabric.transport).connections:
        nodes = judged = [_use(node, there[node.host], fabric, rails, most) for node in traffic]
    else:  # RDMA is in no connection, but what an interface on the same port carried is
        names = {node.host: same_port(there[node.host][0], fabric) for node in traffic}
        judged = [_use(node, there[node.host], fabric, names[node.host], most) for node in traffic]
        nodes = [_use(node, there[node.host], fabric, rails, None) for node in traffic]
    if files:
        why = f"use of {fabric.name} by others was not judged: file traffic may have gone over it"
        return UseFinding(notes=[why], nodes=nodes)
    links = ", ".join(dict.fromkeys(name for row in names.values() for name in row))
    exceeded = [
        (
            sent - (most or 0),
            f"{links} of {node.host} {way} {format_bytes(sent - (most or 0))} more than the "
            f"{format_bytes(most or 0)} {own}",
        )
        for node in judged
        for way, own, sent, most in (
            ("sent", "its ranks could have sent", node.sent, node.most_sent),
            ("received", "its ranks could have received", node.received, node.most_received),
        )
        if most is not None and sent - most > node.allowed
    ]
    reasons = [text for _, text in sorted(exceeded, reverse=True)]
    if balanced and not reasons and any(node.most_sent is None for node in nodes):
        reasons = _unbalanced(nodes)
    if not reasons:
        return UseFinding(nodes=nodes)
    rest = f" and so on ({len(reasons)} in all)" if len(reasons) > MOST_NAMED else ""
    sentence = (
        f"somebody else used the link: {', '.join(reasons[:MOST_NAMED])}{rest}; this says nothing "
        f"about {fabric.name}: measure again when nobody else uses it (exclusive nodes)."
    )
    return UseFinding([sentence], nodes=nodes)


def most_sent(ranks: Sequence[RankEvidence]) -> dict[Way, int] | None:
    """The most bytes, headers included, that the ranks' connections can have
    put on the wire, per way between two addresses.

    ``None`` if some of their bytes are in no count. Each way is counted at both ends; what one
    end lost, since it closed a connection, the other still knows.
    """
    ends = (Counter[Way](), Counter[Way]())
    lost = (set[Way](), set[Way]())
    own: dict[str, set[str]] = {}
    for rank in ranks:
        own.setdefault(rank.host, set()).update(_addresses([rank]))
    for rank in ranks:
        if rank.finalize is None or not (rank.init.tcp_known and rank.finalize.tcp_known):
            return None
        for row in rank.connections:
            if row.peer in own[rank.host]:
                continue  # stays on the node
            if row.wire is None and not row.closed:
                return None
            out = (
                row.wire.out + row.wire.segments_out * HEADER_BYTES
                if row.wire and not row.closed
                else 0
            )
            into = (
                row.received + row.wire.segments_in * HEADER_BYTES
                if row.wire and not row.closed
                else 0
            )
            for way, count, side in (
                ((row.local, row.peer), out, 0),
                ((row.peer, row.local), into, 1),
            ):
                ends[side][way] += count
                if row.closed:
                    lost[side].add(way)
    ways = ends[0].keys() | ends[1].keys()
    if any(all(way in lost[side] or way not in ends[side] for side in (0, 1)) for way in ways):
        return None
    return {way: max(ends[0][way], ends[1][way]) for way in ways}


def _addresses(ranks: Iterable[RankEvidence]) -> set[str]:
    return {
        address
        for rank in ranks
        for facts in rank.interfaces.values()
        for address in facts.addresses
    }


def same_port(rank: RankEvidence, fabric: Fabric) -> list[str]:
    """Interfaces on the very ports of an RDMA fabric over Ethernet,
    whose own counters leave their bytes out.
    """
    ports = [(rank.ports.get(f"{rail.device}/{rail.port}"), rail.port) for rail in fabric.rails]
    return [
        name
        for name, facts in rank.interfaces.items()
        for port, number in ports
        if port
        and port.link_layer == "Ethernet"
        and facts.slot
        and (facts.slot, facts.dev_port + 1) == (port.slot, number)
    ]


def _use(
    node: NodeTraffic,
    ranks: Sequence[RankEvidence],
    fabric: Fabric,
    names: Sequence[str],
    most: Mapping[Way, int] | None,
) -> NodeUse:
    """Use of some of a node's counters by all, and by its ranks."""
    own = _addresses(ranks)
    counted = [node.counted[name] for name in names if name in node.counted]
    sent = sum(count.tx or 0 for count in counted)
    received = sum(count.rx or 0 for count in counted)
    # Bytes of others that prove nothing: background, and what a late
    # counter still had of an earlier launch.
    rate = fabric.line_rate_gbit_per_s
    late_s = COUNTER_LAG_S if any(_may_lag(ranks[0], name) for name in names) else 0.0
    share = OTHER_FRACTION * max(sent, received) if rate is None else 0.0
    background = (rate or 0.0) * 1e9 / 8 * (BACKGROUND_FRACTION * node.seconds + late_s)
    return NodeUse(
        node.host,
        sent,
        received,
        None if most is None else sum(count for (local, _), count in most.items() if local in own),
        None if most is None else sum(count for (_, peer), count in most.items() if peer in own),
        round(OTHER_FLOOR_BYTES + share + background),
    )


def _may_lag(rank: RankEvidence, name: str) -> bool:
    """Whether an interface, or one it sits on, is hardware whose driver
    is not known to count at once; RDMA ports do.
    """
    facts = rank.interfaces.get(name)
    if facts is None:
        return False
    driver = (rank.kernel.get(f"driver of {name}") or "").partition(" ")[0]
    return (facts.slot is not None and driver not in IMMEDIATE) or any(
        _may_lag(rank, below) for below in facts.lower
    )


def _unbalanced(nodes: Sequence[NodeUse]) -> list[str]:
    """When the job's nodes did not receive what they sent: of two
    nodes each way by itself, of more their sums.
    """
    if len(nodes) == 2:
        pairs = [
            ((a.host, a.sent), (b.host, b.received))
            for a, b in (tuple(nodes), tuple(reversed(nodes)))
        ]
    elif len(nodes) > 2:
        sums = sum(node.sent for node in nodes), sum(node.received for node in nodes)
        pairs = [(("all nodes together", sums[0]), ("the same nodes", sums[1]))]
    else:
        return []
    allowed = sum(node.allowed for node in nodes)
    return [
        f"{sender} sent {format_bytes(sent)} and {receiver} received {format_bytes(received)}, "
        f"{format_bytes(abs(sent - received))} {'more' if sent < received else 'less'}"
        for (sender, sent), (receiver, received) in pairs
        if abs(sent - received) > allowed + COUNTING_FRACTION * min(sent, received)
    ]
