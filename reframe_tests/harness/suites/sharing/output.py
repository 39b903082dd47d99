"""Strict reader of ``instrument.py``: a head of three lines, a row per benchmark and size, then a checksum."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .. import side_by_side
from ..instrument_table import InstrumentTable, columns, wrong
from ..records import Record
from . import rows

TITLE = "# MPI programs side by side, format 1"
_COUNT = "([1-9][0-9]{0,8})"
_HOW = "(alone|at the same time as the others)"
_TABLE = InstrumentTable(
    "programs side by side",
    (
        re.compile(re.escape(TITLE)),
        re.compile(rf"# program {_COUNT} of {_COUNT}, {_HOW}, {_COUNT} ranks, time of the slowest rank, CLOCK_MONOTONIC"),
        columns("#", "benchmark", "bytes", "repetitions", "from[ns]", "to[ns]", "t_max[us]", "bandwidth[MB/s]"),
    ),
)
_ROW = re.compile(
    rf"({'|'.join(rows.SIZES)}) +([1-9][0-9]{{0,14}}) +([1-9][0-9]{{0,11}}) +([0-9]{{1,18}}) +([0-9]{{1,18}})"
    r" +([0-9]{1,12}\.[0-9]{3}) +(-|[0-9]{1,12}\.[0-9]{3})"
)


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order, with which program it was and how it was measured as variant.

    :raises OutputError: if it is damaged, mixed up, cut off or empty, or its numbers contradict each other.
    """
    return _TABLE.read(text, source, _record)


def _record(source: str, number: int, line: str, head: Sequence[re.Match[str]]) -> Record:
    found = _ROW.fullmatch(line)
    if not found:
        raise _TABLE.refuse(source, number, line)
    size, repetitions, begin, end, ranks = (int(each) for each in (*found.groups()[1:5], head[1][4]))
    time_us, copied = float(found[6]), found[1] == "Copy"
    if (found[7] != "-") != copied or not time_us:
        raise wrong(source, number, f"{found[1]} has no time, or a bandwidth that is not its own; the output is damaged")
    # Printed to three decimals.
    if repetitions * (time_us - 0.001) * 1e3 > end - begin:
        raise wrong(source, number, "its repetitions took longer than it was measured for; the output is damaged")
    if copied and abs(float(found[7]) - ranks * size / time_us) > 0.01 + 0.002 / time_us * float(found[7]):
        raise wrong(source, number, "time and bandwidth do not fit together; the output is damaged")
    values = {"bandwidth_mb_per_s": float(found[7])} if copied else {"t_max_us": time_us}
    how = side_by_side.ALONE if head[1][3] == side_by_side.ALONE else side_by_side.SHARED
    variant = side_by_side.variant(head[1][2], head[1][1], how)
    return Record(rows.NAME, found[1], ranks, 1, size, repetitions, values, variant, measured_ns=(begin, end))
