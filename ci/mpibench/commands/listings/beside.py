"""What ``doctor`` says of a system that the centre's own ReFrame configuration describes, and the draft of what it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpibench.commands.listings import fabrics_draft
from reframe_tests.harness.sites import centre as centres
from reframe_tests.harness.sites import site, systems
from reframe_tests.harness.vocabulary import BadInput


def describe(system: Mapping[str, Any], root: Path) -> list[tuple[str, bool | None, str]]:
    """Places with sentences, and whether each is only a note (``None``: nothing is the matter); none for other systems.

    :raises BadInput: the centre's configuration cannot be used.
    """
    centre, name = centres.read(root), system["name"]
    if centre is None or name not in {row["name"] for row in centre.systems}:
        return []
    rows: list[tuple[str, bool | None, str]] = [(name, None, f"is in {centre.source}, with what is measured on it")]
    for mode in site.MODES:
        if mode["name"] in centre.modes:
            rows.append((f"mode {mode['name']}", True, f"stands in place of that of {centre.source} while ours is read, too"))
    return rows + [(each.place, each.note, each.sentence) for each in systems.shortcomings(name, root)]


def draft(system: Mapping[str, Any], root: Path) -> str:
    """A draft of ``extras`` for the partitions of a centre's system that have no fabrics; empty where there are none.

    :raises BadInput: the centre's configuration cannot be used.
    """
    centre, name = centres.read(root), system["name"]
    if centre is None or name not in {row["name"] for row in centre.systems}:
        return ""
    partitions = [row for row in system["partitions"] if not row.get("extras", {}).get(systems.FABRICS)]
    return fabrics_draft.write(partitions, f"mpibench doctor --system {name} --draft") if partitions else ""


def require_draft(name: str | None, root: Path) -> str:
    """The draft that somebody asked for.

    :param name: of the system; by default the one that ReFrame finds this machine to be.
    :raises BadInput: there is nothing to be drafted.
    """
    centre = centres.read(root)
    if centre is None:
        raise BadInput(
            f"ReFrame is given no configuration of a centre: name yours in {centres.VARIABLE}, before "
            f"{root}/site_configs/settings.py; for a system.py begin with site_configs/template."
        )
    name = name or next(iter(centres.matching(centre)), None)
    system = next((row for row in centre.systems if row["name"] == name), None)
    if system is None:
        known = ", ".join(row["name"] for row in centre.systems)
        raise BadInput(f"system {name or 'of this machine'} is not in {centre.source}: choose one with --system ({known}).")
    if text := draft(system, root):
        return text
    raise BadInput(f"every partition of {name} has fabrics in {centre.source} already.")
