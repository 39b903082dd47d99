"""Synchronisation and small messages on 2, 4, 8, ... nodes up to all of the job: rows, plan and command line."""

from __future__ import annotations

from collections.abc import Mapping

from .. import traffic
from ..benchmark import SERIES, SIZELESS, Benchmark, growing_node_counts
from ..model import Group, Run
from ..plans import Plan, SizeRange, at_levels

#: Name of the suite and of its group; the binary its rows are filed under.
NAME, PROGRAM = "growth", "growth"
#: Mean over the repetitions, then percentiles of them; each repetition is the time of its slowest rank.
QUANTITIES = ("t_max_us", "latency_p50_us", "latency_p90_us", "latency_p99_us")
#: Sizes in bytes: a double of each rank; a block for each other rank. A barrier has none.
SIZES: Mapping[str, tuple[int | None, ...]] = {"Barrier": (None,), "Allreduce": (8,), "Alltoall": (8, 64)}


def _row(name: str, sizes: tuple[int | None, ...]) -> Benchmark:
    # The bound counts all ranks of the launch, but the smaller node counts leave most of them out: nothing is sure.
    return Benchmark(
        name,
        NAME,
        PROGRAM,
        NAME,
        "growing",
        QUANTITIES,
        traffic.nothing,
        min_nodes=2,
        gated_sizes={"t_max_us": sizes},
        sizes=SIZELESS if sizes == (None,) else SERIES,
    )


ROWS: tuple[Benchmark, ...] = tuple(_row(name, sizes) for name, sizes in SIZES.items())
# Enough repetitions for a 99th percentile of more than the slowest few.
_SIZES = at_levels(SizeRange((3, 6), 100, 1), SizeRange((3, 6), 1000, 1), SizeRange((3, 6), 10000, 1))

#: Group to what it measures and its invocations.
GROUPS: Mapping[str, Group] = {
    NAME: Group(
        "Barrier and small collectives on 2, 4, 8, ... nodes up to all of the job, with percentiles",
        (Plan("growing", PROGRAM, tuple(row.name for row in ROWS), _SIZES),),
        collective=True,
    ),
}


def sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """Sizes of a row, the same at every level."""
    return SIZES[row.name]


def arguments(run: Run) -> list[str]:
    """Node counts, ranks of each node and repetitions, then ``NAME`` or ``NAME:SIZE,SIZE`` of each row."""
    counts = ",".join(str(count) for count in growing_node_counts(run.nodes))
    rows = [
        ":".join([row.name, *([",".join(str(size) for size in SIZES[row.name])] if row.sizes != SIZELESS else [])])
        for row in run.rows
    ]
    return ["--nodes", counts, "--ppn", str(run.ranks // run.nodes), "--repetitions", str(run.size_range.count), *rows]
