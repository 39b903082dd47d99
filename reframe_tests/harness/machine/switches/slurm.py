"""Switches as Slurm has them: ``topology.conf(5)`` and ``scontrol show topology`` of topology/tree and topology/block.

Both are lines of ``Key=value``. Blocks are leaves without anything above them (their nodes are close to each other; how blocks
are joined, Slurm does not say), unless a line aggregates them.
"""

from __future__ import annotations

import re

from ...vocabulary import BadInput
from . import hostlist
from .paths import name_of
from .tree import SLURM, Switch, SwitchTree

_WORD = re.compile(r"(\w+)=(\S*)")


def recognised(text: str) -> bool:
    """Whether it looks like such a description."""
    return bool(re.search(r"^\s*(?:SwitchName|BlockName)=\S", text, re.MULTILINE | re.IGNORECASE))


def read(text: str, source: str) -> SwitchTree:
    """The tree of a description.

    :raises BadInput: it has no switch, or is no tree.
    """
    nodes: dict[str, tuple[str, ...]] = {}
    parents: dict[str, str] = {}
    below: dict[str, set[str]] = {}
    for line in text.splitlines():
        row = {key.lower(): value for key, value in _WORD.findall(line.partition("#")[0])}
        name = row.get("switchname") or row.get("blockname")
        aggregated = row.get("aggregatedblock")
        if aggregated:
            name = f"blocks {aggregated}"
        if not name:
            continue
        if name in below:
            raise BadInput(f"{source} describes switch {name} twice; correct it.")
        children = hostlist.expand(row.get("switches") or aggregated or "")
        for child in children:
            if (other := parents.setdefault(child, name)) != name:
                raise BadInput(f"{source}: switch {child} hangs on {other} and on {name}; a tree has one above each.")
        below[name] = set(children)
        # `scontrol` also lists, for a switch above others, all nodes below those.
        nodes[name] = () if children else tuple(map(name_of, hostlist.expand(row.get("nodes", ""))))
    if not below:
        raise BadInput(
            f"{source} describes no switch (SwitchName= or BlockName=); give the output of 'scontrol show topology'."
        )
    if lacking := sorted(set(parents) - set(below)):
        raise BadInput(f"{source} has switch {lacking[0]} below {parents[lacking[0]]} and does not describe it.")
    return SwitchTree(SLURM, {name: Switch(parents.get(name), nodes[name]) for name in below})
