"""The OSU Micro-Benchmarks (OMB) 5.6 to 7.5: every C program for MPI, in host and GPU memory, and
how each runs.

Each benchmark is a separate binary with the row's name. Titles are the ``BENCHMARK``
macros of mpi/*/osu_*.c (c/mpi since 7.0), versions of the first release those of CHANGES. Without
``-i`` a binary makes fewer repetitions above 8 KiB (``LARGE_MESSAGE_SIZE`` in util/osu_util.h);
with it, the same at every size.

Several programs share two titles, so a row names those it cannot be distinguished from by title:
all-to-allw is also the title of its neighbourhood form, bandwidth that of fan-in and fan-out. The
launch tells which one it is (:func:`reader.complete`).

Supported options are those of util/osu_util_options.h and CHANGES of 7.5.

An output comes from one binary: a title with the version, at most a few lines on how the benchmark
ran, a head of column titles, one row per size. The number of ranks is not printed (except in pairs,
osu_mbw_mr, and on rings), repetitions only with ``-f`` of blocking collectives, and there is no
last line: a table truncated between two rows looks complete, so the caller compares it with what
was requested (``reader.complete``). Rows are printed with the widths of the head (``print_stats``
and ``print_only_header`` in util/osu_util_mpi.c; the ``printf`` of mpi/pt2pt/osu_*.c), so every
cell must end where its title ends.

A title names the platform if GPU memory was requested. Programs of pairs say which buffers were in
it in a separate line until 7.3, one-sided ones always. Since 7.4, osu_latency prints the same for
``D D``, ``H D`` and ``-d cuda`` (:data:`gpu.UNSAID`), osu_multi_lat and osu_mbw_mr the same as for
host memory (:func:`on_gpu`). In collectives, both buffers of every rank are where ``-d``
puts them (``allocate_memory_coll``), and blocking ones do not say ``-d managed``.

Latency is half of the round trip in us, bandwidth is bytes / 1e6 / seconds. A percentile is over
the repetitions of a size (``-z``, since 7.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from ..machine.gpu import (
    DEVICE,
    DEVICE_TO_HOST,
    HOST,
    HOST_TO_DEVICE,
    MANAGED,
    MEMORIES,
    UNSAID,
    Memory,
)
from ..mpis import transport
from ..vocabulary import QUANTITIES
from . import traffic
from .benchmark import (
    BY_NODES,
    ELEMENT,
    NOTHING_SURE,
    ROW_LIKE,
    SERIES,
    SINGLE,
    SIZELESS,
    SMALL,
    STREAM,
    Benchmark,
    OutputError,
    Plan,
    Record,
    SizeRange,
    at_levels,
    in_bands,
)
from .model import BenchmarkPackage, Facts, Group, Programs, Run, Suite, sizes_of_doublings
from .options import SuiteOption

#: Name of the suite.
NAME = "osu"

KIB = 1 << 10
MIB = 1 << 20

LATENCY = ("latency_us",)
BANDWIDTH = ("bandwidth_mb_per_s",)
#: Columns of a collective with ``-f``: over ranks, of each rank's mean
#: (``print_stats`` in util/osu_util_mpi.c).
TIME_RANGE = ("t_avg_us", "t_min_us", "t_max_us")

#: Columns of a non-blocking collective that every version prints:
#: means over ranks (``print_stats_nbc``).
OVERLAP = ("t_ovrl_us", "t_cpu_us", "t_pure_us", "overlap_percent")

#: All columns of a non-blocking collective (``-f``); minimum and maximum since 5.7.1.
FULL_OVERLAP = (
    *OVERLAP[:2],
    "t_init_us",
    "t_test_us",
    "t_wait_us",
    "t_pure_us",
    "t_min_us",
    "t_max_us",
    "overlap_percent",
)
#: Before, ``-f`` prints a minimum and a maximum that are none on three ranks or more: rank 0
#: reduces MAX, then MIN, the others MIN, then MAX (``calculate_and_print_stats`` of 5.7.1 to 7.0).
RIGHT_RANGE_SINCE = (7, 1)
#: Sizes that are compared, those of the rows of IMB for collectives, by the columns of a row.
_COMPARED = (32, 4 * KIB, 64 * KIB, MIB)
_GATES: Mapping[tuple[str, ...], Mapping[str, tuple[int, ...]]] = {
    LATENCY: {"latency_us": (8, 1 * KIB)},
    BANDWIDTH: {"bandwidth_mb_per_s": (64 * KIB, MIB)},
    TIME_RANGE: {"t_max_us": _COMPARED},
    OVERLAP: {"t_ovrl_us": _COMPARED},
}
#: Windows and synchronisations, as printed and as requested (``-w``, ``-s``).
WINDOWS = {
    "MPI_Win_create": "create",
    "MPI_Win_allocate": "allocate",
    "MPI_Win_create_dynamic": "dynamic",
}
SYNCS = {
    "MPI_Win_lock/unlock": "lock",
    "MPI_Win_post/start/complete/wait": "pscw",
    "MPI_Win_fence": "fence",
    "MPI_Win_flush": "flush",
    "MPI_Win_flush_local": "flush_local",
    "MPI_Win_lock_all/unlock_all": "lock_all",
}

#: Groups whose outputs differ from the others'.
CONGESTION = "congestion_osu"
STARTUP = "startup_osu"
THREADED = "threads_osu"

#: ``-f`` prints the repetitions and the slowest rank, which is what a program waits for.
FULL = ("-f",)
#: Reductions of what every release supports, or reduces without being asked
#: (:data:`REDUCED`): ``-T`` since 7.1.
OF_FLOATS: dict[str, Any] = {
    "newer_options": ("-T", "mpi_float"),
    "options_since": (7, 1),
    "reduction": True,
}
WINDOW = ("-W", str(traffic.WINDOW))
VALIDATE = ("-c",)
#: The program's own memory, as IMB-RMA exposes it. OMB's default is memory the MPI allocates, which
#: Open MPI keeps in shared memory inside a node whatever transport is requested. An access counts
#: once it is complete at the target.
ONE_SIDED: dict[str, Any] = {
    "options": ("-w", "create", "-s", "flush"),
    "variants": ("create,flush",),
    "operations": (transport.ONE_SIDED,),
}
ATOMIC = {**ONE_SIDED, "operations": (transport.ONE_SIDED, transport.ACCUMULATE)}
#: Puts both ways know no passive target (osu_put_bibw.c).
BOTH_WAYS: dict[str, Any] = {
    **ONE_SIDED,
    "options": ("-w", "create", "-s", "fence"),
    "variants": ("create,fence",),
}
#: One thread sends to two, as without ``-t``; with two senders each prints
#: a head of its own (osu_latency_mt.c of 7.5).
THREADS = ("-t", "1:2")
#: With sessions (7.2) osu_latency_mt lost its MPI_Finalize
#: (``omb_lat_mt_session_finalize``), so no rank says how it ended.
NO_END = (7, 2)
#: Two processes on either side, as without ``-t``.
PROCESSES = ("-t", "2:2")
#: Parts of a message (``-q``).
PARTITIONS = 8
#: Each rank on a ring has two neighbours, the default of every version (``-N``).
RING = ("-N", "cart:1:1")


def _row(
    name: str,
    title: str,
    group: str,
    ranks: str,
    quantities: tuple[str, ...],
    bound: traffic.Bound,
    **more: Any,
) -> Benchmark:
    name = f"osu_{name}"
    more = {"title": f"OSU MPI{title} Test", "gated_sizes": _GATES.get(quantities, {}), **more}
    return Benchmark(name, NAME, name, f"{group}_osu", ranks, quantities, bound, **more)


def _pair(name: str, title: str, group: str, bound: traffic.Bound, **more: Any) -> Benchmark:
    """A latency or a bandwidth of one pair of ranks."""
    return _row(
        name,
        title,
        group,
        "only_pair",
        BANDWIDTH if more.get("directions") else LATENCY,
        bound,
        **more,
    )


def _collective(
    name: str, title: str, bound: traffic.Bound, crossing: int | str = 0, **more: Any
) -> Benchmark:
    more = {"crossing": crossing, "options": FULL, **more}
    return _row(name, f" {title} Latency", "collectives", "all", TIME_RANGE, bound, **more)


def _overlap(
    name: str, title: str, bound: traffic.Bound, crossing: int | str = 0, **more: Any
) -> Benchmark:
    more = {"crossing": crossing, "operations": _unblocked(**more), **more}
    return _row(name, f" Non-{title} Latency", "nonblocking", "all", OVERLAP, bound, **more)


def _unblocked(*, reduction: bool = False, **more: Any) -> tuple[str, ...]:
    return (
        (transport.NONBLOCKING, transport.NONBLOCKING_REDUCTION)
        if reduction
        else (transport.NONBLOCKING,)
    )


def _ring(name: str, title: str, **more: Any) -> Benchmark:
    """Each rank sends to both neighbours on a ring (osu_util_mpi.c,
    ``omb_neighborhood_create``); three ranks make one.
    """
    quantities = OVERLAP if name.startswith("i") else TIME_RANGE
    more = {"min_ranks": 3, "crossing": 0, "since": (7, 1), "options": (*FULL, *RING), **more}
    if quantities == OVERLAP:
        more |= {"options": RING, "operations": _unblocked()}
    return _row(
        name,
        f" {title} Latency",
        "neighbourhood",
        "all",
        quantities,
        traffic.every_rank_twice,
        **more,
    )


def _persistent(row: Benchmark) -> Benchmark:
    """Persistent form of a blocking collective: the same data, so the same bounds."""
    name = f"{row.name}_persistent"
    title = row.title.replace(" Latency Test", " Persistent Latency Test")
    own: dict[str, Any] = {
        "group": "persistent_osu",
        "operations": _unblocked(reduction=row.reduction),
        "since": (7, 3),
    }
    return replace(row, name=name, binary=name, title=title, **own)


def _fan(way: str) -> Benchmark:
    """All other nodes send to one, or one sends to all others. The bandwidth printed is the sum
    over means of ranks that need not have run at the same time, so it says nothing sure about one
    link.
    """
    more: dict[str, Any] = {"min_nodes": 2, "options": WINDOW, "crossing": 1, "since": (7, 4)}
    return _row(
        f"bw_fan_{way}", " Bandwidth", "congestion", "all", BANDWIDTH, traffic.window_fan, **more
    )


_ONE_WAY: dict[str, Any] = {"directions": 1, "options": WINDOW}
_TWO_WAYS: dict[str, Any] = {"directions": 2, "options": WINDOW}
#: Versions before 5.7 have no number of senders.
_THREADS: dict[str, Any] = {
    "options": THREADS,
    "variants": ("sender_threads=1,receiver_threads=2",),
    "since": (5, 7),
}
_PROCESSES: dict[str, Any] = {
    "options": PROCESSES,
    "variants": ("sender_processes=2,receiver_processes=2",),
    "since": (5, 7),
}
_SUMMED: dict[str, Any] = {
    "gated_sizes": {"message_rate_per_s": (8,), **_GATES[BANDWIDTH]},
    "summed": True,
    "variants": (f"window={traffic.WINDOW}",),
}
_IN_PARTS: dict[str, Any] = {
    "gated_sizes": {"t_ovrl_us": (1 * KIB, 64 * KIB)},
    "options": ("-q", str(PARTITIONS)),
    "variants": (f"partitions={PARTITIONS}",),
    "since": (7, 5),
}
#: The element of compare-and-swap and fetch-and-op is one byte since 7.1.
_ONE_ELEMENT: dict[str, Any] = {
    "sizes": ELEMENT,
    "gated_sizes": {"latency_us": (1,)},
    "since": (7, 1),
}
_BARRIER_GATES: dict[str, Any] = {"sizes": SIZELESS, "gated_sizes": {"t_max_us": (None,)}}
_HELLO_GATES: dict[str, Any] = {
    "min_ranks": 1,
    "sizes": SIZELESS,
    "gated_sizes": {"time_s": (None,)},
    "launch_time": "time_s",
}
_IBARRIER_GATES: dict[str, Any] = {"sizes": SIZELESS, "gated_sizes": {"t_ovrl_us": (None,)}}
_ONE_TO_ALL = traffic.one_per_other_rank
_ALL_TO_ALL = traffic.all_to_all

_COLLECTIVES = (
    _collective("bcast", "Broadcast", _ONE_TO_ALL),
    _collective("reduce", "Reduce", _ONE_TO_ALL, **OF_FLOATS),
    _collective("allreduce", "Allreduce", traffic.every_rank_receives, **OF_FLOATS),
    _collective("barrier", "Barrier", traffic.nothing, **_BARRIER_GATES),
    _collective("allgather", "Allgather", _ALL_TO_ALL, 1),
    _collective("allgatherv", "Allgatherv", _ALL_TO_ALL, 1),
    _collective("gather", "Gather", _ONE_TO_ALL, 1),
    _collective("gatherv", "Gatherv", _ONE_TO_ALL, 1),
    _collective("scatter", "Scatter", _ONE_TO_ALL, 1),
    _collective("scatterv", "Scatterv", _ONE_TO_ALL, 1),
    _collective("alltoall", "All-to-All Personalized Exchange", _ALL_TO_ALL, 2),
    _collective("alltoallv", "All-to-Allv Personalized Exchange", _ALL_TO_ALL, 2),
    _collective("alltoallw", "All-to-Allw Personalized Exchange", _ALL_TO_ALL, 2, since=(6, 2)),
    _collective("reduce_scatter", "Reduce_scatter", _ONE_TO_ALL, **OF_FLOATS),
    # What of a vector is left over depends on the ranks, so the bound
    # with nodes in their place would be too high.
    _collective(
        "reduce_scatter_block",
        "Reduce_scatter_block",
        traffic.equal_blocks,
        NOTHING_SURE,
        **OF_FLOATS,
        since=(7, 4),
    ),
)

#: Every benchmark, in the order their groups run them.
ROWS: tuple[Benchmark, ...] = (
    _pair("latency", " Latency", "p2p", traffic.both_ways, cascade=(SINGLE, SMALL)),
    _pair("bw", " Bandwidth", "p2p", traffic.window_one_way, **_ONE_WAY, cascade=(STREAM,)),
    _pair("bibw", " Bi-Directional Bandwidth", "p2p", traffic.window_both_ways, **_TWO_WAYS),
    # Partners are half of all ranks apart, so on different nodes; latency
    # is the mean over pairs, bandwidth their sum.
    _row("multi_lat", " Multi Latency", "transfer", "even", LATENCY, traffic.pairs_both_ways),
    _row(
        "mbw_mr",
        " Multiple Bandwidth / Message Rate",
        "transfer",
        "even",
        ("bandwidth_mb_per_s", "message_rate_per_s"),
        traffic.window_one_way,
        **{**_ONE_WAY, **_SUMMED},
    ),
    _pair("put_latency", "_Put Latency", "one_sided", traffic.one_way, **ONE_SIDED),
    _pair("get_latency", "_Get latency", "one_sided", traffic.one_way, **ONE_SIDED),
    _pair(
        "put_bw", "_Put Bandwidth", "one_sided", traffic.window_one_way, **ONE_SIDED, directions=1
    ),
    _pair(
        "get_bw", "_Get Bandwidth", "one_sided", traffic.window_one_way, **ONE_SIDED, directions=1
    ),
    *_COLLECTIVES,
    _pair(
        "latency_mt",
        " Multi-threaded Latency",
        "threads",
        traffic.both_ways,
        **_THREADS,
        until=NO_END,
    ),
    _pair("latency_mp", " Multi-process Latency", "threads", traffic.both_ways, **_PROCESSES),
    _pair(
        "latency_persistent",
        " Latency Persistent",
        "p2p_persistent",
        traffic.both_ways,
        since=(7, 1),
    ),
    _pair(
        "bw_persistent",
        " Bandwidth Persistent",
        "p2p_persistent",
        traffic.window_one_way,
        **_ONE_WAY,
        since=(7, 1),
    ),
    _pair(
        "bibw_persistent",
        " Bi-Directional Bandwidth Persistent",
        "p2p_persistent",
        traffic.window_both_ways,
        **{**_TWO_WAYS, "since": (7, 1)},
    ),
    _row(
        "partitioned_latency",
        " Partitioned Latency",
        "partitioned",
        "only_pair",
        OVERLAP,
        traffic.both_ways,
        **_IN_PARTS,
    ),
    _pair("acc_latency", "_Accumulate latency", "atomics", traffic.one_way, **ATOMIC),
    _pair("get_acc_latency", "_Get_accumulate latency", "atomics", traffic.one_way, **ATOMIC),
    _pair(
        "cas_latency",
        "_Compare_and_swap latency",
        "atomics",
        traffic.one_way,
        **ATOMIC,
        **_ONE_ELEMENT,
    ),
    _pair(
        "fop_latency", "_Fetch_and_op latency", "atomics", traffic.one_way, **ATOMIC, **_ONE_ELEMENT
    ),
    _pair(
        "put_bibw",
        "_Put Bi-directional Bandwidth",
        "atomics",
        traffic.window_both_ways,
        **BOTH_WAYS,
        directions=2,
    ),
    _overlap("ibcast", "Blocking Broadcast", _ONE_TO_ALL),
    _overlap("ireduce", "blocking Reduce", _ONE_TO_ALL, **OF_FLOATS),
    _overlap("iallreduce", "blocking Allreduce", traffic.every_rank_receives, **OF_FLOATS),
    _overlap("ibarrier", "blocking Barrier", traffic.nothing, **_IBARRIER_GATES),
    _overlap("iallgather", "blocking Allgather", _ALL_TO_ALL, 1),
    _overlap("iallgatherv", "blocking Allgatherv", _ALL_TO_ALL, 1),
    _overlap("igather", "blocking Gather", _ONE_TO_ALL, 1),
    _overlap("igatherv", "blocking Gatherv", _ONE_TO_ALL, 1),
    _overlap("iscatter", "blocking Scatter", _ONE_TO_ALL, 1),
    _overlap("iscatterv", "blocking Scatterv", _ONE_TO_ALL, 1),
    _overlap("ialltoall", "blocking All-to-All", _ALL_TO_ALL, 2),
    _overlap("ialltoallv", "blocking All-to-Allv Personalized Exchange", _ALL_TO_ALL, 2),
    _overlap("ialltoallw", "blocking All-to-Allw Personalized Exchange", _ALL_TO_ALL, 2),
    _overlap("ireduce_scatter", "blocking Reduce_scatter", _ONE_TO_ALL, **OF_FLOATS, since=(7, 0)),
    _overlap(
        "ireduce_scatter_block",
        "blocking Reduce_scatter_block",
        traffic.equal_blocks,
        NOTHING_SURE,
        **{**OF_FLOATS, "since": (7, 4)},
    ),
    _ring("neighbor_allgather", "Neighborhood Allgather"),
    _ring("neighbor_allgatherv", "Neighborhood Allgatherv"),
    _ring("neighbor_alltoall", "Neighborhood Alltoall"),
    _ring("neighbor_alltoallv", "Neighborhood All-to-Allv"),
    _ring("neighbor_alltoallw", "All-to-Allw Personalized Exchange"),
    *(
        _ring(f"ineighbor_{name}", f"Non-blocking Neighborhood {name.capitalize()}")
        for name in ("allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw")
    ),
    *(_persistent(row) for row in _COLLECTIVES if row.name != "osu_reduce_scatter_block"),
    # The time in MPI_Init, in whole milliseconds; and ranks that only say that they are there, for
    # the time of the whole launch (OMB's README puts ``time`` in front of the launcher of
    # osu_hello).
    _row(
        "init",
        " Init",
        "startup",
        BY_NODES,
        ("t_min_us", "t_max_us", "t_avg_us"),
        traffic.nothing,
        min_ranks=1,
        **_BARRIER_GATES,
    ),
    _row(
        "hello",
        " Hello World",
        "startup",
        BY_NODES,
        ("time_s",),
        traffic.nothing,
        **_HELLO_GATES,
    ),
    _fan("in"),
    _fan("out"),
)

_Bands = tuple[Mapping[str, SizeRange], ...]
# Up to 8 KiB, where OSU's own defaults change; up to 128 KiB; above.
_PAIR: _Bands = (
    at_levels(
        SizeRange((3, 3), 200, 8), SizeRange((0, 13), 1000, 40), SizeRange((0, 13), 2000, 80)
    ),
    {"nightly": SizeRange((14, 17), 500, 40), "acceptance": SizeRange((14, 17), 1000, 80)},
    at_levels(
        SizeRange((20, 20), 20, 20), SizeRange((18, 22), 50, 80), SizeRange((18, 22), 100, 160)
    ),
)
_WINDOW: _Bands = (
    at_levels(SizeRange((3, 3), 20, 1), SizeRange((0, 13), 100, 4), SizeRange((0, 13), 200, 8)),
    {"nightly": SizeRange((14, 17), 40, 2), "acceptance": SizeRange((14, 17), 100, 4)},
    at_levels(SizeRange((20, 20), 2, 2), SizeRange((18, 20), 8, 4), SizeRange((18, 22), 16, 16)),
)
_COLLECTIVE: _Bands = (
    at_levels(SizeRange((5, 5), 50, 2), SizeRange((2, 13), 500, 16), SizeRange((2, 13), 1000, 40)),
    {"nightly": SizeRange((14, 20), 50, 16), "acceptance": SizeRange((14, 20), 100, 40)},
)
# Two timed loops a repetition, and three means of ranks waiting for each other.
_SLOW: _Bands = (
    at_levels(SizeRange((5, 5), 20, 1), SizeRange((2, 13), 100, 4), SizeRange((2, 13), 200, 8)),
    {"nightly": SizeRange((14, 20), 20, 4), "acceptance": SizeRange((14, 20), 50, 16)},
)
_PARTS: _Bands = (
    at_levels(
        SizeRange((10, 10), 50, 2), SizeRange((8, 13), 500, 16), SizeRange((8, 13), 1000, 40)
    ),
    {"nightly": SizeRange((14, 20), 50, 16), "acceptance": SizeRange((14, 20), 100, 40)},
)
#: What has no series of sizes.
_ONCE = at_levels(*[SizeRange((0, 0), 1, 1)] * 3)
_ELEMENT = at_levels(
    SizeRange((0, 0), 200, 1), SizeRange((0, 0), 1000, 1), SizeRange((0, 0), 2000, 1)
)
_BARRIER = at_levels(
    SizeRange((0, 0), 50, 1), SizeRange((0, 0), 500, 1), SizeRange((0, 0), 1000, 1)
)
_SLOW_BARRIER = at_levels(
    SizeRange((0, 0), 20, 1), SizeRange((0, 0), 100, 1), SizeRange((0, 0), 200, 1)
)
#: Traffic of programs that send windows of messages.
WINDOWED = (traffic.window_one_way, traffic.window_both_ways, traffic.window_fan)


def _group(
    name: str,
    description: str,
    bands: _Bands,
    sizeless: Mapping[str, SizeRange] = _ONCE,
    **more: bool,
) -> Group:
    """Every row of a group, each in bands; buffers of those that
    collect from all ranks are bounded by memory.
    """
    plans: list[Plan] = []
    for row in (row for row in ROWS if row.group == name):
        own = (sizeless,) if row.sizes != SERIES else _WINDOW if row.traffic in WINDOWED else bands
        plans += in_bands(
            row.name, *own, fan=row.traffic in (_ALL_TO_ALL, _ONE_TO_ALL) and row.crossing in (1, 2)
        )
    return Group(description, tuple(plans), **more)


#: Group to what it measures and its invocations: each benchmark is a
#: binary, started once per band of sizes.
GROUPS: Mapping[str, Group] = {
    name: _group(name, *group, **dict.fromkeys(words.split(), True))  # type: ignore[arg-type]
    for name, words, *group in (
        (
            "p2p_osu",
            "",
            "Latency and bandwidth between one pair of ranks (OSU latency, bw, bibw)",
            _PAIR,
        ),
        ("transfer_osu", "", "All ranks transfer at the same time (OSU multi_lat, mbw_mr)", _PAIR),
        (
            "one_sided_osu",
            "one_sided",
            "One-sided communication between one pair of ranks (OSU put and get)",
            _PAIR,
        ),
        ("collectives_osu", "collective", "Blocking collectives (OSU)", _COLLECTIVE, _BARRIER),
        (
            "p2p_persistent_osu",
            "",
            "One pair of ranks with persistent requests (OSU latency, bw, bibw)",
            _PAIR,
        ),
        (
            "threads_osu",
            "",
            "One pair of ranks, two threads or two processes in each (OSU latency_mt, latency_mp)",
            _PAIR,
        ),
        (
            "partitioned_osu",
            "",
            "One pair of ranks, a message in parts (OSU partitioned_latency)",
            _PARTS,
        ),
        (
            "atomics_osu",
            "one_sided",
            "Accumulating and atomic one-sided operations, and puts both ways (OSU)",
            _PAIR,
            _ELEMENT,
        ),
        (
            "nonblocking_osu",
            "collective",
            "Nonblocking collectives and their overlap with computation (OSU)",
            _SLOW,
            _SLOW_BARRIER,
        ),
        (
            "neighbourhood_osu",
            "collective",
            "Neighbourhood collectives on a ring, blocking and nonblocking (OSU)",
            _SLOW,
        ),
        ("persistent_osu", "collective", "Persistent collectives (OSU)", _COLLECTIVE, _BARRIER),
        (
            "startup_osu",
            "",
            "Time to start and initialise all ranks, by the number of nodes (OSU init, hello)",
            (),
        ),
        (
            "congestion_osu",
            "",
            "All other nodes send to one, and one sends to all others (OSU bw_fan_in, bw_fan_out)",
            _WINDOW,
        ),
    )
}

#: Messages a pair exchanges before each small size is timed: Intel MPI 2021.18 takes some 700 round
#: trips over shared memory to reach full speed, and until then 2 us instead of 0.2. IMB times a
#: size without data first, OSU has none.
WARM_UP_MESSAGES = 2000
#: Up to this message size in bytes, and never more than five times what is timed: 33 MB at most for
#: the small sizes of one pair's run together, 0.3 s at 1 Gbit/s.
WARM_UP_BYTES = 8192


def arguments(run: Run) -> list[str]:
    """One benchmark, the same repetitions at every size, so those
    the largest allows (README of OMB).

    Repetitions before each size (``-x``): a tenth, and for small messages of pairs
    :data:`WARM_UP_MESSAGES`, but not of several threads or processes: those wait for each other.
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
    return [
        *(sizes if row.sizes == SERIES else []),
        "-i",
        str(repetitions),
        "-x",
        str(warm_up),
        *run.options,
    ]


def sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """Sizes a row prints; the element of compare-and-swap and
    fetch-and-op is one ``MPI_CHAR`` (osu_cas_latency.c).
    """
    return (1,) if row.sizes == ELEMENT else sizes_of_doublings(row, plan, size_range)


#: Synchronisations of osu_put_bibw, which knows no passive target (its help text, 7.5).
ACTIVE_TARGET = ("pscw", "fence")
#: Percentiles requested, and so the quantities: their default in 7.3 was another one.
PERCENTILES = (50, 90, 99)
_ONE_SIDED = ("one_sided_osu", "atomics_osu")
_COLLECTIVE_GROUPS = ("collectives_osu", "nonblocking_osu", "neighbourhood_osu", "persistent_osu")

#: It reduces one pair of buffers, ``recvbuf_warmup``, and compares another
#: (osu_allreduce_persistent.c of 7.4 and 7.5), so that ``-c`` finds wrong data always.
_NO_VALIDATION = "osu_allreduce_persistent"


def _validated(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    if row.sizes == SIZELESS or row.name == _NO_VALIDATION:
        return None
    return replace(row, options=(*VALIDATE, *row.options))


def _window(row: Benchmark, value: str, ranks: int) -> Benchmark:
    _, _, flag, sync, *rest = row.options
    return replace(row, options=("-w", value, flag, sync, *rest), variants=(f"{value},{sync}",))


def _sync(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    flag, window, _, own, *rest = row.options
    if value == own or (row.name == "osu_put_bibw" and value not in ACTIVE_TARGET):
        return None
    return replace(row, options=(flag, window, "-s", value, *rest), variants=(f"{window},{value}",))


def _window_size(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    if row.traffic not in WINDOWED:
        return None
    kept = row.options[: -len(WINDOW)] if row.options[-len(WINDOW) :] == WINDOW else row.options
    variants = tuple(
        name.replace(f"window={traffic.WINDOW}", f"window={value}") for name in row.variants
    )
    bound = traffic.with_window(row.traffic, int(value))
    return replace(row, options=(*kept, WINDOW[0], value), variants=variants, traffic=bound)


_PAIRS = ("p2p_osu", "transfer_osu", "p2p_persistent_osu")
_OFF_ON = ("off", "on")


def _option(
    name: str, groups: tuple[str, ...], values: tuple[str, ...] = (), **more: Any
) -> SuiteOption:
    """An option; without it, it is the first of its values."""
    return SuiteOption(
        name, groups=groups, values=values, **{"default": (values or ("",))[0], **more}
    )


OPTIONS = (
    # -w and -s: how the window of one-sided communication is made,
    # and how an access to it is completed.
    _option(
        "window",
        _ONE_SIDED,
        tuple(WINDOWS.values()),
        default="create",
        printed=True,
        change=_window,
    ),
    _option("sync", _ONE_SIDED, tuple(SYNCS.values()), default="flush", printed=True, change=_sync),
    # Another measurement: each repetition is timed alone, behind a barrier and five that are not
    # (``warmup_validation``), with other data in the caches.
    _option(
        "validation",
        (*_PAIRS, *_COLLECTIVE_GROUPS),
        _OFF_ON,
        since=(7, 0),
        change=_validated,
        validates=True,
    ),
    # Messages that are on their way before the receiver answers (-W).
    _option(
        "window_size",
        (*_PAIRS, *_ONE_SIDED, "congestion_osu"),
        tuple(
            str(size)
            for size in (
                traffic.WINDOW,
                *(1 << log for log in range(11) if 1 << log != traffic.WINDOW),
            )
        ),
        change=_window_size,
    ),
)


#: Print the title of host memory always (``BENCHMARK`` without ``%s``): the first two say their
#: memory in a line of its own until 7.3, the last knows host memory only and takes ``D D`` without
#: a word.
_PLAIN_TITLE = ("osu_multi_lat", "osu_mbw_mr", "osu_get_acc_latency")
#: Print no line of their memory (CHANGES of 7.4, "multiple/incorrect headers"; ``print_preamble``).
_SILENT_SINCE = (7, 4)
#: Since when neighbourhood collectives know GPU memory, and ``-c``
#: compares that of ROCm and managed memory rightly.
_RINGS_ON_GPU_SINCE = (7, 5)
_ROCM_COMPARED_SINCE = (7, 1)
_MANAGED_COMPARED_SINCE = (7, 4)
#: Where the buffers of rank 0 and of rank 1 are, as words of a command
#: line. ``MD``: pages that the GPU wrote last.
_PLACES = {
    DEVICE: ("D", "D"),
    MANAGED: ("MD", "MD"),
    HOST_TO_DEVICE: ("H", "D"),
    DEVICE_TO_HOST: ("D", "H"),
}


def on_gpu(row: Benchmark, memory: Memory, version: tuple[int, ...]) -> tuple[str, ...] | None:
    """Words behind all others with which a row measures GPU memory and says so
    (``process_options`` in util/osu_util.c).

    Without ``-d``, which pairs ignore, the platform in a title shows that ``D D`` was understood.
    """
    if (
        row.sizes == SIZELESS
        or row.group in (STARTUP, THREADED)
        or row.name == "osu_get_acc_latency"
    ):
        return None
    if memory.word == MANAGED and memory.kind != "cuda":
        return None
    right_since = (
        _MANAGED_COMPARED_SINCE
        if memory.word == MANAGED
        else _ROCM_COMPARED_SINCE
        if memory.kind == "rocm"
        else ()
    )
    if VALIDATE[0] in row.options and () < version < right_since:
        return None
    if GROUPS[row.group].collective:
        if row.group == "neighbourhood_osu" and () < version < _RINGS_ON_GPU_SINCE:
            return None
        if memory.word == MANAGED and "t_ovrl_us" in row.quantities:
            return "-d", "managed"
        return ("-d", memory.kind) if memory.word == DEVICE else None
    if row.name in _PLAIN_TITLE and version >= _SILENT_SINCE:
        return None
    places = _PLACES[memory.word]
    return places[::-1] if _receives(row) else places


def _receives(row: Benchmark) -> bool:
    """Whether rank 1 sends to rank 0."""
    return row.name.startswith("osu_get_")


OLDEST = (5, 6)
NEXT_MAJOR = (8,)
_TITLES = {
    row.title: tuple(candidate for candidate in ROWS if candidate.title == row.title)
    for row in ROWS
}
_TITLE = re.compile(r"# (?P<title>OSU .+) v(?P<version>[0-9]+(?:\.[0-9]+){1,2})")
#: Platform in a title: behind ``OSU MPI``, of one-sided programs behind the operation.
_ACCELERATED = re.compile(r"(?<=OSU MPI)(_[A-Za-z_]+)?-(MANAGED|CUDA|OPENACC|ROCM|SYCL)\b")
_COUNT = "[1-9][0-9]*"
#: Lines above a title: threads and processes in some versions (osu_latency_mt.c, osu_latency_mp.c),
#: neighbourhoods always (``omb_neighborhood_create``).
_ABOVE = (
    rf"# Number of Sender threads: (?P<sender_threads>{_COUNT})",
    rf"# Number of Receiver threads: (?P<receiver_threads>{_COUNT})",
    rf"# Number of forked processes in sender: (?P<sender_processes>{_COUNT})",
    rf"# Number of forked processes in receiver: (?P<receiver_processes>{_COUNT})",
    rf"Dimensions size = (?P<ring>{_COUNT})",
    r"Time took to create topology graph:(?P<setup>[0-9]+\.[0-9]{2}) us\.",
)
_EARLY = re.compile("|".join(_ABOVE))
_PLACE = r"[A-Z]+ \([A-Z]+\)"
#: Lines that say how a benchmark ran, each at most once, above the rows:
#: ``print_header_one_sided``, osu_mbw_mr.c, osu_partitioned_latency.c; data types since 7.1; memory
#: in builds for accelerators.
_FACT = re.compile(
    "|".join(
        (
            *_ABOVE,
            f"# Window creation: (?P<window>{'|'.join(WINDOWS)})",
            f"# Synchronization: (?P<sync>{'|'.join(SYNCS)})",
            rf"# \[ pairs: (?P<pairs>{_COUNT}) \] \[ window size: (?P<size>{_COUNT}) \]",
            f"# Partitions: (?P<partitions>{_COUNT})",
            r"# Overall = (?P<parts>Coll\. Init \+ Compute \+ MPI_Test \+ MPI_Wait)",
            r"# Datatype: (?P<type>MPI_(?:CHAR|INT|FLOAT))\.",
            rf"# Send Buffer on (?P<sender>{_PLACE}) and Receive Buffer on (?P<receiver>{_PLACE})",
            rf"# Rank 0 Memory on (?P<rank0>{_PLACE}) and Rank 1 Memory on (?P<rank1>{_PLACE})",
        )
    )
)
#: Where buffers were, those of a pair of ranks and of one-sided programs.
_BUFFERS = ("sender", "receiver"), ("rank0", "rank1")
#: Facts that need not be there.
_OPTIONAL = {"type", *_BUFFERS[0], *_BUFFERS[1]}
#: Two places to the memory they are; ``MH``: pages that the host
#: wrote last, which no launch asks for.
_IN_MEMORY = {
    ("HOST (H)", "HOST (H)"): HOST,
    ("DEVICE (D)", "DEVICE (D)"): DEVICE,
    ("HOST (H)", "DEVICE (D)"): HOST_TO_DEVICE,
    ("DEVICE (D)", "HOST (H)"): DEVICE_TO_HOST,
    ("MANAGED (M)", "MANAGED (M)"): MANAGED,
    ("MANAGED (MD)", "MANAGED (MD)"): MANAGED,
    ("MANAGED (MH)", "MANAGED (MH)"): f"{MANAGED},pages=host",
}
_FACTS = {
    "osu_mbw_mr": {"pairs", "size"},
    "osu_latency_mt": {"sender_threads", "receiver_threads"},
    "osu_latency_mp": {"sender_processes", "receiver_processes"},
    "osu_partitioned_latency": {"partitions"},
}
#: What is reduced without a word before 7.1. Without ``-T`` it is MPI_CHAR in 7.1 to 7.4 and
#: MPI_INT in 7.5, which print it.
REDUCED = "MPI_FLOAT"
#: On standard error, so anywhere in a file of both streams, from gets and puts since 7.1.
#: osu_get_acc_latency 7.1 always says it: it looks at its types before it has read them.
_ONLY_BYTES = "Benchmark supports only MPI_CHAR. Continuing with MPI_CHAR."

SIZE = "Size"
ITERATIONS = "Iterations"
VALIDATION = "Validation"
#: Column title (``print_only_header``, ``print_only_header_nbc``, ``print_header_one_sided``) to
#: what stands in it; of several quantities, the one the row has.
_QUANTITIES = {
    "Latency (us)": ("latency_us",),
    "Avg Latency(us)": ("latency_us", "t_avg_us"),
    "Min Latency(us)": ("t_min_us",),
    "Max Latency(us)": ("t_max_us",),
    "Bandwidth (MB/s)": ("bandwidth_mb_per_s",),
    "MB/s": ("bandwidth_mb_per_s",),
    "Messages/s": ("message_rate_per_s",),
    "Overall(us)": ("t_ovrl_us",),
    "Compute(us)": ("t_cpu_us",),
    "Coll. Init(us)": ("t_init_us",),
    "MPI_Test(us)": ("t_test_us",),
    "MPI_Wait(us)": ("t_wait_us",),
    "Pure Comm.(us)": ("t_pure_us",),
    "Min Comm.(us)": ("t_min_us",),
    "Max Comm.(us)": ("t_max_us",),
    "Overlap(%)": ("overlap_percent",),
}
_TAIL = re.compile(r"P([0-9]{1,2}) Tail (BW\(MB/s\)|Lat\(us\))")
_COLUMN = re.compile(
    "|".join([*map(re.escape, (SIZE, *_QUANTITIES, ITERATIONS, VALIDATION)), _TAIL.pattern])
)
_RANGE = ("t_min_us", "t_max_us")
_OVERLAP_LAYOUTS = (
    OVERLAP,
    FULL_OVERLAP,
    tuple(name for name in FULL_OVERLAP if name not in _RANGE),
)
#: Columns of barriers of 7.1, which print no head.
_TIME_PARTS = (
    "Overall(us)",
    "Compute(us)",
    "Coll. Init(us)",
    "MPI_Test(us)",
    "MPI_Wait(us)",
    "Pure Comm.(us)",
)
_HEADLESS = (
    ("Avg Latency(us)",),
    ("Avg Latency(us)", "Min Latency(us)", "Max Latency(us)", ITERATIONS),
    (*_TIME_PARTS[:2], _TIME_PARTS[-1], "Overlap(%)"),
    (*_TIME_PARTS, "Min Comm.(us)", "Max Comm.(us)", "Overlap(%)"),
)
#: osu_mbw_mr of 5.6 prints another benchmark's titles first; the nonblocking
#: barrier up to 7.0 has no ``#`` before its own.
_STRAY_HEAD = re.compile(r"# Size +(?:Latency \(us\)|Bandwidth \(MB/s\))")
_BARE_HEAD = re.compile(r" +Overall\(us\) .*")
#: Without ``-c`` osu_latency_mp of 6 and 7 prints its first value into 10 columns and not 18: all
#: stand that much to the left.
_NARROWER = {"osu_latency_mp": (0, 8)}
_CELLS = {SIZE: "[0-9]+", ITERATIONS: "[1-9][0-9]*", VALIDATION: "Pass|Fail|passed|failed|skipped"}
#: What atomics with ``-c`` print below their rows, each rank for itself
#: (``atomic_data_validation_print_summary``, since 7.1).
_SUMMARY = re.compile(r"-{43}|Atomic Data Validation results for Rank=[01]:|(?:PASSED|SKIPPED): .*")
_INIT = re.compile(r"nprocs: ([1-9][0-9]*), min: ([0-9]+) ms, max: ([0-9]+) ms, avg: ([0-9]+) ms")
_HELLO = re.compile(r"This is a test with ([1-9][0-9]*) processes")
#: A line that only an output of OSU has, rows with a sign wrong among them.
PIECE = re.compile(
    rf"{ROW_LIKE}|[0-9]+ {{2,}}-?(?:[0-9]|nan|inf).*| +[0-9]+\.[0-9]{{2}}| +Overall\(us\) .*"
    r"|nprocs: .*|This is a test with .*"
    r"|# (?:Size\b|Datatype: |Overall\b|Avg Latency|Window creation: |Synchronization: "
    r"|\[ pairs: |Partitions: ).*"
    r"|# (?:Send Buffer|Rank 0 Memory) on .*"
    r"|Atomic Data Validation results .*|PASSED: All .*|FAILED: .*|DATA VALIDATION ERROR.*"
    r"|# Number of (?:Sender|Receiver|forked) .*|Dimensions size = .*"
    r"|Time took to create topology graph.*"
)
_ODD = (
    (re.compile(r"\bwarn", re.IGNORECASE), "the output has a warning"),
    (re.compile("DATA VALIDATION ERROR"), "validation failed: received data was wrong"),
    (
        re.compile(r"(?<![a-z])-?(?:nan|inf)\b", re.IGNORECASE),
        "a value is not a number; the measurement failed",
    ),
    (re.compile(r"(?:^| )-[0-9]"), "a value is negative; the clock or the output is broken"),
    (
        re.compile(""),
        "this line does not belong here; the output is damaged, truncated or mixed with other "
        "output",
    ),
)


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order.

    :raises OutputError: if it is damaged, mixed up or empty, of another
        benchmark or version, or data arrived wrong.
    """
    if not text.endswith("\n"):
        raise OutputError(
            "output-cut",
            f"{source}: the last line is incomplete; the output is truncated, run the benchmark "
            "again.",
        )
    table = _Table()
    for number, line in enumerate(map(str.rstrip, text.split("\n")), 1):
        try:
            if line:
                table.take(line)
        except OutputError as error:
            raise OutputError(error.code, f"{source}, line {number}: {error}.") from None
    if not table.records:
        where = f"{source}, line {len(text) - len(text.lstrip(chr(10))) + 1}"
        raise OutputError(
            "output-empty",
            f"{where}: the table of OSU has no rows; the output is incomplete, run it again.",
        )
    return table.records


class _Table:
    """What has been read so far."""

    def __init__(self) -> None:
        #: Benchmarks of this title; the first whose lines and columns these are.
        self.rows: tuple[Benchmark, ...] = ()
        self.version: tuple[int, ...] = ()
        #: The platform in the title; empty for host memory.
        self.platform = self.memory = ""
        self.facts: dict[str, str] = {}
        #: Column titles and where each ends; empty before the head.
        self.columns: list[tuple[str, int]] = []
        self.shift = 0
        self.records: list[Record] = []
        self.noted = self.ended = False

    def take(self, line: str) -> None:
        """Take the next line."""
        if line.startswith("# OSU "):
            self._title(line)
        elif not self.records and (fact := _FACT.fullmatch(line)):
            values = {key: value for key, value in fact.groupdict().items() if value}
            if values.keys() & self.facts.keys() or (self.columns and values.keys() - {"type"}):
                raise _second()
            self.facts |= values
        elif not self.rows:
            raise OutputError(
                "output-mixed",
                f"'{_shown(line)}' precedes the title; keep other output out of the file",
            )
        elif line == _ONLY_BYTES and self._says_only_bytes():
            self.noted = True
        elif self.rows[0].group == STARTUP:
            self._start(line)
        elif self.records and self.records[-1].validated and _SUMMARY.fullmatch(line):
            self.ended = True
        elif (
            not self.columns
            and self.version[:2] == (7, 1)
            and re.fullmatch(r" +[0-9]+\.[0-9]{2}( .*)?", line)
        ):
            self._fit(*_headless(line, overlaps=self.rows[0].quantities == OVERLAP))
            self._row(line)
        elif line.startswith("#") or not self.columns:
            self._head(line)
        elif self.ended:
            raise _odd(line)
        else:
            self._row(line)

    def _says_only_bytes(self) -> bool:
        return (
            not self.noted
            and self.version >= (7, 1)
            and self.rows[0].name.startswith(("osu_get_", "osu_put_"))
        )

    def _title(self, line: str) -> None:
        match = _TITLE.fullmatch(line)
        if not match:
            raise OutputError(
                "other-release",
                f"'{_shown(line)}' is not a title of OSU 5.6 to 7.5; use one of these releases",
            )
        platform = _ACCELERATED.search(match["title"])
        title = _ACCELERATED.sub(r"\1", match["title"])
        version = tuple(int(word) for word in match["version"].split("."))
        if not OLDEST <= version < NEXT_MAJOR:
            raise OutputError(
                "other-release",
                f"OSU {match['version']} is not supported; use 5.6 to 7.5",
            )
        if title not in _TITLES:
            raise OutputError(
                "unknown-name",
                f"'{title}' is not an OSU benchmark of the catalogue; see 'mpibench catalogue'",
            )
        # osu_mbw_mr of 7.0 prints its title twice.
        if self.rows and (
            self.columns
            or self.facts
            or self.rows != _TITLES[title]
            or self.rows[0].name != "osu_mbw_mr"
        ):
            raise _second()
        self.rows = _TITLES[title]
        self.version = version
        self.platform = platform[2] if platform else ""

    def _start(self, line: str) -> None:
        """The one line of osu_init (osu_init.c, whole milliseconds) or osu_hello (osu_hello.c)."""
        row = self.rows[0]
        match = (_HELLO if row.launch_time else _INIT).fullmatch(line)
        if self.records or not match:
            raise OutputError(
                "output-damaged",
                f"'{_shown(line)}' is not the line of {row.name}; the output is damaged or mixed "
                "up",
            )
        times = [float(word) * 1e3 for word in match.groups()[1:]]
        values = dict(zip(row.quantities, times, strict=True)) if times else {}
        if fault := _contradiction(values):
            raise OutputError("output-damaged", fault)
        self.records.append(Record(NAME, row.name, int(match[1]), 1, None, 1, values))

    def _head(self, line: str) -> None:
        if self.columns:
            raise _second()
        if self.rows[0].name == "osu_mbw_mr" and not self.facts and _STRAY_HEAD.fullmatch(line):
            return
        if "Transmit Size" in line:
            raise OutputError(
                "output-damaged", "column 'Transmit Size' is not supported; run without -D"
            )
        headings = list(_COLUMN.finditer(line))
        bare = self.rows[0].sizes == SIZELESS and _BARE_HEAD.fullmatch(line)
        if _COLUMN.sub("", line).strip() != ("" if bare else "#"):
            raise _odd(line)
        self._fit([match[0] for match in headings], [match.end() for match in headings])

    def _fit(self, titles: Sequence[str], ends: Sequence[int]) -> None:
        """Set the columns, and keep the benchmarks of this title that
        print them and the lines above them.
        """
        name = self.rows[0].name
        facts = self.facts.keys() - _OPTIONAL
        able = [row for row in self.rows if _facts_of(row) == facts]
        if not able:
            missing = sorted(_facts_of(self.rows[0]) - facts)
            fault = (
                f"the line that says the {missing[0]} is missing"
                if missing
                else f"a line above is not of {name}"
            )
            raise OutputError("output-damaged", f"{fault}; the output is damaged or mixed up")
        for tail in filter(None, map(_TAIL.fullmatch, titles)):
            if f"latency_p{tail[1]}_us" not in QUANTITIES:
                raise OutputError(
                    "output-damaged",
                    f"percentile P{tail[1]} is not supported; use P50, P90 and P99 (-z)",
                )
        self.rows = tuple(row for row in able if _prints(row, titles))
        if not self.rows:
            raise OutputError(
                "output-damaged",
                f"the columns are not those of {name}; the output is damaged or mixed up",
            )
        self.memory = self._memory()
        self.columns = list(zip(titles, ends, strict=True))

    def _memory(self) -> str:
        """What the memory of its buffers adds to the variant; empty for host memory."""
        row = self.rows[0]
        sided = self.rows[0].options[:1] == ("-w",)
        plain = row.name in _PLAIN_TITLE
        pair = not GROUPS[row.group].collective and row.group != STARTUP
        places = tuple(self.facts.get(name, "") for name in _BUFFERS[sided])
        told = pair and (bool(self.platform) or (plain and not sided))
        if (
            (self.facts.keys() & {*_BUFFERS[not sided]})
            or (any(places) and not told)
            or (plain and self.platform)
        ):
            raise OutputError(
                "output-damaged",
                "title and buffer line contradict each other; the output is damaged or mixed up",
            )
        if any(places):
            if places not in _IN_MEMORY:
                known = ", ".join(MEMORIES)
                fault = f"buffers on {' and '.join(places)} are not in a supported memory ({known})"
                raise OutputError(
                    "output-trouble", f"{fault}; use D or MD on both sides, or H and D"
                )
            word = _IN_MEMORY[places[::-1] if _receives(row) else places]
            return f"memory={word}" if word != HOST else ""
        if not self.platform or row.sizes == SIZELESS:
            return ""
        if pair and (sided or self.version < _SILENT_SINCE):
            raise OutputError(
                "output-damaged",
                "the buffer line is missing; the output is damaged or mixed up",
            )
        return (
            f"memory={MANAGED}"
            if self.platform == "MANAGED"
            else UNSAID
            if pair
            else f"memory={DEVICE}"
        )

    def _row(self, line: str) -> None:
        row = self.rows[0]
        columns = self.columns
        cells = list(re.finditer(r"\S+", line))
        # The blocking barrier has a title and no value under it.
        if row.sizes == SIZELESS and columns[-1][0] == VALIDATION and len(cells) < len(columns):
            columns = columns[:-1]
        if len(cells) != len(columns):
            raise _odd(line)
        if not self.records and (shift := columns[-1][1] - cells[-1].end()) in _NARROWER.get(
            row.name, ()
        ):
            self.shift = shift
        printed = {}
        for cell, (title, end) in zip(cells, columns, strict=True):
            in_place = not cell.start() if title == SIZE else cell.end() == end - self.shift
            if not in_place or not re.fullmatch(_CELLS.get(title, r"[0-9]+\.[0-9]{2}"), cell[0]):
                raise _odd(line)
            printed[title] = cell[0]
        size = int(printed[SIZE]) if SIZE in printed else None
        repetitions = int(printed[ITERATIONS]) if ITERATIONS in printed else None
        if printed.get(VALIDATION) in ("Fail", "failed"):
            raise OutputError(
                "output-trouble",
                f"validation failed: {row.name} received wrong data at {size} bytes; do not trust "
                "this MPI",
            )
        if row.reduction and self.version >= (7, 1) and "type" not in self.facts:
            raise OutputError(
                "output-damaged", f"the line that says the data type of {row.name} is missing"
            )
        values = {
            name: float(cell) for title, cell in printed.items() if (name := _quantity(row, title))
        }
        if row.quantities == OVERLAP and self.version < RIGHT_RANGE_SINCE:
            values = {name: value for name, value in values.items() if name not in _RANGE}
        if self.records:
            before = self.records[-1]
            if size is None or size != 2 * (before.message_bytes or 0.5):
                gap = f"{size} bytes follow {before.message_bytes} bytes, but sizes must double"
                raise OutputError(
                    "output-mixed",
                    f"{gap}; rows are missing, repeated or mixed up; run the benchmark again",
                )
            if repetitions and repetitions > (before.repetitions or 0):
                raise OutputError(
                    "output-mixed", "the number of iterations grows; outputs are mixed up"
                )
        if fault := _contradiction(values):
            raise OutputError("output-damaged", fault)
        facts = self.facts
        checked = printed.get(VALIDATION, "skipped") != "skipped"
        ranks = (
            2 * int(facts["pairs"])
            if "pairs" in facts
            else int(facts["ring"])
            if "ring" in facts
            else None
        )
        ranks = 2 if row.ranks == "only_pair" else ranks
        variant = ",".join(filter(None, (_variant(row, facts), self.memory)))
        self.records.append(
            Record(NAME, row.name, ranks, 1, size, repetitions, values, variant, checked)
        )


def _facts_of(row: Benchmark) -> set[str]:
    """What a benchmark must say above its columns."""
    if row.name in _FACTS:
        return _FACTS[row.name]
    sided = row.options[:1] == ("-w",)
    ring = row.group == "neighbourhood_osu"
    facts = {"window", "sync"} if sided else {"ring", "setup"} if ring else set()
    return facts | ({"parts"} if row.quantities == OVERLAP else set())


def _variant(row: Benchmark, facts: Mapping[str, str]) -> str:
    """What makes it another measurement: window and synchronisation, window
    size, threads, parts, a type not the default.
    """
    words = [WINDOWS[facts["window"]], SYNCS[facts["sync"]]] if "window" in facts else []
    words += [f"window={facts['size']}"] if "size" in facts else []
    words += [
        f"{key}={value}"
        for key, value in facts.items()
        if key.startswith(("sender_", "receiver_", "partitions"))
    ]
    usual = REDUCED if row.reduction else "MPI_CHAR"
    words += [f"type={kind}"] if (kind := facts.get("type", usual)) != usual else []
    return ",".join(words)


def _quantity(row: Benchmark, title: str) -> str | None:
    """Key of :data:`vocabulary.QUANTITIES` of a column; ``None`` for a title that holds none.

    Fan-in and fan-out print a bandwidth under the title of a latency (osu_bw_fan_in.c computes
    MB/s; ``print_only_header`` of 7.4 and 7.5 does not know their kind), and so the percentiles.
    """
    bandwidths = row.group == CONGESTION
    if tail := _TAIL.fullmatch(title):
        return (
            f"bandwidth_p{tail[1]}_mb_per_s"
            if bandwidths or tail[2].startswith("BW")
            else f"latency_p{tail[1]}_us"
        )
    if bandwidths and title == "Avg Latency(us)":
        return "bandwidth_mb_per_s"
    names = _QUANTITIES.get(title, (None,))
    return next((name for name in names if name in row.quantities), names[0])


def _prints(row: Benchmark, titles: Sequence[str]) -> bool:
    """Whether a benchmark prints these columns, with or without ``-f``, ``-c`` and ``-z``."""
    values = tuple(_quantity(row, title) for title in titles if title in _QUANTITIES)
    layouts = _OVERLAP_LAYOUTS if row.quantities == OVERLAP else (row.quantities[: len(values)],)
    others = ((SIZE, row.sizes != SIZELESS), (ITERATIONS, values == TIME_RANGE))
    right = all((title in titles) == there for title, there in others)
    return bool(values) and values in layouts and right and len(set(titles)) == len(titles)


def _headless(line: str, *, overlaps: bool) -> tuple[list[str], list[int]]:
    """Column titles of a row without a head, and where each cell must end
    (``print_stats``, ``print_stats_nbc`` of 7.1).
    """
    cells = line.split()
    checked = [VALIDATION] if cells[-1] in ("Pass", "Fail") else []
    able = (list(columns) for columns in _HEADLESS if (columns[-1] == "Overlap(%)") == overlaps)
    titles = next((columns for columns in able if len(columns) + len(checked) == len(cells)), [])
    if not titles:
        raise _odd(line)
    widths = [
        {"Avg Latency(us)": 17, ITERATIONS: 12}.get(title, 18) for title in (*titles, *checked)
    ]
    return [*titles, *checked], list(accumulate(widths))


def _contradiction(values: Mapping[str, float]) -> str:
    """What is wrong with a row whose columns are in no order, each
    rounded to 0.01; empty if nothing is.
    """
    mean = "t_pure_us" if "t_pure_us" in values else "t_avg_us"
    orders: dict[tuple[str, ...], str] = {
        ("t_min_us", mean, "t_max_us"): "the mean is not between minimum and maximum"
    }
    for kind in ("latency_p{}_us", "bandwidth_p{}_mb_per_s"):
        orders[tuple(kind.format(percent) for percent in PERCENTILES)] = (
            "a percentile is below a lower one"
        )
    for names, fault in orders.items():
        printed = [values[name] for name in names if name in values]
        if any(high < low - 0.01 for low, high in pairwise(printed)):
            return f"{fault}; the columns are damaged or mixed up"
    return ""


def facts_of_output(text: str) -> Facts:
    """What a parsed output reveals about how it was measured."""
    notes = dict[str, None]()
    named = ""
    for match in filter(None, (_TITLE.fullmatch(line.rstrip()) for line in text.split("\n"))):
        if platform := _ACCELERATED.search(match["title"]):
            named = "cuda" if platform[2] == "MANAGED" else platform[2].lower()
            row = _TITLES[_ACCELERATED.sub(r"\1", match["title"])][0]
            if re.search(r" on HOST \(H\) and R.* on HOST \(H\)", text):
                notes[f"built for {platform[2]}; its buffers were in host memory"] = None
            elif (
                not re.search("(?:Send Buffer|Rank 0 Memory) on ", text)
                and not GROUPS[row.group].collective
            ):
                notes[
                    f"GPU memory was requested ({platform[2]}), but the output does not say for "
                    "which buffers"
                ] = None
        if (
            "Min Comm.(us)" in text
            and tuple(map(int, match["version"].split("."))) < RIGHT_RANGE_SINCE
        ):
            notes[
                f"left out: minimum and maximum of OSU {match['version']}, which are wrong on "
                f"three or more ranks (correct from {'.'.join(map(str, RIGHT_RANGE_SINCE))} on)"
            ] = None
    return Facts(tuple(notes), platform=named)


def extent(lines: Sequence[str], title: int) -> tuple[int, int]:
    """Where the output of a title begins, including what its program prints above the title, and
    where it ends: after the last line before the next title that only OSU prints, so that
    everything before that line is inside.
    """
    begin = title
    end = title + 1
    there = False
    others = False
    for at in range(title - 1, -1, -1):
        if _EARLY.fullmatch(lines[at].rstrip()):
            begin = at
        elif lines[at].strip():
            break
    own = _ACCELERATED.sub(r"\1", lines[title].rstrip())
    for at in range(title + 1, len(lines)):
        line = lines[at].rstrip()
        if line.startswith("# OSU ") and (there or others or _ACCELERATED.sub(r"\1", line) != own):
            break  # osu_mbw_mr prints its title twice
        others |= bool(line) and not PIECE.fullmatch(line) and not line.startswith("# OSU ")
        if PIECE.fullmatch(line) and not _EARLY.fullmatch(line):
            end = at + 1
            there = there or not line.startswith("#")
    if end < len(lines) and lines[end - 1].startswith(("PASSED", "FAILED")):
        end += bool(_SUMMARY.fullmatch(lines[end].rstrip()))
    return begin, end


#: Largest message unless asked otherwise: of collectives, and of all others (``MAX_MSG_SIZE_COLL``
#: and ``MAX_MESSAGE_SIZE`` of util/osu_util.h, 5.6 to 7.5).
_LARGEST_COLLECTIVE = 1 << 20
_LARGEST = 1 << 22
_ASKED_LARGEST = re.compile(r"\bosu_\w+\s(?:.*\s)?(?:-m|--message-size)[\s=]*(?:[0-9]+:)?([0-9]+)")


def doubt(last: Record, around: Iterable[str]) -> str:
    """Tables have no end mark: one truncated after a row looks like one told to end there."""
    row = next(row for row in ROWS if row.name == last.benchmark)
    largest = _LARGEST_COLLECTIVE if GROUPS[row.group].collective else _LARGEST
    if row.sizes != SERIES or last.message_bytes is None or last.message_bytes >= largest:
        return ""
    if any(
        last.message_bytes <= int(asked[1]) < 2 * last.message_bytes
        for asked in map(_ASKED_LARGEST.search, around)
        if asked
    ):
        return ""
    by_itself = f"{row.name} by default continues to {largest}"
    return (
        f"the table ends with {last.message_bytes} bytes, and {by_itself}: it was told to end "
        "there (-m, -M), or is truncated"
    )


def _second() -> OutputError:
    return OutputError(
        "output-mixed",
        "a second table starts; split the outputs, and run one data type and window at a time",
    )


def _odd(line: str) -> OutputError:
    meaning = next(meaning for pattern, meaning in _ODD if pattern.search(line))
    return OutputError("output-damaged", f"{meaning}: '{_shown(line)}'; run the benchmark again")


def _shown(line: str) -> str:
    return "".join(ch if ch.isprintable() else "?" for ch in line[:60])


SUITE = Suite(
    name=NAME,
    title="OSU",
    first_line=re.compile(r"^[ \t]*# OSU ", re.MULTILINE),
    parse=parse,
    extent=extent,
    piece=PIECE,
    doubt=doubt,
    facts=facts_of_output,
    rows=ROWS,
    groups=GROUPS,
    arguments=arguments,
    sizes=sizes,
    same_repetitions=True,
    # util/osu_util_options.h. One of some eighty programs is started after a build, because all are
    # made by one build on one library, and the package's install-time tests ran others.
    programs=Programs(
        "osu_*",
        r"osu_[a-z0-9_]+",
        "--version",
        r"(?m)^# OSU .*v([0-9][0-9.]*)",
        ranks=2,
        sample=("osu_latency",),
        # Fan-in and fan-out look for other nodes before they look at their options
        # (osu_bw_fan_util.c); osu_mbw_mr of 5.x ends MPI twice when it has said its version, which
        # is lost then where the MPI aborts (osu_mbw_mr.c).
        refusal=r"Please run this benchmark on more than 1 node|after (?:finalizing MPICH"
        r"|MPI_FINALIZE was invoked)",
        gpu={"cuda": "^# OSU MPI-CUDA ", "rocm": "^# OSU MPI-ROCM "},
        gpu_words=("-d", "{kind}", "--version"),
    ),
    spack=(BenchmarkPackage("osu-micro-benchmarks", "libexec", "osu_*"),),
    options=OPTIONS,
    on_gpu=on_gpu,
)
