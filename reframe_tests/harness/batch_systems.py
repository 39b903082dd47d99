"""Batch systems: one record each of what the project must know beyond ReFrame.

To add one, add a record to :data:`BATCH_SYSTEMS`. How launchers reach other nodes under it is
defined by the launchers (``Launcher.bootstraps``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class BatchSystem:
    """A batch system.

    :param title: its name in sentences.
    :param schedulers: ReFrame's names of it (``scheduler`` of a partition).
    :param variables: beginnings of the names of variables that its jobs have: with them a launcher
        would start its ranks through the surrounding job.
    :param job: variable in which a job finds its own number, for the
        recorder; empty if that is unknown.
    :param submit: the program with which ReFrame submits; empty if it needs none.
    :param no_requeue: options that keep it from starting a job again on its own: ReFrame could read
        the first start's files while the second one writes them.
    :param comment: option that keeps a text with the job; empty if there is none.
    :param exports: variable by which a job that was submitted with ``--export`` keeps its launchers
        from handing ranks all that the job's script sets; empty if there is none.
    :param overlapping: variables without which several launchers of one job
        would start their ranks one after the other.
    :param nodes: what ReFrame's ``-J`` takes to ask for nodes by name, with ``{nodes}`` for these,
        comma-separated; empty if it has no such option: of PBS, ReFrame writes the one request
        for nodes itself, and qsub passes over a second one; to Flux it passes no options, and asks
        for one node at most.
    """

    title: str
    schedulers: tuple[str, ...]
    variables: tuple[str, ...]
    job: str = ""
    submit: str = ""
    no_requeue: tuple[str, ...] = ()
    comment: str = ""
    exports: str = ""
    overlapping: Mapping[str, str] = field(default_factory=dict)
    nodes: str = ""


#: ``sbatch(1)``. Since 20.11 a step has its CPUs to itself unless it is to overlap; other than
#: srun's option, the variable of the same meaning (srun(1), "Input environment variables") reaches
#: the srun that an ``mpirun`` starts, too, and is nothing to older versions.
SLURM = BatchSystem(
    "Slurm",
    ("slurm", "squeue", "slurm_shared", "squeue_shared"),
    ("SLURM_",),
    "SLURM_JOB_ID",
    "sbatch",
    ("--no-requeue",),
    "--comment",
    "SLURM_EXPORT_ENV",
    {"SLURM_OVERLAP": "1"},
    nodes="nodelist={nodes}",
)
#: Reasons for which Slurm keeps a job in the queue, and never starts it as it is requested ("Job
#: Reason Codes" of its manual). It refuses such a job at once only with ``EnforcePartLimits``
#: (slurm.conf(5)), which is not its default; ReFrame 4.10 knows only the first of them by itself,
#: and would wait for the others for ever.
SLURM_NEVER_STARTS = (
    "ReqNodeNotAvail",
    "BadConstraints",
    "PartitionConfig",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "AccountNotAllowed",
    "InvalidAccount",
    "InvalidQOS",
    "QOSNotAllowed",
    "AssocMaxNodePerJobLimit",
    "AssocMaxWallDurationPerJobLimit",
    "QOSMaxNodePerJobLimit",
    "QOSMaxWallDurationPerJobLimit",
)
#: ``qsub(1B)`` of PBS Pro, OpenPBS and Torque.
PBS = BatchSystem("PBS", ("torque", "pbs", "pbspro"), ("PBS_",), "PBS_JOBID", "qsub", ("-r n",))
#: ReFrame appends the options of their jobs that begin with no dash to its request, one for all
#: nodes of a job (``select=1:mpiprocs=4:ncpus=4:host=c1``; ``core/schedulers/pbs.py``): so only a
#: single node has a name.
PBS_SELECT = ("pbs", "pbspro")
BATCH_SYSTEMS = (
    SLURM,
    PBS,
    # bsub(1)
    BatchSystem("LSF", ("lsf",), ("LSB_",), "LSB_JOBID", "bsub", ("-rn",)),
    # qsub(1) of Grid Engine; mpirun of Open MPI looks for the host
    # file among others (plm_rsh_component.c).
    BatchSystem("Grid Engine", ("sge",), ("PE_HOSTFILE",), "JOB_ID", "qsub", ("-r n",)),
    # oarsub(1); a job is started again only if it was submitted as idempotent.
    BatchSystem("OAR", ("oar",), ("OAR_",), "OAR_JOB_ID", "oarsub"),
    # ReFrame submits through Flux' Python module.
    BatchSystem("Flux", ("flux",), ("FLUX_",), "FLUX_JOB_ID"),
    # ReFrame has none for it; its jobs may still surround ours.
    BatchSystem("LoadLeveler", (), ("LOADL",)),
)


def find(scheduler: str) -> BatchSystem | None:
    """The batch system by ReFrame's name of it; ``None`` for
    ``local``, ``ssh`` and what is not known here.
    """
    return next((row for row in BATCH_SYSTEMS if scheduler in row.schedulers), None)


def ask_for_nodes(scheduler: str, nodes: Sequence[str]) -> str:
    """For ReFrame's ``-J``: a job on exactly these nodes; empty if the scheduler does not support
    it, or a name is invalid.
    """
    system = find(scheduler)
    return system.nodes.format(nodes=",".join(nodes)) if system and _are_names(nodes) else ""


def node_options(scheduler: str, nodes: Sequence[str]) -> list[str]:
    """The same for the options of a job, which take the name of a
    single node under PBS Pro and OpenPBS, too.
    """
    if scheduler in PBS_SELECT and len(nodes) == 1 and _are_names(nodes):
        return [f"host={nodes[0]}"]
    option = ask_for_nodes(scheduler, nodes)
    return [f"--{option}"] if option else []


def _are_names(nodes: Sequence[str]) -> bool:
    return bool(nodes) and all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name) for name in nodes)
