"""ReFrame is killed while a job of it runs on this machine: the
launch ends too, and nobody has to look for it.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from folders import write
from mpibench.commands.listings import orphans
from programs import wait_for
from reframe_tests.harness.process_stat import Process
from synthetic_stack import sealed

NAME = "ImbPointToPoint%fabric=shm%nodes=1%ppn=2%pinning=bunch"


def write_sleeper(folder, stack):
    """A stack like another one, whose benchmark tells that it runs and then sleeps."""
    text = f"#!/bin/sh\necho $$ >>{folder}/running\nexec sleep 600\n"
    program = write(folder / "sleeper", text, executable=True)
    described = {
        **json.loads(Path(stack.source).read_text()),
        "name": "sleeper-system",
        "commands": {},
    }
    document = {**described, "binaries": {"IMB-MPI1": str(program)}}
    return write(folder / "stack.json", json.dumps(sealed(document)))


def launches_of(pid):
    """Processes that were started for a ReFrame process."""
    return [
        launch.process.pid
        for launch in orphans.read_processes(os.uname().nodename)
        if launch.owner.pid == pid
    ]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_reframe_leaves_no_launch_behind(root, require_stack, tmp_path, number):
    path = write_sleeper(tmp_path, require_stack("mpich-wheels"))
    settings = {
        "RFM_CONFIG_FILES": str(root / "site_configs" / "settings.py"),
        "RFM_PREFIX": str(tmp_path),
        "RFM_SQLITE_DB_FILE": str(tmp_path / "results.db"),
        "MPIBENCH_STACKS": str(path),
    }
    words = [
        str(Path(sys.executable).parent / "reframe"),
        "-c",
        str(root / "reframe_tests" / "point_to_point.py"),
    ]
    words += ["-r", "--system=generic", "-n", NAME, "-p", "sleeper-system", "-S", "limit_s=500"]
    with (tmp_path / "log").open("w") as log:
        reframe = subprocess.Popen(
            words, cwd=root, env={**os.environ, **settings}, stdout=log, stderr=log
        )
    running = tmp_path / "running"
    assert wait_for(
        lambda: (
            (running.exists() and len(running.read_text().split()) == 2)
            or reframe.poll() is not None
        )
    )
    assert reframe.poll() is None, (tmp_path / "log").read_text()[-3000:]
    ranks = {int(pid) for pid in running.read_text().split()}
    assert ranks <= set(launches_of(reframe.pid))
    reframe.send_signal(number)
    reframe.wait(60)
    assert wait_for(lambda: not launches_of(reframe.pid))
    # The ranks that ran are gone, and no further launch was started.
    assert {int(pid) for pid in running.read_text().split()} == ranks
    assert not any(Process.observe(pid) for pid in ranks)
