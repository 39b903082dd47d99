"""mpirun of Open MPI 1 to 4: ORTE."""

from __future__ import annotations

from ..vocabulary import NotMeasured
from . import pbs
from .model import Binding, Bootstrap, Introduction, Launcher, Request
from .open_mpi import IDENTITY, PRIVATE, RANKFILE, SETTINGS, export_by_name, rankfile

#: First version with hwloc's numbers and the options of today.
HWLOC = (1, 7)


def _count(request: Request) -> Binding:
    over = LAUNCHER.oversubscribe if request.oversubscribe and not request.before(*HWLOC) else ()
    return Binding(options=over)


def _unbound(request: Request) -> Binding:
    words = ("--bind-to-none",) if request.before(*HWLOC) else ("--bind-to", "none")
    return _count(request).adding("-npernode", str(request.ppn), *words)


def _explicit(request: Request) -> Binding:
    if request.version[:2] == HWLOC:
        raise NotMeasured("rankfiles of Open MPI 1.7 take hwloc's numbers only; 1.6 and 1.8 take the operating system's")
    # Physical numbers: since 1.7 the default is hwloc's order; before, the operating system's was all there was.
    words = () if request.before(*HWLOC) else ("--mca", "rmaps_rank_file_physical", "1", "--use-hwthread-cpus")
    return _count(request).adding("--rankfile", RANKFILE, *words, files=rankfile(request, request.ranks))


LAUNCHER = Launcher(
    name="orterun",
    title="ORTE",
    manual="mpirun(1) of Open MPI 4.1, 'Rankfiles' and -npernode; mpirun(1) of Open MPI 1.4, likewise",
    count=_count,
    unbound=_unbound,
    explicit=_explicit,
    # orterun.c of Open MPI 4.1: "%s (%s) %s", where the project is Open MPI or OpenRTE by the program's name.
    introduction=Introduction(r"\((?:Open MPI|OpenRTE)\) v?[1-4]\."),
    exports=export_by_name,
    oversubscribe=("--oversubscribe",),
    bootstraps=(
        Bootstrap(
            "Open MPI FAQ, 'Running jobs under Torque / PBS Pro': without tm support in the build, ssh would be taken instead",
            pbs.SCHEDULERS,
            env={"OMPI_MCA_plm": "tm"},
        ),
    ),
    private=("OMPI_MCA_orte_", *PRIVATE),
    identity=IDENTITY,
    settings=SETTINGS,
    note="Not --cpu-list with --bind-to cpu-list:ordered: 4.1.4 sorts the list (1,0 gives rank 0 CPU 0). The physical rank "
    "file binds to whole cores without --use-hwthread-cpus. 'default' as for prrte.",
)
