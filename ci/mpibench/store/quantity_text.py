"""Message sizes, numbers of nodes and units as readers see them, on terminals and pages alike."""

from __future__ import annotations

from reframe_tests.harness.vocabulary import ALL_NODES


def size_text(message_bytes: int | None) -> str:
    """Message size with a binary prefix: ``0 B``, ``16 KiB``; ``no message`` for what has none (a barrier)."""
    if message_bytes is None:
        return "no message"
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if message_bytes >= factor and message_bytes % factor == 0:
            return f"{message_bytes // factor} {unit}"
    return f"{message_bytes} B"


def nodes_text(nodes: int | None) -> str:
    """Number of nodes as the dataset has it: ``1 node``, ``4 nodes``, ``all idle nodes``."""
    return "all idle nodes" if nodes == ALL_NODES else f"{nodes} node{'' if nodes == 1 else 's'}"


def unit_text(unit: str) -> str:
    """Unit as printed on axes: ``us`` is set with its sign, ``1`` is none."""
    return {"us": "µs", "1": ""}.get(unit, unit)
