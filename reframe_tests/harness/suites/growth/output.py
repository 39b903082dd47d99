"""Strict reader of ``instrument.py``: a head of three lines, a row per benchmark, node count and size, then a checksum."""

from __future__ import annotations

import re
import zlib

from ..records import OutputError, Record
from . import rows

TITLE = "# MPI on growing node counts, format 1"
_RANKS = re.compile(
    r"# ([1-9][0-9]{0,8}) ranks, [1-9][0-9]{0,8} a node, MPI_Barrier before each call, time of the slowest rank"
)
_COLUMNS = ["#", "benchmark", "nodes", "bytes", "repetitions", "mean[us]", "p50[us]", "p90[us]", "p99[us]"]
_ROW = re.compile(
    rf"({'|'.join(rows.SIZES)}) +([1-9][0-9]{{0,8}}) +(-|[0-9]{{1,15}}) +([1-9][0-9]{{0,8}})" + r" +([0-9]{1,12}\.[0-9]{3})" * 4
)
_END = re.compile(r"# end: ([0-9]{1,9}) rows, received data all right, CRC-32 ([0-9a-f]{8})")


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order, the node count as variant (``nodes=4``).

    :raises OutputError: if it is damaged, mixed up, cut off or empty, or a percentile is below a smaller one.
    """
    records: list[Record] = []
    ranks, checksum, ended = 0, 0, False
    lines = list(enumerate(text.replace("\r\n", "\n").rstrip("\n").split("\n"), 1))
    # What was set aside before the title left blank lines.
    first = next((at for at, (_, line) in enumerate(lines) if line), len(lines))
    for place, (number, line) in enumerate(lines[first:]):
        if ended:
            raise _wrong(source, number, "something stands behind the last line; outputs are mixed up")
        if end := _END.fullmatch(line):
            if place < 3 or int(end[1]) != len(records) or int(end[2], 16) != checksum:
                raise _wrong(source, number, "rows and checksum do not fit together; the output is damaged")
            ended = True
            continue
        checksum = zlib.crc32(f"{line}\n".encode(), checksum)
        if place == 1 and (found := _RANKS.fullmatch(line)):
            ranks = int(found[1])
        elif place < 3 and not (line == TITLE, False, line.split() == _COLUMNS)[place]:
            raise _wrong(source, number, "the head of the table is not that of this instrument; the output is damaged or mixed")
        elif place >= 3:
            records.append(_record(source, number, line, ranks))
    if not ended:
        raise OutputError(f"{source}: the table of growing node counts has no last line; the output was cut off, run it again.")
    if not records:
        raise OutputError(f"{source}: the table of growing node counts has no rows; run it again.")
    return records


def _record(source: str, number: int, line: str, ranks: int) -> Record:
    found = _ROW.fullmatch(line)
    if not found:
        shown = "".join(ch if ch.isprintable() else "?" for ch in line[:60])
        raise _wrong(source, number, f"'{shown}' is not a row of growing node counts; the output is damaged, cut or mixed up")
    values = dict(zip(rows.QUANTITIES, map(float, found.groups()[4:]), strict=True))
    percentiles = list(values.values())[1:]
    if percentiles != sorted(percentiles) or not percentiles[0]:
        raise _wrong(source, number, "a percentile is nothing or below a smaller one; the output is damaged")
    size = None if found[3] == "-" else int(found[3])
    return Record(rows.NAME, found[1], ranks, 1, size, int(found[4]), values, variant=f"nodes={found[2]}")


def _wrong(source: str, number: int, what: str) -> OutputError:
    return OutputError(f"{source}, line {number}: {what}; run the benchmark again.")
