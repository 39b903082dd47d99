"""After how many slow nights a slowdown is reported: ``python -m studies.detection``.

Whole jobs of recorded noise are drawn at random, each for a night, as ``studies.error_rates`` draws them; from one night on
all sizes, a band or one size are slower, and the nightly watch is asked night by night until it reports a change. What it
reports of the nights before is a false alarm.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mpibench.judge import drift
from mpibench.judge.policy import Policy
from mpibench.judge.statistics.two_sides import Array
from reframe_tests.harness.sites.site import ROOT
from studies.error_rates import answer, noise
from studies.error_rates.draws import job_medians, patterns
from studies.error_rates.nights import change_points
from studies.error_rates.noise import Trace
from studies.error_rates.shares import share_interval

NOISE = ROOT / "ci" / "tests" / "data" / "golden_noise" / "repeats.parquet"
SLOWDOWNS_PERCENT = (3.0, 5.0, 10.0, 20.0)
#: Quiet nights before a change, and how long it is waited for.
QUIET_NIGHTS, MOST_NIGHTS = 30, 10


@dataclass(frozen=True)
class Detection:
    """What was reported.

    :param waited: slow nights until the report, of each draw, by pattern and slowdown; infinite where there was none.
    :param called: metrics called in quiet nights, of ``tried``.
    """

    waited: dict[tuple[str, float], list[float]]
    called: int
    tried: int


def measure(trace: Trace, policy: Policy, draws: int, seed: int = 1) -> Detection:
    """Draw nights and slow the last ones down, one more at a time.

    :raises ValueError: the trace has fewer jobs than there are nights.
    """
    nights = QUIET_NIGHTS + MOST_NIGHTS
    if trace.jobs < nights:
        raise ValueError(f"{trace.fabric} has {trace.jobs} jobs, {nights} are needed")
    rng = np.random.default_rng(seed)
    logs, masks = job_medians(trace), patterns(trace, policy)
    waited: dict[tuple[str, float], list[float]] = {(name, one): [] for name in masks for one in SLOWDOWNS_PERCENT}
    called = 0
    for _ in range(draws):
        drawn = logs[:, rng.permutation(trace.jobs)[:nights]]
        called += change_points(trace, drawn, policy)["row"].n_unique()
        hits = {name: some[rng.integers(len(some))] for name, some in masks.items()}
        for (name, percent), counts in waited.items():
            slow = np.log1p(percent / 100) * hits[name][:, None] * (np.arange(nights) >= QUIET_NIGHTS)
            counts.append(_wait(trace, drawn + slow, hits[name], policy))
    return Detection(waited, called, draws * len(logs))


def _wait(trace: Trace, logs: Array, hit: np.ndarray, policy: Policy) -> float:
    for count in range(drift.FEWEST_CHANGED, MOST_NIGHTS + 1):
        points = change_points(trace, logs[:, : QUIET_NIGHTS + count], policy, count + 2)
        if hit[points["row"].to_numpy()].any():
            return count
    return float("inf")


def lines(
    path: Path,
    draws: int,
    spreads_percent: Sequence[float] = answer.SPREADS_PERCENT,
) -> Iterator[str]:
    """The report, line by line, on each fabric with enough jobs."""
    policy = answer.with_margin(Policy(), answer.MARGIN_PERCENT)
    for trace in noise.read_file(path):
        if trace.jobs < QUIET_NIGHTS + MOST_NIGHTS:
            yield f"{trace.fabric}: {trace.jobs} jobs recorded, too few"
            continue
        for percent in spreads_percent:
            found = measure(trace.scaled(percent / 100 if percent else None), policy, draws)
            yield f"{trace.fabric}, " + (f"scaled to a spread of {percent:g} %" if percent else "as recorded")
            yield (
                f"    drift, {QUIET_NIGHTS + MOST_NIGHTS} quiet nights: {1000 * found.called / found.tried:.1f} of 1,000 "
                f"metrics called ({found.tried} tried)"
            )
            for name in dict.fromkeys(name for name, _ in found.waited):
                cells = [_cell(one, found.waited[name, one]) for one in SLOWDOWNS_PERCENT]
                yield f"    nights until a slowdown of {name} is reported: " + "; ".join(cells)


def _cell(percent: float, waited: Sequence[float]) -> str:
    middle, reported = float(np.median(waited)), int(np.isfinite(waited).sum())
    shown = f"{middle:g} nights" if np.isfinite(middle) else f"not within {MOST_NIGHTS} nights"
    low, high = share_interval(reported, len(waited))
    return f"{percent:g}%: {shown} ({reported / len(waited):.0%} of {len(waited)}, {low:.0%} to {high:.0%})"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noise", type=Path, default=NOISE, help="recorded noise, as of python -m studies.error_rates")
    parser.add_argument("--draws", type=int, default=20, help="histories of nights")
    options = parser.parse_args()
    for line in lines(options.noise, options.draws):
        print(line, flush=True)


if __name__ == "__main__":
    main()
