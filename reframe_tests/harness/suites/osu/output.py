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
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..benchmark import SIZELESS, Benchmark
from ..model import Said
from ..records import ROW_LIKE, OutputError, Record
from . import columns as osu_columns
from . import facts as osu_facts
from .columns import ITERATIONS, RANGE, RIGHT_RANGE_SINCE, SIZE, VALIDATION
from .rows import NAME, OVERLAP, ROWS, STARTUP

OLDEST, NEXT_MAJOR = (5, 6), (8,)
_TITLES = {row.title: tuple(each for each in ROWS if each.title == row.title) for row in ROWS}
_TITLE = re.compile(r"# (?P<title>OSU .+) v(?P<version>[0-9]+(?:\.[0-9]+){1,2})")
_ACCELERATED = re.compile(r"(?<=OSU MPI)-(?:CUDA MANAGED|MANAGED|CUDA|OPENACC|ROCM|SYCL)\b")
_NUMBER, _WHOLE = re.compile(r"[0-9]+\.[0-9]{2}"), re.compile("[0-9]+")
#: osu_mbw_mr of 5.6 prints another benchmark's column titles first.
_STRAY_HEAD = re.compile(r"# Size +(?:Latency \(us\)|Bandwidth \(MB/s\))")
#: The nonblocking barrier up to 7.0 has no ``#`` before its columns.
_BARE_HEAD = re.compile(r" +Overall\(us\) .*")
#: Without ``-c`` osu_latency_mp of 6 and 7 prints its first value into 10 columns and not 18, so all of them stand that much to
#: the left.
_NARROWER = {"osu_latency_mp": (0, 8)}
#: What atomics with ``-c`` print below their rows, each rank for itself (``atomic_data_validation_print_summary``, since 7.1).
_SUMMARY = re.compile(r"-{43}|Atomic Data Validation results for Rank=[01]:|(?:PASSED|SKIPPED): .*")
#: A line that only an output of OSU has, rows with a sign wrong among them.
PIECE = re.compile(
    rf"{ROW_LIKE}|[0-9]+ {{2,}}-?(?:[0-9]|nan|inf).*| +[0-9]+\.[0-9]{{2}}| +Overall\(us\) .*|nprocs: .*|This is a test with .*"
    r"|# (?:Size\b|Datatype: |Overall\b|Avg Latency|Window creation: |Synchronization: |\[ pairs: |Partitions: ).*"
    r"|Atomic Data Validation results .*|PASSED: All .*|FAILED: .*|DATA VALIDATION ERROR.*"
    r"|# Number of (?:Sender|Receiver|forked) .*|Dimensions size = .*|Time took to create topology graph.*"
)
#: In the column of ``-c``; in small letters in atomics, which have types that nothing compares.
_VERDICT = re.compile("Pass|passed|skipped")
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
    #: Built for accelerators, and so to say whose memory it uses.
    accelerated: bool = False
    facts: dict[str, str] = field(default_factory=dict)
    #: Column titles and where each ends; empty before the head.
    columns: list[tuple[str, int]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    #: By how much cells end before their titles do; known from the first row on.
    narrower: int = 0
    #: Has said on standard error that it knows one type only.
    noted: bool = False
    ended: bool = False

    @property
    def row(self) -> Benchmark:
        return self.rows[0]

    @property
    def lacks_range(self) -> bool:
        """Whether the minimum and maximum that it prints are none."""
        return self.row.quantities == OVERLAP and self.version < RIGHT_RANGE_SINCE

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
        elif not table.noted and osu_facts.is_note(table.row, table.version, line):
            table.noted = True
        elif table.row.group == STARTUP:
            _read_start(table, number, line)
        elif table.records and table.records[-1].validated and _SUMMARY.fullmatch(line):
            table.ended = True
        elif table.columns and not line.startswith("#") and not table.ended:
            _read_row(table, number, line)
        elif table.columns and (table.records or not _read_fact(table, number, line)):
            raise _wrong(source, number, "a second table starts; split the outputs, and run one data type and window at a time")
        elif not table.columns and not _read_fact(table, number, line):
            table.columns = _headless(table, line)
            if table.columns:
                _read_row(table, number, line)
            else:
                table.columns = _head(table, number, line)
    if table is None or not table.records:
        raise OutputError(f"{source}: the table of OSU has no rows; the output is incomplete, run it again.")
    return table.records


def said(text: str) -> Said:
    """What an output that was read says of how it was measured."""
    notes = []
    for line in text.split("\n"):
        found = _TITLE.fullmatch(line.rstrip())
        if found and _ACCELERATED.search(found["title"]):
            notes.append("the benchmark was built for accelerators; its buffers were in host memory")
        version = tuple(int(word) for word in found["version"].split(".")) if found else ()
        if found and version < RIGHT_RANGE_SINCE and "Min Comm.(us)" in text:
            notes.append(
                f"left out: minimum and maximum of OSU {found['version']}, which are neither on three ranks or more (right "
                f"from {'.'.join(map(str, RIGHT_RANGE_SINCE))} on)"
            )
    return Said(tuple(dict.fromkeys(notes)))


def extent(lines: Sequence[str], title: int) -> tuple[int, int]:
    """Where the output under a title begins, with what its program prints above the title, and where it ends: after the last
    line before another title that only OSU prints, so that whatever stands before that line stands inside."""
    begin, end, there = title, title + 1, False
    for at in range(title - 1, -1, -1):
        if osu_facts.is_early(lines[at].rstrip()):
            begin = at
        elif lines[at].strip():
            break
    own = _ACCELERATED.sub("", lines[title].rstrip())
    for at in range(title + 1, len(lines)):
        line = lines[at].rstrip()
        if line.startswith("# OSU ") and (there or _ACCELERATED.sub("", line) != own):
            break  # osu_mbw_mr prints its title twice
        if PIECE.fullmatch(line) and not osu_facts.is_early(line):
            end, there = at + 1, there or not line.startswith("#")
    if end < len(lines) and lines[end - 1].startswith(("PASSED", "FAILED")):
        end += bool(_SUMMARY.fullmatch(lines[end].rstrip()))
    return begin, end


def _titled(source: str, number: int, line: str, early: dict[str, str]) -> _Table:
    found = _TITLE.fullmatch(line)
    if not found and line.startswith("# OSU "):
        raise _wrong(source, number, f"'{_shown(line)}' is no title of OSU 5.6 to 7.5", "use one of those")
    if not found:
        raise _wrong(source, number, f"'{_shown(line)}' stands before the title; keep other programs' output out of the file")
    title, accelerated = _ACCELERATED.subn("", found["title"])
    version = tuple(int(word) for word in found["version"].split("."))
    if not OLDEST <= version < NEXT_MAJOR:
        raise _wrong(source, number, f"OSU {found['version']} is not known; read are 5.6 to 7.5", "use one of those")
    rows = _TITLES.get(title, ())
    if not rows:
        raise _wrong(source, number, f"'{title}' is none of the OSU benchmarks in the catalogue", "see 'mpibench catalogue'")
    # Lines above the title say which benchmark it is, where several have the title.
    able = tuple(row for row in rows if osu_facts.early_fits(row, early))
    if not able:
        raise _wrong(source, number, f"'{title}' does not belong to the lines above it; outputs are damaged or mixed up")
    return _Table(source, able, version, bool(accelerated), early)


def _read_fact(table: _Table, number: int, line: str) -> bool:
    """Take a line between title and head; false if it is none. Each comes once, in this order."""
    if table.row.name == "osu_mbw_mr" and not table.facts and (_STRAY_HEAD.fullmatch(line) or _TITLE.fullmatch(line)):
        # The title comes twice in 7.0.
        if line.startswith("# OSU"):
            again = _titled(table.source, number, line, {})
            if again.rows != table.rows:
                raise _wrong(table.source, number, "another benchmark starts; split the outputs")
            table.accelerated |= again.accelerated
        return True
    if osu_facts.is_of_accelerators(line):
        raise _wrong(table.source, number, "it measures memory of accelerators, which is not read", "use host memory")
    return osu_facts.take(osu_facts.lines_of(table.row), table.facts, line)


def _headless(table: _Table, line: str) -> list[tuple[str, int]]:
    """Columns of a barrier of 7.1, whose one row has no head; empty for all others."""
    row, said = table.row, all(each.key in table.facts for each in osu_facts.lines_of(table.row))
    bare = row.sizes == SIZELESS and table.version[:2] == (7, 1) and line[:1] == " " and said
    return osu_columns.headless(row, line.split()) if bare and "(" not in line else []


def _head(table: _Table, number: int, line: str) -> list[tuple[str, int]]:
    """Column titles with the position each ends at.

    :raises OutputError: if it is not a head, not this benchmark's, or lines that must precede it are missing.
    """
    source, row = table.source, table.row
    if osu_columns.DERIVED_TYPE in line:
        raise _wrong(source, number, f"column '{osu_columns.DERIVED_TYPE}' is not read", "run without -D")
    found = list(osu_columns.COLUMN.finditer(line))
    titles = [match[0] for match in found]
    bare = row.sizes == SIZELESS and _BARE_HEAD.fullmatch(line)
    rest = osu_columns.COLUMN.sub("", line).strip()
    if not (rest == "" if bare else line.startswith("# ") and rest == "#") or len(set(titles)) < len(titles):
        raise _wrong(source, number, _what_is_wrong(line, "not a head of columns of OSU"))
    if missing := [each.key for each in osu_facts.lines_of(row) if each.key not in table.facts]:
        raise _wrong(source, number, f"the line that says the {missing[0]} is missing above the columns; the output is damaged")
    if table.accelerated and "memory" not in table.facts:
        raise _wrong(source, number, "it measures memory of accelerators, which is not read", "use host memory")
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
    """Take one row: cells end where their titles end, values fit each other and the rows before.

    The minimum and maximum of releases that print another thing there are left out (:data:`columns.RIGHT_RANGE_SINCE`).
    """
    source, row = table.source, table.row
    cells = [(found[0], found.start(), found.end()) for found in re.finditer(r"\S+", line)]
    # The blocking barrier has a title and no value under it.
    columns = table.columns[:-1] if row.sizes == SIZELESS and table.columns[-1][0] == VALIDATION else table.columns
    if len(cells) != len(columns):
        columns = table.columns
    if len(cells) != len(columns):
        raise _wrong(source, number, _what_is_wrong(line, f"not a row of {row.name}"))
    size: int | None = None
    repetitions: int | None = None
    values: dict[str, float] = {}
    checked = False
    if not table.records:
        table.narrower = next((less for less in _NARROWER.get(row.name, ()) if cells[-1][2] == columns[-1][1] - less), 0)
    for (cell, start, end), (title, title_end) in zip(cells, columns, strict=True):
        quantity = osu_columns.quantity(row, title)
        pattern = _VERDICT if title == VALIDATION else _NUMBER if quantity else _WHOLE
        in_place = start == 0 if title == SIZE else end == title_end - table.narrower
        if title == VALIDATION and cell in ("Fail", "failed"):
            raise _wrong(
                source, number, f"validation failed: {row.name} received wrong data at {size} bytes", "distrust this MPI"
            )
        if not in_place or not pattern.fullmatch(cell):
            raise _wrong(source, number, _what_is_wrong(line, f"not a row of {row.name}"))
        if title == SIZE:
            size = int(cell)
        elif title == ITERATIONS:
            repetitions = int(cell)
        elif title == VALIDATION:
            checked = cell != "skipped"
        elif quantity and not (quantity in RANGE and table.lacks_range):
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
