"""A fabric: a network as the site names it, with what a test must know to choose it and to prove it was used."""

from __future__ import annotations

from dataclasses import dataclass

from ..vocabulary import SCOPE_NODE


@dataclass(frozen=True)
class Rail:
    """One port of a fabric on every node.

    :param device: network interface (``eth1``) or RDMA device (``mlx5_0``, ``hfi1_0``), as the kernel names it.
    :param line_rate_gbit_per_s: nominal rate of the link in Gbit/s; ``None`` where there is none (loopback).
    :param numa_node: NUMA node the adapter hangs on; ``None`` where unknown or meaningless.
    :param port: port of an RDMA device.
    """

    device: str
    line_rate_gbit_per_s: float | None = None
    numa_node: int | None = None
    port: int = 1


@dataclass(frozen=True)
class Fabric:
    """A network as the site names it in ``system.py`` (``partition.extras.fabrics``).

    :param name: site's name (``eth1g``, ``opa100``, ``shm``); a valid ReFrame feature, so no ``-``.
    :param transport: name of a :class:`machine.transport.Transport`.
    :param scope: ``node`` (inside one node; every byte must take this fabric) or ``cluster`` (between nodes).
    :param rails: ports, in the site's order; empty for a transport in memory.
    :param mtu_bytes: IP or link MTU; ``None`` where it does not bound anything. Network interfaces must have it on every node.
    :param min_efficiency: smallest acceptable fraction of line rate x rails at large messages; ``None``: not gated.
    :param tcp_interfaces: for RDMA transports, interfaces whose counters may also grow (IP over the same link).
    """

    name: str
    transport: str
    scope: str
    rails: tuple[Rail, ...] = ()
    mtu_bytes: int | None = None
    min_efficiency: float | None = None
    tcp_interfaces: tuple[str, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of all rails, in order."""
        return tuple(rail.device for rail in self.rails)

    @property
    def within_node(self) -> bool:
        """True when the fabric is used inside one node only."""
        return self.scope == SCOPE_NODE

    @property
    def line_rate_gbit_per_s(self) -> float | None:
        """Sum of the rails' line rates in Gbit/s, or ``None`` if a rail has none."""
        rates = [rail.line_rate_gbit_per_s for rail in self.rails]
        if not rates or any(rate is None for rate in rates):
            return None
        return float(sum(rate for rate in rates if rate is not None))
