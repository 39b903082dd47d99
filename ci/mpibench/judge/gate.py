"""What nightly CI calls: is one session whole, proven, young enough, within
its references, like the nights before, undrifted?

A night is compared with the sessions before it that measured the same (:mod:`.history`), with the
baseline of each metric (:mod:`.drift`), which never expires, and with fixed references. The
answer says the least loss that would have been called. Where nights before cannot show that a time
has doubled, the night is not judged, and not green.

At most eleven lines and one exit status: 0 all is well; 1 something is not; 2 bad input; 3 not
judged. A missed reference that a session measured again (:mod:`mpibench.store.confirmations`)
counts only if it was missed twice, and so does what is slower than the nights before
(:mod:`.nights`). A worse level lasted three nights, needs no confirmation, and fails each
night while it lasts, until it is accepted. "No reference" is said and is no failure: `acceptance`
mode and ``accept`` insist.

The first line of a refusal is a ticket (:mod:`.ticket`), so that a mail's subject or the first line
of a log says what is wrong, where, on which nodes and since when. What a busy machine made slow is
refused where it was slow again on a quiet one, and else not judged. Where the lines do not suffice,
each kind of question that failed shows its worst problem before any shows a second.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec
import polars as pl
from msgspec.structs import asdict

from reframe_tests.harness.printable import clause, first_line, plain_data, plural
from reframe_tests.harness.samples import NO_REFERENCE
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.vocabulary import SITE_FILES, BadInput

from .. import answers
from ..store import confirmations, eligibility, session_values
from ..store.quantity_text import source_text
from ..store.session_values import among, not_among
from ..store.store import Store, StoredNight
from . import drift, expected, nights, ticket
from . import policy as verdict_policy
from .history import SHARED, node_count_notes
from .policy import Policy
from .text import beyond

#: Lines at most: three of a head and the next command, the worst problem of each of :data:`KINDS`,
#: and one that says what is left out.
MOST_LINES = 11
#: Characters of the finding in the first line, which a ticket may need.
LONGEST_FINDING = 480
#: The questions the gate asks, in the order in which their problems are
#: shown: first what leaves least of the others.
AGE, EVIDENCE, MISSING, REFERENCE, HISTORY, DRIFT = KINDS = (
    "age",
    "evidence",
    "missing",
    "reference",
    "history",
    "drift",
)
#: Of a further ticket.
PLACE = "place"
#: Those that ask of curves, which a slow node may explain.
OF_CURVES = (REFERENCE, HISTORY, DRIFT)
#: Decisions, and exit status of each; 2 is bad input, as for every command.
PASSED: Final = "PASS"
FAILED: Final = "FAIL"
NOT_JUDGED: Final = "NOT JUDGED"
STATUS = {PASSED: 0, FAILED: 1, NOT_JUDGED: 3}
#: How much the clocks of who measured and who judges may differ; a
#: session of tomorrow would be young for longer.
CLOCK_TOLERANCE = timedelta(minutes=15)


class Check(NamedTuple):
    """The answer to one question of :data:`KINDS`.

    :param unjudged: what a busy machine made slow, and nothing measured again on a quiet one.
    :param began: what is compared with nothing from this session on.
    """

    counts: Any
    problems: Sequence[Any] = ()
    notes: Sequence[str] = ()
    unjudged: Sequence[str] = ()
    began: Sequence[str] = ()


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
        kinds = [kind for kind, _ in self.by_kind]
        told = bool(kinds) and kinds[0] in OF_CURVES  # the first line is the first ticket
        head = [*self._head(), *(f"next: {ticket.next}" for ticket in self.tickets[:told])]
        if kinds[:1] == [EVIDENCE]:
            head.append(f"next: mpibench report --session {self.session[:8]}")
        problems = [(kind, problem.text) for kind, problem in self.by_kind]
        problems += [
            (PLACE, f"also: {ticket.text}; next: {ticket.next}") for ticket in self.tickets[told:]
        ]
        notes = [*self.notes, *(() if self.passed else self.began)]
        others = [
            *(f"not judged: {line}" for line in self.unjudged),
            *(f"note: {line}" for line in notes),
            *self.better,
        ]
        room = MOST_LINES - len(head)
        if len(problems) + len(others) <= room:
            return [*head, *(text for _, text in problems), *others]
        # The first of each kind before the others; printed in their order.
        kinds = [kind for kind, _ in problems]
        firsts = {kinds.index(kind) for kind in set(kinds)}
        by_worth = sorted(range(len(problems)), key=lambda place: place not in firsts)
        shown = sorted(by_worth[: room - 1])
        hidden = [kind for place, (kind, _) in enumerate(problems) if place not in shown]
        kept = others[: room - 1 - len(shown)]
        count = len(others) - len(kept)
        left = ", ".join(filter(None, [_kinds(hidden), plural(count, "note") if count else ""]))
        rest = (
            f"... and {len(hidden) + count} more ({left}): see `mpibench gate --json` and "
            "`mpibench report`"
        )
        return [*head, *(problems[place][1] for place in shown), *kept, rest]

    def _head(self) -> list[str]:
        counts = self.counts
        label = f"run={self.label}" if self.label is not None else "no label"
        refused = (
            f"{len(self.unreadable)} ({self.unreadable[-1].why})" if self.unreadable else "none"
        )
        who = f"{self.system}, session {self.session[:8]}"
        when = f"{label}, {counts.age.text}"
        held = f"{counts.evidence.text}; {counts.missing.text}"
        rest = (
            f"{counts.reference.text}; {counts.drift.text}; {counts.history.text}; sessions that "
            f"could not be read: {refused}"
        )
        if self.decision == FAILED:
            return [f"{FAILED}: {who}: {self.finding}", f"{when}: {held}", rest]
        if self.decision == NOT_JUDGED:
            why = "nights before differ so much that no metric is judged"
            if self.unjudged:
                more = f" (and {len(self.unjudged) - 1} more)" if self.unjudged[1:] else ""
                why = f"{self.unjudged[0]}{more}; measure again when nobody else uses the machine"
            return [f"{NOT_JUDGED}: {who}: {why}", f"{when}: {held}", rest]
        reference = counts.reference
        judged = (
            reference.held or reference.missed or reference.not_seen_again or counts.history.judged
        )
        nothing = (
            "no value was judged: there is no reference, and no history that is long and quiet "
            "enough; "
        )
        began = "".join(f"{line}; " for line in self.began)
        return [f"{PASSED}: {who} ({when}): {'' if judged else nothing}{began}{held}", rest]

    def as_data(self) -> dict[str, Any]:
        data: dict[str, Any] = plain_data(msgspec.to_builtins(self))
        return data


def first_finding(problems: Sequence[tuple[str, Any]], ticket: str = "") -> str:
    """The first problem in short and how many others there are of which kind; empty for none.

    :param ticket: what is said of it instead.
    """
    if not problems:
        return ""
    rest = (
        f"; and {len(problems) - 1} more ({_kinds(kind for kind, _ in problems[1:])})"
        if problems[1:]
        else ""
    )
    return f"{first_line(ticket or problems[0][1].finding, LONGEST_FINDING)}{rest}"


def _kinds(kinds: Iterable[str]) -> str:
    """How many problems of which kind: ``22 evidence, 1 drift``."""
    return ", ".join(f"{count} {kind}" for kind, count in Counter(kinds).items())


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
    :raises BadInput: no dataset, a damaged one, or a selector that does
        not mean one session that can be read.
    """
    if max_age_hours is not None and not 0 < max_age_hours < math.inf:
        raise BadInput(
            "bad-option", f"--max-age is {max_age_hours}, expected a number of hours above 0."
        )
    night = store.find_session(session, system)
    store.hold(night.system)
    whole = expected.judge(night, partial=partial, root=root)
    policy = verdict_policy.load(night.system, root)
    lost = store.lost(night.system)
    again, unconfirmed = confirmations.certainly_first(
        store.cases(night.system, withdrawn_too=True),
        night.session,
        store.withdrawn,
        [unread for unread in lost if unread.started >= night.started],
    )
    watched, better = _drift(night, recent, policy)
    judged = nights.judge(night, policy, history)
    held = _nights(judged and judged.measured_again(store, again))
    checks = {
        AGE: _age(
            whole.started, max_age_hours or policy.max_age_hours, now or datetime.now(timezone.utc)
        ),
        EVIDENCE: _evidence(night),
        MISSING: _missing(whole),
        REFERENCE: _references(night, again),
        HISTORY: held,
        DRIFT: watched,
    }
    problems = [(kind, problem) for kind, check in checks.items() for problem in check.problems]
    slow = [problem for kind, problem in problems if kind in OF_CURVES]
    tickets = ticket.write(night, judged, slow) if slow else []
    unjudged = [line for check in checks.values() for line in check.unjudged]
    notes = [
        *checks[REFERENCE].notes,
        *filter(None, [session_values.busy(night.cases)]),
        *unconfirmed,
        *_notes(night, policy),
        *node_count_notes(night.before, night.cases),
        *whole.notes,
        *held.notes,
    ]
    return GateAnswer(
        decision=FAILED
        if problems
        else NOT_JUDGED
        if unjudged or held.counts.blind is True
        else PASSED,
        finding=first_finding(
            problems, tickets[0].text if tickets and problems[0][1] is slow[0] else ""
        ),
        system=night.system,
        session=night.session,
        label=whole.run,
        started=whole.started.isoformat(),
        options=list(whole.options),
        counts=answers.GateCounts(**{kind: check.counts for kind, check in checks.items()}),
        problems=answers.GateProblems(
            **{kind: list(check.problems) for kind, check in checks.items()}
        ),
        tickets=tickets,
        unjudged=unjudged,
        began=[*_gone_references(night), *held.began],
        notes=notes,
        better=better,
        unreadable=[answers.Unreadable(session=unread.session, why=unread.why) for unread in lost],
    )


def _age(started: datetime, limit_hours: float, now: datetime) -> Check:
    """How long ago did the session start, as far as the clock can be right?"""
    hours = (now - started) / timedelta(hours=1)
    text = f"{max(hours, 0.0):.0f} h" if hours < 72 else f"{(now - started).days} days"
    counts = f"{started:%Y-%m-%d %H:%M} UTC, {text} old"
    finding = ""
    if started > now + CLOCK_TOLERANCE:
        counts = f"{started:%Y-%m-%d %H:%M} UTC, {-hours:.1f} h to come"
        finding = (
            f"the session says it starts {-hours:.1f} h from now: correct the clock and measure "
            "again"
        )
    elif hours > limit_hours:
        finding = (
            f"the session is {text} old, more than {limit_hours:g} h (max_age_hours of the "
            "policy): measure"
        )
    numbers = {"hours": round(hours, 2), "most_hours": limit_hours}
    problems = (
        [answers.AgeProblem(**numbers, text=f"age: {finding}", finding=finding)] if finding else []
    )
    return Check(answers.AgeCounts(text=counts, **numbers), problems)


def _missing(whole: expected.Completeness) -> Check:
    """Is everything there that was expected?"""
    counts = answers.MissingCounts(
        text=whole.summary, expected=whole.expected, there=whole.there, not_asked=whole.not_asked
    )
    return Check(
        counts, [answers.Problem(text=str(hole), finding=hole.finding) for hole in whole.holes]
    )


def _evidence(night: StoredNight) -> Check:
    """Is every case that ran proven?"""
    ran = eligibility.owed_proof(night.cases)
    split = eligibility.split_cases(ran)
    proven = split.proven
    measured = split.eligible.height
    problems = []
    if not proven.height:
        text = "evidence: no case of this session is proven"
        problems.append(answers.EvidenceProblem(text=text, finding="no case is proven"))
    unproven = not_among(ran, proven.select("case"), "case")
    stopped, failed = (
        unproven.filter((pl.col("result") == eligibility.INTERRUPTED) == is_so)
        for is_so in (True, False)
    )
    if lost := eligibility.interruption(stopped["reason"], ran.height):
        problems.append(
            answers.EvidenceProblem(interrupted=stopped.height, text=lost, finding=lost)
        )
    # The worst first: what went over another fabric, say, and looks like a measurement.
    for row in failed.sort(
        pl.col("evidence") != "contradicted", maintain_order=True, nulls_last=True
    ).to_dicts():
        reason = "passed, but no proof of its condition was stored"
        if row["result"] != "pass":
            reason = first_line(row["reason"]) or "failed without a reason"
        problems.append(
            answers.EvidenceProblem(
                **{name: row[name] for name in (*_CASE, "evidence")},
                reason=reason,
                text=f"evidence: {row['name']} @{row['partition']}+{row['stack']}: {reason}",
                finding=_unproven(row, reason, night.earlier),
            )
        )
    again = night.cases.filter(pl.col("superseded").fill_null(False)).height
    retried = f" ({again} failures were run again)" if again else ""
    untimed = (
        f", {proven.height - measured} of tests that time nothing"
        if proven.height > measured
        else ""
    )
    counts = answers.EvidenceCounts(
        text=f"{proven.height} of {plural(ran.height, 'case')} proven, {measured} measured"
        f"{untimed}{retried}",
        cases=ran.height,
        proven=proven.height,
        measured=measured,
        run_again=again,
    )
    return Check(counts, problems)


def _unproven(row: Mapping[str, Any], reason: str, earlier: pl.DataFrame) -> str:
    """A case without proof in short: where, in what condition, why, on which nodes, since when."""
    on = confirmations.MeasuredOn.of_row(row)
    nodes = on.hosts or on.job
    same = earlier.filter(pl.col(name).eq_missing(row[name]) for name in _SAME_CASE)
    proven = eligibility.split_cases(same).proven["started"]
    since = "never proven in the nights before" if same.height else "no night before"
    if proven.len():
        first = same.filter(pl.col("started") > proven.max())["started"].min()
        since = f"since {first:%d %b %Y}" if isinstance(first, datetime) else "since tonight"
    on_nodes = f"; on {confirmations.named(nodes)}" if nodes else ""
    return f"{ticket.place_text(row)}: {row['stack']}: {reason}{on_nodes}; {since}"


#: What a case of another night has in common with one.
_SAME_CASE = ("name", "partition", "stack")
#: Columns of a case that say what it measured.
_CASE = ("name", "partition", "stack", "fabric", "nodes", "ppn", "pinning")


def _references(night: StoredNight, again: pl.DataFrame) -> Check:
    """Do eligible cases reach their references, or did they when
    what was missed was measured again?

    :param again: cases of the sessions that did so.
    """
    checks = confirmations.reference_checks(night.cases)
    missed = confirmations.missed_references(night.cases, again, night.earlier)
    without = sum(row["outcome"] == NO_REFERENCE for row in checks)
    held = len(checks) - without - len(missed)
    # The worst first, and what may be a disturbance after what two jobs missed.
    missed.sort(key=lambda miss: (miss.outcome == confirmations.NOT_MEASURED_AGAIN, -beyond(miss)))
    gone = [miss for miss in missed if miss.outcome == confirmations.NOT_SEEN_AGAIN]
    busy = [miss for miss in missed if miss.outcome == confirmations.BUSY]
    columns = (*_CASE, "metric", "layer", "value", "lower", "upper", "unit")
    held_against = [miss for miss in missed if miss.outcome not in confirmations.EXCUSED]
    problems = [
        answers.ReferenceProblem(
            **{name: miss.check[name] for name in columns},
            outcome=cast(Any, miss.outcome),
            value_again=miss.again,
            text=f"reference: {miss.text}",
            loss=miss.loss,
            finding=miss.text,
        )
        for miss in held_against
    ]
    outcomes = confirmations.summary(missed)
    text = (
        f"{plural(held, 'reference')} held, {len(missed)} missed"
        + (f" ({outcomes})" if outcomes else "")
        + f", {without} without"
    )
    counts = answers.ReferenceCounts(
        text=text + _asked(checks),
        held=held,
        missed=len(missed),
        not_seen_again=len(gone),
        without=without,
    )
    return Check(
        counts,
        problems,
        [f"reference not seen again: {miss.text}" for miss in gone],
        [miss.text for miss in busy],
    )


def _asked(checks: Sequence[Mapping[str, Any]]) -> str:
    """At which level was measured, and the least share of the line rate that it asks for."""
    levels = sorted({str(row["level"]) for row in checks if row["level"]})
    lowest = [
        (row["lower"], row)
        for row in checks
        if row["lower"] is not None and confirmations.is_of_line_rate(row)
    ]
    least, row = min(lowest, key=lambda pair: pair[0], default=(None, {}))
    asked = "" if least is None else f": at least {confirmations.value_text(least, row)} asked for"
    return f", at level {' and '.join(levels)}{asked}" if levels else ""


#: What makes two references those of the same metric.
_REFERENCE = ("partition", "stack", "fabric", "nodes", "ppn", "pinning", "group", "metric", "layer")


def _notes(night: StoredNight, policy: Policy) -> list[str]:
    """The newest withdrawal, and accepted levels of what was never measured here."""
    notes = []
    store = night.store
    there = store.sessions_of(night.system)
    if withdrawn := sorted(
        (row for row in store.withdrawn.values() if row.session in there), key=lambda row: row.when
    ):
        more = (
            f"; {len(withdrawn) - 1} more sessions were withdrawn before"
            if len(withdrawn) > 1
            else ""
        )
        notes.append(f"{withdrawn[-1]}{more}")
    measured = store.cases(night.system).select(SHARED).unique().collect().rows()
    return notes + [
        f"levels.{number} of {policy.source} matches nothing that was measured here: correct its "
        "partition, stack or fabric"
        for number, level in enumerate(policy.levels)
        if not any(level.covers(*place) for place in measured)
    ]


def _gone_references(night: StoredNight) -> list[str]:
    """A sentence on the references that the session before had and this one has no more."""
    before = eligibility.split_cases(night.before).eligible
    known = []
    for eligible in (before, night.eligible):
        checks = eligible.explode("gates", empty_as_null=True).drop_nulls("gates")
        checks = checks.select(
            *_REFERENCE[:7], pl.col("gates").struct.field("metric", "layer", "outcome")
        ).unique(_REFERENCE)
        known.append(checks.filter(pl.col("outcome") != NO_REFERENCE))
    gone = not_among(known[0], known[1], _REFERENCE)
    lost = among(gone, night.eligible, _REFERENCE[:7])
    if not lost.height:
        return []
    return [
        f"{plural(lost.height, 'reference')} "
        f"({', '.join(sorted(map(source_text, set(lost['layer']))))}) of session "
        f"{before['session'][0][:8]} no longer there; their metrics are not judged: see "
        f"references.yaml and {SITE_FILES}"
    ]


def _drift(night: StoredNight, recent: int, policy: Policy) -> tuple[Check, list[str]]:
    """Has anything changed in the nights of a series up to the last?
    And what became better, or was accepted.
    """
    try:
        watched = drift.watch(
            night.store, night.system, sessions=night.series, recent=recent, policy=policy
        )
    except drift.NothingJudged as nothing:
        return Check(
            answers.DriftCounts(text=f"drift: not looked for, because {clause(nothing)}")
        ), []
    history = watched.history
    events = watched.events
    nights = history.nights.height
    recent = min(recent, nights)
    first = history.nights["started"][-recent].date()
    worse = sorted((event for event in events if event.worse), key=lambda event: -event.slower)
    lasting = sum(event.since < first for event in worse)
    # What is missing as a whole is reported by what was expected, and may be retired.
    absent = drift.absent(history, whole=False)
    text = plural(len(worse) - lasting, "change")
    text += f" for the worse in {plural(recent, 'night')} of {nights}"
    text += f", {lasting} before that lasts and nobody accepted" if lasting else ""
    if known := history.too_few or "; ".join(
        filter(None, [watched.seen, history.young, watched.noise])
    ):
        text += f" ({known})"
    counts = answers.DriftCounts(
        text=text,
        worse=len(worse),
        lasting=lasting,
        absent=len(absent),
        nights=nights,
        recent=recent,
    )
    problems = [
        answers.DriftProblem(
            **{**asdict(event.change()), "text": f"drift: {event}"},
            loss=event.loss,
            finding=event.finding,
        )
        for event in worse
    ]
    problems += [answers.DriftProblem(text=f"missing: {line}", finding=line) for line in absent]
    other = (event for event in events if not event.worse and event.since >= first)
    return Check(counts, problems), [
        f"{'accepted' if event.slower > 0 else 'better'}: {event}" for event in other
    ]


def _nights(judged: nights.NightJudgement | None) -> Check:
    """Is this session one more of those before it that measured the
    same? And what cannot be known of it.
    """
    if judged is None:
        return Check(answers.HistoryCounts(text="not compared with sessions before"))
    found = nights.findings(judged)
    by_outcome: dict[str, list[Any]] = {
        name: [one for one in found if one.outcome == name] for name in confirmations.EXCUSED
    }
    return Check(
        judged.counts(),
        [one for one in found if one.outcome not in confirmations.EXCUSED],
        [*(one.text for one in by_outcome[confirmations.NOT_SEEN_AGAIN]), *judged.unknown()],
        [one.text for one in by_outcome[confirmations.BUSY]],
        [judged.began] if judged.began else [],
    )
