"""Debian's Open MPI and MPICH as stacks of origin ``system``:
registered by the command, measured with proof here.
"""

from dataclasses import replace
from pathlib import Path

import pytest

import synthetic_stack
from mpibench.stacks import compilation, probe, system
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput
from synthetic_project import outcome


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folder the stacks are registered in."""
    return tmp_path_factory.mktemp("system")


@pytest.fixture(scope="module")
def registered(place, require_stack):
    """Both MPIs, registered as a site would; MPICH runs the IMB of the Intel wheel."""
    imb = require_stack("intelmpi-wheels")
    if reason := synthetic_stack.missing():
        pytest.skip(f"[host-mpi] {reason}")
    return synthetic_stack.register_debian(place, {imb.abi: [Path(imb.prefix, "bin")]})


def test_debians_libraries_are_what_they_say(registered, tmp_path):
    openmpi = registered["openmpi"]
    mpich = registered["mpich"]
    assert (openmpi.abi, openmpi.prefix, openmpi.launcher_family) == ("openmpi", "/usr", "orterun")
    assert (mpich.abi, mpich.prefix, mpich.launcher_family) == ("mpich", "/usr", "hydra")
    for stack in registered.values():
        # It is where processes look anyway.
        assert not any("/usr" in " ".join(folders) for folders in stack.prepend_path.values())
        assert probe.find_contradiction(stack) == ""
    # MPICH 4.0 has every function IMB 2021.11 calls: all of them start, with all symbols bound.
    assert {"IMB-MPI1", "IMB-NBC", "IMB-P2P", "IMB-RMA"} <= set(mpich.binaries)
    assert mpich.build["links"]["libmpi.so.12"] == mpich.library
    # As their libraries say, and not as the programs beside other launchers do.
    assert openmpi.build["compiled"] == {"optimisation": "-O3", "debugging": "no", "checks": "yes"}
    (tmp_path / "mpirun").symlink_to(openmpi.mpirun[0])
    linked = replace(openmpi, commands={"mpirun": [str(tmp_path / "mpirun")]})
    assert compilation.ask(linked) == openmpi.build["compiled"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            lambda mpich: {"binaries": [Path(mpich.binaries["IMB-MPI1"]).parent]},
            r"needs libmpi\.so\.12, the mpich ABI, and .*libmpi\.so\.40 has the openmpi ABI",
        ),
        (
            lambda mpich: {"library": Path(mpich.library)},
            r"is orterun, but no library of that MPI responds: .* is mpich ",
        ),
    ],
    ids=["binaries of the other ABI", "a launcher with the other one's library"],
)
def test_what_belongs_to_the_other_mpi_is_refused(registered, tmp_path, given, said):
    launcher = registered["openmpi"].mpirun[0]
    with pytest.raises(BadInput, match=said):
        system.add(launcher, name="wrong", into=tmp_path / "wrong", **given(registered["mpich"]))
    assert not (tmp_path / "wrong").exists()


def test_both_are_measured_with_proof_on_this_machine(registered, place, two_cores, run_reframe):
    case = "(ImbPointToPoint|Mpi4pyPingPong)%fabric=.*%nodes=1%ppn=2%pinning=bunch"
    words = f"-r --system=generic -p (openmpi|mpich)-debian -n {case} -S level=smoke -S repeats=1"
    there = {metadata.EXTRA_STACKS: synthetic_stack.named(place)}
    for _ in range(synthetic_stack.MOST_STARTS):
        done = run_reframe(words=words, environ=there, only="point_to_point.py")
        if synthetic_stack.HUNG not in done.stdout:
            break
    # lo and shm: mpi4py on both, IMB on MPICH.
    assert done.returncode == 0, done.stdout
    assert outcome(done)["ran"] == 6
