"""The plan of a night: what exists, what it costs and what earlier nights did, put together.

A case costs as long as it took in the last nights, else what a model says: each launch takes a start, and for each benchmark
and size its repetitions (``harness/suites/benchmark.py``) times a latency and the bytes over the fabric's rate; twice, as
programs warm up. The model is scaled by the median of what cases that were measured took longer, so that it only has to know
how cases differ.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from reframe_tests.harness.cases.job import condition
from reframe_tests.harness.command_line import arguments
from reframe_tests.harness.launchers.schedulers import spool
from reframe_tests.harness.machine import placement
from reframe_tests.harness.sites import site, systems
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.benchmark import Plan
from reframe_tests.harness.vocabulary import ROOT, BadInput

from ...store.store import Store
from .. import expected
from . import choice, record
from .choice import Candidates, Chosen, CoverState, PairTable
from .record import EarlierNight, ListedCase, Listing, PastNights, PlannedCase, PlanRecord, Prediction, ask, few

#: Seconds of a job beside its launches, of a launch beside its benchmarks, and of a message.
JOB_S, START_S, LATENCY_S = 3.0, 1.5, 20e-6
#: Seconds of a case beside its launches where it shares an allocation: no job of its own has to begin and end.
SHARED_S = 0.5
#: Seconds of a message between ranks that share cores: four on two cores of the mini-cluster took 1 ms and not 30 us.
OVERSUBSCRIBED_LATENCY_S = 1e-3
#: Bytes per second where the site states no rate: of a network, and inside a node.
RATE, RATE_WITHIN = 1e9, 5e9
#: How often a program does what its repetitions say (:mod:`harness.suites.benchmark`: up to three times).
WARM_UP = 2.0
#: How much longer a session lasts than its jobs, at most: what is beyond, it waited in the queue, and tonight's is another one.
MOST_BESIDE = 1.5
#: Sessions that say how many jobs run at once.
SESSIONS_TAKEN = 3
#: Seconds of a job nothing is known of.
UNKNOWN_S = 60.0
#: Cases of a group from which the model is scaled for that group, and not for all.
FEWEST_SCALED = 3
#: By how much a newest run may differ from those before it and still be one of them.
ALIKE = 0.25
#: Nights of which each pair is to be measured in one, unless somebody says otherwise, and at most.
NIGHTS, MOST_NIGHTS = 7, 60
#: Mode whose cases are measured each night.
CORE_MODE = "smoke"
#: Cases that one explanation may be about, and days that are looked ahead for the next time a case comes.
MOST_EXPLAINED, MOST_AHEAD = 12, 60
#: In how many nights every case comes where nothing is left for others than tonight's.
NEVER_ALL = "no number of nights: nothing is left for the others"
_BUDGET = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>m|min|h|nodeh)")
#: Unit as given to the unit that is counted in, and how many of these it is.
_UNITS = {"m": ("min", 1.0), "min": ("min", 1.0), "h": ("min", 60.0), "nodeh": ("node-hours", 1.0)}


class Estimate(NamedTuple):
    """By the model; ``launches`` are those of MPI programs."""

    seconds: float
    launches: int


class Cost(NamedTuple):
    """Of one case.

    :param seconds: for which its job holds its nodes.
    :param measured: whether it comes from earlier runs of the case.
    """

    seconds: float
    nodes: int
    launches: int
    measured: bool


def likely_seconds(seconds: Sequence[float]) -> float:
    """What a case takes, from its last runs: their median, but the newest where that is another by more than :data:`ALIKE`.

    :param seconds: the newest last; at least one.
    """
    middle = statistics.median(seconds)
    return seconds[-1] if abs(seconds[-1] - middle) > ALIKE * middle else middle


@dataclass(frozen=True)
class Costs:
    """What cases cost on a system.

    :param partitions: as the site describes them, by name.
    :param processors: ReFrame's processor information by partition, where it is known.
    :param level: at which they are measured; ``repeats``: how often.
    """

    partitions: Mapping[str, Mapping[str, Any]]
    processors: Mapping[str, Mapping[str, Any]]
    past: PastNights
    level: str
    repeats: int
    _ppn: dict[tuple[str, str], int | None] = field(default_factory=dict, repr=False, compare=False)
    _estimates: dict[tuple[object, ...], Estimate] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, system: str, past: PastNights, level: str, repeats: int, root: Path) -> Costs:
        """As the site describes the system, with the topologies that ReFrame detected; no partition where it does not."""
        described = systems.find(system, root)
        rows = {row["name"]: row for row in described["partitions"]} if described else {}
        processors = {name: row.get("processor") or _detected(system, name, root) for name, row in rows.items()}
        return cls(rows, processors, past, level, repeats)

    def _extras(self, case: ListedCase) -> Mapping[str, Any]:
        extras: Mapping[str, Any] = self.partitions.get(case.partition, {}).get("extras", {})
        return extras

    def nodes(self, case: ListedCase) -> int:
        """Nodes of its job; the most there are where it takes all that are idle."""
        return max(site.node_counts_of(self._extras(case))) if case.nodes is None else case.nodes

    def ppn(self, case: ListedCase) -> int | None:
        """Processes per node as a number; ``None`` where the topology is not known."""
        key = (case.partition, case.parameters.get("ppn", "1"))
        if key not in self._ppn:
            self._ppn[key] = self._resolve(*key)
        return self._ppn[key]

    def _resolve(self, partition: str, symbol: str) -> int | None:
        if symbol.isdecimal():
            return int(symbol)
        processor = self.processors.get(partition)
        if not processor:
            return None
        row = self.partitions[partition]
        here = row.get("scheduler") == "local" and not row.get("extras", {}).get("remote", False)
        try:
            return placement.resolve_ppn(symbol, condition.Partition(processor, row.get("extras", {}), here=here).topology)
        except BadInput:
            return None

    def estimate(self, case: ListedCase) -> Estimate:
        """By the model alone, for which stack and pinning are all one."""
        nodes, ppn = self.nodes(case), self.ppn(case) or 1
        key = (case.partition, case.parameters.get("fabric"), case.group, nodes, ppn)
        if key not in self._estimates:
            self._estimates[key] = self._estimate(case, nodes, ppn)
        return self._estimates[key]

    def _estimate(self, case: ListedCase, nodes: int, ppn: int) -> Estimate:
        group = catalogue.GROUPS.get(case.group)
        if group is None or not (group.plans or case.group == catalogue.PLACEMENT):
            return Estimate(UNKNOWN_S, self.repeats)
        extras = self._extras(case)
        fabric = site.fabrics_of(extras).get(case.parameters.get("fabric", ""))
        rate = fabric.planned_rate_gbit_per_s if fabric else None
        limits = catalogue.Limits(rate, extras.get("most_repetitions"))
        latency_s = OVERSUBSCRIBED_LATENCY_S if nodes * ppn > extras.get("most_timed_ranks", math.inf) else LATENCY_S
        bytes_per_s = rate * 1e9 / 8 if rate else RATE_WITHIN if nodes == 1 else RATE
        took = [self._launch_seconds(plan, nodes * ppn, nodes, limits, latency_s, bytes_per_s) for plan in group.plans]
        timed = [seconds for seconds in took if seconds is not None]
        # The check of received data comes first, once.
        seconds = (SHARED_S if spool.EXTRA in extras else JOB_S) + START_S + self.repeats * sum(timed)
        return Estimate(seconds, 1 + self.repeats * len(timed))

    def _launch_seconds(
        self, plan: Plan, ranks: int, nodes: int, limits: catalogue.Limits, latency_s: float, bytes_per_s: float
    ) -> float | None:
        """Seconds of one launch; ``None`` where nothing of it is measured on so many ranks."""
        rows = [row for row in (catalogue.find(plan.binary, name) for name in plan.benchmarks) if row.active(ranks, nodes)]
        if not rows or self.level not in plan.size_ranges:
            return None
        planned, bound = plan.size_ranges[self.level], catalogue.LEVELS[self.level]
        if planned.budget_s:
            return START_S + planned.budget_s
        link_bytes = {row.name: row.link_bytes(row.active(ranks), nodes) for row in rows}
        size_range = planned.limited(limits, bound, max(link_bytes.values()))
        suite = catalogue.SUITES[rows[0].suite]
        steps = 1 if not catalogue.GROUPS[rows[0].group].collective else 1 + math.log2(max(ranks, 2))
        total = 0.0
        for row in rows:
            for size in (size or 0 for size in suite.sizes(row, plan, size_range)):
                # At most a volume (IMB User Guide, "-iter Option").
                most = max(1, min(size_range.count, (size_range.volume_mib << 20) // max(size, 1)))
                count = size_range.repetitions if suite.same_repetitions else most
                total += WARM_UP * count * (latency_s * steps + link_bytes[row.name] * size / bytes_per_s)
        return START_S + min(total, float(bound.limit_s))

    @cached_property
    def _scales(self) -> dict[str, float]:
        """By how much cases took longer than the model says, by group; under an empty name of all together."""
        ratios: dict[str, list[float]] = {}
        for case, history in self.past.cases.items():
            if history.seconds and not history.failed:
                ratio = likely_seconds(history.seconds) / self.estimate(case).seconds
                for name in (case.group, ""):
                    ratios.setdefault(name, []).append(ratio)
        return {name: statistics.median(found) for name, found in ratios.items() if name == "" or len(found) >= FEWEST_SCALED}

    def of(self, case: ListedCase) -> Cost:
        guess, nodes = self.estimate(case), self.nodes(case)
        history = self.past.cases.get(case)
        if history and history.seconds:
            return Cost(likely_seconds(history.seconds), nodes, guess.launches, True)
        scale = self._scales.get(case.group, self._scales.get("", 1.0))
        return Cost(guess.seconds * scale, nodes, guess.launches, False)

    def wall_per_job_second(self, max_jobs: int | None = None) -> float:
        """Seconds a session lasts for each second of its jobs: below 1 where jobs run at once; 1 before a night has shown it.

        Otherwise one night that waited for hours would make each budget of minutes too small, and no other would show better.
        """
        sessions = [night for night in self.past.sessions if night.seconds and night.job_seconds][:SESSIONS_TAKEN]
        known = [(night.seconds or 0.0) / night.job_seconds for night in sessions]
        found = min(likely_seconds(known[::-1]), MOST_BESIDE) if known else 1.0
        return max(found, 1 / max_jobs) if max_jobs else found


def _detected(system: str, partition: str, root: Path) -> Mapping[str, Any]:
    """Topology of a partition that ReFrame detected (``frontend/autodetect.py``), on whatever host."""
    for path in sorted((root / "results" / "topology").glob(f"*/{system}-{partition}/processor.json")):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict):
            return found
    return {}


def level_and_repeats(words: Sequence[str]) -> tuple[str, int]:
    """How thoroughly ReFrame's options measure: the last ``-S level=`` and ``-S repeats=``, else those of a night.

    :raises BadInput: no such level, or no number of repeats.
    """
    values = {"level": "nightly", "repeats": "3"}
    for text in arguments(words, {"-S": "setvar"})["setvar"]:
        name, _, value = text.partition("=")
        values[name.rpartition(".")[2]] = value
    level, repeats = values["level"], values["repeats"]
    if level not in catalogue.LEVELS:
        raise BadInput("level-unknown", f"there is no level '{level}'; choose one of {', '.join(catalogue.LEVELS)}.")
    if not repeats.isdecimal() or not int(repeats):
        raise BadInput("repeats-range", f"-S repeats={repeats} is no number of repeats: give 1 or more.")
    return level, int(repeats)


@dataclass(frozen=True)
class Budget:
    """A bound; ``unit`` is ``min`` or ``node-hours``."""

    text: str
    unit: str
    amount: float

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read ``30m``, ``1.5h`` or ``20nodeh``.

        :raises BadInput: it is none of these, or nothing.
        """
        found = _BUDGET.fullmatch(text.strip())
        if not found or not float(found["number"]):
            raise BadInput(
                "budget-format",
                f"a budget of {text!r} is none: write minutes (30m), hours (1.5h) or node-hours (20nodeh), above 0.",
            )
        unit, times = _UNITS[found["unit"]]
        return cls(text.strip(), unit, float(found["number"]) * times)

    def share(self, cost: Cost, wall_per_job_second: float) -> float:
        """What a case takes of it.

        :param wall_per_job_second: seconds a session lasts for each second of its jobs.
        """
        if self.unit == "min":
            return cost.seconds * wall_per_job_second / 60
        return cost.seconds * cost.nodes / 3600

    def format(self, amount: float) -> str:
        return f"{amount:.1f} {self.unit}"


@dataclass(frozen=True)
class Request:
    """What is asked for.

    :param words: ReFrame's options, those of the mode among them.
    :param nights: within which each pair of values comes.
    :param max_jobs: that are queued or run at once in a partition; ``None``: as many as the site says.
    """

    mode: str
    label: str
    words: Sequence[str]
    budget: Budget
    day: date
    dataset: Path
    nights: int = NIGHTS
    max_jobs: int | None = None
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

    @cached_property
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
    cases = listing.cases
    if not cases:
        raise BadInput("nothing-to-plan", "no case can be measured here, so there is nothing to plan: 'reframe -l' says why.")
    if smoke is None:
        smoke = ask([*request.words, "-t", CORE_MODE], root=request.root).cases if request.mode != CORE_MODE else ()
    past = record.read_past(Store(request.dataset), listing.system, request.label, request.day)
    costs = Costs.read(listing.system, past, *level_and_repeats(request.words), request.root)
    cost = [costs.of(case) for case in cases]
    wall = costs.wall_per_job_second(request.max_jobs)
    shares = [request.budget.share(cost_row, wall) for cost_row in cost]
    file = expected.load_file(listing.system, request.root)
    core, broken = _core(request, listing, set(smoke), costs, shares, file)
    pairs = PairTable(cases, past.skipped(request.nights - 1))
    candidates = Candidates(cases, shares, core, request.budget.amount, request.nights, pairs)

    def existed(day: date) -> set[ListedCase]:
        """The cases that a night knew of; those it ran, where it had no plan that can be read."""
        found = set(past.ran.get(day, ()))
        for night in past.sessions:
            if night.plan and night.started.date() == day:
                try:
                    found |= record.find(request.dataset, night.plan).known
                except BadInput:
                    continue  # the gate says so of that night
        return found

    state = choice.state_of(
        candidates,
        past.nights,
        past.ran,
        existed,
        {case: history.tried for case, history in past.cases.items()},
        [case for case, owed in past.owed.items() if not file.retires(expected.job_of(case), request.label, owed.proven)],
    )
    tonight = candidates.choose(state, request.day)
    misfit = ""
    if left := [str(cases[number]) for number in core if number not in tonight.reasons]:
        misfit = (
            f"a budget of {request.budget.text} is too small for what is measured every night: {len(core)} cases take "
            f"{request.budget.format(tonight.core)}; left out would be {len(left)} of them: {few(left)}"
        )
    ahead = [tonight] if misfit else list(islice(candidates.ahead(state, tonight, request.day), request.nights))
    broken += [misfit] if misfit else [*left_out(candidates, state, tonight), *_overdue(candidates, ahead, request.budget)]
    taken = [cost[number] for number in tonight.reasons]
    rows = []
    for number, case in enumerate(cases):
        history, why = past.cases.get(case), tonight.reasons.get(number)
        nodes = past.owed[case].nodes if why and number in state.failed else ()
        proven = history.proven if history else None
        rows.append(PlannedCase(case, bool(why), why or choice.NO_ROOM, proven, cost[number].seconds, nodes))
    plan = PlanRecord(
        system=listing.system,
        day=request.day,
        label=request.label,
        mode=request.mode,
        budget=request.budget.text,
        nights=request.nights,
        predicted=Prediction(
            len(taken),
            sum(case.launches for case in taken),
            round(sum(case.seconds * case.nodes for case in taken) / 3600, 3),
            round(sum(case.seconds for case in taken) * wall / 60, 2),
        ),
        pairs=len(pairs),
        pairs_tonight=len({pair for number in tonight.reasons for pair in pairs.of[number]}),
        broken=tuple(broken),
        cases=tuple(rows),
    )
    return NightPlan(request, plan, candidates, state, cost, ahead, past, misfit)


def _core(
    request: Request,
    listing: Listing,
    smoke: Collection[ListedCase],
    costs: Costs,
    shares: Sequence[float],
    file: expected.ExpectedFile,
) -> tuple[dict[int, str], list[str]]:
    """The cases of each night, each with why; and why not all of them are known."""
    cases, broken = listing.cases, []
    try:
        learned = site.read_references(listing.system, request.root)
    except BadInput as error:
        learned = {}
        broken.append(f"the references cannot be used, so the plan has no cases for them: {str(error).rstrip('.')}")
    # That a fabric works between two nodes is to be known each night; that it works on 64, as often as other pairs.
    fewest: dict[tuple[str, ...], int] = {}
    for case in smoke:
        fewest[_place(case)] = min(costs.nodes(case), fewest.get(_place(case), costs.nodes(case)))
    numbered = list(enumerate(cases))
    core = {at: choice.SMOKE for at, case in numbered if case in smoke and costs.nodes(case) == fewest[_place(case)]}
    for number, case in numbered:
        if number not in core and has_reference(case, listing.system, learned, costs):
            core[number] = choice.REFERENCE
    for wanted in file.expected.get(request.label, ()):
        patterns = (wanted.partition, wanted.stack, wanted.fabric, wanted.group)
        fitting = []
        for number, case in numbered:
            values = (case.partition, case.stack, case.parameters.get("fabric", ""), case.group)
            if all(want is None or fnmatch.fnmatchcase(value, want) for want, value in zip(patterns, values, strict=True)):
                fitting.append(number)
        if fitting and core.keys().isdisjoint(fitting):
            # One that was proven before, the cheapest; that it is the same every night keeps its history whole.
            histories = {number: costs.past.cases.get(cases[number]) for number in fitting}
            proven = [number for number, history in histories.items() if history and history.proven]
            core[min(proven or fitting, key=lambda number: (shares[number], cases[number]))] = choice.EXPECTED
    return core, broken


def _place(case: ListedCase) -> tuple[str, ...]:
    return case.partition, case.stack, case.parameters.get("fabric", ""), case.test


def has_reference(case: ListedCase, system: str, learned: Mapping[str, Any], costs: Costs) -> bool:
    """Whether learned references exist for a case; where its number of ranks is not known, whether they may."""
    place: Any = learned.get(case.test, {})
    nodes = case.parameters.get("nodes", "")
    keys = [f"{system}:{case.partition}", case.stack, case.parameters.get("fabric", ""), int(nodes) if nodes.isdecimal() else 0]
    for key in keys:
        place = place.get(key, {}) if isinstance(place, Mapping) else {}
    if not isinstance(place, Mapping):
        return False
    ppn = costs.ppn(case)
    entries = place.values() if ppn is None else [place.get(ppn, {})]
    return any(isinstance(entry, Mapping) and case.parameters.get("pinning", "") in entry for entry in entries)


def left_out(candidates: Candidates, state: CoverState, tonight: Chosen) -> list[str]:
    """Says so where cases that were not right when they were last tried do not fit into the night."""
    left = [str(case) for case in sorted(candidates.cases[at] for at in state.failed if at not in tonight.reasons)]
    text = f"{len(left)} cases that were not right when they were last tried do not fit into the budget: {few(left)}"
    return [text] if left else []


def _overdue(candidates: Candidates, ahead: Sequence[Chosen], budget: Budget) -> list[str]:
    """Says so where pairs come later than promised, tonight or in a night ahead."""
    number, chosen = next(((number, chosen) for number, chosen in enumerate(ahead) if chosen.overdue), (0, None))
    if chosen is None:
        return []
    # What the night would have taken with the pairs it lacks, covered by the cheapest cases that have them.
    kept = {*candidates.core.values(), choice.FAILED, choice.DUE}
    needed = sum(candidates.shares[case] for case, why in chosen.reasons.items() if why in kept)
    rest = set(chosen.overdue)
    for case in sorted(range(len(candidates.cases)), key=candidates.shares.__getitem__):
        if rest.intersection(candidates.pairs.of[case]):
            rest.difference_update(candidates.pairs.of[case])
            needed += candidates.shares[case]
    first, second = next(pair for pair, value in candidates.pairs.numbers.items() if value == min(chosen.overdue))
    when = "tonight" if not number else f"in {number} night{'s' if number > 1 else ''}"
    return [
        f"{len(chosen.overdue)} of {len(candidates.pairs)} pairs of values, such as {first[0]}={first[1]} with "
        f"{second[0]}={second[1]}, are not measured within {candidates.nights} nights ({when}): a budget of about "
        f"{budget.format(needed)} would do, or more nights"
    ]


def headline(plan: NightPlan) -> str:
    """One line before anything is submitted: jobs, node-hours, minutes, and how far the last plan was off."""
    found = plan.record.predicted
    if plan.last is None:
        known = sum(cost.measured for cost in plan.cost)
        error = f"no planned night before: {known} of {len(plan.cost)} costs are measured, the others are those of a model"
    else:
        night, planned = plan.last
        error = f"{planned.day}: {difference(planned, night.jobs, night.seconds, night.node_seconds)}"
    return (
        f"{found.jobs} jobs, {found.launches} launches, {found.node_hours:.1f} node-hours, {found.minutes:.1f} min "
        f"(budget {plan.record.budget}); {error}"
    )


def difference(planned: PlanRecord, jobs: int, seconds: float | None, node_seconds: float) -> str:
    """How far a plan was off, as part of a sentence.

    :param seconds: of the session; ``None`` where that is not known.
    :param node_seconds: of its jobs, each times its nodes.
    """

    def off(took: float, predicted: float) -> str:
        return f"{100 * (took / predicted - 1):+.0f} %" if predicted else "nothing was predicted"

    predicted, hours = planned.predicted, node_seconds / 3600
    differences = [f"predicted {predicted.jobs} jobs, ran {jobs}"] if predicted.jobs != jobs else []
    if seconds is not None:
        minutes = seconds / 60
        differences.append(f"predicted {predicted.minutes:.1f} min, took {minutes:.1f} ({off(minutes, predicted.minutes)})")
    differences.append(f"{predicted.node_hours:.2f} node-hours, took {hours:.2f} ({off(hours, predicted.node_hours)})")
    return "; ".join(differences)


def lines(plan: NightPlan) -> list[str]:
    found, record = plan.candidates, plan.record
    whys = Counter(row.why for row in record.cases if row.planned)
    reasons = ", ".join(f"{number} {why}" for why, number in whys.most_common())
    counts = f"{len(record.planned)} of {len(record.cases)} cases" + (f" ({reasons})" if reasons else "")
    text = [f"{record.day}, {record.system}, run={record.label}: {counts}", f"  {headline(plan)}"]
    if not plan.misfit:
        week = len({pair for night in plan.ahead for case in night.reasons for pair in found.pairs.of[case]})
        nights = found.nights_to_all(plan.state, plan.tonight, plan.ahead)
        number = f"about {math.ceil(nights)} nights" if math.isfinite(nights) else NEVER_ALL
        every = "tonight" if len(plan.tonight.reasons) == len(found.cases) else f"in {number}"
        text.append(
            f"  pairs of values: {record.pairs_tonight} of {record.pairs} tonight, {week} in {len(plan.ahead)} nights; "
            f"every case {every}"
        )
    return [*text, *(f"  NOT KEPT: {sentence}" for sentence in record.broken)]


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
                **{"partition": row.case.partition, "stack": row.case.stack, "name": row.case.name},
                **{"planned": row.planned, "why": row.why, "proven": row.proven and row.proven.isoformat()},
                **{"seconds": row.seconds, "nodes": cost.nodes, "launches": cost.launches, "measured_cost": cost.measured},
            }
            for row, cost in zip(record.cases, plan.cost, strict=True)
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
    comes: dict[int, date] = {}
    nights = plan.candidates.ahead(plan.state, plan.tonight, plan.record.day)
    for after, chosen in enumerate(islice(nights, 0 if plan.misfit else MOST_AHEAD)):
        for number in chosen.reasons:
            comes.setdefault(number, plan.record.day + timedelta(days=after))
        if comes.keys() >= set(found):
            break
    text = []
    for number in found:
        case, cost, why = plan.candidates.cases[number], plan.cost[number], plan.tonight.reasons.get(number)
        where = f"{cost.nodes} node{'s'[: cost.nodes != 1]}"
        source = "as its last runs" if cost.measured else "by the model"
        share = plan.request.budget.format(plan.candidates.shares[number])
        text.append(f"{case}: {'in' if why else 'out'}: {why or choice.NO_ROOM}")
        text.append(f"  {cost.seconds:.0f} s on {where}, {cost.launches} launches ({source}): {share}")
        history = plan.past.cases.get(case)
        if history is None:
            text.append(f"  never measured in the {len(plan.past.nights)} nights of run={plan.record.label} that are stored")
        else:
            proven = f"last proven {history.proven}" if history.proven else "never proven"
            tried = f", last tried {history.tried} in session {history.session[:8]}" if history.tried != history.proven else ""
            text.append(f"  {proven}{tried}{' and not proven then' if history.failed else ''}")
        if not why:
            when = f"comes next on {comes[number]}" if number in comes else f"not within {MOST_AHEAD} nights"
            text.append(f"  {when}, if all goes as planned")
    return text
