"""What nightly CI calls: is one session whole, proven, young enough, within its references, like the nights before, undrifted?

A night is held against the prediction interval of the sessions before it that measured the same (:mod:`mpibench.history.past`),
beside fixed references. Where these are too few the answer says so, and what cannot be known without them; no other yardstick
takes their place: a night against a night, with the spread of repeats, is refused without reason far too often.

At most ten lines and one exit status: 0 all is well; 1 something is not; 2 bad input. Each answer says how old the session is,
what was expected of it, and which sessions could not be read. A missed reference that a session measured again
(:mod:`mpibench.results.confirmations`) is held against it only if it was missed twice, and so is what is slower than the nights
before (:mod:`.nights`); a change in the drift of nights lasted three nights, and needs no confirmation. One that lasts is held
against each night until its level is accepted. "No reference" is said and is not a failure: `acceptance` mode
and ``accept`` insist.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import polars as pl

from reframe_tests.harness.printable import first_line
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.vocabulary import BadInput

from ..completeness import expected
from ..history.strata import SHARED
from ..results import confirmations, eligibility, selectors, session_values, unreadable
from ..statistics import two_sides
from ..verdicts import policy as verdict_policy
from ..verdicts.policy import Policy
from . import drift, nights

#: Lines at most.
MOST_LINES = 10
#: Nights back to which a change for the worse that lasts is held against a night, until its level is accepted.
REMEMBERED_NIGHTS = 90
#: How much the clocks of who measured and who judges may differ; a session of tomorrow would be young for longer.
CLOCK_TOLERANCE = timedelta(minutes=15)


@dataclass(frozen=True)
class Result:
    """The gate's answer.

    :param lines: at most :data:`MOST_LINES`; the first is the decision.
    """

    passed: bool
    lines: tuple[str, ...]


@dataclass(frozen=True)
class GateCheck:
    """One question the gate asks of a session.

    :param counts: the answer in counts, for the head.
    :param problems: what is not as it must be, one line each.
    :param notes: what is to be known besides.
    """

    counts: str
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def decide(
    folder: Path,
    system: str | None = None,
    session: str = "latest",
    recent: int = 14,
    *,
    max_age_hours: float | None = None,
    partial: bool = False,
    history: str | None = None,
    root: Path = ROOT,
    now: datetime | None = None,
) -> Result:
    """Judge one session.

    :param system: needed only if the session has cases on several.
    :param recent: nights back to which a change counts as new.
    :param max_age_hours: in place of the policy's.
    :param partial: a partial session is judged by what it was asked for.
    :param history: as :attr:`~mpibench.verdicts.accept.AcceptanceOptions.history`.
    :raises BadInput: no dataset, a damaged one, or a selector that does not mean one session that can be read.
    """
    if max_age_hours is not None and not 0 < max_age_hours < math.inf:
        raise BadInput(f"--max-age is {max_age_hours}, expected a number of hours above 0.")
    name, chosen = session_values.find_session(folder, session, system)
    table = session_values.cases_of(folder, name)
    cases = table.filter(pl.col("session") == chosen).collect()
    whole = expected.judge(folder, name, chosen, partial=partial, root=root)
    policy = verdict_policy.load(name, root)
    age = _age(whole.started, max_age_hours or policy.max_age_hours, now or datetime.now(timezone.utc))
    again = confirmations.confirming(table, chosen)
    evidence, references = _evidence(cases), _references(cases, again)
    sessions = selectors.sessions_table(table)
    dropped = _dropped(table, sessions, cases, chosen)
    watched, better = _drift(folder, name, sessions, chosen, recent)
    judged = nights.judge(folder, name, chosen, cases, policy, history)
    held, unknown = _nights(judged and judged.measured_again(folder, again))
    lost = unreadable.find(folder, [name])
    refused = f"{len(lost)} ({lost[-1].why})" if lost else "none"
    questions = (age, GateCheck(whole.summary, whole.missing), evidence, references, watched, held)
    problems = [line for question in questions for line in question.problems]
    label = f"run={whole.run}" if whole.run is not None else "no label"
    decision = "FAIL" if problems else "PASS"
    head = (
        f"{decision}: {name}, session {chosen[:8]} ({label}, {age.counts}): {evidence.counts}; {whole.summary}",
        f"{references.counts}; {watched.counts}; {held.counts}; sessions that could not be read: {refused}",
    )
    unknown += _unmatched(policy, table)
    body = [*problems, *(f"note: {line}" for line in (*references.notes, *dropped, *whole.notes, *unknown)), *better]
    room = MOST_LINES - len(head)
    if len(body) > room:
        rest = f"... and {len(body) - room + 1} more: see `mpibench expected`, `mpibench report` and `mpibench drift`"
        body = [*body[: room - 1], rest]
    return Result(not problems, (*head, *body))


def _age(started: datetime, limit_hours: float, now: datetime) -> GateCheck:
    """How long ago the session started."""
    if started > now + CLOCK_TOLERANCE:
        ahead = f"{(started - now) / timedelta(hours=1):.1f} h"
        counts = f"{started:%Y-%m-%d %H:%M} UTC, {ahead} to come"
        return GateCheck(counts, (f"age: the session says it starts {ahead} from now: correct the clock and measure again",))
    age = max(now - started, timedelta(0))
    hours = age / timedelta(hours=1)
    text = f"{hours:.0f} h" if hours < 72 else f"{age.days} days"
    counts = f"{started:%Y-%m-%d %H:%M} UTC, {text} old"
    if hours <= limit_hours:
        return GateCheck(counts)
    return GateCheck(
        counts, (f"age: the session is {text} old, more than {limit_hours:g} h (max_age_hours of the policy): measure",)
    )


def _evidence(cases: pl.DataFrame) -> GateCheck:
    """Is every case that ran proven?"""
    ran = eligibility.owed_proof(cases)
    split = eligibility.split_cases(ran)
    proven = split.proven
    problems = [] if proven.height else ["evidence: no case of this session is proven"]
    unproven = ran.join(proven.select("case"), on="case", how="anti", maintain_order="left")
    stopped = pl.col("result") == eligibility.INTERRUPTED
    problems += filter(None, [eligibility.interruption(unproven.filter(stopped)["reason"], ran.height)])
    failed = unproven.filter(stopped.not_()).to_dicts()
    problems += [f"evidence: {row['name']} @{row['partition']}+{row['stack']}: {_first(row)}" for row in failed]
    again = cases.filter(pl.col("superseded").fill_null(False)).height
    retried = f" ({again} failures were run again)" if again else ""
    measured = split.eligible.height
    untimed = f", {proven.height - measured} of tests that time nothing" if proven.height > measured else ""
    return GateCheck(f"{proven.height} of {ran.height} cases proven, {measured} measured{untimed}{retried}", tuple(problems))


def _references(cases: pl.DataFrame, again: pl.DataFrame) -> GateCheck:
    """Do eligible cases reach their references, or did they when what was missed was measured again?

    :param again: cases of the sessions that did so.
    """
    rows = confirmations.reference_checks(cases)
    missed = confirmations.missed_references(cases, again)
    without = sum(row["outcome"] == "no reference" for row in rows)
    stays = [one for one in missed if one.outcome != confirmations.NOT_SEEN_AGAIN]
    gone = [one for one in missed if one.outcome == confirmations.NOT_SEEN_AGAIN]
    outcomes = confirmations.summary(missed)
    counts = f"{len(missed)} missed" + (f" ({outcomes})" if outcomes else "")
    held = len(rows) - without - len(missed)
    return GateCheck(
        f"{held} references held, {counts}, {without} without",
        tuple(f"reference: {_missed(one)}" for one in stays),
        tuple(f"reference not seen again: {_missed(one)}" for one in gone),
    )


def _missed(one: confirmations.MissedReference) -> str:
    """A missed reference, with what was measured again."""
    row = one.check
    text = (
        f"{row['stack']} on {row['fabric']}: {row['metric']} is {row['value']:g} {row['unit']}, "
        f"must be {_bounds(row['lower'], row['upper'])} ({row['layer']})"
    )
    if one.again is not None:
        return f"{text}; measured again {one.again:g} {row['unit']}"
    return f"{text}; {one.outcome}" if one.outcome else text


#: What makes two references those of the same metric.
_REFERENCE = ("partition", "stack", "fabric", "nodes", "ppn", "pinning", "group", "metric", "layer")


def _dropped(table: pl.LazyFrame, sessions: pl.DataFrame, cases: pl.DataFrame, session: str) -> list[str]:
    """Says how many metrics had a reference in the session before and were measured without one in this; empty if none."""
    before = selectors.alike(sessions, session).earlier[-1:]
    known = _outcomes(table.filter(pl.col("session").is_in(before)).collect()).filter(pl.col("outcome") != "no reference")
    there = _outcomes(cases).filter(pl.col("outcome") != "no reference")
    measured = eligibility.split_cases(cases).eligible.select(_REFERENCE[:7])
    lost = known.join(there, on=_REFERENCE, how="anti", nulls_equal=True).join(
        measured, on=_REFERENCE[:7], how="semi", nulls_equal=True
    )
    if not lost.height:
        return []
    layers = ", ".join(sorted(set(lost["layer"])))
    return [
        f"{lost.height} references ({layers}) of session {before[0][:8]} no longer exist, and their metrics are not judged: "
        "see references.yaml and system.py"
    ]


def _outcomes(cases: pl.DataFrame) -> pl.DataFrame:
    """One row for each reference check of eligible cases: :data:`_REFERENCE` and ``outcome``."""
    rows = eligibility.split_cases(cases).eligible.explode("gates", empty_as_null=True).drop_nulls("gates")
    return rows.select(*_REFERENCE[:7], pl.col("gates").struct.field("metric", "layer", "outcome")).unique(_REFERENCE)


def _drift(folder: Path, system: str, sessions: pl.DataFrame, session: str, recent: int) -> tuple[GateCheck, list[str]]:
    """Has anything changed in the nights of its label up to this session? And what became better, or was accepted."""
    series = ",".join([*selectors.alike(sessions, session).earlier, session])
    try:
        history, found = drift.watch(folder, system, selector=series, recent=max(recent, REMEMBERED_NIGHTS))
    except drift.NothingJudged as nothing:
        return GateCheck(f"drift: not looked for, because {str(nothing).removesuffix('.')}"), []
    found = [event for event in found if _is_recent(history, event, recent) or (event.worse and _lasts(history, event))]
    worse = [event for event in found if event.worse]
    lasting = sum(not _is_recent(history, event, recent) for event in worse)
    # What is missing as a whole is reported by what was expected, and may be retired.
    absent = drift.absent(history, whole=False)
    nights = history.nights.height
    counts = f"{len(worse) - lasting} changes for the worse in {min(recent, nights)} nights of {nights}"
    counts += f", {lasting} before that lasts and nobody accepted" if lasting else ""
    short = history.too_few or history.young
    problems = (*(f"drift: {event}" for event in worse), *absent)
    better = [f"{'accepted' if one.slower > 0 else 'better'}: {one}" for one in found if not one.worse]
    return GateCheck(f"{counts} ({short})" if short else counts, problems), better


def _is_recent(history: drift.History, event: drift.Event, recent: int) -> bool:
    """Whether a change is one of the last so many nights."""
    return event.since >= history.nights["started"][-min(recent, history.nights.height)].date()


def _lasts(history: drift.History, event: drift.Event) -> bool:
    """Whether the last nights are nearer to what came after a change than to what was before it, for the typical metric."""
    rows, at = event.metrics["row"].to_numpy(), int(event.metrics["night"].mode().sort()[0])
    before, now = history.logs[rows, :at], history.logs[rows, -drift.FEWEST_CHANGED :]
    remains = two_sides.describe(now).location - two_sides.describe(before).location
    return bool(np.nanmedian(remains) > np.log1p(event.slower) / 2)


def _nights(judged: nights.NightJudgement | None) -> tuple[GateCheck, list[str]]:
    """Is this session one more of those before it that measured the same? And what cannot be known of it."""
    if judged is None:
        return GateCheck("not held against sessions before"), []
    problems, notes = nights.sentences(judged)
    return GateCheck(judged.counts, tuple(problems)), [*notes, *judged.unknown()]


def _unmatched(policy: Policy, table: pl.LazyFrame) -> list[str]:
    """Accepted levels of what was never measured here: a name is misspelt, or of another time."""
    there = table.select(SHARED).unique().collect().rows()
    return [
        f"levels.{number} of {policy.source} matches nothing that was measured here: correct its partition, stack or fabric"
        for number, level in enumerate(policy.levels)
        if not any(level.covers(*shared) for shared in there)
    ]


def _first(row: dict[str, object]) -> str:
    """Why a case is not proven."""
    if row["result"] == "pass":
        return "passed, but no proof of its condition was stored"
    return first_line(row["reason"]) or "failed without a reason"


def _bounds(lower: float | None, upper: float | None) -> str:
    if lower is None:
        return f"at most {upper:g}"
    return f"at least {lower:g}" if upper is None else f"between {lower:g} and {upper:g}"
