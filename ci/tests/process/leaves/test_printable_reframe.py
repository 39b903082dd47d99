"""JUnit files of ReFrame are read by others, whatever a job printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from xml.etree import ElementTree

from synthetic_stack import write_stack


def test_reframes_junit_is_read_by_others(
    tmp_path: Path, run_reframe: Callable[..., CompletedProcess[str]], root: Path
) -> None:
    """A stack whose launcher fails in colours, run by the real ReFrame."""
    path = write_stack(tmp_path / "stack", name="colour-system")
    launcher = tmp_path / "stack" / "bin" / "mpirun"
    said = "\\033[1;31mfatal error:\\033[0m no such device: \\001mlx5_9\\033[0m\\n"
    launcher.write_text(f"#!/bin/sh\nprintf '{said}' >&2\nexit 1\n")
    launcher.chmod(0o755)
    junit = tmp_path / "night.xml"
    environ = {
        "MPIBENCH_STACKS": str(path),
        "RFM_PREFIX": str(tmp_path),
        "RFM_SQLITE_DB_FILE": str(tmp_path / "results.db"),
    }
    options = ("-S", "level=smoke", "--system=generic", f"--report-junit={junit}")
    done = run_reframe(
        "-r", "-n", ONE, "-p", "colour-system", *options, environ=environ, only="point_to_point.py"
    )
    assert done.returncode == 1, done.stdout[-2000:]
    found = ElementTree.parse(junit).getroot().findall(".//failure")
    assert len(found) == 1
    assert "it said: fatal error: no such device: mlx5_9" in (found[0].text or "")


ONE = "ImbPointToPoint%fabric=shm%nodes=1%ppn=2%pinning=none"
