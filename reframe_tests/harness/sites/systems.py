"""Systems: found, read and checked, whoever describes them.

A site adds itself with one folder ``site_configs/<system>``; nothing here or in a test names a
system. Its ``system.py`` has a dictionary ``system``: ReFrame's own system dictionary, whose
partitions have ``extras.fabrics``. A centre's own ReFrame configuration (:mod:`.centre`) has the
same keys in the ``extras`` of its partitions.
"""

from __future__ import annotations

import os
import re
import runpy
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import batch_systems, optional_file, schema
from ..launchers import registry as launchers
from ..launchers.schedulers import spool
from ..machine import gpu
from ..machine.fabric import Fabric, Rail
from ..machine.transport import AS_SHIPPED
from ..mpis import registry as mpis
from ..suites import catalogue
from ..vocabulary import ROOT, BadInput, meant
from . import centre as centres
from .centre import Centre

#: The system that fits any machine; it must stay last, because
#: ReFrame takes the first whose host names match.
FALLBACK_SYSTEM = "generic"
SYSTEM_SCHEMA = ROOT / "site_configs" / "system.schema.json"
#: Where that schema has the words of ``extras``.
EXTRAS = "#/$defs/partition/properties/extras"
#: What says that something is measured; of a centre's own ``extras``, where it stands there.
FABRICS = "fabrics"
#: The shortest that is needed.
EXAMPLE = (
    '"extras": {"fabrics": {"eth0": {"transport": "tcp", "scope": "cluster", '
    '"rails": [{"device": "eth0", "line_rate_gbit_per_s": 25}]}}}'
)


class SiteError(BadInput):
    """A site file that cannot be used."""


@dataclass(frozen=True)
class Shortcoming:
    """What keeps cases from being measured on a partition, or a system.

    :param place: full name.
    :param sentence: what it is, and what to do.
    :param note: cases are measured all the same.
    """

    place: str
    sentence: str
    note: bool = False


#: Colon-separated folders, each with one folder per system.
SITES = "MPIBENCH_SITES"


def folders(root: Path) -> list[Path]:
    """Folders with one folder per system: those of :data:`SITES`, and the checkout's, the last.

    :raises BadInput: one of them is none, or not named from ``/`` on, as ReFrame reads settings in
        another folder than the user's; or its systems cannot be seen, so that a machine would
        silently be another one.
    """
    named = [Path(entry) for entry in filter(None, os.environ.get(SITES, "").split(":"))]
    for path in named:
        try:
            there = path.is_absolute() and path.is_dir()
            readable = os.access(path, os.R_OK | os.X_OK)
        except PermissionError:  # a folder above it
            there = path.is_absolute()
            readable = False
        if not there:
            raise BadInput(
                "not-ours",
                f"{SITES} names {path}, which is not the full path of a folder; correct or unset "
                "it.",
            )
        if not readable:
            raise BadInput(
                "not-ours",
                f"{SITES} names {path}, which you cannot read; correct its permissions, or unset "
                "the variable.",
            )
    return list(dict.fromkeys([*(path.resolve() for path in named), root / "site_configs"]))


def folder_of(system: str, root: Path) -> Path:
    """The folder of a system; if it does not exist yet, where to create it.

    :raises BadInput: there are two.
    """
    places = [folder / system for folder in folders(root)]
    there = [place for place in places if place.is_dir()]
    if len(there) > 1:
        raise BadInput(
            "name-taken",
            f"system {system} has the folders {' and '.join(map(str, there))}: remove one.",
        )
    return there[0] if there else places[0]


def shown(path: Path, root: Path) -> str:
    """A file's name for a sentence: from the checkout on where it lies in it."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def system_files(root: Path = ROOT) -> list[Path]:
    """``system.py`` of every bundled or added system, the fallback last."""
    named = [folder for place in folders(root) for folder in sorted(place.glob("*"))]
    files = [
        folder_of(folder.name, root) / "system.py"
        for folder in named
        if optional_file.is_there(folder / "system.py")
    ]
    return sorted(files, key=lambda path: path.parent.name == FALLBACK_SYSTEM)


def _check_schema(place: str, schema_file: Path, content: Any, part: str = "") -> None:
    if fault := schema.find_fault(schema_file, content, part):
        remedy = f"expected {fault.expected}" if fault.expected else f"see {schema_file.name}"
        raise SiteError(
            "system-description", f"{place}: key '{fault.key}': {fault.message}; {remedy}."
        )


def read_system(path: Path, schema_file: Path = SYSTEM_SCHEMA) -> dict[str, Any]:
    """The checked dictionary ``system`` of one ``system.py``.

    :raises SiteError: naming the file, the key and the remedy.
    """
    try:
        path.read_bytes()
    except OSError as error:
        raise SiteError(
            "system-description",
            f"{path} cannot be read ({error.strerror}); correct the link or the permissions, or "
            "remove it.",
        ) from error
    try:
        system = runpy.run_path(str(path)).get("system")
    except KeyboardInterrupt:
        raise
    except (
        BaseException
    ) as error:  # sys.exit() among them, which would end whatever reads it, perhaps with status 0
        reason = " ".join(str(error).split())
        raise SiteError(
            "system-description",
            f"{path} cannot be read ({type(error).__name__}: {reason}); correct its Python code.",
        ) from error
    if not isinstance(system, dict):
        raise SiteError(
            "system-description",
            f"{path} defines no dictionary 'system'; copy and edit site_configs/generic/system.py.",
        )
    _check_schema(str(path), schema_file, system)
    if system["name"] != path.parent.name:
        raise SiteError(
            "system-description",
            f"{path}: key 'name' is {system['name']!r}, but the folder is {path.parent.name!r}; "
            "make them equal.",
        )
    _check_partitions(str(path), system)
    return system


def _check_partitions(source: str, system: Mapping[str, Any]) -> None:
    """What a schema cannot say of a system's partitions.

    :raises SiteError: naming the partition.
    """
    every = (
        fabric
        for partition in system["partitions"]
        for fabric in fabrics_of(partition["extras"]).values()
    )
    rails = {device for fabric in every for device in fabric.devices}
    for partition in system["partitions"]:
        if spool.EXTRA in partition["extras"] and partition["scheduler"] not in spool.SHARED:
            raise SiteError(
                "system-description",
                f"{source}: partition {partition['name']} has {spool.EXTRA}, but its scheduler is "
                f"{partition['scheduler']!r}; only {', '.join(spool.SHARED)} can share "
                "allocations: remove it.",
            )
        for group in partition["extras"].get("suite_options", {}):
            if group not in catalogue.GROUPS:
                raise SiteError(
                    "unknown-name",
                    f"{source}: extras.suite_options of partition {partition['name']} names "
                    f"{group!r}, which is not a group; see 'mpibench catalogue'.",
                )
        _check_gpus(source, partition, rails)
        for fabric in fabrics_of(partition["extras"]).values():
            if fabric.expect and fabric.expect not in (
                names := [choice.name for choice in fabric.choices]
            ):
                raise SiteError(
                    "system-description",
                    f"{source}: fabric {fabric.name} of partition {partition['name']} expects "
                    f"{fabric.expect!r}, which is not another of its fabrics of scope "
                    f"{fabric.scope} ({', '.join(names) or 'there is none'}); correct 'expect'.",
                )


def _check_gpus(source: str, partition: Mapping[str, Any], rails: set[str]) -> None:
    """GPUs are described where fabrics use their memory, each
    once, and as ReFrame's ``devices`` say.

    :param rails: devices of all fabrics of the system.
    :raises SiteError: naming the partition.
    """
    extras = partition["extras"]
    where = f"{source}: partition {partition['name']}"
    gpus = gpus_of(extras)
    row = extras.get("gpus", {})
    using = [
        name
        for name, fabric in extras.get("fabrics", {}).items()
        if set(fabric.get("memory", ())) - {gpu.HOST}
    ]
    if using and not gpus:
        raise SiteError(
            "system-description",
            f"{where}: fabric {using[0]} has GPU memory, but extras has no 'gpus'; describe them.",
        )
    names = [name for name in fabrics_of(extras) if name not in extras["fabrics"]]
    if len(fabrics_of(extras)) < sum(
        len(fabric.get("memory", ("",))) for fabric in extras.get("fabrics", {}).values()
    ):
        raise SiteError(
            "name-taken",
            f"{where}: a fabric has the name of another one's memory ({', '.join(names)}); rename "
            "it.",
        )
    addresses = [card.bus_id for card in gpus if card.bus_id]
    if twice := [address for address in addresses if addresses.count(address) > 1]:
        raise SiteError("name-taken", f"{where}: two GPUs have bus_id {twice[0]}; correct one.")
    if unknown := [card.nic for card in gpus if card.nic and card.nic not in rails]:
        raise SiteError(
            "system-description",
            f"{where}: nic {unknown[0]} of a GPU is not a rail of a fabric; correct or remove it.",
        )
    of_host = (fabric for fabric in fabrics_of(extras).values() if not fabric.memory.on_gpu)
    if between := [fabric.name for fabric in of_host if mpis.transport(fabric.transport).gpus_only]:
        raise SiteError(
            "system-description",
            f'{where}: fabric {between[0]} is between GPUs; give it "memory": ["device"].',
        )
    kind = gpu.KINDS[row["kind"]] if gpus else None
    counted = len(gpus)
    stated = [device for device in partition.get("devices", ()) if device.get("type") == "gpu"]
    theirs = sum(device.get("num_devices", counted) for device in stated)
    if stated and kind and theirs != counted:
        raise SiteError(
            "system-description",
            f"{where}: 'devices' has {theirs} GPUs per node, extras.gpus has {counted}; correct "
            "one.",
        )
    for architecture in (device["arch"] for device in stated if "arch" in device):
        if kind and not architecture.startswith(kind.architecture):
            raise SiteError(
                "system-description",
                f"{where}: 'devices' has architecture {architecture}, extras.gpus {kind.title}; "
                "correct one.",
            )


def read_all(root: Path = ROOT) -> list[dict[str, Any]]:
    """Every system, checked: the centre's own before those of a
    ``system.py``, in the order in which host names are tried.

    :raises SiteError: for a bad file; the sentence names file, key and remedy.
    """
    theirs = _of_centre(root)
    own = [read_system(path) for path in system_files(root)]
    for name in {row["name"] for row in own} & theirs.keys() - {FALLBACK_SYSTEM}:
        source = getattr(centres.read(root), "source", "")
        raise SiteError(
            "name-taken",
            f"system '{name}' is in {source} and in {folder_of(name, root) / 'system.py'}; "
            "remove one of them.",
        )
    return [*theirs.values(), *(row for row in own if row["name"] not in theirs)]


def _of_centre(root: Path) -> dict[str, dict[str, Any]]:
    """The centre's systems by name, each partition with ``extras``; none
    where ReFrame is given our configuration alone.

    :raises SiteError: what extras say of fabrics cannot be used.
    """
    centre = centres.read(root)
    if centre is None:
        return {}
    systems: dict[str, dict[str, Any]] = {}
    for system in centre.systems:
        partitions = [
            {**row, "extras": dict(row.get("extras", {}))} for row in system["partitions"]
        ]
        for row in partitions:
            if row["extras"].get(FABRICS, {}) != {}:  # whatever else it is
                words = {word: row["extras"][word] for word in _words() if word in row["extras"]}
                _check_schema(
                    f"{centre.source}: extras of partition '{row['name']}'",
                    SYSTEM_SCHEMA,
                    words,
                    EXTRAS,
                )
        systems[system["name"]] = {**system, "partitions": partitions}
        _check_partitions(centre.source, systems[system["name"]])
    return systems


@lru_cache(maxsize=1)
def _words() -> tuple[str, ...]:
    return tuple(
        schema.read(SYSTEM_SCHEMA)["$defs"]["partition"]["properties"]["extras"]["properties"]
    )


def find(name: str, root: Path = ROOT) -> dict[str, Any] | None:
    """A system as it is described, by the centre or in a
    ``system.py``; ``None`` if nothing describes it.

    :raises SiteError: for a bad file.
    """
    theirs = _of_centre(root)
    path = folder_of(name, root) / "system.py"
    if name in theirs:
        return theirs[name]
    return read_system(path) if optional_file.is_there(path) else None


def select(name: str | None, root: Path = ROOT) -> dict[str, Any]:
    """The system of that name, or else the one that ReFrame selects on this machine.

    :raises SiteError: there is none, or this machine is one of the centre's and of another one's.
    """
    system = find(name, root) if name else None
    if name is None:
        host = socket.gethostname()
        centre = centres.read(root)
        described = read_all(root)
        theirs = centres.matching(centre) if centre else ()
        others = {row["name"] for row in centre.systems} if centre else set()
        own = [row for row in described if row["name"] not in others and _fits(row, host)]
        if centre and theirs and own and own[0]["name"] != FALLBACK_SYSTEM:
            raise SiteError(
                "ambiguous-name",
                f"this machine is system '{theirs[0]}' of {centre.source} and system "
                f"'{own[0]['name']}' of {root}/site_configs: choose one with --system (or "
                "RFM_SYSTEM), or correct the 'hostnames' of one.",
            )
        system = next((row for row in described if row["name"] in theirs[:1]), None) or next(
            iter(own), None
        )
    if system is None:
        known = [*_of_centre(root), *(path.parent.name for path in system_files(root))]
        places = " or ".join(map(str, folders(root)))
        raise SiteError(
            "unknown-name",
            f"there is no system '{name or socket.gethostname()}' in "
            f"{places}{meant(name or '', known)}; known are {', '.join(known)}; to use your own "
            f"ReFrame configuration, name it in {centres.VARIABLE} before "
            f"{root}/site_configs/settings.py.",
        )
    return system


def _fits(system: Mapping[str, Any], host: str) -> bool:
    return any(re.match(pattern, host) for pattern in system["hostnames"])


def is_here(system: Mapping[str, Any], root: Path = ROOT) -> bool:
    """Whether this machine is one of a system's, so that ReFrame would submit from it."""
    centre = centres.read(root)
    if centre and system["name"] in {row["name"] for row in centre.systems}:
        return system["name"] in centres.matching(centre)
    return _fits(system, socket.gethostname())


def shortcomings(name: str, root: Path = ROOT) -> list[Shortcoming]:
    """What keeps cases from being measured on a system that the centre's
    configuration describes; none for other systems.

    :raises SiteError: for a bad file.
    """
    centre = centres.read(root)
    system = _of_centre(root).get(name)
    if centre is None or system is None:
        return []
    measured = [row for row in system["partitions"] if row["extras"].get(FABRICS)]
    if not measured:
        sentence = (
            f"no partition has fabrics in {centre.source}, so nothing is measured on it; give "
            f"one {EXAMPLE}: 'mpibench doctor --system {name} --draft' prints a draft."
        )
        return [Shortcoming(name, sentence)]
    return [
        shortcoming
        for row in measured
        for shortcoming in _of_partition(f"{name}:{row['name']}", row, system, centre)
    ]


def _of_partition(
    place: str, row: Mapping[str, Any], system: Mapping[str, Any], centre: Centre
) -> Iterator[Shortcoming]:
    launcher = row["launcher"]
    scheduler = row["scheduler"]
    if launcher not in launchers.STACKS_OWN and launchers.find(launcher, "") is None:
        yield Shortcoming(
            place,
            f"launcher {launcher} of {centre.source}: {launchers.unknown(launcher)}, so every case "
            "is skipped; add a file for it to launchers/ in a folder of MPIBENCH_EXTENSIONS.",
        )
    if scheduler not in ("local", "ssh") and batch_systems.find(scheduler) is None:
        known = ", ".join(
            word for batch_system in batch_systems.BATCH_SYSTEMS for word in batch_system.schedulers
        )
        yield Shortcoming(
            place,
            f"scheduler {scheduler} of {centre.source} is unknown (known are {known}): restarted "
            "jobs go unnoticed, and an mpirun must find the job's nodes by itself.",
            note=True,
        )
    if scheduler == launcher == "local":  # of such ReFrame detects the topology at once
        return
    processor = row.get("processor")
    detected = Path() if processor else centres.topology_file(centre, system["name"], row["name"])
    stated: Mapping[str, Any] = processor or centres.read_topology(detected)
    if (stated.get("topology") or {}).get("cores"):
        return
    job = " ".join(row.get("access", ()))
    how = (
        f"run 'reframe --detect-host-topology' in one of its jobs{f' ({job})' if job else ''} "
        "and put what it prints there"
    )
    if processor:
        sentence = (
            f"'processor' in {centre.source} has no topology, and ReFrame detects none if "
            f"'processor' is given: {how}"
        )
        yield Shortcoming(place, f"{sentence}.")
        return
    remote = centres.setting(centre, system["name"], "remote_detect")
    sentence = f"{centre.source} has no 'processor', and {detected} does not exist either"
    sentence += (
        ": ReFrame detects it with a job when it starts (general.remote_detect)"
        if remote
        else f": {how}"
    )
    yield Shortcoming(place, f"{sentence}.", note=bool(remote))


def fabrics_of(extras: Mapping[str, Any]) -> dict[str, Fabric]:
    """Fabrics a partition describes in its ``extras``, by name; each
    memory of one is a fabric of its own.

    The first word of ``memory`` keeps the name; the others are ``<fabric>_<word>``: ``ib`` and
    ``ib_device``. ``expect`` names a fabric as described, and means its part of the same memory.
    """
    described: dict[str, Fabric] = {}
    memories: dict[str, str] = {}
    gpus = gpus_of(extras)
    row_of_gpus = extras.get("gpus", {})
    for name, row in extras.get("fabrics", {}).items():
        least = row.get("min_efficiency")
        fabric = Fabric(
            name=name,
            transport=row["transport"],
            scope=row["scope"],
            rails=tuple(Rail(**rail) for rail in row.get("rails", ())),
            mtu_bytes=row.get("mtu_bytes"),
            min_efficiency=tuple(least.items()) if isinstance(least, Mapping) else least,
            tcp_interfaces=tuple(row.get("tcp_interfaces", ())),
            striped=row.get("striped", False),
            service_level=str(row.get("service_level", "")),
            traffic_class=str(row.get("traffic_class", "")),
            expect=row.get("expect", ""),
        )
        for place, word in enumerate(row.get("memory", (gpu.HOST,))):
            own = name if place == 0 else f"{name}_{word}"
            described[own] = replace(fabric, name=own)
            memories[own] = name
            if word != gpu.HOST:
                described[own] = replace(
                    described[own],
                    memory=gpu.Memory(word, row_of_gpus.get("kind", "")),
                    gpus=gpus,
                    peer_rate_gbit_per_s=row_of_gpus.get("peer_gbit_per_s"),
                    pcie_rate_gbit_per_s=row_of_gpus.get("pcie_gbit_per_s"),
                )
    forced = [fabric for fabric in described.values() if fabric.transport != AS_SHIPPED]
    for name, fabric in described.items():
        if fabric not in forced:
            choices = tuple(
                choice
                for choice in forced
                if (choice.scope, choice.memory) == (fabric.scope, fabric.memory)
            )
            expected = (
                choice.name
                for choice in choices
                if fabric.expect in (choice.name, memories[choice.name])
            )
            described[name] = replace(fabric, choices=choices, expect=next(expected, fabric.expect))
    return described


def gpus_of(extras: Mapping[str, Any]) -> tuple[gpu.Gpu, ...]:
    """GPUs of each node of a partition, in the site's order."""
    return tuple(gpu.Gpu(**row) for row in extras.get("gpus", {}).get("of_node", ()))
