"""Makes the plan of a night from the existing cases, their costs and what earlier nights did.

A case costs what it took in the last nights. Without such nights a model estimates it: a start for
each launch, and for each benchmark and size its repetitions (``harness/suites/benchmark.py``) times
a latency plus the bytes over the fabric's rate; twice, because programs warm up. The model is
scaled by the median ratio of measured to modelled costs, so it only has to predict how cases
differ.
"""

from __future__ import annotations

import fnmatch
import json
import math
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from reframe_tests.harness.cases.job import condition
from reframe_tests.harness.command_line import REFRAME, arguments
from reframe_tests.harness.launchers.schedulers import spool
from reframe_tests.harness.machine import placement
from reframe_tests.harness.printable import few, plural
from reframe_tests.harness.sites import site, systems
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.benchmark import Plan
from reframe_tests.harness.vocabulary import ROOT, BadInput

from ...store.store import Store
from .. import expected
from . import choice, record
from .choice import Candidates, RotationState
from .record import (
    EarlierNight,
    ListedCase,
    Listing,
    PastNights,
    PlannedCase,
    PlanRecord,
    Prediction,
    ask,
)

#: Seconds of a job beside its launches, of a launch beside its benchmarks, and of a message.
JOB_S = 3.0
START_S = 1.5
LATENCY_S = 20e-6
#: Seconds of a case beside its launches where it shares an
#: allocation: no job of its own has to begin and end.
SHARED_S = 0.5
#: Seconds of a message between ranks that share cores: four on two cores
#: of the mini-cluster took 1 ms and not 30 us.
OVERSUBSCRIBED_LATENCY_S = 1e-3
#: Bytes per second where the site states no rate: of a network; of a pair
#: of ranks inside a node, and of all of them.
RATE = 1e9
RATE_OF_PAIR = 5e9
RATE_WITHIN = 40e9
#: How often a program does what its repetitions say
#: (:mod:`harness.suites.benchmark`: up to three times).
WARM_UP = 2.0
#: How much longer a session lasts than its jobs, at most: what is beyond, it waited in the queue,
#: and tonight's is another one.
MOST_BESIDE = 1.5
#: Sessions that say how many jobs run at once.
SESSIONS_TAKEN = 3
#: Seconds of a job nothing is known of.
UNKNOWN_S = 60.0
#: Cases of a group from which the model is scaled for that group, and not for all.
FEWEST_SCALED = 3
#: By how much a newest run may differ from those before it and still be one of them.
ALIKE = 0.25
#: Of ReFrame's words: they ask for the core list.
CORE_ONLY = f"^{site.CORE_TAG}$"
_BUDGET = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>m|min|h|nodeh)")
#: Unit as given to the unit that is counted in, and how many of these it is.
_UNITS = {"m": ("min", 1.0), "min": ("min", 1.0), "h": ("min", 60.0), "nodeh": ("node-hours", 1.0)}


class Estimate(NamedTuple):
    """By the model; ``launches`` are those of MPI programs."""

    seconds: float
    launches: int


class Cost(NamedTuple):
    """The cost of one case.

    :param seconds: for which its job holds its nodes.
    :param measured: whether it comes from earlier runs of the case.
    """

    seconds: float
    nodes: int
    launches: int
    measured: bool


def likely_seconds(seconds: Sequence[float]) -> float:
    """What a case takes, from its last runs: their median, but the newest
    where that is another by more than :data:`ALIKE`.

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
    _estimates: dict[tuple[object, ...], Estimate] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def read(cls, system: str, past: PastNights, level: str, repeats: int, root: Path) -> Costs:
        """As the site describes the system, with the topologies that ReFrame
        detected; no partition where it does not.
        """
        described = systems.find(system, root)
        rows = {row["name"]: row for row in described["partitions"]} if described else {}
        processors = {
            name: row.get("processor") or _detected(system, name, root)
            for name, row in rows.items()
        }
        return cls(rows, processors, past, level, repeats)

    def _extras(self, case: ListedCase) -> Mapping[str, Any]:
        extras: Mapping[str, Any] = self.partitions.get(case.partition, {}).get("extras", {})
        return extras

    def nodes(self, case: ListedCase) -> int:
        """Nodes of its job; the most there are where it takes all that are idle."""
        return max(site.node_counts_of(self._extras(case))) if case.nodes is None else case.nodes

    def ppn(self, case: ListedCase) -> int | None:
        """Processes per node as a number; ``None`` if the topology is unknown."""
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
            return placement.resolve_ppn(
                symbol, condition.Partition(processor, row.get("extras", {}), here=here).topology
            )
        except BadInput:
            return None

    def estimate(self, case: ListedCase) -> Estimate:
        """By the model alone, for which stack and pinning are all one."""
        nodes = self.nodes(case)
        ppn = self.ppn(case) or 1
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
        latency_s = (
            OVERSUBSCRIBED_LATENCY_S
            if nodes * ppn > extras.get("most_timed_ranks", math.inf)
            else LATENCY_S
        )
        within = min(RATE_OF_PAIR * max(ppn // 2, 1), RATE_WITHIN)
        bytes_per_s = rate * 1e9 / 8 if rate else within if nodes == 1 else RATE
        took = [
            self._launch_seconds(plan, nodes * ppn, nodes, limits, latency_s, bytes_per_s)
            for plan in group.plans
        ]
        timed = [seconds for seconds in took if seconds is not None]
        scheduler = self.partitions.get(case.partition, {}).get("scheduler")
        shares = scheduler in spool.SHARED and extras.get(spool.EXTRA) is not False
        # The check of received data comes first, once.
        seconds = (SHARED_S if shares else JOB_S) + START_S + self.repeats * sum(timed)
        return Estimate(seconds, 1 + self.repeats * len(timed))

    def _launch_seconds(
        self,
        plan: Plan,
        ranks: int,
        nodes: int,
        limits: catalogue.Limits,
        latency_s: float,
        bytes_per_s: float,
    ) -> float | None:
        """Seconds of one launch; ``None`` if nothing of it is measured on so many ranks."""
        rows = [
            row
            for row in (catalogue.find(plan.binary, name) for name in plan.benchmarks)
            if row.active(ranks, nodes)
        ]
        if not rows or self.level not in plan.size_ranges:
            return None
        planned = plan.size_ranges[self.level]
        bound = catalogue.LEVELS[self.level]
        if planned.budget_s:
            return START_S + planned.budget_s
        link_bytes = {row.name: row.link_bytes(row.active(ranks), nodes) for row in rows}
        size_range = planned.limited(limits, bound, max(link_bytes.values()))
        suite = catalogue.SUITES[rows[0].suite]
        steps = (
            1 if not catalogue.GROUPS[rows[0].group].collective else 1 + math.log2(max(ranks, 2))
        )
        total = 0.0
        for row in rows:
            for size in (size or 0 for size in suite.sizes(row, plan, size_range)):
                # At most a volume (IMB User Guide, "-iter Option").
                most = max(1, min(size_range.count, (size_range.volume_mib << 20) // max(size, 1)))
                count = size_range.repetitions if suite.same_repetitions else most
                total += (
                    WARM_UP
                    * count
                    * (latency_s * steps + link_bytes[row.name] * size / bytes_per_s)
                )
        return START_S + min(total, float(bound.limit_s))

    @cached_property
    def _scales(self) -> dict[str, float]:
        """By how much cases took longer than the model says, by group;
        under an empty name of all together.
        """
        ratios: dict[str, list[float]] = {}
        for case, history in self.past.cases.items():
            if history.seconds and not history.failed:
                ratio = likely_seconds(history.seconds) / self.estimate(case).seconds
                for name in (case.group, ""):
                    ratios.setdefault(name, []).append(ratio)
        return {
            name: statistics.median(found)
            for name, found in ratios.items()
            if name == "" or len(found) >= FEWEST_SCALED
        }

    def of(self, case: ListedCase) -> Cost:
        guess = self.estimate(case)
        nodes = self.nodes(case)
        history = self.past.cases.get(case)
        if history and history.seconds:
            return Cost(likely_seconds(history.seconds), nodes, guess.launches, True)
        scale = self._scales.get(case.group, self._scales.get("", 1.0))
        return Cost(guess.seconds * scale, nodes, guess.launches, False)

    def wall_per_job_second(self, max_jobs: int | None = None) -> float:
        """Seconds that a session lasts per second of jobs in its busiest partition: below 1 if jobs
        run in parallel; 1 until a night has shown it.

        It is capped, because one night that waited for hours would make every budget of minutes too
        small for good.
        """
        sessions = [night for night in self.past.sessions if night.seconds and night.job_seconds][
            :SESSIONS_TAKEN
        ]
        known = [(night.seconds or 0.0) / night.job_seconds for night in sessions]
        found = min(likely_seconds(known[::-1]), MOST_BESIDE) if known else 1.0
        return max(found, 1 / max_jobs) if max_jobs else found


def _detected(system: str, partition: str, root: Path) -> Mapping[str, Any]:
    """Topology of a partition that ReFrame detected
    (``frontend/autodetect.py``), on whatever host.
    """
    for path in sorted(
        (root / "results" / "topology").glob(f"*/{system}-{partition}/processor.json")
    ):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict):
            return found
    return {}


def level_and_repeats(words: Sequence[str]) -> tuple[str, int]:
    """How thoroughly ReFrame's options measure: the last ``-S level=``
    and ``-S repeats=``, else those of a night.

    :raises BadInput: no such level, or no number of repeats.
    """
    values = {"level": "nightly", "repeats": "3"}
    for text in arguments(words, {"-S": "setvar"})["setvar"]:
        name, _, value = text.partition("=")
        values[name.rpartition(".")[2]] = value
    level = values["level"]
    repeats = values["repeats"]
    if level not in catalogue.LEVELS:
        raise BadInput(
            "unknown-name",
            f"there is no level '{level}'; choose one of {', '.join(catalogue.LEVELS)}.",
        )
    if not repeats.isdecimal() or not int(repeats):
        raise BadInput("bad-option", f"-S repeats={repeats} is not possible: give 1 or more.")
    return level, int(repeats)


@dataclass(frozen=True)
class Budget:
    """A bound; ``unit`` is ``min``, of each partition, as these work side by side, or
    ``node-hours``, of all of them.
    """

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
                "bad-option",
                f"{text!r} is not a budget: write minutes (30m), hours (1.5h) or node-hours "
                "(20nodeh), above 0.",
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

    def place(self, case: ListedCase) -> str:
        """Whose room a case takes."""
        return case.partition if self.unit == "min" else ""

    def format(self, amount: float) -> str:
        return f"{amount:.1f} {self.unit}"


@dataclass(frozen=True)
class PlanRequest:
    """What is requested.

    :param words: ReFrame's options, those of the mode among them.
    :param max_jobs: that are queued or run at once in a partition;
        ``None``: as many as the site says.
    """

    mode: str
    label: str
    words: Sequence[str]
    budget: Budget
    day: date
    dataset: Path
    max_jobs: int | None = None
    root: Path = ROOT


@dataclass(frozen=True)
class NightPlan:
    """A plan, and its inputs.

    :param tonight: the chosen cases, by number, each with why.
    :param cost: of each case of ``candidates``.
    :param misfit: why nothing fits; empty where something does.
    """

    request: PlanRequest
    record: PlanRecord
    candidates: Candidates
    tonight: Mapping[int, str]
    cost: Sequence[Cost]
    past: PastNights
    misfit: str

    @cached_property
    def last(self) -> tuple[EarlierNight, PlanRecord] | None:
        """The newest session that followed a plan, and that plan; ``None`` if none can be read."""
        for night in self.past.sessions:
            if night.plan:
                try:
                    return night, record.find(self.request.dataset, night.plan)
                except BadInput:
                    return None
        return None


def make(request: PlanRequest, listing: Listing | None = None) -> NightPlan:
    """Plan a night.

    :param listing: all cases; ``None``: ReFrame is asked.
    :raises BadInput: nothing can be listed, or a damaged dataset.
    """
    listing = listing or ask(request.words, root=request.root)
    cases = core_list(listing.cases) if CORE_ONLY in request.words else listing.cases
    if not cases:
        raise BadInput(
            "nothing-measured",
            f"nothing to plan: no case can be measured here; '{REFRAME} -l' says why.",
        )
    past = record.read_past(Store(request.dataset), listing.system, request.label, request.day)
    costs = Costs.read(listing.system, past, *level_and_repeats(request.words), request.root)
    cost = [costs.of(case) for case in cases]
    wall = costs.wall_per_job_second(request.max_jobs)
    budget = request.budget
    shares = [budget.share(cost_row, wall) for cost_row in cost]
    file = expected.load_file(listing.system, request.root)
    wanted = _named(cases, file.expected.get(request.label, ()), costs, shares)
    candidates = Candidates(
        cases, shares, [budget.place(case) for case in cases], budget.amount, wanted
    )
    owed = [
        case
        for case, owed in past.owed.items()
        if not file.retires(expected.job_of(case), request.label, owed.proven)
    ]
    state = choice.state_of(
        cases, past.nights, {case: history.tried for case, history in past.cases.items()}, owed
    )
    tonight = candidates.choose(state)
    misfit = ""
    if not tonight:
        least, most = (budget.format(find(shares)) for find in (min, max))
        misfit = (
            f"a budget of {budget.text} is too small for any case: the shortest takes {least}, "
            f"the longest {most}"
        )
    broken = [misfit] if misfit else not_kept(candidates, state, tonight, budget)
    taken = [cost[number] for number in tonight]
    busy: dict[str, float] = {}
    for number in tonight:
        busy[cases[number].partition] = (
            busy.get(cases[number].partition, 0.0) + cost[number].seconds
        )
    rows = []
    for number, case in enumerate(cases):
        history = past.cases.get(case)
        why = tonight.get(number)
        nodes = past.owed[case].nodes if why and number in state.failed else ()
        proven = history.proven if history else None
        rows.append(
            PlannedCase(case, bool(why), why or choice.NO_ROOM, proven, cost[number].seconds, nodes)
        )
    plan = PlanRecord(
        system=listing.system,
        day=request.day,
        label=request.label,
        mode=request.mode,
        budget=budget.text,
        nights=candidates.nights,
        predicted=Prediction(
            len(taken),
            sum(case.launches for case in taken),
            round(sum(case.seconds * case.nodes for case in taken) / 3600, 3),
            round(max(busy.values(), default=0.0) * wall / 60, 2),
        ),
        broken=tuple(broken),
        cases=tuple(rows),
    )
    return NightPlan(request, plan, candidates, tonight, cost, past, misfit)


#: Test to its place among the tests of a question of the core list, and the question.
_QUESTIONS = {test: (place, row) for row in site.CORE for place, test in enumerate(row.tests)}


def core_list(cases: Sequence[ListedCase]) -> tuple[ListedCase, ...]:
    """Those that answer each question of the core list once; tests that are not in it stay."""
    answers: dict[tuple[object, ...], list[tuple[int, str, ListedCase]]] = {}
    for case in cases:
        place, row = _QUESTIONS.get(case.test, (0, None))
        where = (case.partition, case.parameters.get("fabric"), case.nodes)
        question: tuple[object, ...] = (
            (row, *where, "" if row.once else case.stack) if row else (case,)
        )
        answers.setdefault(question, []).append((place, case.stack, case))
    chosen = {
        case
        for rows in answers.values()
        for place, stack, case in rows
        if (place, stack) == min(rows)[:2]
    }
    return tuple(case for case in cases if case in chosen)


def _named(
    cases: Sequence[ListedCase],
    wanted: Sequence[expected.CoverageKey],
    costs: Costs,
    shares: Sequence[float],
) -> frozenset[int]:
    """One case for each place that is to be proven every night, by number."""
    found: set[int] = set()
    for place in wanted:
        patterns = (place.partition, place.stack, place.fabric, place.group)
        fitting = []
        for number, case in enumerate(cases):
            values = (case.partition, case.stack, case.parameters.get("fabric", ""), case.group)
            if all(
                want is None or fnmatch.fnmatchcase(value, want)
                for want, value in zip(patterns, values, strict=True)
            ):
                fitting.append(number)
        if fitting and found.isdisjoint(fitting):
            # One that was proven before, the cheapest; that it is the same
            # every night keeps its history whole.
            histories = {number: costs.past.cases.get(cases[number]) for number in fitting}
            proven = [number for number, history in histories.items() if history and history.proven]
            found.add(min(proven or fitting, key=lambda number: (shares[number], cases[number])))
    return frozenset(found)


def not_kept(
    candidates: Candidates, state: RotationState, tonight: Mapping[int, str], budget: Budget
) -> list[str]:
    """What a plan should do and does not, one sentence each."""
    cases = candidates.cases
    shares = candidates.shares
    sentences = []
    wanted = {
        "were not right when they were last tried": state.failed,
        "expected.yaml names": candidates.expected,
    }
    for why, numbers in wanted.items():
        if left := sorted(cases[at] for at in numbers - tonight.keys()):
            sentences.append(
                f"no room in the budget for {plural(len(left), 'case')} that {why}: {few(left)}"
            )
    if large := sorted(candidates.too_large, key=shares.__getitem__, reverse=True):
        names = few([cases[at] for at in large])
        sentences.append(
            f"{plural(len(large), 'case')} never measured, taking more than the whole budget: "
            f"{names}; a budget of {budget.format(shares[large[0]])} has room for each"
        )
    return sentences


def headline(plan: NightPlan) -> str:
    """One line before anything is submitted: jobs, node-hours,
    minutes, and how far the last plan was off.
    """
    found = plan.record.predicted
    if plan.last is None:
        known = sum(cost.measured for cost in plan.cost)
        error = (
            f"no planned night before: {known} of {len(plan.cost)} costs are measured, the others "
            "are estimated by a model"
        )
    else:
        night, planned = plan.last
        error = (
            f"{planned.day}: {difference(planned, night.jobs, night.seconds, night.node_seconds)}"
        )
    return (
        f"{plural(found.jobs, 'job')}, {found.launches} launches, "
        f"{found.node_hours:.1f} node-hours, {found.minutes:.1f} min "
        f"(budget {plan.record.budget}); {error}"
    )


def difference(planned: PlanRecord, jobs: int, seconds: float | None, node_seconds: float) -> str:
    """How far a plan was off, as part of a sentence.

    :param seconds: of the session; ``None`` if that is unknown.
    :param node_seconds: of its jobs, each times its nodes.
    """

    def off(took: float, predicted: float) -> str:
        return f"{100 * (took / predicted - 1):+.0f} %" if predicted else "nothing was predicted"

    predicted = planned.predicted
    hours = node_seconds / 3600
    differences = (
        [f"predicted {plural(predicted.jobs, 'job')}, ran {jobs}"] if predicted.jobs != jobs else []
    )
    if seconds is not None:
        minutes = seconds / 60
        differences.append(
            f"predicted {predicted.minutes:.1f} min, took {minutes:.1f} "
            f"({off(minutes, predicted.minutes)})"
        )
    differences.append(
        f"{predicted.node_hours:.2f} node-hours, took {hours:.2f} "
        f"({off(hours, predicted.node_hours)})"
    )
    return "; ".join(differences)


def lines(plan: NightPlan) -> list[str]:
    found = plan.candidates
    record = plan.record
    budget = plan.request.budget
    whys = Counter(row.why for row in record.cases if row.planned)
    reasons = ", ".join(f"{number} {why}" for why, number in whys.most_common())
    counts = f"{len(record.planned)} of {plural(len(record.cases), 'case')}" + (
        f" ({reasons})" if reasons else ""
    )
    text = [f"{record.day}, {record.system}, run={record.label}: {counts}", f"  {headline(plan)}"]
    if not plan.misfit:
        everything = found.spent(range(len(found.cases)))
        tonight = found.spent(plan.tonight)
        room = ", ".join(
            f"{place + ' ' if place else ''}{tonight[place]:.1f} of {everything[place]:.1f}"
            for place in tonight
        )
        text.append(f"  {budget.unit}: {room}; every case {record.every}")
        left = Counter(
            f"{row.case.test} on {row.case.partition}" for row in record.cases if not row.planned
        )
        if left:
            text.append(
                "  left for other nights: "
                f"{few([f'{number} {what}' for what, number in left.most_common()])}"
            )
    return [*text, *(f"  NOT KEPT: {sentence}" for sentence in record.broken)]


def as_data(plan: NightPlan) -> dict[str, Any]:
    record = plan.record
    last = None
    if plan.last is not None:
        night, planned = plan.last
        last = {
            "date": planned.day.isoformat(),
            "session": night.session,
            "jobs": night.jobs,
            "minutes": night.seconds and night.seconds / 60,
            "node_hours": night.node_seconds / 3600,
            "predicted": vars(planned.predicted),
        }
    return {
        "system": record.system,
        "date": record.day.isoformat(),
        "label": record.label,
        "mode": record.mode,
        "budget": record.budget,
        "nights": record.nights,
        "plan": record.id,
        "predicted": vars(record.predicted),
        "broken": list(record.broken),
        "last": last,
        "cases": [
            {
                "partition": row.case.partition,
                "stack": row.case.stack,
                "name": row.case.name,
                "planned": row.planned,
                "why": row.why,
                "proven": row.proven and row.proven.isoformat(),
                "seconds": row.seconds,
                "nodes": cost.nodes,
                "launches": cost.launches,
                "measured_cost": cost.measured,
            }
            for row, cost in zip(record.cases, plan.cost, strict=True)
        ],
    }
