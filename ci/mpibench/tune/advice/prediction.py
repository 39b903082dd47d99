"""The time a profile's calls would take with one choice, with an interval, and whether two choices differ.

A unit is one repeat of one job. Each gives one time of the whole profile: counts times times of calls, so that what disturbs
all sizes of a repeat alike is counted once. Benchmarks of different jobs (point-to-point, collectives) are added, their errors
as independent ones.

location of a job
    20 % trimmed mean of the logarithms of its repeats (:mod:`mpibench.judge.statistics.two_sides`), spreads moderated over all
    choices;
error
    with :data:`ENOUGH_JOBS` jobs or more that between them. With fewer, repeats do not show how much jobs differ: to the
    error of the repeats ``between_jobs_percent`` is added, and at least ``between_jobs_times_repeats`` times what repeats
    differ by (the policy of the system, as for its verdicts);
interval
    Student's t with Satterthwaite's degrees of freedom, at the policy's confidence. It is that of the measured curves: that an
    application is not a benchmark is no part of it (``answer.limits``);
difference
    of each choice from the fastest, at a family-wise error of 1 - confidence (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from ...judge.statistics import two_sides
from ...judge.statistics.two_sides import Array
from ...judge.verdicts.policy import Policy
from ..profiles import Profile
from .coverage import Coverage, Term, sends
from .curves import Choice, Curves, Unit
from .sources import RECEIVES, SENDS, CallBenchmark

#: Jobs that show how much jobs differ.
ENOUGH_JOBS = 3


@dataclass(frozen=True)
class PredictedTime:
    """Time in communication per rank, of the calls that are covered.

    :param seconds: mean over ranks; ``low``, ``high``: its interval, ``nan`` where there are too few repeats.
    :param error: of its logarithm; ``df``: degrees of freedom.
    :param by_call: seconds of each call.
    :param differs: from the fastest; ``False`` also where nobody can tell.
    :param over_best: times as long as the fastest; 1 for that one.
    """

    choice: Choice
    seconds: float
    low: float
    high: float
    error: float
    df: float
    by_call: Mapping[str, float]
    differs: bool = False
    over_best: float = 1.0


@dataclass(frozen=True)
class _Part:
    """Times of the whole profile by one group of benchmarks, in us: of each job, one a repeat."""

    jobs: tuple[Array, ...]


def predict(
    profile: Profile, curves: Curves, covered: Mapping[Choice, Coverage], common: frozenset[int], policy: Policy
) -> tuple[list[PredictedTime], dict[Choice, str]]:
    """Predictions of all choices, the fastest first, and why some have none.

    :param covered: of each choice.
    :param common: rows of the profile that all of them cover.
    """
    parts, refused = dict[Choice, list[_Part]](), dict[Choice, str]()
    for choice, one in covered.items():
        terms = _with_receives(profile, [one.terms[at] for at in sorted(common)])
        found = _parts(curves, choice, terms)
        if any(not part.jobs for part in found) or not found:
            refused[choice] = "no repeat of any job has all the sizes that are needed"
        else:
            parts[choice] = found
    rows = [(choice, at, job) for choice, found in parts.items() for at, part in enumerate(found) for job in part.jobs]
    sides = _describe([job for *_, job in rows])
    places: dict[tuple[Choice, int], list[int]] = {}
    for place, (choice, at, _) in enumerate(rows):
        places.setdefault((choice, at), []).append(place)
    predictions = []
    for choice, found in parts.items():
        combined = [_combine(sides, places[choice, at], policy) for at in range(len(found))]
        by_call = _by_call(profile, curves, choice, [covered[choice].terms[at] for at in sorted(common)])
        predictions.append(_prediction(choice, combined, by_call, profile.ranks, policy))
    return _ranked(predictions, policy), refused


def _with_receives(profile: Profile, terms: list[Term]) -> list[Term]:
    """Sends count once more for each blocking receive, in which a rank waits for one of them."""
    receives = sum(one.count for one in profile.calls if one.call in RECEIVES)
    whole = sends(profile, range(len(profile.calls)))
    factor = 1 + receives / whole if whole else 1.0
    return [replace(term, count=term.count * factor) if profile.calls[term.at].call in SENDS else term for term in terms]


def _parts(curves: Curves, choice: Choice, terms: Sequence[Term]) -> list[_Part]:
    by_curve: dict[tuple[CallBenchmark, int], dict[int, float]] = {}
    for term in terms:
        rows = by_curve.setdefault((term.source, term.ranks), {})
        for row, part in term.weights.items():
            rows[row] = rows.get(row, 0.0) + part * term.count
    groups: dict[str, list[dict[Unit, float]]] = {}
    for (source, ranks), rows in by_curve.items():
        curve = curves.find(choice, source, ranks)
        assert curve is not None, "it is covered"
        weights = np.array([rows[row] for row in sorted(rows)])
        totals = weights @ curve.times[sorted(rows)]
        units = {unit: float(total) for unit, total in zip(curve.units, totals, strict=True) if math.isfinite(total)}
        groups.setdefault(source.group, []).append(units)
    parts = []
    for measured in groups.values():
        shared = set.intersection(*map(set, measured))
        # Curves of one group that no job has together are those of different jobs.
        together = [{unit: sum(one[unit] for one in measured) for unit in shared}] if shared else measured
        parts += [_Part(_jobs(units)) for units in together]
    return parts


def _jobs(units: Mapping[Unit, float]) -> tuple[Array, ...]:
    jobs: dict[str, list[float]] = {}
    for (case, _), value in sorted(units.items()):
        jobs.setdefault(case, []).append(value)
    return tuple(np.array(values) for values in jobs.values())


def _describe(jobs: Sequence[Array]) -> two_sides.Side:
    table = np.full((len(jobs), max((len(job) for job in jobs), default=1)), np.nan)
    for row, job in enumerate(jobs):
        table[row, : len(job)] = np.log(job)
    side = two_sides.describe(table)
    return two_sides.moderate(side, *two_sides.prior(side.variance, side.df))


def _combine(sides: two_sides.Side, places: Sequence[int], policy: Policy) -> tuple[float, float, float]:
    """Logarithm of the time, its squared error and degrees of freedom."""
    locations, variance, df = (column[list(places)] for column in (sides.location, sides.variance, sides.df))
    jobs = len(places)
    if jobs >= ENOUGH_JOBS:
        between = max(float(np.var(locations, ddof=1)), two_sides.LEAST_SPREAD**2)
        return float(np.mean(locations)), between / jobs, jobs - 1.0
    repeats = float(np.mean(sides.squared_error()[list(places)]))
    least = policy.between_jobs_times_repeats**2 * float(np.mean(variance))
    between = max((policy.between_jobs_percent / 100) ** 2, least)
    return float(np.mean(locations)), (between + repeats) / jobs, float(np.sum(df)) if np.all(df > 0) else math.nan


def _prediction(
    choice: Choice, parts: Iterable[tuple[float, float, float]], by_call: Mapping[str, float], ranks: int, policy: Policy
) -> PredictedTime:
    rows = [(math.exp(location), error, df) for location, error, df in parts]
    total = sum(time for time, *_ in rows)
    errors = [(time / total) ** 2 * error for time, error, _ in rows]
    squared = sum(errors)
    below = sum(error**2 / df for error, (*_, df) in zip(errors, rows, strict=True))
    df = squared**2 / below if below > 0 else math.nan
    reach = float(scipy.special.stdtrit(df, 0.5 + policy.confidence / 2)) * math.sqrt(squared)
    seconds = total * 1e-6 / ranks
    low, high = seconds * math.exp(-reach), seconds * math.exp(reach)
    return PredictedTime(choice, seconds, low, high, math.sqrt(squared), df, by_call)


def _by_call(profile: Profile, curves: Curves, choice: Choice, terms: Sequence[Term]) -> dict[str, float]:
    """Seconds per rank of each call, of median times."""
    found: dict[str, float] = {}
    for term in _with_receives(profile, list(terms)):
        curve = curves.find(choice, term.source, term.ranks)
        assert curve is not None, "it is covered"
        medians = np.nanmedian(curve.times[list(term.weights)], axis=1)
        name = profile.calls[term.at].name
        time = float(np.dot(medians, list(term.weights.values()))) * term.count * 1e-6 / profile.ranks
        found[name] = found.get(name, 0.0) + time
    return dict(sorted(found.items(), key=lambda row: -row[1]))


def _ranked(predictions: Sequence[PredictedTime], policy: Policy) -> list[PredictedTime]:
    """The fastest first, each with whether it differs from that."""
    order = sorted(predictions, key=lambda one: one.seconds)
    if not order:
        return []
    best, tests = order[0], max(len(order) - 1, 1)
    found = [best]
    for one in order[1:]:
        error, df = math.hypot(best.error, one.error), _welch(best, one)
        effect = math.log(one.seconds / best.seconds)
        p = 2 * float(scipy.special.stdtr(df, -effect / error)) if error > 0 and math.isfinite(df) else math.nan
        found.append(replace(one, differs=p < (1 - policy.confidence) / tests, over_best=math.exp(effect)))
    return found


def _welch(one: PredictedTime, other: PredictedTime) -> float:
    squares = (one.error**2, other.error**2)
    return sum(squares) ** 2 / (squares[0] ** 2 / one.df + squares[1] ** 2 / other.df)
