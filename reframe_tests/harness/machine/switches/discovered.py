"""From the links of a fabric, as they were discovered, to a tree: hosts, the switches they are plugged into, and those above.

A fat tree has several switches above each leaf. Switches of one height that have any switch below in common stand side by side,
and are one switch of the tree; so are leaves' uplinks, which carry the traffic of all. Height is the distance from the
nearest host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ...vocabulary import BadInput
from .tree import Switch, SwitchTree

#: Characters of a name that a command line or a picture can show.
_UNUSUAL = re.compile(r"[^A-Za-z0-9_-]+")


def plain(name: str) -> str:
    """A switch's name in letters, digits, ``_`` and ``-``."""
    return _UNUSUAL.sub("_", name).strip("_") or "switch"


def tree_of(hosts: Mapping[str, Iterable[str]], links: Iterable[tuple[str, str]], origin: str, source: str) -> SwitchTree:
    """The tree of a fabric.

    :param hosts: host to the switches its ports are plugged into, the first port first.
    :param links: pairs of switches that are joined, in any direction and any number.
    :raises BadInput: no host is plugged into a switch.
    """
    neighbours: dict[str, set[str]] = {}
    for one, other in links:
        if one != other:
            neighbours.setdefault(one, set()).add(other)
            neighbours.setdefault(other, set()).add(one)
    several: list[str] = []
    leaf_nodes: dict[str, list[str]] = {}
    for host, plugged in hosts.items():
        distinct = list(dict.fromkeys(plugged))
        if distinct:
            leaf_nodes.setdefault(distinct[0], []).append(host)
            several += [host] if distinct[1:] else []
    if not leaf_nodes:
        raise BadInput(f"{source} has no host that is plugged into a switch; record the whole fabric.")
    level = sorted(leaf_nodes)
    height = dict.fromkeys(level, 0)
    groups: dict[str, list[str]] = {name: [name] for name in level}
    parents: dict[str, str] = {}
    while level:
        above = sorted(
            {other for name in level for member in groups[name] for other in neighbours.get(member, ()) if other not in height}
        )
        height.update(dict.fromkeys(above, max(height.values()) + 1))
        sides = _side_by_side(above, {name: {o for m in groups[name] for o in neighbours.get(m, ())} for name in level})
        for members, below in sides:
            name = members[0] if not members[1:] else f"{members[0]}_and_{len(members) - 1}_more"
            groups[name] = members
            parents.update(dict.fromkeys(below, name))
        level = [members[0] if not members[1:] else f"{members[0]}_and_{len(members) - 1}_more" for members, _ in sides]
    notes = []
    if several:
        notes.append(
            f"{len(several)} hosts, {several[0]} first, are plugged into several switches; that of their first port counts"
        )
    return SwitchTree(
        origin, {name: Switch(parents.get(name), tuple(leaf_nodes.get(name, ()))) for name in groups}, tuple(notes)
    )


def _side_by_side(above: Iterable[str], joined: Mapping[str, set[str]]) -> list[tuple[list[str], list[str]]]:
    """Switches of one height that share a switch below, with all those below them."""
    left, found = set(above), []
    while left:
        members, below, new = set[str](), set[str](), {min(left)}
        while new:
            members |= new
            below |= {name for name, others in joined.items() if others & new}
            new = {other for name in below for other in joined[name] & left} - members
        left -= members
        found.append((sorted(members), sorted(below)))
    return found
