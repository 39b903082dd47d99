"""mpirun_rsh of MVAPICH2 and MVAPICH; the library places ranks by its own variables."""

from __future__ import annotations

from ..vocabulary import NotMeasured
from . import pbs
from .model import HOSTFILE, Binding, Bootstrap, Exports, Introduction, Launcher, RankNames, Request

#: Hands every variable on to ranks on other nodes.
EXPORT = "-export"
#: First version with :data:`EXPORT`, and with several cores for a rank.
EXPORTING = (1, 7)
#: End of the name of the variable that keeps an MPI from binding its
#: ranks; the beginning is that of all its variables.
AFFINITY = "_ENABLE_AFFINITY"


def _count(request: Request) -> Binding:
    here = {HOSTFILE: f"localhost:{request.ppn}\n"} if request.nodes == 1 else {}
    where = ("-hostfile", HOSTFILE) if here or request.hostfile else ("-ppn", str(request.ppn))
    export = () if request.before(*EXPORTING) else (EXPORT,)
    return Binding(options=(*export, *where), files=here)


def _unbound(request: Request) -> Binding:
    return _count(request).adding(env=request.unbinding)


def _explicit(request: Request) -> Binding:
    topology = request.placement.topology
    highest = max(cpu for cpus in request.ranks for cpu in cpus)
    if topology is not None and highest >= topology.online:
        raise NotMeasured(
            f"MVAPICH2 rejects CPU {highest} on a node with {topology.online} CPUs online (the "
            "numbers have gaps)"
        )
    if request.before(*EXPORTING) and not request.narrow:
        raise NotMeasured(
            "MVAPICH2 before 1.7 maps a rank to only one core; use ranks of one core, or a newer "
            "version"
        )
    mapping = ":".join(",".join(map(str, cpus)) for cpus in request.ranks)
    prefixes = [
        name.removesuffix(AFFINITY) for name in request.unbinding if name.endswith(AFFINITY)
    ]
    if not prefixes:
        raise NotMeasured(
            f"mpirun_rsh pins by variables of the MPI, but those of {request.mpi} are unknown"
        )
    # The mapping is read only where the library's own binding is on
    # (hwloc_bind.c, MPIDI_CH3I_set_affinity).
    env = {
        f"{p}{name}": value
        for p in prefixes
        for name, value in ((AFFINITY, "1"), ("_CPU_MAPPING", mapping))
    }
    return _count(request).adding(env=env)


def _export(exports: Exports) -> tuple[str, ...]:
    """Before -export the variables stand on the command line;
    mpirun_rsh takes PATH and LD_LIBRARY_PATH along.
    """
    return (
        ()
        if EXPORT in exports.words
        else tuple(f"{name}={value}" for name, value in exports.values.items())
    )


LAUNCHER = Launcher(
    name="mpirun_rsh",
    title="mpirun_rsh",
    manual="MVAPICH2 user guide 2.3.7, 5.2.1 Run using mpirun_rsh, 6.2 Export Environment, "
    "6.5.3 User defined CPU Mapping, 11.13 MV2_CPU_MAPPING, 11.22 MV2_ENABLE_AFFINITY",
    count=_count,
    unbound=_unbound,
    explicit=_explicit,
    # mpirun_params.c of MVAPICH2 2.3.7.
    introduction=Introduction(r"Version: mvapich", option="-v", program=r"mpirun_rsh"),
    exports=_export,
    bootstraps=(
        Bootstrap(
            "MVAPICH2 user guide 1.5, 5.2.1 'Run using mpirun_rsh': a host file and ssh; it "
            "knows no TM interface",
            pbs.SCHEDULERS,
            prepare=(f'cp "$PBS_NODEFILE" {HOSTFILE}',),
            hostfile=True,
        ),
    ),
    # MVAPICH2 user guide 2.3.7, 'Frequently Asked Questions':
    # MV2_COMM_WORLD_RANK and its like; MVAPICH's are renamed.
    identity=RankNames(
        rank=("PMI_RANK", "MV2_COMM_WORLD_RANK", "MVP_COMM_WORLD_RANK"),
        size=("PMI_SIZE", "MV2_COMM_WORLD_SIZE", "MVP_COMM_WORLD_SIZE"),
        local_rank=("MV2_COMM_WORLD_LOCAL_RANK", "MVP_COMM_WORLD_LOCAL_RANK"),
    ),
    untested="MVAPICH2 was run under Hydra, which it has as well",
    note="Several nodes: the node list of Slurm or PBS is used, and -ppn needs 2.3.6.",
)
