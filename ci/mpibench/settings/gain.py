"""How many times faster one condition is than another, over all that both measured, and whether that is more than noise.

Each benchmark, quantity and message size that both have counts alike: the mean of the differences of logarithms. Its error is
the mean of theirs, as if all erred together, which those of one job nearly do; with fewer than two jobs a side the policy's
spread between jobs is added (:mod:`mpibench.verdicts.policy`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import scipy

from ..results.session_values import METRIC, slowness
from ..statistics import two_sides
from ..statistics.two_sides import Array
from ..verdicts.policy import Policy

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
        """:data:`FASTER`, :data:`SLOWER` or :data:`SAME`, as the interval has it."""
        return FASTER if self.low > 1 else SLOWER if self.high < 1 else SAME

    @property
    def better(self) -> bool:
        """Faster by more than noise, and at no size of messages slower."""
        return self.outcome == FASTER and all(one.outcome != SLOWER for one in self.bands.values())

    @property
    def text(self) -> str:
        """In words, with the interval where there is one."""
        interval = f" ({self.low:.2f} to {self.high:.2f})" if math.isfinite(self.low) else " (too few repeats for an interval)"
        slower = [name for name, one in self.bands.items() if one.outcome == SLOWER]
        mixed = f", but slower for {' and '.join(slower)} messages" if slower and self.outcome == FASTER else ""
        said = f"{self.times:.2f} times as fast as {self.against}{interval}"
        return f"{said}{mixed}" if self.outcome != SAME else f"{said}: not more than noise"


def measure(first: pl.DataFrame, second: pl.DataFrame, subjects: Sequence[str], against: str, policy: Policy) -> Gain | None:
    """How many times faster ``first`` is than ``second``; ``None``: they have nothing in common.

    :param first: values (:data:`mpibench.results.session_values.VALUES`); likewise ``second``.
    :param subjects: columns in which they may differ.
    """
    keys = [name for name in METRIC if name not in subjects]
    sides = [_matrix(side, keys) for side in (first, second)]
    common = sorted(sides[0].keys() & sides[1].keys(), key=str)
    if not common:
        return None
    effects = _effects([[sides[at][key] for key in common] for at in (0, 1)], policy)
    sizes = [key[keys.index("message_bytes")] for key in common]
    bands = np.array([policy.band(size if isinstance(size, int) else None) for size in sizes])
    found = {band: _gain(effects, bands == band, against, policy) for band in dict.fromkeys(bands.tolist())}
    whole = _gain(effects, np.ones(len(common), dtype=bool), against, policy)
    return Gain(whole.against, whole.times, whole.low, whole.high, whole.metrics, found)


_Key = tuple[object, ...]


def _matrix(values: pl.DataFrame, keys: Sequence[str]) -> dict[_Key, dict[tuple[str, int], float]]:
    """Slowness of each metric by job and repeat."""
    found: dict[_Key, dict[tuple[str, int], float]] = {}
    rows = values.with_columns(slowness(values))
    for *key, case, repeat, value in rows.select(*keys, "case", "repeat", "slowness").iter_rows():
        found.setdefault(tuple(key), {})[case, repeat] = value
    return found


def _effects(sides: list[list[dict[tuple[str, int], float]]], policy: Policy) -> two_sides.Effects:
    tables, jobs = list[Array](), list[Array]()
    for side in sides:
        table = np.full((len(side), max(map(len, side))), np.nan)
        for at, row in enumerate(side):
            table[at, : len(row)] = list(row.values())
        tables.append(table)
        jobs.append(np.array([len({case for case, _ in row}) for row in side], dtype=float))
    described = [two_sides.describe(table) for table in tables]
    between = np.zeros(len(sides[0]))
    for each, number in zip(described, jobs, strict=True):
        least = policy.between_jobs_times_repeats**2 * np.nan_to_num(each.variance)
        between += np.maximum((policy.between_jobs_percent / 100) ** 2, least) / number
    return two_sides.compare(tables[1], tables[0], between)


def _gain(effects: two_sides.Effects, rows: Array, against: str, policy: Policy) -> Gain:
    effect, error, df = (column[rows] for column in (effects.effect, effects.error, effects.df))
    mean = float(np.nanmean(effect))
    known = np.isfinite(error) & np.isfinite(df)
    reach = math.nan
    if known.all() and known.size:
        reach = float(scipy.special.stdtrit(float(np.min(df)), 0.5 + policy.confidence / 2) * np.mean(error))
    return Gain(against, math.exp(-mean), math.exp(-mean - reach), math.exp(-mean + reach), int(known.size))
