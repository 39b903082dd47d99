"""Files of sessions on disk: how much space they use, and which old ones may be removed.

The results database, the dataset, references and acceptance records are kept forever. Stage and
output folders, logs and reports of a session fill a disk; only ``mpibench sessions prune`` removes
them.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from reframe_tests.harness.instruments.pairs.pair_values import MAPS
from reframe_tests.harness.printable import format_bytes
from reframe_tests.harness.sites.session import session_folder
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file
from .store import Store

DAY_S = 86400.0
#: Folders below the results with files that are written whole or not
#: at all, beside the results themselves.
_WRITTEN = ("dataset", "reports", "accept", MAPS)
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
    """Bytes on disk and last time of writing of a file, or of a folder
    with all it holds, but what vanishes meanwhile.

    A folder that cannot be read counts as written now: nobody knows what is in it.
    """
    status = path.lstat()
    size = status.st_blocks * 512
    written = status.st_mtime
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
            size = size + more
            written = max(written, last)
    return size, written


def prefixes(results: Path) -> set[Path]:
    """Folders that hold ``stage`` and ``output``: the results, and
    those the sites' ``prefix`` put sessions in.

    :raises BadInput: a dataset that cannot be read, so that where its sessions are is unknown.
    """
    store = Store(results / "dataset")
    if not store.session_systems:
        return {results}
    prefix = pl.col("outputdir").str.extract(
        rf"^(.*)/(?:stage|output)/{session_folder.NAME.pattern}(?:/|$)"
    )
    return {
        results,
        *map(Path, store.scan("cases").select(prefix).unique().drop_nulls().collect().to_series()),
    }


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
    """Files that killed writers left half written at least a day ago; no node can still be writing
    them.
    """
    folders = [
        results,
        *(
            path
            for top in _WRITTEN
            for path in (results / top, *(results / top).rglob("*"))
            if path.is_dir()
        ),
    ]
    for path in (path_left for folder in folders for path_left in whole_file.abandoned(folder)):
        with suppress(FileNotFoundError):
            item = Item(path, *_measure(path))
            if item.written < time.time() - DAY_S and path.is_file() and not path.is_symlink():
                yield item


def holdings(results: Path) -> str:
    """How much the results hold, and how to have less, as one sentence."""
    size, _ = _measure(results.resolve())
    names = {
        path.name
        for path in (results / "output").glob("*")
        if session_folder.NAME.fullmatch(path.name)
    }
    since = f" since {min(names)[:4]}-{min(names)[4:6]}-{min(names)[6:8]}" if names else ""
    free = shutil.disk_usage(results).free
    return (
        f"{results} holds {format_bytes(size)}, outputs of {len(names)} sessions{since}; "
        f"{format_bytes(free)} are free there; 'mpibench sessions prune --older-than DAYS' "
        "removes files of old sessions"
    )


def find(results: Path, days: int | None) -> list[Item]:
    """What killed writers left, and files of sessions that were
    last written more than so many days ago.

    :param days: ``None``: no files of sessions.
    """
    old = (
        []
        if days is None
        else [item for item in items(results) if item.written < time.time() - days * DAY_S]
    )
    return [*old, *remains(results)]


def lines(old: Sequence[Item]) -> list[str]:
    listed = [f"{format_bytes(item.size_bytes):>10}  {item.path}" for item in old]
    total = (
        f"files and folders of sessions: {len(old)}, "
        f"{format_bytes(sum(item.size_bytes for item in old))}"
    )
    return [
        *listed,
        f"{total}; --remove removes them" if old else "no files of sessions to remove",
    ]


def remove(old: Sequence[Item]) -> list[str]:
    """Remove it."""
    for item in old:
        try:
            if item.path.is_dir():
                shutil.rmtree(item.path)
            else:
                item.path.unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(
                "not-ours",
                f"cannot remove {item.path} ({error.strerror}): correct its permissions.",
            ) from None
    return [
        f"removed files and folders of sessions: {len(old)}, "
        f"{format_bytes(sum(item.size_bytes for item in old))}"
    ]
