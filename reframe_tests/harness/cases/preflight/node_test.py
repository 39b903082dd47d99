"""The base class of tests of nodes: one job reads what each node of a partition is set to; no MPI is started.

Its cases are those of ReFrame's own environment ``builtin``, since they are the same whichever stack is measured afterwards.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.backends import getlauncher
from reframe.core.builtins import run_after, run_before, sanity_function, variable
from reframe.core.exceptions import ReframeError, SanityError

from ...mpis import registry as mpis
from ...samples import CONTRADICTED, MISSING, PROVEN, Evidence
from ...sites import selected_tests, site
from ...sites.session import provenance
from ...vocabulary import BadInput
from ..job import ending, parameters, without_mpi
from . import node_answers, node_facts, node_judgement, out_of_service, rules

#: Scheduler to the launcher that starts one program on each node of a job; the local one has one node.
LAUNCHERS = {**without_mpi.LAUNCHERS, "local": "local"}
#: Name of the group, as stored.
GROUP = "preflight"

parameters.warn_once()


class NodeTest(rfm.RunOnlyRegressionTest):
    """Reads each node's facts in one job, one task a node, and judges them by the system's rules."""

    #: What is stored as the case's group.
    #:
    #: :type: :class:`str`
    #: :default: ``preflight``
    group = variable(str, value=GROUP, loggable=True)

    #: Accepted for the sake of ReFrame's modes; a node has no levels.
    #:
    #: :type: :class:`str`
    #: :default: ``nightly``
    level = variable(str, value="nightly", loggable=True)

    #: Nodes to look at.
    #:
    #: :type: :class:`int`, or text that is read as such, since ReFrame answers other text with a traceback
    #: :default: ``0``: all that are idle (ReFrame's ``--flex-alloc-nodes`` says which these are)
    node_count = variable(str, int, value=0, loggable=True)

    #: What was looked at, as stored with the session.
    condition = variable(dict, value={}, loggable=True)

    #: Each node's facts and what follows from them, as stored with the session.
    proof = variable(dict, value={}, loggable=True)

    #: What is odd, for programs, as stored with the session.
    odd_nodes = variable(list, value=[], loggable=True)

    #: Nodes of the partition that were not idle and therefore not looked at, by their states, as stored with the session.
    not_idle = variable(dict, value={}, loggable=True)

    #: Nodes of the job that did not answer, as stored with the session.
    silent_nodes = variable(list, value=[], loggable=True)

    #: Those of them that are drained or down, one by one, and whether the site misses them, as stored with the session.
    out_of_service = variable(list, value=[], loggable=True)

    #: Commit of the tests and versions of what runs and judges them (``provenance``), as stored with the session.
    measured_with = variable(dict, value={}, loggable=True)

    #: The nodes were idle a moment ago; where others took them, waiting for all of them at once could take days.
    max_pending_time = "5m"
    executable = "python3"
    descr = "what each node is set to"

    @run_after("init")
    def select_cases(self) -> None:
        """All partitions whose nodes one program can be started on; why others are left out is logged."""
        selected_tests.LOADED.append(self)
        self.tags = {GROUP, "maintenance"}
        self.valid_prog_environs = [without_mpi.ENVIRONMENT]
        self.valid_systems = []
        for partition in parameters.measured_partitions():
            if partition.scheduler.registered_name in LAUNCHERS:
                self.valid_systems.append(partition.fullname)
            else:
                name = partition.scheduler.registered_name
                selected_tests.leave_out(self, partition.fullname, f"{node_answers.NO_LAUNCHER} {name}")

    @run_after("setup")
    def read_rules(self) -> None:
        """The rules that its nodes are judged by."""
        partition = self.current_partition
        if not str(self.node_count).isdecimal():
            raise ReframeError(
                f"-S node_count={self.node_count} is no number of nodes; give 1 or more, or 0 for all that are idle."
            )
        self.node_count = int(self.node_count)
        self._absent: list[str] = []
        self._fabrics = tuple(site.fabrics_of(partition.extras).values())
        try:
            partitions = [each.name for each in self.current_system.partitions]
            rdma = any(fabric.rails and not mpis.transport(fabric.transport).interfaces for fabric in self._fabrics)
            self._rules = rules.load(self.current_system.name, [site.ROOT, *site.LOADED][-1], partitions, rdma=rdma)
        except BadInput as error:
            raise ReframeError(str(error)) from None
        # A dry run asks no scheduler which nodes are idle.
        wanted = self.node_count or (max(site.node_counts_of(partition.extras)) if self.is_dry_run() else 0)
        self.num_tasks = 1 if partition.scheduler.registered_name == "local" else wanted
        self.num_tasks_per_node = 1
        # What another job does there says nothing about the node.
        self.exclusive_access = True
        self.time_limit = "5m"

    @run_before("run")
    def write_job(self) -> None:
        """One task on each node, started by the scheduler's own launcher."""
        self.measured_with = provenance.describe()
        scheduler = self.current_partition.scheduler.registered_name
        self.job.options += ending.submit_options(scheduler)
        self.job.launcher = getlauncher(LAUNCHERS[scheduler])()
        if self.job.launcher.registered_name == "srun":
            # Neither a plugin for MPI nor what one node lacks may keep the others from answering.
            self.job.launcher.options += ["--mpi=none", "--kill-on-bad-exit=0"]
            self.prerun_cmds = [node_answers.PRINT_NODES]
        described = dict.fromkeys(device for fabric in self._fabrics for device in fabric.devices)
        self.executable_opts = [str(node_facts.PROGRAM), *described]
        self.condition = {"group": GROUP, "stack": without_mpi.ENVIRONMENT, "nodes": self.num_tasks, "ppn": 1}
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
            self.out_of_service = out_of_service.as_stored([*out_of_service.find(nodes, must), *reserved])
            known = [*(node.name for node in nodes), *(one.node for one in reserved)]
            self._absent = out_of_service.find_absent(known, must)

    @sanity_function
    def prove_nodes(self) -> bool:
        """Fail with a sentence for each node that did not answer, and each fact that is not as it must be."""
        local = self.current_partition.scheduler.registered_name == "local"
        try:
            printed = (Path(self.stagedir) / str(self.stdout)).read_text(errors="replace")
        except FileNotFoundError:
            raise SanityError(
                f"{node_answers.NEVER_STARTED} (state {self.job.state or 'unknown'}): it waited for longer than "
                f"{self.max_pending_time:g} s because others took nodes that had been idle, or somebody cancelled it"
            ) from None
        nodes, wrong = node_answers.parse(printed)
        there = () if local else node_answers.job_nodes(printed)
        if not local and not there:
            wrong.append("the job does not say which nodes it had (scontrol show hostnames)")
        self.silent_nodes = [name for name in there if name not in nodes]
        wrong += node_answers.find_missing(nodes, there, max(self.job.num_tasks or 1, 1))
        if wrong:
            end = ending.JobEnd("" if local else self.job.jobid or "", self.job.state or "", self.job.exitcode)
            wrong += node_answers.explain(end, (Path(self.stagedir) / str(self.stderr)).read_text(errors="replace"))
        nodes = node_answers.of_job(nodes, there)
        odd = node_judgement.judge(nodes, self._rules, self.current_partition.name, self._fabrics)
        gone = out_of_service.read(self.out_of_service)
        failed = [*out_of_service.missed(gone), *self._absent, *node_judgement.texts([one for one in odd if not one.note])]
        notes = node_judgement.texts([one for one in odd if one.note])
        unseen = node_judgement.find_unseen(nodes, self._rules, self.current_partition.name)
        self.odd_nodes = [one.as_dict() for one in odd]
        self.condition = {**self.condition, "nodes": len(nodes)}
        self.proof = Evidence(
            status=MISSING if wrong else CONTRADICTED if failed else PROVEN,
            sentences=(*wrong, *failed),
            ranks=(),
            library_version="",
            library="",
            devices=(),
            transport="",
            seconds=(),
            notes=(*node_answers.describe_others(self.not_idle), *out_of_service.others(gone), *notes, *unseen),
            kernel=tuple(_row(node, facts) for node, facts in sorted(nodes.items())),
        ).as_dict()
        if wrong or failed:
            raise SanityError("; ".join([*wrong, *failed]))
        return True


def _row(node: str, facts: node_answers.NodeFacts) -> dict[str, Any]:
    """A node's facts in one row, ``mtu_bytes of eth0`` for those with an instance."""
    return {
        "node": node,
        **{f"{fact} of {one}" if one else fact: value for fact, values in facts.items() for one, value in values.items()},
    }
