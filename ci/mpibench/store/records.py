"""Records beside the tables of a dataset, ``<dataset>/<kind>/<name>.json``: withdrawals, refusals of an export, answers, plans.

A file each, and neither a database nor one file for all: taking the place of a file is atomic on every file system, NFS
without locks among them; two writers, on whichever nodes, never share a file; and what can only be read needs no journal.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from reframe_tests.harness.printable import one_line
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


def read(folder: Path, kind: str, make: Callable[[dict[str, Any]], T], name_of: Callable[[T], str]) -> dict[str, T]:
    """All records of a kind by their names.

    :param make: of what the file holds; ``ValueError``, ``KeyError`` or ``TypeError`` where it is none.
    :param name_of: the name that a record has.
    :raises BadInput: a record, or their folder, cannot be read: no answer may rest on a guess of what it said.
    """
    found = {}
    for path in inside(Path(folder) / kind, "[!.]*.json"):
        try:
            found[path.stem] = make(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise BadInput(f"{path} is not a readable record: restore it from a copy, or remove it.") from None
        if (name := name_of(found[path.stem])) != path.stem:
            raise BadInput(f"{path} is the record {name}: name it {name}.json, or remove it.")
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


# Withdrawals ----------------------------------------------------------------------------------------------------------------

WITHDRAWN = "withdrawn"
#: Characters of a reason.
LONGEST_WHY = 500
#: UTC, ISO 8601.
WHEN = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Withdrawal:
    """A session that somebody withdrew: measured, stored, shown as withdrawn, and no part of any verdict.

    A machine under maintenance, a wrong cable, a test of the tests: such a session is no night, however well it is proven.

    :param why: in the words of who withdrew it, on one line.
    :param who: their name on that machine.
    :param when: UTC, as ISO 8601.
    """

    session: str
    why: str
    who: str
    when: str

    def __str__(self) -> str:
        return f"session {self.session[:8]} was withdrawn by {self.who} on {self.when[:10]}: {self.why}"

    @classmethod
    def of(cls, row: dict[str, Any]) -> Withdrawal:
        """From a record; :raises ValueError: it is none: of strings, with a reason and a time."""
        if not all(isinstance(row[name], str) for name in cls.__dataclass_fields__):
            raise ValueError
        withdrawal = cls(*(one_line(row[name]) for name in cls.__dataclass_fields__))
        datetime.strptime(withdrawal.when, WHEN)
        if not 0 < len(withdrawal.why) <= LONGEST_WHY:
            raise ValueError
        return withdrawal


def withdrawals(folder: Path) -> dict[str, Withdrawal]:
    """The withdrawn sessions of a dataset by their ids.

    :raises BadInput: a record that cannot be read: which session takes no part, and why, is not known then.
    """
    return read(folder, WITHDRAWN, Withdrawal.of, lambda withdrawal: withdrawal.session)


# Sessions that an export refused ----------------------------------------------------------------------------------------------

REFUSED = "refused"


@dataclass(frozen=True)
class Unreadable:
    """A session of the database that the export refused, because a value in it is no number, say.

    It is kept until it is exported or no longer in the database, so that no verdict takes an older session for the newest.

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
        """As :func:`refuse` wrote it."""
        started = datetime.fromisoformat(row["started"]).astimezone(timezone.utc)
        return cls(str(row["session"]), started, tuple(row["systems"]), str(row["why"]))


def refuse(folder: Path, refused: Unreadable) -> None:
    """Keep a refusal."""
    write(folder, REFUSED, _hashed(refused.session), {**vars(refused), "started": refused.started.isoformat()})


def refusals(folder: Path) -> list[Unreadable]:
    """All of them, the oldest session first."""
    found = read(folder, REFUSED, Unreadable.of, lambda refused: _hashed(refused.session))
    return sorted(found.values(), key=lambda refused: (refused.started, refused.session))


def forget_refusals(folder: Path, sessions: Collection[str]) -> None:
    """Remove the refusals of sessions that have been exported since, or that the database no longer holds."""
    for session in sessions:
        remove(folder, REFUSED, _hashed(session))


def _hashed(session: str) -> str:
    """Ids in databases of other tools need not name a file."""
    return hashlib.sha256(session.encode()).hexdigest()


# Answers --------------------------------------------------------------------------------------------------------------------

ANSWERS = "answers"
#: Who answered.
NIGHT, GATE = SOURCES = ("night", "gate")
#: Problems kept of one answer; the others are counted.
MOST_PROBLEMS = 50
#: What stands for the id where a night stored no session; the time it ended is behind it.
NO_SESSION = "none-"


@dataclass(frozen=True)
class StoredAnswer:
    """What was answered of a night when it was young, by ``ci/nightly`` itself or by the gate (``answers/<session>.<source>``).

    A year later the cases of a night still show what was proven and which references were missed. That a stack could not be
    entered, that something expected was missing, or how the night compared with those before it, only its answer says. A night
    that stored no session leaves its answer, too.

    :param session: id; of a night without one :data:`NO_SESSION` and the time.
    :param source: one of :data:`SOURCES`.
    :param label: label ``run`` of the night.
    :param passed: whether there was no problem.
    :param finding: the worst problem in one line; empty where it passed.
    :param judged: how many metrics were held against the nights before; references are counted in the cases.
    :param written: UTC, as ISO 8601.
    :param slower: partition, environment and name of each case that was slower than the nights before, but for those that were
        not when they were measured again; ``None`` where nothing was held against these.
    """

    session: str
    source: str
    label: str
    passed: bool
    finding: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    judged: int
    written: str
    slower: tuple[tuple[str, str, str], ...] | None = None

    @property
    def day(self) -> str:
        """UTC day on which it was written, as ``2026-11-22``."""
        return self.written[:10]

    @classmethod
    def of(cls, row: dict[str, Any]) -> StoredAnswer:
        """:raises ValueError: (also ``KeyError``, ``TypeError``) it is no answer."""
        session, source, label, finding, written = (
            one_line(str(row[name])) for name in ("session", "source", "label", "finding", "written")
        )
        datetime.fromisoformat(written.replace("Z", "+00:00"))
        SOURCES.index(source)
        problems, notes = (tuple(one_line(str(text)) for text in row[name]) for name in ("problems", "notes"))
        slower = None if row.get("slower") is None else tuple((str(a), str(b), str(c)) for a, b, c in row["slower"])
        passed, judged = row["passed"] is True and not problems, int(row["judged"])
        return cls(session, source, label, passed, finding, problems, notes, judged, written, slower)


def answer(
    folder: Path,
    session: str | None,
    source: str,
    label: str,
    problems: Sequence[str],
    notes: Sequence[str] = (),
    *,
    finding: str = "",
    judged: int = 0,
    slower: Collection[tuple[str, str, str]] | None = None,
    now: datetime | None = None,
) -> StoredAnswer:
    """Keep an answer in the dataset, in the place of an earlier one of the same session and source.

    :raises BadInput: the dataset cannot be written.
    """
    moment = now or datetime.now(timezone.utc)
    said = [one_line(problem) for problem in problems]
    more = [f"... and {len(said) - MOST_PROBLEMS} more"] if len(said) > MOST_PROBLEMS else []
    kept = StoredAnswer(
        session or f"{NO_SESSION}{moment:%Y%m%dT%H%M%S}",
        source,
        one_line(label),
        not said,
        one_line(finding) or (said[0] if said else ""),
        (*said[:MOST_PROBLEMS], *more),
        tuple(one_line(note) for note in notes[:MOST_PROBLEMS]),
        judged,
        f"{moment:%Y-%m-%dT%H:%M:%S}Z",
        None if slower is None else tuple(sorted(set(slower))),
    )
    write(folder, ANSWERS, f"{kept.session}.{kept.source}", asdict(kept))
    return kept


def answers(folder: Path) -> dict[str, list[StoredAnswer]]:
    """All answers by session, in the order of :data:`SOURCES`.

    :raises BadInput: one of them, or their folder, cannot be read.
    """
    every = read(folder, ANSWERS, StoredAnswer.of, lambda kept: f"{kept.session}.{kept.source}")
    found: dict[str, list[StoredAnswer]] = {}
    for kept in sorted(every.values(), key=lambda kept: SOURCES.index(kept.source)):
        found.setdefault(kept.session, []).append(kept)
    return found
