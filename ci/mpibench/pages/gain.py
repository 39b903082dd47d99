"""How many times faster one condition is than another, over all that both measured, and whether that is more than noise.

Each benchmark, quantity and message size that both have counts alike: the mean of the differences of logarithms. A unit is one
repeat of one job: how much it lies above or below the others over all sizes of a benchmark says how much repeats differ, so
that noise of single sizes averages out and what disturbs a whole repeat does not. Benchmarks are taken to err together. With
few jobs a side the policy's spread between jobs is added (:mod:`mpibench.judge.policy`), at least
``between_jobs_times_repeats`` times what repeats differ by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
import scipy

from ..judge.policy import Policy
from ..judge.statistics import two_sides
from ..judge.statistics.two_sides import Array
from ..store.session_values import METRIC, slowness

FASTER, SLOWER, SAME = "faster", "slower", "not distinguishable"


@dataclass(frozen=True)
class Gain:
    """One condition against another.

    :param against: the other, in words.
    :param times: how many times faster, ``low`` to ``high`` its interval; ``nan`` without one.
    :param metrics: benchmarks and sizes both have.
    :param bands: the same by size of messages.
    """

    against: str
    times: float
    low: float
    high: float
    metrics: int
    bands: Mapping[str, Gain] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        return FASTER if self.low > 1 else SLOWER if self.high < 1 else SAME

    def as_data(self) -> dict[str, Any]:
        known = math.isfinite(self.low)
        return {
            "against": self.against,
            "times": self.times,
            "low": self.low if known else None,
            "high": self.high if known else None,
            "metrics": self.metrics,
            "bands": {name: {"times": band.times, "outcome": band.outcome} for name, band in self.bands.items()},
        }

    @property
    def better(self) -> bool:
        """Faster by more than noise, and at no size of messages slower."""
        return self.outcome == FASTER and all(one.outcome != SLOWER for one in self.bands.values())

    @property
    def text(self) -> str:
        interval = f" ({self.low:.2f} to {self.high:.2f})" if math.isfinite(self.low) else " (too few repeats for an interval)"
        slower = [name for name, one in self.bands.items() if one.outcome == SLOWER]
        mixed = f", but slower for {' and '.join(slower)} messages" if slower and self.outcome == FASTER else ""
        said = f"{self.times:.2f} times as fast as {self.against}{interval}"
        return f"{said}{mixed}" if self.outcome != SAME else f"{said}: not more than noise"


def measure(first: pl.DataFrame, second: pl.DataFrame, subjects: Sequence[str], against: str, policy: Policy) -> Gain | None:
    """How many times faster ``first`` is than ``second``; ``None``: they have nothing in common.

    :param first: values (:data:`mpibench.store.session_values.VALUES`); likewise ``second``.
    :param subjects: columns in which they may differ.
    """
    keys = [name for name in METRIC if name not in subjects]
    sides = [_matrix(side, keys) for side in (first, second)]
    common = sorted(sides[0].keys() & sides[1].keys(), key=str)
    if not common:
        return None
    tables = [[side[key] for key in common] for side in sides]
    names = [tuple(key[keys.index(name)] for name in ("suite", "benchmark", "variant", "quantity")) for key in common]
    sizes = [key[keys.index("message_bytes")] for key in common]
    bands = np.array([policy.band(size if isinstance(size, int) else None) for size in sizes])
    found = {band: _gain(tables, names, bands == band, against, policy) for band in dict.fromkeys(bands.tolist())}
    whole = _gain(tables, names, np.ones(len(common), dtype=bool), against, policy)
    return replace(whole, bands=found)


_Key = tuple[object, ...]


def _matrix(values: pl.DataFrame, keys: Sequence[str]) -> dict[_Key, dict[tuple[str, int], float]]:
    """Slowness of each metric by job and repeat."""
    found: dict[_Key, dict[tuple[str, int], float]] = {}
    rows = values.with_columns(slowness(values))
    for *key, case, repeat, value in rows.select(*keys, "case", "repeat", "slowness").iter_rows():
        found.setdefault(tuple(key), {})[case, repeat] = value
    return found


_Units = dict[tuple[str, int], float]


def _gain(tables: list[list[_Units]], names: list[_Key], rows: Array, against: str, policy: Policy) -> Gain:
    """The gain over some rows; ``tables``: units of each row, of the first and of the second."""
    effect, error, df, total = 0.0, 0.0, math.inf, int(np.sum(rows))
    for name in dict.fromkeys(names):
        places = [at for at, own in enumerate(names) if own == name and rows[at]]
        if not places:
            continue
        part = len(places) / total
        first, second = (_side([table[at] for at in places], policy) for table in tables)
        effect += part * (first[0] - second[0])
        error += part * math.sqrt(first[1] + second[1])
        df = min(df, first[2] + second[2]) if first[2] > 0 and second[2] > 0 else math.nan
        if math.isnan(df):
            break
    if math.isnan(df):
        effect = float(np.mean([_mean(tables[0][at]) - _mean(tables[1][at]) for at in np.flatnonzero(rows)]))
    reach = float(scipy.special.stdtrit(df, 0.5 + policy.confidence / 2)) * error
    return Gain(against, math.exp(-effect), math.exp(-effect - reach), math.exp(-effect + reach), total)


def _mean(units: _Units) -> float:
    return float(np.mean(list(units.values())))


def _side(rows: list[_Units], policy: Policy) -> tuple[float, float, float]:
    """Slowness of one benchmark over its sizes, its squared error and degrees of freedom."""
    units = sorted({unit for row in rows for unit in row})
    table = np.array([[row.get(unit, math.nan) for unit in units] for row in rows])
    side = two_sides.describe(table)
    deviations = np.nanmean(table - side.location[:, None], axis=0)
    spread = float(np.var(deviations, ddof=1)) if len(units) > 1 else math.nan
    jobs = len({case for case, _ in units})
    least = policy.between_jobs_times_repeats**2 * np.nan_to_num(spread)
    between = max((policy.between_jobs_percent / 100) ** 2, float(least)) / jobs
    return float(np.mean(side.location)), between + spread / len(units), float(len(units) - 1)
