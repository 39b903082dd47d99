"""Times of algorithms, repeat by repeat: what interleaved launches of one job say, kept so that it can be compared in pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from reframe_tests.harness.samples import Sample
from reframe_tests.harness.suites import algorithms
from reframe_tests.harness.suites.algorithms import COLLECTIVES
from reframe_tests.harness.vocabulary import BadInput

from ...judge.statistics import two_sides
from ..profiles import Profile

#: Stands for all sizes, where one algorithm is chosen for them together.
ALL_SIZES = 0
#: One repeat of one job: session, and number of the repeat in it.
Unit = tuple[str, int]


def normalise(times: Mapping[int, float], weights: Mapping[int, float] | None = None) -> float:
    """One number for all sizes: the sum of the times, each multiplied by (largest size / size).

    Cambridge paper, appendix C.1: 60 us at 32 B count 60 x 4 MiB / 32 = 7864320, 600,000 us at 4 MiB as they are, so that small
    messages are not lost in the sum.

    :param times: message size in bytes to time.
    :param weights: message size to calls of that size, from an application's profile; then it is the sum of calls x time.
    """
    if weights is not None:
        return sum(weights.get(size, 0.0) * time for size, time in times.items())
    largest = max(times)
    return sum(time * largest / size for size, time in times.items())


@dataclass(frozen=True)
class Usage:
    """What an application calls in communicators of the ranks that are tuned for.

    :param source: its profile, for a reader.
    :param shares: collective to its part of the time (or, where no times are known, of the calls), most first.
    :param calls: collective to message size to calls, where the profile has sizes.
    """

    source: str
    shares: Mapping[str, float]
    calls: Mapping[str, Mapping[float, float]]

    @classmethod
    def of(cls, profile: Profile, source: str, ranks: int) -> Usage:
        """That of a profile; calls without a communicator count where the application has as many ranks.

        :raises BadInput: there is no such call, or none has a size.
        """
        mine = [
            one for one in profile.calls if (one.comm_size or profile.ranks) == ranks and one.call in COLLECTIVES and one.count
        ]
        if not mine:
            raise BadInput(
                f"{source} ({profile.form}) has no collective in a communicator of {ranks} ranks, which are tuned for."
            )
        timed = all(one.seconds is not None for one in mine)
        sums: dict[str, float] = {}
        calls: dict[str, dict[float, float]] = {}
        for one in mine:
            sums[one.call] = sums.get(one.call, 0.0) + (one.seconds or 0.0 if timed else one.count)
            if one.message_bytes is not None:
                sizes = calls.setdefault(one.call, {})
                sizes[one.message_bytes] = sizes.get(one.message_bytes, 0.0) + one.count
        if not calls:
            raise BadInput(f"{source} ({profile.form}) has no sizes of its collectives: without them nothing can be weighted.")
        total = sum(sums.values()) or 1.0
        ordered = sorted(sums, key=lambda name: -sums[name])
        return cls(source, {name: sums[name] / total for name in ordered}, calls)

    def weights(self, collective: str, sizes: Sequence[int]) -> dict[int, float]:
        """Measured sizes to calls: those between two count for both, by their distance; those beyond, for none."""
        found: dict[int, float] = {}
        for size, calls in self.calls.get(collective, {}).items():
            if not sizes or not sizes[0] <= size <= sizes[-1]:
                continue
            above = next(at for at, there in enumerate(sizes) if there >= size)
            part = 1.0 if sizes[above] == size else (size - sizes[above - 1]) / (sizes[above] - sizes[above - 1])
            for at, share in ((above, part), (above - 1, 1 - part)):
                if share:
                    found[sizes[at]] = found.get(sizes[at], 0.0) + share * calls
        return found

    def covered(self, collective: str, sizes: Sequence[int]) -> float:
        """Part of the calls whose sizes lie within those measured."""
        calls = self.calls.get(collective, {})
        total = sum(calls.values())
        return sum(self.weights(collective, sizes).values()) / total if total else 0.0


@dataclass
class Times:
    """Times of the algorithms of one collective in microseconds.

    :param values: message size to algorithm to repeat to time.
    """

    collective: str
    values: dict[int, dict[str, dict[Unit, float]]] = field(default_factory=dict)

    def add(self, session: str, samples: Iterable[Sample]) -> None:
        """Add what a session measured of the collective."""
        for sample in samples:
            word = sample.variant.removeprefix(algorithms.VARIANT)
            if sample.benchmark != self.collective or sample.message_bytes is None or sample.quantity != algorithms.QUANTITY:
                continue
            kept = self.values.setdefault(sample.message_bytes, {}).setdefault(word, {})
            kept.update({(session, at): value for at, value in enumerate(sample.values) if value})

    @property
    def sizes(self) -> list[int]:
        """Message sizes, ascending."""
        return sorted(self.values)

    def words(self, size: int) -> list[str]:
        """Algorithms that were measured at a size."""
        return list(self.values.get(size, {}))

    def as_one(self, weights: Mapping[int, float] | None = None) -> Times:
        """The same with all sizes as one, for calls that allow one algorithm only: :func:`normalise` of each repeat."""
        sums: dict[str, dict[Unit, float]] = {}
        for word in dict.fromkeys(word for size in self.sizes for word in self.words(size)):
            units = [set(self.values[size].get(word, {})) for size in self.sizes]
            for unit in set.intersection(*units):
                sums.setdefault(word, {})[unit] = normalise(
                    {size: self.values[size][word][unit] for size in self.sizes}, weights
                )
        return Times(self.collective, {ALL_SIZES: sums} if sums else {})

    def location(self, size: int, word: str) -> float:
        """Median over the repeats in microseconds (of all sizes: of the normalised sums)."""
        return float(np.median(list(self.values[size][word].values())))

    def differences(self, size: int, one: str, other: str) -> list[float]:
        """log(one / other) of each repeat that has both."""
        first, second = self.values[size].get(one, {}), self.values[size].get(other, {})
        return [float(np.log(first[unit] / second[unit])) for unit in sorted(first.keys() & second.keys())]


def effects(rows: Sequence[Sequence[float]]) -> two_sides.Effects:
    """Effects of rows of paired differences, their spreads moderated over all rows (:func:`two_sides.compare_pairs`)."""
    table = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for at, row in enumerate(rows):
        table[at, : len(row)] = row
    return two_sides.compare_pairs(table)
