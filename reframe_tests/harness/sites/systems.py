"""Systems: found, read and checked, whoever describes them.

A site adds itself with one folder ``site_configs/<system>``; nothing here or in a test names a system. Its ``system.py`` holds
one dictionary called ``system``: ReFrame's own system dictionary, whose partitions carry ``extras.fabrics``. A system that the
centre's own ReFrame configuration describes (:mod:`.centre`) has a ``fabrics.yaml`` there instead (:mod:`.fabrics_file`).
"""

from __future__ import annotations

import re
import runpy
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import optional_file, schema
from ..launchers.schedulers import spool
from ..machine.fabric import Fabric, Rail
from ..machine.transport import AS_SHIPPED
from ..vocabulary import ROOT, BadInput
from . import centre as centres
from . import fabrics_file, folders
from .fabrics_file import Shortcoming

#: The system that fits any machine; it must stay last, because ReFrame takes the first whose host names match.
FALLBACK_SYSTEM = "generic"
SYSTEM_SCHEMA = ROOT / "site_configs" / "system.schema.json"


class SiteError(BadInput):
    """A site file that cannot be used."""


def system_files(root: Path = ROOT) -> list[Path]:
    """``system.py`` of every bundled or added system, the fallback last."""
    named = [folder for place in folders.every(root) for folder in sorted(place.glob("*"))]
    files = [folders.of(folder.name, root) / "system.py" for folder in named if optional_file.is_there(folder / "system.py")]
    return sorted(files, key=lambda path: path.parent.name == FALLBACK_SYSTEM)


def read_system(path: Path, schema_file: Path = SYSTEM_SCHEMA) -> dict[str, Any]:
    """The checked dictionary ``system`` of one ``system.py``.

    :raises SiteError: naming the file, the key and the remedy.
    """
    try:
        path.read_bytes()
    except OSError as error:
        raise SiteError(f"{path} cannot be read ({error.strerror}); correct the link or the rights, or remove it.") from error
    try:
        system = runpy.run_path(str(path)).get("system")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit() among them, which would end whatever reads it, perhaps with status 0
        reason = " ".join(str(error).split())
        raise SiteError(f"{path} cannot be read ({type(error).__name__}: {reason}); correct the Python in it.") from error
    if not isinstance(system, dict):
        raise SiteError(f"{path} defines no dictionary called 'system'; copy site_configs/generic/system.py and edit it.")
    if fault := schema.find_fault(schema_file, system):
        remedy = f"expected {fault.expected}" if fault.expected else f"see {schema_file.name}"
        raise SiteError(f"{path}: key '{fault.key}': {fault.message}; {remedy}.")
    if system["name"] != path.parent.name:
        raise SiteError(
            f"{path}: key 'name' is {system['name']!r} but the folder is called {path.parent.name!r}; make them equal."
        )
    _check_partitions(path, system)
    return system


def _check_partitions(path: Path, system: Mapping[str, Any]) -> None:
    """What a schema cannot say of a system's partitions.

    :raises SiteError: naming the partition.
    """
    for partition in system["partitions"]:
        if spool.EXTRA in partition["extras"] and partition["scheduler"] not in spool.SHARED:
            raise SiteError(
                f"{path}: partition {partition['name']} has {spool.EXTRA}, and its scheduler is {partition['scheduler']!r}; "
                f"only those of {', '.join(spool.SHARED)} share allocations: remove it."
            )
        for fabric in fabrics_of(partition["extras"]).values():
            if fabric.expect and fabric.expect not in (names := [each.name for each in fabric.choices]):
                raise SiteError(
                    f"{path}: fabric {fabric.name} of partition {partition['name']} expects {fabric.expect!r}, which is not "
                    f"one of its other fabrics of scope {fabric.scope} "
                    f"({', '.join(names) or 'there is none'}); correct 'expect'."
                )


def read_all(root: Path = ROOT) -> list[dict[str, Any]]:
    """Every system, checked: the centre's own before those of a ``system.py``, in the order in which host names are tried.

    :raises SiteError: for a bad file; the sentence names file, key and remedy.
    """
    theirs = _of_centre(root)
    own = [read_system(path) for path in system_files(root)]
    for name in {row["name"] for row in own} & theirs.keys() - {FALLBACK_SYSTEM}:
        source = getattr(centres.read(root), "source", "")
        raise SiteError(f"system '{name}' is in {source} and in {folders.of(name, root) / 'system.py'}; remove one of them.")
    return [*theirs.values(), *(row for row in own if row["name"] not in theirs)]


def _of_centre(root: Path) -> dict[str, dict[str, Any]]:
    """The centre's systems by name, completed; none where ReFrame is given our configuration alone."""
    centre = centres.read(root)
    if centre is None:
        return {}
    found = {row["name"]: fabrics_file.complete(row, centre, root) for row in centre.systems}
    for name, system in found.items():
        _check_partitions(fabrics_file.path_of(name, root), system)
    return found


def find(name: str, root: Path = ROOT) -> dict[str, Any] | None:
    """A system as it is described, by the centre or in a ``system.py``; ``None`` where nothing describes it.

    Where the centre's configuration is not at hand, as for stored sessions elsewhere, what its ``fabrics.yaml`` says alone:
    the partitions that it names, with their ``extras``.

    :raises SiteError: for a bad file.
    """
    theirs, path = _of_centre(root), folders.of(name, root) / "system.py"
    if name in theirs:
        return theirs[name]
    if optional_file.is_there(path):
        return read_system(path)
    if not _stands_alone(name, root):
        return None
    named = fabrics_file.read(fabrics_file.path_of(name, root))
    partitions = [{"name": partition, "extras": dict(words)} for partition, words in named.items()]
    return {"name": name, "hostnames": [], "partitions": partitions}


def _stands_alone(name: str, root: Path) -> bool:
    """Whether there is only a ``fabrics.yaml`` of a system, of whose configuration ReFrame is given nothing."""
    elsewhere = name in _of_centre(root) or optional_file.is_there(folders.of(name, root) / "system.py")
    return not elsewhere and optional_file.is_there(fabrics_file.path_of(name, root))


def select(name: str | None, root: Path = ROOT) -> dict[str, Any]:
    """The system of that name, or else the one that ReFrame selects on this machine.

    :raises SiteError: there is none, this machine is one of the centre's and of another one's, or its ``fabrics.yaml`` stands
        alone.
    """
    if name and _stands_alone(name, root):
        raise SiteError(
            f"{fabrics_file.path_of(name, root)} is there, and no configuration file of ReFrame describes system {name}: name "
            f"yours in {centres.VARIABLE}, before {root}/site_configs/settings.py."
        )
    found = find(name, root) if name else None
    if name is None:
        host, centre, described = socket.gethostname(), centres.read(root), read_all(root)
        theirs = centres.matching(centre) if centre else ()
        others = {row["name"] for row in centre.systems} if centre else set()
        own = [row for row in described if row["name"] not in others and _fits(row, host)]
        if centre and theirs and own and own[0]["name"] != FALLBACK_SYSTEM:
            raise SiteError(
                f"this machine is system '{theirs[0]}' of {centre.source} and system '{own[0]['name']}' of "
                f"{root}/site_configs: choose one with --system (or RFM_SYSTEM), or correct the 'hostnames' of one."
            )
        found = next((row for row in described if row["name"] in theirs[:1]), None) or next(iter(own), None)
    if found is None:
        known = ", ".join([*_of_centre(root), *(path.parent.name for path in system_files(root))])
        places = " or ".join(map(str, folders.every(root)))
        raise SiteError(f"there is no system '{name or socket.gethostname()}' in {places}; known are {known}.")
    return found


def _fits(system: Mapping[str, Any], host: str) -> bool:
    return any(re.match(pattern, host) for pattern in system["hostnames"])


def is_here(system: Mapping[str, Any], root: Path = ROOT) -> bool:
    """Whether this machine is one of a system's, so that ReFrame would submit from it."""
    centre = centres.read(root)
    if centre and system["name"] in {row["name"] for row in centre.systems}:
        return system["name"] in centres.matching(centre)
    return _fits(system, socket.gethostname())


def shortcomings(name: str, root: Path = ROOT) -> list[Shortcoming]:
    """What keeps cases from being measured on a system that the centre's configuration describes; none for other systems.

    :raises SiteError: for a bad file.
    """
    centre = centres.read(root)
    theirs = _of_centre(root)
    return list(fabrics_file.find_shortcomings(theirs[name], centre, root)) if centre and name in theirs else []


def without_topology(name: str, root: Path = ROOT) -> list[str]:
    """Partitions of a centre's configuration on which something is measured, and whose cores nobody knows.

    :raises SiteError: for a bad file.
    """
    centre = centres.read(root)
    theirs = _of_centre(root)
    return fabrics_file.without_topology(theirs[name], centre) if centre and name in theirs else []


def fabrics_of(extras: Mapping[str, Any]) -> dict[str, Fabric]:
    """Fabrics a partition describes in its ``extras``, by name."""
    described = {
        name: Fabric(
            name=name,
            transport=row["transport"],
            scope=row["scope"],
            rails=tuple(Rail(**rail) for rail in row.get("rails", ())),
            mtu_bytes=row.get("mtu_bytes"),
            min_efficiency=tuple(least.items()) if isinstance(least := row.get("min_efficiency"), Mapping) else least,
            tcp_interfaces=tuple(row.get("tcp_interfaces", ())),
            striped=row.get("striped", False),
            expect=row.get("expect", ""),
        )
        for name, row in extras.get("fabrics", {}).items()
    }
    forced = [fabric for fabric in described.values() if fabric.transport != AS_SHIPPED]
    return {
        name: fabric if fabric in forced else replace(fabric, choices=tuple(f for f in forced if f.scope == fabric.scope))
        for name, fabric in described.items()
    }
