"""Where the files of a case are, relative to the folder of a page, and what they contain."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from reframe_tests.harness.printable import printable
from reframe_tests.harness.vocabulary import ROOT

from ..store.sessions import Case, Session

#: Script, standard output and standard error: ReFrame calls a job ``rfm_job``.
JOB_FILES = ("rfm_job.sh", "rfm_job.out", "rfm_job.err")
#: Files that are listed of a directory, and those that are looked at: a damaged record may name one
#: that is not a job's at all.
MAX_FILES = 200
MAX_SEEN = 5000
#: A file written this many seconds after its session ended belongs to
#: another run (clocks of file servers differ).
SLACK_S = 120.0
#: Bytes of a file that are copied into a page: its beginning and its end.
MOST_BYTES = 200_000


@dataclass(frozen=True)
class CaseFiles:
    """Where the files of a case are.

    :param href: relative link, empty if the directory is not on this machine.
    :param files: name, link and size in bytes of each file.
    :param note: what is wrong with the directory.
    """

    path: str
    href: str = ""
    files: tuple[tuple[str, str, int], ...] = ()
    note: str = ""


def _link(path: Path, base: Path) -> str:
    return quote(os.path.relpath(path.absolute(), base.absolute()).replace(os.sep, "/"))


def _sizes(directory: Path) -> Iterator[tuple[Path, int]]:
    """Files below a directory with their sizes in bytes; those
    that vanish meanwhile are left out.
    """
    for folder, _, names in os.walk(directory):
        for name in names:
            path = Path(folder) / name
            with suppress(OSError):
                yield path, path.stat().st_size


def place_of(session: Session, case: Case, base: Path) -> CaseFiles:
    """Find a case's directory and look whether it still holds what this session left there."""
    if not case.directory or not case.job_id:
        return CaseFiles("")
    directory = Path(str(session.info.get("workdir") or ".")) / case.directory
    try:
        return _look(session, case, directory, base)
    except (OSError, ValueError) as err:
        return CaseFiles(
            str(directory), note=f"This directory cannot be read ({err.__class__.__name__})."
        )


def _look(session: Session, case: Case, directory: Path, base: Path) -> CaseFiles:
    if not directory.is_dir():
        return CaseFiles(
            str(directory), note="This directory is not on the machine that wrote the report."
        )
    found = sorted(islice(_sizes(directory), MAX_SEEN))
    files = tuple(
        (str(path.relative_to(directory)), _link(path, base), size)
        for path, size in found[:MAX_FILES]
    )
    output = directory / case.job_files[1] if len(case.job_files) > 1 else directory
    note = ""
    if not output.exists():
        note = "The job's output is no longer in this directory."
    elif output.stat().st_mtime > session.started.timestamp() + session.seconds + SLACK_S:
        note = "A later run overwrote this directory: its files belong to another session."
    elif len(found) > MAX_FILES:
        note = f"{MAX_FILES} of its files are listed; there are more."
    return CaseFiles(str(directory), f"{_link(directory, base)}/", files, note)


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
        f"{_link(folder, base)}/",
        tuple((name, _link(path, base), 0) for name, path in there.items()),
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
