"""Which test cases measured what was called slower, and which of them a budget of time has room for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from ...judge.nights import NightJudgement
from ...store import confirmations
from ...store.confirmations import NOT_SEEN_AGAIN, MeasuredOn, MissedReference
from ...store.session_values import CURVE, METRIC, Selection
from ...store.sessions import PAIRED, Case, Session
from ...store.store import Store


@dataclass(frozen=True)
class CalledCase:
    """One test case in ReFrame's sense, on one partition with one environment, that measured something called slower.

    :param session: that measured it.
    :param stack: ReFrame's environment.
    :param name: ReFrame's display name.
    :param slower: the largest change for the worse that was called, as a fraction; infinite where it has no ratio.
    :param on: the nodes that measured it: on others it is another case.
    """

    session: str
    system: str
    partition: str
    stack: str
    name: str
    slower: float = field(compare=False)
    on: MeasuredOn = field(default_factory=MeasuredOn)

    def __str__(self) -> str:
        return f"{self.name} @{self.system}:{self.partition}+{self.stack}"

    def as_dict(self) -> dict[str, Any]:
        """For the record."""
        own = {name: value for name, value in vars(self).items() if name != "on"}
        return {**own, "nodes": [*(self.on.job or self.on.hosts)]}

    @property
    def place(self) -> tuple[str, str, str]:
        """As :func:`place_of` of each of its runs."""
        return self.partition, self.stack, self.name


def of_metrics(candidate: Selection, called: pl.DataFrame) -> tuple[list[CalledCase], pl.DataFrame]:
    """The cases that measured some metrics; where several did on the same nodes, the newest.

    What an interleaved second stack measured belongs to the case whose job it ran in.

    :param called: :data:`METRIC` and ``slower``.
    :returns: the cases; and :data:`METRIC` of each of ``called`` with ``number``, a case's place in them.
    """
    nodes = [MeasuredOn.of_row(row) for row in candidate.planned.select("nodelist", "condition").iter_rows(named=True)]
    distinct = list(dict.fromkeys(nodes))
    places = {one: place for place, one in enumerate(distinct)}
    on = pl.Series("on", [places[one] for one in nodes], dtype=pl.Int64)
    cases = candidate.planned.select("case", "partition", "stack", "name").with_columns(on)
    rows = (
        candidate.measured.select(*METRIC, "session", "case", "started")
        .unique()
        .join(called.select(*METRIC, pl.col("slower").cast(pl.Float64)), on=METRIC, how="inner", nulls_equal=True)
        .with_columns(pl.col("case").str.strip_suffix(PAIRED), pl.col("slower").fill_null(math.inf))
        .join(cases.select("case", "on", at="partition", environ="stack", test="name"), on="case", how="inner")
        .sort("started", "session", "case")
        .unique([*METRIC, "on"], keep="last", maintain_order=True)
    )
    key = ["at", "environ", "test", "on"]
    worst = rows.group_by(key).agg(pl.col("slower").max(), pl.col("session").last()).sort("slower", *key, descending=True)
    found = [
        CalledCase(row["session"], candidate.system, row["at"], row["environ"], row["test"], row["slower"], distinct[row["on"]])
        for row in worst.to_dicts()
    ]
    numbered = rows.join(worst.with_row_index("number").select(*key, "number"), on=key)
    return found, numbered.select(*METRIC, "number")


def of_night(judged: NightJudgement) -> list[CalledCase]:
    """The cases of a night that measured what is slower than in the nights before it, the worst first.

    Not those whose curves were not slower when they were measured again.
    """
    held = [part for outcome, part in judged.outcomes().items() if outcome != NOT_SEEN_AGAIN]
    curves = pl.concat(
        [judged.called().select(CURVE).clear(), *(table.select(CURVE) for one in held for table in (one.metrics, one.bands))]
    )
    return of_metrics(judged.tonight, judged.called().join(curves.unique(), on=CURVE, how="semi", nulls_equal=True))[0]


def of_checks(system: str, missed: Iterable[MissedReference]) -> list[CalledCase]:
    """The case of each missed reference."""
    found = []
    for check in (one.check for one in missed):
        worst = confirmations.distance(check["value"], check["lower"], check["upper"])
        place = (check["session"], system, check["partition"], check["stack"], check["name"])
        found.append(CalledCase(*place, worst, MeasuredOn.of_row(check)))
    return found


def worst_first(cases: Iterable[CalledCase]) -> list[CalledCase]:
    """The same, each case once."""
    return list(dict.fromkeys(sorted(cases, key=lambda one: (-one.slower, str(one)))))


def of_references(store: Store, session: str) -> list[CalledCase]:
    """The proven cases of a session that missed a reference, the worst first.

    :raises BadInput: the dataset cannot be read.
    """
    found: list[CalledCase] = []
    for system in store.session_systems.get(session, ()):
        cases = store.scan("cases", system, [session]).collect()
        found += of_checks(system, confirmations.missed_references(cases, cases.clear()))
    return worst_first(found)


def place_of(case: Case) -> tuple[str, str, str]:
    """Partition, ReFrame's environment and display name, which all runs of a case in a session share."""
    return case.partition, str(case.entry.get("environ") or case.stack), case.name


def is_own(case: Case) -> bool:
    """Whether it is a case of ReFrame's, and not what a second stack measured in the same job."""
    return not case.uuid.endswith(PAIRED)


def seconds(session: Session) -> dict[tuple[str, str, str], float]:
    """How long the job of each case of a session took, from submission to its end, by partition, environment and name.

    ReFrame 4.10 stores it as ``time_run`` (``frontend/reporting/__init__.py``, ``update_run_stats``).
    """
    times: dict[tuple[str, str, str], Any] = {
        place_of(case): case.entry.get("time_run") for case in session.cases if is_own(case)
    }
    return {key: float(time) for key, time in times.items() if isinstance(time, (int, float)) and math.isfinite(time)}


def fit(
    cases: Iterable[CalledCase], took_s: Sequence[float | None], limit_s: float
) -> tuple[list[CalledCase], list[CalledCase]]:
    """The cases that fit into a time, the worst first, and those that do not.

    The jobs are taken to run one after the other and as long as they did. One whose time is not known counts as the longest
    of the others.

    :param took_s: of each case.
    """
    longest = max((one for one in took_s if one is not None), default=0.0)
    chosen, left, used = [], [], 0.0
    for case, known in sorted(zip(cases, took_s, strict=True), key=lambda pair: -pair[0].slower):
        needs = longest if known is None else known
        if used + needs > limit_s:
            left.append(case)
        else:
            chosen.append(case)
            used += needs
    return chosen, left
