"""Strict reader of the output of the Intel MPI Benchmarks, all binaries, 2018 to 2021.11.

The head announces which benchmarks run, over which sizes; :mod:`header` keeps that. Then come tables, one per
benchmark x number of ranks x mode, in the announced order, and a last line. Everything must be there, once, in order;
anything else is an error that names the line. Nothing is skipped but blank lines and the head's notes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..benchmark import SIZELESS
from ..records import ROW_LIKE, OutputError, Record
from . import columns as imb_columns
from . import section as imb_section
from .columns import GROUP, QUANTITY_OF_COLUMN, REPETITIONS, SIZE
from .header import BARE, FILES, PARTS, RUN_ON, TITLE, Header, quote, ranks_series
from .section import CommonSizes, Section

LAST_LINE = "# All processes entering MPI_Finalize"

_RULE = re.compile(r"#-{20,}")
_NAME = re.compile(r"# Benchmarking (Multi-)?([A-Za-z][A-Za-z0-9_]*)(?: \(([0-9]+(?: x [0-9]+){1,2})\))?")
_PROCESSES = re.compile(r"# #processes = ([1-9][0-9]*)(; rank order \(rowwise\):)?")
_THREADED = re.compile(r"# #processes = ([1-9][0-9]*) \(threads: ([1-9][0-9]*)\)")
_GROUPS = re.compile(r"# \( ([0-9]+) groups of ([0-9]+) processes each running simultaneous \)")
_IDLE = re.compile(r"# \( ([0-9]+) additional process(?:es)? waiting in MPI_Barrier\)")
# Ranks of a group or a row of the process map, the lone "#" that ends each, and "..." where IMB leaves some out.
_RANKS = re.compile(r"#(?: Group +[0-9]+:)?(?: +[0-9]+| +\.{1,3})*")
_WINDOW = re.compile(r"# window_size = [1-9][0-9]*")
_MODE = re.compile(r"# +MODE: ((?:NON-)?AGGREGATE)")
_CHECKED = re.compile(r"!{4} +ALL BENCHMARKS SUCCESSFUL !{4}|# of calls to IMB_v_alloc / IMB_v_free match on all processes")

#: What IMB says when something went wrong, and what to do about it.
_COMPLAINTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"[0-9 ]*out-of-mem"),
        "IMB left a size out for want of memory; give it more with -mem, or measure smaller messages",
    ),
    (re.compile(r"[0-9 ]*int-overflow"), "IMB left a size out because ranks x size overflows; measure smaller messages"),
    (
        re.compile(r"[0-9 ]*time-out"),
        "IMB ran out of time and left sizes out; allow more with -time, or ask for fewer repetitions with -iter",
    ),
    (
        re.compile(r"# !! Benchmark .* invalid for"),
        "IMB refused to run a benchmark on this number of processes; start it on another number or leave it out, or, where it "
        "was started on more, use a launcher that this MPI knows",
    ),
    (re.compile(r"# NO SUCCESSFUL EXECUTIONS"), "IMB-MT could not run a benchmark on these processes; leave it out"),
    (re.compile(r"Invalid benchmark name"), "IMB did not know a benchmark it was asked for; correct the command line"),
    # Of a build with -DCHECK (IMB_chk_diff.c): that data differ, and what was received and expected.
    (
        re.compile(r"CHECK FAILURES|!!! |!{4} |.*: FAILED|[0-9]+: Error .*size = ?[0-9]|Process [0-9]+: (?:Got|Expected) "),
        "IMB found wrong data; the MPI library is not to be trusted",
    ),
    (re.compile(r"EXCEPTION:"), "IMB failed; see its standard error"),
)
#: A line that only an output of IMB has, rows with a sign wrong among them.
PIECE = re.compile(
    rf"{ROW_LIKE}|\s*(?:# Benchmarking .*|# #processes = .*|(?:Group +)?#(?:bytes|repetitions) .*|# Calling sequence was:.*"
    rf"|# List of Benchmarks to run:.*|{LAST_LINE}|{_MODE.pattern}|{_GROUPS.pattern})\s*"
)
_ANY_COMPLAINT = re.compile("|".join(pattern.pattern for pattern, _ in _COMPLAINTS))


def parse(text: str, source: str) -> list[Record]:
    """Records of one complete IMB output, in printed order.

    :raises OutputError: if it is incomplete, damaged, mixed up, or says that something went wrong.
    """
    return _Reader(source).read(text)


def extent(lines: Sequence[str], title: int) -> tuple[int, int]:
    """Where the output under a title begins, with the rule above it, and where it ends: with its last line, or where it has
    none before another title, after the last line that only IMB prints."""
    begin = title - bool(title and _RULE.fullmatch(lines[title - 1].strip()))
    bare, end = BARE in PARTS.get(RUN_ON.sub("", lines[title].strip().rpartition(", ")[2]), ""), title + 1
    for at in range(title + 1, len(lines)):
        line = lines[at].strip()
        if TITLE.fullmatch(line) and bare:
            break
        if line == LAST_LINE or TITLE.fullmatch(line):
            end = at + 1
            break
        if PIECE.fullmatch(lines[at]) or not bare:
            end = at + 1
    for at in range(end, len(lines)):
        if lines[at].startswith("!") or _CHECKED.fullmatch(lines[at].strip()):
            end = at + 1
        elif lines[at].strip():
            break
    return begin, end


class _Reader:
    """Reads line by line; ``self._expect`` is the method that takes the next line outside a table's rows."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._titled: Header | None = None
        self.sections: list[Section] = []
        self.records: list[Record] = []
        self.common = CommonSizes()
        self._expect = self._title

    def read(self, text: str) -> list[Record]:
        match = None
        cells: list[tuple[str, ...]] = []
        numbers: list[int] = []
        number = 0
        for number, line in enumerate(text.split("\n"), 1):
            if match is not None:
                found = match(line)
                if found is not None:
                    cells.append(found.groups())
                    numbers.append(number)
                    continue
            line = line.strip()
            if not line:
                continue
            match = None
            self._expect(number, line)
            if self._expect == self._after_rows:
                section = self.sections[-1]
                cells, numbers = section.cells, section.numbers
                match = imb_columns.row_pattern(section.columns).fullmatch
        self._end(number, text)
        return self.records

    # Head of the output.

    @property
    def header(self) -> Header:
        """What the head says, once its title was read."""
        assert self._titled is not None
        return self._titled

    def _title(self, number: int, line: str) -> None:
        found = TITLE.fullmatch(line)
        if found:
            part = RUN_ON.sub("", found[2])
            if part not in PARTS:
                raise self._wrong(
                    number, f"this is the '{part}' of IMB, which is not read; known are {', '.join(PARTS.values())}"
                )
            self._titled = Header(self.source, PARTS[part], found[1])
            self._expect = self._under_title
        elif not line.startswith("#"):
            raise self._strange(number, line)

    def _under_title(self, number: int, line: str) -> None:
        self._expect = self._head
        if not _RULE.fullmatch(line):
            self._head(number, line)

    def _head(self, number: int, line: str) -> None:
        self._refuse_title(number, line)
        if _RULE.fullmatch(line):
            self.header.finish()
            self._expect = self._name
        elif line.startswith("# Benchmarking"):
            raise self._wrong(number, "a table starts without the rule above it; the output is damaged, run again")
        else:
            self._refuse_complaint(number, line)
            self.header.take(number, line)

    # Head of a table.

    def _name(self, number: int, line: str) -> None:
        found = _NAME.fullmatch(line)
        if not found:
            raise self._broken_head(number, line, "the name of a benchmark")
        row = self.header.row(number, found[2])
        self.sections.append(Section(row, number, bool(found[1]), (found[3] or "").replace(" ", "")))
        self._expect = self._processes

    def _processes(self, number: int, line: str) -> None:
        section = self.sections[-1]
        if self.header.binary == BARE and (found := _THREADED.fullmatch(line)):
            section.ranks, section.threads = int(found[1]), int(found[2])
        elif section.multi and (found := _GROUPS.fullmatch(line)):
            section.groups, section.ranks = int(found[1]), int(found[2])
            section.mapped = True
        elif not section.multi and self.header.binary != BARE and (found := _PROCESSES.fullmatch(line)):
            section.ranks = int(found[1])
            section.mapped = bool(found[2])
        else:
            raise self._broken_head(number, line, "the number of processes")
        self._expect = self._ranks

    def _ranks(self, number: int, line: str) -> None:
        section = self.sections[-1]
        if _RULE.fullmatch(line):
            self._expect = self._columns
        elif found := _IDLE.fullmatch(line):
            section.idle = int(found[1])
        elif not (section.mapped and _RANKS.fullmatch(line)) and not (section.threads and _WINDOW.fullmatch(line)):
            raise self._broken_head(number, line, "the rule that ends it")

    def _columns(self, number: int, line: str) -> None:
        section = self.sections[-1]
        if found := _MODE.fullmatch(line):
            if section.mode:
                raise self._wrong(number, f"{section} has two modes; the output is damaged, run again")
            section.mode = found[1].lower()
            return
        if line == "#":
            return
        names = tuple(line.split())
        if REPETITIONS not in names or line.startswith("# "):
            raise self._broken_head(number, line, "the names of the columns")
        self._check_columns(number, section, names)
        section.columns = names
        self._expect = self._after_rows

    def _check_columns(self, number: int, section: Section, names: Sequence[str]) -> None:
        unknown = [name for name in names if name not in imb_columns.KNOWN]
        if unknown or len(set(names)) < len(names):
            what = f"unknown column '{unknown[0]}'" if unknown else "a column that occurs twice"
            raise self._wrong(number, f"{section} has {what}; the output is damaged or of a version that is not known")
        quantities = {QUANTITY_OF_COLUMN[name] for name in names if name in QUANTITY_OF_COLUMN}
        wanted = set(section.row.quantities)
        if self.header.multi and "latency_us" in wanted:
            # With -multi 0 times are those of all groups: minimum, maximum, average (IMB_output).
            wanted = wanted if "latency_us" in quantities else wanted - {"latency_us"} | {"t_min_us", "t_max_us", "t_avg_us"}
        if (
            quantities != wanted
            or (SIZE in names) != (section.row.sizes != SIZELESS)
            or (GROUP in names and not self.header.multi)
        ):
            raise self._wrong(number, f"{section} has the columns of another benchmark; outputs are mixed up, run again")

    # Rows and what follows them.

    def _after_rows(self, number: int, line: str) -> None:
        section = self.sections[-1]
        if _RULE.fullmatch(line):
            self._close(section)
            self._expect = self._name
        elif line == LAST_LINE and self.header.binary != BARE:
            self._close(section)
            self._expect = self._nothing
        elif not _CHECKED.fullmatch(line):
            self._refuse_complaint(number, line)
            self._refuse_title(number, line)
            if line == LAST_LINE or line.startswith("#"):
                raise self._wrong(
                    number, f"{quote(line)} does not belong inside a table; the output is damaged or mixed, run again"
                )
            raise self._wrong(number, f"{quote(line)} {_what_is_wrong(line, section.columns)}")

    def _nothing(self, number: int, line: str) -> None:
        if TITLE.fullmatch(line) or _RULE.fullmatch(line):
            raise self._wrong(number, "a second complete run follows the first; split them into one file each")
        if not _CHECKED.fullmatch(line):
            raise self._wrong(number, f"{quote(line)} follows the last line of IMB; outputs are mixed up, run again")

    def _close(self, section: Section) -> None:
        self.records += imb_section.read(section, self.header, self.common)

    # End of the output.

    def _end(self, number: int, text: str) -> None:
        header = self._titled
        if header is None:
            raise OutputError(
                f"{self.source}: there is no title line of IMB; the beginning is missing, run the benchmark again."
            )
        if header.binary == BARE:
            if self._expect != self._after_rows or not text.endswith("\n"):
                raise self._wrong(number, "the output ends in the middle; it was cut off, run the benchmark again")
            self._close(self.sections[-1])
            self._check_repeated_tables()
            return
        if self._expect != self._nothing:
            at = f" in {self.sections[-1]}" if self.sections else ""
            raise self._wrong(number, f"the output ends{at} without '{LAST_LINE[2:]}'; it was cut off, run the benchmark again")
        self._check_order()

    def _check_repeated_tables(self) -> None:
        seen: set[tuple[str, int, int]] = set()
        for section in self.sections:
            key = (section.row.name, section.ranks, section.threads)
            if key in seen:
                raise self._wrong(section.line, f"{section} is there twice; separate the outputs and run again")
            seen.add(key)

    def _check_order(self) -> None:
        """The tables must be those announced: benchmarks in order, each over all its numbers of ranks and modes."""
        world = max((section.total for section in self.sections), default=0)
        wanted: list[tuple[str, int, str]] = []
        npmin = self.header.number("-npmin", 1 if self.header.binary == FILES else 2)  # IMB_init.c
        for row in self.header.benchmarks:
            series = [world] if self.header.binary == "IMB-P2P" else ranks_series(row, world, npmin, self.header.year)
            wanted += [(row.name, ranks, mode) for ranks in series for mode in self.header.variants(row)]
            if row.ranks == "even" and self.header.year == 2018:
                npmin += npmin % 2  # for all later benchmarks, too (IMB.c)
        for section, expected in zip(self.sections, wanted, strict=False):
            if (section.row.name, section.ranks, section.mode) != expected:
                mode = f", {expected[2]}" if expected[2] else ""
                raise self._wrong(
                    section.line,
                    f"found {section} where {expected[0]} ({expected[1]} processes{mode}) should be; "
                    "tables are missing, repeated or mixed up, run again",
                )
            if section.total != world and not (section.row.ranks == "even" and section.total == world - world % 2):
                what = f"{section} ran among {section.total} processes, other tables among {world}"
                raise self._wrong(section.line, f"{what}; outputs are mixed up, run again")
        if len(self.sections) > len(wanted):
            extra = self.sections[len(wanted)]
            raise self._wrong(extra.line, f"{extra} was not announced or is there twice; outputs are mixed up, run again")
        if len(self.sections) < len(wanted):
            name, ranks, mode = wanted[len(self.sections)]
            mode = f", {mode}" if mode else ""
            raise OutputError(
                f"{self.source}: {name} ({ranks} processes{mode}) was announced and is missing; run the benchmark again."
            )

    # Errors.

    def _wrong(self, number: int, what: str) -> OutputError:
        return OutputError(f"{self.source}, line {number}: {what}.")

    def _strange(self, number: int, line: str) -> OutputError:
        return self._wrong(number, f"{quote(line)} is not a line of IMB; keep other programs' output out of the file")

    def _broken_head(self, number: int, line: str, wanted: str) -> OutputError:
        self._refuse_complaint(number, line)
        self._refuse_title(number, line)
        return self._wrong(
            number,
            f"found {quote(line)} in the head of a table where {wanted} should be; the output is damaged or mixed, run again",
        )

    def _refuse_complaint(self, number: int, line: str) -> None:
        if _ANY_COMPLAINT.match(line):
            raise self._wrong(number, next(sentence for pattern, sentence in _COMPLAINTS if pattern.match(line)))

    def _refuse_title(self, number: int, line: str) -> None:
        if TITLE.fullmatch(line):
            raise self._wrong(
                number, "a second run starts before the first one ends; the outputs are interleaved or cut, run again"
            )


def _what_is_wrong(line: str, columns: Sequence[str]) -> str:
    """Why a line is not a row of a table."""
    words = line.split()
    if any(word.lower().lstrip("+-") in ("nan", "inf", "infinity") for word in words):
        return "holds no number where a measured value should be; the measurement failed, run again"
    if any(re.fullmatch(r"-[0-9.]+", word) for word in words):
        return "holds a negative value; the clock or the output is broken, run again"
    if not words[0][:1].isdigit():
        return "is not a line of IMB; keep other programs' output out of the file"
    if len(words) != len(columns):
        return f"has {len(words)} columns where the table has {len(columns)}; the output is cut or mixed, run again"
    return "is not a row as IMB prints it; the output is damaged, run again"
