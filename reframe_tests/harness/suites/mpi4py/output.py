"""Strict reader of ``python -m mpi4py.bench pingpong`` (mpi4py 3.1 and 4).

Two header lines, then one row per size, doubling. There is no number of ranks and no last line, so a table cut between
two rows looks complete: the caller compares the sizes with those asked for (``reader.check_complete``). The time is half
of the round trip between ranks 0 and 1 and bandwidth is bytes / time (mpi4py/bench.py, ``run_pingpong``). Started on one
rank it sends to itself and prints the same table; only evidence of the ranks shows that.
"""

from __future__ import annotations

import re
from decimal import Decimal

from ..records import OutputError, Record
from . import rows

TITLE = "# MPI PingPong Test"
NAME = "pingpong"

#: Column title to quantity and the power of ten to its unit; the other columns are no quantities.
_COLUMNS = {
    "Size [B]": None,
    "Bandwidth [MB/s]": ("bandwidth_mb_per_s", 0),
    "Time Mean [s]": ("latency_us", 6),
    "StdDev [s]": ("latency_stddev_us", 6),
    "Samples": None,
}
#: Column titles are separated by two spaces, a bar or the plus-minus sign.
_SEPARATOR = re.compile(r" *\| *| *\u00b1 *| {2,}")
_CELLS = {
    "Size [B]": "([0-9]+)",
    "Bandwidth [MB/s]": r"([0-9]+\.[0-9]{2})",
    "Time Mean [s]": r"([0-9]\.[0-9]{7}e[-+][0-9]{2})",
    "StdDev [s]": r"([0-9]\.[0-9]{4}e[-+][0-9]{2})",
    "Samples": "([0-9]+)",
}
#: Half of the last printed digit of the bandwidth in MB/s, and relative of the time.
_HALF_BANDWIDTH, _HALF_TIME = 0.005, 6e-8


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order: one pair of ranks.

    :raises OutputError: if it is damaged, mixed up or empty, or a size inside the series is missing.
    """
    if not text.endswith("\n"):
        raise OutputError(f"{source}: the last line has no end; the output was cut off, run the benchmark again.")
    titled = False
    names: list[str] = []
    pattern = re.compile("")
    records: list[Record] = []
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line:
            continue
        if line == TITLE:
            if titled:
                raise _wrong(source, number, "a second table starts; split the outputs, or start the ranks as one MPI program")
            titled = True
        elif not titled:
            raise _wrong(source, number, f"'{line[:60]}' stands before '{TITLE}'; keep other programs' output out of the file")
        elif not names:
            names = _header(source, number, line)
            pattern = re.compile(r"(?: *\| *| +\u00b1 +| +)".join(_CELLS[name] for name in names))
        else:
            found = pattern.fullmatch(line)
            if not found:
                raise _wrong(source, number, _what_is_wrong(line))
            record = _record(dict(zip(names, found.groups(), strict=True)))
            _check(source, number, record, records)
            records.append(record)
    if not records:
        raise OutputError(f"{source}: the table of mpi4py.bench has no rows; the output is incomplete, run it again.")
    return records


def _header(source: str, number: int, line: str) -> list[str]:
    names = [name for name in _SEPARATOR.split(line.removeprefix("#").strip()) if name]
    unknown = [name for name in names if name not in _COLUMNS]
    if not line.startswith("#") or unknown or names[:2] != ["Size [B]", "Bandwidth [MB/s]"] or len(set(names)) < len(names):
        raise _wrong(source, number, f"'{line[:60]}' is not a header of mpi4py.bench pingpong; the output is damaged or mixed")
    return names


def _record(cells: dict[str, str]) -> Record:
    values = {}
    for name, cell in cells.items():
        if column := _COLUMNS[name]:
            values[column[0]] = float(Decimal(cell).scaleb(column[1]))
    samples = int(cells["Samples"]) if "Samples" in cells else None
    return Record(rows.NAME, NAME, 2, 1, int(cells["Size [B]"]), samples, values)


def _check(source: str, number: int, record: Record, before: list[Record]) -> None:
    """The row must continue the series and agree with itself."""
    size = record.message_bytes or 0
    if before and size != 2 * (before[-1].message_bytes or 0):
        raise _wrong(
            source,
            number,
            f"{size} bytes follow {before[-1].message_bytes} bytes, but sizes double; rows are missing, repeated or mixed up",
        )
    last = before[-1].repetitions if before else record.repetitions
    if record.repetitions is not None and last is not None and not 0 < record.repetitions <= last:
        raise _wrong(source, number, "the number of samples grows or is 0; outputs are mixed up or nothing was measured")
    if (time := record.values.get("latency_us")) is None:
        return
    bandwidth = size / time if time else float("inf")
    if abs(bandwidth - record.values["bandwidth_mb_per_s"]) > _HALF_BANDWIDTH + bandwidth * _HALF_TIME:
        raise _wrong(source, number, "bandwidth is not size / time; the columns are damaged or mixed up")


def _what_is_wrong(line: str) -> str:
    if re.search(r"\b(?:nan|inf)\b", line, re.IGNORECASE):
        return "no number stands where a measured value should be; the measurement failed"
    if re.search(r"(?:^| )-[0-9]", line):
        return "a value is negative; the clock or the output is broken"
    shown = "".join(ch if ch.isprintable() else "?" for ch in line[:60])
    return f"'{shown}' is not a row of mpi4py.bench pingpong; the output is damaged, cut or mixed with another program's"


def _wrong(source: str, number: int, what: str) -> OutputError:
    return OutputError(f"{source}, line {number}: {what}; run the benchmark again.")
