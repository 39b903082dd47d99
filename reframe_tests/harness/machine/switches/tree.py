"""The switches of a fabric as a tree: each switch with the one above it and the nodes below it.

Fat trees have several switches above each leaf; those that stand side by side are one switch of this tree
(:mod:`.discovered`), as in Slurm's ``topology.conf``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from ...vocabulary import BadInput

#: Where a tree is from. ``guessed``: from the measured map itself.
SLURM, IBNETDISCOVER, OPA, YAML, GUESSED = ORIGINS = ("slurm", "ibnetdiscover", "opa", "yaml", "guessed")


@dataclass(frozen=True)
class Switch:
    """One switch.

    :param parent: the switch above it; ``None`` at the top.
    :param nodes: hosts that are plugged into it, by their names without a domain.
    """

    parent: str | None = None
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SwitchTree:
    """All switches by name, checked: parents exist, nothing is above itself, and each node hangs on one switch.

    :param origin: one of :data:`ORIGINS`.
    :param notes: what a reader should know of how it was read, as sentences without a full stop.
    """

    origin: str
    switches: Mapping[str, Switch]
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        """Check it.

        :raises BadInput: it is no tree.
        """
        if self.origin not in ORIGINS:
            raise BadInput(f"a tree of switches is from {', '.join(ORIGINS)}, not from {self.origin!r}.")
        seen: dict[str, str] = {}
        for name, switch in self.switches.items():
            if switch.parent is not None and switch.parent not in self.switches:
                raise BadInput(f"switch {name} hangs on {switch.parent}, which is not described.")
            for node in switch.nodes:
                if (other := seen.setdefault(node, name)) != name:
                    raise BadInput(f"node {node} hangs on two switches, {other} and {name}; name one.")
        for name in self.switches:
            above, passed = self.switches[name].parent, {name}
            while above is not None:
                if above in passed:
                    raise BadInput(f"switch {above} is above itself.")
                passed.add(above)
                above = self.switches[above].parent

    @cached_property
    def leaf_of(self) -> Mapping[str, str]:
        """Node to the switch it hangs on."""
        return {node: name for name, switch in self.switches.items() for node in switch.nodes}

    def path(self, node: str) -> tuple[str, ...]:
        """Switches above a node, the top one first; none where the node is not described."""
        found: list[str] = []
        above = self.leaf_of.get(node)
        while above is not None:
            found.insert(0, above)
            above = self.switches[above].parent
        return tuple(found)

    def edges(self, source: str, target: str) -> tuple[tuple[str, str], ...]:
        """Links from one node to another, each as (from, to): up to the switch both hang below, and down again.

        None where one of them is not described, or no switch is above both.
        """
        up, down = self.path(source), self.path(target)
        shared = 0
        while shared < min(len(up), len(down)) and up[shared] == down[shared]:
            shared += 1
        if not shared:
            return ()
        stations = [source, *reversed(up[shared:]), up[shared - 1], *down[shared:], target]
        return tuple(pairwise(stations))

    def only(self, nodes: Iterable[str]) -> SwitchTree:
        """The tree with these nodes alone, and the switches above them."""
        wanted = set(nodes)
        kept = {switch for node in wanted for switch in self.path(node)}
        switches = {
            name: Switch(switch.parent, tuple(node for node in switch.nodes if node in wanted))
            for name, switch in self.switches.items()
            if name in kept
        }
        return SwitchTree(self.origin, switches, self.notes)

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionary, for the session's database."""
        rows = {name: {"parent": switch.parent, "nodes": list(switch.nodes)} for name, switch in self.switches.items()}
        return {"origin": self.origin, "switches": rows, "notes": list(self.notes)}


def read_tree(value: Any, place: str) -> SwitchTree | None:
    """The tree of a stored record; ``None`` where there is none.

    :raises BadInput: a field is of the wrong type, or it is no tree.
    """
    if not value:
        return None
    if not isinstance(value, Mapping) or not isinstance(value.get("switches"), Mapping):
        raise BadInput(f"{place}: the switches are not a mapping of their names.")
    switches = {}
    for name, row in value["switches"].items():
        parent, nodes = (row.get("parent"), row.get("nodes")) if isinstance(row, Mapping) else (0, 0)
        if not (parent is None or isinstance(parent, str)) or not isinstance(nodes, (list, tuple)):
            raise BadInput(f"{place}: switch {name!r} is {row!r}, expected its parent and its nodes.")
        switches[str(name)] = Switch(parent, tuple(map(str, nodes)))
    notes = value.get("notes") or ()
    return SwitchTree(str(value.get("origin")), switches, tuple(map(str, notes)))
