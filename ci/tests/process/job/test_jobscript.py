"""The job body: run by a real bash with a stand-in for the launcher."""

import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from folders import DATA
from programs import finished, wait_for
from reframe_tests.harness.cases.job import interleaved
from reframe_tests.harness.cases.job import script as jobscript
from reframe_tests.harness.cases.results.error_excerpt import excerpt
from reframe_tests.harness.process_stat import Process, read
from synthetic_evidence import ODD, resolved, simple_condition

REPEATS = 3


def run_body(folder, commands, environ=None, head=(), **options):
    """:param head: lines before the body."""
    text = "\n".join([*head, text_of(commands, **options)])
    return finished("bash", "-c", text, cwd=folder, env=environ, start_new_session=True)


def text_of(commands, **options):
    settings = {"repeats": REPEATS, "limit_s": 20, "recorder": "", "debug_env": {}, **options}
    return "\n".join([*jobscript.write_body(commands, **settings), "measure"])


def statuses(folder):
    return jobscript.read_launch_log((folder / jobscript.LAUNCH_LOG).read_text())


def sh(name, text):
    return jobscript.Command(name, ["sh", "-c", '"$@"', "launcher"], ["sh", "-c", text])


def test_repeats_are_interleaved_and_kept_apart(tmp_path):
    """And a job with an owner that lives ends by itself and leaves nothing."""
    owner = jobscript.Owner.this_process()
    commands = [sh("one", "echo one; echo no >&2"), sh("two", f"echo ${jobscript.OWNER_VARIABLE}")]
    result = run_body(tmp_path, commands, owner=owner)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert (tmp_path / "two.3.out").read_text() == f"{owner.text}\n"
    order = [(name, repeat) for repeat in (1, 2, 3) for name in ("one", "two")]
    assert list(statuses(tmp_path)) == order
    for repeat in range(1, REPEATS + 1):
        files = jobscript.files_of("one", repeat)
        assert (tmp_path / files.output).read_text() == "one\n"
        assert (tmp_path / files.error).read_text() == "no\n"
        assert (tmp_path / files.evidence).is_dir()


#: What this process has; a preload of the machine the tests run on would be counted.
PLAIN = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def test_words_paths_and_values_reach_the_program_whole(tmp_path):
    """The debug file is the launch's own, and none of an earlier start of the job stays."""
    folder = tmp_path / "a b"
    folder.mkdir()
    show = ["sh", "-c", 'printf "%s|" "$MPIBENCH_EVIDENCE" "$LOG" "$ODD" "$@"', "x", "c d", "*"]
    command = jobscript.Command("one", [], [*show, "$HOME", "e'f\"g"])
    env = {"LOG": jobscript.DEBUG_FILE, "ODD": 'a "b" $HOME `id` \\'}
    stale = folder / "one.1.debug.n1.77"
    stale.touch()
    run_body(folder, [command], PLAIN, debug_env=env)
    assert not stale.exists()
    said = [f"{folder}/evidence/one.3", f"{folder}/one.3.debug", env["ODD"]]
    said += ["c d", "*", "$HOME", "e'f\"g", ""]
    assert (folder / "one.3.out").read_text().split("|") == said


def test_nothing_is_started_after_a_launch_that_timed_out(tmp_path):
    run_body(tmp_path, [sh("good", "true"), sh("hung", "sleep 60"), sh("late", "true")], limit_s=3)
    assert statuses(tmp_path) == {("good", 1): 0, ("hung", 1): jobscript.TIMED_OUT}


def test_a_group_that_hangs_or_fails_ends_for_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(jobscript, "MOST_OUTPUT_BYTES", 64 << 10)
    texts = {
        "hung": "sleep 60",
        "bad": "exit 7",
        "endless": "yes",
        "good": 'echo "${group-none of it}"',
    }
    timed = [replace(sh(name, text), group=name) for name, text in texts.items()]
    shown = [
        replace(sh("shown", "exit 3"), once=True, group="refused"),
        replace(sh("refused", "true"), group="refused"),
    ]
    wild = sh("wild", "case $MPIBENCH_EVIDENCE in *.2) yes >&2 ;; esac")
    commands = [*timed, *shown, sh("last", "true"), wild, sh("late", "true")]
    assert run_body(tmp_path, commands, repeats=2, limit_s=3).stderr == ""
    first = {"hung": jobscript.TIMED_OUT, "bad": 7, "endless": jobscript.TOO_MUCH_OUTPUT}
    first |= {"good": 0, "shown": 3, "last": 0, "wild": 0, "late": 0}
    second = {"good": 0, "last": 0, "wild": jobscript.TOO_MUCH_OUTPUT}
    assert statuses(tmp_path) == {
        (name, repeat): status
        for repeat, ended in ((1, first), (2, second))
        for name, status in ended.items()
    }, "what is in no group ends the job"
    assert (tmp_path / "wild.2.err").stat().st_size == 64 << 10
    assert (tmp_path / "good.2.out").read_text() == "none of it\n", "ranks do not see it"


def test_a_second_start_of_the_job_counts_alone_and_is_remembered(tmp_path):
    text = "echo first >out.txt; echo x >$MPIBENCH_EVIDENCE/node.jsonl"
    run_body(tmp_path, [replace(sh("one", text), result="out.txt")])
    run_body(tmp_path, [replace(sh("one", "true"), result="out.txt")], repeats=1)
    assert statuses(tmp_path) == {("one", 1): 0}
    assert [path.name for path in tmp_path.glob("one.*.out")] == ["one.1.out"]
    assert not list(tmp_path.rglob("*.jsonl"))
    assert len((tmp_path / jobscript.START_LOG).read_text().splitlines()) == 2


@pytest.mark.parametrize("more", [0, 1 << 14])
@pytest.mark.parametrize(("beyond", "status"), [(0, 0), (1, jobscript.TOO_MUCH_OUTPUT)])
def test_the_limit_of_an_output_is_exact(tmp_path, monkeypatch, more, beyond, status):
    monkeypatch.setattr(jobscript, "MOST_OUTPUT_BYTES", 1 << 16)
    text = f"head -c {(1 << 16) + more + beyond} /dev/zero"
    run_body(tmp_path, [replace(sh("one", text), more_bytes=more)], repeats=1)
    assert statuses(tmp_path) == {("one", 1): status}


def test_what_outlives_a_launch_does_not_hold_the_job(tmp_path, monkeypatch):
    """A process that left the launch's group keeps its output open; what
    the launch printed is there all the same.
    """
    monkeypatch.setattr(jobscript, "GRACE_S", 1)
    # Not to this test's own pipe, which would be held as well.
    text = "setsid sleep 30 & echo $! >stray; echo done"
    later = sh("two", "for row in 1 2 3 4 5; do echo $row; sleep 0.02; done")
    body = ["bash", "-c", text_of([sh("one", text), later], repeats=1)]
    subprocess.run(body, cwd=tmp_path, timeout=25, check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / "one.1.out").read_text() == "done\n"
    assert (tmp_path / "two.1.out").read_text() == "1\n2\n3\n4\n5\n", (
        "nor does it write where others write"
    )
    readers = [path for path in Path("/proc").glob("[0-9]*") if is_reader_in(path, tmp_path)]
    assert readers == [], "and nobody reads for it any more"
    os.kill(int((tmp_path / "stray").read_text()), signal.SIGKILL)


LONG = "trap '' HUP INT; echo $$ >rank; sleep 300 & wait"


def start_job(folder, **options):
    """A job as ReFrame's local scheduler starts it: the leader of
    its own session; one rank of it runs.
    """
    body = text_of([sh("long", LONG), sh("late", "touch started")], limit_s=300, **options)
    # As a scheduler does: a shell that starts with a signal
    # ignored, as under nohup, can never take it.
    defaults = ["env", "--default-signal=HUP,INT,TERM"]
    job = subprocess.Popen([*defaults, "bash", "-c", body], cwd=folder, start_new_session=True)
    rank = folder / "rank"
    assert wait_for(lambda: rank.exists() and rank.read_text().strip() != "")
    # The launch and who reads each of its streams: from then on the job waits. A signal in the
    # instant before, which bash takes before `wait` and heeds after it, is heeded when the launch
    # ends.
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children")
    assert wait_for(lambda: len(children.read_text().split()) >= 3)
    time.sleep(0.3)
    return job


def is_reader_in(process, folder):
    try:
        return (process / "comm").read_text() == "cat\n" and (process / "cwd").readlink() == folder
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_job_that_is_reported_to_end_ends_its_launch(tmp_path, number):
    job = start_job(tmp_path)
    rank = int((tmp_path / "rank").read_text())
    os.killpg(job.pid, number)
    assert job.wait(timeout=60) == 143
    assert wait_for(lambda: Process.observe(rank) is None)
    assert not (tmp_path / "started").exists()


def test_a_job_ends_when_its_reframe_is_gone(tmp_path):
    """Killed, the owner can tell nobody."""
    owner = subprocess.Popen(["sleep", "300"])
    named = jobscript.Owner("here", owner.pid, read(owner.pid).start_ticks)
    job = start_job(tmp_path, owner=named)
    rank = int((tmp_path / "rank").read_text())
    time.sleep(jobscript.OWNER_CHECK_S + 0.5)
    assert job.poll() is None and Process.observe(rank), "its owner is alive"
    owner.kill()  # not waited for: a zombie waits for no job either
    assert job.wait(timeout=60) == 143
    assert wait_for(lambda: Process.observe(rank) is None)
    owner.wait()


def test_another_process_with_the_number_of_the_owner_is_not_the_owner(tmp_path):
    owner = jobscript.Owner("here", os.getpid(), 1)
    assert run_body(tmp_path, [sh("long", LONG)], limit_s=300, owner=owner).returncode == 143


def test_the_recorder_learns_what_is_known_of_each_launch(tmp_path):
    """Launches of two stacks have a script each; whatever is in a value
    arrives, and what is not known is not inherited.
    """
    odd = 'it\'s "so" $HOME `id` *'
    show = ["sh", "-c", 'echo "$MPIBENCH_LIBRARY|$MPIBENCH_WORLD"']
    known = [
        {"MPIBENCH_LIBRARY": odd, "MPIBENCH_WORLD": "7"},
        {"MPIBENCH_LIBRARY": "/b", "MPIBENCH_WORLD": ""},
    ]
    commands = [
        jobscript.Command(name, [], show, known=known[name == "two"])
        for name in ("one", "two", "three")
    ]
    run_body(tmp_path, commands, {**PLAIN, "MPIBENCH_WORLD": "a user's"}, repeats=1)
    said = [(tmp_path / f"{name}.1.out").read_text() for name in ("one", "two", "three")]
    assert said == [f"{odd}|7\n", "/b|\n", f"{odd}|7\n"]
    assert sorted(path.name for path in tmp_path.glob("record*")) == ["record.sh", "record2.sh"]


# ---- Programs that read a file and write one: each launch finds its own, and
# what it wrote is kept beside what it printed ----


def test_the_input_is_written_anew_and_the_result_kept_with_each_launch(tmp_path):
    text = (
        "cat in.txt; cat in.txt >>out.txt; echo $MPIBENCH_EVIDENCE >>out.txt; echo spoilt >in.txt"
    )
    odd = "N = 640\n$HOME `id` 'x' \"y\" \\\n"
    program = replace(sh("one", text), files={"in.txt": odd}, result="out.txt")
    silent = replace(sh("two", "true"), result="out.txt")
    done = run_body(tmp_path, [program, silent], repeats=2)
    assert (done.stdout, done.stderr) == ("", "")
    assert not list(tmp_path.glob("two.*.result.*")), "nor is another one's taken"
    for repeat in (1, 2):
        assert (tmp_path / f"one.{repeat}.out").read_text() == odd
        result = tmp_path / jobscript.files_of("one", repeat).result
        assert result.read_text() == f"{odd}{tmp_path}/evidence/one.{repeat}\n"


# ---- Two stacks interleaved in one job: what the job's shell makes of it ----


def test_the_paired_stack_leaves_the_jobs_stack_and_enters_its_own(tmp_path):
    own = simple_condition(
        {"OWN": "1", "BOTH": "own"},
        {"LIBS": ("/own/a", "/own/b"), "ONLY": ("/own",)},
        {"OWN_DEBUG": "x"},
    )
    theirs = simple_condition(
        {"BOTH": "it's $theirs"},
        {"LIBS": ("/their libs",), "MORE": ("/more",)},
        {"LOG": f"a={jobscript.DEBUG_FILE}"},
    )
    command = jobscript.Command(
        "rival_p",
        ["env"],
        ["sh", "-c", 'env | grep -E "^(OWN|BOTH|LIBS|ONLY|MORE|OWN_DEBUG|LOG)="'],
        interleaved._enter("rival_p", own, theirs),
    )
    head = ("export OWN=1 BOTH=own LIBS=/own/a:/own/b:/site ONLY=/own", "unset MORE")
    done = run_body(tmp_path, [command], head=head, debug_env={"OWN_DEBUG": "y"})
    assert (done.returncode, done.stderr) == (0, "")
    said = (tmp_path / "rival_p.2.out").read_text().splitlines()
    wanted = ["BOTH=it's $theirs", "LIBS=/their libs:/site", "ONLY=", "MORE=/more"]
    assert sorted(said) == sorted([*wanted, f"LOG=a={tmp_path}/rival_p.2.debug"])


# ---- Assignments of a condition and of a stack are literal in a shell ----


def test_every_assignment_is_literal(tmp_path):
    lines = [f"export {name}={word}" for name, word in resolved().assignments.items()]
    text = "\n".join([*lines, 'printf "%s" "$SITES_OWN"'])
    done = finished("bash", "-c", text, cwd=tmp_path)
    assert done.stdout == ODD
    assert not list(tmp_path.iterdir())


#: What a rank finds under a launcher that numbers it on its node, and the GPU it then sees.
GPU_LISTS = yaml.safe_load((DATA / "gpu_lists.yaml").read_text())


@pytest.mark.parametrize("case", GPU_LISTS)
def test_each_rank_sees_the_gpu_of_its_number_or_ends(case, tmp_path):
    given, wanted = GPU_LISTS[case]
    show = ["sh", "-c", 'echo "GPU $VISIBLE${ALSO:+ and $ALSO}"']
    known = {"MPIBENCH_LOCAL_RANK_VARIABLES": "FIRST:LOCAL"}
    command = jobscript.Command(
        "one", ["env"], show, known=known, gpu=("VISIBLE", "0 1 2 3", "ALSO")
    )
    run_body(tmp_path, [command], {**PLAIN, "LOCAL": "3", **given}, repeats=1)
    output, error = ((tmp_path / f"one.1.{end}").read_text() for end in ("out", "err"))
    status = statuses(tmp_path)["one", 1]
    if wanted.startswith("GPU "):
        assert (output, error, status) == (f"{wanted}\n", "", 0)
    else:
        assert (output, status, error.count("\n")) == ("", 1, 1)
        assert excerpt(error) == error.strip()
        assert error.startswith("mpibench: ") and wanted in error
