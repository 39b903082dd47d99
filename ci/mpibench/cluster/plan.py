"""What the cluster consists of: fabrics, nodes, and which of the host's cores each node shows to Slurm.

Pure tables and functions; ``slurm`` and ``network`` turn a plan into configuration text.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reframe_tests.harness.vocabulary import BadInput

CLUSTER_NAME = "minicluster"
HEAD = "mc-head"
MAX_NODES = 32


@dataclass(frozen=True)
class Fabric:
    """One network: a bridge in the switch namespace and an interface of the same name on every node.

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

        htb counts Ethernet frames of 1514 bytes for the 1538 a real link spends on them (preamble 8, checksum 4, gap 12;
        IEEE 802.3 clauses 3 and 4), so it gets 1514/1538 of the nominal rate. TCP payload is 1448 of each 1538 bytes
        at an MTU of 1500: 117.69 MB/s at 1 Gbit/s.
        """
        if self.line_rate_mbit_per_s is None:
            return None
        return round(self.line_rate_mbit_per_s * 1000 * 1514 / 1538 / 100) * 100


#: Rates as measured to hold within 2 % on two cores; a burst of 5000 bytes (three frames) keeps PingPong honest at 1 Gbit/s,
#: 10 Gbit/s needs 32 KiB because the kernel's timer cannot refill the bucket more often.
FABRICS: tuple[Fabric, ...] = (
    Fabric("mgmt", 0, partition=False),
    Fabric("eth1g", 1, 1_000, 5_000),
    Fabric("eth10g", 10, 10_000, 32_768),
    Fabric("eth40g", 40),
)
DATA_FABRICS: tuple[str, ...] = tuple(fabric.name for fabric in FABRICS if fabric.partition)
#: The fabric of leaf switches and a spine, on clusters that have them. Two cores carry 16 links of this rate at the same time.
LEAF_FABRIC = Fabric("eth100m", 100, 100, 5_000)
#: Nodes of a leaf switch, and the smallest cluster that has them unless it is asked for otherwise.
LEAF_SIZE, LEAVES_FROM = 4, 5
SPINE = "spine"
LEAST_OVERSUBSCRIPTION, MOST_OVERSUBSCRIPTION = 0.5, 16.0


def fabric_of(name: str, fabrics: Sequence[Fabric] = FABRICS) -> Fabric:
    """The fabric of this name, by default of a cluster without leaf switches.

    :raises BadInput: listing the known ones.
    """
    for fabric in fabrics:
        if fabric.name == name:
            return fabric
    raise BadInput(f"there is no fabric '{name}'; the cluster has {', '.join(fabric.name for fabric in fabrics)}.")


@dataclass(frozen=True)
class Topology:
    """What a node shows: sockets x cores, and the host CPU behind each core, in Slurm's order.

    :param cpus: CPU number of each core, socket by socket.
    :param real: false if the host does not have these CPUs, so that nothing can be bound to them.
    """

    sockets: int
    cores_per_socket: int
    cpus: tuple[int, ...]
    real: bool = True


@dataclass(frozen=True)
class Node:
    """A node: the head (``index`` 0) or a compute node (``c1`` is 1)."""

    name: str
    index: int

    @property
    def is_head(self) -> bool:
        """True for the node with the Slurm controller, the accounting and ReFrame."""
        return self.index == 0

    def address(self, fabric: Fabric) -> str:
        """IPv4 address on a fabric; the head is .254."""
        return f"10.61.{fabric.subnet}.{254 if self.is_head else self.index}"

    def hardware_address(self, fabric: Fabric) -> str:
        """Ethernet address, locally administered; a node that comes back has the one its neighbours remember."""
        return f"02:61:00:00:{fabric.subnet:02x}:{254 if self.is_head else self.index:02x}"


@dataclass(frozen=True)
class Leaf:
    """A leaf switch: a bridge of :data:`LEAF_FABRIC` with an uplink to the spine.

    :param uplink: its rate, from the spine and to it.
    """

    name: str
    nodes: tuple[Node, ...]
    uplink: Fabric


@dataclass(frozen=True)
class Plan:
    """The cluster as asked for.

    :param compute: number of compute nodes.
    :param layout: one of :data:`LAYOUTS`.
    :param host_cpus: one CPU of each physical core the cluster may use.
    :param shared: directories visible on all nodes although they lie under a path that is private to each.
    :param leaf_size: nodes of a leaf switch; 0: no leaves and no :data:`LEAF_FABRIC`.
    :param oversubscription: what the nodes of a leaf can send together, over what its uplink carries.
    """

    compute: int
    layout: str
    host_cpus: tuple[int, ...]
    shared: tuple[str, ...] = ()
    leaf_size: int = 0
    oversubscription: float = 1.0

    @property
    def fabrics(self) -> tuple[Fabric, ...]:
        """The cluster's networks."""
        return (*FABRICS, LEAF_FABRIC) if self.leaf_size else FABRICS

    def fabric(self, name: str) -> Fabric:
        """The fabric of this name.

        :raises BadInput: listing the known ones.
        """
        return fabric_of(name, self.fabrics)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaf switches with their nodes, ``leaf1`` first."""
        if not self.leaf_size:
            return ()
        rate = LEAF_FABRIC.line_rate_mbit_per_s or 0
        uplink = round(self.leaf_size * rate / self.oversubscription)
        # A bucket that lasts as long as that of a cable.
        burst = LEAF_FABRIC.burst_bytes * max(1, round(uplink / rate))
        parts = [self.compute_nodes[at : at + self.leaf_size] for at in range(0, self.compute, self.leaf_size)]
        return tuple(
            Leaf(f"leaf{number}", nodes, Fabric(f"uplink{number}", LEAF_FABRIC.subnet, uplink, burst, partition=False))
            for number, nodes in enumerate(parts, 1)
        )

    def leaf(self, name: str) -> Leaf:
        """The leaf switch of this name.

        :raises BadInput: listing the known ones.
        """
        for leaf in self.leaves:
            if leaf.name == name:
                return leaf
        known = ", ".join(leaf.name for leaf in self.leaves) or "none; bring it up with --leaf-size"
        raise BadInput(f"there is no leaf switch '{name}'; the cluster has {known}.")

    def leaf_above(self, node: Node) -> Leaf | None:
        """The leaf switch a node is plugged into; ``None`` for the head, which is on the spine, and without leaves."""
        return next((leaf for leaf in self.leaves if node in leaf.nodes), None)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The head, then the compute nodes."""
        return tuple(Node(HEAD if index == 0 else f"c{index}", index) for index in range(self.compute + 1))

    @property
    def compute_nodes(self) -> tuple[Node, ...]:
        """Nodes with a slurmd."""
        return self.nodes[1:]

    def node(self, name: str) -> Node:
        """The node of this name.

        :raises BadInput: listing the known ones.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise BadInput(f"there is no node '{name}'; the cluster has {', '.join(node.name for node in self.nodes)}.")

    def topology(self, node: Node) -> Topology:
        """What this compute node shows to Slurm."""
        return LAYOUTS[self.layout](self, node)

    def as_dict(self) -> dict[str, Any]:
        """For the state file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Plan:
        """From the state file."""
        leaves = (int(row.get("leaf_size", 0)), float(row.get("oversubscription", 1.0)))
        return cls(row["compute"], row["layout"], tuple(row["host_cpus"]), tuple(row["shared"]), *leaves)


def _spread(plan: Plan, node: Node) -> Topology:
    """All cores of the host on every node, each node counting from another one.

    On two cores, c1 counts (0, 1) and c2 (1, 0): one rank per node lands on different cores, two ranks per node fit. The
    set of CPUs is the same on every node, because an explicit list of CPUs is the same for every node.
    """
    count = len(plan.host_cpus)
    first = (node.index - 1) * max(1, count // plan.compute)
    return Topology(1, count, tuple(plan.host_cpus[(first + i) % count] for i in range(count)))


def _westmere(plan: Plan, node: Node) -> Topology:
    """Two sockets of six cores, numbered alternately (socket 0 has the even CPUs), as on a dual Xeon X5650."""
    return Topology(2, 6, tuple(2 * core + socket for socket in range(2) for core in range(6)), real=False)


#: Layout name to what a node shows. ``spread`` is the default: 1 and 2 ranks per node both run on two cores.
LAYOUTS = {"spread": _spread, "westmere": _westmere}
DEFAULT_LAYOUT = "spread"


def physical_cores(cpus: Iterable[int], sysfs: Path = Path("/sys/devices/system/cpu")) -> tuple[int, ...]:
    """The first CPU of each physical core among these, in order (``topology/thread_siblings_list``, e.g. ``0,4`` or ``0-1``).

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
    compute: int, layout: str, shared: Sequence[Path] = (), leaf_size: int | None = None, oversubscription: float = 1.0
) -> Plan:
    """The plan for this machine.

    :param leaf_size: nodes of a leaf switch; 0: no leaves; ``None``: :data:`LEAF_SIZE` from :data:`LEAVES_FROM` nodes on.
    :raises BadInput: for a node count, a layout or leaves that cannot be had.
    """
    if not 1 <= compute <= MAX_NODES:
        raise BadInput(f"a cluster of {compute} nodes cannot be built; ask for 1 to {MAX_NODES}.")
    if layout not in LAYOUTS:
        raise BadInput(f"there is no layout '{layout}'; known are {', '.join(LAYOUTS)}.")
    if leaf_size is None:
        leaf_size = LEAF_SIZE if compute >= LEAVES_FROM else 0
    if not 0 <= leaf_size <= MAX_NODES:
        raise BadInput(f"a leaf switch of {leaf_size} nodes cannot be built; give 1 to {MAX_NODES}, or 0 for none.")
    if not LEAST_OVERSUBSCRIPTION <= oversubscription <= MOST_OVERSUBSCRIPTION:
        raise BadInput(
            f"an oversubscription of {oversubscription:g} cannot be built; give {LEAST_OVERSUBSCRIPTION:g} to "
            f"{MOST_OVERSUBSCRIPTION:g}."
        )
    cpus, paths = physical_cores(os.sched_getaffinity(0)), tuple(str(path) for path in shared)
    return Plan(compute, layout, cpus, paths, leaf_size, float(oversubscription))
