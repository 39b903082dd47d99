"""Columns of OMB's tables: titles, which of them a benchmark prints, and what the columns of one row say about each other.

Titles are those of ``print_only_header``, ``print_only_header_nbc`` and ``print_header_one_sided`` in util/osu_util_mpi.c. A
percentile is over the repetitions of a size (``-z``, since 7.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from ...vocabulary import QUANTITIES
from ..benchmark import SIZELESS, Benchmark
from .rows import CONGESTION, OVERLAP

SIZE, ITERATIONS, VALIDATION = "Size", "Iterations", "Validation"
#: Column title to what stands in it; of several quantities, the one the row has.
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
#: Fan-in and fan-out print a bandwidth under the title of a latency (osu_bw_fan_in.c computes MB/s; ``print_only_header`` of
#: 7.4 and 7.5 does not know their kind), and so the percentiles.
_MISTITLED = {"Avg Latency(us)": "bandwidth_mb_per_s"}
_TAIL = re.compile(r"P([0-9]{1,2}) Tail (BW\(MB/s\)|Lat\(us\))")
#: Columns of ``-f`` beside those of :data:`rows.OVERLAP`; minimum and maximum since 5.7.1.
FULL_OVERLAP = (
    "t_ovrl_us",
    "t_cpu_us",
    "t_init_us",
    "t_test_us",
    "t_wait_us",
    "t_pure_us",
    "t_min_us",
    "t_max_us",
    "overlap_percent",
)
RANGE = ("t_min_us", "t_max_us")
_OVERLAP_LAYOUTS = (
    OVERLAP,
    FULL_OVERLAP,
    tuple(name for name in FULL_OVERLAP if name not in RANGE),
)
#: Before, ``-f`` prints a minimum and a maximum that are none on three ranks or more: rank 0 reduces MAX, then MIN, the others
#: MIN, then MAX (``calculate_and_print_stats`` of 5.7.1 to 7.0).
RIGHT_RANGE_SINCE = (7, 1)
_MEANS = ("Avg Latency(us)", "Min Latency(us)", "Max Latency(us)", ITERATIONS)
_PARTS = ("Overall(us)", "Compute(us)", "Coll. Init(us)", "MPI_Test(us)", "MPI_Wait(us)", "Pure Comm.(us)")
#: Columns of barriers of 7.1, which print no head: short ones and those of ``-f``, by whether they overlap.
_HEADLESS = {
    False: (_MEANS[:1], _MEANS),
    True: ((*_PARTS[:2], _PARTS[-1], "Overlap(%)"), (*_PARTS, "Min Comm.(us)", "Max Comm.(us)", "Overlap(%)")),
}
COLUMN = re.compile("|".join([*map(re.escape, (SIZE, *_QUANTITIES, ITERATIONS, VALIDATION)), _TAIL.pattern]))
#: The column of ``-D``, whose tables are not read.
DERIVED_TYPE = "Transmit Size"

#: What is printed of a value: two decimals (``FLOAT_PRECISION``).
_HALF = 0.005


def quantity(row: Benchmark, title: str) -> str | None:
    """Key of :data:`vocabulary.QUANTITIES` of a column; ``None`` for a title that holds none, or a percentile unknown there."""
    bandwidths = row.group == CONGESTION
    if tail := _TAIL.fullmatch(title):
        kind = "bandwidth_p{}_mb_per_s" if bandwidths or tail[2].startswith("BW") else "latency_p{}_us"
        return name if (name := kind.format(tail[1])) in QUANTITIES else None
    if bandwidths and title in _MISTITLED:
        return _MISTITLED[title]
    names = _QUANTITIES.get(title, ())
    return next((name for name in names if name in row.quantities), names[0] if names and row.quantities == OVERLAP else None)


def unknown_percentile(titles: Sequence[str]) -> str:
    """The first percentile that is no quantity; empty if there is none."""
    tails = (found for title in titles if (found := _TAIL.fullmatch(title)))
    return next((f"P{found[1]}" for found in tails if f"latency_p{found[1]}_us" not in QUANTITIES), "")


def fits(row: Benchmark, titles: Sequence[str]) -> bool:
    """Whether a benchmark prints these columns, in this order, with or without ``-f``, ``-c`` and ``-z``."""
    sized = [SIZE] if row.sizes != SIZELESS else []
    tails = [title for title in titles if _TAIL.fullmatch(title)]
    values = [title for title in titles if title in _QUANTITIES]
    printed = tuple(quantity(row, title) for title in values)
    full = row.quantities != OVERLAP and len(row.quantities) == 3 and len(values) == 3
    layouts = _OVERLAP_LAYOUTS if row.quantities == OVERLAP else (row.quantities[: len(values)],)
    after = [*([ITERATIONS] if full else []), *([VALIDATION] if VALIDATION in titles else []), *tails]
    return bool(values) and printed in layouts and list(titles) == [*sized, *values, *after]


def headless(row: Benchmark, cells: Sequence[str]) -> list[tuple[str, int]]:
    """Column titles of a row without a head, and where each cell of it must end; empty if no benchmark prints such a row.

    The widths are those of ``print_stats`` and ``print_stats_nbc``.
    """
    checked = [VALIDATION] if cells[-1:] in (["Pass"], ["Fail"]) else []
    titles = next((each for each in _HEADLESS[row.quantities == OVERLAP] if len(each) + len(checked) == len(cells)), ())
    widths = [{_MEANS[0]: 17, ITERATIONS: 12}.get(title, 18) for title in (*titles, *checked)]
    return list(zip((*titles, *checked), accumulate(widths), strict=True)) if titles else []


def contradiction(message_bytes: int | None, values: Mapping[str, float]) -> str:
    """What is wrong with a row whose columns cannot come from one measurement; empty if nothing is."""
    return _order(values) or _overlap(values) or _rate(message_bytes or 0, values)


def _order(values: Mapping[str, float]) -> str:
    mean = "t_pure_us" if "t_pure_us" in values else "t_avg_us"
    times = [values[name] for name in ("t_min_us", mean, "t_max_us") if name in values]
    if any(high < low - 2 * _HALF for low, high in pairwise(times)):
        return "the mean is not between minimum and maximum; the columns are damaged or mixed up"
    for kind in ("latency_p{}_us", "bandwidth_p{}_mb_per_s"):
        tails = [values[name] for percent in (50, 90, 99) if (name := kind.format(percent)) in values]
        if tails != sorted(tails):
            return "a percentile is below a smaller one; the columns are damaged or mixed up"
    return ""


def _overlap(values: Mapping[str, float]) -> str:
    """Overlap is 100 - (overall - compute) / pure x 100, at least 0 (``print_stats_nbc``); each is rounded on its own."""
    if "overlap_percent" not in values:
        return ""
    overlap, pure = values["overlap_percent"], values["t_pure_us"]
    visible = values["t_ovrl_us"] - values["t_cpu_us"]
    if pure <= _HALF:
        return "" if overlap >= 0 else "an overlap below nothing"
    bounds = [100 - (visible + way * 2 * _HALF) / (pure + sign * _HALF) * 100 for way in (-1, 1) for sign in (-1, 1)]
    low, high = max(0.0, min(bounds)) - 2 * _HALF, max(0.0, max(bounds)) + 2 * _HALF
    if not low <= overlap <= high:
        return "overlap is not what overall, computation and pure communication make; the columns are damaged or mixed up"
    return ""


def _rate(size: int, values: Mapping[str, float]) -> str:
    rate, bandwidth = values.get("message_rate_per_s"), values.get("bandwidth_mb_per_s", 0.0)
    if rate is not None and abs(rate * size / 1e6 - bandwidth) > _HALF * (1 + size / 1e6) + bandwidth * 1e-9:
        return "bandwidth is not message rate x size; the columns are damaged or mixed up"
    return ""
