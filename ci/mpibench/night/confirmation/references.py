"""What measuring again says of the cases of a night that missed a reference (rule and error rates: results.confirmations)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reframe_tests.harness.printable import first_line
from reframe_tests.harness.vocabulary import BadInput

from ...store import confirmations
from ...store.sessions import CONFIRMS, Case, Session, read_session, session_starts
from .called import CalledCase, is_own, missed_checks, missing, place_of
from .measuring import Remeasured, why_not


@dataclass(frozen=True)
class Answer:
    """On one case that missed references; one that ran several times in its session has an answer for each run that did.

    :param uuid: of the case in its session.
    :param excused: measured again it was proven, passed, and reached each reference it had missed.
    :param sentence: both measurements.
    """

    case: CalledCase
    uuid: str
    excused: bool
    sentence: str


@dataclass(frozen=True)
class StoredAnswers:
    """What a database says of cases that missed references.

    :param answers: nothing where no session that can be read measured this one again.
    :param unreadable: sentences on sessions that may have done so, and cannot be read.
    """

    answers: tuple[Answer, ...] = ()
    unreadable: tuple[str, ...] = ()


def answers(session: Session, again: Remeasured) -> list[Answer]:
    """One for each case of the session that missed a reference and was to be measured again, the worst first."""
    asked = set(again.cases)
    new = {case.uuid: case for one in again.sessions for case in one.cases}
    found = []
    for called, case in missing(session):
        if called in asked:
            second = new.get(again.measured.get(called, ""))
            found.append(_answer(called, case, second, again.left.get(called) or "the new sessions do not hold it"))
    return found


def stored(session: Session, database: Path) -> StoredAnswers:
    """As :func:`answers`, from the sessions of a database that measured this one again in time.

    Of each case the first one counts that proved its condition (:mod:`..results.confirmations`). A session that cannot be read
    may have been the first, so that what follows it confirms nothing.
    """
    missed = missing(session)
    later = [
        uuid
        for uuid, started in session_starts(database).items()
        if uuid != session.uuid and session.started <= started <= session.started + confirmations.WITHIN
    ]
    again: list[Session] = []
    lost: list[str] = []
    for uuid in later if missed else ():
        try:
            one = read_session(database, uuid)
        except BadInput as error:
            said = f"session {uuid[:8]} cannot be read and may have measured this one again; what follows it confirms nothing"
            lost.append(f"{said}: {error}")
            continue
        if not lost and one.labels.get(CONFIRMS) == session.uuid:
            again.append(one)
    if not again:
        return StoredAnswers(unreadable=tuple(lost))
    found = []
    for called, case in missed:
        tried = [
            (other, why_not(case, one, other, ""))
            for one in again
            for other in one.cases
            if is_own(other) and place_of(other) == called.place
        ]
        second = next((other for other, why in tried if not why), None)
        reason = tried[0][1] if tried else "the sessions that measured others again do not hold it"
        found.append(_answer(called, case, second, reason))
    return StoredAnswers(tuple(found), tuple(lost))


def all_excused(session: Session, found: Sequence[Answer]) -> bool:
    """Whether every case of the session that ReFrame counts as failed is excused."""
    excused = {one.uuid for one in found if one.excused}
    failed = {
        case.uuid
        for case in session.cases
        if is_own(case) and case.uuid not in session.superseded and case.result not in ("pass", "skip", "xfail")
    }
    return bool(failed) and failed <= excused


def _answer(called: CalledCase, first: Case, second: Case | None, why: str) -> Answer:
    """What both measurements say of a case.

    :param second: of another job, which proved its condition; ``None`` where there is none, and ``why``.
    """
    if second is None:
        return Answer(called, first.uuid, False, f"{called}: {confirmations.NOT_MEASURED_AGAIN}: {why}")
    values = {(check.metric, check.layer, check.unit): check.value for check in second.gates}
    both = [
        confirmations.compare(vars(check), values.get((check.metric, check.layer, check.unit)))
        for check in missed_checks(first)
    ]
    outcomes = {one.outcome for one in both}
    outcome = next(one for one in confirmations.WORST_FIRST if one in outcomes)
    said = ", ".join(
        f"{one.check['metric']} {confirmations.value_text(one.check['value'])} {one.check['unit']} and again "
        f"{confirmations.value_text(one.again)}"
        for one in both
        if one.outcome == outcome
    )
    excused = outcome == confirmations.NOT_SEEN_AGAIN and second.result in ("pass", "xfail")
    if outcome == confirmations.NOT_SEEN_AGAIN and not excused:
        said += f"; but the case failed again: {first_line(second.reason) or 'no reason'}"
        outcome = confirmations.SEEN_TWICE
    return Answer(called, first.uuid, excused, f"missed reference {outcome}: {called}: {said}")
