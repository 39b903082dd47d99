"""Successive elimination: after each round of repeats, algorithms that are no better than the leading one are measured no more.

Racing as in Maron and Moore ("Hoeffding races", NIPS 1993) and Even-Dar, Mannor and Mansour ("Action elimination", JMLR 7,
2006), with paired differences in place of bounds on the whole range. An algorithm leaves a message size when "it takes less
than 1 / (1 + :data:`SLACK`) of the leading one's time" is rejected: one-sided, Student's t of the paired logarithms of
interleaved repeats, their spreads moderated over all pairs of the round (:mod:`mpibench.judge.statistics.two_sides`). Which
of two
algorithms within :data:`SLACK` of each other is taken does not matter, so that no repeats are spent on telling them apart.

Error: the fastest algorithm of a size is left out for a slower one only if one of its tests against the K - 1 others errs in
one of the rounds, so each is made at :data:`ERROR` over (K - 1) x :data:`MOST_ROUNDS` (Bonferroni). The probability that it
leaves for one that is slower by more than :data:`SLACK` is then at most :data:`ERROR` at each size, and so is the share of such
choices, as far as repeats of a job are independent and their logarithms normal. The library's own choice never leaves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import scipy

from reframe_tests.harness.mpis.tuning.model import DEFAULT

from .times import Times, effects

#: Share by which a choice may be slower than the best one; the probability at each size that it is slower than that.
SLACK, ERROR = 0.05, 0.05
#: Rounds that are counted; more are not made.
MOST_ROUNDS = 6

#: Message size to the algorithms that are still measured there.
Survivors = dict[int, tuple[str, ...]]


def eliminate(tables: Mapping[str, tuple[Times, Survivors]]) -> dict[str, Survivors]:
    """What is still to be measured of each collective.

    :param tables: collective to its times so far, and what was measured in the last round.
    """
    rows: list[tuple[str, int, str, list[float]]] = []
    others: dict[tuple[str, int], int] = {}
    for collective, (times, survivors) in tables.items():
        for size, words in survivors.items():
            there = [word for word in words if word in times.words(size)]
            others[collective, size] = len(times.words(size)) - 1
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
    for at, (collective, size, word, differences) in enumerate(rows):
        if len(differences) < 3 or not found.error[at] > 0:
            continue
        p = scipy.stats.t.sf((found.effect[at] + math.log1p(SLACK)) / found.error[at], found.df[at])
        if p < ERROR / (others[collective, size] * MOST_ROUNDS):
            left[collective][size] = tuple(each for each in left[collective][size] if each != word)
    return left


def is_decided(survivors: Survivors) -> bool:
    """Whether at each size only one algorithm is left beside the library's own choice."""
    return all(len([word for word in words if word != DEFAULT]) <= 1 for words in survivors.values())
