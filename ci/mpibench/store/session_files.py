"""Files of sessions on disk: how much there is, and which of old sessions may go.

What decides and what is signed stays for good: the results database, the dataset, references and acceptance records. Stage and
output folders, logs and reports of a session are what fills a disk; nothing removes them but ``mpibench sessions prune``.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from reframe_tests.harness.printable import format_bytes
from reframe_tests.harness.sites.session import session_folder
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file

DAY_S = 86400.0
#: Folders below the results with files that are written whole or not at all, beside the results themselves.
_WRITTEN = ("dataset", "reports", "accept")
#: Where the files of a session are, below the results: folder, and what the names in it look like.
_KINDS = {
    "stage": session_folder.NAME,
    "output": session_folder.NAME,
    "logs": re.compile(session_folder.NAME.pattern + r"\.log"),
    "reports": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.(html|md)"),
    "nights": re.compile(r"\d{8}T\d{6}"),
}


@dataclass(frozen=True)
class Item:
    """A file or folder of one session.

    :param written: when something in it was last written, seconds since 1970.
    """

    path: Path
    size_bytes: int
    written: float


def _measure(path: Path) -> tuple[int, float]:
    """Bytes on disk and last time of writing of a file, or of a folder with all it holds, but what vanishes meanwhile.

    A folder that cannot be read counts as written now: nobody knows what is in it.
    """
    status = path.lstat()
    size, written = status.st_blocks * 512, status.st_mtime
    if not stat.S_ISDIR(status.st_mode):
        return size, written
    try:
        entries = [Path(entry.path) for entry in os.scandir(path)]
    except FileNotFoundError:
        return 0, written
    except OSError:
        return size, time.time()
    for entry in entries:
        with suppress(FileNotFoundError):
            more, last = _measure(entry)
            size, written = size + more, max(written, last)
    return size, written


def prefixes(results: Path) -> set[Path]:
    """Folders that hold ``stage`` and ``output``: the results, and those the sites' ``prefix`` put sessions in."""
    found = {results}
    database = results / "results.db"
    if database.is_file():
        query = (
            "SELECT DISTINCT json_extract(json_blob, '$.session_info.prefix_stage') FROM sessions WHERE json_valid(json_blob)"
        )
        try:
            with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=60)) as connection:
                rows = connection.execute(query).fetchall()
        except sqlite3.Error as error:
            raise BadInput(f"{database} cannot be read ({error}), so where its sessions are is not known.") from None
        # PREFIX/stage/<name of the session's folder>
        found |= {Path(row[0]).parent.parent for row in rows if row[0] and Path(row[0]).parent.name == "stage"}
    return found


def items(results: Path) -> Iterator[Item]:
    """All files and folders of sessions, by their names; nothing else is ever touched."""
    for prefix in sorted(prefixes(results)):
        for kind, pattern in _KINDS.items():
            if prefix != results and kind not in ("stage", "output"):
                continue
            for path in sorted((prefix / kind).glob("*")):
                if pattern.fullmatch(path.name) and not path.is_symlink():
                    with suppress(FileNotFoundError):
                        yield Item(path, *_measure(path))


def remains(results: Path) -> Iterator[Item]:
    """Files that writers who were killed left half written, a day ago or longer: on whichever node, nobody writes them now."""
    folders = [results, *(path for top in _WRITTEN for path in (results / top, *(results / top).rglob("*")) if path.is_dir())]
    for path in (one for folder in folders for one in whole_file.abandoned(folder)):
        with suppress(FileNotFoundError):
            item = Item(path, *_measure(path))
            if item.written < time.time() - DAY_S and path.is_file() and not path.is_symlink():
                yield item


def holdings(results: Path) -> str:
    """How much the results hold, and how to have less, as one sentence."""
    size, _ = _measure(results)
    names = {path.name for path in (results / "output").glob("*") if session_folder.NAME.fullmatch(path.name)}
    since = f" since {min(names)[:4]}-{min(names)[4:6]}-{min(names)[6:8]}" if names else ""
    free = shutil.disk_usage(results).free
    return (
        f"{results} holds {format_bytes(size)}, outputs of {len(names)} sessions{since}; {format_bytes(free)} are free there; "
        "'mpibench sessions prune --older-than DAYS' removes files of old sessions"
    )


def prune(results: Path, days: int, remove: bool) -> list[str]:
    """List what was last written more than so many days ago, and what killed writers left, or remove it; lines to be said.

    :raises BadInput: something cannot be removed.
    """
    limit = time.time() - days * DAY_S
    old = [*(item for item in items(results) if item.written < limit), *remains(results)]
    for item in old if remove else ():
        try:
            if item.path.is_dir():
                shutil.rmtree(item.path)
            else:
                item.path.unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(f"cannot remove {item.path} ({error.strerror}): correct its rights.") from None
    total = format_bytes(sum(item.size_bytes for item in old))
    if remove:
        return [f"removed {len(old)} files and folders of sessions, {total}"]
    lines = [f"{format_bytes(item.size_bytes):>10}  {item.path}" for item in old]
    return [*lines, f"{len(old)} files and folders of sessions, {total}; --remove removes them" if old else "nothing that old"]
