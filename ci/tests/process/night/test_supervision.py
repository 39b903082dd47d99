"""A program under supervision: its output is kept, nobody waits
for a full disk, and nothing of it stays.
"""

import fcntl
import subprocess
import sys

import pytest

from programs import finished, wait_for
from reframe_tests.harness.process_stat import Process
from reframe_tests.harness.sites.site import ROOT

#: A process of its own, because it adopts orphans and ends all its descendants.
CALL = """
import sys
from pathlib import Path
from mpibench.night import supervision
supervision.heed_signals()
status = supervision.run(sys.argv[2:], Path(sys.argv[1]), lambda line: not line.startswith("hidden"))
print("status", status)
"""


#: Gets a signal in each line in turn of what waits for the program,
#: as a handler raises it between any two.
INTERRUPTED = """
import signal, sys
from pathlib import Path
from mpibench.night import supervision

supervision.GRACE_S = 1.0

def count(frame, event, _):
    global lines, waiting
    if not frame.f_code.co_filename.endswith(("/subprocess.py", "/supervision.py")):
        return None
    waiting = waiting or "wait" in frame.f_code.co_name
    lines -= waiting and event == "line"
    if lines == 0:
        raise supervision.Interrupted(signal.SIGINT)
    return count

for number in range(1, int(sys.argv[3])):
    lines = number
    waiting = False
    signal.alarm(20)
    sys.settrace(count)
    try:
        supervision.run(["sleep", sys.argv[2]], Path(sys.argv[1]), bool)
        print("ended")
    except supervision.Interrupted:
        print("interrupted")
    sys.settrace(None)
"""
ENVIRON = {"PYTHONPATH": f"{ROOT}/ci:{ROOT}", "PATH": "/usr/local/bin:/usr/bin:/bin"}


def supervise(log, script):
    done = finished(sys.executable, "-c", CALL, log, "bash", "-c", script, env=ENVIRON)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_what_it_leaves_running_ends_with_it(tmp_path):
    """One that ends at SIGTERM, one that does not, both out of the
    program's process group and without parent.
    """
    daemons = (
        "for how in : ''; do (setsid bash -c \"trap '$how' TERM; echo \\$\\$ >>$PIDS; while :; "
        'do sleep 1; done" &); done'
    )
    script = (
        f"export PIDS={tmp_path}/pids; {daemons}; until [[ $(wc -l <$PIDS) == 2 ]]; do sleep "
        "0.1; done 2>/dev/null"
    )
    assert supervise(tmp_path / "log", script).endswith("status 0\n")
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2
    assert not any(Process.observe(int(pid)) for pid in pids)


#: A signal of a parent's death comes once for each thread of the parent that outlives the one
#: before.
DEAF = """
import os, signal, time
try:
    print("begun", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    open("interrupted", "w").close()
    while not os.path.exists("go"): time.sleep(0.1)
"""
HOLDS_A_LOCK = """
import fcntl, sys
from pathlib import Path
from mpibench.night import supervision
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
supervision.run(sys.argv[1:], Path("log"), lambda line: True, held=[lock.fileno()])
"""


def test_where_we_are_killed_the_program_is_interrupted_and_its_lock_lasts_as_long_as_it_does(
    tmp_path,
):
    python = [sys.executable, "-c"]
    words = [*python, HOLDS_A_LOCK, *python, DEAF]

    def is_free():
        with (tmp_path / "lock").open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    with subprocess.Popen(words, env=ENVIRON, cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"begun\n"
        process.kill()
    assert wait_for((tmp_path / "interrupted").exists)
    assert not is_free(), "the program is still at work"
    (tmp_path / "go").touch()
    assert wait_for(is_free)


@pytest.mark.parametrize(("seconds", "lines"), [("600", 25), ("0", 31)])
def test_a_signal_between_any_two_lines_ends_the_program(tmp_path, seconds, lines):
    """After ``acquire`` and before ``try`` in ``Popen.wait`` too,
    which leaves its lock held for ever.
    """
    words = (tmp_path / "log", seconds, lines)
    done = finished(sys.executable, "-c", INTERRUPTED, *words, env=ENVIRON)
    assert done.returncode == 0, done.stderr
    # One that ends by itself may have been quicker.
    said = done.stdout.split()
    assert set(said) - ({"ended"} if seconds == "0" else set()) == {"interrupted"}
    assert len(said) == lines - 1
