"""The search of ``drift`` for change points beside others: ``python -m studies.change_points``.

Each only proposes change points; what is called of them is decided as ``drift`` does. Nights are drawn, and slowed down, as in
:mod:`studies.detection`. The others are the same fit to ranks, binary segmentation, and E-divisive with Welch's test.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from mpibench.statistics import segmentation
from mpibench.statistics.segmentation import Splitter
from mpibench.statistics.two_sides import Array
from mpibench.watch import drift

from . import detection

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


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noise", type=Path, default=detection.NOISE, help="recorded noise, as of mpibench error-rates")
    parser.add_argument("--draws", type=int, default=20, help="histories of nights")
    parser.add_argument("--method", choices=METHODS, action="append", help="only this search; repeatable")
    options = parser.parse_args()
    for name in options.method or METHODS:
        began = time.process_time()
        print(name)
        for line in detection.lines(options.noise, options.draws, splitter=METHODS[name]):
            print(f"  {line}", flush=True)
        print(f"  {time.process_time() - began:.1f} s of processors", flush=True)


if __name__ == "__main__":
    main()
