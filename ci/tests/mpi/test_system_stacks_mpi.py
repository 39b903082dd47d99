"""Debian's Open MPI and MPICH as stacks of origin ``system``: registered by the command, measured with proof here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import debian_stacks
from mpibench.stacks import probe, system
from reframe_summary import outcome
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder the stacks are registered in."""
    return tmp_path_factory.mktemp("system")


@pytest.fixture(scope="module")
def registered(place: Path, require_stack: Callable[[str], Stack]) -> dict[str, Stack]:
    """Both MPIs, registered as a site would; MPICH runs the IMB of the Intel wheel."""
    imb = require_stack("intelmpi-wheels")
    if reason := debian_stacks.missing():
        pytest.skip(f"[host-mpi] {reason}")
    return debian_stacks.register(place, {imb.abi: [Path(imb.prefix, "bin")]})


def test_debians_libraries_are_what_they_say(registered: dict[str, Stack]) -> None:
    openmpi, mpich = registered["openmpi"], registered["mpich"]
    assert (openmpi.abi, openmpi.prefix, openmpi.launcher_family) == ("openmpi", "/usr", "orterun")
    assert (mpich.abi, mpich.prefix, mpich.launcher_family, mpich.device) == ("mpich", "/usr", "hydra", "ch4:ucx")
    # Nothing of /usr is put in front of anything: it is where processes look anyway.
    for stack in registered.values():
        assert not any(folder.startswith("/usr") for folders in stack.prepend_path.values() for folder in folders)
        assert probe.find_contradiction(stack) == ""
    assert set(openmpi.binaries) <= {"hpcc"}
    # MPICH 4.0 has every function IMB 2021.11 calls: all of them start, with all symbols bound.
    assert {"IMB-MPI1", "IMB-NBC", "IMB-P2P", "IMB-RMA"} <= set(mpich.binaries)
    assert mpich.suites["imb"]["version"] == "2021.11"
    assert mpich.build["links"]["libmpi.so.12"] == mpich.library


def test_mpi4py_alone_gets_the_name_it_asks_for(registered: dict[str, Stack], tmp_path: Path) -> None:
    stack = system.add(registered["mpich"].mpirun[0], name="mpich-alone", into=tmp_path / "alone")
    assert list(stack.build["links"]) == ["libmpi.so.12"]
    assert "mpi4py.bench" in stack.commands


def test_binaries_of_the_other_abi_are_refused(registered: dict[str, Stack], tmp_path: Path) -> None:
    folder = Path(registered["mpich"].binaries["IMB-MPI1"]).parent
    with pytest.raises(BadInput, match=r"needs libmpi\.so\.12, the mpich ABI, and .*libmpi\.so\.40 has the openmpi ABI"):
        system.add(registered["openmpi"].mpirun[0], name="wrong", binaries=[folder], into=tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()


def test_a_launcher_with_the_other_ones_library_is_refused(registered: dict[str, Stack], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"is orterun, and no library of that MPI answers: .* is mpich "):
        system.add(
            registered["openmpi"].mpirun[0], name="wrong", library=Path(registered["mpich"].library), into=tmp_path / "wrong"
        )
    assert not (tmp_path / "wrong").exists()


def test_both_are_measured_with_proof_on_this_machine(registered: dict[str, Stack], place: Path, run_reframe) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("[cores] this machine has one core, on which two ranks are not placed")
    case = "(ImbPointToPoint|Mpi4pyPingPong)%fabric=.*%nodes=1%ppn=2%pinning=bunch"
    words = ("-r", "--system=generic", "-p", "(openmpi|mpich)-debian", "-n", case, "-S", "level=smoke", "-S", "repeats=1")
    there = {metadata.EXTRA_STACKS: debian_stacks.named(place)}
    for _ in range(debian_stacks.MOST_STARTS):
        done = run_reframe(*words, environ=there, only="point_to_point.py")
        if debian_stacks.HUNG not in done.stdout:
            break
    # lo and shm: mpi4py on both, IMB on MPICH.
    assert done.returncode == 0, done.stdout
    assert outcome(done)["ran"] == 6


def test_a_setting_that_debians_ucx_does_not_know_stays_out_of_the_benchmarks_lines(
    registered: dict[str, Stack], place: Path, run_reframe, sandbox: Path
) -> None:
    """UCX 1.13 warns of the rails of one-sided operations, which every fabric of several rails sets (UCX 1.14 has them)."""
    case = "ImbPointToPoint%fabric=lo%nodes=1%ppn=2%pinning=none"
    words = ("-r", "--system=generic", "-p", "mpich-debian", "-n", case, "-S", "level=smoke", "-S", "repeats=1")
    there = {metadata.EXTRA_STACKS: debian_stacks.named(place)}
    options = ("-S", "env_vars=UCX_MAX_RMA_RAILS:1", "--keep-stage-files")
    for _ in range(debian_stacks.MOST_STARTS):
        done = run_reframe(*words, *options, top=sandbox, environ=there, only="point_to_point.py")
        if debian_stacks.HUNG not in done.stdout:
            break
    assert done.returncode == 0, done.stdout
    assert outcome(done)["ran"] == 1
    said = [path.read_text() for path in sandbox.glob("results/stage/**/*.1.err")]
    assert any("unused env variable: UCX_MAX_RMA_RAILS" in errors for errors in said)
