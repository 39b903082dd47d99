"""Where bandwidth or latency is lost: one sentence for each question and fabric.

A step from one level to the next loses something where the repeats of the two do not overlap and the difference is more than
:data:`LEAST_SHARE` of the line rate (of a latency: of the highest level). Of several steps the one with the largest loss is
named first. On each level the best program or stack counts. What a higher level reaches, those below it can carry: where an MPI
is faster than the transport's own program, that program says nothing about what is lost.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from .levels import LEVELS, Cascade, CascadeAnswer, Reached

#: Smallest part of the line rate, or of the latency, that a step is said to lose: what IMB's PingPong at 1 MiB still waits on a
#: link of 1 Gbit/s (2 %).
LEAST_SHARE = 0.02


@dataclass(frozen=True)
class Loss:
    """What is lost from one level to the next.

    :param lower: ``None``: what the packets' headers leave of the line rate.
    :param lost: share of the line rate; MB/s where there is none; us.
    """

    lower: Reached | None
    upper: Reached
    lost: float


def _worse(one: Reached, other: Reached, *, more: bool) -> bool:
    """Whether all repeats of one are worse than all of the other, and by more than counts."""
    apart = one.high < other.low if more else one.low > other.high
    return apart and abs(one.value - other.value) > LEAST_SHARE * max(one.value, other.value)


def _carried(answer: CascadeAnswer) -> list[Reached]:
    """Measured levels, the lowest first, without those that a level above surpasses."""
    more, carried = answer.question.more_is_better, list[Reached]()
    for one in (answer.reached[level][0] for level in reversed(LEVELS) if level in answer.reached):
        if not carried or not _worse(one, carried[-1], more=more):
            carried.append(one)
    return carried[::-1]


def steps(answer: CascadeAnswer) -> list[Loss]:
    """Steps that lose something, the largest loss first."""
    best = _carried(answer)
    found = []
    more = answer.question.more_is_better
    if best and best[0].share is not None and answer.limit is not None:
        gap = answer.limit - best[0].share
        most = best[0].share * best[0].high / best[0].value
        if gap > LEAST_SHARE and most < answer.limit:
            found.append(Loss(None, best[0], gap))
    for lower, upper in itertools.pairwise(best):
        apart = _worse(upper, lower, more=more)
        if lower.share is not None and upper.share is not None:
            lost, whole = lower.share - upper.share, 1.0
        else:
            lost = lower.value - upper.value if more else upper.value - lower.value
            whole = max(lower.value, upper.value)
        if apart and lost > LEAST_SHARE * whole:
            found.append(Loss(lower, upper, lost))
    return sorted(found, key=lambda step: step.lost, reverse=True)


def _surpassed(answer: CascadeAnswer) -> list[str]:
    """Levels whose program is worse than a level above it, each with that level."""
    measured = [answer.reached[level][0] for level in LEVELS if level in answer.reached]
    carried = _carried(answer)
    return [
        f"{next(one for one in carried if LEVELS.index(one.level) > LEVELS.index(slow.level)).level} is better than {slow.name}"
        for slow in measured
        if slow not in carried
    ]


def sentence(cascade: Cascade, answer: CascadeAnswer) -> str:
    """What each level reached, where the most is lost, and which levels are absent."""
    reached = [f"{level} {value_text(answer, answer.reached[level][0])}" for level in LEVELS if level in answer.reached]
    if not reached:
        whole = f"{cascade.fabric}, {answer.question.title}: no level has a proven number"
    else:
        whole = f"{cascade.fabric}, {answer.question.title}: {', '.join(reached)}; {_loss(answer)}"
    absent = "; ".join([*_surpassed(answer), *(f"{level}: {why}" for level, why in answer.absent.items())])
    return f"{whole}{f' ({absent})' if absent else ''}."


def _loss(answer: CascadeAnswer) -> str:
    lossy = steps(answer)
    if len(answer.reached) < 2 and not lossy:
        return "there is nothing to compare it with"
    if not lossy:
        return "no step loses more than the repeats differ"
    first = lossy[0]
    whence = f"below the {first.upper.level}" if first.lower is None else f"from {first.lower.level} to {first.upper.level}"
    what = "time is added" if not answer.question.more_is_better else "is lost"
    return f"the most {what} {whence}: {_amount(answer, first)}"


def _amount(answer: CascadeAnswer, step: Loss) -> str:
    if step.lower is None:
        return f"{100 * step.lost:.1f} % of the line rate less than packets leave for payload"
    if step.upper.share is not None and step.lower.share is not None:
        return f"{100 * step.lost:.1f} % of the line rate"
    return f"{step.lost:.3g} {unit_of(answer)}"


def value_text(answer: CascadeAnswer, reached: Reached) -> str:
    """A number with its share and program: ``94.1 % of line rate (iperf3, 117.6 MB/s)``."""
    if reached.share is not None:
        return f"{100 * reached.share:.1f} % of line rate ({reached.name}, {reached.value:.4g} MB/s)"
    return f"{reached.value:.4g} {unit_of(answer)} ({reached.name})"


def unit_of(answer: CascadeAnswer) -> str:
    """Unit of its numbers."""
    return "MB/s" if answer.question.more_is_better else "\N{MICRO SIGN}s"
