"""What settings of the tests do; the stacks are only files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from galley import SYSTEM
from mpibench.store import sessions
from synthetic_stack import write_stack
from tiny_site import write_site


@pytest.fixture
def run(tmp_path: Path, run_reframe: Callable[..., Any]) -> Callable[..., Any]:
    """ReFrame on one case of a made-up site with two stacks, ``one-system`` and ``two-system``, that are only files."""
    [partition] = SYSTEM["partitions"]
    system = {**SYSTEM, "partitions": [{**partition, "launcher": "mpirun"}]}
    write_site(tmp_path, system)
    stacks = [str(write_stack(tmp_path / name, name=f"{name}-system")) for name in ("one", "two")]
    settings = {"RFM_PREFIX": str(tmp_path / "results"), "RFM_SQLITE_DB_FILE": str(tmp_path / "results.db")}

    def run(*options: str) -> Any:
        return run_reframe(
            *("--system=harbour", "-n", "fabric=eth.*nodes=2.*ppn=1.*pinning=none", "-p", "one-system", *options),
            config=tmp_path / "site_configs" / "settings.py",
            only="point_to_point.py",
            environ={**settings, "MPIBENCH_STACKS": ":".join(stacks)},
        )

    return run


def test_launches_of_both_stacks_are_in_one_job(tmp_path: Path, run: Callable[..., Any]) -> None:
    result = run("--dry-run", "-S", "paired_stack=two-system")
    assert result.returncode == 0, result.stdout + result.stderr
    [script] = [path.read_text() for path in (tmp_path / "results").rglob("rfm_*.sh")]
    mine, theirs = (script.count(f"{tmp_path}/{name}/bin/mpirun -np 2") for name in ("one", "two"))
    assert mine == theirs > 0
    assert "launch rival_" in script, "stored sessions have this name"


def test_a_session_is_stored_as_before(tmp_path: Path, run: Callable[..., Any]) -> None:
    """Neither stack can start anything; what is stored has the columns it always had."""
    result = run("-r", "-S", "paired_stack=two-system", "-S", "level=smoke", "-S", "repeats=1")
    assert result.returncode == 1, result.stdout + result.stderr
    one, two = sessions.read_session(tmp_path / "results.db").cases
    assert (one.stack, two.stack, two.uuid) == ("one-system", "two-system", f"{one.uuid}:rival")
    assert (one.entry["paired_stack"], one.entry["level"]) == ("two-system", "smoke")
    assert one.entry["condition"]["in_turn_with"] == "two-system"


def test_the_level_chooses_what_is_measured(tmp_path: Path, run: Callable[..., Any]) -> None:
    result = run("--dry-run", "-S", "level=acceptance")
    assert result.returncode == 0, result.stdout + result.stderr
    [script] = [path.read_text() for path in (tmp_path / "results").rglob("rfm_*.sh")]
    assert "-iter 2000,80,2000" in script
    refused = run("--dry-run", "-S", "level=deep")
    assert "'deep' is not a level; there are smoke, nightly, acceptance." in refused.stdout
