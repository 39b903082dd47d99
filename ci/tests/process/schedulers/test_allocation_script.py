"""The script that runs cases inside an allocation, with stand-ins for
Slurm's commands: order, ends, limits, letting go.
"""

import os
import subprocess

import pytest

from folders import write
from programs import wait_for
from reframe_tests.harness.launchers.schedulers.spool import RUNNER, Spool
from reframe_tests.harness.process_stat import Process

#: Far above what anything here takes.
LONG_S = 60


class Runner:
    """The script on a folder of its own; the stand-in of
    ``squeue`` names a step that was there before, and then one that was left behind.
    """

    def __init__(self, folder):
        self.folder = folder
        self.spool = Spool(folder / "spool")
        self.state = write(folder / "state", "RUNNING\n")
        (folder / "left").touch()
        steps = f"printf '7.batch\\n7.2\\n'; cat '{folder}/left'; echo 7.3 >'{folder}/left'"
        squeue = f"case \"$*\" in *%T*) cat '{self.state}' ;; *) {steps} ;; esac"
        for name, text in (("squeue", squeue), ("scancel", f"echo \"$@\" >>'{folder}/scancel'")):
            write(folder / "bin" / name, f"#!/bin/sh\n{text}\n", executable=True)
        self.process = None

    def put(self, *texts):
        """The cases, from the first on."""
        for number, text in enumerate(texts, start=1):
            assert self.spool.put(number, f"{text}\n", 0)

    def start(
        self,
        lasts_s=LONG_S,
        idle_s=LONG_S,
        silent_s=LONG_S,
        own_nodes="",
    ):
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        job = {"SLURM_JOB_ID": "7", "MPIBENCH_OWN_NODES": own_nodes}
        self.process = subprocess.Popen(
            ["bash", RUNNER, self.spool.folder, *map(str, (lasts_s, idle_s, silent_s))],
            env={**os.environ, "PATH": path, **job},
        )

    def end(self):
        return self.process.wait(LONG_S)

    def run(self, **limits):
        """The script from its start to a good end."""
        self.start(**limits)
        assert self.end() == 0


@pytest.fixture
def runner(tmp_path):
    made = Runner(tmp_path)
    yield made
    if made.process and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


@pytest.mark.parametrize(("own_nodes", "ended"), [("", ["7.2", "7.3"]), ("n1", ["7.3"])])
def test_cases_run_in_their_order_each_with_its_own_exit_status(runner, tmp_path, own_nodes, ended):
    said = tmp_path / "said"
    for number, status in ((2, 0), (1, 3), (3, 0)):
        assert runner.spool.put(number, f"echo {number} >>'{said}'; exit {status}\n", 0)
    runner.spool.close()
    (tmp_path / "left").write_text("" if own_nodes else "7.3\n")
    runner.run(own_nodes=own_nodes)
    assert said.read_text().split() == ["1", "2", "3"]
    ends = [runner.spool.read_end(number) for number in (1, 2, 3)]
    assert [end.exit_status for end in ends] == [3, 0, 0]
    assert not any(end.late for end in ends)
    assert runner.spool.has_ended()
    # What a case left on the nodes is ended, and never the step that runs the cases themselves,
    # nor what the user began in the job.
    assert (tmp_path / "scancel").read_text().split() == ended * 3


def test_a_case_over_its_time_is_ended_and_the_next_one_runs(runner, tmp_path):
    runner.spool.put(1, "sleep 600\n", 1)
    runner.spool.put(2, "exit 0\n", 0)
    runner.spool.close()
    runner.run()
    late, good = (runner.spool.read_end(number) for number in (1, 2))
    assert late.late and late.exit_status == 124
    assert not good.late and good.exit_status == 0


def test_a_case_is_ended_on_request_with_what_it_started(runner, tmp_path):
    alive = tmp_path / "alive"
    runner.put(f"sleep 600 & echo $! >'{alive}'; wait")
    runner.start()
    assert wait_for(lambda: alive.exists() and alive.read_text().strip() != "")
    runner.spool.ask_to_end(1)
    assert wait_for(lambda: runner.spool.read_end(1) is not None)
    assert runner.spool.read_end(1).exit_status != 0
    assert Process.observe(int(alive.read_text())) is None


def test_it_lets_go_of_the_nodes_when_nothing_comes_and_takes_nothing_more(runner):
    runner.put("exit 0")
    runner.run(idle_s=1)
    assert runner.spool.is_closed() and runner.spool.has_ended()
    assert not runner.spool.put(2, "exit 0\n", 0)


def test_what_the_end_of_the_allocation_cuts_off_has_not_ended(runner, tmp_path):
    """Slurm starts no step any more: the case's own exit status says
    nothing of it, and the next ones are not started.
    """
    runner.put(f"echo COMPLETING >'{runner.state}'; exit 0", "exit 0")
    runner.run()
    assert runner.spool.was_started(1) and runner.spool.read_end(1) is None
    assert not runner.spool.was_started(2) and runner.spool.has_ended()


def test_asked_to_end_it_ends_the_case_and_starts_no_other(runner, tmp_path):
    runner.put(f"touch '{tmp_path}/begun'; sleep 600", "exit 0")
    runner.start()
    assert wait_for((tmp_path / "begun").exists)
    runner.process.terminate()
    assert runner.end() == 0
    assert runner.spool.read_end(1) is None and not runner.spool.was_started(2)


def test_what_leaves_the_cases_group_is_ended_with_it(runner, tmp_path):
    runner.put(f"setsid sleep 600 & echo $! >'{tmp_path}/stray'; sleep 0.2")
    runner.spool.close()
    runner.run()
    assert Process.observe(int((tmp_path / "stray").read_text())) is None


@pytest.mark.parametrize("limit", ["silent_s", "lasts_s"])
def test_nothing_is_started_for_nobody_or_that_its_end_would_cut_off(runner, limit):
    """Without a ReFrame that waits; and the longest case so far says what the next one may take."""
    runner.put("sleep 2", "exit 0")
    runner.run(**{limit: 3 if limit == "lasts_s" else 1})
    assert runner.spool.read_end(1) and not runner.spool.was_started(2)
    assert runner.spool.withdraw(2)


def test_in_a_users_job_that_is_gone_it_starts_nothing_more(runner, tmp_path):
    """There it outlives the job, of which Slurm then says nothing."""
    said = tmp_path / "said"
    runner.state.write_text("")
    runner.put(f"echo 1 >>'{said}'")
    runner.run()
    assert not said.exists() and runner.spool.has_ended()


def test_in_a_users_job_of_whose_steps_slurm_says_nothing_no_case_is_begun(runner):
    (runner.folder / "bin" / "squeue").write_text("#!/bin/sh\nexit 1\n")
    runner.put("exit 0")
    runner.start(own_nodes="n1")
    assert runner.end() != 0
    assert not runner.spool.was_started(1)
