"""Which cases are eligible: the one place where that is decided, for every verdict, the report and the gate.

A case is eligible if it measured, on a machine, under a condition it proved. A case that missed a reference is a proven
measurement and is compared like any other - dropping it would hide what a comparison is for - but nothing is learned
from it (:data:`LEARNING`). A case that proved its condition and times nothing (placement) is proven and holds no
measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from reframe_tests.harness.samples import PROVEN

from .sessions import Case, Session

#: ReFrame's result of a case that was running, or still to run, when its session ended early.
INTERRUPTED = "abort"
#: What ended it: exceptions that ReFrame 4.10 (``frontend/executors/__init__.py``, ``ABORT_REASONS``) names in the reason of
#: such a case (``core/exceptions.py``, ``what``), each with what brings it about.
CAUSES = {
    "KeyboardInterrupt": "SIGINT",
    "ForceExitError": "SIGTERM or SIGHUP",
    "FailureLimitError": "--maxfail",
    "RunSessionTimeout": "--duration",
}


def cause_of(reason: str | None) -> str:
    """What interrupted the session, from the reason ReFrame stored for a case."""
    name = (reason or "").strip().rpartition("aborted due to ")[2].partition("\n")[0]
    return CAUSES.get(name, name or "no reason was stored")


def interruption(reasons: Iterable[str | None], planned: int) -> str:
    """How many cases an interruption kept from running, and what it was; empty without any.

    :param reasons: of each such case, as ReFrame stored it.
    :param planned: cases that were to run, these among them.
    """
    causes = [cause_of(reason) for reason in reasons]
    named = ", ".join(dict.fromkeys(causes))
    return f"interrupted: {len(causes)} of {planned} case{'' if planned == 1 else 's'} did not run ({named})" if causes else ""


class Facts(NamedTuple):
    """What the decision rests on.

    :param measured: it holds at least one metric.
    """

    result: str
    fail_phase: str
    evidence: str
    superseded: bool
    measured: bool

    @property
    def missed_reference(self) -> bool:
        """It failed for nothing but a reference."""
        return self.result == "fail" and self.fail_phase == "performance"


#: The facts as expressions over the table ``cases``.
FACTS = {
    "result": pl.col("result").fill_null(""),
    "fail_phase": pl.col("fail_phase").fill_null(""),
    "evidence": pl.col("evidence").fill_null(""),
    "superseded": pl.col("superseded").fill_null(False),
    "measured": (pl.col("samples") > 0).fill_null(False),
}

#: Columns of ``cases`` that decide.
FACT_COLUMNS = ("result", "fail_phase", "evidence", "superseded", "samples")


def facts_of(session: Session, case: Case) -> Facts:
    """The facts of a case of a session that is not in the dataset."""
    return Facts(
        result=case.result,
        fail_phase=case.fail_phase,
        evidence=case.evidence,
        superseded=case.uuid in session.superseded,
        measured=bool(case.samples),
    )


NO_MEASUREMENT = "holds no measurement"
NO_PROOF = "has no proof of its condition"
FAILED = "failed"
#: Why a case is not eligible; the first that applies, in this order.
REASONS: tuple[tuple[str, Callable[[Facts], bool]], ...] = (
    ("was skipped", lambda facts: facts.result == "skip"),
    ("was run again later in its session", lambda facts: facts.superseded),
    (NO_PROOF, lambda facts: facts.evidence != PROVEN),
    (FAILED, lambda facts: facts.result not in ("pass", "xfail", "xpass") and not facts.missed_reference),
    (NO_MEASUREMENT, lambda facts: not facts.measured),
)
#: What keeps an eligible case from becoming a reference.
LEARNING: tuple[tuple[str, Callable[[Facts], bool]], ...] = (("missed a reference", lambda facts: facts.result != "pass"),)


def why_not(facts: Facts, *, for_learning: bool = False) -> str | None:
    """Why a case is not eligible; ``None`` if it is."""
    reasons = (*REASONS, *(LEARNING if for_learning else ()))
    return next((sentence for sentence, applies in reasons if applies(facts)), None)


def is_proven(facts: Facts) -> bool:
    """Whether a case ran and proved its condition, also if it times nothing."""
    return why_not(facts) in (None, NO_MEASUREMENT)


@dataclass(frozen=True)
class SplitCases:
    """Eligible cases, and why the others are not.

    :param eligible: rows of ``cases``.
    :param left_out: rows of ``cases`` with a column ``why``.
    """

    eligible: pl.DataFrame
    left_out: pl.DataFrame

    @property
    def proven(self) -> pl.DataFrame:
        """Rows of ``cases`` that proved their condition: the eligible ones, and those that time nothing."""
        return pl.concat([self.eligible, self.left_out.filter(pl.col("why") == NO_MEASUREMENT).drop("why")])

    def sentences(self) -> list[str]:
        """One line per reason, with the number of cases; those that were not to measure are no loss."""
        counted = self.left_out.filter(~pl.col("why").is_in([REASONS[0][0], NO_MEASUREMENT]))["why"].value_counts(sort=True)
        return [f"{row['count']} cases not used: each {row['why']}" for row in counted.to_dicts()]


def split_cases(cases: pl.DataFrame, *, for_learning: bool = False) -> SplitCases:
    """Split the cases of a selection by eligibility.

    :param cases: rows of the table ``cases`` (:data:`dataset_layout.CASES_SCHEMA`).
    :param for_learning: references are to be made from them.
    """
    facts = cases.select(**FACTS)
    # One look per distinct combination: a year of cases has few.
    distinct = facts.unique()
    whys = [why_not(Facts(*row), for_learning=for_learning) for row in distinct.select(Facts._fields).iter_rows()]
    judged = facts.join(
        distinct.with_columns(why=pl.Series(whys, dtype=pl.String)), on=list(Facts._fields), how="left", maintain_order="left"
    )
    marked = cases.with_columns(judged["why"])
    return SplitCases(marked.filter(pl.col("why").is_null()).drop("why"), marked.filter(pl.col("why").is_not_null()))


def owed_proof(cases: pl.DataFrame) -> pl.DataFrame:
    """Cases that were to run and prove something: neither skipped nor run again later, and no fixture or foreign test."""
    known = pl.col("measurement").fill_null(pl.col("group").is_not_null())
    return cases.filter(pl.col("result") != "skip", ~pl.col("superseded").fill_null(False), known)
