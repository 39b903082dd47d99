"""The rows of the Intel MPI Benchmarks: all benchmarks of its eight binaries for memory of the host, 2018 to 2021.11.

Names, rank rules and reductions are those of the suite's own tables (src_cpp/*/*_benchmark.cpp, src_c/P2P/*.c; for 2018
src/IMB_bnames_*.h), columns those of IMB_print_header in src_c/IMB_output.c and init_flags in MT_benchmark.cpp.
"""

from __future__ import annotations

from dataclasses import replace

from .. import traffic
from ..benchmark import ELEMENT, NOTHING_SURE, SINGLE, SIZELESS, SMALL, STREAM, Benchmark

#: Name of the suite.
NAME = "imb"

KIB, MIB = 1 << 10, 1 << 20

# Column layouts, in printed order.
TIME_AND_BANDWIDTH = ("latency_us", "bandwidth_mb_per_s")
TIME_RANGE = ("t_min_us", "t_max_us", "t_avg_us")
TIME_RANGE_AND_BANDWIDTH = (*TIME_RANGE, "bandwidth_mb_per_s")
BANDWIDTH_AND_RATE = ("bandwidth_mb_per_s", "message_rate_per_s")
TIME_BANDWIDTH_RATE = ("latency_us", *BANDWIDTH_AND_RATE)
OVERLAP = ("t_ovrl_us", "t_pure_us", "t_cpu_us", "overlap_percent")

# Gated sizes: what applications' small messages look like, the middle where protocols change, and the plateau.
# 32 B and 1 MiB are the sizes the Kiviat charts of the literature compare MPI libraries at.
PAIR_GATES = {"latency_us": (0, 8, 1 * KIB), "bandwidth_mb_per_s": (64 * KIB, MIB, 4 * MIB)}
RING_GATES = {"t_max_us": (0, 8), "bandwidth_mb_per_s": (64 * KIB, MIB, 4 * MIB)}
WINDOW_GATES = {"message_rate_per_s": (8,), "bandwidth_mb_per_s": (64 * KIB, MIB)}
COLLECTIVE_GATES = {"t_max_us": (32, 4 * KIB, 64 * KIB, MIB)}
OVERLAP_GATES = {"t_ovrl_us": (32, 4 * KIB, 64 * KIB, MIB)}
SYNC_GATES = {"t_max_us": (None,)}
SYNC_OVERLAP_GATES = {"t_ovrl_us": (None,)}

#: Modes of IMB-EXT and IMB-IO, in the order they run: completed together, and each before the next.
AGGREGATE_FIRST = ("aggregate", "non-aggregate")

WINDOW_OPTION = ("-window_size", str(traffic.WINDOW))
#: IMB 2021.1 made the window of Uniband and Biband an option (src_cpp/MPI1/MPI1_suite.cpp).
WINDOW_OPTION_SINCE = (2021, 1)


def _mpi1() -> tuple[Benchmark, ...]:
    def row(name, group, ranks, quantities, bound, **more):
        return Benchmark(name, NAME, "IMB-MPI1", group, ranks, quantities, bound, **more)

    def pair(name, group="p2p", **more):
        return row(
            name,
            group,
            "pair",
            TIME_AND_BANDWIDTH,
            traffic.both_ways,
            directions=1,
            line_rate_from_bytes=4 * MIB,
            gated_sizes=PAIR_GATES,
            **more,
        )

    def ring(name, bound):
        # One neighbour of the first and of the last rank of each node is on another node.
        return row(name, "transfer", "all", TIME_RANGE_AND_BANDWIDTH, bound, gated_sizes=RING_GATES, crossing=0)

    def window(name, bound, directions, cascade=()):
        return row(
            name,
            "transfer",
            "even",
            BANDWIDTH_AND_RATE,
            bound,
            gated_sizes=WINDOW_GATES,
            directions=directions,
            summed=True,
            newer_options=WINDOW_OPTION,
            options_since=WINDOW_OPTION_SINCE,
            cascade=cascade,
        )

    def collective(name, bound, crossing=0, *, gated_sizes=COLLECTIVE_GATES, **more):
        return row(name, "collectives", "all", TIME_RANGE, bound, gated_sizes=gated_sizes, crossing=crossing, **more)

    return (
        pair("PingPong", cascade=(SINGLE, SMALL)),
        pair("PingPing"),
        pair("PingPongSpecificSource", "p2p_sources"),
        pair("PingPongAnySource", "p2p_sources"),
        pair("PingPingSpecificSource", "p2p_sources"),
        pair("PingPingAnySource", "p2p_sources"),
        ring("Sendrecv", traffic.every_rank_once),
        ring("Exchange", traffic.every_rank_twice),
        window("Uniband", traffic.window_one_way, 1, (STREAM,)),
        window("Biband", traffic.window_both_ways, 2),
        collective("Bcast", traffic.one_per_other_rank),
        collective("Reduce", traffic.one_per_other_rank, reduction=True),
        collective("Allreduce", traffic.every_rank_receives, reduction=True),
        collective("Reduce_local", traffic.nothing, reduction=True, since=(2019, 2)),
        collective("Barrier", traffic.nothing, sizes=SIZELESS, gated_sizes=SYNC_GATES),
        collective("Allgather", traffic.all_to_all, 1),
        collective("Allgatherv", traffic.all_to_all, 1),
        collective("Gather", traffic.one_per_other_rank, 1),
        collective("Gatherv", traffic.one_per_other_rank, 1),
        collective("Scatter", traffic.one_per_other_rank, 1),
        collective("Scatterv", traffic.one_per_other_rank, 1),
        collective("Alltoall", traffic.all_to_all, 2),
        collective("Alltoallv", traffic.all_to_all, 2),
        collective("Reduce_scatter", traffic.one_per_other_rank, reduction=True),
        collective("Reduce_scatter_block", traffic.one_per_other_rank, reduction=True, since=(2019, 1)),
    )


def _p2p() -> tuple[Benchmark, ...]:
    # Bandwidth and rate count all messages of all ranks over the slowest rank's time (imb_p2p_*.c).
    # Partners of PingPong and PingPing are half of all ranks apart, so on different nodes.
    def row(name, ranks, bound, since, **more):
        return Benchmark(
            name,
            NAME,
            "IMB-P2P",
            "p2p_pairs",
            ranks,
            TIME_BANDWIDTH_RATE,
            bound,
            since=since,
            gated_sizes=PAIR_GATES,
            **more,
        )

    return (
        row("PingPong", "even_only", traffic.every_rank_once, (2019, 2), directions=1),
        row("PingPing", "even_only", traffic.every_rank_once, (2019, 2), directions=2),
        row("Unirandom", "all", traffic.every_rank_once, (2019, 2), crossing=NOTHING_SURE),
        row("Birandom", "all", traffic.every_rank_twice, (2019, 2), crossing=NOTHING_SURE),
        row("Corandom", "all", traffic.every_rank_once, (2019, 2), crossing=NOTHING_SURE),
        row("SendRecv_Replace", "all", traffic.every_rank_once, (2021, 1), crossing=0),
        row("Stencil2D", "grid2d", traffic.every_rank_four_times, (2019, 6), min_ranks=4, crossing=NOTHING_SURE),
        row("Stencil3D", "grid3d", traffic.every_rank_six_times, (2019, 6), min_ranks=8, crossing=NOTHING_SURE),
    )


def _nbc() -> tuple[Benchmark, ...]:
    def both(name, bound, crossing=0, overlap=OVERLAP_GATES, pure=COLLECTIVE_GATES, **more):
        """The benchmark with its overlap, and the pure form that times the call alone."""

        def form(end, group, quantities, gates):
            common = (f"{name}{end}", NAME, "IMB-NBC", group, "all", quantities, bound)
            return Benchmark(*common, gated_sizes=gates, crossing=crossing, **more)

        return (form("", "nonblocking", OVERLAP, overlap), form("_pure", "nonblocking_pure", TIME_RANGE, pure))

    return (
        *both("Ibcast", traffic.one_per_other_rank),
        *both("Iallgather", traffic.all_to_all, 1),
        *both("Iallgatherv", traffic.all_to_all, 1),
        *both("Igather", traffic.one_per_other_rank, 1),
        *both("Igatherv", traffic.one_per_other_rank, 1),
        *both("Iscatter", traffic.one_per_other_rank, 1),
        *both("Iscatterv", traffic.one_per_other_rank, 1),
        *both("Ialltoall", traffic.all_to_all, 2),
        *both("Ialltoallv", traffic.all_to_all, 2),
        *both("Ireduce", traffic.one_per_other_rank, reduction=True),
        # In 2018 its clock begins with the time of day, which is what it prints, and computes that long (IMB_reduce_scatter.c).
        *both("Ireduce_scatter", traffic.one_per_other_rank, reduction=True, since=(2019, 0)),
        *both("Iallreduce", traffic.every_rank_receives, reduction=True),
        *both("Ibarrier", traffic.nothing, 0, SYNC_OVERLAP_GATES, SYNC_GATES, sizes=SIZELESS),
    )


def _rma() -> tuple[Benchmark, ...]:
    def row(name, ranks, quantities, bound, group="one_sided", **more):
        return Benchmark(name, NAME, "IMB-RMA", group, ranks, quantities, bound, **more)

    def pair(name, bound, **more):
        # Non-aggregate: each access is completed before the next; aggregate: all are completed together.
        return row(name, "pair", TIME_AND_BANDWIDTH, bound, variants=("non-aggregate", "aggregate"), **more)

    def one(name, group="one_sided"):
        return row(name, "all", TIME_AND_BANDWIDTH, traffic.one_per_other_rank, group, gated_sizes=PAIR_GATES, crossing=1)

    def every(name, bound, crossing):
        return row(name, "all", TIME_RANGE, bound, gated_sizes=COLLECTIVE_GATES, crossing=crossing)

    return (
        pair("Unidir_put", traffic.one_way, gated_sizes=PAIR_GATES),
        pair("Unidir_get", traffic.one_way, gated_sizes=PAIR_GATES),
        pair("Bidir_put", traffic.both_ways, gated_sizes=PAIR_GATES),
        pair("Bidir_get", traffic.both_ways, gated_sizes=PAIR_GATES),
        pair("Put_local", traffic.one_way, group="one_sided_local", gated_sizes=PAIR_GATES),
        pair("Get_local", traffic.one_way, group="one_sided_local", gated_sizes=PAIR_GATES),
        one("Put_all_local", "one_sided_local"),
        one("Get_all_local", "one_sided_local"),
        one("One_put_all"),
        one("One_get_all"),
        every("All_put_all", traffic.all_to_all, 2),
        every("All_get_all", traffic.all_to_all, 2),
        every("Exchange_put", traffic.every_rank_twice, 0),
        every("Exchange_get", traffic.every_rank_twice, 0),
        pair("Accumulate", traffic.one_way, reduction=True),
        pair("Get_accumulate", traffic.one_way, reduction=True),
        pair("Fetch_and_op", traffic.one_way, sizes=ELEMENT, reduction=True),
        pair("Compare_and_swap", traffic.one_way, sizes=ELEMENT),
        row("Truly_passive_put", "pair", ("t_pure_us", "t_ovrl_us"), traffic.one_way),
    )


def _mt() -> tuple[Benchmark, ...]:
    # The printed size is that of one thread's message times the threads, so the bounds hold as they are. All partners are
    # half of all ranks apart (set_stride), so on different nodes.
    def row(name, ranks, quantities, bound, **more):
        return Benchmark(name, NAME, "IMB-MT", "threads", ranks, quantities, bound, since=(2019, 0), **more)

    def collective(name, bound, **more):
        return row(name, "all", TIME_RANGE, bound, **{"gated_sizes": {"t_max_us": (64 * KIB,)}, "crossing": 0, **more})

    return (
        row("PingPongMT", "even", TIME_RANGE_AND_BANDWIDTH, traffic.pairs_both_ways),
        row("PingPingMT", "even", TIME_RANGE_AND_BANDWIDTH, traffic.pairs_both_ways),
        row("SendRecvMT", "all", TIME_RANGE_AND_BANDWIDTH, traffic.every_rank_once),
        row("ExchangeMT", "all", TIME_RANGE_AND_BANDWIDTH, traffic.every_rank_twice),
        row("UniBandMT", "even", ("t_avg_us", *BANDWIDTH_AND_RATE), traffic.window_one_way),
        row("BiBandMT", "even", ("t_avg_us", *BANDWIDTH_AND_RATE), traffic.window_both_ways),
        collective("BarrierMT", traffic.nothing, sizes=SIZELESS, gated_sizes=SYNC_GATES),
        collective("BcastMT", traffic.one_per_other_rank),
        collective("ReduceMT", traffic.one_per_other_rank),
        collective("AllReduceMT", traffic.every_rank_receives),
    )


def _ext() -> tuple[Benchmark, ...]:
    """One-sided communication between fences (IMB_ones_unidir.c, IMB_ones_bidir.c, IMB_ones_accu.c, IMB_window.c)."""

    def row(name, ranks, quantities, bound, gates, modes=AGGREGATE_FIRST, **more):
        common = (NAME, "IMB-EXT", "active_target", ranks, quantities, bound)
        return Benchmark(name, *common, gated_sizes=gates, variants=modes, **more)

    def pair(name, bound):
        return row(name, "pair", TIME_AND_BANDWIDTH, bound, PAIR_GATES)

    return (
        pair("Unidir_Put", traffic.one_way),
        pair("Unidir_Get", traffic.one_way),
        pair("Bidir_Put", traffic.both_ways),
        pair("Bidir_Get", traffic.both_ways),
        row("Window", "all", TIME_RANGE, traffic.nothing, {"t_max_us": (4 * KIB,)}, modes=("",)),
        # Each rank adds to rank 0, which adds its own.
        row("Accumulate", "all", TIME_RANGE, traffic.one_per_other_rank, COLLECTIVE_GATES, reduction=True, crossing=0),
    )


def _mpi4() -> tuple[Benchmark, ...]:
    """The persistent form of each nonblocking collective: the same columns, data and bounds (MPI4_benchmark.cpp)."""

    def persistent(name: str) -> str:
        operation, pure, _ = name.removeprefix("I").partition("_pure")
        return f"{operation.capitalize()}_persist{pure}"

    return tuple(replace(row, name=persistent(row.name), binary="IMB-MPI4", group="persistent") for row in _nbc())


def _io() -> tuple[Benchmark, ...]:
    """Files, by the means of MPI: one rank alone (S), all at once (P), all together (C) (IO_benchmark.cpp).

    The processes write to a file system and send nothing that is sure to go over the fabric. Nonblocking ones and reads know
    one mode only.
    """

    def row(name, ranks, quantities, gates, modes, **more) -> Benchmark:
        common = (NAME, "IMB-IO", "file_io", ranks, quantities, traffic.nothing)
        return Benchmark(name, *common, min_ranks=1, gated_sizes=gates, variants=modes, **more)

    def access(kind: str, nonblocking: bool, what: str, pointer: str) -> Benchmark:
        alone = kind == "S"
        blocking = TIME_AND_BANDWIDTH if alone else TIME_RANGE_AND_BANDWIDTH
        modes = ("aggregate",) if nonblocking or what == "Read" else AGGREGATE_FIRST
        return row(
            f"{kind}_{'I' * nonblocking}{what}_{pointer}",
            "one" if alone else "all",
            OVERLAP if nonblocking else blocking,
            {"t_ovrl_us": (64 * KIB,)} if nonblocking else {"bandwidth_mb_per_s": (64 * KIB,)},
            modes,
        )

    pointers = {"S": ("Indv", "Expl"), "P": ("Indv", "Shared", "Priv", "Expl"), "C": ("Indv", "Shared", "Expl")}
    accesses = [
        access(kind, nonblocking, what, pointer)
        for kind in pointers
        for what in ("Write", "Read")
        for pointer in pointers[kind]
        for nonblocking in (False, True)
    ]
    return (*accesses, row("Open_Close", "all", TIME_RANGE, SYNC_GATES, ("",), sizes=SIZELESS))


#: Every benchmark of the eight binaries, in the order their groups run them.
ROWS: tuple[Benchmark, ...] = (*_mpi1(), *_p2p(), *_nbc(), *_rma(), *_mt(), *_ext(), *_mpi4(), *_io())
