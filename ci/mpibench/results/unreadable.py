"""Sessions that exist and cannot be judged: refused by the export, in a file of the dataset that cannot be read, or to come.

A refusal by the export is kept beside the tables (``<dataset>/refused/<session>.json``) until the session is exported or no
longer in the database, so that no verdict takes an older session for the newest one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta, timezone
from pathlib import Path

import polars as pl

from .. import whole_file, withdrawals
from .dataset_layout import SCHEMAS, Files, find_files, inside, scan_files

FOLDER = "refused"
#: A clock that is wrong puts nights in a wrong order; sessions may be this much in the future.
CLOCK_TOLERANCE = timedelta(days=1)


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
    for path in sorted(inside(folder / FOLDER, "*.json")):
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
    files = {table: find_files(folder, table, systems) for table in SCHEMAS}
    for path, why in (pair for table in SCHEMAS for pair in files[table].refused.items()):
        found.setdefault(path.stem, _of_file(path, why))
    for one in (*_to_come(folder, files["cases"]), *_without_cases(files["samples"])):
        found.setdefault(one.session, one)
    there = {path.stem for path in folder.glob("cases/system=*/date=*/*.parquet")} - set(found)
    for one in _recorded(folder):
        concerned = not systems or not one.systems or set(one.systems) & set(systems)
        if concerned and one.session not in there:
            found.setdefault(one.session, one)
    for path in (one for table in SCHEMAS for one in files[table].readable if one.stem in found):
        # A stray copy of a file in the folder of another day makes no session older.
        other = _of_file(path, "")
        if other.started.date() > found[path.stem].started.date():
            found[path.stem] = replace(found[path.stem], started=other.started)
    return tuple(sorted(found.values(), key=lambda one: (one.started, one.session)))


def _to_come(folder: Path, cases: Files) -> Iterator[Unreadable]:
    """Sessions that say they start later than any clock explains and were not withdrawn; others are judged without them."""
    limit = datetime.now(timezone.utc) + CLOCK_TOLERANCE
    # The folder is named after the day the session started.
    for path in (one for one in cases.readable if one.parent.name.partition("=")[2] >= f"{limit:%Y-%m-%d}"):
        started = scan_files([path], "cases").select(pl.col("started").max()).collect().item()
        if started is not None and started > limit and path.stem not in withdrawals.find(folder):
            why = (
                f"session {path.stem} says it started at {started:%Y-%m-%d %H:%M} UTC, which is to come: correct the clock of "
                f"this machine, or, where that is right, `mpibench sessions withdraw {path.stem} --why ...`."
            )
            yield Unreadable(path.stem, started, (path.parents[1].name.partition("=")[2],), why)


def _without_cases(samples: Files) -> Iterator[Unreadable]:
    """Sessions of which the dataset has values only: without their cases nothing else says that they exist."""
    for path in samples.readable:
        cases = path.parents[3] / "cases" / path.relative_to(path.parents[2])
        if not cases.exists():
            why = f"{cases} is gone, with the cases and evidence of the values in {path}"
            yield _of_file(path, f"{why}: export that session again, or remove it.")


def _of_file(path: Path, why: str) -> Unreadable:
    system, day = (path.parents[place].name.partition("=")[2] for place in (1, 0))
    try:
        started = datetime.combine(datetime.strptime(day, "%Y-%m-%d").date(), time.max, timezone.utc)
    except ValueError:
        started = datetime.now(timezone.utc)
    return Unreadable(path.stem, started, (system,), why)
