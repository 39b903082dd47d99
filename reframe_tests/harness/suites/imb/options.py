"""Options of the Intel MPI Benchmarks that may be set (IMB User Guide, "Command-line Control"; ``-help`` of 2021.11)."""

from __future__ import annotations

import re
from dataclasses import replace

from ...vocabulary import BadInput, NotMeasured
from .. import traffic
from ..benchmark import SERIES, Benchmark
from ..options import ALIKE, NAMED, PRINTED, SuiteOption, read_lengths
from . import accepted
from .header import ACTIVE, ranks_series
from .rows import TIME_RANGE, WINDOW_OPTION

_ROOTED = ("collectives", "nonblocking", "nonblocking_pure", "persistent")
#: Groups whose programs take ranks, memory and lengths alike.
_COMMON = accepted.groups("-off_cache")
#: Bytes of an element of a reduction (MPI_FLOAT).
_ELEMENT = 4
#: Any year from 2019 on, when numbers of ranks became those of helper_init_scope.
_YEAR = 2021
_TOUCHED = {"written": ("-msgwr", "on"), "read": ("-msgrd", "on"), "both": ("-msgrd", "on", "-msgwr", "on")}


def _groups_of_pairs(row: Benchmark, value: str, ranks: int) -> Benchmark:
    """Pairs that run side by side: of all together, or each for itself (IMB_output.c).

    What one of several pairs gets says nothing sure about a link.
    """
    groups = ranks // 2
    if groups < 2:
        raise NotMeasured(f"multi={value} needs at least 4 ranks, two pairs side by side; there are {ranks}")
    if value == "1":
        return replace(row, variants=tuple(f"group={number}" for number in range(groups)), directions=0)
    times = tuple(name for each in row.quantities for name in (TIME_RANGE if each == "latency_us" else (each,)))
    gates = {"t_max_us" if name == "latency_us" else name: sizes for name, sizes in row.gated_sizes.items()}
    return replace(row, quantities=times, gated_sizes=gates, directions=0)


def _mapped(row: Benchmark, value: str, ranks: int) -> Benchmark:
    first, second = (int(word) for word in value.split("x"))
    if first * second != ranks:
        raise NotMeasured(f"map={value} lays out {first * second} ranks; there are {ranks}")
    return row


def _lengths_fault(path: str) -> str:
    if re.search(r"\s", path):
        return f"a blank in '{path}' would end the argument; use another path"
    try:
        read_lengths(path)
    except BadInput as error:
        return str(error)
    return ""


def _lengths(row: Benchmark, path: str) -> tuple[int, ...]:
    unit = _ELEMENT if row.reduction or row.binary == ACTIVE else 1
    return tuple(-(-length // unit) * unit for length in read_lengths(path))


def _with_lengths(row: Benchmark, path: str, ranks: int) -> Benchmark | None:
    if row.sizes != SERIES:
        return None
    sizes = _lengths(row, path)
    if len(set(sizes)) < len(sizes):
        raise NotMeasured(f"two lengths of {path} are one size of {row.name}, whose elements have {_ELEMENT} bytes")
    return row


def _on_more_ranks(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    """The row on each number of ranks: npmin, twice as many, ..., all; what a part of them gets says nothing about a link."""
    if row.ranks in ("pair", "one"):
        return None
    series = ranks_series(row, ranks, int(value), _YEAR)
    if len(series) < 2:
        raise NotMeasured(f"npmin={value} leaves {row.name} one number of ranks, all {ranks}; ask for fewer")
    variants = (",".join(filter(None, (mode, f"ranks={count}"))) for count in series for mode in row.variants)
    return replace(row, variants=tuple(variants), directions=0)


def _in_one_mode(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    mode = value.replace("_", "-")
    return replace(row, variants=(mode,)) if len(row.variants) > 1 and mode in row.variants else None


def _with_window(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    """Uniband and Biband, also those of threads, whose default is the window of the others."""
    if row.traffic not in (traffic.window_one_way, traffic.window_both_ways):
        return None
    return replace(row, newer_options=(WINDOW_OPTION[0], value), traffic=traffic.with_window(row.traffic, int(value)))


def _argument(name: str, meaning: str, argument: str, values: tuple[str, ...], groups: tuple[str, ...] = ()) -> SuiteOption:
    """An option whose value is the value of one argument.

    :param values: the default first.
    :param groups: those it is for; without any, all whose programs accept the argument.
    """
    return SuiteOption(
        name,
        f"{meaning} ({argument})",
        values[0],
        groups or accepted.groups(argument),
        values,
        apart=NAMED,
        words=lambda value: (argument, value),
        refusals=accepted.refusals(argument),
    )


OPTIONS = (
    SuiteOption(
        "npmin",
        "measured on so many ranks, on twice as many, ..., and on all (-npmin)",
        "all",
        tuple(name for name in accepted.groups("-npmin") if name not in ("p2p", "p2p_sources")),
        pattern=r"[1-9][0-9]{0,5}",
        shape="all or the smallest number of ranks",
        since=(2019,),
        apart=PRINTED,
        change=_on_more_ranks,
        example="2",
        refusals={**accepted.refusals("-npmin"), **dict.fromkeys(("p2p", "p2p_sources"), "it measures one pair of ranks")},
    ),
    _argument("rank_sync", "ranks wait for each other before each repetition", "-sync", ("on", "off")),
    _argument("imb_barrier", "ranks wait in a barrier of IMB's own and not in the library's", "-imb_barrier", ("off", "on")),
    _argument("imb_warm_up", "repetitions before a size is timed", "-warm_up", ("on", "off")),
    SuiteOption(
        "thread_level",
        "MPI_Init_thread asks for this level, whose locks then cost what they cost (-thread_level)",
        "default",
        tuple(name for name in accepted.groups("-thread_level") if name != "threads"),
        ("default", "single", "funneled", "serialized", "multiple"),
        apart=NAMED,
        words=lambda value: ("-thread_level", value),
        refusals={**accepted.refusals("-thread_level"), "threads": "its threads need the level 'multiple'"},
    ),
    SuiteOption(
        "aggregate_mode",
        "accesses are completed together, or each before the next; multi: one after the other (-aggregate_mode)",
        "multi",
        accepted.groups("-aggregate_mode"),
        ("multi", "aggregate", "non_aggregate"),
        since=(2019,),
        apart=ALIKE,
        words=lambda value: ("-aggregate_mode", value),
        change=_in_one_mode,
        refusals=accepted.refusals("-aggregate_mode"),
    ),
    SuiteOption(
        "imb_window",
        f"messages that are on their way at once, {traffic.WINDOW} without it (-window_size)",
        "default",
        ("transfer", "threads"),
        pattern=r"[1-9][0-9]{0,3}",
        shape="default or a number of messages up to 9999",
        since=(2021, 1),
        apart=NAMED,
        change=_with_window,
        refusals=accepted.refusals("-window_size"),
    ),
    SuiteOption(
        "message_memory",
        "the message is written before it is sent, read after it came, or both (-msgwr, -msgrd)",
        "untouched",
        accepted.groups("-msgrd"),
        ("untouched", "written", "read", "both"),
        apart=NAMED,
        words=lambda value: _TOUCHED[value],
        refusals=accepted.refusals("-msgrd"),
    ),
    # src_cpp/MT/MT_benchmark.h: normal_barrier and special_barrier, between two barriers of OpenMP; malloc_option.
    _argument(
        "thread_barrier",
        "ranks wait for each other before a size: in MPI_Barrier, by MPI_Sendrecv of nothing (special), or not at all",
        "-barrier",
        ("on", "special", "off"),
    ),
    _argument(
        "thread_memory",
        "buffers of the threads: one after the other by one thread, as one block, or each by its own thread",
        "-malloc_algo",
        ("serial", "continuous", "parallel"),
    ),
    _argument(
        "root_shift", "the root of a collective is another rank in each repetition", "-root_shift", ("off", "on"), _ROOTED
    ),
    SuiteOption(
        "off_cache",
        "each repetition uses other memory, so that none of it is in a cache of so many MB (-off_cache)",
        "off",
        _COMMON,
        pattern=r"-1|[1-9][0-9]{0,4}",
        shape="off, -1 (IMB's own size of the cache) or the size of the largest cache in MB",
        apart=NAMED,
        words=lambda value: ("-off_cache", value),
        refusals=accepted.refusals("-off_cache"),
    ),
    SuiteOption(
        "multi",
        "all pairs run side by side: 0: the slowest counts, 1: each is shown (-multi)",
        "off",
        ("p2p",),
        ("off", "0", "1"),
        apart=NAMED,
        words=lambda value: ("-multi", value),
        refusals=accepted.refusals("-multi"),
        change=_groups_of_pairs,
    ),
    SuiteOption(
        "map",
        "ranks are numbered column by column in a grid of PxQ (-map)",
        "default",
        ("p2p", *_ROOTED),
        pattern=r"[1-9][0-9]{0,5}x[1-9][0-9]{0,5}",
        shape="default or PxQ, whose product is the number of ranks",
        apart=NAMED,
        words=lambda value: ("-map", value),
        refusals=accepted.refusals("-map"),
        change=_mapped,
    ),
    SuiteOption(
        "lengths",
        "message lengths of a file, one in a line (-msglen)",
        "default",
        accepted.groups("-msglen"),
        pattern=r"/.*",
        shape="default or the absolute path of a file with one length in bytes in each line",
        apart=ALIKE,
        words=lambda value: ("-msglen", value),
        refusals=accepted.refusals("-msglen"),
        change=_with_lengths,
        sizes=_lengths,
        fault=_lengths_fault,
        resolve=lambda value: "+".join(map(str, read_lengths(value))),
    ),
)
