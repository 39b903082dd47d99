"""What a case costs: as long as it took in the last nights, else by what it is made to measure.

The model: each launch takes a start, and for each benchmark and size its repetitions (:mod:`harness.suites.benchmark`) times a
latency and the bytes over the fabric's rate; twice, because the programs warm up. It is scaled by the median of what cases that
were measured took longer, so that it only has to know how cases differ.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from reframe_tests.harness.cases.job import condition
from reframe_tests.harness.command_line import arguments
from reframe_tests.harness.launchers.schedulers import spool
from reframe_tests.harness.machine import placement
from reframe_tests.harness.machine.fabric import Fabric
from reframe_tests.harness.sites import site, systems
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.benchmark import Plan
from reframe_tests.harness.vocabulary import BadInput

from .past import PastNights
from .record import ListedCase

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
#: Seconds of a job nothing is known of.
UNKNOWN_S = 60.0
#: Cases of a group from which the model is scaled for that group, and not for all.
FEWEST_SCALED = 3
#: By how much a newest run may differ from those before it and still be one of them.
ALIKE = 0.25


class Estimate(NamedTuple):
    """By the model.

    :param launches: of MPI programs.
    """

    seconds: float
    launches: int


class MessageRates(NamedTuple):
    """How fast messages are taken to be: seconds of each, and bytes per second."""

    latency_s: float
    bytes_per_s: float


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
class Machine:
    """What the model knows of a system.

    :param processors: ReFrame's processor information by partition, where it is known.
    """

    partitions: Mapping[str, Mapping[str, Any]]
    processors: Mapping[str, Mapping[str, Any]]
    _numbers: dict[tuple[str, str], int | None] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, system: str, root: Path) -> Machine:
        """As the site describes it, with the topologies that ReFrame detected; empty where no site is described here."""
        described = systems.find(system, root)
        rows = described["partitions"] if described else []
        detected = {row["name"]: _detected(system, row["name"], root) for row in rows}
        return cls(
            {row["name"]: row for row in rows}, {row["name"]: row.get("processor") or detected[row["name"]] for row in rows}
        )

    def ppn(self, case: ListedCase) -> int | None:
        """Processes per node as a number; ``None`` where the topology is not known."""
        key = (case.partition, case.parameters.get("ppn", "1"))
        if key not in self._numbers:
            self._numbers[key] = self._resolve(*key)
        return self._numbers[key]

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

    def fabric(self, case: ListedCase) -> Fabric | None:
        row = self.partitions.get(case.partition, {})
        return site.fabrics_of(row.get("extras", {})).get(case.parameters.get("fabric", ""))

    def nodes(self, case: ListedCase) -> int:
        """Nodes of its job; the most there are where it takes all that are idle."""
        if case.nodes is not None:
            return case.nodes
        return max(site.node_counts_of(self.partitions.get(case.partition, {}).get("extras", {})))


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


@dataclass(frozen=True)
class Costs:
    """What cases cost on a system.

    :param level: at which they are measured; ``repeats``: how often.
    """

    machine: Machine
    past: PastNights
    level: str
    repeats: int
    _estimates: dict[tuple[object, ...], Estimate] = field(default_factory=dict, repr=False, compare=False)

    def estimate(self, case: ListedCase) -> Estimate:
        """By the model alone, for which stack and pinning are all one."""
        nodes, ppn = self.machine.nodes(case), self.machine.ppn(case) or 1
        key = (case.partition, case.parameters.get("fabric"), case.group, nodes, ppn)
        if key not in self._estimates:
            self._estimates[key] = self._estimate(case, nodes, ppn)
        return self._estimates[key]

    def _estimate(self, case: ListedCase, nodes: int, ppn: int) -> Estimate:
        group = catalogue.GROUPS.get(case.group)
        if group is None or not (group.plans or case.group == catalogue.PLACEMENT):
            return Estimate(UNKNOWN_S, self.repeats)
        fabric = self.machine.fabric(case)
        rate = fabric.planned_rate_gbit_per_s if fabric else None
        extras = self.machine.partitions.get(case.partition, {}).get("extras", {})
        limits = catalogue.Limits(rate, extras.get("most_repetitions"))
        rates = MessageRates(
            OVERSUBSCRIBED_LATENCY_S if nodes * ppn > extras.get("most_timed_ranks", math.inf) else LATENCY_S,
            rate * 1e9 / 8 if rate else RATE_WITHIN if nodes == 1 else RATE,
        )
        took = [_launch_seconds(plan, nodes * ppn, nodes, self.level, limits, rates) for plan in group.plans]
        timed = [one for one in took if one is not None]
        # The check of received data comes first, once.
        seconds = (SHARED_S if spool.EXTRA in extras else JOB_S) + START_S + self.repeats * sum(timed)
        return Estimate(seconds, 1 + self.repeats * len(timed))

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
        guess, nodes = self.estimate(case), self.machine.nodes(case)
        history = self.past.cases.get(case)
        if history and history.seconds:
            return Cost(likely_seconds(history.seconds), nodes, guess.launches, True)
        scale = self._scales.get(case.group, self._scales.get("", 1.0))
        return Cost(guess.seconds * scale, nodes, guess.launches, False)

    def wall_per_job_second(self, max_jobs: int | None = None) -> float:
        """Seconds a session lasts for each second of its jobs: below 1 where jobs run at once; 1 before a night has shown it.

        Otherwise one night that waited for hours would make each budget of minutes too small, and no other would show better.
        """
        known = [one.seconds / one.job_seconds for one in self.past.sessions if one.seconds and one.job_seconds][:RUNS_TAKEN]
        found = min(likely_seconds(known[::-1]), MOST_BESIDE) if known else 1.0
        return max(found, 1 / max_jobs) if max_jobs else found


#: Sessions that say how many jobs run at once.
RUNS_TAKEN = 3


def _launch_seconds(
    plan: Plan, ranks: int, nodes: int, level: str, limits: catalogue.Limits, rates: MessageRates
) -> float | None:
    """Seconds of one launch; ``None`` where nothing of it is measured on so many ranks."""
    rows = [row for row in (catalogue.find(plan.binary, name) for name in plan.benchmarks) if row.active(ranks, nodes)]
    if not rows or level not in plan.size_ranges:
        return None
    planned, bound = plan.size_ranges[level], catalogue.LEVELS[level]
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
            total += WARM_UP * count * (rates.latency_s * steps + link_bytes[row.name] * size / rates.bytes_per_s)
    return START_S + min(total, float(bound.limit_s))


def level_and_repeats(words: Sequence[str]) -> tuple[str, int]:
    """How thoroughly ReFrame's options measure: the last ``-S level=`` and ``-S repeats=``, else those of a night.

    :raises BadInput: no such level, or no number of repeats.
    """
    level, repeats = "nightly", "3"
    for text in arguments(words, {"-S": "setvar"})["setvar"]:
        name, _, value = text.partition("=")
        level = value if name.rpartition(".")[2] == "level" else level
        repeats = value if name.rpartition(".")[2] == "repeats" else repeats
    if level not in catalogue.LEVELS:
        raise BadInput("level-unknown", f"there is no level '{level}'; choose one of {', '.join(catalogue.LEVELS)}.")
    if not repeats.isdecimal() or not int(repeats):
        raise BadInput("repeats-range", f"-S repeats={repeats} is no number of repeats: give 1 or more.")
    return level, int(repeats)


_TEXT = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>m|min|h|nodeh)")
#: Unit as given to the unit that is counted in, and how many of these it is.
_UNITS = {"m": ("min", 1.0), "min": ("min", 1.0), "h": ("min", 60.0), "nodeh": ("node-hours", 1.0)}


@dataclass(frozen=True)
class Budget:
    """A bound.

    :param unit: ``min`` or ``node-hours``.
    """

    text: str
    unit: str
    amount: float

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read ``30m``, ``1.5h`` or ``20nodeh``.

        :raises BadInput: it is none of these, or nothing.
        """
        found = _TEXT.fullmatch(text.strip())
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
