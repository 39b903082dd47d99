"""ReFrame ends red, in one sentence, where it would have ended green
without loading or running what it was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

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
        ("\n\nexit(0)\n", "ended ReFrame while the tests were loaded: take the exit out of it"),
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
    assert f"give -c {tmp_path}/above/tests;" in error and "nothing is measured without it" in error


def test_a_session_that_is_not_stored_ends_with_another_status(
    run_reframe: Run, red: Callable[..., str], tmp_path: Path
) -> None:
    own = tmp_path / "own.py"
    passes = "\n    @sanity_function\n    def passes(self):\n        return True\n"
    own.write_text(TEST + passes)
    words = ("-r", "-c", str(own), "-n", "OfTheSite")
    assert run_reframe(*words, only="startup.py").returncode == 0
    error = red(passes, *words, f"--report-junit={tmp_path}/absent/night.xml")
    assert "this is no success: " in error and "No such file" in error


def test_a_session_whose_cases_were_all_skipped_is_red(
    red: Callable[..., str], tmp_path: Path
) -> None:
    skips = '\n    @run_after("setup")\n    def leave(self):\n        self.skip("not today")\n'
    words = ("-r", "-c", str(tmp_path / "own.py"), "-n", "OfTheSite")
    assert re.search(r"nothing was measured: all \d+ cases were skipped", red(skips, *words))


UNMARKED = TEST.replace("@rfm.simple_test\n", "")
GROUP = '    group = "p2p"\n'
OURS = TEST.replace("import reframe as rfm", "from ours import rfm, simple_test")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (TEST, None),
        (UNMARKED, None),
        (UNMARKED + GROUP, "class OfTheSite of {} names a group and is no test"),
        (
            UNMARKED.replace("OfTheSite", "Base") + GROUP + "\n\nclass Other(Base):\n    pass\n",
            None,
        ),
        (OURS.replace("@rfm.", "@"), "{} imports nothing of reframe"),
        ("def broken(:", None),
    ],
)
def test_what_reframe_passes_over_is_named(tmp_path: Path, text: str, sentence: str | None) -> None:
    """It says nothing of it at any verbosity that anybody uses,
    or loads the file and no test of it.
    """
    own = tmp_path / "own.py"
    own.write_text(text)
    for path in (own, tmp_path):
        found = list(selected_tests.overlooked([str(path)]))
        assert len(found) == (sentence is not None)
        assert all(one.startswith(sentence.format(own)) for one in found)
