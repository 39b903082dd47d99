"""What of a profile the measured curves say something about, and why they say nothing of the rest.

Nothing is extrapolated: a call without a benchmark, one without a size, sizes beyond or too far between the measured ones, and
a communicator of other numbers of ranks than were measured are not covered, each under its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...store.quantity_text import size_text
from ..profiles import START_AND_END, Calls, Profile
from .curves import Choice, Curves, TimeCurve
from .sources import COMPLETIONS, RECEIVES, SENDS, SOURCES, CallBenchmark

NO_BENCHMARK = "no benchmark times this call"
NO_SIZE = "the profile has no sizes of it"
NO_SENDS = "no sends of these messages are in the profile or covered"
NOT_MEASURED = "not measured"
#: Calls without a message.
SIZELESS = ("Barrier", "Ibarrier")


@dataclass(frozen=True)
class Term:
    """Calls whose time a curve gives.

    :param at: place of the calls in the profile.
    :param weights: rows of the curve and their parts of one call.
    """

    at: int
    source: CallBenchmark
    ranks: int
    weights: Mapping[int, float]
    count: float


@dataclass(frozen=True)
class Coverage:
    """Of one choice.

    :param terms: calls that are covered, by their place in the profile.
    :param reasons: why each other one is not; those that begin and end the program and those that follow from sends are in
        neither.
    """

    terms: Mapping[int, Term]
    reasons: Mapping[int, str]


def weight(profile: Profile) -> list[float]:
    """What each row of a profile counts in shares: its seconds, or its calls where seconds are not known of all."""
    counted = [one for one in profile.calls if one.call not in START_AND_END]
    by_time = all(one.seconds is not None for one in counted) and any(one.seconds for one in counted)
    value = [float(one.seconds or 0.0) if by_time else float(one.count) for one in profile.calls]
    return [0.0 if one.call in START_AND_END else size for one, size in zip(profile.calls, value, strict=True)]


def basis(profile: Profile) -> str:
    """What shares are of: ``time in MPI`` or ``MPI calls``."""
    counted = [one for one in profile.calls if one.call not in START_AND_END]
    timed = all(one.seconds is not None for one in counted) and any(one.seconds for one in counted)
    return "time in MPI" if timed else "MPI calls"


def choose_sources(profile: Profile, curves: Curves) -> dict[str, CallBenchmark]:
    """The benchmark of each call that most choices have; of equals the first."""
    found = {}
    for call in dict.fromkeys(one.call for one in profile.calls):
        rows = SOURCES.get(call, ())
        sizes = {one.comm_size or profile.ranks for one in profile.calls if one.call == call}
        having = [
            sum(any(curves.find(choice, row, ranks) is not None for ranks in sizes) for choice in curves.by_choice)
            for row in rows
        ]
        if rows:
            found[call] = rows[having.index(max(having))]
    return found


def counted(profile: Profile) -> list[int]:
    """Rows of a profile that a curve of their own may cover: all but those that follow from sends, start and end."""
    apart = {*START_AND_END, *RECEIVES, *COMPLETIONS}
    return [at for at, one in enumerate(profile.calls) if one.call not in apart]


def cover(profile: Profile, curves: Curves, choice: Choice, sources: Mapping[str, CallBenchmark]) -> Coverage:
    """What the curves of a choice cover."""
    terms, reasons = dict[int, Term](), dict[int, str]()
    for at in counted(profile):
        found = _term(at, profile.calls[at], profile, curves, choice, sources)
        if isinstance(found, Term):
            terms[at] = found
        else:
            reasons[at] = found
    return Coverage(terms, reasons)


def _term(
    at: int, one: Calls, profile: Profile, curves: Curves, choice: Choice, sources: Mapping[str, CallBenchmark]
) -> Term | str:
    source = sources.get(one.call)
    if source is None:
        return NO_BENCHMARK
    size = 0.0 if one.call in SIZELESS else one.message_bytes
    if size is None:
        return NO_SIZE
    ranks = one.comm_size or profile.ranks
    curve = curves.find(choice, source, ranks)
    if curve is None:
        others = measured_ranks(curves, choice, source)
        if others:
            return f"communicators of {ranks} rank{'s'[: ranks != 1]}, measured with {', '.join(map(str, others))}"
        return f"{NOT_MEASURED} ({source.text})"
    weights = curve.weights(size)
    if weights is None:
        return beyond(size, curve)
    return Term(at, source, ranks, weights, float(one.count))


def measured_ranks(curves: Curves, choice: Choice, source: CallBenchmark) -> list[int]:
    """With how many ranks a benchmark was measured."""
    names = (source.suite, source.benchmark, source.quantity)
    return [ranks for *key, ranks in curves.by_choice[choice] if tuple(key) == names]


def beyond(message_bytes: float, curve: TimeCurve) -> str:
    """Why a curve says nothing of a size."""
    low, high = (size_text(int(size)) for size in (curve.sizes[0], curve.sizes[-1]))
    if message_bytes > curve.sizes[-1]:
        return f"sizes above {high}, the largest measured"
    if message_bytes < curve.sizes[0]:
        return f"sizes below {low}, the smallest measured"
    return f"sizes between measured ones that are far apart ({low} to {high})"


def sends(profile: Profile, places: Iterable[int]) -> float:
    """Messages that some rows of a profile begin."""
    return sum(profile.calls[at].count for at in places if profile.calls[at].call in SENDS)


def part_of_followers(profile: Profile, covered: Iterable[int]) -> float:
    """The part of receives and completions that counts as covered: that of the sends."""
    whole = sends(profile, range(len(profile.calls)))
    return sends(profile, covered) / whole if whole else 0.0


def share(profile: Profile, covered: Sequence[int] | frozenset[int]) -> float:
    """Share of a profile that is covered (:func:`basis`)."""
    weights, part = weight(profile), part_of_followers(profile, covered)
    follow = [at for at, one in enumerate(profile.calls) if one.call in RECEIVES or one.call in COMPLETIONS]
    total = sum(weights)
    return (sum(weights[at] for at in covered) + part * sum(weights[at] for at in follow)) / total if total else 0.0


@dataclass(frozen=True)
class Gap:
    """Calls that are not covered.

    :param share: of the profile (:func:`basis`).
    """

    name: str
    why: str
    share: float


def gaps(profile: Profile, reasons: Mapping[int, str], covered: Sequence[int] | frozenset[int]) -> list[Gap]:
    """What is not covered, by call and reason, the largest share first."""
    weights = weight(profile)
    total = sum(weights) or 1.0
    found: dict[tuple[str, str], float] = {}
    for at, why in reasons.items():
        key = (profile.calls[at].name, why)
        found[key] = found.get(key, 0.0) + weights[at] / total
    left = 1 - part_of_followers(profile, covered)
    for at, one in enumerate(profile.calls):
        if (one.call in RECEIVES or one.call in COMPLETIONS) and left > 0:
            key = (one.name, NO_SENDS)
            found[key] = found.get(key, 0.0) + left * weights[at] / total
    rows = [Gap(name, why, size) for (name, why), size in found.items()]
    return sorted(rows, key=lambda gap: (-gap.share, gap.name, gap.why))
