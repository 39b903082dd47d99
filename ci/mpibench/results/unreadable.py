"""Sessions that exist and cannot be judged: refused by the export, or in a file of the dataset that cannot be read.

A refusal by the export is kept beside the tables (``<dataset>/refused/<session>.json``) until the session is exported or no
longer in the database, so that no verdict takes an older session for the newest one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timezone
from pathlib import Path

from .. import whole_file
from .dataset_layout import SCHEMAS, find_files

FOLDER = "refused"


@dataclass(frozen=True)
class Unreadable:
    """One such session.

    :param started: its start, UTC; where only the day is known, the end of that day.
    :param systems: systems it ran on; empty if that is not known.
    :param why: one sentence.
    """

    session: str
    started: datetime
    systems: tuple[str, ...]
    why: str


def _path(folder: Path, session: str) -> Path:
    plain = re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", session)
    name = session if plain else hashlib.sha256(session.encode()).hexdigest()
    return folder / FOLDER / f"{name}.json"


def record(folder: Path, refused: Unreadable) -> None:
    """Keep a refusal, whole or not at all."""
    path = _path(folder, refused.session)
    path.parent.mkdir(parents=True, exist_ok=True)
    row = {**vars(refused), "started": refused.started.isoformat()}
    with whole_file.replacing(path) as partial:
        partial.write_text(json.dumps(row, indent=1), encoding="utf-8")


def forget(folder: Path, sessions: Iterable[str]) -> None:
    """Remove the refusals of sessions that have been exported since."""
    for session in sessions:
        _path(folder, session).unlink(missing_ok=True)


def keep_only(folder: Path, sessions: Collection[str]) -> None:
    """Remove the refusals of sessions the database no longer holds."""
    forget(folder, {one.session for one in _recorded(folder)} - set(sessions))


def _recorded(folder: Path) -> list[Unreadable]:
    found = []
    for path in sorted((folder / FOLDER).glob("*.json")):
        try:
            row = json.loads(path.read_text(encoding="utf-8"))
            started = datetime.fromisoformat(row["started"]).astimezone(timezone.utc)
            found.append(Unreadable(str(row["session"]), started, tuple(row["systems"]), str(row["why"])))
        except (OSError, ValueError, KeyError, TypeError):
            why = f"{path} is not a readable note of a refused session: remove it and run `mpibench export` again."
            found.append(Unreadable(path.stem, datetime.now(timezone.utc), (), why))
    return found


def find(folder: str | Path, systems: Sequence[str] | None = None) -> tuple[Unreadable, ...]:
    """Unreadable sessions of a dataset, oldest first, each once.

    :param systems: only what ran, or may have run, on these systems.
    """
    folder = Path(folder)
    found: dict[str, Unreadable] = {}
    for table in SCHEMAS:
        for path, why in find_files(folder, table, systems).refused.items():
            found.setdefault(path.stem, _of_file(path, why))
    there = {path.stem for path in folder.glob("cases/system=*/date=*/*.parquet")} - set(found)
    for one in _recorded(folder):
        concerned = not systems or not one.systems or set(one.systems) & set(systems)
        if concerned and one.session not in there:
            found.setdefault(one.session, one)
    return tuple(sorted(found.values(), key=lambda one: (one.started, one.session)))


def _of_file(path: Path, why: str) -> Unreadable:
    system, day = (path.parents[place].name.partition("=")[2] for place in (1, 0))
    try:
        started = datetime.combine(datetime.strptime(day, "%Y-%m-%d").date(), time.max, timezone.utc)
    except ValueError:
        started = datetime.now(timezone.utc)
    return Unreadable(path.stem, started, (system,), why)
