"""One collective under one algorithm: rows, plans and command line."""

from __future__ import annotations

from collections.abc import Mapping

from .. import traffic
from ..algorithms import COLLECTIVES, GROUP, IN_BLOCKS, QUANTITY
from ..benchmark import NOTHING_SURE, Benchmark
from ..model import Group, Run
from ..plans import Plan, SizeRange, at_levels

#: Name of the suite; the binary its rows are filed under.
NAME, PROGRAM = "collective_times", "collective_times"

#: Collective to the least all ranks send together, and the power of a node's ranks its share of the data grows with
#: (``benchmark.Benchmark.crossing``). An algorithm may leave what a scan or a split vector sends between nodes to chance.
_BOUNDS: Mapping[str, tuple[traffic.Bound, str | int]] = {
    "Allreduce": (traffic.every_rank_receives, 0),
    "Alltoall": (traffic.all_to_all, 2),
    "Alltoallv": (traffic.all_to_all, 2),
    "Allgather": (traffic.all_to_all, 1),
    "Allgatherv": (traffic.all_to_all, 1),
    "Bcast": (traffic.one_per_other_rank, 0),
    "Reduce": (traffic.one_per_other_rank, 0),
    "Gather": (traffic.one_per_other_rank, 1),
    "Gatherv": (traffic.one_per_other_rank, 1),
    "Scatter": (traffic.one_per_other_rank, 1),
    "Scatterv": (traffic.one_per_other_rank, 1),
    "Reduce_scatter_block": (traffic.equal_blocks, NOTHING_SURE),
    "Reduce_scatter": (traffic.equal_blocks, NOTHING_SURE),
    "Scan": (traffic.one_per_other_rank, NOTHING_SURE),
}

ROWS: tuple[Benchmark, ...] = tuple(
    Benchmark(name, NAME, PROGRAM, GROUP, "all", (QUANTITY,), bound, crossing=crossing)
    for name in COLLECTIVES
    for bound, crossing in [_BOUNDS[name]]
)
#: 32 B and 1 MiB, at which the Cambridge paper compares MPI libraries.
KIVIAT_LOG2 = (5, 20)
# The budget is of one launch, all sizes together.
_SIZES = at_levels(SizeRange((5, 11), 20, 16, 1), SizeRange((3, 20), 300, 64, 3), SizeRange((2, 22), 1000, 256, 20))

#: Group to what it measures and its invocations.
GROUPS: Mapping[str, Group] = {
    GROUP: Group(
        "One collective under each algorithm of its MPI, interleaved in one job",
        tuple(Plan(name.lower(), PROGRAM, (name,), _SIZES, fan=name in IN_BLOCKS) for name in COLLECTIVES),
        collective=True,
    )
}


def sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """Sizes four times apart up to the largest, and what lies between them of those that Kiviat charts are drawn at."""
    smallest, largest = size_range.log2
    apart = range(smallest, max(smallest, largest) + 1, 2 if largest - smallest > 1 else 1)
    return tuple(1 << log2 for log2 in sorted({*apart, *(log2 for log2 in KIVIAT_LOG2 if smallest <= log2 <= largest)}))


def arguments(run: Run) -> list[str]:
    """All but the label of the algorithm: sizes, most repetitions and volume of each, seconds of all together, collective."""
    listed = ",".join(str(size) for size in sizes(run.rows[0], run.plan, run.size_range))
    size_range = run.size_range
    bounds = ("--repetitions", str(size_range.count), "--volume-mib", str(size_range.volume_mib))
    return ["--sizes", listed, *bounds, "--budget-s", str(size_range.budget_s), *run.names]
