"""ReFrame ends red, in one sentence, where it would have ended green without loading or running
what it was asked for; and others read what it stored.
"""

import re
from xml.etree import ElementTree

import pytest

from folders import write
from mpibench.commands.listings import doctor
from reframe_tests.harness.sites import selected_tests
from synthetic_stack import write_stack

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

    def __init__(self, all_, **counts):
        self.num_cases = lambda run: all_
        for name in ("skipped", "aborted", "failed"):
            setattr(self, name, lambda run, name=name: [0] * counts.get(name, 0))


@pytest.mark.parametrize(
    ("stats", "said"),
    [
        (Stats(2, skipped=1), ""),
        (Stats(2, skipped=2), "nothing was measured: all 2 cases were skipped"),
        (Stats(2, aborted=1), "interrupted: 1 of 2 cases did not run"),
        (Stats(1), "interrupted: 1 of 2 cases did not run"),
        (Stats(2, aborted=1, failed=1), ""),
    ],
)
def test_a_session_without_all_of_its_cases_is_none(stats, said):
    assert selected_tests.lost_cases(stats, 2, dry=False) == said


@pytest.fixture
def red(run_reframe, tmp_path):
    """The one error of a run of a file of tests, which ends red."""

    def run(own, *options, **environ):
        path = write(tmp_path / "own.py", TEST + own)
        words = options or ("-l", "-c", path)
        result = run_reframe(*words, only="startup.py", environ=environ, ended=1)
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
def test_a_file_of_tests_that_ends_the_program_or_never_ends_is_red(red, end, said):
    error = red(end, **{selected_tests.LIMIT: "8"} if "sleep" in end else {})
    assert said in error and "own.py" in error


def test_a_folder_with_its_tests_one_below_is_refused(red, tmp_path):
    write(tmp_path / "above" / "tests" / "own.py", TEST)
    error = red("", "-l", "-c", tmp_path / "above")
    assert f"give -c {tmp_path}/above/tests;" in error and "nothing is measured, because" in error


def test_a_session_that_is_not_stored_ends_with_another_status(run_reframe, red, tmp_path):
    passes = "\n    @sanity_function\n    def passes(self):\n        return True\n"
    own = write(tmp_path / "own.py", TEST + passes)
    words = ("-r", "-c", own, "-n", "OfTheSite")
    run_reframe(*words, only="startup.py", ended=0)
    error = red(passes, *words, f"--report-junit={tmp_path}/absent/night.xml")
    assert "FAILED: " in error and "No such file" in error


def test_a_session_whose_cases_were_all_skipped_is_red(red, tmp_path):
    skips = '\n    @run_after("setup")\n    def leave(self):\n        self.skip("not today")\n'
    words = ("-r", "-c", tmp_path / "own.py", "-n", "OfTheSite")
    assert re.search(r"nothing was measured: all \d+ cases were skipped", red(skips, *words))


def test_doctor_says_which_tests_are_not_loaded(tmp_path, root):
    for end, state, said in (
        ("", doctor.OK, f"ReFrame loads 1 from {tmp_path}"),
        ("import os\nos._exit(0)\n", doctor.MISSING, "a test file ends the program"),
        ("SUM = not_defined\n", doctor.MISSING, "name error: name 'not_defined' is not defined"),
    ):
        (tmp_path / "own.py").write_text(f"{TEST}\n\n{end}")
        [finding] = doctor.check_loading([tmp_path, tmp_path / "absent"], "generic", root)
        assert finding.state == state and said in finding.detail


def test_links_to_nothing_and_folders_below_are_named(tmp_path):
    write(tmp_path / "tests" / "own.py", TEST)
    [sentence] = selected_tests.overlooked([str(tmp_path)])
    assert sentence.endswith(f"ReFrame does not search below it: give -c {tmp_path}/tests")
    assert list(selected_tests.overlooked([str(tmp_path)], recursive=True)) == []
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    [sentence] = selected_tests.overlooked([str(tmp_path)])
    assert sentence == f"{tmp_path}/gone.py is a dangling link"


# ---- what others read of a run ----


def test_reframes_junit_is_read_by_others(tmp_path, run_reframe, root):
    """A stack whose launcher fails in colours, run by the real ReFrame."""
    path = write_stack(tmp_path / "stack", name="colour-system")
    said = "\\033[1;31mfatal error:\\033[0m no such device: \\001mlx5_9\\033[0m\\n"
    fails = f"#!/bin/sh\nprintf '{said}' >&2\nexit 1\n"
    write(tmp_path / "stack" / "bin" / "mpirun", fails, executable=True)
    junit = tmp_path / "night.xml"
    environ = {
        "MPIBENCH_STACKS": path,
        "RFM_PREFIX": tmp_path,
        "RFM_SQLITE_DB_FILE": tmp_path / "results.db",
    }
    words = f"-r -S level=smoke --system=generic --report-junit={junit} -p colour-system"
    words += " -n ImbPointToPoint%fabric=shm%nodes=1%ppn=2%pinning=none"
    run_reframe(words=words, environ=environ, only="point_to_point.py", ended=1)
    found = ElementTree.parse(junit).getroot().findall(".//failure")
    assert len(found) == 1
    assert "it said: fatal error: no such device: mlx5_9" in found[0].text
