"""What earlier nights of a label did: when each case was measured, what became of it, how long it took.

Only nights before the day of the plan count, so that the plan of a day is the same whenever it is made. A night is a calendar
day (UTC) with sessions of the label.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from reframe_tests.harness.printable import first_line
from reframe_tests.harness.samples import NO_REFERENCE, PASS
from reframe_tests.harness.sites.planned_cases import NOT_PLANNED
from reframe_tests.harness.vocabulary import BadInput

from .. import withdrawals
from ..results import confirmations, eligibility, selectors, session_values
from ..results.dataset_layout import read_labels
from ..results.sessions import PAIRED
from . import record
from .cases import ListedCase
from .record import LABEL

#: Newest nights that are looked at: what is older counts as never measured.
MOST_NIGHTS = 100
#: Newest runs of a case that its cost comes from.
RUNS = 3
#: Newest planned sessions of which it is looked up what they were to measure and did not.
MOST_PLANS = 14
#: What a case was that is owed.
SKIPPED, FAILED, MISSED, NOT_RUN = "skipped", "failed", "missed a reference", "did not run"
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
    :param session: in which it was last tried.
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
    """

    why: str
    day: date
    proven: date | None


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
    :param sessions: the newest first.
    :param ran: cases that ran, by day.
    :param owed: as :func:`owed`.
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

    def since(self, day: date | None) -> int | None:
        """Nights from a day to the night that is planned: 1 for the last one; ``None`` where that night is not known."""
        return self.nights.index(day) + 1 if day in self.nights else None


def read(folder: Path, system: str, label: str, before: date) -> PastNights:
    """Earlier nights as the dataset has them; none where there is no dataset yet, or nothing of that system in it.

    :raises BadInput: a damaged dataset.
    """
    if not any((folder / "cases").glob(f"system={system}/date=*/*.parquet")):
        return PastNights()
    table = session_values.cases_of(folder, system)
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
    return PastNights(tuple(days), _sessions(frame), _histories(rows), ran, owed(folder, system, frame))


def owed(folder: Path, system: str, cases: pl.DataFrame) -> dict[ListedCase, Owed]:
    """Cases that were not right in the last session that was to measure them, and so are expected until they are.

    Right is what is proven and missed no reference, or none that was missed again (:mod:`..results.confirmations`). What was
    skipped is not where it was proven before. Of what an interruption kept from running nothing is known.

    :param cases: rows of the table ``cases`` of the sessions of one label.
    :raises BadInput: a damaged dataset.
    """
    own = cases.filter(~pl.col("superseded").fill_null(False), ~pl.col("case").str.ends_with(PAIRED)).drop_nulls(list(_CASE))
    rows = own.filter(pl.col("result") != eligibility.INTERRUPTED, ~_beside_planned())
    proven = set(eligibility.split_cases(rows).proven["case"])
    states: dict[ListedCase, list[tuple[datetime, str, str, str]]] = {}
    days: dict[ListedCase, date] = {}
    missed: dict[str, set[ListedCase]] = {}
    wrong = pl.col("gates").list.eval(~pl.element().struct.field("outcome").is_in([PASS, NO_REFERENCE])).list.any()
    columns = (*_CASE, "started", "session", "case", "result", "reason", "run")
    for row in rows.select(*columns, missed=wrong.fill_null(False)).sort("started", "run").to_dicts():
        case, day = ListedCase(*(row[name] for name in _CASE)), row["started"].date()
        state = ""
        if row["result"] == "skip":
            state = SKIPPED
        elif row["case"] not in proven:
            state = FAILED
        elif row["missed"] and row["result"] != "xfail":
            state = MISSED
        if row["case"] in proven:
            days[case] = day
        states.setdefault(case, []).append((row["started"], row["session"], state, first_line(row["reason"]) if state else ""))
    for case, started, session in _not_run(folder, own):
        states.setdefault(case, []).append((started, session, NOT_RUN, ""))
    found = {}
    for case, tried in states.items():
        started, session, *_ = max(tried)
        last = [(state, reason) for _, name, state, reason in tried if name == session]
        ran = [one for one in last if one[0] != SKIPPED] or last
        state, reason = next((one for one in ran if one[0]), ("", ""))
        if not state or (state == SKIPPED and case not in days):
            continue
        if state == MISSED:
            missed.setdefault(session, set()).add(case)
        found[case] = Owed(f"{state}: {reason}" if reason and state != MISSED else state, started.date(), days.get(case))
    for case in _reached_again(folder, system, cases, missed):
        del found[case]
    return found


def _not_run(folder: Path, own: pl.DataFrame) -> Iterator[tuple[ListedCase, datetime, str]]:
    """What the newest plans have and their sessions do not hold, with start and id of the session."""
    sessions = own.select("session", "started", "labels").unique("session").sort("started", "session").tail(MOST_PLANS)
    for session, started, labels in sessions.iter_rows():
        try:
            plan = record.find(folder, label) if (label := read_labels(labels).get(LABEL)) else None
        except BadInput:  # the gate said so of that session
            continue
        if plan:
            there = {ListedCase(*key) for key in own.filter(pl.col("session") == session).select(_CASE).iter_rows()}
            yield from ((case, started, session) for case in plan.planned - there)


def _reached_again(
    folder: Path, system: str, cases: pl.DataFrame, missed: Mapping[str, Collection[ListedCase]]
) -> Iterator[ListedCase]:
    """Those of some cases all of whose missed references were reached when they were measured again.

    :param missed: by session.
    """
    if not missed:
        return
    every, gone = session_values.cases_of(folder, system, withdrawn_too=True), withdrawals.find(folder)
    for session, wanted in missed.items():
        again = confirmations.confirming(every, session, gone)
        stays = {
            ListedCase(*(one.check[name] for name in _CASE))
            for one in confirmations.missed_references(cases.filter(pl.col("session") == session), again)
            if one.outcome != confirmations.NOT_SEEN_AGAIN
        }
        yield from set(wanted) - stays


def _beside_planned() -> pl.Expr:
    """Cases that ReFrame had to make beside planned ones of the same test."""
    return (pl.col("result") == "skip") & (pl.col("reason").fill_null("") == NOT_PLANNED)


def _histories(rows: pl.DataFrame) -> dict[ListedCase, CaseHistory]:
    found = rows.group_by("partition", "stack", "name").agg(
        tried=pl.col("day").last(),
        proven_day=pl.col("day").filter(pl.col("proven")).last(),
        failed=~pl.col("proven").last() & ~pl.col("skipped").last(),
        proven_seconds=pl.col("seconds").filter(pl.col("proven")).drop_nulls().tail(RUNS),
        seconds=pl.col("seconds").filter(~pl.col("skipped")).drop_nulls().tail(RUNS),
        session=pl.col("session").last(),
        skipped=pl.col("skipped").last(),
    )
    return {
        ListedCase(row["partition"], row["stack"], row["name"]): CaseHistory(
            row["tried"],
            row["proven_day"],
            row["failed"],
            tuple(row["proven_seconds"] or row["seconds"]),
            row["session"],
            row["skipped"],
        )
        for row in found.to_dicts()
        if row["partition"] and row["stack"] and row["name"]
    }


def _ran(rows: pl.DataFrame) -> dict[date, frozenset[ListedCase]]:
    found: dict[date, set[ListedCase]] = {}
    for day, *key in rows.select("day", "partition", "stack", "name").drop_nulls().unique().iter_rows():
        found.setdefault(day, set()).add(ListedCase(*key))
    return {day: frozenset(cases) for day, cases in found.items()}


def _sessions(frame: pl.DataFrame) -> tuple[EarlierNight, ...]:
    """Each session, the newest first."""
    stopped = (pl.col("result") == eligibility.INTERRUPTED).any()
    sums = frame.group_by("session", "started").agg(
        pl.col("labels").first(),
        # How long it would have taken is not known of a session that was interrupted.
        pl.when(~stopped).then(pl.col("session_seconds").max()),
        job_seconds=pl.col("seconds").sum(),
        node_seconds=(pl.col("seconds") * pl.col("nodes").fill_null(1)).sum(),
        jobs=pl.col("seconds").drop_nulls().len(),
    )
    rows: list[dict[str, Any]] = sums.sort("started", "session", descending=True).to_dicts()
    return tuple(
        EarlierNight(
            row["session"],
            row["started"],
            read_labels(row["labels"]).get(LABEL, ""),
            row["session_seconds"],
            row["job_seconds"],
            row["node_seconds"],
            row["jobs"],
        )
        for row in rows
    )
