"""The job body: run by a real bash with a stand-in for the launcher."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from reframe_tests.harness import jobscript

REPEATS = 3


def run_body(
    folder: Path, commands: list[jobscript.Command], environ: dict[str, str] | None = None, **options: object
) -> subprocess.CompletedProcess[str]:
    settings = {"repeats": REPEATS, "limit_s": 20, "witness": "", "debug_env": {}, **options}
    body = "\n".join([*jobscript.write_body(commands, **settings), "measure"])
    return subprocess.run(
        ["bash", "-c", body], cwd=folder, env=environ, text=True, capture_output=True, timeout=60, check=False
    )


def sh(name: str, text: str) -> jobscript.Command:
    return jobscript.Command(name, ["sh", "-c", '"$@"', "launcher"], ["sh", "-c", text])


def test_repeats_are_interleaved_and_kept_apart(tmp_path: Path) -> None:
    result = run_body(tmp_path, [sh("one", "echo one; echo no >&2"), sh("two", "echo two")])
    assert (result.stdout, result.stderr) == ("", "")
    order = [line.split()[:2] for line in (tmp_path / jobscript.LAUNCH_LOG).read_text().splitlines()]
    assert order == [["one", "1"], ["two", "1"], ["one", "2"], ["two", "2"], ["one", "3"], ["two", "3"]]
    for repeat in range(1, REPEATS + 1):
        files = jobscript.files_of("one", repeat)
        assert (tmp_path / files.output).read_text() == "one\n"
        assert (tmp_path / files.error).read_text() == "no\n"
        assert (tmp_path / files.evidence).is_dir()


def test_each_rank_is_told_where_to_testify(tmp_path: Path) -> None:
    run_body(tmp_path, [sh("one", 'echo "$LD_PRELOAD|$MPIBENCH_EVIDENCE"')], witness="")
    assert (tmp_path / "one.2.out").read_text() == f"|{tmp_path}/evidence/one.2\n"


#: What this process has; a preload of the machine the tests run on would be counted.
PLAIN = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def test_what_was_to_be_preloaded_already_still_is(tmp_path: Path) -> None:
    """The job's own, as a module or the user's ``env_vars`` set it, and what a launcher adds on the node."""
    show = sh("job", 'echo "$LD_PRELOAD"')
    adds = jobscript.Command("node", ["env", "LD_PRELOAD=libm.so.6 libdl.so.2"], show.program)
    run_body(tmp_path, [show, adds], {**PLAIN, "LD_PRELOAD": "libm.so.6"}, witness="libc.so.6", repeats=1)
    assert (tmp_path / "job.1.out").read_text() == "libc.so.6:libm.so.6\n"
    assert (tmp_path / "node.1.out").read_text() == "libc.so.6:libm.so.6 libdl.so.2\n"
    run_body(tmp_path, [show], PLAIN, witness="libc.so.6", repeats=1)
    assert (tmp_path / "job.1.out").read_text() == "libc.so.6\n"


def test_words_and_paths_with_blanks_reach_the_program_whole(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    show = jobscript.Command(
        "one", [], ["sh", "-c", 'printf "%s|" "$MPIBENCH_EVIDENCE" "$@"', "x", "c d", "$HOME", "*", "e'f\"g"]
    )
    run_body(folder, [show], PLAIN, repeats=1)
    assert (folder / "one.1.out").read_text() == f"{folder}/evidence/one.1|c d|$HOME|*|e'f\"g|"


def test_debug_file_is_the_launchs_own_and_values_are_literal(tmp_path: Path) -> None:
    env = {"LOG": jobscript.DEBUG_FILE, "ODD": 'a "b" $HOME `id` \\'}
    run_body(tmp_path, [sh("one", 'echo "$LOG"; echo "$ODD"')], debug_env=env)
    assert (tmp_path / "one.3.out").read_text() == f'{tmp_path}/one.3.debug\na "b" $HOME `id` \\\n'


def test_statuses_and_hangs_are_logged(tmp_path: Path) -> None:
    run_body(tmp_path, [sh("bad", "exit 7"), sh("hung", "sleep 60")], repeats=1, limit_s=3)
    statuses = jobscript.read_launch_log((tmp_path / jobscript.LAUNCH_LOG).read_text())
    assert statuses == {("bad", 1): 7, ("hung", 1): jobscript.TIMED_OUT}


def test_nothing_is_started_after_a_launch_that_hung(tmp_path: Path) -> None:
    run_body(tmp_path, [sh("good", "true"), sh("hung", "sleep 60"), sh("late", "touch started")], limit_s=3)
    assert (tmp_path / jobscript.LAUNCH_LOG).read_text().split("\n")[1].startswith(f"hung 1 {jobscript.TIMED_OUT} ")
    assert list(jobscript.read_launch_log((tmp_path / jobscript.LAUNCH_LOG).read_text())) == [("good", 1), ("hung", 1)]
    assert not (tmp_path / "started").exists()


def test_a_launch_that_had_to_be_killed_hung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobscript, "GRACE_S", 1)
    run_body(tmp_path, [sh("deaf", "trap '' TERM; sleep 60 & wait; sleep 60")], repeats=1, limit_s=3)
    assert set(jobscript.read_launch_log((tmp_path / jobscript.LAUNCH_LOG).read_text()).values()) == {jobscript.TIMED_OUT}


def test_a_launch_that_is_killed_early_did_not_hang(tmp_path: Path) -> None:
    run_body(tmp_path, [sh("killed", "kill -9 $$")], repeats=2)
    assert set(jobscript.read_launch_log((tmp_path / jobscript.LAUNCH_LOG).read_text()).values()) == {137}


def test_a_second_start_of_the_job_counts_alone_and_is_remembered(tmp_path: Path) -> None:
    run_body(tmp_path, [sh("one", "echo first; echo x >$MPIBENCH_EVIDENCE/rank.json")])
    run_body(tmp_path, [sh("one", "echo second")], repeats=1)
    assert (tmp_path / jobscript.LAUNCH_LOG).read_text().count("\n") == 1
    assert sorted(path.name for path in tmp_path.glob("one.*.out")) == ["one.1.out"]
    assert not list(tmp_path.rglob("*.json"))
    assert len((tmp_path / jobscript.START_LOG).read_text().splitlines()) == 2


def test_a_log_cut_short_counts_as_missing() -> None:
    assert jobscript.read_launch_log("p2p 1 0 3\np2p 2 0") == {("p2p", 1): 0}
    assert jobscript.read_launch_log("") == {}


def test_a_failing_launch_does_not_end_a_script_under_errexit(tmp_path: Path) -> None:
    body = "\n".join(
        ["set -e", *jobscript.write_body([sh("bad", "exit 7")], repeats=2, limit_s=9, witness="", debug_env={}), "measure"]
    )
    assert subprocess.run(["bash", "-c", body], cwd=tmp_path, timeout=60, check=False).returncode == 0
    assert len(jobscript.read_launch_log((tmp_path / jobscript.LAUNCH_LOG).read_text())) == 2
