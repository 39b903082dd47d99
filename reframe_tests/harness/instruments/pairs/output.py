"""Reader of what the instrument of pair maps printed, which is used up to its last checksum; who
needs it whole asks (:attr:`MapOutput.whole`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ...machine.switches import SLURM, YAML, Switch, SwitchTree
from ...vocabulary import BadInput
from .. import reading
from .pair_values import QUANTITIES, PairValue


@dataclass(frozen=True)
class MapOutput:
    """What an output says.

    :param rounds: planned, in all passes.
    :param nodes: hosts in the order of their ranks; ``tree``: the
        switches above them, as the ranks had them.
    :param latency_count: repetitions of a latency; ``message_count``: messages of a bandwidth.
    :param whole: it has its end, and its rows are those of all rounds.
    :param seconds: the measurement took.
    :param memory: platform of the GPUs whose memory messages were in; empty: the host's.
    """

    design: str
    seed: int
    rounds: int
    repeats: int
    nodes: tuple[str, ...]
    tree: SwitchTree | None
    latency_count: int
    message_count: int
    values: tuple[PairValue, ...]
    silent: Mapping[str, str]
    whole: bool
    seconds: float | None
    memory: str = ""


def read(text: str, source: str) -> MapOutput:
    """One output, up to its last checksum.

    :raises BadInput: it is not of this instrument, or damaged before its first checksum.
    """
    printed = reading.read(text, source, "pair_map", notes=("silent", "seconds"))
    head = printed.head
    nodes = tuple(node for node, _ in printed.head["nodes"])
    values = []
    for row in printed.rows:
        source_node = nodes[row["source"]]
        target_node = nodes[row["target"]]
        if row["value"] is not None and not 0 < row["value"] < math.inf:
            fault = f"{row['quantity']} of {source_node} and {target_node} is {row['value']:g}"
            raise BadInput(
                "output-trouble", f"{source}: {fault}; nothing was measured, run it again."
            )
        place = (row["order"], row["round"], row["phase"], source_node, target_node)
        values.append(
            PairValue(*place, row["quantity"], row["bytes"], row["repeat"], row["value"], None)
        )
    ranks = len(nodes)
    pairs = ranks * (ranks - 1) // 2 if head["design"] == "all" else head["rounds"] * (ranks // 2)
    expected = pairs * head["orders"] * head["repeats"] * 2 * len(QUANTITIES)
    origin = {"Slurm": SLURM, "the site": YAML}.get(head["switches"])
    return MapOutput(
        head["design"],
        head["seed"],
        head["rounds"] * head["orders"],
        head["repeats"],
        nodes,
        tree_of({node: tuple(path) for node, path in head["nodes"]}, origin) if origin else None,
        head["latency_count"],
        head["message_count"],
        tuple(values),
        {note["silent"]: note["why"] for note in printed.notes if "silent" in note},
        printed.whole and len(values) == expected,
        next((note["seconds"] for note in printed.notes if "seconds" in note), None),
        head.get("memory", ""),
    )


def tree_of(above: Mapping[str, tuple[str, ...]], origin: str) -> SwitchTree | None:
    """The tree of paths (the top switch first) of nodes; ``None``
    where a node has none, or they are no tree.
    """
    switches: dict[str, Switch] = {}
    for node, path in above.items():
        if not path:
            return None
        for at, name in enumerate(path):
            parent = path[at - 1] if at else None
            known = switches.setdefault(name, Switch(parent))
            if known.parent != parent:
                return None
        switches[path[-1]] = Switch(switches[path[-1]].parent, (*switches[path[-1]].nodes, node))
    return SwitchTree(origin, switches)
