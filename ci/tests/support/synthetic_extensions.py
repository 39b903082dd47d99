"""An MPI, a transport, launchers and a suite that nobody has, as files of a site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from folders import write
from reframe_tests.harness.machine.topology import describe
from synthetic_stack import write_stack

# ---- An MPI and a transport that nobody has, a system with that network, and a build of that
# MPI.

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


def _system(name: str, launcher: str, cores: int, **extras: Any) -> dict[str, Any]:
    """A system of one partition, which is not this machine."""
    partition = {
        "name": "nodes",
        "scheduler": "local",
        "launcher": launcher,
        "processor": describe(1, cores),
        "extras": extras,
    }
    return {"name": name, "descr": name, "hostnames": ["nowhere"], "partitions": [partition]}


RING = {"transport": "torus", "scope": "node", "rails": [{"device": "link0"}]}
TORUS_SYSTEM = _system("torus", "mpirun", 2, fabrics={"ring": RING})


def write_extension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a site's own files with the MPI in it, named to whatever is started."""
    write(tmp_path / "own/mpis/torusmpi.py", TORUS_MPI)
    monkeypatch.setenv("MPIBENCH_EXTENSIONS", str(tmp_path / "own"))
    return tmp_path / "own"


def torus_stack(where: Path, **changes: Any) -> Path:
    """Metadata of a build of the made-up MPI."""
    mpi = {"name": "torusmpi", "version": "2.1", "device": ""}
    return write_stack(where, **{"name": "torusmpi-system", "mpi": mpi, "abi": "torus", **changes})


# ---- Two launchers that nobody has, from files in a folder: one of a site, one that is an MPI's
# own ``mpirun``.

GALLEY = '''
"""galley: the launcher of a site."""

import re

from reframe_tests.harness.launchers.model import Binding, Launcher, RankNames


def count(request):
    over = LAUNCHER.oversubscribe if request.oversubscribe else ()
    return Binding(options=(f"--per-node={request.ppn}", *over))


def unbound(request):
    return count(request).adding("--free", env=request.unbinding)


def explicit(request):
    seats = "/".join(",".join(map(str, cpus)) for cpus in request.ranks)
    return count(request).adding(f"--seats={seats}", env={"GALLEY_SEATS": "strict", **request.unbinding})


LAUNCHER = Launcher(
    name="galley",
    title="the galley",
    manual="galley(1)",
    site=("galley",),
    program=("galley", "row"),
    count=count,
    unbound=unbound,
    explicit=explicit,
    total=("--oars={ranks}", "--ships={nodes}", "--pmi={pmi}"),
    exports=lambda exports: tuple(f"--env={name}" for name in exports.names),
    oversubscribe=("--crowd",),
    private=("GALLEY_",),
    identity=RankNames(("GALLEY_RANK",), ("GALLEY_SIZE",), ("GALLEY_LOCAL_RANK",), ("GALLEY_VOYAGE",)),
    stdout_lines=re.compile(r"galley: .*"),
)
'''
#: The launcher itself: so many processes on this machine, each with its number.
GALLEY_PROGRAM = """#!/bin/sh
shift
while :; do
    case $1 in --oars=*) size=${1#*=} ;; --*) ;; *) break ;; esac
    shift
done
export GALLEY_SIZE="$size" GALLEY_VOYAGE=1492
rank=0 started= status=0
while [ "$rank" -lt "$size" ]; do
    GALLEY_RANK=$rank GALLEY_LOCAL_RANK=$rank "$@" &
    started="$started $!" rank=$((rank + 1))
done
for each in $started; do wait "$each" || status=$?; done
exit "$status"
"""
TRIREME = '''
"""trireme: the mpirun of an MPI."""

from reframe_tests.harness.launchers.model import Binding, Bootstrap, Introduction, Launcher
from reframe_tests.harness.vocabulary import NotMeasured


def count(request):
    return Binding({"TRIREME_DECK": str(request.ppn)})


def explicit(request):
    raise NotMeasured("trireme seats nobody")


LAUNCHER = Launcher(
    name="trireme",
    title="the trireme",
    manual="trireme(1)",
    count=count,
    unbound=count,
    explicit=explicit,
    total=("-n", "{ranks}"),
    total_last=True,
    introduction=Introduction(r"trireme [0-9]"),
    bootstraps=(Bootstrap("trireme(1), PBS", ("pbs",), env={"TRIREME_SHELL": "tm"}),),
)
'''
ETH = {"transport": "tcp", "scope": "cluster", "rails": [{"device": "eth0"}]}
GALLEY_SYSTEM = _system("harbour", "galley", 4, fabrics={"eth": ETH}, remote=True)


def write_launchers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a site's own files with both launchers, named to whatever is started."""
    write(folder / "launchers/galley.py", GALLEY)
    write(folder / "launchers/trireme.py", TRIREME)
    monkeypatch.setenv("MPIBENCH_EXTENSIONS", str(folder))
    return folder


# ---- A suite that nobody has: one benchmark, in one file of a folder.

#: Its program on the made-up MPI (above).
RELAY_PROGRAM = r"""
#include <stdio.h>
int MPI_Init(int *, char ***), MPI_Comm_rank(int, int *), MPI_Finalize(void);
int main(int count, char **words)
{
    int rank = -1;
    if (MPI_Init(&count, &words) || MPI_Comm_rank(7, &rank)) return 1;
    if (rank == 0) puts("# Relay\n8 1.50\n16 1.75");
    return MPI_Finalize();
}
"""
SUITE = '''
"""Relay: a token passed round a ring."""

import re

from reframe_tests.harness.suites import traffic
from reframe_tests.harness.suites.benchmark import (Benchmark, OutputError, Plan, Record, SizeRange, at_levels)
from reframe_tests.harness.suites.model import Group, Programs, Suite

ROW = Benchmark("token", "relay", "relay-run", "relay_ring", "all", ("latency_us",), traffic.every_rank_once,
                gated_sizes={"latency_us": (8,)})
LINE = re.compile(r"([0-9]+) ([0-9.]+)")


def parse(text, source):
    rows = [LINE.fullmatch(line) for line in text.splitlines()[1:]]
    if not all(rows):
        raise OutputError("output-damaged", f"{source}: the table is damaged.")
    return [Record("relay", "token", None, 1, int(row[1]), None, {"latency_us": float(row[2])}) for row in rows]


SUITE = Suite(
    "relay",
    "Relay",
    re.compile("^# Relay$", re.MULTILINE),
    parse,
    (ROW,),
    {
        "relay_ring": Group(
            "A token on a ring", (Plan("ring", "relay-run", ("token",), at_levels(*[SizeRange((3, 4), 50, 1)] * 3)),)
        ),
    },
    lambda run: ["--repeat", str(run.size_range.count), *run.names],
    programs=Programs("relay-*", "relay-[a-z]+", "--version", "Relay ([0-9.]+)"),
)
'''
