"""ReFrame ends with one sentence and status 1 where a typo, or options that exclude each other, select nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., CompletedProcess[str]]
ONE = "point_to_point.py"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("-l", "-n", "PointToPoit"), "-n PointToPoit fits no test: there are ImbMessageSources, ImbPointToPoint, "),
        (("-r", "-S", "repeats=0"), "-S repeats=0 would measure nothing; give 1 or more."),
        (("-r", "-n", "ImbPointToPoint", "-x", "ImbPointToPoint"), "nothing is measured, because no test case fits all"),
        (
            ("-r", "-n", "ImbPointToPoint", "-P", "ppn=4000"),
            "can run it here: ppn=4000 is 4000 processes and the partition has ",
        ),
        (("--dry-run", "-p", "builtin"), "nothing is measured, because no test case fits all"),
    ],
)
def test_what_selects_nothing_is_one_red_sentence(run_reframe: Run, options: tuple[str, ...], sentence: str) -> None:
    result = run_reframe(*options, only=ONE)
    output = result.stdout + result.stderr
    assert result.returncode == 1, output
    errors = [line for line in output.splitlines() if line.startswith("ERROR")]
    assert len(errors) == 1 and sentence in errors[0], output
    assert "PASSED" not in output and "Found 0" not in output and "Traceback" not in output


@pytest.mark.parametrize(
    ("options", "warnings"),
    [
        (("-n", "ImbMessageSources", "--mode=nightly"), ["no test fits all options together; a mode (--mode) is options, too"]),
        (
            ("-n", "ImbPointToPoint", "-P", "ppn=4000"),
            ["fits all options together: ppn=4000 is 4000 processes and the partition"],
        ),
        (("-n", "ImbPointToPoint"), []),
    ],
)
def test_a_list_of_none_says_why(run_reframe: Run, options: tuple[str, ...], warnings: list[str]) -> None:
    result = run_reframe("-l", *options, only=ONE)
    said = [line for line in (result.stdout + result.stderr).splitlines() if "WARNING" in line and "fit" in line]
    assert ("Found 0 check(s)" in result.stdout) == bool(warnings), result.stdout
    assert len(said) == len(warnings), result.stdout
    assert all(wanted in line for wanted, line in zip(warnings, said, strict=True)), said


def test_a_configuration_error_is_said_once(run_reframe: Run) -> None:
    result = run_reframe("-l", "-p", "nosuch-stack", only=ONE)
    output = result.stdout + result.stderr
    assert result.returncode == 1
    assert output.count("-p nosuch-stack fits no stack") == 1
    assert "builtin" not in output


def test_a_test_of_the_users_own_is_selected_beside_ours(run_reframe: Run, tmp_path: Path) -> None:
    """Its names and tags are its own: ours are no measure of them."""
    own = tmp_path / "own.py"
    own.write_text(
        "import reframe as rfm\n\n\n@rfm.simple_test\nclass OfTheSite(rfm.RunOnlyRegressionTest):\n"
        '    valid_systems = ["*"]\n    valid_prog_environs = ["*"]\n    executable = "true"\n'
    )
    result = run_reframe("-l", "-c", str(own), "-n", "OfTheSite", only=ONE)
    assert result.returncode == 0, result.stdout
    assert "- OfTheSite" in result.stdout
