"""The one benchmark of ``mpi4py.bench`` that is timed, and how it is run: the same instrument on every stack."""

from __future__ import annotations

from collections.abc import Mapping

from ...vocabulary import NotMeasured
from .. import traffic
from ..benchmark import Benchmark
from ..model import Group, Run
from ..plans import Plan, SizeRange, at_levels

#: Name of the suite, of its command in a stack's metadata, and of its group.
NAME, PROGRAM, GROUP = "mpi4py", "mpi4py.bench", "p2p_mpi4py"

ROWS: tuple[Benchmark, ...] = (
    Benchmark(
        "pingpong",
        NAME,
        PROGRAM,
        GROUP,
        "pair",
        ("bandwidth_mb_per_s", "latency_us", "latency_stddev_us"),
        traffic.both_ways,
        gated_sizes={"latency_us": (1, 8, 1024), "bandwidth_mb_per_s": (65536, 1 << 20, 4 << 20)},
        directions=1,
        line_rate_from_bytes=4 << 20,
    ),
)

# mpi4py.bench has a count for messages up to 16 KiB, up to 1 MiB and above.
_IN_STEPS = at_levels(SizeRange((18, 22), 200, 40), SizeRange((0, 22), 1000, 200), SizeRange((0, 22), 2000, 400))

#: Group to what it measures and its invocations.
GROUPS: Mapping[str, Group] = {
    GROUP: Group(
        "Latency and bandwidth between one pair of ranks, the same instrument on every stack (mpi4py.bench pingpong)",
        (Plan(NAME, PROGRAM, ("pingpong",), _IN_STEPS),),
    ),
}


def arguments(run: Run) -> list[str]:
    """Repetitions in three steps, above 16 KiB and above 1 MiB fewer (its own defaults' limits).

    Plain byte buffers on purpose: with the default, the buffer depends on whether NumPy happens to be there.

    :raises NotMeasured: where the pair would be on one node of several.
    """
    if run.nodes > 1 and run.ranks > run.nodes:
        raise NotMeasured("mpi4py.bench always uses ranks 0 and 1, which are on one node where a node has several ranks")
    size_range = run.size_range
    largest_mib = max(1 << size_range.log2[1] >> 20, 1)
    large = min(max(size_range.count // 5, 10), size_range.volume_mib)
    huge = min(max(size_range.count // 50, 5), max(size_range.volume_mib // largest_mib, 1))
    return [
        *run.names,
        *("--min-size", str(1 << size_range.log2[0]), "--max-size", str(1 << size_range.log2[1]), "--array", "none"),
        *("--loop", str(size_range.count), "--skip", str(size_range.count // 10)),
        *("--loop-large", str(large), "--skip-large", str(large // 10)),
        *("--loop-huge", str(huge), "--skip-huge", "1"),
    ]
