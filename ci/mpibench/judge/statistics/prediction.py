"""One session against a history of sessions: is it one more of the same?

Repeats of a job are no sample of the machine; jobs are, and jobs of one night share the night. So a unit is a session, with
one value per metric: the mean over its jobs of each job's own robust location. Everything is in natural logarithms; rows are
metrics (or bands, or curves: any linear summary), columns are sessions, NaN where a session has no value.

spread between sessions
    each row's variance over the history, moderated over rows of one kind by empirical Bayes (Smyth 2004, Stat. Appl. Genet.
    Mol. Biol. 3:3; ``squeezeVar`` of limma). Rows share the disturbances of their sessions, so that many rows are worth few:
    what is borrowed counts no more than the independent rows behind it (:func:`effective_rows`);
prediction
    of the mean of ``k`` new sessions from ``n`` old ones the error is s sqrt(1/k + 1/n), with Student's t (Hahn and Meeker
    1991, Statistical Intervals, section 4.8);
one decision for all rows
    false discovery rate (Benjamini and Hochberg 1995). Where nothing has changed every call is a false one, so that the rate
    is the probability that anything is called in a session. It holds for independent rows, and under positive dependence as
    disturbances of a whole session make it (Simes 1986; Benjamini and Yekutieli 2001, Ann. Stat. 29:1165, theorem 1.2). With
    fewer than :data:`FEWEST_CALIBRATED` sessions their procedure for any dependence is used (theorem 1.3);
calibration
    Student's tails and that dependence are assumptions, and the history is asked whether they hold: each of its sessions is
    left out and judged, all rows with their common disturbances, by the others; errors are widened until the most unusual one
    is as unusual as the most unusual of so many is expected to be (:func:`widening`). This is the joint resampling of Westfall
    and Young (1993, Resampling-Based Multiple Testing, "minP") with sessions as what is exchanged, and leave-one-out
    prediction (Barber, Candes, Ramdas and Tibshirani 2021, Ann. Stat. 49:486: at most twice the nominal rate for exchangeable
    sessions whatever their distribution, and about the nominal one in practice). It bounds the rate by itself with 99 sessions
    or more; with n of them it bounds it at about 1 / (n + 1), and below that Student's tail is what there is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from .two_sides import LEAST_SPREAD, Array, Effects, prior

#: Fewest sessions of a history: below, a spread between sessions is a guess.
FEWEST_SESSIONS = 5
#: Fewest sessions that judge one another; each is then judged by at least as many as a history needs.
FEWEST_CALIBRATED = FEWEST_SESSIONS + 1
#: Bound of the borrowed degrees of freedom, where rows differ in spread no more than chance makes them: as good as infinite.
MOST_BORROWED = 1000.0
#: Degrees of freedom with which a session is called at most: few rows are as tame far out, where many of them are judged, as
#: a normal distribution, and a short history does not show its tail. Of sessions with a common and an own disturbance, each of
#: Student's t with 3, 6.0, 4.5, 2.0 and 0.5 % are called with all, 14, 8 and 5 and a history of 5 sessions (200 tried), and
#: with one of 15 at most 0.5 %; of normal noise 0 %.
MOST_TRUSTED = 6.0
#: Share of unchanged candidates, of normal noise, whose sessions are taken to differ more than the history's.
DIFFER_BY_CHANCE = 0.01
#: Factor by which errors are widened at most, and how finely the factor is searched.
MOST_WIDENED, WIDENING_STEPS = 64.0, 8
#: Multiplications of one matrix product at most.
MOST_MULTIPLIED = 200_000


@dataclass(frozen=True)
class Units:
    """Values of rows in sessions.

    :param values: mean over each session's jobs, shape (rows, sessions), NaN where there is none.
    :param jobs: numbers of jobs behind them, same shape.
    :param within: variance of a job within its session, pooled over the sessions that have several, shape (rows,); NaN where
        none has.
    """

    values: Array
    jobs: Array
    within: Array

    @property
    def count(self) -> Array:
        """Sessions with a value, per row."""
        return np.sum(~np.isnan(self.values), axis=1).astype(float)

    @property
    def jobs_a_session(self) -> Array:
        """Harmonic mean of the jobs of a session, per row: what a variance of session means is made of."""
        present = ~np.isnan(self.values)
        inverse = np.where(present, 1 / np.maximum(self.jobs, 1), 0).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return present.sum(axis=1) / inverse


@dataclass(frozen=True)
class Baseline:
    """What a history says of each row.

    :param units: its sessions.
    :param location: mean over sessions, shape (rows,).
    :param variance: moderated variance of a session, shape (rows,); NaN below two sessions.
    :param df: its degrees of freedom, own and borrowed.
    :param borrowed: of these, the borrowed ones.
    :param common: the variance drawn towards.
    """

    units: Units
    location: Array
    variance: Array
    df: Array
    borrowed: Array
    common: Array


def by_session(jobs: Array, sessions: Sequence[object], columns: Sequence[object] | None = None) -> Units:
    """Session means of jobs.

    :param jobs: one value per row and job, shape (rows, jobs), NaN where a job has none.
    :param sessions: session of each job.
    :param columns: sessions of the result in their order; default: as they come first.
    """
    order = list(dict.fromkeys(sessions)) if columns is None else list(columns)
    place = {session: number for number, session in enumerate(order)}
    member = np.zeros((len(sessions), len(order)))
    member[np.arange(len(sessions)), [place[session] for session in sessions]] = 1
    present = ~np.isnan(jobs)
    filled = np.where(present, jobs, 0.0)
    count = present @ member
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(count > 0, (filled @ member) / count, np.nan)
        residuals = np.where(present, filled - np.nan_to_num(means) @ member.T, 0.0)
        within = (residuals**2).sum(axis=1) / np.maximum(count - 1, 0).sum(axis=1)
    return Units(means, count, np.where(np.isfinite(within), within, np.nan))


def stack(parts: Sequence[Units]) -> Units:
    """Rows of several tables over the same sessions, one below the other."""
    return Units(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "jobs", "within")))


def effective_rows(values: Array) -> float:
    """How many independent rows the spreads of these rows are worth, between 1 and their number.

    The pooled variance of m rows with correlations r has as many degrees of freedom as m² / sum(r²) independent ones, as the
    covariance of two sample variances is proportional to r² (for normal values). The excess of r² by chance, about 1 / df,
    is taken off. Rows without a spread, or with too few common sessions, do not count.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        centred = values - np.nansum(values, axis=1, keepdims=True) / np.sum(~np.isnan(values), axis=1, keepdims=True)
        scaled = centred / np.sqrt(np.nansum(centred**2, axis=1, keepdims=True))
    scaled = np.where(np.isfinite(scaled), scaled, 0.0)
    scaled = scaled[(scaled != 0).any(axis=1)]
    rows, sessions = scaled.shape
    if rows < 2 or sessions < 3:
        return 1.0
    # Sum of squared correlations of all pairs, by way of the smaller of the two products.
    squares = float((_inner(scaled) ** 2).sum()) - rows
    mean = squares / (rows * (rows - 1))
    chance = 1 / (sessions - 1)
    true = min(max((mean - chance) / (1 - chance), 0.0), 1.0)
    return rows / (1 + (rows - 1) * true)


def _inner(values: Array) -> Array:
    """``values.T @ values`` in parts of rows, each too small to be worth a BLAS's threads.

    These spin while they wait for one another: of 1,000 rows and 30 columns the whole product took 8.6 ms of processors, and
    the parts 0.2 ms (OpenBLAS 0.3.30 on two cores that were busy).
    """
    rows, columns = values.shape
    size = max(MOST_MULTIPLIED // columns**2, 1)
    total = np.zeros((columns, columns))
    for first in range(0, rows, size):
        part = values[first : first + size]
        total += np.matmul(part.T, part)
    return total


def squeeze(variance: Array, df: Array, independent: float) -> tuple[Array, Array, float, float]:
    """Moderate variances of rows of one kind.

    :param variance: of each row, shape (rows,), NaN where it has none.
    :param df: its degrees of freedom.
    :param independent: rows they are worth (:func:`effective_rows`).
    :returns: moderated variances, degrees of freedom, those borrowed, and the common variance (NaN: nothing is borrowed).
    """
    own = np.where(df > 0, np.maximum(np.where(np.isfinite(variance), variance, 0.0), LEAST_SPREAD**2), np.nan)
    borrowed, common = prior(variance, df, MOST_BORROWED)
    typical = float(np.median(df[df > 0])) if (df > 0).any() else 0.0
    borrowed = min(borrowed, typical * (independent - 1))
    if borrowed <= 0 or not math.isfinite(common):
        return own, df, 0.0, math.nan
    with np.errstate(invalid="ignore"):
        return (borrowed * common + df * own) / (borrowed + df), np.where(df > 0, df + borrowed, 0.0), borrowed, common


def learn(history: Units, kinds: NDArray[np.int_]) -> Baseline:
    """Locations and spreads of a history.

    :param kinds: of each row, an integer per kind; spreads are moderated among rows of one kind and never between them.
    """
    values, count = history.values, history.count
    with np.errstate(invalid="ignore", divide="ignore"):
        location = np.where(count > 0, np.nansum(values, axis=1) / count, np.nan)
        squares = np.nansum((values - location[:, None]) ** 2, axis=1)
        variance = np.where(count > 1, squares / (count - 1), np.nan)
    df = np.maximum(count - 1, 0.0)
    borrowed, common = np.zeros(len(values)), np.full(len(values), np.nan)
    for kind in np.unique(kinds):
        rows = kinds == kind
        variance[rows], df[rows], borrowed[rows], common[rows] = squeeze(variance[rows], df[rows], effective_rows(values[rows]))
    return Baseline(history, location, variance, df, borrowed, common)


def predict(baseline: Baseline, candidate: Units) -> Effects:
    """Mean of the new sessions against what was to be expected of it.

    A session of fewer jobs than the history's has more of their spread: what the history knows of it is added. New sessions
    that differ from one another by more than the history's do by chance (F test, :data:`DIFFER_BY_CHANCE`) have the spread they
    show, with Satterthwaite's degrees of freedom: an odd session among them says that there are some.
    """
    new = candidate.count
    with np.errstate(invalid="ignore", divide="ignore"):
        location = np.where(new > 0, np.nansum(candidate.values, axis=1) / new, np.nan)
        fewer = np.maximum(1 / candidate.jobs_a_session - 1 / baseline.units.jobs_a_session, 0.0)
        own = baseline.variance + np.where(np.isfinite(baseline.units.within), fewer * baseline.units.within, 0.0)
        squares = np.nansum((candidate.values - location[:, None]) ** 2, axis=1)
        shown = squares / (new - 1)
        differ = (new > 1) & (scipy.special.fdtrc(new - 1, baseline.df, shown / own) < DIFFER_BY_CHANCE)
        own = np.where(differ, shown, own)
        one, two = own / new, baseline.variance / baseline.units.count
        error = np.sqrt(one + two)
        welch = (one + two) ** 2 / (one**2 / (new - 1) + two**2 / baseline.df)
    known = (baseline.df > 0) & (new > 0)
    df = np.where(known, np.where(differ, welch, baseline.df), np.nan)
    return Effects(location - baseline.location, np.where(known, error, np.nan), df, own + baseline.variance)


def reach(history: Units, confidence: float) -> Array:
    """How far one more session may lie from a history, however short: half the width of its prediction interval, in log.

    Rows of a history of fewer than two sessions have none (NaN). All rows count as of one kind.
    """
    baseline = learn(history, np.zeros(len(history.values), dtype=int))
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(baseline.variance * (1 + 1 / history.count))
    df = np.where(baseline.df > 0, baseline.df, np.nan)
    return scipy.stats.t.ppf(0.5 + confidence / 2, df) * error


def left_out(baseline: Baseline) -> tuple[Array, Array]:
    """Each session of the history judged by the others.

    :returns: Student's t, shape (rows, sessions), NaN where a session has no value or the others no spread; and the degrees of
        freedom, shape (rows, 1).
    """
    values, count = baseline.units.values, baseline.units.count[:, None]
    own = count - 2
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(values, axis=1, keepdims=True) / count
        squares = np.nansum((values - mean) ** 2, axis=1, keepdims=True)
        # Mean and sum of squares of the others, in closed form.
        distance = (values - mean) * count / (count - 1)
        others = np.maximum(squares - (values - mean) ** 2 * count / (count - 1), 0.0) / own
        others = np.maximum(others, LEAST_SPREAD**2)
        borrowed, common = baseline.borrowed[:, None], np.nan_to_num(baseline.common)[:, None]
        variance = (borrowed * common + own * others) / (borrowed + own)
        t = distance / np.sqrt(variance * (1 + 1 / (count - 1)))
    return np.where(own > 0, t, np.nan), np.maximum(own, 0) + borrowed


def smallest_adjusted(p_values: Array, rows: int | None = None) -> float:
    """Simes' p-value of "nothing has changed": the least adjusted p-value of Benjamini and Hochberg; 1 for no rows.

    :param rows: how many there are in all, where these are the least p-values of them.
    """
    known = np.sort(p_values[np.isfinite(p_values)])
    count = len(known) if rows is None else rows
    return float(np.min(known * count / np.arange(1, len(known) + 1))) if len(known) else 1.0


def widening(baseline: Baseline, rate: float) -> float:
    """Factor on all errors, at least 1, with which the history's own sessions are as unusual as they should be.

    Of n sessions one is expected to have a p-value of 1 / (n + 1) or less. So none may have less than that; where n is so
    large that some are expected below the rate, one fewer than so many may. A baseline of fewer than
    :data:`FEWEST_CALIBRATED` sessions is not asked.
    """
    t, df = left_out(baseline)
    sessions = np.flatnonzero(np.isfinite(t).any(axis=0))
    count = len(sessions)
    if count < FEWEST_CALIBRATED:
        return 1.0
    rank = max(1, math.floor(rate * (count + 1) + 1e-9))
    wanted = max(rate, 1 / (count + 1))
    sizes, df = np.abs(t[:, sessions]), np.minimum(df, MOST_TRUSTED)
    p = 2 * scipy.special.stdtr(df, -sizes)
    # Wider errors make p-values larger, and adjusting them too: those that are not below what is wanted never will be.
    below, rows = p < wanted, np.isfinite(p).sum(axis=0)
    columns = [(sizes[column, place], df[column, 0], int(rows[place])) for place, column in enumerate(below.T) if column.any()]

    def holds(factor: float) -> bool:
        least = (smallest_adjusted(2 * scipy.special.stdtr(df, -size / factor), count) for size, df, count in columns)
        return sum(value < wanted for value in least) < rank

    low = high = 1.0
    while not holds(high):
        if high >= MOST_WIDENED:
            return MOST_WIDENED
        low, high = high, 2 * high
    for _ in range(WIDENING_STEPS if high > 1 else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def trusted(effects: Effects, factor: float = 1.0) -> Effects:
    """The effects as they are judged: errors widened by a factor, :data:`MOST_TRUSTED` in the tails."""
    return Effects(effects.effect, effects.error * factor, np.minimum(effects.df, MOST_TRUSTED), effects.unit_variance)


def called(p: Array, rate: float, sessions: int) -> NDArray[np.bool_]:
    """Rows that are called; where nothing has changed none is, but in ``rate`` of all sessions.

    :param p: shape (..., rows); each candidate before the last axis is judged by itself.
    :param sessions: of the history; with few of them the procedure that holds under any dependence is used.
    """
    if not p.size:
        return np.zeros(p.shape, dtype=bool)
    method = "bh" if sessions >= FEWEST_CALIBRATED else "by"
    return scipy.stats.false_discovery_control(p, axis=-1, method=method) <= rate
