"""``site_configs/<system>/fabrics.yaml``: what the tests need of a system beyond the centre's own ReFrame configuration.

Keyed by partition; each has the words that ``extras`` of a partition in a ``system.py`` has, or none where nothing is measured
on it (``site_configs/fabrics.schema.json``). A partition whose ``extras`` in the centre's configuration have them needs no
entry.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import batch_systems, optional_file, schema, yaml_file
from ..launchers import registry as launchers
from ..vocabulary import ROOT, BadInput
from . import centre as centres
from . import folders
from .centre import Centre

FILE = "fabrics.yaml"
SCHEMA = ROOT / "site_configs" / "fabrics.schema.json"
#: What stands beside the words of ``extras``: ReFrame's description of the nodes, where the centre's has no topology.
PROCESSOR = "processor"
#: What says that something is measured; of a centre's own ``extras``, where it stands there.
FABRICS = "fabrics"
#: The shortest that is needed.
EXAMPLE = (
    '"extras": {"fabrics": {"eth0": {"transport": "tcp", "scope": "cluster", '
    '"rails": [{"device": "eth0", "line_rate_gbit_per_s": 25}]}}}'
)
#: ReFrame's schedulers that need no batch system.
_WITHOUT = ("local", "ssh")


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


def path_of(system: str, root: Path = ROOT) -> Path:
    """Where a system's file is."""
    return folders.of(system, root) / FILE


def read(path: Path) -> dict[str, Mapping[str, Any]]:
    """The words of each partition.

    :raises BadInput: it cannot be read, is not YAML or breaks the schema; naming the key.
    """
    content = yaml_file.read_mapping(path)
    if fault := schema.find_fault(SCHEMA, content):
        remedy = f"expected {fault.expected}" if fault.expected else f"see {SCHEMA.name}"
        raise BadInput(f"{path}: key '{fault.key}': {fault.message}; {remedy}.")
    return content


def complete(system: Mapping[str, Any], centre: Centre, root: Path) -> dict[str, Any]:
    """A system of the centre's with what is measured on it; as it is where it has no file.

    :raises BadInput: the file and the configuration do not fit each other.
    """
    path = path_of(system["name"], root)
    there = optional_file.is_there(path)
    described = read(path) if there else {}
    names = [row["name"] for row in system["partitions"]]
    for name in described:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            meant = f"did you mean '{near[0]}'" if near else f"there are {', '.join(names)}"
            raise BadInput(
                f"{path}: partition '{name}' is none of system {system['name']} in {centre.source}; {meant}? "
                "Correct the name, or remove the entry."
            )
    return {**system, "partitions": [_complete(row, described, path, centre) for row in system["partitions"]]}


def _complete(row: Mapping[str, Any], described: Mapping[str, Mapping[str, Any]], path: Path, centre: Centre) -> dict[str, Any]:
    own, extras = dict(described.get(row["name"], {})), dict(row.get("extras", {}))
    taken = [word for word in _words() if word in extras] if own else []
    if taken:
        raise BadInput(
            f"{centre.source}: extras of partition '{row['name']}' have '{taken[0]}', which is a word of {path}: "
            "move it there, or give it another name in the configuration."
        )
    if extras.get(FABRICS):
        words = {word: extras[word] for word in _words() if word in extras}
        if fault := schema.find_fault(SCHEMA, {row["name"]: words}):
            remedy = f"expected {fault.expected}" if fault.expected else "see extras in site_configs/system.schema.json"
            key = fault.key.removeprefix(f"{row['name']}.")
            raise BadInput(f"{centre.source}: extras of partition '{row['name']}': key '{key}': {fault.message}; {remedy}.")
    processor = own.pop(PROCESSOR, None)
    if processor is not None and _has_topology(row):
        raise BadInput(
            f"{path}: key '{row['name']}.{PROCESSOR}': {centre.source} has the topology of its nodes already; remove the key."
        )
    if processor is not None and (odd := _contradicts(row.get(PROCESSOR, {}), processor)):
        raise BadInput(f"{path}: key '{row['name']}.{PROCESSOR}': {odd} in {centre.source}; correct one of them.")
    nodes = {} if processor is None else {PROCESSOR: {**row.get(PROCESSOR, {}), **processor}}
    return {**row, **nodes, "extras": {**extras, **own}}


def _contradicts(theirs: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """The first count that both give and that differs, as the beginning of a sentence; empty where there is none."""
    counts = [key for key in theirs if key.startswith("num_") and own.get(key, theirs[key]) != theirs[key]]
    return f"{counts[0]} is {own[counts[0]]} here and {theirs[counts[0]]}" if counts else ""


def _has_topology(row: Mapping[str, Any]) -> bool:
    return bool((row.get(PROCESSOR, {}).get("topology") or {}).get("cores"))


@lru_cache(maxsize=1)
def _words() -> tuple[str, ...]:
    partition = schema.read(ROOT / "site_configs" / "system.schema.json")["$defs"]["partition"]
    return tuple(partition["properties"]["extras"]["properties"])


def find_shortcomings(system: Mapping[str, Any], centre: Centre, root: Path) -> Iterator[Shortcoming]:
    """What keeps cases from being measured on a system of the centre's.

    :param system: completed (:func:`complete`).
    """
    name, path = system["name"], path_of(system["name"], root)
    draft = f"'mpibench doctor --system {name} --draft' prints a draft"
    there = optional_file.is_there(path)
    described = read(path) if there else {}
    if not any(row["extras"].get(FABRICS) for row in system["partitions"]):
        what = f"{path} says nothing but {{}}" if there else f"{path} is not there"
        yield Shortcoming(
            name,
            f"{what}, so nothing is measured on a system of {centre.source}; give one of its partitions fabrics there, "
            f"{EXAMPLE}, or in {path}: {draft}.",
        )
        return
    for row in system["partitions"]:
        place = f"{name}:{row['name']}"
        if row["extras"].get(FABRICS):
            yield from _of_partition(place, row, system, centre, path if described.get(row["name"]) else None)
        elif there and row["name"] not in described:
            yield Shortcoming(
                place,
                f"{path} does not name this partition of {centre.source}, so nothing is measured on it; {draft}, and "
                f"'{row['name']}: {{}}' says that this is meant.",
            )


def _of_partition(
    place: str, row: Mapping[str, Any], system: Mapping[str, Any], centre: Centre, path: Path | None
) -> Iterator[Shortcoming]:
    launcher, scheduler = row["launcher"], row["scheduler"]
    if launcher not in launchers.STACKS_OWN and launchers.find(launcher, "") is None:
        yield Shortcoming(
            place,
            f"launcher {launcher} of {centre.source}: {launchers.unknown(launcher)}, so every case is skipped; give it a file "
            "in launchers/ of a folder that MPIBENCH_EXTENSIONS names.",
        )
    if scheduler not in _WITHOUT and batch_systems.find(scheduler) is None:
        known = ", ".join(word for each in batch_systems.BATCH_SYSTEMS for word in each.schedulers)
        yield Shortcoming(
            place,
            f"scheduler {scheduler} of {centre.source} is not known here (known are {known}): a job that it starts again is "
            "not noticed, and an mpirun must find the job's nodes by itself.",
            note=True,
        )
    if not _lacks_topology(row, system["name"], centre):
        return
    job = " ".join(row.get("access", ()))
    how = (
        f"run 'mpibench doctor --system {system['name']} --draft' in one of its jobs{f' ({job})' if job else ''} and put the "
        f"'{PROCESSOR}' that it prints in {path or centre.source}"
    )
    if row.get(PROCESSOR):
        yield Shortcoming(
            place,
            f"'{PROCESSOR}' in {centre.source} has no topology, and ReFrame detects none where one is stated: {how}.",
        )
        return
    detected = centres.topology_file(centre, system["name"], row["name"])
    remote = centres.setting(centre, system["name"], "remote_detect")
    sentence = f"{centre.source} has no '{PROCESSOR}', and {detected} is not there either"
    sentence += ": ReFrame detects it with a job when it starts (general.remote_detect)" if remote else f": {how}"
    yield Shortcoming(place, f"{sentence}.", note=bool(remote))


def _lacks_topology(row: Mapping[str, Any], system: str, centre: Centre) -> bool:
    """Whether neither a configuration nor ReFrame's own detection says what cores a partition's nodes have."""
    if _has_topology(row) or row["scheduler"] == row["launcher"] == "local":  # of such ReFrame detects the topology at once
        return False
    if row.get(PROCESSOR):  # ReFrame detects none where one is stated
        return True
    return not (centres.read_topology(centres.topology_file(centre, system, row["name"])).get("topology") or {}).get("cores")


def without_topology(system: Mapping[str, Any], centre: Centre) -> list[str]:
    """Names of partitions on which something is measured, and whose cores nobody knows.

    :param system: completed (:func:`complete`).
    """
    measured = (row for row in system["partitions"] if row["extras"].get(FABRICS))
    return [row["name"] for row in measured if _lacks_topology(row, system["name"], centre)]
