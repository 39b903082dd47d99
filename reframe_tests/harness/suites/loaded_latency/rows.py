"""Small messages alone and beside streams, for systems too small for GPCNeT: rows, plan and command line."""

from __future__ import annotations

from collections.abc import Mapping

from ...vocabulary import NotMeasured
from .. import traffic
from ..benchmark import Benchmark
from ..model import Group, Run
from ..plans import Plan, SizeRange, at_levels

#: Name of the suite and of its group; the binary its rows are filed under.
NAME, PROGRAM = "loaded_latency", "loaded_latency"
VICTIM, LOAD, IMPACT = "Victim", "Load", "Victim_impact"
ALONE, LOADED = "alone", "loaded"
#: Bytes of the instrument's messages: a victim's, and those of the streams.
PING, STREAM = 8, 131072
#: Repetitions for each MiB that a link may carry: each may wait for the 2 MiB of a stream's window, 17 ms on 1 Gbit/s.
PER_MIB = 500
#: Mean and percentiles over the repetitions of all victims.
LATENCIES = ("latency_us", "latency_p50_us", "latency_p90_us", "latency_p99_us")


def _row(name: str, quantities: tuple[str, ...], bound: traffic.Bound, size: int, **more: tuple[str, ...]) -> Benchmark:
    return Benchmark(
        name,
        NAME,
        PROGRAM,
        NAME,
        "halves",
        quantities,
        bound,
        min_ranks=4,
        min_nodes=2,
        gated_sizes={quantities[0]: (size,)},
        **more,  # type: ignore[arg-type]
    )


ROWS: tuple[Benchmark, ...] = (
    _row(VICTIM, LATENCIES, traffic.both_ways, PING, variants=(ALONE, LOADED)),
    _row(LOAD, ("bandwidth_mb_per_s",), traffic.stream_window, STREAM),
    _row(IMPACT, ("impact", "impact_p99"), traffic.nothing, PING),
)
_SIZES = at_levels(SizeRange((3, 3), 200, 1024), SizeRange((3, 3), 2000, 1024), SizeRange((3, 3), 20000, 1024))

#: Group to what it measures and its invocations.
GROUPS: Mapping[str, Group] = {
    NAME: Group(
        "Latency between pairs of nodes alone and while their other ranks stream, mean and tail",
        (Plan("victims", PROGRAM, tuple(row.name for row in ROWS), _SIZES),),
    ),
}


def sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """The one size of a row, the same at every level."""
    return next(iter(row.gated_sizes.values()))


def arguments(run: Run) -> list[str]:
    """Ranks of each node and repetitions, fewer on a slow link.

    :raises NotMeasured: where a node has no rank to stream beside its victim.
    """
    ppn = run.ranks // run.nodes
    if ppn < 2:
        raise NotMeasured("latency under load needs two ranks a node or more: one that waits for it and others that stream")
    repetitions = min(run.size_range.count, PER_MIB * run.size_range.volume_mib)
    return ["--ppn", str(ppn), "--repetitions", str(repetitions)]
