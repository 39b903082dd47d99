"""One placement in every launcher's own words: environment, options and files that put rank r of each node on its CPUs.

A row of :data:`DIALECTS` per way of starting ranks. The options also fix the processes per node, so that a command line is
``mpirun -np N <options> program``. Policy ``default`` asks for nothing else; ``none`` asks for no binding at all, by launcher
and library. CPU numbers are the operating system's unless a row says otherwise. No row oversubscribes cores unless asked.

What launchers print or fail to do is the test's evidence, not theirs: several keep quiet when they did not bind as told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..machine.placement import RankPlacement
from ..mpis import registry
from ..mpis.model import Unbinding
from ..vocabulary import BadInput

#: Name of the rank file, in the directory the launcher is started in.
RANKFILE = "rankfile"
#: Name of the host file, likewise.
HOSTFILE = "hostfile"


@dataclass(frozen=True)
class Binding:
    """What to give a launcher.

    :param env: variables to set for the launcher and the ranks.
    :param options: words between ``-np N`` and the program.
    :param files: name to content, to be written where the launcher is started.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Inexpressible:
    """A placement the launcher has no words for, with the reason; the case is skipped and says so."""

    reason: str


@dataclass(frozen=True)
class Request:
    """What is to be said in a dialect; parameters as of :func:`bind`."""

    placement: RankPlacement
    nodes: int
    ppn: int
    hosts: tuple[str, ...]
    mpi: str
    version: tuple[int, ...]
    oversubscribe: bool
    hostfile: bool = False

    @property
    def ranks(self) -> tuple[tuple[int, ...], ...]:
        """CPUs per rank of a node; empty for ``default`` and ``none``."""
        return self.placement.ranks or ()

    @property
    def narrow(self) -> bool:
        """True if every rank has exactly one CPU."""
        return all(len(cpus) == 1 for cpus in self.ranks)

    def library_env(self, launcher: str) -> dict[str, str]:
        """Variables that keep the MPI library from binding its ranks again, after a launcher that is not its own did.

        All libraries that do so, unless the stack is known; a library ignores the others' variables.
        """
        known = [mpi for mpi in registry.known().values() if not self.mpi or mpi.name == self.mpi]
        rows = [row for mpi in known for row in mpi.unbinding]
        return {
            name: value for row in rows if launcher in row.launchers and self._covers(row) for name, value in row.env.items()
        }

    def _covers(self, row: Unbinding) -> bool:
        return not (self.version and row.before) or self.version < row.before


@dataclass(frozen=True)
class Dialect:
    """How one launcher is told where ranks go.

    :param manual: sections that define the words.
    :param count: options that fix the processes per node (and hosts, where they are known).
    :param unbound: policy ``none``.
    :param explicit: policies that name CPUs.
    :param note: what a reader of the row must know.
    """

    manual: str
    count: Callable[[Request], Binding]
    unbound: Callable[[Request], Binding]
    explicit: Callable[[Request], Binding | Inexpressible]
    note: str = ""


def bind(
    placement: RankPlacement,
    dialect: str,
    nodes: int,
    ppn: int,
    hosts: Sequence[str] | None = None,
    *,
    mpi: str = "",
    version: Sequence[int] = (),
    oversubscribe: bool = False,
    hostfile: bool = False,
) -> Binding | Inexpressible:
    """A placement in a launcher's own words.

    :param dialect: key of :data:`DIALECTS`; ``srunalloc`` counts as ``srun``.
    :param nodes: nodes of the job; every node gets the same placement.
    :param ppn: processes per node, as resolved.
    :param hosts: names of the nodes in rank order, if known before the job starts; else the batch system's allocation counts,
        or this machine if there is none.
    :param mpi: MPI library of the ranks (:mod:`mpis`), if known.
    :param version: its version, if known; without, the newest that has this launcher.
    :param oversubscribe: allow more ranks than the launcher counts slots or CPUs, for nodes that only pretend to have cores.
    :param hostfile: the job itself will write :data:`HOSTFILE`, from what the batch system says (``bootstrap``).
    :raises BadInput: if ``ppn``, placement, nodes and hosts do not agree.
    """
    where = "srun" if dialect == "srunalloc" else dialect
    if where not in DIALECTS:
        return Inexpressible(f"nothing is known about pinning under launcher {dialect}; known are {', '.join(DIALECTS)}")
    if placement.ppn != ppn or (placement.ranks is not None and len(placement.ranks) != ppn):
        raise BadInput(f"the placement is for {placement.ppn} ranks per node and {ppn} are to be started: resolve it again.")
    if nodes < 1 or (hosts is not None and len(hosts) != nodes):
        raise BadInput(f"{nodes} nodes are asked for and {len(hosts or ())} hosts are named: name one per node.")
    row = DIALECTS[where]
    request = Request(placement, nodes, ppn, tuple(hosts or ()), mpi, tuple(version), oversubscribe, hostfile)
    if placement.ranks is not None:
        return row.explicit(request)
    return row.unbound(request) if placement.policy == "none" else row.count(request)


def _add(base: Binding, *options: str, env: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None) -> Binding:
    return Binding({**base.env, **(env or {})}, (*base.options, *options), {**base.files, **(files or {})})


def _mask(cpus: Sequence[int]) -> str:
    return hex(sum(1 << cpu for cpu in cpus))


# ---- srun ----


def _srun_count(request: Request) -> Binding:
    hosts = (f"--nodelist={','.join(request.hosts)}",) if request.hosts else ()
    over = ("--overcommit",) if request.oversubscribe else ()
    return Binding(options=(f"--ntasks-per-node={request.ppn}", "--distribution=block", *hosts, *over))


def _srun_unbound(request: Request) -> Binding:
    return _add(_srun_count(request), "--cpu-bind=none", env=request.library_env("srun"))


def _srun_explicit(request: Request) -> Binding:
    if request.narrow:
        words = "map_cpu:" + ",".join(str(cpus[0]) for cpus in request.ranks)
    else:
        words = "mask_cpu:" + ",".join(map(_mask, request.ranks))
    return _add(_srun_count(request), f"--cpu-bind={words}", env=request.library_env("srun"))


# ---- Hydra of Intel MPI ----


def _intel_count(request: Request) -> Binding:
    hosts = ("-hosts", ",".join(request.hosts)) if request.hosts else ()
    # Under a batch system -ppn is ignored without this variable; 4.0's MPD knows no such thing.
    hydra = not request.version or request.version >= (4, 1)
    env = {"I_MPI_JOB_RESPECT_PROCESS_PLACEMENT": "off"} if request.nodes > 1 and hydra else {}
    return Binding(env, ("-ppn", str(request.ppn), *hosts))


def _intel_unbound(request: Request) -> Binding:
    return _add(_intel_count(request), env={"I_MPI_PIN": "off"})


def _intel_explicit(request: Request) -> Binding:
    masks = f"[{','.join(map(_mask, request.ranks))}]"
    words = {"I_MPI_PIN_DOMAIN": masks}
    if request.version and request.version < (4, 1):
        # 4.0 pinned inside the library by default, when memory had already been placed (Cambridge paper, section 3.4).
        listed = {"I_MPI_PIN_PROCESSOR_LIST": ",".join(str(cpus[0]) for cpus in request.ranks)}
        words = {**(listed if request.narrow else words), "I_MPI_PIN_MODE": "mpd"}
    return _add(_intel_count(request), env={"I_MPI_PIN": "on", **words})


# ---- Hydra of MPICH ----


def _hydra_count(request: Request) -> Binding:
    hosts = ("-hosts", ",".join(request.hosts)) if request.hosts else ()
    return Binding(options=("-ppn", str(request.ppn), *hosts))


def _hydra_unbound(request: Request) -> Binding:
    return _add(_hydra_count(request), "-bind-to", "none", env=request.library_env("hydra"))


def _hydra_explicit(request: Request) -> Binding:
    words = ",".join("+".join(map(str, cpus)) for cpus in request.ranks)
    return _add(_hydra_count(request), "-bind-to", f"user:{words}", env=request.library_env("hydra"))


# ---- mpirun of Open MPI: PRRTE (5) and ORTE (1 to 4) ----


def _open_hosts(request: Request) -> tuple[str, ...]:
    return ("--host", ",".join(f"{host}:{request.ppn}" for host in request.hosts)) if request.hosts else ()


def _rankfile(request: Request, slots: Sequence[Sequence[int]]) -> dict[str, str]:
    """A rank file; ``+nX`` is node X of the allocation, but without one only the host's own name is understood."""
    names = request.hosts or (("localhost",) if request.nodes == 1 else tuple(f"+n{node}" for node in range(request.nodes)))
    lines = [
        f"rank {node * request.ppn + rank}={name} slot={','.join(map(str, cpus))}\n"
        for node, name in enumerate(names)
        for rank, cpus in enumerate(slots)
    ]
    return {RANKFILE: "".join(lines)}


def _prrte_count(request: Request) -> Binding:
    over = ("--map-by", ":oversubscribe") if request.oversubscribe else ()
    return Binding(options=(*_open_hosts(request), *over))


def _prrte_unbound(request: Request) -> Binding:
    over = ":oversubscribe" * request.oversubscribe
    return Binding(options=(*_open_hosts(request), "--map-by", f"ppr:{request.ppn}:node{over}", "--bind-to", "none"))


def _prrte_explicit(request: Request) -> Binding | Inexpressible:
    topology = request.placement.topology
    if topology is None:
        return Inexpressible("Open MPI 5 counts CPUs in hwloc's order, and the placement comes without its topology")
    slots = [sorted(topology.logical[cpu] for cpu in cpus) for cpus in request.ranks]
    over = ":oversubscribe" * request.oversubscribe
    if request.narrow:
        listed = ",".join(str(cpus[0]) for cpus in slots)
        return Binding(options=(*_open_hosts(request), "--map-by", f"pe-list={listed}:ordered:hwtcpus{over}"))
    words = ("--map-by", f"rankfile:file={RANKFILE}:hwtcpus{over}")
    return Binding(options=(*_open_hosts(request), *words), files=_rankfile(request, slots))


def _orterun_old(request: Request) -> bool:
    return bool(request.version) and request.version < (1, 7)


def _orterun_count(request: Request) -> Binding:
    over = ("--oversubscribe",) if request.oversubscribe and not _orterun_old(request) else ()
    return Binding(options=(*_open_hosts(request), *over))


def _orterun_unbound(request: Request) -> Binding:
    words = ("--bind-to-none",) if _orterun_old(request) else ("--bind-to", "none")
    return _add(_orterun_count(request), "-npernode", str(request.ppn), *words)


def _orterun_explicit(request: Request) -> Binding | Inexpressible:
    if request.version[:2] == (1, 7):
        return Inexpressible("rank files of Open MPI 1.7 take hwloc's numbers only; 1.6 and 1.8 take the operating system's")
    # Physical numbers: since 1.7 the default is hwloc's order; before, the operating system's was all there was.
    words = () if _orterun_old(request) else ("--mca", "rmaps_rank_file_physical", "1", "--use-hwthread-cpus")
    base = _add(_orterun_count(request), "--rankfile", RANKFILE, *words)
    return _add(base, files=_rankfile(request, request.ranks))


# ---- mpirun_rsh of MVAPICH2 ----


def _rsh_count(request: Request) -> Binding:
    hosts = request.hosts or (("localhost",) if request.nodes == 1 else ())
    listed = "".join(f"{host}:{request.ppn}\n" for host in hosts)
    where = ("-hostfile", HOSTFILE) if hosts or request.hostfile else ("-ppn", str(request.ppn))
    # Without -export, ranks on other nodes see none of the variables; before 1.7 they are named one by one (condition).
    export = () if _rsh_old(request) else ("-export",)
    return Binding(options=(*export, *where), files={HOSTFILE: listed} if hosts else {})


def _rsh_old(request: Request) -> bool:
    return bool(request.version) and request.version < (1, 7)


def _rsh_unbound(request: Request) -> Binding:
    return _add(_rsh_count(request), env=request.library_env("mpirun_rsh"))


def _rsh_explicit(request: Request) -> Binding | Inexpressible:
    topology = request.placement.topology
    highest = max(cpu for cpus in request.ranks for cpu in cpus)
    if topology is not None and highest >= topology.online:
        return Inexpressible(
            f"MVAPICH2 refuses CPU {highest} on a node with {topology.online} CPUs online (their numbers have gaps)"
        )
    if _rsh_old(request) and not request.narrow:
        return Inexpressible("MVAPICH2 before 1.7 maps a rank to one core only; use ranks of one core or a newer version")
    mapping = ":".join(",".join(map(str, cpus)) for cpus in request.ranks)
    prefixes = {"mvapich2": ("MV2",), "mvapich": ("MVP",)}.get(request.mpi, ("MV2", "MVP"))
    # The mapping is read only where the library's own binding is on (hwloc_bind.c, MPIDI_CH3I_set_affinity).
    env = {f"{p}_{name}": value for p in prefixes for name, value in (("ENABLE_AFFINITY", "1"), ("CPU_MAPPING", mapping))}
    return _add(_rsh_count(request), env=env)


# ---- POE of IBM's Parallel Environment ----


def _poe_count(request: Request) -> Binding:
    counts = {"MP_PROCS": request.nodes * request.ppn, "MP_NODES": request.nodes, "MP_TASKS_PER_NODE": request.ppn}
    hosts = {"MP_HOSTFILE": HOSTFILE} if request.hosts else {"MP_RESD": "yes"}
    listed = {HOSTFILE: "".join(f"{host}\n" * request.ppn for host in request.hosts)} if request.hosts else {}
    return Binding({**{name: str(number) for name, number in counts.items()}, **hosts}, files=listed)


def _poe_explicit(request: Request) -> Binding | Inexpressible:
    topology = request.placement.topology
    units, nodes = ((), ()) if topology is None else (topology.units, topology.numa_nodes)
    modules = [frozenset(unit.cpu for unit in units if unit.numa == node) for node in nodes]
    wanted = [frozenset(cpus) for cpus in request.ranks]
    if not all(cpus in modules for cpus in wanted):
        return Inexpressible("POE binds a task to a module (MP_TASK_AFFINITY names MCMs), and a rank's CPUs are not one")
    listed = ",".join(str(modules.index(cpus)) for cpus in wanted)
    return _add(_poe_count(request), env={"MP_TASK_AFFINITY": listed})


#: Launcher family (``vocabulary.LAUNCHER_FAMILIES``) or site launcher to its words.
DIALECTS: dict[str, Dialect] = {
    "srun": Dialect(
        "srun(1), --cpu-bind, --ntasks-per-node, --distribution, --overcommit",
        _srun_count,
        _srun_unbound,
        _srun_explicit,
        note="Lists and masks hold per node and are honoured only if the step was given every CPU of the node: the job asks "
        "for the node exclusively and for no --cpus-per-task (which implies --exact since 22.05). Needs task/affinity.",
    ),
    "hydra-intel": Dialect(
        "Intel MPI Developer Reference, 'Interoperability with OpenMP API', I_MPI_PIN_DOMAIN=<masklist>; 'Environment "
        "Variables for Process Pinning', I_MPI_PIN; 'Hydra Environment Variables', I_MPI_JOB_RESPECT_PROCESS_PLACEMENT; "
        "'mpiexec.hydra', -ppn and -hosts",
        _intel_count,
        _intel_unbound,
        _intel_explicit,
        note="Always masks: I_MPI_PIN_PROCESSOR_LIST is ignored if a domain is inherited, and with a CPU outside the job's "
        "cpuset 2021.18's hydra_pmi_proxy spins forever, where a mask ends with 'unable to bind process'. Masks need their 0x "
        "(without, 2021.18 prints an error and pins by default). Both variables are in 4.0.1 too (Cambridge paper, 3.4).",
    ),
    "hydra": Dialect(
        "MPICH, 'Using the Hydra Process Manager', Process-core Binding; src/pm/hydra/lib/tools/topo/hwloc/topo_hwloc.c",
        _hydra_count,
        _hydra_unbound,
        _hydra_explicit,
        note="Ranks beyond the end of the list are left unbound. HYDRA_TOPO_DEBUG=1 shows the masks without binding.",
    ),
    "prrte": Dialect(
        "mpirun(1) of Open MPI 5, 'Mapping, Ranking, and Binding: Oh My!' and 'Rankfiles'",
        _prrte_count,
        _prrte_unbound,
        _prrte_explicit,
        note="Numbers are hwloc's logical ones. pe-list binds rank r to entry r only if 'ordered', starts over on each node, "
        "and without 'hwtcpus' means cores with all their hardware threads; it gives one CPU per rank, so wider ranks take a "
        "rank file. For 'default' ppr would change the binding (to NUMA nodes beyond two ranks), so the processes per node "
        "follow from the slots: the job asks the batch system for ppn tasks per node.",
    ),
    "orterun": Dialect(
        "mpirun(1) of Open MPI 4.1, 'Rankfiles' and -npernode; mpirun(1) of Open MPI 1.4, likewise",
        _orterun_count,
        _orterun_unbound,
        _orterun_explicit,
        note="Not --cpu-list with --bind-to cpu-list:ordered: 4.1.4 sorts the list (1,0 gives rank 0 CPU 0). The physical rank "
        "file binds to whole cores without --use-hwthread-cpus. 'default' as for prrte.",
    ),
    "mpirun_rsh": Dialect(
        "MVAPICH2 user guide 2.3.7, 5.2.1 Run using mpirun_rsh, 6.2 Export Environment, 6.5.3 User defined CPU Mapping, "
        "11.13 MV2_CPU_MAPPING, 11.22 MV2_ENABLE_AFFINITY",
        _rsh_count,
        _rsh_unbound,
        _rsh_explicit,
        note="Several nodes without known hosts: the node list of Slurm or PBS is used, and -ppn needs 2.3.6.",
    ),
    "poe": Dialect(
        "poe(1) of Parallel Environment for AIX 4.2 and 4.3: MP_PROCS, MP_NODES, MP_TASKS_PER_NODE, MP_HOSTFILE, MP_RESD, "
        "MP_TASK_AFFINITY (SNI, MCM or a list of MCMs)",
        _poe_count,
        _poe_count,
        _poe_explicit,
        note="POE takes no options before the program: everything is a variable. It binds nothing unless told, so 'none' asks "
        "for nothing. LoadLeveler chooses the nodes.",
    ),
}
