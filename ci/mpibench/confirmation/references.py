"""What measuring again says of the cases of a night that missed a reference (rule and error rates: results.confirmations)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reframe_tests.harness.vocabulary import BadInput

from ..results import confirmations
from ..results.sessions import CONFIRMS, Case, Session, read_session, session_starts
from .called import CalledCase, environ_of, is_own, missed_checks, of_references
from .measuring import Remeasured, find_case, why_not


@dataclass(frozen=True)
class Answer:
    """On one case that missed references.

    :param excused: measured again it was proven, passed, and reached each reference it had missed.
    :param sentence: both measurements.
    """

    case: CalledCase
    excused: bool
    sentence: str

    def is_on(self, case: Case) -> bool:
        """Whether it is on this case of its session."""
        return is_own(case) and (self.case.partition, self.case.stack, self.case.name) == _place(case)


def answers(session: Session, again: Remeasured) -> list[Answer]:
    """One for each case of the session that missed a reference and was to be measured again, in their order."""
    first = {_place(case): case for case in session.cases if is_own(case)}
    second = {_place(case): case for one in reversed(again.sessions) for case in one.cases if is_own(case)}
    own = {key: missed_checks(case) for key, case in first.items()}
    missed = [case for case in again.cases if own.get((case.partition, case.stack, case.name))]
    return [_answer(case, first, second, again.left.get(case, "")) for case in missed]


def stored(session: Session, database: Path) -> list[Answer]:
    """As :func:`answers`, from the sessions of a database that measured this one again in time.

    Of each case the first one counts that proved its condition (:mod:`..results.confirmations`). Sessions that cannot be read
    confirm nothing; what lists sessions names them.

    :returns: nothing where no session measured this one again.
    """
    cases = of_references(session)
    later = [
        uuid
        for uuid, started in session_starts(database).items()
        if uuid != session.uuid and session.started <= started <= session.started + confirmations.WITHIN
    ]
    again = [one for uuid in (later if cases else ()) if (one := _confirming(database, uuid, session)) is not None]
    if not again:
        return []
    first = {_place(case): case for case in session.cases if is_own(case)}
    found = []
    for case in cases:
        tried = [(other, why_not(find_case(session, case), one, other, "")) for one in again if (other := find_case(one, case))]
        proven = [other for other, why in tried if not why]
        reason = "" if proven else tried[0][1] if tried else "the sessions that measured others again do not hold it"
        found.append(_answer(case, first, {_place(other): other for other in proven[:1]}, reason))
    return found


def _confirming(database: Path, uuid: str, session: Session) -> Session | None:
    try:
        one = read_session(database, uuid)
    except BadInput:
        return None
    return one if one.labels.get(CONFIRMS) == session.uuid else None


def all_excused(session: Session, found: Sequence[Answer]) -> bool:
    """Whether every case of the session that ReFrame counts as failed is excused."""
    excused = {(one.case.partition, one.case.stack, one.case.name) for one in found if one.excused}
    failed = [
        case
        for case in session.cases
        if is_own(case) and case.uuid not in session.superseded and case.result not in ("pass", "skip", "xfail")
    ]
    return bool(failed) and all(_place(case) in excused for case in failed)


def _place(case: Case) -> tuple[str, str, str]:
    return case.partition, environ_of(case), case.name


def _answer(
    case: CalledCase, first: dict[tuple[str, str, str], Case], second: dict[tuple[str, str, str], Case], why: str
) -> Answer:
    key = case.partition, case.stack, case.name
    checks = missed_checks(first[key])
    if why or key not in second:
        reason = why or "the new sessions do not hold it"
        return Answer(case, False, f"{case}: {confirmations.NOT_MEASURED_AGAIN}: {reason}")
    values = {(check.metric, check.layer, check.unit): check.value for check in second[key].gates}
    pairs = [(check, values.get((check.metric, check.layer, check.unit))) for check in checks]
    held = [value is not None and confirmations.within(vars(check), value) for check, value in pairs]
    said = ", ".join(
        f"{check.metric} {check.value:g} {check.unit} and again {'nothing' if value is None else f'{value:g}'}"
        for (check, value), good in zip(pairs, held, strict=True)
        if good == all(held)
    )
    excused = all(held) and second[key].result in ("pass", "xfail")
    if all(held) and not excused:
        said += f"; but the case failed again: {second[key].reason.splitlines()[0] if second[key].reason else 'no reason'}"
    outcome = confirmations.NOT_SEEN_AGAIN if excused else confirmations.SEEN_TWICE
    return Answer(case, excused, f"missed reference {outcome}: {case}: {said}")
