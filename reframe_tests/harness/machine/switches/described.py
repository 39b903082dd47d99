"""Switches as the site describes them in YAML: each with the hosts below it, as Slurm writes lists, or the switches.

::

    switches:
      spine: {switches: "leaf[1-2]"}
      leaf1: {nodes: "c[1-4]"}
      leaf2: {nodes: "c[5-8]"}
"""

from __future__ import annotations

import re
from typing import Any

from ... import yaml_file
from ...vocabulary import BadInput
from . import hostlist
from .paths import name_of
from .tree import YAML, Switch, SwitchTree


def recognised(text: str) -> bool:
    """Whether it looks like such a description."""
    return bool(re.search(r"^switches:", text, re.MULTILINE))


def read(text: str, source: str) -> SwitchTree:
    """The tree of a description.

    :raises BadInput: it is not YAML of this form, or no tree.
    """
    whole = yaml_file.parse(text, source)
    rows = whole.get("switches") if isinstance(whole, dict) else None
    if not isinstance(rows, dict) or not rows or set(whole) != {"switches"}:
        raise BadInput(
            f"{source} is not a mapping with switches alone, by their names; write 'switches: {{leaf1: {{nodes: c[1-4]}}}}'."
        )
    parents: dict[str, str] = {}
    nodes: dict[str, tuple[str, ...]] = {}
    for name, row in rows.items():
        if not isinstance(row, dict) or not row or set(row) - {"nodes", "switches"}:
            raise BadInput(f"{source}: switch {name} is {row!r}; give its nodes or its switches.")
        nodes[str(name)] = tuple(map(name_of, _names(row.get("nodes"), f"{source}: nodes of {name}")))
        for child in _names(row.get("switches"), f"{source}: switches of {name}"):
            if (other := parents.setdefault(child, str(name))) != str(name):
                raise BadInput(f"{source}: switch {child} hangs on {other} and on {name}; a tree has one above each.")
    if lacking := sorted(set(parents) - set(nodes)):
        raise BadInput(f"{source} has switch {lacking[0]} below {parents[lacking[0]]} and does not describe it.")
    return SwitchTree(YAML, {name: Switch(parents.get(name), found) for name, found in nodes.items()})


def _names(value: Any, what: str) -> list[str]:
    parts = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(part, str) for part in parts):
        raise BadInput(f"{what} are {value!r}; give text such as c[1-4], or a list of such.")
    return [name for part in parts for name in hostlist.expand(part)]
