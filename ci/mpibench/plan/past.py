"""What earlier nights of a label did: when each case was measured, what became of it, how long it took.

Only nights before the day of the plan count, so that the plan of a day is the same whenever it is made. A night is a calendar
day (UTC) with sessions of the label.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

import polars as pl

from reframe_tests.harness.sites.planned_cases import NOT_PLANNED

from ..results import eligibility, selectors, session_values
from ..results.dataset_layout import read_labels
from ..results.sessions import PAIRED
from .cases import ListedCase
from .record import LABEL

#: Newest nights that are looked at: what is older counts as never measured.
MOST_NIGHTS = 100
#: Newest runs of a case that its cost comes from.
RUNS = 3


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
    """

    nights: tuple[date, ...] = ()
    sessions: tuple[EarlierNight, ...] = ()
    cases: Mapping[ListedCase, CaseHistory] = field(default_factory=dict)
    ran: Mapping[date, frozenset[ListedCase]] = field(default_factory=dict)

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
    return PastNights(tuple(days), _sessions(frame), _histories(rows), _ran(rows.filter(~pl.col("skipped"))))


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
