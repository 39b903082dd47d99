"""What the cluster consists of: fabrics, nodes, the host's cores that each node shows to Slurm; and
the ``ip`` and ``tc`` lines that make its network. Pure tables and functions; names that do not
exist are refused here, once.

Congestion control is cubic per route, whatever the host's default, so that results do not depend on
the host (``ip-route(8)``, ``congctl``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from reframe_tests.harness.vocabulary import BadInput, meant

CLUSTER_NAME = "minicluster"
HEAD = "mc-head"
SPINE = "spine"
MAX_NODES = 32
#: Nodes of a leaf switch, and the smallest cluster that has them unless it is requested otherwise.
LEAF_SIZE = 4
LEAVES_FROM = 5


@dataclass(frozen=True)
class ClusterFabric:
    """One network: a bridge in the switch namespace and an
    interface of the same name on every node.

    :param name: fabric, interface and Slurm partition name.
    :param subnet: third octet of its addresses 10.61.<subnet>.<node>/24.
    :param line_rate_mbit_per_s: nominal rate; ``None``: as fast as the host's memory lets it be.
    :param burst_bytes: depth of the token bucket.
    :param partition: whether Slurm gets a partition of this name.
    """

    name: str
    subnet: int
    line_rate_mbit_per_s: int | None = None
    burst_bytes: int = 0
    partition: bool = True

    @property
    def shaped_kbit_per_s(self) -> int | None:
        """Rate for htb in kbit/s, or ``None``.

        htb counts Ethernet frames of 1514 bytes for the 1538 a real link spends on them (preamble
        8, checksum 4, gap 12; IEEE 802.3 clauses 3 and 4), so it gets 1514/1538 of the nominal
        rate. TCP payload is 1448 of each 1538 bytes at an MTU of 1500: 117.69 MB/s at 1 Gbit/s.
        """
        rate = self.line_rate_mbit_per_s
        return None if rate is None else round(rate * 1000 * 1514 / 1538 / 100) * 100

    @property
    def bridge(self) -> str:
        """Its bridge in the switch namespace."""
        return f"br-{self.name}"


#: Rates as measured to hold within 2 % on two cores; a burst of 5000 bytes (three frames) keeps
#: PingPong honest at 1 Gbit/s, 10 Gbit/s needs 32 KiB because the kernel's timer cannot refill the
#: bucket more often.
FABRICS: tuple[ClusterFabric, ...] = (
    ClusterFabric("mgmt", 0, partition=False),
    ClusterFabric("eth1g", 1, 1_000, 5_000),
    ClusterFabric("eth10g", 10, 10_000, 32_768),
    ClusterFabric("eth40g", 40),
)
DATA_FABRICS: tuple[str, ...] = tuple(fabric.name for fabric in FABRICS if fabric.partition)
#: The fabric of leaf switches and a spine, on clusters that have them. Two cores carry 16 links of
#: this rate at the same time.
LEAF_FABRIC = ClusterFabric("eth100m", 100, 100, 5_000)
#: What a fraction of a fabric without a rate is taken of.
_UNSHAPED = ClusterFabric("unshaped", 0, 40_000)


@dataclass(frozen=True)
class ClusterTopology:
    """What a node shows: sockets x cores, and the host CPU behind each
    core, in Slurm's order (socket by socket).

    :param real: false if the host does not have these CPUs, so that nothing can be bound to them.
    """

    sockets: int
    cores_per_socket: int
    cpus: tuple[int, ...]
    real: bool = True

    @property
    def by_socket(self) -> list[tuple[int, ...]]:
        """The CPUs of each socket."""
        size = self.cores_per_socket
        return [self.cpus[first : first + size] for first in range(0, len(self.cpus), size)]


@dataclass(frozen=True)
class ClusterNode:
    """A node: the head (``index`` 0: Slurm's controller, the accounting
    and ReFrame) or a compute node (``c1`` is 1).
    """

    name: str
    index: int

    @property
    def is_head(self) -> bool:
        return self.index == 0

    def address(self, fabric: ClusterFabric) -> str:
        """IPv4 address on a fabric; the head is .254."""
        return f"10.61.{fabric.subnet}.{254 if self.is_head else self.index}"

    def hardware_address(self, fabric: ClusterFabric) -> str:
        """Ethernet address, locally administered; a node that comes
        back has the one its neighbours remember.
        """
        return f"02:61:00:00:{fabric.subnet:02x}:{254 if self.is_head else self.index:02x}"

    def port(self, fabric: ClusterFabric) -> str:
        """Interface of the switch that the node's cable ends in."""
        return f"{self.name}.{fabric.name}"


@dataclass(frozen=True)
class Leaf:
    """A leaf switch: a bridge of :data:`LEAF_FABRIC` with an uplink to
    the spine, whose rate each direction has.
    """

    name: str
    nodes: tuple[ClusterNode, ...]
    uplink: ClusterFabric

    @property
    def uplink_ends(self) -> tuple[str, str]:
        """What the leaf sends goes out of the first interface, what
        the spine sends out of the second.
        """
        return f"{self.name}-up", f"{self.name}-down"


_Named = TypeVar("_Named", ClusterFabric, ClusterNode, Leaf)


def _named(name: str, known: Iterable[_Named], what: str) -> _Named:
    rows = {row.name: row for row in known}
    if name not in rows:
        listed = ", ".join(rows) or "none; bring it up with --leaf-size"
        raise BadInput(
            "unknown-name",
            f"there is no {what} '{name}'{meant(name, rows)}; the cluster has {listed}.",
        )
    return rows[name]


@dataclass(frozen=True)
class ClusterPlan:
    """The cluster as requested.

    :param compute: number of compute nodes.
    :param layout: one of :data:`LAYOUTS`.
    :param host_cpus: one CPU of each physical core the cluster may use.
    :param shared: directories visible on all nodes although they lie
        under a path that is private to each.
    :param leaf_size: nodes of a leaf switch; 0: no leaves and no :data:`LEAF_FABRIC`.
    :param oversubscription: what the nodes of a leaf can send
        together, over what its uplink carries.
    """

    compute: int
    layout: str
    host_cpus: tuple[int, ...]
    shared: tuple[str, ...] = ()
    leaf_size: int = 0
    oversubscription: float = 1.0

    @property
    def fabrics(self) -> tuple[ClusterFabric, ...]:
        return (*FABRICS, LEAF_FABRIC) if self.leaf_size else FABRICS

    @property
    def nodes(self) -> tuple[ClusterNode, ...]:
        """The head, then the compute nodes."""
        return tuple(
            ClusterNode(f"c{index}" if index else HEAD, index) for index in range(self.compute + 1)
        )

    @property
    def compute_nodes(self) -> tuple[ClusterNode, ...]:
        return self.nodes[1:]

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaf switches with their nodes, ``leaf1`` first."""
        if not self.leaf_size:
            return ()
        rate = LEAF_FABRIC.line_rate_mbit_per_s or 0
        uplink = round(self.leaf_size * rate / self.oversubscription)
        # A bucket that lasts as long as that of a cable.
        burst = LEAF_FABRIC.burst_bytes * max(1, round(uplink / rate))
        parts = [
            self.compute_nodes[at : at + self.leaf_size]
            for at in range(0, self.compute, self.leaf_size)
        ]
        return tuple(
            Leaf(
                f"leaf{number}",
                nodes,
                ClusterFabric(
                    f"uplink{number}", LEAF_FABRIC.subnet, uplink, burst, partition=False
                ),
            )
            for number, nodes in enumerate(parts, 1)
        )

    def fabric(self, name: str) -> ClusterFabric:
        return _named(name, self.fabrics, "fabric")

    def node(self, name: str) -> ClusterNode:
        return _named(name, self.nodes, "node")

    def leaf(self, name: str) -> Leaf:
        return _named(name, self.leaves, "leaf switch")

    def bridge_above(self, node: ClusterNode, fabric: ClusterFabric) -> str:
        """Bridge that a node's cable ends in: of its leaf switch where the
        fabric has leaves; the head is on the spine.
        """
        leaf = (
            next((leaf for leaf in self.leaves if node in leaf.nodes), None)
            if fabric == LEAF_FABRIC
            else None
        )
        return leaf.name if leaf else fabric.bridge

    def topology(self, node: ClusterNode) -> ClusterTopology:
        """What this compute node shows to Slurm."""
        return LAYOUTS[self.layout](self, node)


def _spread(plan: ClusterPlan, node: ClusterNode) -> ClusterTopology:
    """All cores of the host on every node, each node counting from another one.

    On two cores, c1 counts (0, 1) and c2 (1, 0): one rank per node lands on different cores, two
    ranks per node fit. The set of CPUs is the same on every node, because an explicit list of CPUs
    is the same for every node.
    """
    count = len(plan.host_cpus)
    first = (node.index - 1) * max(1, count // plan.compute)
    return ClusterTopology(
        1, count, tuple(plan.host_cpus[(first + i) % count] for i in range(count))
    )


def _westmere(plan: ClusterPlan, node: ClusterNode) -> ClusterTopology:
    """Two sockets of six cores, numbered alternately (socket 0 has
    the even CPUs), as on a dual Xeon X5650.
    """
    return ClusterTopology(
        2, 6, tuple(2 * core + socket for socket in range(2) for core in range(6)), real=False
    )


#: Layout name to what a node shows. ``spread`` is the default: 1 and
#: 2 ranks per node both run on two cores.
LAYOUTS = {"spread": _spread, "westmere": _westmere}
DEFAULT_LAYOUT = "spread"


def physical_cores(
    cpus: Iterable[int], sysfs: Path = Path("/sys/devices/system/cpu")
) -> tuple[int, ...]:
    """The first CPU of each physical core among these, in order
    (``topology/thread_siblings_list``, e.g. ``0,4`` or ``0-1``).

    A CPU whose siblings cannot be read counts as a core.
    """
    first: dict[str, int] = {}
    for cpu in sorted(cpus):
        try:
            core = (sysfs / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
        except OSError:
            core = f"cpu{cpu}"
        first.setdefault(core, cpu)
    return tuple(first.values())


def make(
    compute: int,
    layout: str,
    shared: Sequence[Path] = (),
    leaf_size: int | None = None,
    oversubscription: float = 1.0,
) -> ClusterPlan:
    """The plan for this machine; without a ``leaf_size``,
    :data:`LEAF_SIZE` from :data:`LEAVES_FROM` nodes on.
    """
    if not 1 <= compute <= MAX_NODES:
        raise BadInput(
            "bad-option", f"a cluster of {compute} nodes cannot be built; ask for 1 to {MAX_NODES}."
        )
    if layout not in LAYOUTS:
        raise BadInput(
            "unknown-name", f"there is no layout '{layout}'; known are {', '.join(LAYOUTS)}."
        )
    if leaf_size is None:
        leaf_size = LEAF_SIZE if compute >= LEAVES_FROM else 0
    if not 0 <= leaf_size <= MAX_NODES:
        raise BadInput(
            "system-description",
            f"a leaf switch of {leaf_size} nodes cannot be built; give 1 to {MAX_NODES}, or 0 "
            "for none.",
        )
    if not 0.5 <= oversubscription <= 16:
        raise BadInput(
            "system-description",
            f"an oversubscription of {oversubscription:g} cannot be built; give 0.5 to 16.",
        )
    cpus = physical_cores(os.sched_getaffinity(0))
    paths = tuple(str(path) for path in shared)
    return ClusterPlan(compute, layout, cpus, paths, leaf_size, float(oversubscription))


# ---- the network, as input of ``ip -batch`` and ``tc -batch`` ----


def switch_lines(plan: ClusterPlan) -> list[str]:
    """``ip``: the bridges, and the uplinks between them. Without spanning
    tree and delay a port carries traffic at once.
    """
    lines = ["link set lo up"]
    for name in (*(fabric.bridge for fabric in plan.fabrics), *(leaf.name for leaf in plan.leaves)):
        lines += [
            f"link add {name} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            f"link set {name} up",
        ]
    for leaf in plan.leaves:
        up, down = leaf.uplink_ends
        lines += [
            f"link add {up} type veth peer name {down}",
            f"link set {up} master {leaf.name} up",
        ]
        lines += [f"link set {down} master {LEAF_FABRIC.bridge} up"]
    return lines


def cable_lines(plan: ClusterPlan, node: ClusterNode, pid: int) -> list[str]:
    """``ip``, in the switch: connect a node (its init's process id) to every bridge."""
    lines = []
    for fabric in plan.fabrics:
        port = node.port(fabric)
        address = node.hardware_address(fabric)
        lines += [
            f"link add {port} type veth peer name {fabric.name} address {address} netns {pid}"
        ]
        lines += [f"link set {port} master {plan.bridge_above(node, fabric)} up"]
    return lines


def node_lines(
    node: ClusterNode, fabric: ClusterFabric, instead_of: ClusterNode | None = None
) -> list[str]:
    """``ip``, on a node: bring an interface up with the address of a
    node, instead of another's. Repeatable.
    """
    name = fabric.name
    address = node.address(fabric)
    return [
        *([f"addr flush dev {name} to {instead_of.address(fabric)}/32"] if instead_of else []),
        f"addr replace {address}/24 dev {name}",
        f"link set {name} up",
        f"route replace 10.61.{fabric.subnet}.0/24 dev {name} src {address} congctl cubic",
    ]


def clear_lines(device: str) -> list[str]:
    """``tc``: take a device's shaper away; fails where there is
    none, so run it with ``tc -force``.
    """
    return [f"qdisc del dev {device} root"]


def shape_lines(device: str, fabric: ClusterFabric, fraction: float = 1.0) -> list[str]:
    """``tc``: give a device the fabric's rate, or a fraction of it, or
    none if the fabric has none. Repeatable.
    """
    if fabric.line_rate_mbit_per_s is None and fraction == 1.0:
        return clear_lines(device)
    # three frames at least
    rate = _fraction(fabric, fraction)
    burst = max(fabric.burst_bytes, 5_000)
    # One class only, so any quantum above a frame will do (tc-htb(8)).
    shaper = f"htb rate {rate} ceil {rate} burst {burst} cburst {burst} quantum 60000"
    lines = [f"qdisc add dev {device} root handle 1: htb default 1"]
    return [*clear_lines(device), *lines, f"class add dev {device} parent 1: classid 1:1 {shaper}"]


def _fraction(fabric: ClusterFabric, fraction: float) -> str:
    return f"{round((fabric.shaped_kbit_per_s or _UNSHAPED.shaped_kbit_per_s or 0) * fraction)}kbit"


def port_lines(
    plan: ClusterPlan, node: ClusterNode, fabric: ClusterFabric, fraction: float = 1.0
) -> list[str]:
    """``tc``, in the switch: the same shaper at its end of a cable where
    more than two nodes share a fabric, else none.

    With two nodes a sender's own rate is the limit of the receiver;
    with more, several senders meet at one port.
    """
    shaped = plan.compute > 2 and not node.is_head
    return (
        shape_lines(node.port(fabric), fabric, fraction)
        if shaped
        else clear_lines(node.port(fabric))
    )


def police_lines(device: str, fabric: ClusterFabric, fraction: float) -> list[str]:
    """``tc``: drop what exceeds a fraction of the fabric's rate, instead of queueing it.

    A token bucket whose queue holds no more than the bucket
    (``tc-tbf(8)``): not every kernel has the police action.
    """
    burst = max(fabric.burst_bytes, 16_000)  # ten frames
    policer = f"tbf rate {_fraction(fabric, fraction)} burst {burst} limit {burst}"
    return [*clear_lines(device), f"qdisc add dev {device} root handle 1: {policer}"]


def uplink_lines(leaf: Leaf, fraction: float = 1.0, ends: Sequence[int] = (0, 1)) -> list[str]:
    """``tc``: give a leaf's uplink its rate, or a fraction of it, in both
    directions or one (:attr:`Leaf.uplink_ends`).
    """
    return [
        line for end in ends for line in shape_lines(leaf.uplink_ends[end], leaf.uplink, fraction)
    ]
