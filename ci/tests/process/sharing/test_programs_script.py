"""The script that starts several programs, run by a real bash in a
real job body, with a stand-in for the launcher.
"""

import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from folders import write
from programs import finished, wait_for
from reframe_tests.harness.cases.job import condition, script
from reframe_tests.harness.cases.sharing import shared_node
from reframe_tests.harness.machine import topology
from reframe_tests.harness.sites import site
from synthetic_evidence import STACK

#: Says what it was started as, and starts what stands behind its own words.
LAUNCHER = """#!/bin/sh
echo "in ${PWD##*/} as $*" | sed 's/ sh .*//'
echo "to standard error of ${PWD##*/}" >&2
while [ "$1" != sh ]; do shift; done
exec "$@"
"""
FABRICS = {
    "shm": {"transport": "shm", "scope": "node"},
    "lo": {"transport": "tcp", "scope": "node", "rails": [{"device": "lo"}]},
}


def whole(folder, *, ppn=2, pinning="bunch", fabric="shm", **more):
    """The condition of all ranks of a node of two sockets with two cores
    each, on a stack whose launcher is the stand-in.
    """
    launcher = write(folder / "stand-in", LAUNCHER, executable=True)
    commands = {"mpirun": (str(launcher),)}
    stack = replace(STACK, commands=commands, build={"lock_hash": "0123abcd"}, **more)
    asked = condition.Asked(site.fabrics_of({"fabrics": FABRICS})[fabric], 1, str(ppn), pinning)
    partition = condition.Partition(
        topology.describe(2, 2),
        {"fabrics": FABRICS, "pinning": ["default", "none", "bunch", "scatter"]},
        launcher="mpirun",
    )
    return condition.resolve(stack, asked, partition)


def node(folder, programs=2, limit_s=20, **more):
    return replace(shared_node.share(whole(folder, **more), programs), limit_s=limit_s)


def body(shared, text, repeats=1):
    """A job in which each program is a shell text; what the job adds
    to a program's words are its arguments.
    """
    words = shared.launcher_words((), ())
    names = [
        *(shared_node.name_of("alone", number + 1) for number in range(len(shared.programs))),
        "shared",
    ]
    commands = [script.Command(name, words, ["sh", "-c", text, "program"]) for name in names]
    settings = {"limit_s": shared.limit_s, "recorder": "", "debug_env": shared.debug_env}
    lines = script.write_body(commands, repeats=repeats, **settings)
    return "\n".join([*shared.prepare, *lines, "measure"])


def run(folder, shared, text, repeats=1):
    """Run the job; its log."""
    done = finished("bash", "-c", body(shared, text, repeats), cwd=folder)
    assert (done.stdout, done.stderr) == ("", "")
    return script.read_launch_log((folder / script.LAUNCH_LOG).read_text())


def test_each_program_is_started_with_its_own_cores_alone_and_beside_the_other(
    tmp_path,
):
    statuses = run(tmp_path, node(tmp_path), 'echo "$*"; echo "$MPIBENCH_EVIDENCE"', repeats=2)
    names = ("alone_1", "alone_2", "shared_1", "shared_2", "shared")
    order = [(name, repeat) for repeat in (1, 2) for name in names]
    assert statuses == dict.fromkeys(order, 0) and list(statuses) == order
    for number, core in ((1, 0), (2, 1)):
        for how, meets in (("alone", ""), ("shared", f" --meet {tmp_path}/meet.2")):
            files = script.files_of(f"{how}_{number}", 2)
            assert (tmp_path / files.output).read_text().splitlines() == [
                f"in program_{number} as -np 1 --map-by pe-list={core}:ordered:hwtcpus",
                f"--program {number} 2{meets}",
                f"{tmp_path}/evidence/{how}_{number}.2",
            ]
            said = (tmp_path / files.error).read_text()
            assert said == f"to standard error of program_{number}\n"


def test_programs_beside_each_other_run_at_the_same_time(tmp_path):
    """Each waits for what the other leaves; one after the other they would wait for ever."""
    meet = (
        'folder=${5:-}; [ -n "$folder" ] || exit 0; : >"$folder/$2"; until [ -e "$folder/$((3 - '
        '$2))" ]; do sleep 0.05; done'
    )
    assert set(run(tmp_path, node(tmp_path), meet, repeats=2).values()) == {0}


def test_one_that_fails_is_told_from_those_that_do_not(tmp_path):
    statuses = run(tmp_path, node(tmp_path, 4, ppn=4), '[ "$2" -ne 3 ] || exit 7')
    failed = {name: status for (name, _), status in statuses.items() if status}
    assert failed == {"alone_3": 7, "shared_3": 7, "shared": 7}


def test_programs_that_hang_timed_out_each(tmp_path):
    statuses = run(tmp_path, node(tmp_path, limit_s=3), "[ $# -eq 3 ] || sleep 60")
    for (name, _), status in statuses.items():
        assert status == (script.TIMED_OUT if name.startswith("shared") else 0)
    assert len(statuses) == 5


def test_output_without_end_is_cut_and_ends_the_job(tmp_path, monkeypatch):
    monkeypatch.setattr(script, "MOST_OUTPUT_BYTES", 1 << 20)
    statuses = run(
        tmp_path, node(tmp_path), '[ $# -eq 3 ] || [ "$2" -eq 1 ] || exec yes', repeats=2
    )
    assert statuses[("shared_2", 1)] == statuses[("shared", 1)] == script.TOO_MUCH_OUTPUT
    assert statuses[("shared_1", 1)] == 0 and ("alone_1", 2) not in statuses
    assert (tmp_path / "shared_2.1.out").stat().st_size == 1 << 20


def test_a_job_that_is_asked_to_end_ends_all_programs(tmp_path):
    text = f'[ $# -eq 3 ] || {{ echo $$ >"{tmp_path}/rank.$2"; exec sleep 300; }}'
    defaults = ["env", "--default-signal=HUP,INT,TERM"]
    words = [*defaults, "bash", "-c", body(node(tmp_path, limit_s=200), text)]
    job = subprocess.Popen(words, cwd=tmp_path, start_new_session=True)
    ranks = [tmp_path / f"rank.{program}" for program in (1, 2)]
    assert wait_for(lambda: all(path.exists() and path.read_text().strip() != "" for path in ranks))
    time.sleep(0.5)
    os.killpg(job.pid, signal.SIGTERM)
    assert job.wait(timeout=60) == 143
    assert wait_for(
        lambda: not any(Path(f"/proc/{path.read_text().strip()}").exists() for path in ranks)
    )
