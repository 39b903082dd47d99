"""The statistics of all verdicts: functions on arrays, and nothing else.

Values are slowness: natural logarithms of times, or of the inverse of bandwidths and rates. More is
worse, and a difference is a ratio. Rows are metrics; columns are nights (sessions) from the oldest
to the newest, NaN where a night lacks a metric. Four questions:

:func:`tonight`
    is the last night worse than earlier ones? Uses one night; the confirmation run does the rest.
:func:`lasting`
    is the level of the last nights worse than the baseline, and since when? It never expires.
:func:`hold`
    are the candidate's sessions as good as the baseline's?
:func:`compare`, :func:`compare_pairs`
    which of two sides is faster, from repeats, jobs or pairs of them?

Metrics are also judged in groups that may change together (:class:`Rows`): a change of all shows in
their mean before it shows in any one. Answers are enumerated (:class:`RowOutcome`) with numbers:
the effect, and the *limit*, the smallest loss that would have been reported. A row whose limit
exceeds :data:`BLIND` is not judged: it is reported beyond :data:`BLIND_TIMES` its noise, and never
held.

Limits. A night is reported beyond ``c`` deviations. The deviation is the median absolute deviation
of the row's own earlier nights, drawn towards that of its kind (Smyth 2004, Stat. Appl. Genet. Mol.
Biol. 3:3, with :data:`SHRINK` degrees of freedom). ``c`` is a quantile of Student's t. The number
of independent rows and the weight of the tails are estimated from earlier nights, each judged by
those before it (Barber et al. 2021, Ann. Stat. 49:486, in spirit): the median of the nights'
largest deviations gives the first, the ratio of the 97 % to the 50 % deviation the second. Both
ignore the worst tenth of the nights, so that a bad night hides no later one; what a row itself did
in more than one night in fifteen is its nature and widens only its own limit. Every constant was
chosen on simulated noise of ten kinds (``python -m studies.error_rates`` has the rates); none is
tuned to a machine.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.int_]

#: Nights before that a night is compared with, and nights that say how heavy the tails are.
WINDOW = 30
ASKED = 60
#: Nights below which only a gross loss is called, and from which
#: on the nights speak for themselves.
FEWEST = 5
ENOUGH = 10
#: A gross loss: a night twice as slow is one beyond doubt.
GROSS = math.log(1.7)
#: Least loss above which a row is not judged, from :data:`ENOUGH` nights on and below.
BLIND = math.log(1.25)
BLIND_AT_FIRST = math.log(1.4)
#: A row that is not judged is called beyond so many times what noise does.
BLIND_TIMES = 1.25
#: Of nights in which nothing changed, the share that may be called; a third for each kind of row.
RATE = 0.01
#: A relative resolution of printed values (IMB prints two decimals): no spread is smaller.
LEAST_SPREAD = 0.001
#: Standard deviations in the median absolute deviation of a normal distribution; and what the
#: variance of a median is times that of a mean.
MAD = 1.4826
OF_A_MEDIAN = math.pi / 2
#: How much wider the noise of a row of *n* nights is taken to be, as this over *n* squared: the
#: spread of few nights is itself uncertain. Chosen with the noises of ``studies.error_rates``.
OF_FEW = 50.0
#: Degrees of freedom with which a row's spread is drawn towards that of its kind.
SHRINK = 4.0
#: Student's degrees of freedom: as of network noise where it is unknown better, and the most.
USUAL_DF = 6.0
MOST_DF = 8.0
#: Share of the worst nights that say nothing of the tails; how
#: far beyond all others a limit may lie.
LEFT_OUT = 0.1
MOST_BEYOND = 2.0
#: A row's own odd nights are its nature from the (1 + n / this)-th on, times so much.
ODD_NIGHTS = 15
OWN_BEYOND = 1.25
#: Degrees of freedom below which the spread between sessions is unknown.
LEAST_DF = 4
#: Nights of a baseline, of a level, and of a better level until it is the baseline.
BASELINE = 10
LEVEL = 5
RATCHET = 30
#: Nights from which on a level is compared with the baseline: most of the level are new.
FEWEST_LEVEL = BASELINE + LEVEL // 2 + 1
#: A value counts in the mean of a group with so many deviations, or margins, at most.
CLIP_SPREADS = 8.0
CLIP_MARGINS = 2.0


class RowOutcome(enum.Enum):
    """What is known of a row."""

    HELD = "held"
    SLOWER = "slower"
    FASTER = "faster"
    #: A loss would be called beyond :data:`BLIND` only.
    TOO_NOISY = "too noisy"
    #: Fewer than :data:`FEWEST` nights before.
    TOO_FEW = "too few nights"
    ABSENT = "absent"


METRIC = 0
CURVE = 1
WIDE = 2


@dataclass(frozen=True)
class Rows:
    """Metrics and the groups of them that are judged beside.

    :param margins: of each metric in log, shape (metrics,); of a group the mean of its metrics'.
    :param groups: metrics of each group.
    :param kinds: of metrics, then groups: one of :data:`METRIC`, :data:`CURVE`, :data:`WIDE`.
    :param strata: of metrics, then groups, a number for what shares a machine.
    :param place: row of each key given to :func:`rows_of`.
    """

    margins: Array
    groups: tuple[Index, ...]
    kinds: Index
    strata: Index
    place: dict[tuple[object, ...], int] = field(default_factory=dict)

    @property
    def all_margins(self) -> Array:
        means = [float(np.mean(self.margins[group])) for group in self.groups]
        return np.concatenate([self.margins, means])

    def members(self, row: int) -> Index:
        return np.array([row]) if row < len(self.margins) else self.groups[row - len(self.margins)]


def rows_of(
    margins: Array, curves: Sequence[object], bands: Sequence[object], strata: Sequence[object]
) -> Rows:
    """Rows of metrics: a stratum (what shares a machine), its bands of sizes, a curve, its bands.

    :param curves: of each metric its curve, likewise the band of its size and its stratum.
    """
    keys = list(zip(curves, bands, strata, strict=True))
    groups: list[Index] = []
    kinds = [METRIC] * len(keys)
    place: dict[tuple[object, ...], int] = {}
    seen: dict[tuple[int, ...], int] = {}
    for kind, name in (
        (WIDE, lambda curve, band, stratum: ("stratum", stratum)),
        (WIDE, lambda curve, band, stratum: ("stratum", stratum, band)),
        (CURVE, lambda curve, band, stratum: ("curve", curve)),
        (CURVE, lambda curve, band, stratum: ("curve", curve, band)),
    ):
        parts: dict[tuple[object, ...], list[int]] = {}
        for metric, (curve, band, stratum) in enumerate(keys):
            parts.setdefault(name(curve, band, stratum), []).append(metric)
        for part, members in parts.items():
            same = tuple(members)
            if same not in seen and len(members) > 1:
                seen[same] = len(keys) + len(groups)
                groups.append(np.array(members))
                kinds.append(kind)
            elif same not in seen:
                seen[same] = members[0]
                kinds[members[0]] = max(kinds[members[0]], kind)
            place[part] = seen[same]
    numbers = {stratum: number for number, stratum in enumerate(dict.fromkeys(strata))}
    own = [numbers[stratum] for stratum in strata]
    own += [own[group[0]] for group in groups]
    return Rows(
        np.asarray(margins, dtype=float),
        tuple(groups),
        np.array(kinds, dtype=int),
        np.array(own, dtype=int),
        place,
    )


@dataclass(frozen=True)
class Verdicts:
    """What is known of each row, shape (rows,) each; effects and limits in log.

    :param effect: of the last night, the level or the candidate, against what it is compared with.
    :param limit: the least loss that would be called; infinite where none would be.
    :param outcome: :class:`RowOutcome` of each row, as objects; of
        a metric with those of its groups.
    :param count: nights it is compared with.
    :param with_group: row of the group with which alone a metric is called, else -1.
    :param low: of the 95 % interval of the effect, likewise ``high``, and ``p`` of no effect.
    :param upper: one-sided confidence limit of the effect.
    :param spread: standard deviation of a night, with ``df`` degrees of freedom.
    :param since: column of the first night of a level that is called, else -1.
    """

    effect: Array
    limit: Array
    outcome: NDArray[np.object_]
    count: Index
    with_group: Index
    low: Array = field(default_factory=lambda: np.empty(0))
    high: Array = field(default_factory=lambda: np.empty(0))
    upper: Array = field(default_factory=lambda: np.empty(0))
    p: Array = field(default_factory=lambda: np.empty(0))
    spread: Array = field(default_factory=lambda: np.empty(0))
    df: Array = field(default_factory=lambda: np.empty(0))
    since: Index = field(default_factory=lambda: np.empty(0, dtype=int))

    def of(self, outcome: RowOutcome) -> Mask:
        return self.outcome == outcome


# -- rows and their spreads ----------------------------------------------------------------------


def medians(values: Array) -> Array:
    """Median of the known values along the last axis; NaN if there is none."""
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    ordered = np.sort(values, axis=-1)  # NaN last
    count = np.sum(~np.isnan(values), axis=-1)
    middle = [
        np.take_along_axis(ordered, place[..., None], -1)[..., 0]
        for place in (np.maximum(count - 1, 0) // 2, np.minimum(count // 2, values.shape[-1] - 1))
    ]
    return np.where(count > 0, (middle[0] + middle[1]) / 2, np.nan)


def _quantile(values: Array, share: float) -> Array:
    """Quantile of the known values of each row; NaN if there is none."""
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    ordered = np.sort(values, axis=-1)
    place = np.floor(share * np.maximum(np.sum(~np.isnan(values), axis=-1) - 1, 0) + 0.5)
    return np.take_along_axis(ordered, place.astype(int)[..., None], -1)[..., 0]


def _deviations(values: Array, centre: Array) -> Array:
    return MAD * medians(np.abs(values - centre[..., None]))


def _with_groups(values: Array, rows: Rows) -> Array:
    """The metrics, then the mean of each group about its metrics' medians.

    No value counts with more than a bound, so that one odd value of one metric moves no group.
    """
    if not rows.groups:
        return values
    centre = medians(values)
    away = values - centre[:, None]
    spread = np.maximum(_deviations(values, centre), LEAST_SPREAD)
    margins = np.where(np.isfinite(rows.margins), rows.margins, 0.05)
    bound = np.fmax(CLIP_SPREADS * spread, CLIP_MARGINS * margins)[:, None]
    away = np.clip(away, -bound, bound)
    known = ~np.isnan(away)
    filled = np.where(known, away, 0.0)
    means = []
    for group in rows.groups:
        count = known[group].sum(axis=0)
        mean = filled[group].sum(axis=0) / np.maximum(count, 1)
        means.append(np.where(count >= max(1, len(group) / 2), mean, np.nan))
    return np.vstack([values, means])


def _whole(effect: Array, rows: Rows) -> Array:
    """Effects with those of groups as large as their metrics' mean.

    A group is judged by values that count with a bound at most; what is said of it is all of it.
    """
    whole = effect.copy()
    for place, group in enumerate(rows.groups, len(rows.margins)):
        members = effect[group][~np.isnan(effect[group])]
        mean = float(members.mean()) if len(members) else math.nan
        if mean * effect[place] > 0 and abs(mean) > abs(effect[place]):
            whole[place] = mean
    return whole


def _shrunk(spread: Array, count: Array, rows: Rows) -> Array:
    """Each row's spread, drawn in log towards the median of its kind in its stratum."""
    logs = np.log(np.fmax(spread, LEAST_SPREAD))
    drawn = logs.copy()
    for stratum, kind in {*zip(rows.strata.tolist(), rows.kinds.tolist(), strict=True)}:
        own = (rows.strata == stratum) & (rows.kinds == kind)
        typical = medians(np.moveaxis(np.where(count[own] > 1, logs[own], np.nan), 0, -1))
        weight = np.maximum(count[own], 1)
        mean = (SHRINK * typical + weight * logs[own]) / (SHRINK + weight)
        drawn[own] = np.where(np.isfinite(mean), mean, logs[own])
    return np.exp(drawn)


def _newest_last(values: Array) -> tuple[Array, Index]:
    """Known values of each row moved to its end in their order, and the columns they come from."""
    columns = np.argsort(~np.isnan(values), axis=1, kind="stable")
    return np.take_along_axis(values, columns, 1), columns


def _windows(values: Array, width: int) -> Array:
    """Of each column the columns up to it, shape (rows, columns, width), NaN before the first."""
    padded = np.concatenate([np.full((len(values), width - 1), np.nan), values], axis=1)
    return np.lib.stride_tricks.sliding_window_view(padded, width, axis=1)


# -- one night -----------------------------------------------------------------------------------


@cache
def _tails() -> tuple[Array, Array]:
    """Degrees of freedom, and the ratio of the 97 % to the 50 % deviation with each, ascending."""
    dfs = np.array([30.0, 12.0, 8.0, 6.0, 5.0, 4.0, 3.5, 3.0, 2.5, 2.0])
    return dfs, scipy.stats.t.ppf(0.985, dfs) / scipy.stats.t.ppf(0.75, dfs)


def _times(past: Array, rows: int) -> float:
    """Deviations beyond which one of some rows lies in a third of :data:`RATE` of the nights.

    :param past: deviations of earlier nights, each judged by those before it, (rows, nights).
    """
    rate = RATE / 3
    independent = float(rows)
    df = USUAL_DF
    most = math.inf
    largest = np.max(np.where(np.isnan(past), -np.inf, past), axis=0, initial=-np.inf)
    nights = np.isfinite(largest)
    if nights.sum() >= ENOUGH:
        below = scipy.stats.t.cdf(float(np.median(largest[nights])), USUAL_DF)
        independent = min(max(math.log(0.5) / math.log(min(below, 0.999999)), 1.0), rows)
        worst = np.sort(largest[nights])[-math.ceil(LEFT_OUT * nights.sum())]
        kept = past[:, nights & (largest < worst)]
        sizes = np.abs(kept[np.isfinite(kept)])
        if len(sizes) >= 40:
            ratio = np.quantile(sizes, 0.97) / max(float(np.quantile(sizes, 0.5)), 1e-9)
            dfs, ratios = _tails()
            df = min(float(np.interp(ratio, ratios, dfs)), MOST_DF)
            most = max(
                MOST_BEYOND * float(np.max(kept[np.isfinite(kept)])),
                scipy.stats.t.ppf(1 - rate / independent, MOST_DF),
            )
    return float(min(scipy.stats.t.ppf(1 - rate / independent, df), most))


@dataclass(frozen=True)
class _Usual:
    """What the nights before say of the last one, shape (rows,) each.

    :param noise: how far it may lie from its centre by noise.
    """

    centre: Array
    noise: Array
    count: Index
    now: Array


def _usual(values: Array, rows: Rows, spread: Array | None = None) -> _Usual:
    """Centre and noise of the last column from those before it.

    :param spread: of rows with fewer than :data:`ENOUGH` nights, where it is known otherwise.
    """
    if values.shape[1] < 2:  # nothing before
        values = np.hstack([np.full((len(values), 1), np.nan), values])
    now = values[:, -1]
    aligned = np.where(np.isnan(values[:, -1:]), np.nan, values)
    aligned, _ = _newest_last(aligned)
    first = max(1, aligned.shape[1] - 1 - ASKED)
    before = _windows(aligned, WINDOW)[:, first - 1 : -1]
    nights = aligned[:, first:]
    centre = medians(before)
    count = np.sum(~np.isnan(before), axis=-1)
    scale = _shrunk(_deviations(before, centre), count, rows)
    away = np.where(count >= FEWEST, (nights - centre) / scale, np.nan)[:, :-1]
    last_centre = centre[:, -1]
    last_scale = scale[:, -1]
    last_count = count[:, -1]
    if spread is not None:
        last_scale = np.where(last_count < ENOUGH, spread, last_scale)
    noise = np.full(len(values), np.inf)
    for kind in np.unique(rows.kinds):
        own = np.flatnonzero((rows.kinds == kind) & np.isfinite(now) & (last_count > 0))
        if not len(own):
            continue
        few = np.maximum(last_count[own], FEWEST)
        uncertain = np.sqrt(1 + OF_A_MEDIAN / few) * (1 + OF_FEW / few**2)
        times = _times(away[own], len(own)) * uncertain
        odd = np.sort(np.where(np.isnan(away[own]), -np.inf, away[own])[:, -WINDOW:], axis=1)
        if odd.shape[1]:
            kept = np.where(few < ENOUGH, 1, 1 + np.ceil(few / ODD_NIGHTS)).astype(int)
            place = np.maximum(odd.shape[1] - kept, 0)[:, None]
            times = np.fmax(times, OWN_BEYOND * np.take_along_axis(odd, place, 1)[:, 0])
        noise[own] = times * last_scale[own]
    # Values of few digits differ by no less than one: where many are alike, that is no loss.
    steps = np.diff(np.sort(before[:, -1], axis=1), axis=1)
    steps[~(steps > 1e-9)] = np.nan
    alike = np.sum(~np.isnan(steps), axis=1) < last_count / 2
    digit = np.min(np.where(np.isnan(steps), np.inf, steps), axis=1)
    noise = np.where(alike & np.isfinite(digit), np.fmax(noise, 1.5 * digit), noise)
    # A level that has become better is what a night is compared with, from its third night on.
    recent = before[:, -1, -LEVEL:]
    level = medians(recent)
    better = (np.sum(~np.isnan(recent), axis=1) >= 3) & (
        level < last_centre - np.fmax(noise, rows.all_margins) / 2
    )
    return _Usual(np.where(better, level, last_centre), noise, last_count, now)


def _outcomes(effect: Array, noise: Array, margins: Array, count: Index, rows: Rows) -> Verdicts:
    """Verdicts from effects and noise; metrics beyond their margin are called with their group."""
    blind = noise > np.where(count < ENOUGH, BLIND_AT_FIRST, BLIND)
    limit = np.maximum(np.where(blind & (count >= FEWEST), BLIND_TIMES * noise, noise), margins)
    limit = np.where(count < FEWEST, np.maximum(limit, GROSS), limit)
    with np.errstate(invalid="ignore"):
        slower = effect > limit
        faster = -effect > limit
    metrics = len(rows.margins)
    outcome = np.full(len(effect), RowOutcome.HELD, dtype=object)
    outcome[blind] = RowOutcome.TOO_NOISY
    outcome[count < FEWEST] = RowOutcome.TOO_FEW
    outcome[slower] = RowOutcome.SLOWER
    outcome[faster] = RowOutcome.FASTER
    outcome[~np.isfinite(effect)] = RowOutcome.ABSENT
    with_group = np.full(len(effect), -1)
    for place, group in enumerate(rows.groups, metrics):
        for way, sign in ((RowOutcome.SLOWER, 1), (RowOutcome.FASTER, -1)):
            if outcome[place] is way:
                beyond = (sign * effect[group] > margins[group]) & (outcome[group] != way)
                with_group[group[beyond]] = place
                outcome[group[beyond]] = way
    return Verdicts(effect, limit, outcome, count, with_group)


def tonight(values: Array, rows: Rows) -> Verdicts:
    """The last night against earlier nights.

    :param values: shape (metrics, nights).
    """
    margins = rows.all_margins
    usual = _usual(_with_groups(values, rows), rows)
    judged = _outcomes(usual.now - usual.centre, usual.noise, margins, usual.count, rows)
    return replace(judged, effect=_whole(judged.effect, rows))


# -- levels --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Accepted:
    """An accepted level.

    :param metrics: which it is of.
    :param night: column of its first night.
    :param slower: how much slower than before each metric is at most, in log, shape (metrics,).
    """

    metrics: Mask
    night: int
    slower: Array


def lasting(values: Array, rows: Rows, accepted: Sequence[Accepted] = ()) -> Verdicts:
    """Compare the level of the last nights with the baseline.

    The baseline of a row is the median of its first :data:`BASELINE` nights; a level that was
    better by more than the limit for :data:`RATCHET` nights replaces it. Nights before an accepted
    level are shifted to it, by no more than what was accepted. A level is the median of
    :data:`LEVEL` nights, so a loss is reported from its third night. Its noise is that of
    neighbouring nights or, if larger (as under slow changes of load), that of levels some nights
    apart; it is taken about their median, so that a creeping loss is not noise.
    """
    values = values.copy()
    for level in sorted(accepted, key=lambda level: level.night):
        before = values[level.metrics, : level.night]
        since = values[level.metrics, level.night :]
        if before.shape[1] and since.shape[1]:
            old = _baseline(_newest_last(before)[0], rows.margins[level.metrics])
            new = medians(_first(_newest_last(since)[0]))
            shift = np.nan_to_num(np.minimum(new - old, level.slower[level.metrics]))
            values[level.metrics, : level.night] += shift[:, None]
    aligned, columns = _newest_last(_with_groups(values, rows))
    count = np.sum(~np.isnan(aligned), axis=1)
    levels = np.where(np.isnan(_windows(aligned, LEVEL)).any(axis=-1), np.nan, 0.0)
    levels = levels + medians(_windows(aligned, LEVEL))
    enough = count >= FEWEST_LEVEL
    margins = rows.all_margins
    limit = np.full(len(aligned), np.inf)
    noise = _noise_of_levels(aligned, levels, count, rows)
    for kind in np.unique(rows.kinds):
        own = np.flatnonzero((rows.kinds == kind) & enough)
        if len(own):
            times = scipy.stats.t.ppf(1 - RATE / 3 / len(own), 15)
            limit[own] = times * noise[own] * (1 + 10 / count[own])
    base = _baseline(aligned, np.maximum(limit, margins))
    effect = np.where(enough, medians(aligned[:, -LEVEL:]) - base, np.nan)
    found = _outcomes(effect, limit, margins, np.where(enough, count, 0), rows)
    outcome = found.outcome
    outcome[(outcome == RowOutcome.ABSENT) & (count > 0)] = RowOutcome.TOO_FEW
    # What a night left out to fit its budget comes again; what was
    # not measured for a month is gone.
    outcome[: len(values)][np.isnan(values[:, -RATCHET:]).all(axis=1)] = RowOutcome.ABSENT
    return Verdicts(
        effect=effect,
        limit=found.limit,
        outcome=outcome,
        count=count,
        with_group=found.with_group,
        since=_first_nights(aligned, base, effect, columns),
    )


def _first(aligned: Array) -> Array:
    """The first nights of each row, shape (rows, :data:`BASELINE`).

    :param aligned: known values at the end of each row.
    """
    width = aligned.shape[1]
    places = np.sum(np.isnan(aligned), axis=1)[:, None] + np.arange(BASELINE)
    first = np.take_along_axis(aligned, np.minimum(places, width - 1), 1)
    return np.where(places < width, first, np.nan)


def _baseline(aligned: Array, better: Array) -> Array:
    """The median of a row's first nights, or of a better level that lasted.

    :param better: by how much that level must be better, in log.
    """
    base = medians(_first(aligned))
    if aligned.shape[1] < RATCHET:
        return base
    held = _windows(aligned, RATCHET)[:, RATCHET - 1 :]
    best = np.where(np.isnan(held).any(axis=-1), np.inf, medians(held)).min(axis=1)
    return np.where(best < base - better, best, base)


def _noise_of_levels(aligned: Array, levels: Array, count: Index, rows: Rows) -> Array:
    """Deviation of a level from a baseline where nothing changed."""
    steps = np.diff(aligned[:, -ASKED:], axis=1)
    away = np.abs(steps - medians(steps)[:, None])
    neighbours = _quantile(away, 0.8) / scipy.special.ndtri(0.9) / math.sqrt(2)
    first = _first(aligned)
    at_first = _deviations(first, medians(first))
    night = np.fmax(np.fmin(at_first, 2 * neighbours), neighbours) * math.sqrt(OF_A_MEDIAN / LEVEL)
    for apart, fewest in ((LEVEL, 4 * LEVEL), (2 * LEVEL, 16 * LEVEL)):
        if levels.shape[1] > apart:
            changes = levels[:, apart:] - levels[:, :-apart]
            away = np.abs(changes - medians(changes)[:, None])
            # The quieter third of them: steps are no noise, however many there were.
            wander = _quantile(away, 0.3) / scipy.special.ndtri(0.65) / math.sqrt(2)
            night = np.where(count >= fewest, np.fmax(night, np.nan_to_num(wander)), night)
    return _shrunk(night, count / 2, rows) * math.sqrt(1 + LEVEL / BASELINE)


def _first_nights(aligned: Array, base: Array, effect: Array, columns: Index) -> Index:
    """Column of the first night of the level that lasts: from it on, nights are nearer to it."""
    middle = medians(_windows(aligned, 3))
    with np.errstate(invalid="ignore"):
        away = (middle - base[:, None]) * np.sign(effect)[:, None]
        before = ~(away > np.abs(effect)[:, None] / 2)
    width = aligned.shape[1]
    last = width - 1 - np.argmax(before[:, ::-1], axis=1)
    place = np.where(before.any(axis=1), np.minimum(last, width - 1), 0)
    found: Index = np.take_along_axis(columns, place[:, None], 1)[:, 0]
    return found


# -- a candidate against a baseline --------------------------------------------------------------


def hold(
    before: Array, after: Array, rows: Rows, least: Array, confidence: float = 0.95
) -> Verdicts:
    """Compare a candidate's sessions with a baseline's.

    A row is slower if both the mean and the better half of the candidate's sessions exceed the
    limit, so one disturbed session of several refuses nothing. With fewer than three sessions, what
    is not judged is not reported either. An interval is Student's, of the mean, with the row's
    spread between sessions; below :data:`LEAST_DF` degrees of freedom, ``least`` replaces the
    missing ones.

    :param before: slowness, shape (metrics, sessions); likewise ``after``.
    :param least: spread between sessions where they are too few to know it, in log, (metrics,).
    :param confidence: of the intervals.
    """
    sessions = before.shape[1]
    both = _with_groups(np.hstack([before, after]), rows)
    old = both[:, :sessions]
    new = both[:, sessions:]
    margins = rows.all_margins
    known = np.concatenate([least, [float(np.mean(least[group])) for group in rows.groups]])
    count, fresh = (np.sum(~np.isnan(side), axis=1) for side in (old, new))
    with np.errstate(invalid="ignore", divide="ignore"):
        locations = [
            np.nansum(side, axis=1) / np.sum(~np.isnan(side), axis=1) for side in (old, new)
        ]
        squares, others = (
            np.nansum((side - location[:, None]) ** 2, axis=1)
            for side, location in zip((old, new), locations, strict=True)
        )
        few = count < ENOUGH
        df = np.maximum(count - 1, 0) + np.where(few, np.maximum(fresh - 1, 0), 0)
        lacking = np.maximum(LEAST_DF - df, 0)
        variance = (squares + np.where(few, others, 0) + lacking * known**2) / (df + lacking)
        spread = _shrunk(np.sqrt(variance), np.maximum(df + lacking, 2), rows)
        error = spread * np.sqrt(1 / fresh + 1 / count) * _dependence(old, fresh)
        effect = locations[1] - locations[0]
    reach, bound = (
        scipy.special.stdtrit(df + lacking, level) * error
        for level in (0.5 + confidence / 2, confidence)
    )
    whole = _whole(effect, rows)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = 2 * scipy.special.stdtr(df + lacking, -np.abs(whole) / error)
    # As one night of the baseline, with what several sessions know more.
    place = np.maximum(np.sum(~np.isnan(after), axis=1) - 1, 0) // 2
    better = np.take_along_axis(np.sort(after, axis=1), place[:, None], 1)
    usual = _usual(_with_groups(np.hstack([before, better]), rows), rows, spread)
    with np.errstate(invalid="ignore", divide="ignore"):
        half = (fresh + 1) // 2
        more = np.sqrt((1 / half + 1 / count) / (1 + 1 / count))
        together = np.maximum(count + fresh - 1, 1)
        fewness = np.maximum(count, FEWEST)
        more *= (1 + 50 / np.maximum(together, FEWEST) ** 2) / (1 + 50 / fewness**2)
        noise = np.where(np.isfinite(usual.noise), usual.noise * more, np.inf)
        noise = np.where((fresh < 3) & (noise > BLIND_AT_FIRST), np.inf, noise)
        lesser = np.sign(effect) * np.fmin(np.abs(effect), np.abs(usual.now - usual.centre))
        agree = np.sign(effect) == np.sign(usual.now - usual.centre)
    judged = _outcomes(
        np.where(np.isnan(effect), np.nan, np.where(agree, lesser, 0.0)),
        noise,
        margins,
        np.where(together > 1, np.maximum(together, FEWEST), together),
        rows,
    )
    return Verdicts(
        effect=whole,
        limit=judged.limit,
        outcome=judged.outcome,
        count=count,
        with_group=judged.with_group,
        low=whole - reach,
        high=whole + reach,
        # Where sessions are too few to know their spread, nothing is shown to be equal.
        upper=np.where(lacking > 0, np.inf, np.fmax(effect, whole) + bound),
        p=np.where(np.isfinite(p), p, 1.0),
        spread=spread,
        df=df + lacking,
    )


def _dependence(old: Array, fresh: Index) -> Array:
    """Factor on the error of a mean of neighbouring sessions that resemble one another.

    With the correlation of neighbours (Bartlett 1935, doi:10.2307/2342284), the median of all rows,
    where it is more than chance.
    """
    sessions = old.shape[1]
    if sessions < WINDOW / 2:
        return np.ones(len(old))
    away = np.nan_to_num(old - medians(old)[:, None])
    squares = np.maximum((away**2).sum(axis=1), 1e-12)
    neighbours = float(np.median((away[:, 1:] * away[:, :-1]).sum(axis=1) / squares)) + 1 / sessions
    if neighbours < 1 / math.sqrt(sessions):
        return np.ones(len(old))
    neighbours = min(neighbours, 0.9)
    return np.where(fresh > 1, math.sqrt((1 + neighbours) / (1 - neighbours)), 1.0)


def sessions_wanted(judged: Verdicts, row: int, margin: float) -> int | None:
    """Sessions of the candidate that would probably decide a
    row; ``None``: more than 20, or never.
    """
    effect, count, spread = (
        float(column[row]) for column in (judged.effect, judged.count, judged.spread)
    )
    if not (math.isfinite(effect) and math.isfinite(spread) and count):
        return None
    beyond = effect > margin
    level, needed = (1 - RATE / 3, effect) if beyond else (0.95, margin - effect)
    for sessions in range(1, 21):
        df = count - 1 + (sessions - 1 if count < ENOUGH else 0)
        error = spread * math.sqrt(1 / sessions + 1 / count)
        if df >= LEAST_DF and float(scipy.stats.t.ppf(level, df)) * error < needed:
            return sessions
    return None


# -- two sides -----------------------------------------------------------------------------------

#: Share of values truncated at each end; one of five.
TRIM = 0.2
#: What neighbours may add to a spread's own degrees of freedom, and what each counts in an
#: interval: repeats of one job share disturbances. On recorded noise nominal 95 % intervals of 3, 5
#: and 10 repeats held the truth in 93.1 to 95.0 %.
MOST_BORROWED = 4.0
BORROWED_WORTH = 0.7


@dataclass(frozen=True)
class SideValues:
    """What one side says about each metric.

    :param location: trimmed mean of the logarithms, shape (metrics,).
    :param variance: variance of a single unit that goes with it (winsorised, rescaled).
    :param df: its degrees of freedom; 0 where there are fewer than 2 units.
    :param count: units.
    """

    location: Array
    variance: Array
    df: Array
    count: Array

    def squared_error(self) -> Array:
        """Squared standard error of the location: variance of a unit / units."""
        return self.variance / np.maximum(self.count, 1)


@dataclass(frozen=True)
class Effects:
    """Effect of each metric in log: candidate against baseline.

    :param error: its standard error, with ``df`` degrees of freedom.
    :param unit_variance: sum of both sides' variances of a unit.
    """

    effect: Array
    error: Array
    df: Array
    unit_variance: Array

    def interval(self, confidence: float) -> tuple[Array, Array]:
        """Two-sided interval of the effect in log."""
        reach = scipy.special.stdtrit(self.df, 0.5 + confidence / 2) * self.error
        return self.effect - reach, self.effect + reach

    def p_values(self) -> Array:
        """Two-sided p-value of no effect; 1 where nothing can be said."""
        with np.errstate(invalid="ignore", divide="ignore"):
            p = 2 * scipy.special.stdtr(self.df, -np.abs(self.effect) / self.error)
        return np.where(np.isfinite(p), p, 1.0)


def describe(logs: Array) -> SideValues:
    """20 % trimmed mean and winsorised variance of each row (Yuen 1974, Biometrika 61:165).

    :param logs: logarithms, shape (metrics, units), NaN where a unit has no value.
    """
    ordered = np.sort(logs, axis=1)  # NaN last
    count = np.sum(~np.isnan(ordered), axis=1)
    cut = np.floor(TRIM * count).astype(int)
    kept = count - 2 * cut
    column = np.arange(logs.shape[1])[None, :]
    inside = (column >= cut[:, None]) & (column < (count - cut)[:, None])
    safe = np.where(np.isnan(ordered), 0.0, ordered)
    with np.errstate(invalid="ignore", divide="ignore"):
        location = np.where(inside, safe, 0.0).sum(axis=1) / kept
        rows = np.arange(len(ordered))
        low = safe[rows, np.minimum(cut, logs.shape[1] - 1)]
        high = safe[rows, np.maximum(count - cut - 1, 0)]
        clipped = np.clip(safe, low[:, None], high[:, None])
        present = column < count[:, None]
        mean = np.where(present, clipped, 0.0).sum(axis=1) / count
        squares = np.where(present, (clipped - mean[:, None]) ** 2, 0.0).sum(axis=1)
        # Yuen: error² of the trimmed mean is SSD_winsorised / (h (h - 1)); times n it is per unit.
        variance = squares * count / (kept * (kept - 1))
    enough = kept > 1
    return SideValues(
        np.where(count > 0, location, np.nan),
        np.where(enough, variance, np.nan),
        np.where(enough, kept - 1, 0).astype(float),
        count.astype(float),
    )


def moderate(*sides: SideValues) -> list[SideValues]:
    """Each row's variance drawn towards the common one of all rows and sides.

    With the degrees of freedom and value of the scaled inverse chi-square that the variances come
    from, by moments of their logarithms (Smyth 2004, section 6.2); with fewer than three nothing is
    borrowed. Borrowed degrees of freedom count :data:`BORROWED_WORTH`.
    """
    variance = np.maximum(np.concatenate([side.variance for side in sides]), LEAST_SPREAD**2)
    df = np.concatenate([side.df for side in sides])
    use = (df > 0) & np.isfinite(variance)
    borrowed = 0.0
    common = 0.0
    if use.sum() >= 3:
        half = df[use] / 2
        centred = np.log(variance[use]) - scipy.special.digamma(half) + np.log(half)
        excess = float(np.var(centred, ddof=1) - np.mean(scipy.special.polygamma(1, half)))
        borrowed = MOST_BORROWED
        if excess > 0:
            borrowed = min(borrowed, 2 * _inverse_trigamma(excess))
        mean = float(np.mean(centred))
        common = math.exp(
            mean + float(scipy.special.digamma(borrowed / 2)) - math.log(borrowed / 2)
        )
    drawn = []
    for side in sides:
        own = np.maximum(np.where(side.df > 0, side.variance, 0.0), LEAST_SPREAD**2)
        if borrowed:
            own = (borrowed * common + side.df * own) / (borrowed + side.df)
        drawn.append(
            SideValues(side.location, own, side.df + BORROWED_WORTH * borrowed, side.count)
        )
    return drawn


def _inverse_trigamma(value: float) -> float:
    """x with trigamma(x) = value; the trigamma function is Hurwitz's zeta(2, x)."""
    value = min(max(value, 1e-6), 1e6)
    return float(
        scipy.optimize.brentq(lambda x: float(scipy.special.zeta(2.0, x)) - value, 1e-4, 1e7)
    )


def compare(baseline: Array, candidate: Array, between: Array | float = 0.0) -> Effects:
    """Welch's statistic with Satterthwaite's degrees of freedom.

    :param baseline: logarithms, shape (metrics, units); likewise ``candidate``.
    :param between: variance (log²) of the difference that jobs add and their repeats do not show.
    """
    one, two = moderate(describe(baseline), describe(candidate))
    errors = one.squared_error(), two.squared_error()
    total = errors[0] + errors[1] + between
    with np.errstate(invalid="ignore", divide="ignore"):
        df = total**2 / (errors[0] ** 2 / one.df + errors[1] ** 2 / two.df)
    df = np.where((one.df > 0) & (two.df > 0), np.minimum(df, 1e6), np.nan)
    effect = two.location - one.location
    return Effects(effect, np.sqrt(total), df, one.variance + two.variance)


def compare_pairs(differences: Array) -> Effects:
    """Effects from paired units (interleaved A B A B in one job): rows of log(B) - log(A)."""
    [side] = moderate(describe(differences))
    df = np.where(side.df > 0, side.df, np.nan)
    return Effects(side.location, np.sqrt(side.squared_error()), df, side.variance)


def discoveries(p_values: Array, rate: float) -> Mask:
    """Which p-values are called, so that at most ``rate`` of the calls are expected to be none.

    Benjamini and Hochberg 1995. Each set before the last axis is judged by itself.
    """
    if not p_values.size:
        return np.zeros(p_values.shape, dtype=bool)
    return scipy.stats.false_discovery_control(p_values, axis=-1) <= rate
