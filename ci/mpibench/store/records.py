"""Records beside the tables of a dataset, ``<dataset>/<kind>/<name>.json``: withdrawals, refused
exports, answers, plans.

Each is a separate file instead of a database or one file for all. Replacing a file is atomic on
every file system, including NFS without locks; two writers, on whichever nodes, never share a file;
and read-only data need no journal.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
from abc import abstractmethod
from collections.abc import Collection, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def path_of(folder: Path, kind: str, name: str) -> Path:
    """Where a record is."""
    if not _NAME.fullmatch(name):
        raise BadInput(
            "file-damaged",
            f"{name!r} cannot name a file: use letters, digits, '_', '-' and '.', 128 at most.",
        )
    return Path(folder) / kind / f"{name}.json"


def write(folder: Path, kind: str, name: str, text: str) -> Path:
    """Write a file, whole or not at all, instead of an earlier one; its path."""
    path = path_of(folder, kind, name)
    try:
        whole_file.write_text(path, text)
    except OSError as error:
        raise BadInput("cannot-write", f"cannot write {path}: {error.strerror}.") from None
    return path


def inside(folder: Path, pattern: str) -> list[Path]:
    """Files with valid names in a folder of a dataset; none if there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                folder / entry.name for entry in entries if fnmatch.fnmatchcase(entry.name, pattern)
            )
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not folder.is_symlink():
            return []
        raise BadInput(
            "file-unreadable",
            f"{folder} cannot be read ({error.strerror}), so records of sessions are missing: make "
            "it a readable folder.",
        ) from None


def _flat(data: Any) -> Any:
    """What a file holds, each text on one line: whoever can write in the
    dataset could write anything to a terminal.
    """
    if isinstance(data, dict):
        return {name: _flat(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_flat(value) for value in data]
    return one_line(data) if isinstance(data, str) else data


R = TypeVar("R", bound="StoreRecord")


class StoreRecord(Struct, frozen=True):
    """A record; its kind is also its folder, and its name is derived from its contents."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of its file, without the ending."""

    def keep(self, folder: Path) -> None:
        """:raises BadInput: it cannot be written."""
        write(folder, self.kind, self.name, json.dumps(msgspec.to_builtins(self), indent=1))

    @classmethod
    def remove(cls, folder: Path, name: str) -> None:
        """Remove the record of that name, if there is one."""
        path = path_of(folder, cls.kind, name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise BadInput("not-ours", f"cannot remove {path}: {error.strerror}.") from None

    @classmethod
    def read(cls: type[R], folder: Path) -> dict[str, R]:
        """All of this kind by their names.

        :raises BadInput: one of them, or their folder, cannot be read: no
            answer may rest on a guess of what it said.
        """
        found = {}
        for path in inside(Path(folder) / cls.kind, "[!.]*.json"):
            try:
                record = msgspec.convert(_flat(json.loads(path.read_text(encoding="utf-8"))), cls)
            except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
                raise BadInput(
                    "file-damaged",
                    f"{path} is damaged: restore it from a copy, or remove it.",
                ) from None
            if record.name != path.stem:
                raise BadInput(
                    "file-damaged",
                    f"{path} is the record {record.name}: name it {record.name}.json, or remove "
                    "it.",
                )
            found[path.stem] = record
        return found


#: Characters of the reason of a withdrawal.
LONGEST_WHY = 500


class Withdrawal(StoreRecord, frozen=True):
    """A withdrawn session: measured, stored, shown as withdrawn, and not part of any verdict.

    A session on a machine under maintenance, with a wrong cable, or to try the tests is not a
    night, however well it is proven.

    :param why: in the words of who withdrew it, on one line.
    """

    kind = "withdrawn"

    session: str
    why: Annotated[str, Meta(min_length=1, max_length=LONGEST_WHY)]
    who: str
    when: datetime

    @property
    def name(self) -> str:
        return self.session

    def __str__(self) -> str:
        return (
            f"session {self.session[:8]} was withdrawn by {self.who} on {self.when:%Y-%m-%d}: "
            f"{self.why}"
        )


class UnreadableSession(StoreRecord, frozen=True):
    """A session of the database that the export refused, because a value in it is no number, say.

    It is kept until it is exported or no longer in the database, so that no
    verdict takes an older session for the newest.

    :param systems: systems it ran on; empty if that is unknown.
    :param database: full name of that database: a dataset may have sessions of several.
    """

    kind = "refused"

    session: str
    started: datetime
    systems: tuple[str, ...]
    why: str
    database: str = ""

    @property
    def name(self) -> str:
        """Ids in databases of other tools need not name a file."""
        return hashlib.sha256(self.session.encode()).hexdigest()


def refusals(folder: Path) -> list[UnreadableSession]:
    """All of them, the oldest session first."""
    return sorted(
        UnreadableSession.read(folder).values(),
        key=lambda refused: (refused.started, refused.session),
    )


def forget_refusals(folder: Path, sessions: Collection[str]) -> None:
    """Remove the refusals of sessions that have been exported since,
    or that the database no longer holds.
    """
    for session in sessions:
        UnreadableSession.remove(folder, hashlib.sha256(session.encode()).hexdigest())


Source = Literal["night", "gate"]
#: Who answered.
NIGHT: Source
GATE: Source
NIGHT = "night"
GATE = "gate"
#: Problems kept of one answer; the others are counted.
MOST_PROBLEMS = 50
#: What stands for the id where a night stored no session; the time it ended is behind it.
NO_SESSION = "none-"


class StoredAnswer(StoreRecord, frozen=True):
    """What was answered of a night when it was young, by ``ci/nightly`` itself or by the gate
    (``answers/<session>.<source>``).

    A year later the cases of a night still show what was proven and which references were missed.
    That a stack could not be entered, that something expected was missing, or how the night
    compared with those before it, only its answer says. A night that stored no session leaves its
    answer, too.

    :param session: id; of a night without one :data:`NO_SESSION` and the time.
    :param passed: whether there was no problem; what was not judged is none.
    :param unjudged: whether a part was slow on a busy machine alone, or
        nights differ too much: the night is not green.
    :param finding: the worst problem in one line; empty if it passed.
    :param judged: how many metrics were compared with earlier nights;
        references are counted in the cases.
    :param kinds: the gate's question of each problem; empty of a night,
        and of answers of before this was stored.
    :param slower: partition, environment and name of each case that was slower than the nights
        before, but for those that were not when they were measured again; ``None`` if nothing
        was compared with these.
    :param seen: the least loss that the gate would have called, as text; empty of a night.
    """

    kind = "answers"

    session: str
    source: Source
    label: str
    passed: bool
    finding: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    judged: int
    written: datetime
    slower: tuple[tuple[str, str, str], ...] | None = None
    unjudged: bool = False
    kinds: tuple[str, ...] = ()
    seen: str = ""

    def __post_init__(self) -> None:
        if self.passed and self.problems:
            raise ValueError("it passed with problems")

    @property
    def name(self) -> str:
        return f"{self.session}.{self.source}"

    @property
    def day(self) -> str:
        return f"{self.written:%Y-%m-%d}"


def answer(
    folder: Path,
    session: str | None,
    source: Source,
    label: str,
    problems: Sequence[str],
    notes: Sequence[str] = (),
    *,
    finding: str = "",
    judged: int = 0,
    slower: Collection[tuple[str, str, str]] | None = None,
    unjudged: bool = False,
    kinds: Sequence[str] = (),
    seen: str = "",
    now: datetime | None = None,
) -> StoredAnswer:
    """Keep an answer in the dataset, instead of an earlier
    one of the same session and source.
    """
    moment = (now or datetime.now(timezone.utc)).replace(microsecond=0)
    said = [one_line(problem) for problem in problems]
    more = [f"... and {len(said) - MOST_PROBLEMS} more"] if len(said) > MOST_PROBLEMS else []
    kept = StoredAnswer(
        session or f"{NO_SESSION}{moment:%Y%m%dT%H%M%S}",
        source,
        one_line(label),
        not said,
        one_line(finding) or next(iter(said), ""),
        (*said[:MOST_PROBLEMS], *more),
        tuple(one_line(note) for note in notes[:MOST_PROBLEMS]),
        judged,
        moment,
        None if slower is None else tuple(sorted(set(slower))),
        unjudged,
        tuple(kinds[:MOST_PROBLEMS]),
        one_line(seen),
    )
    kept.keep(folder)
    return kept


def answers(folder: Path) -> dict[str, list[StoredAnswer]]:
    """All answers by session, that of the night before that of the gate."""
    found: dict[str, list[StoredAnswer]] = {}
    for kept in sorted(StoredAnswer.read(folder).values(), key=lambda kept: kept.source != NIGHT):
        found.setdefault(kept.session, []).append(kept)
    return found
