"""A topology as whoever looks at it groups it."""

from __future__ import annotations

from reframe_tests.harness.machine.topology import Topology


def cpus_by(topology: Topology, what: str) -> dict[int | None, tuple[int, ...]]:
    """CPUs per socket, NUMA node, core or cache."""
    found: dict[int | None, tuple[int, ...]] = {}
    for unit in topology.units:
        key = getattr(unit, what)
        found[key] = (*found.get(key, ()), unit.cpu)
    return found
