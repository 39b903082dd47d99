"""ReFrame ends with one sentence and status 1 where a typo, or
options that exclude each other, select nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from synthetic_extensions import GALLEY_SYSTEM as SYSTEM
from synthetic_site import TEST, write_site
from synthetic_stack import write_stack

Run = Callable[..., CompletedProcess[str]]
ONE = "point_to_point.py"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("-l -n PointToPoit", "-n PointToPoit fits no test: there are ImbMessageSources, "),
        ("-r -S levl=smoke", "-S levl=smoke has no effect: no test has a variable 'levl'"),
        ("-r -S repeats=0", "-S repeats=0 would measure nothing; give 1 or more."),
        ("-l -n ImbMessageSources --mode=smoke", "-t smoke of --mode=smoke fits no test that the"),
        ("-l -E nosuch==1", "-E nosuch==1 fits no test: parameters are "),
        ("-l -p nosuch-stack", "-p nosuch-stack matches no usable stack"),
    ],
)
def test_what_selects_nothing_is_one_red_sentence(
    run_reframe: Run, options: str, sentence: str
) -> None:
    result = run_reframe(*options.split(), only=ONE)
    output = result.stdout + result.stderr
    assert result.returncode == 1, output
    marks = ("ERROR", "error while evaluating", sentence)
    errors = [line for line in output.splitlines() if any(mark in line for mark in marks)]
    assert len(errors) == 1 and sentence in errors[0], output
    assert "PASSED" not in output and "Found 0" not in output and "Traceback" not in output


def test_a_test_of_the_users_own_is_selected_beside_ours(run_reframe: Run, tmp_path: Path) -> None:
    """Its names and tags are its own: ours are no measure of them."""
    own = tmp_path / "own.py"
    own.write_text(TEST)
    result = run_reframe("-l", "-c", str(own), "-n", "Writer", only=ONE)
    assert result.returncode == 0 and "- Writer" in result.stdout, result.stdout


# ---- what settings of the tests do; the stacks are only files ----


@pytest.fixture
def run(tmp_path: Path, run_reframe: Callable[..., Any]) -> Callable[..., Any]:
    """ReFrame on one case of a made-up site with two stacks,
    ``one-system`` and ``two-system``, that are only files.
    """
    [partition] = SYSTEM["partitions"]
    config = write_site(tmp_path, {**SYSTEM, "partitions": [{**partition, "launcher": "mpirun"}]})
    stacks = [str(write_stack(tmp_path / name, name=f"{name}-system")) for name in ("one", "two")]
    environ = {
        "RFM_PREFIX": str(tmp_path / "results"),
        "RFM_SQLITE_DB_FILE": str(tmp_path / "results.db"),
        "MPIBENCH_STACKS": ":".join(stacks),
    }
    words = [
        "--system=harbour",
        "-n",
        "fabric=eth.*nodes=2.*ppn=1.*pinning=none",
        "-p",
        "one-system",
    ]

    def run(*options: str) -> Any:
        return run_reframe(*words, *options, config=config, only=ONE, environ=environ)

    return run


def test_the_level_chooses_what_is_measured(tmp_path: Path, run: Callable[..., Any]) -> None:
    result = run("--dry-run", "-S", "level=acceptance")
    assert result.returncode == 0, result.stdout + result.stderr
    [script] = [path.read_text() for path in (tmp_path / "results").rglob("rfm_*.sh")]
    assert "-iter 2000,80,2000" in script
    refused = run("--dry-run", "-S", "level=deep")
    assert "'deep' is not a level; choose one of smoke, nightly, acceptance." in refused.stdout


# ---- a site's folder as ReFrame meets it ----
