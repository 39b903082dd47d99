"""ReFrame ends red, in one sentence, where it would have ended green without loading or running what it was asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from mpibench.commands.listings import doctor
from reframe_tests.harness.sites import selected_tests
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
    assert f"{own}, line " in error and "ended ReFrame while the tests were loaded: take the exit out of it" in error


def test_a_file_of_tests_that_never_ends_is_red(run_reframe: Run, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(f"{TEST}\n\nimport time\nwhile True:\n    time.sleep(1)\n")
    result = run_reframe("-l", "-c", str(own), only="startup.py", environ={selected_tests.LIMIT: "5"})
    assert result.returncode == 1, result.stdout
    [error] = errors(result)
    assert "the tests were not loaded within 5 s; MPIBENCH_LOAD_LIMIT_S says how" in error and own.name in error


def test_a_limit_that_is_none_is_one_sentence(run_reframe: Run) -> None:
    result = run_reframe("-l", only="startup.py", environ={selected_tests.LIMIT: "soon"})
    assert result.returncode == 1 and "LIMIT_S is 'soon', expected a number of seconds above 0." in result.stdout
    with pytest.raises(BadInput):
        selected_tests.limit_of({selected_tests.LIMIT: "-1"})
    assert selected_tests.limit_of({}) == selected_tests.limit_of({selected_tests.LIMIT: ""}) == selected_tests.LIMIT_S


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


#: Ends the class of a test that passes.
PASSES = "\n    @sanity_function\n    def passes(self):\n        return True\n"
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
        found = list(selected_tests.overlooked([str(path)]))
        assert found == [] if sentence is None else len(found) == 1 and found[0].startswith(sentence.format(own))


def test_links_to_nothing_and_folders_below_are_named(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "own.py").write_text(TEST)
    [sentence] = selected_tests.overlooked([str(tmp_path)])
    assert sentence == f"{tmp_path} holds no test itself, and ReFrame does not look below it: give -c {tmp_path}/tests"
    assert list(selected_tests.overlooked([str(tmp_path)], recursive=True)) == []
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    assert list(selected_tests.overlooked([str(tmp_path)])) == [f"{tmp_path}/gone.py is a link to nothing"]


def test_a_folder_with_its_tests_one_below_is_refused_by_reframe(run_reframe: Run, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "own.py").write_text(TEST)
    result = run_reframe("-l", "-c", str(tmp_path), only="startup.py")
    assert result.returncode == 1, result.stdout
    [error] = errors(result)
    assert f"give -c {tmp_path}/tests;" in error and "nothing is measured without it" in error


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


def test_a_session_that_is_not_stored_ends_with_another_status(run_reframe: Run, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(TEST + PASSES)
    words = ("-r", "-c", str(own), "-n", "OfTheSite")
    assert run_reframe(*words, only="startup.py").returncode == 0
    result = run_reframe(*words, f"--report-junit={tmp_path}/absent/night.xml", only="startup.py")
    assert result.returncode == 1, result.stdout
    [error] = errors(result)
    assert "this is no success: " in error and "No such file" in error


def test_a_session_whose_cases_were_all_skipped_is_red_and_stored(run_reframe: Run, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(f'{TEST}\n    @run_after("setup")\n    def leave(self):\n        self.skip("not today")\n')
    result = run_reframe("-r", "-c", str(own), "-n", "OfTheSite", only="startup.py")
    assert result.returncode == 1, result.stdout
    [error] = errors(result)
    assert "nothing was measured: all 4 cases were skipped" in error and "Current session stored" in result.stdout
