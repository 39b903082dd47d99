"""Switches above a node, from Slurm for each task, or from a site's variable. Pure Python, because
instruments use it, too.

Slurm: ``SLURM_TOPOLOGY_ADDR`` and its pattern (srun(1)). A site: ``MPIBENCH_SWITCHES``, switches
with patterns of their hosts: ``leaf1=cn0*,cn10;leaf2=cn1?``; with those above, ``spine.leaf1=...``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase


def name_of(host: str) -> str:
    """A host's name without its domain."""
    return host.partition(".")[0]


def gpu_of(node: str, number: int) -> str:
    """A GPU of a node, where pairs of them are measured: ``n1:gpu0``."""
    return f"{node}:gpu{number}"


def node_of(name: str) -> str:
    """The node of a name that may be a GPU's."""
    return name.partition(":")[0]


def kind_of(names: Sequence[str]) -> str:
    """What a map is of."""
    return "GPUs" if any(":" in name for name in names) else "nodes"


#: What a host or switch may be called where it stands in a line for others to read.
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_UNUSUAL = re.compile(r"[^A-Za-z0-9_-]")


def rows_of(above: Mapping[str, Sequence[str]]) -> list[str]:
    """A line for each host: ``HOST SWITCH.SWITCH``, the top one first. Unusual characters in a
    switch's name become ``_``, and a host whose name no rank can have is left out.
    """
    return [
        f"{host} {'.'.join(_UNUSUAL.sub('_', name) for name in path)}"
        for host, path in sorted(above.items())
        if _NAME.fullmatch(host)
    ]


def read_rows(lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The same, parsed; other lines are skipped."""
    rows = (line.split() for line in lines)
    return {row[0]: tuple(row[1].split(".")) for row in rows if len(row) == 2}


def switches_of(host: str, address: str, pattern: str) -> tuple[str, ...]:
    """Switches above a node, the top one first; none where Slurm
    does not say, or says it of another node.
    """
    names = address.split(".")
    kinds = pattern.split(".")
    if len(names) != len(kinds) or kinds[-1] != "node" or name_of(names[-1]) != name_of(host):
        return ()
    return tuple(_UNUSUAL.sub("_", part) for part in names[:-1])


def described_switches(host: str, description: str) -> tuple[str, ...]:
    """The same as the site describes them; the first switch with a pattern that fits counts."""
    for row in description.split(";"):
        name, _, patterns = row.strip().partition("=")
        if any(fnmatchcase(name_of(host), pattern.strip()) for pattern in patterns.split(",")):
            return tuple(_UNUSUAL.sub("_", part) for part in name.split("."))
    return ()
