"""Nights drawn from recorded noise, and what the nightly watch says of them.

Whole jobs are drawn without replacement, each for a night: all curves with the disturbances they share. At random
nothing lasts, so that whatever :func:`mpibench.watch.drift.change_points` reports is a false alarm: it makes the gate fail. (Of
older changes the gate forgets those that are over; here all count.)
"""

from __future__ import annotations

import numpy as np
import polars as pl

from ..results.session_values import METRIC
from ..statistics.two_sides import Array
from ..verdicts.policy import Policy
from ..watch import drift
from ..watch.gate import REMEMBERED_NIGHTS
from .draws import draw, job_medians
from .noise import Trace
from .shares import Shares


def nights_called(trace: Trace, policy: Policy, draws: int, seed: int, *, in_order: bool = False) -> Shares | None:
    """Share of nights at which the gate reports a change for the worse where nothing has changed.

    :param in_order: nights one after the other as recorded; else at random.
    :returns: ``None`` where there are too few jobs for any change to be found.
    """
    if trace.jobs < drift.FEWEST_NIGHTS:
        return None
    rng = np.random.default_rng(seed)
    logs = job_medians(trace)
    called = Shares()
    # No more than these are looked at.
    count = min(trace.jobs, REMEMBERED_NIGHTS + policy.drift_window_nights)
    for _ in range(draws):
        chosen = draw(rng, trace.jobs, count, in_order)
        points = change_points(trace, logs[:, chosen], policy, REMEMBERED_NIGHTS)
        called.values.append(float((points["slower"] > 0).any()))
    return called


def change_points(trace: Trace, logs: Array, policy: Policy, recent: int | None = None) -> pl.DataFrame:
    """What the watch finds in nights of a trace's metrics, as :func:`mpibench.watch.drift.change_points`.

    :param logs: slowness in log, shape (metrics, nights).
    """
    rows = [
        (str(one.stratum), one.benchmark, one.quantity, size, one.direction) for one in trace.curves for size in one.sizes
    ]
    named = pl.DataFrame(rows, schema=["stack", "benchmark", "quantity", "message_bytes", "direction"], orient="row")
    absent = [pl.lit("").alias(name) for name in METRIC if name not in named.columns]
    nights = pl.DataFrame({"session": [""] * logs.shape[1]})
    return drift.change_points(drift.History("noise", nights, named.with_columns(absent), logs, ()), policy, recent)
