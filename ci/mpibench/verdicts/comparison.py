"""Verdicts on two sides of the same metrics: pass, regressed, improved, inconclusive, missing.

A metric, and each band of a curve, is tested against the site's margin (:mod:`policy`):

regressed
    the change for the worse is real (false discovery rate over everything tested) and, as estimated, beyond the margin;
improved
    likewise for the better; counts as accepted;
pass
    shown to be equal or better: the one-sided upper confidence limit of the change is within the margin (non-inferiority);
inconclusive
    neither; with the number of units a side that would probably decide;
missing
    the baseline has it, the candidate does not; not accepted.

Neighbouring sizes are judged together: beside each size, every window of three neighbours, every band and the whole curve
are tested on the units' own means, so that disturbances the sizes of one repeat share count once. Where one of these is
regressed, its sizes that are not shown to be equal are regressed with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import stats

from reframe_tests.harness.vocabulary import LOWER

from ..results.session_values import CURVE, METRIC, Selection, slowness
from ..results.sessions import PAIRED
from . import statistics
from . import zeros as verdict_zeros
from .policy import Policy
from .statistics import Array
from .words import ABSENT, IMPROVED, INCONCLUSIVE, MISSING, PASS, REGRESSED

ORDER = (REGRESSED, MISSING, INCONCLUSIVE, IMPROVED, PASS)
#: Jobs a side needs before jobs, and not repeats, are the units.
ENOUGH_JOBS = 3
#: Neighbours in a window.
WINDOW = 3
SIZE, NEIGHBOURS, BAND, WHOLE = "size", "window", "band", "curve"
REPEATS, JOBS, PAIRS = "repeats", "jobs", "pairs"


@dataclass(frozen=True)
class Test:
    """One comparison: some sizes of one curve.

    :param places: indices of its sizes in the curve.
    :param baseline: unit means in log, worse is more; likewise ``candidate``.
    :param between: log² variance of the difference that jobs add and repeats do not show.

    With :data:`PAIRS` as units both arrays hold the same repeats of the same jobs, in the same order.
    """

    curve: int
    level: str
    places: tuple[int, ...]
    units: str
    baseline: Array
    candidate: Array
    between: float


@dataclass(frozen=True)
class Judgement:
    """All verdicts on one comparison.

    :param metrics: one row per metric of either side's baseline: :data:`METRIC`, ``band``, values, ``ratio`` with
        ``low`` and ``high`` (candidate / baseline, in the quantity's own direction), ``verdict``, ``needed``, ``why``.
    :param bands: the same per curve and band, without values.
    :param new: metrics only the candidate has.
    :param unjudged: metrics both have that the policy gives no margin.
    """

    metrics: pl.DataFrame
    bands: pl.DataFrame
    new: pl.DataFrame
    unjudged: int = 0

    @property
    def verdict(self) -> str:
        """Overall: the worst of bands and, for what is beyond doubt, single metrics.

        A metric that alone is inconclusive does not stop acceptance where its band passes.
        """
        found = set(self.bands["verdict"]) | ({REGRESSED, MISSING} & set(self.metrics["verdict"]))
        worst = next((one for one in ORDER if one in found), INCONCLUSIVE)
        return PASS if worst == IMPROVED and PASS in found else worst

    def counts(self) -> dict[str, int]:
        """Metrics per verdict."""
        return {verdict: self.metrics.filter(pl.col("verdict") == verdict).height for verdict in ORDER}


def judge(baseline: Selection, candidate: Selection, policy: Policy, *, paired: bool = False) -> Judgement:
    """Compare two selections metric by metric.

    :param paired: where both were interleaved in the same jobs, repeats are compared pair by pair.
    """
    sides = [_sized(side.values) for side in (baseline, candidate)]
    measured = [side.measured for side in (baseline, candidate)]
    metrics = [side.select(METRIC).unique() for side in measured]
    common = metrics[0].join(metrics[1], on=METRIC, how="semi", nulls_equal=True)
    margined = common.filter(_judged(common, policy))
    zeros = verdict_zeros.judge(margined, measured, policy)
    both = margined.join(zeros, on=METRIC, how="anti", nulls_equal=True)
    curves = both.select(CURVE).unique(maintain_order=True).sort(CURVE)
    directions = sides[0].select(*CURVE, "direction", "unit").unique(subset=list(CURVE))
    curves = curves.join(directions, on=CURVE, how="left", nulls_equal=True, maintain_order="left")
    parts = [_by_curve(side.join(both, on=METRIC, how="semi", nulls_equal=True)) for side in sides]
    tests: list[Test] = []
    points: list[list[int | None]] = []
    for number, key in enumerate(curves.select(CURVE).iter_rows()):
        sizes, found = _tests(number, parts[0][key], parts[1][key], policy, paired)
        points.append(sizes)
        tests += found
    results = evaluate(tests, policy)
    rows, bands = _rows(curves, points, tests, results, policy)
    absent = metrics[0].join(metrics[1], on=METRIC, how="anti", nulls_equal=True)
    new = metrics[1].join(metrics[0], on=METRIC, how="anti", nulls_equal=True)
    table = _with_values(pl.concat([rows, zeros], how="diagonal_relaxed"), measured)
    return Judgement(
        _with_missing(table, absent, candidate, policy),
        _bands_with_missing(bands, absent, policy),
        new,
        common.height - margined.height,
    )


def _judged(metrics: pl.DataFrame, policy: Policy) -> pl.Series:
    """Which metrics have a margin."""
    points = zip(metrics["quantity"], metrics["message_bytes"], strict=True)
    return pl.Series([policy.judges(quantity, policy.band(size)) for quantity, size in points], dtype=pl.Boolean)


def _sized(values: pl.DataFrame) -> pl.DataFrame:
    return values.with_columns(slowness(values))


def _by_curve(values: pl.DataFrame) -> dict[tuple[object, ...], pl.DataFrame]:
    return dict(values.partition_by(CURVE, as_dict=True))


def _matrix(values: pl.DataFrame, sizes: list[int | None], unit: pl.Expr) -> Array:
    """Slowness, shape (sizes, units): median of what belongs to one unit, in the order in which they come."""
    table = values.select(
        place=pl.col("message_bytes").fill_null(-1),
        unit=unit,
        slowness="slowness",
    )
    wide = table.pivot(on="unit", index="place", values="slowness", aggregate_function="median")
    order = pl.DataFrame({"place": [-1 if size is None else size for size in sizes]}, schema={"place": pl.Int64})
    return order.join(wide, on="place", how="left", maintain_order="left").drop("place").to_numpy().astype(float)


#: A job, and a repeat of a job: the same for both stacks that were interleaved in it.
_JOB_OF_BOTH = pl.col("case").str.strip_suffix(PAIRED)
_REPEAT = pl.concat_str(_JOB_OF_BOTH, pl.lit("#"), pl.col("repeat"))


def _tests(
    number: int, one: pl.DataFrame, two: pl.DataFrame, policy: Policy, paired: bool
) -> tuple[list[int | None], list[Test]]:
    """All comparisons of one curve."""
    sizes = sorted(one["message_bytes"].unique().to_list(), key=lambda size: -1 if size is None else size)
    if paired:
        jobs_of_both = set(one["case"].str.strip_suffix(PAIRED)) & set(two["case"].str.strip_suffix(PAIRED))
        unit = _JOB_OF_BOTH if len(jobs_of_both) >= ENOUGH_JOBS else _REPEAT
        named = [side.with_columns(pair=unit) for side in (one, two)]
        on = ["pair", "message_bytes"]
        both = [a.join(b, on=on, how="semi", nulls_equal=True).sort("pair") for a, b in (named, named[::-1])]
        if both[0]["pair"].n_unique() >= policy.minimum_repeats:
            left, right = (_matrix(side, sizes, pl.col("pair")) for side in both)
            return sizes, tests_of_curve(number, sizes, left, right, policy, units=PAIRS)
    jobs = one["case"].n_unique(), two["case"].n_unique()
    units = JOBS if min(jobs) >= ENOUGH_JOBS else REPEATS
    between = 0.0 if units == JOBS else (policy.between_jobs_percent / 100) ** 2 * (1 / jobs[0] + 1 / jobs[1])
    left, right = (_matrix(side, sizes, pl.col("case") if units == JOBS else _REPEAT) for side in (one, two))
    return sizes, tests_of_curve(number, sizes, left, right, policy, units=units, between=between)


def tests_of_curve(
    number: int,
    sizes: list[int | None],
    left: Array,
    right: Array,
    policy: Policy,
    *,
    units: str = REPEATS,
    between: float = 0.0,
) -> list[Test]:
    """All comparisons of one curve.

    :param number: of the curve; kept in the tests.
    :param left: slowness of the baseline in log, shape (sizes, units); ``right`` of the candidate.
    """
    centre = np.nanmedian(left, axis=1, keepdims=True)
    left, right = left - centre, right - centre
    return [
        Test(number, level, places, units, left[list(places)].mean(axis=0), right[list(places)].mean(axis=0), between)
        for level, places in _levels(sizes, policy)
    ]


def _levels(sizes: list[int | None], policy: Policy) -> Iterator[tuple[str, tuple[int, ...]]]:
    count = len(sizes)
    for place in range(count):
        yield SIZE, (place,)
    if count > WINDOW:
        for place in range(count - WINDOW + 1):
            yield NEIGHBOURS, tuple(range(place, place + WINDOW))
    for band in policy.bands_bytes:
        if places := tuple(place for place, size in enumerate(sizes) if policy.band(size) == band):
            yield BAND, places
    yield WHOLE, tuple(range(count))


@dataclass(frozen=True)
class Results:
    """Statistics of all tests, aligned with them; in log."""

    effect: Array
    low: Array
    high: Array
    upper: Array
    p: Array
    real: np.ndarray
    variance: Array
    between: Array
    count: Array


def evaluate(tests: list[Test], policy: Policy) -> Results:
    """Effects of all tests; spreads are moderated among tests of one level and kind of unit."""
    total = len(tests)
    columns = {name: np.full(total, np.nan) for name in ("effect", "low", "high", "upper", "p", "variance", "count")}
    between = np.array([test.between for test in tests])
    for level in (SIZE, NEIGHBOURS, BAND, WHOLE):
        for units in (REPEATS, JOBS, PAIRS):
            chosen = [place for place, test in enumerate(tests) if test.level == level and test.units == units]
            if not chosen:
                continue
            left, right = (_pad([getattr(tests[place], side) for place in chosen]) for side in ("baseline", "candidate"))
            if units == PAIRS:
                effects = statistics.compare_pairs(right - left)
            else:
                effects = statistics.compare(left, right, between[chosen])
            columns["effect"][chosen] = effects.effect
            columns["low"][chosen], columns["high"][chosen] = effects.interval(policy.confidence)
            columns["upper"][chosen] = effects.interval(2 * policy.confidence - 1)[1]
            columns["p"][chosen] = effects.p_values()
            columns["variance"][chosen] = effects.unit_variance
            columns["count"][chosen] = np.minimum((~np.isnan(left)).sum(axis=1), (~np.isnan(right)).sum(axis=1))
    real = statistics.discoveries(columns["p"], policy.false_discovery_rate)
    return Results(real=real, between=between, **columns)


def _pad(rows: list[Array]) -> Array:
    width = max(len(row) for row in rows)
    return np.array([np.pad(row, (0, width - len(row)), constant_values=np.nan) for row in rows])


def margin_in_log(policy: Policy, quantity: str, band: str, direction: str) -> float:
    """Margin as a positive change for the worse in log."""
    margin = policy.margin(quantity, band)
    return float(np.log1p(margin) if direction == LOWER else -np.log1p(-min(margin, 0.99)))


def _rows(
    curves: pl.DataFrame, points: list[list[int | None]], tests: list[Test], results: Results, policy: Policy
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Verdicts per metric and per band."""
    described = curves.to_dicts()
    margins = np.zeros(len(tests))
    for place, test in enumerate(tests):
        curve = described[test.curve]
        inside = {policy.band(points[test.curve][one]) for one in test.places}
        margins[place] = max(margin_in_log(policy, curve["quantity"], band, curve["direction"]) for band in inside)
    final = combine_verdicts(tests, results, margins, policy)
    rows, bands = [], []
    for place, test in enumerate(tests):
        if test.level not in (SIZE, BAND):
            continue
        curve, sizes = described[test.curve], points[test.curve]
        verdict, why = final[place]
        needed = _needed(results, margins, place, policy) if verdict == INCONCLUSIVE else None
        row = {
            **{name: curve[name] for name in CURVE},
            "band": policy.band(sizes[test.places[0]]),
            **_shown(results, place, curve["direction"]),
            "margin_percent": 100
            * float(np.expm1(margins[place]) if curve["direction"] == LOWER else -np.expm1(-margins[place])),
            "verdict": verdict,
            "units": test.units,
            "needed": needed,
            "why": why,
        }
        if test.level == SIZE:
            rows.append({**row, "message_bytes": sizes[test.places[0]]})
        else:
            bands.append({**row, "sizes": len(test.places)})
    return _frame(rows, {"message_bytes": pl.Int64}), _frame(bands, {"sizes": pl.Int64})


#: Columns of both tables that are computed here.
_COMPUTED: Mapping[str, type[pl.DataType]] = {
    **dict.fromkeys(("ratio", "low", "high", "slower", "p", "spread_percent", "margin_percent"), pl.Float64),
    "verdict": pl.String,
    "units": pl.String,
    "needed": pl.Int64,
    "why": pl.String,
}


def _frame(rows: list[dict[str, object]], more: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    whole: dict[str, type[pl.DataType]] = {"nodes": pl.Int32, "ppn": pl.Int32, "ranks": pl.Int32, "groups": pl.Int32}
    condition = {name: whole.get(name, pl.String) for name in CURVE}
    return pl.DataFrame(rows, schema={**condition, "band": pl.String, **_COMPUTED, **more}, orient="row")


def combine_verdicts(tests: list[Test], results: Results, margins: Array, policy: Policy) -> list[tuple[str, str]]:
    """Verdict of each test and what else it rests on: a size that alone is inconclusive goes with its neighbours."""
    own = _own_verdicts(results, margins, policy)
    wider: dict[tuple[int, int], str] = {}
    for place, test in enumerate(tests):
        if test.level != SIZE and own[place] == REGRESSED:
            for one in test.places:
                wider.setdefault((test.curve, one), test.level)
    final = []
    for place, test in enumerate(tests):
        beside = wider.get((test.curve, test.places[0])) if test.level == SIZE else None
        if beside and own[place] == INCONCLUSIVE and results.effect[place] > 0:
            final.append((REGRESSED, f"with its {beside}"))
        else:
            final.append((own[place], ""))
    return final


def _own_verdicts(results: Results, margins: Array, policy: Policy) -> list[str]:
    found = []
    for place, margin in enumerate(margins):
        effect, upper = results.effect[place], results.upper[place]
        if not np.isfinite(upper) or results.count[place] < policy.minimum_repeats:
            found.append(INCONCLUSIVE)
        elif results.real[place] and abs(effect) > margin:
            found.append(REGRESSED if effect > 0 else IMPROVED)
        else:
            found.append(PASS if upper < margin else INCONCLUSIVE)
    return found


def _needed(results: Results, margins: Array, place: int, policy: Policy) -> int | None:
    """Units a side that would decide if the effect is what it seems; ``None`` if more repeats in these jobs cannot."""
    effect, margin = results.effect[place], margins[place]
    if results.count[place] < policy.minimum_repeats or not np.isfinite(results.variance[place]):
        return policy.minimum_repeats
    distance = effect if effect > margin else max(margin - effect, margin / 4)
    confidence = 1 - policy.false_discovery_rate if effect > margin else policy.confidence
    # What jobs add is there however often they repeat.
    spread = float(stats.norm.ppf(confidence) + stats.norm.ppf(policy.power))
    room = (distance / spread) ** 2 - results.between[place]
    if room <= 0:
        return None
    return int(max(policy.minimum_repeats, results.count[place] + 1, np.ceil(results.variance[place] / room)))


def _shown(results: Results, place: int, direction: str) -> dict[str, float | None]:
    """Effect as the ratio of values, candidate / baseline, with its interval; ``slower`` is the change for the worse.

    ``None`` where too few units say nothing.
    """
    sign = 1.0 if direction == LOWER else -1.0
    ends = sorted(np.exp(sign * np.array([results.low[place], results.high[place]])))
    shown = {
        "ratio": float(np.exp(sign * results.effect[place])),
        "low": float(ends[0]),
        "high": float(ends[1]),
        "slower": float(np.expm1(results.effect[place])),
        "p": float(results.p[place]),
        "spread_percent": 100 * float(np.sqrt(results.variance[place] / 2)),
    }
    return {name: value if np.isfinite(value) else None for name, value in shown.items()}


def _with_values(rows: pl.DataFrame, sides: list[pl.DataFrame]) -> pl.DataFrame:
    """Medians, numbers of repeats and jobs of both sides beside each metric."""
    for name, side in zip(("baseline", "candidate"), sides, strict=True):
        summary = side.group_by(METRIC).agg(
            pl.col("unit").first().alias(f"unit_{name}"),
            pl.col("value").median().alias(name),
            pl.len().alias(f"{name}_repeats"),
            pl.col("case").n_unique().alias(f"{name}_jobs"),
        )
        rows = rows.join(summary, on=METRIC, how="left", nulls_equal=True, maintain_order="left")
    return rows.rename({"unit_baseline": "unit"}).drop("unit_candidate")


def _with_missing(table: pl.DataFrame, absent: pl.DataFrame, candidate: Selection, policy: Policy) -> pl.DataFrame:
    """Metrics the candidate lacks, with what is known about why."""
    if not absent.height:
        return table
    bands = [policy.band(size) for size in absent["message_bytes"]]
    keys = ("partition", "stack", "fabric", "nodes", "ppn", "pinning")
    planned = {
        tuple(row[key] for key in keys): row["reason"] for row in candidate.planned.to_dicts() if row["result"] != "pass"
    }
    whys = [_why_missing(planned.get(row)) for row in absent.select(keys).iter_rows()]
    more = absent.with_columns(band=pl.Series(bands), verdict=pl.lit(MISSING), why=pl.Series(whys))
    return pl.concat([table, more], how="diagonal_relaxed").sort(METRIC)


def _why_missing(reason: str | None) -> str:
    return ABSENT if reason is None else f"the candidate's case failed: {reason.splitlines()[0] if reason else ''}"


def _bands_with_missing(bands: pl.DataFrame, absent: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """A band any metric of which is missing is missing."""
    if not absent.height:
        return bands
    lacking = absent.with_columns(band=pl.Series([policy.band(size) for size in absent["message_bytes"]]))
    lacking = lacking.group_by(*CURVE, "band").agg(lacks=pl.len())
    joined = bands.join(lacking, on=[*CURVE, "band"], how="full", coalesce=True, nulls_equal=True)
    short = pl.col("lacks").is_not_null() & (pl.col("verdict").fill_null("") != REGRESSED)
    why = pl.format("{} sizes missing", pl.col("lacks"))
    return joined.with_columns(
        verdict=pl.when(short).then(pl.lit(MISSING)).otherwise(pl.col("verdict")),
        why=pl.when(short).then(why).otherwise(pl.col("why")),
    ).drop("lacks")
