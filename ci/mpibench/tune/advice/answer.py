"""What is said of an advice: lines for a terminal, the same as data, an exit status, and the limits of it all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ...store.quantity_text import size_text
from ..profiles import START_AND_END
from .advising import ALONE, CHOICE, LITTLE, NOISE, UNCOVERED, Advice
from .coverage import counted
from .message_sizes import BestSize
from .prediction import PredictedTime
from .sources import COMPLETIONS, PAIRED, SENDS

#: Exit status: it is answered, or nothing could be decided.
STATUS = {CHOICE: 0, LITTLE: 0, NOISE: 3, ALONE: 3, UNCOVERED: 3}
#: Gaps, and choices that are not ranked, that are listed one by one.
MOST_LISTED = 8
#: Time in MPI of the slowest rank over the mean, from which on ranks wait for one another.
IMBALANCED = 1.2
#: Predicted over recorded time, or its inverse, from which on even the nearest choice is none that the profile can be of.
IMPOSSIBLE = 10.0
#: The same of the profile's own stack, from which on a prediction is called far off.
FAR_OFF = 2.0


def lines(advice: Advice) -> list[str]:
    """The whole answer."""
    profile = advice.profile
    shown = [f"{profile.form}, {profile.ranks} ranks, {sum(one.count for one in profile.calls)} MPI calls; {_in_mpi(advice)}"]
    if advice.outcome == LITTLE:
        return [*shown, headline(advice)]
    counted = advice.basis
    shown.append(
        f"measured: {advice.measured.cases} jobs on {advice.measured.system}, {advice.measured.started[0]} to "
        f"{advice.measured.started[1]} UTC; they cover {_percent(advice.covered)} of the {counted}"
    )
    shown.append(headline(advice))
    shown += [_row(one) for one in advice.ranking]
    shown += _listed([f"  not covered: {gap.name}, {_percent(gap.share)}: {gap.why}" for gap in advice.gaps], "not covered")
    shown += _listed([f"  not ranked: {choice.text}: {why}" for choice, why in advice.unranked], "not ranked")
    shown += [f"  message size: {text}" for text in map(size_sentence, advice.sizes)]
    shown += [f"  limit: {text}" for text in limits(advice)]
    shown += [f"  note: {text}" for text in (*profile.notes, *advice.measured.notes)]
    return shown


def _listed(rows: list[str], what: str) -> list[str]:
    more = len(rows) - MOST_LISTED
    return [*rows[:MOST_LISTED], *([f"  {what}: {more} more, with --json"] if more > 0 else [])]


def _percent(share: float) -> str:
    """A share; never a whole that is not one, nor nothing of something."""
    percent = 100 * share
    if 0 < percent < 0.1:
        return "less than 0.1 %"
    return f"{min(percent, 99.9) if share < 1 - 1e-9 else 100:.3g} %"


def _in_mpi(advice: Advice) -> str:
    share = advice.profile.share_in_mpi
    if share is None:
        return (
            "how much of the run is in MPI is not known (give --wall-s)"
            if advice.profile.mpi_s
            else ("how much of the run is in MPI is not known: the profile has no times")
        )
    return f"{_percent(share)} of the run is in MPI"


def headline(advice: Advice) -> str:
    """The answer in one line."""
    if advice.outcome == LITTLE:
        return (
            f"stop here: only {_percent(advice.profile.share_in_mpi or 0.0)} of the run is in MPI (less than "
            f"{_percent(advice.terms.little_time)}); another MPI can save no more than that, look elsewhere"
        )
    if advice.outcome == UNCOVERED:
        return (
            f"nothing is ranked: what was measured covers {_percent(advice.covered)} of the {advice.basis}, and "
            f"{_percent(advice.terms.least_covered)} are needed"
        )
    if advice.outcome == ALONE:
        return f"no choice: only one can be ranked, {advice.ranking[0].choice.text}"
    if advice.outcome == CHOICE:
        first, second = advice.ranking[:2]
        return f"use {first.choice.text}: the next takes {second.over_best:.2f} times as long in MPI"
    names = "; ".join(one.choice.text for one in advice.best)
    return f"no choice: {len(advice.best)} are the fastest within noise ({names})"


def _row(one: PredictedTime) -> str:
    interval = f" ({one.low:.3g} to {one.high:.3g})" if math.isfinite(one.low) else " (no interval: too few repeats)"
    same = "" if one.differs else ", the fastest" if one.over_best == 1.0 else ", not distinguishable from the fastest"
    return f"  {one.seconds:.3g} s a rank{interval}, {one.over_best:.2f} times: {one.choice.text}{same}"


def size_sentence(best: BestSize) -> str:
    """Where the throughput of a call peaks (step 6)."""
    same = f", from {size_text(best.from_bytes)} on as good within noise" if best.from_bytes < best.peak_bytes else ""
    end = " (the largest measured: larger ones may be better)" if best.at_the_end else ""
    return (
        f"{best.call} moves most at {size_text(best.peak_bytes)}{end}, {best.peak_mb_per_s:.4g} MB/s{same}; "
        f"the profile's messages, {size_text(round(best.own_bytes))} on average, reach {_percent(min(best.reached, 1))} of that"
    )


def limits(advice: Advice) -> Iterator[str]:
    """What the answer does not know (section 2.2 of the paper), of this profile."""
    profile = advice.profile
    if not advice.ranking:
        return
    yield from _impossible(advice)
    calls = {one.call for one in profile.calls}
    collective = [profile.calls[at] for at in counted(profile) if profile.calls[at].call not in PAIRED]
    if any(one.comm_size is None for one in collective):
        yield f"communicator sizes are not known of all calls: there all {profile.ranks} ranks are assumed"
    if any("communicators of" in gap.why for gap in advice.gaps):
        yield "communicators smaller than measured behave differently, and by their placement; they are left out"
    if calls & set(COMPLETIONS):
        yield "overlap: what the application computes while messages are on their way is not known"
    if calls & set(SENDS):
        yield "a message is timed alone, as in a ping-pong: ranks that send at the same time share the link"
    if profile.imbalance is not None and profile.imbalance > IMBALANCED:
        yield (
            f"imbalance: the rank with most time in MPI has {profile.imbalance:.2f} times the mean; waiting for late ranks is "
            "in the profile and in no prediction"
        )
    if any(one.call in START_AND_END for one in profile.calls):
        yield "MPI_Init and MPI_Finalize are left out"
    if any(_spread(one.smallest, one.largest) for one in profile.calls):
        yield "sizes of some callsites differ by more than 4 times: their mean is not where each message is"
    yield "fast communication can cost processor time that the application needs: the last word is a run of it"
    if advice.terms.profiled_on:
        yield from _against_recorded(advice)


def _spread(smallest: float | None, largest: float | None) -> bool:
    return smallest is not None and largest is not None and largest > 4 * max(smallest, 1.0)


def _recorded_s(advice: Advice) -> float | None:
    """Seconds a rank that the profile recorded of what is predicted; ``None``: it has no times."""
    recorded = advice.profile.mpi_s
    return recorded * advice.covered / advice.profile.ranks if recorded else None


def _impossible(advice: Advice) -> Iterator[str]:
    """That no choice comes near to what was recorded, as where columns of a table are swapped or have other units."""
    recorded = _recorded_s(advice)
    if not recorded:
        return
    nearest = min((one.seconds / recorded for one in advice.ranking), key=lambda ratio: abs(math.log(ratio)))
    if max(nearest, 1 / nearest) > IMPOSSIBLE:
        more = f"{nearest:.3g} times more" if nearest > 1 else f"{1 / nearest:.3g} times less"
        yield (
            f"even the nearest prediction is {more} than the profile recorded ({recorded:.3g} s a rank): its columns, units or "
            "counts are not what they are taken for, or its ranks wait for something else; find out before you use the ranking"
        )


def _against_recorded(advice: Advice) -> Iterator[str]:
    """What was predicted for the stack of the profile, against what the profile recorded."""
    covered = _recorded_s(advice)
    rows = [one for one in advice.ranking if one.choice.stack == advice.terms.profiled_on]
    if not rows:
        yield f"{advice.terms.profiled_on} is not among what is ranked: nothing to hold the profile's time against"
    elif covered is not None:
        for one in rows:
            ratio = covered / one.seconds
            far = ", so something else than communication decides" if max(ratio, 1 / ratio) > FAR_OFF else ""
            yield f"the profile has {ratio:.2g} times what is predicted for {one.choice.text}{far}"


def as_data(advice: Advice) -> dict[str, Any]:
    """The same for programs; what is not known is ``None``."""
    profile, measured = advice.profile, advice.measured
    return {
        "outcome": advice.outcome,
        "answer": headline(advice),
        "profile": {
            "form": profile.form,
            "ranks": profile.ranks,
            "calls": sum(one.count for one in profile.calls),
            "wall_s": profile.wall_s,
            "mpi_s": profile.mpi_s,
            "share_in_mpi": profile.share_in_mpi,
            "imbalance": profile.imbalance,
        },
        "measured": {"system": measured.system, "sessions": list(measured.sessions), "jobs": measured.cases},
        "covered": advice.covered,
        "basis": advice.basis,
        "least_covered": advice.terms.least_covered,
        "confidence": advice.policy.confidence,
        "benchmarks": dict(advice.sources),
        "ranking": [_as_row(one) for one in advice.ranking],
        "not_covered": [{"call": gap.name, "why": gap.why, "share": gap.share} for gap in advice.gaps],
        "not_ranked": [{**_choice(choice), "why": why} for choice, why in advice.unranked],
        "message_sizes": [_size(one) for one in advice.sizes],
        "limits": list(limits(advice)),
        "notes": [*profile.notes, *measured.notes],
    }


def _choice(choice: Any) -> dict[str, Any]:
    return {name: getattr(choice, name) for name in ("partition", "stack", "fabric", "nodes", "ppn", "pinning", "tuned")}


def _as_row(one: PredictedTime) -> dict[str, Any]:
    return {
        **_choice(one.choice),
        "seconds": one.seconds,
        "low": one.low if math.isfinite(one.low) else None,
        "high": one.high if math.isfinite(one.high) else None,
        "times_the_fastest": one.over_best,
        "differs_from_the_fastest": one.differs,
        "by_call": dict(one.by_call),
    }


def _size(best: BestSize) -> dict[str, Any]:
    return {
        "call": best.call,
        "peak_bytes": best.peak_bytes,
        "peak_mb_per_s": best.peak_mb_per_s,
        "as_good_from_bytes": best.from_bytes,
        "at_the_largest_measured": best.at_the_end,
        "own_bytes": best.own_bytes,
        "reached": best.reached,
    }
