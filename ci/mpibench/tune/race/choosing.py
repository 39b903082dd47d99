"""Which algorithm each message size takes, and the rules that follow; the library's own choice where none is clearly better."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy

from reframe_tests.harness.mpis.tuning.model import DEFAULT, AlgorithmRule

from ...judge.statistics import two_sides
from .times import ALL_SIZES, Times, effects

#: Share by which an algorithm must be faster than the library's own choice; false discoveries among those called faster.
FASTER, FALSE_DISCOVERIES = 0.02, 0.05
#: Repeats without which nothing is called faster.
FEWEST = 3
BETTER, WORSE, INCONCLUSIVE = "better", "worse", "no difference shown"


@dataclass(frozen=True)
class Compared:
    """One algorithm against the library's own choice at one message size.

    :param message_bytes: :data:`times.ALL_SIZES` of what is chosen for all sizes together.
    :param default_us: median time of the library's own choice; ``tuned_us``: of the algorithm.
    :param ratio: tuned over default; ``low``, ``high``: its 95 % interval.
    :param outcome: :data:`BETTER`, :data:`WORSE` or :data:`INCONCLUSIVE`.
    """

    collective: str
    message_bytes: int
    word: str
    default_us: float
    tuned_us: float
    ratio: float
    low: float
    high: float
    repeats: int
    outcome: str


def compare(tables: Mapping[str, Times], against: str = DEFAULT) -> list[Compared]:
    """Every algorithm at every size against the library's own choice, with one false discovery rate over all of them.

    All algorithms that were measured are tested, so that choosing the fastest of those called faster is no further selection.
    """
    keys, rows = [], []
    for collective, times in tables.items():
        for size in times.sizes:
            for word in times.words(size):
                differences = times.differences(size, word, against) if word != against else []
                if differences:
                    keys.append((collective, size, word))
                    rows.append(differences)
    if not rows:
        return []
    found = effects(rows)
    enough = np.array([len(row) >= FEWEST for row in rows]) & (found.error > 0)
    margin = math.log1p(FASTER)
    with np.errstate(invalid="ignore", divide="ignore"):
        faster = scipy.stats.t.cdf((found.effect + margin) / found.error, found.df)
        slower = scipy.stats.t.sf((found.effect - margin) / found.error, found.df)
        reach = scipy.stats.t.ppf(0.975, found.df) * found.error
    both = np.where(np.concatenate([enough, enough]), np.concatenate([faster, slower]), 1.0)
    called = two_sides.discoveries(np.where(np.isfinite(both), both, 1.0), FALSE_DISCOVERIES)
    answers = []
    for at, (collective, size, word) in enumerate(keys):
        times = tables[collective]
        outcome = BETTER if called[at] else WORSE if called[at + len(keys)] else INCONCLUSIVE
        reached = (found.effect[at], found.effect[at] - reach[at], found.effect[at] + reach[at])
        ratio, low, high = (float(np.exp(each)) if enough[at] else math.nan for each in reached)
        before, after = times.location(size, against), times.location(size, word)
        answers.append(Compared(collective, size, word, before, after, ratio, low, high, len(rows[at]), outcome))
    return answers


def choose(compared: list[Compared]) -> dict[str, dict[int, str]]:
    """Collective to message size to the fastest of the algorithms that are better than the library's own choice there."""
    best: dict[tuple[str, int], Compared] = {}
    for row in compared:
        key = (row.collective, row.message_bytes)
        if row.outcome == BETTER and (key not in best or row.ratio < best[key].ratio):
            best[key] = row
    found: dict[str, dict[int, str]] = {}
    for (collective, size), row in sorted(best.items()):
        found.setdefault(collective, {})[size] = row.word
    return found


def ranges(collective: str, sizes: list[int], chosen: Mapping[int, str]) -> list[AlgorithmRule]:
    """Rules for the sizes between those measured.

    Neighbours with the same answer cover what lies between them; where they differ, each covers its side of their geometric
    mean.
    Below the smallest and above the largest measured size nothing is said: the library's own choice stays.

    :param sizes: all that were measured, ascending.
    :param chosen: size to algorithm; sizes without keep the library's own choice.
    """
    if ALL_SIZES in chosen:
        return [AlgorithmRule(collective, 0, 0, chosen[ALL_SIZES])]
    found: list[AlgorithmRule] = []
    for at, size in enumerate(sizes):
        if size not in chosen:
            continue
        first = size if at == 0 else math.isqrt(sizes[at - 1] * size) + 1
        last = size if at == len(sizes) - 1 else math.isqrt(size * sizes[at + 1])
        if found and found[-1].word == chosen[size] and found[-1].last + 1 == first:
            found[-1] = AlgorithmRule(collective, found[-1].first, last, chosen[size])
        else:
            found.append(AlgorithmRule(collective, first, last, chosen[size]))
    return found


def keep_proven(
    rows: list[Compared], chosen: Mapping[str, Mapping[int, str]], whole: Mapping[str, bool] | None = None
) -> dict[str, dict[int, str]]:
    """The choices that a measurement of their own showed to be better; nothing else is recommended.

    :param rows: of the tuned settings against the library's own choice.
    :param whole: collectives whose settings cannot leave the library's own choice as it is at other sizes, and whether they may
        be used: such settings are kept as they were measured, at all sizes, or not at all.
    """
    better = {(row.collective, row.message_bytes) for row in rows if row.outcome == BETTER}
    kept = {name: {size: word for size, word in each.items() if (name, size) in better} for name, each in chosen.items()}
    for name, in_all in (whole or {}).items():
        kept[name] = dict(chosen[name]) if kept[name] and in_all else {}
    return {name: each for name, each in kept.items() if each}
