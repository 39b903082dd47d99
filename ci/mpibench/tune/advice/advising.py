"""From a profile and measured curves to one answer: what to run the application with, or why nobody can tell.

The steps are those of the Cambridge method (section 2.1.1 of the paper): a profile (1), how much time is in MPI at all (2),
measured curves (3), compared on the calls, sizes and ranks of the application (5), and the message size that would be best (6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...judge.verdicts.policy import Policy
from ..profiles import Profile
from . import coverage, curves, message_sizes, prediction
from .coverage import Coverage, Gap
from .curves import Choice, Curves
from .message_sizes import BestSize
from .prediction import PredictedTime
from .sources import CallBenchmark

#: Outcomes: one choice is the fastest; several are, within noise; there is but one; communication hardly matters; too little is
#: covered.
CHOICE, NOISE, ALONE, LITTLE, UNCOVERED = "choice", "noise", "alone", "little", "uncovered"
#: Share of the profile that must be covered before anything is ranked.
LEAST_COVERED = 0.8
#: Share of the run in MPI below which step 2 ends the method.
LITTLE_TIME = 0.1


@dataclass(frozen=True)
class Terms:
    """What is asked.

    :param least_covered: share of the profile, from 0 to 1, below which nothing is ranked.
    :param little_time: share of the run in MPI below which nothing else is said.
    :param profiled_on: stack that the profile was taken with, to hold its prediction against what was recorded.
    """

    least_covered: float = LEAST_COVERED
    little_time: float = LITTLE_TIME
    profiled_on: str | None = None


@dataclass(frozen=True)
class Advice:
    """The answer.

    :param outcome: :data:`CHOICE`, :data:`NOISE`, :data:`ALONE`, :data:`LITTLE` or :data:`UNCOVERED`.
    :param ranking: what was ranked, the fastest first.
    :param covered: share of the profile that all of the ranking cover; ``best_covered``: what the best single one does.
    :param basis: what shares are of.
    :param gaps: what is not covered.
    :param unranked: choices that are not in the ranking, with the reason.
    :param sizes: best message sizes with the first of the ranking.
    :param sources: benchmark that stands for each call.
    """

    profile: Profile
    measured: Curves
    terms: Terms
    policy: Policy
    outcome: str
    ranking: tuple[PredictedTime, ...] = ()
    covered: float = 0.0
    basis: str = ""
    gaps: tuple[Gap, ...] = ()
    unranked: tuple[tuple[Choice, str], ...] = ()
    sizes: tuple[BestSize, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def best(self) -> list[PredictedTime]:
        """The fastest, and those that do not differ from it."""
        return [one for one in self.ranking if not one.differs]


def has_little(profile: Profile, terms: Terms) -> bool:
    """Whether step 2 ends the method."""
    return profile.share_in_mpi is not None and profile.share_in_mpi < terms.little_time


def stop(profile: Profile, policy: Policy, terms: Terms) -> Advice:
    """The answer of step 2, for which nothing need have been measured."""
    return Advice(profile, Curves("", (), {}), terms, policy, LITTLE, basis=coverage.basis(profile))


def advise(profile: Profile, measured: Curves, policy: Policy, terms: Terms) -> Advice:
    """Answer for a profile."""
    basis = coverage.basis(profile)
    if has_little(profile, terms):
        return stop(profile, policy, terms)
    fitting = [choice for choice in measured.by_choice if choice.ranks == profile.ranks]
    counts = ", ".join(map(str, curves.conditions(measured)))
    unranked = [
        (choice, f"measured with {choice.ranks} ranks, the profile has {profile.ranks}")
        for choice in measured.by_choice
        if choice not in fitting
    ]
    same = curves.narrowed(measured, fitting)
    sources = coverage.choose_sources(profile, same)
    covers = {choice: coverage.cover(profile, same, choice, sources) for choice in fitting}
    ranked, common = _common(profile, covers, terms, unranked)
    share = coverage.share(profile, common)
    if not fitting or share < terms.least_covered:
        best = max(covers.values(), key=lambda one: coverage.share(profile, list(one.terms)), default=None)
        if best is None:
            why = f"measured with {counts or 'no'} ranks, the profile has {profile.ranks}"
            best = Coverage({}, dict.fromkeys(coverage.counted(profile), why))
        left, own = coverage.gaps(profile, best.reasons, list(best.terms)), coverage.share(profile, list(best.terms))
        more: dict[str, Any] = {
            "covered": own,
            "basis": basis,
            "gaps": tuple(left),
            "unranked": tuple(unranked),
            "sources": _named(sources),
        }
        return Advice(profile, measured, terms, policy, UNCOVERED, (), **more)
    found, refused = prediction.predict(profile, same, {choice: covers[choice] for choice in ranked}, common, policy)
    unranked += list(refused.items())
    if not found:
        more = {"basis": basis, "unranked": tuple(unranked), "sources": _named(sources)}
        return Advice(profile, measured, terms, policy, UNCOVERED, (), **more)
    reasons = _reasons(profile, covers, ranked, common)
    near = [one for one in found if not one.differs]
    return Advice(
        profile,
        measured,
        terms,
        policy,
        ALONE if len(found) == 1 else CHOICE if len(near) == 1 else NOISE,
        tuple(found),
        share,
        basis,
        tuple(coverage.gaps(profile, reasons, common)),
        tuple(unranked),
        tuple(message_sizes.find(profile, same, found[0].choice, covers[found[0].choice], policy)),
        _named(sources),
    )


def _common(
    profile: Profile, covers: Mapping[Choice, Coverage], terms: Terms, unranked: list[tuple[Choice, str]]
) -> tuple[list[Choice], frozenset[int]]:
    """Choices that can be ranked together, and the rows of the profile they all cover.

    A choice that covers too little by itself is left out; then, as long as they cover too little together, the one that
    covers least.
    """
    shares = {choice: coverage.share(profile, list(one.terms)) for choice, one in covers.items()}
    ranked = [choice for choice in covers if shares[choice] >= terms.least_covered]
    unranked += [
        (
            choice,
            f"its curves cover {100 * shares[choice]:.0f} % of the {coverage.basis(profile)}"
            + _first_gap(profile, covers[choice]),
        )
        for choice in covers
        if choice not in ranked
    ]
    while ranked:
        common = frozenset.intersection(*(frozenset(covers[choice].terms) for choice in ranked))
        if coverage.share(profile, common) >= terms.least_covered or len(ranked) == 1:
            return ranked, common
        worst = min(ranked, key=lambda choice: shares[choice])
        ranked.remove(worst)
        unranked.append((worst, f"with it the choices cover less than {100 * terms.least_covered:.0f} % in common"))
    return [], frozenset()


def _first_gap(profile: Profile, one: Coverage) -> str:
    left = coverage.gaps(profile, one.reasons, list(one.terms))
    return f" ({left[0].name}: {left[0].why})" if left else ""


def _reasons(
    profile: Profile, covers: Mapping[Choice, Coverage], ranked: list[Choice], common: frozenset[int]
) -> dict[int, str]:
    """Why rows are not covered by all that are ranked."""
    found = dict[int, str]()
    for choice in ranked:
        for at, why in covers[choice].reasons.items():
            found.setdefault(at, why if all(at in covers[other].reasons for other in ranked) else f"{why} ({choice.text})")
    return {at: why for at, why in found.items() if at not in common}


def _named(sources: Mapping[str, CallBenchmark]) -> dict[str, str]:
    return {f"MPI_{call}": source.text + (f", {source.instead}" if source.instead else "") for call, source in sources.items()}
