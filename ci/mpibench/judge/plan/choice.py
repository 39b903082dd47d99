"""Which cases a night measures.

In this order, each as far as the budget has room:

1. the core, each night: smoke cases on the fewest nodes of a fabric, cases with learned references, one case for each entry of
   ``expected.yaml``;
2. cases that were not right when they were last tried (:func:`.past.owed`), which the plan is broken without;
3. pairs of values that no night of the last K - 1 has measured though they existed: with them every pair comes at least once in
   any K nights, and where they do not fit the plan says so and is broken;
4. pairs that were not measured for half of K nights or more, the stalest first, so that few become due in one night;
5. the stalest cases.

A case that was skipped in one of the last K - 1 nights cannot be measured: it covers no pair, and is tried again when it
is stale.

Within one of these the cheaper way comes first, and among equals an order that changes from day to day.

A greedy cover over the list of cases that exist, and no library for covering arrays: allpairspy and covertable would be given
the list as a constraint on each partial row, know neither costs nor a budget, and at best skip pairs that were ever tested.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

from .record import ListedCase

#: What sums of costs may be off by.
ROUNDING = 1e-9

#: Two values of different parameters, in the order of their names.
Pair = tuple[tuple[str, str], tuple[str, str]]


def pairs_of(case: ListedCase) -> list[Pair]:
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
    :param cost: of a candidate, in the unit of ``room``.
    :param tie: which of two equal ones comes first.
    """

    def gain(one: int) -> float:
        return sum(weights.get(pair, 0.0) for pair in pairs[one]) / max(cost(one), 1e-6)

    heap = [(-gain(candidate), tie(candidate), candidate) for candidate in candidates]
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


#: Why a case is in a plan.
SMOKE, REFERENCE, EXPECTED = "smoke", "has references", "named in expected.yaml"
DUE, FAILED, PAIRS, STALEST = "pairs that are due", "not right when last tried", "stale pairs", "among the stalest"
#: Why it is not.
NO_ROOM = "no room tonight"
#: By how much a pair that is one night staler goes before another: more than cases usually differ in cost.
PER_NIGHT = 4.0
#: Age in nights of a case that was never tried, or not in the nights that are known.
NEVER = 10**6


@dataclass(frozen=True)
class CoverState:
    """Where a night begins.

    :param waiting: nights for which each pair has existed without being measured: what makes it due.
    :param stale: nights since each pair was measured, those that never were as many as K: what is measured first.
    :param age: nights since each case was tried, :data:`NEVER` without any; 1: the last night.
    :param failed: cases that were not right when they were last tried.
    """

    waiting: Mapping[int, int]
    stale: Mapping[int, int]
    age: Sequence[int]
    failed: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Chosen:
    """What one night measures.

    :param reasons: case to why it is measured.
    :param spent: of the budget, in its unit.
    :param core: what the core takes; above the budget nothing else is chosen, and of the core what fits.
    :param overdue: pairs that were due and did not fit.
    """

    reasons: Mapping[int, str]
    spent: float
    core: float
    overdue: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Candidates:
    """What is to be chosen from.

    :param shares: of each, what it takes of the budget.
    :param core: cases that are measured each night, each with why.
    :param nights: K.
    """

    cases: Sequence[ListedCase]
    shares: Sequence[float]
    core: Mapping[int, str]
    room: float
    nights: int
    pairs: PairTable = field(repr=False)

    def choose(self, state: CoverState, day: date) -> Chosen:
        """What the night of a day measures."""
        taken: dict[int, str] = {}
        # An order of cases that is the same whenever it is asked for, and another each day.
        ties = [hashlib.blake2b(f"{day} {case}".encode(), digest_size=8).hexdigest() for case in self.cases]
        spent = 0.0

        def add(found: Iterable[int], why: str) -> None:
            nonlocal spent
            for one in found:
                if one not in taken and spent + self.shares[one] <= self.room + ROUNDING:
                    taken[one] = why
                    spent += self.shares[one]

        def cover(weights: dict[int, float], why: str) -> set[int]:
            """Choose cases for pairs; what was not covered."""
            for one in taken:
                for pair in self.pairs.of[one]:
                    weights.pop(pair, None)
            rest = (number for number in range(len(self.cases)) if number not in taken)
            add(greedy(weights, rest, self.pairs.of, self.shares.__getitem__, self.room - spent, ties.__getitem__), why)
            return set(weights)

        core = sum(self.shares[number] for number in self.core)
        for one in sorted(self.core, key=lambda one: (-state.age[one], ties[one])):
            add([one], self.core[one])
        if len(taken) < len(self.core):
            return Chosen(taken, spent, core)
        add(sorted(state.failed, key=lambda one: (-state.age[one], ties[one])), FAILED)
        overdue = cover({pair: 1.0 for pair, nights in state.waiting.items() if nights >= self.nights - 1}, DUE)
        soon = math.ceil(self.nights / 2)
        cover({pair: 2.0 ** (PER_NIGHT * (age - self.nights)) for pair, age in state.stale.items() if age >= soon}, PAIRS)
        add(sorted(range(len(self.cases)), key=lambda one: (-state.age[one], ties[one])), STALEST)
        return Chosen(taken, spent, core, frozenset(overdue))

    def after(self, state: CoverState, chosen: Chosen) -> CoverState:
        """Where the next night begins, if all that was chosen is measured."""
        covered = {pair for number in chosen.reasons for pair in self.pairs.of[number]}
        return CoverState(
            {pair: 0 if pair in covered else nights + 1 for pair, nights in state.waiting.items()},
            {pair: 0 if pair in covered else min(nights + 1, self.nights) for pair, nights in state.stale.items()},
            [1 if number in chosen.reasons else min(age + 1, NEVER) for number, age in enumerate(state.age)],
            frozenset(number for number in state.failed if number not in chosen.reasons),
        )

    def ahead(self, state: CoverState, first: Chosen, day: date) -> Iterator[Chosen]:
        """The choices of this night and the next ones, one a day, without end."""
        chosen = first
        while True:
            yield chosen
            state, day = self.after(state, chosen), day + timedelta(days=1)
            chosen = self.choose(state, day)

    def nights_to_all(self, state: CoverState, first: Chosen, ahead: Sequence[Chosen]) -> float:
        """In about how many nights every case comes, from what the nights ahead have room for beside what comes again."""
        seen = {number for number, age in enumerate(state.age) if age < NEVER}
        new = [len(seen)]
        for chosen in ahead:
            seen |= set(chosen.reasons)
            new.append(len(seen))
        left = len(self.cases) - new[-1]
        per_night = (new[-1] - new[0]) / len(ahead)
        return len(ahead) + left / per_night if left and per_night else float(len(ahead)) if not left else math.inf


def state_of(
    candidates: Candidates,
    nights: Sequence[date],
    ran: Mapping[date, Iterable[ListedCase]],
    existed: Callable[[date], Iterable[ListedCase]],
    last: Mapping[ListedCase, date],
    failed: Iterable[ListedCase],
) -> CoverState:
    """Where a night begins, from what earlier nights did.

    :param nights: their days, the newest first.
    :param ran: by day the cases that ran; what was skipped measured nothing.
    """
    window = list(nights[: max(candidates.nights - 1, 0)])
    waiting = dict.fromkeys(range(len(candidates.pairs)), 0)
    stale = dict.fromkeys(waiting, candidates.nights)
    still = set(waiting)
    for number, day in enumerate(window):
        measured = candidates.pairs.known(ran.get(day, ()))
        for pair in still & measured:
            stale[pair] = number
        still -= measured
        # It has waited since the first night that knew of it. One in between that did not, because it was a part of a night or
        # its plan cannot be read, does not begin the waiting again.
        for pair in still & candidates.pairs.known(existed(day)):
            waiting[pair] = number + 1
    for pair in set(waiting) - still:
        waiting[pair] = stale[pair]
    place = {day: number + 1 for number, day in enumerate(nights)}
    index = {case: number for number, case in enumerate(candidates.cases)}
    age = [place.get(last[case], NEVER) if case in last else NEVER for case in candidates.cases]
    return CoverState(waiting, stale, age, frozenset(index[case] for case in failed if case in index))
