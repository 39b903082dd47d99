"""What ``doctor`` says of a system that the centre's own ReFrame configuration describes, and the draft of what it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpibench.commands.listings import fabrics_draft
from reframe_tests.harness import optional_file
from reframe_tests.harness.sites import centre as centres
from reframe_tests.harness.sites import site, systems
from reframe_tests.harness.vocabulary import BadInput


def describe(system: Mapping[str, Any], root: Path) -> list[tuple[str, bool | None, str]]:
    """Places with sentences, and whether each is only a note (``None``: nothing is the matter); none for other systems.

    :param system: completed (:func:`.systems.find`).
    :raises BadInput: the centre's configuration cannot be used.
    """
    centre, name = centres.read(root), system["name"]
    if centre is None or name not in {row["name"] for row in centre.systems}:
        return []
    path = systems.fabrics_path(name, root)
    own = not optional_file.is_there(path) and any(row["extras"].get(systems.FABRICS) for row in system["partitions"])
    said = f"is in {centre.source}; {'its extras say' if own else f'{path} is to say'} what is measured on it"
    found: list[tuple[str, bool | None, str]] = [(name, None, said)]
    for mode in site.MODES:
        if mode["name"] in centre.modes:
            found.append((f"mode {mode['name']}", True, f"stands in place of that of {centre.source} while ours is read, too"))
    return found + [(each.place, each.note, each.sentence) for each in systems.shortcomings(name, root)]


def draft(system: Mapping[str, Any], root: Path) -> str:
    """A draft for the partitions of a centre's system that its file does not name yet; empty where there are none.

    :param system: as the centre has it, or completed.
    :raises BadInput: the centre's configuration or the file cannot be used.
    """
    centre, name = centres.read(root), system["name"]
    if centre is None or name not in {row["name"] for row in centre.systems}:
        return ""
    path = systems.fabrics_path(name, root)
    named = systems.read_fabrics(path) if optional_file.is_there(path) and not _just_made(path) else {}
    partitions = [
        row for row in system["partitions"] if row["name"] not in named and not row.get("extras", {}).get(systems.FABRICS)
    ]
    return fabrics_draft.write(partitions, f"mpibench doctor --system {name} --draft") if partitions else ""


def _is_here(row: Mapping[str, Any], system: str, centre: centres.Centre) -> bool:
    """Whether a partition's nodes are this machine itself, so that there is no job to run in."""
    local = row["scheduler"] == "local" and not row.get("extras", {}).get("remote", False)
    return local and system in centres.matching(centre)


def _just_made(path: Path) -> bool:
    """Whether a file is empty: a shell has made it for what is printed here."""
    return path.is_file() and not path.stat().st_size


def require_draft(name: str | None, root: Path) -> str:
    """The draft that somebody asked for.

    :param name: of the system; by default the one that ReFrame finds this machine to be.
    :raises BadInput: there is nothing to be drafted.
    """
    centre = centres.read(root)
    if centre is None:
        raise BadInput(
            f"ReFrame is given no configuration of a centre: name yours in {centres.VARIABLE}, before "
            f"{root}/site_configs/settings.py; a system.py needs no {systems.FABRICS_FILE}."
        )
    name = name or next(iter(centres.matching(centre)), None)
    system = next((row for row in centre.systems if row["name"] == name), None)
    if system is None:
        known = ", ".join(row["name"] for row in centre.systems)
        raise BadInput(f"system {name or 'of this machine'} is not in {centre.source}: choose one with --system ({known}).")
    if text := draft(system, root):
        return text
    path = systems.fabrics_path(str(name), root)
    made = _just_made(path)
    lacking = systems.without_topology(system if made else systems.find(str(name), root) or system, centre)
    if text := "".join(
        fabrics_draft.write_processor(row["name"], path)
        for row in system["partitions"]
        if row["name"] in lacking and (fabrics_draft.is_inside(row) or _is_here(row, str(name), centre))
    ):
        return text
    names = f"{' and '.join(lacking)} lack{'s' * (len(lacking) == 1)}"
    rest = f", and what {names}, 'processor', is written in a job there: run this in one" if lacking else ""
    if made:
        said = f"{centre.source} says of every partition of {name} what is measured on it{rest}"
        raise BadInput(f"{said}: remove {path}, an empty file.")
    place = path if optional_file.is_there(path) else centre.source
    raise BadInput(f"{place} names every partition of {name} already{rest}.")
