"""What must hold: sessions can be stored, no stack or reference is asked for in vain."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from reframe_tests.harness.sites import site
from reframe_tests.harness.vocabulary import ROOT, BadInput


def check_database(database: Path) -> None:
    """Make sure that ReFrame will be able to store a session; it only warns if it was not, after it has measured.

    :raises BadInput: it will not.
    """
    lock = database.parent / ".db.lock"
    try:
        _try_to_write(database.parent)
        lock.open("a").close()
        if database.exists():
            with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, timeout=60)) as connection:
                # BEGIN IMMEDIATE alone reads where it may not write (SQLite, build.c, sqlite3BeginTransaction).
                connection.isolation_level = None
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("CREATE TABLE mpibench_can_write(x)")
                connection.execute("ROLLBACK")
    except (OSError, sqlite3.Error) as error:
        raise BadInput(
            "database-not-writable",
            f"{database} cannot be written ({error}), so the session would be lost: "
            "correct its rights or its file system, or move it away.",
        ) from None


def _try_to_write(folder: Path) -> None:
    path = folder / f".writable.{os.getpid()}"
    try:
        path.write_bytes(bytes(4096))
    finally:
        path.unlink(missing_ok=True)


def asked_in_vain(names: Sequence[str], root: Path = ROOT) -> list[str]:
    """One sentence for each partition of the systems on which something that is described, or should be, is never measured."""
    return [sentence.rstrip(".") for name in names for sentence in site.left_unmeasured(name, root)]


def bad_references(systems: Sequence[str], root: Path = ROOT) -> list[str]:
    """One sentence for each system with references that cannot be used: cases were measured without what must hold them."""
    problems = []
    for name in systems:
        try:
            faults = site.reference_faults(name, root)
        except BadInput as error:
            problems.append(str(error).rstrip("."))
            continue
        more = f"; and {len(faults) - 1} more entries of it" if len(faults) > 1 else ""
        problems += [f"{fault.sentence.rstrip('.')}{more}" for fault in faults[:1]]
    return problems
