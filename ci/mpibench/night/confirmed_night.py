"""A night, measured again where it missed a reference or is slower than earlier nights.

Unproven cases are not confirmed, since they are not measurements; nor is drift, which has lasted
three nights. How a confirmation run decides about a reference is defined in
:mod:`mpibench.store.confirmations`, with its error rates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from types import MappingProxyType

import polars as pl

from reframe_tests.harness.printable import clause, first_line, plural
from reframe_tests.harness.vocabulary import BadInput

from ..judge import nights
from ..judge import policy as verdict_policy
from ..judge.comparison import SESSIONS
from ..judge.nights import NightJudgement
from ..store import confirmations
from ..store.confirmations import (
    BUSY,
    NOT_MEASURED_AGAIN,
    NOT_SEEN_AGAIN,
    SEEN_TWICE,
    MissedReference,
)
from ..store.quantity_text import metric_text
from ..store.session_values import CURVE, among
from ..store.sessions import PAIRED, Session
from ..store.store import Store, StoredNight
from . import remeasuring, supervision
from .remeasuring import CalledCase, Workspace, of_checks, of_metrics, worst_first


@dataclass(frozen=True)
class ReferenceAnswer:
    """On one case that missed references; one that ran several times in its
    session has an answer for each run that did.

    :param uuid: of the case in its session.
    :param outcome: one of :data:`~mpibench.store.confirmations.WORST_FIRST`, the worst of its
        references.
    :param sentence: both measurements.
    """

    case: CalledCase
    uuid: str
    outcome: str
    sentence: str

    @property
    def excused(self) -> bool:
        """Whether it passed when it was measured again, was proven, and
        reached each reference it had missed.
        """
        return self.outcome == NOT_SEEN_AGAIN


@dataclass(frozen=True)
class StoredAnswers:
    """What a dataset shows about cases that missed references.

    :param answers: the worst first; nothing where no session that
        can be read measured this one again.
    :param unreadable: sentences on sessions that may have done so, and cannot be read.
    """

    answers: tuple[ReferenceAnswer, ...] = ()
    unreadable: tuple[str, ...] = ()


@dataclass
class NightAnswer:
    """What came of measuring a night again.

    :param notes: sentences on what is no problem of the night; what the gate judges is among them.
    :param problems: missed references that stay missed, or could not be measured again.
    :param unjudged: what a busy machine made slow, and nothing measured again on a quiet one.
    :param references: on each case that missed a reference and was to be measured again.
    :param all_excused: all cases that ReFrame counts as failed missed references
        alone, and did not miss them again or were busy.
    :param stopped: the signal that ended it.
    :param slower: cases that are slower than earlier nights, but for those that were not when
        they were measured again; ``None`` if that is unknown of all systems, or nothing was
        measured often enough to be compared with them.
    """

    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    references: Sequence[ReferenceAnswer] = ()
    all_excused: bool = False
    stopped: supervision.Interrupted | None = None
    slower: list[CalledCase] | None = None


def confirm(
    session: Session,
    place: Workspace,
    minutes: float,
    say: Callable[[str], None],
    show: Callable[[str], bool],
) -> NightAnswer:
    """Measure again what looked slower in a night.

    :param session: in database and dataset of ``place``.
    :param minutes: 0: nothing is measured again.
    """
    answer = NightAnswer()
    slower = _slower(session, place.store, answer)
    if not minutes:
        answer.references = stored_answers(place.store, session.uuid).answers
        answer.unjudged += [one.sentence for one in answer.references if one.outcome == BUSY]
        answer.all_excused = all_excused(session, answer.references)
        return answer
    missed: list[CalledCase] = []
    try:
        for system in place.store.session_systems.get(session.uuid, ()):
            rows = place.store.scan("cases", system, [session.uuid]).collect()
            missed += of_checks(system, confirmations.missed_references(rows, rows.clear()))
    except BadInput as error:
        answer.problems.append(
            f"missed references are unknown and were not measured again: {error}"
        )
    missed = worst_first(missed)
    cases = worst_first([*missed, *(case for judged in slower for case in _cases_of(judged))])
    if not cases:
        return answer
    try:
        late = confirmations.lateness(datetime.now(timezone.utc) - session.started)
        if late:
            raise BadInput("too-large", f"{late}: shorten the night, or split it")
        again = remeasuring.measure_again(cases, place, minutes, say, show)
    except BadInput as error:
        what = (
            f"{plural(len(missed), 'case')} missed a reference"
            if missed
            else f"{plural(len(cases), 'case')} slower than in earlier nights"
        )
        sentence = f"{what}; not measured again: {clause(error)}"
        (answer.problems if missed else answer.notes).append(sentence)
        return answer
    place.store.reread()
    answer.references = stored_answers(place.store, session.uuid, again.left).answers
    answer.notes += [reference.sentence for reference in answer.references if reference.excused]
    answer.problems += [
        one.sentence for one in answer.references if one.outcome not in confirmations.EXCUSED
    ]
    answer.unjudged += [one.sentence for one in answer.references if one.outcome == BUSY]
    twice = []
    for judged in slower:
        rows = confirmations.confirming(place.store.cases(judged.tonight.system), session.uuid)
        twice.append(judged.measured_again(place.store, rows))
        for finding in nights.findings(twice[-1]):
            excused = finding.outcome in confirmations.EXCUSED
            answer.notes.append(finding.text if excused else f"for the gate, {finding.text}")
    if answer.slower is not None:
        answer.slower = [case for judged in twice for case in _cases_of(judged)]
    answer.all_excused = all_excused(session, answer.references)
    answer.stopped = again.stopped
    return answer


def all_excused(session: Session, references: Sequence[ReferenceAnswer]) -> bool:
    """Whether every case of the session that ReFrame counts as failed
    is excused, or was slow on a busy machine.
    """
    own = [
        case
        for case in session.cases
        if not case.uuid.endswith(PAIRED) and case.uuid not in session.superseded
    ]
    failed = {case.uuid for case in own if case.result not in ("pass", "skip", "xfail")}
    return bool(failed) and failed <= {
        one.uuid for one in references if one.outcome in confirmations.EXCUSED
    }


def _slower(session: Session, store: Store, answer: NightAnswer) -> list[NightJudgement]:
    """Where the session is slower than earlier nights; a
    judgement for each of its systems.
    """
    called = []
    complete = True
    for system in session.systems:
        try:
            night = StoredNight(store, system, session.uuid)
            judged = nights.judge(night, verdict_policy.load(system))
        except BadInput as error:
            answer.notes.append(f"not compared with earlier nights: {clause(error)}")
            complete = False
            continue
        if judged is None:
            continue
        units = set(judged.first.metrics["units"])
        # a night of too few repeats is compared with none
        complete = complete and (not units or SESSIONS in units)
        called += [judged] if judged.called().height else []
    answer.slower = [case for judged in called for case in _cases_of(judged)] if complete else None
    return called


def _cases_of(judged: NightJudgement) -> list[CalledCase]:
    """The cases of a night that measured what is slower than in
    earlier nights, the worst first.

    Not those whose curves were not slower when they were measured again.
    """
    held = [part for outcome, part in judged.outcomes().items() if outcome != NOT_SEEN_AGAIN]
    tables = [table.select(CURVE) for part in held for table in (part.metrics, part.bands)]
    curves = pl.concat([judged.called().select(CURVE).clear(), *tables]).unique()
    return of_metrics(judged.tonight, among(judged.called(), curves, CURVE))


def stored_answers(
    store: Store, session: str, left: Mapping[CalledCase, str] = MappingProxyType({})
) -> StoredAnswers:
    """What the sessions say that measured a session again in time, and
    what a busy machine missed that none did.

    Of each case the first one counts that proved its condition. A session that cannot be read may
    have been the first, so that what follows it confirms nothing.

    :param left: why cases were not measured again, where that is known.
    :raises BadInput: the dataset cannot be read.
    """
    answers: list[ReferenceAnswer] = []
    unreadable: list[str] = []
    for system in store.session_systems.get(session, ()):
        cases = store.scan("cases", system)
        own = cases.filter(pl.col("session") == session).collect()
        began = own["started"][0]
        again = confirmations.confirming(cases, session, store.withdrawn)
        lost = [
            unread
            for unread in store.lost(system)
            if began <= unread.started <= began + confirmations.WITHIN
        ]
        again = again.filter(pl.col("started") < lost[0].started) if lost else again
        by_case: dict[str, list[MissedReference]] = {}
        earlier = StoredNight(store, system, session, withdrawn_too=True).earlier
        for missed in confirmations.missed_references(own, again, earlier):
            by_case.setdefault(missed.check["case"], []).append(missed)
        unreadable += [
            f"session {unread.session[:8]} cannot be read. It may have been the confirmation run "
            f"of this one, so later ones do not count: {unread.why}"
            for unread in (lost if by_case else ())
        ]
        for several in by_case.values():
            if again.height or left or {one.outcome for one in several} == {BUSY}:
                answers.append(_answer(worst_first(of_checks(system, several))[0], several, left))
    return StoredAnswers(
        tuple(sorted(answers, key=lambda one: (-one.case.slower, str(one.case)))), tuple(unreadable)
    )


def _answer(
    called: CalledCase, missed: Sequence[MissedReference], left: Mapping[CalledCase, str]
) -> ReferenceAnswer:
    """What both measurements say of a case.

    :param missed: its references, with what came of each.
    """
    case = missed[0].check["case"]
    outcomes = {reference.outcome or NOT_MEASURED_AGAIN for reference in missed}
    outcome = next(name for name in confirmations.WORST_FIRST if name in outcomes)
    if not any(reference.second for reference in missed):
        reasons = (
            left.get(called),
            *(miss.why for miss in missed),
            "no later session measured it again under the same, proven condition",
        )
        busy = "machine busy, " if outcome == BUSY else ""
        return ReferenceAnswer(
            called, case, outcome, f"{called}: {busy}{outcome}: {next(filter(None, reasons))}"
        )
    values = ", ".join(
        f"{metric_text(miss.check['metric'])} "
        f"{confirmations.value_text(miss.check['value'], miss.check)} and "
        f"again {confirmations.value_text(miss.again, miss.check)}"
        for miss in missed
        if miss.outcome == outcome
    )
    failed = next(
        (miss.second for miss in missed if miss.second.get("result") not in ("pass", "xfail")), None
    )
    if outcome == NOT_SEEN_AGAIN and failed:
        values += (
            f"; but the case failed again: {first_line(failed['reason'] or '') or 'no reason'}"
        )
        outcome = SEEN_TWICE
    busy = ", machine busy both times" if outcome == BUSY else ""
    return ReferenceAnswer(
        called, case, outcome, f"missed reference {outcome}{busy}: {called}: {values}"
    )
