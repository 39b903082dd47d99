"""Verdicts in words: sizes, conditions, changes, and sentences that say what happened where."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl
import scipy

from reframe_tests.harness.vocabulary import QUANTITIES

from ..store.quantity_text import size_text
from ..store.session_values import CONDITION, describe_condition
from .comparison import Judgement
from .curve_tests import IMPROVED, INCONCLUSIVE, MISSING, REGRESSED, REPEATS, SESSIONS
from .history import SHARED, Spread, units_of
from .policy import Policy
from .statistics import prediction
from .statistics.prediction import FEWEST_SESSIONS
from .switches import MovedSwitch

#: What one sentence is about.
_SENTENCE = [*CONDITION, "benchmark", "quantity"]
#: Units a side beyond which nobody measures: that so many would decide is no advice.
MOST_NEEDED = 100


def sizes_text(sizes: Iterable[int | None]) -> str:
    """Some sizes of a curve, shortened to their range."""
    ordered = sorted(set(sizes), key=lambda size: -1 if size is None else size)
    if len(ordered) < 3:
        return " and ".join(map(size_text, ordered))
    return f"{size_text(ordered[0])} to {size_text(ordered[-1])}"


def benchmark_text(row: Mapping[str, Any]) -> str:
    """A benchmark with what distinguishes it from others of its name: suite, variant, ranks, groups."""
    groups = f" x {row['groups']} groups" if (row["groups"] or 1) > 1 else ""
    ranks = f"{row['ranks']} ranks{groups}" if row["ranks"] else ""
    return f"{row['benchmark']} ({', '.join(filter(None, [row['suite'], row['variant'], ranks]))})"


def quantity_text(quantity: str) -> str:
    return QUANTITIES[quantity].title


def change_text(slower: float) -> str:
    """A change for the worse (positive) or better, as a fraction of time."""
    return f"{abs(100 * slower):.1f} % {'slower' if slower > 0 else 'faster'}"


def moved_text(move: MovedSwitch) -> str:
    """Where a switch was and is; sizes in between were not measured, so that each place is one between two sizes."""
    old, new = (" and ".join(map(size_text, ends)) for ends in (move.old, move.new))
    return f"the switch of {move.what} moved from between {old} to between {new}"


def because_text(move: MovedSwitch) -> str:
    """What became of the sizes between both places."""
    count = f"{move.metrics.height} metric{'s' if move.metrics.height > 1 else ''}"
    return f"{sizes_text(move.metrics['message_bytes'])}: {change_text(move.slower)} because of it, {count}"


def moved_sentences(moves: Iterable[MovedSwitch]) -> list[str]:
    """One sentence per move, and beneath it what changed because of it, one line per benchmark and condition."""
    lines = []
    for move in moves:
        lines.append(f"{move.stack} on {move.partition}, {move.fabric}: {moved_text(move)}; {because_text(move)}")
        for _, rows in move.metrics.group_by([*CONDITION, "benchmark"], maintain_order=True):
            first = rows.row(0, named=True)
            worst = change_text(max(rows["slower"], key=abs))
            where = f"{describe_condition(first)}: {first['benchmark']} at {sizes_text(rows['message_bytes'])}"
            lines.append(f"  {where} is {change_text(float(np.median(rows['slower'])))} (most {worst})")
    return lines


def _groups(table: pl.DataFrame, verdict: str) -> list[pl.DataFrame]:
    """Rows of a verdict by condition, benchmark and quantity: of each group there is one sentence."""
    return table.filter(pl.col("verdict") == verdict).partition_by(_SENTENCE, maintain_order=True)


def sentences(judgement: Judgement, rate: float | None = None) -> list[str]:
    """What stops acceptance, the worst first: one sentence per benchmark and condition."""
    metrics, bands = judgement.metrics, judgement.bands
    found: list[tuple[float, str]] = []
    for rows in _groups(metrics.filter(pl.col("slower").is_not_null()), REGRESSED):
        first = rows.row(0, named=True)
        worst, middle = rows.select(pl.max("slower"), pl.median("slower").alias("middle")).row(0)
        span = f"{change_text(middle)} (worst {change_text(worst)})" if rows.height > 1 else _with_interval(first)
        where = f"{describe_condition(first)}: {first['benchmark']} at {sizes_text(rows['message_bytes'])}"
        found.append((worst, f"regressed: {where} is {span}, {rows.height} metric{'s'[: rows.height != 1]}"))
    regressed = metrics.filter(pl.col("verdict") == REGRESSED)
    lone = bands.filter(pl.col("verdict") == REGRESSED).join(regressed, on=_SENTENCE, how="anti", nulls_equal=True)
    # What rests on no ratio says why.
    unmeasured = metrics.filter(pl.col("ratio").is_null())
    lines = [_because(rows) for rows in _groups(unmeasured, REGRESSED)]
    lines += [text for _, text in sorted(found, reverse=True)]
    for row in lone.to_dicts():
        lines.append(f"regressed: {describe_condition(row)}: {row['benchmark']}, {row['band']} messages: {_with_interval(row)}")
    lines += [_because(rows) for rows in (*_groups(metrics, MISSING), *_groups(unmeasured, INCONCLUSIVE))]
    for rows in _groups(bands, INCONCLUSIVE):
        first = rows.row(0, named=True)
        lines.append(
            f"inconclusive: {describe_condition(first)}: {first['benchmark']}, {', '.join(rows['band'])} messages: "
            f"{_with_interval(first)}; {needed_text(first, rate)}"
        )
    return lines


def _because(rows: pl.DataFrame) -> str:
    first = rows.row(0, named=True)
    where = f"{describe_condition(first)}: {first['benchmark']} at {sizes_text(rows['message_bytes'])}"
    return f"{first['verdict']}: {where}: {first['why']}"


def repeats_sentence(judgement: Judgement, minimum: int) -> str:
    """What is to be done where a side has too few values for any verdict; empty where it has enough."""
    counts = judgement.metrics.filter(pl.col("verdict") == INCONCLUSIVE).select("baseline_repeats", "candidate_repeats")
    few = counts.filter(pl.min_horizontal(pl.all()) < minimum)
    if not few.height:
        return ""
    least = few.min().row(0, named=True)
    return (
        f"too few repeats: {few.height} metrics have only {least['baseline_repeats']} (baseline) or "
        f"{least['candidate_repeats']} (candidate) values, and fewer than {minimum} a side are no ground for a verdict; "
        f"measure again with -S repeats={max(minimum, 5)}"
    )


def unknown_sentences(judgement: Judgement, policy: Policy) -> list[str]:
    """What no repeat of a few jobs can tell, and what would; empty where a history or several jobs were the units."""
    rows = judgement.metrics.filter(pl.col("units") == REPEATS).select(*SHARED, "baseline_jobs", "candidate_jobs")
    by_spread: dict[Spread | None, list[pl.DataFrame]] = {}
    for key, part in rows.group_by(SHARED, maintain_order=True):
        by_spread.setdefault(judgement.spreads.get(key), []).append(part)
    return [_unknown(pl.concat(parts), spread, policy) for spread, parts in by_spread.items()]


def _unknown(rows: pl.DataFrame, spread: Spread | None, policy: Policy) -> str:
    jobs = rows.select("baseline_jobs", "candidate_jobs").min().row(0)
    count = " and ".join(f"{one} job{'s' if one > 1 else ''}" for one in jobs)
    few = spread is None or spread.sessions < FEWEST_SESSIONS
    if spread is None:
        percent, times = policy.between_jobs_percent, policy.between_jobs_times_repeats
        known = f"was not measured and is taken as {percent:g} % ({policy.source}: between_jobs_percent)"
        known += f", where something is called at least as {times:g} times what repeats of one job differ" if times else ""
    else:
        percent = spread.percent
        known = f"is known from {spread.sessions} sessions{' only' * few} and is taken as {percent:.1f} %"
    return (
        f"{rows.height} metrics rest on {count}: how much the machine changes from night to night {known}, so that "
        f"differences below {_least_of_few(percent, jobs, policy):.1f} % are no finding"
        + (f"; {FEWEST_SESSIONS} nights or more before the candidate measure it" if few else "")
    )


def reach_sentence(values: pl.DataFrame, policy: Policy) -> str:
    """What a history that is too short cannot tell; empty where it is none at all.

    :param values: of its sessions (:attr:`~mpibench.store.session_values.Selection.values`).
    """
    count = values["session"].n_unique()
    if not count:
        return ""
    least, whence = (
        _least_of_few(policy.between_jobs_percent, (1, 1), policy),
        f" (taken from between_jobs_percent of {policy.source})",
    )
    if count > 1:
        known = prediction.reach(units_of(values), policy.confidence)
        known = known[np.isfinite(known)]
        if len(known):
            least, whence = 100 * float(np.expm1(np.median(known))), ""
    nights_text = "one night each" if count == 1 else f"{count} nights and one"
    return f"{nights_text}: differences below {least:.1f} % cannot be distinguished from night-to-night changes here{whence}"


def _least_of_few(percent: float, jobs: tuple[int, ...], policy: Policy) -> float:
    """Smallest difference in percent that is none of sides of so many jobs, which differ by so much."""
    return percent * math.sqrt(sum(1 / one for one in jobs)) * float(scipy.stats.norm.ppf(0.5 + policy.confidence / 2))


def _with_interval(row: Mapping[str, Any]) -> str:
    if row["slower"] is None:
        return "not compared"
    interval = "no interval" if row["low"] is None else f"[{row['low']:.3f}, {row['high']:.3f}]"
    return f"{change_text(row['slower'])}, ratio {row['ratio']:.3f} {interval}"


def needed_text(row: Mapping[str, Any], rate: float | None = None) -> str:
    """What left it open, and how much more measuring would decide, or why none would.

    :param rate: of false discoveries that are allowed; what is slower than its margin is open because its p is above that.
    """
    if row["ratio"] is None:
        return str(row["why"])
    spread = (
        f"spread {row['spread_percent']:.1f} % against a margin of {row['margin_percent']:g} %" if row["spread_percent"] else ""
    )
    if row["p"] is not None and 100 * row["slower"] > row["margin_percent"]:
        asked = " of all metrics together" if rate is not None and row["p"] <= rate else ""
        spread = f"p = {row['p']:.2g}, " + (f"{rate:g} asked for{asked}" if rate is not None else "above what is asked for")
    if row["units"] == SESSIONS:
        more = "a longer history may decide, more sessions of the candidate cannot"
        if row["needed"] is not None and row["needed"] <= MOST_NEEDED:
            more = f"about {row['needed']} sessions of the candidate would decide"
        return ", ".join(filter(None, [spread, more]))
    if row["needed"] is None or row["needed"] > MOST_NEEDED:
        return ", ".join(filter(None, [spread, "more repeats in these jobs cannot decide: run at least 3 jobs a side"]))
    return ", ".join(filter(None, [spread, f"about {row['needed']} {row['units']} a side would decide"]))


def summary(judgement: Judgement) -> str:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in judgement.counts().items() if count)
    better = judgement.metrics.filter(pl.col("verdict") == IMPROVED).height
    return f"{judgement.metrics.height} metrics: {counts}" + (" (improved counts as accepted)" if better else "")
