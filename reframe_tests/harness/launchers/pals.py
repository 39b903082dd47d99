"""mpiexec of HPE's PALS (Parallel Application Launch Service) on Cray EX under PBS: the site's, and
Cray MPICH's own.
"""

from __future__ import annotations

from .model import Binding, Introduction, Launcher, RankNames, Request


def _count(request: Request) -> Binding:
    return Binding(options=("--ppn", str(request.ppn), "--envall"))


def _unbound(request: Request) -> Binding:
    return _count(request).adding("--cpu-bind", "none", env=request.unbinding)


def _explicit(request: Request) -> Binding:
    listed = ":".join(",".join(map(str, cpus)) for cpus in request.ranks)
    return _count(request).adding("--cpu-bind", f"list:{listed}", env=request.unbinding)


LAUNCHER = Launcher(
    name="pals",
    title="PALS",
    manual="mpiexec(1) of HPE PALS, -n, --ppn, --cpu-bind, --envall, --pmi; ALCF user guide, "
    "'Running Jobs on Aurora', Binding MPI ranks (list:0,1:2,3 is one list of CPUs per "
    "rank of a node, parted by colons)",
    site=("pals",),
    program=("mpiexec",),
    count=_count,
    unbound=_unbound,
    explicit=_explicit,
    total=("-n", "{ranks}"),
    pmi_extra="pals_pmi",
    # Cray's own is what it offers unasked (cray-pmi(7)).
    pmi_words={"cray_shasta": (), "pmix": ("--pmi=pmix",)},
    # "mpiexec version 1.8.0 revision ...": E3SM's mache,
    # mache/parallel/pbs.py, which recognises it by that.
    introduction=Introduction(r"\A\s*mpiexec version \d"),
    private=("PALS_",),
    # src/plugins/mpi/cray_shasta of Slurm, which sets the same for its own ranks.
    identity=RankNames(
        rank=("PMIX_RANK", "PMI_RANK", "PALS_RANKID"),
        size=("PMI_SIZE",),
        local_rank=("PMI_LOCAL_RANK", "PALS_LOCAL_RANKID"),
    ),
    settings=(
        "PALS_APID",
        "PALS_NODEID",
        "PALS_RANKID",
        "PALS_LOCAL_RANKID",
        "PMI_RANK",
        "PMI_SIZE",
        "PMIX_RANK",
    ),
    untested="it comes with HPE Cray EX systems only",
    note="It takes none of Open MPI's words. MPICH built for PMIx, as Aurora's is, needs "
    "pals_pmi: {mpich: pmix} in the extras of a partition; MPICH with its own PMI is left "
    "out.",
)
