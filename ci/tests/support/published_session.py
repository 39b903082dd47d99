"""A session on eth1g whose PingPong is what the white paper printed, times a factor."""

from __future__ import annotations

from typing import Any

import synthetic_session as synthetic
from mpibench.store import sessions
from mpibench_tune import published
from synthetic_report import session_of

SOURCE = "openhpc-mini/eth1g"


def selected(
    values: list[published.PublishedValue], **wanted: str | int
) -> list[published.PublishedValue]:
    """Values whose columns have exactly these texts."""
    return [
        value
        for value in values
        if all(value[column] == str(text) for column, text in wanted.items())
    ]


def eth1g_case(factor: float = 2.0, **changes: Any) -> dict[str, Any]:
    """A case of two nodes on eth1g whose PingPong values are the white
    paper's times ``factor``, three repeats each.
    """
    plan = synthetic.case(ppn=1, pinning="default", **changes)
    printed = selected(published.read("openhpc-mini"), benchmark="PingPong", fabric="eth1g")
    samples = {row["quantity"]: row for row in plan["samples"] if row["benchmark"] == "PingPong"}
    plan["samples"] = [
        {**samples[value["quantity"]], "message_bytes": value.message_bytes, "values": values}
        for value in printed
        if value["quantity"] in ("latency_us", "bandwidth_mb_per_s")
        for values in [[factor * value.number * spread for spread in (0.5, 1.0, 3.0)]]
    ]
    where = {"fabric": "eth1g", "nodes": 2}
    return {**plan, **where, "condition": {**plan["condition"], **where}}


def published_session() -> sessions.Session:
    """Twice as good on one stack, half as good on another."""
    return session_of(eth1g_case(2.0), eth1g_case(0.5, stack="mpich-wheels"))


def chosen(session: sessions.Session) -> list[published.Curve]:
    """The white paper's curves that stand beside those of a session."""
    return published.choose(session, [f"eth1g={SOURCE}"])
