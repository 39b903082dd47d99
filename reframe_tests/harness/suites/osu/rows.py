"""The rows of the OSU Micro-Benchmarks (OMB) 5.6 to 7.5: every program in C for MPI and memory of the host.

Each benchmark is a binary of its own, whose name is the row's name. Titles are the ``BENCHMARK`` macros of mpi/*/osu_*.c (c/mpi
from 7.0 on), versions of the first release those of CHANGES. Without ``-i`` a binary makes fewer repetitions above 8 KiB
(``LARGE_MESSAGE_SIZE`` in util/osu_util.h); with it, the same at every size.

Two titles are those of several programs, so a row says with which it shares one by the title alone: all-to-allw is also the
title of its neighbourhood form, bandwidth that of fan-in and fan-out. What was started tells them apart
(:func:`reader.complete`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .. import traffic
from ..benchmark import BY_NODES, ELEMENT, NOTHING_SURE, SINGLE, SIZELESS, SMALL, STREAM, Benchmark

#: Name of the suite.
NAME = "osu"

KIB, MIB = 1 << 10, 1 << 20

LATENCY_GATES = {"latency_us": (8, 1 * KIB)}
BANDWIDTH_GATES = {"bandwidth_mb_per_s": (64 * KIB, MIB)}
#: Compared at the sizes the rows of IMB are.
COLLECTIVE_GATES = {"t_max_us": (32, 4 * KIB, 64 * KIB, MIB)}
OVERLAP_GATES = {"t_ovrl_us": (32, 4 * KIB, 64 * KIB, MIB)}

LATENCY = ("latency_us",)
BANDWIDTH = ("bandwidth_mb_per_s",)
#: Columns of a collective with ``-f``: over ranks, of each rank's mean (``print_stats`` in util/osu_util_mpi.c).
TIME_RANGE = ("t_avg_us", "t_min_us", "t_max_us")

#: Columns of a non-blocking collective that every version prints: means over ranks (``print_stats_nbc``).
OVERLAP = ("t_ovrl_us", "t_cpu_us", "t_pure_us", "overlap_percent")

#: Groups whose outputs differ from the others' (:mod:`columns`, :mod:`output`).
CONGESTION, STARTUP, THREADED = "congestion_osu", "startup_osu", "threads_osu"

#: ``-f`` prints the repetitions and the slowest rank, which is what a program waits for.
FULL = ("-f",)
#: Reductions of what every release can be asked for, or reduces without being asked (:data:`facts.REDUCED`): ``-T`` since 7.1.
OF_FLOATS: dict[str, Any] = {"newer_options": ("-T", "mpi_float"), "options_since": (7, 1), "reduction": True}
WINDOW = ("-W", str(traffic.WINDOW))
#: The program's own memory, as IMB-RMA exposes it. OMB's default is memory the MPI allocates, which Open MPI keeps in shared
#: memory inside a node whatever transport is asked for. An access counts once it is complete at the target.
ONE_SIDED = ("-w", "create", "-s", "flush")
ONE_SIDED_VARIANT = ("create,flush",)
#: Puts both ways know no passive target (osu_put_bibw.c).
BOTH_WAYS = ("-w", "create", "-s", "fence")
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


def _rows() -> tuple[Benchmark, ...]:
    def row(name, title, group, ranks, quantities, bound, **more):
        return Benchmark(name, NAME, name, group, ranks, quantities, bound, title=title, **more)

    def pair(name, title, quantities, bound, **more):
        gated_sizes = BANDWIDTH_GATES if quantities is BANDWIDTH else LATENCY_GATES
        return row(name, title, "p2p_osu", "only_pair", quantities, bound, gated_sizes=gated_sizes, **more)

    def one_sided(name, title, quantities, bound, **more):
        gated_sizes = BANDWIDTH_GATES if quantities is BANDWIDTH else LATENCY_GATES
        return row(
            name,
            title,
            "one_sided_osu",
            "only_pair",
            quantities,
            bound,
            gated_sizes=gated_sizes,
            options=ONE_SIDED,
            variants=ONE_SIDED_VARIANT,
            **more,
        )

    def collective(name, title, bound, crossing=0, **more):
        more = {"gated_sizes": COLLECTIVE_GATES, "crossing": crossing, "options": FULL, **more}
        return row(name, f"OSU MPI {title} Latency Test", "collectives_osu", "all", TIME_RANGE, bound, **more)

    return (
        pair("osu_latency", "OSU MPI Latency Test", LATENCY, traffic.both_ways, cascade=(SINGLE, SMALL)),
        pair(
            "osu_bw",
            "OSU MPI Bandwidth Test",
            BANDWIDTH,
            traffic.window_one_way,
            directions=1,
            options=WINDOW,
            cascade=(STREAM,),
        ),
        pair(
            "osu_bibw",
            "OSU MPI Bi-Directional Bandwidth Test",
            BANDWIDTH,
            traffic.window_both_ways,
            directions=2,
            options=WINDOW,
        ),
        # Partners are half of all ranks apart, so on different nodes; latency is the mean over pairs, bandwidth their sum.
        row(
            "osu_multi_lat",
            "OSU MPI Multi Latency Test",
            "transfer_osu",
            "even",
            LATENCY,
            traffic.pairs_both_ways,
            gated_sizes=LATENCY_GATES,
        ),
        row(
            "osu_mbw_mr",
            "OSU MPI Multiple Bandwidth / Message Rate Test",
            "transfer_osu",
            "even",
            ("bandwidth_mb_per_s", "message_rate_per_s"),
            traffic.window_one_way,
            gated_sizes={"message_rate_per_s": (8,), **BANDWIDTH_GATES},
            directions=1,
            summed=True,
            options=WINDOW,
            variants=(f"window={traffic.WINDOW}",),
        ),
        one_sided("osu_put_latency", "OSU MPI_Put Latency Test", LATENCY, traffic.one_way),
        one_sided("osu_get_latency", "OSU MPI_Get latency Test", LATENCY, traffic.one_way),
        one_sided("osu_put_bw", "OSU MPI_Put Bandwidth Test", BANDWIDTH, traffic.window_one_way, directions=1),
        one_sided("osu_get_bw", "OSU MPI_Get Bandwidth Test", BANDWIDTH, traffic.window_one_way, directions=1),
        collective("osu_bcast", "Broadcast", traffic.one_per_other_rank),
        collective("osu_reduce", "Reduce", traffic.one_per_other_rank, **OF_FLOATS),
        collective("osu_allreduce", "Allreduce", traffic.every_rank_receives, **OF_FLOATS),
        collective("osu_barrier", "Barrier", traffic.nothing, sizes=SIZELESS, gated_sizes={"t_max_us": (None,)}),
        collective("osu_allgather", "Allgather", traffic.all_to_all, 1),
        collective("osu_allgatherv", "Allgatherv", traffic.all_to_all, 1),
        collective("osu_gather", "Gather", traffic.one_per_other_rank, 1),
        collective("osu_gatherv", "Gatherv", traffic.one_per_other_rank, 1),
        collective("osu_scatter", "Scatter", traffic.one_per_other_rank, 1),
        collective("osu_scatterv", "Scatterv", traffic.one_per_other_rank, 1),
        collective("osu_alltoall", "All-to-All Personalized Exchange", traffic.all_to_all, 2),
        collective("osu_alltoallv", "All-to-Allv Personalized Exchange", traffic.all_to_all, 2),
        collective("osu_alltoallw", "All-to-Allw Personalized Exchange", traffic.all_to_all, 2, since=(6, 2)),
        collective("osu_reduce_scatter", "Reduce_scatter", traffic.one_per_other_rank, **OF_FLOATS),
        # What of a vector is left over depends on the ranks, so the bound with nodes in their place would be too high.
        collective(
            "osu_reduce_scatter_block",
            "Reduce_scatter_block",
            traffic.equal_blocks,
            NOTHING_SURE,
            **OF_FLOATS,
            since=(7, 4),
        ),
    )


def _other_pairs() -> tuple[Benchmark, ...]:
    """Pairs with threads, with processes, with requests used again and again, and with a message in parts."""

    def pair(name, title, group, quantities, bound, since, **more):
        gated_sizes = BANDWIDTH_GATES if quantities is BANDWIDTH else LATENCY_GATES
        return Benchmark(
            name,
            NAME,
            name,
            group,
            "only_pair",
            quantities,
            bound,
            title=f"OSU MPI {title} Test",
            gated_sizes=gated_sizes,
            since=since,
            **more,
        )

    def several(name, title, options, variant, until=()):
        # Versions before 5.7 have no number of senders.
        more = {"options": options, "variants": (variant,), "until": until}
        return pair(name, title, THREADED, LATENCY, traffic.both_ways, (5, 7), **more)

    def persistent(name, title, quantities, bound, **more):
        return pair(name, title, "p2p_persistent_osu", quantities, bound, (7, 1), **more)

    return (
        several("osu_latency_mt", "Multi-threaded Latency", THREADS, "sender_threads=1,receiver_threads=2", NO_END),
        several("osu_latency_mp", "Multi-process Latency", PROCESSES, "sender_processes=2,receiver_processes=2"),
        persistent("osu_latency_persistent", "Latency Persistent", LATENCY, traffic.both_ways),
        persistent(
            "osu_bw_persistent", "Bandwidth Persistent", BANDWIDTH, traffic.window_one_way, directions=1, options=WINDOW
        ),
        persistent(
            "osu_bibw_persistent",
            "Bi-Directional Bandwidth Persistent",
            BANDWIDTH,
            traffic.window_both_ways,
            directions=2,
            options=WINDOW,
        ),
        Benchmark(
            "osu_partitioned_latency",
            NAME,
            "osu_partitioned_latency",
            "partitioned_osu",
            "only_pair",
            OVERLAP,
            traffic.both_ways,
            title="OSU MPI Partitioned Latency Test",
            gated_sizes={"t_ovrl_us": (1 * KIB, 64 * KIB)},
            options=("-q", str(PARTITIONS)),
            variants=(f"partitions={PARTITIONS}",),
            since=(7, 5),
        ),
    )


def _atomics() -> tuple[Benchmark, ...]:
    """One-sided operations beyond put and get; the element of compare-and-swap and fetch-and-op is one byte since 7.1."""

    def row(name, title, quantities, bound, **more):
        more = {"gated_sizes": LATENCY_GATES, "options": ONE_SIDED, "variants": ONE_SIDED_VARIANT, **more}
        return Benchmark(name, NAME, name, "atomics_osu", "only_pair", quantities, bound, title=title, **more)

    def element(name, title):
        return row(
            name,
            f"OSU MPI_{title} latency Test",
            LATENCY,
            traffic.one_way,
            sizes=ELEMENT,
            gated_sizes={"latency_us": (1,)},
            since=(7, 1),
        )

    return (
        row("osu_acc_latency", "OSU MPI_Accumulate latency Test", LATENCY, traffic.one_way),
        row("osu_get_acc_latency", "OSU MPI_Get_accumulate latency Test", LATENCY, traffic.one_way),
        element("osu_cas_latency", "Compare_and_swap"),
        element("osu_fop_latency", "Fetch_and_op"),
        row(
            "osu_put_bibw",
            "OSU MPI_Put Bi-directional Bandwidth Test",
            BANDWIDTH,
            traffic.window_both_ways,
            gated_sizes=BANDWIDTH_GATES,
            directions=2,
            options=BOTH_WAYS,
            variants=("create,fence",),
        ),
    )


def _nonblocking() -> tuple[Benchmark, ...]:
    def row(name, title, bound, crossing=0, **more):
        more = {"gated_sizes": OVERLAP_GATES, "crossing": crossing, **more}
        title = f"OSU MPI {title} Latency Test"
        return Benchmark(name, NAME, name, "nonblocking_osu", "all", OVERLAP, bound, title=title, **more)

    return (
        row("osu_ibcast", "Non-Blocking Broadcast", traffic.one_per_other_rank),
        row("osu_ireduce", "Non-blocking Reduce", traffic.one_per_other_rank, **OF_FLOATS),
        row("osu_iallreduce", "Non-blocking Allreduce", traffic.every_rank_receives, **OF_FLOATS),
        row("osu_ibarrier", "Non-blocking Barrier", traffic.nothing, sizes=SIZELESS, gated_sizes={"t_ovrl_us": (None,)}),
        row("osu_iallgather", "Non-blocking Allgather", traffic.all_to_all, 1),
        row("osu_iallgatherv", "Non-blocking Allgatherv", traffic.all_to_all, 1),
        row("osu_igather", "Non-blocking Gather", traffic.one_per_other_rank, 1),
        row("osu_igatherv", "Non-blocking Gatherv", traffic.one_per_other_rank, 1),
        row("osu_iscatter", "Non-blocking Scatter", traffic.one_per_other_rank, 1),
        row("osu_iscatterv", "Non-blocking Scatterv", traffic.one_per_other_rank, 1),
        row("osu_ialltoall", "Non-blocking All-to-All", traffic.all_to_all, 2),
        row("osu_ialltoallv", "Non-blocking All-to-Allv Personalized Exchange", traffic.all_to_all, 2),
        row("osu_ialltoallw", "Non-blocking All-to-Allw Personalized Exchange", traffic.all_to_all, 2),
        row("osu_ireduce_scatter", "Non-blocking Reduce_scatter", traffic.one_per_other_rank, **OF_FLOATS, since=(7, 0)),
        row(
            "osu_ireduce_scatter_block",
            "Non-blocking Reduce_scatter_block",
            traffic.equal_blocks,
            NOTHING_SURE,
            **OF_FLOATS,
            since=(7, 4),
        ),
    )


def _neighbourhood() -> tuple[Benchmark, ...]:
    """Each rank sends to both neighbours on a ring (osu_util_mpi.c, ``omb_neighborhood_create``); three ranks make one."""

    def row(name, title, quantities, gated_sizes, options):
        return Benchmark(
            name,
            NAME,
            name,
            "neighbourhood_osu",
            "all",
            quantities,
            traffic.every_rank_twice,
            title=f"OSU MPI {title} Latency Test",
            min_ranks=3,
            gated_sizes=gated_sizes,
            options=options,
            crossing=0,
            since=(7, 1),
        )

    def blocking(name, title):
        return row(f"osu_neighbor_{name}", title, TIME_RANGE, COLLECTIVE_GATES, (*FULL, *RING))

    def nonblocking(name, title):
        return row(f"osu_ineighbor_{name}", f"Non-blocking Neighborhood {title}", OVERLAP, OVERLAP_GATES, RING)

    return (
        blocking("allgather", "Neighborhood Allgather"),
        blocking("allgatherv", "Neighborhood Allgatherv"),
        blocking("alltoall", "Neighborhood Alltoall"),
        blocking("alltoallv", "Neighborhood All-to-Allv"),
        blocking("alltoallw", "All-to-Allw Personalized Exchange"),
        nonblocking("allgather", "Allgather"),
        nonblocking("allgatherv", "Allgatherv"),
        nonblocking("alltoall", "Alltoall"),
        nonblocking("alltoallv", "Alltoallv"),
        nonblocking("alltoallw", "Alltoallw"),
    )


def _persistent(blocking: tuple[Benchmark, ...]) -> tuple[Benchmark, ...]:
    """Persistent form of each blocking collective that has one: the same data, so the same bounds."""
    return tuple(
        replace(
            row,
            name=f"{row.name}_persistent",
            binary=f"{row.binary}_persistent",
            group="persistent_osu",
            title=row.title.replace(" Latency Test", " Persistent Latency Test"),
            since=(7, 3),
        )
        for row in blocking
        if row.group == "collectives_osu" and row.name != "osu_reduce_scatter_block"
    )


def _startup() -> tuple[Benchmark, ...]:
    """Starting ranks, by the number of nodes: the time in MPI_Init, in whole milliseconds; and ranks that only say that they
    are there, for the time of the whole launch (OMB's README puts ``time`` in front of the launcher of osu_hello)."""
    return (
        Benchmark(
            "osu_init",
            NAME,
            "osu_init",
            STARTUP,
            BY_NODES,
            ("t_min_us", "t_max_us", "t_avg_us"),
            traffic.nothing,
            min_ranks=1,
            sizes=SIZELESS,
            gated_sizes={"t_max_us": (None,)},
            title="OSU MPI Init Test",
        ),
        Benchmark(
            "osu_hello",
            NAME,
            "osu_hello",
            STARTUP,
            BY_NODES,
            ("time_s",),
            traffic.nothing,
            min_ranks=1,
            sizes=SIZELESS,
            gated_sizes={"time_s": (None,)},
            title="OSU MPI Hello World Test",
            launch_time="time_s",
        ),
    )


def _congestion() -> tuple[Benchmark, ...]:
    """All other nodes send to one, or one sends to all others. The bandwidth printed is the sum over means of ranks that need
    not have run at the same time, so it says nothing sure about one link."""
    return tuple(
        Benchmark(
            f"osu_bw_fan_{way}",
            NAME,
            f"osu_bw_fan_{way}",
            CONGESTION,
            "all",
            BANDWIDTH,
            traffic.window_fan,
            title="OSU MPI Bandwidth Test",
            min_nodes=2,
            gated_sizes=BANDWIDTH_GATES,
            options=WINDOW,
            crossing=1,
            since=(7, 4),
        )
        for way in ("in", "out")
    )


#: Every benchmark, in the order their groups run them.
ROWS: tuple[Benchmark, ...] = (
    *_rows(),
    *_other_pairs(),
    *_atomics(),
    *_nonblocking(),
    *_neighbourhood(),
    *_persistent(_rows()),
    *_startup(),
    *_congestion(),
)
