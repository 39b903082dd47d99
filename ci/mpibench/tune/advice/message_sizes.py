"""Which size of messages would be best: where throughput peaks (step 6 of the Cambridge method, section 2.1.1 of the paper).

Throughput is message size over time. The peak is that of the measured sizes alone; sizes whose throughput differs from it by no
more than noise are as good, and the smallest of them is named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy

from ...judge.statistics import two_sides
from ...judge.verdicts.policy import Policy
from ..profiles import Profile
from .coverage import SIZELESS, Coverage, weight
from .curves import Choice, Curves, TimeCurve
from .sources import CallBenchmark

#: Share of a profile from which on a call is worth a sentence.
WORTH = 0.05


@dataclass(frozen=True)
class BestSize:
    """The best message size of one call with one choice.

    :param peak_bytes: measured size of most throughput; ``peak_mb_per_s``: that throughput.
    :param from_bytes: smallest size that is as good within noise.
    :param reached: throughput of the profile's own sizes over the peak.
    :param at_the_end: the peak is at the largest measured size, so that larger ones may be better.
    :param own_bytes: mean size in the profile.
    """

    call: str
    choice: Choice
    peak_bytes: int
    peak_mb_per_s: float
    from_bytes: int
    reached: float
    at_the_end: bool
    own_bytes: float


def find(profile: Profile, curves: Curves, choice: Choice, coverage: Coverage, policy: Policy) -> list[BestSize]:
    """The best sizes of the calls in which most time is spent."""
    weights = weight(profile)
    total = sum(weights) or 1.0
    groups: dict[tuple[str, CallBenchmark, int], list[int]] = {}
    for at, term in coverage.terms.items():
        one = profile.calls[at]
        if one.message_bytes and one.call not in SIZELESS:
            groups.setdefault((one.name, term.source, term.ranks), []).append(at)
    found = []
    for (name, source, ranks), places in groups.items():
        curve = curves.find(choice, source, ranks)
        if curve is None or sum(weights[at] for at in places) < WORTH * total:
            continue
        if best := _best(name, choice, curve, profile, {at: coverage.terms[at].weights for at in places}, policy):
            found.append((sum(weights[at] for at in places), best))
    return [best for _, best in sorted(found, key=lambda row: -row[0])]


def _best(
    name: str, choice: Choice, curve: TimeCurve, profile: Profile, rows: Mapping[int, Mapping[int, float]], policy: Policy
) -> BestSize | None:
    some = curve.sizes > 0
    sizes, times = curve.sizes[some], curve.times[some]
    if len(sizes) < 2:
        return None
    side = two_sides.describe(np.log(sizes[:, None] / times))
    side = two_sides.moderate(side, *two_sides.prior(side.variance, side.df))
    peak = int(np.nanargmax(side.location))
    error = np.sqrt(side.squared_error() + side.squared_error()[peak])
    reach = scipy.special.stdtrit(np.maximum(side.df, 1), 0.5 + policy.confidence / 2) * error
    near = np.flatnonzero(side.location[peak] - side.location <= reach)
    first = peak
    while first - 1 in near:
        first -= 1
    medians = np.nanmedian(curve.times, axis=1)
    volume = sum((profile.calls[at].message_bytes or 0) * profile.calls[at].count for at in rows)
    count = sum(profile.calls[at].count for at in rows)
    spent = sum(
        profile.calls[at].count * sum(part * medians[row] for row, part in weights.items()) for at, weights in rows.items()
    )
    return BestSize(
        name,
        choice,
        int(sizes[peak]),
        math.exp(float(side.location[peak])),
        int(sizes[first]),
        volume / float(spent) / math.exp(float(side.location[peak])),
        peak == len(sizes) - 1,
        volume / count,
    )
