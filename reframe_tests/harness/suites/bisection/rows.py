"""Streams between two halves of the nodes at the same time, one way and both ways: rows, plan and command line."""

from __future__ import annotations

from collections.abc import Mapping

from .. import traffic
from ..benchmark import Benchmark, doubling_sizes
from ..model import Group, Run
from ..plans import Plan, SizeRange, at_levels

#: Name of the suite and of its group; the binary its rows are filed under.
NAME, PROGRAM = "bisection", "bisection"
#: Of all pairs together, of the slowest pair of ranks, and the share of the pairs of nodes that are on different switches.
QUANTITIES = ("bandwidth_mb_per_s", "bandwidth_slowest_mb_per_s", "across_switches")
MIB = 1 << 20


def _row(name: str, bound: traffic.Bound, directions: int) -> Benchmark:
    return Benchmark(
        name,
        NAME,
        PROGRAM,
        NAME,
        "halves",
        QUANTITIES,
        bound,
        min_nodes=2,
        gated_sizes={"bandwidth_mb_per_s": (MIB, 4 * MIB)},
        directions=directions,
        summed=True,
    )


ROWS: tuple[Benchmark, ...] = (
    _row("Bisection", traffic.window_one_way, 1),
    _row("Bisection_both_ways", traffic.window_both_ways, 2),
)
# A link of 100 Gbit/s carries that much both ways in the time of a level.
_SIZES = at_levels(SizeRange((20, 20), 10, 20), SizeRange((16, 22), 50, 40), SizeRange((16, 22), 100, 80))

#: Group to what it measures and its invocations.
GROUPS: Mapping[str, Group] = {
    NAME: Group(
        "Bandwidth between two halves of the nodes, on different switches where these are known",
        (Plan("halves", PROGRAM, tuple(row.name for row in ROWS), _SIZES),),
    ),
}


def sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """Powers of two."""
    return doubling_sizes(1 << size_range.log2[0], 1 << size_range.log2[1], zero=False)


def arguments(run: Run) -> list[str]:
    """Ranks of each node and repetitions, then ``NAME:SIZE,SIZE`` of each row."""
    listed = ",".join(
        str(size) for size in doubling_sizes(1 << run.size_range.log2[0], 1 << run.size_range.log2[1], zero=False)
    )
    rows = [f"{row.name}:{listed}" for row in run.rows]
    return ["--ppn", str(run.ranks // run.nodes), "--repetitions", str(run.size_range.repetitions), *rows]
