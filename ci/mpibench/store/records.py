"""Records beside the tables of a dataset, ``<dataset>/<kind>/<name>.json``: withdrawals, refusals of an export, answers, plans.

A file each, and neither a database nor one file for all: taking the place of a file is atomic on every file system, NFS
without locks among them; two writers, on whichever nodes, never share a file; and what can only be read needs no journal.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file

T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def path_of(folder: Path, kind: str, name: str) -> Path:
    """Where a record is.

    :raises BadInput: the name, that of a session say, cannot name a file.
    """
    if not _NAME.fullmatch(name):
        raise BadInput(f"{name!r} cannot name a file: use letters, digits, '_', '-' and '.', 128 at most.")
    return Path(folder) / kind / f"{name}.json"


def write(folder: Path, kind: str, name: str, record: object) -> Path:
    """Write a record, whole or not at all, in the place of an earlier one; its path.

    :param record: a text as it is, anything else as JSON.
    :raises BadInput: it cannot be written.
    """
    path = path_of(folder, kind, name)
    try:
        whole_file.write_text(path, record if isinstance(record, str) else json.dumps(record, indent=1))
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}.") from None
    return path


def remove(folder: Path, kind: str, name: str) -> None:
    """Remove a record, if there is one.

    :raises BadInput: it cannot be removed.
    """
    path = path_of(folder, kind, name)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"cannot remove {path}: {error.strerror}.") from None


def read(folder: Path, kind: str, make: Callable[[dict[str, Any]], T]) -> dict[str, T]:
    """All records of a kind by their names.

    :param make: of what the file holds; ``ValueError``, ``KeyError`` or ``TypeError`` where it is none.
    :raises BadInput: a record, or their folder, cannot be read: no answer may rest on a guess of what it said.
    """
    found = {}
    for path in inside(Path(folder) / kind, "[!.]*.json"):
        try:
            found[path.stem] = make(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise BadInput(f"{path} is not a readable record: restore it from a copy, or remove it.") from None
    return found


def inside(folder: Path, pattern: str) -> list[Path]:
    """What a folder of a dataset holds under names that fit; nothing where there is no such folder.

    :raises BadInput: it cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / entry.name for entry in entries if fnmatch.fnmatchcase(entry.name, pattern))
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not folder.is_symlink():
            return []
        raise BadInput(
            f"{folder} cannot be read ({error.strerror}), so what it says of sessions is not known: it must be a folder that "
            "you can read."
        ) from None
