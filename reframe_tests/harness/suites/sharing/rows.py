"""What each of several programs on one node does, alone and beside the others: rows, plan and command line."""

from __future__ import annotations

from collections.abc import Mapping

from .. import side_by_side, traffic
from ..benchmark import Benchmark
from ..model import Group, Run
from ..plans import Plan, SizeRange, at_levels

#: Name of the suite and of its group; the binary its rows are filed under.
NAME, PROGRAM = side_by_side.NAME, "sharing"
#: Sizes in bytes: what a rank copies from one buffer of its own to another (within a core's cache, and beyond it); a vector of
#: doubles of each rank; a block for each other rank.
SIZES: Mapping[str, tuple[int, ...]] = {"Copy": (1 << 16, 1 << 24), "Allreduce": (8, 1 << 16), "Alltoall": (8, 1 << 16)}


def _row(name: str) -> Benchmark:
    quantity = "bandwidth_mb_per_s" if name == "Copy" else "t_max_us"
    return Benchmark(
        name,
        NAME,
        PROGRAM,
        NAME,
        "program",
        (quantity,),
        # As much as there is time for, and nothing that leaves a node.
        traffic.nothing,
        min_ranks=1 if name == "Copy" else 2,
        gated_sizes={quantity: SIZES[name]},
        variants=(side_by_side.variant(1, 1, side_by_side.ALONE),),
    )


ROWS: tuple[Benchmark, ...] = tuple(map(_row, SIZES))
# As many repetitions as there is time for: programs that are slowed down then still run as long as the others.
_SIZES = at_levels(
    SizeRange((3, 24), 1, 1, budget_s=2), SizeRange((3, 24), 1, 1, budget_s=6), SizeRange((3, 24), 1, 1, budget_s=20)
)

#: Group to what it measures and its invocations.
GROUPS: Mapping[str, Group] = {
    NAME: Group(
        "Several programs side by side on one node, pinned apart or unaware of each other: each alone and beside the others",
        (Plan("program", PROGRAM, tuple(SIZES), _SIZES),),
        collective=True,
    ),
}


def sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """Sizes of a row, the same at every level."""
    return SIZES[row.name]


def arguments(run: Run) -> list[str]:
    """Seconds of each benchmark and size, an equal share of the budget, then ``NAME:SIZE,SIZE`` of each row.

    Which program it is, and where it meets the others, is added for each by the script that starts them.
    """
    sections = sum(len(SIZES[row.name]) for row in run.rows)
    rows = [f"{row.name}:{','.join(map(str, SIZES[row.name]))}" for row in run.rows]
    return ["--seconds", f"{run.size_range.budget_s / sections:.3f}", *rows]
