"""Pairs of values, and the cases that cover them.

A greedy cover over the list of cases that exist, and no library for covering arrays: allpairspy and covertable would be given
the list as a constraint on each partial row, know neither costs nor a budget, and at best skip pairs that were ever tested.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Iterable, Sequence

from .cases import ListedCase

#: What sums of costs may be off by.
ROUNDING = 1e-9

#: Two values of different parameters, in the order of their names.
Pair = tuple[tuple[str, str], tuple[str, str]]


def pairs_of(case: ListedCase) -> list[Pair]:
    """All pairs of its values."""
    return list(itertools.combinations(sorted(case.values), 2))


class PairTable:
    """The pairs of a list of cases, as numbers.

    :param cases: a pair that none of them has does not exist.
    :param skipped: those of them that cannot be measured: they cover nothing.
    """

    def __init__(self, cases: Sequence[ListedCase], skipped: Collection[ListedCase] = ()) -> None:
        self.numbers: dict[Pair, int] = {}
        #: Numbers of the pairs of each case.
        self.of: list[tuple[int, ...]] = [
            tuple(self.numbers.setdefault(pair, len(self.numbers)) for pair in pairs_of(case)) if case not in skipped else ()
            for case in cases
        ]
        self._by_case = {case: pairs for case, pairs in zip(cases, self.of, strict=True) if case not in skipped}

    def __len__(self) -> int:
        return len(self.numbers)

    def known(self, cases: Iterable[ListedCase]) -> set[int]:
        """Numbers of the pairs of some cases, which may be others, as far as they exist."""
        found: set[int] = set()
        for case in cases:
            mine = self._by_case.get(case)
            others = (self.numbers.get(pair) for pair in pairs_of(case)) if mine is None else ()
            found.update(mine or (number for number in others if number is not None))
        return found


def greedy(
    weights: dict[int, float],
    candidates: Iterable[int],
    pairs: Sequence[Sequence[int]],
    cost: Callable[[int], float],
    room: float,
    tie: Callable[[int], object],
) -> list[int]:
    """Candidates that cover pairs, each time the one with the most weight for its cost, until nothing is left or nothing fits.

    The weight of what is covered is taken out of ``weights``; gains only shrink, so that a candidate whose gain was computed
    again and is still the largest is the best (Minoux 1978, accelerated greedy).

    :param weights: number of each pair to be covered to its weight, above 0.
    :param pairs: numbers of the pairs of each candidate.
    :param cost: of a candidate, in the unit of ``room``.
    :param tie: which of two equal ones comes first.
    """

    def gain(one: int) -> float:
        return sum(weights.get(pair, 0.0) for pair in pairs[one]) / max(cost(one), 1e-6)

    heap = [(-gain(one), tie(one), one) for one in candidates]
    heapq.heapify(heap)
    chosen = []
    while heap and weights:
        before, order, one = heapq.heappop(heap)
        if cost(one) > room + ROUNDING:
            continue  # and never will, because the room only shrinks
        now = gain(one)
        if now <= 0:
            continue
        if now < -before and heap and (-now, order, one) > heap[0]:
            heapq.heappush(heap, (-now, order, one))
            continue
        chosen.append(one)
        room -= cost(one)
        for pair in pairs[one]:
            weights.pop(pair, None)
    return chosen
