"""How soon ``drift`` sees a change, and how often it calls quiet nights: ``python -m studies.change_points``.

A night is one recorded job drawn whole: all its curves, with the disturbances they share; each metric is the median of its
repeats. Where a history needs more nights than there are jobs, each is drawn once before one is drawn again. ``--in-order``
takes the jobs as they were recorded, so that slow changes of the machine are in it.

The decision is that of ``drift`` (:func:`mpibench.verdicts.drift.change_points`); beside the product's own search stand others
that only propose other change points: the same fit to ranks, binary segmentation, and E-divisive with Welch's test.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from mpibench.error_rates import noise
from mpibench.error_rates.noise import Trace
from mpibench.statistics import segmentation
from mpibench.statistics.segmentation import Splitter
from mpibench.statistics.two_sides import Array
from mpibench.verdicts import drift
from mpibench.verdicts.policy import Policy
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.vocabulary import JUDGED

NOISE = ROOT / "ci" / "tests" / "data" / "golden_noise" / "repeats.parquet"
#: Margin for recorded noise, which has no policy.
MARGIN_PERCENT = 2.0
#: Quiet nights before a change, and how long it is waited for.
QUIET_NIGHTS, MOST_NIGHTS = 30, 10
SLOWDOWNS_PERCENT = (3, 5, 10)
Mask = NDArray[np.bool_]


def _each(cut: Callable[[Array, int], list[int]]) -> Splitter:
    """A search of one series after the other."""

    def split(packed: Array, count: NDArray[np.int_], fewest: int, penalty: float) -> Mask:
        found = np.zeros(packed.shape, dtype=bool)
        for row, values in enumerate(packed):
            found[row, cut(values[: count[row]], fewest)] = True
        return found

    return split


def _halve(best: Callable[[int, int], int | None], length: int) -> list[int]:
    """Binary segmentation: places found in a part, then in both parts beside each."""
    found, parts = [], [(0, length)]
    while parts:
        begin, end = parts.pop()
        if end - begin >= 2 * drift.FEWEST_CHANGED and (place := best(begin, end)) is not None:
            found.append(place)
            parts += [(begin, place), (place, end)]
    return sorted(found)


def _binary(values: Array, fewest: int) -> list[int]:
    """The largest step of squared distances, while it is larger than the penalty (Scott and Knott 1974)."""
    scaled = segmentation.scaled(values[None, :], np.array([len(values)]))[0]

    def best(begin: int, end: int) -> int | None:
        sums, left = np.cumsum(scaled[begin:end]), np.arange(fewest, end - begin - fewest + 1)
        right = end - begin - left
        gain = sums[left - 1] ** 2 / left + (sums[-1] - sums[left - 1]) ** 2 / right - sums[-1] ** 2 / (end - begin)
        at = int(np.argmax(gain))
        return begin + int(left[at]) if gain[at] > drift.PENALTY * np.log(len(values)) else None

    return _halve(best, len(values))


def _e_divisive(values: Array, fewest: int) -> list[int]:
    """Largest energy distance (Matteson and James 2014), kept where Welch's test gives 0.001, as in Apache Otava."""
    distances = np.abs(values[:, None] - values[None, :])

    def best(begin: int, end: int) -> int | None:
        count = end - begin
        sums = np.zeros((count + 1, count + 1))
        sums[1:, 1:] = distances[begin:end, begin:end].cumsum(0).cumsum(1)
        left = np.arange(fewest, count - fewest + 1)
        right = count - left
        inside = (
            sums[left, left] / (left * (left - 1)),
            (sums[-1, -1] - 2 * sums[left, -1] + sums[left, left]) / (right * (right - 1)),
        )
        energy = 2 * (sums[left, -1] - sums[left, left]) / (left * right) - inside[0] - inside[1]
        place = begin + int(left[np.argmax(energy * left * right / count)])
        p = stats.ttest_ind(values[begin:place], values[place:end], equal_var=False).pvalue
        return place if p < 0.001 else None

    return _halve(best, len(values))


def _of_ranks(packed: Array, count: NDArray[np.int_], fewest: int, penalty: float) -> Mask:
    """The same fit to normal scores of the ranks."""
    ranks = stats.rankdata(packed, axis=1, nan_policy="omit")
    return segmentation.split(stats.norm.ppf((ranks - 0.5) / count[:, None]), count, fewest, penalty)


METHODS: dict[str, Splitter] = {
    "optimal partitioning": segmentation.split,
    "of ranks": _of_ranks,
    "binary segmentation": _each(_binary),
    "E-divisive": _each(_e_divisive),
}


@dataclass(frozen=True)
class Watched:
    """What was found in some histories.

    :param called: of each quiet history, the share of metrics called.
    :param waited: by pattern and slowdown in percent, nights until anything that was slowed down is called; inf: not seen.
    """

    called: list[float]
    waited: dict[tuple[str, int], list[float]]

    def lines(self) -> Iterator[str]:
        """For a reader."""
        wrong = np.count_nonzero(self.called)
        yield f"    quiet: {wrong} of {len(self.called)} histories called; {1000 * np.mean(self.called):.2f} of 1,000 metrics"
        for (pattern, percent), waited in self.waited.items():
            seen = float(np.isfinite(waited).mean())
            middle = float(np.median(waited))
            nights = f"{middle:g} nights" if np.isfinite(middle) else f"not within {MOST_NIGHTS} nights"
            yield f"    {percent} % slower, {pattern}: {nights}, found in {seen:.0%}"


def nights(rng: np.random.Generator, trace: Trace, count: int, in_order: bool = False) -> Array:
    """So many nights, shape (metrics, nights)."""
    drawn = [np.arange(trace.jobs) if in_order else rng.permutation(trace.jobs) for _ in range(-(-count // trace.jobs))]
    jobs = np.concatenate(drawn)[:count]
    return np.concatenate([np.nanmedian(one.logs[:, jobs], axis=2) for one in trace.curves])


def history_of(trace: Trace, logs: Array) -> drift.History:
    """Nights as ``drift`` reads them."""
    points = [(str(number), size) for number, one in enumerate(trace.curves) for size in one.sizes]
    metrics = pl.DataFrame(points, schema={"benchmark": pl.String, "message_bytes": pl.Int64}, orient="row")
    metrics = metrics.with_columns(quantity=pl.lit("latency_us"), direction=pl.lit("lower"))
    return drift.History("noise", pl.DataFrame({"session": [""] * logs.shape[1]}), metrics, logs, ())


def patterns(trace: Trace, policy: Policy) -> dict[str, list[Mask]]:
    """What may be slowed down: all metrics, those of a band, one."""
    bands = np.array([policy.band(size) for one in trace.curves for size in one.sizes])
    return {
        "all sizes": [np.ones(len(bands), dtype=bool)],
        "a band": [bands == band for band in sorted(set(bands))],
        "one size": list(np.eye(len(bands), dtype=bool)),
    }


def watch(trace: Trace, splitter: Splitter, trials: int, *, seed: int = 1, in_order: bool = False) -> Watched:
    """Draw histories and count.

    :param in_order: one history, of all jobs as recorded; nothing is slowed down.
    """
    rng = np.random.default_rng(seed)
    policy = Policy(margins_percent=dict.fromkeys(JUDGED, MARGIN_PERCENT))
    result = Watched([], {})

    def called(logs: Array, recent: int | None = None) -> Mask:
        rows = drift.change_points(history_of(trace, logs), policy, recent, splitter)["row"]
        return np.isin(np.arange(len(logs)), rows.to_numpy())

    if in_order:
        result.called.append(float(called(nights(rng, trace, trace.jobs, in_order=True)).mean()))
        return result
    for _ in range(trials):
        quiet = nights(rng, trace, QUIET_NIGHTS + MOST_NIGHTS)
        result.called.append(float(called(quiet).mean()))
        for pattern, masks in patterns(trace, policy).items():
            hit = masks[rng.integers(len(masks))]
            for percent in SLOWDOWNS_PERCENT:
                slower = quiet.copy()
                slower[hit, QUIET_NIGHTS:] += np.log1p(percent / 100)
                found = (
                    waited
                    for waited in range(drift.FEWEST_CHANGED, MOST_NIGHTS + 1)
                    if called(slower[:, : QUIET_NIGHTS + waited], recent=waited + 2)[hit].any()
                )
                result.waited.setdefault((pattern, percent), []).append(next(found, np.inf))
    return result


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noise", type=Path, default=NOISE, help="recorded noise, as for mpibench error-rates")
    parser.add_argument("--trials", type=int, default=30, help="histories drawn for each figure")
    parser.add_argument("--method", choices=METHODS, action="append", help="only this search; repeatable")
    parser.add_argument("--in-order", action="store_true", help="jobs as recorded, as one quiet history")
    options = parser.parse_args()
    for recorded in noise.read_file(options.noise):
        for spread in (None, 0.01, 0.02):
            trace = recorded.scaled(spread)
            scaled = "as recorded" if spread is None else f"scaled to a spread of {spread:.0%}"
            print(f"{trace.fabric}, {trace.metrics} metrics, {scaled}")
            for name in options.method or METHODS:
                began = time.process_time()
                watched = watch(trace, METHODS[name], options.trials, in_order=options.in_order)
                print(f"  {name} ({time.process_time() - began:.1f} s of processors)")
                print("\n".join(watched.lines()), flush=True)


if __name__ == "__main__":
    main()
