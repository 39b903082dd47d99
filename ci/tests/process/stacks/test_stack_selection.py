"""A stack that ReFrame is asked for and that cannot be used is an
error, never a pass with 0 of 0 cases.
"""

import json
import re
from pathlib import Path

import pytest

from reframe_tests.harness.sites import site
from synthetic_stack import write_stack


def test_a_session_of_a_stack_that_is_gone_fails_with_its_reason(tmp_path, run_reframe):
    path = write_stack(tmp_path / "gone", name="gone-spack", origin="spack")
    Path(json.loads(path.read_text())["library"]).unlink()
    result = run_reframe("-r", "-p", "gone-spack", environ={"MPIBENCH_STACKS": path})
    assert result.returncode != 0 and "0/0" not in result.stdout
    said = result.stdout + result.stderr
    assert "stack 'gone-spack' is left out" in said and "Traceback" not in said


def test_a_stack_is_picked_beside_a_mode(run_reframe, stacks):
    """ReFrame 4.10 alone would forget ``-p`` then, and measure every stack."""
    if len(stacks) < 2:
        pytest.skip("[stacks] not all wheels stacks are built here")
    words = f"-lC --mode={site.MODES[0]['name']} -p mpich-wheels$ -n ImbPointToPoint"
    listed = run_reframe(words=words, only="point_to_point.py").stdout
    found = re.findall(r"^- ImbPointToPoint .*\+(\S+)$", listed, re.MULTILINE)
    assert set(found) == {"mpich-wheels"}
