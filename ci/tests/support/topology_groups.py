"""A topology as whoever looks at it groups it."""

from __future__ import annotations

from reframe_tests.harness.machine.topology import Topology


def cpus_by(topology: Topology, part: str) -> dict[int | None, tuple[int, ...]]:
    """CPUs per socket, NUMA node, core or cache."""
    cpus: dict[int | None, tuple[int, ...]] = {}
    for unit in topology.units:
        key = getattr(unit, part)
        cpus[key] = (*cpus.get(key, ()), unit.cpu)
    return cpus
