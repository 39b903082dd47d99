"""Slurm's srun."""

from __future__ import annotations

import re

from .model import Binding, Launcher, RankNames, Request, mask


def _count(request: Request) -> Binding:
    over = LAUNCHER.oversubscribe if request.oversubscribe else ()
    return Binding(options=(f"--ntasks-per-node={request.ppn}", "--distribution=block", *over))


def _unbound(request: Request) -> Binding:
    return _count(request).adding("--cpu-bind=none", env=request.unbinding)


def _explicit(request: Request) -> Binding:
    if request.narrow:
        words = "map_cpu:" + ",".join(str(cpus[0]) for cpus in request.ranks)
    else:
        words = "mask_cpu:" + ",".join(map(mask, request.ranks))
    return _count(request).adding(f"--cpu-bind={words}", env=request.unbinding)


LAUNCHER = Launcher(
    name="srun",
    title="Slurm",
    manual="srun(1), --cpu-bind, --ntasks-per-node, --distribution, --overcommit, 'Output "
    "environment variables'",
    site=("srun", "srunalloc"),
    count=_count,
    unbound=_unbound,
    explicit=_explicit,
    total=("--mpi={pmi}", "--nodes={nodes}", "--ntasks={ranks}"),
    pmi_extra="srun_mpi",
    oversubscribe=("--overcommit",),
    private=("SRUN_",),
    # SLURM_CPU_BIND=cores arrives as quiet,mask_cpu:0x1.
    rewritten=("SLURM_",),
    # What the process management interface says comes first: Slurm's exist
    # even where MPI never got to know of its peers.
    identity=RankNames(
        rank=("PMIX_RANK", "PMI_RANK", "SLURM_PROCID"),
        size=("PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        local_rank=("SLURM_LOCALID",),
    ),
    settings=(
        "SLURM_CPU_BIND",
        "SLURM_MPI_TYPE",
        "SLURM_JOB_ID",
        "SLURM_STEP_ID",
        "SLURM_NODEID",
        "SLURM_LOCALID",
        "SLURM_PROCID",
        "PMI_RANK",
        "PMI_SIZE",
        "PMIX_RANK",
    ),
    # info() of src/srun/libsrun/allocate.c and launch.c (22.05); without "error:" and "warning:".
    stdout_lines=re.compile(
        r"srun: (?:[Jj]ob \d+ (?:queued and waiting for resources|has been allocated resources)"
        r"|Job (?:\d+ )?step creation (?:temporarily disabled, retrying.*"
        r"|still disabled, retrying.*)|Step created for \S+"
        r"|Pending job allocation \d+|Granted job allocation \d+"
        r"|Waiting for resource configuration"
        r"|Nodes \S+ are ready for job)"
    ),
    note="Lists and masks hold per node and are honoured only if the step was given every CPU "
    "of the node: the job asks for the node exclusively and for no --cpus-per-task (which "
    "implies --exact since 22.05). Needs task/affinity.",
)
