"""Which cases share an allocation, and what becomes of them where it ends before they do."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from reframe.core.exceptions import JobSchedulerError
from reframe.core.schedulers.slurm import SlurmJobScheduler

from reframe_tests.harness.launchers.schedulers import slurm_shared
from reframe_tests.harness.launchers.schedulers.slurm_shared import SlurmShared


class Slurm:
    """Stands for Slurm: what was submitted and cancelled, and
    the state each job is said to be in.
    """

    def __init__(self, monkeypatch, folder):
        self.submitted = []
        self.cancelled = []
        self.states = {}
        self.folder = folder
        self.clock = 0.0
        #: What sinfo prints.
        self.limits = ""
        self._made = 0

        def begin(scheduler):
            scheduler._multi_clusters = []

        def submit(_, job):
            self.submitted.append(job)
            job._jobid = str(100 + len(self.submitted))
            job._submit_time = 0.0

        def poll(_, *jobs):
            for job in jobs:
                job._state = self.states.get(job.jobid, "RUNNING")
                job._exitcode = 0

        runtime = SimpleNamespace(
            stage_prefix=str(folder / "stage"), system=SimpleNamespace(partitions=[])
        )
        for attribute, value in (
            ("__init__", begin),
            ("submit", submit),
            ("poll", poll),
            ("emit_preamble", lambda _, job: [f"#SBATCH {option}" for option in job.options]),
            ("cancel_many", lambda _, jobs: self.cancelled.extend(job.jobid for job in jobs)),
            ("_cancel_if_pending_too_long", lambda _, jobs: None),
            ("log", lambda *_: None),
        ):
            monkeypatch.setattr(SlurmJobScheduler, attribute, value, raising=False)
        monkeypatch.setattr(slurm_shared.rt, "runtime", lambda: runtime)
        monkeypatch.setattr(slurm_shared.time, "monotonic", lambda: self.clock)
        monkeypatch.setattr(SlurmShared, "_together", [])
        monkeypatch.setattr(SlurmShared, "_limits", lambda _: self.limits)
        self.scheduler = SlurmShared()

    def case(self, ranks=2, per_node=1, access=("-p q",), limit_s=90):
        """A case submitted to the scheduler."""
        self._made += 1
        workdir = self.folder / f"case{self._made}"
        workdir.mkdir()
        (workdir / "job.sh").write_text("#!/bin/bash -l\n")
        (workdir / "starts.txt").write_text("before\n")
        job = self.scheduler.make_job(
            f"case{self._made}",
            workdir=str(workdir),
            script_filename="job.sh",
            sched_access=list(access),
        )
        job.num_tasks = ranks
        job.num_tasks_per_node = per_node
        job.time_limit = limit_s
        job.exclusive_access = True
        self.scheduler.submit(job)
        return job

    def spool(self, number=0):
        """Folder of the allocation that was submitted as that one, from 0."""
        return Path(self.submitted[number].workdir)

    def run(self, number, status="0 0 5", allocation=0):
        """The other side runs a case; without a status it has only begun."""
        folder = self.spool(allocation)
        (folder / f"{number:06}.ready").rename(folder / f"{number:06}.running")
        if status:
            (folder / f"{number:06}.done").write_text(f"{status}\n")

    def poll(self, *jobs):
        """States of cases, asked for anew."""
        self.scheduler.poll(*jobs)
        return [job.state for job in jobs]

    def end(self, allocation, state, *jobs):
        """An allocation ended so, and so long ago that no file of it is late."""
        self.states[allocation] = state
        for _ in range(2):
            self.poll(*jobs)
            self.clock += slurm_shared.LATE_S


@pytest.fixture
def slurm(monkeypatch, tmp_path):
    return Slurm(monkeypatch, tmp_path)


def test_cases_of_equal_nodes_and_options_share_an_allocation(slurm):
    first = slurm.case(2, 1)
    second = slurm.case(8, 4)
    others = [slurm.case(4, 1), slurm.case(2, 1, ("-p other",))]
    assert [job.jobid for job in (first, second, *others)] == ["101-1", "101-2", "102-1", "103-1"]
    assert [job.options[-1] for job in slurm.submitted] == ["--nodes=2", "--nodes=4", "--nodes=2"]
    assert all(
        job.num_tasks is None and job.exclusive_access and job.time_limit == 3600
        for job in slurm.submitted
    )
    script = (slurm.spool() / "000002.ready").read_text()
    assert "SLURM_NTASKS=8" in script and "'4(x2)'" in script and "case2/job.out" in script
    # What does not own its nodes is a job of its own; a limit longer than the site's is kept.
    slurm.case(2, None)
    assert slurm.submitted[-1].name == "case5"
    slurm.case(2, 1, ("-p long",), limit_s=7200)
    assert slurm.submitted[-1].time_limit > 7200


def test_no_allocation_is_longer_than_its_partition_allows(slurm):
    """Slurm would never start it, and none of its cases."""
    slurm.limits = "debug* 30:00\ndebug* 30:00\nq infinite\nlong 1-02:00:00\nshort 0:45:00\n"
    for access, seconds in (
        (("-p q",), 3600),
        (("--partition=debug",), 1800),
        (("--partition long",), 3600),
        (("-pshort,long",), 2700),
        (("--account=x",), 1800),
        (("-p other",), 3600),
    ):
        slurm.case(access=access)
        assert slurm.submitted[-1].time_limit == seconds, access
    slurm.case(access=("-p debug", "--qos=x"), limit_s=1790)
    assert slurm.submitted[-1].time_limit == 1800
    # Slurm says itself of a case that is too long.
    slurm.case(access=("-p debug", "--qos=y"), limit_s=2000)
    assert slurm.submitted[-1].time_limit == 2000


def test_each_case_ends_in_its_own_way(slurm):
    jobs = [slurm.case() for _ in range(4)]
    for number, status in enumerate(("0 0 5", "7 0 5", "124 1 90", ""), 1):
        slurm.run(number, status)
    slurm.poll(*jobs)
    assert [(job.state, job.exitcode) for job in jobs] == [
        ("COMPLETED", 0),
        ("FAILED", 7),
        ("TIMEOUT", 124),
        ("RUNNING", None),
    ]


def test_an_end_that_cannot_be_read_is_a_failure(slurm):
    """As a full disk leaves it."""
    jobs = [slurm.case(), slurm.case()]
    slurm.run(1, "0 0")
    slurm.run(2, "")
    (slurm.spool() / "000002.done").write_text("")
    slurm.poll(*jobs)
    for job, said in zip(jobs, ("damaged", "is empty, as on a full disk"), strict=True):
        assert job.state == "FAILED" and job.exitcode and said in str(job._exception)


def test_what_came_too_late_gets_a_further_allocation(slurm):
    """The allocation ran something, then ended in order; one case was put there while it ended."""
    jobs = [slurm.case(), slurm.case()]
    slurm.run(1)
    for name in ("closed", "ended"):
        (slurm.spool() / name).touch()
    slurm.states["101"] = "COMPLETED"
    slurm.poll(*jobs)
    assert jobs[0].state == "COMPLETED" and jobs[1].jobid == "102-1" and jobs[1].state == "PENDING"
    slurm.run(1, allocation=1)
    slurm.poll(*jobs)
    assert jobs[1].state == "COMPLETED"
    # A closed one takes no further case.
    (slurm.spool(1) / "closed").touch()
    assert slurm.case().jobid == "103-1"


def test_a_case_that_the_end_of_the_allocation_cut_off_gets_one_of_its_own_once(slurm):
    jobs = [slurm.case(), slurm.case(limit_s=5000), slurm.case()]
    slurm.run(1)
    slurm.run(2, "")
    slurm.poll(*jobs[:2])
    slurm.states["101"] = "TIMEOUT"
    assert slurm.poll(*jobs) == ["COMPLETED", "RUNNING", "PENDING"], "the files may be late"
    slurm.clock += slurm_shared.LATE_S
    slurm.poll(*jobs)
    assert [job.jobid for job in jobs] == ["101-1", "102-1", "102-2"]
    assert slurm.submitted[1].time_limit > 5000 and not Path(jobs[1].workdir, "starts.txt").exists()
    assert Path(jobs[0].workdir, "starts.txt").exists()
    slurm.run(1, "", 1)
    slurm.end("102", "TIMEOUT", *jobs)
    assert jobs[1].state == "TIMEOUT" and jobs[1].exitcode and jobs[2].jobid == "103-1"


@pytest.mark.parametrize("state", ["NODE_FAIL", "FAILED"])
def test_an_allocation_that_was_lost_takes_its_cases_with_it(slurm, state):
    jobs = [slurm.case() for _ in range(3)]
    slurm.run(1)
    slurm.run(2, "")
    slurm.end("101", state, *jobs)
    assert [job.state for job in jobs] == ["COMPLETED", state, state]
    assert jobs[1].exitcode and jobs[2].exitcode and len(slurm.submitted) == 1


def test_an_allocation_that_slurm_did_not_answer_for_goes_on(slurm):
    """Where ``squeue`` fails, ReFrame takes all jobs for completed; a
    controller that starts again answers soon.
    """
    jobs = [slurm.case() for _ in range(3)]
    slurm.run(1, "")
    for state, seconds in (
        ("COMPLETED", slurm_shared.LATE_S - 1),
        ("RUNNING", slurm_shared.LATE_S),
        ("COMPLETED", 1),
    ):
        slurm.states["101"] = state
        slurm.poll(*jobs)
        slurm.clock += seconds
    slurm.states["101"] = "RUNNING"
    slurm.poll(*jobs)
    (slurm.spool() / "000001.done").write_text("0 0 5\n")
    for number in (2, 3):
        slurm.run(number)
    assert slurm.poll(*jobs) == ["COMPLETED"] * 3 and len(slurm.submitted) == 1


@pytest.mark.parametrize("state", ["COMPLETED", "TIMEOUT"])
def test_an_allocation_that_started_nothing_is_not_asked_for_again_and_again(slurm, state):
    job = slurm.case()
    if state == "COMPLETED":
        (slurm.spool() / "ended").touch()
    slurm.end("101", state, job)
    assert job.state in ("CANCELLED", "TIMEOUT") and job.exitcode and len(slurm.submitted) == 1
    assert "without starting any of its cases" in str(job._exception)


def test_cancelled_cases_leave_the_others_and_the_last_one_the_nodes(slurm):
    jobs = [slurm.case(), slurm.case()]
    slurm.run(1, "")
    slurm.scheduler.cancel_many([jobs[1]])
    assert (
        jobs[1].state == "CANCELLED"
        and not slurm.cancelled
        and not (slurm.spool() / "closed").exists()
    )
    slurm.scheduler.cancel_many([jobs[0]])
    assert (slurm.spool() / "000001.cancel").exists() and (slurm.spool() / "closed").exists()
    (slurm.spool() / "000001.done").write_text("143 0 5\n")
    slurm.poll(*jobs)
    assert jobs[0].state == "CANCELLED" and jobs[0].exitcode == 143


#: Variables of each process of :class:`OfUser`.
STARTED = []


class OfUser:
    """Stands for the process that runs the cases in a job of the user's."""

    def __init__(self, words, **options):
        self.ended = None
        STARTED.append(options["env"])

    def poll(self):
        return self.ended

    def terminate(self):
        self.ended = -15


@pytest.fixture
def inside(slurm, monkeypatch):
    """ReFrame in job 7 of four nodes, in a step of it, that is given two of these."""
    for name, value in (
        ("MPIBENCH_OWN_NODES", "n1,n3"),
        ("SLURM_JOB_ID", "7"),
        ("SLURM_CONF", "/c"),
        ("SLURM_JOB_NODELIST", "n[1-4]"),
        ("SLURM_NTASKS", "9"),
        ("PMI_RANK", "0"),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(slurm_shared.subprocess, "Popen", OfUser)
    STARTED.clear()
    return slurm


def test_in_a_users_job_its_cases_run_on_the_nodes_given(inside):
    jobs = [inside.case(), inside.case()]
    assert [job.jobid for job in jobs] == ["7-1", "7-2"] and not inside.submitted
    [given] = STARTED
    assert (given["SLURM_JOB_NODELIST"], given["SLURM_NNODES"]) == ("n1,n3", "2")
    assert Path(given["SLURM_HOSTFILE"]).read_text().split() == ["n1", "n3"]
    assert given["SLURM_CONF"] == "/c" and given.keys().isdisjoint({"SLURM_NTASKS", "PMI_RANK"})
    for ranks, per_node in ((4, 1), (2, None)):  # more nodes than were given, and a job of its own
        with pytest.raises(JobSchedulerError):
            inside.case(ranks, per_node)


@pytest.mark.parametrize("ends", ["cancelled", "killed", "over"])
def test_a_users_job_is_never_cancelled_nor_asked_for_again(inside, ends):
    job = inside.case()
    [allocation] = inside.scheduler._allocations
    if ends == "cancelled":
        inside.scheduler.cancel_many([job])
    elif ends == "killed":
        allocation.runner.ended = -9
    else:
        inside.states["7"] = "TIMEOUT"
        ready = allocation.spool.folder / "000001.ready"
        ready.rename(ready.with_suffix(".running"))
    for _ in range(3):
        inside.poll(job)
        inside.clock += slurm_shared.LATE_S
    assert job.state == ("TIMEOUT" if ends == "over" else "CANCELLED")
    assert not inside.cancelled and not inside.submitted and len(STARTED) == 1
    assert (allocation.runner.ended is None) == (ends == "over")
