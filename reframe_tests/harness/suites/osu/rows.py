"""The OSU Micro-Benchmarks (OMB) 5.6 to 7.5: every program in C for MPI and memory of the host, and how each is run.

Each benchmark is a binary of its own, whose name is the row's name. Titles are the ``BENCHMARK`` macros of mpi/*/osu_*.c (c/mpi
from 7.0 on), versions of the first release those of CHANGES. Without ``-i`` a binary makes fewer repetitions above 8 KiB
(``LARGE_MESSAGE_SIZE`` in util/osu_util.h); with it, the same at every size.

Two titles are those of several programs, so a row says with which it shares one by the title alone: all-to-allw is also the
title of its neighbourhood form, bandwidth that of fan-in and fan-out. What was started tells them apart
(:func:`reader.complete`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .. import traffic
from ..benchmark import BY_NODES, ELEMENT, NOTHING_SURE, SERIES, SINGLE, SIZELESS, SMALL, STREAM, Benchmark
from ..model import Group, Offer, Run, sizes_of_doublings
from ..plans import Plan, SizeRange, at_levels, in_bands

#: Name of the suite.
NAME = "osu"

KIB, MIB = 1 << 10, 1 << 20

LATENCY = ("latency_us",)
BANDWIDTH = ("bandwidth_mb_per_s",)
#: Columns of a collective with ``-f``: over ranks, of each rank's mean (``print_stats`` in util/osu_util_mpi.c).
TIME_RANGE = ("t_avg_us", "t_min_us", "t_max_us")

#: Columns of a non-blocking collective that every version prints: means over ranks (``print_stats_nbc``).
OVERLAP = ("t_ovrl_us", "t_cpu_us", "t_pure_us", "overlap_percent")

#: All columns of a non-blocking collective (``-f``); minimum and maximum since 5.7.1.
FULL_OVERLAP = (
    *OVERLAP[:2],
    *("t_init_us", "t_test_us", "t_wait_us", "t_pure_us", "t_min_us", "t_max_us", "overlap_percent"),
)
#: Before, ``-f`` prints a minimum and a maximum that are none on three ranks or more: rank 0 reduces MAX, then MIN, the others
#: MIN, then MAX (``calculate_and_print_stats`` of 5.7.1 to 7.0).
RIGHT_RANGE_SINCE = (7, 1)
#: Sizes that are compared, those of the rows of IMB for collectives, by the columns of a row.
_COMPARED = (32, 4 * KIB, 64 * KIB, MIB)
_GATES: Mapping[tuple[str, ...], Mapping[str, tuple[int, ...]]] = {
    LATENCY: {"latency_us": (8, 1 * KIB)},
    BANDWIDTH: {"bandwidth_mb_per_s": (64 * KIB, MIB)},
    TIME_RANGE: {"t_max_us": _COMPARED},
    OVERLAP: {"t_ovrl_us": _COMPARED},
}
#: Windows and synchronisations, as printed and as asked for (``-w``, ``-s``).
WINDOWS = {"MPI_Win_create": "create", "MPI_Win_allocate": "allocate", "MPI_Win_create_dynamic": "dynamic"}
SYNCS = {
    "MPI_Win_lock/unlock": "lock",
    "MPI_Win_post/start/complete/wait": "pscw",
    "MPI_Win_fence": "fence",
    "MPI_Win_flush": "flush",
    "MPI_Win_flush_local": "flush_local",
    "MPI_Win_lock_all/unlock_all": "lock_all",
}

#: Groups whose outputs differ from the others'.
CONGESTION, STARTUP, THREADED = "congestion_osu", "startup_osu", "threads_osu"

#: ``-f`` prints the repetitions and the slowest rank, which is what a program waits for.
FULL = ("-f",)
#: Reductions of what every release can be asked for, or reduces without being asked (:data:`output.REDUCED`): ``-T`` since 7.1.
OF_FLOATS: dict[str, Any] = {"newer_options": ("-T", "mpi_float"), "options_since": (7, 1), "reduction": True}
WINDOW = ("-W", str(traffic.WINDOW))
#: The program's own memory, as IMB-RMA exposes it. OMB's default is memory the MPI allocates, which Open MPI keeps in shared
#: memory inside a node whatever transport is asked for. An access counts once it is complete at the target.
ONE_SIDED: dict[str, Any] = {"options": ("-w", "create", "-s", "flush"), "variants": ("create,flush",)}
#: Puts both ways know no passive target (osu_put_bibw.c).
BOTH_WAYS: dict[str, Any] = {"options": ("-w", "create", "-s", "fence"), "variants": ("create,fence",)}
#: One thread sends to two, as without ``-t``; with two senders each prints a head of its own (osu_latency_mt.c of 7.5).
THREADS = ("-t", "1:2")
#: With sessions (7.2) osu_latency_mt lost its MPI_Finalize (``omb_lat_mt_session_finalize``), so no rank says how it ended.
NO_END = (7, 2)
#: Two processes on either side, as without ``-t``.
PROCESSES = ("-t", "2:2")
#: Parts of a message (``-q``).
PARTITIONS = 8
#: Each rank on a ring has two neighbours, the default of every version (``-N``).
RING = ("-N", "cart:1:1")


def _row(
    name: str, title: str, group: str, ranks: str, quantities: tuple[str, ...], bound: traffic.Bound, **more: Any
) -> Benchmark:
    name = f"osu_{name}"
    more = {"title": f"OSU MPI{title} Test", "gated_sizes": _GATES.get(quantities, {}), **more}
    return Benchmark(name, NAME, name, f"{group}_osu", ranks, quantities, bound, **more)


def _pair(name: str, title: str, group: str, bound: traffic.Bound, **more: Any) -> Benchmark:
    """A latency or a bandwidth of one pair of ranks."""
    return _row(name, title, group, "only_pair", BANDWIDTH if more.get("directions") else LATENCY, bound, **more)


def _collective(name: str, title: str, bound: traffic.Bound, crossing: int | str = 0, **more: Any) -> Benchmark:
    more = {"crossing": crossing, "options": FULL, **more}
    return _row(name, f" {title} Latency", "collectives", "all", TIME_RANGE, bound, **more)


def _overlap(name: str, title: str, bound: traffic.Bound, crossing: int | str = 0, **more: Any) -> Benchmark:
    return _row(name, f" Non-{title} Latency", "nonblocking", "all", OVERLAP, bound, crossing=crossing, **more)


def _ring(name: str, title: str, **more: Any) -> Benchmark:
    """Each rank sends to both neighbours on a ring (osu_util_mpi.c, ``omb_neighborhood_create``); three ranks make one."""
    quantities = OVERLAP if name.startswith("i") else TIME_RANGE
    more = {"min_ranks": 3, "crossing": 0, "since": (7, 1), "options": RING if name.startswith("i") else (*FULL, *RING), **more}
    return _row(name, f" {title} Latency", "neighbourhood", "all", quantities, traffic.every_rank_twice, **more)


def _persistent(row: Benchmark) -> Benchmark:
    """Persistent form of a blocking collective: the same data, so the same bounds."""
    name, title = f"{row.name}_persistent", row.title.replace(" Latency Test", " Persistent Latency Test")
    return replace(row, name=name, binary=name, group="persistent_osu", title=title, since=(7, 3))


def _fan(way: str) -> Benchmark:
    """All other nodes send to one, or one sends to all others. The bandwidth printed is the sum over means of ranks that need
    not have run at the same time, so it says nothing sure about one link."""
    more: dict[str, Any] = {"min_nodes": 2, "options": WINDOW, "crossing": 1, "since": (7, 4)}
    return _row(f"bw_fan_{way}", " Bandwidth", "congestion", "all", BANDWIDTH, traffic.window_fan, **more)


_ONE_WAY: dict[str, Any] = {"directions": 1, "options": WINDOW}
_TWO_WAYS: dict[str, Any] = {"directions": 2, "options": WINDOW}
#: Versions before 5.7 have no number of senders.
_THREADS: dict[str, Any] = {"options": THREADS, "variants": ("sender_threads=1,receiver_threads=2",), "since": (5, 7)}
_PROCESSES: dict[str, Any] = {"options": PROCESSES, "variants": ("sender_processes=2,receiver_processes=2",), "since": (5, 7)}
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
_ONE_ELEMENT: dict[str, Any] = {"sizes": ELEMENT, "gated_sizes": {"latency_us": (1,)}, "since": (7, 1)}
_BARRIER_GATES: dict[str, Any] = {"sizes": SIZELESS, "gated_sizes": {"t_max_us": (None,)}}
_IBARRIER_GATES: dict[str, Any] = {"sizes": SIZELESS, "gated_sizes": {"t_ovrl_us": (None,)}}
_ONE_TO_ALL, _ALL_TO_ALL = traffic.one_per_other_rank, traffic.all_to_all

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
    # What of a vector is left over depends on the ranks, so the bound with nodes in their place would be too high.
    _collective("reduce_scatter_block", "Reduce_scatter_block", traffic.equal_blocks, NOTHING_SURE, **OF_FLOATS, since=(7, 4)),
)

#: Every benchmark, in the order their groups run them.
ROWS: tuple[Benchmark, ...] = (
    _pair("latency", " Latency", "p2p", traffic.both_ways, cascade=(SINGLE, SMALL)),
    _pair("bw", " Bandwidth", "p2p", traffic.window_one_way, **_ONE_WAY, cascade=(STREAM,)),
    _pair("bibw", " Bi-Directional Bandwidth", "p2p", traffic.window_both_ways, **_TWO_WAYS),
    # Partners are half of all ranks apart, so on different nodes; latency is the mean over pairs, bandwidth their sum.
    _row("multi_lat", " Multi Latency", "transfer", "even", LATENCY, traffic.pairs_both_ways),
    _row(
        "mbw_mr",
        " Multiple Bandwidth / Message Rate",
        "transfer",
        "even",
        ("bandwidth_mb_per_s", "message_rate_per_s"),
        traffic.window_one_way,
        **_ONE_WAY,
        **_SUMMED,
    ),
    _pair("put_latency", "_Put Latency", "one_sided", traffic.one_way, **ONE_SIDED),
    _pair("get_latency", "_Get latency", "one_sided", traffic.one_way, **ONE_SIDED),
    _pair("put_bw", "_Put Bandwidth", "one_sided", traffic.window_one_way, **ONE_SIDED, directions=1),
    _pair("get_bw", "_Get Bandwidth", "one_sided", traffic.window_one_way, **ONE_SIDED, directions=1),
    *_COLLECTIVES,
    _pair("latency_mt", " Multi-threaded Latency", "threads", traffic.both_ways, **_THREADS, until=NO_END),
    _pair("latency_mp", " Multi-process Latency", "threads", traffic.both_ways, **_PROCESSES),
    _pair("latency_persistent", " Latency Persistent", "p2p_persistent", traffic.both_ways, since=(7, 1)),
    _pair("bw_persistent", " Bandwidth Persistent", "p2p_persistent", traffic.window_one_way, **_ONE_WAY, since=(7, 1)),
    _pair(
        "bibw_persistent",
        " Bi-Directional Bandwidth Persistent",
        "p2p_persistent",
        traffic.window_both_ways,
        **_TWO_WAYS,
        since=(7, 1),
    ),
    _row("partitioned_latency", " Partitioned Latency", "partitioned", "only_pair", OVERLAP, traffic.both_ways, **_IN_PARTS),
    _pair("acc_latency", "_Accumulate latency", "atomics", traffic.one_way, **ONE_SIDED),
    _pair("get_acc_latency", "_Get_accumulate latency", "atomics", traffic.one_way, **ONE_SIDED),
    _pair("cas_latency", "_Compare_and_swap latency", "atomics", traffic.one_way, **ONE_SIDED, **_ONE_ELEMENT),
    _pair("fop_latency", "_Fetch_and_op latency", "atomics", traffic.one_way, **ONE_SIDED, **_ONE_ELEMENT),
    _pair("put_bibw", "_Put Bi-directional Bandwidth", "atomics", traffic.window_both_ways, **BOTH_WAYS, directions=2),
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
        **OF_FLOATS,
        since=(7, 4),
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
    # The time in MPI_Init, in whole milliseconds; and ranks that only say that they are there, for the time of the whole launch
    # (OMB's README puts ``time`` in front of the launcher of osu_hello).
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
        min_ranks=1,
        sizes=SIZELESS,
        gated_sizes={"time_s": (None,)},
        launch_time="time_s",
    ),
    _fan("in"),
    _fan("out"),
)

_Bands = tuple[Mapping[str, SizeRange], ...]
# Up to 8 KiB, where OSU's own defaults change; up to 128 KiB; above.
_PAIR: _Bands = (
    at_levels(SizeRange((3, 3), 200, 8), SizeRange((0, 13), 1000, 40), SizeRange((0, 13), 2000, 80)),
    {"nightly": SizeRange((14, 17), 500, 40), "acceptance": SizeRange((14, 17), 1000, 80)},
    at_levels(SizeRange((20, 20), 20, 20), SizeRange((18, 22), 50, 80), SizeRange((18, 22), 100, 160)),
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
    at_levels(SizeRange((10, 10), 50, 2), SizeRange((8, 13), 500, 16), SizeRange((8, 13), 1000, 40)),
    {"nightly": SizeRange((14, 20), 50, 16), "acceptance": SizeRange((14, 20), 100, 40)},
)
#: What has no series of sizes.
_ONCE = at_levels(*[SizeRange((0, 0), 1, 1)] * 3)
_ELEMENT = at_levels(SizeRange((0, 0), 200, 1), SizeRange((0, 0), 1000, 1), SizeRange((0, 0), 2000, 1))
_BARRIER = at_levels(SizeRange((0, 0), 50, 1), SizeRange((0, 0), 500, 1), SizeRange((0, 0), 1000, 1))
_SLOW_BARRIER = at_levels(SizeRange((0, 0), 20, 1), SizeRange((0, 0), 100, 1), SizeRange((0, 0), 200, 1))
#: Traffic of programs that send windows of messages.
WINDOWED = (traffic.window_one_way, traffic.window_both_ways, traffic.window_fan)


def _group(name: str, description: str, bands: _Bands, sizeless: Mapping[str, SizeRange] = _ONCE, **more: bool) -> Group:
    """Every row of a group, each in bands; buffers of those that collect from all ranks are bounded by memory."""
    plans: list[Plan] = []
    for row in (row for row in ROWS if row.group == name):
        own = (sizeless,) if row.sizes != SERIES else _WINDOW if row.traffic in WINDOWED else bands
        plans += in_bands(row.name, *own, fan=row.traffic in (_ALL_TO_ALL, _ONE_TO_ALL) and row.crossing in (1, 2))
    return Group(description, tuple(plans), **more)


#: Group to what it measures and its invocations: each benchmark is a binary, started once per band of sizes.
GROUPS: Mapping[str, Group] = {
    name: _group(name, *group, **dict.fromkeys(words.split(), True))  # type: ignore[arg-type]
    for name, words, *group in (
        ("p2p_osu", "", "Latency and bandwidth between one pair of ranks (OSU latency, bw, bibw)", _PAIR),
        ("transfer_osu", "", "All ranks transfer at the same time (OSU multi_lat, mbw_mr)", _PAIR),
        ("one_sided_osu", "one_sided", "One-sided communication between one pair of ranks (OSU put and get)", _PAIR),
        ("collectives_osu", "collective", "Blocking collectives (OSU)", _COLLECTIVE, _BARRIER),
        ("p2p_persistent_osu", "", "One pair of ranks with persistent requests (OSU latency, bw, bibw)", _PAIR),
        ("threads_osu", "", "One pair of ranks, two threads or two processes in each (OSU latency_mt, latency_mp)", _PAIR),
        ("partitioned_osu", "", "One pair of ranks, a message in parts (OSU partitioned_latency)", _PARTS),
        ("atomics_osu", "one_sided", "Accumulating and atomic one-sided operations, and puts both ways (OSU)", _PAIR, _ELEMENT),
        (
            "nonblocking_osu",
            "collective",
            "Nonblocking collectives and their overlap with computation (OSU)",
            _SLOW,
            _SLOW_BARRIER,
        ),
        ("neighbourhood_osu", "collective", "Neighbourhood collectives on a ring, blocking and nonblocking (OSU)", _SLOW),
        ("persistent_osu", "collective", "Persistent collectives (OSU)", _COLLECTIVE, _BARRIER),
        ("startup_osu", "", "Time to start and initialise all ranks, by the number of nodes (OSU init, hello)", ()),
        ("congestion_osu", "", "All other nodes send to one, one sends to all others (OSU bw_fan_in, bw_fan_out)", _WINDOW),
    )
}

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


#: What OMB 7.5 installs, by the folders of its sources.
_PROGRAMS: Mapping[str, str] = {
    "c/mpi/pt2pt/standard": (
        "osu_bibw osu_bw osu_latency osu_mbw_mr osu_multi_lat osu_partitioned_latency osu_latency_mt osu_latency_mp"
    ),
    "c/mpi/pt2pt/persistent": ("osu_bibw_persistent osu_bw_persistent osu_latency_persistent"),
    "c/mpi/pt2pt/congestion": ("osu_bw_fan_out osu_bw_fan_in"),
    "c/mpi/one-sided": (
        "osu_acc_latency osu_get_bw osu_get_latency osu_put_bibw osu_put_bw osu_put_latency osu_get_acc_latency "
        "osu_fop_latency osu_cas_latency"
    ),
    "c/mpi/collective/blocking": (
        "osu_alltoallv osu_alltoallw osu_allgatherv osu_scatterv osu_gatherv osu_reduce_scatter osu_barrier osu_reduce "
        "osu_allreduce osu_alltoall osu_bcast osu_gather osu_allgather osu_scatter osu_reduce_scatter_block"
    ),
    "c/mpi/collective/non_blocking": (
        "osu_iallgather osu_ibcast osu_ialltoall osu_ibarrier osu_igather osu_iscatter osu_iscatterv osu_igatherv "
        "osu_iallgatherv osu_ialltoallv osu_ialltoallw osu_ireduce osu_iallreduce osu_ireduce_scatter "
        "osu_ireduce_scatter_block"
    ),
    "c/mpi/collective/neighborhood": (
        "osu_neighbor_allgather osu_neighbor_allgatherv osu_neighbor_alltoall osu_neighbor_alltoallv osu_neighbor_alltoallw "
        "osu_ineighbor_allgather osu_ineighbor_allgatherv osu_ineighbor_alltoall osu_ineighbor_alltoallv "
        "osu_ineighbor_alltoallw"
    ),
    "c/mpi/collective/persistent": (
        "osu_allgather_persistent osu_allgatherv_persistent osu_allreduce_persistent osu_alltoall_persistent "
        "osu_alltoallv_persistent osu_alltoallw_persistent osu_barrier_persistent osu_bcast_persistent osu_gather_persistent "
        "osu_gatherv_persistent osu_reduce_persistent osu_reduce_scatter_persistent osu_scatter_persistent "
        "osu_scatterv_persistent"
    ),
    "c/mpi/startup": ("osu_init osu_hello"),
}

_LEFT_OUT: Mapping[str, str] = {
    "measures OpenSHMEM, no MPI": (
        "osu_oshm_get osu_oshm_put osu_oshm_put_mr osu_oshm_atomics osu_oshm_barrier osu_oshm_broadcast osu_oshm_collect "
        "osu_oshm_fcollect osu_oshm_reduce osu_oshm_get_nb osu_oshm_put_nb osu_oshm_put_overlap osu_oshm_get_mr_nb "
        "osu_oshm_put_mr_nb osu_oshm_get_bw osu_oshm_get_nb_bw osu_oshm_put_bw osu_oshm_put_nb_bw osu_oshm_get_overlap"
    ),
    "measures UPC, no MPI": (
        "osu_upc_memget osu_upc_memput osu_upc_all_barrier osu_upc_all_broadcast osu_upc_all_exchange osu_upc_all_gather_all "
        "osu_upc_all_gather osu_upc_all_reduce osu_upc_all_scatter"
    ),
    "measures UPC++, no MPI": (
        "osu_upcxx_allgather osu_upcxx_alltoall osu_upcxx_bcast osu_upcxx_gather osu_upcxx_reduce osu_upcxx_scatter "
        "osu_upcxx_async_copy_get osu_upcxx_async_copy_put"
    ),
    "measures NCCL or RCCL on memory of accelerators": (
        "osu_xccl_allgather osu_xccl_allreduce osu_xccl_bcast osu_xccl_reduce osu_xccl_reduce_scatter osu_xccl_alltoall "
        "osu_xccl_bibw osu_xccl_bw osu_xccl_latency"
    ),
    "repeats a program in C through mpi4py, which mpi4py.bench stands for": (
        "osu_allreduce.py osu_barrier.py osu_gatherv.py osu_scatter.py osu_allgather.py osu_alltoall.py osu_bcast.py "
        "osu_reduce.py osu_scatterv.py osu_allgatherv.py osu_alltoallv.py osu_gather.py osu_reduce_scatter.py osu_bibw.py "
        "osu_bw.py osu_latency.py osu_multi_lat.py"
    ),
    "needs the Java bindings of an MPI, which no stack here is built with": (
        "OSULatency OSUBandwidth OSUBandwidthOMPI OSUBiBandwidth OSUBiBandwidthOMPI OSUAllgather OSUAllgatherv OSUAllReduce "
        "OSUAlltoall OSUAlltoallv OSUBarrier OSUBcast OSUGather OSUGatherv OSUReduce OSUReduceScatter OSUScatter OSUScatterv"
    ),
}

OFFER = Offer(
    "7.5",
    "lists of programs in Makefile.am of the release, by folder; java/",
    {name: (name,) for names in _PROGRAMS.values() for name in names.split()},
    {reason: tuple(names.split()) for reason, names in _LEFT_OUT.items()},
)
