"""Ranks of several nodes that are on one machine, and had to share its cores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ...evidence.checks import format_cpus
from ...evidence.rank_records import Cpus, parse_cpus


def find_shared(ranks: Iterable[Mapping[str, Any]], at_once: float = math.inf) -> str:
    """Which ranks of several nodes had to share the cores of one machine, as part of a sentence; empty: none are known to.

    Nodes of a cluster in a box, and containers, are on one machine where the kernel's ``boot_id`` is one (``random(4)``); nodes
    of different machines have the same numbers of CPUs, and share none.

    :param ranks: as stored evidence has them.
    :param at_once: of the ranks so many are busy at the same time.
    """
    machines: dict[str, dict[str, Cpus]] = {}
    for row in ranks:
        machine, cpus = row.get("boot_id"), row.get("cpus_allowed")
        if isinstance(machine, str) and isinstance(cpus, str):
            machines.setdefault(machine, {})[f"{row.get('host')}:{row.get('rank')}"] = parse_cpus(cpus)
    for masks in machines.values():
        for cpus in sorted(set(masks.values()), key=lambda mask: (len(mask), sorted(mask))):
            there = [name.partition(":")[0].partition(".")[0] for name, mask in masks.items() if mask <= cpus]
            if len(set(there)) > 1 and min(len(there), at_once) > len(cpus):
                names = ", ".join(dict.fromkeys(there))
                return f"the ranks of {names} share core{'s'[: len(cpus) != 1]} {format_cpus(cpus)} of one machine"
    return ""
