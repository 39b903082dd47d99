"""The base class of maps of the wire: every pair of a job's nodes measured below MPI, in rounds of disjoint pairs.

A round is two steps of the job, one for each direction; in a step each node is the server or the client of its pair, and all
pairs begin at once. What is stored is a map of pairs as that of MPI is, of bandwidth alone, so that ``mpibench locate`` judges
both alike: a node that is slow with MPI and not here has no bad cable.
"""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import reframe.core.runtime as rt
from reframe.core.logging import getlogger

from ...instruments import schedule
from ...instruments.pairs.pair_values import BANDWIDTH, PairMap
from ...samples import DeviceTraffic, Sample
from ...sites import site
from ...suites import catalogue
from ...vocabulary import QUANTITIES, BadInput
from ..job.parameters import Places
from ..measured_test import Reading, RoundsPlugin, Value
from ..results import job_switches
from ..results.measurement import Outcome
from . import end as pair_end
from . import pair_test, wire_map
from .pair_test import PairTest

#: Fewest nodes: one pair has nothing to be held against, and is what a test of two nodes measures.
FEWEST = 3
FEW_NODES = "one pair of nodes has nothing to be held against: node_counts of the partition has no more than 2"
#: Seconds that a step takes beside its measurement (srun, both ends' meeting, counters; 1 s on the mini-cluster, adapters that
#: count once a second need another), and those that one may take before it is ended: TCP on a bad cable begins in some.
USUAL_S, LIMIT_S = 3, 60
#: Steps that hang, as where a node is gone, before the job gives up: each further one would wait as long.
MOST_HUNG = 3


class WireMapTest(PairTest, RoundsPlugin):
    """Measures all pairs of nodes below MPI, or a sample of them, and stores the map."""

    level = "smoke"
    repeats = 1
    orders = 2
    limit_s = LIMIT_S
    #: As many as the partition measures on; ``-S nodes=`` gives another number.
    nodes = 0

    @classmethod
    def places(cls, point: Mapping[str, Any]) -> Places:
        """As of any test below MPI, on partitions of three nodes or more."""
        counts = {row.fullname: max(site.node_counts_of(row.extras)) for row in rt.runtime().system.partitions}
        return super().places(point).without({name: FEW_NODES if most < FEWEST else "" for name, most in counts.items()})

    def conditions(self) -> None:
        """The rounds, and one task on each node."""
        extras = self.current_partition.extras
        self.nodes = self.nodes or max(site.node_counts_of(extras))
        self.expect_least(nodes=FEWEST, rounds=0, orders=1, seed=0)
        if self.limit_s <= (least := pair_test.SECONDS[self.level]):
            raise BadInput("limit-too-short", f"-S limit_s={self.limit_s} would end each measurement, which takes {least} s.")
        if self.repeats != 1:
            raise BadInput(
                "map-repeats", f"-S repeats={self.repeats}: a map is repeated in passes over all its rounds; give -S orders=."
            )
        self._described = job_switches.describe(self.switches, extras)
        self.keep_files = [wire_map.FOLDER]
        limits, mapped = self._choose_rail(), catalogue.PAIRS[self.group].mapped
        if mapped is None:
            raise BadInput("group-without-map", f"{self.group} says nothing of maps of all pairs.")
        self._launch = pair_test.make_launch(mapped.plan, self.group, self._fabric, mapped.size, self.level, limits)
        # Which node has which number is not known before the job runs, so that a sample cannot heed the switches.
        self._design, rounds = schedule.make([0] * self.nodes, self.rounds, self.seed)
        passes = range(1, self.orders + 1)
        ordered = [(order, pairs) for order in passes for pairs in schedule.in_order(rounds, order, self.seed)]
        self._rounds = len(ordered)
        self._steps = tuple(
            wire_map.MapStep(order, number, phase, tuple((to, fro) if phase == 1 else (fro, to) for fro, to in pairs))
            for number, (order, pairs) in enumerate(ordered, 1)
            for phase in (1, 2)
        )
        self.num_tasks, self.num_tasks_per_node = self.nodes, 1

    def commands(self) -> None:
        """One step of the job for each direction of a round."""
        usual = len(self._steps) * (USUAL_S + pair_test.SECONDS[self.level])
        longest = self.limit_s + pair_test.LEAVE_S
        self.time_limit = f"{2 * usual + MOST_HUNG * longest + 60}s"
        starter, place = pair_test.list_starter(self.scheduler, self.nodes), pair_test.find_place(self._fabric)
        program = shlex.join(["timeout", "-k", "10", str(longest), *starter, "python3", str(pair_end.PROGRAM), "pairs"])
        words = shlex.join([*self._launch.words[0], pair_end.BETWEEN, *self._launch.words[1]])
        self.prerun_cmds = [
            *([] if self._described else [job_switches.ASK_SLURM]),
            f"rm -rf {wire_map.FOLDER}",
            "hung=0",
            "step() {  # FOLDER PAIRS",
            f"    [ $hung -lt {MOST_HUNG} ] || return 0",
            "    local began=$SECONDS",
            '    mkdir -p "$1"',
            f'    {program} "$1/" {shlex.quote(place)} {self.limit_s} "$2" {words} || true',
            f"    [ $((SECONDS - began)) -lt {self.limit_s} ] || hung=$((hung + 1))",
            "}",
            *(f"step {one.folder} {one.words}" for one in self._steps),
        ]
        getlogger().info(f"{self.display_name}: {self._rounds} rounds on {self.nodes} nodes, about {usual} s")
        self.condition = self._describe(starter, {self._launch.name: shlex.join(self._launch.words[1])})

    def read(self) -> Reading:
        """The map, of what was measured up to an untimely end, too."""
        directory, group = Path(self.stagedir), catalogue.PAIRS[self.group]
        outcome, job = Outcome(1), self.job.nodelist or ()
        self._map = wire_map.read(directory, self._steps, self.nodes, group, self._launch.program, self._fabric, job)
        measured = any(one.ends for one in self._map.pairs)
        self._judge_job(outcome, measured=measured)
        for status, sentence in self._map.findings:
            outcome.add(wire_map.FOLDER, 0, status, [sentence])
        tree, said = job_switches.find(self._described, directory, self._map.seen)
        if measured:
            meant = self.current_partition.extras.get("oversubscription")
            known, hosts = tree.only(self._map.hosts) if tree else None, self._map.hosts
            values = self._map.values(self._launch.size)
            stored = PairMap(self._design, self.seed, self._rounds, hosts, self._map.silent, values, known, meant)
            self.pair_map = stored.as_dict()
        ends = self._map.ends
        nodes = {one.host: one for one in ends}
        total = {host: [0, 0] for host in nodes}
        for one in ends:
            for at, counter in enumerate(("tx_bytes", "rx_bytes")):
                total[one.host][at] += one.bytes_of(counter)
        devices = [DeviceTraffic(wire_map.FOLDER, 1, host, nodes[host].interface, *total[host]) for host in nodes]
        seconds = [one.seconds for one in ends if one.end == "client"]
        evidence = pair_test.make_evidence(outcome, self._launch.program, nodes.values(), ends, devices, seconds, said)
        return Reading(self._sum_up(), evidence, [sentence.rstrip(".") for sentence in outcome.sentences])

    def _sum_up(self) -> list[Sample]:
        """The median of all pairs and directions, for each pass."""
        passes: dict[int, list[float]] = {order: [] for order in range(1, self.orders + 1)}
        for one in self._map.pairs:
            if one.usable is not None:
                passes[one.step.order].append(one.usable)
        if not any(passes.values()):
            return []
        row = self._launch.row
        return [
            Sample(
                suite=row.suite,
                benchmark=row.name,
                group=self.group,
                ranks=2,
                groups=self.nodes // 2,
                variant=self._launch.plan.variant,
                message_bytes=self._launch.size,
                repetitions=None,
                quantity=BANDWIDTH,
                values=tuple(statistics.median(each) if each else None for each in passes.values()),
            )
        ]

    def metrics(self) -> dict[str, Value]:
        """The median of all pairs."""
        quantity, launch = QUANTITIES[BANDWIDTH], self._launch
        name = catalogue.metric_name(launch.row.name, quantity.short, launch.size, launch.plan.variant)
        measured = [] if self.is_dry_run() else [value for sample in self._samples for value in sample.measured]
        return {name: Value(statistics.median(measured) if measured else None, quantity.unit)}
