"""Strict reader of GPCNeT 1.3, ``network_test`` and ``network_load_test`` as they are built by default.

All lines but those with numbers are always the same, so that the whole output is held against what the program prints
(``print_header``, ``print_results`` and ``print_comparison_results`` of utils.c): nothing can be lost, twice or elsewhere.
Bandwidth is printed in MiB/s per rank and becomes MB/s per rank. A build with ``-DVERBOSE`` prints other columns, and more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..records import OutputError, Record
from . import rows
from .rows import ALONE, CONGESTED, ISOLATED, LOADED, TESTS, RingTest

#: Bytes of a MiB in one MB.
_MB_PER_MIB = (1 << 20) / 1e6
_TITLES = {"Network Tests v1.3": ISOLATED, "NetworkLoad Tests v1.3": LOADED}
_VERSION = re.compile(r"Network(?:Load)? Tests v(.*)")
_RANKS = re.compile(r"  Test with ([1-9][0-9]{0,8}) MPI ranks \(([1-9][0-9]{0,8}) nodes\)")
_TESTED = re.compile(r"  ([1-9][0-9]{0,8}) nodes running Network Tests")
_LOADING = re.compile(r"  ([1-9][0-9]{0,8}) nodes running Congestion Tests \(min ([1-9][0-9]{0,8}) nodes per congestor\)")
_LEGEND = (
    "",
    "  Legend",
    "   RR = random ring communication pattern",
    *("   Nat = natural ring communication pattern",),
    "   Lat = latency",
    "   BW = bandwidth",
    "   BW+Sync = bandwidth with barrier",
)
_OUTER, _INNER = f"+{'-' * 78}+", f"+{'-' * 33}+{'-' * 14}+{'-' * 14}+{'-' * 14}+"
_FACTORS, _FACTORS_INNER = f"+{'-' * 33}+{'-' * 44}+", f"+{'-' * 33}+{'-' * 22}+{'-' * 21}+"
_NUMBER = r" *[0-9]+\.[0-9]"


class _Lines:
    """An output, line by line, blank lines at both ends left out."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        lines = list(enumerate(text.replace("\r\n", "\n").split("\n"), 1))
        if lines[-1][1]:
            raise OutputError(f"{source}: the last line has no end; the output was cut off, run the benchmark again.")
        first = next((at for at, (_, line) in enumerate(lines) if line), len(lines))
        # What was set aside before the title left blank lines.
        self._left = lines[first:]
        while self._left and not self._left[-1][1]:
            self._left.pop()

    def take(self) -> tuple[int, str]:
        """The next line and its number."""
        if not self._left:
            raise OutputError(f"{self.source}: it ends before its last table does; the output was cut off, run it again.")
        return self._left.pop(0)

    def expect(self, *wanted: str) -> None:
        """The next lines are these."""
        for text in wanted:
            number, line = self.take()
            if line != text:
                raise self.wrong(number, line)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """The next line is one of this kind."""
        number, line = self.take()
        if found := pattern.fullmatch(line):
            return found
        raise self.wrong(number, line)

    def end(self) -> None:
        """Nothing follows."""
        for number, line in self._left:
            raise self.wrong(number, line)

    def wrong(self, number: int, line: str) -> OutputError:
        """The error of a line that does not stand here."""
        shown = "".join(ch if ch.isprintable() else "?" for ch in line[:60])
        if "Avg(Worst)" in line or line == f"+{'-' * 138}+":
            return OutputError(f"{self.source}, line {number}: it was built with -DVERBOSE; build it without (its README).")
        return OutputError(
            f"{self.source}, line {number}: '{shown}' does not stand here in an output of GPCNeT 1.3; the output is damaged, "
            "cut or mixed up, run it again."
        )


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order; of ``network_load_test`` the tests alone, those under load, their factors.

    :raises OutputError: if it is damaged, mixed up, cut off, of another version or build, or its numbers contradict.
    """
    lines = _Lines(text, source)
    number, title = lines.take()
    program = _TITLES.get(title)
    if program is None:
        if version := _VERSION.fullmatch(title):
            raise OutputError(f"{source}, line {number}: GPCNeT {version[1][:20]} is not known; build 1.3.")
        raise lines.wrong(number, title)
    found = lines.match(_RANKS)
    ranks, nodes = int(found[1]), int(found[2])
    if ranks < nodes or nodes < rows.FEWEST_NODES[program]:
        raise OutputError(f"{source}: it says that {ranks} ranks ran on {nodes} nodes; the output is damaged, run it again.")
    if program == LOADED:
        _check_split(lines, nodes)
    lines.expect(*(line for line in _LEGEND if program == ISOLATED or "Nat =" not in line))
    variant = ALONE if program == LOADED else ""
    records = list(_table(lines, "Isolated Network Tests".rjust(49).ljust(76), program, ranks, variant))
    if program == LOADED:
        lines.expect("")
        title = "Network Tests running with Congestion Tests".rjust(59).ljust(76)
        records += _table(lines, title, program, ranks, CONGESTED)
        records += _factors(lines, records, ranks)
    lines.end()
    return records


def _check_split(lines: _Lines, nodes: int) -> None:
    """Nodes are split as :mod:`.rows` says."""
    tested, loading = int(lines.match(_TESTED)[1]), lines.match(_LOADING)
    congesting = int(loading[1])
    if (tested + congesting, congesting, int(loading[2])) != (nodes, nodes * 8 // 10, congesting // 4):
        raise OutputError(f"{lines.source}: {nodes} nodes are not split so by GPCNeT 1.3; the output is damaged, run it again.")


def _table(lines: _Lines, title: str, program: str, ranks: int, variant: str) -> Iterator[Record]:
    """A table of mean and 99 % of each test."""
    lines.expect(_OUTER, f"| {title} |", _INNER, f"| {'Name':>31} | {'Avg':>12} | {'99%':>12} | {'Units':>12} |", _INNER)
    for test in TESTS[program]:
        start, end = re.escape(f"| {test.printed:>31} | "), re.escape(f" | {test.unit:>12} |")
        found = lines.match(re.compile(rf"{start}(?=.{{12}} \| .{{12}} \|)({_NUMBER}) \| ({_NUMBER}){end}"))
        lines.expect(_INNER)
        values = _positive(lines.source, test.printed, found)
        scale = 1.0 if test.unit == "usec" else _MB_PER_MIB
        stored = dict(zip(test.quantities, (value * scale for value in values), strict=True))
        yield Record(rows.NAME, test.name, ranks, 1, test.message_bytes, None, stored, variant)


def _factors(lines: _Lines, records: list[Record], ranks: int) -> Iterator[Record]:
    """The key results, which follow from the numbers of the two tables as printed, to one decimal.

    Kept is the quotient itself: 1.04 and 0.96 are both printed as 1.0X.
    """
    title = "Network Tests running with Congestion Tests - Key Results".rjust(66).ljust(76)
    lines.expect("", _OUTER, f"| {title} |", _FACTORS, f"| {'Name':>31} | {'Congestion Impact Factor':>42} |")
    lines.expect(_FACTORS_INNER, f"| {'':>31} | {'Avg':>20} | {'99%':>19} |", _FACTORS_INNER)
    for test in TESTS[LOADED]:
        mine = {record.variant: tuple(record.values.values()) for record in records if record.benchmark == test.name}
        quotients = [_quotient(test, *pair) for pair in zip(mine[ALONE], mine[CONGESTED], strict=True)]
        wanted = f"| {test.printed:>31} | {quotients[0]:>19.1f}X | {quotients[1]:>18.1f}X |"
        number, line = lines.take()
        if line != wanted:
            raise OutputError(
                f"{lines.source}, line {number}: the factors of {test.printed} do not follow from its times or bandwidths; the "
                "output is damaged or mixed up, run it again."
            )
        lines.expect(_FACTORS_INNER)
        values = dict(zip(rows.IMPACT, quotients, strict=True))
        yield Record(rows.NAME, test.impact, ranks, 1, test.message_bytes, None, values)


def _quotient(test: RingTest, alone: float, congested: float) -> float:
    """How many times worse; of bandwidths, as they were printed."""
    if test.unit == "usec":
        return congested / alone
    return round(alone / _MB_PER_MIB, 1) / round(congested / _MB_PER_MIB, 1)


def _positive(source: str, name: str, found: re.Match[str]) -> tuple[float, float]:
    values = (float(found[1]), float(found[2]))
    if not all(values):
        raise OutputError(f"{source}: {name} is printed as nothing; the benchmark did not measure, run it again.")
    return values
