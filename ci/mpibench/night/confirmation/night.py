"""A night, measured again where it missed a reference or is slower than the nights before it that measured the same.

What lacks its proof is no measurement that could be confirmed, and a change in the drift of nights has lasted three of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone

import polars as pl

from reframe_tests.harness.vocabulary import BadInput

from ...judge import nights
from ...judge import policy as verdict_policy
from ...judge.curve_tests import SESSIONS
from ...judge.nights import NightJudgement
from ...store import confirmations
from ...store.sessions import Session
from ...store.store import Store
from .. import supervision
from . import called, measuring, references
from .called import CalledCase
from .measuring import Workspace


@dataclass
class NightAnswer:
    """What came of it.

    :param notes: sentences on what is no problem of the night; what the gate judges is among them.
    :param problems: missed references that stay missed, or could not be measured again.
    :param references: on each case that missed a reference and was to be measured again.
    :param all_excused: every case that ReFrame counts as failed missed references and did not miss them again.
    :param stopped: the signal that ended it.
    :param slower: cases that are slower than the nights before, but for those that were not when they were measured again;
        ``None`` where that is not known of all systems, or nothing was measured often enough to be held against them.
    """

    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    references: list[references.Answer] = field(default_factory=list)
    all_excused: bool = False
    stopped: supervision.Interrupted | None = None
    slower: list[CalledCase] | None = None


def confirm(
    session: Session, place: Workspace, minutes: float, say: Callable[[str], None], show: Callable[[str], bool]
) -> NightAnswer:
    """Measure again what was called in a night.

    :param session: in database and dataset of ``place``.
    :param minutes: 0: nothing is measured again.
    """
    answer = NightAnswer()
    slower = _slower(session, place.store, answer)
    if not minutes:
        return answer
    missed: list[CalledCase] = []
    try:
        missed = called.of_references(place.store, session.uuid)
    except BadInput as error:
        answer.problems.append(f"which references were missed is not known, and nothing of it was measured again: {error}")
    cases = called.worst_first([*missed, *(case for one in slower for case in called.of_night(one))])
    if not cases:
        return answer
    try:
        late = confirmations.lateness(session.started, datetime.now(timezone.utc))
        if late:
            raise BadInput("night-too-long", f"{late}: measure the night in fewer hours, or in parts")
        again = measuring.measure_again(cases, {session.uuid: session}, place, minutes, say, show)
    except BadInput as error:
        what = (
            f"{len(missed)} cases missed a reference" if missed else f"{len(cases)} cases are slower than in the nights before"
        )
        sentence = f"{what}, and were not measured again: {str(error).rstrip('.')}"
        (answer.problems if missed else answer.notes).append(sentence)
        return answer
    place.store.reread()
    answer.references = found = list(references.stored(place.store, session.uuid, again.left).answers)
    answer.notes += [one.sentence for one in found if one.excused]
    held = [one.measured_again(place.store, _again(session, one, place.store)) for one in slower]
    for one in held:
        for row in nights.findings(one):
            answer.notes.append(f"{'' if row.outcome == confirmations.NOT_SEEN_AGAIN else 'for the gate, '}{row.text}")
    if answer.slower is not None:
        answer.slower = [case for one in held for case in called.of_night(one)]
    answer.problems += [one.sentence for one in found if not one.excused]
    answer.all_excused = references.all_excused(session, found)
    answer.stopped = again.stopped
    return answer


def _slower(session: Session, store: Store, answer: NightAnswer) -> list[NightJudgement]:
    """Where the session is slower than the nights before it; a judgement for each of its systems."""
    found = []
    complete = True
    for system in session.systems:
        try:
            cases = store.cases(system).filter(pl.col("session") == session.uuid).collect()
            judged = nights.judge(store, system, session.uuid, cases, verdict_policy.load(system))
        except BadInput as error:
            answer.notes.append(f"not held against the nights before: {str(error).rstrip('.')}")
            complete = False
            continue
        if judged is None:
            continue
        held = set(judged.first.metrics["units"])
        complete = complete and (not held or SESSIONS in held)  # a night of too few repeats is held against none
        found += [judged] if judged.called().height else []
    answer.slower = [case for one in found for case in called.of_night(one)] if complete else None
    return found


def _again(session: Session, judged: NightJudgement, store: Store) -> pl.DataFrame:
    """What measured the session again, of the system of a judgement."""
    return confirmations.confirming(store.cases(judged.tonight.system), session.uuid)
