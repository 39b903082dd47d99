"""Two stacks interleaved in one real job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mpibench import cli
from mpibench.store import sessions
from reframe_tests.harness.stacks.stack import Stack


def test_two_stacks_in_one_real_job(
    tmp_path: Path, require_stack: Callable[[str], Stack], run_reframe: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    require_stack("intelmpi-wheels"), require_stack("mpich-wheels")
    environ = {"RFM_SQLITE_DB_FILE": str(tmp_path / "results.db"), "RFM_PREFIX": str(tmp_path)}
    chosen = ("-n", CASE, "-p", "intelmpi-wheels", "-S", "level=smoke", "-S", "paired_stack=mpich-wheels", "--system=generic")
    chosen += ("-S", "suite_options=off_cache:-1")
    done = run_reframe("-r", *chosen, environ=environ, only="point_to_point.py")
    cases = sessions.read_session(tmp_path / "results.db").cases
    if any(case.result == "skip" for case in cases):
        pytest.skip(f"[cores] not measured here: {cases[0].reason}")
    assert done.returncode == 0, done.stdout[-2000:]
    assert [(case.stack, case.evidence) for case in cases] == [("intelmpi-wheels", "proven"), ("mpich-wheels", "proven")]
    assert [case.condition.get("suite_options") for case in cases] == ["off_cache=-1"] * 2, (
        "no history may mix them with others"
    )
    assert "MPICH" in (cases[1].proof.library_version or "") and "Intel" in (cases[0].proof.library_version or "")
    words = ("--db", str(tmp_path / "results.db"), "--dataset", str(tmp_path / "set"), "--out", str(tmp_path / "page.html"))
    assert cli.main(["compare", "intelmpi-wheels", "mpich-wheels", *words]) == 0
    assert "interleaved in the same jobs" in capsys.readouterr().out


CASE = "ImbPointToPoint%fabric=shm%nodes=1%ppn=2%pinning=bunch"
