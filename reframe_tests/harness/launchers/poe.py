"""POE of IBM's Parallel Environment, written from its manuals: it could not be run here."""

from __future__ import annotations

from ..vocabulary import NotMeasured
from .model import Binding, Launcher, Request


def _count(request: Request) -> Binding:
    counts = {
        "MP_PROCS": request.nodes * request.ppn,
        "MP_NODES": request.nodes,
        "MP_TASKS_PER_NODE": request.ppn,
    }
    return Binding({**{name: str(number) for name, number in counts.items()}, "MP_RESD": "yes"})


def _explicit(request: Request) -> Binding:
    topology = request.placement.topology
    units, nodes = ((), ()) if topology is None else (topology.units, topology.numa_nodes)
    modules = [frozenset(unit.cpu for unit in units if unit.numa == node) for node in nodes]
    wanted = [frozenset(cpus) for cpus in request.ranks]
    if not all(cpus in modules for cpus in wanted):
        raise NotMeasured(
            "POE binds a task to a whole module (MP_TASK_AFFINITY names MCMs), which a rank's CPUs "
            "are not"
        )
    listed = ",".join(str(modules.index(cpus)) for cpus in wanted)
    return _count(request).adding(env={"MP_TASK_AFFINITY": listed})


LAUNCHER = Launcher(
    name="poe",
    title="POE",
    manual="poe(1) of Parallel Environment for AIX 4.2 and 4.3: MP_PROCS, MP_NODES, "
    "MP_TASKS_PER_NODE, MP_RESD, MP_TASK_AFFINITY (SNI, MCM or a list of MCMs)",
    count=_count,
    # It binds nothing by default.
    unbound=_count,
    explicit=_explicit,
    total=(),
    untested="it comes with IBM's Parallel Environment only",
    note="POE takes no options before the program: everything is a variable. LoadLeveler "
    "chooses the nodes.",
)
