"""Hydra of MPICH, also used by MVAPICH2."""

from __future__ import annotations

from . import pbs
from .model import Binding, Bootstrap, Introduction, Launcher, RankNames, Request


def _count(request: Request) -> Binding:
    return Binding(options=("-ppn", str(request.ppn)))


def _unbound(request: Request) -> Binding:
    return _count(request).adding("-bind-to", "none", env=request.unbinding)


def _explicit(request: Request) -> Binding:
    words = ",".join("+".join(map(str, cpus)) for cpus in request.ranks)
    return _count(request).adding("-bind-to", f"user:{words}", env=request.unbinding)


LAUNCHER = Launcher(
    name="hydra",
    title="MPICH's Hydra",
    manual="MPICH, 'Using the Hydra Process Manager', Process-core Binding; "
    "src/pm/hydra/lib/tools/topo/hwloc/topo_hwloc.c",
    count=_count,
    unbound=_unbound,
    explicit=_explicit,
    # mpiexec.hydra of MPICH 4 and 5.
    introduction=Introduction(r"HYDRA build details"),
    bootstraps=(
        Bootstrap(
            "MPICH, 'Using the Hydra Process Manager', Environment Settings (HYDRA_LAUNCHER, "
            "HYDRA_LAUNCHER_EXEC)",
            pbs.SCHEDULERS,
            env={"HYDRA_LAUNCHER": "rsh", "HYDRA_LAUNCHER_EXEC": f"$PWD/{pbs.REMOTE_SHELL}"},
            scripts=pbs.SCRIPTS,
        ),
    ),
    # mpiexec(1) of Hydra.
    private=("HYDRA_",),
    # src/pm/hydra/proxy/pmip_cb.c of MPICH; MVAPICH2 and MVAPICH say the last of each besides.
    identity=RankNames(
        rank=("PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "MVP_COMM_WORLD_RANK"),
        size=("PMI_SIZE", "MV2_COMM_WORLD_SIZE", "MVP_COMM_WORLD_SIZE"),
        local_rank=("MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "MVP_COMM_WORLD_LOCAL_RANK"),
    ),
    settings=("PMI_RANK", "PMI_SIZE"),
    note="Ranks beyond the end of the list are left unbound. HYDRA_TOPO_DEBUG=1 shows the masks "
    "without binding.",
)
