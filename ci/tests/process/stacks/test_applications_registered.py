"""Programs that know no option, and programs that lie beside the launcher: their versions, and when they are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import synthetic_installation as synthetic
from mpibench.stacks import probe, system
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack

HPCC = "This is the DARPA/DOE HPC Challenge Benchmark version 1.5.0 October 2012"
NPB = " NAS Parallel Benchmarks 3.4 -- BT Benchmark"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stack of this machine's."""
    monkeypatch.delenv(metadata.EXTRA_STACKS, raising=False)


def add(tmp_path: Path, mpirun: Path, said: list[str] | None = None, **words: object) -> Stack:
    listened = [] if said is None else said
    return system.add(str(mpirun), root=tmp_path / "project", say=listened.append, **words)  # type: ignore[arg-type]


def test_hpcc_beside_the_launcher_is_found(tmp_path: Path) -> None:
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    program = synthetic.make_program(tmp_path / "opt/bin/hpcc", "libmpi.so.40", HPCC)
    stack = add(tmp_path, mpirun)
    assert (stack.binaries, stack.suites["hpcc"]["version"]) == ({"hpcc": str(program)}, "1.5.0")
    assert probe.find_contradiction(stack) == ""


def test_one_for_another_mpi_is_no_business_of_this(tmp_path: Path) -> None:
    """Debian has one /usr/bin for two MPIs."""
    mpirun = synthetic.make_mpich(tmp_path / "opt")
    synthetic.make_program(tmp_path / "opt/bin/hpcc", "libmpi.so.40", HPCC)
    assert add(tmp_path, mpirun).binaries == {}


def test_one_that_does_not_run_is_left_out_and_said(tmp_path: Path) -> None:
    """Nobody has named it, so that the MPI is registered without it."""
    mpirun, said = synthetic.make_open_mpi(tmp_path / "opt"), []
    synthetic.make_program(tmp_path / "opt/bin/hpcc", "libmpi.so.40", HPCC, call="MPI_Session_init")
    assert add(tmp_path, mpirun, said).binaries == {}
    assert any("hpcc is left out: it needs MPI_Session_init" in line for line in said)


def test_nas_programs_say_their_version_in_their_files_and_are_not_started(tmp_path: Path) -> None:
    mpirun = synthetic.make_open_mpi(tmp_path / "opt")
    # Started, they would ask for more ranks and so be left out.
    for name in ("bt.D.x", "cg.S.4"):
        synthetic.make_program(tmp_path / "bench" / name, "libmpi.so.40", NPB, ranks=99)
    synthetic.make_program(tmp_path / "bench/bt.D.x.txt", "libmpi.so.40", NPB)
    stack = add(tmp_path, mpirun, binaries=[tmp_path / "bench"])
    assert sorted(stack.binaries) == ["bt.D.x", "cg.S.4"]
    assert stack.suites["npb"]["version"] == "3.4"
    assert probe.find_contradiction(stack) == ""
