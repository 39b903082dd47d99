"""Sessions of the database that the export refused, because a value in them is no number, say.

Each is kept beside the tables (``<dataset>/refused/<session>.json``) until it is exported or no longer in the database, so that
no verdict takes an older session for the newest one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from . import records

FOLDER = "refused"


@dataclass(frozen=True)
class Unreadable:
    """One such session.

    :param started: its start, UTC.
    :param systems: systems it ran on; empty if that is not known.
    :param why: one sentence.
    """

    session: str
    started: datetime
    systems: tuple[str, ...]
    why: str

    @classmethod
    def of(cls, row: dict[str, Any]) -> Unreadable:
        """As :func:`record` wrote it."""
        started = datetime.fromisoformat(row["started"]).astimezone(timezone.utc)
        return cls(str(row["session"]), started, tuple(row["systems"]), str(row["why"]))


def _name(session: str) -> str:
    """Ids in databases of other tools need not name a file."""
    return hashlib.sha256(session.encode()).hexdigest()


def record(folder: Path, refused: Unreadable) -> None:
    """Keep a refusal."""
    records.write(folder, FOLDER, _name(refused.session), {**vars(refused), "started": refused.started.isoformat()})


def forget(folder: Path, sessions: Iterable[str]) -> None:
    """Remove the refusals of sessions that have been exported since."""
    for session in sessions:
        records.remove(folder, FOLDER, _name(session))


def keep_only(folder: Path, sessions: Collection[str]) -> None:
    """Remove the refusals of sessions the database no longer holds."""
    forget(folder, {one.session for one in records.read(folder, FOLDER, Unreadable.of).values()} - set(sessions))


def find(folder: str | Path, systems: Sequence[str] | None = None) -> tuple[Unreadable, ...]:
    """Refused sessions of a dataset that it has not got, oldest first.

    :param systems: only what ran, or may have run, on these systems.
    """
    kept = records.read(Path(folder), FOLDER, Unreadable.of).values()
    concerned = [one for one in kept if not systems or not one.systems or set(one.systems) & set(systems)]
    lost = (one for one in concerned if not any(Path(folder).glob(f"cases/system=*/date=*/{one.session}.parquet")))
    return tuple(sorted(lost, key=lambda one: (one.started, one.session)))
