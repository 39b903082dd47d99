"""What nightly CI calls: is one session whole, proven, young enough, within its references, like the nights before, undrifted?

A night is held against the prediction interval of the sessions before it that measured the same
(:mod:`mpibench.judge.history.past`),
beside fixed references. Where these are too few the answer says so, and what cannot be known without them; no other yardstick
takes their place: a night against a night, with the spread of repeats, is refused without reason far too often.

At most ten lines and one exit status: 0 all is well; 1 something is not; 2 bad input. Each answer says how old the session is,
what was expected of it, and which sessions could not be read. A missed reference that a session measured again
(:mod:`mpibench.store.confirmations`) is held against it only if it was missed twice, and so is what is slower than the nights
before (:mod:`.nights`); a change in the drift of nights lasted three nights, and needs no confirmation. It is held against each
night while it lasts, until its level is accepted; one that is over, or never was one, is not. "No reference" is said and is no
failure: `acceptance` mode and ``accept`` insist.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import polars as pl

from reframe_tests.harness.printable import first_line
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.vocabulary import SITE_FILES, BadInput

from ...store import confirmations, eligibility, selectors, session_values
from ...store.store import Store
from ..completeness import expected
from ..completeness.expected import Completeness
from ..history import node_counts
from ..history.strata import SHARED
from ..verdicts import policy as verdict_policy
from ..verdicts import text as verdict_text
from ..verdicts.policy import Policy
from . import drift, drift_answer, nights
from .gate_answer import AGE, DRIFT, EVIDENCE, HISTORY, KINDS, MISSING, REFERENCE, GateAnswer, GateCheck, GateProblem

#: Nights back to which a change for the worse that lasts is held against a night, until its level is accepted.
REMEMBERED_NIGHTS = 90
#: How much the clocks of who measured and who judges may differ; a session of tomorrow would be young for longer.
CLOCK_TOLERANCE = timedelta(minutes=15)


def decide(
    store: Store,
    system: str | None = None,
    session: str = "latest",
    recent: int = 14,
    *,
    max_age_hours: float | None = None,
    partial: bool = False,
    history: str | None = None,
    root: Path = ROOT,
    now: datetime | None = None,
) -> GateAnswer:
    """Judge one session.

    :param system: needed only if the session has cases on several.
    :param recent: nights back to which a change counts as new.
    :param max_age_hours: in place of the policy's.
    :param partial: a partial session is judged by what it was asked for.
    :param history: as :attr:`~mpibench.judge.verdicts.accept.AcceptanceOptions.history`.
    :raises BadInput: no dataset, a damaged one, or a selector that does not mean one session that can be read.
    """
    if max_age_hours is not None and not 0 < max_age_hours < math.inf:
        raise BadInput(f"--max-age is {max_age_hours}, expected a number of hours above 0.")
    name, chosen = store.find_session(session, system)
    table = store.cases(name)
    cases = table.filter(pl.col("session") == chosen).collect()
    whole = expected.judge(store, name, chosen, partial=partial, root=root)
    policy = verdict_policy.load(name, root)
    lost = store.lost(name)
    every, gone = store.cases(name, withdrawn_too=True), store.withdrawn
    again, doubtful = confirmations.certainly_first(confirmations.confirming(every, chosen, gone), whole.started, lost)
    sessions = selectors.sessions_table(table)
    watched, better = _drift(store, name, sessions, chosen, recent)
    judged = nights.judge(store, name, chosen, cases, policy, history)
    held, unknown = _nights(judged and judged.measured_again(store, again))
    references = _references(cases, again)
    checks = {
        check.kind: check
        for check in (
            _age(whole.started, max_age_hours or policy.max_age_hours, now or datetime.now(timezone.utc)),
            _evidence(cases),
            _completeness(whole),
            references,
            held,
            watched,
        )
    }
    late = confirmations.too_late(table, chosen)
    notes = (
        *references.notes,
        *filter(None, [session_values.busy(cases)]),
        *late,
        *_withdrawn(store, name),
        *doubtful,
        *_dropped(table, sessions, cases, chosen),
        *node_counts.notes(table, sessions, chosen),
        *whole.notes,
        *unknown,
        *_unmatched(policy, table),
    )
    return GateAnswer(
        name,
        chosen,
        whole.run,
        whole.started,
        whole.options,
        tuple(checks[kind] for kind in KINDS),
        notes,
        tuple(better),
        lost,
    )


def _withdrawn(store: Store, system: str) -> list[str]:
    """Says which sessions of the system take no part because somebody withdrew them, the newest withdrawal in full."""
    there = store.sessions_of(system)
    found = sorted((one for one in store.withdrawn.values() if one.session in there), key=lambda one: one.when)
    more = f"; {len(found) - 1} more sessions were withdrawn before" if len(found) > 1 else ""
    return [f"{found[-1]}{more}"] if found else []


def _age(started: datetime, limit_hours: float, now: datetime) -> GateCheck:
    """How long ago the session started, as far as the clock can be right."""
    hours = (now - started) / timedelta(hours=1)
    numbers = {"hours": round(hours, 2), "most_hours": limit_hours}
    if started > now + CLOCK_TOLERANCE:
        counts = f"{started:%Y-%m-%d %H:%M} UTC, {-hours:.1f} h to come"
        finding = f"the session says it starts {-hours:.1f} h from now: correct the clock and measure again"
        return GateCheck(AGE, counts, numbers, (GateProblem(AGE, f"age: {finding}", finding, numbers),))
    age = max(now - started, timedelta(0))
    text = f"{age / timedelta(hours=1):.0f} h" if hours < 72 else f"{age.days} days"
    counts = f"{started:%Y-%m-%d %H:%M} UTC, {text} old"
    if hours <= limit_hours:
        return GateCheck(AGE, counts, numbers)
    finding = f"the session is {text} old, more than {limit_hours:g} h (max_age_hours of the policy): measure"
    return GateCheck(AGE, counts, numbers, (GateProblem(AGE, f"age: {finding}", finding, numbers),))


def _completeness(whole: Completeness) -> GateCheck:
    """Is everything there that is expected of the session?"""
    problems = (GateProblem(MISSING, line, line.removeprefix("missing: ")) for line in whole.missing)
    numbers = {"expected": whole.expected, "there": whole.there, "not_asked": whole.not_asked}
    return GateCheck(MISSING, whole.summary, numbers, tuple(problems))


def _evidence(cases: pl.DataFrame) -> GateCheck:
    """Is every case that ran proven?"""
    ran = eligibility.owed_proof(cases)
    split = eligibility.split_cases(ran)
    proven = split.proven
    problems = (
        [] if proven.height else [GateProblem(EVIDENCE, "evidence: no case of this session is proven", "no case is proven")]
    )
    unproven = ran.join(proven.select("case"), on="case", how="anti", maintain_order="left")
    stopped = unproven.filter(pl.col("result") == eligibility.INTERRUPTED)
    lost = eligibility.interruption(stopped["reason"], ran.height)
    if lost:
        problems.append(GateProblem(EVIDENCE, lost, lost, {"interrupted": stopped.height}))
    failed = unproven.filter(pl.col("result") != eligibility.INTERRUPTED)
    # The worst first: what went over another fabric, say, and looks like a measurement.
    contradicted = failed["evidence"] == "contradicted"
    problems += map(_unproven, [*failed.filter(contradicted).to_dicts(), *failed.filter(~contradicted).to_dicts()])
    again = cases.filter(pl.col("superseded").fill_null(False)).height
    retried = f" ({again} failures were run again)" if again else ""
    measured = split.eligible.height
    untimed = f", {proven.height - measured} of tests that time nothing" if proven.height > measured else ""
    counts = f"{proven.height} of {ran.height} cases proven, {measured} measured{untimed}{retried}"
    numbers = {"cases": ran.height, "proven": proven.height, "measured": measured, "run_again": again}
    return GateCheck(EVIDENCE, counts, numbers, tuple(problems))


#: Columns of a case that say what it measured.
_CASE = ("name", "partition", "stack", "fabric", "nodes", "ppn", "pinning")


def _unproven(row: Mapping[str, Any]) -> GateProblem:
    """A case that ran and is not proven."""
    reason = "passed, but no proof of its condition was stored"
    if row["result"] != "pass":
        reason = first_line(row["reason"]) or "failed without a reason"
    where = f"{row['stack']} on {row['fabric'] or row['partition']}"
    facts = {**{name: row[name] for name in _CASE}, "evidence": row["evidence"], "reason": reason}
    text = f"evidence: {row['name']} @{row['partition']}+{row['stack']}: {reason}"
    return GateProblem(EVIDENCE, text, f"{where}: {reason}", facts)


def _references(cases: pl.DataFrame, again: pl.DataFrame) -> GateCheck:
    """Do eligible cases reach their references, or did they when what was missed was measured again?

    :param again: cases of the sessions that did so.
    """
    rows = confirmations.reference_checks(cases)
    missed = confirmations.missed_references(cases, again)
    without = sum(row["outcome"] == "no reference" for row in rows)
    # The worst first, and what may be a disturbance after what two jobs missed.
    ordered = sorted(missed, key=lambda one: (one.outcome == confirmations.NOT_MEASURED_AGAIN, -_beyond(one)))
    stays = [one for one in ordered if one.outcome != confirmations.NOT_SEEN_AGAIN]
    gone = [one for one in ordered if one.outcome == confirmations.NOT_SEEN_AGAIN]
    outcomes = confirmations.summary(missed)
    held = len(rows) - without - len(missed)
    return GateCheck(
        REFERENCE,
        f"{held} references held, {len(missed)} missed" + (f" ({outcomes})" if outcomes else "") + f", {without} without",
        {"held": held, "missed": len(missed), "not_seen_again": len(gone), "without": without},
        tuple(_missed(one) for one in stays),
        tuple(f"reference not seen again: {_missed(one).finding}" for one in gone),
    )


def _beyond(one: confirmations.MissedReference) -> float:
    return confirmations.distance(*(one.check[name] for name in ("value", "lower", "upper")))


def _missed(one: confirmations.MissedReference) -> GateProblem:
    """A missed reference, with what was measured again."""
    row, text = one.check, one.text
    facts = {name: row[name] for name in (*_CASE, "metric", "layer", "value", "lower", "upper", "unit")}
    return GateProblem(REFERENCE, f"reference: {text}", text, {**facts, "outcome": one.outcome, "value_again": one.again})


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
        f"see references.yaml and {SITE_FILES}"
    ]


def _outcomes(cases: pl.DataFrame) -> pl.DataFrame:
    """One row for each reference check of eligible cases: :data:`_REFERENCE` and ``outcome``."""
    rows = eligibility.split_cases(cases).eligible.explode("gates", empty_as_null=True).drop_nulls("gates")
    return rows.select(*_REFERENCE[:7], pl.col("gates").struct.field("metric", "layer", "outcome")).unique(_REFERENCE)


def _drift(store: Store, system: str, sessions: pl.DataFrame, session: str, recent: int) -> tuple[GateCheck, list[str]]:
    """Has anything changed in the nights of its label up to this session? And what became better, or was accepted."""
    series = ",".join([*selectors.alike(sessions, session).earlier, session])
    try:
        history, found = drift.watch(store, system, selector=series, recent=max(recent, REMEMBERED_NIGHTS))
    except drift.NothingJudged as nothing:
        return GateCheck(DRIFT, f"drift: not looked for, because {str(nothing).removesuffix('.')}"), []
    found = [event for event in found if event.worse or _is_recent(history, event, recent)]
    worse = sorted((event for event in found if event.worse), key=lambda event: -event.slower)
    lasting = sum(not _is_recent(history, event, recent) for event in worse)
    # What is missing as a whole is reported by what was expected, and may be retired.
    absent = drift.absent(history, whole=False)
    nights = history.nights.height
    counts = f"{len(worse) - lasting} changes for the worse in {min(recent, nights)} nights of {nights}"
    counts += f", {lasting} before that lasts and nobody accepted" if lasting else ""
    short = history.too_few or history.young
    problems = [GateProblem(DRIFT, f"drift: {event}", _changed(event), drift_answer.event_data(event)) for event in worse]
    problems += [GateProblem(DRIFT, line, line.removeprefix("missing: ")) for line in absent]
    better = [f"{'accepted' if one.slower > 0 else 'better'}: {one}" for one in found if not one.worse]
    numbers = {"worse": len(worse), "lasting": lasting, "absent": len(absent), "nights": nights, "recent": min(recent, nights)}
    return GateCheck(DRIFT, f"{counts} ({short})" if short else counts, numbers, tuple(problems)), better


def _changed(event: drift.Event) -> str:
    """A change in short."""
    what, sizes = ", ".join(sorted(set(event.metrics["benchmark"]))), verdict_text.sizes_text(event.metrics["message_bytes"])
    change = verdict_text.change_text(event.slower)
    return f"{event.stack} on {event.fabric}: {change} since {event.since:%d %b %Y} ({what}, {sizes})"


def _is_recent(history: drift.History, event: drift.Event, recent: int) -> bool:
    """Whether a change is one of the last so many nights."""
    return event.since >= history.nights["started"][-min(recent, history.nights.height)].date()


def _nights(judged: nights.NightJudgement | None) -> tuple[GateCheck, list[str]]:
    """Is this session one more of those before it that measured the same? And what cannot be known of it."""
    if judged is None:
        return GateCheck(HISTORY, "not held against sessions before"), []
    found = nights.findings(judged)
    problems = (GateProblem(HISTORY, f"history: {one.text}", one.short, one.facts) for one in found if one.held)
    notes = [f"history: {one.text}" for one in found if not one.held]
    return GateCheck(HISTORY, judged.counts, judged.numbers(), tuple(problems)), [*notes, *judged.unknown()]


def _unmatched(policy: Policy, table: pl.LazyFrame) -> list[str]:
    """Accepted levels of what was never measured here: a name is misspelt, or of another time."""
    there = table.select(SHARED).unique().collect().rows()
    return [
        f"levels.{number} of {policy.source} matches nothing that was measured here: correct its partition, stack or fabric"
        for number, level in enumerate(policy.levels)
        if not any(level.covers(*shared) for shared in there)
    ]
