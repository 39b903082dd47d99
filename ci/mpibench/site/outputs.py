"""Where the files of a job are, seen from the site; what failed takes its script and outputs along.

A site on a file share beside ``results/output`` links to the folders themselves. On a web server these are not, so that of each
failed case the site keeps its own copy: script, standard output and standard error, cut to what a person reads.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from reframe_tests.harness.printable import printable
from reframe_tests.harness.vocabulary import ROOT

#: Names of script, standard output and standard error: ReFrame calls a job ``rfm_job``.
JOB_FILES = ("rfm_job.sh", "rfm_job.out", "rfm_job.err")
#: Bytes of a file that are copied: its beginning and its end.
MOST_BYTES = 200_000


@dataclass(frozen=True)
class JobFiles:
    """Files of one job.

    :param path: folder as text; empty where none was stored.
    :param href: link to the folder; empty where it is not here.
    :param files: name and link of each of :data:`JOB_FILES` that is there.
    """

    path: str
    href: str
    files: tuple[tuple[str, str], ...]


def folder_of(row: Mapping[str, Any]) -> Path | None:
    """Folder of a case's job; ``None`` where none was stored."""
    text = str(row["outputdir"] or "")
    return (ROOT / text) if text and row["job_id"] and "\0" not in text else None


def find(row: Mapping[str, Any], page_folder: Path) -> JobFiles:
    """Links to the files of a case, seen from the folder of a page.

    :param row: of ``cases``.
    """
    folder = folder_of(row)
    if folder is None:
        return JobFiles("", "", ())
    try:
        there = [name for name in JOB_FILES if _is_plain(folder / name)]
        if not there and not folder.is_dir():
            return JobFiles(str(folder), "", ())
        href = _link(folder, page_folder)
    except (OSError, ValueError):
        return JobFiles(str(folder), "", ())
    return JobFiles(str(folder), f"{href}/", tuple((name, f"{href}/{quote(name)}") for name in there))


def _link(path: Path, base: Path) -> str:
    return quote(os.path.relpath(path.absolute(), base.absolute()).replace(os.sep, "/"))


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def excerpts(row: Mapping[str, Any]) -> dict[str, str]:
    """Script and outputs of a case as text fit for a page, each cut to :data:`MOST_BYTES`; without what is not there."""
    folder = folder_of(row)
    found = {}
    for name in JOB_FILES if folder is not None else ():
        path = folder / name  # type: ignore[operator]
        if _is_plain(path):
            try:
                found[name] = _excerpt(path)
            except OSError:
                continue
    return found


def _excerpt(path: Path) -> str:
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= MOST_BYTES:
            return printable(file.read(MOST_BYTES).decode("utf-8", "replace"))
        first = file.read(MOST_BYTES // 2)
        file.seek(-MOST_BYTES // 2, os.SEEK_END)
        last = file.read(MOST_BYTES // 2)
    left = size - len(first) - len(last)
    return printable(f"{first.decode('utf-8', 'replace')}\n[... {left} bytes left out ...]\n{last.decode('utf-8', 'replace')}")
