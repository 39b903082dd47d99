"""Chooses the cases of a night: those not measured for the longest time, as far as each partition
has room.

So each case returns about as soon as there is room for all of them (:attr:`Candidates.nights`). The
order is:

1. in each partition, the case that has waited longest, whatever else is
   wanted, so that nothing blocks the others;
2. one case for each entry of ``expected.yaml``, and what was not right when it was last tried
   (:class:`.record.Owed`), in at most half of the room;
3. the others, first those that were never tried.

Among cases last tried on the same day, the stacks of a condition follow each other, so that they
can be compared.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from .record import ListedCase

#: What sums of costs may be off by.
ROUNDING = 1e-9
#: Why a case is in a plan, and why it is not.
FAILED = "not right when last tried"
EXPECTED = "named in expected.yaml"
TURN = "its turn"
NO_ROOM = "no room tonight"
#: Share of the room that what is wanted out of turn may take: with more, a fault that stays would
#: keep the others from coming.
OUT_OF_TURN = 0.5
#: Age in nights of a case that was never tried, or not in the nights that are known.
NEVER = 10**6


@dataclass(frozen=True)
class RotationState:
    """Where a night begins.

    :param age: nights since each case was tried, :data:`NEVER` without any; 1: the last night.
    :param failed: cases that were not right when they were last tried.
    """

    age: Sequence[int]
    failed: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Candidates:
    """What is to be chosen from.

    :param shares: of each, what it takes of the room.
    :param places: of each, whose room that is: a partition, or the
        whole night where these share one.
    :param expected: those that ``expected.yaml`` asks for.
    :param room: of each place.
    """

    cases: Sequence[ListedCase]
    shares: Sequence[float]
    places: Sequence[str]
    room: float
    expected: frozenset[int] = frozenset()

    @cached_property
    def _order(self) -> list[int]:
        """Of cases of one age: by condition, in no order that favours a name."""

        def turn(one: int) -> tuple[str, ListedCase]:
            case = self.cases[one]
            return hashlib.blake2b(
                f"{case.name}@{case.partition}".encode(), digest_size=8
            ).hexdigest(), case

        return sorted(range(len(self.cases)), key=turn)

    @cached_property
    def too_large(self) -> frozenset[int]:
        """Cases that no night has room for."""
        return frozenset(
            one for one, share in enumerate(self.shares) if share > self.room + ROUNDING
        )

    @cached_property
    def nights(self) -> int:
        """About how many nights it takes until each case that fits into one has come."""
        fitting = set(range(len(self.cases))) - self.too_large
        return max(1, math.ceil(max(self.spent(fitting).values()) / self.room - ROUNDING))

    def spent(self, chosen: Iterable[int]) -> dict[str, float]:
        """What some cases take of each place's room."""
        found: dict[str, float] = dict.fromkeys(self.places, 0.0)
        for one in chosen:
            found[self.places[one]] += self.shares[one]
        return found

    def choose(self, state: RotationState) -> Mapping[int, str]:
        """The cases of a night, each with why."""
        oldest = sorted(
            (one for one in self._order if one not in self.too_large),
            key=lambda one: -state.age[one],
        )
        first = {self.places[one]: one for one in reversed(oldest)}
        taken: dict[int, str] = {}
        spent = defaultdict[str, float](float)
        out_of_turn = defaultdict[str, float](float)

        def take(one: int, why: str) -> bool:
            fits = (
                one not in taken
                and spent[self.places[one]] + self.shares[one] <= self.room + ROUNDING
            )
            if fits:
                taken[one] = (
                    FAILED if one in state.failed else EXPECTED if one in self.expected else why
                )
                spent[self.places[one]] += self.shares[one]
            return fits

        for one in first.values():
            take(one, TURN)
        for one in (
            one for wanted in (self.expected, state.failed) for one in oldest if one in wanted
        ):
            there = out_of_turn[self.places[one]]
            # The first of them may take more: it would never come otherwise but in its turn.
            if (not there or there + self.shares[one] <= OUT_OF_TURN * self.room) and take(
                one, TURN
            ):
                out_of_turn[self.places[one]] += self.shares[one]
        for one in oldest:
            take(one, TURN)
        return taken


def state_of(
    cases: Sequence[ListedCase],
    nights: Sequence[date],
    last: Mapping[ListedCase, date],
    failed: Iterable[ListedCase],
) -> RotationState:
    """Where a night begins, from what earlier nights did.

    :param nights: their days, the newest first.
    :param last: when each case was tried last.
    """
    place = {day: number + 1 for number, day in enumerate(nights)}
    age = [place.get(last[case], NEVER) if case in last else NEVER for case in cases]
    wanted = set(failed)
    return RotationState(
        age, frozenset(number for number, case in enumerate(cases) if case in wanted)
    )
