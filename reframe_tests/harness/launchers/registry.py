"""All launchers: those of this folder, one file each, and those of ``MPIBENCH_EXTENSIONS``
(:mod:`records`).

:func:`bind` translates a placement for each: environment, options and files that put rank r of each
node on its CPUs. The options also fix the processes per node, so that a command line is ``mpirun
-np N <options> program``. Policy ``default`` adds nothing else; ``none`` turns binding off, in
launcher and library.
"""

from __future__ import annotations

import re
import types
from collections.abc import Sequence
from dataclasses import replace

from .. import records
from ..machine.placement import RankPlacement
from ..mpis import registry as mpis
from ..vocabulary import BadInput, NotMeasured
from .model import Binding, Launcher, Request

#: ReFrame launchers that stand for "the stack's own mpirun"; any other is a launcher of the site.
#: ``local`` is among them because ReFrame detects the topology only of partitions whose scheduler
#: and launcher are both local.
STACKS_OWN = ("local", "mpirun", "mpiexec", "mpirun_rsh", "mpirun-intelmpi", "mpirun-openmpi")
#: Name of a launcher: a word of metadata.
_WORD = re.compile(r"[a-z][a-z0-9_-]*")
#: Name of a variable, or its first letters, as the recorder takes it (its ``MAX_NAME``).
_VARIABLE = re.compile(r"[A-Za-z_]\w{0,254}", re.ASCII)


def known() -> dict[str, Launcher]:
    """Every launcher by name, a site's first.

    :raises BadInput: for an extension that cannot be used, naming its file,
        and for two launchers of one name of ReFrame's.
    """
    rows = records.load(__package__, "LAUNCHER", Launcher, _find_fault).values()
    taken: dict[str, str] = {}
    for row in rows:
        for name in row.site:
            if taken.setdefault(name, row.name) != row.name:
                both = (
                    f"launchers {taken[name]} and {row.name} both have the partition's name "
                    f"{name!r}"
                )
                raise BadInput("bad-option", f"{both}; remove it from 'site' of one.")
    by_name = {row.name: row for row in sorted(rows, key=lambda row: not row.site)}
    for mpi in mpis.known().values():
        for name in (*mpi.launchers, *(name for row in mpi.unbinding for name in row.launchers)):
            if name not in by_name:
                known = ", ".join(by_name)
                raise BadInput(
                    "unknown-name",
                    f"MPI {mpi.name}: {name!r} is not a launcher; use one of {known}.",
                )
    return by_name


def families() -> dict[str, Launcher]:
    """Those that a stack's own ``mpirun`` may be
    (``launcher_family`` of ``stack.json``), by name.
    """
    return {name: row for name, row in known().items() if not row.site or row.introduction}


def settings() -> tuple[str, ...]:
    """First letters of variables that say how some launcher started the ranks."""
    return tuple(dict.fromkeys(prefix for row in known().values() for prefix in row.settings))


def find(launcher: str, family: str) -> Launcher | None:
    """The launcher of a stack on a partition, or ``None`` for one nothing is known about.

    :param launcher: ReFrame's name of the partition's launcher; the name of a record is taken, too.
    :param family: ``launcher_family`` of the stack.
    """
    if launcher in STACKS_OWN:
        row = families().get(family)
        # Started where the stack has it, not as the site names it.
        return replace(row, site=(), program=()) if row and row.site else row
    return next(
        (row for row in known().values() if launcher == row.name or launcher in row.site), None
    )


def unknown(name: str) -> str:
    """Why nothing is measured under a launcher without a record."""
    return f"launcher {name} is not supported; supported are {', '.join(known())}"


def register() -> None:
    """Register each with ReFrame; call it before ReFrame reads a configuration that names one."""
    from reframe.core.backends import getlauncher
    from reframe.core.exceptions import ConfigError

    for launcher, name in ((row, name) for row in known().values() for name in row.site):
        try:
            getlauncher(name)
        except ConfigError:
            _add(launcher, name)


def _add(launcher: Launcher, name: str) -> None:
    from reframe.core.backends import register_launcher
    from reframe.core.launchers import JobLauncher

    if not launcher.program:
        raise BadInput(
            "unknown-name",
            f"launcher {launcher.name}: ReFrame has no launcher {name!r}; give the record its "
            "'program'.",
        )
    body = {"command": lambda self, job: list(launcher.program)}
    register_launcher(name)(
        types.new_class(name, (JobLauncher,), exec_body=lambda namespace: namespace.update(body))
    )


def _find_fault(launcher: Launcher) -> str:
    if not _WORD.fullmatch(launcher.name):
        return f"{launcher.name!r} is not a name of lower-case letters, digits, - and _; rename it"
    taken = [name for name in launcher.site if name in STACKS_OWN]
    if taken:
        return (
            f"launcher {taken[0]!r} of a partition means the stack's own mpirun; use another name "
            "in 'site'"
        )
    for key, names in {"settings": launcher.settings, **vars(launcher.identity)}.items():
        if isinstance(names, str):
            return f"{key!r} is {names!r}, not a tuple of names; write ({names!r},)"
        for name in names:
            if not _VARIABLE.fullmatch(name):
                return f"{name!r} in {key!r} is not a variable name; correct it"
    try:
        launcher.words((), (), 1, 1)
    except (KeyError, IndexError, ValueError) as error:
        return (
            "'total' has a placeholder that is none of {ranks}, {nodes} and {pmi} "
            f"({error}); correct it"
        )
    return ""


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
    row = find(launcher, launcher) if isinstance(launcher, str) else launcher
    if row is None:
        raise NotMeasured(unknown(str(launcher)))
    if placement.ppn != ppn or (placement.ranks is not None and len(placement.ranks) != ppn):
        raise BadInput(
            "not-comparable",
            f"the placement is for {placement.ppn} ranks per node, but {ppn} are requested: "
            "resolve it again.",
        )
    if nodes < 1:
        raise BadInput("bad-option", f"{nodes} nodes requested: request at least 1.")
    unbinding = _unbinding(row, mpi, tuple(version))
    request = Request(
        placement, nodes, ppn, mpi, tuple(version), oversubscribe, hostfile, unbinding
    )
    if placement.ranks is not None:
        return row.explicit(request)
    return row.unbound(request) if placement.policy == "none" else row.count(request)


def _unbinding(launcher: Launcher, mpi: str, version: tuple[int, ...]) -> dict[str, str]:
    """Variables that keep the MPI library from binding its ranks again,
    after a launcher that is not its own did.

    All libraries that do so, unless the stack is known; a library ignores the others' variables.
    """
    known = [row for row in mpis.known().values() if mpi in ("", row.name)]
    return {
        name: value
        for row in (row for library in known for row in library.unbinding)
        if (launcher.site or launcher.name in row.launchers)
        and (not (version and row.before) or version < row.before)
        for name, value in row.env.items()
    }
