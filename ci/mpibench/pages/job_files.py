"""Where the files of a case are, relative to the folder of a page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from ..store.sessions import Case, Session

#: Files that are listed of a directory, and those that are looked at: a damaged record may name one
#: that is not a job's at all.
MAX_FILES = 200
MAX_SEEN = 5000
#: A file written this many seconds after its session ended belongs to
#: another run (clocks of file servers differ).
SLACK_S = 120.0


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


def link(path: Path, base: Path) -> str:
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
        (str(path.relative_to(directory)), link(path, base), size)
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
    return CaseFiles(str(directory), f"{link(directory, base)}/", files, note)
