"""How a stack's own mpirun reaches the other nodes of a job: through the batch system, so that it accounts for every process.

A row of :data:`ROWS` per process manager and batch system where something must be said. Slurm needs no row: every ``mpirun``
here finds its allocation and starts through it by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..mpis.transport import Range

#: File names in the job's directory.
REMOTE_SHELL, HOSTFILE = "pbsdsh_rsh", "hostfile"

#: Stands in for ssh: runs a command on another node of the job through PBS's TM interface (pbsdsh(1), -h and -o). ssh hands
#: its words to a shell as one line, so this does too; pbsdsh knows hosts by their short names.
_REMOTE_SHELL_TEXT = """#!/bin/bash
while [[ ${1:-} == -* ]]; do shift; done
host=${1%%.*}; shift
exec pbsdsh -o -h "$host" bash -c "$*"
"""


@dataclass(frozen=True)
class Bootstrap:
    """What to add to a job so that ranks start on all its nodes.

    :param env: variables for the launcher; ``$PWD`` is the job's directory.
    :param scripts: name to content of executable files to be written there.
    :param prepare: shell lines before the first launch.
    :param hostfile: :data:`HOSTFILE` will hold one line per rank slot of the job.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    prepare: tuple[str, ...] = ()
    hostfile: bool = False


@dataclass(frozen=True)
class Row:
    """One way in.

    :param families: launcher families (``vocabulary.LAUNCHER_FAMILIES``).
    :param versions: versions of the MPI it holds for.
    :param schedulers: ReFrame's names of the batch systems.
    :param manual: where it is described.
    """

    families: tuple[str, ...]
    versions: Range
    schedulers: tuple[str, ...]
    manual: str
    bootstrap: Bootstrap


_PBS = ("torque", "pbs")
_SHELL = {REMOTE_SHELL: _REMOTE_SHELL_TEXT}

ROWS: tuple[Row, ...] = (
    Row(
        ("hydra-intel",),
        Range((4,), (4, 1)),
        _PBS,
        "Cambridge white paper (2011), Appendix A (I_MPI_MPD_RSH); Intel MPI 4.0 starts through MPD daemons",
        Bootstrap({"I_MPI_MPD_RSH": f"$PWD/{REMOTE_SHELL}"}, _SHELL),
    ),
    Row(
        ("hydra-intel",),
        Range((4, 1)),
        _PBS,
        "Intel MPI Developer Reference, 'Hydra Environment Variables' (I_MPI_HYDRA_BOOTSTRAP, I_MPI_HYDRA_BOOTSTRAP_EXEC)",
        Bootstrap({"I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": f"$PWD/{REMOTE_SHELL}"}, _SHELL),
    ),
    Row(
        ("hydra",),
        Range((0,)),
        _PBS,
        "MPICH, 'Using the Hydra Process Manager', Environment Settings (HYDRA_LAUNCHER, HYDRA_LAUNCHER_EXEC)",
        Bootstrap({"HYDRA_LAUNCHER": "rsh", "HYDRA_LAUNCHER_EXEC": f"$PWD/{REMOTE_SHELL}"}, _SHELL),
    ),
    Row(
        ("orterun",),
        Range((0,)),
        _PBS,
        "Open MPI FAQ, 'Running jobs under Torque / PBS Pro': without tm support in the build, ssh would be taken instead",
        Bootstrap({"OMPI_MCA_plm": "tm"}),
    ),
    Row(
        ("mpirun_rsh",),
        Range((0,)),
        _PBS,
        "MVAPICH2 user guide 1.5, 5.2.1 'Run using mpirun_rsh': a host file and ssh; it knows no TM interface",
        Bootstrap(prepare=(f'cp "$PBS_NODEFILE" {HOSTFILE}',), hostfile=True),
    ),
)


def find(family: str, version: tuple[int, ...], scheduler: str, nodes: int) -> Bootstrap:
    """What a launcher needs under a batch system; nothing inside one node or where no row says otherwise.

    :param scheduler: ReFrame's name of the batch system.
    """
    if nodes > 1:
        for row in ROWS:
            if family in row.families and scheduler in row.schedulers and version in row.versions:
                return row.bootstrap
    return Bootstrap()
