"""Options of the Intel MPI Benchmarks that may be set (IMB User Guide, "Command-line Control"; ``-help`` of 2021.11)."""

from __future__ import annotations

import re
from dataclasses import replace

from ...vocabulary import BadInput, NotMeasured
from ..benchmark import SERIES, Benchmark
from ..options import ALIKE, NAMED, SuiteOption, read_lengths
from .rows import TIME_RANGE

_ROOTED = ("collectives", "nonblocking", "nonblocking_pure")
#: Groups of the binaries that take these options: IMB-MPI1, IMB-NBC and IMB-RMA.
_COMMON = ("p2p", "transfer", "one_sided", "one_sided_local", "p2p_sources", *_ROOTED)
#: Bytes of an element of a reduction (MPI_FLOAT).
_ELEMENT = 4


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
    unit = _ELEMENT if row.reduction else 1
    return tuple(-(-length // unit) * unit for length in read_lengths(path))


def _with_lengths(row: Benchmark, path: str, ranks: int) -> Benchmark | None:
    if row.sizes != SERIES:
        return None
    sizes = _lengths(row, path)
    if len(set(sizes)) < len(sizes):
        raise NotMeasured(f"two lengths of {path} are one size of {row.name}, whose elements have {_ELEMENT} bytes")
    return row


OPTIONS = (
    SuiteOption(
        "root_shift",
        "the root of a collective is another rank in each repetition (-root_shift)",
        "off",
        _ROOTED,
        ("off", "on"),
        apart=NAMED,
        words=lambda value: ("-root_shift", value),
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
    ),
    SuiteOption(
        "multi",
        "all pairs run side by side: 0: the slowest counts, 1: each is shown (-multi)",
        "off",
        ("p2p",),
        ("off", "0", "1"),
        apart=NAMED,
        words=lambda value: ("-multi", value),
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
        change=_mapped,
    ),
    SuiteOption(
        "lengths",
        "message lengths of a file, one in a line (-msglen)",
        "default",
        _COMMON,
        pattern=r"/.*",
        shape="default or the absolute path of a file with one length in bytes in each line",
        apart=ALIKE,
        words=lambda value: ("-msglen", value),
        change=_with_lengths,
        sizes=_lengths,
        fault=_lengths_fault,
        resolve=lambda value: "+".join(map(str, read_lengths(value))),
    ),
)
