"""Reader of the OSU Micro-Benchmarks (OMB) 5.6 to 7.5: one output of one binary.

A title with the version, at most a few lines on how the benchmark ran, a head of column titles, one row per size. The number
of ranks is not printed (except in pairs, osu_mbw_mr, and on rings), repetitions only with ``-f`` of blocking collectives, and
there is no last line: a table cut between two rows looks complete, so the caller compares with what was asked for
(``reader.complete``). Rows are printed with the widths of the head (``print_stats`` and ``print_only_header`` in
util/osu_util_mpi.c; the ``printf`` of mpi/pt2pt/osu_*.c), so every cell must end where its title ends.

Latency is half of the round trip in us, bandwidth is bytes / 1e6 / seconds. A percentile is over the repetitions of a size
(``-z``, since 7.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from ...vocabulary import QUANTITIES
from ..benchmark import SIZELESS, Benchmark
from ..model import Said
from ..records import ROW_LIKE, OutputError, Record
from .rows import CONGESTION, FULL_OVERLAP, NAME, OVERLAP, RIGHT_RANGE_SINCE, ROWS, STARTUP, SYNCS, WINDOWS

OLDEST, NEXT_MAJOR = (5, 6), (8,)
_TITLES = {row.title: tuple(each for each in ROWS if each.title == row.title) for row in ROWS}
_TITLE = re.compile(r"# (?P<title>OSU .+) v(?P<version>[0-9]+(?:\.[0-9]+){1,2})")
_ACCELERATED = re.compile(r"(?<=OSU MPI)-(?:CUDA MANAGED|MANAGED|CUDA|OPENACC|ROCM|SYCL)\b")
_COUNT = "[1-9][0-9]*"
#: Lines above a title: threads and processes in some versions (osu_latency_mt.c, osu_latency_mp.c), neighbourhoods always
#: (``omb_neighborhood_create``).
_ABOVE = (
    rf"# Number of Sender threads: (?P<sender_threads>{_COUNT})",
    rf"# Number of Receiver threads: (?P<receiver_threads>{_COUNT})",
    rf"# Number of forked processes in sender: (?P<sender_processes>{_COUNT})",
    rf"# Number of forked processes in receiver: (?P<receiver_processes>{_COUNT})",
    rf"Dimensions size = (?P<ring>{_COUNT})",
    r"Time took to create topology graph:(?P<setup>[0-9]+\.[0-9]{2}) us\.",
)
_EARLY = re.compile("|".join(_ABOVE))
#: Lines that say how a benchmark ran, each at most once, above the rows: ``print_header_one_sided``, osu_mbw_mr.c,
#: osu_partitioned_latency.c; data types since 7.1; memory in builds for accelerators.
_FACT = re.compile(
    "|".join(
        (
            *_ABOVE,
            f"# Window creation: (?P<window>{'|'.join(WINDOWS)})",
            f"# Synchronization: (?P<sync>{'|'.join(SYNCS)})",
            rf"# \[ pairs: (?P<pairs>{_COUNT}) \] \[ window size: (?P<size>{_COUNT}) \]",
            f"# Partitions: (?P<partitions>{_COUNT})",
            r"# Overall = (?P<parts>Coll\. Init \+ Compute \+ MPI_Test \+ MPI_Wait)",
            r"# Datatype: (?P<type>MPI_[A-Z_]+)\.",
            r"# (?:Send Buffer|Rank 0 Memory) on (?P<memory>HOST) \(H\) and .* on HOST \(H\)",
        )
    )
)
_DEVICE = re.compile(r"# (?:Send Buffer|Rank 0 Memory) on .*(?:DEVICE|MANAGED).*")
#: Facts that need not be there.
_OPTIONAL = {"type", "memory"}
_FACTS = {
    "osu_mbw_mr": {"pairs", "size"},
    "osu_latency_mt": {"sender_threads", "receiver_threads"},
    "osu_latency_mp": {"sender_processes", "receiver_processes"},
    "osu_partitioned_latency": {"partitions"},
}
#: What is reduced without a word before 7.1. Without ``-T`` it is MPI_CHAR in 7.1 to 7.4 and MPI_INT in 7.5, which print it.
REDUCED = "MPI_FLOAT"
#: On standard error, so anywhere in a file of both streams, from gets and puts since 7.1. osu_get_acc_latency 7.1 always says
#: it: it looks at its types before it has read them.
_ONLY_BYTES = "Benchmark supports only MPI_CHAR. Continuing with MPI_CHAR."

SIZE, ITERATIONS, VALIDATION = "Size", "Iterations", "Validation"
#: Column title (``print_only_header``, ``print_only_header_nbc``, ``print_header_one_sided``) to what stands in it; of several
#: quantities, the one the row has.
_QUANTITIES = {
    "Latency (us)": ("latency_us",),
    "Avg Latency(us)": ("latency_us", "t_avg_us"),
    "Min Latency(us)": ("t_min_us",),
    "Max Latency(us)": ("t_max_us",),
    "Bandwidth (MB/s)": ("bandwidth_mb_per_s",),
    "MB/s": ("bandwidth_mb_per_s",),
    "Messages/s": ("message_rate_per_s",),
    "Overall(us)": ("t_ovrl_us",),
    "Compute(us)": ("t_cpu_us",),
    "Coll. Init(us)": ("t_init_us",),
    "MPI_Test(us)": ("t_test_us",),
    "MPI_Wait(us)": ("t_wait_us",),
    "Pure Comm.(us)": ("t_pure_us",),
    "Min Comm.(us)": ("t_min_us",),
    "Max Comm.(us)": ("t_max_us",),
    "Overlap(%)": ("overlap_percent",),
}
_TAIL = re.compile(r"P([0-9]{1,2}) Tail (BW\(MB/s\)|Lat\(us\))")
_COLUMN = re.compile("|".join([*map(re.escape, (SIZE, *_QUANTITIES, ITERATIONS, VALIDATION)), _TAIL.pattern]))
_RANGE = ("t_min_us", "t_max_us")
_OVERLAP_LAYOUTS = (OVERLAP, FULL_OVERLAP, tuple(name for name in FULL_OVERLAP if name not in _RANGE))
#: Columns of barriers of 7.1, which print no head.
_PARTS = ("Overall(us)", "Compute(us)", "Coll. Init(us)", "MPI_Test(us)", "MPI_Wait(us)", "Pure Comm.(us)")
_HEADLESS = (
    ("Avg Latency(us)",),
    ("Avg Latency(us)", "Min Latency(us)", "Max Latency(us)", ITERATIONS),
    (*_PARTS[:2], _PARTS[-1], "Overlap(%)"),
    (*_PARTS, "Min Comm.(us)", "Max Comm.(us)", "Overlap(%)"),
)
#: osu_mbw_mr of 5.6 prints another benchmark's titles first; the nonblocking barrier up to 7.0 has no ``#`` before its own.
_STRAY_HEAD = re.compile(r"# Size +(?:Latency \(us\)|Bandwidth \(MB/s\))")
_BARE_HEAD = re.compile(r" +Overall\(us\) .*")
#: Without ``-c`` osu_latency_mp of 6 and 7 prints its first value into 10 columns and not 18: all stand that much to the left.
_NARROWER = {"osu_latency_mp": (0, 8)}
_CELLS = {SIZE: "[0-9]+", ITERATIONS: "[1-9][0-9]*", VALIDATION: "Pass|Fail|passed|failed|skipped"}
#: What atomics with ``-c`` print below their rows, each rank for itself (``atomic_data_validation_print_summary``, since 7.1).
_SUMMARY = re.compile(r"-{43}|Atomic Data Validation results for Rank=[01]:|(?:PASSED|SKIPPED): .*")
_INIT = re.compile(r"nprocs: ([1-9][0-9]*), min: ([0-9]+) ms, max: ([0-9]+) ms, avg: ([0-9]+) ms")
_HELLO = re.compile(r"This is a test with ([1-9][0-9]*) processes")
#: A line that only an output of OSU has, rows with a sign wrong among them.
PIECE = re.compile(
    rf"{ROW_LIKE}|[0-9]+ {{2,}}-?(?:[0-9]|nan|inf).*| +[0-9]+\.[0-9]{{2}}| +Overall\(us\) .*|nprocs: .*|This is a test with .*"
    r"|# (?:Size\b|Datatype: |Overall\b|Avg Latency|Window creation: |Synchronization: |\[ pairs: |Partitions: ).*"
    r"|Atomic Data Validation results .*|PASSED: All .*|FAILED: .*|DATA VALIDATION ERROR.*"
    r"|# Number of (?:Sender|Receiver|forked) .*|Dimensions size = .*|Time took to create topology graph.*"
)
_ODD = (
    (re.compile(r"\bwarn", re.IGNORECASE), "a warning stands in the output"),
    (re.compile("DATA VALIDATION ERROR"), "validation failed, so received data was wrong"),
    (
        re.compile(r"(?<![a-z])-?(?:nan|inf)\b", re.IGNORECASE),
        "no number stands where a value should be; the measurement failed",
    ),
    (re.compile(r"(?:^| )-[0-9]"), "a value is negative; the clock or the output is broken"),
    (re.compile(""), "this line does not belong here; the output is damaged, cut or mixed with another program's"),
)


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order.

    :raises OutputError: if it is damaged, mixed up or empty, of another benchmark or version, or data arrived wrong.
    """
    if not text.endswith("\n"):
        raise OutputError(f"{source}: the last line has no end; the output was cut off, run the benchmark again.")
    table = _Table()
    for number, line in enumerate(map(str.rstrip, text.split("\n")), 1):
        try:
            if line:
                table.take(line)
        except OutputError as error:
            raise OutputError(f"{source}, line {number}: {error}.") from None
    if not table.records:
        raise OutputError(f"{source}: the table of OSU has no rows; the output is incomplete, run it again.")
    return table.records


class _Table:
    """What has been read so far."""

    def __init__(self) -> None:
        #: Benchmarks of this title; the first whose lines and columns these are.
        self.rows: tuple[Benchmark, ...] = ()
        self.version: tuple[int, ...] = ()
        self.accelerated = False
        self.facts: dict[str, str] = {}
        #: Column titles and where each ends; empty before the head.
        self.columns: list[tuple[str, int]] = []
        self.shift = 0
        self.records: list[Record] = []
        self.noted = self.ended = False

    def take(self, line: str) -> None:
        """Take the next line."""
        if line.startswith("# OSU "):
            self._title(line)
        elif not self.records and (fact := _FACT.fullmatch(line)):
            said = {key: value for key, value in fact.groupdict().items() if value}
            if said.keys() & self.facts.keys() or (self.columns and said.keys() - _OPTIONAL):
                raise _second()
            self.facts |= said
        elif not self.rows:
            raise OutputError(f"'{_shown(line)}' stands before the title; keep other programs' output out of the file")
        elif line == _ONLY_BYTES and self._says_only_bytes():
            self.noted = True
        elif self.rows[0].group == STARTUP:
            self._start(line)
        elif self.records and self.records[-1].validated and _SUMMARY.fullmatch(line):
            self.ended = True
        elif not self.columns and self.version[:2] == (7, 1) and re.fullmatch(r" +[0-9]+\.[0-9]{2}( .*)?", line):
            self._fit(*_headless(line, overlaps=self.rows[0].quantities == OVERLAP))
            self._row(line)
        elif line.startswith("#") or not self.columns:
            self._head(line)
        elif self.ended:
            raise _odd(line)
        else:
            self._row(line)

    def _says_only_bytes(self) -> bool:
        return not self.noted and self.version >= (7, 1) and self.rows[0].name.startswith(("osu_get_", "osu_put_"))

    def _title(self, line: str) -> None:
        found = _TITLE.fullmatch(line)
        if not found:
            raise OutputError(f"'{_shown(line)}' is no title of OSU 5.6 to 7.5; use one of those")
        title, accelerated = _ACCELERATED.subn("", found["title"])
        version = tuple(int(word) for word in found["version"].split("."))
        if not OLDEST <= version < NEXT_MAJOR:
            raise OutputError(f"OSU {found['version']} is not known; read are 5.6 to 7.5; use one of those")
        if title not in _TITLES:
            raise OutputError(f"'{title}' is none of the OSU benchmarks in the catalogue; see 'mpibench catalogue'")
        # osu_mbw_mr of 7.0 prints its title twice.
        if self.rows and (self.columns or self.facts or self.rows != _TITLES[title] or self.rows[0].name != "osu_mbw_mr"):
            raise _second()
        self.rows, self.version = _TITLES[title], version
        self.accelerated |= bool(accelerated)

    def _start(self, line: str) -> None:
        """The one line of osu_init (osu_init.c, whole milliseconds) or osu_hello (osu_hello.c)."""
        row = self.rows[0]
        found = (_HELLO if row.launch_time else _INIT).fullmatch(line)
        if self.records or not found:
            raise OutputError(f"'{_shown(line)}' is not the line of {row.name}; the output is damaged or mixed up")
        times = [float(word) * 1e3 for word in found.groups()[1:]]
        values = dict(zip(row.quantities, times, strict=True)) if times else {}
        if fault := _contradiction(0, values):
            raise OutputError(fault)
        self.records.append(Record(NAME, row.name, int(found[1]), 1, None, 1, values))

    def _head(self, line: str) -> None:
        if self.columns:
            raise _second()
        if self.rows[0].name == "osu_mbw_mr" and not self.facts and _STRAY_HEAD.fullmatch(line):
            return
        if (self.accelerated and "memory" not in self.facts) or _DEVICE.fullmatch(line):
            raise OutputError("it measures memory of accelerators, which is not read; use host memory")
        if "Transmit Size" in line:
            raise OutputError("column 'Transmit Size' is not read; run without -D")
        found = list(_COLUMN.finditer(line))
        bare = self.rows[0].sizes == SIZELESS and _BARE_HEAD.fullmatch(line)
        if _COLUMN.sub("", line).strip() != ("" if bare else "#"):
            raise _odd(line)
        self._fit([match[0] for match in found], [match.end() for match in found])

    def _fit(self, titles: Sequence[str], ends: Sequence[int]) -> None:
        """Set the columns, and keep the benchmarks of this title that print them and the lines above them."""
        name, facts = self.rows[0].name, self.facts.keys() - _OPTIONAL
        able = [row for row in self.rows if _facts_of(row) == facts]
        if not able:
            missing = sorted(_facts_of(self.rows[0]) - facts)
            said = f"the line that says the {missing[0]} is missing" if missing else f"a line above is not of {name}"
            raise OutputError(f"{said}; the output is damaged or mixed up")
        for tail in filter(None, map(_TAIL.fullmatch, titles)):
            if f"latency_p{tail[1]}_us" not in QUANTITIES:
                raise OutputError(f"percentile P{tail[1]} is not read; ask for P50, P90 and P99 (-z)")
        self.rows = tuple(row for row in able if _prints(row, titles))
        if not self.rows:
            raise OutputError(f"the columns are not those of {name}; outputs are damaged or mixed up")
        self.columns = list(zip(titles, ends, strict=True))

    def _row(self, line: str) -> None:
        row, columns, cells = self.rows[0], self.columns, list(re.finditer(r"\S+", line))
        # The blocking barrier has a title and no value under it.
        if row.sizes == SIZELESS and columns[-1][0] == VALIDATION and len(cells) < len(columns):
            columns = columns[:-1]
        if len(cells) != len(columns):
            raise _odd(line)
        if not self.records and (shift := columns[-1][1] - cells[-1].end()) in _NARROWER.get(row.name, ()):
            self.shift = shift
        printed = {}
        for cell, (title, end) in zip(cells, columns, strict=True):
            in_place = not cell.start() if title == SIZE else cell.end() == end - self.shift
            if not in_place or not re.fullmatch(_CELLS.get(title, r"[0-9]+\.[0-9]{2}"), cell[0]):
                raise _odd(line)
            printed[title] = cell[0]
        size = int(printed[SIZE]) if SIZE in printed else None
        repetitions = int(printed[ITERATIONS]) if ITERATIONS in printed else None
        if printed.get(VALIDATION) in ("Fail", "failed"):
            raise OutputError(f"validation failed: {row.name} received wrong data at {size} bytes; distrust this MPI")
        values = {name: float(cell) for title, cell in printed.items() if (name := _quantity(row, title))}
        if row.quantities == OVERLAP and self.version < RIGHT_RANGE_SINCE:
            values = {name: value for name, value in values.items() if name not in _RANGE}
        if self.records:
            before = self.records[-1]
            if size is None or size != 2 * (before.message_bytes or 0.5):
                said = f"{size} bytes follow {before.message_bytes} bytes, but sizes double"
                raise OutputError(f"{said}; rows are missing, repeated or mixed up; run the benchmark again")
            if repetitions and repetitions > (before.repetitions or 0):
                raise OutputError("the number of iterations grows; outputs are mixed up")
        if fault := _contradiction(size or 0, values):
            raise OutputError(fault)
        facts, checked = self.facts, printed.get(VALIDATION, "skipped") != "skipped"
        ranks = 2 * int(facts["pairs"]) if "pairs" in facts else int(facts["ring"]) if "ring" in facts else None
        ranks = 2 if row.ranks == "only_pair" else ranks
        self.records.append(Record(NAME, row.name, ranks, 1, size, repetitions, values, _variant(row, facts), checked))


def _facts_of(row: Benchmark) -> set[str]:
    """What a benchmark must say above its columns."""
    if row.name in _FACTS:
        return _FACTS[row.name]
    sided, ring = row.options[:1] == ("-w",), row.group == "neighbourhood_osu"
    facts = {"window", "sync"} if sided else {"ring", "setup"} if ring else set()
    return facts | ({"parts"} if row.quantities == OVERLAP else set())


def _variant(row: Benchmark, facts: Mapping[str, str]) -> str:
    """What makes it another measurement: window and synchronisation, window size, threads, parts, a type not the default."""
    words = [WINDOWS[facts["window"]], SYNCS[facts["sync"]]] if "window" in facts else []
    words += [f"window={facts['size']}"] if "size" in facts else []
    words += [f"{key}={value}" for key, value in facts.items() if key.startswith(("sender_", "receiver_", "partitions"))]
    usual = REDUCED if row.reduction else "MPI_CHAR"
    words += [f"type={kind}"] if (kind := facts.get("type", usual)) != usual else []
    return ",".join(words)


def _quantity(row: Benchmark, title: str) -> str | None:
    """Key of :data:`vocabulary.QUANTITIES` of a column; ``None`` for a title that holds none.

    Fan-in and fan-out print a bandwidth under the title of a latency (osu_bw_fan_in.c computes MB/s; ``print_only_header`` of
    7.4 and 7.5 does not know their kind), and so the percentiles.
    """
    bandwidths = row.group == CONGESTION
    if tail := _TAIL.fullmatch(title):
        return f"bandwidth_p{tail[1]}_mb_per_s" if bandwidths or tail[2].startswith("BW") else f"latency_p{tail[1]}_us"
    if bandwidths and title == "Avg Latency(us)":
        return "bandwidth_mb_per_s"
    names = _QUANTITIES.get(title, ())
    return next((name for name in names if name in row.quantities), names[0] if names and row.quantities == OVERLAP else None)


def _prints(row: Benchmark, titles: Sequence[str]) -> bool:
    """Whether a benchmark prints these columns, in this order, with or without ``-f``, ``-c`` and ``-z``."""
    values = [title for title in titles if title in _QUANTITIES]
    printed = tuple(_quantity(row, title) for title in values)
    full = row.quantities != OVERLAP and len(values) == len(row.quantities) == 3
    wanted = [SIZE] if row.sizes != SIZELESS else []
    wanted += [*values, *([ITERATIONS] if full else []), *([VALIDATION] if VALIDATION in titles else [])]
    wanted += [title for title in titles if _TAIL.fullmatch(title)]
    layouts = _OVERLAP_LAYOUTS if row.quantities == OVERLAP else (row.quantities[: len(values)],)
    return bool(values) and printed in layouts and list(titles) == wanted and len(set(titles)) == len(titles)


def _headless(line: str, *, overlaps: bool) -> tuple[list[str], list[int]]:
    """Column titles of a row without a head, and where each cell must end (``print_stats``, ``print_stats_nbc`` of 7.1)."""
    cells = line.split()
    checked = [VALIDATION] if cells[-1] in ("Pass", "Fail") else []
    able = (list(each) for each in _HEADLESS if (each[-1] == "Overlap(%)") == overlaps)
    titles = next((each for each in able if len(each) + len(checked) == len(cells)), [])
    if not titles:
        raise _odd(line)
    widths = [{"Avg Latency(us)": 17, ITERATIONS: 12}.get(title, 18) for title in (*titles, *checked)]
    return [*titles, *checked], list(accumulate(widths))


def _contradiction(size: int, values: Mapping[str, float]) -> str:
    """What is wrong with a row whose columns cannot come from one measurement, each rounded to 0.01; empty if nothing is."""
    mean = "t_pure_us" if "t_pure_us" in values else "t_avg_us"
    times = [values[name] for name in ("t_min_us", mean, "t_max_us") if name in values]
    if any(high < low - 0.01 for low, high in pairwise(times)):
        return "the mean is not between minimum and maximum; the columns are damaged or mixed up"
    for kind in ("latency_p{}_us", "bandwidth_p{}_mb_per_s"):
        tails = [values[name] for percent in (50, 90, 99) if (name := kind.format(percent)) in values]
        if tails != sorted(tails):
            return "a percentile is below a smaller one; the columns are damaged or mixed up"
    # Overlap is 100 - (overall - compute) / pure x 100, at least 0 (``print_stats_nbc``).
    if (pure := values.get("t_pure_us", 0)) > 0.005 and "overlap_percent" in values:
        visible, overlap = values["t_ovrl_us"] - values["t_cpu_us"], values["overlap_percent"]
        bounds = [100 - (visible + way) / (pure + sign) * 100 for way in (-0.01, 0.01) for sign in (-0.005, 0.005)]
        if not max(0.0, min(bounds)) - 0.01 <= overlap <= max(0.0, *bounds) + 0.01:
            return "overlap is not what overall, computation and pure communication make; the columns are damaged or mixed up"
    rate, bandwidth = values.get("message_rate_per_s"), values.get("bandwidth_mb_per_s", 0.0)
    if rate is not None and abs(rate * size / 1e6 - bandwidth) > 0.005 * (1 + size / 1e6) + bandwidth * 1e-9:
        return "bandwidth is not message rate x size; the columns are damaged or mixed up"
    return ""


def said(text: str) -> Said:
    """What an output that was read says of how it was measured."""
    notes: dict[str, None] = {}
    for found in filter(None, (_TITLE.fullmatch(line.rstrip()) for line in text.split("\n"))):
        if _ACCELERATED.search(found["title"]):
            notes["the benchmark was built for accelerators; its buffers were in host memory"] = None
        if "Min Comm.(us)" in text and tuple(map(int, found["version"].split("."))) < RIGHT_RANGE_SINCE:
            notes[
                f"left out: minimum and maximum of OSU {found['version']}, which are neither on three ranks or more (right "
                f"from {'.'.join(map(str, RIGHT_RANGE_SINCE))} on)"
            ] = None
    return Said(tuple(notes))


def extent(lines: Sequence[str], title: int) -> tuple[int, int]:
    """Where the output under a title begins, with what its program prints above the title, and where it ends: after the last
    line before another title that only OSU prints, so that whatever stands before that line stands inside."""
    begin, end, there = title, title + 1, False
    for at in range(title - 1, -1, -1):
        if _EARLY.fullmatch(lines[at].rstrip()):
            begin = at
        elif lines[at].strip():
            break
    own = _ACCELERATED.sub("", lines[title].rstrip())
    for at in range(title + 1, len(lines)):
        line = lines[at].rstrip()
        if line.startswith("# OSU ") and (there or _ACCELERATED.sub("", line) != own):
            break  # osu_mbw_mr prints its title twice
        if PIECE.fullmatch(line) and not _EARLY.fullmatch(line):
            end, there = at + 1, there or not line.startswith("#")
    if end < len(lines) and lines[end - 1].startswith(("PASSED", "FAILED")):
        end += bool(_SUMMARY.fullmatch(lines[end].rstrip()))
    return begin, end


def _second() -> OutputError:
    return OutputError("a second table starts; split the outputs, and run one data type and window at a time")


def _odd(line: str) -> OutputError:
    what = next(what for pattern, what in _ODD if pattern.search(line))
    return OutputError(f"{what}: '{_shown(line)}'; run the benchmark again")


def _shown(line: str) -> str:
    return "".join(ch if ch.isprintable() else "?" for ch in line[:60])
