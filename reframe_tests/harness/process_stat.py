"""What the kernel reports of a process in ``/proc/<pid>`` (``proc(5)``), and how to recognise the
same process later.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class ProcessStat(NamedTuple):
    """State, parent and start of a process.

    :param state: one letter, field 3; ``Z`` and ``X`` are those of a process that has ended.
    :param parent: process id of its parent, field 4.
    :param start_ticks: start in clock ticks after boot, field 22; with the
        number it distinguishes a process from a later one.
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


@dataclass(frozen=True)
class Process:
    """Identifies a process: its number as seen by the command, and its start in clock ticks after
    boot (``proc(5)``, field 22 of ``/proc/<pid>/stat``).
    """

    pid: int
    start_ticks: int

    @classmethod
    def observe(cls, pid: int) -> Process | None:
        """The process of this number as it is now; ``None`` if
        there is none, or only its corpse.
        """
        try:
            now = read(pid)
        except OSError:
            return None
        return None if now.state in "ZX" else cls(pid, now.start_ticks)

    @property
    def alive(self) -> bool:
        return Process.observe(self.pid) == self

    @contextlib.contextmanager
    def held(self) -> Iterator[int]:
        """A descriptor of ``/proc/<pid>`` of this very process: nothing
        read through it is ever another process'.

        :raises ProcessLookupError: if it has ended.
        """
        folder = -1
        try:
            with contextlib.suppress(FileNotFoundError):
                folder = os.open(f"/proc/{self.pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            # Asked after opening: were it another process by now, its start time would show it.
            if folder < 0 or not self.alive:
                raise ProcessLookupError(f"process {self.pid} has ended")
            yield folder
        finally:
            if folder >= 0:
                os.close(folder)

    def _status(self) -> dict[str, list[str]]:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {name: words.split() for name, _, words in (line.partition(":") for line in lines)}

    def is_own(self, name: str) -> bool:
        """Whether it has this name and runs entirely as the caller; users can give any name to
        their own processes.

        ``proc(5)``, ``status``: ``Uid`` has real, effective, saved and file system user; a
        set-user-ID program that somebody else started differs in the first.
        """
        try:
            status = self._status()
        except OSError:
            return False
        return status["Name"] == [name] and set(map(int, status["Uid"])) == {os.getuid()}

    @property
    def pid_in_parent(self) -> int:
        """Process id of a namespace's process 1 in the namespace around it
        (``proc(5)``, ``NSpid`` of ``status``).
        """
        return int(self._status()["NSpid"][-2])
