"""A job that names a node which somebody uses waits; one that
names a node which is down is cancelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from reframe.core.schedulers.slurm import SlurmJobScheduler

from reframe_tests.harness.launchers.schedulers import slurm_shared
from reframe_tests.harness.launchers.schedulers.slurm_shared import SlurmShared


@dataclass(eq=False)
class PendingJob:
    """What the schedulers look at."""

    jobid: str
    state: str = "PENDING"
    is_cancelling: bool = False
    _exception: Exception | None = None


BUSY = "ReqNodeNotAvail, UnavailableNodes:c1"


class Queue:
    """A Slurm that gives one reason for all that is pending, and nodes in some states.

    :param scheduler: ReFrame's, made of this class.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        scheduler: type[SlurmJobScheduler],
        reason: str,
        *states: str,
    ) -> None:
        self.cancelled: list[str] = []
        self.asked: list[str] = []
        monkeypatch.setattr(
            SlurmJobScheduler, "_cancel_if_blocked", SlurmJobScheduler._cancel_if_blocked
        )
        slurm_shared.register()

        def run(command: str, **_: Any) -> SimpleNamespace:
            self.asked.append(command.split()[0])
            if command.startswith("squeue"):
                return SimpleNamespace(
                    stdout="".join(f"{job.jobid}|{reason}\n" for job in self.jobs)
                )
            return SimpleNamespace(
                stdout="".join(
                    f"NodeName=c{at} State={state} X=1\n" for at, state in enumerate(states, 1)
                )
            )

        monkeypatch.setattr("reframe.utility.osext.run_command", run)
        self.slurm: Any = scheduler.__new__(scheduler)
        self.slurm._squeue, self.slurm._cancel_reasons = (
            "squeue",
            ["ReqNodeNotAvail", "BadConstraints"],
        )
        self.slurm.cancel_many = lambda jobs: self.cancelled.extend(job.jobid for job in jobs)
        self.jobs = [PendingJob("7"), PendingJob("8")]


SCHEDULERS = (SlurmJobScheduler, SlurmShared)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("states", [("ALLOCATED",), ("MIXED", "IDLE"), ("IDLE+PLANNED",)])
def test_a_job_whose_nodes_are_in_use_waits(
    monkeypatch: pytest.MonkeyPatch, scheduler: Any, states: tuple[str, ...]
) -> None:
    queue = Queue(monkeypatch, scheduler, BUSY, *states)
    queue.slurm._cancel_if_blocked(queue.jobs)
    queue.slurm._cancel_if_blocked(queue.jobs, {"7": [BUSY], "8": ["Priority", BUSY]})
    assert not queue.cancelled and all(job._exception is None for job in queue.jobs)
