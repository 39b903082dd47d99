"""The plan of a night: what exists, what it costs and what earlier nights did, put together."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from reframe_tests.harness.sites import site
from reframe_tests.harness.vocabulary import ROOT, BadInput

from ...store.store import Store
from . import choice, costs, past, record
from .budget import Budget
from .cases import ListedCase, Listing, ask
from .choice import Candidates, Chosen, CoverState
from .costs import Cost, Costs, Machine
from .cover import PairTable
from .past import EarlierNight, PastNights
from .record import PlannedCase, PlanRecord, Prediction

#: Nights of which each pair is to be measured in one, unless somebody says otherwise, and at most.
NIGHTS, MOST_NIGHTS = 7, 60
#: Mode whose cases are measured each night.
CORE_MODE = "smoke"

#: Partition, stack, fabric and group of an entry of ``expected.yaml``: patterns, ``None`` for any.
Wanted = tuple[str | None, str | None, str | None, str | None]


@dataclass(frozen=True)
class Request:
    """What is asked for.

    :param label: of the night (``run``).
    :param words: ReFrame's options, those of the mode among them.
    :param nights: within which each pair of values comes.
    :param max_jobs: that are queued or run at once in a partition; ``None``: as many as the site says.
    :param wanted: of ``expected.yaml`` for the label, by system.
    :param retired: whether a case of a system, last proven on a day or never, is retired there.
    """

    mode: str
    label: str
    words: Sequence[str]
    budget: Budget
    day: date
    dataset: Path
    nights: int = NIGHTS
    max_jobs: int | None = None
    wanted: Callable[[str], Iterable[Wanted]] = lambda system: ()
    retired: Callable[[str, ListedCase, date | None], bool] = lambda system, case, proven: False
    root: Path = ROOT


@dataclass(frozen=True)
class NightPlan:
    """A plan, and what it was made of.

    :param ahead: what this night and the next ones measure if all goes as planned.
    :param cost: of each case of ``candidates``.
    :param misfit: why the core does not fit, what is left out and what it would take; empty where it fits.
    """

    request: Request
    record: PlanRecord
    candidates: Candidates
    state: CoverState
    cost: Sequence[Cost]
    ahead: Sequence[Chosen]
    past: PastNights
    misfit: str

    @property
    def tonight(self) -> Chosen:
        """What is measured tonight."""
        return self.ahead[0]

    @property
    def last(self) -> tuple[EarlierNight, PlanRecord] | None:
        """The newest session that was measured by a plan, and that plan; ``None`` where there is none to be read."""
        for night in self.past.sessions:
            if night.plan:
                try:
                    return night, record.find(self.request.dataset, night.plan)
                except BadInput:
                    return None
        return None


def make(request: Request, listing: Listing | None = None, smoke: Collection[ListedCase] | None = None) -> NightPlan:
    """Plan a night.

    :param listing: all cases; ``None``: ReFrame is asked.
    :param smoke: those of the smoke mode among them, likewise.
    :raises BadInput: nothing can be listed, a damaged dataset, or a number of nights that is none.
    """
    if not 1 <= request.nights <= MOST_NIGHTS:
        raise BadInput(f"{request.nights} nights is not possible: give 1 to {MOST_NIGHTS}.")
    listing = listing or ask(request.words, root=request.root)
    if not listing.cases:
        raise BadInput("no case can be measured here, so there is nothing to plan: 'reframe -l' says why.")
    if smoke is None:
        smoke = ask([*request.words, "-t", CORE_MODE], root=request.root).cases if request.mode != CORE_MODE else ()
    level, repeats = costs.level_and_repeats(request.words)
    before = past.read(Store(request.dataset), listing.system, request.label, request.day)
    known = Costs(Machine.read(listing.system, request.root), before, level, repeats)
    cost = [known.of(case) for case in listing.cases]
    wall = known.wall_per_job_second(request.max_jobs)
    shares = [request.budget.share(one, wall) for one in cost]
    core, broken = _core(request, listing, set(smoke), known.machine, shares, before)
    pairs = PairTable(listing.cases, before.skipped(request.nights - 1))
    candidates = Candidates(listing.cases, shares, core, request.budget.amount, request.nights, pairs)
    plans = _Plans(request.dataset, before)
    state = choice.state_of(
        candidates,
        before.nights,
        before.ran,
        plans.existed,
        {case: one.tried for case, one in before.cases.items()},
        [case for case, one in before.owed.items() if not request.retired(listing.system, case, one.proven)],
    )
    tonight = candidates.choose(state, request.day)
    misfit = _misfit(candidates, tonight, request.budget)
    ahead = [tonight] if misfit else candidates.ahead(state, tonight, request.day, request.nights)
    broken += [misfit] if misfit else [*left_out(candidates, state, tonight), *_overdue(candidates, ahead, request.budget)]
    asked = {number: before.owed[listing.cases[number]].nodes for number in state.failed if number in tonight.reasons}
    written = _record(request, listing, candidates, tonight, cost, wall, before, broken, asked)
    return NightPlan(request, written, candidates, state, cost, ahead, before, misfit)


def past_night(
    session: str, started: datetime, plan: str, seconds: float | None, jobs: Sequence[tuple[float, int]]
) -> EarlierNight:
    """A night that has just ended, like an earlier one.

    :param jobs: seconds and nodes of each.
    """
    whole = sum(took * nodes for took, nodes in jobs)
    return EarlierNight(session, started, plan, seconds, sum(took for took, _ in jobs), whole, len(jobs))


class _Plans:
    """Plans of earlier nights, each read once."""

    def __init__(self, dataset: Path, before: PastNights) -> None:
        self._dataset, self._before = dataset, before

    def existed(self, day: date) -> frozenset[ListedCase]:
        """The cases that a night knew of; those it ran, where it had no plan that can be read."""
        found = set(self._before.ran.get(day, ()))
        for night in self._before.sessions:
            if night.plan and night.started.date() == day:
                try:
                    found |= record.find(self._dataset, night.plan).known
                except BadInput:
                    continue  # the gate says so of that night
        return frozenset(found)


def _core(
    request: Request,
    listing: Listing,
    smoke: Collection[ListedCase],
    machine: Machine,
    shares: Sequence[float],
    before: PastNights,
) -> tuple[dict[int, str], list[str]]:
    """The cases of each night, each with why; and why not all of them are known."""
    broken = []
    try:
        learned = site.read_references(listing.system, request.root)
    except BadInput as error:
        learned = {}
        broken.append(f"the references cannot be used, so the plan has no cases for them: {str(error).rstrip('.')}")
    fewest = _on_fewest_nodes(smoke, machine)
    found = {number: choice.SMOKE for number, case in enumerate(listing.cases) if case in fewest}
    for number, case in enumerate(listing.cases):
        if number not in found and has_reference(case, listing.system, learned, machine):
            found[number] = choice.REFERENCE
    for entry in request.wanted(listing.system):
        fitting = [number for number, case in enumerate(listing.cases) if _is_wanted(entry, case)]
        if fitting and not any(number in found for number in fitting):
            # One that was proven before, the cheapest; that it is the same every night keeps its history whole.
            proven = [number for number in fitting if (one := before.cases.get(listing.cases[number])) and one.proven]
            found[min(proven or fitting, key=lambda number: (shares[number], listing.cases[number]))] = choice.EXPECTED
    return found, broken


def _on_fewest_nodes(smoke: Collection[ListedCase], machine: Machine) -> set[ListedCase]:
    """Of the smoke cases those on the fewest nodes of each partition, stack, fabric and test.

    That a fabric works between two nodes is to be known each night; that it works on 64, as often as other pairs.
    """
    fewest: dict[tuple[str, ...], int] = {}
    for case in smoke:
        fewest[_place(case)] = min(machine.nodes(case), fewest.get(_place(case), machine.nodes(case)))
    return {case for case in smoke if machine.nodes(case) == fewest[_place(case)]}


def _place(case: ListedCase) -> tuple[str, ...]:
    return case.partition, case.stack, case.parameters.get("fabric", ""), case.test


def _is_wanted(entry: Wanted, case: ListedCase) -> bool:
    values = (case.partition, case.stack, case.parameters.get("fabric", ""), case.group)
    return all(pattern is None or fnmatch.fnmatchcase(value, pattern) for pattern, value in zip(entry, values, strict=True))


def has_reference(case: ListedCase, system: str, learned: Mapping[str, Any], machine: Machine) -> bool:
    """Whether learned references exist for a case; where its number of ranks is not known, whether they may.

    :param learned: content of the system's ``references.yaml``.
    """
    place: Any = learned.get(case.test, {})
    nodes = case.parameters.get("nodes", "")
    keys = [f"{system}:{case.partition}", case.stack, case.parameters.get("fabric", ""), int(nodes) if nodes.isdecimal() else 0]
    for key in keys:
        place = place.get(key, {}) if isinstance(place, Mapping) else {}
    if not isinstance(place, Mapping):
        return False
    ppn = machine.ppn(case)
    entries = place.values() if ppn is None else [place.get(ppn, {})]
    return any(isinstance(one, Mapping) and case.parameters.get("pinning", "") in one for one in entries)


def _misfit(candidates: Candidates, tonight: Chosen, budget: Budget) -> str:
    """Why the core does not fit; empty where it does."""
    left = [number for number in candidates.core if number not in tonight.reasons]
    if not left:
        return ""
    names = ", ".join(str(candidates.cases[number]) for number in left[:3])
    more = f" and {len(left) - 3} more" if len(left) > 3 else ""
    return (
        f"a budget of {budget.text} is too small for what is measured every night: {len(candidates.core)} cases take "
        f"{budget.format(tonight.core)}; left out would be {len(left)} of them: {names}{more}"
    )


def left_out(candidates: Candidates, state: CoverState, tonight: Chosen) -> list[str]:
    """Says so where cases that were not right when they were last tried do not fit into the night."""
    left = sorted(candidates.cases[number] for number in state.failed if number not in tonight.reasons)
    if not left:
        return []
    more = f" and {len(left) - 3} more" if len(left) > 3 else ""
    names = ", ".join(map(str, left[:3]))
    return [f"{len(left)} cases that were not right when they were last tried do not fit into the budget: {names}{more}"]


def _overdue(candidates: Candidates, ahead: Sequence[Chosen], budget: Budget) -> list[str]:
    """Says so where pairs come later than promised, tonight or in a night ahead."""
    late = next(((number, chosen) for number, chosen in enumerate(ahead) if chosen.overdue), None)
    if late is None:
        return []
    number, chosen = late
    names = {value: pair for pair, value in candidates.pairs.numbers.items()}
    first, second = names[min(chosen.overdue)]
    when = "tonight" if not number else f"in {number} night{'s' if number > 1 else ''}"
    return [
        f"{len(chosen.overdue)} of {len(candidates.pairs)} pairs of values, such as {first[0]}={first[1]} with "
        f"{second[0]}={second[1]}, are not measured within {candidates.nights} nights ({when}): a budget of about "
        f"{budget.format(_needed(candidates, chosen))} would do, or more nights"
    ]


def _needed(candidates: Candidates, chosen: Chosen) -> float:
    """What the night would have taken with the pairs it lacks, covered by the cheapest cases that have them."""
    rest = set(chosen.overdue)
    needed = sum(
        candidates.shares[one]
        for one, why in chosen.reasons.items()
        if why in (*candidates.core.values(), choice.FAILED, choice.DUE)
    )
    for one in sorted(range(len(candidates.cases)), key=lambda one: candidates.shares[one]):
        if rest.intersection(candidates.pairs.of[one]):
            rest.difference_update(candidates.pairs.of[one])
            needed += candidates.shares[one]
    return needed


def _record(
    request: Request,
    listing: Listing,
    candidates: Candidates,
    tonight: Chosen,
    cost: Sequence[Cost],
    wall: float,
    before: PastNights,
    broken: Sequence[str],
    asked: Mapping[int, tuple[str, ...]],
) -> PlanRecord:
    taken = [cost[number] for number in tonight.reasons]
    predicted = Prediction(
        len(taken),
        sum(one.launches for one in taken),
        round(sum(one.seconds * one.nodes for one in taken) / 3600, 3),
        round(sum(one.seconds for one in taken) * wall / 60, 2),
    )
    rows = []
    for number, case in enumerate(listing.cases):
        history = before.cases.get(case)
        why = tonight.reasons.get(number, choice.NO_ROOM)
        rows.append(
            PlannedCase(
                *(case, number in tonight.reasons, why, history.proven if history else None, cost[number].seconds),
                asked.get(number, ()),
            )
        )
    covered = {pair for number in tonight.reasons for pair in candidates.pairs.of[number]}
    return PlanRecord(
        system=listing.system,
        day=request.day,
        label=request.label,
        mode=request.mode,
        budget=request.budget.text,
        nights=request.nights,
        predicted=predicted,
        pairs=len(candidates.pairs),
        pairs_tonight=len(covered),
        broken=tuple(broken),
        cases=tuple(rows),
    )
