"""mpiexec of ParaStation's process management, whose daemon is psid. Under psslurm, srun starts the
ranks.
"""

from __future__ import annotations

from ..vocabulary import NotMeasured
from .model import Binding, Introduction, Launcher, RankNames, Request


def _count(request: Request) -> Binding:
    over = LAUNCHER.oversubscribe if request.oversubscribe else ()
    return Binding(options=("-ppn", str(request.ppn), "-genvall", *over))


def _unbound(request: Request) -> Binding:
    return _count(request).adding(env={"__PSI_NO_PINPROC": "1", **request.unbinding})


def _explicit(request: Request) -> Binding:
    """psid gives the ranks of a node its CPUs in the order of the
    map, as many to each as it has threads.
    """
    widths = {len(cpus) for cpus in request.ranks}
    if len(widths) > 1:
        raise NotMeasured(
            "ParaStation's mpiexec gives every rank the same number of CPUs, but these ranks need "
            "different numbers"
        )
    listed = ",".join(str(cpu) for cpus in request.ranks for cpu in cpus)
    return _count(request).adding(
        "-tpp", str(*widths), env={"__PSI_CPUMAP": listed, **request.unbinding}
    )


LAUNCHER = Launcher(
    name="psmgmt",
    title="ParaStation's mpiexec",
    manual="mpiexec(8) of ParaStation psmgmt, -np, -ppn, -tpp, -genvall, --overbook; "
    "src/daemon/psidpin.c of psmgmt: __PSI_CPUMAP, __PSI_NO_PINPROC",
    count=_count,
    unbound=_unbound,
    explicit=_explicit,
    # The heading of a group of its options (mpiexec/cmdline.c of psmgmt).
    introduction=Introduction(r"Job placement options:", option="--help", program=r"mpiexec"),
    oversubscribe=("--overbook",),
    private=("__PSI_",),
    identity=RankNames(
        rank=("PMI_RANK", "PMIX_RANK"),
        size=("PMI_SIZE",),
        local_rank=("MPI_LOCALRANKID", "SLURM_LOCALID"),
    ),
    settings=("PMI_RANK", "PMI_SIZE", "PMIX_RANK"),
    untested="no psid was available where the project is tested",
    note="The map is read only where the site's psid allows a user's (allowUserMap); else ranks "
    "are pinned as if nothing was asked, and their masks show it.",
)
