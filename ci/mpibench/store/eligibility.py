"""Which cases are eligible, and the outcome of each: decided here once for every verdict, page and
report.

A case is eligible if it measured, on a machine, under a condition that it proved. A case that
missed a reference is a proven measurement and is compared like any other (dropping it would hide
what a comparison is for), but nothing is learned from it (:data:`LEARNING`). A case that proved its
condition and times nothing (placement) is proven but has no measurement.

All rules are expressions over the columns of the table ``cases``, in the dataset or for a session
outside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from reframe_tests.harness.printable import plural
from reframe_tests.harness.samples import DRY_RUN, FAIL, PASS, PROVEN

#: ReFrame's result of a case that was running, or still to run, when its session ended early.
INTERRUPTED = "abort"
#: What ended it: exceptions that ReFrame 4.10 (``frontend/executors/__init__.py``,
#: ``ABORT_REASONS``) names in the reason of such a case (``core/exceptions.py``, ``what``), each
#: with what brings it about.
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
    return (
        f"interrupted: {len(causes)} of {planned} case{'' if planned == 1 else 's'} did not run "
        f"({named})"
        if causes
        else ""
    )


#: Columns of ``cases`` that decide whether one is eligible.
FACT_COLUMNS = ("result", "fail_phase", "evidence", "superseded", "samples")
_RESULT, _PHASE, _EVIDENCE = (
    pl.col(name).fill_null("") for name in ("result", "fail_phase", "evidence")
)
_SUPERSEDED = pl.col("superseded").fill_null(False)
_MEASURED = (pl.col("samples") > 0).fill_null(False)
#: It owes a proof: no fixture, and no foreign test.
_OWES = pl.col("measurement").fill_null(pl.col("group").is_not_null())

NO_MEASUREMENT = "holds no measurement"
NO_PROOF = "has no proven condition"
SKIPPED = "was skipped"
FAILED = "failed"
#: Why a case is not eligible; the first that applies, in this order.
REASONS: dict[str, pl.Expr] = {
    SKIPPED: _RESULT == "skip",
    "ran again later in its session": _SUPERSEDED,
    NO_PROOF: _EVIDENCE != PROVEN,
    FAILED: ~_RESULT.is_in(["pass", "xfail", "xpass"])
    & ~((_RESULT == "fail") & (_PHASE == "performance")),
    NO_MEASUREMENT: ~_MEASURED,
}
#: What keeps an eligible case from becoming a reference.
LEARNING = {"missed a reference": _RESULT != "pass"}


def _first(conditions: dict[str, pl.Expr]) -> pl.Expr:
    """The word of the first condition that holds; null where none does."""
    return pl.coalesce(
        *(pl.when(condition).then(pl.lit(word)) for word, condition in conditions.items()),
        pl.lit(None, pl.String),
    )


#: Why a case is not eligible; null if it is.
WHY_NOT = _first(REASONS)
#: It ran and proved its condition, also if it times nothing.
_PROVES = WHY_NOT.is_null() | (WHY_NOT == NO_MEASUREMENT)


def checks(outcome: str) -> pl.Expr:
    return (
        pl.col("gates")
        .list.eval(pl.element().struct.field("outcome") == outcome)
        .list.sum()
        .fill_null(0)
    )


#: The outcome of a case, for a reader (:data:`mpibench.pages.outcomes.OUTCOMES`).
OUTCOME = pl.coalesce(
    _first(
        {
            "retried": _SUPERSEDED,
            "interrupted": _RESULT == INTERRUPTED,
            "skipped": _RESULT == "skip",
            "known": _RESULT == "xfail",
            "dry": (_EVIDENCE == DRY_RUN) & (_RESULT == "pass"),
            "failed": (_RESULT != "pass") | (_OWES & ~_PROVES) | (checks(FAIL) > 0),
            "passed": checks(PASS) > 0,
            "recorded": _MEASURED,
        }
    ),
    pl.lit("proven"),
)


@dataclass(frozen=True)
class SplitCases:
    """Eligible cases, and why the others are not.

    :param left_out: rows of ``cases`` with a column ``why``.
    """

    eligible: pl.DataFrame
    left_out: pl.DataFrame

    @property
    def proven(self) -> pl.DataFrame:
        """Rows of ``cases`` that proved their condition: the eligible
        ones, and those that time nothing.
        """
        return pl.concat(
            [self.eligible, self.left_out.filter(pl.col("why") == NO_MEASUREMENT).drop("why")]
        )

    def sentences(self) -> list[str]:
        """One line per reason, with the number of cases; those that
        were not to measure are no loss.
        """
        counted = self.left_out.filter(~pl.col("why").is_in([SKIPPED, NO_MEASUREMENT]))[
            "why"
        ].value_counts(sort=True)
        return [
            f"{plural(row['count'], 'case')} not used: {row['why']}" for row in counted.to_dicts()
        ]


def split_cases(cases: pl.DataFrame, *, for_learning: bool = False) -> SplitCases:
    """Split the cases of a selection by eligibility.

    :param for_learning: references are to be made from them.
    """
    marked = cases.with_columns(why=_first(REASONS | LEARNING) if for_learning else WHY_NOT)
    return SplitCases(
        marked.filter(pl.col("why").is_null()).drop("why"),
        marked.filter(pl.col("why").is_not_null()),
    )


def owed_proof(cases: pl.DataFrame) -> pl.DataFrame:
    """Cases that were to run and prove something: neither skipped nor run
    again later, and no fixture or foreign test.
    """
    return cases.filter(pl.col("result") != "skip", ~_SUPERSEDED, _OWES)
