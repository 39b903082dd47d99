"""Verdicts where a bandwidth or rate is zero: there is no ratio, and nothing is worse.

Benchmarks print two decimals, so that a zero is less than 0.005 MB/s. On the candidate's side it is a regression; on the
baseline's side it is no ground to compare with, since anything would be better.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ...store.session_values import METRIC
from .policy import Policy
from .words import INCONCLUSIVE, REGRESSED


def judge(metrics: pl.DataFrame, measured: Sequence[pl.DataFrame], policy: Policy) -> pl.DataFrame:
    """Verdicts of those metrics of which a value is zero.

    :param metrics: columns :data:`METRIC`.
    :param measured: values of baseline and candidate, zeros among them.
    :returns: columns :data:`METRIC`, ``band``, ``verdict``, ``why``; no row where there is no zero.
    """
    counted = metrics
    for side, values in zip(("baseline", "candidate"), measured, strict=True):
        counts = values.group_by(METRIC).agg((pl.col("value") == 0).sum().alias(f"{side}_zeros"), pl.len().alias(f"{side}_all"))
        counted = counted.join(counts, on=METRIC, how="left", nulls_equal=True)
    on_baseline = pl.col("baseline_zeros") > 0
    found = counted.filter(on_baseline | (pl.col("candidate_zeros") > 0)).sort(METRIC)
    bands = pl.Series([policy.band(size) for size in found["message_bytes"]], dtype=pl.String)
    on_candidate = pl.format("{} of {} values of the candidate are zero", "candidate_zeros", "candidate_all")
    no_ground = "{} of {} values of the baseline are zero: no ground to compare with, measure it again"
    return found.select(
        *METRIC,
        band=bands,
        verdict=pl.when(on_baseline).then(pl.lit(INCONCLUSIVE)).otherwise(pl.lit(REGRESSED)),
        why=pl.when(on_baseline).then(pl.format(no_ground, "baseline_zeros", "baseline_all")).otherwise(on_candidate),
    )
