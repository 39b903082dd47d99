"""May the numbers of this case be used? The one place where that is decided, for every verdict.

A case is used if it measured, on a machine, under a condition it proved. A case that missed a reference is a proven
measurement and is compared like any other - dropping it would hide what a comparison is for - but nothing is learned
from it (:data:`LEARNING`).
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from .samples import PROVEN, REPLAYED

#: Keys of the stored condition or labels of the session that say, with a value other than no or nothing, that the numbers
#: were played back from a record.
_REPLAY_KEYS = r'"(?:replay|replayed|replay_of|recorded|synthetic)": *'
_NOT_SET = _REPLAY_KEYS + r'(?:""|null|false|\{\}|\[\]|"false"|"no"|0)\s*[,}]'


def _is_replay() -> pl.Expr:
    text = pl.concat_str([pl.col("condition").fill_null(""), pl.col("labels").fill_null("")])
    marked = text.str.count_matches(_REPLAY_KEYS) > text.str.count_matches(_NOT_SET)
    return marked | (pl.col("evidence") == REPLAYED).fill_null(False)


#: Why a case is not used; the first that applies, in this order. Each is a polars expression over ``dataset.cases``.
REASONS: tuple[tuple[str, pl.Expr], ...] = (
    ("was skipped", pl.col("result") == "skip"),
    ("replays a record instead of measuring", _is_replay()),
    ("was run again later in its session", pl.col("superseded").fill_null(False)),
    ("has no proof of its condition", pl.col("evidence").ne_missing(PROVEN)),
    (
        "failed",
        ~pl.col("result").is_in(["pass", "xfail", "xpass"])
        & ~((pl.col("result") == "fail") & (pl.col("fail_phase") == "performance").fill_null(False)),
    ),
    ("holds no measurement", pl.col("samples") == 0),
)
#: What keeps a usable case from becoming a reference.
LEARNING: tuple[tuple[str, pl.Expr], ...] = (("missed a reference", pl.col("result") != "pass"),)


@dataclass(frozen=True)
class Sorted:
    """Cases that may be used, and why the others may not.

    :param usable: rows of ``cases``.
    :param left_out: rows of ``cases`` with a column ``why``.
    """

    usable: pl.DataFrame
    left_out: pl.DataFrame

    def sentences(self) -> list[str]:
        """One line per reason, with the number of cases; those that were not to measure are no loss."""
        counted = self.left_out.filter(~pl.col("why").is_in([REASONS[0][0], REASONS[-1][0]]))["why"].value_counts(sort=True)
        return [f"{row['count']} cases not used: each {row['why']}" for row in counted.to_dicts()]


def sort_cases(cases: pl.DataFrame, *, for_learning: bool = False) -> Sorted:
    """Divide the cases of a selection.

    :param cases: rows of the table ``cases`` (:data:`dataset.CASES_SCHEMA`).
    :param for_learning: references are to be made from them.
    """
    why = pl.lit(None, dtype=pl.String)
    for sentence, when in reversed((*REASONS, *(LEARNING if for_learning else ()))):
        why = pl.when(when).then(pl.lit(sentence)).otherwise(why)
    marked = cases.with_columns(why=why)
    return Sorted(marked.filter(pl.col("why").is_null()).drop("why"), marked.filter(pl.col("why").is_not_null()))
