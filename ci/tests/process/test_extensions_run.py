"""An MPI, a transport and a system from files in a folder, with programs: ReFrame itself, and an installation of that MPI."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import synthetic_installation as synthetic
from mpibench.stacks import system
from reframe_tests.harness.stacks import metadata
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


def test_an_installation_of_it_is_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its library is found, asked who it is and started, by the handle of its own ABI."""
    write_extension(tmp_path, monkeypatch)
    monkeypatch.delenv(metadata.EXTRA_STACKS, raising=False)
    answer = '#define ANSWER "Torus MPI 2.1 (built today)"'
    source = (synthetic.LIBRARY % answer).replace("(void)world;", "if ((int)(long)world != 7) return 5;")
    library = tmp_path / "opt/lib/libtorus.so.7"
    synthetic.compile_c(source, library, "-shared", "-fPIC", "-Wl,-soname,libtorus.so.7")
    mpirun = synthetic.make_launcher(tmp_path / "opt", synthetic.HYDRA)
    stack = system.add(str(mpirun), root=tmp_path / "project")
    assert (stack.name, stack.mpi, stack.mpi_version, stack.abi) == ("torusmpi-system", "torusmpi", "2.1", "torus")
    assert (stack.launcher_family, stack.library) == ("hydra", str(library))
    assert stack.env_vars["TORUS_HOME"] == str(tmp_path / "opt")
