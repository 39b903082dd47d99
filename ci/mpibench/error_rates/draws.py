"""Sessions drawn from recorded noise, and what the verdicts' own decision says of them.

Of a trace's jobs some are drawn without replacement, some as the history and some as the candidate, whole: all curves of a job
with all its disturbances. Nothing has changed between them, so whatever is called is a false alarm. Then the candidate is
slowed down, and what is called is found. The decision is :func:`mpibench.verdicts.curve_tests.evaluate`, as in ``accept``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..statistics.two_sides import Array
from ..verdicts import curve_tests
from ..verdicts.curve_tests import BAND, REPEATS, SIZE, CurveTest
from ..verdicts.policy import Policy
from ..verdicts.words import IMPROVED, MISSING, REGRESSED
from .noise import NoiseCurve, Trace

SLOWDOWNS_PERCENT = (3.0, 5.0, 10.0)
#: Confidence of the Monte Carlo error.
CONFIDENCE = 0.95
#: What is slowed down: for a curve and a band, which of its sizes.
Mask = NDArray[np.bool_]


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
    def error(self) -> float:
        """Half of the interval that :data:`CONFIDENCE` asks for.

        Of yes and no Wilson's (1927), which is not 0 where all draws agree; of other shares the normal one of their mean, and
        where all agree what Wilson's says of draws that differ by the least there is.
        """
        if len(set(self.values)) == 1 or self.least == 1:
            found = stats.binomtest(int(sum(self.values)), len(self.values)).proportion_ci(CONFIDENCE, method="wilson")
            return self.least * float(max(found.high - self.mean, self.mean - found.low))
        z = stats.norm.ppf(0.5 + CONFIDENCE / 2)
        return float(z * np.std(self.values, ddof=1) / np.sqrt(len(self.values)))


@dataclass(frozen=True)
class ErrorRates:
    """The answer to one setting.

    :param units: what the decision took as units, given so many jobs.
    :param found: by slowdown in percent and pattern.
    """

    fabric: str
    setting: Setting
    units: str
    draws: int
    refused: Shares
    called: Shares
    covered: Shares
    found: dict[float, dict[str, Shares]]

    def row(self) -> dict[str, object]:
        """As plain data with stable keys."""

        def percent(share: Callable[[Shares], float], one: Shares, times: float = 100) -> float:
            return round(times * share(one), 3)

        def figures(share: Callable[[Shares], float]) -> dict[str, object]:
            return {
                "sessions_refused_percent": percent(share, self.refused),
                "metrics_called_per_1000": percent(share, self.called, 1000),
                "coverage_percent": percent(share, self.covered),
                "found_percent": {
                    f"{slowdown:g}": {pattern: percent(share, one) for pattern, one in patterns.items()}
                    for slowdown, patterns in self.found.items()
                },
            }

        return {
            "fabric": self.fabric,
            "spread_percent": None if self.setting.spread is None else 100 * self.setting.spread,
            "units": self.units,
            "history_jobs": self.setting.history,
            "candidate_jobs": self.setting.candidate,
            "repeats": self.setting.repeats,
            **figures(lambda one: one.mean),
            "draws": self.draws,
            "monte_carlo_error": figures(lambda one: one.error),
        }


@dataclass(frozen=True)
class _Judged:
    """Verdicts of one draw.

    :param sizes: of each metric, in the order of the curves and their sizes.
    :param bands: each band's verdict with the metrics it covers.
    """

    refused: bool
    sizes: NDArray[np.str_]
    bands: list[tuple[str, Mask]]
    low: Array
    high: Array
    units: str
    widened: float


def measure(trace: Trace, setting: Setting, policy: Policy, draws: int, seed: int, *, in_order: bool = False) -> ErrorRates:
    """Draw sessions and count.

    :param in_order: jobs one after the other as recorded, so that slow changes of the machine are in it; else at random.
    """
    rng = np.random.default_rng(seed)
    scaled = trace.scaled(setting.spread)
    patterns = _patterns(scaled, policy)
    found = {slowdown: {pattern: Shares() for pattern in patterns} for slowdown in SLOWDOWNS_PERCENT}
    metric = 1 / trace.metrics
    rates = ErrorRates(trace.fabric, setting, "", draws, Shares(), Shares(metric), Shares(metric), found)
    units = ""
    for _ in range(draws):
        history, candidate = draw(rng, scaled, setting, in_order)
        judged = _judge(scaled, history, candidate, policy)
        units = judged.units
        rates.refused.values.append(float(judged.refused))
        rates.called.values.append(float(np.isin(judged.sizes, (REGRESSED, IMPROVED)).mean()))
        known = np.isfinite(judged.low)
        rates.covered.values.append(float(((judged.low <= 0) & (judged.high >= 0))[known].mean()) if known.any() else 0.0)
        for pattern, masks in patterns.items():
            hit = masks[rng.integers(len(masks))]
            for slowdown in SLOWDOWNS_PERCENT:
                slower = _slowed(scaled, candidate, hit, slowdown)
                seen = _judge(scaled, history, slower, policy, judged.widened)
                found[slowdown][pattern].values.append(float(_sees(seen, hit)))
    return replace(rates, units=units)


def settings(
    trace: Trace, spreads: Sequence[float | None], histories: Sequence[int], candidates: Sequence[int], repeats: int | None
) -> Iterator[Setting]:
    """Settings that a trace has jobs for."""
    there = min(repeats or trace.repeats, trace.repeats)
    for spread in spreads:
        for history in histories:
            for candidate in candidates:
                if history + candidate <= trace.jobs:
                    yield Setting(spread, history, candidate, there)


def _patterns(trace: Trace, policy: Policy) -> dict[str, list[Mask]]:
    """What may be slowed down: all sizes of all curves, one band of all curves, one size of one curve."""
    bands = np.array([policy.band(size) for one in trace.curves for size in one.sizes])
    return {
        "all sizes": [np.ones(len(bands), dtype=bool)],
        "band": [bands == band for band in policy.bands_bytes if (bands == band).any()],
        "one size": list(np.eye(len(bands), dtype=bool)),
    }


def draw(rng: np.random.Generator, trace: Trace, setting: Setting, in_order: bool) -> tuple[list[Array], list[Array]]:
    """Logs of history and candidate, of each curve, shape (sizes, jobs, repeats)."""
    wanted = setting.history + setting.candidate
    first = int(rng.integers(trace.jobs - wanted + 1))
    jobs = np.arange(first, first + wanted) if in_order else rng.permutation(trace.jobs)[:wanted]
    drawn = [one.logs[:, jobs, : setting.repeats] for one in trace.curves]
    return [one[:, : setting.history] for one in drawn], [one[:, setting.history :] for one in drawn]


def _slowed(trace: Trace, candidate: list[Array], hit: Mask, percent: float) -> list[Array]:
    ends = np.cumsum([len(one.sizes) for one in trace.curves])[:-1]
    shift = np.log1p(percent / 100)
    return [logs + shift * part[:, None, None] for logs, part in zip(candidate, np.split(hit, ends), strict=True)]


def _judge(trace: Trace, history: list[Array], candidate: list[Array], policy: Policy, widened: float | None = None) -> _Judged:
    """The verdicts' own decision on one draw.

    :param widened: what is known of this history from an earlier draw's verdicts.
    """
    tests: list[CurveTest] = []
    for number, (curve, left, right) in enumerate(zip(trace.curves, history, candidate, strict=True)):
        tests += _tests(number, curve, left, right, policy)
    results = curve_tests.evaluate(tests, policy, widened)
    names = [(one.quantity, one.direction, one.sizes) for one in trace.curves]
    final = curve_tests.combine_verdicts(tests, results, curve_tests.margins(tests, names, policy), policy)
    starts = np.cumsum([0, *(len(one.sizes) for one in trace.curves)])
    verdicts = [verdict for verdict, _ in final]
    sizes = [place for place, test in enumerate(tests) if test.level == SIZE]
    bands = []
    for test, verdict in zip(tests, verdicts, strict=True):
        if test.level == BAND:
            covered = np.zeros(starts[-1], dtype=bool)
            covered[starts[test.curve] + np.array(test.places)] = True
            bands.append((verdict, covered))
    metrics = np.array([verdicts[place] for place in sizes])
    overall = curve_tests.overall((verdict for verdict, _ in bands), metrics)
    units = tests[0].units
    return _Judged(
        overall in (REGRESSED, MISSING), metrics, bands, results.low[sizes], results.high[sizes], units, results.widened
    )


def _tests(number: int, curve: NoiseCurve, left: Array, right: Array, policy: Policy) -> list[CurveTest]:
    jobs = left.shape[1], right.shape[1]
    nights = tuple(range(jobs[0])), tuple(range(jobs[0], sum(jobs)))
    units = curve_tests.choose_units(*nights)
    if units == REPEATS:
        one, two = left.reshape(len(left), -1), right.reshape(len(right), -1)
    else:
        one, two = _medians(left), _medians(right)
    between = curve_tests.between_jobs(units, jobs, policy)
    return curve_tests.tests_of_curve(number, curve.sizes, one, two, policy, units=units, between=between, nights=nights)


def _medians(logs: Array) -> Array:
    """Median of the repeats of each job, NaN where a job has none."""
    count = np.sum(~np.isnan(logs), axis=2)
    return np.where(count > 0, np.nanmedian(np.where(count[:, :, None] > 0, logs, 0.0), axis=2), np.nan)


def _sees(judged: _Judged, hit: Mask) -> bool:
    """Whether something that was slowed down is called, by its size or by a band it is in."""
    if (judged.sizes[hit] == REGRESSED).any():
        return True
    return any(verdict == REGRESSED and (covered & hit).any() for verdict, covered in judged.bands)
