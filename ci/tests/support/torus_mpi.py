"""An MPI and a transport that nobody has, a system with that network, and a build of that MPI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reframe_tests.harness.machine.topology import describe
from synthetic_stack import write_stack

TORUS_MPI = '''
"""An MPI over a torus."""

import re

from reframe_tests.harness.mpis.model import Banner, Mpi, SpackPackage, Unbinding
from reframe_tests.harness.mpis.transport import Gap, Proof, Range, TransportRow, scoped

MPI = Mpi(
    name="torusmpi",
    title="Torus MPI",
    abi="torus",
    launchers=("hydra",),
    banner=Banner(r"^Torus MPI ([0-9.]+) ", r"Torus MPI {version} "),
    libraries=("libtorus",),
    sonames=(r"libtorus\\.so\\.7",),
    world="7",
    env={"TORUS_HOME": "{prefix}"},
    pmi="torus",
    stdout_lines=re.compile(r"torus: .*"),
    unbinding=(Unbinding("its manual", ("hydra",), {"TORUS_BIND": "0"}),),
    settings=("TORUS_",),
    spack=(SpackPackage("torus-mpi"),),
    transports=("torus",),
    rows=(
        TransportRow(
            "torus",
            Range((2,)),
            "its manual, 'Links'",
            env={"TORUS_LINK": "{device}"},
            debug_env={"TORUS_SAY": "1"},
            by_scope=scoped(node={"TORUS_LOCAL": "0"}, cluster={}),
            proofs=(Proof("link", r"torus: uses (\\S+)", ("{device}",)),),
        ),
    ),
    gaps=(Gap("torus", Range((0,), (2,)), "Torus MPI before 2 has no links: use 2.0 or newer."),),
)
'''
#: What it adds to carry everything in one node's memory, where a node has no link.
MEMORY_ROW = """
        TransportRow(
            "shm",
            Range((2,)),
            "its manual, 'Memory'",
            debug_env={"TORUS_SAY": "1"},
            proofs=(Proof("way", r"torus: uses (\\S+)", ("memory",)),),
        ),
"""
#: Its library: it ends a program that has another handle of
#: MPI_COMM_WORLD, and asks its launcher for everything else.
TORUS_LIBRARY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define ALIAS(name) __attribute__((weak, alias(name)))
static int ask(int world, const char *name, int *number)
{
    if (world != 7) abort();
    *number = atoi(getenv(name));
    return 0;
}
int PMPI_Comm_rank(int world, int *rank) { return ask(world, "GALLEY_RANK", rank); }
int PMPI_Comm_size(int world, int *size) { return ask(world, "GALLEY_SIZE", size); }
int PMPI_Get_library_version(char *text, int *length)
{
    *length = (int)strlen(strcpy(text, "Torus MPI 2.1 (built today)"));
    return 0;
}
int PMPI_Init(int *count, char ***words)
{
    (void)count, (void)words;
    if (getenv("TORUS_SAY")) puts("torus: uses memory");
    return 0;
}
int PMPI_Finalize(void) { return 0; }
int MPI_Init(int *count, char ***words) ALIAS("PMPI_Init");
int MPI_Finalize(void) ALIAS("PMPI_Finalize");
int MPI_Comm_rank(int world, int *rank) ALIAS("PMPI_Comm_rank");
"""
SYSTEM = {
    "name": "torus",
    "descr": "nodes on a torus",
    "hostnames": ["nowhere"],
    "partitions": [
        {
            "name": "nodes",
            "scheduler": "local",
            "launcher": "mpirun",
            "processor": describe(1, 2),
            "extras": {
                "fabrics": {
                    "ring": {"transport": "torus", "scope": "node", "rails": [{"device": "link0"}]}
                }
            },
        }
    ],
}


def write_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a site's own files with the MPI in it, named to whatever is started."""
    (tmp_path / "own" / "mpis").mkdir(parents=True)
    (tmp_path / "own" / "mpis" / "torusmpi.py").write_text(TORUS_MPI)
    monkeypatch.setenv("MPIBENCH_EXTENSIONS", str(tmp_path / "own"))
    return tmp_path / "own"


def torus_stack(where: Path, **changes: Any) -> Path:
    """Metadata of a build of the made-up MPI."""
    mpi = {"name": "torusmpi", "version": "2.1", "device": ""}
    return write_stack(where, **{"name": "torusmpi-system", "mpi": mpi, "abi": "torus", **changes})
