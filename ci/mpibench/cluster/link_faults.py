"""Faults of one node's link, processor or path, and of an uplink, as the analysis of a map of pairs is to name them.

What must go on for as long as the fault does (losing and delaying frames, stopping ranks, a link that is bad now and then) is a
process of the cluster (:mod:`.fault_process`), which is found again by its name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reframe_tests.harness.mpis import registry
from reframe_tests.harness.vocabulary import BadInput

from . import daemons, lifecycle, namespaces, network
from .plan import Fabric, Node
from .state import Process, State

Record = dict[str, Any]

#: Directions of a link as its node sees them, and of an uplink as the leaf does.
SEND, RECEIVE, BOTH = DIRECTIONS = ("send", "receive", "both")
_PROGRAM = Path(__file__).with_name("fault_process.py")
#: Smallest and largest MTU of a fault: what IPv4 needs at least, and what the cluster's links have (RFC 791).
_MTUS = (576, 1500)
#: Longest delay in microseconds that a fault adds: beyond, TCP takes it for a loss (RFC 6298, 200 ms in Linux).
_MOST_DELAY_US = 100_000


@dataclass(frozen=True)
class Fault:
    """One kind of fault.

    :param make: makes it as the record says; may add to the record what healing needs.
    :param undo: undoes it.
    """

    make: Callable[[State, Record], None]
    undo: Callable[[State, Record], None]


def _ways(record: Record) -> tuple[str, ...]:
    """The directions of a record.

    :raises BadInput: for one that does not exist.
    """
    if record["direction"] not in DIRECTIONS:
        raise BadInput(f"'{record['direction']}' is no direction; give {', '.join(DIRECTIONS)}.")
    return (SEND, RECEIVE) if record["direction"] == BOTH else (record["direction"],)


def _lines(cluster: State, node: Node, fabric: Fabric, way: str, fraction: float) -> tuple[Process, list[str]]:
    """``tc`` lines for one direction of a node's link, and in whose network they are to be run."""
    if way == SEND:
        return cluster.node_process(node.name), network.shape_lines(fabric.name, fabric, fraction)
    if fraction == 1.0:
        return cluster.init, network.port_lines(cluster.plan, node, fabric)
    return cluster.init, network.shape_lines(network.port(node, fabric), fabric, fraction)


def _slow_port(cluster: State, record: Record) -> None:
    node, fabric = cluster.plan.node(record["node"]), cluster.plan.fabric(record["fabric"])
    for way in _ways(record):
        process, lines = _lines(cluster, node, fabric, way, record["fraction"])
        lifecycle.batch(cluster, process, "tc", lines)


def _usual_port(cluster: State, record: Record) -> None:
    if cluster.nodes[record["node"]].alive:
        lifecycle.shape(cluster, cluster.plan.node(record["node"]), fabrics=[record["fabric"]])


def _slow_uplink(cluster: State, record: Record) -> None:
    ends = {SEND: "up", RECEIVE: "down"}
    lines = network.uplink_lines(cluster.plan.leaf(record["leaf"]), record["fraction"], [ends[way] for way in _ways(record)])
    lifecycle.batch(cluster, cluster.init, "tc", lines)


def _usual_uplink(cluster: State, record: Record) -> None:
    lifecycle.batch(cluster, cluster.init, "tc", network.uplink_lines(cluster.plan.leaf(record["leaf"])))


def _other_mtu(cluster: State, record: Record) -> None:
    if not _MTUS[0] <= record["mtu"] <= _MTUS[1]:
        raise BadInput(f"an MTU of {record['mtu']} bytes is not possible; give {_MTUS[0]} to {_MTUS[1]}.")
    _set_mtu(cluster, record, record["mtu"])


def _usual_mtu(cluster: State, record: Record) -> None:
    if cluster.nodes[record["node"]].alive:
        _set_mtu(cluster, record, _MTUS[1])


def _set_mtu(cluster: State, record: Record, mtu: int) -> None:
    fabric = cluster.plan.fabric(record["fabric"])
    lifecycle.batch(cluster, cluster.node_process(record["node"]), "ip", [f"link set {fabric.name} mtu {mtu}"])


def _begin(cluster: State, process: Process, name: str, words: Sequence[object]) -> None:
    """Start a process of :mod:`.fault_process` and wait until it goes by its name.

    :raises BadInput: if it ends at once.
    """
    log = lifecycle.log_dir() / f"{name}.log"
    namespaces.start(cluster, process, [sys.executable, str(_PROGRAM), name, *map(str, words)], log, {})
    if not namespaces.wait_until(lambda: name in daemons.processes_of(process).values(), 10):
        raise BadInput(f"the fault's process {name} did not start; see {log}.")


def relay_names(node: Node, fabric: Fabric) -> tuple[str, str, str]:
    """A relay's process, and both ends of the cable that it puts between a node's port and the switch."""
    where = f"{node.index}-{fabric.name}"
    return f"relay{where}", f"ra{where}", f"rb{where}"


def _relay(cluster: State, record: Record) -> None:
    node, fabric = cluster.plan.node(record["node"]), cluster.plan.fabric(record["fabric"])
    delay, loss = record.get("delay_us", 0), record.get("loss", 0.0)
    if not 0 <= delay <= _MOST_DELAY_US:
        raise BadInput(f"a delay of {delay} us is not possible; give one up to {_MOST_DELAY_US}.")
    if not 0 <= loss < 1:
        raise BadInput(f"a loss of {loss} of the frames is not possible; give one of at least 0, below 1.")
    ways = _ways(record)
    name, inner, outer = relay_names(node, fabric)
    if inner in daemons.interfaces(cluster.init):
        raise BadInput(
            f"the cable of {node.name} on {fabric.name} has such a fault already; 'mpibench cluster fault heal' first."
        )
    port, bridge = network.port(node, fabric), network.bridge_above(cluster.plan, node, fabric)
    lines = [
        f"link add {inner} type veth peer name {outer}",
        f"link set {port} nomaster promisc on",
        f"link set {inner} promisc on up",
        f"link set {outer} master {bridge} up",
    ]
    lifecycle.batch(cluster, cluster.init, "ip", lines)
    # What the node sends comes in at its port, and goes on to the switch by the inner end; what it receives the other way.
    settings = [f"{delay if way in ways else 0}:{loss if way in ways else 0}" for way in (SEND, RECEIVE)]
    _begin(cluster, cluster.init, name, ["relay", port, inner, *settings])


def _without_relay(cluster: State, record: Record) -> None:
    node, fabric = cluster.plan.node(record["node"]), cluster.plan.fabric(record["fabric"])
    name, inner, _ = relay_names(node, fabric)
    daemons.kill(cluster.init, (name,))
    there = daemons.interfaces(cluster.init)
    port = network.port(node, fabric)
    lines = [f"link del {inner}"] if inner in there else []
    lines += [f"link set {port} promisc off master {network.bridge_above(cluster.plan, node, fabric)}"] if port in there else []
    lifecycle.batch(cluster, cluster.init, "ip", lines)


def _slow_cpu(cluster: State, record: Record) -> None:
    _begin(
        cluster, cluster.node_process(record["node"]), "mc-throttle", ["throttle", record["fraction"], *registry.libraries()]
    )


def _usual_cpu(cluster: State, record: Record) -> None:
    process = cluster.nodes[record["node"]]
    if process.alive and daemons.kill(process, ("mc-throttle",)):
        # It may have been killed while the ranks were stopped.
        namespaces.run(cluster, process, [sys.executable, str(_PROGRAM), "mc-continue", "throttle", "1", *registry.libraries()])


def _toggle_name(record: Record) -> str:
    return f"tg-{record['node']}-{record['fabric']}"[:15]


def _now_and_then(cluster: State, record: Record) -> None:
    if min(record["bad_s"], record["good_s"]) <= 0:
        raise BadInput("a link that is bad now and then needs seconds above 0 for both; give --bad-s and --good-s.")
    if record["direction"] not in (SEND, RECEIVE):
        raise BadInput(f"a link that is bad now and then is so in one direction; give {SEND} or {RECEIVE}.")
    node, fabric = cluster.plan.node(record["node"]), cluster.plan.fabric(record["fabric"])
    process, bad = _lines(cluster, node, fabric, record["direction"], record["fraction"])
    usual = _lines(cluster, node, fabric, record["direction"], 1.0)[1]
    words = ["toggle", record["bad_s"], record["good_s"], "; ".join(bad), "; ".join(usual)]
    _begin(cluster, process, _toggle_name(record), words)


def _lasting_rate(cluster: State, record: Record) -> None:
    for process in (cluster.init, cluster.nodes[record["node"]]):
        if process.alive:
            daemons.kill(process, (_toggle_name(record),))
    _usual_port(cluster, record)


def _same_address(cluster: State, record: Record) -> None:
    node, fabric = cluster.plan.node(record["node"]), cluster.plan.fabric(record["fabric"])
    other = next(each for each in cluster.plan.compute_nodes if each.name != node.name)
    _change_address(cluster, node, fabric, node.address(fabric), other.address(fabric))


def _own_address(cluster: State, record: Record) -> None:
    node, fabric = cluster.plan.node(record["node"]), cluster.plan.fabric(record["fabric"])
    other = next(each for each in cluster.plan.compute_nodes if each.name != node.name)
    if cluster.nodes[node.name].alive:
        _change_address(cluster, node, fabric, other.address(fabric), node.address(fabric))


def _change_address(cluster: State, node: Node, fabric: Fabric, before: str, after: str) -> None:
    # Flushing what is not there does no harm.
    lines = [f"addr flush dev {fabric.name} to {before}/32", f"addr replace {after}/24 dev {fabric.name}"]
    route = f"route replace 10.61.{fabric.subnet}.0/24 dev {fabric.name} src {after} congctl {network.CONGESTION_CONTROL}"
    lifecycle.batch(cluster, cluster.node_process(node.name), "ip", [*lines, route])


FAULTS: dict[str, Fault] = {
    "same-address": Fault(_same_address, _own_address),
    "slow-port": Fault(_slow_port, _usual_port),
    "slow-uplink": Fault(_slow_uplink, _usual_uplink),
    "lossy-cable": Fault(_relay, _without_relay),
    "delay": Fault(_relay, _without_relay),
    "mtu": Fault(_other_mtu, _usual_mtu),
    "slow-cpu": Fault(_slow_cpu, _usual_cpu),
    "flapping": Fault(_now_and_then, _lasting_rate),
}
