"""Columns of IMB's tables: names, formats, and what the columns of one row say about each other.

Names are those of IMB_print_header (src_c/IMB_output.c), init_flags (MT_benchmark.hpp) and imb_p2p_*.c. They are mapped to
quantities by name, never by position: IMB prints minimum, maximum, average in that order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

#: Columns that are no quantity.
GROUP, SIZE, REPETITIONS, DEFECTS = "Group", "#bytes", "#repetitions", "defects"

#: Column name to quantity (``vocabulary.QUANTITIES``). Mbytes are 1e6 bytes (IMB_display_times, ``MEGA``).
QUANTITY_OF_COLUMN: Mapping[str, str] = {
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
KNOWN = frozenset(QUANTITY_OF_COLUMN) | {GROUP, SIZE, REPETITIONS, DEFECTS}
_WHOLE = (GROUP, SIZE, REPETITIONS, "Msg/sec")

#: Half of the last printed digit: IMB prints two decimals, rates none.
_HALF = 0.005
_HALF_RATE = 0.5
#: Relative room for the arithmetic itself.
_EPSILON = 1e-6


@lru_cache(maxsize=64)
def row_pattern(columns: tuple[str, ...]) -> re.Pattern[str]:
    """Pattern of a row: whole numbers and numbers with exactly two decimals, as IMB_edit_format prints them.

    A number that lost a digit at the end, or two columns run together, does not match.
    """
    cells = ("([0-9]+)" if name in _WHOLE else r"([0-9]+\.[0-9]{2})" for name in columns)
    return re.compile(r"[ \t]*" + r"[ \t]+".join(cells) + r"[ \t\r]*")


def contradiction(sizes: Sequence[int | None], values: Mapping[str, Sequence[float]]) -> tuple[int, str] | None:
    """First row whose columns cannot come from one measurement, as (index, what), or ``None``.

    :param sizes: message size of each row in bytes.
    :param values: quantity to one value per row.
    """
    return _times(values) or _overlap(values) or _rate(sizes, values) or _bandwidth(sizes, values)


def _times(values: Mapping[str, Sequence[float]]) -> tuple[int, str] | None:
    if "t_min_us" not in values:
        return None
    room = 2 * _HALF + 1e-9
    for index, (low, high, mean) in enumerate(zip(values["t_min_us"], values["t_max_us"], values["t_avg_us"], strict=True)):
        if not low - room <= mean <= high + room:
            return index, f"t_avg {mean} is not between t_min {low} and t_max {high}"
    return None


def _overlap(values: Mapping[str, Sequence[float]]) -> tuple[int, str] | None:
    for index, value in enumerate(values.get("overlap_percent", ())):
        if value > 100:
            return index, f"an overlap of {value} % is more than everything"
    return None


def _rate(sizes: Sequence[int | None], values: Mapping[str, Sequence[float]]) -> tuple[int, str] | None:
    """Bandwidth is message rate x size (IMB_display_times; imb_p2p_*.c), but not in IMB-MT, which mixes average and maximum."""
    if "message_rate_per_s" not in values or "t_avg_us" in values:
        return None
    for index, (size, rate, bandwidth) in enumerate(
        zip(sizes, values["message_rate_per_s"], values["bandwidth_mb_per_s"], strict=True)
    ):
        product = rate * (size or 0) * 1e-6
        room = _HALF + _HALF_RATE * (size or 0) * 1e-6 + product * _EPSILON
        if abs(product - bandwidth) > room:
            return index, f"{bandwidth} MB/s is not {rate:.0f} messages per second of {size} bytes"
    return None


def _bandwidth(sizes: Sequence[int | None], values: Mapping[str, Sequence[float]]) -> tuple[int, str] | None:
    """Bandwidth x time / size is the same number in every row of a table (``scale_bw`` in IMB_display_times).

    Each row bounds that number through the rounding of its columns; the rows' intervals must have a point in common.
    """
    times = values.get("latency_us") or values.get("t_max_us")
    if times is None or "bandwidth_mb_per_s" not in values or "message_rate_per_s" in values:
        return None
    lowest, highest = 0.0, float("inf")
    for index, (size, time, bandwidth) in enumerate(zip(sizes, times, values["bandwidth_mb_per_s"], strict=True)):
        if not size:
            continue
        low = max(bandwidth - _HALF, 0.0) * max(time - _HALF, 0.0) / size * (1 - _EPSILON)
        high = (bandwidth + _HALF) * (time + _HALF) / size * (1 + _EPSILON)
        lowest, highest = max(lowest, low), min(highest, high)
        if lowest > highest:
            return index, f"{bandwidth} MB/s and {time} us for {size} bytes do not fit the rows above"
    return None
