"""What a job requests from its scheduler besides its time, and how it ended according to the
scheduler.

A job that was cut short is not a result, even if its output looks complete: ReFrame waits until a
job is over and then asks only the test; the job's state alone fails nothing.

``nodes=all`` is the number of nodes that are idle when a job is created. ReFrame counts them
(``RegressionTest.num_tasks <= 0`` and ``--flex-alloc-nodes``), but only after the launcher's
command line must be known, so they are counted earlier. The number changes from night to night:
``all`` is a separate node count, only for groups whose metrics are named with node counts, and the
real number is stored beside it. A small part is not the whole machine: if less than a share of the
partition's nodes is idle (``least_idle_share`` of its description), the case fails.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ReframeError

from ... import batch_systems
from ...mpis import registry as mpis
from ...printable import plural
from ...sites import site
from ...suites import benchmark, catalogue
from ...vocabulary import ALL_NODES, ALL_NODES_WORD, SITE_FILES, NotMeasured
from . import script

#: Job states that are no normal end, and what they mean. Slurm's: ``squeue(1)``, "JOB STATE CODES";
#: ``TIMEOUT`` also of ReFrame's local scheduler. A state that is not here says nothing against the
#: job.
BAD_STATES = {
    "BOOT_FAIL": "a node failed to boot",
    "CANCELLED": "somebody cancelled it",
    "DEADLINE": "it reached its deadline",
    "NODE_FAIL": "a node of it died or lost its daemon",
    "OUT_OF_MEMORY": "it ran out of memory",
    "PREEMPTED": "another job took its nodes",
    "REVOKED": "its cluster revoked it",
    "TIMEOUT": "it reached the job's time limit",
}
#: Bytes a job may still need for its outputs; less room than that explains a hole in them.
_ROOM_BYTES = 64 << 10
#: First word of the comment of a job that a ReFrame process waits for:
#: it shows which job's ReFrame was killed.
OWNER = "mpibench"


def start_lines(scheduler: str, options: Sequence[str]) -> list[str]:
    """Lines of a job's script before its launches, so that ranks are given what the script sets.

    A job that is submitted with a clean environment, as centres have it, would start its ranks with
    one as well (sbatch(1), ``--export``; srun(1), SLURM_EXPORT_ENV).
    """
    system = batch_systems.find(scheduler)
    clean = any(word.startswith("--export") for option in options for word in option.split())
    return [f"unset {system.exports}"] if system and system.exports and clean else []


def submit_options(scheduler: str, access: Sequence[str] = ()) -> list[str]:
    """Options for a job of this process: started once only, and marked as
    its own where the scheduler keeps comments.

    :param access: options that come before these, of which the last
        counts: the mark stands behind a comment there.
    """
    system = batch_systems.find(scheduler)
    if system is None:
        return []
    options = list(system.no_requeue)
    if system.comment:
        # ``--comment=TEXT`` as well as ``--comment TEXT``.
        words = [
            part
            for option in access
            for word in shlex.split(option)
            for part in (word.split("=", 1) if word.startswith("--") else [word])
        ]
        own = [text for name, text in pairwise(words) if name == system.comment][-1:]
        mark = f"{OWNER}:{script.Owner.this_process().text}"
        options.append(f"{system.comment}={shlex.quote(' '.join([*own, mark]))}")
    return options


def ask_for_cores(test: Any, scheduler: str, cores: int) -> None:
    """Have the job of a test under PBS Pro or OpenPBS ask for all cores of its nodes.

    Its cgroup hook confines a job to as many CPUs as its chunks ask for (``ncpus``), whatever their
    placement: with ``place=excl`` nobody else has the others, nor has the job
    (``_assign_resources`` of OpenPBS' ``src/hooks/cgroups/pbs_cgroups.PY``). ReFrame asks for one
    CPU a task unless told otherwise, and for the same number for each task of a node.

    :param cores: that a node has for jobs. Hardware threads are not requested: where the hook
        counts cores, such a job never starts.
    """
    if scheduler in batch_systems.PBS_SELECT and not test.num_cpus_per_task:
        test.num_cpus_per_task = max(1, cores // (test.num_tasks_per_node or 1))


@dataclass(frozen=True)
class JobEnd:
    """What is known of the end of a job.

    :param state: the scheduler's word; empty if it has none.
    """

    number: str = ""
    state: str = ""
    exit_status: int | None = None
    nodes: Sequence[str] = ()

    @property
    def name(self) -> str:
        return " ".join(
            filter(None, ("job", self.number, f"on {', '.join(self.nodes)}" if self.nodes else ""))
        )


def judge(end: JobEnd) -> list[str]:
    words = [word for word in end.state.replace("+", "").split(",") if word in BAD_STATES]
    if words:
        return [f"ended in state {word}: {BAD_STATES[word]}." for word in dict.fromkeys(words)]
    if end.exit_status:
        return [f"the job script ended with exit status {end.exit_status}."]
    return []


def judge_room(directory: Path) -> list[str]:
    """Sentences unless a job's directory still takes what an output may
    need; explains holes in what a job wrote.
    """
    try:
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(bytes(_ROOM_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return [
            f"cannot write to the stage directory {directory} ({error.strerror}); free some space."
        ]
    return []


def ask_for_one_node(job: Any, partition: Any, nodes: int) -> None:
    """Give a job on one node the options that it needs under Slurm
    where a fabric of the partition is such.
    """
    if nodes > 1 or partition.scheduler.registered_name not in batch_systems.SLURM.schedulers:
        return
    fabrics = site.fabrics_of(partition.extras).values()
    words = [
        word for fabric in fabrics for word in mpis.transport(fabric.transport).slurm_on_one_node
    ]
    # Another --network is somebody's own choice.
    given = {
        word.partition("=")[0] for word in (*job.options, *job.cli_options, *job.launcher.options)
    }
    words = [word for word in dict.fromkeys(words) if word.partition("=")[0] not in given]
    job.options += words
    if job.launcher.registered_name == "srun":
        job.launcher.options += words


def gpu_resource(
    resources: Mapping[str, Sequence[str]], given: Mapping[str, Mapping[str, Any]] = {}
) -> str:
    """The resource of a partition through which jobs ask for GPUs: ReFrame's
    own, else whichever takes their number, if any.

    ReFrame drops one that has a placeholder without a value, without a word.

    :param given: resource to values that the user gives (``-S extra_resources``).
    """

    def takes(name: str) -> bool:
        asked = set(re.findall(r"\{(\w+)\}", " ".join(resources[name])))
        return "num_gpus_per_node" in asked and asked <= {"num_gpus_per_node", *given.get(name, {})}

    return next(filter(takes, sorted(resources, key=lambda name: name != "_rfm_gpu")), "")


def ask_for_gpus(test: Any, count: int) -> None:
    """Have the job of a test ask for the GPUs of its nodes."""
    test.num_gpus_per_node, given = count, test.extra_resources
    if name := gpu_resource(dict(test.current_partition.resources), given):
        test.extra_resources = {**given, name: {**given.get(name, {}), "num_gpus_per_node": count}}


def ask_for_nodes(job: Any, partition: Any, count: int, wanted: Sequence[str]) -> None:
    """Make a job request nodes by name, if its scheduler supports it and no other option selects or
    excludes nodes.
    """
    chosen = any(
        re.match(r"(--)?(nodelist|exclude|nodefile|host|vnode)\b|-[wxF]", word)
        for word in (*job.options, *job.cli_options)
    )
    if len(wanted) == count and not chosen:
        job.options += batch_systems.node_options(partition.scheduler.registered_name, wanted)


#: They were idle a moment ago; where others took them, waiting for
#: all of them at once could take days.
PATIENCE = "5m"
#: For nodes that are asked for by name: the other jobs of a night
#: may have them first, somebody's for days.
PATIENCE_BY_NAME = "1h"
#: Growth begins with two.
FEWEST = 2
#: Share of a partition's nodes that must be idle unless the site says otherwise: with less it is
#: not the machine that is measured. A convention; nights whose numbers differ less are kept apart
#: by their node counts.
LEAST_SHARE = 0.5


class _AllNodes(int):
    """:data:`ALL_NODES`, shown as the user wrote it."""

    def __str__(self) -> str:
        return ALL_NODES_WORD


def node_count(text: str) -> int:
    """A value of ``nodes`` as the user gives it.

    :raises ValueError: it is neither a number nor ``all``.
    """
    return _AllNodes(ALL_NODES) if text == ALL_NODES_WORD else int(text)


def assume_nodes(nodes: int, group: str, extras: Mapping[str, Any]) -> int:
    """Nodes to plan with if idle nodes were not counted: the largest of the partition's
    ``node_counts``.

    :raises NotMeasured: the group's metrics do not say on how many nodes they were measured.
    """
    if nodes != ALL_NODES:
        return nodes
    if not benchmark.grow(catalogue.rows(group)):
        raise NotMeasured(
            f"the metrics of group {group} do not record how many nodes were idle, so different "
            "numbers would be one curve: give a number of nodes"
        )
    return max(site.node_counts_of(extras))


def count_nodes(
    nodes: int, group: str, job: Any, extras: Mapping[str, Any], *, dry_run: bool
) -> int:
    """Nodes a job is made for: those requested, or as many as ReFrame finds idle
    (``--flex-alloc-nodes``) at this moment.

    :param job: ReFrame's, of the partition; its options
        (``--exclude``, ``--reservation``, ...) count.
    :raises NotMeasured: the scheduler does not say.
    :raises ReframeError: they are too few, or the scheduler was asked and gave no answer.
    """
    assumed = assume_nodes(nodes, group, extras)
    if nodes != ALL_NODES or dry_run:
        return assumed
    name = job.scheduler.registered_name
    try:
        available = int(job.guess_num_tasks())
        chosen = isinstance(job.sched_flex_alloc_nodes, int)  # by the user, as a number
        there = (
            available if chosen else len(job.scheduler.filternodes(job, job.scheduler.allnodes()))
        )
    except NotImplementedError:
        raise NotMeasured(
            f"scheduler {name} does not say which nodes are idle: give a number of nodes"
        ) from None
    except ReframeError as error:
        raise ReframeError(f"cannot tell which nodes are idle: {error}") from None
    share = float(extras.get("least_idle_share", LEAST_SHARE))
    least = max(FEWEST, math.ceil(share * there))
    if available < least:
        raise ReframeError(
            f"nodes=all: {available} of {plural(there, 'node')} "
            f"{'is' if available == 1 else 'are'} in state {job.sched_flex_alloc_nodes} "
            f"(--flex-alloc-nodes), but at least {least} are needed ({FEWEST}, and {share:.0%} of "
            f"all: least_idle_share in {SITE_FILES}); see 'sinfo -R', or run it alone, as other "
            "cases may hold the rest"
        )
    return available
