"""ReFrame ends red, in one sentence, where it would have ended green without loading or running what it was asked for."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from mpibench.listings import doctor
from reframe_tests.harness.sites import whole_run
from reframe_tests.harness.vocabulary import BadInput

Run = Callable[..., CompletedProcess[str]]
TEST = """
import reframe as rfm


@rfm.simple_test
class OfTheSite(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "true"
"""


def errors(result: CompletedProcess[str]) -> list[str]:
    return [line for line in (result.stdout + result.stderr).splitlines() if line.startswith("ERROR")]


@pytest.mark.parametrize("end", ["import sys\nsys.exit()\n", "exit(0)\n"])
def test_a_file_of_tests_that_ends_the_program_is_red(run_reframe: Run, tmp_path: Path, end: str) -> None:
    own = tmp_path / "own.py"
    own.write_text(f"{TEST}\n\n{end}")
    result = run_reframe("-l", "-c", str(own), only="startup.py")
    assert result.returncode == 1, result.stdout
    [error] = errors(result)
    assert f"{own}, line " in error and "ended ReFrame while the tests were loaded: take the exit out of it." in error


def test_a_file_of_tests_that_never_ends_is_red(run_reframe: Run, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(f"{TEST}\n\nimport time\nwhile True:\n    time.sleep(1)\n")
    result = run_reframe("-l", "-c", str(own), only="startup.py", environ={whole_run.LIMIT: "5"})
    assert result.returncode == 1, result.stdout
    [error] = errors(result)
    assert f"the tests were not loaded within 5 s; {whole_run.LIMIT} says how long it may take" in error and own.name in error


def test_a_limit_that_is_none_is_one_sentence(run_reframe: Run) -> None:
    result = run_reframe("-l", only="startup.py", environ={whole_run.LIMIT: "soon"})
    assert result.returncode == 1 and f"{whole_run.LIMIT} is 'soon', expected a number of seconds above 0." in result.stdout
    with pytest.raises(BadInput):
        whole_run.limit_of({whole_run.LIMIT: "-1"})
    assert whole_run.limit_of({}) == whole_run.limit_of({whole_run.LIMIT: ""}) == whole_run.LIMIT_S


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("", None),
        ("import os\nos._exit(0)\n", "ended with exit status 0: it lists nothing: a file of tests ends the program"),
        ("import sys\nsys.exit()\n", "ended ReFrame while the tests were loaded"),
        ("SUM = not_defined\n", "name error: name 'not_defined' is not defined"),
    ],
)
def test_doctor_says_which_tests_are_not_loaded(tmp_path: Path, root: Path, end: str, said: str | None) -> None:
    own = tmp_path / "own.py"
    own.write_text(f"{TEST}\n\n{end}")
    [finding] = doctor.check_loading([tmp_path, tmp_path / "absent"], "generic", root)
    assert finding.state == (doctor.MISSING if said else doctor.OK), finding.detail
    assert said in finding.detail if said else finding.detail == f"ReFrame loads 1 from {tmp_path}"


GROUP = '    group = "p2p"\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (TEST, None),
        (TEST.replace("@rfm.simple_test\n", ""), None),
        (
            TEST.replace("@rfm.simple_test\n", "") + GROUP,
            "class OfTheSite of {} names a group and is no test: write @rfm.simple_test",
        ),
        (TEST.replace("@rfm.simple_test\nclass OfTheSite", "class Base") + GROUP + "\n\nclass Other(Base):\n    pass\n", None),
        (TEST.replace("import reframe as rfm", "from ours import rfm"), None),
        (
            TEST.replace("import reframe as rfm", "from ours import rfm, simple_test").replace("@rfm.", "@"),
            "{} imports nothing of reframe, so it is not taken for a file of tests: import reframe in it",
        ),
        ("def broken(:", None),
    ],
)
def test_what_reframe_passes_over_is_named(tmp_path: Path, text: str, sentence: str | None) -> None:
    """It says nothing of it at any verbosity that anybody uses, or loads the file and no test of it."""
    own = tmp_path / "own.py"
    own.write_text(text)
    for path in (own, tmp_path):
        found = list(whole_run.overlooked([str(path)]))
        assert found == [] if sentence is None else len(found) == 1 and found[0].startswith(sentence.format(own))


def test_links_to_nothing_and_folders_below_are_named(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "own.py").write_text(TEST)
    [sentence] = whole_run.overlooked([str(tmp_path)])
    assert sentence == f"{tmp_path} holds no test itself, and ReFrame does not look below it: give -c {tmp_path}/tests"
    assert list(whole_run.overlooked([str(tmp_path)], recursive=True)) == []
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    assert list(whole_run.overlooked([str(tmp_path)])) == [f"{tmp_path}/gone.py is a link to nothing"]


def test_a_folder_with_its_tests_one_below_is_refused_by_reframe(run_reframe: Run, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "own.py").write_text(TEST)
    result = run_reframe("-l", "-c", str(tmp_path), only="startup.py")
    assert result.returncode == 1, result.stdout
    [error] = errors(result)
    assert f"give -c {tmp_path}/tests." in error and "nothing is measured without it" in error


RAN = "[  PASSED  ] Ran {}/{} test case(s) from 2 check(s) (0 failure(s), 0 expected failure(s), {} skipped, {} aborted)"


@pytest.mark.parametrize(
    ("counts", "words", "said"),
    [
        ((2, 2, 0, 0), ["-r"], ""),
        ((1, 2, 1, 0), ["-r"], ""),
        ((0, 2, 2, 0), ["-r"], "nothing was measured: all 2 cases were skipped"),
        ((0, 2, 2, 0), ["--dry-run"], "nothing would be measured: all 2 cases were skipped"),
        ((1, 2, 1, 0), ["--dry-run"], ""),
        ((1, 3, 0, 2), ["-r", "--duration=1m"], "interrupted: 2 of 3 cases did not run"),
    ],
)
def test_what_became_of_the_cases_is_read_from_what_reframe_says(counts: tuple[int, ...], words: list[str], said: str) -> None:
    assert whole_run.lost_cases(RAN.format(*counts), words) == said
    assert whole_run.lost_cases("Running 2 check(s)", words) == ""


@pytest.mark.parametrize(
    ("message", "code", "red"),
    [
        ("failed to store results in the database: disk is full", 0, True),
        ("failed to generate report in 'night.xml': Permission denied", 0, True),
        (RAN.format(0, 2, 2, 0), 0, True),
        (RAN.format(0, 2, 2, 0), 1, False),
        (RAN.format(2, 2, 0, 0), 0, False),
    ],
)
def test_a_success_that_is_none_ends_with_another_status(
    message: str, code: int, red: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["reframe", "-r"])
    listener = whole_run._Listener(60.0)

    def say(text: str) -> None:
        listener.emit(logging.LogRecord("reframe", logging.INFO, "", 0, text, None, None))

    with pytest.raises(SystemExit) as ended:
        try:
            say(message)
            sys.exit(code)
        finally:
            say("Log file(s) saved in 'x'")
    assert ended.value.code == (1 if red else code)
