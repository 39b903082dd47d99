"""A lock for one program at a time, held as long as its holder, or a process that inherited it,
lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from reframe_tests.harness.vocabulary import BadInput


@contextlib.contextmanager
def only_one(
    results: Path,
    program: str = "ci/nightly",
    name: str = ".nightly.lock",
    what: str = "in this checkout",
    waiting: Callable[[str], object] | None = None,
) -> Iterator[int]:
    """Hold the lock of what measures in a checkout; descriptor of its file.

    :param program: who holds it, for those who find it held.
    :param name: of the file, where it is for a part of the results
        only; ``what``: that part, for a sentence.
    :param waiting: what a line is said to while another one holds it, instead of an error.
    :raises BadInput: another one holds it, or nothing can be written or locked there.
    """
    path = results / name
    try:
        results.mkdir(parents=True, exist_ok=True)
        lock = path.open("a+")
    except OSError as error:
        raise BadInput(
            "cannot-write", f"cannot write {path} ({error.strerror}): make {results} writable."
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or program
            if not waiting:
                raise BadInput(
                    "busy", f"another {holder} is running {what}: wait for it, or end it."
                ) from None
            waiting(f"waiting for {holder}, which is running {what}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            raise BadInput(
                "busy",
                f"cannot lock {path} ({error.strerror}): keep {results} on a file system with "
                "locks.",
            ) from None
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        note = f"{program} (process {os.getpid()} on {os.uname().nodename} since {since})\n"
        try:
            os.ftruncate(lock.fileno(), 0)
            os.write(lock.fileno(), note.encode())
        except OSError as error:
            raise BadInput(
                "cannot-write", f"cannot write {path} ({error.strerror}): free some space."
            ) from None
        yield lock.fileno()
