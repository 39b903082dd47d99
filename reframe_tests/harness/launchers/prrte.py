"""mpirun of Open MPI 5: PRRTE."""

from __future__ import annotations

from ..vocabulary import NotMeasured
from .model import Binding, Introduction, Launcher, Request
from .open_mpi import IDENTITY, PRIVATE, RANKFILE, SETTINGS, export_by_name, rankfile


def _count(request: Request) -> Binding:
    return Binding(options=LAUNCHER.oversubscribe if request.oversubscribe else ())


def _unbound(request: Request) -> Binding:
    over = ":oversubscribe" * request.oversubscribe
    return Binding(options=("--map-by", f"ppr:{request.ppn}:node{over}", "--bind-to", "none"))


def _explicit(request: Request) -> Binding:
    topology = request.placement.topology
    if topology is None:
        raise NotMeasured("Open MPI 5 counts CPUs in hwloc's order, and the placement comes without its topology")
    slots = [sorted(topology.logical[cpu] for cpu in cpus) for cpus in request.ranks]
    over = ":oversubscribe" * request.oversubscribe
    if request.narrow:
        listed = ",".join(str(cpus[0]) for cpus in slots)
        return Binding(options=("--map-by", f"pe-list={listed}:ordered:hwtcpus{over}"))
    words = ("--map-by", f"rankfile:file={RANKFILE}:hwtcpus{over}")
    return Binding(options=words, files=rankfile(request, slots))


LAUNCHER = Launcher(
    name="prrte",
    title="PRRTE",
    manual="mpirun(1) of Open MPI 5, 'Mapping, Ranking, and Binding: Oh My!' and 'Rankfiles'",
    count=_count,
    unbound=_unbound,
    explicit=_explicit,
    introduction=Introduction(r"\(Open MPI\) v?[5-9]\.|\(PRRTE\)|prterun"),
    exports=export_by_name,
    oversubscribe=("--map-by", ":oversubscribe"),
    # prterun(1).
    private=("PRTE_", *PRIVATE),
    identity=IDENTITY,
    settings=SETTINGS,
    note="Numbers are hwloc's logical ones. pe-list binds rank r to entry r only if 'ordered', starts over on each node, and "
    "without 'hwtcpus' means cores with all their hardware threads; it gives one CPU per rank, so wider ranks take a rank "
    "file. For 'default' ppr would change the binding (to NUMA nodes beyond two ranks), so the processes per node follow "
    "from the slots: the job asks the batch system for ppn tasks per node.",
)
