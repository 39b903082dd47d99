"""Years of nights drawn from recorded noise, and what the nightly watch says of them when it is asked every night.

Whole jobs are drawn, each for a night: all curves with the disturbances they share. At random nothing lasts, so that whatever
:func:`mpibench.judge.drift.change_points` reports is a false alarm: it makes the gate fail.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from mpibench.judge import drift
from mpibench.judge.gate import REMEMBERED_NIGHTS
from mpibench.judge.policy import Policy
from mpibench.judge.statistics.two_sides import Array
from mpibench.store.session_values import METRIC

from .draws import draw, job_medians
from .noise import Trace
from .shares import Shares

#: Nights of a year, and draws that pay for one.
YEAR, DRAWS_A_YEAR = 365, 40


class Years(NamedTuple):
    """Of each year, the share of nights with a change for the worse that is none, and whether there was such a night."""

    nights: Shares
    years: Shares


def nights_called(trace: Trace, policy: Policy, draws: int, seed: int, *, in_order: bool = False) -> Years | None:
    """How often the gate reports a change for the worse where nothing has changed, asked each night of some years.

    A job may be drawn for several nights.

    :param draws: a year for each :data:`DRAWS_A_YEAR` of them.
    :param in_order: nights one after the other as recorded, no more than there are; else at random.
    :returns: ``None`` where there are too few jobs for any change to be found.
    """
    if trace.jobs < drift.FEWEST_NIGHTS:
        return None
    rng = np.random.default_rng(seed)
    logs = job_medians(trace)
    found = Years(Shares(1 / YEAR), Shares())
    for _ in range(-(-draws // DRAWS_A_YEAR)):
        chosen = (
            draw(rng, trace.jobs, min(trace.jobs, YEAR), in_order=True) if in_order else rng.integers(trace.jobs, size=YEAR)
        )
        red = [_is_red(trace, logs[:, chosen[:night]], policy) for night in range(drift.FEWEST_NIGHTS, len(chosen) + 1)]
        found.nights.values.append(float(np.mean(red)))
        found.years.values.append(float(any(red)))
    return found


def _is_red(trace: Trace, logs: Array, policy: Policy) -> bool:
    """Whether the gate fails on the last of these nights."""
    # No more than these are looked at.
    looked_at = logs[:, -REMEMBERED_NIGHTS - policy.drift_window_nights :]
    return bool((change_points(trace, looked_at, policy, REMEMBERED_NIGHTS)["slower"] > 0).any())


def change_points(trace: Trace, logs: Array, policy: Policy, recent: int | None = None) -> pl.DataFrame:
    """What the watch finds in nights of a trace's metrics, as :func:`mpibench.judge.drift.change_points`.

    :param logs: slowness in log, shape (metrics, nights).
    """
    rows = [(str(one.stratum), one.benchmark, one.quantity, size, one.direction) for one in trace.curves for size in one.sizes]
    named = pl.DataFrame(rows, schema=["stack", "benchmark", "quantity", "message_bytes", "direction"], orient="row")
    absent = [pl.lit("").alias(name) for name in METRIC if name not in named.columns]
    # Other orders in each night, as of sessions with ids of their own.
    nights = pl.DataFrame({"session": [f"{logs[:, -1].tobytes()!r}" if logs.size else ""] * logs.shape[1]})
    return drift.change_points(drift.History("noise", nights, named.with_columns(absent), logs, ()), policy, recent)
