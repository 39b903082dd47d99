"""Strict reader of ``instrument.py``: a head of four lines, one row per guideline and size, a last line with a checksum."""

from __future__ import annotations

import re
import zlib

from ..records import OutputError, Record
from . import rows

TITLE = "# MPI performance guidelines, format 1"
_RANKS = re.compile(r"# ([0-9]{1,9}) ranks, MPI_Barrier before each call, time of the slowest rank, order A B B A, medians")
_DATA = "# reductions: MPI_SUM of MPI_FLOAT; before it is timed, each row's received data are compared"
_COLUMNS = ["#", "guideline", "bytes", "repetitions", "call[us]", "mockup[us]", "ratio"]
_ROW = re.compile(
    r"([A-Za-z_]+-vs-[A-Za-z_-]+) +([0-9]{1,15}) +([0-9]{1,9}) +([0-9]{1,12}\.[0-9]{3}) +([0-9]{1,12}\.[0-9]{3})"
    r" +([0-9]{1,12}\.[0-9]{6})"
)
_END = re.compile(r"# end: ([0-9]{1,9}) rows, received data all right, CRC-32 ([0-9a-f]{8})")
_QUANTITIES = {row.name: row.quantities for row in rows.ROWS}


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order.

    :raises OutputError: if it is damaged, mixed up, cut off or empty, or a value is none that a call can take.
    """
    records: list[Record] = []
    ranks, checksum, ended = 0, 0, False
    # What was set aside before the title left blank lines; the last line ends one, too.
    lines = list(enumerate(text.replace("\r\n", "\n").rstrip("\n").split("\n"), 1))
    first = next((at for at, (_, line) in enumerate(lines) if line), len(lines))
    for place, (number, line) in enumerate(lines[first:]):
        if ended:
            if line.strip():
                raise _wrong(source, number, "something stands behind the last line; outputs are mixed up")
            continue
        if end := _END.fullmatch(line):
            if int(end[1]) != len(records) or int(end[2], 16) != checksum:
                raise _wrong(source, number, "rows and checksum do not fit together; the output is damaged")
            ended = True
            continue
        checksum = zlib.crc32(f"{line}\n".encode(), checksum)
        if place == 1 and (found := _RANKS.fullmatch(line)):
            ranks = int(found[1])
        elif place < 4 and not (line == TITLE, False, line == _DATA, line.split() == _COLUMNS)[place]:
            raise _wrong(source, number, "the head of the table is not that of this instrument; the output is damaged or mixed")
        elif place >= 4:
            records.append(_record(source, number, line, ranks))
    if not ended:
        raise OutputError(f"{source}: the table of guidelines has no last line; the output was cut off, run it again.")
    if not records:
        raise OutputError(f"{source}: the table of guidelines has no rows; run it again.")
    return records


def _record(source: str, number: int, line: str, ranks: int) -> Record:
    found = _ROW.fullmatch(line)
    if not found or found[1] not in _QUANTITIES:
        shown = "".join(ch if ch.isprintable() else "?" for ch in line[:60])
        raise _wrong(source, number, f"'{shown}' is not a row of the guidelines; the output is damaged, cut or mixed up")
    values = dict(zip(_QUANTITIES[found[1]], map(float, found.groups()[3:]), strict=True))
    if not int(found[3]) or not all(values.values()):
        raise _wrong(source, number, "no repetitions, or a time of nothing; the measurement failed")
    return Record(rows.NAME, found[1], ranks, 1, int(found[2]), int(found[3]), values)


def _wrong(source: str, number: int, what: str) -> OutputError:
    return OutputError(f"{source}, line {number}: {what}; run the benchmark again.")
