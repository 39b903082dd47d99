"""Histories of ``nodes=all``: what both nights have is compared; what
only one can have is not missing, and that is said.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mpibench.judge import comparison, policy
from mpibench.store.store import Store
from synthetic_verdicts import write_session

SYSTEM = "testbed"


def compared(folder: Path, first: str, second: str) -> comparison.Judgement:
    before, after = (Store(folder).select(SYSTEM, one) for one in (first, second))
    return comparison.judge(before, after, policy.load(SYSTEM))


def write_starts(folder: Path, number: int, idle: int, slower: float = 1.0) -> str:
    """A session that started ranks on 2 nodes, on 4, and on all that were idle."""

    def of_case(row: dict[str, Any]) -> dict[str, Any]:
        nodes = row["nodes"] or idle
        named = {"suite": "osu", "message_bytes": None, "variant": f"nodes={nodes}", "ranks": nodes}
        return {**row, **named, "value": row["value"] * (slower if nodes == 4 else 1.0)}

    return write_session(
        folder,
        number,
        benchmarks={"osu_init": "t_avg_us"},
        sizes=(0,),
        edit=of_case,
        where=[{"nodes": nodes, "group": "startup_osu"} for nodes in (2, 4, 0)],
    )


def test_each_node_count_of_a_start_is_a_metric_of_its_own(tmp_path: Path) -> None:
    """Also the same number of nodes, asked for and idle; and of
    62 and 64 idle nodes none is missing.
    """
    first = write_starts(tmp_path, 0, 64)
    same = write_starts(tmp_path, 1, 64, slower=3.0)
    fewer = write_starts(tmp_path, 2, 62)
    rows = compared(tmp_path, first, same).metrics.to_dicts()
    assert {(row["nodes"], row["variant"]): row["slower"] > 0.5 for row in rows} == {
        (2, "nodes=2"): False,
        (4, "nodes=4"): True,
        (0, "nodes=64"): False,
    }
    judged = compared(tmp_path, first, fewer)
    assert judged.new["variant"].to_list() == ["nodes=62"]
    assert "missing" not in judged.metrics["verdict"].to_list() + judged.bands["verdict"].to_list()
