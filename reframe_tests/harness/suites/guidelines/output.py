"""Strict reader of ``instrument.py``: a head of four lines, one row per guideline and size, a last line with a checksum."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..instrument_table import InstrumentTable, columns, wrong
from ..records import Record
from . import rows

TITLE = "# MPI performance guidelines, format 1"
_TABLE = InstrumentTable(
    "guidelines",
    (
        re.compile(re.escape(TITLE)),
        re.compile(r"# ([0-9]{1,9}) ranks, MPI_Barrier before each call, time of the slowest rank, order A B B A, medians"),
        re.compile("# reductions: MPI_SUM of MPI_FLOAT; before it is timed, each row's received data are compared"),
        columns("#", "guideline", "bytes", "repetitions", "call[us]", "mockup[us]", "ratio"),
    ),
)
_ROW = re.compile(
    r"([A-Za-z_]+-vs-[A-Za-z_-]+) +([0-9]{1,15}) +([0-9]{1,9}) +([0-9]{1,12}\.[0-9]{3}) +([0-9]{1,12}\.[0-9]{3})"
    r" +([0-9]{1,12}\.[0-9]{6})"
)
_QUANTITIES = {row.name: row.quantities for row in rows.ROWS}


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order.

    :raises OutputError: if it is damaged, mixed up, cut off or empty, or a value is none that a call can take.
    """
    return _TABLE.read(text, source, _record)


def _record(source: str, number: int, line: str, head: Sequence[re.Match[str]]) -> Record:
    found = _ROW.fullmatch(line)
    if not found or found[1] not in _QUANTITIES:
        raise _TABLE.refuse(source, number, line)
    values = dict(zip(_QUANTITIES[found[1]], map(float, found.groups()[3:]), strict=True))
    if not int(found[3]) or not all(values.values()):
        raise wrong(source, number, "no repetitions, or a time of nothing; the measurement failed")
    return Record(rows.NAME, found[1], int(head[1][1]), 1, int(found[2]), int(found[3]), values)
