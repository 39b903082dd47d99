"""ReFrame itself with an MPI, a transport and a system from files in a folder: no file of the project is changed for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiny_site import SETTINGS
from torus_mpi import SYSTEM, torus_stack, write_extension


def test_reframe_writes_its_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_reframe: Callable[..., Any]) -> None:
    """The whole way with ReFrame itself, in a site that is a folder too: the link is chosen in the job script."""
    write_extension(tmp_path, monkeypatch)
    for name, text in (("settings.py", SETTINGS), ("torus/system.py", f"system = {SYSTEM!r}\n")):
        path = tmp_path / "site_configs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    torus_stack(tmp_path / "environments" / "torusmpi")
    result = run_reframe(
        "--dry-run",
        "--system=torus",
        "-n",
        "fabric=ring.*ppn=2.*pinning=bunch",
        config=tmp_path / "site_configs" / "settings.py",
        only="point_to_point.py",
        environ={"RFM_PREFIX": str(tmp_path / "results")},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    scripts = [path.read_text() for path in (tmp_path / "results").rglob("rfm_*.sh")]
    assert len(scripts) == 1, result.stdout
    for line in ("export TORUS_LINK=link0", "export TORUS_LOCAL=0", "export TORUS_BIND=0", "export TORUS_SAY=1"):
        assert re.search(rf"^{line}$", scripts[0], re.M), line
