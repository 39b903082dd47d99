"""The base class of tests of nodes: one job reads what each node of a partition is set to; no MPI is started.

Its cases are those of ReFrame's own environment ``builtin``, since they are the same whichever stack is measured afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from reframe.core.backends import getlauncher
from reframe.core.builtins import run_before, variable
from reframe.core.exceptions import ReframeError

from ...mpis import registry as mpis
from ...samples import CONTRADICTED, MISSING, PROVEN, Evidence
from ...sites import site
from ...vocabulary import BadInput
from ..job import ending, parameters
from ..job.parameters import Places
from ..measured_test import ENVIRONMENT, LAUNCHERS, ProvenTest, Reading
from . import node_answers, node_facts, node_judgement, out_of_service, rules

#: Scheduler to the launcher that starts one program on each node of a job; the local one has one node.
STARTERS = {**LAUNCHERS, "local": "local"}
#: Name of the group, as stored.
GROUP = "preflight"

parameters.warn_once()


class NodeTest(ProvenTest):
    """Reads each node's facts in one job, one task a node, and judges them by the system's rules."""

    group = GROUP

    #: Nodes to look at.
    #:
    #: :type: :class:`int`, or text that is read as such, since ReFrame answers other text with a traceback
    #: :default: ``0``: all that are idle (ReFrame's ``--flex-alloc-nodes`` says which these are)
    node_count = variable(str, int, value=0, loggable=True)

    #: What is odd, for programs, as stored with the session.
    odd_nodes = variable(list, value=[], loggable=True)

    #: Nodes of the partition that were not idle and therefore not looked at, by their states, as stored with the session.
    not_idle = variable(dict, value={}, loggable=True)

    #: Nodes of the job that did not answer, as stored with the session.
    silent_nodes = variable(list, value=[], loggable=True)

    #: Those of them that are drained or down, one by one, and whether the site misses them, as stored with the session.
    out_of_service = variable(list, value=[], loggable=True)

    #: The nodes were idle a moment ago; where others took them, waiting for all of them at once could take days.
    max_pending_time = "5m"
    executable = "python3"
    descr = "what each node is set to"

    @classmethod
    def places(cls, point: Mapping[str, Any]) -> Places:
        """All partitions whose nodes one program can be started on."""
        reasons = {}
        for partition in parameters.measured_partitions():
            scheduler = partition.scheduler.registered_name
            reasons[partition.fullname] = "" if scheduler in STARTERS else f"{node_answers.NO_LAUNCHER} {scheduler}"
        return parameters.places_without(reasons)

    def conditions(self) -> None:
        """The rules that its nodes are judged by."""
        partition = self.current_partition
        if not str(self.node_count).isdecimal():
            raise BadInput(
                "setting-range",
                f"-S node_count={self.node_count} is no number of nodes; give 1 or more, or 0 for all that are idle.",
            )
        self.node_count = int(self.node_count)
        self._absent: list[str] = []
        self._gone: list[out_of_service.OutOfService] = []
        self._fabrics = tuple(site.fabrics_of(partition.extras).values())
        partitions = [row.name for row in self.current_system.partitions]
        rdma = any(fabric.rails and not mpis.transport(fabric.transport).interfaces for fabric in self._fabrics)
        self._rules = rules.load(self.current_system.name, [site.ROOT, *site.LOADED][-1], partitions, rdma=rdma)
        # A dry run asks no scheduler which nodes are idle.
        wanted = self.node_count or (max(site.node_counts_of(partition.extras)) if self.is_dry_run() else 0)
        self.num_tasks = 1 if self.scheduler == "local" else wanted
        self.num_tasks_per_node = 1
        self.time_limit = "5m"

    @run_before("run")
    def write_job(self) -> None:
        """One task on each node, started by the scheduler's own launcher."""
        super().write_job()
        self.job.launcher = getlauncher(STARTERS[self.scheduler])()
        if self.job.launcher.registered_name == "srun":
            # Neither a plugin for MPI nor what one node lacks may keep the others from answering.
            self.job.launcher.options += ["--mpi=none", "--kill-on-bad-exit=0"]
            self.prerun_cmds = [node_answers.PRINT_NODES]
        described = dict.fromkeys(device for fabric in self._fabrics for device in fabric.devices)
        self.executable_opts = [str(node_facts.PROGRAM), *described]
        self.condition = {"group": GROUP, "stack": ENVIRONMENT, "nodes": self.num_tasks, "ppn": 1}
        if not self.node_count and self.job.launcher.registered_name == "srun" and not self.is_dry_run():
            try:
                everything = self.job.scheduler.allnodes()
                nodes = self.job.scheduler.filternodes(self.job, everything)
            except ReframeError as error:
                raise ReframeError(f"which nodes are idle is not known: {error}") from None
            self.not_idle = node_answers.count_states(node.states for node in nodes)
            must = self.current_partition.extras.get(out_of_service.KEY, [])
            choose = functools.partial(self.job.scheduler.filternodes, self.job)
            reserved = out_of_service.find_reserved(everything, choose, nodes, must) if must else []
            self._gone = [*out_of_service.find(nodes, must), *reserved]
            self.out_of_service = out_of_service.as_stored(self._gone)
            known = [*(node.name for node in nodes), *(node.node for node in reserved)]
            self._absent = out_of_service.find_absent(known, must)

    def read(self) -> Reading:
        """Each node that did not answer, and each fact that is not as it must be."""
        local = self.scheduler == "local"
        try:
            printed = (Path(self.stagedir) / str(self.stdout)).read_text(errors="replace")
        except FileNotFoundError:
            never = (
                f"{node_answers.NEVER_STARTED} (state {self.job.state or 'unknown'}): it waited for longer than "
                f"{self.max_pending_time:g} s because others took nodes that had been idle, or somebody cancelled it"
            )
            return Reading([], None, [never])
        nodes, wrong = node_answers.parse(printed)
        there = () if local else node_answers.job_nodes(printed)
        if not local and not there:
            wrong.append("the job does not say which nodes it had (scontrol show hostnames)")
        self.silent_nodes = [name for name in there if name not in nodes]
        wrong += node_answers.find_missing(nodes, there, max(self.job.num_tasks or 1, 1))
        if wrong:
            end = replace(self.job_end(), nodes=())  # which may be thousands
            wrong += [f"{end.name}: {sentence.rstrip('.')}" for sentence in ending.judge(end)] + self.error_said()
        nodes = node_answers.of_job(nodes, there)
        odd = node_judgement.judge(nodes, self._rules, self.current_partition.name, self._fabrics)
        failed = [*out_of_service.missed(self._gone), *self._absent]
        failed += node_judgement.texts([one for one in odd if not one.note])
        notes = node_judgement.texts([one for one in odd if one.note])
        unseen = node_judgement.find_unseen(nodes, self._rules, self.current_partition.name)
        self.odd_nodes = [one.as_dict() for one in odd]
        self.condition = {**self.condition, "nodes": len(nodes)}
        evidence = Evidence(
            status=MISSING if wrong else CONTRADICTED if failed else PROVEN,
            sentences=(*wrong, *failed),
            notes=(*node_answers.describe_others(self.not_idle), *out_of_service.others(self._gone), *notes, *unseen),
            kernel=tuple(_row(node, facts) for node, facts in sorted(nodes.items())),
        )
        return Reading([], evidence, [*wrong, *failed])


def _row(node: str, facts: node_answers.NodeFacts) -> dict[str, Any]:
    """A node's facts in one row, ``mtu_bytes of eth0`` for those with an instance."""
    return {
        "node": node,
        **{f"{fact} of {one}" if one else fact: value for fact, values in facts.items() for one, value in values.items()},
    }
