"""What nightly CI calls: is one session whole, proven, young enough, within its references, like the nights before, undrifted?

A night is held against the sessions before it that measured the same (:mod:`.history`), against the baseline of each metric
(:mod:`.drift`), which never expires, and against fixed references. The answer says the least loss that would have been called.
Where nights before cannot show that a time has doubled, the night is not judged, and not green.

At most ten lines and one exit status: 0 all is well; 1 something is not; 2 bad input; 3 not judged. A missed reference that a
session measured again (:mod:`mpibench.store.confirmations`) is held against it only if it was missed twice, and so is what is
slower than the nights before (:mod:`.nights`). A worse level lasted three nights, needs no confirmation, and is held against
each night while it lasts, until it is accepted. "No reference" is said and is no failure: `acceptance` mode and ``accept``
insist.

The first line of a refusal is its finding, so that a mail's subject or the first line of a log says what is wrong. Where the
lines do not suffice, each kind of question that failed shows its worst problem before any shows a second.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec
import polars as pl
from msgspec.structs import asdict

from reframe_tests.harness.printable import first_line, plain_data
from reframe_tests.harness.samples import NO_REFERENCE
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.vocabulary import SITE_FILES, BadInput

from .. import answers
from ..store import confirmations, eligibility, selectors, session_values
from ..store.store import Store
from . import drift, expected, nights
from . import policy as verdict_policy
from .history import SHARED, node_count_notes
from .policy import Policy
from .text import beyond

#: Lines at most: three of a head, the worst problem of each of :data:`KINDS`, and one that says what is left out.
MOST_LINES = 10
#: Characters of the finding in the first line.
LONGEST_FINDING = 160
#: The questions the gate asks, in the order in which their problems are shown: first what leaves least of the others.
AGE, EVIDENCE, MISSING, REFERENCE, HISTORY, DRIFT = KINDS = ("age", "evidence", "missing", "reference", "history", "drift")
#: Those that ask of curves, which a slow node may explain.
OF_CURVES = (REFERENCE, HISTORY, DRIFT)
#: Decisions, and exit status of each; 2 is bad input, as for every command.
PASSED: Final = "PASS"
FAILED: Final = "FAIL"
NOT_JUDGED: Final = "NOT JUDGED"
STATUS = {PASSED: 0, FAILED: 1, NOT_JUDGED: 3}
#: How much the clocks of who measured and who judges may differ; a session of tomorrow would be young for longer.
CLOCK_TOLERANCE = timedelta(minutes=15)


class Check(NamedTuple):
    """The answer to one question of :data:`KINDS`."""

    counts: Any
    problems: Sequence[Any] = ()
    notes: Sequence[str] = ()


class GateAnswer(answers.Gate):
    """The gate's answer on one session, as its lines and as data."""

    @property
    def by_kind(self) -> list[tuple[str, Any]]:
        """All problems with their kinds, in the order of :data:`KINDS`, the worst of each first."""
        return [(kind, problem) for kind in KINDS for problem in getattr(self.problems, kind)]

    @property
    def passed(self) -> bool:
        return self.decision == PASSED

    @property
    def lines(self) -> list[str]:
        """At most :data:`MOST_LINES`; the first is the decision, of a refusal with its finding."""
        problems, head = self.by_kind, self._head()
        others = [*(f"note: {line}" for line in self.notes), *self.better]
        room = MOST_LINES - len(head)
        if len(problems) + len(others) <= room:
            return [*head, *(problem.text for _, problem in problems), *others]
        # The first of each kind, then the others in their order.
        first = {kind: place for place, (kind, _) in reversed(list(enumerate(problems)))}.values()
        shown = sorted([*sorted(first), *(place for place in range(len(problems)) if place not in first)][: room - 1])
        hidden = [problem for place, problem in enumerate(problems) if place not in shown]
        kept = others[: room - 1 - len(shown)]
        notes = len(others) - len(kept)
        left = ", ".join(filter(None, [_kinds(hidden), f"{notes} note{'s'[: notes != 1]}" if notes else ""]))
        rest = f"... and {len(hidden) + notes} more ({left}): see `mpibench gate --json` and `mpibench report`"
        return [*head, *(problems[place][1].text for place in shown), *kept, rest]

    def _head(self) -> list[str]:
        counts = self.counts
        label = f"run={self.label}" if self.label is not None else "no label"
        refused = f"{len(self.unreadable)} ({self.unreadable[-1].why})" if self.unreadable else "none"
        who, when = f"{self.system}, session {self.session[:8]}", f"{label}, {counts.age.text}"
        held = f"{counts.evidence.text}; {counts.missing.text}"
        rest = (
            f"{counts.reference.text}; {counts.drift.text}; {counts.history.text}; sessions that could not be read: {refused}"
        )
        if self.decision == FAILED:
            return [f"{FAILED}: {who}: {self.finding}", f"{when}: {held}", rest]
        if self.decision == NOT_JUDGED:
            why = "nights before differ so much that no metric is judged"
            return [f"{NOT_JUDGED}: {who} ({when}): {why}; {held}", rest]
        reference = counts.reference
        judged = reference.held or reference.missed or reference.not_seen_again or counts.history.judged
        nothing = "no value was judged: there is no reference, and no history that is long and quiet enough; "
        return [f"{PASSED}: {who} ({when}): {'' if judged else nothing}{held}", rest]

    def as_data(self) -> dict[str, Any]:
        data: dict[str, Any] = plain_data(msgspec.to_builtins(self))
        return data


def first_finding(problems: Sequence[tuple[str, Any]]) -> str:
    """The first problem in short and how many others there are of which kind; empty for none."""
    if not problems:
        return ""
    rest = f" and {len(problems) - 1} more ({_kinds(problems[1:])})" if problems[1:] else ""
    return f"{first_line(problems[0][1].finding, LONGEST_FINDING)}{rest}"


def _kinds(problems: Iterable[tuple[str, Any]]) -> str:
    """How many problems of which kind: ``22 evidence, 1 drift``."""
    return ", ".join(f"{count} {kind}" for kind, count in Counter(kind for kind, _ in problems).items())


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
    :param history: as :attr:`~mpibench.judge.accept.AcceptanceOptions.history`.
    :raises BadInput: no dataset, a damaged one, or a selector that does not mean one session that can be read.
    """
    if max_age_hours is not None and not 0 < max_age_hours < math.inf:
        raise BadInput("max-age", f"--max-age is {max_age_hours}, expected a number of hours above 0.")
    name, chosen = store.find_session(session, system)
    table = store.cases(name)
    cases = table.filter(pl.col("session") == chosen).collect()
    whole = expected.judge(store, name, chosen, partial=partial, root=root)
    policy = verdict_policy.load(name, root)
    lost = store.lost(name)
    every, gone = store.cases(name, withdrawn_too=True), store.withdrawn
    again, doubtful = confirmations.certainly_first(confirmations.confirming(every, chosen, gone), whole.started, lost)
    sessions = selectors.sessions_table(table)
    series = [*selectors.alike(sessions, chosen).earlier, chosen]
    watched, better = _drift(store, name, series, recent)
    judged = nights.judge(store, name, chosen, cases, policy, history)
    held = _nights(judged and judged.measured_again(store, again))
    checks = {
        AGE: _age(whole.started, max_age_hours or policy.max_age_hours, now or datetime.now(timezone.utc)),
        EVIDENCE: _evidence(cases),
        MISSING: _missing(whole),
        REFERENCE: _references(cases, again),
        HISTORY: held,
        DRIFT: watched,
    }
    problems = [(kind, problem) for kind, check in checks.items() for problem in check.problems]
    notes = [
        *checks[REFERENCE].notes,
        *filter(None, [session_values.busy(cases)]),
        *confirmations.too_late(table, chosen),
        *doubtful,
        *_notes(store, name, policy, series[-2:-1], cases),
        *node_count_notes(table, sessions, chosen),
        *whole.notes,
        *held.notes,
    ]
    return GateAnswer(
        decision=FAILED if problems else NOT_JUDGED if held.counts.blind is True else PASSED,
        finding=first_finding(problems),
        system=name,
        session=chosen,
        label=whole.run,
        started=whole.started.isoformat(),
        options=list(whole.options),
        counts=answers.GateCounts(**{kind: check.counts for kind, check in checks.items()}),
        problems=answers.GateProblems(**{kind: list(check.problems) for kind, check in checks.items()}),
        notes=notes,
        better=better,
        unreadable=[answers.Unreadable(session=unread.session, why=unread.why) for unread in lost],
    )


def _age(started: datetime, limit_hours: float, now: datetime) -> Check:
    """How long ago did the session start, as far as the clock can be right?"""
    hours = (now - started) / timedelta(hours=1)
    text = f"{max(hours, 0.0):.0f} h" if hours < 72 else f"{(now - started).days} days"
    counts, finding = f"{started:%Y-%m-%d %H:%M} UTC, {text} old", ""
    if started > now + CLOCK_TOLERANCE:
        counts = f"{started:%Y-%m-%d %H:%M} UTC, {-hours:.1f} h to come"
        finding = f"the session says it starts {-hours:.1f} h from now: correct the clock and measure again"
    elif hours > limit_hours:
        finding = f"the session is {text} old, more than {limit_hours:g} h (max_age_hours of the policy): measure"
    numbers = {"hours": round(hours, 2), "most_hours": limit_hours}
    problems = [answers.AgeProblem(**numbers, text=f"age: {finding}", finding=finding)] if finding else []
    return Check(answers.AgeCounts(text=counts, **numbers), problems)


def _missing(whole: expected.Completeness) -> Check:
    """Is everything there that was expected?"""
    counts = answers.MissingCounts(text=whole.summary, expected=whole.expected, there=whole.there, not_asked=whole.not_asked)
    return Check(counts, [answers.Problem(text=line, finding=line.removeprefix("missing: ")) for line in whole.missing])


def _evidence(cases: pl.DataFrame) -> Check:
    """Is every case that ran proven?"""
    ran = eligibility.owed_proof(cases)
    split = eligibility.split_cases(ran)
    proven, measured = split.proven, split.eligible.height
    problems = []
    if not proven.height:
        text = "evidence: no case of this session is proven"
        problems.append(answers.EvidenceProblem(text=text, finding="no case is proven"))
    unproven = ran.join(proven.select("case"), on="case", how="anti", maintain_order="left")
    stopped, failed = (unproven.filter((pl.col("result") == eligibility.INTERRUPTED) == is_so) for is_so in (True, False))
    if lost := eligibility.interruption(stopped["reason"], ran.height):
        problems.append(answers.EvidenceProblem(interrupted=stopped.height, text=lost, finding=lost))
    # The worst first: what went over another fabric, say, and looks like a measurement.
    for row in failed.sort(pl.col("evidence") != "contradicted", maintain_order=True, nulls_last=True).to_dicts():
        reason = "passed, but no proof of its condition was stored"
        if row["result"] != "pass":
            reason = first_line(row["reason"]) or "failed without a reason"
        problems.append(
            answers.EvidenceProblem(
                **{name: row[name] for name in (*_CASE, "evidence")},
                reason=reason,
                text=f"evidence: {row['name']} @{row['partition']}+{row['stack']}: {reason}",
                finding=f"{row['stack']} on {row['fabric'] or row['partition']}: {reason}",
            )
        )
    again = cases.filter(pl.col("superseded").fill_null(False)).height
    retried = f" ({again} failures were run again)" if again else ""
    untimed = f", {proven.height - measured} of tests that time nothing" if proven.height > measured else ""
    counts = answers.EvidenceCounts(
        text=f"{proven.height} of {ran.height} cases proven, {measured} measured{untimed}{retried}",
        cases=ran.height,
        proven=proven.height,
        measured=measured,
        run_again=again,
    )
    return Check(counts, problems)


#: Columns of a case that say what it measured.
_CASE = ("name", "partition", "stack", "fabric", "nodes", "ppn", "pinning")


def _references(cases: pl.DataFrame, again: pl.DataFrame) -> Check:
    """Do eligible cases reach their references, or did they when what was missed was measured again?

    :param again: cases of the sessions that did so.
    """
    checks = confirmations.reference_checks(cases)
    missed = confirmations.missed_references(cases, again)
    without = sum(row["outcome"] == NO_REFERENCE for row in checks)
    held = len(checks) - without - len(missed)
    # The worst first, and what may be a disturbance after what two jobs missed.
    missed.sort(key=lambda miss: (miss.outcome == confirmations.NOT_MEASURED_AGAIN, -beyond(miss)))
    gone = [miss for miss in missed if miss.outcome == confirmations.NOT_SEEN_AGAIN]
    columns = (*_CASE, "metric", "layer", "value", "lower", "upper", "unit")
    held_against = [miss for miss in missed if miss.outcome != confirmations.NOT_SEEN_AGAIN]
    problems = [
        answers.ReferenceProblem(
            **{name: miss.check[name] for name in columns},
            outcome=cast(Any, miss.outcome),
            value_again=miss.again,
            text=f"reference: {miss.text}",
            finding=miss.text,
        )
        for miss in held_against
    ]
    outcomes = confirmations.summary(missed)
    counts = answers.ReferenceCounts(
        text=f"{held} references held, {len(missed)} missed" + (f" ({outcomes})" if outcomes else "") + f", {without} without",
        held=held,
        missed=len(missed),
        not_seen_again=len(gone),
        without=without,
    )
    return Check(counts, problems, [f"reference not seen again: {miss.text}" for miss in gone])


#: What makes two references those of the same metric.
_REFERENCE = ("partition", "stack", "fabric", "nodes", "ppn", "pinning", "group", "metric", "layer")


def _notes(store: Store, system: str, policy: Policy, before: Sequence[str], cases: pl.DataFrame) -> list[str]:
    """The newest withdrawal, references that no longer exist, and accepted levels of what was never measured here.

    :param before: the session before, if there is one.
    :param cases: of the session that is judged.
    """
    notes = []
    there = store.sessions_of(system)
    if withdrawn := sorted((row for row in store.withdrawn.values() if row.session in there), key=lambda row: row.when):
        more = f"; {len(withdrawn) - 1} more sessions were withdrawn before" if len(withdrawn) > 1 else ""
        notes.append(f"{withdrawn[-1]}{more}")
    table = store.cases(system)
    known = []
    for rows in (table.filter(pl.col("session").is_in(before)).collect(), cases):
        eligible = eligibility.split_cases(rows).eligible
        checks = eligible.explode("gates", empty_as_null=True).drop_nulls("gates")
        checks = checks.select(*_REFERENCE[:7], pl.col("gates").struct.field("metric", "layer", "outcome")).unique(_REFERENCE)
        known.append(checks.filter(pl.col("outcome") != NO_REFERENCE))
    gone = known[0].join(known[1], on=_REFERENCE, how="anti", nulls_equal=True)
    lost = gone.join(eligibility.split_cases(cases).eligible, on=_REFERENCE[:7], how="semi", nulls_equal=True)
    if lost.height:
        notes.append(
            f"{lost.height} references ({', '.join(sorted(set(lost['layer'])))}) of session {before[0][:8]} no longer exist, "
            f"and their metrics are not judged: see references.yaml and {SITE_FILES}"
        )
    measured = table.select(SHARED).unique().collect().rows()
    return notes + [
        f"levels.{number} of {policy.source} matches nothing that was measured here: correct its partition, stack or fabric"
        for number, level in enumerate(policy.levels)
        if not any(level.covers(*place) for place in measured)
    ]


def _drift(store: Store, system: str, series: Sequence[str], recent: int) -> tuple[Check, list[str]]:
    """Has anything changed in the nights of a series up to the last? And what became better, or was accepted."""
    try:
        watched = drift.watch(store, system, selector=",".join(series), recent=recent)
    except drift.NothingJudged as nothing:
        return Check(answers.DriftCounts(text=f"drift: not looked for, because {str(nothing).removesuffix('.')}")), []
    history, events = watched.history, watched.events
    nights = history.nights.height
    recent = min(recent, nights)
    first = history.nights["started"][-recent].date()
    worse = sorted((event for event in events if event.worse), key=lambda event: -event.slower)
    lasting = sum(event.since < first for event in worse)
    # What is missing as a whole is reported by what was expected, and may be retired.
    absent = drift.absent(history, whole=False)
    text = f"{len(worse) - lasting} changes for the worse in {recent} nights of {nights}"
    text += f", {lasting} before that lasts and nobody accepted" if lasting else ""
    if known := history.too_few or "; ".join(filter(None, [watched.seen, history.young, watched.noise])):
        text += f" ({known})"
    counts = answers.DriftCounts(text=text, worse=len(worse), lasting=lasting, absent=len(absent), nights=nights, recent=recent)
    problems = [
        answers.DriftProblem(**{**asdict(event.change()), "text": f"drift: {event}"}, finding=event.finding) for event in worse
    ]
    problems += [answers.DriftProblem(text=line, finding=line.removeprefix("missing: ")) for line in absent]
    other = (event for event in events if not event.worse and event.since >= first)
    return Check(counts, problems), [f"{'accepted' if event.slower > 0 else 'better'}: {event}" for event in other]


def _nights(judged: nights.NightJudgement | None) -> Check:
    """Is this session one more of those before it that measured the same? And what cannot be known of it."""
    if judged is None:
        return Check(answers.HistoryCounts(text="not held against sessions before"))
    held = [(problem, problem.outcome != confirmations.NOT_SEEN_AGAIN) for problem in nights.findings(judged)]
    notes = [*(problem.text for problem, counts in held if not counts), *judged.unknown()]
    return Check(judged.counts(), [problem for problem, counts in held if counts], notes)
