"""What the head of an IMB output announces: binary, version, benchmarks, and the sizes each of them must print.

Formats are those of IMB_general_info (src_c/IMB_g_info.c), BenchmarkSuite::prepare (src_cpp/*/*_suite.cpp),
IMB_show_selections and IMB_print_blist (2018: src/IMB_output.c, src/IMB_benchlist.c), print_main_header (imb_p2p.c).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ...vocabulary import BadInput
from ..benchmark import ELEMENT, SIZELESS, Benchmark, by_name, doubling_sizes, find, version_tuple
from ..records import OutputError
from .rows import ROWS

#: IMB-IO says portions where others say messages, and no data types.
FILES = "IMB-IO"
#: IMB-EXT counts in elements for reductions whatever it sends, and begins with one, whatever -msglog says (helper_init_scope).
ACTIVE = "IMB-EXT"
#: Part named in the title line to the binary that prints it.
PARTS = {
    "MPI-1 part": "IMB-MPI1",
    "MPI-NBC part": "IMB-NBC",
    "MPI-RMA part": "IMB-RMA",
    "IMB-P2P part": "IMB-P2P",
    "MT part": "IMB-MT",
    "MPI-2 part": ACTIVE,
    "MPI-4 part": "IMB-MPI4",
    "MPI-IO part": FILES,
}
#: IMB-IO ends its title with an ``n`` and the rule below in the same line (``partn`` in src_c/IMB_g_info.c).
RUN_ON = re.compile(r"(?<=part)n#-+$")
#: IMB-MT prints title, tables and nothing else: no list, no lengths, no last line (src_cpp/MT/MT_suite.cpp).
BARE = "IMB-MT"

_ROWS = by_name(ROWS)
TITLE = re.compile(r"# +Intel ?\(R\) MPI Benchmarks ([^,]+), (.+?)")
_CALL = re.compile(r"^# Calling sequence was:[ \t\r]*\n(?:[ \t\r]*#?[ \t\r]*\n)*# *(\S.*(?:\n# *\S.*)*)", re.MULTILINE)
_LENGTH = re.compile(r"# (Minimum|Maximum) (?:message length|io portion) in bytes: +([0-9]+)")
_USER_LENGTHS = re.compile(r"# (?:Message|IO) lengths were user defined")
#: What a processor can do by itself, before nonblocking benchmarks of IMB-IO (IMB_show_selections).
_PROCESSOR = re.compile(r"# For nonblocking benchmarks:|# Function CPU_Exploit .*|# performance of +[0-9.]+ MFlops")
_DATATYPE = re.compile(r"# MPI_Datatype( for reductions)? +: +(MPIX?_[A-Z0-9_]+)")
_LISTED = re.compile(r"# (?:\(Multi-\))?([A-Za-z][A-Za-z0-9_]*)")
_SIZE_ARGUMENT = re.compile(r"([0-9]+)([KkMmGg]?)")

_BYTES_OF_TYPE = {
    "MPI_BYTE": 1,
    "MPI_CHAR": 1,
    "MPIX_C_FLOAT16": 2,
    "MPIX_C_BF16": 2,
    "MPI_INT": 4,
    "MPI_FLOAT": 4,
    "MPI_DOUBLE": 8,
}
_SUFFIX = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_OFF = ("off", "0", "disable", "no")  # args_parser.cpp


@dataclass
class Header:
    """The head of one output; filled line by line with :meth:`take`.

    :param words: calling sequence, as words.
    :param lengths: announced minimum and maximum in bytes, as far as read.
    :param units: bytes of one element, for data and for reductions.
    """

    source: str
    binary: str
    version: str
    words: list[str] = field(default_factory=list)
    lengths: dict[str, int] = field(default_factory=dict)
    units: dict[str, int] = field(default_factory=dict)
    user_lengths: bool = False
    benchmarks: list[Benchmark] = field(default_factory=list)
    _block: str = ""
    _options: dict[str, list[str]] = field(default_factory=dict)
    _read_words: int = 0

    def take(self, number: int, line: str) -> None:
        """One line of the head, stripped, not blank. Lines that say nothing about completeness (date, machine) pass."""
        if line.startswith("# Attention, invalid benchmark"):
            raise self.wrong(number, "IMB did not know a benchmark it was asked for; correct the command line")
        if line.startswith("# Calling sequence was:"):
            self._block = "call"
        elif line.startswith("# List of Benchmarks to run:"):
            self._block = "list"
        elif self._announcement(number, line) or _PROCESSOR.fullmatch(line):
            self._block = ""
        elif line == "#":
            # IMB-P2P ends both blocks with a lone "#", and starts them with one.
            self._block = "" if (self.words if self._block == "call" else self.benchmarks) else self._block
        elif self._block == "call" and line.startswith("#"):
            self.words += line.removeprefix("#").split()
        elif self._block == "list" and not line.startswith("#   "):
            self._list(number, line)
        elif not line.startswith("#"):
            raise self.wrong(number, f"{quote(line)} is not a line of IMB; keep other programs' output out of the file")

    def _announcement(self, number: int, line: str) -> bool:
        """Whether the line announces lengths or data types; they are kept."""
        if matched := _LENGTH.fullmatch(line):
            self.lengths[matched[1]] = int(matched[2])
        elif _USER_LENGTHS.fullmatch(line):
            self.user_lengths = True
        elif matched := _DATATYPE.fullmatch(line):
            if matched[2] not in _BYTES_OF_TYPE:
                raise self.wrong(number, f"{matched[2]} is not a data type IMB offers; the output is damaged, run again")
            self.units["reductions" if matched[1] else "data"] = _BYTES_OF_TYPE[matched[2]]
        else:
            return False
        return True

    def _list(self, number: int, line: str) -> None:
        matched = _LISTED.fullmatch(line)
        if not matched:
            raise self.wrong(number, f"{quote(line)} is not the name of a benchmark; the output is damaged, run again")
        row = self.row(number, matched[1])
        if row in self.benchmarks:
            raise self.wrong(number, f"{row.name} is listed twice; name each benchmark once, or separate mixed outputs")
        self.benchmarks.append(row)

    def row(self, number: int, name: str) -> Benchmark:
        """Catalogue row of a benchmark of this binary."""
        try:
            return find(_ROWS, self.binary, name)
        except BadInput as error:
            raise self.wrong(number, str(error).rstrip(".")) from error

    def finish(self) -> None:
        """Check that everything was announced that completeness is judged by.

        :raises OutputError: if a line of the head is missing.
        """
        if self.binary == BARE:
            return
        lengths = self.user_lengths or self.lengths.keys() == {"Minimum", "Maximum"}
        units = self.binary in ("IMB-P2P", FILES) or self.units.keys() == {"data", "reductions"}
        for there, what in (
            (self.words, "the calling sequence"),
            (self.benchmarks, "the list of benchmarks to run"),
            (lengths, "minimum and maximum message length"),
            (units, "the data types"),
        ):
            if not there:
                raise OutputError(f"{self.source}: the head lacks {what}; the output is incomplete, run the benchmark again.")

    def wrong(self, number: int, what: str) -> OutputError:
        """Error at a line."""
        return OutputError(f"{self.source}, line {number}: {what}.")

    def option(self, name: str) -> str | None:
        """Argument of an option of the calling sequence, the last one if given again."""
        values = self._arguments(name)
        return values[-1] if values else None

    def _arguments(self, name: str) -> list[str]:
        if self._read_words != len(self.words):
            self._options.clear()
            for word, value in zip(self.words, self.words[1:], strict=False):
                self._options.setdefault(word.lower(), []).append(value)
            self._read_words = len(self.words)
        return self._options.get(name, [])

    def number(self, name: str, default: int) -> int:
        """Integer argument of an option."""
        value = self.option(name)
        if value is None:
            return default
        if not value.isascii() or not value.isdigit():
            raise self._bad_option(name, value)
        return int(value)

    def _bad_option(self, name: str, value: str) -> OutputError:
        return OutputError(
            f"{self.source}: '{name} {value}' in the calling sequence is not understood; run the benchmark again."
        )

    @property
    def multi(self) -> bool:
        """Whether groups of processes run at the same time (``-multi``)."""
        return self.option("-multi") is not None

    @property
    def year(self) -> int:
        """Year in the version; 0 if there is none."""
        return (version_tuple(self.version) or (0,))[0]

    def variants(self, row: Benchmark) -> tuple[str, ...]:
        """Modes the benchmark must have run (``-aggregate_mode``, IMB-RMA since 2019)."""
        mode = self.option("-aggregate_mode")
        if len(row.variants) < 2 or mode in (None, "multi"):
            return row.variants
        return tuple(name for name in row.variants if name.replace("-", "_") == mode) or row.variants

    def unit(self, row: Benchmark) -> int:
        """Bytes of one element of the benchmark's data; 1 where the output does not say."""
        return self.units.get("reductions" if row.reduction else "data", 1)

    def sizes(self, row: Benchmark) -> tuple[int | None, ...] | None:
        """Sizes the benchmark must print, in order; ``None`` where the output does not say (a file of lengths, IMB-MT)."""
        if row.sizes == SIZELESS:
            return (None,)
        if self.binary == "IMB-P2P":
            return self._p2p_sizes()
        if self.binary == BARE:
            return None
        if row.sizes == ELEMENT:
            return (self.units["reductions"],)
        active = self.binary == ACTIVE
        unit = self.units["reductions"] if active else self.unit(row)
        logs = (self.option("-msglog") or "0:22").split(":")
        if not 1 <= len(logs) <= 2 or not all(log.isascii() and log.isdigit() and int(log) < 31 for log in logs):
            raise self._bad_option("-msglog", ":".join(logs))
        if self.user_lengths:
            given = self.option("-msgsize")
            if given is None:
                return None
            top = (1 << int(logs[-1])) // unit * unit
            lengths = [self._length("-msgsize", word) for word in given.split(",")]
            return tuple(-(-min(length, top) // unit) * unit for length in lengths)
        first = 1 << int(logs[0]) if len(logs) == 2 else 1
        first = min(first, unit) if active else first
        zero = (self.option("-zero_size") or "on").lower() not in _OFF
        return doubling_sizes(first, self.lengths["Maximum"], unit=unit, zero=zero)

    def _p2p_sizes(self) -> tuple[int, ...] | None:
        """``-msgsz`` may be given again and again; ``-msglen`` names a file (imb_p2p.c, initialization)."""
        if self.option("-msglen") is not None:
            return None
        if given := self._arguments("-msgsz"):
            return tuple(self._length("-msgsz", word) for word in given)
        smallest, largest = self.lengths["Minimum"], self.lengths["Maximum"]
        return doubling_sizes(smallest or 1, largest, zero=smallest == 0)

    def _length(self, name: str, word: str) -> int:
        matched = _SIZE_ARGUMENT.fullmatch(word)
        if not matched:
            raise self._bad_option(name, word)
        return int(matched[1]) * _SUFFIX[matched[2].lower()]


def ranks_series(row: Benchmark, world: int, npmin: int, year: int) -> list[int]:
    """Numbers of ranks IMB runs a benchmark on: npmin, 2 npmin, ... below, and all (helper_init_scope; IMB.c in 2018)."""
    if row.sizes == ELEMENT and year > 2018 and min(world, npmin) > 2:
        return []  # left out without a word
    if row.ranks in ("pair", "one"):
        return [min(2 if row.ranks == "pair" else 1, world)]
    if row.ranks == "even":
        world, npmin = world - world % 2, npmin + npmin % 2
    series = [max(1, min(world, npmin))]
    while series[-1] < world:
        series.append(min(2 * series[-1], world))
    return series


def shown_arguments(text: str) -> tuple[str, ...] | None:
    """Arguments in the calling sequence of an output, without the program; ``None`` where it has none (IMB-MT)."""
    found = _CALL.search(text)
    return tuple(found[1].replace("\n#", " ").split()[1:]) if found else None


def quote(text: str) -> str:
    """A line as it goes into a message: one line, not too long, nothing unprintable."""
    shown = "".join(ch if ch.isprintable() else "?" for ch in " ".join(text.split()))
    return f"'{shown[:60]}…'" if len(shown) > 60 else f"'{shown}'"
