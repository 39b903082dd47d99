"""A fabric: a network as the site names it, with what a test needs to select it and to prove its
use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..vocabulary import SCOPE_NODE
from .gpu import OF_HOST, Gpu, Memory

#: Key of a fabric's ``min_efficiency`` for the pinning policies that it does not name.
ANY_PINNING = "any"
#: What packets carry for the quality of service; keys of a site's fabric.
CLASSES = ("service_level", "traffic_class")


@dataclass(frozen=True)
class Rail:
    """One port of a fabric on every node.

    :param device: network interface (``eth1``) or RDMA device
        (``mlx5_0``, ``hfi1_0``), as the kernel names it.
    :param line_rate_gbit_per_s: nominal rate of the link in Gbit/s;
        ``None`` if there is none (loopback).
    :param numa_node: NUMA node the adapter is on; ``None`` if unknown or meaningless.
    :param port: port of an RDMA device.
    :param adapter: any name of the card the port is on, the same for all ports
        of a card; empty where the site does not say.
    """

    device: str
    line_rate_gbit_per_s: float | None = None
    numa_node: int | None = None
    port: int = 1
    adapter: str = ""


@dataclass(frozen=True)
class Fabric:
    """A network as the site names it in ``system.py`` (``partition.extras.fabrics``).

    :param name: site's name (``eth1g``, ``opa100``, ``shm``); a valid ReFrame feature, so no ``-``.
    :param transport: name of a :class:`machine.transport.Transport`.
    :param scope: ``node`` (inside one node; every byte must take this
        fabric) or ``cluster`` (between nodes).
    :param rails: ports, in the site's order; empty for a transport in memory.
    :param mtu_bytes: IP or link MTU; ``None`` if it does not bound anything.
        Network interfaces must have it on every node.
    :param min_efficiency: smallest acceptable fraction of line rate x rails at large messages, or
        pairs of a pinning policy and its own, :data:`ANY_PINNING` for the policies without one;
        ``None``: not gated.
    :param tcp_interfaces: for RDMA transports, interfaces whose counters
        may also grow (IP over the same link).
    :param striped: each rank splits its large messages over all rails;
        otherwise each message takes one rail.
    :param service_level: of InfiniBand or Omni-Path packets; empty: whatever the MPI takes.
    :param traffic_class: of RoCE or Slingshot packets; likewise.
    :param choices: where nothing is forced: the partition's other fabrics
        of this scope, which the MPI may take.
    :param expect: the one of them that it must take; empty: any.
    :param memory: where messages are.
    :param gpus: of every node, in the order of their PCI addresses; empty for host memory.
    :param peer_rate_gbit_per_s: what one GPU can send to another of
        its node, one way (NVLink, xGMI, PCIe).
    :param pcie_rate_gbit_per_s: what one GPU can send over PCIe, one way.
    """

    name: str
    transport: str
    scope: str
    rails: tuple[Rail, ...] = ()
    mtu_bytes: int | None = None
    min_efficiency: float | tuple[tuple[str, float], ...] | None = None
    tcp_interfaces: tuple[str, ...] = ()
    striped: bool = False
    service_level: str = ""
    traffic_class: str = ""
    choices: tuple[Fabric, ...] = ()
    expect: str = ""
    memory: Memory = OF_HOST
    gpus: tuple[Gpu, ...] = ()
    peer_rate_gbit_per_s: float | None = None
    pcie_rate_gbit_per_s: float | None = None

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of all rails, in order."""
        return tuple(rail.device for rail in self.rails)

    @property
    def classes(self) -> dict[str, str]:
        """Value of each of :data:`CLASSES` that the site names."""
        return {word: value for word in CLASSES if (value := getattr(self, word))}

    @property
    def quality_of_service(self) -> str:
        """``service level 3``; ``traffic class LOW_LATENCY``; empty where the site names none."""
        return ", ".join(
            f"{word.replace('_', ' ')} {value}" for word, value in self.classes.items()
        )

    @property
    def within_node(self) -> bool:
        """True when the fabric is used inside one node only."""
        return self.scope == SCOPE_NODE

    @property
    def line_rate_gbit_per_s(self) -> float | None:
        """Sum of the rails' line rates in Gbit/s, or ``None`` if a rail has
        none; between GPUs of a node that of their link.

        Data in GPU memory reach a rail over each GPU's own PCIe link.
        """
        if not self.rails:
            return self.peer_rate_gbit_per_s if self.within_node else None
        rates = [rail.line_rate_gbit_per_s for rail in self.rails]
        known = [rate for rate in rates if rate is not None]
        if len(known) < len(rates):
            return None
        pcie = [self.pcie_rate_gbit_per_s * len(self.gpus)] if self.pcie_rate_gbit_per_s else []
        return float(min([sum(known), *pcie]))

    def efficiency(self, pinning: str) -> float | None:
        """Smallest acceptable fraction of line rate x rails under a
        pinning policy; ``None``: not gated.
        """
        if isinstance(self.min_efficiency, tuple):
            own = dict(self.min_efficiency)
            return own.get(pinning, own.get(ANY_PINNING))
        return self.min_efficiency

    @property
    def planned_rate_gbit_per_s(self) -> float | None:
        """Line rate in Gbit/s for which work is planned: if nothing is forced, the lowest of the
        possible networks.
        """
        rates = [fabric.line_rate_gbit_per_s for fabric in self.choices]
        return min((rate for rate in rates if rate is not None), default=self.line_rate_gbit_per_s)

    def share_used(self, rank_numa: Sequence[int | None]) -> float:
        """Share of :attr:`line_rate_gbit_per_s` that the ranks of one node can
        use: striped all of it, else a rail for each.

        A rank uses the rail on its own NUMA node, as the MPIs choose it (Intel's dual-rail article,
        2020, "How to Use Dual Rail?", 1); where a rank's node has no rail or is unknown, a
        further one. Ranks with GPUs use the rails that the site names next to these
        (:attr:`Gpu.nic`), or share all of them evenly. The fewest rails count where rates differ.

        :param rank_numa: NUMA node of each rank of a node; ``None`` if it is unknown.
        """
        rates = [rail.line_rate_gbit_per_s for rail in self.rails]
        known = sorted(rate for rate in rates if rate is not None)
        if self.striped or len(self.rails) < 2 or len(known) < len(rates):
            return 1.0
        own = {rail.numa_node for rail in self.rails if rail.numa_node is not None}
        used = len({numa for numa in rank_numa if numa in own}) + sum(
            1 for numa in rank_numa if numa not in own
        )
        if self.gpus:
            nics = {gpu.nic for gpu in self.gpus[: len(rank_numa)]}
            used = len(nics) if all(nics) else len(rank_numa) * len(self.rails) // len(self.gpus)
        return sum(known[: max(1, used)]) / sum(known)
