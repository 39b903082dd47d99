"""``flux run``: a separate job inside the surrounding Flux instance, an allocation or the whole
system.
"""

from __future__ import annotations

from .model import Binding, Launcher, RankNames, Request, mask


def _count(request: Request) -> Binding:
    # --ntasks cannot stand beside options per node. A job that has not all cores of its nodes has
    # none to put ranks on freely.
    return Binding(options=(f"--tasks-per-node={request.ppn}", "--exclusive"))


def _unbound(request: Request) -> Binding:
    return _count(request).adding("--setopt=cpu-affinity=off", env=request.unbinding)


def _explicit(request: Request) -> Binding:
    masks = ";".join(map(mask, request.ranks))
    return _count(request).adding(f"--setopt=cpu-affinity=map:{masks}", env=request.unbinding)


LAUNCHER = Launcher(
    name="flux",
    title="Flux",
    manual="flux-run(1), --nodes, --tasks-per-node, --exclusive, --setopt, 'ENVIRONMENT'; "
    "flux-shell-options(7), 'CPU AFFINITY' (cpu-affinity=off, map:LIST) and 'PMI "
    "CONFIGURATION' (pmi); src/shell/affinity.c of flux-core: a mask that begins with 0x "
    "and has no comma is one of taskset's, by the operating system's numbers",
    site=("flux",),
    program=("flux", "run"),
    count=_count,
    unbound=_unbound,
    explicit=_explicit,
    total=("--nodes={nodes}",),
    pmi_extra="flux_pmi",
    # Flux's own names. pmix and cray-pals are plugins of their own (flux-pmix, flux-coral2).
    pmi_words={
        "pmi2": ("--setopt=pmi=simple",),
        "pmix": ("--setopt=pmi=pmix",),
        "cray_shasta": ("--setopt=pmi=cray-pals",),
    },
    private=("FLUX_",),
    # As for srun, what the process management interface says comes first.
    identity=RankNames(
        rank=("PMIX_RANK", "PMI_RANK", "FLUX_TASK_RANK"),
        size=("PMI_SIZE", "FLUX_JOB_SIZE"),
        local_rank=("FLUX_TASK_LOCAL_ID",),
        job=("FLUX_JOB_ID",),
    ),
    settings=(
        "FLUX_JOB_ID",
        "FLUX_JOB_NNODES",
        "FLUX_TASK_RANK",
        "FLUX_TASK_LOCAL_ID",
        "PMI_RANK",
        "PMI_SIZE",
        "PMIX_RANK",
    ),
    untested="PyPI has its Python bindings without a broker, and Debian has none",
    note="The command line of flux-python 0.88.0, with its native library stubbed, makes of "
    "these words a jobspec of exclusive nodes with that many tasks each. The whole "
    "environment is handed on. ReFrame's own scheduler 'flux' asks for one core and knows "
    "no number of nodes, and a partition that names it keeps ReFrame from starting where "
    "Flux' Python module is not; so a partition has scheduler 'local', and ReFrame is "
    "started inside 'flux alloc' or 'flux batch'. Where a site loads mpibind, that binds "
    "and not Flux.",
)
