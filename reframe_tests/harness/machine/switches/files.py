"""A file that describes the switches, whatever wrote it: its content says which kind it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from ...vocabulary import BadInput
from . import described, ibnetdiscover, opa, slurm
from .tree import SwitchTree

#: What can be read, and what it is called.
_FORMATS: tuple[tuple[Callable[[str], bool], Callable[[str, str], SwitchTree], str], ...] = (
    (slurm.recognised, slurm.read, "topology.conf or 'scontrol show topology' of Slurm"),
    (ibnetdiscover.recognised, ibnetdiscover.read, "the output of ibnetdiscover"),
    (opa.recognised, opa.read, "the output of 'opareport -o links'"),
    (described.recognised, described.read, "YAML with 'switches:'"),
)
#: Bytes of the largest file that is read: ibnetdiscover writes about 100 a port.
MOST_BYTES = 256 << 20


def read(path: Path) -> SwitchTree:
    """The tree that a file describes.

    :raises BadInput: it cannot be read, or is none of the known kinds.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BadInput(f"{path} has more than {MOST_BYTES >> 20} MiB and is no description of switches.")
        text = path.read_text(errors="replace")
    except OSError as error:
        raise BadInput(f"{path}, which is to describe the switches, cannot be read ({error.strerror}).") from None
    for recognised, read_text, _ in _FORMATS:
        if recognised(text):
            return read_text(text, str(path))
    raise BadInput(f"{path} describes no switches that can be read; give {', '.join(row[2] for row in _FORMATS)}.")


def contradiction(tree: SwitchTree, hosts: Iterable[str]) -> str:
    """Sentence on hosts that a tree does not have; empty where it has them all."""
    lacking = [host for host in hosts if host not in tree.leaf_of]
    if not lacking:
        return ""
    named = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if lacking[3:] else "")
    return f"the switches as {tree.origin} has them lack {named}: the description is of another time or of another machine."
