"""What the two mpirun of Open MPI have in common: rankfiles, variables handed on."""

from __future__ import annotations

from collections.abc import Sequence

from .model import Exports, Identity, Request

#: Name of the rankfile, in the directory the launcher is started in.
RANKFILE = "rankfile"
#: Beginnings of the names of variables that mpirun hands on by itself.
OWN_VARIABLES = ("OMPI_", "PMIX_", "PRTE_")
#: Variables that only mpirun reads (mpirun(1)).
PRIVATE = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_MCA_plm", "OMPI_MCA_rmaps")
#: Variables of a rank (mpirun(1), section "Environment"; PMIX_RANK of the PMIx standard).
IDENTITY = Identity(
    rank=("PMIX_RANK", "OMPI_COMM_WORLD_RANK"), size=("OMPI_COMM_WORLD_SIZE",), local_rank=("OMPI_COMM_WORLD_LOCAL_RANK",)
)
#: Those of them that no MPI's own settings begin with.
SETTINGS = ("PMIX_RANK",)


def rankfile(request: Request, slots: Sequence[Sequence[int]]) -> dict[str, str]:
    """A rankfile; ``+nX`` is node X of the allocation, but without one only the host's own name is understood.

    :param slots: numbers of the CPUs per rank of a node, as this launcher counts them.
    """
    names = ("localhost",) if request.nodes == 1 else tuple(f"+n{node}" for node in range(request.nodes))
    lines = [
        f"rank {node * request.ppn + rank}={name} slot={','.join(map(str, cpus))}\n"
        for node, name in enumerate(names)
        for rank, cpus in enumerate(slots)
    ]
    return {RANKFILE: "".join(lines)}


def export_by_name(exports: Exports) -> tuple[str, ...]:
    """``-x NAME`` of each variable: mpirun hands only its own to ranks on other nodes (mpirun(1) of Open MPI 4 and 5, section
    "Exported Environment Variables").
    """
    if exports.nodes == 1:
        return ()
    return tuple(word for name in exports.names if not name.startswith(OWN_VARIABLES) for word in ("-x", name))
