"""What the kernel reports of a process in ``/proc/<pid>/stat`` (``proc(5)``)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class ProcessStat(NamedTuple):
    """State, parent and start of a process.

    :param state: one letter, field 3; ``Z`` and ``X`` are those of a process that has ended.
    :param parent: process id of its parent, field 4.
    :param start_ticks: start in clock ticks after boot, field 22; with the number it distinguishes a process from a later one.
    """

    state: str
    parent: int
    start_ticks: int


def read(pid: int | str = "self") -> ProcessStat:
    """The process of a number as it is now, by default the one that asks.

    :raises OSError: there is none.
    """
    text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    # The name, in parentheses, may hold anything.
    fields = text[text.rindex(")") + 2 :].split()
    return ProcessStat(fields[0], int(fields[1]), int(fields[19]))
