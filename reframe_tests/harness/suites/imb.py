"""Intel MPI Benchmarks, all eight binaries for host memory, 2018
to 2021.11: rows, plans, command line, reader.

Names, rank rules and reductions of the rows are those of the suite's own tables
(src_cpp/*/*_benchmark.cpp, src_c/P2P/*.c; for 2018 src/IMB_bnames_*.h), columns those of
IMB_print_header in src_c/IMB_output.c and init_flags in MT_benchmark.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ..machine.gpu import DEVICE, MANAGED
from ..printable import clause
from ..vocabulary import BadInput, NotMeasured
from . import traffic
from .benchmark import (
    ELEMENT,
    EVERY_MESSAGE,
    NOTHING_SURE,
    ROW_LIKE,
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
    by_name,
    doubling_sizes,
    find,
)
from .model import BenchmarkPackage, Group, KeyFigure, Probe, Programs, Run, Suite
from .options import SuiteOption

#: Name of the suite.
NAME = "imb"

KIB = 1 << 10
MIB = 1 << 20
Gates = Mapping[str, tuple[int | None, ...]]

# Column layouts, in printed order.
TIME_AND_BANDWIDTH = ("latency_us", "bandwidth_mb_per_s")
TIME_RANGE = ("t_min_us", "t_max_us", "t_avg_us")
TIME_RANGE_AND_BANDWIDTH = (*TIME_RANGE, "bandwidth_mb_per_s")
BANDWIDTH_AND_RATE = ("bandwidth_mb_per_s", "message_rate_per_s")
TIME_BANDWIDTH_RATE = ("latency_us", *BANDWIDTH_AND_RATE)
OVERLAP = ("t_ovrl_us", "t_pure_us", "t_cpu_us", "overlap_percent")

# Gated sizes: what applications' small messages look like, the middle where protocols change, and
# the plateau. 32 B and 1 MiB are the sizes the Kiviat charts of the literature compare MPI
# libraries at.
PAIR_GATES: Gates = {"latency_us": (0, 8, 1 * KIB), "bandwidth_mb_per_s": (64 * KIB, MIB, 4 * MIB)}
RING_GATES: Gates = {"t_max_us": (0, 8), "bandwidth_mb_per_s": (64 * KIB, MIB, 4 * MIB)}
WINDOW_GATES: Gates = {"message_rate_per_s": (8,), "bandwidth_mb_per_s": (64 * KIB, MIB)}
COLLECTIVE_GATES: Gates = {"t_max_us": (32, 4 * KIB, 64 * KIB, MIB)}
OVERLAP_GATES: Gates = {"t_ovrl_us": (32, 4 * KIB, 64 * KIB, MIB)}
SYNC_GATES: Gates = {"t_max_us": (None,)}
SYNC_OVERLAP_GATES: Gates = {"t_ovrl_us": (None,)}

#: Modes of IMB-EXT and IMB-IO, in the order they run: completed together, and each before the next.
AGGREGATE_FIRST = ("aggregate", "non-aggregate")

WINDOW_OPTION = ("-window_size", str(traffic.WINDOW))
#: IMB 2021.1 made the window of Uniband and Biband an option (src_cpp/MPI1/MPI1_suite.cpp).
WINDOW_OPTION_SINCE = (2021, 1)


def _kind(
    binary: str, group: str, ranks: str, quantities: tuple[str, ...], gates: Gates, **common: Any
) -> Callable[..., list[Benchmark]]:
    """Rows of one kind: of their names, in one text, their bound, and what more they are."""
    own = {
        "binary": binary,
        "group": group,
        "ranks": ranks,
        "quantities": quantities,
        "gated_sizes": gates,
        **common,
    }
    return lambda names, bound, **more: [
        Benchmark(name, NAME, traffic=bound, **{**own, **more}) for name in names.split()
    ]


def _mpi1() -> list[Benchmark]:
    pair = _kind(
        "IMB-MPI1",
        "p2p",
        "pair",
        TIME_AND_BANDWIDTH,
        PAIR_GATES,
        directions=1,
        line_rate_from_bytes=4 * MIB,
    )
    # One neighbour of the first and of the last rank of each node is on another node.
    ring = _kind("IMB-MPI1", "transfer", "all", TIME_RANGE_AND_BANDWIDTH, RING_GATES, crossing=0)
    newer: dict[str, Any] = {"newer_options": WINDOW_OPTION, "options_since": WINDOW_OPTION_SINCE}
    window = _kind(
        "IMB-MPI1", "transfer", "even", BANDWIDTH_AND_RATE, WINDOW_GATES, summed=True, **newer
    )
    collective = _kind("IMB-MPI1", "collectives", "all", TIME_RANGE, COLLECTIVE_GATES, crossing=0)
    sources = "PingPongSpecificSource PingPongAnySource PingPingSpecificSource PingPingAnySource"
    return [
        *pair("PingPong", traffic.both_ways, cascade=(SINGLE, SMALL)),
        *pair("PingPing", traffic.both_ways),
        *pair(sources, traffic.both_ways, group="p2p_sources"),
        *ring("Sendrecv", traffic.every_rank_once),
        *ring("Exchange", traffic.every_rank_twice),
        *window("Uniband", traffic.window_one_way, directions=1, cascade=(STREAM,)),
        *window("Biband", traffic.window_both_ways, directions=2),
        *collective("Bcast", traffic.one_per_other_rank),
        *collective("Reduce", traffic.one_per_other_rank, reduction=True),
        *collective("Allreduce", traffic.every_rank_receives, reduction=True),
        *collective("Reduce_local", traffic.nothing, reduction=True, since=(2019, 2)),
        *collective("Barrier", traffic.nothing, sizes=SIZELESS, gated_sizes=SYNC_GATES),
        *collective("Allgather Allgatherv", traffic.all_to_all, crossing=1),
        *collective("Gather Gatherv Scatter Scatterv", traffic.one_per_other_rank, crossing=1),
        *collective("Alltoall Alltoallv", traffic.all_to_all, crossing=2),
        *collective("Reduce_scatter", traffic.one_per_other_rank, reduction=True),
        *collective(
            "Reduce_scatter_block", traffic.one_per_other_rank, reduction=True, since=(2019, 1)
        ),
    ]


def _p2p() -> list[Benchmark]:
    # Bandwidth and rate count all messages of all ranks over the slowest rank's time (imb_p2p_*.c).
    # Partners of PingPong and PingPing are half of all ranks apart, so on different nodes.
    row = _kind(
        "IMB-P2P",
        "p2p_pairs",
        "all",
        TIME_BANDWIDTH_RATE,
        PAIR_GATES,
        since=(2019, 2),
        crossing=NOTHING_SURE,
    )
    every = {"ranks": "even_only", "crossing": EVERY_MESSAGE}
    stencil = {"since": (2019, 6)}
    return [
        *row("PingPong", traffic.every_rank_once, directions=1, **every),
        *row("PingPing", traffic.every_rank_once, directions=2, **every),
        *row("Unirandom", traffic.every_rank_once),
        *row("Birandom", traffic.every_rank_twice),
        *row("Corandom", traffic.every_rank_once),
        *row("SendRecv_Replace", traffic.every_rank_once, since=(2021, 1), crossing=0),
        *row("Stencil2D", traffic.every_rank_four_times, ranks="grid2d", min_ranks=4, **stencil),
        *row("Stencil3D", traffic.every_rank_six_times, ranks="grid3d", min_ranks=8, **stencil),
    ]


def _nbc() -> list[Benchmark]:
    overlap = _kind("IMB-NBC", "nonblocking", "all", OVERLAP, OVERLAP_GATES, crossing=0)
    alone = _kind("IMB-NBC", "nonblocking_pure", "all", TIME_RANGE, COLLECTIVE_GATES, crossing=0)

    def both(names: str, bound: traffic.Bound, **more: Any) -> list[Benchmark]:
        sync = "sizes" in more
        return [
            row
            for name in names.split()
            for row in (
                *overlap(
                    name, bound, **more, **({"gated_sizes": SYNC_OVERLAP_GATES} if sync else {})
                ),
                *alone(
                    f"{name}_pure", bound, **more, **({"gated_sizes": SYNC_GATES} if sync else {})
                ),
            )
        ]

    return [
        *both("Ibcast", traffic.one_per_other_rank),
        *both("Iallgather Iallgatherv", traffic.all_to_all, crossing=1),
        *both("Igather Igatherv Iscatter Iscatterv", traffic.one_per_other_rank, crossing=1),
        *both("Ialltoall Ialltoallv", traffic.all_to_all, crossing=2),
        *both("Ireduce", traffic.one_per_other_rank, reduction=True),
        # In 2018 its clock begins with the time of day, which is what it prints, and computes that
        # long (IMB_reduce_scatter.c).
        *both("Ireduce_scatter", traffic.one_per_other_rank, reduction=True, since=(2019, 0)),
        *both("Iallreduce", traffic.every_rank_receives, reduction=True),
        *both("Ibarrier", traffic.nothing, sizes=SIZELESS),
    ]


def _rma() -> list[Benchmark]:
    # Non-aggregate: each access is completed before the next;
    # aggregate: all are completed together.
    modes = {"variants": ("non-aggregate", "aggregate")}
    pair = _kind("IMB-RMA", "one_sided", "pair", TIME_AND_BANDWIDTH, PAIR_GATES, **modes)
    element = _kind("IMB-RMA", "one_sided", "pair", TIME_AND_BANDWIDTH, {}, **modes)
    one_sided = _kind("IMB-RMA", "one_sided", "all", TIME_AND_BANDWIDTH, PAIR_GATES, crossing=1)
    every = _kind("IMB-RMA", "one_sided", "all", TIME_RANGE, COLLECTIVE_GATES)
    return [
        *pair("Unidir_put Unidir_get", traffic.one_way),
        *pair("Bidir_put Bidir_get", traffic.both_ways),
        *pair("Put_local Get_local", traffic.one_way, group="one_sided_local"),
        *one_sided(
            "Put_all_local Get_all_local", traffic.one_per_other_rank, group="one_sided_local"
        ),
        *one_sided("One_put_all One_get_all", traffic.one_per_other_rank),
        *every("All_put_all All_get_all", traffic.all_to_all, crossing=2),
        *every("Exchange_put Exchange_get", traffic.every_rank_twice, crossing=0),
        *element("Accumulate Get_accumulate", traffic.one_way, reduction=True),
        *element("Fetch_and_op", traffic.one_way, sizes=ELEMENT, reduction=True),
        *element("Compare_and_swap", traffic.one_way, sizes=ELEMENT),
        *element(
            "Truly_passive_put",
            traffic.one_way,
            quantities=("t_pure_us", "t_ovrl_us"),
            variants=("",),
        ),
    ]


def _mt() -> list[Benchmark]:
    # The printed size is that of one thread's message times the threads, so the bounds hold as they
    # are. All partners are half of all ranks apart (set_stride), so on different nodes.
    row = _kind("IMB-MT", "threads", "all", TIME_RANGE_AND_BANDWIDTH, {}, since=(2019, 0))
    rate = _kind(
        "IMB-MT", "threads", "even", ("t_avg_us", *BANDWIDTH_AND_RATE), {}, since=(2019, 0)
    )
    collective = _kind(
        "IMB-MT",
        "threads",
        "all",
        TIME_RANGE,
        {"t_max_us": (64 * KIB,)},
        since=(2019, 0),
        crossing=0,
    )
    return [
        *row("PingPongMT PingPingMT", traffic.pairs_both_ways, ranks="even"),
        *row("SendRecvMT", traffic.every_rank_once),
        *row("ExchangeMT", traffic.every_rank_twice),
        *rate("UniBandMT", traffic.window_one_way),
        *rate("BiBandMT", traffic.window_both_ways),
        *collective("BarrierMT", traffic.nothing, sizes=SIZELESS, gated_sizes=SYNC_GATES),
        *collective("BcastMT ReduceMT", traffic.one_per_other_rank),
        *collective("AllReduceMT", traffic.every_rank_receives),
    ]


def _ext() -> list[Benchmark]:
    """One-sided communication between fences (IMB_ones_unidir.c,
    IMB_ones_bidir.c, IMB_ones_accu.c, IMB_window.c).
    """
    pair = _kind(
        "IMB-EXT", "active_target", "pair", TIME_AND_BANDWIDTH, PAIR_GATES, variants=AGGREGATE_FIRST
    )
    every = _kind(
        "IMB-EXT", "active_target", "all", TIME_RANGE, COLLECTIVE_GATES, variants=AGGREGATE_FIRST
    )
    return [
        *pair("Unidir_Put Unidir_Get", traffic.one_way),
        *pair("Bidir_Put Bidir_Get", traffic.both_ways),
        *every("Window", traffic.nothing, gated_sizes={"t_max_us": (4 * KIB,)}, variants=("",)),
        # Each rank adds to rank 0, which adds its own.
        *every("Accumulate", traffic.one_per_other_rank, reduction=True, crossing=0),
    ]


def _mpi4() -> list[Benchmark]:
    """The persistent form of each nonblocking collective: the same
    columns, data and bounds (MPI4_benchmark.cpp).
    """

    def persistent(name: str) -> str:
        operation, pure, _ = name.removeprefix("I").partition("_pure")
        return f"{operation.capitalize()}_persist{pure}"

    return [
        replace(row, name=persistent(row.name), binary="IMB-MPI4", group="persistent")
        for row in _nbc()
    ]


def _io() -> list[Benchmark]:
    """Files, by the means of MPI: one rank alone (S), all at once
    (P), all together (C) (IO_benchmark.cpp).

    The processes write to a file system and send nothing that is sure to go over the fabric.
    Nonblocking ones and reads know one mode only.
    """
    rows: list[Benchmark] = []
    for kind, ranks, columns, pointers in (
        ("S", "one", TIME_AND_BANDWIDTH, "Indv Expl"),
        ("P", "all", TIME_RANGE_AND_BANDWIDTH, "Indv Shared Priv Expl"),
        ("C", "all", TIME_RANGE_AND_BANDWIDTH, "Indv Shared Expl"),
    ):
        access = _kind(
            "IMB-IO", "file_io", ranks, columns, {"bandwidth_mb_per_s": (64 * KIB,)}, min_ranks=1
        )
        alone = {"variants": ("aggregate",)}
        nonblocking = {"quantities": OVERLAP, "gated_sizes": {"t_ovrl_us": (64 * KIB,)}, **alone}
        for verb, modes in (("Write", {"variants": AGGREGATE_FIRST}), ("Read", alone)):
            for pointer in pointers.split():
                rows += access(f"{kind}_{verb}_{pointer}", traffic.nothing, **modes)
                rows += access(f"{kind}_I{verb}_{pointer}", traffic.nothing, **nonblocking)
    opened = _kind("IMB-IO", "file_io", "all", TIME_RANGE, SYNC_GATES, min_ranks=1, sizes=SIZELESS)
    return [*rows, *opened("Open_Close", traffic.nothing)]


#: Every benchmark of the eight binaries, in the order their groups run them.
ROWS: tuple[Benchmark, ...] = (
    *_mpi1(),
    *_p2p(),
    *_nbc(),
    *_rma(),
    *_mt(),
    *_ext(),
    *_mpi4(),
    *_io(),
)


# How groups are run.

# Up to the size from which a pair is compared with the line rate, at every level.
_PAIR = at_levels(
    SizeRange((18, 22), 200, 8), SizeRange((0, 22), 1000, 40), SizeRange((0, 22), 2000, 80)
)
_RING = {**_PAIR, "smoke": SizeRange((18, 20), 200, 8)}
# One repetition is a window of 64 messages, so 4 MiB would be 256 MiB per repetition.
_WINDOW = at_levels(
    SizeRange((14, 16), 20, 1), SizeRange((0, 20), 40, 1), SizeRange((0, 22), 200, 4)
)
_COLLECTIVE = at_levels(
    SizeRange((10, 12), 50, 2), SizeRange((0, 22), 500, 16), SizeRange((0, 22), 1000, 40)
)
_WIDE = at_levels(
    SizeRange((10, 12), 50, 1), SizeRange((0, 22), 200, 8), SizeRange((0, 22), 500, 16)
)
_SLOW = at_levels(
    SizeRange((10, 12), 20, 1), SizeRange((0, 22), 100, 4), SizeRange((0, 22), 200, 8)
)
# IMB-MT makes the same repetitions at every size.
_THREADS = at_levels(
    SizeRange((10, 12), 20, 1), SizeRange((0, 16), 50, 8), SizeRange((0, 18), 100, 64)
)
# Files: each size has a file of its own, and in one mode every access is forced to the file system.
_FILES = at_levels(
    SizeRange((15, 16), 5, 1), SizeRange((10, 20), 20, 4), SizeRange((10, 22), 50, 16)
)


_FAN: Mapping[str, Any] = {"fan": True}
_THREADED: Mapping[str, Any] = {"threads": 2, "env": {"OMP_NUM_THREADS": "2"}}
_BLOCKS = (
    "I?(Allgather|Gather|Scatter|Alltoall|Reduce_scatter"
    "|allgather|gather|scatter|alltoall|reduce_scatter).*"
)


def _group(name: str, words: str, description: str, *launches: Any) -> Group:
    """What a group measures and its launches: name, the benchmarks of the
    group that match, sizes at the levels, and more.
    """
    plans = []
    for launch, pattern, ranges, *more in launches:
        rows = [row for row in ROWS if row.group == name and re.fullmatch(pattern, row.name)]
        plans.append(
            Plan(launch, rows[0].binary, tuple(row.name for row in rows), ranges, **dict(*more))
        )
    return Group(description, tuple(plans), **dict.fromkeys(words.split(), True))


#: Group to what it measures and its invocations.
GROUPS: Mapping[str, Group] = {
    name: _group(name, *group)
    for name, *group in (
        (
            "p2p",
            "",
            "Latency and bandwidth between one pair of ranks (IMB-MPI1 PingPong, PingPing)",
            ("pair", ".*", _PAIR),
        ),
        (
            "transfer",
            "",
            "All ranks transfer at the same time (IMB-MPI1 Sendrecv, Exchange, Uniband, Biband)",
            ("ring", "Sendrecv|Exchange", _RING),
            ("window", "Uniband|Biband", _WINDOW),
        ),
        (
            "collectives",
            "collective",
            "Blocking collectives (IMB-MPI1)",
            ("rooted", "Bcast|Reduce|Allreduce|Reduce_local|Barrier", _COLLECTIVE),
            ("fan", _BLOCKS, _WIDE, _FAN),
        ),
        (
            "p2p_pairs",
            "",
            "Pairs, random partners and stencils over all ranks (IMB-P2P)",
            ("pairs", ".*", _COLLECTIVE),
        ),
        (
            "nonblocking",
            "collective",
            "Nonblocking collectives and their overlap with computation (IMB-NBC)",
            ("overlap_rooted", "Ibcast|Ireduce|Iallreduce|Ibarrier", _SLOW),
            ("overlap_fan", _BLOCKS, _SLOW, _FAN),
        ),
        (
            "one_sided",
            "one_sided",
            "One-sided communication with passive targets (IMB-RMA)",
            ("passive_pair", "(?!One_|All_|Exchange_).*", _SLOW),
            ("passive_all", "(One_|All_|Exchange_).*", _SLOW),
        ),
        (
            "threads",
            "collective",
            "Several threads of a rank communicating at the same time (IMB-MT)",
            ("threads2", ".*", _THREADS, _THREADED),
        ),
        (
            "nonblocking_pure",
            "collective",
            "Nonblocking collectives without computation (IMB-NBC)",
            ("pure_rooted", "(Ibcast|Ireduce|Iallreduce|Ibarrier)_pure", _SLOW),
            ("pure_fan", _BLOCKS, _SLOW, _FAN),
        ),
        (
            "p2p_sources",
            "",
            "One pair of ranks, received from a named or from any source (IMB-MPI1)",
            ("sources", ".*", _PAIR),
        ),
        (
            "one_sided_local",
            "one_sided",
            "One-sided communication until it is complete at the origin (IMB-RMA)",
            ("local_pair", "(Put|Get)_local", _SLOW),
            ("local_all", "(Put|Get)_all_local", _SLOW),
        ),
        (
            "active_target",
            "one_sided",
            "One-sided communication between fences (IMB-EXT)",
            ("fence_pair", "(Unidir|Bidir).*", _SLOW),
            ("fence_all", "Window|Accumulate", _SLOW),
        ),
        (
            "persistent",
            "collective",
            "Persistent collectives and their overlap with computation (IMB-MPI4)",
            ("persistent_rooted", "(Bcast|Reduce|Allreduce|Barrier)_persist.*", _SLOW),
            ("persistent_fan", _BLOCKS, _SLOW, _FAN),
        ),
        (
            "file_io",
            "collective files",
            "Files written and read through MPI (IMB-IO)",
            ("file_single", "S_.*", _FILES),
            ("file_parallel", "P_.*", _FILES),
            ("file_collective", "C_.*", _FILES),
            ("file_open", "Open_Close", _FILES),
        ),
    )
}


# Command lines.


def sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """Sizes a row prints for the arguments of a plan; reductions are of floats, 4 bytes each."""
    if row.sizes == SIZELESS:
        return (None,)
    if row.sizes == ELEMENT:
        return (4,)
    first = 1 << size_range.log2[0]
    largest = 1 << size_range.log2[1]
    if plan.binary == "IMB-P2P":
        return doubling_sizes(first, largest, zero=not size_range.log2[0])
    if plan.binary == "IMB-MT":  # what all threads of a rank send together
        return tuple(size * plan.threads for size in doubling_sizes(first, largest, zero=False))
    # counts in elements whatever it sends, and begins with one (helper_init_scope)
    if plan.binary == "IMB-EXT":
        return doubling_sizes(4, largest, unit=4)
    return doubling_sizes(first, largest, unit=4 if row.reduction else 1)


def arguments(run: Run) -> list[str]:
    """Sizes and repetitions, options, benchmarks (IMB User Guide, "Command-line Control")."""
    size_range = run.size_range
    ranks = run.ranks
    nodes = run.nodes
    smallest, largest = size_range.log2
    if run.plan.binary == "IMB-P2P":
        # `max` alone starts with 0 and 1 byte; `min:max` has no zero. The
        # pause of 0.1 s around a size is cut to 1 ms.
        logs = f"{smallest}:{largest}" if smallest else str(largest)
        own = [
            "-msglog",
            logs,
            "-iter",
            f"{size_range.count},{size_range.volume_mib}",
            "-pause",
            "1000",
        ]
    elif run.plan.binary == "IMB-MT":
        # Counts are of bytes, per thread, and repetitions the same at every
        # size, those the largest allows (MT_suite.cpp).
        threads = run.plan.threads
        repeat = min(
            size_range.count, max(1, (size_range.volume_mib << 20) // (threads << largest))
        )
        counts = ",".join(str(1 << log) for log in range(smallest, largest + 1))
        own = ["-thread_level", "multiple" if threads > 1 else "single", "-datatype", "char"]
        own += ["-count", counts, "-repeat", str(repeat), "-warmup", "5"]
    else:
        pairs = all(row.ranks == "pair" for row in run.rows)
        # Pairs take two ranks anyway, but IMB since 2019 leaves Fetch_and_op and Compare_and_swap
        # out, without a word, when npmin is larger (helper_init_scope).
        fewest = str(min(ranks, 2) if pairs else ranks)
        own = ["-npmin", fewest, "-msglog", f"{smallest}:{largest}"]
        # The third number is for the non-aggregate mode, which otherwise makes 100 repetitions.
        own += [
            "-iter",
            f"{size_range.count},{size_range.volume_mib},{size_range.count}",
            "-time",
            str(run.secs),
        ]
        if pairs and nodes > 1 and ranks > nodes:
            # Ranks fill the nodes in blocks: without a map, the pair would
            # be two neighbours on the first node.
            own += ["-map", f"{ranks // nodes}x{nodes}"]
    return [*own, *run.options, *run.names]


# Options that may be set, by the names of the programs' arguments
# (IMB User Guide, "Command-line Control").

#: Arguments that each program of 2021.11 accepts (``-help``; src_cpp/EXT, IO, MPI4) and that may be
#: set: without those of the plan (benchmarks, sizes, types, repetitions, ranks) and what changes
#: which tables are printed. IMB-P2P ignores what it does not know, and would give numbers a wrong
#: name.
_COMMON = "multi off_cache iter_policy mem imb_barrier warm_up msg_pause thread_level"
_ACCEPTED: Mapping[str, str] = {
    "IMB-MPI1": f"{_COMMON} root_shift sync contig_type",
    "IMB-NBC": f"{_COMMON} root_shift sync",
    "IMB-MPI4": f"{_COMMON} root_shift sync",
    "IMB-RMA": f"{_COMMON} root_shift sync",
    "IMB-EXT": _COMMON,
    "IMB-IO": _COMMON,
    "IMB-MT": "barrier malloc_align malloc_algo",
    "IMB-P2P": "msgrd msgwr",
}


def _option(
    argument: str, *, name: str = "", groups: Sequence[str] = (), **more: Any
) -> SuiteOption:
    """An option that becomes an argument and its value, for the
    groups all of whose programs accept it.
    """
    takes = (
        name
        for name, group in GROUPS.items()
        if all(argument in _ACCEPTED[plan.binary].split() for plan in group.plans)
    )
    more = {
        "pattern": r"-?[0-9]+|[A-Za-z0-9][A-Za-z0-9_.]*",
        "words": lambda value: (f"-{argument}", value),
        **more,
    }
    return SuiteOption(name or argument, groups=tuple(groups or takes), **more)


def _groups_of_pairs(row: Benchmark, value: str, ranks: int) -> Benchmark:
    """Pairs that run side by side: of all together (0), or each for itself (1) (IMB_output.c).

    What one of several pairs gets says nothing sure about a link.
    """
    groups = ranks // 2
    if groups < 2:
        raise NotMeasured(
            f"multi={value} needs at least 4 ranks, two pairs side by side; there are {ranks}"
        )
    if value == "1":
        return replace(
            row, variants=tuple(f"group={number}" for number in range(groups)), directions=0
        )
    times = tuple(
        name
        for quantity in row.quantities
        for name in (TIME_RANGE if quantity == "latency_us" else (quantity,))
    )
    gates = {
        "t_max_us" if name == "latency_us" else name: sizes
        for name, sizes in row.gated_sizes.items()
    }
    return replace(row, quantities=times, gated_sizes=gates, directions=0)


OPTIONS = (
    _option("multi", groups=("p2p",), values=("0", "1"), change=_groups_of_pairs),
    _option("sync", name="rank_sync"),  # OSU has another option of this name
    *(
        _option(argument)
        for argument in dict.fromkeys(" ".join(_ACCEPTED.values()).split())
        if argument not in ("multi", "sync")
    ),
)


# Outputs: src_c/IMB_g_info.c, IMB_output.c, MT_suite.cpp and
# MT_benchmark.hpp, print_main_header (imb_p2p.c).

#: Part that the title names to the program that prints it.
_PROGRAMS: Mapping[str, str] = {
    "MPI-1 part": "IMB-MPI1",
    "MPI-NBC part": "IMB-NBC",
    "MPI-RMA part": "IMB-RMA",
    "IMB-P2P part": "IMB-P2P",
    "MT part": "IMB-MT",
    "MPI-2 part": "IMB-EXT",
    "MPI-4 part": "IMB-MPI4",
    "MPI-IO part": "IMB-IO",
}
#: Part of IMB-MPI1-GPU, whose arguments name the memory (``-mem_alloc_type`` in MPI1_suite.cpp).
_GPU_PART = "MPI-1 part (GPU)"
_MEMORIES = {"device": f"memory={DEVICE}", "shared": f"memory={MANAGED}", "cpu": ""}
#: IMB-IO ends its title with an ``n`` and the rule below in the same
#: line (``partn`` in src_c/IMB_g_info.c).
_TITLE = re.compile(
    r"^[ \t]*# +Intel ?\(R\) MPI Benchmarks ([^,\n]+), (.+?)(?:(?<=part)n#-+)?[ \t\r]*$",
    re.MULTILINE,
)
#: Printed by all but IMB-MT, which prints title, tables and nothing else.
LAST_LINE = "# All processes entering MPI_Finalize"
_LAST = re.compile(rf"^[ \t]*{LAST_LINE}[ \t\r]*$", re.MULTILINE)
_CHECKED = (
    r"[ \t]*(?:!{4} +ALL BENCHMARKS SUCCESSFUL !{4}"
    r"|# of calls to IMB_v_alloc / IMB_v_free match on all processes)?[ \t\r]*\n"
)
_HEAD = re.compile(r"(?:[ \t]*(?:#.*|\r)?\n)*")
_TABLE = re.compile(
    r"[ \t]*# Benchmarking (?:Multi-)?(?P<name>\w+)(?: \((?P<grid>[0-9]+(?: x"
    r" [0-9]+){1,2})\))?[ \t\r]*\n"
    r"(?P<head>(?:[ \t]*#(?!bytes|repetitions).*\n|[ \t\r]*\n)*)"
    r"(?P<titles>[ \t]*(?:Group|#bytes|#repetitions)\b.*\n)"
    r"(?P<rows>(?:(?:[ \t\r]*\n)?[ \t]*[0-9].*\n)+)"
    rf"(?:#-{{20,}}[ \t\r]*\n|{_CHECKED})*"
)
_STARTS = re.compile(r"^[ \t]*# Benchmarking ", re.MULTILINE)
_RANKS = re.compile(
    r"^[ \t]*# (?:#processes = (?P<ranks>[0-9]{1,9})(?: \(threads: (?P<threads>[0-9]+)\)"
    r"|; rank order \(rowwise\):)?"
    r"|\( (?P<groups>[1-9][0-9]{0,8}) groups of (?P<per_group>[0-9]{1,9}) processes each running"
    r" simultaneous \))[ \t\r]*$",
    re.MULTILINE,
)
_MODE = re.compile(r"^[ \t]*# +MODE: ((?:NON-)?AGGREGATE)[ \t\r]*$", re.MULTILINE)
_CALL = re.compile(
    r"^# Calling sequence was:[ \t\r]*\n(?:[ \t\r]*#?[ \t\r]*\n)*# *(\S.*(?:\n# *\S.*)*)",
    re.MULTILINE,
)
#: A line that only an output of IMB has, rows with a sign wrong among them.
PIECE = re.compile(
    rf"{ROW_LIKE}|\s*(?:# Benchmarking .*|# #processes = .*|(?:Group +)?#(?:bytes|repetitions) .*"
    r"|# Calling sequence was:.*"
    rf"|# List of Benchmarks to run:.*|{LAST_LINE}|# +MODE: .*|# \( [0-9]+ groups of .*)\s*"
)

#: Column to quantity (``vocabulary.QUANTITIES``), by name and never by place: IMB prints minimum,
#: maximum, average in that order. Mbytes are 1e6 bytes (IMB_display_times, ``MEGA``).
_QUANTITIES: Mapping[str, str] = {
    "t[usec]": "latency_us",
    "t_min[usec]": "t_min_us",
    "t_max[usec]": "t_max_us",
    "t_avg[usec]": "t_avg_us",
    "t_pure[usec]": "t_pure_us",
    "t_ovrl[usec]": "t_ovrl_us",
    "t_CPU[usec]": "t_cpu_us",
    "overlap[%]": "overlap_percent",
    "Mbytes/sec": "bandwidth_mb_per_s",
    "Msg/sec": "message_rate_per_s",
}
#: Whole numbers; all others have two decimals (IMB_edit_format), so
#: that a digit lost at the end is seen.
_CELLS = {
    "Group": "[0-9]{1,9}",
    "#bytes": "[0-9]{1,18}",
    "#repetitions": "[1-9][0-9]{0,17}",
    "Msg/sec": "[0-9]+",
    "defects": r"[0-9]+\.[0-9]{2}",
}

#: What IMB says when something went wrong, and what to do about it.
_COMPLAINTS: Mapping[str, str] = {
    "[0-9 ]*out-of-mem": "IMB skipped a size for lack of memory; raise -mem, or measure smaller "
    "messages",
    "[0-9 ]*int-overflow": "IMB skipped a size because ranks x size overflows; measure smaller "
    "messages",
    "[0-9 ]*time-out": "IMB ran out of time and skipped sizes; raise -time, or lower -iter",
    "# !! Benchmark .* invalid for": (
        "IMB refused to run a benchmark on this number of processes; use another number, leave it "
        "out, or, if more were started, use a launcher that this MPI supports"
    ),
    "# NO SUCCESSFUL EXECUTIONS": "IMB-MT cannot run a benchmark on these processes; leave it out",
    "Invalid benchmark name|# Attention, invalid": "IMB does not know a requested benchmark; "
    "correct the command line",
    # Of a build with -DCHECK (IMB_chk_diff.c): that data differ,
    # and what was received and expected.
    r".*CHECK FAILURES|!{3,4}(?! *ALL BENCHM) |.*: FAILED|[0-9]+: Error .*size = ?[0-9]"
    r"|Process [0-9]+: (?:Got|Expected)": (
        "IMB received wrong data; do not trust this MPI library"
    ),
    "EXCEPTION:": "IMB failed; see its standard error",
}
_DECIMAL = r"[0-9]+\.[0-9]{2}"
_BY_NAME = by_name(ROWS)
_COMPLAINT = re.compile("|".join(rf"^[ \t]*(?:{form})" for form in _COMPLAINTS), re.MULTILINE)


def parse(text: str, source: str) -> list[Record]:
    """Records of one IMB output, in printed order: all of its tables,
    each with all columns of its benchmark.

    Whether they are all that was requested, :func:`reader.check_complete` says.

    :raises OutputError: if it has no end, says that something went wrong, or
        holds a table that is damaged or there twice.
    """

    def wrong(place: int, sentence: str) -> OutputError:
        return OutputError(
            "output-damaged", f"{source}, line {text.count(chr(10), 0, place) + 1}: {sentence}."
        )

    if complaint := _COMPLAINT.search(text):
        raise wrong(
            complaint.start(),
            next(
                say
                for form, say in _COMPLAINTS.items()
                if re.match(rf"[ \t]*(?:{form})", complaint[0])
            ),
        )
    titles = list(_TITLE.finditer(text))
    if not titles:
        raise wrong(
            0, "there is no title line of IMB, so the beginning is missing; run the benchmark again"
        )
    first, *more = titles
    if more:
        raise wrong(
            more[0].start(),
            "a second run starts before the first one ends; the outputs are interleaved or "
            "truncated",
        )
    program = _PROGRAMS.get("MPI-1 part" if first[2] == _GPU_PART else first[2])
    if not program:
        known = ", ".join(_PROGRAMS.values())
        raise wrong(
            first.start(),
            f"this is the '{first[2]}' of IMB, which is not supported; supported are {known}",
        )
    ends = list(_LAST.finditer(text))
    if len(ends) != (program != "IMB-MT") or not text.endswith("\n"):
        raise wrong(
            len(text),
            f"the output has {len(ends)} times '{LAST_LINE[2:]}'; it is truncated or mixed up, run "
            "it again",
        )
    end = ends[0].start() if ends else len(text)
    if not re.fullmatch(f"(?:{_CHECKED})*", text[end:].partition("\n")[2]):
        raise wrong(
            end,
            "other lines follow the last line of IMB; outputs are mixed up, run the benchmark "
            "again",
        )
    starts = [match.start() for match in _STARTS.finditer(text, 0, end)]
    if not starts:
        raise wrong(end, "there is no table; run the benchmark again")
    above = _HEAD.match(text, 0, starts[0])
    if above and above.end() < starts[0]:
        fault = (
            f"{quote(text[above.end() :])} is not a line of IMB; keep other output out of the file"
        )
        raise wrong(above.end(), fault)
    records: list[Record] = []
    for start, stop in zip(starts, [*starts[1:], end], strict=True):
        table = _TABLE.match(text, start, stop)
        if not table or table.end() < stop:
            strange = table.end() if table else start
            fault = (
                "does not belong there: the table is damaged, truncated or mixed with other lines; "
                "run it again"
            )
            raise wrong(strange, f"{quote(text[strange:stop])} {fault}")
        records += _records(table, program, wrong)
    if program == "IMB-MT":  # nothing says its end, but all its tables have the same sizes
        sizes: dict[str, list[int | None]] = {}
        for record in records:
            sizes.setdefault(record.benchmark, []).append(record.message_bytes)
        if len({tuple(column) for column in sizes.values() if column != [None]}) > 1:
            raise wrong(
                end, "the tables have different sizes; the output is truncated, run it again"
            )
    if first[2] != _GPU_PART:
        return records
    words = shown_arguments(text)
    # Since 2021.3 (ReadMe_IMB.txt); the second word of 2021.2's version is "Technical".
    usual = "cpu" if first[1].startswith("2021.2 ") else "device"
    named = dict(pairwise(words or ())).get("-mem_alloc_type", usual)
    # Without it the next line stands there, "Minimum message length in bytes".
    memory = (
        named
        if words and words[0] != "message"
        else "memory that its calling sequence does not show"
    )
    if memory not in _MEMORIES:
        said = f"buffers in {memory} are not supported ({', '.join(_MEMORIES)})"
        raise OutputError("output-trouble", f"{source}: {said}; use one of these.")
    # a barrier has no buffers
    variants = ["" if row.message_bytes is None else _MEMORIES[memory] for row in records]
    return [
        replace(row, variant=",".join(filter(None, (row.variant, added))))
        for row, added in zip(records, variants, strict=True)
    ]


def _records(
    table: re.Match[str], program: str, wrong: Callable[[int, str], OutputError]
) -> list[Record]:
    name = table["name"]
    titles = table["titles"].split()
    start = table.start()
    try:
        row = find(_BY_NAME, program, name)
    except BadInput as error:
        raise wrong(start, clause(error)) from error
    ranks = list(_RANKS.finditer(table["head"]))
    modes = _MODE.findall(table["head"])
    quantities = [_QUANTITIES[title] for title in titles if title in _QUANTITIES]
    # With -multi 0 times are those of all groups: minimum, maximum, average (IMB_output).
    spread = [
        quantity
        for name in row.quantities
        for quantity in (TIME_RANGE if name == "latency_us" else (name,))
    ]
    if len(ranks) != 1 or len(modes) > 1 or "".join(modes).lower() not in row.variants:
        raise wrong(start, f"the head of the table of {name} is damaged or mixed up; run it again")
    if (
        len(set(titles)) < len(titles)
        or set(titles) - {*_QUANTITIES, *_CELLS}
        or set(quantities) not in (set(row.quantities), set(spread))
        or ("#bytes" in titles) != (row.sizes != SIZELESS)
        or "#repetitions" not in titles
    ):
        raise wrong(
            start,
            f"{name} has unexpected columns; the output is mixed up, or from an unknown version",
        )
    heading = ranks[0]
    mode = (
        f"threads={heading['threads']}" if heading["threads"] else modes[0].lower() if modes else ""
    )
    mode = mode or (f"grid={table['grid'].replace(' ', '')}" if table["grid"] else "")
    pattern = re.compile(
        r"[ \t]*"
        + r"[ \t]+".join(f"({_CELLS.get(title, _DECIMAL)})" for title in titles)
        + r"[ \t\r]*"
    )
    records: list[Record] = []
    for line in filter(str.strip, table["rows"].split("\n")):
        if not (cells := pattern.fullmatch(line)):
            raise wrong(
                table.start("rows") + table["rows"].index(line),
                f"{quote(line)} is no row of the table of {name} as IMB prints it; the output is "
                "damaged, run it again",
            )
        cell = dict(zip(titles, cells.groups(), strict=True))
        if "Group" in cell and int(cell["Group"]) != len(records) % int(heading["groups"] or 1):
            raise wrong(
                start,
                f"{name} lacks rows of some group, or has them twice or out of order; run it again",
            )
        if float(cell.get("defects", 0)):
            raise wrong(
                start, f"{name} reports wrong data (defects); do not trust this MPI library"
            )
        values = {
            _QUANTITIES[title]: float(value)
            for title, value in cell.items()
            if title in _QUANTITIES
        }
        times = [values[name] for name in ("t_min_us", "t_avg_us", "t_max_us") if name in values]
        if times != sorted(times):
            raise wrong(
                start,
                f"{name} has minimum, average and maximum out of order; the output is damaged, run "
                "it again",
            )
        records.append(
            Record(
                NAME,
                name,
                int(heading["ranks"] or heading["per_group"]),
                int(heading["groups"] or 1),
                int(cell["#bytes"]) if "#bytes" in cell else None,
                int(cell["#repetitions"]),
                values,
                ",".join(filter(None, (mode, f"group={cell['Group']}" if "Group" in cell else ""))),
            )
        )
    return records


def extent(lines: Sequence[str], title: int) -> tuple[int, int]:
    """Where the output of a title begins, including the rule above it, and where it ends: with its
    last line or, if that is missing before the next title, after the last line that only IMB
    prints.
    """
    begin = title - bool(title and re.fullmatch(r"\s*#-{20,}\s*", lines[title - 1]))
    stop = next((at for at in range(title + 1, len(lines)) if _TITLE.match(lines[at])), len(lines))
    last = next((at for at in range(title + 1, stop) if _LAST.match(lines[at])), 0)
    if not last:
        if not lines[title].rstrip().endswith("MT part"):
            return begin, stop
        last = max(
            (at for at in range(title + 1, stop) if PIECE.fullmatch(lines[at])), default=title
        )
    after = next(
        (at for at in range(last + 1, stop) if not re.fullmatch(_CHECKED, f"{lines[at]}\n")), stop
    )
    while not lines[after - 1].strip():
        after -= 1
    return begin, after


def shown_arguments(text: str) -> tuple[str, ...] | None:
    """Arguments in the calling sequence of an output, without the
    program; ``None`` if it has none (IMB-MT).
    """
    call = _CALL.search(text)
    return tuple(call[1].replace("\n#", " ").split()[1:]) if call else None


def quote(text: str) -> str:
    """The first line of a text as it goes into a message: not too long, nothing unprintable."""
    line = " ".join(text.split("\n", 1)[0].split())
    return (
        "'"
        + "".join(ch if ch.isprintable() else "?" for ch in line[:60])
        + "…" * (len(line) > 60)
        + "'"
    )


SUITE = Suite(
    name=NAME,
    title="IMB",
    first_line=re.compile(r"^[ \t]*# +Intel ?\(R\) MPI Benchmarks ", re.MULTILINE),
    parse=parse,
    extent=extent,
    last_line=LAST_LINE,
    piece=PIECE,
    rows=ROWS,
    groups=GROUPS,
    arguments=arguments,
    sizes=sizes,
    probe=Probe("IMB-MPI1", ("-iter", "1", "Barrier"), 2),
    # IMB User Guide, "Command-line Control"; the version is in the banner,
    # which 2018 leaves out of its help (IMB.c).
    programs=Programs(
        "IMB-*",
        r"IMB-[A-Z0-9]+",
        "-help",
        r"MPI Benchmarks (20[0-9.]+(?: Update [0-9]+)?)",
        refusal=r"Calling sequence \(command line will be repeated in Output table!\)",
        version_in_file=r"\0(2018(?: Update [0-9]+)?)\0",
    ),
    spack=(BenchmarkPackage("intel-mpi-benchmarks", "bin", "IMB-*"),),
    key_figures=(
        KeyFigure("PingPong latency", "PingPong", "latency_us", False, empty=True),
        KeyFigure("PingPong bandwidth", "PingPong", "bandwidth_mb_per_s", True),
        KeyFigure("Uniband", "Uniband", "bandwidth_mb_per_s", True),
        KeyFigure("Biband", "Biband", "bandwidth_mb_per_s", True),
        KeyFigure("Allreduce", "Allreduce", "t_max_us", False),
        KeyFigure("Alltoall", "Alltoall", "t_max_us", True),
        KeyFigure("Barrier", "Barrier", "t_max_us", False),
    ),
    options=OPTIONS,
    shown_arguments=shown_arguments,
)
