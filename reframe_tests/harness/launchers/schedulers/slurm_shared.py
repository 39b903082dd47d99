"""Slurm with many cases in one job: cases with equal nodes and options run one after the other in
an allocation that they share. Also, for all of ReFrame's Slurm schedulers: a blocked job is
cancelled only if its nodes are not merely in use.

ReFrame submits a job for each case. On a busy machine each waits in the queue, and no two need run
on the same nodes. Here the first case of a node count allocates the nodes; later ones are put into
its folder (:mod:`.spool`) and run there as ordinary job scripts, with the variables that ``sbatch``
would have set for them (sbatch(1), "OUTPUT ENVIRONMENT VARIABLES"). Each case keeps its own script,
output, time limit, exit status and evidence; its job number is that of the allocation and its place
in it.

An allocation without a case is kept for a while, but yields to a case that waits for nodes in
another one.

What an allocation could not run goes into the next one: if its time was over, or it was idle when
the case came. A case that was cut off by the end of the allocation gets a whole allocation once. An
allocation that ends in any other way ends all its cases.

If ReFrame itself runs in a job whose nodes it may use (:data:`.spool.OWN_NODES`), the program that
runs the cases is a process beside it, and that job is neither submitted nor cancelled.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import reframe.core.runtime as rt
from reframe.core.backends import register_scheduler
from reframe.core.exceptions import JobSchedulerError, ReframeError
from reframe.core.schedulers.slurm import (
    SlurmJobScheduler,
    SqueueJobScheduler,
    slurm_state_completed,
    slurm_state_pending,
)
from reframe.utility import osext, seconds_to_hms

from ... import upstream
from ...vocabulary import BadInput
from .spool import EXTRA, OWN_NODES, SHARED, START_LOG, Spool

#: Minutes an allocation lasts, and seconds it waits for a further
#: case, where the site states nothing else.
MINUTES = 60
IDLE_S = 30
#: Seconds after Slurm has called an allocation over until what its files do not show counts as not
#: having been: attributes of a folder are kept for up to 60 s by default (nfs(5), acdirmax).
LATE_S = 60
#: Seconds for which an allocation has had no case, and another one its cases but no nodes, until
#: the first gives way: longer than ReFrame takes to submit the next case, and than Slurm takes to
#: find nodes that are idle (``sched_interval`` apart, jobs are looked at when they come;
#: slurm.conf(5), SchedulerParameters, defer).
GIVE_WAY_S = 2
PENDING_S = 5
#: Seconds between two signs of life.
BEAT_S = 20
#: Variables of a user's own job that its cases keep; others are of a step, or count other nodes.
_OF_JOB = ("SLURM_CONF", "SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_PARTITION")
_OF_STEP = ("SLURM_", "SRUN_", "PMI_", "PMIX_")


@dataclass(eq=False)
class _SharedCase:
    """A case's job and where it is.

    :param cut: whether the end of an allocation has cut it off before.
    """

    job: Any
    key: tuple[Any, ...]
    number: int = 0
    allocation: _Allocation | None = None
    over: bool = False
    cut: bool = False


@dataclass(eq=False)
class _Allocation:
    """A job of the batch system that runs cases.

    :param over_at: monotonic seconds at which it was first seen to be over; ``None``: it is not.
    :param begun_at: the same of when it was submitted; ``idle_at``: of
        when it was first seen without a case.
    :param runner: process that runs the cases, where the job is the user's own.
    """

    job: Any
    spool: Spool
    cases: list[_SharedCase] = field(default_factory=list)
    over_at: float | None = None
    beat_at: float = 0.0
    begun_at: float = 0.0
    idle_at: float | None = None
    runner: subprocess.Popen[bytes] | None = None

    @property
    def is_over(self) -> bool:
        left = self.runner is not None and self.runner.poll() is not None
        return left or slurm_state_completed(self.job.state)

    @property
    def waiting(self) -> list[_SharedCase]:
        """Its cases that have not ended."""
        return [case for case in self.cases if not case.over and case.allocation is self]


def case_script(job: Any, nodes: int) -> str:
    """Shell text that runs a case's job script as ``sbatch`` would.

    :param job: ReFrame's, with its script written.
    """
    script = Path(job.workdir) / job.script_filename
    first = script.read_text().partition("\n")[0]
    program = first.removeprefix("#!").split() if first.startswith("#!") else ["/bin/bash"]
    ranks = {
        "SLURM_NTASKS": job.num_tasks,
        "SLURM_NPROCS": job.num_tasks,
        "SLURM_NTASKS_PER_NODE": job.num_tasks_per_node,
    }
    spread = f"{job.num_tasks_per_node}(x{nodes})" if nodes > 1 else str(job.num_tasks_per_node)
    cpus = job.num_cpus_per_task
    variables = {
        **ranks,
        "SLURM_TASKS_PER_NODE": spread,
        "SLURM_JOB_NAME": job.name,
        **({"SLURM_CPUS_PER_TASK": cpus, "SRUN_CPUS_PER_TASK": cpus} if cpus else {}),
    }
    streams = (Path(job.workdir) / name for name in (job.stdout, job.stderr))
    out, err = (shlex.quote(str(path)) for path in streams)
    return "\n".join(
        (
            f"cd {shlex.quote(str(job.workdir))} || exit",
            *(f"export {name}={shlex.quote(str(value))}" for name, value in variables.items()),
            f"exec {shlex.join([*program, str(script)])} >{out} 2>{err}",
            "",
        )
    )


def own_nodes(environ: Mapping[str, str]) -> list[str]:
    """Nodes of the job that ReFrame runs in on which its cases run; empty: they are submitted."""
    return [name for name in environ.get(OWN_NODES, "").split(",") if name]


def own_variables(environ: Mapping[str, str], hosts: Path) -> dict[str, str]:
    """Variables of cases in the user's own job, as if its nodes were theirs alone.

    :param hosts: file with a line for each of their nodes. ``srun`` takes these alone for it, the
        first ones where fewer are wanted (srun(1), ``SLURM_HOSTFILE``).
    """
    nodes = own_nodes(environ)
    count = str(len(nodes))
    names = ",".join(nodes)
    kept = {
        name: value
        for name, value in environ.items()
        if name in _OF_JOB or not name.startswith(_OF_STEP)
    }
    return {
        **kept,
        "SLURM_HOSTFILE": str(hosts),
        "SLURM_JOB_NODELIST": names,
        "SLURM_JOB_NUM_NODES": count,
        "SLURM_NNODES": count,
        "SLURM_NODELIST": names,
        # Beside the step that this may run in.
        "SLURM_OVERLAP": "1",
    }


class SlurmShared(SlurmJobScheduler):
    """ReFrame's ``slurm`` whose cases share allocations."""

    #: Those of all partitions, which may have nodes in common.
    _together: ClassVar[list[SlurmShared]] = []

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[tuple[Any, ...], _Allocation] = {}
        self._allocations: list[_Allocation] = []
        self._cases: dict[int, _SharedCase] = {}
        self._together.append(self)
        atexit.register(self._close_all)

    def submit(self, job: Any) -> None:
        """Put a case into an allocation with its nodes and options; one that cannot share becomes a
        separate job, as usual.
        """
        per_node = job.num_tasks_per_node
        if not (
            job.exclusive_access and job.num_tasks and per_node and job.num_tasks % per_node == 0
        ):
            if own_nodes(os.environ):
                raise JobSchedulerError(
                    "the case needs a separate job, but this already runs in one"
                )
            super().submit(job)
            return
        nodes = job.num_tasks // per_node
        options = (
            tuple(job.sched_access),
            tuple(job.options),
            tuple(job.cli_options),
            tuple(job.pin_nodes),
        )
        case = _SharedCase(job, (nodes, *options, job.use_smt))
        self._cases[id(job)] = case
        try:
            self._place(case)
        except OSError as error:
            case.over = True
            raise JobSchedulerError(
                f"cannot queue the case for an allocation ({error}); free space or correct "
                "permissions"
            ) from None

    def poll(self, *jobs: Any) -> None:
        """Update the state of all jobs."""
        present = [job for job in jobs if job is not None]
        cases = [self._cases[id(job)] for job in present if id(job) in self._cases]
        super().poll(*(job for job in present if id(job) not in self._cases))
        active = [
            allocation
            for allocation in self._allocations
            if allocation.waiting
            and (allocation.over_at is None or not allocation.spool.has_ended())
        ]
        super().poll(*(allocation.job for allocation in active))
        now = time.monotonic()
        for allocation in active:
            if allocation.is_over:
                allocation.over_at = now if allocation.over_at is None else allocation.over_at
                continue
            # ReFrame's squeue takes a job for completed where Slurm does not answer
            # (core/schedulers/slurm.py, 4.10).
            allocation.over_at = None
            if now - allocation.beat_at >= BEAT_S:
                allocation.spool.beat()
                allocation.beat_at = now
        for case in cases:
            if not case.over:
                self._update(case)
        for allocation in [
            allocation for allocation in self._allocations if allocation.over_at is not None
        ]:
            self._resolve(allocation)
        self._give_way(now)
        self._cancel_if_pending_too_long([case.job for case in cases if not case.over])

    def cancel_many(self, jobs: Any) -> None:
        """Cancel jobs; a case in its allocation, which goes on with the others."""
        wanted = list(jobs)
        own = [job for job in wanted if id(job) not in self._cases]
        if own:
            super().cancel_many(own)
        for case in (self._cases[id(job)] for job in wanted if id(job) in self._cases):
            allocation = case.allocation
            case.job._is_cancelling = True
            if case.over or allocation is None:
                continue
            if allocation.spool.withdraw(case.number):
                self._finish(case, "CANCELLED")
            else:
                allocation.spool.ask_to_end(case.number)
            if all(case.job.is_cancelling for case in allocation.waiting):
                allocation.spool.close()
            if allocation.waiting or allocation.over_at is not None:
                continue
            if allocation.runner:
                allocation.runner.terminate()
            else:
                super().cancel_many([allocation.job])

    def _place(self, case: _SharedCase, *, own: bool = False) -> None:
        """Put a case into the open allocation of its kind, or begin one.

        :param own: into one that begins with it, and so lasts long enough.
        """
        allocation = self._open.get(case.key)
        if (
            own
            or allocation is None
            or allocation.over_at is not None
            or not self._put(case, allocation)
        ):
            allocation = self._begin(case)
        case.job._jobid = f"{allocation.job.jobid}-{case.number}"
        case.job._submit_time = time.time()
        case.job._state = "PENDING"

    def _put(self, case: _SharedCase, allocation: _Allocation) -> bool:
        limit_s = math.ceil(case.job.time_limit or 0)
        number = len(allocation.cases) + 1
        if not allocation.spool.put(number, case_script(case.job, case.key[0]), limit_s):
            return False
        case.number = number
        case.allocation = allocation
        allocation.cases.append(case)
        return True

    def _begin(self, case: _SharedCase) -> _Allocation:
        nodes = case.key[0]
        own = own_nodes(os.environ)
        here = os.environ.get("SLURM_JOB_ID")
        if own and (not here or self._allocations or nodes != len(own)):
            raise JobSchedulerError(
                f"the surrounding job does not have {nodes} nodes for the case, or has ended"
            )
        settings = self._settings()
        prefix = Path(rt.runtime().stage_prefix) / "allocations"
        spool = Spool(prefix / f"{time.time_ns():x}-{len(self._allocations) + 1}")
        like = case.job
        folder = spool.folder
        own_s = math.ceil(like.time_limit or 0)
        lasts_s = max(60 * settings.get("minutes", MINUTES), own_s + LATE_S)
        if not own:
            asked = (*like.sched_access, *like.options, *like.cli_options)
            lasts_s = max(own_s, min(lasts_s, longest_s(self._limits(), asked) or lasts_s))
        job = self.make_job(
            "mpibench-allocation",
            workdir=str(folder),
            script_filename=str(folder / "job.sh"),
            stdout=str(folder / "job.out"),
            stderr=str(folder / "job.err"),
            sched_access=list(like.sched_access),
            sched_options=list(like.cli_options),
        )
        job.num_tasks = None
        job.exclusive_access = True
        job.time_limit = lasts_s
        job.options = [*like.options, f"--nodes={nodes}"]
        job.pin_nodes = list(like.pin_nodes)
        job.use_smt = like.use_smt
        allocation = _Allocation(job, spool, beat_at=time.monotonic(), begun_at=time.monotonic())
        self._put(case, allocation)
        words = shlex.join(spool.command(lasts_s, settings.get("idle_s", IDLE_S)))
        (folder / "job.sh").write_text(
            "\n".join(("#!/bin/bash", *self.emit_preamble(job), f"exec {words}", ""))
        )
        if own:
            allocation.runner = _run_here(job, own)
        else:
            super().submit(job)
        self._allocations.append(allocation)
        self._open[case.key] = allocation
        hours, minutes, seconds = seconds_to_hms(lasts_s)
        self.log(f"allocation {job.jobid}: {nodes} nodes for {hours}:{minutes:02}:{seconds:02}")
        return allocation

    def _settings(self) -> dict[str, int]:
        """What the site states of the allocations of the partition whose scheduler this is."""
        for partition in rt.runtime().system.partitions:
            if partition.scheduler is self:
                stated = partition.extras.get(EXTRA, {})
                return dict(stated) if isinstance(stated, dict) else {}
        return {}

    def _limits(self) -> str:
        """Partitions and their time limits, as ``sinfo`` prints them; empty if it does not."""
        with contextlib.suppress(OSError, ReframeError):
            command = 'sinfo --noheader --format="%P %l"'
            return str(osext.run_command(command, timeout=self._submit_timeout).stdout)
        return ""

    def _give_way(self, now: float) -> None:
        """Give nodes back that nothing runs on while a case waits for nodes, which may be these.

        ReFrame submits what it may before it looks again, so no further
        case comes before one that waits has ended.
        """
        going = [
            allocation
            for scheduler in self._together
            for allocation in scheduler._allocations
            if allocation.over_at is None
        ]
        waits = any(
            allocation.waiting
            and now - allocation.begun_at >= PENDING_S
            and (allocation.job.state is None or slurm_state_pending(allocation.job.state))
            for allocation in going
        )
        for allocation in going:
            if allocation.waiting:
                allocation.idle_at = None
                continue
            allocation.idle_at = now if allocation.idle_at is None else allocation.idle_at
            if waits and now - allocation.idle_at >= GIVE_WAY_S:
                allocation.spool.close()

    def _update(self, case: _SharedCase) -> None:
        allocation = case.allocation
        if allocation is None:
            return
        try:
            end = allocation.spool.read_end(case.number)
        except BadInput as error:
            case.job._exception = JobSchedulerError(str(error))
            self._finish(case, "FAILED", 1)
            return
        if end:
            state = (
                "CANCELLED"
                if case.job.is_cancelling
                else "FAILED"
                if end.exit_status
                else "COMPLETED"
            )
            self._finish(case, "TIMEOUT" if end.late else state, end.exit_status)
        elif allocation.over_at is None:
            state = allocation.job.state
            case.job._state = (
                "PENDING" if state is None or slurm_state_pending(state) else "RUNNING"
            )

    def _finish(self, case: _SharedCase, state: str, exit_status: int | None = None) -> None:
        case.over = True
        case.job._state, case.job._exitcode = state, exit_status
        case.job._completion_time = time.time()
        if case.allocation is not None:
            own = ",".join(own_nodes(os.environ))
            case.job._nodespec = own or case.allocation.job._nodespec

    def _resolve(self, allocation: _Allocation) -> None:
        """Find a place for the cases that an allocation did not run to
        their ends; those it lost have failed.
        """
        spool = allocation.spool
        left = allocation.waiting
        since = time.monotonic() - (allocation.over_at or 0.0)
        if not left or not (spool.has_ended() or since >= LATE_S):
            return
        for case in left:  # the files may have come to be seen in between
            self._update(case)
        left = [case for case in allocation.waiting if not case.job.is_cancelling]
        for case in allocation.waiting:
            if case.job.is_cancelling:
                self._finish(case, "CANCELLED")
        state = str(allocation.job.state)
        job = allocation.job
        begun = any(case.over or spool.was_started(case.number) for case in allocation.cases)
        in_order = spool.has_ended() and state == "COMPLETED"
        timed_out = "TIMEOUT" in state
        # The one that was truncated first: it needs an allocation that begins with it.
        for case in sorted(left, key=lambda row: not spool.was_started(row.number)):
            if spool.withdraw(case.number):
                started = False
                again = begun and (in_order or timed_out)
            else:  # in order, a case that was started has left its end
                started = True
                again = timed_out and not case.cut and case.number > 1
            if again:
                case.cut = case.cut or started
                try:
                    (Path(case.job.workdir) / START_LOG).unlink(missing_ok=True)
                    self._place(case, own=started)
                except (OSError, ReframeError) as error:
                    self._finish(case, "CANCELLED", 1)
                    case.job._exception = JobSchedulerError(
                        f"cannot queue the case for another allocation ({error})"
                    )
                continue
            ended = state != "COMPLETED" and slurm_state_completed(state)
            self._finish(case, state if ended else "CANCELLED", job.exitcode or 1)
            case.job._exception = job._exception
            if not begun and job._exception is None:
                why = (
                    f"allocation {job.jobid} ended in state {state} without starting any of its "
                    f"cases; see {job.stderr}"
                )
                case.job._exception = JobSchedulerError(why)

    def _close_all(self) -> None:
        for allocation in self._allocations:
            if allocation.over_at is None:
                with contextlib.suppress(OSError):
                    allocation.spool.close()


def longest_s(limits: str, options: Iterable[str]) -> int | None:
    """Seconds that a job may last on all of its partitions; ``None``: any, or unknown.

    :param limits: a line for each: name, with ``*`` of the default one, and ``infinite`` or
        ``[days-][hours:]minutes:seconds`` (sinfo(1), ``%P`` and ``%l``).
    :param options: of the job; the last partition of them counts.
    """
    asked = re.findall(r"(?:^|\s)(?:--partition[=\s]|-p\s*)(\S+)", "\n".join(options))
    names = asked[-1].split(",") if asked else []
    found = []
    for partition, limit in re.findall(r"^(\S+) +(\S+)$", limits, re.MULTILINE):
        wanted = partition.rstrip("*") in names if names else partition.endswith("*")
        if wanted and re.fullmatch(r"(?:\d+-)?\d+(?::\d+){1,2}", limit):
            days, _, clock = limit.rpartition("-")
            parts = [0, *map(int, clock.split(":"))][-3:]
            found.append(86400 * int(days or 0) + 3600 * parts[0] + 60 * parts[1] + parts[2])
    return min(found, default=None)


def _run_here(job: Any, nodes: Iterable[str]) -> subprocess.Popen[bytes]:
    """Start the script of an allocation in the job that this process runs in."""
    hosts = Path(job.workdir) / "hosts"
    hosts.write_text("".join(f"{node}\n" for node in nodes))
    job._jobid = os.environ["SLURM_JOB_ID"]
    job._submit_time = time.time()
    with Path(job.stdout).open("wb") as out, Path(job.stderr).open("wb") as err:
        return subprocess.Popen(
            ["bash", job.script_filename],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=own_variables(os.environ, hosts),
        )


class SqueueShared(SlurmShared, SqueueJobScheduler):
    """The same for ReFrame's ``squeue``, of a Slurm without accounting."""


# ---- jobs that name a node wait while somebody else uses it ----
# Slurm's reason ``ReqNodeNotAvail`` says of a job that names its nodes (``--distribute``,
# ``--nodelist``) that one of them "may currently be in use, reserved for another job, in an
# advanced reservation, DOWN, DRAINED, or not responding" (squeue(1), "Job Reason Codes"). By
# ReFrame's manual (``ignore_reqnodenotavail``) a job is cancelled only if the nodes are down; its
# 4.10 no longer looks at them, and cancels those that would start as soon as the job before them
# has ended.

#: States of a node on which a job can start now or when another one
#: has ended (sinfo(1), "Node State Codes").
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


def _unless_in_use(cancel: upstream.Cancel) -> upstream.Cancel:
    def cancel_unless_in_use(
        self: Any, jobs: Iterable[Any], reasons: Mapping[str, list[str]] | None = None
    ) -> None:
        jobs = list(jobs)
        pending = [
            job.jobid for job in jobs if not job.is_cancelling and slurm_state_pending(job.state)
        ]
        if not pending or "ReqNodeNotAvail" not in self._cancel_reasons:
            cancel(self, jobs, reasons)
            return

        def states(nodes: str) -> list[frozenset[str]]:
            return [frozenset(node.states) for node in self._get_nodes_by_name(nodes)]

        reasons_of = _read_reasons(self._squeue, pending) if reasons is None else reasons
        cancel(
            self,
            jobs,
            {
                job: [word for word in words if not is_in_use(word, states)]
                for job, words in reasons_of.items()
            },
        )

    return cancel_unless_in_use


def _read_reasons(squeue: str, jobs: Iterable[str]) -> dict[str, list[str]]:
    """Why each job is pending, by its id; those of an array's or a
    heterogeneous job's parts under the job's.
    """
    reasons: dict[str, list[str]] = {}
    for line in osext.run_command(
        f'{squeue} -h -j {",".join(jobs)} -o "%i|%r"'
    ).stdout.splitlines():
        job, _, reason = line.partition("|")
        reasons.setdefault(re.split("[_+]", job)[0], []).append(reason)
    return reasons


def register() -> None:
    """Register the schedulers with ReFrame, and make all of its Slurm schedulers check the nodes of
    blocked jobs. Call it before ReFrame reads a configuration that names one.

    The latter is ended by: ReFrame checking them itself, as its manual says.
    """
    upstream.around_cancel(_unless_in_use)
    for name, scheduler in zip(SHARED.values(), (SlurmShared, SqueueShared), strict=True):
        if getattr(scheduler, "registered_name", "") != name:
            register_scheduler(name)(scheduler)
