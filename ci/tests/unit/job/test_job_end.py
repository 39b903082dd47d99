"""How a job ended: states that are no result, room to write, and whose job it is."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from reframe.core.backends import getlauncher, getscheduler
from reframe.core.schedulers import Job, JobScheduler

from mpibench.cluster.state import Process
from mpibench.commands.listings import orphans
from reframe_tests.harness import batch_systems
from reframe_tests.harness.cases.job import batch, script
from reframe_tests.harness.cases.job.batch import JobEnd


@pytest.mark.parametrize("state", ["", "COMPLETED", "SUCCESS", "COMPLETED,COMPLETED"])
def test_a_normal_end_says_nothing(state: str) -> None:
    assert batch.judge(JobEnd("7", state, 0)) == []
    assert batch.judge(JobEnd("7", state, None)) == []


@pytest.mark.parametrize("state", sorted(batch.BAD_STATES))
def test_no_state_that_cuts_a_job_short_passes_whatever_the_exit_status(state: str) -> None:
    for text in (state, f"COMPLETED,{state}", f"{state}+"):
        for status in (0, 1, None):
            [sentence] = batch.judge(JobEnd("7", text, status))
            assert sentence.startswith(f"ended in state {state}: ")


def test_a_script_that_fails_is_said() -> None:
    assert batch.judge(JobEnd("7", "FAILED", 3)) == ["the job script ended with exit status 3."]


def test_a_job_is_called_by_its_number_and_nodes() -> None:
    assert JobEnd("7", nodes=["c1", "c2"]).name == "job 7 on c1, c2"
    assert JobEnd().name == "job"


def test_no_room_is_said_and_nothing_is_left_where_there_is(tmp_path: Path) -> None:
    assert batch.judge_room(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    [sentence] = batch.judge_room(tmp_path / "gone")
    assert str(tmp_path / "gone") in sentence


@pytest.mark.parametrize(
    ("scheduler", "option"),
    [
        ("slurm", "--no-requeue"),
        ("squeue", "--no-requeue"),
        ("pbs", "-r n"),
        ("torque", "-r n"),
        ("pbspro", "-r n"),
        ("lsf", "-rn"),
        ("sge", "-r n"),
    ],
)
def test_no_scheduler_starts_a_job_again_on_its_own(scheduler: str, option: str) -> None:
    assert option in batch.submit_options(scheduler)


def test_schedulers_without_such_options_get_none() -> None:
    assert batch.submit_options("local") == []


def test_a_job_of_this_process_is_no_orphan_and_one_of_a_dead_process_is() -> None:
    [comment] = [word.partition("=")[2] for word in batch.submit_options("slurm") if "=" in word]
    recycled = f"{batch.OWNER}:{script.Owner(socket.gethostname(), os.getpid(), 1).text}"
    elsewhere = f"{batch.OWNER}:{script.Owner('login9', os.getpid(), 1).text}"
    queue = (
        f"11|RUNNING|{comment}|/s/a\n12|PENDING|{recycled}|/s/b|c\n13|RUNNING|{elsewhere}|/s\n14|RUNNING|(null)|/s\n15|RUNNING"
    )
    jobs = orphans.read_queue(queue)
    assert [job.number for job in jobs] == ["11", "12", "13"]
    assert jobs[0].owner == Process.observe(os.getpid())
    [found] = orphans.orphaned(jobs, socket.gethostname())
    assert (found.number, found.state, found.directory) == ("12", "PENDING", "/s/b|c")


@pytest.mark.parametrize(
    ("scheduler", "access", "lines"),
    [
        ("slurm", ["-p rome", "--export=None"], ["unset SLURM_EXPORT_ENV"]),
        ("squeue", ["-p rome --export=NONE"], ["unset SLURM_EXPORT_ENV"]),
        ("slurm", ["-p rome", "-A export"], []),
        ("pbs", ["--export=NONE"], []),
        ("local", [], []),
    ],
)
def test_a_job_with_a_clean_environment_gives_its_ranks_what_its_script_sets(
    scheduler: str, access: list[str], lines: list[str]
) -> None:
    assert batch.start_lines(scheduler, access) == lines


@pytest.mark.parametrize(
    ("scheduler", "count", "wanted", "chosen", "options"),
    [
        ("slurm", 2, ("c1", "c2"), [], ["--nodelist=c1,c2"]),
        ("slurm_shared", 1, ("c1",), ["--account=x"], ["--nodelist=c1"]),
        ("slurm", 2, (), [], []),
        ("slurm", 4, ("c1", "c2"), [], []),
        ("slurm", 2, ("c1", "c2"), ["--nodelist=c3,c4"], []),
        ("slurm", 2, ("c1", "c2"), ["-w", "c3"], []),
        ("slurm", 2, ("c1", "c2"), ["--exclude=c1"], []),
        ("local", 1, ("here",), [], []),
        ("torque", 1, ("c1",), [], []),
        ("pbs", 1, ("c1",), [], ["host=c1"]),
        ("pbspro", 1, ("c1",), ["-q x"], ["host=c1"]),
        ("pbspro", 1, ("c1",), ["--host c2"], []),
        ("pbs", 2, ("c1", "c2"), [], []),
        ("flux", 1, ("c1",), [], []),
    ],
)
def test_a_job_asks_for_nodes_by_name_unless_somebody_chose_others(
    scheduler: str, count: int, wanted: Sequence[str], chosen: list[str], options: list[str]
) -> None:
    job = SimpleNamespace(options=[], cli_options=chosen)
    partition = SimpleNamespace(scheduler=SimpleNamespace(registered_name=scheduler))
    batch.ask_for_nodes(job, partition, count, wanted)
    assert job.options == options


@pytest.mark.parametrize("scheduler", batch_systems.PBS_SELECT)
def test_pbs_is_asked_for_a_node_in_the_request_that_reframe_writes(
    scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second one would be passed over."""
    monkeypatch.setattr(JobScheduler, "get_option", lambda self, name: None)
    job = Job.create(getscheduler(scheduler)(), getlauncher("local")(), "j", script_filename=str(tmp_path / "j.sh"))
    job.num_tasks, job.num_tasks_per_node, job.num_cpus_per_task = 4, 4, 1
    partition = SimpleNamespace(scheduler=SimpleNamespace(registered_name=scheduler))
    batch.ask_for_nodes(job, partition, 1, ("c1",))
    requests = [line for line in job.scheduler.emit_preamble(job) if "select" in line]
    assert requests == ["#PBS -l select=1:mpiprocs=4:ncpus=4:host=c1"]
