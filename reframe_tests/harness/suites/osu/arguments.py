"""Command lines of the OSU Micro-Benchmarks."""

from __future__ import annotations

from ..benchmark import ELEMENT, SERIES, Benchmark
from ..model import Run, sizes_of_doublings
from ..plans import Plan, SizeRange
from .plans import GROUPS
from .rows import STARTUP, THREADED

#: Messages a pair exchanges before each small size is timed: Intel MPI 2021.18 takes some 700 round trips over shared
#: memory to reach full speed, and until then 2 us instead of 0.2. IMB times a size without data first, OSU has none.
WARM_UP_MESSAGES = 2000
#: Up to this message size in bytes, and never more than five times what is timed: 33 MB at most for the small sizes of one
#: pair's run together, 0.3 s at 1 Gbit/s.
WARM_UP_BYTES = 8192


def arguments(run: Run) -> list[str]:
    """One benchmark, the same repetitions at every size, so those the largest allows (README of OMB).

    Repetitions before each size (``-x``): a tenth, and for small messages of pairs :data:`WARM_UP_MESSAGES`, but not of several
    threads or processes: those wait for each other.
    """
    size_range, (row,) = run.size_range, run.rows
    if row.group == STARTUP:  # its programs know neither sizes nor repetitions
        return list(run.options)
    sizes = ["-m", f"{1 << size_range.log2[0]}:{1 << size_range.log2[1]}"]
    repetitions = size_range.repetitions
    warm_up = max(repetitions // 10, 2)
    alone = not GROUPS[row.group].collective and row.group != THREADED
    if alone and 1 << size_range.log2[1] <= WARM_UP_BYTES:
        warm_up = max(warm_up, min(WARM_UP_MESSAGES // row.traffic(1, 2), 5 * repetitions))
    return [*(sizes if row.sizes == SERIES else []), "-i", str(repetitions), "-x", str(warm_up), *run.options]


def sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """Sizes a row prints; the element of compare-and-swap and fetch-and-op is one ``MPI_CHAR`` (osu_cas_latency.c)."""
    return (1,) if row.sizes == ELEMENT else sizes_of_doublings(row, plan, size_range)
