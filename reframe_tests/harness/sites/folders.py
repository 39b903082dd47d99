"""Where the files of a system lie: a folder of its name below ``site_configs``, or below one that ``MPIBENCH_SITES`` names.

So a centre keeps what it says of its systems outside the checkout, and replaces the checkout without touching it.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..vocabulary import BadInput

#: Colon-separated folders, each with one folder per system.
SITES = "MPIBENCH_SITES"


def every(root: Path) -> list[Path]:
    """Folders with one folder per system: those of :data:`SITES`, and the checkout's, the last.

    :raises BadInput: one of them is none, or not named from ``/`` on, as ReFrame reads settings in another folder than the
        user's; or its systems cannot be seen, so that a machine would silently be another one.
    """
    named = [Path(entry) for entry in filter(None, os.environ.get(SITES, "").split(":"))]
    for path in named:
        try:
            there = path.is_absolute() and path.is_dir()
            readable = os.access(path, os.R_OK | os.X_OK)
        except PermissionError:  # a folder above it
            there, readable = path.is_absolute(), False
        if not there:
            raise BadInput(
                "sites-folder",
                f"{SITES} names {path}, which is not the full name of a folder; correct it or unset the variable.",
            )
        if not readable:
            raise BadInput(
                "sites-folder", f"{SITES} names {path}, which you may not read; correct its rights or unset the variable."
            )
    return list(dict.fromkeys([*(path.resolve() for path in named), root / "site_configs"]))


def of(system: str, root: Path) -> Path:
    """The folder of a system; where there is none yet, the one to be made.

    :raises BadInput: there are two.
    """
    places = [folder / system for folder in every(root)]
    there = [place for place in places if place.is_dir()]
    if len(there) > 1:
        raise BadInput("system-twice", f"system {system} has the folders {' and '.join(map(str, there))}: remove one.")
    return there[0] if there else places[0]


def shown(path: Path, root: Path) -> str:
    """A file's name for a sentence: from the checkout on where it lies in it."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)
