"""What ``mpibench published`` answers for the bundled papers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reframe_tests.harness.sites import site


@pytest.mark.parametrize(
    ("system", "status", "last"),
    [
        ("openhpc-mini", 1, "3 of 5 printed curves agree with their links as system.py has them; nothing was measured here.\n"),
        ("ibm-p5-575", 0, "25 of 25 printed curves agree with their links as system.py has them; nothing was measured here.\n"),
        ("opa-dual-rail", 2, ""),
    ],
)
def test_the_command_says_it_with_its_exit_status(system: str, status: int, last: str) -> None:
    command = Path(sys.executable).parent / "mpibench"
    done = subprocess.run([command, "published", system], capture_output=True, text=True, cwd=site.ROOT)
    assert done.returncode == status, done.stderr
    assert done.stdout.endswith(last)
    assert len(done.stderr.splitlines()) == (status == 2)
