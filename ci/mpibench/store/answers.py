"""What was answered of a night when it was young, kept with its numbers: by ``ci/nightly`` itself, and by the gate.

A year later the cases of a night still show what was proven and which references were missed. That a stack could not be
entered, that something expected was missing, or how the night compared with those before it, only its answer says. A night that
stored no session leaves its answer, too. One file each in the dataset: ``answers/<session>.<source>.json``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import BadInput

from . import records

FOLDER = "answers"
#: Who answered.
NIGHT, GATE = SOURCES = ("night", "gate")
#: Problems kept of one answer; the others are counted.
MOST_PROBLEMS = 50
#: What stands for the id where a night stored no session; the time it ended is behind it.
NO_SESSION = "none-"


@dataclass(frozen=True)
class StoredAnswer:
    """One answer.

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


def record(
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
    said = [one_line(one) for one in problems]
    more = [f"... and {len(said) - MOST_PROBLEMS} more"] if len(said) > MOST_PROBLEMS else []
    answer = StoredAnswer(
        session or f"{NO_SESSION}{moment:%Y%m%dT%H%M%S}",
        source,
        one_line(label),
        not said,
        one_line(finding) or (said[0] if said else ""),
        (*said[:MOST_PROBLEMS], *more),
        tuple(one_line(one) for one in notes[:MOST_PROBLEMS]),
        judged,
        f"{moment:%Y-%m-%dT%H:%M:%S}Z",
        None if slower is None else tuple(sorted(set(slower))),
    )
    records.write(folder, FOLDER, f"{answer.session}.{answer.source}", asdict(answer))
    return answer


def keep(
    folder: Path,
    session: str | None,
    source: str,
    label: str,
    problems: Sequence[str],
    notes: Sequence[str] = (),
    slower: Collection[tuple[str, str, str]] | None = None,
) -> list[str]:
    """:func:`record` an answer; why it could not be kept, as a problem of the night."""
    try:
        record(folder, session, source, label, problems, notes, slower=slower)
    except BadInput as error:
        return [f"the answer of this night is not kept: {str(error).rstrip('.')}"]
    return []


def read(folder: Path) -> dict[str, list[StoredAnswer]]:
    """All answers by session, in the order of :data:`SOURCES`.

    :raises BadInput: one of them, or their folder, cannot be read.
    """
    found: dict[str, list[StoredAnswer]] = {}
    for answer in records.read(folder, FOLDER, _of).values():
        found.setdefault(answer.session, []).append(answer)
    for answers in found.values():
        answers.sort(key=lambda one: SOURCES.index(one.source))
    return found


def _of(row: dict[str, Any]) -> StoredAnswer:
    """:raises ValueError: (also ``KeyError``, ``TypeError``) it is no answer."""
    texts = [one_line(str(row[name])) for name in ("session", "source", "label", "finding", "written")]
    datetime.fromisoformat(texts[-1].replace("Z", "+00:00"))
    SOURCES.index(texts[1])
    problems, notes = (tuple(one_line(str(one)) for one in row[name]) for name in ("problems", "notes"))
    slower = None if row.get("slower") is None else tuple((str(a), str(b), str(c)) for a, b, c in row["slower"])
    session, source, label, finding, written = texts
    passed, judged = row["passed"] is True and not problems, int(row["judged"])
    return StoredAnswer(session, source, label, passed, finding, problems, notes, judged, written, slower)


def slower_than_before(folder: Path) -> dict[str, frozenset[tuple[str, str, str]]]:
    """Of each session that was held against the nights before it the cases that were slower, as :attr:`StoredAnswer.slower`."""
    held = ((session, one.slower) for session, all_of_it in read(folder).items() for one in all_of_it)
    return {session: frozenset(slower) for session, slower in held if slower is not None}
