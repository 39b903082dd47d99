"""How often verdicts are wrong and what they find: ``PYTHONPATH=ci python -m studies.error_rates``.

Nights are drawn from made-up noise of nine kinds and from the noise recorded in
``ci/tests/data/golden_noise``. They are given to the functions of :mod:`mpibench.judge.engine` that
``gate``, ``drift`` and ``accept`` decide with; beside them to a fixed limit, to Student's t and to
Apache Otava. ``--page docs/background/error-rates.md`` writes the page, which says what is drawn.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.random import Generator
from scipy import stats

from mpibench.judge import drift, engine
from mpibench.judge import policy as verdict_policy
from mpibench.judge.engine import Array, Index, Mask, RowOutcome
from mpibench.store.quantity_text import slowness_of
from mpibench.store.store import Store
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.vocabulary import LOWER, QUANTITIES, BadInput

RECORDED = ROOT / "ci" / "tests" / "data" / "golden_noise"
#: Made-up metrics, and the spread of the typical one, in log.
CURVES = 4
SIZES = 6
NODES = 8
SPREAD = 0.01
KINDS = {
    "normal": "normal distribution",
    "t3": "Student's t with 3 degrees of freedom",
    "t2": "Student's t with 2 degrees of freedom",
    "disturbed": "normal; one job in ten is 1.1 to 2 times slower in all metrics",
    "bimodal": "normal; each of 8 nodes is 6 % slower in 15 % of nights; a metric belongs to one",
    "weekly": "normal; two nights of seven are 1.5 to 3 % slower",
    "dependent": "normal; each night is like the one before, correlation 0.6",
    "quantised": "normal; latencies of 1.5 us that are printed with two decimals",
    "drifting": "normal; 1 % slower each month",
}
#: Nights before the judged one; nights of which a level is asked; sessions of the two sides.
NIGHTS = (5, 10, 15, 30, 60)
LEVELS = (30, 60, 120, 365)
SESSIONS = ((1, 1), (3, 1), (3, 3), (5, 1), (5, 3), (15, 1), (15, 3), (30, 3))
#: Losses in percent after so many nights, how long they are waited for, and what is soon.
LOSSES = (3, 5, 10, 25)
BEFORE = 30
LATER = 10
SOON = 5
LATE = range(BEFORE, BEFORE + LATER)
MEDIAN = "median night"
#: Fewest jobs of a recording; spreads that a worse candidate lost; Otava is asked of one draw in n.
FEWEST_JOBS = 15
WORSE = 5.0
OTAVA_EACH = 4
#: Columns of a file of noise.
COLUMNS = ("fabric", "benchmark", "quantity", "message_bytes", "job", "repeat", "value")
#: Nights and number of the draw to slowness in log, shape (metrics, nights + 1): the last column
#: is the last night measured again. ``None``: not so many were recorded.
Drawn = Callable[[int, int, Generator], Array | None]
#: Of one draw: case, what is asked, and its answer.
Answers = Iterator[tuple[str, str, float | np.bool_]]
Search = Callable[..., Any]


@dataclass(frozen=True)
class Noise:
    """What nights are drawn from.

    :param spread: of a night, of the typical metric, in log.
    :param least: see :func:`.engine.hold`, shape (metrics,); likewise ``curves`` and ``bands``.
    """

    name: str
    about: str
    drawn: Drawn
    rows: engine.Rows
    spread: float
    least: Array
    curves: Index
    bands: Index


def typical_spread(values: Array) -> float:
    """Standard deviation of the typical metric, by the distance of its quartiles."""
    low, high = np.nanquantile(values, [0.25, 0.75], axis=1)
    return float(np.median(high - low)) / 1.349


# -- noise ---------------------------------------------------------------------------------------


def _common(kind: str, nights: int, rng: Generator) -> Array:
    """What a night does to all metrics, to a curve and to a metric, as wide each."""
    total = np.zeros((CURVES, SIZES, nights))
    heavy = {"t2": 2, "t3": 3}.get(kind)
    for shape in ((1, 1, nights), (CURVES, 1, nights), (CURVES, SIZES, nights)):
        part = rng.standard_t(heavy, shape) if heavy else rng.standard_normal(shape)
        for night in range(1, nights if kind == "dependent" else 0):
            part[..., night] = 0.6 * part[..., night - 1] + 0.8 * part[..., night]
        total = total + part
    return total.reshape(CURVES * SIZES, nights)


def _make(kind: str, scale: float, nights: int, _: int, rng: Generator) -> Array:
    values = scale * _common(kind, nights + 1, rng)
    day = np.minimum(np.arange(nights + 1), nights - 1)
    if kind == "disturbed":
        values += np.where(rng.random(len(day)) < 0.1, np.log(rng.uniform(1.1, 2, len(day))), 0)
    if kind == "bimodal":
        slow = rng.random((NODES, len(day))) < 0.15
        values += np.log(1.06) * slow[np.arange(len(values)) % NODES]
    if kind == "weekly":
        weekend = (day + rng.integers(7)) % 7 >= 5
        values += np.log(1.03) * weekend * rng.uniform(0.5, 1, (len(values), 1))
    if kind == "drifting":
        values += np.log(1.01) / 30 * day
    return np.log(np.round(1.5 * np.exp(values), 2)) if kind == "quantised" else values


def _rows(margins: Array, curves: Index, bands: Index) -> engine.Rows:
    return engine.rows_of(margins, curves.tolist(), bands.tolist(), [0] * len(curves))


def made_up(kind: str) -> Noise:
    """Noise of one of :data:`KINDS`; the margin is twice the spread."""
    scale = SPREAD / typical_spread(_common(kind, 4000, np.random.default_rng(0)))
    curves, sizes = np.divmod(np.arange(CURVES * SIZES), SIZES)
    margins = np.full(len(curves), np.log1p(2 * SPREAD))
    rows = _rows(margins, curves, sizes // 2)
    drawn = partial(_make, kind, scale)
    least = np.full(len(curves), SPREAD)
    return Noise(kind, KINDS[kind], drawn, rows, SPREAD, least, curves, sizes // 2)


@dataclass(frozen=True)
class Recording:
    """Slowness in log of jobs, shape (metrics, jobs), NaN for none: medians of repeats.

    :param repeats: spread of a job's repeats, in log, shape (metrics,).
    :param margins: of a system's policy, in log; else twice the spread is taken.
    """

    name: str
    metrics: pl.DataFrame
    logs: Array
    repeats: Array
    margins: Array | None = None


def read_file(path: Path) -> list[Recording]:
    """Recordings of a Parquet or CSV file with the columns :data:`COLUMNS`, one of each fabric.

    Jobs are numbered as they ran. The n-th job of each benchmark is taken to be of one session.

    :raises BadInput: it cannot be read, lacks a column, or holds what is no noise.
    """
    wanted = f"noise has the columns {', '.join(COLUMNS)}, and its jobs have numbers"
    try:
        table = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
        text, numbers = pl.col(COLUMNS[:3]).cast(pl.String), pl.col(COLUMNS[3:6]).cast(pl.Int64)
        table = table.select(COLUMNS).with_columns(text, numbers, pl.col("value").cast(pl.Float64))
    except (OSError, pl.exceptions.PolarsError) as error:
        said = str(error).splitlines()[0]
        raise BadInput("configuration-unusable", f"cannot read {path}: {said}; {wanted}.") from None
    usable = pl.col("quantity").is_in(list(QUANTITIES)) & pl.col("value").is_finite()
    for row in table.filter(~(usable & (pl.col("value") > 0)).fill_null(False))[:1].to_dicts():
        what = f"{row['quantity']} of job {row['job']} is {row['value']}"
        said = f"{path}: {what}, expected a known quantity and a number above 0."
        raise BadInput("configuration-unusable", said)
    signs = {name: 1 if one.direction == LOWER else -1 for name, one in QUANTITIES.items()}
    sign = pl.col("quantity").replace_strict(signs, return_dtype=pl.Float64)
    night = pl.col("job").rank("dense").over(*COLUMNS[:3]).alias("night")
    table = table.with_columns(night, logs=sign * pl.col("value").log())
    key = list(COLUMNS[1:4])
    found = []
    for (fabric,), part in table.group_by("fabric", maintain_order=True):
        jobs = part.group_by(*key, "night").agg(pl.median("logs"), pl.std("logs").alias("repeats"))
        logs = jobs.sort("night", *key).pivot("night", index=key, values="logs").sort(key)
        repeats = jobs.group_by(key).agg(pl.mean("repeats")).sort(key)["repeats"].fill_null(0.0)
        metrics = logs.select(*key, verdict_policy.Policy().bands(logs["message_bytes"]))
        values = logs.drop(key).to_numpy().astype(float)
        found.append(Recording(str(fabric), metrics, values, repeats.to_numpy()))
    return found


def own_history(folder: Path, system: str | None) -> Recording:
    """The nights of a system that its gate reads, with the margins of its policy.

    :raises BadInput: no dataset, or a damaged one.
    """
    history = drift.read(Store(folder), system)
    policy = verdict_policy.load(history.system)
    often = np.mean(~np.isnan(history.logs), axis=1) >= 0.5
    kept = np.flatnonzero(np.isfinite(policy.margins(history.metrics)) & often)
    metrics = history.metrics[kept]
    margins = slowness_of(policy.margins(metrics), metrics["quantity"])
    metrics = metrics.with_columns(policy.bands(metrics["message_bytes"]))
    return Recording(history.system, metrics, history.logs[kept], np.zeros(len(kept)), margins)


def _redrawn(values: Array, nights: int, _: int, rng: Generator) -> Array:
    return values[:, rng.integers(values.shape[1], size=nights + 1)]


def _in_order(values: Array, nights: int, number: int, _: Generator) -> Array | None:
    """Jobs one after the other, from each that has so many after it."""
    end = number + nights + 1
    return values[:, number:end] if end <= values.shape[1] else None


def recorded(recording: Recording) -> Iterator[Noise]:
    """Jobs at random, which may come again, and in order; as they are, and scaled.

    :raises BadInput: too few of them, or none that differ.
    """
    name, (count, jobs), policy = recording.name, recording.logs.shape, verdict_policy.Policy()
    if not count or jobs < FEWEST_JOBS or typical_spread(recording.logs) <= 0:
        said = f"{name} has {jobs} jobs of {count} metrics, expected {FEWEST_JOBS} that differ."
        raise BadInput("configuration-unusable", said)
    groups = (pl.struct(pl.exclude("message_bytes", "band")), pl.col("band"))
    curves, bands = recording.metrics.select(one.rank("dense") for one in groups).to_numpy().T
    centred = recording.logs - engine.medians(recording.logs)[:, None]
    own = typical_spread(centred)
    spreads = {"as recorded": own, "scaled": SPREAD}
    spreads = spreads if recording.margins is None else {"as measured": own}
    for scaled, spread in spreads.items():
        usual = np.full(count, np.log1p(2 * spread))
        margins = usual if recording.margins is None else recording.margins
        rows = _rows(margins, curves, bands)
        least = policy.between_jobs_times_repeats * recording.repeats * spread / own
        least = np.maximum(least, policy.between_jobs_percent / 100)
        about = f"{jobs} jobs of {count} metrics, typical spread {100 * spread:.3g} %"
        for how, drawn in (("at random", _redrawn), ("in order", _in_order)):
            title = f"{name}, {scaled}, {how}"
            drawing = partial(drawn, centred * spread / own)
            yield Noise(title, about, drawing, rows, spread, least, curves, bands)


# -- other rules ---------------------------------------------------------------------------------


def fixed_limit(before: Array, now: Array) -> Mask:
    """Metrics that are more than 10 % slower than the median of the nights before."""
    return np.asarray(engine.medians(now) - engine.medians(before) > np.log(1.1))


def _moments(values: Array) -> tuple[Array, Array, Array]:
    count = np.sum(~np.isnan(values), axis=1)
    mean = np.nansum(values, axis=1) / count
    return count, mean, np.nansum((values - mean[:, None]) ** 2, axis=1) / (count - 1)


def student(before: Array, now: Array) -> Mask:
    """Metrics that a one-sided t calls with Benjamini and Hochberg's rule at 0.01.

    Welch's t of several sessions; of one the t of a prediction.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        (n, centre, variance), (k, level, own) = _moments(before), _moments(now)
        one = variance / n
        two = np.where(k > 1, own / k, variance)
        df = np.where(k > 1, (one + two) ** 2 / (one**2 / (n - 1) + two**2 / (k - 1)), n - 1)
        p = stats.t.sf((level - centre) / np.sqrt(one + two), df)
    return engine.discoveries(np.where(np.isfinite(p), p, 1.0), 0.01)


def otava() -> Search | None:
    """Apache Otava's search, with its defaults; ``None`` where it is not installed."""
    try:
        from otava.analysis import compute_change_points
    except ImportError:
        return None
    return compute_change_points  # type: ignore[no-any-return]


def changed_for_the_worse(search: Search, values: Array) -> bool:
    """Whether Otava has a change for the worse in the last nights of a metric."""
    for series in np.exp(values - engine.medians(values)[:, None]):
        known = series[~np.isnan(series)].tolist()  # its windows are right for lists alone
        for point in search(known)[0]:
            if point.index >= len(known) - SOON and point.stats.mean_2 > point.stats.mean_1:
                return True
    return False


# -- questions -----------------------------------------------------------------------------------


def nights_called(noise: Noise, number: int, rng: Generator, search: Search | None) -> Answers:
    """One more night as those before it."""
    for before in NIGHTS:
        drawn = noise.drawn(before + 1, number, rng)
        if drawn is None:
            continue
        nights = drawn[:, :-1]
        case = f"{before} nights before"
        first = engine.tonight(nights, noise.rows)
        again = engine.tonight(np.delete(drawn, -2, axis=1), noise.rows)
        slower = first.of(RowOutcome.SLOWER)
        blind = first.of(RowOutcome.TOO_NOISY) | first.of(RowOutcome.TOO_FEW)
        yield case, "called", slower.any()
        yield case, "called twice", (slower & again.of(RowOutcome.SLOWER)).any()
        yield case, "night not judged", not (first.limit[: len(drawn)] < np.log(1.9)).any()
        yield case, "metrics not judged", blind[: len(drawn)].mean()
        for name, rule in (("fixed 10 %", fixed_limit), ("Student's t", student)):
            yield case, name, rule(nights[:, :-1], nights[:, -1:]).any()
        if search:
            yield case, "Apache Otava", changed_for_the_worse(search, nights)


def levels_called(noise: Noise, number: int, rng: Generator, _: Search | None) -> Answers:
    """The level of the last of some nights that are alike."""
    for nights in LEVELS:
        drawn = noise.drawn(nights, number, rng)
        if drawn is not None:
            found = engine.lasting(drawn[:, :-1], noise.rows)
            yield f"{nights} nights", "called", found.of(RowOutcome.SLOWER).any()


def sessions_judged(noise: Noise, number: int, rng: Generator, _: Search | None) -> Answers:
    """A candidate as the baseline, and one that is worse, as ``accept`` decides."""
    wide = noise.rows.kinds == engine.WIDE
    margins = noise.rows.all_margins
    for before, after in SESSIONS:
        drawn = noise.drawn(before + after, number, rng)
        if drawn is None:
            continue
        case = f"{before}, {after}"
        old = drawn[:, :before]
        new = drawn[:, before:-1]
        for title, loss in (("", 0.0), (", worse", WORSE * noise.spread)):
            judged = engine.hold(old, new + loss, noise.rows, noise.least)
            refused = judged.of(RowOutcome.SLOWER).any()
            accepted = not refused and (judged.upper < margins)[wide].all()
            yield case, f"refused{title}", refused
            yield case, f"accepted{title}", accepted
            if not loss:
                held = (judged.low <= 0) & (judged.high >= 0)
                yield case, "intervals hold", held[: len(drawn)].mean()
        yield case, "fixed 10 %", fixed_limit(old, new).any()
        if before > 1:
            yield case, "Welch's t", student(old, new).any()


def _places(noise: Noise, rng: Generator) -> dict[str, Mask]:
    """Metrics that a loss may be of."""
    parts = {
        "everything": np.zeros(len(noise.curves)),
        "a band of sizes": noise.bands,
        "one curve": noise.curves,
        "one node of eight": np.arange(len(noise.curves)) % NODES,
    }
    return {name: of == rng.choice(np.unique(of)) for name, of in parts.items()}


def _is_called(values: Array, hit: Mask, noise: Noise) -> bool:
    asked = (ask(values, noise.rows) for ask in (engine.tonight, engine.lasting))
    return any(found.of(RowOutcome.SLOWER)[: len(values)][hit].any() for found in asked)


def losses_found(noise: Noise, number: int, rng: Generator, search: Search | None) -> Answers:
    """A loss that lasts: after how many nights is it called on a metric that has it?"""
    drawn = noise.drawn(BEFORE + LATER, number, rng)
    if drawn is None:
        return
    for place, hit in _places(noise, rng).items():
        for percent in LOSSES:
            values = drawn[:, :-1].copy()
            case = f"{place}: {percent} %"
            values[hit, BEFORE:] += np.log1p(percent / 100)
            called = (night for night in LATE if _is_called(values[:, : night + 1], hit, noise))
            waited = next(called, np.inf) - BEFORE + 1
            yield case, "first night", waited == 1
            yield case, "within five", waited <= SOON
            yield case, MEDIAN, waited
            for name, rule in (("fixed 10 %", fixed_limit), ("Student's t", student)):
                soon = (np.split(values, [night, night + 1], 1) for night in LATE[:SOON])
                yield case, name, any(rule(old, now)[hit].any() for old, now, _ in soon)
            if search:
                known = values[hit, : BEFORE + SOON]
                yield case, "Apache Otava", changed_for_the_worse(search, known)


def _histories(drawn: Array, rng: Generator) -> Iterator[tuple[str, Array]]:
    """Nights that may hide a loss of the last one."""
    metrics, nights = drawn.shape
    glitch, bad, four = (drawn.copy() for _ in range(3))
    glitch[rng.integers(metrics), -5] += np.log(10)
    bad[:, -5] += np.log(1.9)
    four[:, -12:-4:2] += np.log(3)
    yield from {"one glitch": glitch, "one bad night": bad, "four bad nights": four}.items()
    yield "0.5 % slower each night", drawn + np.log(1.005) * np.arange(nights)
    gaps = rng.random((metrics, nights)) < 0.3
    gaps[:, -1] = False
    yield "gaps", np.where(gaps, np.nan, drawn)
    for few in (2, 4, 6, 9):
        yield f"{few} nights", drawn[:, -few - 1 :]


def doubled_times(noise: Noise, number: int, rng: Generator, _: Search | None) -> Answers:
    """A last night that is twice as slow, or ten times on one curve: is anything of it held?"""
    drawn = noise.drawn(BEFORE, number, rng)
    if drawn is None:
        return
    places = _places(noise, rng)
    for case, history in _histories(drawn, rng):
        for name, hit, times in (
            ("all twice", places["everything"], 2.0),
            ("one curve ten times", places["one curve"], 10.0),
        ):
            values = history.copy()
            values[hit, -1] += np.log(times)
            found = engine.tonight(values, noise.rows)
            called = found.of(RowOutcome.SLOWER)[: len(values)][hit]
            yield case, f"{name}, called", called.any()
            held = found.of(RowOutcome.HELD)[: len(values)][hit]
            yield case, name, held.any() and not called.any()


# -- tables --------------------------------------------------------------------------------------

ASKED = (nights_called, levels_called, sessions_judged, losses_found, doubled_times)
#: Of each table: question, title, what stands in a cell, and what that counts.
TABLES = (
    (
        "nights_called",
        "False positives of a night",
        "called / called twice",
        "Nothing changed. *Called*: a metric is called slower. *Called twice*: it is called slower "
        "again when it is measured again, and the night is red.",
    ),
    (
        "losses_found",
        "Power: how soon a lasting loss is found",
        "first night / within five / median night",
        "A loss begins after 30 nights and lasts. In how many draws is it found in its first "
        "night, and within five nights; and in which night is it found in the median draw?",
    ),
    (
        "nights_called",
        "Nights and metrics that are not judged",
        "night not judged / metrics not judged",
        "Nothing changed. A night is not judged if no metric would be called slower even if it "
        "took 1.9 times as long.",
    ),
    (
        "levels_called",
        "False positives of drift",
        "called",
        "Nothing changed in so many nights. How often does `drift` report a lasting loss? (The "
        "noise *drifting* does get slower, so there it is right.)",
    ),
    (
        "sessions_judged",
        "Acceptance: nothing changed",
        "refused / accepted",
        "The columns are sessions of the baseline, sessions of the candidate. What is neither "
        "accepted nor refused is inconclusive.",
    ),
    (
        "sessions_judged",
        "Acceptance: the candidate lost 2.5 margins",
        "refused, worse / accepted, worse",
        "The same with a loss in all metrics. It should be refused, and must not be accepted.",
    ),
    (
        "sessions_judged",
        "Acceptance: how often the 95 % intervals are right",
        "intervals hold",
        "Nothing changed. How many of the metrics' intervals contain zero?",
    ),
    (
        "doubled_times",
        "A much slower night that nothing reports",
        "all twice / one curve ten times",
        "The last night takes twice as long in everything, or ten times as long on one curve, "
        "after nights that could hide that. How often is no metric called slower, and at least "
        "one withheld as if it were as usual? This must never happen.",
    ),
    (
        "doubled_times",
        "A much slower night that is called slower",
        "all twice, called / one curve ten times, called",
        "The same nights. What is neither called slower nor withheld is not judged.",
    ),
    (
        "nights_called",
        "False positives of other rules",
        "fixed 10 % / Student's t / Apache Otava",
        "The nights of the first table: nothing changed.",
    ),
    (
        "losses_found",
        "Power of other rules",
        "fixed 10 % / Student's t / Apache Otava",
        "The losses of the second table, found within five nights.",
    ),
    (
        "sessions_judged",
        "Acceptance by other rules: nothing changed, and refused",
        "fixed 10 % / Welch's t",
        "The candidates of the fifth table.",
    ),
)
#: Columns of the summary: title, question, case, and what is asked.
SUMMARY = (
    ("called slower", "nights_called", f"{BEFORE} nights before", "called"),
    ("called twice: red", "nights_called", f"{BEFORE} nights before", "called twice"),
    ("not judged", "nights_called", f"{BEFORE} nights before", "night not judged"),
    ("5 % of everything", "losses_found", "everything: 5 %", "within five"),
    ("10 % of one curve", "losses_found", "one curve: 10 %", "within five"),
    ("25 % of one node in eight", "losses_found", "one node of eight: 25 %", "within five"),
)
PAGE = """# Error rates

A verdict can be wrong in two ways: something is called slower although nothing changed (a
[false positive](../reference/words.md)), or a loss is not found. This page says how often each
happens, by simulation. The rules are those of [how a verdict is made](verdicts.md).

## In a minute

A night is compared with the 30 nights before it. In the columns *called slower* to *not judged*
**nothing changed**: small numbers are good. In the last three columns **a loss of that size begins
and lasts**: they show how often it is found within five nights, and large numbers are good.

{summary}

- A cell is a percentage of {draws} draws (simulated histories) with its 95 % interval. `0 [0,
  {zero:g}]` means that it happened in no draw, so the true rate is below {zero:g} %.
- *Called slower* counts nights, not metrics: one metric is enough. `ci/nightly` measures it again,
  and the night is red only if it is slower twice.
- A night that is *not judged* is neither green nor red (exit status 3). On such a machine ordinary
  losses are invisible until it becomes quieter.

## What was simulated

- **Simulated noise** has 4 curves of 6 sizes. It affects everything together, each curve, and each
  metric, all three equally; a typical metric has a spread of 1 %.
- **Recorded noise** is drawn from jobs of a real machine: *at random*, with replacement, or *in
  order*, starting at each job with enough jobs after it. Draws in order overlap, so their intervals
  are too short. A cell is empty if too few jobs were recorded.
- The **margin** is twice the spread of the noise.
- **Measured again** means a new draw or, if nights depend on each other or are in order, the next
  night.
- A **loss** affects everything, a band of sizes, one curve, or every eighth metric, as if one node
  of eight had them. It is found if an affected metric is called slower, compared with earlier
  nights or with the baseline.
- **Accepted** means that nothing is slower, and that for all metrics and each band of sizes a loss
  as large as the margin is ruled out.
- **Other rules** call a night slower if they call a metric slower: 10 % above the median of the
  nights before; a one-sided t-test of each metric with Benjamini and Hochberg's rule at 1 %; Apache
  Otava with its defaults, a change for the worse in the last five nights ({otava}).
- **Intervals** are those of Clopper and Pearson, or Student's over the draws for shares of metrics.
  The last column of a table is the smallest number of draws in its row.

Made by `PYTHONPATH=ci python -m studies.error_rates --page docs/background/error-rates.md`, with
{draws} draws and seed {seed}.
"""


def rates(noise: Noise, draws: int, seed: int, search: Search | None) -> Iterator[dict[str, Any]]:
    """A row of each case of each question; ``share`` is of the draws, of a median night that."""
    for place, question in enumerate(ASKED):
        tally: dict[tuple[str, str], list[float]] = defaultdict(list)
        for number in range(draws):
            asked = search if number % OTAVA_EACH == 0 else None
            rng = np.random.default_rng([seed, place, number])
            for case, answer, value in question(noise, number, rng, asked):
                tally[case, answer].append(float(value))
        for (case, answer), values in tally.items():
            row: dict[str, Any] = {
                "noise": noise.name,
                "about": noise.about,
                "question": question.__name__,
            }
            row |= {"case": case, "asked": answer, "draws": len(values), "of": draws, "seed": seed}
            share, low, high = interval(values, answer == MEDIAN)
            yield row | {"share": share, "low": low, "high": high}


def interval(values: Sequence[float], median: bool) -> tuple[float, float, float]:
    """Mean of draws, or their median, with its 95 % interval."""
    count = len(values)
    mean = float(np.mean(values))
    ordered = np.sort(values)
    if median:
        low, high = (int(stats.binom.ppf(one, count, 0.5)) for one in (0.025, 0.975))
        ends = ordered[max(low - 1, 0)], ordered[min(high, count - 1)]
        return float(np.median(ordered)), float(ends[0]), float(ends[1])
    if np.isin(ordered, (0, 1)).all():
        exact = stats.binomtest(int(ordered.sum()), count).proportion_ci(method="exact")
        return mean, float(exact.low), float(exact.high)
    reach = float(stats.t.ppf(0.975, count - 1) * np.std(ordered, ddof=1) / np.sqrt(count))
    return mean, max(mean - reach, 0.0), min(mean + reach, 1.0)


def table(rows: Sequence[dict[str, Any]], asked: Sequence[str]) -> str:
    """Markdown; what stands before a colon in a case becomes part of the row."""
    columns: dict[str, None] = {}
    cells: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for row in rows:
        part, _, column = row["case"].rpartition(": ")
        columns[column] = None
        title = f"{row['noise']}: {part}" if part else row["noise"]
        cells.setdefault(title, {})[column, row["asked"]] = row
    lines = [f"| noise | {' | '.join(columns)} | draws |", "|---" * (len(columns) + 2) + "|"]
    for title, own in cells.items():
        cell = ([own.get((column, one)) for one in asked] for column in columns)
        texts = (" / ".join(_text(one) for one in known if one) for known in cell)
        least = min(row["draws"] for row in own.values() if row["asked"] == asked[0])
        lines.append(f"| {title} | {' | '.join(texts)} | {least} |")
    return "\n".join(lines) + "\n"


def _text(row: dict[str, Any]) -> str:
    times = 1 if row["asked"] == MEDIAN else 100
    numbers = (round(times * row[name], 1) for name in ("share", "low", "high"))
    words = [f"{one:g}" if np.isfinite(one) else f"over {LATER}" for one in numbers]
    return "{} [{}, {}]".format(*words)


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: a row for each noise, with false positives and power beside one another."""
    about = {row["noise"]: row["about"] for row in rows}
    known = {(row["noise"], row["question"], row["case"], row["asked"]): row for row in rows}
    titles = (title for title, *_ in SUMMARY)
    lines = [f"| noise | what it is | {' | '.join(titles)} |", "|---" * (len(SUMMARY) + 2) + "|"]
    for name, text in about.items():
        found = (known.get((name, *asked)) for _, *asked in SUMMARY)
        cells = (_text(row) if row else "" for row in found)
        lines.append(f"| {name} | {text} | {' | '.join(cells)} |")
    return "\n".join(lines)


def page(rows: Sequence[dict[str, Any]], draws: int, seed: int) -> str:
    """The page of documentation."""
    most = max((row["draws"] for row in rows if row["asked"] == "Apache Otava"), default=0)
    head = PAGE.format(
        draws=draws,
        seed=seed,
        otava=f"one draw of {OTAVA_EACH}, as it is slow" if most else "not installed",
        summary=summary(rows),
        zero=round(100 * interval([0.0] * draws, median=False)[2], 1),
    )
    parts = [head]
    for question, title, cell, says in TABLES:
        asked = cell.split(" / ")
        own = [row for row in rows if row["question"] == question and row["asked"] in asked]
        parts += (
            [f"## {title}\n\n{says}\n\nIn a cell: {cell}.\n\n{table(own, asked)}"] if own else []
        )
    return "\n".join(parts)


def sources(options: argparse.Namespace) -> Iterator[Noise]:
    """What is drawn from: a system's history, a file, or all kinds and the recordings."""
    if options.dataset:
        return recorded(own_history(options.dataset, options.system))
    if options.noise:
        return (noise for one in read_file(options.noise) for noise in recorded(one))
    today, other = (read_file(RECORDED / f"{name}.parquet") for name in ("repeats", "another_day"))
    both = [*today, *(replace(one, name=f"{one.name}, another day") for one in other)]
    return chain(map(made_up, KINDS), (noise for one in both for noise in recorded(one)))


def main(words: Sequence[str] | None = None) -> int:
    """Write or print the page; exit status: 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", type=Path, help="folder of a dataset: a site's own history")
    parser.add_argument("--system", help="of the dataset, where it holds several")
    parser.add_argument("--noise", type=Path, help=f"Parquet or CSV: {', '.join(COLUMNS)}")
    parser.add_argument("--only", nargs="+", help="noise of these names")
    parser.add_argument("--draws", type=int, default=200, help="of each rate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="rows; noise that is there is not drawn again")
    parser.add_argument("--page", type=Path, help="where to write; default: print")
    options = parser.parse_args(words)
    try:
        known = {one.name: one for one in sources(options)}
        order = list(options.only or known)
        if not set(order) <= set(known):
            said = f"--only is {', '.join(order)}; there are {', '.join(known)}."
            raise BadInput("unknown-name", said)
        if options.draws < 2:
            raise BadInput("bad-option", f"--draws is {options.draws}, expected at least 2.")
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    search = otava()
    if search is None:
        print("Apache Otava is not asked: pip install --no-deps apache-otava", file=sys.stderr)
    stored = options.json
    made = (options.draws, options.seed)
    rows = json.loads(stored.read_text()) if stored and stored.exists() else []
    rows = [row for row in rows if (row["of"], row["seed"]) == made]
    for name in order:
        if all(row["noise"] != name for row in rows):
            print(name, file=sys.stderr)
            rows += rates(known[name], *made, search)
            if stored:
                stored.write_text(json.dumps(rows, indent=1))
    shown = (row for name in order for row in rows if row["noise"] == name)
    text = page(list(shown), *made)
    print(text) if options.page is None else options.page.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
