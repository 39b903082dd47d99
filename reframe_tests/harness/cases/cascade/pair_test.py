"""The base classes of tests below MPI, with the evidence of both ends: between two nodes, and
between all pairs of nodes.

Each level of the cascade (wire, transport) is a leaf, measured on each fabric that its programs
support. In a map, a round is two steps of the job, one for each direction; in a step, each node is
the server or the client of its pair, and all pairs start at once. The result is stored like a map
of pairs of MPI, but with bandwidth only, so that ``mpibench locate`` judges both alike: a node that
is slow with MPI but not here does not have a bad cable.
"""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import reframe.core.runtime as rt
from reframe.core.builtins import parameter
from reframe.core.logging import getlogger

from ...instruments import schedule
from ...instruments.pairs.pair_values import BANDWIDTH, PairMap
from ...machine.fabric import Fabric
from ...mpis import registry as mpis
from ...printable import clause
from ...samples import MISSING, DeviceTraffic, Evidence, Sample
from ...sites import references, site
from ...suites import catalogue, pair
from ...suites.benchmark import Limits
from ...vocabulary import QUANTITIES, BadInput
from ..job import batch, parameters
from ..job.parameters import GroupPlaces
from ..measured_test import ENVIRONMENT, LAUNCHERS, Reading, RoundsPlugin, Value, WithoutMpiTest
from ..pair_map import map_judgement
from ..pair_map.map_judgement import FEW_NODES, FEWEST
from ..results.measurement import JobOutcome
from . import below_mpi
from . import end as pair_end
from .below_mpi import FOLDER, SECONDS, MapStep, PairLaunch

#: Seconds that a launch takes in the mean, starting included, at most;
#: and those that one may take before it is ended.
USUAL_S = 20
LIMIT_S = 120
#: Seconds more that both ends have to leave their records.
LEAVE_S = 30
#: Seconds that a step of a map takes beside its measurement (srun, both ends' meeting, counters; 1
#: s on the mini-cluster, adapters that count once a second need another), and those that one may
#: take before it is ended: TCP on a bad cable begins in some.
STEP_S = 3
STEP_LIMIT_S = 60
#: Steps that hang, as where a node is gone, before the job gives
#: up: each further one would wait as long.
MOST_HUNG = 3
WAYS = ("tx_bytes", "rx_bytes")
_FRACTION = QUANTITIES["line_rate_fraction"]

parameters.warn_once()


class PairTest(WithoutMpiTest):
    """Measures one group of programs below MPI between two nodes
    and proves which network carried it.
    """

    #: Fabric as the site names it; of one with several rails the first is
    #: measured. Values: fabrics of the selected system.
    fabric = parameter(parameters.fabrics_of_system(), type=str, loggable=True)

    limit_s = LIMIT_S
    nodes = 2
    ranks_per_node = 1
    executable = "true"

    @classmethod
    def places(cls, point: Mapping[str, Any]) -> GroupPlaces:
        """Partitions with the fabric on which the group's programs can be started."""
        group = catalogue.PAIRS[cls.group]
        reasons = {}
        for partition in rt.runtime().system.partitions:
            if fabric := site.fabrics_of(partition.extras).get(point["fabric"]):
                reasons[partition.fullname] = below_mpi.find_obstacle(
                    fabric, group, partition.scheduler.registered_name
                )
        return parameters.places_without(reasons)

    def conditions(self) -> None:
        self.keep_files = ["*.server", "*.client", "*.out", "*.err"]
        limits = self._choose_rail()
        self._launches = tuple(
            below_mpi.make_launch(
                plan, self.group, self._fabric, size, self.level, limits, self._gpu
            )
            for plan in self._group.plans
            if self._group.measures(plan, self._fabric.memory)
            for size in plan.sizes[self.level]
        )
        self.num_tasks = 2
        self.num_tasks_per_node = 1

    def _choose_rail(self) -> Limits:
        """The fabric with its first rail, and what limits its measurements."""
        extras = self.current_partition.extras
        described = site.fabrics_of(extras)[self.fabric]
        self._group = catalogue.PAIRS[self.group]
        self._fabric = replace(described, rails=described.rails[:1])
        self._gpu = 0
        self._memory: dict[str, Any] = {}
        if described.memory.on_gpu:
            self._gpu = below_mpi.choose_gpu(described)
            self._fabric = replace(self._fabric, gpus=(described.gpus[self._gpu],))
            batch.ask_for_gpus(self, len(described.gpus))
            [gpu], memory = self._fabric.gpus, described.memory
            self._memory = {
                "memory": memory.word,
                "gpu_kind": memory.kind,
                "gpus": [gpu.bus_id or self._gpu],
            }
        self.pinning = references.WITHOUT_MPI[self.group]["pinning"]
        return Limits(self._fabric.line_rate_gbit_per_s, extras.get("most_repetitions"))

    def _starter(self) -> list[str]:
        """Launcher with one task on each node; a task that failed must not
        keep the others from leaving their records.
        """
        count = [f"--nodes={self.nodes}", f"--ntasks={self.nodes}", "--ntasks-per-node=1"]
        return [LAUNCHERS[self.scheduler], *count, "--mpi=none", "--kill-on-bad-exit=0"]

    def _program(self, role: str) -> str:
        """Shell words that start both ends on the job's nodes; its
        name, and what it runs, follow.
        """
        limit = str(self.limit_s + LEAVE_S)
        return shlex.join(
            ["timeout", "-k", "10", limit, *self._starter(), "python3", str(pair_end.PROGRAM), role]
        )

    def commands(self) -> None:
        """Start server and client of each launch as one step of
        the job, the repeats interleaved.
        """
        self.time_limit = f"{self.repeats * len(self._launches) * USUAL_S + self.limit_s + 60}s"
        program = self._program("task")
        steps = []
        for launch in self._launches:
            words = [
                _place(self._fabric),
                str(self.limit_s),
                *launch.words[0],
                pair_end.BETWEEN,
                *launch.words[1],
            ]
            steps.append(f"{program} {launch.name}.$repeat {shlex.join(words)} || exit")
        numbers = " ".join(str(number + 1) for number in range(self.repeats))
        self.prerun_cmds = [f"for repeat in {numbers}; do", *steps, "done"]
        self._describe(self._launches)

    def _describe(self, launches: Iterable[PairLaunch]) -> None:
        self.condition = {
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
            **self._memory,
            "launcher": shlex.join(self._starter()),
            "arguments": {launch.name: shlex.join(launch.words[1]) for launch in launches},
        }

    def read(self) -> Reading:
        """Both ends of every launch; without a program the case is skipped."""
        outcome = JobOutcome(self.repeats)
        directory = Path(self.stagedir)
        repeats = range(1, self.repeats + 1)
        measured = {
            (launch.name, repeat): row
            for repeat in repeats
            for launch in self._launches
            if (
                row := below_mpi.read_launch(
                    directory, f"{launch.name}.{repeat}", launch, self._group, self._fabric
                )
            )
        }
        for (name, repeat), row in measured.items():
            for status, sentence in row.findings:
                outcome.add(name, repeat, status, [sentence])
        pairs = {key: row.both for key, row in measured.items() if row.ends}
        self._judge_job(outcome, measured=bool(pairs))
        started = self.repeats * len(self._launches)
        if missing := started - len(list(directory.glob("*.server"))):
            outcome.add(
                self.job_end().name, 0, MISSING, [f"{missing} of {started} servers left no record."]
            )
        samples: list[Sample] = []
        for launch in self._launches:
            records = [
                row.record if (row := measured.get((launch.name, repeat))) else None
                for repeat in repeats
            ]
            if first := next(filter(None, records), None):
                for quantity in launch.row.quantities:
                    values = [record.values.get(quantity) if record else None for record in records]
                    samples.append(self._sample(launch, 1, first.repetitions, quantity, values))
        devices = [
            DeviceTraffic(name, repeat, end.host, end.interface, *map(end.bytes_of, WAYS))
            for (name, repeat), ends in pairs.items()
            for end in ends
        ]
        nodes = next(iter(pairs.values()), ())
        seconds = [client.seconds for _, client in pairs.values()]
        evidence = _evidence(outcome, self._launches[0].program, nodes, devices, seconds)
        return Reading(samples, evidence, [clause(sentence) for sentence in outcome.sentences])

    def _sample(
        self,
        launch: PairLaunch,
        groups: int,
        repetitions: int | None,
        quantity: str,
        values: Iterable[float | None],
    ) -> Sample:
        return Sample(
            suite=launch.row.suite,
            benchmark=launch.row.name,
            group=self.group,
            ranks=2,
            groups=groups,
            variant=launch.plan.variant,
            message_bytes=launch.size,
            repetitions=repetitions,
            quantity=quantity,
            values=tuple(values),
        )

    def _judge_job(self, outcome: JobOutcome, *, measured: bool) -> None:
        """How the job ended, and nodes that lack the program; the case is
        skipped where all do and nothing was measured.
        """
        end = self.job_end()
        if absent := below_mpi.find_lacking(Path(self.stagedir)):
            program = next(iter(absent.values()))
            remedy = below_mpi.describe_remedy(self._group)
            if len(absent) == self.nodes and not measured:
                self.leave(f"no {program} on the PATH of the nodes: {remedy}")
            # Programs are on all nodes of a partition, or on none: a node apart is
            # broken, and no reason to measure nothing.
            others = "the other node has" if self.nodes == 2 else "other nodes have"
            there = (
                f"no {program} on the PATH of {', '.join(sorted(absent))}, but {others} it: "
                f"{remedy}."
            )
            outcome.add(end.name, 0, MISSING, [there])
        if (
            self._fabric.memory.on_gpu
            and not measured
            and (words := below_mpi.find_unable(Path(self.stagedir)))
        ):
            self.leave(
                f"the nodes' {self._group.debian} does not support {self._fabric.memory.text}: "
                f"{words}"
            )
        if wrong := batch.judge(end):
            outcome.add(end.name, 0, MISSING, [*wrong, *self.error_sentences()])

    def metrics(self) -> dict[str, Value]:
        """Every quantity at every size, and bandwidths of large
        messages as shares of the line rate.
        """
        measured = {
            (row.benchmark, row.variant, row.message_bytes, row.quantity): statistics.median(
                row.measured
            )
            for row in ([] if self.is_dry_run() else self._samples)
            if row.measured
        }
        link = references.physics_reference(self._fabric, catalogue.LEVELS[self.level].link_share)
        # A transport library that does not fill the link is what a cascade
        # is to show, and no fault of the link.
        physics = link if self._group.layer == pair.WIRE else None
        metrics: dict[str, Value] = {}
        for launch in self._launches:
            row = launch.row
            variant = launch.plan.variant
            for quantity in (QUANTITIES[name] for name in row.quantities):
                value = measured.get((row.name, variant, launch.size, quantity.name))
                gated = launch.size in row.gated_sizes.get(quantity.name, ())
                name = catalogue.metric_name(row.name, quantity.short, launch.size, variant)
                metrics[name] = Value(value, quantity.unit, gated)
                if link and row.directions and row.shows_line_rate(quantity.name, launch.size):
                    share = (
                        None
                        if value is None
                        else references.line_rate_fraction(value, self._fabric, row.directions)
                    )
                    name = catalogue.metric_name(row.name, _FRACTION.short, launch.size, variant)
                    metrics[name] = Value(share, _FRACTION.unit, physics=physics)
        return metrics


class WireMapTest(PairTest, RoundsPlugin):
    """Measures all pairs of nodes below MPI, or a sample of them, and stores the map."""

    level = "smoke"
    repeats = 1
    orders = 2
    limit_s = STEP_LIMIT_S
    #: As many as the partition measures on; ``-S nodes=`` gives another number.
    nodes = 0

    @classmethod
    def places(cls, point: Mapping[str, Any]) -> GroupPlaces:
        counts = {
            row.fullname: max(site.node_counts_of(row.extras))
            for row in rt.runtime().system.partitions
        }
        return (
            super()
            .places(point)
            .without({name: FEW_NODES if most < FEWEST else "" for name, most in counts.items()})
        )

    def conditions(self) -> None:
        extras = self.current_partition.extras
        self.nodes = self.nodes or max(site.node_counts_of(extras))
        self.expect_least(nodes=FEWEST, rounds=0, orders=1, seed=0)
        if self.limit_s <= (least := SECONDS[self.level]):
            raise BadInput(
                "too-large",
                f"-S limit_s={self.limit_s} would end each measurement, which takes {least} s.",
            )
        if self.repeats != 1:
            raise BadInput(
                "output-damaged",
                f"-S repeats={self.repeats}: maps repeat in passes over all rounds; give -S "
                "orders= instead.",
            )
        self.keep_files = [FOLDER]
        limits = self._choose_rail()
        mapped = self._group.mapped
        self._described = map_judgement.describe_switches(self.switches, extras, self._fabric)
        if mapped is None:
            raise BadInput("session-missing", f"{self.group} does not support maps of all pairs.")
        self._launch = below_mpi.make_launch(
            mapped.plan, self.group, self._fabric, mapped.size, self.level, limits, self._gpu
        )
        # Which node has which number is unknown before the job runs, so
        # that a sample cannot heed the switches.
        self._design, rounds = schedule.make([0] * self.nodes, self.rounds, self.seed)
        passes = range(1, self.orders + 1)
        ordered = [
            (order, pairs)
            for order in passes
            for pairs in schedule.in_order(rounds, order, self.seed)
        ]
        self._rounds = len(ordered)
        self._steps = tuple(
            MapStep(
                order,
                number,
                phase,
                tuple((to, fro) if phase == 1 else (fro, to) for fro, to in pairs),
            )
            for number, (order, pairs) in enumerate(ordered, 1)
            for phase in (1, 2)
        )
        self.num_tasks = self.nodes
        self.num_tasks_per_node = 1

    def commands(self) -> None:
        usual = len(self._steps) * (STEP_S + SECONDS[self.level])
        self.time_limit = f"{2 * usual + MOST_HUNG * (self.limit_s + LEAVE_S) + 60}s"
        words = shlex.join([*self._launch.words[0], pair_end.BETWEEN, *self._launch.words[1]])
        place = shlex.quote(_place(self._fabric))
        self.prerun_cmds = [
            *([] if self._described else [map_judgement.ASK_SLURM]),
            f"rm -rf {FOLDER}",
            "hung=0",
            "step() {  # FOLDER PAIRS",
            f"    [ $hung -lt {MOST_HUNG} ] || return 0",
            "    local began=$SECONDS",
            '    mkdir -p "$1"',
            f'    {self._program("pairs")} "$1/" {place} {self.limit_s} "$2" {words} || true',
            f"    [ $((SECONDS - began)) -lt {self.limit_s} ] || hung=$((hung + 1))",
            "}",
            *(f"step {step.folder} {step.words}" for step in self._steps),
        ]
        getlogger().info(
            f"{self.display_name}: {self._rounds} rounds on {self.nodes} nodes, about {usual} s"
        )
        self._describe([self._launch])

    def read(self) -> Reading:
        """The map, of what was measured up to an untimely end, too."""
        directory = Path(self.stagedir)
        outcome = JobOutcome(1)
        job = self.job.nodelist or ()
        wire_map = below_mpi.read_map(
            directory, self._steps, self.nodes, self._launch, self._group, self._fabric, job
        )
        self._judge_job(outcome, measured=bool(wire_map.ends))
        for status, sentence in wire_map.findings:
            outcome.add(FOLDER, 0, status, [sentence])
        rails = map_judgement.ports_of(self._fabric)
        tree, notes = map_judgement.find_switches(self._described, rails, directory, wire_map.seen)
        if wire_map.ends:
            meant = self.current_partition.extras.get("oversubscription")
            known = tree.only(wire_map.hosts) if tree else None
            values = wire_map.values(self._launch.size)
            stored = PairMap(
                self._design,
                self.seed,
                self._rounds,
                wire_map.hosts,
                wire_map.silent,
                values,
                known,
                meant,
            )
            self.keep_map(stored)
        by_host: dict[str, list[pair.End]] = {}
        for end in wire_map.ends:
            by_host.setdefault(end.host, []).append(end)
        devices = [
            DeviceTraffic(
                FOLDER,
                1,
                host,
                ends[-1].interface,
                *(sum(end.bytes_of(way) for end in ends) for way in WAYS),
            )
            for host, ends in by_host.items()
        ]
        seconds = [end.seconds for end in wire_map.ends if end.end == "client"]
        nodes = [ends[-1] for ends in by_host.values()]
        evidence = _evidence(outcome, self._launch.program, nodes, devices, seconds, notes)
        # The median of all pairs and directions, for each pass.
        passes: dict[int, list[float]] = {order: [] for order in range(1, self.orders + 1)}
        for row in wire_map.pairs:
            if row.measured.counted and row.mb_per_s is not None:
                passes[row.step.order].append(row.mb_per_s)
        medians = [statistics.median(values) if values else None for values in passes.values()]
        samples = (
            [self._sample(self._launch, self.nodes // 2, None, BANDWIDTH, medians)]
            if any(passes.values())
            else []
        )
        return Reading(samples, evidence, [clause(sentence) for sentence in outcome.sentences])

    def metrics(self) -> dict[str, Value]:
        quantity = QUANTITIES[BANDWIDTH]
        launch = self._launch
        name = catalogue.metric_name(
            launch.row.name, quantity.short, launch.size, launch.plan.variant
        )
        measured = (
            []
            if self.is_dry_run()
            else [value for sample in self._samples for value in sample.measured]
        )
        return {name: Value(statistics.median(measured) if measured else None, quantity.unit)}


def _place(fabric: Fabric) -> str:
    rail = fabric.rails[0]
    if mpis.transport(fabric.transport).interfaces:
        return rail.device
    return f"{rail.device}/{rail.port}@{(*fabric.tcp_interfaces, pair_end.HOST_NAME)[0]}"


def _evidence(
    outcome: JobOutcome,
    program: str,
    nodes: Sequence[pair.End],
    devices: Iterable[DeviceTraffic],
    seconds: Iterable[float],
    notes: Iterable[str] = (),
) -> Evidence:
    """What servers and clients recorded; ``nodes``: an end of each."""
    variables = next((dict(end.variables) for end in nodes if end.end == "client"), {})
    settings = " ".join(f"{name}={value}" for name, value in variables.items())
    links = []
    for end in nodes:
        # Under the names that other evidence has for a link's settings (``link_state.SETTINGS``).
        link = end.before.link
        settled = dict[str, Any]()
        if link["mtu"].isdecimal():
            settled["mtu_bytes"] = int(link["mtu"])
        if "/" in end.interface and link["speed"]:
            settled["rate"] = link["speed"]
        elif link["speed"].isdecimal():
            settled["speed_mbit_per_s"] = int(link["speed"])
        links.append(
            {"node": end.host, "link": end.interface, **settled, "state": link["operstate"]}
        )
    return Evidence(
        status=outcome.status,
        sentences=tuple(outcome.sentences),
        ranks=tuple(
            {
                "rank": number,
                "host": end.host,
                "cpus_allowed": end.cores,
                "cpu": None,
                "numa_node": None,
            }
            for number, end in enumerate(nodes)
        ),
        devices=tuple(devices),
        transport=f"{program} ({settings})" if settings else program,
        seconds=tuple(seconds),
        notes=tuple(note.removesuffix(".") for note in notes),
        links=tuple(links),
        environment=variables,
    )
