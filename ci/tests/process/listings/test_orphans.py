"""Launches on this machine whose ReFrame was killed: found by what
they carry, ended, and nobody else's touched.
"""

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from mpibench.commands.listings import orphans
from programs import as_another_user, finished, wait_for
from reframe_tests.harness.cases.job import script
from reframe_tests.harness.process_stat import Process

HOST = socket.gethostname()


@pytest.fixture
def start(tmp_path):
    """Start a process with a variable that names an owner; what is left is killed in the end."""
    started = []

    def run(owner, *words):
        environ = {**os.environ, **({script.OWNER_VARIABLE: owner} if owner else {})}
        process = subprocess.Popen(
            words or ("sleep", "600"), cwd=tmp_path, env=environ, start_new_session=True
        )
        started.append(process)
        # Between fork and exec a process still has its parent's environment.
        given = Path(f"/proc/{process.pid}/environ")
        assert wait_for(lambda: owner.encode() in given.read_bytes())
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def dead():
    """An owner that has ended; nobody else has its number and its start."""
    number = finished("sh", "-c", "echo $$").stdout.strip()
    return f"{HOST}:{number}:1"


def found():
    return {launch.process.pid for launch in orphans.read_processes(HOST) if not launch.owner.alive}


def test_orphans_are_those_whose_own_reframe_is_gone(start, dead, monkeypatch):
    """A number that another process has now is no owner; processes of others are left out."""
    mine = script.Owner.this_process()
    orphans_of_ours = {start(dead).pid, start(f"{HOST}:{mine.pid}:{mine.start_ticks - 1}").pid}
    owners = (mine.text, dead.replace(HOST, "elsewhere", 1), "nonsense", f"{HOST}:x:1", "")
    others = {start(owner).pid for owner in owners}
    pids = found()
    assert orphans_of_ours <= pids and not pids & others
    as_another_user(monkeypatch)
    assert not orphans_of_ours & found()


def test_orphans_are_named_and_ended(start, dead, tmp_path, monkeypatch):
    monkeypatch.setattr(orphans.shutil, "which", lambda name: None)
    monkeypatch.setattr(orphans, "_GRACE_S", 1)
    # Only those of this test: another session on this machine may have left some.
    everything = orphans.read_processes
    monkeypatch.setattr(
        orphans,
        "read_processes",
        lambda host: [x for x in everything(host) if x.directory == str(tmp_path)],
    )
    gentle = start(dead)
    deaf = start(dead, "sh", "-c", "trap '' TERM; touch ready; while :; do sleep 0.1; done")
    living = start(script.Owner.this_process().text)
    assert wait_for((tmp_path / "ready").exists)
    said = []
    assert orphans.report(False, said.append) == 1
    [line] = said
    number = dead.split(":")[1]
    assert f"{gentle.pid} (sleep)" in line and f"{deaf.pid} (sh)" in line
    assert line.endswith(f"their ReFrame (process {number}) has ended; files in {tmp_path}")
    assert orphans.report(True, said.append) == 0
    assert said[-1] == "all of them are ended"
    assert (gentle.wait(30), deaf.wait(30)) == (-signal.SIGTERM, -signal.SIGKILL)
    assert living.poll() is None
    said.clear()
    assert orphans.report(True, said.append) == 0
    assert said == [
        "no orphaned processes on this machine; there is no Slurm here, so no queue to look at"
    ]


def test_a_recycled_number_is_never_signalled(start):
    bystander = start("")
    now = Process.observe(bystander.pid)
    orphans.end([Process(now.pid, now.start_ticks - 1), Process(2**22 + 1, 1)])
    assert bystander.poll() is None and now.alive
