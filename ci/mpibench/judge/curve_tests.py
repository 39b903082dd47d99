"""Tests of curves, and what they decide: the one decision that ``accept`` and ``compare`` share.

A curve is tested at each size, in each window of three neighbours, in each band and as a whole, on the units' own means, so
that disturbances the sizes of one unit share count once. What a unit is depends on what there is (:func:`choose_units`):

sessions
    the baseline is a history (at least :data:`~.prediction.FEWEST_SESSIONS` sessions): the candidate is held against what one
    more session of it would be (:mod:`.statistics.prediction`), all tests with one calibration;
jobs
    no such history, but at least :data:`ENOUGH_JOBS` jobs a side (:mod:`.statistics.two_sides`);
repeats
    neither: what jobs add is taken from the policy (``between_jobs_percent``), the last resort; and for what is called, as at
    least ``between_jobs_times_repeats`` times what repeats of one job differ, or small messages would be refused for nothing;
pairs
    both sides were interleaved in the same jobs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl
import scipy
from numpy.typing import NDArray

from reframe_tests.harness.vocabulary import LOWER, QUANTITIES

from .policy import Policy
from .statistics import prediction, two_sides
from .statistics.two_sides import Array

PASS, REGRESSED, IMPROVED, INCONCLUSIVE, MISSING = "pass", "regressed", "improved", "inconclusive", "missing"
#: Why a metric is missing where nothing else is known.
ABSENT = "the candidate does not have it"
#: The weightiest first.
ORDER = (REGRESSED, MISSING, INCONCLUSIVE, IMPROVED, PASS)
#: Jobs a side needs before jobs, and not repeats, are the units.
ENOUGH_JOBS = 3
#: Neighbours in a window.
WINDOW = 3
SIZE, NEIGHBOURS, BAND, WHOLE = "size", "window", "band", "curve"
LEVELS = (SIZE, NEIGHBOURS, BAND, WHOLE)
REPEATS, JOBS, PAIRS, SESSIONS = "repeats", "jobs", "pairs", "sessions"


class BetweenJobs(NamedTuple):
    """What jobs add to the difference of their repeats, where it was not measured.

    :param variance: of the difference, log².
    :param times: for what is called at least so many times the variance of a repeat.
    """

    variance: float = 0.0
    times: float = 0.0


NOTHING_BETWEEN = BetweenJobs()


@dataclass(frozen=True)
class CurveTest:
    """One comparison: some sizes of one curve.

    :param places: of these sizes in the curve; ``size``: the first of them.
    :param margin: change for the worse in log that still counts as equal: the widest of its sizes.
    :param baseline: unit means in log, worse is more; likewise ``candidate``. With :data:`PAIRS` as units both hold the same
        repeats of the same jobs, in the same order; with :data:`SESSIONS` they hold jobs, and ``nights`` their sessions.
    :param between: what jobs add to the difference and repeats do not show.
    :param stratum: number of what the curve was measured on; spreads between sessions are moderated within it only.
    """

    curve: int
    level: str
    places: tuple[int, ...]
    size: int | None
    margin: float
    units: str
    baseline: Array
    candidate: Array
    between: BetweenJobs
    nights: tuple[tuple[object, ...], tuple[object, ...]] = ((), ())
    stratum: int = 0


#: Columns of values that name one repeat of one job.
REPEAT = pl.concat_str("case", pl.lit("#"), "repeat")


def matrix(values: pl.DataFrame, sizes: Sequence[int | None], unit: pl.Expr) -> Array:
    """Slowness, shape (sizes, units): median of what belongs to one unit, in the order in which they come.

    :param values: of one curve, with ``slowness``.
    """
    table = values.select("slowness", place=pl.col("message_bytes").fill_null(-1), unit=unit)
    wide = table.pivot(on="unit", index="place", values="slowness", aggregate_function="median")
    order = pl.DataFrame({"place": [-1 if size is None else size for size in sizes]}, schema={"place": pl.Int64})
    return order.join(wide, on="place", how="left", maintain_order="left").drop("place").to_numpy().astype(float)


def choose_units(baseline: Sequence[object], candidate: Sequence[object], *, history: bool = True) -> str:
    """What both sides are a sample of.

    :param baseline: session of each job of the baseline; likewise ``candidate``.
    :param history: if nothing has changed the candidate is one more of what the baseline's sessions are.
    """
    if history and len(set(baseline)) >= prediction.FEWEST_SESSIONS and len(candidate):
        return SESSIONS
    return JOBS if min(len(baseline), len(candidate)) >= ENOUGH_JOBS else REPEATS


def between_jobs(units: str, jobs: tuple[int, int], policy: Policy) -> BetweenJobs:
    """What jobs add to the difference of their repeats: the policy's, where nothing was measured."""
    if units != REPEATS:
        return NOTHING_BETWEEN
    inverse = 1 / jobs[0] + 1 / jobs[1]
    return BetweenJobs((policy.between_jobs_percent / 100) ** 2 * inverse, policy.between_jobs_times_repeats**2 * inverse)


def tests_of_curve(
    number: int,
    quantity: str,
    sizes: Sequence[int | None],
    left: Array,
    right: Array,
    policy: Policy,
    *,
    units: str = REPEATS,
    between: BetweenJobs = NOTHING_BETWEEN,
    nights: tuple[tuple[object, ...], tuple[object, ...]] = ((), ()),
    stratum: int = 0,
) -> list[CurveTest]:
    """All comparisons of one curve: at each size, in each window, in each band, as a whole.

    :param left: slowness of the baseline in log, shape (sizes, units); ``right`` of the candidate.
    :param nights: session of each column of both sides, where sessions are the units and the columns jobs.
    """
    # Whatever lies in the middle: it keeps numbers small and drops out.
    centre = np.nanmedian(np.where(np.isnan(left).all(axis=1, keepdims=True), 0.0, left), axis=1, keepdims=True)
    left, right = left - centre, right - centre
    count = len(sizes)
    levels: list[tuple[str, tuple[int, ...]]] = [(SIZE, (place,)) for place in range(count)]
    if count > WINDOW:
        levels += [(NEIGHBOURS, tuple(range(place, place + WINDOW))) for place in range(count - WINDOW + 1)]
    for band in policy.bands_bytes:
        if places := tuple(place for place, size in enumerate(sizes) if policy.band(size) == band):
            levels.append((BAND, places))
    levels.append((WHOLE, tuple(range(count))))
    widest = [policy.margin(quantity, policy.band(size)) for size in sizes]
    lower = QUANTITIES[quantity].direction == LOWER
    margins = [np.log1p(margin) if lower else -np.log1p(-min(margin, 0.99)) for margin in widest]
    tests = []
    for level, places in levels:
        one, two = (side[list(places)].mean(axis=0) for side in (left, right))
        margin = max(margins[place] for place in places)
        test = CurveTest(number, level, places, sizes[places[0]], margin, units, one, two, between, nights, stratum)
        tests.append(test)
    return tests


@dataclass(frozen=True)
class Results:
    """Statistics of all tests, aligned with them; in log.

    :param error: standard error that ``p`` rests on, with ``df`` degrees of freedom.
    :param between: variance that jobs add and more repeats do not take away; ``doubt`` is what more of it may be there.
    :param count: units of the smaller side; of a candidate held against a history, the sessions of the history.
    :param new: sessions of a candidate that is held against a history, else NaN.
    :param sessions: of the longest history; 0 where none is.
    """

    effect: Array
    error: Array
    df: Array
    low: Array
    high: Array
    upper: Array
    p: Array
    real: np.ndarray
    variance: Array
    between: Array
    doubt: Array
    count: Array
    new: Array
    sessions: int


def real_changes(p: Array, sessions: int, policy: Policy) -> NDArray[np.bool_]:
    """Which p-values are called, all tests together."""
    rate = policy.false_discovery_rate
    return prediction.called(p, rate, sessions) if sessions else two_sides.discoveries(p, rate)


_COLUMNS = ("effect", "error", "df", "low", "high", "upper", "p", "variance", "between", "doubt", "count", "new")


def evaluate(tests: list[CurveTest], policy: Policy) -> Results:
    """Effects of all tests; spreads are moderated among tests of one level and kind of unit."""
    columns = {name: np.full(len(tests), np.nan) for name in _COLUMNS}
    columns["between"] = np.array([test.between.variance for test in tests], dtype=float)
    times = np.array([test.between.times for test in tests], dtype=float)

    def fill(chosen: list[int], effects: two_sides.Effects, judged: two_sides.Effects) -> None:
        """P-values rest on the errors of the effects as they are judged, intervals on their own."""
        low, high = effects.interval(policy.confidence)
        upper = effects.interval(2 * policy.confidence - 1)[1]
        known = {"effect": effects.effect, "low": low, "high": high, "upper": upper, "variance": effects.unit_variance}
        for name, values in (known | {"error": judged.error, "df": judged.df, "p": judged.p_values()}).items():
            columns[name][chosen] = values

    for level, units in itertools.product(LEVELS, (REPEATS, JOBS, PAIRS)):
        chosen = [place for place, test in enumerate(tests) if test.level == level and test.units == units]
        if not chosen:
            continue
        left, right = (_pad([getattr(tests[place], side) for place in chosen]) for side in ("baseline", "candidate"))
        if units == PAIRS:
            effects = two_sides.compare_pairs(right - left)
        else:
            effects = two_sides.compare(left, right, columns["between"][chosen])
        doubt = np.fmax(times[chosen] * effects.unit_variance / 2 - columns["between"][chosen], 0.0)
        fill(chosen, effects, replace(effects, error=np.sqrt(effects.error**2 + doubt)))
        columns["doubt"][chosen] = doubt
        columns["count"][chosen] = np.minimum((~np.isnan(left)).sum(axis=1), (~np.isnan(right)).sum(axis=1))
    chosen = [place for place, test in enumerate(tests) if test.units == SESSIONS]
    sessions = 0
    if chosen:
        against = [tests[place] for place in chosen]
        baseline, candidate = prediction.learn(session_units(against, 0), kinds(against)), session_units(against, 1)
        effects = prediction.predict(baseline, candidate)
        factor = prediction.widening(baseline, policy.false_discovery_rate)
        history = baseline.units.count
        sessions = int(history.max())
        fill(chosen, effects, prediction.trusted(effects, factor))
        columns["count"][chosen], columns["new"][chosen] = history, candidate.count
        columns["between"][chosen] = baseline.variance / history
    return Results(**columns, real=real_changes(columns["p"], sessions, policy), sessions=sessions)


def session_units(tests: Sequence[CurveTest], side: int, sessions: Sequence[object] | None = None) -> prediction.Units:
    """Tests x sessions of the baseline (side 0) or candidate (1): what shares a night is seen together.

    :param tests: those of one curve lie together and share its jobs.
    :param sessions: columns in their order; default: as they come first.
    """
    order = list(dict.fromkeys(night for test in tests for night in test.nights[side])) if sessions is None else sessions
    parts = []
    for _, group in itertools.groupby(tests, key=lambda test: test.curve):
        curve = list(group)
        jobs = np.stack([test.candidate if side else test.baseline for test in curve])
        parts.append(prediction.by_session(jobs, curve[0].nights[side], order))
    return prediction.stack(parts)


def kinds(tests: Sequence[CurveTest]) -> NDArray[np.int_]:
    """Number of what shares its spreads between sessions: tests of one level in one stratum."""
    number: dict[tuple[int, str], int] = {}
    return np.array([number.setdefault((test.stratum, test.level), len(number)) for test in tests])


def _pad(rows: list[Array]) -> Array:
    width = max(len(row) for row in rows)
    return np.array([np.pad(row, (0, width - len(row)), constant_values=np.nan) for row in rows])


def overall(bands: Iterable[str], metrics: Iterable[str]) -> str:
    """Verdict on a whole comparison: the worst of its bands and, for what is beyond doubt, single metrics.

    A metric that alone is inconclusive does not stop acceptance where its band passes.
    """
    found = set(bands) | ({REGRESSED, MISSING} & set(metrics))
    worst = next((verdict for verdict in ORDER if verdict in found), INCONCLUSIVE)
    return PASS if worst == IMPROVED and PASS in found else worst


def wider_tests(tests: list[CurveTest]) -> scipy.sparse.csr_array:
    """Which windows, bands and curves hold each size.

    :returns: shape (tests, tests): 1 in the row of a wider test, in the columns of the tests of one size that it covers.
    """
    at = {(test.curve, test.places[0]): place for place, test in enumerate(tests) if test.level == SIZE}
    pairs = [(place, at[test.curve, one]) for place, test in enumerate(tests) if test.level != SIZE for one in test.places]
    rows, columns = zip(*pairs, strict=True) if pairs else ((), ())
    return scipy.sparse.csr_array((np.ones(len(pairs)), (rows, columns)), shape=(len(tests), len(tests)))


def margins_of(tests: Sequence[CurveTest]) -> Array:
    return np.array([test.margin for test in tests], dtype=float)


def final_verdicts(results: Results, margins: Array, wider: scipy.sparse.csr_array, policy: Policy) -> NDArray[np.str_]:
    """Verdict of each test, shape as that of the effects; a size that alone is inconclusive goes with its neighbours."""
    own = _own_verdicts(results, margins, policy)
    neighbour_regressed = (own == REGRESSED).astype(float) @ wider > 0
    return np.where(neighbour_regressed & (own == INCONCLUSIVE) & (results.effect > 0), REGRESSED, own)


def combine_verdicts(tests: list[CurveTest], results: Results, policy: Policy) -> list[tuple[str, str]]:
    """Verdict of each test and what else it rests on: a size that alone is inconclusive goes with its neighbours."""
    margins = margins_of(tests)
    own, wider = _own_verdicts(results, margins, policy), wider_tests(tests)
    final = []
    for place, verdict in enumerate(final_verdicts(results, margins, wider, policy)):
        neighbours = np.flatnonzero((own == REGRESSED) * wider[:, [place]].toarray()[:, 0]) if verdict != own[place] else ()
        level = next((tests[wider_place].level for wider_place in neighbours), "")
        final.append((str(verdict), f"with its {level}" if level else ""))
    return final


def _own_verdicts(results: Results, margins: Array, policy: Policy) -> NDArray[np.str_]:
    unknown = ~np.isfinite(results.upper) | (results.count < policy.minimum_repeats)
    real = results.real & (np.abs(results.effect) > margins)
    return np.select(
        [unknown, real & (results.effect > 0), real, results.upper < margins],
        [INCONCLUSIVE, REGRESSED, IMPROVED, PASS],
        INCONCLUSIVE,
    )


def units_to_decide(results: Results, margin: float, place: int, policy: Policy) -> int | None:
    """Units a side that would decide if the effect is what it seems; ``None`` if more repeats in these jobs cannot.

    Against a history these are sessions of the candidate.

    :param margin: of the test, in log.
    """
    effect, against_history = results.effect[place], np.isfinite(results.new[place])
    if against_history and results.count[place] < policy.minimum_repeats:
        return None
    if not np.isfinite(results.variance[place]) or results.count[place] < policy.minimum_repeats:
        return policy.minimum_repeats
    distance = effect if effect > margin else max(margin - effect, margin / 4)
    confidence = 1 - policy.false_discovery_rate if effect > margin else policy.confidence
    # What jobs add is there however often they repeat.
    spread = float(scipy.stats.norm.ppf(confidence) + scipy.stats.norm.ppf(policy.power))
    room = (distance / spread) ** 2 - results.between[place] - (np.nan_to_num(results.doubt[place]) if effect > margin else 0.0)
    if room <= 0:
        return None
    if against_history:  # one more session each time; the history is what it is
        own = results.variance[place] - results.count[place] * results.between[place]
        return int(max(results.new[place] + 1, np.ceil(own / room)))
    return int(max(policy.minimum_repeats, results.count[place] + 1, np.ceil(results.variance[place] / room)))
