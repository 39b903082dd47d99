"""What is judged: a table of times between nodes on the log scale, and where the nodes are plugged in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reframe_tests.harness.vocabulary import BadInput

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Observations:
    """Measurements of one quantity between two nodes each.

    :param quantity: what was measured, a name of :data:`reframe_tests.harness.vocabulary.QUANTITIES`.
    :param nodes: names; ``source`` and ``target`` are places in it.
    :param slowness: natural logarithm, turned so that more is worse: of a latency, or minus that of a bandwidth.
    :param moment: in which round: disturbances of one round are one event.
    :param together: what ran at the same time and shares the links between switches: a round's one direction.
    :param directed: source sends and target receives; else both ends do both, and their order means nothing.
    """

    quantity: str
    nodes: tuple[str, ...]
    source: Integers
    target: Integers
    slowness: Floats
    moment: Integers
    together: Integers
    directed: bool

    def __post_init__(self) -> None:
        lengths = {len(one) for one in (self.source, self.target, self.slowness, self.moment, self.together)}
        if len(lengths) != 1:
            raise ValueError(f"columns of {sorted(lengths)} observations")
        if not np.isfinite(self.slowness).all():
            raise BadInput(f"the map of {self.quantity} has a value that is not a positive number: measure it again.")
        if (self.source == self.target).any():
            name = self.nodes[int(self.source[self.source == self.target][0])]
            raise BadInput(f"the map of {self.quantity} has {name} measured against itself: measure pairs of nodes.")

    def __len__(self) -> int:
        return len(self.slowness)


@dataclass(frozen=True)
class Places:
    """Where each node is plugged in.

    :param switches: node to its switches, the leaf first, then what is above it (a pod, a group of a dragonfly).
    :param origin: where that is written: ``topology.conf``, ...; ``""``: nothing is known.
    :param guessed: found in the map itself and written nowhere.
    """

    switches: Mapping[str, Sequence[str]]
    origin: str = ""
    guessed: bool = False

    def levels(self, nodes: Sequence[str]) -> list[list[str]]:
        """For each level, the leaves first, the switch of each node; empty where a node has none."""
        depth = max((len(self.switches.get(node, ())) for node in nodes), default=0)
        return [
            [path[level] if level < len(path := self.switches.get(node, ())) else "" for node in nodes]
            for level in range(depth)
        ]

    def leaf(self, node: str) -> str:
        """The switch a node is plugged into; empty where that is not known."""
        return next(iter(self.switches.get(node, ())), "")


def numbered(names: Sequence[Any]) -> tuple[list[Any], Integers]:
    """Distinct names in the order of their first appearance, and for each its place in them."""
    order: dict[Any, int] = {}
    places = [order.setdefault(name, len(order)) for name in names]
    return list(order), np.array(places, dtype=np.intp)
