"""The base class of tests below MPI: a server and a client on two nodes of one job, with the evidence of both.

Each level of the cascade (wire, transport) is a leaf, measured on each fabric that its programs know.
"""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import reframe.core.runtime as rt
from reframe.core.builtins import parameter

from ...machine.fabric import Fabric
from ...mpis import registry as mpis
from ...samples import CONTRADICTED, MISSING, DeviceTraffic, Evidence, Sample
from ...sites import references, site
from ...suites import catalogue, pair, reader
from ...suites.benchmark import Limits, OutputError, Record
from ...vocabulary import QUANTITIES
from ..job import ending, parameters
from ..job.parameters import Places
from ..measured_test import ENVIRONMENT, LAUNCHERS, Reading, Value, WithoutMpiTest
from ..results.measurement import Outcome
from . import end as pair_end
from . import fitting, traffic

#: Seconds that a program which measures for a time takes, by level.
SECONDS: Mapping[str, int] = {"smoke": 1, "nightly": 3, "acceptance": 10}
#: Seconds that a launch takes in the mean, starting included, at most; and those that one may take before it is ended.
USUAL_S, LIMIT_S = 20, 120
#: Seconds more that both ends have to leave their records.
LEAVE_S = 30
_FRACTION = QUANTITIES["line_rate_fraction"]

parameters.warn_once()


@dataclass(frozen=True)
class PairLaunch:
    """One benchmark at one size.

    :param name: of its files, with the number of the repeat.
    """

    name: str
    plan: pair.PairPlan
    row: catalogue.Benchmark
    size: int
    repetitions: int
    words: pair.Words

    @property
    def program(self) -> str:
        return PurePosixPath(self.row.binary).name


class PairTest(WithoutMpiTest):
    """Measures one group of programs below MPI between two nodes and proves which network carried it."""

    #: Fabric as the site names it; of one with several rails the first is measured.
    #:
    #: :type: :class:`str`
    #: :values: fabrics of the selected system
    fabric = parameter(parameters.fabrics_of_system(), type=str, loggable=True)

    limit_s = LIMIT_S
    nodes = 2
    ranks_per_node = 1
    executable = "true"

    @classmethod
    def places(cls, point: Mapping[str, Any]) -> Places:
        """Partitions with the fabric on which the group's programs can be started."""
        group, reasons = catalogue.PAIRS[cls.group], {}
        for partition in rt.runtime().system.partitions:
            if fabric := site.fabrics_of(partition.extras).get(point["fabric"]):
                reasons[partition.fullname] = fitting.find_obstacle(fabric, group, partition.scheduler.registered_name)
        return parameters.places_without(reasons)

    def conditions(self) -> None:
        """Two nodes with one task each, and what they run."""
        self.keep_files = ["*.server", "*.client", "*.out", "*.err"]
        limits = self._choose_rail()
        self._launches = tuple(
            make_launch(plan, self.group, self._fabric, size, self.level, limits)
            for plan in catalogue.PAIRS[self.group].plans
            for size in plan.sizes[self.level]
        )
        self.num_tasks, self.num_tasks_per_node = 2, 1

    def _choose_rail(self) -> Limits:
        """The fabric with its first rail, and what limits its measurements."""
        extras = self.current_partition.extras
        described = site.fabrics_of(extras)[self.fabric]
        self._fabric = replace(described, rails=described.rails[:1])
        self.pinning = references.WITHOUT_MPI[self.group]["pinning"]
        return Limits(self._fabric.line_rate_gbit_per_s, extras.get("most_repetitions"))

    def commands(self) -> None:
        """Start server and client of each launch as one step of the job, the repeats interleaved."""
        self.time_limit = f"{self.repeats * len(self._launches) * USUAL_S + self.limit_s + 60}s"
        starter = list_starter(self.scheduler, self.nodes)
        place = find_place(self._fabric)
        ended = ["timeout", "-k", "10", str(self.limit_s + LEAVE_S)]
        steps = []
        for one in self._launches:
            program = [*ended, *starter, "python3", str(pair_end.PROGRAM), "task"]
            words = [place, str(self.limit_s), *one.words[0], pair_end.BETWEEN, *one.words[1]]
            steps.append(f"{shlex.join(program)} {one.name}.$repeat {shlex.join(words)} || exit")
        numbers = " ".join(str(number + 1) for number in range(self.repeats))
        self.prerun_cmds = [f"for repeat in {numbers}; do", *steps, "done"]
        self.condition = self._describe(starter, {one.name: shlex.join(one.words[1]) for one in self._launches})

    def _describe(self, starter: list[str], arguments: Mapping[str, str]) -> dict[str, Any]:
        return {
            "group": self.group,
            "stack": ENVIRONMENT,
            "fabric": self.fabric,
            "transport": self._fabric.transport,
            "scope": self._fabric.scope,
            "devices": list(self._fabric.devices),
            "line_rate_gbit_per_s": self._fabric.line_rate_gbit_per_s,
            "payload_limit": references.payload_limit(self._fabric),
            "nodes": self.nodes,
            "ppn": self.ranks_per_node,
            "ppn_symbol": "1",
            "ranks": self.nodes * self.ranks_per_node,
            "pinning": self.pinning,
            "launcher": shlex.join(starter),
            "arguments": dict(arguments),
        }

    def read(self) -> Reading:
        """Both ends of every launch; without a program the case is skipped."""
        outcome = Outcome(self.repeats)
        read: dict[tuple[str, int], tuple[pair.Pair, Record | None]] = {}
        for number in range(1, self.repeats + 1):
            for one in self._launches:
                if found := self._read(one, number, outcome):
                    read[one.name, number] = found
        self._judge_job(outcome, measured=bool(read))
        started = self.repeats * len(self._launches)
        if missing := started - len(list(Path(self.stagedir).glob("*.server"))):
            outcome.add(self.job_end().name, 0, MISSING, [f"{missing} of {started} servers left no record."])
        samples = [
            sample
            for one in self._launches
            for sample in _samples(one, self.group, [read.get((one.name, n + 1)) for n in range(self.repeats)])
        ]
        pairs = {key: (ends.server, ends.client) for key, (ends, _) in read.items()}
        devices = [
            DeviceTraffic(name, repeat, end.host, end.interface, end.bytes_of("tx_bytes"), end.bytes_of("rx_bytes"))
            for (name, repeat), ends in pairs.items()
            for end in ends
        ]
        first, seconds = next(iter(pairs.values()), ()), [client.seconds for _, client in pairs.values()]
        evidence = make_evidence(outcome, self._launches[0].program, first, first[1:], devices, seconds)
        return Reading(samples, evidence, [sentence.rstrip(".") for sentence in outcome.sentences])

    def _judge_job(self, outcome: Outcome, *, measured: bool) -> None:
        """How the job ended, and nodes that lack the program; the case is skipped where all do and nothing was measured."""
        end = self.job_end()
        if absent := fitting.find_lacking(Path(self.stagedir)):
            program, remedy = next(iter(absent.values())), fitting.describe_remedy(catalogue.PAIRS[self.group])
            if len(absent) == self.nodes and not measured:
                self.leave(f"no {program} on the PATH of the nodes: {remedy}")
            # Programs are on all nodes of a partition, or on none: a node apart is broken, and no reason to measure nothing.
            others = "the other node" if self.nodes == 2 else "other nodes"
            there = f"no {program} on the PATH of {', '.join(sorted(absent))}, and on {others} there is: {remedy}."
            outcome.add(end.name, 0, MISSING, [there])
        if wrong := ending.judge(end):
            outcome.add(end.name, 0, MISSING, [*wrong, *self.error_said()])

    def _read(self, one: PairLaunch, repeat: int, outcome: Outcome) -> tuple[pair.Pair, Record | None] | None:
        """Both ends of one launch and the one record of it; ``None`` where they cannot be read."""
        name = f"{one.name}.{repeat}"
        files = [Path(self.stagedir) / f"{name}.{which}" for which in pair.ENDS]
        if not any(path.exists() for path in files):
            return None
        text = "".join(path.read_text(errors="replace") for path in files if path.exists())
        try:
            ends = pair.read(text, one.program, name)
        except OutputError as error:
            outcome.add(one.name, repeat, MISSING, [str(error)])
            return None
        record = None
        try:
            [record] = reader.parse(text, source=name)
            moved = catalogue.PAIRS[self.group].exchanged(ends)
            outcome.add(
                one.name, repeat, CONTRADICTED, [*traffic.judge(ends, moved, self._fabric), *self._impossible(one, record)]
            )
        except OutputError as error:
            # What it says of its peer, or lacks, may be the consequence.
            others = [sentence for end in (ends.server, ends.client) for sentence in traffic.name_others(end, self._fabric)]
            elsewhere = bool(others) or isinstance(error, pair.OtherNetwork)
            outcome.add(one.name, repeat, CONTRADICTED if elsewhere else MISSING, [str(error), *others])
        return ends, record

    def _impossible(self, one: PairLaunch, record: Record) -> list[str]:
        """Bandwidths that the link cannot carry, and a record of something else."""
        asked = (one.row.name, one.size, one.plan.variant)
        if (record.benchmark, record.message_bytes, record.variant) != asked:
            return [
                f"it measured {record.benchmark} {record.variant} at {record.message_bytes} bytes, which was not asked for."
            ]
        return [
            sentence
            for quantity, value in record.values.items()
            if one.row.directions and one.row.shows_line_rate(quantity, one.size)
            if (sentence := references.above_line_rate(one.name, value, self._fabric, one.row.directions))
        ]

    def metrics(self) -> dict[str, Value]:
        """Every quantity at every size, and bandwidths of large messages as shares of the line rate."""
        samples = [] if self.is_dry_run() else self._samples
        measured = {
            (one.benchmark, one.variant, one.message_bytes, one.quantity): statistics.median(one.measured)
            for one in samples
            if one.measured
        }
        link = references.physics_reference(self._fabric, catalogue.LEVELS[self.level].link_share)
        # A transport library that does not fill the link is what a cascade is to show, and no fault of the link.
        physics = link if catalogue.PAIRS[self.group].layer == pair.WIRE else None
        found: dict[str, Value] = {}
        for one in self._launches:
            row, variant = one.row, one.plan.variant
            for quantity in (QUANTITIES[name] for name in row.quantities):
                value = measured.get((row.name, variant, one.size, quantity.name))
                gated = one.size in row.gated_sizes.get(quantity.name, ())
                name = catalogue.metric_name(row.name, quantity.short, one.size, variant)
                found[name] = Value(value, quantity.unit, gated)
                if link and row.directions and row.shows_line_rate(quantity.name, one.size):
                    share = None if value is None else references.line_rate_fraction(value, self._fabric, row.directions)
                    name = catalogue.metric_name(row.name, _FRACTION.short, one.size, variant)
                    found[name] = Value(share, _FRACTION.unit, physics=physics)
        return found


def list_starter(scheduler: str, nodes: int) -> list[str]:
    """Launcher with one task on each node; a task that failed must not keep the others from leaving their records."""
    count = [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    return [LAUNCHERS[scheduler], *count, "--mpi=none", "--kill-on-bad-exit=0"]


def find_place(fabric: Fabric) -> str:
    """The interface or port that is measured, as an end is given it: that of the first rail."""
    rail = fabric.rails[0]
    if mpis.transport(fabric.transport).interfaces:
        return rail.device
    return f"{rail.device}/{rail.port}@{(*fabric.tcp_interfaces, pair_end.HOST_NAME)[0]}"


def make_launch(plan: pair.PairPlan, group: str, fabric: Fabric, size: int, level: str, limits: Limits) -> PairLaunch:
    """A plan at one size on one fabric."""
    row = next(each for each in catalogue.rows(group) if each.name == plan.benchmark)
    rail, count = fabric.rails[0], plan.repetitions(size, catalogue.LEVELS[level], limits)
    interface = mpis.transport(fabric.transport).interfaces
    start = pair.Start(fabric.transport, rail.device, rail.port, interface, size, count, SECONDS[level])
    words = filter(None, (plan.benchmark, plan.variant.replace("=", ""), str(size)))
    return PairLaunch("_".join(words), plan, row, size, count, plan.words(start))


def _samples(one: PairLaunch, group: str, read: list[tuple[pair.Pair, Record | None] | None]) -> list[Sample]:
    """Each quantity of a launch in each repeat; nothing where no repeat can be read."""
    records = [found[1] if found else None for found in read]
    known = [record for record in records if record]
    return [
        Sample(
            suite=one.row.suite,
            benchmark=one.row.name,
            group=group,
            ranks=2,
            groups=1,
            variant=one.plan.variant,
            message_bytes=one.size,
            repetitions=known[0].repetitions,
            quantity=quantity,
            values=tuple(record.values.get(quantity) if record else None for record in records),
        )
        for quantity in (one.row.quantities if known else ())
    ]


def make_evidence(
    outcome: Outcome,
    program: str,
    ends: Iterable[pair.End],
    chosen_by: Sequence[pair.End],
    devices: Iterable[DeviceTraffic],
    seconds: Iterable[float],
    notes: Iterable[str] = (),
) -> Evidence:
    """What servers and clients recorded.

    :param ends: one of each node.
    :param chosen_by: of the first of them the variables are told.
    """
    ends, chosen = list(ends), dict(chosen_by[0].variables) if chosen_by else {}
    settings = " ".join(f"{name}={value}" for name, value in chosen.items())
    return Evidence(
        status=outcome.status,
        sentences=tuple(outcome.sentences),
        ranks=tuple(
            {"rank": number, "host": end.host, "cpus_allowed": end.cores, "cpu": None, "numa_node": None}
            for number, end in enumerate(ends)
        ),
        devices=tuple(devices),
        transport=f"{program} ({settings})" if settings else program,
        seconds=tuple(seconds),
        notes=tuple(note.removesuffix(".") for note in notes),
        links=tuple({"node": end.host, "link": end.interface, **settings_of(end)} for end in ends),
        environment=chosen,
    )


def settings_of(end: pair.End) -> dict[str, Any]:
    """A link's settings under the names that other evidence has for them (``link_state.SETTINGS``)."""
    link = end.before.link
    mtu = {"mtu_bytes": int(link["mtu"])} if link["mtu"].isdecimal() else {}
    rate = {"rate": link["speed"]} if "/" in end.interface and link["speed"] else {}
    speed = {"speed_mbit_per_s": int(link["speed"])} if not rate and link["speed"].isdecimal() else {}
    return {**mtu, **rate, **speed, "state": link["operstate"]}
