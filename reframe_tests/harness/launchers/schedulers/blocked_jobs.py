"""Jobs that name a node wait while somebody else uses it.

Slurm's reason ``ReqNodeNotAvail`` says of a job that names its nodes (``--distribute``, ``--nodelist``) that one of them "may
currently be in use, reserved for another job, in an advanced reservation, DOWN, DRAINED, or not responding" (squeue(1), "Job
Reason Codes"). By ReFrame's manual (``ignore_reqnodenotavail``) a job is cancelled only if the nodes are down; its 4.10
no longer looks at them, and cancels those that would start as soon as the job before them has ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from reframe.core.schedulers.slurm import slurm_state_pending
from reframe.utility import osext

from ... import upstream

#: States of a node on which a job can start now or when another one has ended (sinfo(1), "Node State Codes").
IN_SERVICE = frozenset({"IDLE", "ALLOCATED", "MIXED", "COMPLETING", "PLANNED", "RESERVED"})
_UNAVAILABLE = re.compile(r"ReqNodeNotAvail, *UnavailableNodes:(?P<nodes>[^\s|]+)")


def is_in_use(reason: str, states: Callable[[str], Iterable[frozenset[str]]]) -> bool:
    """Whether a pending job only waits for nodes that others use.

    :param reason: as squeue prints it, such as ``ReqNodeNotAvail, UnavailableNodes:n[1-2]``.
    :param states: of each node that a host list names, such as ``{"ALLOCATED", "COMPLETING"}``.
    """
    named = _UNAVAILABLE.fullmatch(reason.strip())
    if not named:
        return False
    nodes = list(states(named["nodes"]))
    return bool(nodes) and all(node and node <= IN_SERVICE for node in nodes)


def register() -> None:
    """Have ReFrame's Slurm schedulers look at the nodes again; to be called before jobs are made.

    Ended by: ReFrame looking at them, as its manual says.
    """
    upstream.around_cancel(_unless_in_use)


def _unless_in_use(cancel: upstream.Cancel) -> upstream.Cancel:
    def cancel_unless_in_use(self: Any, jobs: Iterable[Any], reasons: Mapping[str, list[str]] | None = None) -> None:
        jobs = list(jobs)
        pending = [job.jobid for job in jobs if not job.is_cancelling and slurm_state_pending(job.state)]
        if not pending or "ReqNodeNotAvail" not in self._cancel_reasons:
            cancel(self, jobs, reasons)
            return

        def states(nodes: str) -> list[frozenset[str]]:
            return [frozenset(node.states) for node in self._get_nodes_by_name(nodes)]

        said = _read_reasons(self._squeue, pending) if reasons is None else reasons
        cancel(self, jobs, {job: [word for word in words if not is_in_use(word, states)] for job, words in said.items()})

    return cancel_unless_in_use


def _read_reasons(squeue: str, jobs: Iterable[str]) -> dict[str, list[str]]:
    """Why each job is pending, by its id; those of an array's or a heterogeneous job's parts under the job's."""
    reasons: dict[str, list[str]] = {}
    for line in osext.run_command(f'{squeue} -h -j {",".join(jobs)} -o "%i|%r"').stdout.splitlines():
        job, _, reason = line.partition("|")
        reasons.setdefault(re.split("[_+]", job)[0], []).append(reason)
    return reasons
