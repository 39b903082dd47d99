"""Reader of what the instrument of pair maps printed, which is used up to its last checksum; who
needs it whole asks (:attr:`MapOutput.whole`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...machine.switches import SLURM, YAML, Switch, SwitchTree
from ...vocabulary import BadInput
from .. import reading
from .pair_values import QUANTITIES, PairColumns


@dataclass(frozen=True)
class MapOutput:
    """What an output says.

    :param rounds: planned, in all passes.
    :param nodes: hosts in the order of their ranks; ``tree``: the
        switches above them, as the ranks had them.
    :param latency_count: repetitions of a latency; ``message_count``: messages of a bandwidth.
    :param expected: values of all rounds.
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
    values: PairColumns
    expected: int
    silent: Mapping[str, str]
    whole: bool
    seconds: float | None
    memory: str = ""


def read(text: str, source: str) -> MapOutput:
    """One output, up to its last checksum.

    :raises BadInput: it is not of this instrument, or damaged before its first checksum.
    """
    values = PairColumns()

    def pack(head: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        if "values" not in row:
            raise BadInput(
                "other-release",
                f"{source}: an older release printed this map, a line a value: measure it again.",
            )
        for phase, quantity, column in row["values"]:
            ends = (row["source"], row["target"])[:: 3 - 2 * phase]
            for one, other, value in zip(*ends, column, strict=True):
                if value is not None and not 0 < value < math.inf:
                    pair = f"{head['nodes'][one][0]} and {head['nodes'][other][0]}"
                    raise BadInput(
                        "output-trouble",
                        f"{source}: {quantity} of {pair} is {value:g}; nothing was measured, run "
                        "it again.",
                    )
            values.add(
                row["order"],
                row["round"],
                phase,
                ends[0],
                ends[1],
                quantity,
                row["bytes"],
                row["repeat"],
                column,
            )

    printed = reading.read(text, source, "pair_map", notes=("silent", "seconds"), pack=pack)
    head = printed.head
    nodes = values.nodes = tuple(node for node, _ in head["nodes"])
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
        values,
        expected,
        {note["silent"]: note["why"] for note in printed.notes if "silent" in note},
        printed.whole and len(values) == expected,
        next((note["seconds"] for note in printed.notes if "seconds" in note), None),
        head.get("memory", ""),
    )


def read_ends(text: str) -> MapOutput:
    """What a whole output says in its first line and its last ones, without its values."""
    first = re.search(reading.first_line("pair_map"), text, re.MULTILINE)
    found = read(first[0] if first else "", "the output")
    _, note, last = text.rpartition('{"seconds": ')
    return replace(found, seconds=float(last.partition("}")[0])) if note else found


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
