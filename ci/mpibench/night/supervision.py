"""Runs a long program, keeps its output, and makes sure that none of its processes outlives us."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from reframe_tests.harness import process_stat

from ..exit_status import Interrupted as Interrupted

#: Signals that end a night: the terminal's, the one of CI servers
#: and systemd, and a terminal that is gone.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Seconds ReFrame has after each signal to cancel its jobs and store what it has; it gives a local
#: job 2 s (``core/schedulers/local.py``).
GRACE_S = 30.0
#: Seconds a process has between SIGTERM and SIGKILL.
_TERM_S = 5.0
#: ``prctl(2)``: processes whose parent died become our children, not those of process 1.
_PR_SET_CHILD_SUBREAPER = 36
#: ``prctl(2)``: a process gets a signal when its parent dies, by SIGKILL too.
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


class OutOfTime(Exception):
    """The program was interrupted because it was not done within its limit."""


def heed_signals() -> None:
    """Raise :class:`Interrupted` in the main thread at the first signal;
    later ones are ignored, so that cleaning up ends.
    """

    def interrupt(number: int, _: object) -> None:
        for signal_number in SIGNALS:
            signal.signal(signal_number, signal.SIG_IGN)
        raise Interrupted(number)

    for number in SIGNALS:
        signal.signal(number, interrupt)


@contextlib.contextmanager
def heeded() -> Iterator[None]:
    """Heed signals until its end, and then no longer."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    heed_signals()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(
    words: Sequence[str],
    log: Path,
    show: Callable[[str], bool],
    environ: Mapping[str, str] | None = None,
    held: Sequence[int] = (),
    cwd: Path | None = None,
    limit_s: float = math.inf,
    tell: Callable[[], None] = lambda: None,
) -> int:
    """Run a program; exit status as ``subprocess`` has it.

    Both its streams go to ``log``, and to our standard output the lines that ``show`` is true for.
    What it leaves running when it ends is ended, too. Where we are killed, the program is
    interrupted.

    :param held: descriptors of files whose locks (``flock(2)``) last as long
        as the program does, even if we are killed.
    :param limit_s: seconds after which it is interrupted as by a signal to us.
    :param tell: called each second; a terminal that is gone does not stop the program.
    :raises Interrupted: after the program and all its processes have ended.
    :raises OutOfTime: likewise.
    """
    _adopt_orphans()
    # In a session of its own: a terminal's SIGINT reaches us only, and the program gets it once.
    program = subprocess.Popen(
        words,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=held,
        preexec_fn=_interrupt_when_orphaned,
        text=True,
        errors="replace",
    )
    reader = threading.Thread(target=_copy, args=(program, log, show), daemon=True)
    reader.start()
    deadline = time.monotonic() + limit_s
    try:
        while time.monotonic() < deadline:
            if _wait(program.pid, 1):
                return program.wait()
            _bury(program.pid)
            with contextlib.suppress(OSError, ValueError):
                tell()
        raise OutOfTime(f"not finished after {limit_s:.0f} s")
    except (Interrupted, OutOfTime):
        # A KeyboardInterrupt first: what ReFrame 4.10 raises at SIGTERM is an Exception, which
        # logging swallows if it comes while a line is written (logging/__init__.py, Handler.emit),
        # and then ReFrame goes on.
        for number in (signal.SIGINT, signal.SIGTERM):
            # ended by itself, and collected already
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(program.pid, number)
                if not _wait(program.pid, GRACE_S):
                    continue
            break
        raise
    finally:
        _end_descendants()
        if program.returncode is None:
            program.wait()
        reader.join(timeout=_TERM_S)


def _wait(pid: int, seconds: float) -> bool:
    """Whether a child ends within that time; it is left to be collected.

    Not ``Popen.wait(timeout)``: a signal handler that raises between its ``acquire`` and its
    ``try`` leaves the lock held, and the next ``wait()`` never ends.
    """
    deadline = time.monotonic() + seconds
    while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True


def _copy(program: subprocess.Popen[str], log: Path, show: Callable[[str], bool]) -> None:
    """Read to the end whatever happens: a full disk or a terminal
    that is gone must not stop the program.
    """
    assert program.stdout
    with contextlib.suppress(OSError), contextlib.ExitStack() as files:
        copy: TextIO | None = None
        with contextlib.suppress(OSError):
            copy = files.enter_context(log.open("w", encoding="utf-8", buffering=1))
        for line in program.stdout:
            for file in (copy, sys.stdout if show(line) else None):
                with contextlib.suppress(OSError, ValueError):
                    if file:
                        file.write(line)
                        file.flush()


def _adopt_orphans() -> None:
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _interrupt_when_orphaned() -> None:
    """In the program, before it begins. Nothing of ours runs in another thread yet."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """Processes below a process, zombies included, from their parents in
    ``/proc/<pid>/stat`` (``proc(5)``, field 4).
    """
    children: dict[int, list[int]] = {}
    # Not with glob, which looks whether each file is there: of a
    # process that ends meanwhile that is an error.
    for pid_below in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()):
        with contextlib.suppress(OSError, ValueError):
            children.setdefault(process_stat.read(pid_below).parent, []).append(pid_below)
    found = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _bury(program: int) -> None:
    """Collect adopted processes that have ended; the program itself is left to its ``Popen``."""
    for pid in descendants(os.getpid()):
        if pid != program:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _end_descendants() -> None:
    """End all processes below us, first politely."""
    for number, patience in ((signal.SIGTERM, _TERM_S), (signal.SIGKILL, _TERM_S)):
        deadline = time.monotonic() + patience
        for pid in _living():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        while _living() and time.monotonic() < deadline:
            time.sleep(0.1)


def _living() -> list[int]:
    _bury(program=0)
    return descendants(os.getpid())
