"""Records of a server and a client as ``cascade/end.py`` leaves
them, with any command, output and counters.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

ADDRESSES = {"server": "10.61.1.1", "client": "10.61.1.2"}
HOSTS = {"server": "c1", "client": "c2"}
PORT = 47011
LINK = {"operstate": "up", "mtu": "1500", "speed": "1000", "carrier_changes": "2"}
QUIET = {"lo": 0, "mgmt": 20_000, "eth10g": 500}


def filled(words: Sequence[str], which: str) -> list[str]:
    """Words of a program with the addresses in them, variables left out."""
    places = {"{address}": ADDRESSES["server"], "{port}": str(PORT), "{own}": ADDRESSES[which]}
    return [places.get(word, word) for word in words if "=" not in word or not word[0].isupper()]


def end(
    which: str,
    words: Sequence[str],
    output: str,
    *,
    rx: int,
    tx: int,
    others: Mapping[str, int] = QUIET,
    **changes: Any,
) -> str:
    """The record of one end.

    :param rx: bytes that its interface received meanwhile; ``tx``: those it sent.
    :param others: bytes that other interfaces received meanwhile.
    """
    filled_words = filled(words, which)
    start = {"link": LINK, "counters": {"rx_bytes": 1000, "tx_bytes": 1000}}
    after = {"link": LINK, "counters": {"rx_bytes": 1000 + rx, "tx_bytes": 1000 + tx}}
    start["others"] = {name: {"rx_bytes": 7, "tx_bytes": 7} for name in others}
    after["others"] = {
        name: {"rx_bytes": 7 + count, "tx_bytes": 7} for name, count in others.items()
    }
    row = {
        "end": which,
        "host": HOSTS[which],
        "interface": "eth1g",
        "meeting": "0123456789abcdef",
        "failed": "",
        "address": ADDRESSES[which],
        "port": PORT,
        "words": filled_words,
        "variables": {},
        "cores": "0",
        "status": 0,
        "ended": "by itself",
        "seconds": 1.0,
        "output": output,
        "errors": "",
        "before": start,
        "after": after,
        **changes,
    }
    content = f"# {which} of {filled_words[0]}, format 1\n{json.dumps(row, sort_keys=True)}\n"
    return f"{content}# end: CRC-32 {zlib.crc32(content.encode()):08x}\n"
