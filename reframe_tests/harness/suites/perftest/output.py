"""Strict reader of perftest's bandwidth tests (``ib_send_bw``, ``ib_write_bw``, ``ib_read_bw``).

Two processes and no MPI: what the adapters do without a library above them. Formats: perftest, ``src/perftest_parameters.h``
(``RESULT_FMT``, ``REPORT_FMT``) and ``perftest_parameters.c`` (``ctx_print_test_info``, ``print_report_bw``). What older
releases print as ``MB/sec`` is divided by 0x100000 there, so it is MiB/s, as newer ones say; both become MB/s (1e6 bytes) here.
"""

from __future__ import annotations

import re
from decimal import Decimal

from ..records import OutputError, Record
from .rows import NAME

#: Title of a test to its program; bidirectional ones add up both ways under the same name and are another variant.
_PROGRAMS = {"Send": "ib_send_bw", "RDMA_Write": "ib_write_bw", "RDMA_Read": "ib_read_bw"}
TITLE = re.compile(r"^ *(Send|RDMA_Write|RDMA_Read) (Bidirectional )?(?:Post List )?BW Test *$")
_HEAD = re.compile(
    r" *#bytes +#iterations +BW peak\[(MB|MiB|Gb)/sec\] +BW average\[\1/sec\] +MsgRate\[Mpps\](?: +CPU_Util\[%\])?"
)
_ROW = re.compile(
    r" *([0-9]+)\s+([0-9]+)\s+([0-9]+\.[0-9]{2})\s+([0-9]+\.[0-9]{2})\s+([0-9]+\.[0-9]{6})(?:\s+[0-9]+\.[0-9]+)?\s*"
)
#: Bytes per second of one printed unit, in MB/s.
_MB_PER_UNIT = {"MB": Decimal("1.048576"), "MiB": Decimal("1.048576"), "Gb": Decimal(125)}
#: Half of the last printed digit: of the bandwidth in its unit, of the rate in 1e6 messages per second.
_HALF_BANDWIDTH, _HALF_RATE = Decimal("0.005"), Decimal("0.0000005")
_LINE = re.compile(r" *-{60,} *")


def parse(text: str, source: str) -> list[Record]:
    """Records of one output: average bandwidth in MB/s and message rate per size.

    :raises OutputError: if it is damaged, mixed up, empty or does not end with perftest's closing line.
    """
    title: re.Match[str] | None = None
    unit, closed = "", False
    records: list[Record] = []
    for number, line in enumerate(text.split("\n"), 1):
        if found := TITLE.fullmatch(line):
            if title:
                raise _wrong(source, number, "a second test starts; split the outputs")
            title = found
        elif found := _HEAD.fullmatch(line.rstrip()):
            if not title or unit:
                raise _wrong(source, number, "the head of a table stands where none can be; the output is mixed up")
            unit = found[1]
        elif unit and not closed and line.strip():
            if closed := bool(_LINE.fullmatch(line)):
                continue
            found = _ROW.fullmatch(line)
            if not found:
                raise _wrong(source, number, f"'{line.strip()[:60]}' is not a row of a perftest bandwidth table")
            records.append(_record(source, number, found, unit, title, records))
    if not records:
        raise OutputError(f"{source}: the table of perftest has no rows; the output is incomplete, run it again.")
    if not closed:
        raise OutputError(f"{source}: the table of perftest has no end; the output was cut off, run it again.")
    return records


def _record(
    source: str, number: int, row: re.Match[str], unit: str, title: re.Match[str] | None, before: list[Record]
) -> Record:
    assert title is not None  # a table's head is only taken after a title
    size, average, rate = int(row[1]), Decimal(row[4]), Decimal(row[5])
    if before and size <= (before[-1].message_bytes or 0):
        raise _wrong(source, number, f"{size} bytes follow {before[-1].message_bytes} bytes; rows are repeated or mixed up")
    scale = _MB_PER_UNIT[unit]
    if abs(average * scale - rate * size) > _HALF_BANDWIDTH * scale + _HALF_RATE * size:
        raise _wrong(source, number, "bandwidth is not message rate x size; the columns are damaged or mixed up")
    values = {"bandwidth_mb_per_s": float(average * scale), "message_rate_per_s": float(rate.scaleb(6))}
    variant = "bidirectional" if title[2] else ""
    # Where perftest's iterations are unknown (0 in a recording) there are none to report.
    return Record(NAME, _PROGRAMS[title[1]], 2, 1, size, int(row[2]) or None, values, variant)


def _wrong(source: str, number: int, what: str) -> OutputError:
    return OutputError(f"{source}, line {number}: {what}; run the benchmark again.")
