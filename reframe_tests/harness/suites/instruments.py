"""The suites of our own programs (``harness/instruments``): rows, plans, command lines and outputs
as records. mpi4py.bench and STREAM are not ours and have separate files.

Each output is read completely or not at all: the checksum in its last line detects any damage
(:mod:`..instruments.reading`).
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import groupby
from statistics import median
from typing import Any

from ..instruments import FOLDER, device_memory, reading
from ..instruments.pairs import output as map_output
from ..instruments.pairs.pair_values import BANDWIDTH, LATENCY
from ..machine.gpu import DEVICE, Memory
from ..machine.switch_paths import node_of
from ..vocabulary import BadInput
from . import side_by_side, traffic
from .algorithms import COLLECTIVES, GROUP, QUANTITY, VARIANT
from .algorithms import IN_BLOCKS as BLOCK_COLLECTIVES
from .benchmark import (
    BY_NODES,
    NOTHING_SURE,
    SERIES,
    SIZELESS,
    Benchmark,
    OutputError,
    Plan,
    Record,
    SizeRange,
    at_levels,
    growing_node_counts,
)
from .model import Facts, Group, Run, Script, Suite, gated_sizes, sizes_of_doublings
from .options import SuiteOption

#: Times in a row, as ``common.summary_us`` has them.
_TIMES = ("mean_us", "p50_us", "p90_us", "p99_us")


def _reader(
    instrument: str, record: Callable[[dict[str, Any], dict[str, Any]], Record]
) -> Callable[[str, str], list[Record]]:
    def parse(text: str, source: str) -> list[Record]:
        printed = read(text, source, instrument)
        return [record(row, printed.head) for row in printed.rows]

    return parse


def _record(
    suite: str,
    row: Mapping[str, Any],
    head: Mapping[str, Any],
    values: Mapping[str, Any],
    variant: str = "",
) -> Record:
    return Record(
        suite, row["benchmark"], head["ranks"], 1, row["bytes"], row["repetitions"], values, variant
    )


def read(text: str, source: str, instrument: str) -> reading.Printed:
    """As :func:`reading.read`.

    :raises OutputError: if the output is not whole, or a repetition took no time or was not made.
    """
    try:
        printed = reading.read(text, source, instrument)
    except BadInput as error:
        raise OutputError(error.code, str(error)) from None
    for row in printed.rows:
        nothing = [
            name
            for name, value in row.items()
            if value == 0 and name.endswith(("_us", "_per_s", "repetitions"))
        ]
        if nothing:
            raise OutputError(
                "output-trouble",
                f"{source}: {nothing[0]} of {row.get('benchmark', instrument)} is 0; nothing was "
                "measured.",
            )
    return printed


def _row(
    suite: str,
    name: str,
    ranks: str,
    quantities: tuple[str, ...],
    bound: traffic.Bound,
    **more: Any,
) -> Benchmark:
    """A row of a suite whose program and group have its name."""
    return Benchmark(name, suite, suite, suite, ranks, quantities, bound, **more)


def _suite(
    name: str,
    title: str,
    parse: Callable[[str, str], list[Record]],
    rows: tuple[Benchmark, ...],
    description: str,
    plans: tuple[Plan, ...],
    collective: bool = True,
    **more: Any,
) -> Suite:
    return Suite(
        name=name,
        title=title,
        first_line=re.compile(reading.first_line(name), re.MULTILINE),
        parse=parse,
        rows=rows,
        groups={rows[0].group: Group(description, plans, collective=collective)},
        script=Script(FOLDER / f"{name}.py", "mpi4py.bench", "mpi4py"),
        **more,
    )


_Sizes = Callable[[Benchmark, Plan, SizeRange], tuple[int | None, ...]]


def _words(run: Run, sizes: _Sizes = gated_sizes) -> list[str]:
    """``NAME`` or ``NAME:SIZE,SIZE`` of each row."""
    listed = ((row.name, sizes(row, run.plan, run.size_range)) for row in run.rows)
    return [name if own == (None,) else f"{name}:{','.join(map(str, own))}" for name, own in listed]


def _bounded(sizes: _Sizes) -> Callable[[Run], list[str]]:
    """Arguments: sizes, most repetitions and volume of each, seconds of all together, and names."""

    def arguments(run: Run) -> list[str]:
        listed = ",".join(map(str, sizes(run.rows[0], run.plan, run.size_range)))
        most = run.size_range
        bounds = ("--repetitions", str(most.count), "--volume-mib", str(most.volume_mib))
        return ["--sizes", listed, *bounds, "--budget-s", str(most.budget_s), *run.names]

    return arguments


def _percentile(ordered: list[float], percent: int) -> float:
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


# growth: synchronisation and small messages on 2, 4, 8, ... nodes up to all of the job.

#: Mean over the repetitions, then percentiles of them; each
#: repetition is the time of its slowest rank.
_GROWTH = ("t_max_us", "latency_p50_us", "latency_p90_us", "latency_p99_us")
#: Sizes in bytes: a double of each rank; a block for each other rank. A barrier has none.
_GROWTH_SIZES: Mapping[str, tuple[int | None, ...]] = {
    "Barrier": (None,),
    "Allreduce": (8,),
    "Alltoall": (8, 64),
}


def _growth_record(row: dict[str, Any], head: dict[str, Any]) -> Record:
    return _record(
        "growth",
        row,
        head,
        dict(zip(_GROWTH, map(row.get, _TIMES), strict=True)),
        f"nodes={row['nodes']}",
    )


def _growth_arguments(run: Run) -> list[str]:
    counts = ",".join(map(str, growing_node_counts(run.nodes)))
    return [
        "--nodes",
        counts,
        "--ppn",
        str(run.ranks // run.nodes),
        "--repetitions",
        str(run.size_range.count),
        *_words(run),
    ]


# Enough repetitions for a 99th percentile of more than the slowest few.
_GROWTH_LEVELS = at_levels(
    SizeRange((3, 6), 100, 1), SizeRange((3, 6), 1000, 1), SizeRange((3, 6), 10000, 1)
)
GROWTH = _suite(
    "growth",
    "the instrument of growing node counts",
    _reader("growth", _growth_record),
    # The bound counts all ranks of the launch, but the smaller node
    # counts leave most of them out: nothing is sure.
    tuple(
        _row(
            "growth",
            name,
            "growing",
            _GROWTH,
            traffic.nothing,
            min_nodes=2,
            gated_sizes={"t_max_us": sizes},
            sizes=SIZELESS if sizes == (None,) else SERIES,
        )
        for name, sizes in _GROWTH_SIZES.items()
    ),
    "Barrier and small collectives on 2, 4, 8, ... nodes up to all of the job, with percentiles",
    (Plan("growing", "growth", tuple(_GROWTH_SIZES), _GROWTH_LEVELS),),
    arguments=_growth_arguments,
    sizes=gated_sizes,
    same_repetitions=True,
)


# sharing: what each of several programs on one node does, alone and beside the others.

#: Sizes in bytes: what a rank copies from one buffer of its own to another (within a core's cache,
#: and beyond it); a vector of doubles of each rank; a block for each other rank.
_SHARING_SIZES: Mapping[str, tuple[int, ...]] = {
    "Copy": (1 << 16, 1 << 24),
    "Allreduce": (8, 1 << 16),
    "Alltoall": (8, 1 << 16),
}


def _sharing_row(name: str) -> Benchmark:
    """As much as there is time for, and nothing that leaves a node."""
    quantity = "bandwidth_mb_per_s" if name == "Copy" else "t_max_us"
    return _row(
        side_by_side.NAME,
        name,
        "program",
        (quantity,),
        traffic.nothing,
        min_ranks=1 if name == "Copy" else 2,
        gated_sizes={quantity: _SHARING_SIZES[name]},
        variants=(side_by_side.variant(1, 1, side_by_side.ALONE),),
    )


def _sharing_record(row: dict[str, Any], head: dict[str, Any]) -> Record:
    copied = row["benchmark"] == "Copy"
    values = {"bandwidth_mb_per_s": row["mb_per_s"]} if copied else {"t_max_us": row["t_max_us"]}
    how = side_by_side.SHARED if head["shared"] else side_by_side.ALONE
    variant = side_by_side.variant(head["programs"], head["program"], how)
    return replace(
        _record("sharing", row, head, values, variant), measured_ns=(row["from_ns"], row["to_ns"])
    )


def _sharing_arguments(run: Run) -> list[str]:
    """Seconds of each benchmark and size, an equal share of the budget, then the rows.

    Which program it is, and where it meets the others, is added for
    each by the script that starts them.
    """
    sections = sum(len(_SHARING_SIZES[row.name]) for row in run.rows)
    return ["--seconds", f"{run.size_range.budget_s / sections:.3f}", *_words(run)]


# As many repetitions as there is time for: programs that are slowed
# down then still run as long as the others.
_SHARING_LEVELS = at_levels(
    SizeRange((3, 24), 1, 1, budget_s=2),
    SizeRange((3, 24), 1, 1, budget_s=6),
    SizeRange((3, 24), 1, 1, budget_s=20),
)
SHARING = _suite(
    "sharing",
    "the instrument of programs side by side",
    _reader("sharing", _sharing_record),
    tuple(map(_sharing_row, _SHARING_SIZES)),
    "Several programs on one node, pinned apart or unaware of each other: each alone and beside "
    "the others",
    (Plan("program", "sharing", tuple(_SHARING_SIZES), _SHARING_LEVELS),),
    arguments=_sharing_arguments,
    sizes=gated_sizes,
)


# bisection: streams between two halves of the nodes at the same time, one way and both ways.

#: Of all pairs together, of the slowest pair of ranks, and the share of the
#: pairs of nodes that are on different switches.
_BISECTION = ("bandwidth_mb_per_s", "bandwidth_slowest_mb_per_s", "across_switches")
_MIB = 1 << 20


def _bisection_record(row: dict[str, Any], head: dict[str, Any]) -> Record:
    share = sum(left[2] != right[2] for left, right in head["pairs"]) / len(head["pairs"])
    values = (row["all_mb_per_s"], row["slowest_mb_per_s"], share)
    return _record("bisection", row, head, dict(zip(_BISECTION, values, strict=True)))


def bisection_facts(text: str) -> Facts:
    """How the nodes were split, which pair was slowest with the largest
    messages, and where the pairs' first ranks were.

    :param text: an output that the suite's parser reads.
    """
    try:
        printed = reading.read(text, "the output", "bisection")
    except BadInput:
        return Facts()
    split = printed.head["split"]
    last = printed.rows[-1]
    slow = "{benchmark} {bytes} B: ranks {slowest_pair[0]} and {slowest_pair[1]}".format(**last)
    ends = [end for pair in printed.head["pairs"] for end in pair]
    return Facts(
        (
            f"the nodes were split {'into ' * split.startswith('plain')}{split}",
            f"the slowest pair of {slow}",
        ),
        {rank: host for rank, host, _ in ends},
    )


def _bisection_arguments(run: Run) -> list[str]:
    repetitions = str(run.size_range.repetitions)
    return [
        "--ppn",
        str(run.ranks // run.nodes),
        "--repetitions",
        repetitions,
        *_words(run, sizes_of_doublings),
    ]


# A link of 100 Gbit/s carries that much both ways in the time of a level.
_BISECTION_LEVELS = at_levels(
    SizeRange((20, 20), 10, 20), SizeRange((16, 22), 50, 40), SizeRange((16, 22), 100, 80)
)
BISECTION = _suite(
    "bisection",
    "the instrument of bisection bandwidth",
    _reader("bisection", _bisection_record),
    tuple(
        _row(
            "bisection",
            name,
            "halves",
            _BISECTION,
            bound,
            min_nodes=2,
            gated_sizes={"bandwidth_mb_per_s": (_MIB, 4 * _MIB)},
            directions=directions,
            summed=True,
        )
        for name, bound, directions in (
            ("Bisection", traffic.window_one_way, 1),
            ("Bisection_both_ways", traffic.window_both_ways, 2),
        )
    ),
    "Bandwidth between two halves of the nodes, on different switches if known",
    (Plan("halves", "bisection", ("Bisection", "Bisection_both_ways"), _BISECTION_LEVELS),),
    collective=False,
    arguments=_bisection_arguments,
    sizes=sizes_of_doublings,
    same_repetitions=True,
    facts=bisection_facts,
)


# loaded_latency: small messages alone and beside streams, for systems too small for GPCNeT.

VICTIM = "Victim"
LOAD = "Load"
IMPACT = "Victim_impact"
ALONE = "alone"
LOADED = "loaded"
#: Where the aggressors are, each a plan; what is measured elsewhere
#: than beside the victims is called by it.
BESIDE = "beside"
AGGRESSORS = (BESIDE, "linear", "interleaved", "random")
#: Bytes of the instrument's messages: a victim's, and those of the streams.
PING = 8
STREAM = 131072
#: Repetitions for each MiB that a link may carry: each may wait for the 2
#: MiB of a stream's window, 17 ms on 1 Gbit/s.
PER_MIB = 500
#: Mean and percentiles over the repetitions of all victims.
_LATENCIES = ("latency_us", "latency_p50_us", "latency_p90_us", "latency_p99_us")
#: Nodes that are named of one output.
_FEW_NODES = 8


def _called(name: str, aggressors: str) -> str:
    return name if aggressors == BESIDE else f"{name}_{aggressors}"


def _loaded_rows(aggressors: str) -> tuple[Benchmark, ...]:
    least = {"min_nodes": 2, "min_ppn": 2} if aggressors == BESIDE else {"min_nodes": 4}
    return tuple(
        _row(
            "loaded_latency",
            _called(name, aggressors),
            "halves",
            quantities,
            bound,
            gated_sizes={quantities[0]: (size,)},
            variants=variants,
            **least,
        )
        for name, quantities, bound, size, variants in (
            (VICTIM, _LATENCIES, traffic.both_ways, PING, (ALONE, LOADED)),
            (LOAD, ("bandwidth_mb_per_s",), traffic.stream_window, STREAM, ("",)),
            (IMPACT, ("impact", "impact_p99"), traffic.nothing, PING, ("",)),
        )
    )


def _parse_loaded(text: str, source: str) -> list[Record]:
    """Records of the rows, and then how many times longer the victims took beside the streams."""
    printed = read(text, source, "loaded_latency")
    if [(row["benchmark"], row["state"]) for row in printed.rows] != [
        (VICTIM, ALONE),
        (VICTIM, LOADED),
        (LOAD, LOADED),
    ]:
        raise OutputError(
            "output-damaged",
            f"{source}: the rows are not those of latency alone, latency under load and load; "
            "run it again.",
        )
    head = printed.head
    # Outputs of before had no other.
    aggressors = head.get("aggressors", BESIDE)
    *victims, load = (
        {**row, "benchmark": _called(row["benchmark"], aggressors)} for row in printed.rows
    )
    alone, loaded = (
        dict(zip(_LATENCIES, (row[name] for name in _TIMES), strict=True)) for row in victims
    )
    values = {
        name: loaded[of] / alone[of]
        for name, of in {"impact": "latency_us", "impact_p99": "latency_p99_us"}.items()
    }
    impact = _called(IMPACT, aggressors)
    return [
        *(
            _record("loaded_latency", row, head, times, row["state"])
            for row, times in zip(victims, (alone, loaded), strict=True)
        ),
        _record("loaded_latency", load, head, {"bandwidth_mb_per_s": load["mb_per_s"]}),
        Record("loaded_latency", impact, head["ranks"], 1, PING, None, values),
    ]


def _head_of_loaded(text: str) -> Mapping[str, Any]:
    """Of an output that the suite's parser reads; empty for any other."""
    try:
        return reading.read(text, "the output", "loaded_latency").head
    except BadInput:
        return {}


def _loaded_facts(text: str) -> Facts:
    """Which nodes were the victims'."""
    head = _head_of_loaded(text)
    victims = head.get("victims", ())
    names = ", ".join(host for _, host in victims[:_FEW_NODES])
    more = f" and {len(victims) - _FEW_NODES} more" if victims[_FEW_NODES:] else ""
    return Facts(
        (f"aggressors {head['aggressors']}, victims on {names}{more}",) if victims else (),
        dict(victims),
    )


def _loaded_arguments(run: Run) -> list[str]:
    """Ranks of each node and repetitions, fewer on a slow link."""
    repetitions = min(run.size_range.count, PER_MIB * run.size_range.volume_mib)
    return [
        "--ppn",
        str(run.ranks // run.nodes),
        "--repetitions",
        str(repetitions),
        "--aggressors",
        run.plan.name,
        *run.options,
    ]


def _burst_words(value: str) -> tuple[str, ...]:
    burst, pause = re.findall("[0-9]+", value)
    return ("--burst-ms", burst, "--pause-ms", pause)


_LOADED_LEVELS = at_levels(
    SizeRange((3, 3), 200, 1024), SizeRange((3, 3), 2000, 1024), SizeRange((3, 3), 20000, 1024)
)
_LOADED_ROWS = {aggressors: _loaded_rows(aggressors) for aggressors in AGGRESSORS}
LOADED_LATENCY = _suite(
    "loaded_latency",
    "the instrument of latency under load",
    _parse_loaded,
    tuple(row for rows in _LOADED_ROWS.values() for row in rows),
    "Latency between pairs of nodes alone and while other ranks stream, mean and tail",
    tuple(
        Plan(aggressors, "loaded_latency", tuple(row.name for row in rows), _LOADED_LEVELS)
        for aggressors, rows in _LOADED_ROWS.items()
    ),
    collective=False,
    arguments=_loaded_arguments,
    sizes=gated_sizes,
    facts=_loaded_facts,
    shown_arguments=lambda text: _head_of_loaded(text).get("arguments"),
    options=(
        SuiteOption(
            "bursts",
            "aggressors stream and rest in turn",
            default="steady",
            groups=("loaded_latency",),
            pattern="[1-9][0-9]?ms_on_[1-9][0-9]?ms_off",
            shape="steady, and times of up to 99 ms like 10ms_on_90ms_off",
            words=_burst_words,
        ),
        SuiteOption(
            "seed",
            "of aggressors at random",
            default="1",
            groups=("loaded_latency",),
            pattern="[0-9]{1,9}",
            shape="whole numbers of up to 9 digits",
            words=lambda value: ("--seed", value),
            change=lambda row, value, ranks: row if row.name.endswith("_random") else None,
        ),
    ),
)


# Collective calls: what all ranks must at least send together, and how it crosses nodes
# (``Benchmark.crossing``). A vector that ends in shares leaves something over that depends on the
# ranks, and what a scan sends depends on where they are.
_BOUNDS: Mapping[str, tuple[traffic.Bound, str | int]] = {
    "Allreduce": (traffic.every_rank_receives, 0),
    "Alltoall": (traffic.all_to_all, 2),
    "Alltoallv": (traffic.all_to_all, 2),
    "Allgather": (traffic.all_to_all, 1),
    "Allgatherv": (traffic.all_to_all, 1),
    "Bcast": (traffic.one_per_other_rank, 0),
    "Reduce": (traffic.one_per_other_rank, 0),
    "Gather": (traffic.one_per_other_rank, 1),
    "Gatherv": (traffic.one_per_other_rank, 1),
    "Scatter": (traffic.one_per_other_rank, 1),
    "Scatterv": (traffic.one_per_other_rank, 1),
    "Reduce_scatter_block": (traffic.equal_blocks, NOTHING_SURE),
    "Reduce_scatter": (traffic.equal_blocks, NOTHING_SURE),
    "Scan": (traffic.one_per_other_rank, NOTHING_SURE),
}


# guidelines: each call against what replaces it, at sizes four times apart. A row is called
# ``CALL-vs-CALL[-CALL]``, ``CALL-vs-larger`` (itself with four times the data) or ``CALL-vs-parts``
# (four calls with a quarter of the data each). Sources: ``harness/instruments/guidelines.py``.

#: Median time of the call, of its mock-up, and the median of their ratio.
_GUIDELINES = ("call_us", "mockup_us", "call_over_mockup")
#: The fifteen patterns of PGMPI (github.com/hunsa/pgmpi,
#: lib/default_config/guideline_catalog.json).
PATTERNS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "Gather": (("Allgather",), ("Reduce",)),
    "Allgather": (("Alltoall",), ("Allreduce",), ("Gather", "Bcast")),
    "Scatter": (("Bcast",),),
    "Bcast": (("Scatter", "Allgather"),),
    "Reduce": (("Allreduce",), ("Reduce_scatter_block", "Gather")),
    "Allreduce": (("Reduce", "Bcast"), ("Reduce_scatter_block", "Allgather")),
    "Reduce_scatter_block": (("Reduce", "Scatter"),),
    "Reduce_scatter": (("Allreduce",), ("Reduce", "Scatterv")),
    "Scan": (("Exscan", "Reduce_local"),),
}
#: Calls that more data must not make faster, and those whose data
#: can be cut in parts without another copy.
MONOTONE = (*PATTERNS, "Alltoall")
SPLIT = ("Bcast", "Reduce", "Allreduce", "Scan")
#: Calls whose size is that of one rank's block, so that buffers grow with
#: the ranks; of the others it is the whole vector's.
IN_BLOCKS = ("Gather", "Allgather", "Scatter", "Alltoall")


def _twice(bound: traffic.Bound) -> traffic.Bound:
    """What call and mock-up send: each at least what the call's result needs."""
    return lambda message_bytes, ranks: 2 * bound(message_bytes, ranks)


#: Every guideline, in the order they are measured.
_GUIDELINE_ROWS: tuple[Benchmark, ...] = tuple(
    _row(
        "guidelines",
        f"{call}-vs-{mockup}",
        "all",
        _GUIDELINES,
        _twice(_BOUNDS[call][0]),
        crossing=_BOUNDS[call][1],
    )
    for call, mockup in (
        *((call, "-".join(mockup)) for call, mockups in PATTERNS.items() for mockup in mockups),
        *((call, "larger") for call in MONOTONE),
        *((call, "parts") for call in SPLIT),
    )
)


def _guideline_names(blocks: bool) -> tuple[str, ...]:
    return tuple(
        row.name
        for row in _GUIDELINE_ROWS
        if (row.name.partition("-vs-")[0] in IN_BLOCKS) is blocks
    )


def _guideline_sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """Sizes four times apart, of which four times the largest is still
    in the range; the smallest in any case.

    Where they begin at 16 bytes, 8 as well: one double, which
    programs add up more often than anything else.
    """
    smallest, largest = size_range.log2
    own = range(smallest, max(smallest, largest - 2) + 1, 2)
    return tuple(1 << log2 for log2 in ([3, *own] if smallest == 4 else own))


# The largest message is that of a mock-up with four times the data.
_GUIDELINE_LEVELS = at_levels(
    SizeRange((10, 12), 20, 20, 2),
    SizeRange((4, 20), 1000, 256, 20),
    SizeRange((4, 22), 2000, 512, 60),
)
GUIDELINES = _suite(
    "guidelines",
    "the guidelines' instrument",
    _reader(
        "guidelines",
        lambda row, head: _record(
            "guidelines", row, head, {name: row[name] for name in _GUIDELINES}
        ),
    ),
    _GUIDELINE_ROWS,
    "Collective calls against equivalent ones (self-consistent performance guidelines)",
    (
        Plan("blocks", "guidelines", _guideline_names(blocks=True), _GUIDELINE_LEVELS, fan=True),
        Plan("vectors", "guidelines", _guideline_names(blocks=False), _GUIDELINE_LEVELS),
    ),
    arguments=_bounded(_guideline_sizes),
    sizes=_guideline_sizes,
)


# collective_times: one collective under one algorithm, or how many messages it sends.

#: 32 B and 1 MiB, at which the Cambridge paper compares MPI libraries.
KIVIAT_LOG2 = (5, 20)


def _collective_record(row: dict[str, Any], head: dict[str, Any]) -> Record:
    return _record(
        "collective_times",
        {**head, **row},
        head,
        {QUANTITY: row["p50_us"]},
        f"{VARIANT}{head['algorithm']}",
    )


def _collective_sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """Sizes four times apart up to the largest, and what lies between
    them of those that Kiviat charts are drawn at.
    """
    smallest, largest = size_range.log2
    apart = range(smallest, max(smallest, largest) + 1, 2 if largest - smallest > 1 else 1)
    return tuple(
        1 << log2
        for log2 in sorted({*apart, *(log2 for log2 in KIVIAT_LOG2 if smallest <= log2 <= largest)})
    )


# The budget is of one launch, all sizes together. The label of the
# algorithm is added to its arguments by the sweep.
_COLLECTIVE_LEVELS = at_levels(
    SizeRange((5, 11), 20, 16, 1), SizeRange((3, 20), 300, 64, 3), SizeRange((2, 22), 1000, 256, 20)
)
COLLECTIVE_TIMES = _suite(
    "collective_times",
    "the instrument of collective algorithms",
    _reader("collective_times", _collective_record),
    tuple(
        Benchmark(
            name,
            "collective_times",
            "collective_times",
            GROUP,
            "all",
            (QUANTITY,),
            _BOUNDS[name][0],
            crossing=_BOUNDS[name][1],
        )
        for name in COLLECTIVES
    ),
    "One collective with each algorithm of its MPI, interleaved in one job",
    tuple(
        Plan(
            name.lower(),
            "collective_times",
            (name,),
            _COLLECTIVE_LEVELS,
            fan=name in BLOCK_COLLECTIVES,
        )
        for name in COLLECTIVES
    ),
    arguments=_bounded(_collective_sizes),
    sizes=_collective_sizes,
)


def read_counts(text: str, source: str) -> dict[int, tuple[int, int, str]]:
    """Message size to messages, their bytes together, and a checksum of who
    sends what to whom, of an output of ``--count``.

    :raises OutputError: if it is damaged, mixed up, truncated or empty.
    """
    rows = read(text, source, "message_counts").rows
    return {row["bytes"]: (row["messages"], row["sent_bytes"], row["pattern"]) for row in rows}


# pair_map: pairs of nodes, each with each or a sample, in rounds. Metrics sum up a map.

PAIR_LATENCY = "Pair_latency"
PAIR_BANDWIDTH = "Pair_bandwidth"
#: Bytes of a latency's messages, and its repetitions at the levels.
PING_BYTES = 8
PINGS = {"smoke": 50, "nightly": 100, "acceptance": 500}
#: Fewest messages of a bandwidth: what a token bucket or a buffer
#: gives for nothing is then small beside them.
LEAST_MESSAGES = 3


def read_pairs(text: str, source: str) -> map_output.MapOutput:
    """The map that an output has, up to its last checksum.

    :raises OutputError: it is not of this instrument, or damaged before its first checksum.
    """
    try:
        return map_output.read(text, source)
    except BadInput as error:
        raise OutputError(error.code, str(error)) from None


def pair_records(pair_map: map_output.MapOutput, source: str) -> list[Record]:
    """What the median pair and the slowest have: latency, then
    bandwidth; a pair without a value is an error.
    """
    if not pair_map.whole:
        raise OutputError(
            "output-cut",
            f"{source}: the pair map was cut off after {len(pair_map.values)} values; run it "
            "again.",
        )
    if pair_map.silent:
        named = ", ".join(f"{node} ({why})" for node, why in pair_map.silent.items())
        raise OutputError(
            "output-empty",
            f"{source}: nodes stopped answering: {named}; see to them, and run it again.",
        )
    if lacking := list(pair_map.values.missing()):
        raise OutputError(
            "output-cut",
            f"{source}: {len(lacking)} values of pairs are missing, the first from "
            f"{lacking[0].source} to {lacking[0].target}; run it again.",
        )
    return [_pair_record(pair_map, LATENCY), _pair_record(pair_map, BANDWIDTH)]


def _pair_record(pair_map: map_output.MapOutput, quantity: str) -> Record:
    source, target, column = pair_map.values.measured(quantity)
    sent = [array("I") for _ in pair_map.nodes]
    for at, node in enumerate(source):
        sent[node].append(at)
    by_pair = (
        places
        for own in sent
        for _, places in groupby(sorted(own, key=target.__getitem__), target.__getitem__)
    )
    ordered = sorted(median(map(column.__getitem__, places)) for places in by_pair)
    values = len(column)
    size = pair_map.values.message_bytes(quantity)
    if quantity == LATENCY:
        # Of each value both ranks send.
        messages = 2 * values * pair_map.latency_count
        name = PAIR_LATENCY
        summary = {
            f"latency_p{percent}_us": _percentile(ordered, percent) for percent in (50, 90, 99)
        }
    else:
        messages = values * pair_map.message_count
        name = PAIR_BANDWIDTH
        summary = {
            "bandwidth_p50_mb_per_s": _percentile(ordered, 50),
            "bandwidth_slowest_mb_per_s": ordered[0],
        }
    # Rounded down: it is the least that was sent.
    variant = Memory(DEVICE).variant if pair_map.memory else ""
    return Record(
        "pair_map",
        name,
        len(pair_map.nodes),
        1,
        size,
        max(1, messages // len(pair_map.nodes)),
        summary,
        variant,
    )


def _pair_facts(text: str) -> Facts:
    """Design and rounds, and where the ranks were, of a whole output."""
    pair_map = map_output.read_ends(text)
    switches = (
        f"switches from {pair_map.tree.origin}" if pair_map.tree else "the switches are not known"
    )
    took = f" in {pair_map.seconds:.0f} s" if pair_map.seconds is not None else ""
    note = (
        f"{pair_map.expected} values of pairs ({pair_map.design}) in {pair_map.rounds} "
        f"rounds{took}; {switches}"
    )
    return Facts((note,), dict(enumerate(map(node_of, pair_map.nodes))))


def _pair_sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    return (PING_BYTES,) if row.name == PAIR_LATENCY else (1 << size_range.log2[1],)


def _pair_arguments(run: Run) -> list[str]:
    """Sizes with their repetitions; rounds, passes and the rest are the test's."""
    size = 1 << run.size_range.log2[1]
    messages = max(LEAST_MESSAGES, min(run.size_range.volume_mib << 20, 1 << 40) // size)
    return [
        "--latency",
        f"{PING_BYTES}x{run.size_range.count}",
        "--bandwidth",
        f"{size}x{messages}",
    ]


_PAIR_LEVELS = at_levels(
    *(
        SizeRange((20, 20), PINGS[level], mib)
        for level, mib in (("smoke", 64), ("nightly", 128), ("acceptance", 512))
    )
)
PAIR_MAP = _suite(
    "pair_map",
    "the instrument of pair maps",
    lambda text, source: pair_records(read_pairs(text, source), source),
    # Quantiles are over the pairs, of which each direction counts with the median of its values.
    # Every rank sends as much as any other, and a link is busy both ways in turn.
    tuple(
        _row(
            "pair_map",
            name,
            BY_NODES,
            quantities,
            traffic.every_rank_once,
            gated_sizes={quantities[0]: (size,)},
        )
        for name, quantities, size in (
            (PAIR_LATENCY, ("latency_p50_us", "latency_p90_us", "latency_p99_us"), PING_BYTES),
            (PAIR_BANDWIDTH, ("bandwidth_p50_mb_per_s", "bandwidth_slowest_mb_per_s"), _MIB),
        )
    ),
    "Latency and bandwidth of pairs of nodes in rounds of disjoint pairs, to locate a slow "
    "node, cable or switch",
    (Plan("map", "pair_map", (PAIR_LATENCY, PAIR_BANDWIDTH), _PAIR_LEVELS),),
    collective=False,
    sizes=_pair_sizes,
    arguments=_pair_arguments,
    facts=_pair_facts,
    compares_data=True,
    on_gpu=lambda row, memory, version: (
        (device_memory.OPTION, memory.kind)
        if memory.word == DEVICE and memory.kind in device_memory.LIBRARIES
        else None
    ),
)

#: All of them, for the registry.
SUITE = (BISECTION, COLLECTIVE_TIMES, GROWTH, GUIDELINES, LOADED_LATENCY, PAIR_MAP, SHARING)
