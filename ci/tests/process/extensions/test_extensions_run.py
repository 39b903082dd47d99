"""An MPI, a transport and a system from files in a folder, with programs:
ReFrame itself, and an installation of that MPI.
"""

import re

import synthetic_stack as synthetic
from folders import write
from mpibench.stacks import system
from reframe_tests.harness.evidence import rank_records
from reframe_tests.harness.stacks import metadata
from synthetic_extensions import (
    GALLEY,
    GALLEY_PROGRAM,
    MEMORY_ROW,
    RELAY_PROGRAM,
    SUITE,
    TORUS_LIBRARY,
    TORUS_MPI,
    torus_stack,
    write_extension,
)
from synthetic_extensions import TORUS_SYSTEM as SYSTEM
from synthetic_site import SETTINGS


def test_an_installation_of_it_is_registered(tmp_path, monkeypatch):
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


def test_a_run_of_it_is_proven(tmp_path, monkeypatch, run_reframe):
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
        write(path, text, executable=True)
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
    words = "-r --system=torus -S level=smoke -S repeats=1 --keep-stage-files"
    words += " -n fabric=memory.*nodes=1.*ppn=2.*pinning=default"
    result = run_reframe(words=words, top=tmp_path, ended=0)
    assert re.search(r"Ran 1/1 test case\(s\)", result.stdout), result.stdout
    [folder] = {path.parent for path in (tmp_path / "results/stage").rglob("evidence/*/*.jsonl")}
    ranks = rank_records.read(folder)
    for number, rank in enumerate(ranks):
        assert (rank.rank, rank.size, rank.world_known, rank.world_unknown) == (number, 2, True, "")
        assert (rank.rank_source, rank.job) == ("GALLEY_RANK", "1492")
        assert (rank.init.links is not None) == (number == 0)
        assert str(library) in rank.mapped
        assert not any("MPIBENCH" in name for name in rank.environment)
    assert len(ranks) == 2
