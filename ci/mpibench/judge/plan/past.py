"""What earlier nights of a label did: when each case was measured, what became of it, how long it took.

Only nights before the day of the plan count, so that the plan of a day is the same whenever it is made. A night is a calendar
day (UTC) with sessions of the label.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple

import polars as pl

from reframe_tests.harness.printable import first_line
from reframe_tests.harness.samples import NO_REFERENCE, PASS
from reframe_tests.harness.sites.planned_cases import NOT_PLANNED
from reframe_tests.harness.vocabulary import BadInput

from ...store import confirmations, eligibility, selectors
from ...store.dataset_layout import read_condition, read_labels
from ...store.sessions import PAIRED
from ...store.store import Store
from . import record
from .record import LABEL, ListedCase

#: Newest nights that are looked at: what is older counts as never measured.
MOST_NIGHTS = 100
#: Newest runs of a case that its cost comes from.
RUNS = 3
#: Newest planned sessions of which it is looked up what they were to measure and did not.
MOST_PLANS = 14
#: What a case was that is owed.
SKIPPED, FAILED, MISSED, NOT_RUN = "skipped", "failed", "missed a reference", "did not run"
SLOWER = "slower than the nights before"
#: Of a condition: its level, and what else makes it another measurement than the case's name says.
_ALIKE = ("depth", "suite_options", "striped", "tuned", "oversubscribed", "network")
#: Metrics that are named where some were not measured again.
FEW_METRICS = 3
#: What names a case in the table ``cases``.
_CASE = ("partition", "stack", "name")


@dataclass(frozen=True)
class CaseHistory:
    """One case in earlier nights.

    :param tried: the last day on which it ran, or was skipped with a reason.
    :param proven: the last day on which it was proven; ``None``: never.
    :param failed: whether it ran when it was last tried, and was not proven.
    :param seconds: how long its job took, the newest last; at most :data:`RUNS`. Of proven runs, where there are any: what a
        fault made of a run, say launches that timed out, is no cost, and no night would be planned again that showed otherwise.
    :param skipped: whether it was skipped then, with a reason.
    """

    tried: date
    proven: date | None
    failed: bool
    seconds: tuple[float, ...]
    session: str
    skipped: bool = False


class Owed(NamedTuple):
    """A case that was not right when it was last to be measured.

    :param why: in a word, with the reason.
    :param proven: the last day on which it was proven; ``None``: never.
    :param session: in which it was not right.
    :param nodes: of its job there, as the scheduler calls them: it is owed until it is right on these. None where it never
        ran, so that any do.
    :param lacks: in what the last try was no repetition of that one; empty: it was one.
    """

    why: str
    day: date
    proven: date | None
    session: str = ""
    nodes: tuple[str, ...] = ()
    lacks: str = ""

    def __str__(self) -> str:
        return f"{self.why} on {self.day}" + (f" on {confirmations.named(self.nodes)}" if self.nodes else "")


class _Try(NamedTuple):
    """A case in one session.

    :param state: what it was; empty: right.
    :param on: the nodes of its job; none where it never ran.
    :param alike: level and further facts of its condition, of what failed the level alone; none where that is not stored.
    :param metrics: those with a reference that was missed; of what was right all that were looked at.
    """

    started: datetime
    session: str
    state: str
    reason: str = ""
    on: frozenset[str] = frozenset()
    alike: tuple[str, ...] = ()
    metrics: frozenset[str] = frozenset()
    judged: bool = True

    def lacks(self, owed: _Try) -> str:
        """In what this is no repetition of an earlier one; empty: in nothing. What never ran is repeated anywhere."""
        if not owed.on <= self.on:
            return f"on {confirmations.named(tuple(self.on))}"
        if owed.on and self.alike[: len(owed.alike)] != owed.alike:
            if not self.alike:
                return "under a condition that is not stored"
            facts = zip(_ALIKE, self.alike, owed.alike, strict=False)  # of what failed the level alone
            return f"with {', '.join(f'{name} {now} and not {was}' for name, now, was in facts if now != was)}"
        if owed.state == MISSED and not owed.metrics <= self.metrics:
            return f"without {', '.join(sorted(owed.metrics - self.metrics)[:FEW_METRICS])}"
        return "not held against the nights before" if owed.state == SLOWER and not self.judged else ""


@dataclass(frozen=True)
class EarlierNight:
    """One earlier session.

    :param plan: id of its plan; empty where it was measured without one.
    :param seconds: its wall time; ``None`` where that is not stored, or it was interrupted.
    :param job_seconds: of all its jobs together; ``node_seconds``: each times its nodes.
    """

    session: str
    started: datetime
    plan: str
    seconds: float | None
    job_seconds: float
    node_seconds: float
    jobs: int


@dataclass(frozen=True)
class PastNights:
    """Earlier nights of a label.

    :param nights: their days, the newest first.
    :param ran: cases that ran, by day.
    """

    nights: tuple[date, ...] = ()
    sessions: tuple[EarlierNight, ...] = ()
    cases: Mapping[ListedCase, CaseHistory] = field(default_factory=dict)
    ran: Mapping[date, frozenset[ListedCase]] = field(default_factory=dict)
    owed: Mapping[ListedCase, Owed] = field(default_factory=dict)

    def skipped(self, nights: int) -> frozenset[ListedCase]:
        """Cases that could not be measured: skipped when they were last tried, which was in one of so many last nights."""
        days = set(self.nights[:nights])
        return frozenset(case for case, one in self.cases.items() if one.skipped and one.tried in days)


def read(store: Store, system: str, label: str, before: date) -> PastNights:
    """Earlier nights as the dataset has them; none where there is no dataset yet, or nothing of that system in it."""
    if not store.sessions_of(system):
        return PastNights()
    table = store.cases(system)
    sessions = selectors.sessions_table(table)
    runs = selectors.runs_of(sessions)
    mine = sessions.filter(
        pl.col("session").is_in([one for one, run in runs.items() if run == label]), pl.col("started").dt.date() < before
    )
    days = sorted(set(mine["started"].dt.date()), reverse=True)[:MOST_NIGHTS]
    wanted = mine.filter(pl.col("started").dt.date().is_in(days))["session"].to_list()
    frame = table.filter(pl.col("session").is_in(wanted)).collect()
    proven = eligibility.split_cases(frame).proven["case"]
    rows = (
        frame.filter(~pl.col("superseded").fill_null(False), ~pl.col("case").str.ends_with(PAIRED))
        .with_columns(
            day=pl.col("started").dt.date(), proven=pl.col("case").is_in(proven.to_list()), skipped=pl.col("result") == "skip"
        )
        .filter(pl.col("result") != eligibility.INTERRUPTED, ~_beside_planned())
        .sort("started", "run")
    )
    ran = _ran(rows.filter(~pl.col("skipped")))
    return PastNights(tuple(days), _sessions(frame), _histories(rows), ran, owed(store, system, frame))


def owed(store: Store, system: str, cases: pl.DataFrame, tonight: str = "") -> dict[ListedCase, Owed]:
    """Cases that were not right in the last session that was to measure them, and so are expected until they are.

    Right is what is proven, missed no reference, or none that was missed again (:mod:`~mpibench.store.confirmations`), and was
    not slower than the nights before, or not when it was measured again (:class:`~mpibench.store.records.StoredAnswer`). What
    was skipped is not where it was proven before. Of what an interruption kept from running nothing is known. A fault of some
    nodes is none of others, and a shorter measurement does not see it: what was not right is owed until it is right on the same
    nodes, under the same condition, with all references that were missed, and held against the nights before where it was
    slower than these.

    :param cases: rows of the table ``cases`` of the sessions of one label.
    :param tonight: the session among them that is about to be held against the nights before.
    """
    own = cases.filter(~pl.col("superseded").fill_null(False), ~pl.col("case").str.ends_with(PAIRED)).drop_nulls(list(_CASE))
    rows = own.filter(pl.col("result") != eligibility.INTERRUPTED, ~_beside_planned())
    tried: dict[ListedCase, list[_Try]] = {}
    days: dict[ListedCase, date] = {}
    proven = set(eligibility.split_cases(rows).proven["case"])
    slower = {
        session: set(answer.slower) for session, said in store.answers.items() for answer in said if answer.slower is not None
    }
    columns = (*_CASE, "started", "session", "case", "result", "reason", "gates", "nodelist", "condition")
    for row in rows.sort("started", "run").select(columns).to_dicts():
        key = tuple(row[name] for name in _CASE)
        case = ListedCase(*key)
        if row["case"] in proven:
            days[case] = row["started"].date()
        one = _try(row, row["case"] in proven)
        if not one.state:
            held = slower.get(row["session"])
            state = SLOWER if key in (held or ()) else ""
            one = one._replace(state=state, judged=held is not None or row["session"] == tonight)
        tried.setdefault(case, []).append(one)
    for case, started, session in _not_run(store, own):
        tried.setdefault(case, []).append(_Try(started, session, NOT_RUN))
    left = {case: _debts(tries, case in days) for case, tries in tried.items()}
    missed: dict[str, set[ListedCase]] = {}
    for case, debts in left.items():
        for one in debts:
            if one.state == MISSED and (case.partition, case.stack, case.name) not in slower.get(one.session, ()):
                missed.setdefault(one.session, set()).add(case)
    reached = set(_reached_again(store, system, cases, missed))
    found = {}
    for case, debts in left.items():
        # One of a node is owed where others are none's: what is measured anywhere clears these.
        rest = [one for one in debts if (one.session, case) not in reached]
        first = min(rest, key=lambda one: (not one.on, one.started), default=None)
        if first:
            why = f"{first.state}: {first.reason}" if first.reason and first.state != MISSED else first.state
            last = max((one for one in tried[case] if one.state != SKIPPED), key=lambda one: one[:2], default=first)
            owe = Owed(why, first.started.date(), days.get(case), first.session, tuple(sorted(first.on)), last.lacks(first))
            found[case] = owe
    return found


def _try(row: Mapping[str, Any], proven: bool) -> _Try:
    """What became of a case."""
    gates = row["gates"] or ()
    missed = [gate["metric"] for gate in gates if gate["outcome"] not in (PASS, NO_REFERENCE)]
    state = ""
    if row["result"] == "skip":
        state = SKIPPED
    elif not proven:
        state = FAILED
    elif missed and row["result"] != "xfail":
        state = MISSED
    on, condition = confirmations.MeasuredOn.of_row(row), read_condition(row["condition"])
    return _Try(
        row["started"],
        row["session"],
        state,
        first_line(row["reason"]) if state else "",
        frozenset(() if state == SKIPPED else on.job or on.hosts),
        tuple(str(condition.get(name)) for name in (_ALIKE[:1] if state == FAILED else _ALIKE)) if "depth" in condition else (),
        frozenset(missed if state == MISSED else (gate["metric"] for gate in gates)),
    )


def _debts(tries: Sequence[_Try], was_proven: bool) -> list[_Try]:
    """What of a case is still to be right: of each set of nodes the newest time it was not.

    :param was_proven: ever: what never was and is skipped owes nothing.
    """
    debts: dict[frozenset[str], _Try] = {}
    for _, together in itertools.groupby(sorted(tries, key=lambda one: one[:2]), key=lambda one: one[:2]):
        session = list(together)
        # Beside a run, what was skipped of the same case says nothing.
        ran = [one for one in session if one.state != SKIPPED] or session
        for one in ran:
            if not one.state:
                debts = {nodes: owed for nodes, owed in debts.items() if one.lacks(owed)}
        debts.update({one.on: one for one in ran if one.state and (was_proven or one.state != SKIPPED)})
    return list(debts.values())


def _not_run(store: Store, own: pl.DataFrame) -> Iterator[tuple[ListedCase, datetime, str]]:
    """What the newest plans have and their sessions do not hold, with start and id of the session."""
    sessions = own.select("session", "started", "labels").unique("session").sort("started", "session").tail(MOST_PLANS)
    for session, started, labels in sessions.iter_rows():
        try:
            plan = record.find(store.folder, label) if (label := read_labels(labels).get(LABEL)) else None
        except BadInput:  # the gate said so of that session
            continue
        if plan:
            there = {ListedCase(*key) for key in own.filter(pl.col("session") == session).select(_CASE).iter_rows()}
            yield from ((case, started, session) for case in plan.planned - there)


def _reached_again(
    store: Store, system: str, cases: pl.DataFrame, missed: Mapping[str, Collection[ListedCase]]
) -> Iterator[tuple[str, ListedCase]]:
    """Session and name of those of some cases all of whose missed references were reached when they were measured again."""
    if not missed:
        return
    every, gone = store.cases(system, withdrawn_too=True), store.withdrawn
    for session, wanted in missed.items():
        again = confirmations.confirming(every, session, gone)
        stays = {
            ListedCase(*(one.check[name] for name in _CASE))
            for one in confirmations.missed_references(cases.filter(pl.col("session") == session), again)
            if one.outcome != confirmations.NOT_SEEN_AGAIN
        }
        yield from ((session, case) for case in set(wanted) - stays)


def _beside_planned() -> pl.Expr:
    """Cases that ReFrame had to make beside planned ones of the same test."""
    return (pl.col("result") == "skip") & (pl.col("reason").fill_null("") == NOT_PLANNED)


def _histories(rows: pl.DataFrame) -> dict[ListedCase, CaseHistory]:
    found = (
        rows.drop_nulls(list(_CASE))
        .group_by(_CASE)
        .agg(
            tried=pl.col("day").last(),
            proven=pl.col("day").filter(pl.col("proven")).last(),
            failed=~pl.col("proven").last() & ~pl.col("skipped").last(),
            proven_seconds=pl.col("seconds").filter(pl.col("proven")).drop_nulls().tail(RUNS),
            seconds=pl.col("seconds").filter(~pl.col("skipped")).drop_nulls().tail(RUNS),
            session=pl.col("session").last(),
            skipped=pl.col("skipped").last(),
        )
    )
    histories = {}
    for row in found.to_dicts():
        case = ListedCase(*(row.pop(name) for name in _CASE))
        seconds = tuple(row.pop("proven_seconds") or row["seconds"])
        histories[case] = CaseHistory(**{**row, "seconds": seconds})
    return histories


def _ran(rows: pl.DataFrame) -> dict[date, frozenset[ListedCase]]:
    known = rows.select("day", *_CASE).drop_nulls().unique().partition_by("day", as_dict=True)
    return {day: frozenset(ListedCase(*key) for key in part.select(_CASE).iter_rows()) for (day,), part in known.items()}


def _sessions(frame: pl.DataFrame) -> tuple[EarlierNight, ...]:
    """Each session, the newest first."""
    stopped = (pl.col("result") == eligibility.INTERRUPTED).any()
    sums = frame.group_by("session", "started").agg(
        pl.col("labels").first(),
        # How long it would have taken is not known of a session that was interrupted.
        wall=pl.when(~stopped).then(pl.col("session_seconds").max()),
        job_seconds=pl.col("seconds").sum(),
        node_seconds=(pl.col("seconds") * pl.col("nodes").fill_null(1)).sum(),
        jobs=pl.col("seconds").drop_nulls().len(),
    )
    return tuple(
        EarlierNight(session, started, read_labels(labels).get(LABEL, ""), *numbers)
        for session, started, labels, *numbers in sums.sort("started", "session", descending=True).iter_rows()
    )
