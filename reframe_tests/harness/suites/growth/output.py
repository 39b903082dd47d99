"""Strict reader of ``instrument.py``: a head of three lines, a row per benchmark, node count and size, then a checksum."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..instrument_table import InstrumentTable, columns, wrong
from ..records import Record
from . import rows

TITLE = "# MPI on growing node counts, format 1"
_TABLE = InstrumentTable(
    "growing node counts",
    (
        re.compile(re.escape(TITLE)),
        re.compile(
            r"# ([1-9][0-9]{0,8}) ranks, [1-9][0-9]{0,8} a node, MPI_Barrier before each call, time of the slowest rank"
        ),
        columns("#", "benchmark", "nodes", "bytes", "repetitions", "mean[us]", "p50[us]", "p90[us]", "p99[us]"),
    ),
)
_ROW = re.compile(
    rf"({'|'.join(rows.SIZES)}) +([1-9][0-9]{{0,8}}) +(-|[0-9]{{1,15}}) +([1-9][0-9]{{0,8}})" + r" +([0-9]{1,12}\.[0-9]{3})" * 4
)


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order, the node count as variant (``nodes=4``).

    :raises OutputError: if it is damaged, mixed up, cut off or empty, or a percentile is below a smaller one.
    """
    return _TABLE.read(text, source, _record)


def _record(source: str, number: int, line: str, head: Sequence[re.Match[str]]) -> Record:
    found = _ROW.fullmatch(line)
    if not found:
        raise _TABLE.refuse(source, number, line)
    values = dict(zip(rows.QUANTITIES, map(float, found.groups()[4:]), strict=True))
    percentiles = list(values.values())[1:]
    if percentiles != sorted(percentiles) or not percentiles[0]:
        raise wrong(source, number, "a percentile is nothing or below a smaller one; the output is damaged")
    # Half of the times are the median or longer; 0.002 for the digits.
    if 2 * next(iter(values.values())) < percentiles[0] - 0.002:
        raise wrong(source, number, "the mean is below half of the median; the output is damaged")
    size = None if found[3] == "-" else int(found[3])
    return Record(rows.NAME, found[1], int(head[1][1]), 1, size, int(found[4]), values, variant=f"nodes={found[2]}")
