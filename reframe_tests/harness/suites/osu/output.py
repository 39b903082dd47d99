"""Strict reader of the OSU Micro-Benchmarks (OMB) 5.6 to 7.5, one output of one binary.

A title with the version, at most a few lines on how the benchmark ran, a head of column titles, one row per size. The
number of ranks is not printed (except in pairs, osu_mbw_mr), repetitions only with ``-f``, and there is no last line: a
table cut between two rows looks complete, so the caller compares with what was asked for (``reader.complete``). Rows are
printed with the widths of the head (``print_stats`` and ``print_only_header`` in util/osu_util_mpi.c; the ``printf`` of
mpi/pt2pt/osu_*.c), so every cell must end where its title ends.

Latency is half of the round trip, bandwidth is bytes / 1e6 / seconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from ..benchmark import SIZELESS, Benchmark
from ..records import OutputError, Record
from .rows import NAME, ROWS

OLDEST, NEXT_MAJOR = (5, 6), (8,)
_ROWS = {row.title: row for row in ROWS}
_TITLE = re.compile(r"# (?P<title>OSU .+) v(?P<version>[0-9]+(?:\.[0-9]+){1,2})")
_ACCELERATED = re.compile(r"-(?:CUDA MANAGED|CUDA|OPENACC|ROCM|SYCL)\b")

#: Column title to what stands in it; of several quantities, the one the row has.
_QUANTITIES = {
    "Latency (us)": ("latency_us",),
    "Avg Latency(us)": ("latency_us", "t_avg_us"),
    "Min Latency(us)": ("t_min_us",),
    "Max Latency(us)": ("t_max_us",),
    "Bandwidth (MB/s)": ("bandwidth_mb_per_s",),
    "MB/s": ("bandwidth_mb_per_s",),
    "Messages/s": ("message_rate_per_s",),
}
_SIZE, _ITERATIONS, _VALIDATION = "Size", "Iterations", "Validation"
_COLUMN = re.compile("|".join(re.escape(title) for title in (_SIZE, *_QUANTITIES, _ITERATIONS, _VALIDATION)))
#: Columns of options that are not read: ``-z`` and ``-D``.
_EXTRA = re.compile(r"P[0-9]+ Tail (?:BW\(MB/s\)|Lat\(us\))|Transmit Size")
_NUMBER, _WHOLE = re.compile(r"[0-9]+\.[0-9]{2}"), re.compile("[0-9]+")
#: What is printed of a value: two decimals (``FLOAT_PRECISION``).
_HALF = 0.005

_WINDOWS = {"MPI_Win_create": "create", "MPI_Win_allocate": "allocate", "MPI_Win_create_dynamic": "dynamic"}
_SYNCS = {
    "MPI_Win_lock/unlock": "lock",
    "MPI_Win_post/start/complete/wait": "pscw",
    "MPI_Win_fence": "fence",
    "MPI_Win_flush": "flush",
    "MPI_Win_flush_local": "flush_local",
    "MPI_Win_lock_all/unlock_all": "lock_all",
}
_CREATION = re.compile(r"# Window creation: (?P<window>\S+)")
_SYNC = re.compile(r"# Synchronization: (?P<sync>\S+)")
_PAIRS = re.compile(r"# \[ pairs: (?P<pairs>[1-9][0-9]*) \] \[ window size: (?P<size>[1-9][0-9]*) \]")
_DATATYPE = re.compile(r"# Datatype: (?P<type>MPI_[A-Z_]+)\.")
#: osu_mbw_mr of 5.6 prints another benchmark's column titles first.
_STRAY_HEAD = re.compile(r"# Size +(?:Latency \(us\)|Bandwidth \(MB/s\))")


@dataclass
class _Table:
    """What has been read so far."""

    source: str
    row: Benchmark
    #: Version as printed, major and minor as numbers.
    version: tuple[int, ...]
    facts: dict[str, str] = field(default_factory=dict)
    #: Column titles and where each ends; empty before the head.
    columns: list[tuple[str, int]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    @property
    def variant(self) -> str:
        """What makes it another measurement: window and synchronisation, window size, a type that is not the default."""
        words = [self.facts[key] for key in ("window", "sync") if key in self.facts]
        words += [f"window={self.facts['size']}"] if "size" in self.facts else []
        usual = "MPI_INT" if self.row.reduction else "MPI_CHAR"
        words += [f"type={kind}"] if (kind := self.facts.get("type", usual)) != usual else []
        return ",".join(words)

    @property
    def ranks(self) -> int | None:
        if "pairs" in self.facts:
            return 2 * int(self.facts["pairs"])
        return 2 if self.row.ranks == "only_pair" else None


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order.

    :raises OutputError: if it is damaged, mixed up or empty, of another benchmark or version, or data arrived wrong.
    """
    if not text.endswith("\n"):
        raise OutputError(f"{source}: the last line has no end; the output was cut off, run the benchmark again.")
    table: _Table | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip()
        if not line:
            continue
        if table is None:
            table = _titled(source, number, line)
        elif table.columns and not line.startswith("#"):
            _read_row(table, number, line)
        elif table.columns:
            raise _wrong(source, number, "a second table starts; split the outputs, and run one data type and window at a time")
        elif not _read_fact(table, number, line):
            table.columns = _head(table, number, line)
    if table is None or not table.records:
        raise OutputError(f"{source}: the table of OSU has no rows; the output is incomplete, run it again.")
    return table.records


def _titled(source: str, number: int, line: str) -> _Table:
    found = _TITLE.fullmatch(line)
    if not found:
        raise _wrong(source, number, f"'{_shown(line)}' stands before the title; keep other programs' output out of the file")
    title = found["title"]
    row = _ROWS.get(title)
    if row is None and _ACCELERATED.search(title):
        raise _wrong(source, number, f"'{title}' measures memory of accelerators, which is not read", "use host memory")
    if row is None:
        raise _wrong(source, number, f"'{title}' is none of the OSU benchmarks in the catalogue", "see 'mpibench catalogue'")
    version = tuple(int(word) for word in found["version"].split("."))
    if not OLDEST <= version < NEXT_MAJOR:
        raise _wrong(source, number, f"OSU {found['version']} is not known; read are 5.6 to 7.5", "use one of those")
    return _Table(source, row, version)


def _read_fact(table: _Table, number: int, line: str) -> bool:
    """Take a line between title and head; false if it is none. Each comes once, in this order."""
    facts = table.facts
    one_sided, paired = table.row.name.startswith(("osu_put", "osu_get")), table.row.name == "osu_mbw_mr"
    if paired and not facts and (_STRAY_HEAD.fullmatch(line) or _TITLE.fullmatch(line)):
        # The title comes twice in 7.0.
        if line.startswith("# OSU") and _titled(table.source, number, line) != _Table(table.source, table.row, table.version):
            raise _wrong(table.source, number, "another benchmark starts; split the outputs")
        return True
    if one_sided and not facts and (found := _CREATION.fullmatch(line)) and found["window"] in _WINDOWS:
        facts["window"] = _WINDOWS[found["window"]]
    elif one_sided and [*facts] == ["window"] and (found := _SYNC.fullmatch(line)) and found["sync"] in _SYNCS:
        facts["sync"] = _SYNCS[found["sync"]]
    elif paired and not facts and (found := _PAIRS.fullmatch(line)):
        facts.update(found.groupdict())
    elif "type" not in facts and (found := _DATATYPE.fullmatch(line)):
        facts["type"] = found["type"]
    else:
        return False
    return True


def _head(table: _Table, number: int, line: str) -> list[tuple[str, int]]:
    """Column titles with the position each ends at.

    :raises OutputError: if it is not a head, not this benchmark's, or lines that must precede it are missing.
    """
    source, row = table.source, table.row
    if extra := _EXTRA.search(line):
        raise _wrong(source, number, f"column '{extra[0]}' is not read", "run without -z and -D")
    found = list(_COLUMN.finditer(line))
    titles = [match[0] for match in found]
    if not line.startswith("# ") or _COLUMN.sub("", line).strip() != "#" or len(set(titles)) < len(titles):
        raise _wrong(source, number, _what_is_wrong(line, "not a head of columns of OSU"))
    wanted = {"osu_mbw_mr": ("pairs",)}.get(row.name, ("window", "sync") if row.options[:1] == ("-w",) else ())
    if missing := [key for key in wanted if key not in table.facts]:
        raise _wrong(source, number, f"the line that says the {missing[0]} is missing above the columns; the output is damaged")
    quantities = [_quantity(row, title) for title in titles if title in _QUANTITIES]
    sized = [_SIZE] if row.sizes != SIZELESS else []
    values = [title for title in titles if title in _QUANTITIES]
    full = len(row.quantities) == 3 and len(values) == 3
    tail = [_ITERATIONS] if full else []
    tail += [_VALIDATION] if titles[-1:] == [_VALIDATION] else []
    if titles != [*sized, *values, *tail] or not values or quantities != list(row.quantities[: len(values)]):
        raise _wrong(source, number, f"the columns are not those of {row.name}; outputs are damaged or mixed up")
    return [(match[0], match.end()) for match in found]


def _quantity(row: Benchmark, title: str) -> str | None:
    return next((name for name in _QUANTITIES[title] if name in row.quantities), None)


def _read_row(table: _Table, number: int, line: str) -> None:
    """Take one row: cells end where their titles end, values fit each other and the rows before."""
    source, row = table.source, table.row
    cells = [(found[0], found.start(), found.end()) for found in re.finditer(r"\S+", line)]
    if len(cells) != len(table.columns):
        raise _wrong(source, number, _what_is_wrong(line, f"not a row of {row.name}"))
    size: int | None = None
    repetitions: int | None = None
    values: dict[str, float] = {}
    for (cell, start, end), (title, title_end) in zip(cells, table.columns, strict=True):
        pattern = _NUMBER if title in _QUANTITIES else _WHOLE
        in_place = start == 0 if title == _SIZE else end == title_end
        if title == _VALIDATION and cell == "Fail":
            raise _wrong(
                source, number, f"validation failed: {row.name} received wrong data at {size} bytes", "distrust this MPI"
            )
        if not in_place or not (cell == "Pass" if title == _VALIDATION else pattern.fullmatch(cell)):
            raise _wrong(source, number, _what_is_wrong(line, f"not a row of {row.name}"))
        if title == _SIZE:
            size = int(cell)
        elif title == _ITERATIONS:
            repetitions = int(cell)
        elif quantity := _quantity(row, title) if title in _QUANTITIES else None:
            values[quantity] = float(cell)
    record = Record(NAME, row.name, table.ranks, 1, size, repetitions, values, table.variant)
    _check(table, number, record)
    table.records.append(record)


def _check(table: _Table, number: int, record: Record) -> None:
    """The row must continue the series and agree with itself."""
    source, before = table.source, table.records
    if before and (record.message_bytes is None or record.message_bytes != 2 * (before[-1].message_bytes or 0.5)):
        raise _wrong(
            source,
            number,
            f"{record.message_bytes} bytes follow {before[-1].message_bytes} bytes, but sizes double; rows are missing, "
            "repeated or mixed up",
        )
    if record.repetitions is not None and not 0 < record.repetitions <= (
        before[-1].repetitions or 0 if before else record.repetitions
    ):
        raise _wrong(source, number, "the number of iterations grows or is 0; outputs are mixed up or nothing was measured")
    times = [record.values[name] for name in ("t_min_us", "t_avg_us", "t_max_us") if name in record.values]
    if any(high < low - 2 * _HALF for low, high in pairwise(times)):
        raise _wrong(source, number, "the mean is not between minimum and maximum; the columns are damaged or mixed up")
    rate, size = record.values.get("message_rate_per_s"), record.message_bytes or 0
    if rate is not None:
        bandwidth = record.values["bandwidth_mb_per_s"]
        if abs(rate * size / 1e6 - bandwidth) > _HALF * (1 + size / 1e6) + bandwidth * 1e-9:
            raise _wrong(source, number, "bandwidth is not message rate x size; the columns are damaged or mixed up")


def _what_is_wrong(line: str, otherwise: str) -> str:
    if re.search(r"\bwarn", line, re.IGNORECASE):
        return f"a warning stands in the output: '{_shown(line)}'"
    if line.startswith("DATA VALIDATION ERROR"):
        return "validation failed, so received data was wrong"
    if re.search(r"(?<![a-z])-?(?:nan|inf)\b", line, re.IGNORECASE):
        return "no number stands where a measured value should be; the measurement failed"
    if re.search(r"(?:^| )-[0-9]", line):
        return "a value is negative; the clock or the output is broken"
    return f"'{_shown(line)}' is {otherwise}; the output is damaged, cut or mixed with another program's"


def _shown(line: str) -> str:
    return "".join(ch if ch.isprintable() else "?" for ch in line[:60])


def _wrong(source: str, number: int, what: str, remedy: str = "run the benchmark again") -> OutputError:
    return OutputError(f"{source}, line {number}: {what}; {remedy}.")
