"""The guidelines as rows: each call against what replaces it, at sizes four times apart.

A row is called ``CALL-vs-CALL[-CALL]``, ``CALL-vs-larger`` (itself with four times the data) or ``CALL-vs-parts`` (four calls
with a quarter of the data each). Sources: ``instrument.py``, which measures them.
"""

from __future__ import annotations

from collections.abc import Mapping

from .. import traffic
from ..benchmark import NOTHING_SURE, Benchmark
from ..model import Group, Run
from ..plans import Plan, SizeRange, at_levels

#: Name of the suite and of its group; the binary its rows are filed under.
NAME, PROGRAM = "guidelines", "guidelines"
#: Median time of the call, of its mock-up, and the median of their ratio, in the order of the columns.
QUANTITIES = ("call_us", "mockup_us", "call_over_mockup")
#: The fifteen patterns of PGMPI (github.com/hunsa/pgmpi, lib/default_config/guideline_catalog.json).
PATTERNS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "Gather": (("Allgather",), ("Reduce",)),
    "Allgather": (("Alltoall",), ("Allreduce",), ("Gather", "Bcast")),
    "Scatter": (("Bcast",),),
    "Bcast": (("Scatter", "Allgather"),),
    "Reduce": (("Allreduce",), ("Reduce_scatter_block", "Gather")),
    "Allreduce": (("Reduce", "Bcast"), ("Reduce_scatter_block", "Allgather")),
    "Reduce_scatter_block": (("Reduce", "Scatter"),),
    "Reduce_scatter": (("Allreduce",), ("Reduce", "Scatterv")),
    "Scan": (("Exscan", "Reduce_local"),),
}
#: Calls that more data must not make faster, and those whose data can be cut in parts without another copy.
MONOTONE = (*PATTERNS, "Alltoall")
SPLIT = ("Bcast", "Reduce", "Allreduce", "Scan")
#: Calls whose size is that of one rank's block, so that buffers grow with the ranks; of the others it is the whole vector's.
IN_BLOCKS = ("Gather", "Allgather", "Scatter", "Alltoall")

#: What all ranks together must at least send, and how it crosses between nodes (``benchmark.Benchmark.crossing``). A vector
#: that ends in shares leaves something over that depends on the ranks, and what a scan sends depends on where they are.
_BOUNDS: Mapping[str, tuple[traffic.Bound, str | int]] = {
    "Gather": (traffic.one_per_other_rank, 1),
    "Allgather": (traffic.all_to_all, 1),
    "Scatter": (traffic.one_per_other_rank, 1),
    "Alltoall": (traffic.all_to_all, 2),
    "Bcast": (traffic.one_per_other_rank, 0),
    "Reduce": (traffic.one_per_other_rank, 0),
    "Allreduce": (traffic.every_rank_receives, 0),
    "Reduce_scatter_block": (traffic.equal_blocks, NOTHING_SURE),
    "Reduce_scatter": (traffic.equal_blocks, NOTHING_SURE),
    "Scan": (traffic.one_per_other_rank, NOTHING_SURE),
}


def _twice(bound: traffic.Bound) -> traffic.Bound:
    """What call and mock-up send: each at least what the call's result needs."""
    return lambda message_bytes, ranks: 2 * bound(message_bytes, ranks)


def _row(call: str, mockup: str) -> Benchmark:
    bound, crossing = _BOUNDS[call]
    return Benchmark(f"{call}-vs-{mockup}", NAME, PROGRAM, NAME, "all", QUANTITIES, _twice(bound), crossing=crossing)


#: Every guideline, in the order they are measured.
ROWS: tuple[Benchmark, ...] = (
    *(_row(call, "-".join(mockup)) for call, mockups in PATTERNS.items() for mockup in mockups),
    *(_row(call, "larger") for call in MONOTONE),
    *(_row(call, "parts") for call in SPLIT),
)


def _call_of(name: str) -> str:
    return name.partition("-vs-")[0]


# The largest message is that of a mock-up with four times the data.
_SIZES = at_levels(SizeRange((10, 12), 20, 20, 2), SizeRange((4, 20), 1000, 256, 20), SizeRange((4, 22), 2000, 512, 60))

#: Group to what it measures and its invocations.
GROUPS: Mapping[str, Group] = {
    NAME: Group(
        "Collective calls against what could replace them (self-consistent performance guidelines)",
        (
            Plan("blocks", PROGRAM, tuple(row.name for row in ROWS if _call_of(row.name) in IN_BLOCKS), _SIZES, fan=True),
            Plan("vectors", PROGRAM, tuple(row.name for row in ROWS if _call_of(row.name) not in IN_BLOCKS), _SIZES),
        ),
        collective=True,
    ),
}


def sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """Sizes four times apart, of which four times the largest is still in the range; the smallest in any case.

    Where they begin at 16 bytes, 8 as well: one double, which programs add up more often than anything else.
    """
    smallest, largest = size_range.log2
    own = range(smallest, max(smallest, largest - 2) + 1, 2)
    return tuple(1 << log2 for log2 in ([3, *own] if smallest == 4 else own))


def arguments(run: Run) -> list[str]:
    """Sizes, most repetitions and volume of each, and the seconds all rows together may take."""
    listed = ",".join(str(size) for size in sizes(run.rows[0], run.plan, run.size_range))
    size_range = run.size_range
    bounds = ("--repetitions", str(size_range.count), "--volume-mib", str(size_range.volume_mib))
    return ["--sizes", listed, *bounds, "--budget-s", str(size_range.budget_s), *run.names]
