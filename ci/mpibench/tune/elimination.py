"""Successive elimination: after each round of repeats, algorithms that are clearly slower than another are measured no more.

Racing as in Maron and Moore ("Hoeffding races", NIPS 1993) and Birattari et al. ("F-race", GECCO 2002), with paired differences
in place of bounds on the whole range. An algorithm leaves a message size when "it takes at most 1 + :data:`SLOWER` times
as long as the one that leads there" is rejected: one-sided, Student's t of the paired logarithms of interleaved repeats,
their spreads moderated over all pairs of the round (:mod:`mpibench.statistics.two_sides`).

Error: which one leads is known from the same data, so the tests are counted as if every ordered pair of algorithms were tested
at every size in every round, and each is made at :data:`ERROR` over that number (Bonferroni). The probability that an algorithm
that is not slower than the others by :data:`SLOWER` leaves anywhere in a whole tuning is then at most :data:`ERROR`, as far as
repeats of a job are independent and their logarithms normal. The library's own choice never leaves.
"""

from __future__ import annotations

from collections.abc import Mapping

import scipy

from reframe_tests.harness.tuning.model import DEFAULT

from .times import Times, effects

#: Share by which an algorithm must be slower to be left out; the probability that any is left out wrongly.
SLOWER, ERROR = 0.05, 0.05
#: Rounds that are counted; more are not made.
MOST_ROUNDS = 6

#: Message size to the algorithms that are still measured there.
Survivors = dict[int, tuple[str, ...]]


def eliminate(tables: Mapping[str, tuple[Times, Survivors]]) -> dict[str, Survivors]:
    """What is still to be measured of each collective.

    :param tables: collective to its times so far, and what was measured in the last round.
    """
    rows: list[tuple[str, int, str, list[float]]] = []
    pairs = 0
    for collective, (times, survivors) in tables.items():
        for size, words in survivors.items():
            there = [word for word in words if word in times.words(size)]
            pairs += len(times.words(size)) * (len(times.words(size)) - 1)
            if len(there) < 2:
                continue
            leader = min(there, key=lambda word: times.location(size, word))
            rows += [
                (collective, size, word, times.differences(size, word, leader))
                for word in there
                if word not in (leader, DEFAULT)
            ]
    left = {collective: dict(survivors) for collective, (_, survivors) in tables.items()}
    if not rows:
        return left
    found = effects([row[3] for row in rows])
    limit = ERROR / (pairs * MOST_ROUNDS)
    for at, (collective, size, word, differences) in enumerate(rows):
        if len(differences) < 3 or not found.error[at] > 0:
            continue
        p = scipy.stats.t.sf((found.effect[at] - float(scipy.special.log1p(SLOWER))) / found.error[at], found.df[at])
        if p < limit:
            left[collective][size] = tuple(each for each in left[collective][size] if each != word)
    return left


def is_decided(survivors: Survivors) -> bool:
    """Whether at each size only one algorithm is left beside the library's own choice."""
    return all(len([word for word in words if word != DEFAULT]) <= 1 for words in survivors.values())
