"""What measuring again says of cases that missed a reference (rule, error rates: :mod:`mpibench.store.confirmations`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import polars as pl

from reframe_tests.harness.printable import first_line

from ...store import confirmations
from ...store.confirmations import NOT_MEASURED_AGAIN, NOT_SEEN_AGAIN, MissedReference
from ...store.sessions import Session
from ...store.store import Store
from .called import CalledCase, is_own, of_checks, worst_first


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
    """What a dataset says of cases that missed references.

    :param answers: the worst first; nothing where no session that can be read measured this one again.
    :param unreadable: sentences on sessions that may have done so, and cannot be read.
    """

    answers: tuple[Answer, ...] = ()
    unreadable: tuple[str, ...] = ()


def stored(store: Store, session: str, left: Mapping[CalledCase, str] = MappingProxyType({})) -> StoredAnswers:
    """What the sessions say that measured a session again in time (rule: :mod:`mpibench.store.confirmations`).

    Of each case the first one counts that proved its condition. A session that cannot be read may have been the first, so that
    what follows it confirms nothing.

    :param left: why cases were not measured again, where that is known.
    :raises BadInput: the dataset cannot be read.
    """
    answers: list[Answer] = []
    said: list[str] = []
    for system in store.session_systems.get(session, ()):
        cases = store.scan("cases", system)
        own = cases.filter(pl.col("session") == session).collect()
        began, again = own["started"][0], confirmations.confirming(cases, session, store.withdrawn)
        lost = [one for one in store.lost(system) if began <= one.started <= began + confirmations.WITHIN]
        again = again.filter(pl.col("started") < lost[0].started) if lost else again
        by_case: dict[str, list[MissedReference]] = {}
        for missed in confirmations.missed_references(own, again):
            by_case.setdefault(missed.check["case"], []).append(missed)
        said += [
            f"session {one.session[:8]} cannot be read and may have measured this one again; what follows it confirms nothing: "
            f"{one.why}"
            for one in (lost if by_case else ())
        ]
        if again.height or left:
            answers += [_answer(worst_first(of_checks(system, part))[0], part, left) for part in by_case.values()]
    return StoredAnswers(tuple(sorted(answers, key=lambda answer: (-answer.case.slower, str(answer.case)))), tuple(said))


def all_excused(session: Session, found: Sequence[Answer]) -> bool:
    """Whether every case of the session that ReFrame counts as failed is excused."""
    excused = {one.uuid for one in found if one.excused}
    failed = {
        case.uuid
        for case in session.cases
        if is_own(case) and case.uuid not in session.superseded and case.result not in ("pass", "skip", "xfail")
    }
    return bool(failed) and failed <= excused


def _answer(called: CalledCase, missed: Sequence[MissedReference], left: Mapping[CalledCase, str]) -> Answer:
    """What both measurements say of a case.

    :param missed: its references, with what came of each.
    """
    case = missed[0].check["case"]
    outcome = next(name for name in confirmations.WORST_FIRST if name in {one.outcome or NOT_MEASURED_AGAIN for one in missed})
    if not any(one.second for one in missed):
        reasons = (left.get(called), *(one.why for one in missed), "no session measured it again as it was, with proof")
        return Answer(called, case, False, f"{called}: {outcome}: {next(filter(None, reasons))}")
    said = ", ".join(
        f"{one.check['metric']} {confirmations.value_text(one.check['value'], one.check)} and again "
        f"{confirmations.value_text(one.again, one.check)}"
        for one in missed
        if one.outcome == outcome
    )
    failed = next((one.second for one in missed if one.second.get("result") not in ("pass", "xfail")), None)
    if outcome == NOT_SEEN_AGAIN and failed:
        said += f"; but the case failed again: {first_line(failed['reason'] or '') or 'no reason'}"
        return Answer(called, case, False, f"missed reference {confirmations.SEEN_TWICE}: {called}: {said}")
    return Answer(called, case, outcome == NOT_SEEN_AGAIN, f"missed reference {outcome}: {called}: {said}")
