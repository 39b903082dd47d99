"""Histories of ``nodes=all``: what both nights have is compared; what
only one can have is not missing, and that is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpibench.judge import comparison, drift, policy
from mpibench.judge.history import differing_node_counts, node_count_notes
from mpibench.store import selectors
from mpibench.store.store import Store
from synthetic_verdicts import write_session

SYSTEM = "testbed"
TEST = "WholeMachine %fabric=eth1g %nodes=all %ppn=1 %pinning=bunch"


def write_night(
    folder: Path, number: int, nodes: int, slower: Mapping[int, float] | None = None
) -> str:
    """A session of ``nodes=all`` whose job had so many nodes.

    :param slower: factor on the time at a node count.
    """
    counts = [count for count in (2, 4, 8, 16, 32) if count < nodes] + [nodes]
    places = dict(enumerate(counts))

    def at_count(row: dict[str, Any]) -> dict[str, Any] | None:
        place = row["message_bytes"]
        if place not in places:
            return None
        nodes = places[place]
        factor = (slower or {}).get(nodes, 1.0)
        return {
            **row,
            "suite": "growth",
            "benchmark": "Barrier",
            "message_bytes": None,
            "variant": f"nodes={nodes}",
            "ranks": nodes,
            "quantity": "t_max_us",
            "value": row["value"] * factor,
        }

    return write_session(
        folder,
        number,
        benchmarks={"Barrier": "latency_us"},
        sizes=range(6),
        edit=at_count,
        condition={"nodes": nodes, "nodes_symbol": "all"},
        where={"name": TEST, "group": "growth", "nodes": 0},
    )


def compared(folder: Path, first: str, second: str) -> comparison.Judgement:
    before, after = (Store(folder).select(SYSTEM, one) for one in (first, second))
    return comparison.judge(before, after, policy.load(SYSTEM))


def test_another_number_than_the_night_before_is_said(tmp_path: Path) -> None:
    first, same, fewer = [
        write_night(tmp_path, number, nodes) for number, nodes in enumerate((64, 64, 62))
    ]
    table = Store(tmp_path).cases(SYSTEM)
    sessions = selectors.sessions_table(table)
    for session in (first, same):
        assert node_count_notes(table, sessions, session) == []
    [note] = node_count_notes(table, sessions, fewer)
    assert f"62 nodes in this session, 64 in session {same[:8]} before" in note
    before, after = [Store(tmp_path).select(SYSTEM, one).cases for one in (same, fewer)]
    [said] = differing_node_counts(before, after, "the baseline", "the candidate")
    assert "62 nodes in the candidate, 64 in the baseline" in said
    assert drift.absent(drift.read(Store(tmp_path), SYSTEM)) == []
