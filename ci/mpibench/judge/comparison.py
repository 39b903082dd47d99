"""Verdicts on two sides of the same metrics: pass, regressed, improved, inconclusive, missing.

All statistics are :mod:`.engine`'s; here are its questions, and its answers as tables.

regressed
    worse beyond the margin and beyond the limit that noise sets (``seen_percent``), or beyond the
    margin together with a curve, a band or all of a fabric that is;
improved
    likewise for the better; counts as accepted;
pass
    of a candidate: the one-sided upper confidence limit of the change is within the margin
    (non-inferiority). Of a night: it was judged, and is neither;
inconclusive
    neither; of a candidate with the sessions that would probably decide,
    of a night what kept it from being judged;
missing
    the baseline has it, the candidate does not; not accepted.

Where a bandwidth or rate is zero there is no ratio, and nothing is worse. Benchmarks print two
decimals, so that a zero is less than 0.005 MB/s. On the candidate's side it is a regression; on the
baseline's side it is no ground to compare with, since anything would be better.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from reframe_tests.harness.vocabulary import LOWER

from ..store import eligibility
from ..store.quantity_text import LESS_IS_BETTER, change_text, own_loss, slowness_of
from ..store.session_values import (
    BAND,
    CONDITION,
    CURVE,
    METRIC,
    Selection,
    among,
    beside,
    not_among,
    slowness,
)
from ..store.sessions import PAIRED
from . import engine
from .engine import Array, RowOutcome, Rows, Verdicts
from .history import SHARED, missing_metrics, mixed_strata, name_place
from .policy import Policy

PASS = "pass"
REGRESSED = "regressed"
IMPROVED = "improved"
INCONCLUSIVE = "inconclusive"
MISSING = "missing"
#: Why a metric is missing where nothing else is known.
ABSENT = "the candidate does not have it"
#: The weightiest first.
ORDER = (REGRESSED, MISSING, INCONCLUSIVE, IMPROVED, PASS)
#: Jobs a side needs before jobs, and not repeats, are the units.
ENOUGH_JOBS = 3
#: What a side is a sample of.
REPEATS = "repeats"
JOBS = "jobs"
PAIRS = "pairs"
SESSIONS = "sessions"
#: Columns of values that name one repeat of one job.
REPEAT = pl.concat_str("case", pl.lit("#"), "repeat")
_BY_OUTCOME = {RowOutcome.SLOWER: REGRESSED, RowOutcome.FASTER: IMPROVED, RowOutcome.HELD: PASS}


class Question(enum.Enum):
    """What is asked of the candidate."""

    #: Is it as good as the baseline's sessions?
    ACCEPTANCE = "acceptance"
    #: Is this one session as the nights before it?
    NIGHT = "night"
    #: Which side is faster? Sides are no history of one another.
    SIDES = "sides"


@dataclass(frozen=True)
class Judgement:
    """All verdicts on one comparison.

    :param metrics: one row per metric of either side's baseline: :data:`METRIC`, ``band``, values,
        ``ratio`` with ``low`` and ``high`` (candidate / baseline, in the quantity's own direction),
        ``seen_percent`` (the least loss that would have been called), ``verdict``, ``needed``,
        ``why``.
    :param bands: the same of each band of a curve.
    :param without_margin: metrics both have that the policy gives no margin.
    :param unlike_past: by :data:`~mpibench.judge.history.SHARED`, in what the baseline is unlike
        the sessions before it, so that these are not its history.
    :param whole: verdicts on each fabric as a whole and on its
        bands, those of :data:`.engine.WIDE`.
    :param zeros: metrics of which a value is zero: how many, and of how many, on each side
        (``baseline_zeros``, ``baseline_all``, likewise of the candidate).
    :param blind: there were sessions before, and nothing was judged, or a
        doubled time would have been called nowhere.
    """

    metrics: pl.DataFrame
    bands: pl.DataFrame
    new: pl.DataFrame
    without_margin: int = 0
    unlike_past: Mapping[tuple[object, ...], str] = field(default_factory=dict)
    whole: tuple[str, ...] = ()
    blind: bool = False
    zeros: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def verdict(self) -> str:
        """The worst that was called or is missing; else what the fabrics as wholes say.

        A metric that alone is inconclusive does not stop acceptance where its fabric's band passes.
        """
        called = {REGRESSED, MISSING} & {*self.metrics["verdict"], *self.bands["verdict"]}
        alone = set(self.metrics.filter(pl.col("ratio").is_null())["verdict"])
        found = called | alone | set(self.whole or self.metrics["verdict"])
        worst = next((verdict for verdict in ORDER if verdict in found), INCONCLUSIVE)
        return PASS if worst == IMPROVED and PASS in found else worst

    def counts(self) -> dict[str, int]:
        return {
            verdict: self.metrics.filter(pl.col("verdict") == verdict).height for verdict in ORDER
        }


def called(judgement: Judgement) -> pl.DataFrame:
    """Metrics that are called slower, with ``band`` and ``slower``: what
    is measured again before anybody is woken.

    A band that is called although none of its metrics is stands for all of them.
    """
    refused = judgement.metrics.filter(pl.col("verdict").is_in([REGRESSED, MISSING]))
    lone = not_among(judgement.bands.filter(pl.col("verdict") == REGRESSED), refused, BAND)
    within = among(judgement.metrics, lone, BAND)
    rows = pl.concat([refused.filter(pl.col("verdict") == REGRESSED), within])
    return rows.select(*METRIC, "band", "slower").sort(METRIC)


def judge(
    baseline: Selection,
    candidate: Selection,
    policy: Policy,
    *,
    asked: Question = Question.ACCEPTANCE,
    paired: bool = False,
    past: pl.DataFrame | None = None,
) -> Judgement:
    """Compare two selections metric by metric.

    :param paired: where both were interleaved in the same jobs, repeats are compared pair by pair.
    :param past: values of sessions before the baseline that measured the same (:mod:`.history`).
        They count as the baseline's own where these are one more of them.
    """
    measured = [side.measured for side in (baseline, candidate)]
    # In one order, so that the same sessions give the same record to the letter.
    metrics = [side.select(METRIC).unique().sort(METRIC) for side in measured]
    common = among(metrics[0], metrics[1], METRIC)
    margined = common.filter(pl.Series(np.isfinite(policy.margins(common)), dtype=pl.Boolean))
    counted = _count_zeros(margined, measured)
    zeros = _judge_zeros(counted, policy)
    both = not_among(margined, zeros, METRIC).sort(METRIC)
    known = baseline.values.select(*METRIC, "direction").unique(subset=list(METRIC))
    both = beside(both, known, METRIC)
    both = both.with_columns(policy.bands(both["message_bytes"]))
    rows = _rows(both, policy)
    used = [measured[0]]
    unlike = dict[tuple[object, ...], str]()
    before = baseline.values
    units: str | list[str]
    if asked is Question.SIDES:
        units, judged = _sides(both, rows, baseline.values, candidate.values, policy, paired=paired)
    else:
        units = SESSIONS
        if past is not None and past.height:
            own = pl.DataFrame(
                list(mixed_strata(baseline)), schema=dict.fromkeys(SHARED, pl.String), orient="row"
            )
            past = not_among(past.select(before.columns), own, SHARED)
            unlike = _unlike_past(both, rows, past, before, policy)
            apart = pl.DataFrame(
                list(unlike), schema=dict.fromkeys(SHARED, pl.String), orient="row"
            )
            past = not_among(past, apart, SHARED)
            used.append(past)
            before = pl.concat([past, before])
        judged = _sessions(both, rows, before, candidate.values, policy, asked)
    table, bands = _tables(both, rows, judged, policy, units, asked, len(candidate.sessions))
    few = (
        candidate.values.group_by(*METRIC, "case")
        .len()
        .group_by(METRIC)
        .agg(few=pl.col("len").min() < policy.minimum_repeats)
    )
    table = beside(table, few, METRIC)
    open_ = pl.col("few").fill_null(False) & (asked is not Question.SIDES)
    table = table.with_columns(
        verdict=pl.when(open_).then(pl.lit(INCONCLUSIVE)).otherwise("verdict"),
        why=pl.when(open_)
        .then(pl.lit(f"fewer than {policy.minimum_repeats} repeats"))
        .otherwise("why"),
        units=pl.when(open_).then(pl.lit(REPEATS)).otherwise("units"),
        needed=pl.when(~open_).then("needed"),  # more sessions of so few repeats would tell nothing
    ).drop("few")
    if asked is not Question.SIDES:  # a band rests on what its metrics rest on
        on_sessions = table.filter(pl.col("units") == SESSIONS).select(BAND).unique()
        alone = not_among(bands, on_sessions, BAND).select(BAND)
        alone = alone.with_columns(rests=pl.lit(REPEATS))
        bands = beside(bands, alone, BAND)
        bands = bands.with_columns(units=pl.coalesce("rests", "units")).drop("rests")
    absent = missing_metrics(not_among(metrics[0], metrics[1], METRIC), metrics[1])
    absent = absent.with_columns(policy.bands(absent["message_bytes"]))
    table = _with_values(
        pl.concat([table, zeros], how="diagonal_relaxed"), [pl.concat(used), measured[1]]
    )
    whole = [
        _verdict(judged, row, rows, asked) for row in np.flatnonzero(rows.kinds == engine.WIDE)
    ]
    if (table["units"] == REPEATS).any() and asked is not Question.SIDES:  # too few of them
        whole.append(INCONCLUSIVE)
    if asked is Question.ACCEPTANCE and _doubts(judged, rows).any():
        whole.append(INCONCLUSIVE)
    return Judgement(
        *_with_missing(table, bands, absent, baseline, candidate),
        not_among(metrics[1], metrics[0], METRIC),
        common.height - margined.height,
        unlike,
        tuple(whole),
        _blind(judged, both.height),
        counted,
    )


#: A doubled time is called where the limit is below this, in log;
#: a doubled night has noise of its own.
_DOUBLED = math.log(1.9)


def _blind(judged: Verdicts, metrics: int) -> bool:
    """Whether there was something before to hold a night against, and
    nothing was judged, or a doubled time called nowhere.
    """
    known = (judged.count > 0)[:metrics] & np.isfinite(judged.effect[:metrics])
    enough = known & (judged.count[:metrics] >= engine.FEWEST)
    noisy = bool(enough.any()) and bool((judged.of(RowOutcome.TOO_NOISY)[:metrics] | ~enough).all())
    return bool(known.any()) and (noisy or not (judged.limit[:metrics][known] < _DOUBLED).any())


def _doubts(judged: Verdicts, rows: Rows) -> np.ndarray:
    """Rows that nothing is accepted with though no limit calls them: a curve that is slower than
    its margin, and slower at all with the interval's confidence; and a size whose interval lies
    beyond its margin.
    """
    margins = rows.all_margins
    with np.errstate(invalid="ignore"):
        curves = (rows.kinds == engine.CURVE) & (judged.effect > margins) & (judged.low > 0)
        return curves | (judged.low > margins)


def _rows(metrics: pl.DataFrame, policy: Policy) -> Rows:
    """The engine's rows: a stratum is one stack on one fabric.

    :param metrics: :data:`METRIC`, ``band``, ``direction``.
    """
    logs = slowness_of(policy.margins(metrics), metrics["quantity"])
    curves = metrics.select(CURVE).rows()
    strata = metrics.select(SHARED).rows()
    return engine.rows_of(logs, curves, metrics["band"].to_list(), strata)


def session_matrix(metrics: pl.DataFrame, values: pl.DataFrame) -> Array:
    """Slowness of each metric in each session: the mean of its jobs'
    medians, shape (metrics, sessions), oldest first.
    """
    order = (
        values.select("session", "started")
        .group_by("session")
        .agg(pl.min("started"))
        .sort("started", "session")
    )
    return matrix(metrics, values, pl.col("session"), order["session"])


def matrix(
    metrics: pl.DataFrame, values: pl.DataFrame, unit: pl.Expr, units: pl.Series | None = None
) -> Array:
    """Slowness by unit: within a job the median, over jobs the mean; NaN where there is none.

    :param units: the columns; by default all, in the order in which they come.
    """
    table = values.with_columns(slowness(values), unit=unit)
    units = table["unit"].unique(maintain_order=True) if units is None else units
    table = table.group_by(*METRIC, "unit", "case").agg(pl.col("slowness").median())
    table = table.group_by(*METRIC, "unit").agg(pl.col("slowness").mean())
    numbered = metrics.select(METRIC).with_row_index("row")
    table = table.join(numbered, on=METRIC, nulls_equal=True)
    table = table.join(units.to_frame("unit").with_row_index("column"), on="unit")
    found = np.full((metrics.height, len(units)), np.nan)
    found[table["row"].to_numpy(), table["column"].to_numpy()] = table["slowness"].to_numpy()
    return found


def _sessions(
    metrics: pl.DataFrame,
    rows: Rows,
    before: pl.DataFrame,
    after: pl.DataFrame,
    policy: Policy,
    asked: Question,
) -> Verdicts:
    sides = session_matrix(metrics, before), session_matrix(metrics, after)
    if not metrics.height:
        nothing = np.empty((0, 1))
        return engine.hold(nothing, nothing, rows, np.empty(0))
    if asked is Question.NIGHT:
        with np.errstate(invalid="ignore"):
            night = np.nanmean(sides[1], axis=1, keepdims=True)
        return engine.tonight(np.hstack([sides[0], night]), rows)
    # What two jobs differ by where too few sessions show it: the
    # policy's, or more where repeats of one job do.
    own = (
        after.with_columns(slowness(after)).group_by(*METRIC, "case").agg(pl.col("slowness").std())
    )
    own = beside(metrics, own.group_by(METRIC).agg(pl.col("slowness").mean()), METRIC)
    repeats = policy.between_jobs_times_repeats * own["slowness"].fill_null(0.0).to_numpy()
    least = np.maximum(repeats, policy.between_jobs_percent / 100)
    return engine.hold(*sides, rows, least, policy.confidence)


def _unlike_past(
    metrics: pl.DataFrame, rows: Rows, past: pl.DataFrame, own: pl.DataFrame, policy: Policy
) -> dict[tuple[object, ...], str]:
    """Where the baseline is no further session of those before
    it, judged as a candidate would be.
    """
    if not past.height or not metrics.height:
        return {}
    judged = _sessions(metrics, rows, past, own, policy, Question.ACCEPTANCE)
    called = np.flatnonzero(
        (judged.of(RowOutcome.SLOWER) | judged.of(RowOutcome.FASTER))[: metrics.height]
    )
    worst: dict[tuple[object, ...], int] = {}
    for place in called[np.argsort(-np.abs(judged.effect[called]), kind="stable")]:
        worst.setdefault(metrics.select(SHARED).row(int(place)), int(place))
    sentences: dict[tuple[object, ...], str] = {}
    for key, place in worst.items():
        quantity = metrics["quantity"][place]
        change = change_text(float(np.expm1(judged.effect[place])), quantity)
        verb = "was" if quantity in LESS_IS_BETTER else "had"
        sentences[key] = (
            f"{name_place(*key)}: {metrics['benchmark'][place]} {verb} up to {change} in the "
            f"baseline than in the {judged.count[place]} sessions before it: since then "
            "something is different, and they are not its history"
        )
    return sentences


#: A job, and a repeat of a job: the same for both stacks that were interleaved in it.
_JOB_OF_BOTH = pl.col("case").str.strip_suffix(PAIRED)
#: What both sides of a curve are a sample of, and what names one of it.
_PAIRED_JOBS = "pairs of jobs"
_UNITS = {
    REPEATS: REPEAT,
    JOBS: pl.col("case"),
    PAIRS: pl.concat_str(_JOB_OF_BOTH, pl.lit("#"), pl.col("repeat")),
    _PAIRED_JOBS: _JOB_OF_BOTH,
}


def _sides(
    metrics: pl.DataFrame,
    rows: Rows,
    one: pl.DataFrame,
    two: pl.DataFrame,
    policy: Policy,
    *,
    paired: bool,
) -> tuple[list[str], Verdicts]:
    """Two sides that are no history of one another: pairs of one
    job, jobs, or repeats with what jobs add.

    :returns: units of each metric, and the verdicts.
    """
    curves = metrics.select(CURVE).unique(maintain_order=True).rows()
    parts = [side.partition_by(CURVE, as_dict=True) for side in (one, two)]
    of_curve = {
        key: _units_of(parts[0][key], parts[1][key], policy, paired=paired) for key in curves
    }
    # Variance of the difference that jobs add and their repeats do not show.
    jobs = {key: sum(1 / part[key]["case"].n_unique() for part in parts) for key in curves}
    keys = metrics.select(CURVE).rows()
    effects = {
        name: np.full(len(rows.kinds), np.nan)
        for name in ("effect", "low", "high", "upper", "p", "spread")
    }
    for kind in dict.fromkeys(of_curve.values()):
        own = np.array([of_curve[key] == kind for key in keys])
        units = None
        if kind in (PAIRS, _PAIRED_JOBS):
            units, others = (side.select(unit=_UNITS[kind])["unit"].unique() for side in (one, two))
            units = units.filter(units.is_in(others.implode()))
        left, right = (
            _grouped(matrix(metrics, side, _UNITS[kind], units), rows, own) for side in (one, two)
        )
        places = np.array([row for row in range(len(rows.kinds)) if own[rows.members(row)].all()])
        if units is not None:
            found = engine.compare_pairs((right - left)[places])
        else:
            shares = np.array(
                [jobs[keys[rows.members(row)[0]]] if kind == REPEATS else 0.0 for row in places]
            )
            found = engine.compare(
                left[places], right[places], (policy.between_jobs_percent / 100) ** 2 * shares
            )
        low, high = found.interval(policy.confidence)
        for name, column in (
            ("effect", found.effect),
            ("low", low),
            ("high", high),
            ("p", found.p_values()),
            ("upper", found.interval(2 * policy.confidence - 1)[1]),
            ("spread", np.sqrt(found.unit_variance / 2)),
        ):
            effects[name][places] = column
    margins = rows.all_margins
    p = np.where(np.isfinite(effects["p"]), effects["p"], 1.0)
    real = engine.discoveries(p, policy.false_discovery_rate) & (
        np.abs(effects["effect"]) > margins
    )
    outcome = np.full(len(p), RowOutcome.TOO_FEW, dtype=object)
    outcome[np.isfinite(effects["low"])] = RowOutcome.HELD
    outcome[real & (effects["effect"] > 0)] = RowOutcome.SLOWER
    outcome[real & (effects["effect"] < 0)] = RowOutcome.FASTER
    judged = Verdicts(
        limit=np.full(len(p), np.nan),
        outcome=outcome,
        count=np.zeros(len(p), dtype=int),
        with_group=np.full(len(p), -1),
        df=np.full(len(p), np.nan),
        **effects,
    )
    return [PAIRS if of_curve[key] == _PAIRED_JOBS else of_curve[key] for key in keys], judged


def _units_of(one: pl.DataFrame, two: pl.DataFrame, policy: Policy, *, paired: bool) -> str:
    """What both sides of a curve are a sample of."""
    for kind, fewest in (
        ((_PAIRED_JOBS, ENOUGH_JOBS), (PAIRS, policy.minimum_repeats)) if paired else ()
    ):
        names = [set(side.select(unit=_UNITS[kind])["unit"]) for side in (one, two)]
        if len(names[0] & names[1]) >= fewest:
            return kind
    return JOBS if min(one["case"].n_unique(), two["case"].n_unique()) >= ENOUGH_JOBS else REPEATS


def _grouped(values: Array, rows: Rows, own: np.ndarray) -> Array:
    """The metrics, then the mean of each group in each unit that has all of it."""
    means = [
        values[group].mean(axis=0) if own[group].all() else np.full(values.shape[1], np.nan)
        for group in rows.groups
    ]
    return np.vstack([values, *means]) if means else values


#: Columns of verdicts: of curves, and computed here.
_COLUMNS: Mapping[str, type[pl.DataType]] = {
    **dict.fromkeys(CURVE, pl.String),
    **dict.fromkeys(("nodes", "ppn", "ranks", "groups"), pl.Int32),
    "band": pl.String,
    **dict.fromkeys(
        ("ratio", "low", "high", "slower", "p", "spread_percent", "margin_percent", "seen_percent"),
        pl.Float64,
    ),
    "verdict": pl.String,
    "units": pl.String,
    "needed": pl.Int64,
    "why": pl.String,
    "sessions": pl.Int64,
}


def _verdict(judged: Verdicts, row: int, rows: Rows, asked: Question) -> str:
    outcome = judged.outcome[row]
    if outcome in (RowOutcome.SLOWER, RowOutcome.FASTER):
        return _BY_OUTCOME[outcome]
    if asked is Question.NIGHT:
        return _BY_OUTCOME.get(outcome, INCONCLUSIVE)
    margin = rows.all_margins[row]
    return PASS if np.isfinite(judged.upper[row]) and judged.upper[row] < margin else INCONCLUSIVE


def _tables(
    metrics: pl.DataFrame,
    rows: Rows,
    judged: Verdicts,
    policy: Policy,
    units: str | list[str],
    asked: Question,
    sessions: int,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Verdicts on metrics and on bands of curves; effects as ratios of
    values, and null where nothing can be said.

    :param sessions: of the candidate: as many did not decide what is inconclusive.
    """
    margins = rows.all_margins
    band_rows = []
    metric_rows = []
    dicts = metrics.to_dicts()

    def verdict_row(place: int, first: dict[str, Any], unit: str) -> dict[str, Any]:
        direction = first["direction"]
        effect = judged.effect[place]
        limit = judged.limit[place]
        sign = 1.0 if direction == LOWER else -1.0
        shown: dict[str, float] = {
            "ratio": np.exp(sign * effect),
            "slower": np.expm1(effect),
            "margin_percent": 100 * own_loss(float(np.expm1(margins[place])), first["quantity"]),
            # Infinite where no loss would be called, and no bandwidth loses more than all.
            "seen_percent": 100 * own_loss(float(np.expm1(limit)), first["quantity"])
            if limit < np.inf
            else np.inf,
        }
        if len(judged.low):
            low, high = sorted(np.exp(sign * np.array([judged.low[place], judged.high[place]])))
            spread = 100 * judged.spread[place]
            shown |= {"low": low, "high": high, "p": judged.p[place], "spread_percent": spread}
        verdict = _verdict(judged, place, rows, asked)
        open_ = verdict == INCONCLUSIVE and asked is Question.ACCEPTANCE
        wanted = engine.sessions_wanted(judged, place, margins[place]) if open_ else None
        return {
            **{name: first[name] for name in (*CURVE, "band")},
            **{name: float(value) if np.isfinite(value) else None for name, value in shown.items()},
            "verdict": verdict,
            "units": unit,
            "needed": wanted if wanted and wanted > sessions else None,
            "why": _why(judged, place, rows, asked, dicts),
            "sessions": int(judged.count[place]),
        }

    for place, first in enumerate(dicts):
        unit = units if isinstance(units, str) else units[place]
        metric_rows.append(
            {**verdict_row(place, first, unit), "message_bytes": first["message_bytes"]}
        )
    for (curve, band), part in metrics.with_row_index("row").group_by(
        [pl.struct(CURVE), "band"], maintain_order=True
    ):
        one = int(part["row"][0])
        place = rows.place["curve", tuple(curve.values()), band]
        row = verdict_row(place, dicts[one], units if isinstance(units, str) else units[one])
        band_rows.append({**row, "sizes": part.height})
    return (
        pl.DataFrame(metric_rows, schema={**_COLUMNS, "message_bytes": pl.Int64}, orient="row"),
        pl.DataFrame(band_rows, schema={**_COLUMNS, "sizes": pl.Int64}, orient="row"),
    )


def _why(
    judged: Verdicts, place: int, rows: Rows, asked: Question, metrics: Sequence[Mapping[str, Any]]
) -> str:
    """What else a verdict rests on, or why there is none."""
    group = int(judged.with_group[place])
    if group >= 0:
        members = [metrics[member] for member in rows.members(group)]
        curves = {tuple(row[name] for name in CURVE) for row in members}
        return (
            "with its curve"
            if len(curves) == 1
            else f"with all of {members[0]['stack']} on {members[0]['fabric']}"
        )
    if asked is Question.NIGHT and judged.outcome[place] in (
        RowOutcome.TOO_NOISY,
        RowOutcome.TOO_FEW,
    ):
        return str(judged.outcome[place].value)
    return ""


def _count_zeros(metrics: pl.DataFrame, measured: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Those metrics of which a value is zero (:attr:`Judgement.zeros`).

    :param measured: values of baseline and candidate, zeros among them.
    """
    counted = metrics
    for side, values in zip(("baseline", "candidate"), measured, strict=True):
        counts = values.group_by(METRIC).agg(
            (pl.col("value") == 0).sum().alias(f"{side}_zeros"), pl.len().alias(f"{side}_all")
        )
        counted = beside(counted, counts, METRIC)
    zero = pl.max_horizontal("baseline_zeros", "candidate_zeros") > 0
    return counted.filter(zero).sort(METRIC)


def _judge_zeros(found: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Their verdicts: :data:`METRIC`, ``band``, ``verdict``, ``why``."""
    on_baseline = pl.col("baseline_zeros") > 0
    on_candidate = pl.format(
        "{} of {} values of the candidate are zero", "candidate_zeros", "candidate_all"
    )
    no_ground = (
        "{} of {} values of the baseline are zero: no ground to compare with, measure it again"
    )
    return found.select(
        *METRIC,
        policy.bands(found["message_bytes"]),
        verdict=pl.when(on_baseline).then(pl.lit(INCONCLUSIVE)).otherwise(pl.lit(REGRESSED)),
        why=pl.when(on_baseline)
        .then(pl.format(no_ground, "baseline_zeros", "baseline_all"))
        .otherwise(on_candidate),
    )


def _with_values(rows: pl.DataFrame, sides: list[pl.DataFrame]) -> pl.DataFrame:
    """Medians, numbers of repeats and jobs of both sides beside each metric."""
    for name, side in zip(("baseline", "candidate"), sides, strict=True):
        summary = side.group_by(METRIC).agg(
            pl.col("unit").first().alias(f"unit_{name}"),
            pl.col("value").median().alias(name),
            pl.len().alias(f"{name}_repeats"),
            pl.col("case").n_unique().alias(f"{name}_jobs"),
        )
        rows = beside(rows, summary, METRIC)
    return rows.rename({"unit_baseline": "unit"}).drop("unit_candidate")


def _with_missing(
    table: pl.DataFrame,
    bands: pl.DataFrame,
    absent: pl.DataFrame,
    baseline: Selection,
    candidate: Selection,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both with what is absent; a band any metric of which is missing is missing."""
    if not absent.height:
        return table, bands
    # The candidate's case of the group that measured it on the baseline says why.
    keys = [*CONDITION, "group"]
    failed = candidate.planned.filter(pl.col("result") != "pass").unique(
        keys, keep="last", maintain_order=True
    )
    measured = baseline.measured.select(*METRIC, "case").unique(
        METRIC, keep="last", maintain_order=True
    )
    groups = measured.join(baseline.cases.select("case", "group"), on="case", how="left").drop(
        "case"
    )
    asked = beside(absent, groups, METRIC)
    asked = beside(asked, failed.select(*keys, "result", "reason"), keys)
    whys = []
    for result, reason in asked.select("result", "reason").iter_rows():
        why = (
            ABSENT
            if reason is None
            else f"the candidate's case failed: {reason.splitlines()[0] if reason else ''}"
        )
        if result == eligibility.INTERRUPTED:
            why = f"the candidate's session was interrupted ({eligibility.cause_of(reason)})"
        whys.append(why)
    missing = absent.with_columns(verdict=pl.lit(MISSING), why=pl.Series(whys))
    lacking = absent.group_by(BAND, maintain_order=True).agg(lacks=pl.len())
    joined = bands.join(
        lacking, on=BAND, how="full", coalesce=True, nulls_equal=True, maintain_order="left_right"
    )
    short = pl.col("lacks").is_not_null() & (pl.col("verdict").fill_null("") != REGRESSED)
    joined = joined.with_columns(
        verdict=pl.when(short).then(pl.lit(MISSING)).otherwise(pl.col("verdict")),
        why=pl.when(short)
        .then(pl.format("{} sizes missing", pl.col("lacks")))
        .otherwise(pl.col("why")),
    )
    return pl.concat([table, missing], how="diagonal_relaxed").sort(METRIC), joined.drop("lacks")
