"""The rows of the OSU Micro-Benchmarks (OMB) 5.6 to 7.5: point to point, one-sided, all blocking collectives of MPI in C.

Each benchmark is a binary of its own, whose name is the row's name. Titles are the ``BENCHMARK`` macros of mpi/*/osu_*.c (c/mpi
from 7.0 on), versions of the first release those of CHANGES. Without ``-i`` a binary makes fewer repetitions above 8 KiB
(``LARGE_MESSAGE_SIZE`` in util/osu_util.h); with it, the same at every size.
"""

from __future__ import annotations

from .. import traffic
from ..benchmark import NOTHING_SURE, SIZELESS, Benchmark

#: Name of the suite.
NAME = "osu"

KIB, MIB = 1 << 10, 1 << 20

LATENCY_GATES = {"latency_us": (8, 1 * KIB)}
BANDWIDTH_GATES = {"bandwidth_mb_per_s": (64 * KIB, MIB)}
#: Compared at the sizes the rows of IMB are.
COLLECTIVE_GATES = {"t_max_us": (32, 4 * KIB, 64 * KIB, MIB)}

LATENCY = ("latency_us",)
BANDWIDTH = ("bandwidth_mb_per_s",)
#: Columns of a collective with ``-f``: over ranks, of each rank's mean (``print_stats`` in util/osu_util_mpi.c).
TIME_RANGE = ("t_avg_us", "t_min_us", "t_max_us")

#: ``-f`` prints the repetitions and the slowest rank, which is what a program waits for.
FULL = ("-f",)
WINDOW = ("-W", str(traffic.WINDOW))
#: The program's own memory, as IMB-RMA exposes it. OMB's default is memory the MPI allocates, which Open MPI keeps in shared
#: memory inside a node whatever transport is asked for. An access counts once it is complete at the target.
ONE_SIDED = ("-w", "create", "-s", "flush")
ONE_SIDED_VARIANT = ("create,flush",)


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
        pair("osu_latency", "OSU MPI Latency Test", LATENCY, traffic.both_ways),
        pair("osu_bw", "OSU MPI Bandwidth Test", BANDWIDTH, traffic.window_one_way, directions=1, options=WINDOW),
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
            options=WINDOW,
            variants=(f"window={traffic.WINDOW}",),
        ),
        one_sided("osu_put_latency", "OSU MPI_Put Latency Test", LATENCY, traffic.one_way),
        one_sided("osu_get_latency", "OSU MPI_Get latency Test", LATENCY, traffic.one_way),
        one_sided("osu_put_bw", "OSU MPI_Put Bandwidth Test", BANDWIDTH, traffic.window_one_way, directions=1),
        one_sided("osu_get_bw", "OSU MPI_Get Bandwidth Test", BANDWIDTH, traffic.window_one_way, directions=1),
        collective("osu_bcast", "Broadcast", traffic.one_per_other_rank),
        collective("osu_reduce", "Reduce", traffic.one_per_other_rank, reduction=True),
        collective("osu_allreduce", "Allreduce", traffic.every_rank_receives, reduction=True),
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
        collective("osu_reduce_scatter", "Reduce_scatter", traffic.one_per_other_rank, reduction=True),
        # What of a vector is left over depends on the ranks, so the bound with nodes in their place would be too high.
        collective(
            "osu_reduce_scatter_block",
            "Reduce_scatter_block",
            traffic.equal_blocks,
            NOTHING_SURE,
            reduction=True,
            since=(7, 4),
        ),
    )


#: Every benchmark, in the order their groups run them.
ROWS: tuple[Benchmark, ...] = _rows()
