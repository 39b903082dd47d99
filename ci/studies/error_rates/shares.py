"""Error rates as counted in draws, with their intervals, and as plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

#: Confidence of all intervals here.
CONFIDENCE = 0.95
#: Probability with which the smallest slowdown named is found.
FOUND_WITH = 0.99


@dataclass(frozen=True)
class Setting:
    """One question.

    :param spread: of the typical metric, to which the noise is scaled; ``None``: as recorded.
    :param history: jobs of the baseline, each a session of its own; likewise ``candidate``.
    :param repeats: of each job.
    """

    spread: float | None
    history: int
    candidate: int
    repeats: int


def share_interval(count: int, tried: int) -> tuple[float, float]:
    """Interval of a probability: Clopper and Pearson (1934, Biometrika 26:404), which never holds less than it says."""
    found = stats.binomtest(count, tried).proportion_ci(CONFIDENCE, method="exact")
    return float(found.low), float(found.high)


@dataclass
class Shares:
    """Share per draw of something that is counted in each.

    :param least: smallest share above 0 that a draw can have: 1 for yes and no.
    """

    least: float = 1.0
    values: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """Over all draws."""
        return float(np.mean(self.values))

    @property
    def interval(self) -> tuple[float, float]:
        """Of the mean: of yes and no :func:`share_interval`; of other shares the normal one.

        Where all draws have none, or all have everything, what :func:`share_interval` says of draws that differ by the least
        there is.
        """
        draws = len(self.values)
        if self.least == 1:
            return share_interval(int(sum(self.values)), draws)
        if set(self.values) in ({0.0}, {1.0}):
            low, high = share_interval(int(sum(self.values)), draws)
            return 1 - self.least * (1 - low) if self.mean else 0.0, 1.0 if self.mean else self.least * high
        reach = float(stats.norm.ppf(0.5 + CONFIDENCE / 2) * np.std(self.values, ddof=1) / np.sqrt(draws))
        return max(0.0, self.mean - reach), min(1.0, self.mean + reach)


@dataclass
class Smallest:
    """Smallest slowdown that is found, per draw, as a fraction; infinite where none was."""

    values: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """The slowdown that is found with :data:`FOUND_WITH`: in that share of draws it, or a smaller one, is."""
        return float(np.sort(self.values)[int(np.ceil(FOUND_WITH * len(self.values))) - 1])

    @property
    def interval(self) -> tuple[float, float]:
        """Of that quantile, by ranks (Hahn and Meeker 1991, Statistical Intervals, section 5.2).

        With fewer than 368 draws it has no upper end.
        """
        ordered = np.sort(self.values)
        low, high = stats.binom.ppf([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], len(ordered), FOUND_WITH).astype(int)
        return float(ordered[max(low, 1) - 1]), float(ordered[high]) if high < len(ordered) else float("inf")


#: What a share or a slowdown says in percent: itself, or one end of its interval.
Says = Callable[[Shares | Smallest], Any]


@dataclass(frozen=True)
class ErrorRates:
    """The answer to one setting.

    :param units: what the decision took as units, given so many jobs.
    :param jobs: recorded.
    :param confirmed: share of sessions that ``accept --confirm`` refuses; ``None`` where there are too few jobs to ask, or
        jobs are the units.
    :param found: by slowdown in percent and pattern; ``found_again`` likewise, by ``accept --confirm``.
    :param smallest: by pattern.
    :param nights: share of nights of a year on which the gate is red; ``None`` where there are too few jobs to ask.
    :param years: share of years with such a night; likewise.
    """

    fabric: str
    setting: Setting
    units: str
    draws: int
    jobs: int
    refused: Shares
    confirmed: Shares | None
    called: Shares
    covered: Shares
    found: dict[float, dict[str, Shares]]
    found_again: dict[float, dict[str, Shares]] | None
    smallest: dict[str, Smallest]
    nights: Shares | None = None
    years: Shares | None = None

    def row(self) -> dict[str, Any]:
        """As plain data with stable keys; ``None`` for a slowdown that is not found, however large."""

        def figures(says: Says) -> dict[str, Any]:
            return {
                "sessions_refused_percent": says(self.refused),
                "confirmed_refused_percent": None if self.confirmed is None else says(self.confirmed),
                "metrics_called_per_1000": _times(10, says(self.called)),
                "coverage_percent": says(self.covered),
                "found_percent": _found(self.found, says),
                "confirmed_found_percent": None if self.found_again is None else _found(self.found_again, says),
                "smallest_found_percent": {pattern: says(one) for pattern, one in self.smallest.items()},
                "nights_called_percent": None if self.nights is None else says(self.nights),
                "years_called_percent": None if self.years is None else says(self.years),
            }

        return {
            "fabric": self.fabric,
            "spread_percent": None if self.setting.spread is None else 100 * self.setting.spread,
            "units": self.units,
            "history_jobs": self.setting.history,
            "candidate_jobs": self.setting.candidate,
            "repeats": self.setting.repeats,
            **figures(lambda one: _percent(one.mean)),
            "draws": self.draws,
            "jobs_recorded": self.jobs,
            "interval_95": figures(lambda one: [_percent(end) for end in one.interval]),
        }


def _found(found: dict[float, dict[str, Shares]], says: Says) -> dict[str, Any]:
    return {f"{slowdown:g}": {pattern: says(one) for pattern, one in patterns.items()} for slowdown, patterns in found.items()}


def _percent(fraction: float) -> float | None:
    return round(100 * fraction, 3) if np.isfinite(fraction) else None


def _times(factor: int, figures: Any) -> Any:
    return [_times(factor, one) for one in figures] if isinstance(figures, list) else round(factor * figures, 3)
