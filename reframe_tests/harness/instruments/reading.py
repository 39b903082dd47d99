"""The one reader of the output of the programs in this folder (:mod:`common`).

The output is trusted once the number of rows and the checksum in the last line match the lines
above it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from ..printable import one_line
from ..vocabulary import BadInput

FORMAT = 3


@dataclass(frozen=True)
class Printed:
    """What an instrument printed.

    :param head: what holds for all rows; ``rows``: in printed order, as ``pack`` made them,
        without other lines of the instrument (``notes``).
    :param whole: the last line is there.
    """

    head: dict[str, Any]
    rows: list[Any]
    notes: list[dict[str, Any]]
    whole: bool = True


def first_line(instrument: str) -> str:
    return rf'^\{{"instrument": "{instrument}", [^\r\n]*\r?$'


def read(
    text: str,
    source: str,
    instrument: str,
    notes: Collection[str] = (),
    pack: Callable[[dict[str, Any], dict[str, Any]], Any] = lambda head, row: row,
) -> Printed:
    """One output, which must be whole.

    :param notes: first fields of lines that are no rows, of an instrument that says in between what
        can be used so far: lines of others are passed over then, and an output without an end is
        read up to there.
    :param pack: gives, of head and row, what is kept of a row, once a checksum covers it.
    :raises BadInput: if it is damaged, mixed up, truncated or empty.
    """

    def wrong(number: int, sentence: str) -> BadInput:
        return BadInput("output-damaged", f"{source}, line {number}: {sentence}; run it again.")

    head: dict[str, Any] = {}
    rows: list[Any] = []
    others: list[dict[str, Any]] = []
    pending: list[dict[str, Any]] = []
    used = 0
    checksum = 0
    whole = False
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip():
            continue
        if whole and (not notes or line.startswith("{")):
            raise wrong(number, "something follows the last line; outputs are mixed up")
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            content = None
        begins = isinstance(content, dict) and (
            content.get("instrument"),
            content.get("format"),
        ) == (instrument, FORMAT)
        if notes and not (isinstance(content, dict) and (head or begins)):
            continue  # of others, or damaged: then the next checksum is wrong
        if not isinstance(content, dict):
            raise wrong(
                number,
                f"'{one_line(line)[:60]}' is not a line of JSON; the output is damaged, truncated "
                "or mixed up",
            )
        if not head:
            if not begins:
                raise wrong(number, f"an output of {instrument} does not begin like this")
            head = content
        elif "crc32" in content:
            kind = "so_far" if notes and "so_far" in content else "end"
            count = len(rows) + len(pending)
            if content != {kind: instrument, "rows": count, "crc32": checksum}:
                raise wrong(number, "rows and checksum do not match; the output is damaged")
            rows += [pack(head, row) for row in pending]
            pending.clear()
            used = len(others)
            whole = kind == "end"
        else:
            (others if next(iter(content), "") in notes else pending).append(content)
        checksum = zlib.crc32(f"{line}\n".encode(errors="replace"), checksum)
    if not head:
        raise BadInput(
            "output-cut",
            f"{source}: the output of {instrument} has no beginning; it is truncated or from "
            "another program, run it again.",
        )
    if not notes and not whole:
        raise BadInput(
            "output-cut",
            f"{source}: the output of {instrument} has no last line; it is truncated, run it "
            "again.",
        )
    if not notes and not rows:
        raise BadInput(
            "output-empty", f"{source}: the output of {instrument} has no rows; run it again."
        )
    return Printed(head, rows, others[:used], whole)
