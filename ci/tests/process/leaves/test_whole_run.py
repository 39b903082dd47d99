"""ReFrame ends red, in one sentence, where it would have ended green
without loading or running what it was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from mpibench.commands.listings import doctor
from reframe_tests.harness.sites import selected_tests

Run = Callable[..., CompletedProcess[str]]
TEST = """
import reframe as rfm


@rfm.simple_test
class OfTheSite(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "true"
"""


class Stats:
    """Counts of cases as ReFrame's ``TestStats`` has them."""

    def __init__(self, all_: int, skipped: int = 0, aborted: int = 0, failed: int = 0) -> None:
        self.counts = {"skipped": skipped, "aborted": aborted, "failed": failed}
        self.all = all_

    def num_cases(self, run: int | None) -> int:
        return self.all

    def __getattr__(self, name: str) -> Callable[[int | None], list[int]]:
        return lambda run: [0] * self.counts[name]


@pytest.mark.parametrize(
    ("stats", "dry", "said"),
    [
        (Stats(2), False, ""),
        (Stats(2, skipped=1), False, ""),
        (Stats(2, skipped=2), False, "nothing was measured: all 2 cases were skipped"),
        (Stats(2, skipped=2), True, "nothing would be measured: all 2 cases were skipped"),
        (Stats(2, aborted=1), False, "interrupted: 1 of 2 cases did not run"),
        (Stats(1), False, "interrupted: 1 of 2 cases did not run"),
        (Stats(2, aborted=1, failed=1), False, ""),
    ],
)
def test_a_session_without_all_of_its_cases_is_none(stats: Stats, dry: bool, said: str) -> None:
    assert selected_tests.lost_cases(stats, 2, dry=dry) == said


@pytest.fixture
def red(run_reframe: Run, tmp_path: Path) -> Callable[..., str]:
    """The one error of a run of a file of tests, which ends red."""

    def run(own: str, *options: str, **environ: str) -> str:
        path = tmp_path / "own.py"
        path.write_text(TEST + own)
        words = options or ("-l", "-c", str(path))
        result = run_reframe(*words, only="startup.py", environ=environ)
        assert result.returncode == 1, result.stdout
        said = (result.stdout + result.stderr).splitlines()
        [error] = [line for line in said if line.startswith("ERROR")]
        return error

    return run


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("\n\nimport sys\nsys.exit()\n", "own.py, line "),
        ("\n\nexit(0)\n", "ended ReFrame while tests were loaded: remove the exit from it"),
        ("\n\nimport time\nwhile True:\n    time.sleep(1)\n", "were not loaded within 8 s"),
    ],
)
def test_a_file_of_tests_that_ends_the_program_or_never_ends_is_red(
    red: Callable[..., str], end: str, said: str
) -> None:
    error = red(end, **{selected_tests.LIMIT: "8"} if "sleep" in end else {})
    assert said in error and "own.py" in error


def test_a_folder_with_its_tests_one_below_is_refused(
    red: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "above" / "tests").mkdir(parents=True)
    (tmp_path / "above" / "tests" / "own.py").write_text(TEST)
    error = red("", "-l", "-c", str(tmp_path / "above"))
    assert f"give -c {tmp_path}/above/tests;" in error and "nothing is measured, because" in error


def test_a_session_that_is_not_stored_ends_with_another_status(
    run_reframe: Run, red: Callable[..., str], tmp_path: Path
) -> None:
    own = tmp_path / "own.py"
    passes = "\n    @sanity_function\n    def passes(self):\n        return True\n"
    own.write_text(TEST + passes)
    words = ("-r", "-c", str(own), "-n", "OfTheSite")
    assert run_reframe(*words, only="startup.py").returncode == 0
    error = red(passes, *words, f"--report-junit={tmp_path}/absent/night.xml")
    assert "FAILED: " in error and "No such file" in error


def test_a_session_whose_cases_were_all_skipped_is_red(
    red: Callable[..., str], tmp_path: Path
) -> None:
    skips = '\n    @run_after("setup")\n    def leave(self):\n        self.skip("not today")\n'
    words = ("-r", "-c", str(tmp_path / "own.py"), "-n", "OfTheSite")
    assert re.search(r"nothing was measured: all \d+ cases were skipped", red(skips, *words))


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("", None),
        ("import os\nos._exit(0)\n", "it lists no tests: a test file ends the program"),
        ("SUM = not_defined\n", "name error: name 'not_defined' is not defined"),
    ],
)
def test_doctor_says_which_tests_are_not_loaded(
    tmp_path: Path, root: Path, end: str, said: str | None
) -> None:
    (tmp_path / "own.py").write_text(f"{TEST}\n\n{end}")
    [finding] = doctor.check_loading([tmp_path, tmp_path / "absent"], "generic", root)
    assert finding.state == (doctor.MISSING if said else doctor.OK), finding.detail
    assert (said or f"ReFrame loads 1 from {tmp_path}") in finding.detail


def test_links_to_nothing_and_folders_below_are_named(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "own.py").write_text(TEST)
    [sentence] = selected_tests.overlooked([str(tmp_path)])
    assert sentence.endswith(f"ReFrame does not search below it: give -c {tmp_path}/tests")
    assert list(selected_tests.overlooked([str(tmp_path)], recursive=True)) == []
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    [sentence] = selected_tests.overlooked([str(tmp_path)])
    assert sentence == f"{tmp_path}/gone.py is a dangling link"
