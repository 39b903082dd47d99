"""Nights drawn from recorded noise, and what the nightly watch says of them.

Whole jobs are drawn without replacement, each for a night: all curves with the disturbances they share. In their new order
nothing lasts, so that whatever :func:`mpibench.verdicts.drift.change_points` reports is a false alarm: it makes the gate fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ..statistics.two_sides import Array
from ..verdicts import drift
from ..verdicts.policy import Policy
from .draws import ALL, ONE_SIZE, job_medians
from .noise import Trace
from .shares import Shares

#: Nights, up to the last, whose changes the gate counts by default.
RECENT_NIGHTS = 14


def nights_called(trace: Trace, policy: Policy, draws: int, seed: int) -> Shares | None:
    """Share of nights at which the gate reports a change for the worse where nothing has changed.

    :returns: ``None`` where there are too few jobs for any change to be found.
    """
    if trace.jobs < drift.FEWEST_NIGHTS:
        return None
    rng = np.random.default_rng(seed)
    logs, metrics = job_medians(trace), _metrics(trace)
    called = Shares()
    # No more than these are looked at.
    count = min(trace.jobs, RECENT_NIGHTS + policy.drift_window_nights)
    for _ in range(draws):
        points = _change_points(metrics, logs[:, rng.permutation(trace.jobs)[:count]], policy, RECENT_NIGHTS)
        called.values.append(float((points["slower"] > 0).any()))
    return called


@dataclass(frozen=True)
class Detection:
    """After how many slow nights a slowdown is reported.

    :param waited: of each draw; infinite where it was not within the nights there were.
    :param quiet: share of the metrics that were called before.
    """

    waited: dict[tuple[str, float], list[float]]
    quiet: Shares


def nights_until_found(
    trace: Trace,
    policy: Policy,
    draws: int,
    seed: int,
    *,
    quiet: int,
    slow: int,
    slowdowns_percent: Sequence[float],
) -> Detection:
    """Slow the last nights of a series down, one more at a time, until the watch reports it.

    :param quiet: nights before; ``slow``: nights after, at most.
    """
    rng = np.random.default_rng(seed)
    logs, metrics = job_medians(trace), _metrics(trace)
    rates = Detection({(name, percent): [] for name in (ALL, ONE_SIZE) for percent in slowdowns_percent}, Shares(1 / len(logs)))
    for _ in range(draws):
        drawn = logs[:, rng.permutation(trace.jobs)[: quiet + slow]]
        rates.quiet.values.append(_change_points(metrics, drawn, policy)["row"].n_unique() / len(logs))
        one = np.arange(len(logs)) == rng.integers(len(logs))
        for (name, percent), waited in rates.waited.items():
            hit = np.ones(len(logs), dtype=bool) if name == ALL else one
            slower = drawn + np.log1p(percent / 100) * hit[:, None] * (np.arange(quiet + slow) >= quiet)
            waited.append(_waited(metrics, slower, hit, policy, quiet))
    return rates


def _waited(metrics: pl.DataFrame, logs: Array, hit: np.ndarray, policy: Policy, quiet: int) -> float:
    for count in range(drift.FEWEST_CHANGED, logs.shape[1] - quiet + 1):
        points = _change_points(metrics, logs[:, : quiet + count], policy, count + 2)
        if hit[points["row"].to_numpy()].any():
            return count
    return float("inf")


def _metrics(trace: Trace) -> pl.DataFrame:
    rows = [(one.quantity, size) for one in trace.curves for size in one.sizes]
    return pl.DataFrame(rows, schema={"quantity": pl.String, "message_bytes": pl.Int64}, orient="row")


def _change_points(metrics: pl.DataFrame, logs: Array, policy: Policy, recent: int | None = None) -> pl.DataFrame:
    nights = pl.DataFrame({"session": [""] * logs.shape[1]})
    return drift.change_points(drift.History("noise", nights, metrics, logs, ()), policy, recent)
