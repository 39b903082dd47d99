"""The commands of README and docs that measure on machines that are not here: ReFrame writes their job scripts, on the bundled
systems with stacks like those of the papers."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import published_stacks
from reframe_tests.harness.vocabulary import ROOT
from shown_commands import DRY

SWITCHES = Path("ci/tests/data/golden_switches")


@pytest.fixture(scope="module")
def stacks_variable(tmp_path_factory: pytest.TempPathFactory) -> str:
    return published_stacks.write_all(tmp_path_factory.mktemp("stacks"))


def file_of(test: str) -> str:
    """The one file with a test, which is loaded in a quarter of the time of all."""
    [path] = [path for path in (ROOT / "reframe_tests").glob("*.py") if re.search(rf"^class {test}\b", path.read_text(), re.M)]
    return path.name


@pytest.mark.parametrize(("shown", "system"), DRY.items(), ids=list(DRY))
def test_a_case_that_is_shown_gets_its_jobs(
    shown: str, system: str, run_reframe: Callable[..., subprocess.CompletedProcess[str]], stacks_variable: str
) -> None:
    words = shlex.split(shown)
    assert words[:4] == ["reframe", "-c", "reframe_tests", "-r"]
    test = words[words.index("-n") + 1]
    done = run_reframe(
        *words[4:], "--dry-run", f"--system={system}", environ={"MPIBENCH_STACKS": stacks_variable}, only=file_of(test)
    )
    ran = re.search(r"PASSED.*Ran ([1-9]\d*)/", done.stdout)
    assert done.returncode == 0 and ran, done.stdout[-2000:]
