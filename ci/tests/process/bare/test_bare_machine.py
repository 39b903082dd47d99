"""ci/bare-machine: what it runs, what it refuses, what it takes
inside, and that nothing of it stays.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import bare_machine
from bare_machine import Failed, Step
from programs import finished, wait_for
from reframe_tests.harness.stacks import metadata

ROOT = metadata.ROOT


def test_a_tree_with_a_mount_in_it_is_never_removed(tmp_path):
    (tmp_path / "run-1/root/proc").mkdir(parents=True)
    table = tmp_path / "mountinfo"
    table.write_text(f"30 29 0:5 / {tmp_path}/run-1/root/proc rw - proc proc rw\n")
    with pytest.raises(Failed, match="run-1/root/proc is a mount point; unmount it"):
        bare_machine.remove(tmp_path / "run-1", table)
    assert (tmp_path / "run-1/root/proc").exists()
    table.write_text(f"30 29 0:5 / {tmp_path}/run-10 rw - proc proc rw\n")
    bare_machine.remove(tmp_path / "run-1", table)
    assert not (tmp_path / "run-1").exists()


@pytest.fixture
def tiny(tmp_path):
    """A root file system with bash, what a step is started with, and nothing else."""
    if os.geteuid() != 0:
        pytest.skip("[root] only root can enter another root file system")
    root = tmp_path / "root"
    for name in ("proc", "sys", "dev", "run", "tmp", "home/tester", "root", "bin"):
        (root / name).mkdir(parents=True)
    programs = [shutil.which(name) or "" for name in ("bash", "env", "setpriv", "setsid", "umount")]
    for program in programs:
        shutil.copy(program, root / "bin")
    needed = finished("ldd", *programs).stdout
    for library in re.findall(r"(/\S+)(?= \()", needed):
        place = root / library.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    return root


def run_in(root, *steps):
    logs = [root.parent / f"{number}.log" for number in range(len(steps))]
    variables = {"PIP_CERT": "/ca.pem"}
    found = [
        bare_machine.run_step(root, "/home/tester", step, log, variables)
        for step, log in zip(steps, logs, strict=True)
    ]
    return found, [log.read_text() for log in logs]


#: A sleep for a machine without programs.
SLEEP = "read -r -t 1000 <> <(:) || true"


def test_steps_run_inside_as_the_user_asked_for(tiny):
    ask = 'echo "$EUID $HOME $PWD $PIP_CERT ${PYTHONPATH-none} $HOSTNAME"; printf "%s\\n" /*'
    before = Path("/proc/self/mountinfo").read_text()
    statuses, said = run_in(
        tiny, Step("user", ask), Step("root", ask, as_root=True), Step("bad", "echo no; exit 3")
    )
    assert statuses == [0, 0, 3]
    assert said[0].splitlines()[0] == "1000 /home/tester /home/tester /ca.pem none bare"
    assert said[1].splitlines()[0] == "0 /root /home/tester /ca.pem none bare"
    assert said[0].splitlines()[1:] == sorted(f"/{path.name}" for path in tiny.iterdir())
    assert Path("/proc/self/mountinfo").read_text() == before
    bare_machine.remove(tiny)


def holders(log):
    """Processes that have this file open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it may end meanwhile
            if any(entry.readlink() == log for entry in (process / "fd").iterdir()):
                found.append(process.name)
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_command_leaves_no_process_and_no_mount(tiny, number):
    log = tiny.parent / "log"
    code = (
        "import sys; from pathlib import Path; import bare_machine\n"
        f"step = bare_machine.Step('x', 'echo begun; ({SLEEP}) & {SLEEP}', as_root=True)\n"
        "bare_machine.run_step(Path(sys.argv[1]), '/root', step, Path(sys.argv[2]), {})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tiny), str(log)], cwd=ROOT / "ci")
    assert wait_for(lambda: log.exists() and "begun" in log.read_text(), 30)
    assert holders(log)
    process.send_signal(number)
    process.wait(30)
    assert wait_for(lambda: not holders(log), 30)
    assert str(tiny) not in Path("/proc/self/mountinfo").read_text()
    bare_machine.remove(tiny)
