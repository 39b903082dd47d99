"""Strict reader of the times that ``instrument.py`` prints."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..algorithms import COLLECTIVES, QUANTITY, VARIANT
from ..instrument_table import InstrumentTable, columns, wrong
from ..records import Record
from . import rows

TITLE = "# MPI collective times, format 1"
_TABLE = InstrumentTable(
    "collective times",
    (
        re.compile(re.escape(TITLE)),
        re.compile(r"# ([1-9][0-9]{0,8}) ranks, MPI_THREAD_SINGLE, MPI_Barrier before each call, time of the slowest rank"),
        columns("#", "benchmark", "algorithm", "bytes", "repetitions", "p50[us]"),
    ),
)
_ROW = re.compile(
    rf"({'|'.join(COLLECTIVES)}) +([\w.-]{{1,60}}) +([0-9]{{1,15}})"
    r" +([1-9][0-9]{0,8}) +([0-9]{1,12}\.[0-9]{3})"
)


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order, the algorithm as variant (``algorithm=3``).

    :raises OutputError: if it is damaged, mixed up, cut off or empty.
    """
    return _TABLE.read(text, source, _record)


def _record(source: str, number: int, line: str, head: Sequence[re.Match[str]]) -> Record:
    found = _ROW.fullmatch(line)
    if not found:
        raise _TABLE.refuse(source, number, line)
    time_us = float(found[5])
    if not time_us:
        raise wrong(source, number, "a call took no time; the output is damaged")
    variant = f"{VARIANT}{found[2]}"
    return Record(rows.NAME, found[1], int(head[1][1]), 1, int(found[3]), int(found[4]), {QUANTITY: time_us}, variant=variant)
