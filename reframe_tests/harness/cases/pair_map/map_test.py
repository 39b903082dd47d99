"""The base class of maps of pairs: which rounds, what they cost,
and the map that is stored with its case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from reframe.core.builtins import parameter, run_before, variable
from reframe.core.logging import getlogger

from ...evidence.traffic import counter_names
from ...instruments import schedule
from ...instruments.pairs import output
from ...instruments.pairs.pair_values import QUANTITIES, PairMap
from ...machine.fabric import Fabric
from ...machine.switch_paths import name_of, rows_of
from ...machine.switches import expand
from ...samples import CONTRADICTED, MISSING
from ...sites import site
from ...suites import catalogue
from ...suites.benchmark import Record
from ...suites.instruments import pair_records, read_pairs
from ...vocabulary import BadInput
from ..fabric_test import MaintenanceTest
from ..job import parameters, script
from ..job.condition import Condition
from ..measured_test import RoundsPlugin
from ..results import measurement
from . import map_judgement

#: Switches that a file describes, for the ranks.
PATHS_FILE = "switches.txt"
#: What srun says of a node that Slurm has lost (seen with 22.05).
_NODE_FAILURE = re.compile(r"srun: error: Node failure on (\S+)")
#: Of a launch's limit: a map of slow links takes longer than one of
#: good ones. Seconds of MPI's start and end.
SLACK = 10
START_S = 60
#: Most bytes of a printed value with its pair, where each pair has lines of its own.
VALUE_BYTES = 128
#: Nights in which each pair should have its turn.
MONTH = 30


class MapTest(MaintenanceTest, RoundsPlugin):
    """Measures pairs of nodes in rounds, after one start of MPI, and
    stores the map beside the metrics that sum it up.
    """

    #: One start: the passes over all rounds are the repeats.
    repeats = 1
    #: The instrument's own: one rank on each node. Inside a node
    #: ``gpu``, one rank for each of its GPUs.
    ppn = parameter(
        inherit_params=True,
        filter_params=lambda symbols: ["1", *(symbol for symbol in symbols if symbol == "gpu")],
        type=str,
        loggable=True,
    )
    #: All nodes of the largest job.
    choose_counts = staticmethod(lambda counts: counts[-1:])

    #: Values of each pair and direction in a pass.
    values = variable(int, value=1, loggable=True)

    #: What a job has printed, until it is judged.
    _printed: output.MapOutput | None = None

    #: Seconds after which a node that does not answer is left out.
    patience_s = variable(int, value=20)

    @classmethod
    def places(cls, point: Mapping[str, Any]) -> parameters.GroupPlaces:
        places = super().places(point)
        fabrics = cls.fabrics(point)
        of_gpus = point["ppn"] == "gpu"
        right = {
            name
            for name, row in fabrics.items()
            if row.within_node == of_gpus and (row.memory.on_gpu or not of_gpus)
        }
        return places.without(
            {name: map_judgement.ONE_RANK for name in fabrics if name not in right}
        )

    @staticmethod
    def fabrics(point: Mapping[str, Any]) -> dict[str, Fabric]:
        """The fabric of a case on each partition that has it."""
        there = (
            (partition.fullname, site.fabrics_of(partition.extras))
            for partition in parameters.measured_partitions()
        )
        return {
            name: fabrics[point["fabric"]] for name, fabrics in there if point["fabric"] in fabrics
        }

    def _orders(self, ranks: int) -> int:
        return self.orders or schedule.usual_orders(ranks, self.rounds)

    def _first(self, ranks: int) -> int:
        """Where a sample begins in the rounds of all pairs; -1: it is drawn by chance."""
        return -1

    def _plan(self, limits: catalogue.Limits, where: Condition) -> tuple[catalogue.Launch, ...]:
        """One start: the instrument compares what it receives itself."""
        self.expect_least(rounds=0, orders=0, seed=0, values=1, patience_s=1)
        self._described = map_judgement.describe_switches(
            self.switches, self.current_partition.extras, where.fabric
        )
        # Modes ask for more of every test.
        self.repeats = 1
        planned = self.plan_launches(limits, where)
        words = dict(zip(planned[0].args[::2], planned[0].args[1::2], strict=True))
        size, _, messages = words["--bandwidth"].partition("x")

        def cost_s(rounds: int, orders: int) -> float:
            return schedule.cost_s(
                where.ranks,
                rounds,
                orders,
                transfer_s=self.values
                * int(size)
                * int(messages)
                * 8
                / ((limits.line_rate_gbit_per_s or 10.0) * 1e9),
                pings=int(words["--latency"].partition("x")[2]),
                values=self.values,
                one_at_a_time=bool(where.oversubscribed),
            )

        if self._choose_rounds(where.ranks, cost_s(1, 1)):
            planned = self.plan_launches(limits, where)
        self._cost_s = cost_s(
            schedule.number_of_rounds(where.ranks, self.rounds), self._orders(where.ranks)
        )
        self.limit_s = self.limit_s or round(SLACK * self._cost_s) + START_S
        return planned

    def _choose_rounds(self, ranks: int, round_s: float) -> bool:
        """Whether rounds and passes were chosen by what a round takes."""
        return False

    def plan_launches(
        self, limits: catalogue.Limits, where: Condition | None = None
    ) -> tuple[catalogue.Launch, ...]:
        ranks = (where or self._condition).ranks
        asked = {
            "rounds": self.rounds,
            "orders": self._orders(ranks),
            "seed": self.seed,
            "repeats": self.values,
        }
        asked |= {"first": self._first(ranks)}
        # Ranks that wait for each other's cores would time those and no network.
        asked |= {
            "shared": 1 if (where or self._condition).oversubscribed else 0,
            "patience": self.patience_s,
        }
        words = [word for name, value in asked.items() for word in (f"--{name}", str(value))]
        if self._described:
            words += ["--switches", PATHS_FILE]
        rounds = schedule.number_of_rounds(ranks, self.rounds) * asked["orders"]
        values = rounds * (ranks // 2) * self.values * 2 * len(QUANTITIES)
        return tuple(
            replace(
                launch,
                args=(*launch.args, *words),
                more_bytes=values * VALUE_BYTES,
                parse=self._parse,
            )
            for launch in super().plan_launches(limits, where)
        )

    @run_before("run")
    def ask_for_switches(self) -> None:
        """Have the job write down what Slurm says, and what a file
        describes for the ranks; say what it costs.
        """
        scheduler = self.current_partition.scheduler.registered_name
        lines = []
        if self._described:
            tree = self._described.tree(map_judgement.ports_of(self._condition.fabric))
            rows = rows_of({node: tree.path(node) for node in tree.leaf_of})
            lines += [f"cat >{PATHS_FILE} <<'END_OF_FILE'", *rows, "END_OF_FILE"]
        elif "slurm" in scheduler or scheduler == "squeue":
            lines.append(map_judgement.ASK_SLURM)
        self.prerun_cmds = [*lines, *self.prerun_cmds]
        ranks = self._condition.ranks
        rounds = self._orders(ranks) * schedule.number_of_rounds(ranks, self.rounds)
        getlogger().info(
            f"{self.display_name}: {rounds} rounds of {ranks} ranks, about {self._cost_s:.0f} s"
        )

    def _evaluate(
        self, where: Condition, launches: tuple[catalogue.Launch, ...]
    ) -> measurement.JobOutcome:
        """As of any test; then the map, of what was measured up to an untimely end, too."""
        outcome = super()._evaluate(where, launches)
        printed, self._printed = self._printed, None
        if printed and where is self._condition:
            self._judge(outcome, printed, launches[0].name)
        return outcome

    def _parse(self, text: str, source: str) -> list[Record]:
        """Records of the output, whose map stays for :meth:`_evaluate`: it is read once."""
        self._printed = read_pairs(text, source)
        return pair_records(self._printed, source)

    def _judge(
        self, outcome: measurement.JobOutcome, printed: output.MapOutput, launch: str
    ) -> None:
        devices = outcome.evidence.devices if outcome.evidence else ()
        right, less, notes = (
            map_judgement.judge_bytes(printed, devices, counter_names(self._condition.fabric))
            if printed.whole
            else ({}, [], [])
        )
        outcome.add(launch, 1, CONTRADICTED, less)
        # The switches above the nodes: as a file, Slurm or the ranks themselves have them.
        inside = self._condition.fabric.within_node
        rails = map_judgement.ports_of(self._condition.fabric, outcome.evidence)
        tree, faults = (
            (None, [])
            if inside
            else map_judgement.find_switches(
                self._described, rails, Path(self.stagedir), printed.nodes
            )
        )
        tree = tree or (None if self._described else printed.tree)
        tree = tree.only(printed.nodes) if tree else None
        notes = [
            *notes,
            *faults,
            *(tree.notes if tree else ()),
            f"expected to take {self._cost_s:.0f} s",
        ]
        printed.values.check(right)
        silent = dict(printed.silent)
        if not printed.whole:
            error = script.beginning_of(Path(self.stagedir) / script.files_of(launch, 1).error)
            silent |= dict.fromkeys(
                _failed_nodes(error, printed.nodes),
                f"failed after {len(printed.values)} values, as Slurm says",
            )
        named = "; ".join(f"{node} {why}" for node, why in silent.items())
        if not printed.whole:
            ended = (
                f"the map ends after {len(printed.values)} values{'; ' if named else ''}{named}."
            )
            outcome.add(launch, 1, MISSING, [ended])
        elif silent:  # the launcher's own last words need not name them
            outcome.add(
                launch, 1, MISSING, [f"the map is without nodes that stopped answering: {named}."]
            )
        meant = self.current_partition.extras.get("oversubscription")
        # Of an oversubscribed job pairs exchange small messages one at a time.
        at_once = 2 if self._condition.oversubscribed else math.inf
        shared = (
            map_judgement.find_shared(outcome.evidence.ranks, at_once) if outcome.evidence else ""
        )
        pair_map = PairMap(
            printed.design,
            printed.seed,
            printed.rounds,
            printed.nodes,
            silent,
            printed.values,
            tree,
            meant,
            shared,
        )
        self.keep_map(pair_map)
        if evidence := outcome.evidence:
            outcome.join(
                evidence, [evidence], [*evidence.notes, *(note.removesuffix(".") for note in notes)]
            )


class TurnTest(MapTest):
    """A part of the pairs each night, as many as fit a budget; the next
    night the next, so that each pair has its turn.
    """

    nightly = True
    #: Seconds that its rounds may take; at least one round is measured.
    budget_s = variable(int, value=60, loggable=True)

    #: Number of the night, by which its rounds are chosen. Default:
    #: ``0``: days since the year 1 (UTC).
    night = variable(int, value=0, loggable=True)

    @classmethod
    def places(cls, point: Mapping[str, Any]) -> parameters.GroupPlaces:
        places = super().places(point)
        if point["nodes"] == 2:
            return places.without(dict.fromkeys(places.partitions, map_judgement.FEW_NODES))
        pair = [
            name
            for name, fabric in cls.fabrics(point).items()
            if point["ppn"] == "gpu" and len(fabric.gpus) == 2
        ]
        return places.without(dict.fromkeys(pair, map_judgement.FEW_GPUS))

    def _first(self, ranks: int) -> int:
        day = self.night or datetime.now(timezone.utc).toordinal()
        return schedule.turn(ranks, self.rounds, day) if self.rounds else -1

    def _choose_rounds(self, ranks: int, round_s: float) -> bool:
        if self.budget_s < 1 or self.night < 0:
            raise BadInput(
                "bad-option",
                f"-S budget_s={self.budget_s} night={self.night} is not possible; give a budget "
                "of 1 s or more.",
            )
        whole = schedule.number_of_rounds(ranks, 0)
        fitting = max(1, int(self.budget_s / round_s))
        if not self.rounds:
            self.rounds = min(whole, fitting)
        if not self.orders:
            self.orders = max(
                1, min(fitting // self.rounds, schedule.usual_orders(ranks, self.rounds))
            )
        days = schedule.days_of_turn(ranks, self.rounds)
        text = f"{self.rounds} of {whole} rounds tonight, all pairs in {days} nights"
        getlogger().info(
            f"{self.display_name}: "
            f"{text}{'' if days <= MONTH else f', more than {MONTH}: raise -S budget_s='}"
        )
        return True


def _failed_nodes(error: str, nodes: Collection[str]) -> list[str]:
    failed: list[str] = []
    for listed in _NODE_FAILURE.findall(error):
        try:
            failed += [name for name in map(name_of, expand(listed)) if name in nodes]
        except BadInput:
            continue
    return failed
