"""The base class of fabric tests: one job measures one group of the catalogue under one condition,
with proof.

A test file adds a leaf of a few lines that names its group. Everything else is parameters and
tables.
"""

from __future__ import annotations

import re
import secrets
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import reframe.core.runtime as rt
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, variable

from ..evidence import data_check, recorder
from ..printable import without_secrets
from ..sites import planned_cases, references, site
from ..stacks import metadata
from ..stacks.stack import LOGS, Stack
from ..suites import catalogue, options
from ..vocabulary import ALL_NODES, ALL_NODES_WORD, QUANTITIES, BadInput
from .job import batch, condition, interleaved, modules, parameters, script
from .job.condition import Asked, Condition, Partition
from .measured_test import MeasuredTest, Reading, Value
from .results import derived, measurement

#: Quantity of the physics layer.
FRACTION = QUANTITIES["line_rate_fraction"]
#: Seconds in which an MPI starts and ends, and of the check of received data; times that a size is
#: sent because programs warm up (:mod:`..suites.benchmark`); and how much longer than in the last
#: nights a case may take.
START_S = 15
CHECK_S = 60
WARMED_UP = 2
MOST_TIMES = 3

parameters.warn_once()


class FabricTest(MeasuredTest):
    """Measures one group under one condition and proves the condition."""

    #: The one pinning under which it is measured each night; under all others only after
    #: maintenance, and never as smoke test. Default: none: each night under every policy, and in
    #: the smoke slice.
    nightly_pinning = variable(str, value="")

    #: Whether nights measure it; otherwise it is run after maintenance only.
    nightly = variable(bool, value=True)

    #: Stack whose launches are interleaved with those of the case's
    #: own, on the same nodes in the same job.
    paired_stack = variable(str, value="", loggable=True)

    #: Options of the suite's programs, over those of the site
    #: (``suite_options`` of the partition's extras).
    suite_options = variable(typ.Dict[str, str], value={}, loggable=True)

    #: ``yes``: with the tuned settings of the stack under this condition,
    #: as ``mpibench tune`` made and proved them.
    tuned = variable(str, value="no", loggable=True)

    #: What the paired stack measured, with its condition and proof;
    #: the name is that of stored sessions.
    rival_run = variable(dict, value={}, loggable=True)

    #: Fabric as the site names it. Values: fabrics of the selected system.
    fabric = parameter(parameters.fabrics_of_system(), type=str, loggable=True)

    #: Nodes of the job. Values: 1 for fabrics inside a node, the partition's ``node_counts`` for
    #: the others (between two ranks the smallest); any other number through ``-P nodes=``; ``all``
    #: where these grow.
    nodes = parameter(parameters.node_counts_of_system(), type=batch.node_count, loggable=True)

    #: Processes per node, resolved on the partition's topology. Values: those of ``1``, ``2``,
    #: ``numa``, ``socket``, ``half``, ``full`` that differ, or any number through ``-P ppn=``.
    ppn = parameter(parameters.ppn_of_system(), type=str, loggable=True)

    #: Pinning policy. Values: ``default``, ``none``, ``bunch``, ``scatter``, and ``nic_local``,
    #: ``nic_remote`` where rails have a NUMA node.
    pinning = parameter(parameters.policies_of_system(), type=str, loggable=True)

    #: Resolved processes per node; indexes the learned references.
    ranks_per_node = variable(int, value=0, loggable=True)

    #: When the job script began, UTC, by the clock of its node; empty if it
    #: left nothing. What it waited is before that.
    job_started = variable(str, value="", loggable=True)

    #: What two suites say of the same link (:mod:`.results.derived`), as stored with the session.
    agreement = variable(list, value=[], loggable=True)

    #: Of a partition's node counts, in ascending order, those it is measured
    #: on unless others are requested (``-P nodes=``).
    choose_counts: parameters.ChooseCounts = staticmethod(lambda counts: counts)

    executable = "measure"
    max_pending_time: Any

    @run_after("init")
    def select_cases(self) -> None:
        """Ask for partitions with this fabric and stacks with this group's benchmarks."""
        super().select_cases()
        logs = [script.LAUNCH_LOG, script.START_LOG, *script.DIGEST_LOGS, script.OUTPUT_LOG, LOGS]
        self.keep_files = ["*.out", "*.err", "*.debug*", "evidence", *logs]
        stacks = self._where.stacks
        self.valid_prog_environs = (
            catalogue.stack_selection(self.group) if stacks is None else list(stacks)
        )

    @classmethod
    def tags_of(cls, point: Mapping[str, Any]) -> set[str]:
        """Among others ``production``: what fits into a night; ``smoke``: one or two placements;
        ``core``: what fits on a batch system.
        """
        tags = super().tags_of(point) | {point["fabric"]}
        policies = parameters.policies_of_system()
        once = str(cls.nightly_pinning)
        # One explicit placement where there is one, so that the smoke
        # slice also shows that pinning works.
        usual = next((name for name in (once, "bunch") if name in policies), policies[0])
        if cls.nightly and (not once or point["pinning"] == usual):
            tags.add("production")
        if cls.nightly and not once and point["ppn"] in ("1", "2") and point["pinning"] == usual:
            tags.add("smoke")
        core = [row for row in site.CORE if cls.__name__ in row.tests and point["pinning"] == usual]
        if any(
            parameters.is_core(row, point["fabric"], point["nodes"], point["ppn"]) for row in core
        ):
            tags.add(site.CORE_TAG)
        return tags

    @classmethod
    def places(cls, point: Mapping[str, Any]) -> parameters.GroupPlaces:
        space = cls.param_space.params
        orders = (tuple(space["ppn"].values), tuple(space["pinning"].values))
        where = (point["fabric"], point["nodes"], point["ppn"], point["pinning"])
        choose = None if parameters.are_asked(space["nodes"]) else cls.choose_counts
        # A class has ReFrame's variable there, and comparing one
        # takes as long as all else: the text.
        return parameters.places_of(
            tuple(rt.runtime().system.partitions), str(cls.group), *where, orders, choose
        )

    def conditions(self) -> None:
        partition = self.current_partition
        parameters.require_topology(partition)
        self._stack = metadata.read(Path(self.current_environ.extras["stack"]))
        self._paired = None
        # ReFrame would expand the values (osext.expandvars runs what stands in $(), even in a dry
        # run) and write them into the script as they stand. The script sets them itself, quoted;
        # what the user sets (-S env_vars=...) wins over the rest.
        self._chosen = dict(self.env_vars)
        self.env_vars: dict[str, str] = {}
        if unusable := [
            name for name in self._chosen if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
        ]:
            raise BadInput(
                "bad-option",
                f"env_vars: '{unusable[0]}' is not a valid variable name; use letters, digits and "
                "_",
            )
        planned_cases.check(self.display_name, partition.name, self.current_environ.name)
        modules.require_system(self._stack, rt.runtime().modules_system.name)
        self._options = parameters.suite_options(partition, self.group, self.suite_options)
        self._nodes = batch.count_nodes(
            self.nodes, self.group, self.job, partition.extras, dry_run=self.is_dry_run()
        )
        self._condition = self._resolve(self._stack)
        limits = catalogue.Limits(
            self._condition.fabric.planned_rate_gbit_per_s, partition.extras.get("most_repetitions")
        )
        self._launches = self._plan(limits, self._condition)
        if self.paired_stack:
            theirs = self._resolve(interleaved.find(self.paired_stack, self._stack))
            self._paired = interleaved.pair(self._condition, theirs, self._plan(limits, theirs))
        # Where nothing is timed, once is enough.
        self._executions = self.repeats if any(launch.expected for launch in self._launches) else 1
        self.num_tasks = self._condition.ranks
        self.num_tasks_per_node = self.ranks_per_node = self._condition.ppn
        if self._condition.fabric.memory.on_gpu:
            batch.ask_for_gpus(self, len(self._condition.fabric.gpus))
        self._asked_for = planned_cases.nodes_of(
            self.display_name, partition.name, self.current_environ.name
        )
        if not self.max_pending_time and (self._asked_for or self.nodes == ALL_NODES):
            self.max_pending_time = (
                batch.PATIENCE if self.nodes == ALL_NODES else batch.PATIENCE_BY_NAME
            )

    def _resolve(self, stack: Stack) -> Condition:
        space = type(self).param_space.params
        partition = self.current_partition
        orders = (tuple(space["ppn"].values), tuple(space["pinning"].values))
        fabric = site.fabrics_of(partition.extras)[self.fabric]
        library = catalogue.library_of(self.group)
        asked = Asked(fabric, self._nodes, self.ppn, self.pinning, orders, library)
        resolved = condition.resolve(stack, asked, Partition.of(partition), self._chosen)
        if self.tuned not in ("yes", "no"):
            raise BadInput(
                "bad-option", f"tuned={self.tuned} is neither yes nor no; give one of them."
            )
        return (
            condition.apply_tuned(self.current_system.name, resolved)
            if self.tuned == "yes"
            else resolved
        )

    def _plan(self, limits: catalogue.Limits, where: Condition) -> tuple[catalogue.Launch, ...]:
        timed = self.plan_launches(limits, where)
        # What does not communicate through MPI compares its data itself.
        compared = not catalogue.library_of(self.group) and any(launch.expected for launch in timed)
        check = data_check.launch(self.group, where.stack, where.ranks) if compared else None
        return (*([check] if check else ()), *timed)

    def plan_launches(
        self, limits: catalogue.Limits, where: Condition | None = None
    ) -> tuple[catalogue.Launch, ...]:
        """What the job starts under a condition (by default its own), from the catalogue."""
        where = where or self._condition
        asked = (
            self.level,
            where.nodes,
            limits,
            self._options,
            where.fabric.memory,
            where.setting.memory.without,
        )
        return catalogue.launches(self.group, where.stack, where.ranks, *asked)

    def _longest_s(self, commands: Sequence[script.Command]) -> float:
        """Seconds that the job may take: all launches as long as they usually
        do, and one that hangs, which ends the job.
        """
        bounded = self._limit_given or bool(self._condition.oversubscribed)
        launches = {} if bounded else {launch.name: launch for launch in self._launches}
        seconds = (
            (_usual_s(launches.get(row.name), self.group, self.level, self.limit_s), row)
            for row in commands
        )
        usual = sum(took * (1 if command.once else self._executions) for took, command in seconds)
        took = planned_cases.seconds_of(
            self.display_name, self.current_partition.name, self.current_environ.name
        )
        return float((min(usual, MOST_TIMES * took) if took else usual) + self.limit_s + 60)

    def commands(self) -> None:
        """The interleaved repeats; the job itself starts the stack's own launcher."""
        partition = self.current_partition
        self._limit_given = bool(self.limit_s)
        self._job_key = secrets.token_hex(4)
        self.limit_s = self.limit_s or catalogue.LEVELS[self.level].limit_s
        batch.ask_for_one_node(self.job, partition, self._condition.nodes)
        batch.ask_for_nodes(self.job, partition, self._condition.nodes, self._asked_for)
        launcher = self._condition.launcher_words(
            self.job.launcher.command(self.job), self.job.launcher.options
        )
        commands = self._list_commands()
        self.time_limit = f"{self._longest_s(commands):.0f}s"
        self.prerun_cmds = [
            *batch.start_lines(self.scheduler, partition.access),
            *modules.write_check(self._stack),
            *(
                modules.write_check(self._paired.condition.stack, paired=True)
                if self._paired
                else ()
            ),
            *(f"export {name}={word}" for name, word in self._condition.assignments.items()),
            *self._condition.prepare,
            *(self._paired.condition.prepare if self._paired else ()),
            *script.write_body(
                commands,
                repeats=self._executions,
                limit_s=self.limit_s,
                recorder=str(recorder.locate()),
                debug_env=self._condition.debug_env,
                owner=script.Owner.this_process() if self.scheduler == "local" else None,
                job_key=self._job_key,
                digested=self._digested(),
                digested_inside=self._digested_inside(),
            ),
        ]
        self.condition = {
            **self._condition.as_dict(),
            **({"nodes_symbol": ALL_NODES_WORD} if self.nodes == ALL_NODES else {}),
            "launcher": without_secrets("", " ".join(launcher)),
            **self._stored(self._condition, self._launches),
        }
        if self._paired:
            self.condition["in_turn_with"] = self.paired_stack
            theirs = {**self._paired.condition.as_dict(), "in_turn_with": self._stack.name}
            self.rival_run = {
                "condition": theirs | self._stored(self._paired.condition, self._paired.launches)
            }

    def _both(self) -> list[tuple[Stack, Sequence[catalogue.Launch]]]:
        paired = self._paired
        own = (self._condition.stack, self._launches)
        return [own, (paired.condition.stack, paired.launches)] if paired else [own]

    def _digested(self) -> list[str]:
        return list(
            dict.fromkeys(
                path
                for stack, launches in self._both()
                for path in script.digested_files(stack, launches)
                if path not in stack.inside
            )
        )

    def _digested_inside(self) -> list[list[str]]:
        rows = [
            (stack, [path for path in script.digested_files(stack, launches) if path in inside])
            for stack, launches in self._both()
            if (inside := stack.inside)
        ]
        return [[*stack.enter, "sha256sum", *files] for stack, files in rows]

    def _stored(self, where: Condition, launches: Sequence[catalogue.Launch]) -> dict[str, Any]:
        """What is stored of the launches of a condition: what ran, by
        digests, and options of the suite.
        """
        files = {
            Path(path).name: where.stack.files[path]["sha256"]
            for path in script.digested_files(where.stack, launches)
        }
        asked = options.as_stored(self._options, launches) if self._options else {}
        return {**({"programs": files} if files else {}), **asked}

    def _list_commands(self) -> list[script.Command]:
        started = (self.job.launcher.command(self.job), self.job.launcher.options)
        own = self._condition
        commands = interleaved.list_commands(own, self._launches, own.launcher_words(*started))
        if self._paired:
            theirs = self._paired.condition
            launches = self._paired.launches
            commands += interleaved.list_commands(
                theirs, launches, theirs.launcher_words(*started), own
            )
        return commands

    def read(self) -> Reading:
        self.job_started = script.read_start(
            script.beginning_of(Path(self.stagedir) / script.START_LOG)
        )
        outcome = self._evaluate(self._condition, self._launches)
        self.condition = {**self.condition, **outcome.added}
        sentences = outcome.sentences
        if self._paired:
            other = self._evaluate(self._paired.condition, self._paired.launches)
            theirs = {**self.rival_run["condition"], **other.added}
            samples = [sample.as_dict() for sample in other.samples]
            self.rival_run = {"condition": theirs, "samples": samples, "proof": other.proof}
            sentences += other.sentences
        return Reading(outcome.samples, outcome.evidence, sentences)

    def _evaluate(
        self, where: Condition, launches: tuple[catalogue.Launch, ...]
    ) -> measurement.JobOutcome:
        return self._judge_launches(where, launches, self._executions)

    def _judge_launches(
        self, where: Condition, launches: Sequence[catalogue.Launch], repeats: int
    ) -> measurement.JobOutcome:
        return measurement.evaluate(
            where,
            launches,
            repeats,
            self.limit_s,
            Path(self.stagedir),
            self.job_end(),
            self._job_key,
        )

    def metrics(self) -> dict[str, Value]:
        """Every size of every metric, shares of the line rate, agreement of suites, and growth with
        the nodes.
        """
        where = self._condition
        least = catalogue.LEVELS[self.level].link_share * where.fabric.share_used(where.rank_numa)
        samples = (
            {}
            if self.is_dry_run()
            else {measurement.metric_of(sample): sample for sample in self._samples}
        )
        medians = {
            name: float(statistics.median(sample.measured))
            for name, sample in samples.items()
            if sample.measured
        }
        values: dict[str, Value] = {}
        for row in catalogue.metrics(self._launches):
            value = medians.get(row.name)
            values[row.name] = Value(value, row.unit, row.gated)
            link = references.physics_reference(
                where.fabric, least * row.link_share, where.pinning, row.most
            )
            # Of an oversubscribed job ranks wait for each other's cores and not for the link.
            if link and row.directions and not where.oversubscribed:
                share = (
                    None
                    if value is None
                    else references.line_rate_fraction(value, where.fabric, row.directions)
                )
                values[row.share_name] = Value(
                    share, FRACTION.unit, physics=link if row.link_share else None
                )
        compared = derived.compare_suites(
            {(s.benchmark, s.quantity, s.message_bytes): s.values for s in samples.values()}
        )
        for agreement in compared:
            name = catalogue.metric_name(
                agreement.first, f"over_{agreement.second}", agreement.message_bytes
            )
            values[name] = Value(agreement.ratio, FRACTION.unit)
            self.agreement = [*self.agreement, agreement.as_dict()]
        # Of an oversubscribed job the smaller node counts may have a core
        # for each rank, and are another measurement.
        for grown in derived.compare_nodes(
            () if self._condition.oversubscribed else samples.values(), self.ranks_per_node
        ):
            name = catalogue.metric_name(
                grown.benchmark, "over_log2", grown.message_bytes, grown.variant
            )
            values[name] = Value(grown.ratio, FRACTION.unit)
        return values


class MaintenanceTest(FabricTest):
    """Measures one group after maintenance and by name, not each night, and
    under one pinning: bunch, where there is one.

    ``-P pinning=...`` asks for others.
    """

    nightly = False

    #: Pinning policy. Values: ``bunch``, or the first policy there
    #: is; any other through ``-P pinning=``.
    pinning = parameter(parameters.usual_policy_of_system(), type=str, loggable=True)


class UnboundMaintenanceTest(MaintenanceTest):
    """As :class:`MaintenanceTest`, without pinning: threads and processes of
    one rank would wait for each other on one core.
    """

    #: Pinning policy. Values: ``none``; any other through ``-P pinning=``.
    pinning = parameter(parameters.usual_policy_of_system("none"), type=str, loggable=True)


def _usual_s(launch: catalogue.Launch | None, group: str, level: str, limit_s: int) -> float:
    """Seconds of a launch: what its sizes may take on a link at its
    rate, else as long as a launch may take.

    :param launch: ``None`` if nothing is known of it.
    :param limit_s: seconds after which it is ended.
    """
    if launch is None:
        return float(limit_s)
    if launch.checks_data:
        return float(min(limit_s, CHECK_S))
    planned = [plan.size_ranges.get(level) for plan in catalogue.GROUPS[group].plans]
    # Programs without sizes compute, and those with a budget of seconds take it.
    sized = bool(launch.expected) and all(None not in row.sizes for row in launch.expected)
    if not sized or any(sizes and sizes.budget_s for sizes in planned):
        return float(limit_s)
    sizes = sum(len(row.sizes) * len(row.variants) for row in launch.expected)
    return float(min(limit_s, START_S + WARMED_UP * catalogue.LEVELS[level].link_s * sizes))
