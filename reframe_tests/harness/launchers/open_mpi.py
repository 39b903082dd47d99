"""The two mpirun of Open MPI: ORTE of 1 to 4, PRRTE of 5. They share rank files and the export of
variables.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..vocabulary import NotMeasured
from . import pbs
from .model import Binding, Bootstrap, Exports, Introduction, Launcher, RankNames, Request

#: Name of the rankfile, in the directory the launcher is started in.
RANKFILE = "rankfile"
#: Beginnings of the names of variables that mpirun passes on by itself.
OWN_VARIABLES = ("OMPI_", "PMIX_", "PRTE_")
#: Variables that only mpirun reads (mpirun(1)).
PRIVATE = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_MCA_plm", "OMPI_MCA_rmaps")
#: Variables of a rank (mpirun(1), section "Environment"; PMIX_RANK of the PMIx standard).
IDENTITY = RankNames(
    rank=("PMIX_RANK", "OMPI_COMM_WORLD_RANK"),
    size=("OMPI_COMM_WORLD_SIZE",),
    local_rank=("OMPI_COMM_WORLD_LOCAL_RANK",),
)
#: Those of them that no MPI's own settings begin with.
SETTINGS = ("PMIX_RANK",)


def rankfile(request: Request, slots: Sequence[Sequence[int]]) -> dict[str, str]:
    """A rankfile; ``+nX`` is node X of the allocation, but without one
    only the host's own name is understood.

    :param slots: numbers of the CPUs per rank of a node, as this launcher counts them.
    """
    names = (
        ("localhost",)
        if request.nodes == 1
        else tuple(f"+n{node}" for node in range(request.nodes))
    )
    lines = [
        f"rank {node * request.ppn + rank}={name} slot={','.join(map(str, cpus))}\n"
        for node, name in enumerate(names)
        for rank, cpus in enumerate(slots)
    ]
    return {RANKFILE: "".join(lines)}


def export_by_name(exports: Exports) -> tuple[str, ...]:
    """``-x NAME`` for each variable: mpirun passes only its own to ranks on other nodes (mpirun(1)
    of Open MPI 4 and 5, section "Exported Environment Variables").
    """
    if exports.nodes == 1:
        return ()
    return tuple(
        word
        for name in exports.names
        if not name.startswith(OWN_VARIABLES)
        for word in ("-x", name)
    )


#: First version with hwloc's numbers and the options of today.
HWLOC = (1, 7)


def _orte_count(request: Request) -> Binding:
    over = ORTE.oversubscribe if request.oversubscribe and not request.before(*HWLOC) else ()
    return Binding(options=over)


def _orte_unbound(request: Request) -> Binding:
    words = ("--bind-to-none",) if request.before(*HWLOC) else ("--bind-to", "none")
    return _orte_count(request).adding("-npernode", str(request.ppn), *words)


def _orte_explicit(request: Request) -> Binding:
    if request.version[:2] == HWLOC:
        raise NotMeasured("rank files of Open MPI 1.7 take only hwloc's numbers; use 1.6 or 1.8")
    # Physical numbers: since 1.7 the default is hwloc's order; before,
    # the operating system's was all there was.
    words = (
        ()
        if request.before(*HWLOC)
        else ("--mca", "rmaps_rank_file_physical", "1", "--use-hwthread-cpus")
    )
    return _orte_count(request).adding(
        "--rankfile", RANKFILE, *words, files=rankfile(request, request.ranks)
    )


ORTE = Launcher(
    name="orterun",
    title="ORTE",
    manual="mpirun(1) of Open MPI 4.1, 'Rankfiles' and -npernode; mpirun(1) of Open MPI 1.4, "
    "likewise",
    count=_orte_count,
    unbound=_orte_unbound,
    explicit=_orte_explicit,
    # orterun.c of Open MPI 4.1: "%s (%s) %s", where the project is
    # Open MPI or OpenRTE by the program's name.
    introduction=Introduction(r"\((?:Open MPI|OpenRTE)\) v?[1-4]\."),
    exports=export_by_name,
    oversubscribe=("--oversubscribe",),
    bootstraps=(
        Bootstrap(
            "Open MPI FAQ, 'Running jobs under Torque / PBS Pro': without tm support in the "
            "build, ssh would be taken instead",
            pbs.SCHEDULERS,
            env={"OMPI_MCA_plm": "tm"},
        ),
    ),
    private=("OMPI_MCA_orte_", *PRIVATE),
    identity=IDENTITY,
    settings=SETTINGS,
    note="Not --cpu-list with --bind-to cpu-list:ordered: 4.1.4 sorts the list (1,0 gives rank "
    "0 CPU 0). The physical rank file binds to whole cores without --use-hwthread-cpus. "
    "'default' as for prrte.",
)


def _prrte_count(request: Request) -> Binding:
    return Binding(options=PRRTE.oversubscribe if request.oversubscribe else ())


def _prrte_unbound(request: Request) -> Binding:
    over = ":oversubscribe" * request.oversubscribe
    return Binding(options=("--map-by", f"ppr:{request.ppn}:node{over}", "--bind-to", "none"))


def _prrte_explicit(request: Request) -> Binding:
    topology = request.placement.topology
    if topology is None:
        raise NotMeasured(
            "Open MPI 5 counts CPUs in hwloc's order, but the placement has no topology"
        )
    slots = [sorted(topology.logical[cpu] for cpu in cpus) for cpus in request.ranks]
    over = ":oversubscribe" * request.oversubscribe
    if request.narrow:
        listed = ",".join(str(cpus[0]) for cpus in slots)
        return Binding(options=("--map-by", f"pe-list={listed}:ordered:hwtcpus{over}"))
    words = ("--map-by", f"rankfile:file={RANKFILE}:hwtcpus{over}")
    return Binding(options=words, files=rankfile(request, slots))


PRRTE = Launcher(
    name="prrte",
    title="PRRTE",
    manual="mpirun(1) of Open MPI 5, 'Mapping, Ranking, and Binding: Oh My!' and 'Rankfiles'",
    count=_prrte_count,
    unbound=_prrte_unbound,
    explicit=_prrte_explicit,
    introduction=Introduction(r"\(Open MPI\) v?[5-9]\.|\(PRRTE\)|prterun"),
    exports=export_by_name,
    oversubscribe=("--map-by", ":oversubscribe"),
    # prterun(1).
    private=("PRTE_", *PRIVATE),
    identity=IDENTITY,
    settings=SETTINGS,
    note="Numbers are hwloc's logical ones. pe-list binds rank r to entry r only if 'ordered', "
    "starts over on each node, and without 'hwtcpus' means cores with all their hardware "
    "threads; it gives one CPU per rank, so wider ranks take a rank file. For 'default' "
    "ppr would change the binding (to NUMA nodes beyond two ranks), so the processes per "
    "node follow from the slots: the job asks the batch system for ppn tasks per node.",
)


LAUNCHER = (ORTE, PRRTE)
