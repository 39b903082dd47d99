"""What a planned session need not hold, and what it must: what was not planned is not missing, what was planned is.

A case is excused where the plan knew it, left it out, and it was right when it was last tried (or never tried). So what failed,
missed a reference, or was skipped after it had been proven (:func:`mpibench.judge.plan.past.owed`) stays expected until it
is right again or retired, planned or not; and so does a case that no longer exists, which no plan knows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

import polars as pl

from reframe_tests.harness.printable import first_line

from ...store import eligibility
from ...store.dataset_layout import read_labels
from ...store.sessions import PAIRED
from ...store.store import Store
from ..plan import past, record
from ..plan.cases import ListedCase
from ..plan.past import Owed
from ..plan.record import PlanRecord
from .expected_file import CoverageKey, ExpectedFile

#: What names a case in the table ``cases``.
CASE = ("partition", "stack", "name")
#: Cases named in one sentence.
FEW = 3


@dataclass(frozen=True)
class SessionPlan:
    """The plan of a session, with what earlier sessions say.

    :param excused: cases that are not to be expected tonight.
    :param owed: cases that were not right before.
    :param still: what is owed with tonight's measurements, from earlier sessions.
    """

    plan: PlanRecord
    excused: frozenset[ListedCase]
    owed: Mapping[ListedCase, Owed] = field(default_factory=dict)
    still: Mapping[ListedCase, Owed] = field(default_factory=dict)

    def is_asked(self, place: CoverageKey, proofs: pl.DataFrame) -> bool:
        """Whether what is expected of whole sessions is to be expected of this one: not if only excused cases could prove it.

        :param proofs: of all sessions: ``partition``, ``stack``, ``name``, ``benchmark``, ...
        """
        fitting = [case for case in self.plan.known if place.job().covers(_job(case))]
        if place.benchmark is not None:
            wanted = CoverageKey(benchmark=place.benchmark)
            known = proofs.select(*CASE, "benchmark").unique().iter_rows()
            under = {ListedCase(*key) for *key, name in known if wanted.covers(CoverageKey(benchmark=name))}
            fitting = [case for case in fitting if case in under] or fitting
        return not fitting or any(case not in self.excused for case in fitting)

    def expected(self, proofs: pl.DataFrame, session: str) -> pl.DataFrame:
        """Proofs without those of earlier sessions that are excused."""
        excused = pl.DataFrame(
            [(case.partition, case.stack, case.name) for case in self.excused],
            schema=dict.fromkeys(CASE, pl.String),
            orient="row",
        )
        kept = proofs.filter(pl.col("session") != session).join(excused, on=CASE, how="anti", maintain_order="left")
        return pl.concat([kept, proofs.filter(pl.col("session") == session)])


def _job(case: ListedCase) -> CoverageKey:
    return CoverageKey(case.partition, case.stack, case.parameters.get("fabric") or None, case.group)


def find(store: Store, system: str, cases: pl.DataFrame, session: str) -> SessionPlan | None:
    """The plan of a session; ``None`` where it names none.

    :param cases: rows of ``cases`` of this session and of the earlier ones of its series.
    :raises BadInput: it names one that is not there, was edited, or is of another system, label or day.
    """
    tonight = cases.filter(pl.col("session") == session)
    plan = record.of_session(store.folder, read_labels(tonight["labels"][0]), system, tonight["started"][0])
    if plan is None:
        return None
    owed = past.owed(store, system, cases.filter(pl.col("session") != session))
    still = {case: one for case, one in past.owed(store, system, cases, session).items() if one.session != session}
    return SessionPlan(plan, plan.known - plan.planned - set(owed), owed, still)


def missing(
    planned: SessionPlan,
    tonight: pl.DataFrame,
    before: Iterable[ListedCase],
    file: ExpectedFile,
    run: str | None,
    *,
    wholly: bool = True,
) -> tuple[list[str], list[str]]:
    """Sentences on planned cases that are not proven, and on owed ones that were not planned, one for each job; and notes on
    those that nobody could measure yet.

    :param tonight: rows of ``cases`` of the session.
    :param before: cases that were proven before.
    :param wholly: also what was owed and no longer exists.
    """
    rows = tonight.filter(~pl.col("superseded").fill_null(False), ~pl.col("case").str.ends_with(PAIRED))
    proven = {ListedCase(*key) for key in eligibility.split_cases(rows).proven.select(CASE).drop_nulls().iter_rows()}
    found = {ListedCase(row["partition"], row["stack"], row["name"]): row for row in rows.to_dicts() if row["name"]}
    known = set(before)
    jobs: dict[CoverageKey, list[str]] = {}
    skipped = []
    for case in sorted(planned.plan.planned - proven):
        row = found.get(case)
        if row is not None and row["result"] == "skip" and case not in known:
            skipped.append(f"{case.name}: {first_line(row['reason'])}")
        elif not any(one.covers(_job(case), run, None) for one in file.retired):
            why = "did not run" if row is None else f"{row['result']}: {first_line(row['reason']) or 'without proof'}"
            jobs.setdefault(_job(case), []).append(f"{case.name} ({why})")
    lines = [f"missing: planned and not proven: {_place(job)}: {_few(names)}" for job, names in jobs.items()]
    lines += _owed(planned, proven, file, run, wholly) + _elsewhere(planned, proven, file, run)
    return lines, [f"planned and skipped, never proven here: {_few(skipped)}"] if skipped else []


def _owed(planned: SessionPlan, proven: Collection[ListedCase], file: ExpectedFile, run: str | None, wholly: bool) -> list[str]:
    """One sentence for each job of which cases were not right when they were last tried, and were not planned."""
    jobs: dict[CoverageKey, list[str]] = {}
    for case, owed in sorted(planned.owed.items()):
        there = case in planned.plan.known
        if case in planned.plan.planned or case in proven or not (there or wholly) or is_retired(file, run, case, owed.proven):
            continue
        gone = "" if there else f"; it no longer exists: bring it back, or retire it in {file.source or 'expected.yaml'}"
        jobs.setdefault(_job(case), []).append(f"{case.name} ({owed}{gone})")
    return [f"missing: not right when last tried and not planned: {_place(job)}: {_few(names)}" for job, names in jobs.items()]


def _elsewhere(planned: SessionPlan, proven: Collection[ListedCase], file: ExpectedFile, run: str | None) -> list[str]:
    """One sentence for each job of which cases were measured tonight in another way than where they were not right."""
    jobs: dict[CoverageKey, list[str]] = {}
    for case, owed in sorted(planned.still.items()):
        if case in proven and not is_retired(file, run, case, owed.proven):
            jobs.setdefault(_job(case), []).append(f"{case.name} ({owed}; tonight {owed.lacks or 'not right either'})")
    remedy = f"measure it as on that day, or retire it in {file.source or 'expected.yaml'}"
    return [
        f"missing: not measured again as it was when it was not right: {_place(job)}: {_few(names)}: {remedy}"
        for job, names in jobs.items()
    ]


def is_retired(file: ExpectedFile, run: str | None, case: ListedCase, proven: date | None) -> bool:
    """Whether a system's file retires a case.

    :param proven: the last day on which it was proven; ``None``: never.
    """
    return any(one.covers(_job(case), run, proven) for one in file.retired)


def _place(job: CoverageKey) -> str:
    return ", ".join(f"{kind} {value}" for kind, value in job._asdict().items() if value)


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return f"{', '.join(names[:FEW])}{more}"


def describe(planned: SessionPlan) -> str:
    """What was planned, as part of a sentence."""
    plan = planned.plan
    return f"plan {plan.id} of {plan.day}: {len(plan.planned)} of {len(plan.known)} cases"
