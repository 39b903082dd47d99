"""Programs that read a file and write one: each launch finds its own, and what it wrote is kept beside what it printed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reframe_tests.harness.cases.job import script as jobscript
from test_jobscript import run_body, sh


def test_the_input_is_written_anew_and_the_result_kept_with_each_launch(tmp_path: Path) -> None:
    text = "cat in.txt; cat in.txt >>out.txt; echo $MPIBENCH_EVIDENCE >>out.txt; echo spoilt >in.txt"
    odd = "N = 640\n$HOME `id` 'x' \"y\" \\\n"
    program = replace(sh("one", text), files={"in.txt": odd}, result="out.txt")
    done = run_body(tmp_path, [program], repeats=2)
    assert (done.stdout, done.stderr) == ("", "")
    for repeat in (1, 2):
        assert (tmp_path / f"one.{repeat}.out").read_text() == odd
        assert (tmp_path / jobscript.files_of("one", repeat).result).read_text() == f"{odd}{tmp_path}/evidence/one.{repeat}\n"


def test_a_result_of_another_launch_is_not_taken(tmp_path: Path) -> None:
    writes = replace(sh("one", "echo first >out.txt"), result="out.txt")
    silent = replace(sh("two", "true"), result="out.txt")
    run_body(tmp_path, [writes, silent], repeats=1)
    assert (tmp_path / "one.1.result.out").read_text() == "first\n"
    assert (tmp_path / "two.1.out").read_text() == ""
    assert not (tmp_path / "two.1.result.out").exists()


def test_a_second_start_of_the_job_has_none_of_the_first(tmp_path: Path) -> None:
    run_body(tmp_path, [replace(sh("one", "echo first >out.txt"), result="out.txt")], repeats=2)
    run_body(tmp_path, [replace(sh("one", "true"), result="out.txt")], repeats=1)
    assert not list(tmp_path.glob("one.*.result.out"))


def test_no_more_is_kept_than_of_what_is_printed(tmp_path: Path) -> None:
    endless = replace(sh("one", f"head -c {jobscript.MOST_OUTPUT_BYTES + 9} /dev/zero >out.txt"), result="out.txt")
    run_body(tmp_path, [endless], repeats=1)
    assert (tmp_path / "one.1.result.out").stat().st_size == jobscript.MOST_OUTPUT_BYTES
