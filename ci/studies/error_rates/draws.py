"""Sessions drawn from recorded noise, and what the verdicts' own decision says of them.

Of a trace's jobs some are drawn without replacement, some as the history and some as the candidate, whole: all curves of a job
with all its disturbances. Nothing has changed between them, so whatever is called is a false alarm. Then the candidate is
slowed down, and what is called is found. The decision is :func:`mpibench.judge.curve_tests.evaluate`, as in
``accept``.

``accept --confirm`` measures again what was called or left inconclusive: for that other jobs of the trace are drawn besides
(:func:`_confirmed`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mpibench.judge import curve_tests
from mpibench.judge.curve_tests import (
    BAND,
    IMPROVED,
    INCONCLUSIVE,
    JOBS,
    MISSING,
    REGRESSED,
    REPEATS,
    SESSIONS,
    SIZE,
    CurveTest,
    Results,
)
from mpibench.judge.policy import Policy
from mpibench.judge.statistics import two_sides
from mpibench.judge.statistics.two_sides import Array
from mpibench.night.confirmed_acceptance import sessions_wanted
from reframe_tests.harness.vocabulary import BadInput

from .noise import Trace
from .shares import ErrorRates, Setting, Shares, Smallest

SLOWDOWNS_PERCENT = (3.0, 5.0, 10.0)
#: The largest slowdown that the smallest one found is searched up to, and in how many halvings: within 0.2 %.
MOST_SLOWER_PERCENT, HALVINGS = 400.0, 10
#: What is slowed down: which of the metrics.
Mask = NDArray[np.bool_]
ALL, ONE_BAND, ONE_SIZE = "all sizes", "band", "one size"


@dataclass(frozen=True)
class _Frame:
    """What is the same in all draws of a setting.

    :param tests: of all curves, over all jobs of the trace; a draw picks from their values.
    :param values: unit means of each test, shape (tests, jobs, units of a job).
    :param weights: share of each metric in each test, shape (tests, metrics); metrics are sizes in the order of the curves.
    :param sizes: places of the tests of one size, in the order of the metrics.
    :param bands: places of the tests of a band.
    """

    tests: list[CurveTest]
    units: str
    values: Array
    weights: sparse.csr_array
    margins: Array
    wider: sparse.csr_array
    sizes: NDArray[np.int_]
    bands: NDArray[np.int_]

    @property
    def shown(self) -> NDArray[np.int_]:
        """Places of the tests that are refused by themselves."""
        return np.concatenate([self.sizes, self.bands])

    def drawn(self, history: NDArray[np.int_], candidate: NDArray[np.int_], policy: Policy) -> list[CurveTest]:
        """The tests of one draw.

        :param history: columns of the jobs; likewise ``candidate``.
        """
        left, right = (self.values[:, jobs].reshape(len(self.tests), -1) for jobs in (history, candidate))
        between = curve_tests.between_jobs(self.units, (len(history), len(candidate)), policy)
        nights = tuple(history.tolist()), tuple(candidate.tolist())
        return [
            CurveTest(
                *(test.curve, test.level, test.places, test.size, test.margin, self.units, one, two, between, nights),
                test.stratum,
            )
            for test, one, two in zip(self.tests, left, right, strict=True)
        ]

    def finds(self, results: Results, hits: Array, amounts: Array, policy: Policy) -> NDArray[np.bool_]:
        """Whether something that was slowed down is called, by its size or by a band it is in.

        :param results: of the candidate as it was drawn.
        :param hits: 1 where a metric is slowed down, shape (candidates, metrics).
        :param amounts: by how much, in log, shape (candidates,).
        """
        shares = hits @ self.weights.T
        verdicts = curve_tests.final_verdicts(
            shifted(results, amounts[:, None] * shares, policy), self.margins, self.wider, policy
        )
        return ((verdicts == REGRESSED) & (shares > 0))[:, self.shown].any(axis=1)


def shifted(results: Results, shift: Array, policy: Policy) -> Results:
    """What they would be had the candidate been slower by so much: its spread, and all of the baseline, stay as they are.

    :param shift: of each test in log; shape (tests,), or (..., tests) for several candidates at once.
    """
    moved = {name: getattr(results, name) + shift for name in ("effect", "low", "high", "upper")}
    p = two_sides.Effects(moved["effect"], results.error, results.df, results.variance).p_values()
    return replace(results, **moved, p=p, real=curve_tests.real_changes(p, results.sessions, policy))


def _frame(trace: Trace, setting: Setting, policy: Policy) -> _Frame:
    units = curve_tests.choose_units(range(setting.history), range(setting.candidate))
    tests: list[CurveTest] = []
    starts = np.cumsum([0, *(len(one.sizes) for one in trace.curves)])
    for number, curve in enumerate(trace.curves):
        logs = curve.logs[:, :, : setting.repeats]
        values = logs if units == REPEATS else _medians(logs)[:, :, None]
        flat = values.reshape(len(values), -1)
        kept = {"units": units, "stratum": curve.stratum}
        tests += curve_tests.tests_of_curve(number, curve.quantity, curve.sizes, flat, flat, policy, **kept)
    rows = np.repeat(np.arange(len(tests)), [len(test.places) for test in tests])
    columns = np.concatenate([starts[test.curve] + np.array(test.places) for test in tests])
    shares = np.concatenate([np.full(len(test.places), 1 / len(test.places)) for test in tests])
    levels = np.array([test.level for test in tests])
    return _Frame(
        tests,
        units,
        np.stack([test.baseline for test in tests]).reshape(len(tests), trace.jobs, -1),
        sparse.csr_array((shares, (rows, columns)), shape=(len(tests), starts[-1])),
        curve_tests.margins_of(tests),
        curve_tests.wider_tests(tests),
        np.flatnonzero(levels == SIZE),
        np.flatnonzero(levels == BAND),
    )


def measure(trace: Trace, setting: Setting, policy: Policy, draws: int, seed: int, *, in_order: bool = False) -> ErrorRates:
    """Draw sessions and count.

    :param in_order: jobs one after the other as recorded, so that slow changes of the machine are in it; else at random.
    """
    rng = np.random.default_rng(seed)
    frame = _frame(trace.scaled(setting.spread), setting, policy)
    slowed = patterns(trace, policy)
    bands = {name: mask for name, mask in zip(policy.bands_bytes, _bands(trace, policy), strict=True) if mask.any()}
    searched = {ALL: np.ones(trace.metrics, dtype=bool), **bands}
    metric = 1 / trace.metrics
    refused, confirmed, called, covered = Shares(), Shares(), Shares(metric), Shares(metric)
    more = sessions_again(frame.units, setting, policy, len(frame.shown))
    # The single job that measures again would be judged by its repeats, if jobs are the units.
    enough = setting.history + setting.candidate + more <= trace.jobs and frame.units != JOBS
    found, again = ({slowdown: {pattern: Shares() for pattern in slowed} for slowdown in SLOWDOWNS_PERCENT} for _ in range(2))
    smallest = {name: Smallest() for name in searched}
    amounts = np.repeat(np.log1p(np.array(SLOWDOWNS_PERCENT) / 100), len(slowed))
    counters = [(found[slowdown][pattern], again[slowdown][pattern]) for slowdown in SLOWDOWNS_PERCENT for pattern in slowed]
    for _ in range(draws):
        jobs = draw(rng, trace.jobs, setting.history + setting.candidate + more * enough, in_order)
        history, candidate, fresh = np.split(jobs, [setting.history, setting.history + setting.candidate])
        results = curve_tests.evaluate(frame.drawn(history, candidate, policy), policy)
        verdicts = curve_tests.final_verdicts(results, frame.margins, frame.wider, policy)
        parts = history, candidate, fresh
        metrics = verdicts[frame.sizes]
        overall = curve_tests.overall(verdicts[frame.bands].tolist(), metrics.tolist())
        refused.values.append(float(overall in (REGRESSED, MISSING)))
        if enough:
            confirmed.values.append(float(_confirmed(frame, results, parts, policy)))
        called.values.append(float(np.isin(metrics, (REGRESSED, IMPROVED)).mean()))
        low, high = results.low[frame.sizes], results.high[frame.sizes]
        known = np.isfinite(low)
        covered.values.append(float(((low <= 0) & (high >= 0))[known].mean()) if known.any() else 0.0)
        hits = np.stack([masks[rng.integers(len(masks))] for masks in slowed.values()]).astype(float)
        hits = np.tile(hits, (len(SLOWDOWNS_PERCENT), 1))
        seen = frame.finds(results, hits, amounts, policy)
        for (once, twice), one, shift in zip(counters, seen, amounts[:, None] * (hits @ frame.weights.T), strict=True):
            once.values.append(float(one))
            if enough:
                twice.values.append(float(_confirmed(frame, results, parts, policy, shift)))
        for name, least in zip(searched, _least_found(frame, results, np.stack(list(searched.values())), policy), strict=True):
            smallest[name].values.append(float(least))
    counts = refused, confirmed if enough else None, called, covered, found, again if enough else None
    return ErrorRates(trace.fabric, setting, frame.units, draws, trace.jobs, *counts, smallest)


def sessions_again(units: str, setting: Setting, policy: Policy, tests: int) -> int:
    """Jobs that ``--confirm`` measures at most beside the candidate's.

    :param tests: sizes and bands that are judged.
    """
    wanted = sessions_wanted(setting.history, policy.false_discovery_rate, 1 / tests) if units == SESSIONS else 0
    return max(1, wanted - setting.candidate)


def _confirmed(
    frame: _Frame, results: Results, jobs: Sequence[NDArray[np.int_]], policy: Policy, slower: Array | None = None
) -> bool:
    """Whether a draw is refused still when it is measured again, as by :mod:`mpibench.night.confirmed_acceptance`.

    :param results: of the candidate as it was drawn.
    :param jobs: those of the history, of the candidate, and fresh ones.
    :param slower: by how much candidate and fresh jobs are slowed down, of each test in log; what is not does not count.
    """
    history, candidate, fresh = jobs
    slower = np.zeros(len(frame.tests)) if slower is None else slower
    counts = (slower > 0) | (slower == 0).all()
    results = shifted(results, slower, policy)
    verdicts = curve_tests.final_verdicts(results, frame.margins, frame.wider, policy)
    called = np.zeros(len(verdicts), dtype=bool)
    called[frame.shown] = verdicts[frame.shown] == REGRESSED
    if called.any():
        # The called curves and nothing else are judged again.
        curves = {frame.tests[place].curve for place in np.flatnonzero(called)}
        kept = np.array([test.curve in curves for test in frame.tests])
        tests = [test for test, one in zip(frame.drawn(history, fresh[:1], policy), kept, strict=True) if one]
        second = shifted(curve_tests.evaluate(tests, policy), slower[kept], policy)
        again = curve_tests.final_verdicts(second, frame.margins[kept], frame.wider[kept][:, kept], policy)
        if ((again == REGRESSED) & (called & counts)[kept]).any():
            return True
    if frame.units != SESSIONS:
        return False
    # What is inconclusive is decided by mpibench.night.confirmed_acceptance.
    open_ = frame.shown[(verdicts == INCONCLUSIVE)[frame.shown] & (results.effect >= frame.margins)[frame.shown]]
    before = frame.values[open_][:, history, 0]
    after = frame.values[open_][:, np.concatenate([candidate, fresh]), 0] + slower[open_, None]
    for count in range(len(candidate) + 1, after.shape[1] + 1):
        lasting = after[:, :count].min(axis=1) > before.max(axis=1)
        share = lasting.sum() / len(frame.shown)
        if share and sessions_wanted(len(history), policy.false_discovery_rate, share) <= count:
            change = np.median(after[:, len(candidate) : count], axis=1) - np.median(before, axis=1)
            return bool((lasting & counts[open_] & (change >= frame.margins[open_])).any())
    return False


def _least_found(frame: _Frame, results: Results, hits: Mask, policy: Policy) -> Array:
    """Smallest slowdown of each mask that is found in this draw, as a fraction; infinite where none is.

    By halving: what is found stays found where it is slower still, as its p-value falls and nobody else's rises above it.
    """
    numbers = hits.astype(float)
    low, high = np.zeros(len(hits)), np.full(len(hits), np.log1p(MOST_SLOWER_PERCENT / 100))
    known = frame.finds(results, numbers, high, policy)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        seen = frame.finds(results, numbers, middle, policy)
        low, high = np.where(seen, low, middle), np.where(seen, middle, high)
    return np.where(known, np.expm1(high), np.inf)


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


def _bands(trace: Trace, policy: Policy) -> list[Mask]:
    """Metrics of each band of the policy."""
    bands = np.array([policy.band(size) for one in trace.curves for size in one.sizes])
    return [bands == band for band in policy.bands_bytes]


def patterns(trace: Trace, policy: Policy) -> dict[str, list[Mask]]:
    """What may be slowed down: all sizes of all curves, one band of all curves, one size of one curve."""
    return {
        ALL: [np.ones(trace.metrics, dtype=bool)],
        ONE_BAND: [mask for mask in _bands(trace, policy) if mask.any()],
        ONE_SIZE: list(np.eye(trace.metrics, dtype=bool)),
    }


def draw(rng: np.random.Generator, jobs: int, wanted: int, in_order: bool) -> NDArray[np.int_]:
    """So many of the jobs, each once: at random, or one after the other from any of them on."""
    first = int(rng.integers(jobs - wanted + 1))
    return np.arange(first, first + wanted) if in_order else rng.permutation(jobs)[:wanted]


def judged(trace: Trace, policy: Policy) -> Trace:
    """Only the metrics that the policy gives a margin.

    :raises BadInput: it gives none one.
    """
    curves = []
    for one in trace.curves:
        places = [place for place, size in enumerate(one.sizes) if policy.judges(one.quantity, policy.band(size))]
        if places:
            curves.append(one.of_sizes(places))
    if not curves:
        raise BadInput(
            "policy-without-margin", f"{policy.source} gives none of the {trace.metrics} metrics of {trace.fabric} a margin."
        )
    return Trace(trace.fabric, tuple(curves))


def job_medians(trace: Trace) -> Array:
    """Median of the repeats of each metric in each job, shape (metrics, jobs)."""
    return np.concatenate([_medians(one.logs) for one in trace.curves])


def _medians(logs: Array) -> Array:
    """Median of the repeats of each job, NaN where a job has none."""
    count = np.sum(~np.isnan(logs), axis=2)
    return np.where(count > 0, np.nanmedian(np.where(count[:, :, None] > 0, logs, 0.0), axis=2), np.nan)
