"""The plan as input of ``ip -batch`` and ``tc -batch``: bridges, links, addresses, rates. Pure text.

Congestion control is cubic per route, whatever the host's default, so that results do not depend on the host
(``ip-route(8)``, ``congctl``).
"""

from __future__ import annotations

from collections.abc import Sequence

from .plan import LEAF_FABRIC, Fabric, Leaf, Node, Plan

CONGESTION_CONTROL = "cubic"
#: Bytes a class may send before the next gets its turn (``tc-htb(8)``); one class only, so any value above a frame will do.
_QUANTUM = 60_000
#: Bucket of a shaper on a fabric that has none of its own: three frames.
_LEAST_BURST = 5_000
#: Bucket of the policer: ten frames.
_POLICED_BURST = 16_000
#: What a fraction of an unshaped fabric is taken of.
UNSHAPED = Fabric("unshaped", 0, 40_000)


def port(node: Node, fabric: Fabric) -> str:
    """Interface of the switch that the node's cable ends in."""
    return f"{node.name}.{fabric.name}"


def bridge(fabric: Fabric) -> str:
    """Bridge of a fabric in the switch namespace."""
    return f"br-{fabric.name}"


def bridge_above(plan: Plan, node: Node, fabric: Fabric) -> str:
    """Bridge that a node's cable of a fabric ends in: that of its leaf switch, where the fabric has leaves."""
    leaf = plan.leaf_above(node) if fabric == LEAF_FABRIC else None
    return leaf.name if leaf else bridge(fabric)


def uplink_ends(leaf: Leaf) -> tuple[str, str]:
    """The interfaces of a leaf's uplink: what the leaf sends goes out of the first, what the spine sends of the second."""
    return f"{leaf.name}-up", f"{leaf.name}-down"


def switch_lines(plan: Plan) -> list[str]:
    """``ip`` commands that make the bridges, and the uplinks between them.

    Without spanning tree and with no forwarding delay a port carries traffic at once.
    """
    lines = ["link set lo up"]
    for name in (*(bridge(fabric) for fabric in plan.fabrics), *(leaf.name for leaf in plan.leaves)):
        lines += [f"link add {name} type bridge stp_state 0 forward_delay 0 mcast_snooping 0", f"link set {name} up"]
    for leaf in plan.leaves:
        up, down = uplink_ends(leaf)
        lines += [
            f"link add {up} type veth peer name {down}",
            f"link set {up} master {leaf.name} up",
            f"link set {down} master {bridge(LEAF_FABRIC)} up",
        ]
    return lines


def uplink_lines(leaf: Leaf, fraction: float = 1.0, directions: Sequence[str] = ("up", "down")) -> list[str]:
    """``tc`` commands that give a leaf's uplink its rate, or a fraction of it, in these directions."""
    ends = dict(zip(("up", "down"), uplink_ends(leaf), strict=True))
    return [line for direction in directions for line in shape_lines(ends[direction], leaf.uplink, fraction)]


def cable_lines(plan: Plan, node: Node, pid: int) -> list[str]:
    """``ip`` commands, for the switch, that connect a node (its init's process id) to every bridge."""
    lines = []
    for fabric in plan.fabrics:
        switch_end = port(node, fabric)
        lines += [
            f"link add {switch_end} type veth peer name {fabric.name} address {node.hardware_address(fabric)} netns {pid}",
            f"link set {switch_end} master {bridge_above(plan, node, fabric)} up",
        ]
    return lines


def node_lines(plan: Plan, node: Node) -> list[str]:
    """``ip`` commands, for the node, that bring its interfaces up."""
    lines = ["link set lo up"]
    for fabric in plan.fabrics:
        address = node.address(fabric)
        lines += [
            f"addr add {address}/24 dev {fabric.name}",
            f"link set {fabric.name} up",
            f"route replace 10.61.{fabric.subnet}.0/24 dev {fabric.name} src {address} congctl {CONGESTION_CONTROL}",
        ]
    return lines


def clear_lines(device: str) -> list[str]:
    """``tc`` commands that take a device's shaper away; they fail where there is none, so run them with ``tc -force``."""
    return [f"qdisc del dev {device} root"]


def _rate(fabric: Fabric) -> int:
    return fabric.shaped_kbit_per_s or UNSHAPED.shaped_kbit_per_s or 0


def shape_lines(device: str, fabric: Fabric, fraction: float = 1.0) -> list[str]:
    """``tc`` commands that give a device the fabric's rate, or a fraction of it, or none if the fabric has none.

    Clearing first makes the lines repeatable.
    """
    if fabric.line_rate_mbit_per_s is None and fraction == 1.0:
        return clear_lines(device)
    burst = max(fabric.burst_bytes, _LEAST_BURST)
    shaped = f"{round(_rate(fabric) * fraction)}kbit"
    return [
        *clear_lines(device),
        f"qdisc add dev {device} root handle 1: htb default 1",
        f"class add dev {device} parent 1: classid 1:1 htb rate {shaped} ceil {shaped} "
        f"burst {burst} cburst {burst} quantum {_QUANTUM}",
    ]


def port_lines(plan: Plan, node: Node, fabric: Fabric, fraction: float = 1.0) -> list[str]:
    """``tc`` commands for the switch's end of a cable: the same shaper where more than two nodes share a fabric, else none.

    With two nodes a sender's own rate is the limit of the receiver; with more, several senders meet at one port.
    """
    if plan.compute > 2 and not node.is_head:
        return shape_lines(port(node, fabric), fabric, fraction)
    return clear_lines(port(node, fabric))


def police_lines(device: str, fabric: Fabric, fraction: float) -> list[str]:
    """``tc`` commands that drop what exceeds a fraction of the fabric's rate, instead of queueing it.

    A token bucket whose queue holds no more than the bucket (``tc-tbf(8)``): not every kernel has the police action.
    """
    burst = max(fabric.burst_bytes, _POLICED_BURST)
    return [
        *clear_lines(device),
        f"qdisc add dev {device} root handle 1: tbf rate {round(_rate(fabric) * fraction)}kbit burst {burst} limit {burst}",
    ]
