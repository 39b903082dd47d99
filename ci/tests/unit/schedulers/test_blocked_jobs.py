"""A job that names a node which somebody uses waits; one that
names a node which is down is cancelled.
"""

from types import SimpleNamespace

import pytest
from reframe.core.schedulers.slurm import SlurmJobScheduler

from reframe_tests.harness.launchers.schedulers import slurm_shared
from reframe_tests.harness.launchers.schedulers.slurm_shared import SlurmShared


class PendingJob(SimpleNamespace):
    __hash__ = object.__hash__  # ReFrame keeps reasons by job


BUSY = "ReqNodeNotAvail, UnavailableNodes:c1"


@pytest.mark.parametrize("scheduler", [SlurmJobScheduler, SlurmShared])
@pytest.mark.parametrize(
    ("states", "cancelled"),
    [(["ALLOCATED"], []), (["MIXED", "IDLE"], []), (["IDLE+PLANNED"], []), (["DOWN"], ["7", "8"])],
)
def test_only_a_job_whose_nodes_are_down_is_cancelled(monkeypatch, scheduler, states, cancelled):
    blocked = SlurmJobScheduler._cancel_if_blocked
    monkeypatch.setattr(SlurmJobScheduler, "_cancel_if_blocked", blocked)
    slurm_shared.register()
    jobs = [
        PendingJob(jobid=jobid, state="PENDING", is_cancelling=False, _exception=None)
        for jobid in ("7", "8")
    ]
    queue = [f"{job.jobid}|{BUSY}" for job in jobs]
    nodes = [f"NodeName=c{number} State={state} X=1" for number, state in enumerate(states, 1)]

    def run(command, **_):
        answer = queue if command.startswith("squeue") else nodes
        return SimpleNamespace(stdout="".join(f"{line}\n" for line in answer))

    monkeypatch.setattr("reframe.utility.osext.run_command", run)
    found = []
    slurm = scheduler.__new__(scheduler)
    slurm._squeue = "squeue"
    slurm._cancel_reasons = ["ReqNodeNotAvail", "BadConstraints"]
    slurm.cancel_many = lambda jobs: found.extend(job.jobid for job in jobs)
    slurm._cancel_if_blocked(jobs)
    assert sorted(found) == cancelled
    assert [job.jobid for job in jobs if job._exception] == cancelled
    slurm._cancel_if_blocked(jobs, {"7": [BUSY], "8": ["Priority", BUSY]})
    assert sorted({*found}) == cancelled
