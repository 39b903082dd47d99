"""One placement in every launcher's own words: environment, options and files that put rank r of each node on its CPUs.

The options also fix the processes per node, so that a command line is ``mpirun -np N <options> program``. Policy ``default``
asks for nothing else; ``none`` asks for no binding at all, by launcher and library.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..machine.placement import RankPlacement
from ..mpis import registry as mpis
from ..vocabulary import BadInput, NotMeasured
from . import registry
from .model import Binding, Launcher, Request


def bind(
    placement: RankPlacement,
    launcher: Launcher | str,
    nodes: int,
    ppn: int,
    *,
    mpi: str = "",
    version: Sequence[int] = (),
    oversubscribe: bool = False,
    hostfile: bool = False,
) -> Binding:
    """A placement in a launcher's own words; parameters as of :class:`launchers.model.Request`.

    :param launcher: a launcher, or the name of one or of a partition's.
    :raises NotMeasured: with the reason, if the launcher has no words for it.
    :raises BadInput: if ``ppn`` and placement do not agree, or there is no node.
    """
    row = registry.find(launcher, launcher) if isinstance(launcher, str) else launcher
    if row is None:
        raise NotMeasured(registry.unknown(str(launcher)))
    if placement.ppn != ppn or (placement.ranks is not None and len(placement.ranks) != ppn):
        raise BadInput(
            "placement-other-ppn",
            f"the placement is for {placement.ppn} ranks per node and {ppn} are to be started: resolve it again.",
        )
    if nodes < 1:
        raise BadInput("nodes-range", f"{nodes} nodes are asked for: ask for at least 1.")
    unbinding = _unbinding(row, mpi, tuple(version))
    request = Request(placement, nodes, ppn, mpi, tuple(version), oversubscribe, hostfile, unbinding)
    if placement.ranks is not None:
        return row.explicit(request)
    return row.unbound(request) if placement.policy == "none" else row.count(request)


def _unbinding(launcher: Launcher, mpi: str, version: tuple[int, ...]) -> dict[str, str]:
    """Variables that keep the MPI library from binding its ranks again, after a launcher that is not its own did.

    All libraries that do so, unless the stack is known; a library ignores the others' variables.
    """
    known = [row for row in mpis.known().values() if mpi in ("", row.name)]
    return {
        name: value
        for row in (row for library in known for row in library.unbinding)
        if (launcher.site or launcher.name in row.launchers) and (not (version and row.before) or version < row.before)
        for name, value in row.env.items()
    }
