"""The base class of maps of the wire: every pair of a job's nodes measured below MPI, in rounds of disjoint pairs.

A round is two steps of the job, one for each direction; in a step each node is the server or the client of its pair, and all
pairs begin at once. What is stored is a map of pairs as that of MPI is, of bandwidth alone, so that ``mpibench locate`` judges
both alike: a node that is slow in one and not in the other is no cable's fault.
"""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import reframe.core.runtime as rt
from reframe.core.backends import getlauncher
from reframe.core.builtins import parameter, run_after, run_before, sanity_function, variable
from reframe.core.exceptions import ReframeError, SanityError
from reframe.core.logging import getlogger

from ..job import ending, parameters
from ..job.without_mpi import ENVIRONMENT, Places, Value, WithoutMpiTest
from ..pairs import schedule
from ..pairs.pair_values import BANDWIDTH, PairMap, PairValue
from ..results import job_switches
from ..results.measurement import Outcome
from ..samples import CONTRADICTED, MISSING, DeviceTraffic, Evidence, Sample
from ..session import provenance
from ..sites import references, site
from ..suites import catalogue, pair, reader
from ..suites.plans import Limits
from ..suites.records import OutputError
from ..switches.paths import name_of
from ..vocabulary import QUANTITIES, BadInput
from . import end as pair_end
from . import fitting, pair_test, traffic

#: Fewest nodes: one pair has nothing to be held against, and is what a test of two nodes measures.
FEWEST = 3
#: Seconds that a step takes beside its measurement: srun, both ends' meeting, counters; and those that one may hang.
USUAL_S, LIMIT_S = 3, 60
#: Steps that fail before the job gives up: where a node is gone, each further one waits for it.
MOST_FAILED = 3


@dataclass(frozen=True)
class MapStep:
    """All pairs of a round in one direction.

    :param pairs: numbers of the receiving node, which is the server, and of the sending one.
    """

    order: int
    round: int
    phase: int
    pairs: tuple[tuple[int, int], ...]

    @property
    def name(self) -> str:
        """Beginning of its files' names."""
        return f"map.{self.round}.{self.phase}"

    @property
    def words(self) -> str:
        """Its pairs as ``end.py`` is given them."""
        return ",".join(f"{server}-{client}" for server, client in self.pairs)


class WireMapTest(WithoutMpiTest):
    """Measures all pairs of nodes below MPI, or a sample of them, and stores the map."""

    #: Fabric as the site names it; of one with several rails the first is measured.
    #:
    #: :type: :class:`str`
    #: :values: fabrics of the selected system
    fabric = parameter(parameters.fabrics_of_system(), type=str, loggable=True)

    #: Rounds of one pass.
    #:
    #: :type: :class:`int`
    #: :default: ``0``: all pairs
    rounds = variable(int, value=0, loggable=True)

    #: Passes over all rounds, each in another order.
    #:
    #: :type: :class:`int`
    #: :default: ``2``
    orders = variable(int, value=2, loggable=True)

    #: Of the random numbers that choose a sample and mix the rounds.
    #:
    #: :type: :class:`int`
    #: :default: ``1``
    seed = variable(int, value=1, loggable=True)

    #: Seconds after which one step is ended.
    #:
    #: :type: :class:`int`
    #: :default: one minute
    limit_s = variable(int, value=LIMIT_S)

    #: File that describes the switches: of Slurm, ibnetdiscover, opareport, or YAML.
    #:
    #: :type: :class:`str`
    #: :default: that of the partition's extras, else what Slurm says
    switches = variable(str, value="")

    #: The map, as stored with the session (:mod:`..pairs.pair_values`).
    pair_map = variable(dict, value={}, loggable=True)

    level = "smoke"
    repeats = 1
    ranks_per_node = 1

    @classmethod
    def places(cls, point: Mapping[str, Any]) -> Places:
        """Partitions of three nodes or more with the fabric, on which the program can be started; the others, with why not."""
        useful, left_out = [], []
        for partition in rt.runtime().system.partitions:
            fabric = site.fabrics_of(partition.extras).get(point["fabric"])
            if fabric is None:
                continue
            why = fitting.find_obstacle(fabric, catalogue.PAIRS[cls.group], partition.scheduler.registered_name)
            if not why and max(site.node_counts_of(partition.extras)) < FEWEST:
                why = "one pair of nodes has nothing to be held against: node_counts of the partition has no more than 2"
            if why:
                left_out.append((partition.fullname, why))
            else:
                useful.append(partition.fullname)
        return useful, left_out

    @run_after("setup")
    def plan_steps(self) -> None:
        """As many nodes as the partition measures on, or ``-S nodes=``, with one task each, and their rounds."""
        extras = self.current_partition.extras
        self.nodes = self.nodes or max(site.node_counts_of(extras))
        least = {"nodes": FEWEST, "rounds": 0, "orders": 1, "seed": 0, "limit_s": 1}
        for name, fewest in least.items():
            if getattr(self, name) < fewest:
                raise ReframeError(f"-S {name}={getattr(self, name)} is not possible; give {fewest} or more.")
        if self.repeats != 1:
            raise ReframeError(f"-S repeats={self.repeats}: a map is repeated in passes over all its rounds; give -S orders=.")
        try:
            self._described = job_switches.describe(self.switches, extras)
        except BadInput as error:
            raise ReframeError(str(error)) from None
        self.keep_files = ["*.server", "*.client", job_switches.SLURM_FILE]
        described = site.fabrics_of(extras)[self.fabric]
        self._fabric = replace(described, rails=described.rails[:1])
        self.pinning = "default"
        group = catalogue.PAIRS[self.group]
        assert group.mapped is not None
        benchmark, variant, size = group.mapped
        [plan] = [one for one in group.plans if (one.benchmark, one.variant) == (benchmark, variant)]
        limits = Limits(self._fabric.line_rate_gbit_per_s, extras.get("most_repetitions"))
        self._one = pair_test.make_launch(plan, self.group, self._fabric, size, self.level, limits)
        # Which node has which number is not known before the job runs, so that a sample cannot heed the switches.
        self._design, rounds = schedule.make([0] * self.nodes, self.rounds, self.seed)
        ordered = [
            (order, pairs) for order in range(1, self.orders + 1) for pairs in schedule.in_order(rounds, order, self.seed)
        ]
        self._rounds = len(ordered)
        self._steps = tuple(
            MapStep(order, number, phase, tuple((other, one) if phase == 1 else (one, other) for one, other in pairs))
            for number, (order, pairs) in enumerate(ordered, 1)
            for phase in (1, 2)
        )
        self.num_tasks, self.num_tasks_per_node = self.nodes, 1
        # Who else computes there slows down both ends.
        self.exclusive_access = True

    @run_before("run")
    def write_job(self) -> None:
        """One step of the job for each direction of a round."""
        self.measured_with = provenance.describe()
        scheduler = self.current_partition.scheduler.registered_name
        self.job.options += ending.submit_options(scheduler)
        usual = len(self._steps) * (USUAL_S + pair_test.SECONDS[self.level])
        self.time_limit = f"{2 * usual + MOST_FAILED * (self.limit_s + pair_test.LEAVE_S) + 60}s"
        starter, place = pair_test.list_starter(scheduler, self.nodes), pair_test.place_of(self._fabric)
        ended = ["timeout", "-k", "10", str(self.limit_s + pair_test.LEAVE_S)]
        program = shlex.join([*ended, *starter, "python3", str(pair_end.PROGRAM), "pairs"])
        words = shlex.join([*self._one.words[0], pair_end.BETWEEN, *self._one.words[1]])
        lines = [] if self._described or ("slurm" not in scheduler and scheduler != "squeue") else [job_switches.ASK_SLURM]
        self.prerun_cmds = [
            *lines,
            "failed=0",
            f'step() {{ {program} "$1" {shlex.quote(place)} {self.limit_s} "$2" {words} || failed=$((failed + 1)); }}',
            *(f"[ $failed -ge {MOST_FAILED} ] || step {one.name} {one.words}" for one in self._steps),
        ]
        self.executable = "true"
        self.job.launcher = getlauncher("local")()
        getlogger().info(f"{self.display_name}: {self._rounds} rounds on {self.nodes} nodes, about {usual} s")
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
            "ranks": self.nodes,
            "pinning": self.pinning,
            "launcher": shlex.join(starter),
            "arguments": {self._one.name: shlex.join(self._one.words[1])},
        }

    @sanity_function
    def prove_map(self) -> bool:
        """Fail with a sentence for everything that is missing or was not as asked; what was measured is kept."""
        job, directory = self.job, Path(self.stagedir)
        end = ending.JobEnd(job.jobid or "", job.state or "", job.exitcode, job.nodelist or ())
        outcome = Outcome(1)
        self._read = [(step, ends, self._read_pair(step, ends, outcome)) for step in self._steps for ends in step.pairs]
        measured = [found for _, _, found in self._read if found]
        if lacking := pair_test.find_lacking(directory):
            program, remedy = next(iter(lacking.values())), pair_test.how_to_get(catalogue.PAIRS[self.group])
            if len(lacking) == self.nodes and not measured:
                self.skip_reason = f"no {program} on the PATH of the nodes: {remedy}"
                self.skip(self.skip_reason)
            outcome.add(end.name, 0, MISSING, [f"no {program} on the PATH of {', '.join(sorted(lacking))}: {remedy}."])
        if wrong := ending.judge(end):
            outcome.add(end.name, 0, MISSING, wrong)
        hosts, strange = self._hosts()
        outcome.add(end.name, 0, CONTRADICTED, strange)
        tree, said = job_switches.find(self._described, directory, hosts)
        values = tuple(self._value(step, ends, found, hosts) for step, ends, found in self._read)
        if measured:
            meant = self.current_partition.extras.get("oversubscription")
            known = tree.only(hosts) if tree else None
            self.pair_map = PairMap(self._design, self.seed, self._rounds, hosts, {}, values, known, meant).as_dict()
        self._samples = self._sum_up()
        self.samples = [sample.as_dict() for sample in self._samples]
        self.proof = self._prove(outcome, said).as_dict()
        if sentences := outcome.sentences:
            raise SanityError("; ".join(sentence.rstrip(".") for sentence in sentences))
        return True

    def _read_pair(self, step: MapStep, ends: tuple[int, int], outcome: Outcome) -> tuple[pair.Pair, float | None, bool] | None:
        """Both ends of a pair, what it reached, and whether the fabric carried it; ``None`` where they left nothing whole."""
        name = f"{step.name}.{ends[0]}-{ends[1]}"
        files = [Path(self.stagedir) / f"{name}.{which}" for which in pair.ENDS]
        text = "".join(path.read_text(errors="replace") for path in files if path.exists())
        if not text:
            outcome.add(name, 0, MISSING, ["neither server nor client left a record."])
            return None
        try:
            both = pair.read(text, self._one.program, name)
        except OutputError as error:
            outcome.add(name, 0, MISSING, [str(error).removeprefix(f"{name}: ")])
            return None
        where = f"{both.client.host} to {both.server.host}"
        try:
            [record] = reader.parse(text, source=name)
            wrong = traffic.judge(both, catalogue.PAIRS[self.group].exchanged(both), self._fabric)
        except OutputError as error:
            elsewhere = isinstance(error, pair.OtherNetwork)
            said = str(error).removeprefix(f"{name}: ")
            outcome.add(name, 0, CONTRADICTED if elsewhere else MISSING, [f"{where}: {said}"])
            return both, None, False
        outcome.add(name, 0, CONTRADICTED, [f"{where}: {sentence}" for sentence in wrong])
        return both, record.values[BANDWIDTH], not wrong

    def _hosts(self) -> tuple[tuple[str, ...], list[str]]:
        """The nodes by their numbers, and what cannot be: one with two numbers, or a number on two nodes."""
        there: dict[int, set[str]] = {number: set() for number in range(self.nodes)}
        for _, ends, found in self._read:
            for number, one in zip(ends, (found[0].server, found[0].client), strict=True) if found else ():
                there[number].add(name_of(one.host))
        names = tuple(min(there[number], default=f"node {number + 1} of the job") for number in range(self.nodes))
        moved = [sorted(each) for each in there.values() if len(each) > 1]
        strange = [f"one task of the job was on {' and on '.join(moved[0])}; run it again."] if moved else []
        if len(set(names)) < len(names):
            strange.append("two tasks of the job were on one node: one node each is asked for.")
        return tuple(name if names.count(name) == 1 else f"{name} ({at})" for at, name in enumerate(names)), strange

    def _value(
        self, step: MapStep, ends: tuple[int, int], found: tuple[pair.Pair, float | None, bool] | None, hosts: tuple[str, ...]
    ) -> PairValue:
        server, client = (hosts[number] for number in ends)
        value, counted = (found[1], found[2]) if found else (None, None)
        return PairValue(step.order, step.round, step.phase, client, server, BANDWIDTH, self._one.size, 1, value, counted)

    def _prove(self, outcome: Outcome, notes: list[str]) -> Evidence:
        """What all ends recorded, added up for each node."""
        ends = [one for _, _, found in self._read if found for one in (found[0].server, found[0].client)]
        nodes = {one.host: one for one in ends}
        total = {
            host: [sum(one.bytes_of(key) for one in ends if one.host == host) for key in ("tx_bytes", "rx_bytes")]
            for host in nodes
        }
        variables = dict(ends[0].variables) if ends else {}
        settings = " ".join(f"{name}={value}" for name, value in variables.items())
        return Evidence(
            status=outcome.status,
            sentences=tuple(outcome.sentences),
            ranks=tuple(
                {"rank": number, "host": one.host, "cpus_allowed": one.cores, "cpu": None, "numa_node": None}
                for number, one in enumerate(nodes.values())
            ),
            library_version="",
            library="",
            devices=tuple(DeviceTraffic("map", 1, host, nodes[host].interface, *total[host]) for host in nodes),
            transport=f"{self._one.program} ({settings})" if settings else self._one.program,
            seconds=tuple(one.seconds for one in ends if one.end == "client"),
            notes=tuple(note.removesuffix(".") for note in notes),
            links=tuple({"node": one.host, "link": one.interface, **pair_test.settings_of(one)} for one in nodes.values()),
            environment=variables,
        )

    def _sum_up(self) -> list[Sample]:
        """The median of all pairs and directions, for each pass."""
        row = self._one.row
        passes: dict[int, list[float]] = {order: [] for order in range(1, self.orders + 1)}
        for step, _, found in self._read:
            if found and found[1] is not None and found[2]:
                passes[step.order].append(found[1])
        if not any(passes.values()):
            return []
        values = tuple(statistics.median(each) if each else None for each in passes.values())
        shared = {"suite": row.suite, "benchmark": row.name, "group": self.group, "quantity": BANDWIDTH, "values": values}
        size, variant = self._one.size, self._one.plan.variant
        return [Sample(ranks=2, groups=self.nodes // 2, variant=variant, message_bytes=size, repetitions=None, **shared)]

    def values(self) -> dict[str, Value]:
        """The median of all pairs."""
        quantity = QUANTITIES[BANDWIDTH]
        name = catalogue.metric_name(self._one.row.name, quantity.short, self._one.size, self._one.plan.variant)
        measured = [] if self.is_dry_run() else [value for sample in self._samples for value in sample.measured]
        return {name: Value(statistics.median(measured) if measured else None, quantity.unit)}
