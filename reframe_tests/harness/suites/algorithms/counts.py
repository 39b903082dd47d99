"""Strict reader of the messages that one call of a collective sends (``collective_times``, ``--count``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..instrument_table import InstrumentTable, columns
from ..records import Record
from . import COLLECTIVES, VARIANT

TITLE = "# MPI collective message counts, format 1"
_TABLE = InstrumentTable(
    "message counts",
    (
        re.compile(re.escape(TITLE)),
        re.compile(r"# ([1-9][0-9]{0,8}) ranks, MPI_THREAD_SINGLE, one call"),
        columns("#", "benchmark", "algorithm", "bytes", "messages", "sent[bytes]", "pattern"),
    ),
)
_ROW = re.compile(
    rf"({'|'.join(COLLECTIVES)}) +([\w.-]{{1,60}}) +([0-9]{{1,15}}) +([0-9]{{1,15}}) +([0-9]{{1,18}}) +([0-9a-f]{{1,8}})"
)


@dataclass(frozen=True)
class MessageCount:
    """What all ranks together send in one call.

    :param sent_bytes: of all messages.
    :param pattern: checksum of who sends how many messages and bytes to whom.
    """

    messages: int
    sent_bytes: int
    pattern: str


def read(text: str, source: str) -> dict[int, MessageCount]:
    """Message size to what one call sent, of an output of ``--count``.

    :raises OutputError: if it is damaged, mixed up, cut off or empty.
    """
    counts: dict[int, MessageCount] = {}

    def record(source: str, number: int, line: str, head: Sequence[re.Match[str]]) -> Record:
        found = _ROW.fullmatch(line)
        if not found:
            raise _TABLE.refuse(source, number, line)
        counts[int(found[3])] = MessageCount(int(found[4]), int(found[5]), found[6])
        return Record("collective_times", found[1], int(head[1][1]), 1, int(found[3]), 1, {}, variant=f"{VARIANT}{found[2]}")

    _TABLE.read(text, source, record)
    return counts
