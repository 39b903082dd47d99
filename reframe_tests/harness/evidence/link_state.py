"""The state of the links a benchmark used: settings and error counters of each rail and node,
before and after a launch.

A run is contradicted by a link that went down, changed or is not up, that came up at less than the
site says, at half duplex, or differently from the job's other nodes. Errors that a link survives
are notes beside the number: the InfiniBand and Ethernet specifications allow some, and the number
includes their cost.

Software interfaces (bridges, veth, bonds) and virtual machines' adapters report a meaningless
speed; it is ignored, and so is their duplex.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from ..machine.fabric import Fabric, Rail
from ..mpis import registry as mpis
from ..printable import few
from ..vocabulary import SITE_FILES
from .rank_records import RankEvidence
from .traffic import LOOPBACK, TrafficCheck, counter_names, same_port

#: What a link is, as opposed to what it counts; with the words for it.
#: The first ones must be the same on all nodes.
MUST_AGREE: Mapping[str, str] = {
    "mtu_bytes": "MTU",
    "speed_mbit_per_s": "speed in Mbit/s",
    "duplex": "duplex",
    "rate": "rate",
}
SETTINGS: Mapping[str, str] = {
    **MUST_AGREE,
    "state": "state",
    "phys_state": "physical state",
    "pcie_speed": "PCIe speed",
    "pcie_width": "PCIe lanes",
}
#: Settings that may differ without harm where slots do, a note;
#: and change, where a card saves power.
MAY_DIFFER = ("pcie_speed", "pcie_width")
MUST_STAY = tuple(key for key in SETTINGS if key not in MAY_DIFFER)
#: Settings that mean nothing if there is no hardware below.
PHYSICAL = ("speed_mbit_per_s", "duplex", "rate")

#: By which a port is found among what is plugged into switches; not shown, as no two are alike.
PORT_GUID = "port_guid"
#: Addresses that end in a port's GUID: a port's first GID (InfiniBand Architecture 1, 4.1.1), an
#: IPoIB interface's hardware address (RFC 4391, section 9.1.1). Those of Ethernet do not.
_WITH_GUID = re.compile(r"(?:[0-9a-f]{2}:){20}|(?:[0-9a-f]{4}:){8}")
#: States of a link that carries nothing: operstate (RFC 2863, Linux
#: Documentation/networking/operstates.rst), InfiniBand port states below ACTIVE, Slingshot's
#: port/link.
NOT_UP = re.compile(r"down|lowerlayerdown|notpresent|dormant|\d: (DOWN|INIT|ARMED)|off|error")
#: ``100 Gb/sec (4X EDR)`` (drivers/infiniband/core/sysfs.c,
#: rate_show), ``BS_200G`` (Slingshot's port/speed).
RATE = re.compile(r"([0-9.]+) Gb/sec|[A-Z]+_([0-9]+)G")
#: Below this share of the site's line rate a link came up slow: its next lower step is at most 0.71
#: of it (40 of 56 Gbit/s), while data and signalling rates of one link differ by a fifth (QDR
#: InfiniBand: 32 and 40 Gbit/s).
SLOW_SHARE = 0.75
#: From this share on the site describes another link than there is.
FAST_SHARE = 1.3
#: Drivers of virtual machines' adapters: their speed is a constant or that
#: of the host's card, not what the machine may use.
VIRTUAL_DRIVERS = frozenset(
    ("virtio_net", "vmxnet3", "hv_netvsc", "ena", "gve", "xen-netfront", "vif", "veth", "ibmveth")
)

#: Counters that show that a link was gone for a moment.
BREAKS: Mapping[str, str] = {
    "carrier_changes": "its carrier changed",
    "link_downed": "it failed to recover from errors",
}
#: Counters of errors, drops and repetitions, reported when they grow. Sources: Linux,
#: Documentation/ABI/testing/ sysfs-class-net-statistics and
#: Documentation/ABI/stable/sysfs-class-infiniband; the vendors' names as in recorder.c.
ERRORS: Mapping[str, str] = {
    "rx_errors": "received packets with errors",
    "rx_fifo_errors": "received packets the card had no room for",
    "rx_frame_errors": "received packets with bad frames or checksums",
    "tx_errors": "packets that could not be sent",
    "tx_dropped": "packets dropped before sending",
    "tx_fifo_errors": "packets lost in the card before sending",
    "tx_carrier_errors": "packets sent without a carrier",
    "symbol_error": "minor errors of a lane",
    "link_error_recovery": "recoveries from link errors",
    "port_rcv_errors": "received packets with errors",
    "port_rcv_remote_physical_errors": "packets marked bad by the sender or a switch",
    "port_rcv_switch_relay_errors": "packets a switch could not forward",
    "port_rcv_constraint_errors": "received packets refused by partition or filter",
    "port_xmit_constraint_errors": "packets not sent by partition or filter",
    "port_xmit_discards": "packets discarded before sending (port down or congested)",
    "local_link_integrity_errors": "times local errors passed their threshold",
    "excessive_buffer_overrun_errors": "overruns of the port's buffer",
    "out_of_buffer": "packets dropped for want of a posted receive",
    "out_of_sequence": "packets out of sequence",
    "packet_seq_err": "negative acknowledgements for sequence",
    "implied_nak_seq_err": "acknowledgements that skipped one",
    "local_ack_timeout_err": "time-outs for want of an acknowledgement",
    "rnr_nak_retry_err": "receivers that were not ready",
    "rx_icrc_encapsulated": "RoCE packets with a bad checksum",
    "roce_adp_retrans": "adaptive retransmissions of RoCE",
    "req_transport_retries_exceeded": "requests given up after all retries",
    "rx_drops": "received packets dropped",
    "DcTotCrc": "link packets with a bad checksum",
    "DcTxReplay": "link packets sent again",
    "DcRxReplay": "link packets asked for again",
    "hni_pcs_uncorrected_cw": "code words beyond correction",
    "hni_llr_tx_replay_event": "link frames sent again",
    "hni_llr_rx_replay_event": "link frames asked for again",
    "pct_sct_timeouts": "requests sent again after a time-out",
    "pct_spt_timeouts": "requests that timed out",
}
#: Counters that grow on healthy links too, reported from this many a second on: packets of
#: protocols nobody listens to (LLDP, spanning tree) are dropped every few seconds and counted here.
COMMON_PER_S: Mapping[str, tuple[str, float]] = {"rx_dropped": ("received packets dropped", 1.0)}
#: Share of TCP's bytes or segments that was sent again from which on it is reported; below, a
#: congested switch does its work. And never so few: a rank that waits for its core lets single
#: packets be probed for again (RFC 8985, section 7), in healthy runs on two busy cores up to 81 kB
#: a launch.
AGAIN_SHARE = 0.001
AGAIN_BYTES = 200_000
AGAIN_SEGMENTS = 200
#: Names of what is not a link in the stored rows.
OWN_TCP = "TCP of the ranks"
NODE_TCP = "TCP of the whole node"
TCP_COUNTERS = {
    "again_bytes": "bytes sent again",
    "RetransSegs": "segments sent again, of all connections of the node",
}


@dataclass(frozen=True)
class LinkState:
    """One link of one node around a run.

    :param settings: at the start (keys of :data:`SETTINGS`, and :data:`PORT_GUID`).
    :param changed: settings that were others at the end.
    :param new: counters that moved, by how much; negative where one was reset.
    """

    host: str
    link: str
    settings: Mapping[str, int | str]
    changed: Mapping[str, int | str]
    new: Mapping[str, int]


@dataclass
class LinkFinding(TrafficCheck):
    """What the links' state says about a run.

    :param states: one per rail and node, with the interfaces it is made of.
    :param errors: rows of node, link, counter, ``new``, and
        ``reported``: whether it is worth a note.
    """

    states: list[LinkState] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)


def check_links(ranks: Sequence[RankEvidence], fabric: Fabric) -> LinkFinding:
    """Judge the state of the fabric's links on every node."""
    finding = LinkFinding()
    rails = counter_names(fabric)
    if not rails or LOOPBACK in rails:
        return finding
    # RDMA ports have an MTU of their own; the site describes that of interfaces.
    mtu = fabric.mtu_bytes if mpis.transport(fabric.transport).interfaces else None
    hosts: dict[str, list[RankEvidence]] = {}
    for rank in ranks:
        if rank.finalize is not None:
            hosts.setdefault(rank.host, []).append(rank)
    for host, there in sorted(hosts.items()):
        reader = next((rank for rank in there if rank.init.links is not None), None)
        if reader is None:
            finding.sentences.append(
                f"no rank of {host} read the state of its links, because none had local rank 0: "
                "correct 'local_rank' in 'identity' of the launcher's record."
            )
            continue
        names = list(dict.fromkeys([*rails, *_below(reader, rails), *same_port(reader, fabric)]))
        states = [_state(reader, name) for name in names]
        finding.states += states
        finding.sentences += [
            sentence for state in states for sentence in _disturbed(state, state.link in rails)
        ]
        for rail, state in zip(fabric.rails, states, strict=False):  # rails come first
            _judge_rail(finding, reader, state, rail, fabric.name, mtu)
        finding.errors += [
            row for state in states for row in _error_rows(state, reader.seconds or 0.0)
        ]
        finding.errors += _tcp_rows(host, there, reader)
    # What the site describes has been compared with that, node by node.
    _judge_nodes(finding, rails, {"mtu_bytes"} if mtu is not None else set())
    return finding


def _below(rank: RankEvidence, names: Iterable[str]) -> Iterator[str]:
    """Interfaces that interfaces are made of, all the way down."""
    for name in names:
        lower = rank.interfaces[name].lower if name in rank.interfaces else ()
        yield from lower
        yield from _below(rank, lower)


def _state(rank: RankEvidence, name: str) -> LinkState:
    assert rank.finalize is not None
    start, end = (
        {**(snapshot.links or {}).get(name, {}), **snapshot.errors.get(name, {})}
        for snapshot in (rank.init, rank.finalize)
    )
    physical = is_physical(rank, name)
    address = str((rank.init.links or {}).get(name, {}).get("address", "")).lower()
    guid = address.replace(":", "")[-16:] if _WITH_GUID.fullmatch(f"{address}:") else ""
    settings, later = (
        {
            key: value
            for key, value in facts.items()
            if key in SETTINGS and (key not in PHYSICAL or (physical and value != "unknown"))
        }
        for facts in (start, end)
    )
    return LinkState(
        rank.host,
        name,
        {**settings, PORT_GUID: guid}
        if guid.strip("0") and not _is_ethernet(rank, name)
        else settings,
        {
            key: later[key]
            for key in MUST_STAY
            if key in settings and key in later and settings[key] != later[key]
        },
        {
            key: value - before
            for key, value in end.items()
            if key not in SETTINGS
            and isinstance(value, int)
            and isinstance(before := start.get(key), int)
            and value != before
        },
    )


def _is_ethernet(rank: RankEvidence, name: str) -> bool:
    return name in rank.ports and rank.ports[name].link_layer == "Ethernet"


def is_physical(rank: RankEvidence, name: str) -> bool:
    """Whether a link is a real one: not software, and not an
    adapter that a virtual machine is shown.
    """
    facts = rank.interfaces.get(name)
    port = rank.ports.get(name)
    if facts is not None:
        return (
            facts.slot is not None
            and (rank.kernel.get(f"driver of {name}") or "").partition(" ")[0]
            not in VIRTUAL_DRIVERS
        )
    # RDMA on a bond reports one member's rate or both's, efa one of its
    # own making; Slingshot has no such entry.
    return port is None or (port.link_layer in ("InfiniBand", "Ethernet") and "bond" not in name)


def _disturbed(state: LinkState, rail: bool) -> Iterator[str]:
    """Sentences on a link that was not the same link, or not up, all the time.

    :param rail: it is a rail itself, not something it is made of.
    """
    where = f"{state.link} on {state.host}"
    for counter, event in BREAKS.items():
        if (new := state.new.get(counter, 0)) > 0:
            loss = f"{event} ({counter} +{new})"
            yield (
                f"the link of {where} was interrupted during the run: {loss}; check cable, port "
                "and its log."
            )
    changed = [
        f"{SETTINGS[key]} {state.settings[key]} to {value}" for key, value in state.changed.items()
    ]
    if changed:
        yield f"the link of {where} changed during the run: {', '.join(changed)}."
    if rail and NOT_UP.fullmatch(str(state.settings.get("state", ""))):
        yield (
            f"the link of {where} is not up (state {state.settings['state']}); check cable and "
            "port."
        )
    if state.settings.get("duplex") == "half":
        yield (
            f"the link of {where} runs at half duplex; let both ends negotiate, or set both alike."
        )


def _judge_rail(
    finding: LinkFinding,
    rank: RankEvidence,
    state: LinkState,
    rail: Rail,
    name: str,
    mtu: int | None,
) -> None:
    """Hold a rail against what the site says it is, and it must be up. What it does not show is a
    note; where it shows nothing, as in a container without /sys, nothing is compared with it.

    :param mtu: in bytes, as the site describes it.
    """
    where = f"{state.link} on {state.host}"
    settings = state.settings
    described = rail.line_rate_gbit_per_s
    speed = settings.get("speed_mbit_per_s")
    rate = RATE.search(str(settings.get("rate", "")))
    gbit_per_s = (
        speed / 1000
        if isinstance(speed, int) and speed > 0
        else float(rate[1] or rate[2])
        if rate
        else None
    )
    if mtu is not None and settings.get("mtu_bytes", mtu) != mtu:
        finding.sentences.append(
            f"{where} has an MTU of {settings['mtu_bytes']}, but the site says {mtu} for {name}; "
            f"set it, or correct {SITE_FILES}."
        )
    if gbit_per_s is not None and described is not None:
        rates = f"{gbit_per_s:g} Gbit/s, but the site says {described:g} for {name}"
        if gbit_per_s < SLOW_SHARE * described:
            finding.sentences.append(f"{where} came up at {rates}; check cable and port.")
        elif gbit_per_s > FAST_SHARE * described:
            finding.notes.append(f"{where} reports {rates}")
    if (
        settings
        and "state" not in settings
        and (state.link in rank.interfaces or state.link in rank.ports)
    ):
        finding.sentences.append(
            f"the state of {where} could not be read, so it may be down; check its operstate "
            "(ports/*/state) in /sys/class on that node."
        )
    missing = {
        "state": not settings,
        "MTU": mtu is not None and "mtu_bytes" not in settings,
        "rate": gbit_per_s is None and described is not None and is_physical(rank, state.link),
    }
    if words := ", ".join(word for word, gone in missing.items() if gone):
        finding.notes.append(f"{words} of {where} could not be read, so it was not compared")


def _judge_nodes(finding: LinkFinding, rails: Sequence[str], described: Set[str]) -> None:
    """Hold the nodes' links against each other.

    :param described: settings that are left out.
    """
    for link in dict.fromkeys(state.link for state in finding.states):
        for key, word in SETTINGS.items():
            values: dict[int | str, list[str]] = {}
            for state in finding.states:
                if state.link == link and key in state.settings:
                    values.setdefault(state.settings[key], []).append(state.host)
            if len(values) < 2 or key in described:
                continue
            listed = "; ".join(
                f"{value} on {few(hosts, 4)}" for value, hosts in sorted(values.items(), key=str)
            )
            if key in MUST_AGREE and link in rails:
                finding.sentences.append(f"the nodes' links differ: {word} of {link} is {listed}.")
            elif key in MAY_DIFFER:
                finding.notes.append(f"{word} of {link} differ: {listed}")


def _error_rows(state: LinkState, seconds: float) -> Iterator[dict[str, Any]]:
    for counter, new in state.new.items():
        per_s = COMMON_PER_S.get(counter, ("", 0.0))[1]
        reported = (
            new < 0
            or (counter in ERRORS and new > 0)
            or (counter in COMMON_PER_S and new > per_s * seconds)
        )
        yield {
            "node": state.host,
            "link": state.link,
            "counter": counter,
            "new": new,
            "reported": reported,
        }


def _tcp_rows(
    host: str, ranks: Sequence[RankEvidence], reader: RankEvidence
) -> list[dict[str, Any]]:
    """What TCP sent again: the ranks' own bytes where the kernel counts
    them, and the whole node's segments, whoever's.
    """
    wires = [row.wire for rank in ranks for row in rank.connections if row.wire]
    out = sum(wire.out for wire in wires)
    again = sum(wire.again for wire in wires)
    end = reader.finalize.tcp_node if reader.finalize else {}
    segments = {key: count - reader.init.tcp_node.get(key, 0) for key, count in end.items()}
    resent = segments.get("RetransSegs", 0)
    rows = (
        (OWN_TCP, "again_bytes", again, again > max(AGAIN_SHARE * out, AGAIN_BYTES)),
        (
            NODE_TCP,
            "RetransSegs",
            resent,
            not out and resent > max(AGAIN_SHARE * segments.get("OutSegs", 0), AGAIN_SEGMENTS),
        ),
    )
    return [
        {"node": host, "link": link, "counter": counter, "new": new, "reported": reported}
        for link, counter, new, reported in rows
        if new > 0
    ]


def settings_of(states: Iterable[LinkState]) -> list[dict[str, Any]]:
    """Settings of each link, for the session's database."""
    return [{"node": state.host, "link": state.link, **state.settings} for state in states]


def describe(settings: Mapping[str, Any]) -> str:
    """Settings of a link in words: ``MTU 1500, state up``."""
    return ", ".join(f"{word} {settings[key]}" for key, word in SETTINGS.items() if key in settings)


def error_notes(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Notes on errors of a whole job: one per node, link and
    counter, with each launch they came in.

    :param rows: rows of :attr:`LinkFinding.errors`, with ``launch`` and ``repeat``.
    """
    noted: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        if row["reported"]:
            place = f"{row['new']:+d} in {row['launch']}.{row['repeat']}"
            noted.setdefault((row["link"], row["node"], row["counter"]), []).append(place)
    meanings = {
        **ERRORS,
        **{name: words for name, (words, _) in COMMON_PER_S.items()},
        **TCP_COUNTERS,
    }
    return [
        f"{link} on {node}: {counter} "
        f"{few(places, 4)}{f' ({meanings[counter]})' if counter in meanings else ''}"
        for (link, node, counter), places in noted.items()
    ]
