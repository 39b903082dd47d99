"""Tools: packages beside this one that add commands, sections of a session's page, files of a
system, and steps after a night.

Each is an entry point of the project, whose metadata (``pyproject.toml``) name its package. A
package may still be absent; then only this one remains.
"""

from __future__ import annotations

from importlib import metadata, util
from typing import Any

from reframe_tests.harness.vocabulary import BadInput

#: Groups of entry points: command to the typer app that has it; section to an
#: :class:`~mpibench.pages.additions.Addition`; file or folder of a system to a module with
#: ``check(system, root)``, which raises :class:`BadInput` for what cannot be used, and
#: ``shown(name)``, what ``doctor`` says of it: rows for programs, and lines; anything to what is
#: called with an :class:`~mpibench.night.ended.EndedNight`. Commands that start without the others
#: are in a group of their own, too; one that needs a checkout calls :func:`mpibench.cli.prepare`.
COMMANDS = "mpibench.commands"
PAGES = "mpibench.pages"
FILES = "mpibench.files"
NIGHTS = "mpibench.nights"
ALONE = "mpibench.alone"


def _package_of(entry: metadata.EntryPoint) -> str:
    return entry.module.partition(".")[0]


def _is_here(entry: metadata.EntryPoint) -> bool:
    return util.find_spec(_package_of(entry)) is not None


def load(group: str, name: str | None = None) -> dict[str, Any]:
    """What the tools that are here add to a group, by name; under this name alone where given."""
    entries = metadata.entry_points(group=group)
    asked = [entry for entry in entries if name in (None, entry.name)]
    return {entry.name: entry.load() for entry in asked if _is_here(entry)}


def missing(group: str) -> list[str]:
    """Names in a group whose package is not here."""
    entries = metadata.entry_points(group=group)
    return [entry.name for entry in entries if not _is_here(entry)]


def find(group: str, name: str, words: str) -> Any:
    """What is of a name in a group.

    :param words: of the command line that ask for it, for the sentence.
    :raises BadInput: its package is not here.
    """
    entries = metadata.entry_points(group=group, name=name)
    for entry in filter(_is_here, entries):
        return entry.load()
    package = next((f"the package {_package_of(entry)}" for entry in entries), "a package")
    raise BadInput(
        "tool-missing",
        f"'mpibench {words}' belongs to {package}, which is not installed: run ci/setup in a "
        "checkout that has it.",
    )
