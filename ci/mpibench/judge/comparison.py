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

What is tested, and how, is in :mod:`curve_tests`. Where a window, a band or a curve is regressed, its sizes that are not shown
to be equal are regressed with it.

Where a bandwidth or rate is zero there is no ratio, and nothing is worse. Benchmarks print two decimals, so that a zero is less
than 0.005 MB/s. On the candidate's side it is a regression; on the baseline's side it is no ground to compare with, since
anything would be better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from reframe_tests.harness.vocabulary import LOWER

from ..store import eligibility
from ..store.quantity_text import LESS_IS_BETTER, change_text
from ..store.session_values import BAND, CONDITION, CURVE, METRIC, Selection, slowness
from ..store.sessions import PAIRED
from . import curve_tests
from .curve_tests import (
    ABSENT,
    ENOUGH_JOBS,
    IMPROVED,
    INCONCLUSIVE,
    MISSING,
    ORDER,
    PAIRS,
    REGRESSED,
    REPEATS,
    SESSIONS,
    CurveTest,
    Results,
    units_to_decide,
)
from .history import SHARED, Spread, missing_metrics, mixed_strata, name_place, spread_of
from .policy import Policy


@dataclass(frozen=True)
class Judgement:
    """All verdicts on one comparison.

    :param metrics: one row per metric of either side's baseline: :data:`METRIC`, ``band``, values, ``ratio`` with
        ``low`` and ``high`` (candidate / baseline, in the quantity's own direction), ``verdict``, ``needed``, ``why``.
    :param unjudged: metrics both have that the policy gives no margin.
    :param unlike_past: by :data:`~mpibench.judge.history.SHARED`, in what the baseline is unlike the sessions before it, so
        that these are not its history.
    :param spreads: how much nights differ where repeats are the units, as far as it was measured; likewise.
    """

    metrics: pl.DataFrame
    bands: pl.DataFrame
    new: pl.DataFrame
    unjudged: int = 0
    unlike_past: Mapping[tuple[object, ...], str] = field(default_factory=dict)
    spreads: Mapping[tuple[object, ...], Spread] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        return curve_tests.overall(self.bands["verdict"], self.metrics["verdict"])

    def counts(self) -> dict[str, int]:
        return {verdict: self.metrics.filter(pl.col("verdict") == verdict).height for verdict in ORDER}


def called(judgement: Judgement) -> pl.DataFrame:
    """Metrics that are called slower, with ``band`` and ``slower``: what is measured again before anybody is woken.

    A band that is called although none of its metrics is stands for all of them.
    """
    refused = judgement.metrics.filter(pl.col("verdict").is_in([REGRESSED, MISSING]))
    lone = judgement.bands.filter(pl.col("verdict") == REGRESSED).join(refused, on=BAND, how="anti", nulls_equal=True)
    within = judgement.metrics.join(lone, on=BAND, how="semi", nulls_equal=True)
    rows = pl.concat([refused.filter(pl.col("verdict") == REGRESSED), within])
    return rows.select(*METRIC, "band", "slower").sort(METRIC)


def judge(
    baseline: Selection,
    candidate: Selection,
    policy: Policy,
    *,
    paired: bool = False,
    history: bool = True,
    past: pl.DataFrame | None = None,
) -> Judgement:
    """Compare two selections metric by metric.

    :param paired: where both were interleaved in the same jobs, repeats are compared pair by pair.
    :param history: if nothing has changed the candidate is one more of what the baseline's sessions are; not so where two
        stacks are compared, whose spreads may differ.
    :param past: values of sessions before the baseline that measured the same (:mod:`.history`). They count as the baseline's
        own where these are one more of them, and where both together are a history.
    """
    measured = [side.measured for side in (baseline, candidate)]
    # In one order, so that the same sessions give the same record to the letter.
    metrics = [side.select(METRIC).unique().sort(METRIC) for side in measured]
    common = metrics[0].join(metrics[1], on=METRIC, how="semi", nulls_equal=True)
    margined = common.filter(pl.Series(np.isfinite(policy.margins(common))))
    zeros = _zeros(margined, measured, policy)
    both = margined.join(zeros, on=METRIC, how="anti", nulls_equal=True)
    curves = both.select(CURVE).unique(maintain_order=True).sort(CURVE)
    directions = baseline.values.select(*CURVE, "direction", "unit").unique(subset=list(CURVE))
    curves = curves.join(directions, on=CURVE, how="left", nulls_equal=True, maintain_order="left")
    past_values = baseline.values.clear() if past is None else past.select(baseline.values.columns)
    old, new, before = (
        side.with_columns(slowness(side)).join(both, on=METRIC, how="semi", nulls_equal=True).partition_by(CURVE, as_dict=True)
        for side in (baseline.values, candidate.values, past_values)
    )
    shared = {name: place for place, name in enumerate(curves.select(SHARED).unique(maintain_order=True).iter_rows())}
    mixed = mixed_strata(baseline)
    keys = list(zip(curves.select(CURVE).iter_rows(), curves.select(SHARED).iter_rows(), strict=True))
    # Is the baseline one more session of those before it? What changed before it is no fault of the candidate.
    against: list[CurveTest] = []
    for number, (key, stratum) in enumerate(keys):
        if key in before:
            against += _tests(number, shared[stratum], before[key], old[key], policy)
    unlike = _unlike_past(_Tested.of(curves, [test for test in against if test.units == SESSIONS], policy))
    # Where these are too few, or not the baseline's history, they still show how much nights differ.
    apart = pl.DataFrame(list(unlike), schema=dict.fromkeys(SHARED, pl.String), orient="row")
    nights = [past_values, baseline.values.join(apart, on=SHARED, how="anti", nulls_equal=True)]
    spreads: dict[tuple[Any, ...], Spread] = {}
    for key, part in pl.concat(nights).partition_by(SHARED, as_dict=True).items() if history else ():
        if key not in mixed and (spread := spread_of(part, policy.confidence)) is not None:
            spreads[key] = spread
    policies = {key: policy.with_spread(spreads[key].percent) if key in spreads else policy for key in shared}
    used, found = [measured[0]], list[CurveTest]()
    for number, (key, stratum) in enumerate(keys):
        alike = history and stratum not in mixed
        earlier = before.get(key) if alike and stratum not in unlike else None
        sides = (old[key], new[key])
        tests = _tests(number, shared[stratum], *sides, policies[stratum], paired=paired, history=alike, past=earlier)
        found += tests
        if earlier is not None and tests[0].units == SESSIONS:
            used.append(earlier.drop("slowness"))
    rows, bands = _rows(_Tested.of(curves, found, policy), policy)
    absent = missing_metrics(metrics[0].join(metrics[1], on=METRIC, how="anti", nulls_equal=True), metrics[1])
    absent = absent.with_columns(policy.bands(absent["message_bytes"]))
    table = _with_values(pl.concat([rows, zeros], how="diagonal_relaxed"), [pl.concat(used), measured[1]])
    return Judgement(
        *_with_missing(table, bands, absent, baseline, candidate),
        metrics[1].join(metrics[0], on=METRIC, how="anti", nulls_equal=True),
        common.height - margined.height,
        unlike,
        spreads,
    )


class _Tested(NamedTuple):
    """All tests of some curves, and what came of them."""

    curves: list[dict[str, Any]]
    tests: list[CurveTest]
    results: Results
    verdicts: list[tuple[str, str]]

    @classmethod
    def of(cls, curves: pl.DataFrame, tests: list[CurveTest], policy: Policy) -> _Tested:
        results = curve_tests.evaluate(tests, policy)
        return cls(curves.to_dicts(), tests, results, curve_tests.combine_verdicts(tests, results, policy))


def _zeros(metrics: pl.DataFrame, measured: Sequence[pl.DataFrame], policy: Policy) -> pl.DataFrame:
    """Verdicts of those metrics of which a value is zero: :data:`METRIC`, ``band``, ``verdict``, ``why``.

    :param measured: values of baseline and candidate, zeros among them.
    """
    counted = metrics
    for side, values in zip(("baseline", "candidate"), measured, strict=True):
        counts = values.group_by(METRIC).agg((pl.col("value") == 0).sum().alias(f"{side}_zeros"), pl.len().alias(f"{side}_all"))
        counted = counted.join(counts, on=METRIC, how="left", nulls_equal=True)
    on_baseline = pl.col("baseline_zeros") > 0
    found = counted.filter(on_baseline | (pl.col("candidate_zeros") > 0)).sort(METRIC)
    on_candidate = pl.format("{} of {} values of the candidate are zero", "candidate_zeros", "candidate_all")
    no_ground = "{} of {} values of the baseline are zero: no ground to compare with, measure it again"
    return found.select(
        *METRIC,
        policy.bands(found["message_bytes"]),
        verdict=pl.when(on_baseline).then(pl.lit(INCONCLUSIVE)).otherwise(pl.lit(REGRESSED)),
        why=pl.when(on_baseline).then(pl.format(no_ground, "baseline_zeros", "baseline_all")).otherwise(on_candidate),
    )


def _unlike_past(tested: _Tested) -> dict[tuple[object, ...], str]:
    """Where the baseline is no further session of those before it, judged as a candidate would be and at the same rate."""
    called: dict[tuple[object, ...], list[int]] = {}
    for place, (verdict, _) in enumerate(tested.verdicts):
        if verdict in (REGRESSED, IMPROVED):
            curve = tested.curves[tested.tests[place].curve]
            called.setdefault(tuple(curve[name] for name in SHARED), []).append(place)
    sentences: dict[tuple[object, ...], str] = {}
    for key, places in called.items():
        worst = max(places, key=lambda place: abs(tested.results.effect[place]))
        curve = tested.curves[tested.tests[worst].curve]
        change = change_text(float(np.expm1(tested.results.effect[worst])), curve["quantity"])
        verb = "was" if curve["quantity"] in LESS_IS_BETTER else "had"
        sentences[key] = (
            f"{name_place(*key)}: {curve['benchmark']} {verb} up to {change} "
            f"in the baseline than in the {int(tested.results.count[worst])} sessions before it: since then something is "
            "different, and they are not its history"
        )
    return sentences


#: A job, and a repeat of a job: the same for both stacks that were interleaved in it.
_JOB_OF_BOTH = pl.col("case").str.strip_suffix(PAIRED)
_REPEAT = pl.concat_str(_JOB_OF_BOTH, pl.lit("#"), pl.col("repeat"))


def _sessions_of_jobs(values: pl.DataFrame) -> tuple[str, ...]:
    """Session of each job, in the order of the columns of :func:`.curve_tests.matrix`."""
    return tuple(values.unique("case", keep="first", maintain_order=True)["session"])


def _tests(
    number: int,
    stratum: int,
    one: pl.DataFrame,
    two: pl.DataFrame,
    policy: Policy,
    *,
    paired: bool = False,
    history: bool = True,
    past: pl.DataFrame | None = None,
) -> list[CurveTest]:
    """All comparisons of the two sides of a curve.

    :param past: its values in the sessions before the baseline; used if they make it a history.
    """
    quantity = one["quantity"][0]
    sizes = sorted(one["message_bytes"].unique().to_list(), key=lambda size: -1 if size is None else size)
    if paired:
        jobs_of_both = set(one["case"].str.strip_suffix(PAIRED)) & set(two["case"].str.strip_suffix(PAIRED))
        unit = _JOB_OF_BOTH if len(jobs_of_both) >= ENOUGH_JOBS else _REPEAT
        named = [side.with_columns(pair=unit) for side in (one, two)]
        on = ["pair", "message_bytes"]
        both = [a.join(b, on=on, how="semi", nulls_equal=True).sort("pair") for a, b in (named, named[::-1])]
        if both[0]["pair"].n_unique() >= policy.minimum_repeats:
            left, right = (curve_tests.matrix(side, sizes, pl.col("pair")) for side in both)
            return curve_tests.tests_of_curve(number, quantity, sizes, left, right, policy, units=PAIRS)
    repeats = two.select(pl.len().over("case", "message_bytes").min()).item()
    history = history and repeats >= policy.minimum_repeats
    together = one if past is None else pl.concat([past, one])
    if curve_tests.choose_units(_sessions_of_jobs(together), _sessions_of_jobs(two), history=history) == SESSIONS:
        one = together
    nights = _sessions_of_jobs(one), _sessions_of_jobs(two)
    units = curve_tests.choose_units(*nights, history=history)
    between = curve_tests.between_jobs(units, (len(nights[0]), len(nights[1])), policy)
    left, right = (curve_tests.matrix(side, sizes, _REPEAT if units == REPEATS else pl.col("case")) for side in (one, two))
    return curve_tests.tests_of_curve(
        *(number, quantity, sizes, left, right, policy), units=units, between=between, nights=nights, stratum=stratum
    )


#: Columns of verdicts: of curves, and computed here.
_COLUMNS: Mapping[str, type[pl.DataType]] = {
    **dict.fromkeys(CURVE, pl.String),
    **dict.fromkeys(("nodes", "ppn", "ranks", "groups"), pl.Int32),
    "band": pl.String,
    **dict.fromkeys(("ratio", "low", "high", "slower", "p", "spread_percent", "margin_percent"), pl.Float64),
    **{"verdict": pl.String, "units": pl.String, "needed": pl.Int64, "why": pl.String},
}


def _rows(tested: _Tested, policy: Policy) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Verdicts on metrics and on bands; effects as ratios of values, and null where too few units say nothing."""
    rows: dict[str, list[dict[str, object]]] = {curve_tests.SIZE: [], curve_tests.BAND: []}
    results = tested.results
    for place, test in enumerate(tested.tests):
        if test.level not in rows:
            continue
        curve = tested.curves[test.curve]
        verdict, why = tested.verdicts[place]
        sign = 1.0 if curve["direction"] == LOWER else -1.0
        low, high = sorted(np.exp(sign * np.array([results.low[place], results.high[place]])))
        shown = {
            "ratio": np.exp(sign * results.effect[place]),
            "low": low,
            "high": high,
            "slower": np.expm1(results.effect[place]),
            "p": results.p[place],
            "spread_percent": 100 * np.sqrt(results.variance[place] / 2),
        }
        rows[test.level].append(
            {
                **{name: curve[name] for name in CURVE},
                "band": policy.band(test.size),
                **{name: float(value) if np.isfinite(value) else None for name, value in shown.items()},
                "margin_percent": 100 * sign * float(np.expm1(sign * test.margin)),
                "verdict": verdict,
                "units": test.units,
                "needed": units_to_decide(results, test.margin, place, policy) if verdict == INCONCLUSIVE else None,
                "why": why,
                "message_bytes": test.size,
                "sizes": len(test.places),
            }
        )
    sizes, bands = rows.values()
    return (
        pl.DataFrame(sizes, schema={**_COLUMNS, "message_bytes": pl.Int64}, orient="row"),
        pl.DataFrame(bands, schema={**_COLUMNS, "sizes": pl.Int64}, orient="row"),
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
        rows = rows.join(summary, on=METRIC, how="left", nulls_equal=True, maintain_order="left")
    return rows.rename({"unit_baseline": "unit"}).drop("unit_candidate")


def _with_missing(
    table: pl.DataFrame, bands: pl.DataFrame, absent: pl.DataFrame, baseline: Selection, candidate: Selection
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both with what is absent; a band any metric of which is missing is missing."""
    if not absent.height:
        return table, bands
    # The candidate's case of the group that measured it on the baseline says why.
    keys = [*CONDITION, "group"]
    failed = candidate.planned.filter(pl.col("result") != "pass").unique(keys, keep="last", maintain_order=True)
    measured = baseline.measured.select(*METRIC, "case").unique(METRIC, keep="last", maintain_order=True)
    groups = measured.join(baseline.cases.select("case", "group"), on="case", how="left").drop("case")
    asked = absent.join(groups, on=METRIC, how="left", nulls_equal=True, maintain_order="left")
    asked = asked.join(failed.select(*keys, "result", "reason"), on=keys, how="left", nulls_equal=True, maintain_order="left")
    whys = []
    for result, reason in asked.select("result", "reason").iter_rows():
        why = ABSENT if reason is None else f"the candidate's case failed: {reason.splitlines()[0] if reason else ''}"
        if result == eligibility.INTERRUPTED:
            why = f"the candidate's session was interrupted ({eligibility.cause_of(reason)})"
        whys.append(why)
    missing = absent.with_columns(verdict=pl.lit(MISSING), why=pl.Series(whys))
    lacking = absent.group_by(BAND, maintain_order=True).agg(lacks=pl.len())
    joined = bands.join(lacking, on=BAND, how="full", coalesce=True, nulls_equal=True, maintain_order="left_right")
    short = pl.col("lacks").is_not_null() & (pl.col("verdict").fill_null("") != REGRESSED)
    joined = joined.with_columns(
        verdict=pl.when(short).then(pl.lit(MISSING)).otherwise(pl.col("verdict")),
        why=pl.when(short).then(pl.format("{} sizes missing", pl.col("lacks"))).otherwise(pl.col("why")),
    )
    return pl.concat([table, missing], how="diagonal_relaxed").sort(METRIC), joined.drop("lacks")
