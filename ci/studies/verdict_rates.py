"""How often verdicts are wrong, measured on recorded noise: ``python -m studies.verdict_rates``.

The noise (``ci/tests/data/golden_noise/repeats.parquet``) was recorded by the suite itself, 5 repeats a job, MPICH 5.0.2 with
IMB 2021.11, on two shared cores that other work kept busy: 80 jobs of ``ImbPointToPoint`` over ``shm`` (400 repeats of one
condition, 11 sessions) and 20 jobs of ``ImbPointToPoint`` and ``ImbParallelTransfer`` over the mini-cluster's ``eth1g``.

It is used as it is, and with its spread scaled down (``scale``): shape, outliers and the correlation of neighbouring sizes
stay those recorded, the typical metric gets the spread named. Machines less busy than this one are nearer to the latter.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from mpibench.statistics import two_sides
from mpibench.statistics.two_sides import Array
from mpibench.verdicts import curve_tests, drift
from mpibench.verdicts.policy import Policy
from mpibench.verdicts.words import IMPROVED, INCONCLUSIVE, REGRESSED
from reframe_tests.harness.sites.site import ROOT

NOISE = ROOT / "ci" / "tests" / "data" / "golden_noise" / "repeats.parquet"
SLOWDOWNS = (0.03, 0.05, 0.10, 0.20)
PATTERNS = ("all sizes", "a band", "one size")
#: Equal means within this here; a slowdown as large as the margin is by definition called half the time.
MARGIN_PERCENT = 2.0


@dataclass(frozen=True)
class Curve:
    """One recorded curve: slowness in log, shape (sizes, repeats), with the job of each repeat."""

    name: str
    sizes: list[int | None]
    logs: Array
    jobs: np.ndarray


@dataclass
class Rates:
    """Counts of one experiment."""

    tried: int = 0
    called: int = 0

    def add(self, called: int, tried: int) -> None:
        self.called, self.tried = self.called + called, self.tried + tried

    @property
    def share(self) -> float:
        """Called of tried; NaN if nothing was tried."""
        return self.called / self.tried if self.tried else float("nan")


def load(fabric: str, path: Path = NOISE) -> list[Curve]:
    """Recorded curves of a fabric; all curves of one job list share their repeats' order."""
    table = pl.read_parquet(path).filter(pl.col("fabric") == fabric)
    curves = []
    for (benchmark, quantity), part in table.group_by("benchmark", "quantity", maintain_order=True):
        wide = part.with_columns(unit=pl.col("job").cast(pl.Int32) * 100 + pl.col("repeat")).pivot(
            on="unit", index="message_bytes", values="value"
        )
        wide = wide.sort("message_bytes")
        names = np.array([int(name) for name in wide.columns[1:]])
        order = np.argsort(names)
        sign = -1.0 if quantity == "bandwidth_mb_per_s" else 1.0
        logs = sign * np.log(wide.drop("message_bytes").to_numpy().astype(float))[:, order]
        curves.append(Curve(f"{benchmark} {quantity}", wide["message_bytes"].to_list(), logs, names[order] // 100))
    return curves


def scale(curves: list[Curve], spread: float | None) -> list[Curve]:
    """Curves whose typical metric has this spread (interquartile range / 1.35, in log); ``None`` leaves them as recorded."""
    if spread is None:
        return curves
    deviations = [curve.logs - np.median(curve.logs, axis=1, keepdims=True) for curve in curves]
    typical = np.median(np.concatenate([(np.subtract(*np.quantile(one, [0.75, 0.25], axis=1))) / 1.35 for one in deviations]))
    return [
        Curve(curve.name, curve.sizes, deviation * spread / typical, curve.jobs)
        for curve, deviation in zip(curves, deviations, strict=True)
    ]


def draw(curve: Curve, rng: np.random.Generator, repeats: int, by_job: bool) -> tuple[Array, Array]:
    """Two sides of so many repeats: at random, or two whole jobs."""
    if by_job:
        one, two = rng.choice(np.unique(curve.jobs), 2, replace=False)
        return curve.logs[:, curve.jobs == one][:, :repeats], curve.logs[:, curve.jobs == two][:, :repeats]
    chosen = rng.permutation(curve.logs.shape[1])[: 2 * repeats]
    return curve.logs[:, chosen[:repeats]], curve.logs[:, chosen[repeats:]]


def inject(logs: Array, slowdown: float, pattern: str, rng: np.random.Generator) -> tuple[Array, np.ndarray]:
    """Slow some sizes down; returns the logs and which sizes were hit."""
    count = len(logs)
    hit = np.zeros(count, dtype=bool)
    if pattern == "all sizes":
        hit[:] = True
    elif pattern == "a band":
        hit[count - max(1, count // 3) :] = True
    else:
        hit[rng.integers(count)] = True
    return logs + np.log1p(slowdown) * hit[:, None], hit


def judge(sides: list[tuple[Curve, Array, Array]], policy: Policy, between: float) -> list[np.ndarray]:
    """Verdicts per curve and size."""
    tests = [
        test
        for number, (curve, left, right) in enumerate(sides)
        for test in curve_tests.tests_of_curve(number, curve.sizes, left, right, policy, between=between)
    ]
    results = curve_tests.evaluate(tests, policy)
    margins = np.full(len(tests), np.log1p(policy.margin("latency_us", "small")))
    final = curve_tests.combine_verdicts(tests, results, margins, policy)
    found: list[list[str]] = [[] for _ in sides]
    for test, (verdict, _) in zip(tests, final, strict=True):
        if test.level == curve_tests.SIZE:
            found[test.curve].append(verdict)
    return [np.array(one) for one in found]


def experiment(curves: list[Curve], repeats: int, splits: int, by_job: bool, seed: int = 1) -> dict[str, Rates]:
    """False alarms, detections per slowdown and pattern, fixed thresholds on single runs, coverage."""
    rng = np.random.default_rng(seed)
    policy = Policy(margins_percent={"latency_us": MARGIN_PERCENT}, between_jobs_percent=0)
    between = 2 * _between_jobs(curves) if by_job else 0.0
    rates: dict[str, Rates] = {}

    def count(name: str, called: np.ndarray) -> None:
        rates.setdefault(name, Rates()).add(int(called.sum()), called.size)

    for _ in range(splits):
        sides = [(curve, *draw(curve, rng, repeats, by_job)) for curve in curves]
        for found in judge(sides, policy, between):
            count("false alarm", (found == REGRESSED) | (found == IMPROVED))
            count("not decided", found == INCONCLUSIVE)
        effects = two_sides.compare(
            np.concatenate([left for _, left, _ in sides]), np.concatenate([right for _, _, right in sides]), between
        )
        low, high = effects.interval(0.95)
        count("interval holds the truth", (low <= 0) & (high >= 0))
        for threshold in (0.05, 0.10):
            for _, left, right in sides:
                single = np.expm1(right[:, 0] - left[:, 0])
                count(f"false alarm, single run +-{threshold:.0%}", np.abs(single) > threshold)
        for slowdown in SLOWDOWNS:
            for pattern in PATTERNS:
                slowed = [inject(right, slowdown, pattern, rng) for _, _, right in sides]
                changed = [(curve, left, right) for (curve, left, _), (right, _) in zip(sides, slowed, strict=True)]
                name = f"{slowdown:.0%} {pattern}"
                for found, (_, left, right), (_, hit) in zip(judge(changed, policy, between), changed, slowed, strict=True):
                    # The change counts as found if the curve is called at all: that is what stops a gate.
                    count(f"found {name}", np.array([(found[hit] == REGRESSED).any()]))
                    count(f"sizes found {name}", found[hit] == REGRESSED)
                    for threshold in (0.05, 0.10):
                        single = np.expm1(right[hit, 0] - left[hit, 0]) > threshold
                        count(f"sizes found {name}, single run +-{threshold:.0%}", single)
    return rates


#: Quiet nights before a change, and how long it is waited for.
QUIET_NIGHTS, MOST_NIGHTS = 30, 10


def nights_to_detection(curves: list[Curve], trials: int, seed: int = 1) -> Iterator[str]:
    """After how many slow nights ``drift`` reports a change, and what it reports of nights in which nothing changed.

    A night gives each metric the median of five repeats drawn at random, as a night of one job does.
    """
    rng = np.random.default_rng(seed)
    policy = Policy(margins_percent={"latency_us": MARGIN_PERCENT})
    sizes = [(curve.name, size) for curve in curves for size in curve.sizes]
    metrics = pl.DataFrame(
        {"benchmark": [name for name, _ in sizes], "message_bytes": [size for _, size in sizes]}
    ).with_columns(quantity=pl.lit("latency_us"), direction=pl.lit("lower"))

    def history(logs: Array) -> drift.History:
        return drift.History("noise", pl.DataFrame({"session": [""] * logs.shape[1]}), metrics, logs, ())

    def night(curve: Curve) -> Array:
        return np.median(curve.logs[:, rng.permutation(curve.logs.shape[1])[:5]], axis=1)

    def series(count: int) -> list[Array]:
        return [np.stack([night(curve) for _ in range(count)], axis=1) for curve in curves]

    quiet = [series(QUIET_NIGHTS + MOST_NIGHTS) for _ in range(trials)]
    false = sum(drift.change_points(history(np.concatenate(one)), policy)["row"].n_unique() for one in quiet)
    yield (
        f"    drift, {QUIET_NIGHTS + MOST_NIGHTS} quiet nights: {1000 * false / (trials * len(sizes)):.1f} of 1,000 metrics "
        f"called ({trials * len(sizes)} tried)"
    )
    for pattern in PATTERNS:
        cells = []
        for slowdown in SLOWDOWNS:
            waited: list[float] = []
            for one in quiet:
                slowed = [inject(logs, slowdown, pattern, rng) for logs in one]
                hit = np.flatnonzero(np.concatenate([where for _, where in slowed]))
                changed = np.concatenate(one)
                changed[:, QUIET_NIGHTS:] = np.concatenate([logs for logs, _ in slowed])[:, QUIET_NIGHTS:]
                waited.append(float("inf"))
                for count in range(drift.FEWEST_CHANGED, MOST_NIGHTS + 1):
                    found = drift.change_points(history(changed[:, : QUIET_NIGHTS + count]), policy, recent=count + 2)
                    if set(found["row"]) & set(hit.tolist()):
                        waited[-1] = count
                        break
            middle = float(np.median(waited))
            shown = f"{middle:g} nights" if np.isfinite(middle) else f"not within {MOST_NIGHTS} nights"
            cells.append(f"{slowdown:.0%}: {shown} ({np.isfinite(waited).mean():.0%} of {trials})")
        yield f"    nights until a slowdown of {pattern} is reported: " + "; ".join(cells)


def _between_jobs(curves: list[Curve]) -> float:
    """Variance of job medians beyond that of their repeats, in log², median over metrics."""
    found = []
    for curve in curves:
        groups = [curve.logs[:, curve.jobs == job] for job in np.unique(curve.jobs)]
        medians = np.stack([np.median(group, axis=1) for group in groups], axis=1)
        within = np.mean([np.var(group, axis=1, ddof=1) for group in groups], axis=0)
        found.append(np.maximum(0, np.var(medians, axis=1, ddof=1) - np.pi / 2 * within / groups[0].shape[1]))
    return float(np.median(np.concatenate(found)))


def lines(splits: int, nights: int = 0, fabrics: tuple[str, ...] = ("shm", "eth1g")) -> Iterator[str]:
    """The report, line by line.

    :param nights: histories per experiment on nights to detection.
    """
    for fabric in fabrics:
        recorded = load(fabric)
        metrics = sum(len(curve.sizes) for curve in recorded)
        yield f"{fabric}: {metrics} metrics, {recorded[0].logs.shape[1]} repeats recorded of each"
        for spread, repeats, by_job in (
            (None, 5, False),
            (None, 5, True),
            (0.01, 5, False),
            (0.01, 3, False),
            (0.02, 5, False),
        ):
            began = time.perf_counter()
            rates = experiment(scale(recorded, spread), repeats, splits, by_job)
            kind = "as recorded" if spread is None else f"scaled to a spread of {spread:.0%}"
            yield f"  {kind}, {repeats} repeats a side, {'two whole jobs' if by_job else 'random split'}, {splits} splits"
            yield (
                f"    false alarms per 1,000: {1000 * rates['false alarm'].share:.2f}; single runs at +-5 %: "
                f"{1000 * rates['false alarm, single run +-5%'].share:.0f}, at +-10 %: "
                f"{1000 * rates['false alarm, single run +-10%'].share:.0f}"
            )
            yield (
                f"    intervals that hold the truth (95 % wanted): {100 * rates['interval holds the truth'].share:.1f} %; "
                f"inconclusive at a margin of {MARGIN_PERCENT:g} %: {100 * rates['not decided'].share:.0f} %"
            )
            for pattern in PATTERNS:
                cells = []
                for slowdown in SLOWDOWNS:
                    name = f"{slowdown:.0%} {pattern}"
                    single = [rates[f"sizes found {name}, single run +-{limit}%"].share for limit in (5, 10)]
                    cells.append(
                        f"{slowdown:.0%}: {100 * rates[f'found {name}'].share:.0f} % of curves, "
                        f"{100 * rates[f'sizes found {name}'].share:.0f} % of sizes "
                        f"({100 * single[0]:.0f} / {100 * single[1]:.0f})"
                    )
                yield f"    slowdown of {pattern}, found (of sizes by single runs at 5 / 10 %): " + "; ".join(cells)
            if nights and not by_job and repeats == 5:
                yield from nights_to_detection(scale(recorded, spread), nights)
            yield f"    ({time.perf_counter() - began:.0f} s)"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=200, help="random splits per experiment")
    parser.add_argument("--nights", type=int, default=10, help="histories per experiment on nights to detection; 0: none")
    options = parser.parse_args()
    for line in lines(options.splits, options.nights):
        print(line, flush=True)


if __name__ == "__main__":
    main()
