"""ci/setup that is interrupted or killed leaves nothing running and goes on from where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from reframe_tests.harness.stacks import metadata
from synthetic_project import Project

#: Longest wait for a process that has nothing else to do, in seconds.
PATIENCE_S = 120.0


def start(project: Project, seconds: int) -> tuple[subprocess.Popen[str], Path]:
    """A set-up that is at its first step, which takes so long, and the file with the step's process."""
    begun = project.tools / "begun"
    (project.tools / "sleep").symlink_to("/bin/sleep")
    python = project.environ["MPIBENCH_PYTHON"]
    step = f"echo $$ >{begun}; exec sleep {seconds}"
    project.environ["MPIBENCH_PYTHON"] = project.stand_in("python-stub", python, {"'-m venv'*": step})
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen([project.root / "ci" / "setup"], env=project.environ, start_new_session=True, **pipes)
    project.environ["MPIBENCH_PYTHON"] = python
    end = time.monotonic() + PATIENCE_S
    while not (begun.exists() and begun.read_text().endswith("\n")):
        assert time.monotonic() < end, "the set-up did not come to its first step"
        time.sleep(0.05)
    return process, begun


def test_an_interrupted_set_up_says_so_and_goes_on(tmp_path: Path) -> None:
    bare = Project(tmp_path, metadata.ROOT)
    process, _ = start(bare, 60)
    os.killpg(process.pid, signal.SIGINT)  # what Ctrl-C in a terminal does
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert output.endswith("\nsetup: interrupted; the next run goes on from here\n")
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert bare.run("ci/setup")[0] == 0


def test_a_killed_set_up_leaves_nobody_who_says_that_it_is_still_at_it(tmp_path: Path) -> None:
    """They end with who wrote them, and by no signal: one that came too early was lost, and the set-up waited for ever."""
    process, begun = start(Project(tmp_path, metadata.ROOT), 600)
    process.kill()
    os.kill(int(begun.read_text()), signal.SIGKILL)
    output, _ = process.communicate(timeout=PATIENCE_S)  # until the last process with this pipe has ended
    assert process.returncode == -signal.SIGKILL
    assert output.startswith("setup: making .venv with ") and "interrupted" not in output
