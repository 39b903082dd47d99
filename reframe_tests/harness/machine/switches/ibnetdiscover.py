"""What ``ibnetdiscover(8)`` writes (infiniband-diags): a block for each switch and adapter, a line for each cabled port.

A block begins with ``Switch 36 "S-0002..." # "NAME" ...`` or ``Ca 1 "H-0002..." # "HOST HCA-1"``; its lines are
``[1] "H-0002..."[1](GUID) # "HOST HCA-1" lid 5 4xEDR``. Hosts are the first word of an adapter's description.
"""

from __future__ import annotations

import re

from ...vocabulary import BadInput
from . import discovered
from .paths import name_of
from .tree import IBNETDISCOVER, SwitchTree

_BLOCK = re.compile(r'(Switch|Ca)\s+\d+\s+"([SH]-[0-9a-fA-F]+)"\s+#\s*"([^"]*)"')
_PORT = re.compile(r'\[(\d+)\](?:\([0-9a-fA-F]+\))?\s+"([SHR]-[0-9a-fA-F]+)"\[\d+\]')
#: Adapters that are part of a switch (SHARP's aggregation nodes) and no hosts.
_OF_SWITCH = re.compile(r"aggregation node", re.IGNORECASE)


def recognised(text: str) -> bool:
    """Whether it looks like such a recording."""
    return bool(re.search(r'^(?:Switch|Ca)\s+\d+\s+"[SH]-', text, re.MULTILINE))


def read(text: str, source: str) -> SwitchTree:
    """The tree of a recording.

    :raises BadInput: it is cut off or has no host.
    """
    titles: dict[str, str] = {}
    ports: dict[str, list[str]] = {}
    block = ""
    for line in text.splitlines():
        if found := _BLOCK.match(line):
            block = found[2]
            titles[block] = found[3]
            ports[block] = []
        elif found := _PORT.match(line):
            if not block:
                raise BadInput(f"{source} has a port before the first switch or adapter; it is cut off, record it again.")
            ports[block].append(found[2])
        elif not line.strip():
            block = ""
    unknown = {other for others in ports.values() for other in others if other[0] in "SH"} - set(titles)
    if unknown:
        raise BadInput(f"{source} names {min(unknown)} and does not describe it; it is cut off, record it again.")
    names: dict[str, str] = {}
    for guid, title in titles.items():
        name = discovered.plain(title) if guid[0] == "S" else name_of(title.split()[0] if title.split() else guid)
        # Of two switches with one description, the second has a part of its own GUID in its name.
        names[guid] = f"{name}-{guid[-6:]}" if guid[0] == "S" and name in names.values() else name
    hosts: dict[str, list[str]] = {}
    for guid, others in ports.items():
        if guid[0] == "H" and not _OF_SWITCH.search(titles[guid]):
            hosts.setdefault(names[guid], []).extend(names[other] for other in others if other[0] == "S")
    links = [
        (names[guid], names[other]) for guid, others in ports.items() if guid[0] == "S" for other in others if other[0] == "S"
    ]
    return discovered.tree_of(hosts, links, IBNETDISCOVER, source)
