"""An MPI, a transport and a system from files in a folder, with programs:
ReFrame itself, and an installation of that MPI.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import synthetic_installation as synthetic
from galley import GALLEY, GALLEY_PROGRAM
from mpibench.stacks import system
from reframe_tests.harness.evidence import rank_records
from reframe_tests.harness.stacks import metadata
from relay_suite import RELAY_PROGRAM, SUITE
from tiny_site import SETTINGS, write_site
from torus_mpi import MEMORY_ROW, SYSTEM, TORUS_LIBRARY, TORUS_MPI, torus_stack, write_extension


def test_an_installation_of_it_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its library is found, asked who it is and started, by the handle of its own ABI."""
    write_extension(tmp_path, monkeypatch)
    monkeypatch.delenv(metadata.EXTRA_STACKS, raising=False)
    answer = '#define ANSWER "Torus MPI 2.1 (built today)"'
    source = (synthetic.LIBRARY % answer).replace(
        "(void)world;", "if ((int)(long)world != 7) return 5;"
    )
    library = tmp_path / "opt/lib/libtorus.so.7"
    synthetic.compile_c(source, library, "-shared", "-fPIC", "-Wl,-soname,libtorus.so.7")
    mpirun = synthetic.make_launcher(tmp_path / "opt", synthetic.HYDRA)
    stack = system.add(str(mpirun), root=tmp_path / "project")
    assert (stack.name, stack.mpi, stack.mpi_version, stack.abi) == (
        "torusmpi-system",
        "torusmpi",
        "2.1",
        "torus",
    )
    assert (stack.launcher_family, stack.library) == ("hydra", str(library))
    assert stack.env_vars["TORUS_HOME"] == str(tmp_path / "opt")


LEAF = '''
"""The ring of the made-up suite."""

import reframe as rfm

from reframe_tests.harness.cases.fabric_test import FabricTest


@rfm.simple_test
class RelayRing(FabricTest):
    """A token on a ring."""

    group = "relay_ring"
'''


def test_a_stack_that_cannot_use_a_fabric_makes_no_case_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_reframe: Callable[..., Any]
) -> None:
    """Known when the tests are loaded, so nothing is skipped; where no
    stack can use it the reason is that of the fabric.
    """
    write_extension(tmp_path, monkeypatch)
    write_site(tmp_path, SYSTEM)
    old = {"name": "torusmpi", "version": "1.9", "device": ""}
    torus_stack(tmp_path / "environments" / "old", name="torusmpi-old", mpi=old)
    torus_stack(tmp_path / "environments" / "new")

    def listed() -> tuple[set[str], set[str]]:
        """Environments of the cases there are, and where something
        was left out for the age of the stack.
        """
        options = ("-lC", "-v", "--system=torus", "-n", "fabric=ring.*ppn=2.*pinning=bunch")
        config = tmp_path / "site_configs" / "settings.py"
        said = run_reframe(*options, config=config, only="point_to_point.py").stdout
        reasons = re.findall(r"left out: \w+ %.*? @(\S+): Torus MPI before 2 has no links", said)
        return set(re.findall(r"^- \w+ %.*@torus:nodes\+(\S+)", said, re.M)), set(reasons)

    assert listed() == ({"torusmpi-system"}, {"torus:nodes+torusmpi-old"})
    shutil.rmtree(tmp_path / "environments" / "new")
    assert listed() == (set(), {"torus:nodes"})


def test_a_run_of_it_is_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_reframe: Callable[..., Any]
) -> None:
    """Programs on that MPI under that launcher: who the ranks are is
    known from their files alone, by MPI itself.
    """
    own = write_extension(tmp_path, monkeypatch)
    mpi = TORUS_MPI.replace("    rows=(\n", f"    rows=({MEMORY_ROW}", 1)
    [partition] = SYSTEM["partitions"]
    extras = {"fabrics": {"memory": {"transport": "shm", "scope": "node"}}, "remote": True}
    at_sea = {**SYSTEM, "partitions": [{**partition, "launcher": "galley", "extras": extras}]}
    files = {
        own / "mpis/torusmpi.py": mpi,
        own / "launchers/galley.py": GALLEY,
        own / "suites/relay.py": SUITE,
        tmp_path / "site_configs/settings.py": SETTINGS,
        tmp_path / "site_configs/torus/system.py": f"system = {at_sea!r}\n",
        tmp_path / "reframe_tests/relay.py": LEAF,
        tmp_path / "bin/galley": GALLEY_PROGRAM,
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "bin/galley").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    stack = tmp_path / "environments/torusmpi"
    library = synthetic.compile_c(
        TORUS_LIBRARY, stack / "lib/libtorus.so.7", "-shared", "-fPIC", "-Wl,-soname,libtorus.so.7"
    )
    program = synthetic.compile_c(
        RELAY_PROGRAM, stack / "bin/relay-run", str(library), f"-Wl,-rpath,{library.parent}"
    )
    torus_stack(
        stack,
        library=str(library),
        library_version_pattern=r"^Torus MPI 2\.1 ",
        binaries={"relay-run": str(program)},
        commands={},
        suites={"relay": {"version": "1.0", "built_with": "gcc"}},
    )
    options = ("-r", "--system=torus", "-S", "level=smoke", "-S", "repeats=1", "--keep-stage-files")
    result = run_reframe(
        *options, "-n", "fabric=memory.*nodes=1.*ppn=2.*pinning=default", top=tmp_path
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"Ran 1/1 test case\(s\)", result.stdout), result.stdout
    [folder] = {path.parent for path in (tmp_path / "results/stage").rglob("evidence/*/*.jsonl")}
    ranks = rank_records.read(folder)
    assert [(rank.rank, rank.size, rank.world_known, rank.world_unknown) for rank in ranks] == [
        (0, 2, True, ""),
        (1, 2, True, ""),
    ]
    assert [(rank.rank_source, rank.job, rank.init.links is not None) for rank in ranks] == [
        ("GALLEY_RANK", "1492", True),
        ("GALLEY_RANK", "1492", False),
    ]
    assert all(
        str(library) in rank.mapped and not any("MPIBENCH" in name for name in rank.environment)
        for rank in ranks
    )
