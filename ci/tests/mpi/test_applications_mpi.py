"""HPC Challenge and NAS Parallel Benchmarks for real: as ReFrame runs
them, with proof, on stacks here that have them.
"""

import os
import shutil
from pathlib import Path

import pytest

import synthetic_stack
from mpibench.stacks import system
from reframe_tests.harness.samples import PROVEN
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue, reader
from synthetic_project import outcome


@pytest.fixture(scope="module")
def debian(tmp_path_factory):
    """Debian's Open MPI with Debian's hpcc, which is built on it; both in
    /usr/bin, where no folder has to be named.
    """
    launcher, hpcc = (
        shutil.which(name) for name in (synthetic_stack.DEBIAN_LAUNCHERS["openmpi"], "hpcc")
    )
    if not launcher or not hpcc:
        pytest.skip(
            "[host-mpi] no Open MPI and hpcc of Debian here (packages openmpi-bin and hpcc)"
        )
    beside = Path(hpcc).parent == Path(launcher).parent
    into = tmp_path_factory.mktemp("system") / "openmpi"
    return system.add(
        launcher,
        name="openmpi-debian-hpcc",
        binaries=[] if beside else [Path(hpcc).parent],
        into=into,
    )


def test_hpcc_is_measured_with_proof(debian, two_cores, run_and_read):
    words = "-S repeats=1 -p openmpi-debian-hpcc -n Hpcc%fabric=lo%nodes=1%ppn=2 -S limit_s=300"
    there = {metadata.EXTRA_STACKS: str(Path(debian.source).parent)}
    done, [case] = run_and_read(words, "applications.py", there)
    assert done.returncode == 0, done.stdout
    assert (outcome(done)["ran"], outcome(done)["failed"]) == (1, 0), done.stdout
    assert case.evidence == PROVEN
    measured = {(one.benchmark, one.variant, one.quantity): one.measured for one in case.samples}
    assert measured["HPL", "N=640", "gflop_per_s"][0] > 0


def test_nas_of_class_s_is_complete(run_on):
    chosen = [stack for stack in metadata.discover(environ=os.environ)[0] if "npb" in stack.suites]
    if not chosen:
        pytest.skip(
            "[spack-mpi] no stack here has the suite npb (Spack's package npb; MPIBENCH_STACKS "
            "names others)"
        )
    for stack in chosen:
        for launch in catalogue.launches("nas_s", stack, 2, "smoke"):
            status, text = run_on(stack, *launch.words(stack), ranks=2, limit_s=120)
            assert status == 0, f"{stack.name}: {text}"
            reader.complete(
                reader.parse(text, source=launch.name), launch.expected, source=launch.name
            )
