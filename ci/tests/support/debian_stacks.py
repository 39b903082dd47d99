"""Debian's Open MPI and MPICH, registered as stacks of origin ``system`` as a site would do it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from mpibench.stacks import system
from reframe_tests.harness.stacks.stack import Stack

#: What is said of a launch of MPICH that measured everything and hung, as UCX 1.13 over TCP does
#: now and then when it closes its connections (openucx/ucx, issue 8738, open; seen here once in
#: some hundred launches, beside a load of 10 on two cores). A test that is not about that runs
#: again.
HUNG = "2 of its ranks had called MPI_Finalize by then"
#: Times that it is run at most; twice in a row was seen once.
MOST_STARTS = 4
#: Launchers of Debian's packages openmpi-bin and mpich, which
#: ``ci/setup test`` installs where it may.
LAUNCHERS = {"openmpi": "/usr/bin/mpirun.openmpi", "mpich": "/usr/bin/mpirun.mpich"}


def missing() -> str:
    """Why there are none here; empty where both are installed."""
    lacking = [launcher for launcher in LAUNCHERS.values() if not shutil.which(launcher)]
    return (
        f"no {' and no '.join(lacking)} here (Debian packages openmpi-bin and mpich)"
        if lacking
        else ""
    )


def register(place: Path, binaries: Mapping[str, Sequence[Path]] | None = None) -> dict[str, Stack]:
    """Both, by MPI, as ``openmpi-debian`` and ``mpich-debian``.

    :param place: folder the metadata goes to, one folder per MPI.
    :param binaries: folders with benchmarks, by MPI.
    """
    return {
        mpi: system.add(
            launcher, name=f"{mpi}-debian", binaries=(binaries or {}).get(mpi, ()), into=place / mpi
        )
        for mpi, launcher in LAUNCHERS.items()
    }


def named(place: Path) -> str:
    """Value of ``MPIBENCH_STACKS`` that makes them known."""
    return ":".join(str(place / mpi) for mpi in LAUNCHERS)
