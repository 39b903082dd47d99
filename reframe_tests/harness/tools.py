"""Tools: packages beside the core that add commands, sections of a session's page, files of a
system, what follows a night, and where the values of a case are sent.

Each is an entry point of the project, whose metadata (``pyproject.toml``) say which package it is
of; a package may be left out all the same, so that the core is all there is.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata, util
from typing import Any

from . import optional_file
from .vocabulary import ROOT, BadInput

#: Groups of entry points: command to the typer app that has it; section to an
#: :class:`~mpibench.pages.additions.Addition`; file or folder of a system to a module with
#: ``check(system, root)``, which raises :class:`BadInput` for what cannot be used, and
#: ``shown(name)``, what ``doctor`` says of it: rows for programs, and lines; anything to what is
#: called with an :class:`~mpibench.night.ended.EndedNight`; variable that names a site's own
#: monitoring to what makes ReFrame's ``handlers_perflog`` of it; scheme of an address to what
#: copies folders there and back (:func:`mpibench.commands.options.elsewhere`). Commands that start
#: without the others are in a group of their own, too; one that needs a checkout calls
#: :func:`mpibench.cli.prepare`.
COMMANDS = "mpibench.commands"
PAGES = "mpibench.pages"
FILES = "mpibench.files"
NIGHTS = "mpibench.nights"
HANDLERS = "mpibench.handlers"
PLACES = "mpibench.places"
ALONE = "mpibench.alone"


def _entries(group: str) -> list[metadata.EntryPoint]:
    """Those that are installed; in a Python with no package of ours, such as that of a centre's own
    ReFrame, those of the checkout.
    """
    project = ROOT / "pyproject.toml"
    if (found := metadata.entry_points(group=group)) or not optional_file.is_there(project):
        return [*found]
    section = project.read_text().partition(f'[project.entry-points."{group}"]\n')[2]
    sys.path.append(str(ROOT / "ci"))
    rows = re.findall(r'^(\w+) = "(.*)"$', section.partition("\n[")[0], re.M)
    return [metadata.EntryPoint(name, value, group) for name, value in rows]


def _package_of(entry: metadata.EntryPoint) -> str:
    return entry.module.partition(".")[0]


def _is_here(entry: metadata.EntryPoint) -> bool:
    return util.find_spec(_package_of(entry)) is not None


def load(group: str, name: str | None = None) -> dict[str, Any]:
    """What the tools that are here add to a group, by name; under this name alone where given."""
    asked = [entry for entry in _entries(group) if name in (None, entry.name)]
    return {entry.name: entry.load() for entry in asked if _is_here(entry)}


def missing(group: str) -> list[str]:
    """Names in a group whose package is not here."""
    return [entry.name for entry in _entries(group) if not _is_here(entry)]


def find(group: str, name: str, asked: str) -> Any:
    """What is of a name in a group.

    :param asked: command or variable that asks for it, for the sentence.
    :raises BadInput: its package is not here.
    """
    entries = [entry for entry in _entries(group) if entry.name == name]
    for entry in filter(_is_here, entries):
        return entry.load()
    package = next(
        (f"the package {_package_of(entry)}" for entry in entries), f"what knows {name!r}"
    )
    raise BadInput(
        "tool-missing",
        f"{asked} needs {package}, which is not installed here: run ci/setup of a checkout that "
        "has it.",
    )
