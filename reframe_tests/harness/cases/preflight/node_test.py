"""The base class of tests of nodes: one job reads the settings of each node of a partition; no MPI
is started.

Its cases use ReFrame's own environment ``builtin``, because they are the same for all stacks.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
from reframe.core.backends import getlauncher
from reframe.core.builtins import run_before, variable
from reframe.core.exceptions import ReframeError

from ...mpis import registry as mpis
from ...printable import clause
from ...samples import CONTRADICTED, MISSING, PROVEN, Evidence
from ...sites import site, systems
from ...vocabulary import BadInput
from ..job import batch, parameters
from ..job.parameters import GroupPlaces
from ..measured_test import ENVIRONMENT, LAUNCHERS, ProvenTest, Reading
from . import node_answers, node_facts, node_judgement, rules

#: Scheduler to the launcher that starts one program on each node
#: of a job; the local one has one node.
STARTERS = {**LAUNCHERS, "local": "local"}
#: Name of the group, as stored.
GROUP = "preflight"

parameters.warn_once()


class NodeTest(ProvenTest):
    """Reads each node's facts in one job, one task a node, and
    judges them by the system's rules.
    """

    group = GROUP

    #: Nodes to look at. Text is read as a number, since ReFrame answers other text with a
    #: traceback. Default: ``0``: all that are idle (ReFrame's ``--flex-alloc-nodes`` says which
    #: these are).
    node_count = variable(str, int, value=0, loggable=True)

    #: What is odd, for programs, as stored with the session.
    odd_nodes = variable(list, value=[], loggable=True)

    #: Nodes of the partition that were not idle and therefore not looked at,
    #: by their states, as stored with the session.
    not_idle = variable(dict, value={}, loggable=True)

    #: Nodes of the job that did not answer, as stored with the session.
    silent_nodes = variable(list, value=[], loggable=True)

    #: Whether the job was given up, or cancelled, while it waited for its
    #: nodes, as stored with the session: Slurm makes no output for it.
    never_started = variable(bool, value=False, loggable=True)

    #: Those of them that are drained or down, one by one, and whether the
    #: site misses them, as stored with the session.
    out_of_service = variable(list, value=[], loggable=True)

    #: The nodes were idle a moment ago; where others took them, waiting
    #: for all of them at once could take days.
    max_pending_time = "5m"
    executable = "python3"
    descr = "the settings of each node"

    @classmethod
    def places(cls, point: Mapping[str, Any]) -> GroupPlaces:
        reasons = {}
        for partition in parameters.measured_partitions():
            scheduler = partition.scheduler.registered_name
            reasons[partition.fullname] = (
                "" if scheduler in STARTERS else f"{node_answers.NO_LAUNCHER} {scheduler}"
            )
        return parameters.places_without(reasons)

    def conditions(self) -> None:
        partition = self.current_partition
        if not str(self.node_count).isdecimal():
            raise BadInput(
                "bad-option",
                f"-S node_count={self.node_count} is not a number of nodes; give 1 or more, or 0 "
                "for all idle ones.",
            )
        self.node_count = int(self.node_count)
        self.keep_files = [node_answers.FOLDER]
        self._absent: list[str] = []
        self._gone: list[node_answers.OutOfService] = []
        self._fabrics = tuple(site.fabrics_of(partition.extras).values())
        self._gpus = systems.gpus_of(partition.extras)
        self._kind = partition.extras.get("gpus", {}).get("kind", "")
        if self._gpus:  # the vendor's tool lists those of the job
            batch.ask_for_gpus(self, len(self._gpus))
        partitions = [row.name for row in self.current_system.partitions]
        rdma = any(
            fabric.rails and not mpis.transport(fabric.transport).interfaces
            for fabric in self._fabrics
        )
        self._rules = rules.load(
            self.current_system.name, [site.ROOT, *site.LOADED][-1], partitions, rdma=rdma
        )
        # A dry run asks no scheduler which nodes are idle.
        wanted = self.node_count or (
            max(site.node_counts_of(partition.extras)) if self.is_dry_run() else 0
        )
        self.num_tasks = 1 if self.scheduler == "local" else wanted
        self.num_tasks_per_node = 1
        self.time_limit = "5m"

    @run_before("run")
    def write_job(self) -> None:
        """One task on each node, started by the scheduler's own launcher."""
        super().write_job()
        self.job.launcher = getlauncher(STARTERS[self.scheduler])()
        self.prerun_cmds = [node_answers.MAKE_FOLDER]
        under_slurm = self.job.launcher.registered_name == "srun"
        if under_slurm:
            # Neither a plugin for MPI nor what one node lacks may keep the others from answering.
            self.job.launcher.options += ["--mpi=none", "--kill-on-bad-exit=0"]
            self.prerun_cmds += [node_answers.WRITE_NODES]
        described = dict.fromkeys(device for fabric in self._fabrics for device in fabric.devices)
        asked = [node_facts.ASK] if self._gpus else []
        self.executable_opts = [str(node_facts.PROGRAM), node_answers.FOLDER, *asked, *described]
        self.condition = {"group": GROUP, "stack": ENVIRONMENT, "nodes": self.num_tasks, "ppn": 1}
        if under_slurm and not self.node_count and not self.is_dry_run():
            self._look_for_others()

    def _look_for_others(self) -> None:
        """Which nodes of the partition are not looked at."""
        scheduler = self.job.scheduler
        must = self.current_partition.extras.get(node_answers.IN_SERVICE, [])
        try:
            everything = scheduler.allnodes()
            nodes = scheduler.filternodes(self.job, everything)
        except ReframeError as error:
            raise ReframeError(f"cannot tell which nodes are idle: {error}") from None
        self.not_idle = node_answers.count_states(node.states for node in nodes)
        choose = functools.partial(scheduler.filternodes, self.job)
        reserved = node_answers.find_reserved(everything, choose, nodes, must) if must else []
        self._gone = [*node_answers.find_out_of_service(nodes, must), *reserved]
        self.out_of_service = [asdict(node) for node in self._gone]
        known = [*(node.name for node in nodes), *(node.node for node in reserved)]
        self._absent = node_answers.find_absent(known, must)

    def read(self) -> Reading:
        local = self.scheduler == "local"
        directory = Path(self.stagedir)
        if not (directory / str(self.stdout)).exists():
            self.never_started = True
            never = (
                f"the job never started (state {self.job.state or 'unknown'}): it waited more than "
                f"{self.max_pending_time:g} s because other jobs took the idle nodes, or it was "
                "cancelled"
            )
            return Reading([], None, [never])
        nodes, wrong = node_answers.read(directory)
        there = () if local else node_answers.job_nodes(directory)
        if not local and not there:
            wrong.append("the job did not record its nodes (scontrol show hostnames)")
        self.silent_nodes = [name for name in there if name not in nodes]
        wrong += node_answers.find_missing(nodes, there, max(self.job.num_tasks or 1, 1))
        if wrong:
            end = replace(self.job_end(), nodes=())  # which may be thousands
            wrong += [
                f"{end.name}: {clause(sentence)}" for sentence in batch.judge(end)
            ] + self.error_sentences()
        nodes = node_answers.of_job(nodes, there)
        odd = node_judgement.judge(
            nodes, self._rules, self.current_partition.name, self._fabrics, self._gpus, self._kind
        )
        failed = [*node_answers.missed(self._gone), *self._absent]
        failed += node_judgement.texts(row for row in odd if not row.note)
        notes = [*node_answers.describe_others(self.not_idle), *node_answers.others(self._gone)]
        notes += node_judgement.texts(row for row in odd if row.note)
        notes += node_judgement.find_unseen(
            nodes, self._rules, self.current_partition.name, gpus=bool(self._gpus)
        )
        self.odd_nodes = msgspec.to_builtins(odd)
        self.condition = {**self.condition, "nodes": len(nodes)}
        kernel = []
        for node, facts in sorted(nodes.items()):
            named = [
                (f"{fact} of {at}" if at else fact, value)
                for fact, rows in facts.items()
                for at, value in rows.items()
            ]
            kernel.append({"node": node, **dict(named)})
        evidence = Evidence(
            status=MISSING if wrong else CONTRADICTED if failed else PROVEN,
            sentences=(*wrong, *failed),
            notes=tuple(notes),
            kernel=tuple(kernel),
        )
        return Reading([], evidence, [*wrong, *failed])
