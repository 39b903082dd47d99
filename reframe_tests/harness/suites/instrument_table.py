"""The table that an instrument of the tests prints: a head, rows, and a last line with their number and a checksum."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .records import OutputError, Record

#: Makes a record of a line: source, line number, the line, and what the patterns of the head found.
RowReader = Callable[[str, int, str, Sequence[re.Match[str]]], Record]
#: The CRC-32 is that of all lines above, each with its end.
_END = re.compile(r"# end: ([0-9]{1,9}) rows, received data all right, CRC-32 ([0-9a-f]{8})")


@dataclass(frozen=True)
class InstrumentTable:
    """How one instrument's table is read.

    :param name: what it is a table of, in sentences.
    :param head: a pattern for each line before the rows.
    """

    name: str
    head: tuple[re.Pattern[str], ...]

    def read(self, text: str, source: str, row: RowReader) -> list[Record]:
        """Records of one output, in printed order.

        :raises OutputError: if it is damaged, mixed up, cut off or empty, or ``row`` refuses a line.
        """
        records: list[Record] = []
        head: list[re.Match[str]] = []
        checksum, ended = 0, False
        # What was set aside before the title left blank lines; the last line ends one, too.
        lines = list(enumerate(text.replace("\r\n", "\n").rstrip("\n").split("\n"), 1))
        first = next((at for at, (_, line) in enumerate(lines) if line), len(lines))
        for number, line in lines[first:]:
            if ended:
                raise wrong(source, number, "something stands behind the last line; outputs are mixed up")
            if end := _END.fullmatch(line):
                if len(head) < len(self.head) or int(end[1]) != len(records) or int(end[2], 16) != checksum:
                    raise wrong(source, number, "rows and checksum do not fit together; the output is damaged")
                ended = True
                continue
            checksum = zlib.crc32(f"{line}\n".encode(), checksum)
            if len(head) == len(self.head):
                records.append(row(source, number, line, head))
            elif found := self.head[len(head)].fullmatch(line):
                head.append(found)
            else:
                raise wrong(
                    source, number, "the head of the table is not that of this instrument; the output is damaged or mixed"
                )
        if not ended:
            raise OutputError(f"{source}: the table of {self.name} has no last line; the output was cut off, run it again.")
        if not records:
            raise OutputError(f"{source}: the table of {self.name} has no rows; run it again.")
        return records

    def refuse(self, source: str, number: int, line: str) -> OutputError:
        """The error of a line that is not a row."""
        shown = "".join(ch if ch.isprintable() else "?" for ch in line[:60])
        return wrong(source, number, f"'{shown}' is not a row of {self.name}; the output is damaged, cut or mixed up")


def columns(*titles: str) -> re.Pattern[str]:
    """The line of the columns' titles, however wide they are."""
    return re.compile(" +".join(map(re.escape, titles)))


def wrong(source: str, number: int, what: str) -> OutputError:
    """The error of a line."""
    return OutputError(f"{source}, line {number}: {what}; run the benchmark again.")
