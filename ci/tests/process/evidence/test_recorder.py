"""The recorder library: built once per source, a record from every rank, never in the way.

The programs here run on a few lines of C that stand for an MPI library, so that each way an MPI can
be loaded, entered, left or broken off is tried, whatever is installed; ``test_evidence_mpi.py``
does it with the real ones.
"""

import ctypes
import os
import signal
from dataclasses import replace

import pytest

from programs import (
    FORTRAN_SOURCE,
    MPI_PROGRAM,
    MPI_SOURCE,
    PRIVATE_SOURCE,
    PROGRAM_SOURCE,
    compile_c,
    finished,
    inside_namespace,
)
from reframe_tests.harness.evidence import rank_records, recorder
from reframe_tests.harness.launchers import registry
from reframe_tests.harness.vocabulary import BadInput
from synthetic_evidence import STACK


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return recorder.build(tmp_path_factory.mktemp("recorder"))


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Folder with two fake MPI libraries and the programs on them."""
    folder = tmp_path_factory.mktemp("programs")
    shared = ("-shared", "-fPIC")
    on = {}
    for name in ("mpich", "openmpi"):
        (folder / name).mkdir()
        compile_c(folder / name / "libmpi.so", MPI_SOURCE, *shared, f"-D{name.upper()}")
        libraries = (f"-L{folder / name}", f"-L{folder}", "-lmpifort", "-lmpi")
        on[name] = (*libraries, f"-Wl,-rpath,{folder / name}:{folder}")
    compile_c(folder / "libmpifort.so", FORTRAN_SOURCE, *shared, f"-L{folder / 'mpich'}", "-lmpi")
    for name, options in on.items():
        compile_c(folder / f"on-{name}", PROGRAM_SOURCE, *options)
    # Compiled C that names the handle, as every benchmark does: the
    # linker moves the handle into the program.
    copying = (
        PROGRAM_SOURCE + "extern char ompi_mpi_comm_world[64]; char *world(void) { return "
        "ompi_mpi_comm_world; }\n"
    )
    compile_c(folder / "copies-openmpi", copying, "-fno-pie", "-no-pie", *on["openmpi"])
    compile_c(folder / "private", PRIVATE_SOURCE)
    return folder


@pytest.fixture
def run(built, programs, tmp_path):
    """Runs one process under the recorder; returns exit status and
    rank record. It must never print anything.
    """

    def run_(
        *words,
        program="on-mpich",
        directory=None,
        code=0,
        **environment,
    ):
        asked = tmp_path / "evidence" if directory is None else directory
        if directory is None:
            asked.mkdir(exist_ok=True)
        stack = replace(STACK, mpi="openmpi" if program.endswith("openmpi") else "mpich")
        stack = replace(stack, library=str(programs / stack.mpi / "libmpi.so"))
        known = recorder.variables(stack, registry.known()["srun"])
        own = {"LD_PRELOAD": built, "MPIBENCH_EVIDENCE": asked}
        done = finished(programs / program, *words, environ={**own, **known, **environment})
        assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
        return rank_records.read(asked)

    return run_


def world(rank):
    """Who a rank is, and whether MPI itself said so."""
    return rank.rank, rank.size, rank.world_known


# ---- building ----


def test_library_is_built_once_per_source_by_the_first_compiler_that_can(tmp_path, monkeypatch):
    working = recorder.compilers()[0]
    monkeypatch.setattr(recorder, "compilers", lambda: [("/bin/false",), working])
    first = recorder.build(tmp_path)
    assert recorder.digest() in first.name
    before = first.stat().st_mtime_ns
    assert recorder.build(tmp_path, compiler=["/bin/false"]) == first
    assert first.stat().st_mtime_ns == before
    assert list(tmp_path.iterdir()) == [first]
    changed = tmp_path / "recorder.c"
    changed.write_bytes(recorder.SOURCE.read_bytes() + b"\n")
    monkeypatch.setattr(recorder, "SOURCE", changed)
    assert recorder.digest() not in first.name


def test_no_compiler_or_one_that_fails_is_named_and_leaves_nothing(tmp_path, monkeypatch):
    for compiler, said in (
        ("/bin/false", r"\(/bin/false: exit status 1, no message\); install gcc"),
        ("no-such-compiler", "no-such-compiler: No such file or directory"),
    ):
        with pytest.raises(BadInput, match=said):
            recorder.build(tmp_path, compiler=[compiler])
    monkeypatch.setattr(recorder, "compilers", list)
    with pytest.raises(BadInput, match=r"^No C compiler .*'pip install ziglang'\.$"):
        recorder.build(tmp_path)
    assert not list(tmp_path.iterdir())


def test_source_is_free_of_warnings(tmp_path):
    strict = ("-Werror", "-Wshadow", "-Wconversion", "-Wstrict-prototypes")
    command = (*recorder.compilers()[0], *recorder.flags(), *recorder.SHARED, *strict)
    done = finished(*command, "-o", tmp_path / "w.so", recorder.SOURCE, *recorder.LIBRARIES)
    assert done.returncode == 0, done.stderr


def test_c_and_fortran_entry_points_are_exported(built):
    library = ctypes.CDLL(str(built))
    for name in ("init", "init_thread", "finalize", "session_init", "session_finalize"):
        own = (f"MPI_{name.capitalize()}", f"PMPI_{name.capitalize()}")
        assert all(hasattr(library, each) for each in (*own, f"mpi_{name}_", f"pmpi_{name}_")), name


# ---- rank record ----


def test_rank_records_its_world_and_library(run, programs):
    (rank,) = run(FAKE_RANK="3", FAKE_SIZE="8", SLURM_PROCID="1", SLURM_JOB_ID="77")
    assert (world(rank), rank.rank_source, rank.job) == ((3, 8, True), "SLURM_PROCID", "77")
    assert rank.library == str((programs / "mpich" / "libmpi.so").resolve())
    assert rank.library in rank.mapped
    assert rank.library_version == 'MPICH Version: 0 "fake"\n\tcafé \\'
    assert rank.executable == str((programs / "on-mpich").resolve())
    assert rank.host == os.uname().nodename
    assert rank.seconds > 0
    assert rank.init.realtime_ns < rank.finalize.realtime_ns
    assert set(rank.init.interfaces) == set(rank.interfaces)
    assert "127.0.0.1" in rank.interfaces["lo"].addresses


@pytest.mark.parametrize("program", ["on-openmpi", "copies-openmpi"])
def test_world_of_openmpi_is_a_pointer_and_may_have_moved_into_the_program(run, program):
    """A copy relocation (ELF, R_X86_64_COPY): libmpi works on the program's
    copy, the symbol inside libmpi is dead memory.
    """
    (rank,) = run(program=program, FAKE_VERSION="Open MPI v0", FAKE_RANK="1", FAKE_SIZE="2")
    assert world(rank) == (1, 2, True)


NOT_SAID = "MPIBENCH_WORLD and MPIBENCH_LIBRARY do not say what MPI_COMM_WORLD is"
NO_NUMBER = "MPIBENCH_WORLD is not a number of C's int"
NO_OBJECT = "the MPI library has no object of the name in MPIBENCH_WORLD"
OTHER = "the MPI library is not the one of MPIBENCH_LIBRARY"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"MPIBENCH_WORLD": ""}, NOT_SAID),
        ({"MPIBENCH_LIBRARY": "/nowhere/libmpi.so"}, OTHER),
        ({"MPIBENCH_LIBRARY": "/lib/" + "x" * 100_000}, OTHER),
        ({"MPIBENCH_WORLD": "0x144000000"}, NO_NUMBER),
        ({"MPIBENCH_WORLD": "4" * 100_000}, NO_NUMBER),
        ({"MPIBENCH_WORLD": "ompi_mpi_comm_world"}, NO_OBJECT),
        ({"MPIBENCH_WORLD": "PMPI_Init"}, NO_OBJECT),
        ({"MPIBENCH_WORLD": "%s%n"}, NO_OBJECT),
    ],
)
def test_unknown_mpi_is_never_asked_for_its_world(run, changes, reason):
    """A wrong handle would abort the benchmark (the fake does);
    the launcher's variables must do then.
    """
    (rank,) = run(FAKE_VERSION="Another MPI 1.0", PMI_RANK="2", PMI_SIZE="4", **changes)
    assert (world(rank), rank.world_unknown) == ((2, 4, False), reason)


@pytest.mark.parametrize(
    ("worlds", "known"),
    [
        ("MPIR_Dup_fn=0x44000000:ompi_mpi_comm_world=ompi_mpi_comm_world", True),
        ("MPIR_Dup_fn=0x44000000", False),
        ("PMPI_Ini=1:=:x:%s%n=" + "4" * 100_000, False),
        ("clock_gettime=0x44000000", False),  # a symbol of another library
    ],
)
def test_a_library_that_nobody_named_is_known_by_a_symbol(run, worlds, known):
    (rank,) = run(
        program="on-openmpi",
        FAKE_VERSION="Open MPI v0",
        FAKE_RANK="1",
        FAKE_SIZE="2",
        MPIBENCH_LIBRARY="",
        MPIBENCH_WORLD="",
        MPIBENCH_WORLDS=worlds,
        PMI_RANK="3",
        PMI_SIZE="4",
    )
    assert world(rank) == ((1, 2, True) if known else (3, 4, False))
    assert rank.announced == (3, 4)
    assert 0 < rank.loaded_ns < rank.init.monotonic_ns


def test_another_mpi_than_the_stacks_is_not_asked(run, programs):
    """Its handle may be another kind of thing: this fake is Open MPI's, the stack an MPICH."""
    (rank,) = run(
        program="on-openmpi",
        MPIBENCH_WORLD="0x44000000",
        MPIBENCH_LIBRARY=str(programs / "mpich" / "libmpi.so"),
    )
    assert (rank.rank, rank.world_unknown) == (None, OTHER)


def test_a_copy_beside_the_stacks_library_is_that_library(run, programs, tmp_path):
    """Wheels cannot hold links; a link to it from elsewhere is the same library, too."""
    (tmp_path / "link.so").symlink_to(programs / "mpich" / "libmpi.so")
    (programs / "mpich" / "libmpi.so.12").write_bytes(b"")
    for library in (tmp_path / "link.so", programs / "mpich" / "libmpi.so.12"):
        rank = run(FAKE_SIZE="2", MPIBENCH_LIBRARY=str(library))[-1]
        assert (rank.size, rank.world_known, rank.world_unknown) == (2, True, "")


def test_the_standards_own_library_needs_no_record(run, built, programs, tmp_path):
    """MPI 5.0, appendix A: MPI_COMM_WORLD of ``libmpi_abi`` is 0x101, whoever made it."""
    source = MPI_SOURCE.replace("0x44000000", "0x101")
    compile_c(programs / "libmpi_abi.so", source, "-shared", "-fPIC", "-Wl,-soname,libmpi_abi.so")
    libraries = (str(programs / "libmpi_abi.so"), f"-Wl,-rpath,{programs}")
    compile_c(programs / "on-standard", MPI_PROGRAM, *libraries)
    unknown = {"MPIBENCH_LIBRARY": "", "MPIBENCH_WORLD": ""}
    (rank,) = run(program="on-standard", FAKE_RANK="1", FAKE_SIZE="2", **unknown)
    assert world(rank) == (1, 2, True)


def test_who_a_rank_is_comes_from_the_variables_named_and_no_others(run):
    named = {
        "MPIBENCH_RANK_VARIABLES": f"::{'x' * 300}:TORUS_RANK:PMI_RANK:",
        "MPIBENCH_SIZE_VARIABLES": "TORUS_SIZE",
        "MPIBENCH_WORLD": "",
    }
    found = {"TORUS_RANK": "3", "TORUS_SIZE": "8", "PMI_RANK": "5", "x" * 300: "6"}
    (rank,) = run(MPIBENCH_JOB_VARIABLES="", SLURM_JOB_ID="7", **named, **found)
    assert (rank.rank, rank.size, rank.rank_source, rank.job) == (3, 8, "TORUS_RANK", "")
    assert not [name for name in rank.environment if name.startswith("MPIBENCH")]
    for value in ("x", "-1", "4294967296", "9" * 100_000):
        ranks = run(**named, TORUS_RANK=value)
    assert [rank.rank for rank in ranks] == [3, *[None] * 4], "what is no number is no rank"


def test_a_recorder_without_its_variables_names_nobody(run):
    """Started by hand it knows no launcher and no MPI, and records everything else."""
    names = recorder.variables(STACK, registry.known()["srun"])
    (rank,) = run(FAKE_SIZE="2", PMI_RANK="1", SLURM_PROCID="1", **dict.fromkeys(names, ""))
    assert (rank.rank, rank.size, rank.world_unknown) == (None, None, NOT_SAID)
    assert rank.library and rank.init.links is not None and rank.finalize is not None


@pytest.mark.parametrize(
    ("ways", "ended"),
    [
        (("", "fortran", "f08", "profiled", "threaded", "forks"), True),
        (("killed", "exits", "session left open", "sessions, the second open"), False),
    ],
    ids=["ended", "not ended"],
)
def test_each_way_through_mpi_is_recorded_once_with_its_end(run, ways, ended):
    for number, way in enumerate(ways, start=1):
        ranks = run(way, code=-signal.SIGKILL if way == "killed" else 0)
        assert len(ranks) == number and ranks[-1].init.cpus, way
        assert [rank.finalize is not None for rank in ranks] == [ended] * number, way


@pytest.mark.parametrize(
    ("way", "program"),
    [("session", "on-openmpi"), ("session and world", "on-mpich"), ("sessions", "on-mpich")],
)
def test_a_session_is_recorded_as_a_world_is_and_has_none(run, way, program):
    """Asked for the rank in a world that there is not, a library
    ends the program (MPI 4.0, 11.3).
    """
    (rank,) = run(way, program=program, FAKE_SIZE="2", SLURM_PROCID="1", SLURM_NTASKS="2")
    assert rank.finalize is not None
    assert (rank.rank, rank.size) == (1, 2)
    assert rank.world_unknown == "the program began with a session, which has no world"


def test_library_opened_privately_is_found(run, programs):
    library = str((programs / "mpich" / "libmpi.so").resolve())
    (rank,) = run(library, program="private", FAKE_SIZE="2")
    assert (rank.library, rank.size) == (library, 2)


def test_masks_of_rank_and_threads_are_the_kernels(run):
    here = os.sched_getaffinity(0)
    cpu = max(here)
    try:
        os.sched_setaffinity(0, {cpu})
        (rank,) = run("threaded")
    finally:
        os.sched_setaffinity(0, here)
    assert rank.init.cpus == rank.finalize.cpus == rank.parent_cpus == {cpu}
    assert rank.init.cpu == cpu
    assert rank.cpuset is None or cpu in rank.cpuset
    assert cpu in rank.online
    assert rank.init.threads == ()
    assert rank.finalize.threads == (("progress", {cpu}),)


def test_own_tcp_bytes_are_counted(run):
    (rank,) = run("sends")
    (pair,) = rank.finalize.tcp
    assert rank.init.tcp == ()
    assert (pair.local, pair.peer, pair.count) == ("127.0.0.1", "127.0.0.1", 2)
    assert 4 << 20 <= pair.sent <= (4 << 20) + 2  # SYN and FIN count as one byte each
    assert pair.received == 4 << 20
    assert rank.finalize.tcp_known
    lo = rank.finalize.interfaces["lo"].tx - rank.init.interfaces["lo"].tx
    assert lo >= 4 << 20
    both = run("udp")
    assert [one.init.tcp_known for one in both] == [True, True]
    assert {one.finalize.tcp_known for one in both} == {True, False}, "a socket without a count"


def test_settings_are_kept_and_secrets_are_not(run):
    shown = {
        "FI_PROVIDER": "tcp",
        "UCX_TLS": 'a"b\\c\x01',
        "I_MPI_FABRICS": "\udcff\udcc3é",
        "NCCL_ALGO": "Tree",
    }
    hidden = "FI_PSM2_UUID UCX_AUTH_KEY I_MPI_TOKEN OMPI_MCA_secret MPICH_Passphrase HOME_TOWN"
    hidden = set(hidden.split())
    (rank,) = run(**shown, **dict.fromkeys(hidden, "hush"), FI_LONG="x" * 10_000)
    assert {name: rank.environment[name] for name in shown} == shown
    assert not hidden & set(rank.environment)
    assert len(rank.environment["FI_LONG"]) == 4096


# ---- staying out of the way ----


def test_where_nothing_can_be_said_nothing_is_written_and_the_run_goes_on(run, tmp_path):
    """Nobody asked, no MPI, one that did not begin, no folder."""
    assert run(MPIBENCH_EVIDENCE="") == run("without") == []
    for way in ("", "session"):
        assert run(way, FAKE_INIT_CODE="3", code=3) == []
    (tmp_path / "file").write_text("")
    for name in ("nowhere", "file"):
        assert run(directory=tmp_path / name) == []


def test_what_a_full_disk_cut_is_no_record(built, programs, tmp_path):
    inside_namespace(
        tmp_path,
        "mount -t tmpfs -o size=4k none /mnt",
        f"env LD_PRELOAD={built} MPIBENCH_EVIDENCE=/mnt FI_LONG={'x' * 4096} "
        f"{programs / 'on-mpich'}",
        f"cp /mnt/*.jsonl {tmp_path}",
    )
    ranks, [damage] = rank_records.read_all(tmp_path)
    assert ranks == [] and damage.code == "output-cut"
