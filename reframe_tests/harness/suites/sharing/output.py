"""Strict reader of ``instrument.py``: a head of three lines, a row per benchmark and size, then a checksum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..instrument_table import InstrumentTable, columns, wrong
from ..records import Record
from . import rows

TITLE = "# MPI programs side by side, format 1"
_COUNT = "([1-9][0-9]{0,8})"
_TABLE = InstrumentTable(
    "programs side by side",
    (
        re.compile(re.escape(TITLE)),
        re.compile(rf"# program {_COUNT} of {_COUNT}, {_COUNT} ranks, time of the slowest rank, CLOCK_MONOTONIC"),
        columns("#", "benchmark", "bytes", "repetitions", "from[ns]", "to[ns]", "t_max[us]", "bandwidth[MB/s]"),
    ),
)
_ROW = re.compile(
    rf"({'|'.join(rows.SIZES)}) +([1-9][0-9]{{0,14}}) +([1-9][0-9]{{0,11}}) +([0-9]{{1,18}}) +([0-9]{{1,18}})"
    r" +([0-9]{1,12}\.[0-9]{3}) +(-|[0-9]{1,12}\.[0-9]{3})"
)


@dataclass(frozen=True)
class Section:
    """When one row of one program was measured: ns of CLOCK_MONOTONIC, which all processes of a node share."""

    program: int
    programs: int
    benchmark: str
    message_bytes: int
    begin_ns: int
    end_ns: int


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order.

    :raises OutputError: if it is damaged, mixed up, cut off or empty, or its numbers contradict each other.
    """
    return _TABLE.read(text, source, _record)


def read_sections(text: str, source: str) -> list[Section]:
    """When each row was measured, in printed order.

    :raises OutputError: as :func:`parse`.
    """
    text = text[max(0, text.find(TITLE)) :]
    sections: list[Section] = []

    def note(source: str, number: int, line: str, head: Sequence[re.Match[str]]) -> Record:
        found = _ROW.fullmatch(line)
        if found:
            numbers: list[Any] = [int(found[each]) for each in (2, 4, 5)]
            sections.append(Section(int(head[1][1]), int(head[1][2]), found[1], *numbers))
        return _record(source, number, line, head)

    _TABLE.read(text, source, note)
    return sections


def _record(source: str, number: int, line: str, head: Sequence[re.Match[str]]) -> Record:
    found = _ROW.fullmatch(line)
    if not found:
        raise _TABLE.refuse(source, number, line)
    size, repetitions, begin, end, ranks = (int(each) for each in (*found.groups()[1:5], head[1][3]))
    time_us, copied = float(found[6]), found[1] == "Copy"
    if (found[7] != "-") != copied or not time_us:
        raise wrong(source, number, f"{found[1]} has no time, or a bandwidth that is not its own; the output is damaged")
    # Printed to three decimals.
    if repetitions * (time_us - 0.001) * 1e3 > end - begin:
        raise wrong(source, number, "its repetitions took longer than it was measured for; the output is damaged")
    if copied and abs(float(found[7]) - ranks * size / time_us) > 0.01 + 0.002 / time_us * float(found[7]):
        raise wrong(source, number, "time and bandwidth do not fit together; the output is damaged")
    values = {"bandwidth_mb_per_s": float(found[7])} if copied else {"t_max_us": time_us}
    return Record(rows.NAME, found[1], ranks, 1, size, repetitions, values)
