"""The plan of a night: what exists, what it costs and what earlier nights did, put together."""

from __future__ import annotations

import difflib
import fnmatch
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from reframe_tests.harness.sites import site
from reframe_tests.harness.vocabulary import ROOT, BadInput

from ...store.store import Store
from . import choice, costs, past, record
from .choice import Candidates, Chosen, CoverState, PairTable
from .costs import Budget, Cost, Costs, Machine
from .past import EarlierNight, PastNights
from .record import ListedCase, Listing, PlannedCase, PlanRecord, Prediction, ask

#: Nights of which each pair is to be measured in one, unless somebody says otherwise, and at most.
NIGHTS, MOST_NIGHTS = 7, 60
#: Mode whose cases are measured each night.
CORE_MODE = "smoke"

#: Partition, stack, fabric and group of an entry of ``expected.yaml``: patterns, ``None`` for any.
Wanted = tuple[str | None, str | None, str | None, str | None]


@dataclass(frozen=True)
class Request:
    """What is asked for.

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
        raise BadInput("nights-range", f"{request.nights} nights is not possible: give 1 to {MOST_NIGHTS}.")
    listing = listing or ask(request.words, root=request.root)
    if not listing.cases:
        raise BadInput("nothing-to-plan", "no case can be measured here, so there is nothing to plan: 'reframe -l' says why.")
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
    state = choice.state_of(
        candidates,
        before.nights,
        before.ran,
        lambda day: _existed(request.dataset, before, day),
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
    """A night that has just ended, like an earlier one."""
    whole = sum(took * nodes for took, nodes in jobs)
    return EarlierNight(session, started, plan, seconds, sum(took for took, _ in jobs), whole, len(jobs))


def _existed(dataset: Path, before: PastNights, day: date) -> set[ListedCase]:
    """The cases that a night knew of; those it ran, where it had no plan that can be read."""
    found = set(before.ran.get(day, ()))
    for night in before.sessions:
        if night.plan and night.started.date() == day:
            try:
                found |= record.find(dataset, night.plan).known
            except BadInput:
                continue  # the gate says so of that night
    return found


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
    """Whether learned references exist for a case; where its number of ranks is not known, whether they may."""
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
    left = [str(candidates.cases[number]) for number in candidates.core if number not in tonight.reasons]
    if not left:
        return ""
    return (
        f"a budget of {budget.text} is too small for what is measured every night: {len(candidates.core)} cases take "
        f"{budget.format(tonight.core)}; left out would be {len(left)} of them: {_few(left)}"
    )


def left_out(candidates: Candidates, state: CoverState, tonight: Chosen) -> list[str]:
    """Says so where cases that were not right when they were last tried do not fit into the night."""
    left = [str(case) for case in sorted(candidates.cases[at] for at in state.failed if at not in tonight.reasons)]
    said = f"{len(left)} cases that were not right when they were last tried do not fit into the budget: {_few(left)}"
    return [said] if left else []


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _overdue(candidates: Candidates, ahead: Sequence[Chosen], budget: Budget) -> list[str]:
    """Says so where pairs come later than promised, tonight or in a night ahead."""
    number, chosen = next(((number, chosen) for number, chosen in enumerate(ahead) if chosen.overdue), (0, None))
    if chosen is None:
        return []
    first, second = next(pair for pair, value in candidates.pairs.numbers.items() if value == min(chosen.overdue))
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
        history, why = before.cases.get(case), tonight.reasons.get(number)
        proven = history.proven if history else None
        rows.append(PlannedCase(case, bool(why), why or choice.NO_ROOM, proven, cost[number].seconds, asked.get(number, ())))
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


#: Cases that one explanation may be about.
MOST_EXPLAINED = 12
#: In how many nights every case comes where nothing is left for others than tonight's.
NEVER_ALL = "no number of nights: nothing is left for the others"
#: Days that are looked ahead for the next time a case comes.
MOST_AHEAD = 60


def counts(plan: PlanRecord) -> str:
    """How many cases are planned, and why, as part of a sentence."""
    whys = Counter(one.why for one in plan.cases if one.planned)
    parts = ", ".join(f"{number} {why}" for why, number in whys.most_common())
    return f"{len(plan.planned)} of {len(plan.cases)} cases" + (f" ({parts})" if parts else "")


def headline(plan: NightPlan) -> str:
    """One line before anything is submitted: jobs, node-hours, minutes, and how far the last plan was off."""
    found = plan.record.predicted
    return (
        f"{found.jobs} jobs, {found.launches} launches, {found.node_hours:.1f} node-hours, {found.minutes:.1f} min "
        f"(budget {plan.record.budget}); {last_error(plan)}"
    )


def last_error(plan: NightPlan) -> str:
    """How far the plan of the last planned night was off, as part of a sentence."""
    if plan.last is None:
        known = sum(one.measured for one in plan.cost)
        return f"no planned night before: {known} of {len(plan.cost)} costs are measured, the others are those of a model"
    night, planned = plan.last
    return f"{planned.day}: {difference(planned, night)}"


def difference(planned: PlanRecord, night: EarlierNight) -> str:
    said, hours = planned.predicted, night.node_seconds / 3600
    parts = [f"predicted {said.jobs} jobs, ran {night.jobs}"] if said.jobs != night.jobs else []
    if night.seconds is not None:
        parts.append(
            f"predicted {said.minutes:.1f} min, took {night.seconds / 60:.1f} ({_off(night.seconds / 60, said.minutes)})"
        )
    parts.append(f"{said.node_hours:.2f} node-hours, took {hours:.2f} ({_off(hours, said.node_hours)})")
    return "; ".join(parts)


def _off(took: float, said: float) -> str:
    return f"{100 * (took / said - 1):+.0f} %" if said else "nothing was predicted"


def lines(plan: NightPlan) -> list[str]:
    found, record = plan.candidates, plan.record
    head = f"{record.day}, {record.system}, run={record.label}: {counts(record)}"
    said = [head, f"  {headline(plan)}"]
    if not plan.misfit:
        seen = [{pair for one in night.reasons for pair in found.pairs.of[one]} for night in plan.ahead]
        week = len(set().union(*seen))
        whole = len(plan.tonight.reasons) == len(found.cases)
        nights = found.nights_to_all(plan.state, plan.tonight, plan.ahead)
        number = f"about {math.ceil(nights)} nights" if math.isfinite(nights) else NEVER_ALL
        said.append(
            f"  pairs of values: {record.pairs_tonight} of {record.pairs} tonight, {week} in {len(seen)} nights; every case "
            f"{'tonight' if whole else f'in {number}'}"
        )
    return [*said, *(f"  NOT KEPT: {sentence}" for sentence in record.broken)]


def as_data(plan: NightPlan) -> dict[str, Any]:
    record = plan.record
    last = None
    if plan.last is not None:
        night, planned = plan.last
        last = {
            **{"date": planned.day.isoformat(), "session": night.session, "jobs": night.jobs},
            **{"minutes": night.seconds and night.seconds / 60, "node_hours": night.node_seconds / 3600},
            "predicted": vars(planned.predicted),
        }
    return {
        **{"system": record.system, "date": record.day.isoformat(), "label": record.label, "mode": record.mode},
        **{"budget": record.budget, "nights": record.nights, "plan": record.id, "predicted": vars(record.predicted)},
        **{"pairs": record.pairs, "pairs_tonight": record.pairs_tonight, "broken": list(record.broken), "last": last},
        "cases": [
            {
                **{"partition": one.case.partition, "stack": one.case.stack, "name": one.case.name},
                **{"planned": one.planned, "why": one.why, "proven": one.proven and one.proven.isoformat()},
                **{"seconds": one.seconds, "nodes": cost.nodes, "launches": cost.launches, "measured_cost": cost.measured},
            }
            for one, cost in zip(record.cases, plan.cost, strict=True)
        ],
    }


def explain(plan: NightPlan, pattern: str) -> list[str]:
    """Why cases are in tonight's plan or not, when they were last measured and when they come next.

    :param pattern: searched for in ``NAME@PARTITION+STACK`` without blanks, as ``-n`` searches in names.
    :raises BadInput: it is no regular expression, or fits no case or too many.
    """
    try:
        wanted = re.compile(pattern.replace(" ", ""))
    except re.error as error:
        raise BadInput("pattern-format", f"--explain {pattern}: not a regular expression ({error}).") from None
    names = [str(case).replace(" ", "") for case in plan.candidates.cases]
    found = [number for number, name in enumerate(names) if wanted.search(name)]
    if not found:
        close = difflib.get_close_matches(pattern.replace(" ", ""), names, n=1, cutoff=0.3)
        meant = f" (did you mean {close[0]!r}?)" if close else ""
        raise BadInput(
            "pattern-fits-nothing", f"--explain {pattern} fits none of {len(names)} cases{meant}; 'reframe -lC' lists them."
        )
    if len(found) > MOST_EXPLAINED:
        raise BadInput(
            "pattern-fits-too-many",
            f"--explain {pattern} fits {len(found)} cases, more than {MOST_EXPLAINED}: say more of the name.",
        )
    nexts = _next_days(plan, found)
    return [line for number in found for line in _explain_case(plan, number, nexts[number])]


def _explain_case(plan: NightPlan, number: int, comes: date | None) -> list[str]:
    case, cost = plan.candidates.cases[number], plan.cost[number]
    history = plan.past.cases.get(case)
    why = plan.tonight.reasons.get(number)
    budget = Budget.parse(plan.record.budget)
    source = "as its last runs" if cost.measured else "by the model"
    lines = [f"{case}: {'in' if why else 'out'}: {why or choice.NO_ROOM}"]
    where = f"{cost.nodes} node{'s'[: cost.nodes != 1]}"
    share = budget.format(plan.candidates.shares[number])
    lines.append(f"  {cost.seconds:.0f} s on {where}, {cost.launches} launches ({source}): {share}")
    if history is None:
        lines.append(f"  never measured in the {len(plan.past.nights)} nights of run={plan.record.label} that are stored")
    else:
        proven = f"last proven {history.proven}" if history.proven else "never proven"
        tried = f", last tried {history.tried} in session {history.session[:8]}" if history.tried != history.proven else ""
        lines.append(f"  {proven}{tried}{' and not proven then' if history.failed else ''}")
    if not why:
        within = f"not within {MOST_AHEAD} nights, if all goes as planned"
        lines.append(f"  comes next on {comes}, if all goes as planned" if comes else f"  {within}")
    return lines


def _next_days(plan: NightPlan, numbers: list[int]) -> dict[int, date | None]:
    """The next day on which each of some cases comes."""
    found: dict[int, date | None] = dict.fromkeys(numbers)
    state, chosen, day = plan.state, plan.tonight, plan.record.day
    for after in range(MOST_AHEAD if not plan.misfit else 0):
        if after:
            state = plan.candidates.after(state, chosen)
            chosen = plan.candidates.choose(state, day + timedelta(days=after))
        for number in numbers:
            if found[number] is None and number in chosen.reasons:
                found[number] = day + timedelta(days=after)
        if None not in found.values():
            break
    return found
