"""Histories of ``nodes=all``: what both nights have is compared; what
only one can have is not missing, and that is said.
"""

from functools import partial

import polars as pl

from dataset_here import HERE, write_session
from mpibench.judge import comparison, drift, policy
from mpibench.judge.history import differing_node_counts, missing_metrics, node_count_notes
from mpibench.store.session_values import METRIC
from mpibench.store.store import Store

SYSTEM = "testbed"
TEST = "WholeMachine %fabric=eth1g %nodes=all %ppn=1 %pinning=bunch"


def write_night(number, nodes, slower=None):
    """A session of ``nodes=all`` whose job had so many nodes.

    :param slower: factor on the time at a node count.
    """
    counts = [count for count in (2, 4, 8, 16, 32) if count < nodes] + [nodes]
    places = dict(enumerate(counts))

    def at_count(row):
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
        number,
        benchmarks={"Barrier": "latency_us"},
        sizes=range(6),
        edit=at_count,
        condition={"nodes": nodes, "nodes_symbol": "all"},
        where={"name": TEST, "group": "growth", "nodes": 0},
    )


def compared(first, second):
    before, after = (Store(HERE).select(SYSTEM, one) for one in (first, second))
    return comparison.judge(before, after, policy.load(SYSTEM))


def test_nights_are_compared_at_the_counts_both_have():
    first = write_night(0, 64)
    second = write_night(1, 62, slower={8: 3.0, 62: 50.0})
    judged = compared(first, second)
    assert set(judged.metrics["variant"]) == {f"nodes={count}" for count in (2, 4, 8, 16, 32)}
    assert "missing" not in judged.metrics["verdict"].to_list() + judged.bands["verdict"].to_list()
    assert judged.metrics.sort("slower")["variant"][-1] == "nodes=8"
    # the last count of one is none of the other
    assert judged.new["variant"].to_list() == ["nodes=62"]
    gone = write_session(2)
    assert compared(first, gone).counts()["missing"] == 6


def test_each_node_count_of_a_start_is_a_metric_of_its_own():
    """Also the same number of nodes, asked for and idle."""

    def of_case(row, slower):
        nodes = row["nodes"] or 64
        named = {"suite": "osu", "message_bytes": None, "variant": f"nodes={nodes}", "ranks": nodes}
        return {**row, **named, "value": row["value"] * (slower if nodes == 4 else 1.0)}

    first, second = (
        write_session(
            number,
            benchmarks={"osu_init": "t_avg_us"},
            sizes=(0,),
            edit=partial(of_case, slower=slower),
            where=[{"nodes": nodes, "group": "startup_osu"} for nodes in (2, 4, 64, 0)],
        )
        for number, slower in enumerate((1.0, 3.0))
    )
    rows = compared(first, second).metrics.to_dicts()
    assert {(row["nodes"], row["variant"]): row["slower"] > 0.5 for row in rows} == {
        (2, "nodes=2"): False,
        (4, "nodes=4"): True,
        (64, "nodes=64"): False,
        (0, "nodes=64"): False,
    }


def test_given_numbers_of_nodes_are_missing_all_the_same():
    def rows(nodes, *counts):
        named = {name: [None] * len(counts) for name in METRIC}
        asked = {"nodes": [nodes] * len(counts), "benchmark": ["Barrier"] * len(counts)}
        return pl.DataFrame({**named, **asked, "variant": [f"nodes={count}" for count in counts]})

    assert missing_metrics(rows(64, 64), rows(64, 2)).height == 1
    assert missing_metrics(rows(0, 64), rows(0, 2)).height == 0
    assert missing_metrics(rows(0, 64), rows(64, 2)).height == 1


def test_another_number_than_the_night_before_is_said():
    first, same, fewer = [
        Store(HERE).select(SYSTEM, write_night(number, nodes)).cases
        for number, nodes in enumerate((64, 64, 62))
    ]
    assert node_count_notes(first.clear(), first) == node_count_notes(first, same) == []
    [note] = node_count_notes(same, fewer)
    assert "62 nodes in this session, 64 in session 00000002 before" in note
    [said] = differing_node_counts(same, fewer, "the baseline", "the candidate")
    assert "62 nodes in the candidate, 64 in the baseline" in said
    assert drift.absent(drift.read(Store(HERE), SYSTEM)) == []
