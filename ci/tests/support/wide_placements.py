"""Ranks with several CPUs each, which launchers can be told of and no policy of
:mod:`machine.placement` asks for.
"""

from __future__ import annotations

from dataclasses import replace

from reframe_tests.harness.machine.placement import RankPlacement


def with_whole_cores(placement: RankPlacement) -> RankPlacement:
    """The same cores, with all their hardware threads."""
    assert placement.topology is not None and placement.ranks is not None
    siblings = {
        unit.cpu: {other.cpu for other in core}
        for core in placement.topology.cores
        for unit in core
    }
    whole = (set().union(*(siblings[cpu] for cpu in rank)) for rank in placement.ranks)
    return replace(placement, ranks=tuple(tuple(sorted(cpus)) for cpus in whole))
