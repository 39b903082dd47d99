"""The folder through which cases reach the allocation that they share, and its states
(``allocation.sh`` is the other side).

A file system may show a file late on another node, so no call here waits for a file of the other
side. What both sides could decide is decided by renaming a file, which succeeds for only one of
them (``rename(2)``).
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from ...vocabulary import BadInput

#: Key of a partition's extras that has its cases share allocations.
EXTRA = "share_allocations"
#: Minutes of an allocation that the cases of this start of ReFrame share on every partition whose
#: scheduler can, whatever its extras have.
VARIABLE = "MPIBENCH_SHARE_ALLOCATIONS"
#: Nodes of the job that this start of ReFrame runs in, with commas between them: its cases run on
#: these, and nothing is submitted.
OWN_NODES = "MPIBENCH_OWN_NODES"
#: ReFrame's schedulers, and those that share allocations in their place.
SHARED = {"slurm": "slurm_shared", "squeue": "squeue_shared"}
#: Program that runs the cases inside the allocation.
RUNNER = Path(__file__).with_name("allocation.sh")
#: Seconds for which an allocation starts further cases although no ReFrame shows that it waits for
#: them: it may be held up by a slow file system or judge a large output. Otherwise it looks at its
#: jobs several times a second.
SILENT_S = 600
#: Log with one line per start of a job script: time and host. A job that the scheduler requeued has
#: several; a case that is put into a further allocation starts with none.
START_LOG = "starts.txt"
_DONE = re.compile(r"(\d{1,3}) ([01]) (\d+)\n")


@dataclass(frozen=True)
class CaseEnd:
    """How a case ended inside an allocation.

    :param exit_status: of its job script.
    :param late: whether it was ended because its time was over.
    :param seconds: it took.
    """

    exit_status: int
    late: bool
    seconds: int


class Spool:
    """One allocation's folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._beats = 0
        self.beat()

    def command(self, lasts_s: int, idle_s: int) -> list[str]:
        """Words of the program that runs its cases.

        :param lasts_s: seconds the allocation lasts.
        :param idle_s: seconds without a case after which it ends.
        """
        return ["bash", str(RUNNER), str(self.folder), str(lasts_s), str(idle_s), str(SILENT_S)]

    def beat(self) -> None:
        """Show the other side that a ReFrame is waiting for the cases; if writing fails now, the
        next time will do.
        """
        self._beats += 1
        with contextlib.suppress(OSError):
            self._write("alive", f"{self._beats}\n")

    def put(self, number: int, script: str, limit_s: int) -> bool:
        """Make a case ready.

        :param number: of the case; lower ones come first.
        :param script: shell text that runs it.
        :param limit_s: seconds it may take; 0: any.
        :returns: whether it will be looked at: not if the allocation is ending.
        """
        self._write(f"{number:06}.limit", f"{limit_s}\n")
        self._write(f"{number:06}.ready", script)
        return not self.is_closed() or not self.withdraw(number)

    def withdraw(self, number: int) -> bool:
        """Take back a case that has not been started; whether it was
        not, as far as the file system says.
        """
        try:
            self._path(number, "ready").rename(self._path(number, "withdrawn"))
        except OSError:
            return False
        return True

    def ask_to_end(self, number: int) -> None:
        """Have a case that runs ended; where nothing can be written, its time limit ends it."""
        with contextlib.suppress(OSError):
            self._path(number, "cancel").touch()

    def close(self) -> None:
        """Have the allocation end as soon as nothing is ready; where
        nothing can be written, it ends when it is idle.
        """
        with contextlib.suppress(OSError):
            (self.folder / "closed").touch()

    def is_closed(self) -> bool:
        """Whether no further case is looked at."""
        return (self.folder / "closed").exists()

    def has_ended(self) -> bool:
        """Whether the other side ended in order: what is still ready
        was not started, and nothing runs.
        """
        return (self.folder / "ended").exists()

    def was_started(self, number: int) -> bool:
        return self._path(number, "running").exists()

    def read_end(self, number: int) -> CaseEnd | None:
        """How a case ended; ``None`` as long as it has not, or nothing shows it."""
        path = self._path(number, "done")
        try:
            text = path.read_text()
        except OSError:  # not there, or for the moment not to be read
            return None
        if not text:
            raise BadInput(
                "nothing-measured",
                f"{path} is empty, as on a full disk; free some space and run the case again.",
            )
        match = _DONE.fullmatch(text)
        if not match:
            raise BadInput(
                "file-damaged", f"{path} is damaged ({text[:40]!r}); run the case again."
            )
        status, late, seconds = map(int, match.groups())
        return CaseEnd(status, bool(late), seconds)

    def _path(self, number: int, suffix: str) -> Path:
        return self.folder / f"{number:06}.{suffix}"

    def _write(self, name: str, text: str) -> None:
        """Whole or not at all."""
        draft = self.folder / f".{name}"
        draft.write_text(text)
        draft.rename(self.folder / name)
