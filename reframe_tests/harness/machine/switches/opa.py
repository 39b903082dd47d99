"""What ``opareport -o links`` of Omni-Path's FastFabric tools writes: two lines for each link.

``100g 0x00117501017bfd2d   1 FI c1 hfi1_0`` and ``<->  0x00117501026a5683  13 SW leaf1``: rate, GUID, port, type (FI: host
fabric interface, SW: switch) and node description, whose first word is the host (FastFabric CLI reference).
"""

from __future__ import annotations

import re

from ...vocabulary import BadInput
from . import discovered
from .paths import name_of
from .tree import OPA, SwitchTree

_END = re.compile(r"\s*(<->|[0-9.]+g)\s+(0x[0-9a-fA-F]+)\s+(\d+)\s+(FI|SW)\s+(\S.*?)\s*")


def recognised(text: str) -> bool:
    """Whether it looks like such a report."""
    return bool(re.search(r"^\s*<->\s+0x[0-9a-fA-F]+\s+\d+\s+(?:FI|SW)\s", text, re.MULTILINE))


def read(text: str, source: str) -> SwitchTree:
    """The tree of a report.

    :raises BadInput: a link has one end only, or there is no host.
    """
    ends = [found for found in map(_END.fullmatch, text.splitlines()) if found]
    hosts: dict[str, list[str]] = {}
    links: list[tuple[str, str]] = []
    guids: dict[str, str] = {}
    for number in range(0, len(ends), 2):
        pair = ends[number : number + 2]
        if [end[1] == "<->" for end in pair] != [False, True]:
            raise BadInput(f"{source}: link {number // 2 + 1} has not two ends; the report is cut off, write it again.")
        names = []
        for end in pair:
            name = discovered.plain(end[5]) if end[4] == "SW" else name_of(end[5].split()[0])
            taken = end[4] == "SW" and any(guid != end[2] and other == name for guid, other in guids.items())
            names.append(guids.setdefault(end[2], f"{name}-{end[2][-6:]}" if taken else name))
        kinds = [end[4] for end in pair]
        if kinds == ["SW", "SW"]:
            links.append((names[0], names[1]))
        elif "SW" in kinds:
            host, switch = names if kinds[0] == "FI" else reversed(names)
            hosts.setdefault(host, []).append(switch)
    return discovered.tree_of(hosts, links, OPA, source)
