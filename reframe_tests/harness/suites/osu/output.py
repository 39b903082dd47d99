"""Strict reader of the OSU Micro-Benchmarks (OMB) 5.6 to 7.5, one output of one binary.

A title with the version, at most a few lines on how the benchmark ran, a head of column titles, one row per size. The
number of ranks is not printed (except in pairs, osu_mbw_mr), repetitions only with ``-f`` of blocking collectives, and there
is no last line: a table cut between two rows looks complete, so the caller compares with what was asked for
(``reader.complete``). Rows are printed with the widths of the head (``print_stats`` and ``print_only_header`` in
util/osu_util_mpi.c; the ``printf`` of mpi/pt2pt/osu_*.c), so every cell must end where its title ends.

Latency is half of the round trip, bandwidth is bytes / 1e6 / seconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..benchmark import SIZELESS, Benchmark
from ..records import OutputError, Record
from . import columns as osu_columns
from . import facts as osu_facts
from .columns import ITERATIONS, SIZE, VALIDATION
from .rows import NAME, ROWS, STARTUP

OLDEST, NEXT_MAJOR = (5, 6), (8,)
_TITLES = {row.title: tuple(each for each in ROWS if each.title == row.title) for row in ROWS}
_TITLE = re.compile(r"# (?P<title>OSU .+) v(?P<version>[0-9]+(?:\.[0-9]+){1,2})")
_ACCELERATED = re.compile(r"-(?:CUDA MANAGED|MANAGED|CUDA|OPENACC|ROCM|SYCL)\b")
_NUMBER, _WHOLE = re.compile(r"[0-9]+\.[0-9]{2}"), re.compile("[0-9]+")
#: osu_mbw_mr of 5.6 prints another benchmark's column titles first.
_STRAY_HEAD = re.compile(r"# Size +(?:Latency \(us\)|Bandwidth \(MB/s\))")
#: The barrier of 5.x without ``#`` before its columns.
_BARE_HEAD = re.compile(r" +Overall\(us\) .*")
#: Without ``-c`` osu_latency_mp prints its first value into 10 columns and not 18, so all of them stand that much to the left.
_NARROWER = {"osu_latency_mp": 8}
_INIT = re.compile(r"nprocs: ([1-9][0-9]*), min: ([0-9]+) ms, max: ([0-9]+) ms, avg: ([0-9]+) ms")
_HELLO = re.compile(r"This is a test with ([1-9][0-9]*) processes")


@dataclass
class _Table:
    """What has been read so far.

    :param rows: benchmarks of this title; the first whose lines and columns these are.
    """

    source: str
    rows: tuple[Benchmark, ...]
    #: Version as printed, major and minor as numbers.
    version: tuple[int, ...]
    facts: dict[str, str] = field(default_factory=dict)
    #: Column titles and where each ends; empty before the head.
    columns: list[tuple[str, int]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    @property
    def row(self) -> Benchmark:
        return self.rows[0]

    @property
    def variant(self) -> str:
        """What makes it another measurement."""
        return osu_facts.variant_of(self.row, self.facts)

    @property
    def ranks(self) -> int | None:
        if "pairs" in self.facts:
            return 2 * int(self.facts["pairs"])
        if "ring" in self.facts:
            return int(self.facts["ring"])
        return 2 if self.row.ranks == "only_pair" else None


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order.

    :raises OutputError: if it is damaged, mixed up or empty, of another benchmark or version, or data arrived wrong.
    """
    if not text.endswith("\n"):
        raise OutputError(f"{source}: the last line has no end; the output was cut off, run the benchmark again.")
    table: _Table | None = None
    early: dict[str, str] = {}
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip()
        if not line:
            continue
        if table is None:
            if not osu_facts.take_early(early, line):
                table = _titled(source, number, line, early)
        elif table.row.group == STARTUP:
            _read_start(table, number, line)
        elif table.columns and not line.startswith("#"):
            _read_row(table, number, line)
        elif table.columns:
            raise _wrong(source, number, "a second table starts; split the outputs, and run one data type and window at a time")
        elif not _read_fact(table, number, line):
            table.columns = _head(table, number, line)
    if table is None or not table.records:
        raise OutputError(f"{source}: the table of OSU has no rows; the output is incomplete, run it again.")
    return table.records


def _titled(source: str, number: int, line: str, early: dict[str, str]) -> _Table:
    found = _TITLE.fullmatch(line)
    if not found:
        raise _wrong(source, number, f"'{_shown(line)}' stands before the title; keep other programs' output out of the file")
    title = found["title"]
    rows = _TITLES.get(title, ())
    if not rows and _ACCELERATED.search(title):
        raise _wrong(source, number, f"'{title}' measures memory of accelerators, which is not read", "use host memory")
    if not rows:
        raise _wrong(source, number, f"'{title}' is none of the OSU benchmarks in the catalogue", "see 'mpibench catalogue'")
    version = tuple(int(word) for word in found["version"].split("."))
    if not OLDEST <= version < NEXT_MAJOR:
        raise _wrong(source, number, f"OSU {found['version']} is not known; read are 5.6 to 7.5", "use one of those")
    # Lines above the title say which benchmark it is, where several have the title.
    able = tuple(row for row in rows if osu_facts.early_fits(row, early))
    if not able:
        raise _wrong(source, number, f"'{title}' does not belong to the lines above it; outputs are damaged or mixed up")
    return _Table(source, able, version, early)


def _read_fact(table: _Table, number: int, line: str) -> bool:
    """Take a line between title and head; false if it is none. Each comes once, in this order."""
    if table.row.name == "osu_mbw_mr" and not table.facts and (_STRAY_HEAD.fullmatch(line) or _TITLE.fullmatch(line)):
        # The title comes twice in 7.0.
        if line.startswith("# OSU") and _titled(table.source, number, line, {}).rows != table.rows:
            raise _wrong(table.source, number, "another benchmark starts; split the outputs")
        return True
    return osu_facts.take(osu_facts.lines_of(table.row), table.facts, line)


def _head(table: _Table, number: int, line: str) -> list[tuple[str, int]]:
    """Column titles with the position each ends at.

    :raises OutputError: if it is not a head, not this benchmark's, or lines that must precede it are missing.
    """
    source, row = table.source, table.row
    if osu_columns.DERIVED_TYPE in line:
        raise _wrong(source, number, f"column '{osu_columns.DERIVED_TYPE}' is not read", "run without -D")
    found = list(osu_columns.COLUMN.finditer(line))
    titles = [match[0] for match in found]
    bare = row.sizes == SIZELESS and table.version < (6,) and _BARE_HEAD.fullmatch(line)
    rest = osu_columns.COLUMN.sub("", line).strip()
    if not (rest == "" if bare else line.startswith("# ") and rest == "#") or len(set(titles)) < len(titles):
        raise _wrong(source, number, _what_is_wrong(line, "not a head of columns of OSU"))
    if missing := [each.key for each in osu_facts.lines_of(row) if each.key not in table.facts]:
        raise _wrong(source, number, f"the line that says the {missing[0]} is missing above the columns; the output is damaged")
    if percentile := osu_columns.unknown_percentile(titles):
        raise _wrong(source, number, f"percentile {percentile} is not read", "ask for P50, P90 and P99 (-z)")
    table.rows = tuple(each for each in table.rows if osu_columns.fits(each, titles))
    if not table.rows:
        raise _wrong(source, number, f"the columns are not those of {row.name}; outputs are damaged or mixed up")
    return [(match[0], match.end()) for match in found]


def _read_start(table: _Table, number: int, line: str) -> None:
    """The one line of osu_init (osu_init.c, whole milliseconds) or osu_hello (osu_hello.c)."""
    row = table.row
    found = (_HELLO if row.launch_time else _INIT).fullmatch(line)
    if table.records or not found:
        raise _wrong(table.source, number, _what_is_wrong(line, f"not the line of {row.name}"))
    times = [float(word) * 1e3 for word in found.groups()[1:]]
    if times and not times[0] <= times[2] <= times[1]:
        raise _wrong(table.source, number, "the mean is not between minimum and maximum; the line is damaged")
    values = dict(zip(row.quantities, times, strict=True)) if times else {}
    table.records.append(Record(NAME, row.name, int(found[1]), 1, None, 1, values))


def _read_row(table: _Table, number: int, line: str) -> None:
    """Take one row: cells end where their titles end, values fit each other and the rows before."""
    source, row = table.source, table.row
    cells = [(found[0], found.start(), found.end()) for found in re.finditer(r"\S+", line)]
    if len(cells) != len(table.columns):
        raise _wrong(source, number, _what_is_wrong(line, f"not a row of {row.name}"))
    size: int | None = None
    repetitions: int | None = None
    values: dict[str, float] = {}
    checked = any(title == VALIDATION for title, _ in table.columns)
    narrower = 0 if checked or table.version < (7,) else _NARROWER.get(row.name, 0)
    for (cell, start, end), (title, title_end) in zip(cells, table.columns, strict=True):
        quantity = osu_columns.quantity(row, title)
        pattern = _NUMBER if quantity else _WHOLE
        in_place = start == 0 if title == SIZE else end == title_end - narrower
        if title == VALIDATION and cell in ("Fail", "failed"):
            raise _wrong(
                source, number, f"validation failed: {row.name} received wrong data at {size} bytes", "distrust this MPI"
            )
        if not in_place or not (cell == "Pass" if title == VALIDATION else pattern.fullmatch(cell)):
            raise _wrong(source, number, _what_is_wrong(line, f"not a row of {row.name}"))
        if title == SIZE:
            size = int(cell)
        elif title == ITERATIONS:
            repetitions = int(cell)
        elif quantity:
            values[quantity] = float(cell)
    record = Record(NAME, row.name, table.ranks, 1, size, repetitions, values, table.variant, checked)
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
    if what := osu_columns.contradiction(record.message_bytes, record.values):
        raise _wrong(source, number, what)


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
