"""The switches above the nodes of a job: those of a file, else those that Slurm tells the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ... import optional_file
from ...machine import switches
from ...machine.switches import SwitchTree
from ...sites import site
from ...vocabulary import BadInput
from ..job import script

#: What Slurm says of its switches when the job starts.
SLURM_FILE = "switches-slurm.txt"
#: Shell line that writes it.
ASK_SLURM = f"scontrol show topology >{SLURM_FILE} 2>/dev/null || true"


def describe(named: str, extras: Mapping[str, Any]) -> SwitchTree | None:
    """The switches that a file describes; ``None`` where none is named. The job's nodes are not known yet.

    :param named: the file (``-S switches=``), else that of the partition's extras.
    :raises BadInput: it cannot be read.
    """
    named = named or extras.get("switches", "")
    if not named:
        return None
    path = optional_file.named(named)
    return switches.read(path if path.is_absolute() else [site.ROOT, *site.LOADED][-1] / path)


def find(described: SwitchTree | None, folder: Path, nodes: Sequence[str]) -> tuple[SwitchTree | None, list[str]]:
    """The switches of a file or of Slurm; and what is wrong with them.

    :param folder: of the job, with what Slurm said.
    """
    said: list[str] = []
    text = script.beginning_of(folder / SLURM_FILE)
    try:
        tree = described or (switches.read_slurm(text, "Slurm") if switches.is_of_slurm(text) else None)
    except BadInput as error:
        said, tree = [str(error)], None
    if tree and (wrong := switches.contradiction(tree, nodes)):
        said.append(wrong)
    return tree, said
