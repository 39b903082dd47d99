"""Folder and files of the job of a row of ``cases``, and what stands in them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mpibench.pages.job_files import CaseFiles, link
from reframe_tests.harness.printable import printable
from reframe_tests.harness.vocabulary import ROOT

#: Script, standard output and standard error: ReFrame calls a job ``rfm_job``.
JOB_FILES = ("rfm_job.sh", "rfm_job.out", "rfm_job.err")
#: Bytes of a file that are copied into a page: its beginning and its end.
MOST_BYTES = 200_000


def _stored(row: Mapping[str, Any]) -> tuple[Path | None, dict[str, Path]]:
    """Folder of the job of a row of ``cases``, and which of
    :data:`JOB_FILES` are plain files in it.
    """
    text = str(row["outputdir"] or "")
    if not text or not row["job_id"] or "\0" in text:
        return None, {}
    found = {}
    for name in JOB_FILES:
        with suppress(OSError, ValueError):
            if stat.S_ISREG((ROOT / text / name).lstat().st_mode):
                found[name] = ROOT / text / name
    return ROOT / text, found


def find(row: Mapping[str, Any], base: Path) -> CaseFiles:
    """Folder and job files of a row of ``cases``."""
    folder, there = _stored(row)
    if folder is None:
        return CaseFiles("")
    if not there and not folder.is_dir():
        return CaseFiles(str(folder))
    return CaseFiles(
        str(folder),
        f"{link(folder, base)}/",
        tuple((name, link(path, base), 0) for name, path in there.items()),
    )


def excerpts(row: Mapping[str, Any]) -> dict[str, str]:
    """Script and outputs of a row of ``cases`` as text fit for a
    page, each cut to :data:`MOST_BYTES`.
    """
    found = {}
    for name, path in _stored(row)[1].items():
        with suppress(OSError):
            found[name] = _excerpt(path)
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
    return printable(
        f"{first.decode('utf-8', 'replace')}\n[... {left} bytes left out "
        f"...]\n{last.decode('utf-8', 'replace')}"
    )
