"""Pairs of nodes, each with each or a sample, in rounds: rows, plan and command line. Metrics sum up a map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import traffic
from ..benchmark import BY_NODES, Benchmark
from ..model import Group, Run
from ..plans import Plan, SizeRange, at_levels

#: Name of the suite and of its group; the binary its rows are filed under.
NAME, PROGRAM = "pair_map", "pair_map"
LATENCY, BANDWIDTH = "Pair_latency", "Pair_bandwidth"
#: Bytes of a latency's messages, and its repetitions at the levels.
PING_BYTES, PINGS = 8, {"smoke": 50, "nightly": 100, "acceptance": 500}
#: Fewest messages of a bandwidth: what a token bucket or a buffer gives for nothing is then small beside them.
LEAST_MESSAGES = 3


def _row(name: str, quantities: tuple[str, ...], size: int) -> Benchmark:
    gates: dict[str, Any] = {"gated_sizes": {quantities[0]: (size,)}}
    # Every rank sends as much as any other, and a link is busy both ways in turn.
    return Benchmark(name, NAME, PROGRAM, NAME, BY_NODES, quantities, traffic.every_rank_once, min_nodes=2, **gates)


#: Quantiles are over the pairs, of which each direction counts with the median of its values.
ROWS: tuple[Benchmark, ...] = (
    _row(LATENCY, ("latency_p50_us", "latency_p90_us", "latency_p99_us"), PING_BYTES),
    _row(BANDWIDTH, ("bandwidth_p50_mb_per_s", "bandwidth_slowest_mb_per_s"), 1 << 20),
)
_SIZES = at_levels(
    SizeRange((20, 20), PINGS["smoke"], 64),
    SizeRange((20, 20), PINGS["nightly"], 128),
    SizeRange((20, 20), PINGS["acceptance"], 512),
)

#: Group to what it measures and its invocations.
GROUPS: Mapping[str, Group] = {
    NAME: Group(
        "Latency and bandwidth of pairs of nodes in rounds of disjoint pairs, to locate a slow node, cable or switch",
        (Plan("map", PROGRAM, (LATENCY, BANDWIDTH), _SIZES),),
    ),
}


def sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """The one size of a row."""
    return (PING_BYTES,) if row.name == LATENCY else (1 << size_range.log2[1],)


def arguments(run: Run) -> list[str]:
    """Sizes with their repetitions; rounds, passes and the rest are the test's."""
    size = 1 << run.size_range.log2[1]
    messages = max(LEAST_MESSAGES, min(run.size_range.volume_mib << 20, 1 << 40) // size)
    return ["--latency", f"{PING_BYTES}x{run.size_range.count}", "--bandwidth", f"{size}x{messages}"]
