"""A mini-cluster with leaf switches, and maps of its pairs as a user measures them."""

from __future__ import annotations

from pathlib import Path

import cluster_reframe
from live_cluster import LiveCluster
from mpibench.store.sessions import Case
from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH, LATENCY

WHERE = (
    "-n",
    "PairMap%fabric=eth100m",
    "-p",
    "mpich-wheels",
    "--system=minicluster:eth100m",
    "-S",
    "orders=2",
)


def measure(cluster: LiveCluster, folder: Path, *options: str) -> Case:
    """The one case of a session."""
    (case,) = cluster_reframe.run(
        cluster, folder, *WHERE, *options, files=["parallel_transfer.py"]
    ).measured
    assert case.pair_map is not None, case.reason
    return case


def bandwidths(case: Case) -> dict[tuple[str, str], float]:
    """The best of each direction of each pair, in MB/s: what a busy machine
    makes of it is never more than the link carries.
    """
    return _extreme(case, BANDWIDTH, max)


def latencies(case: Case) -> dict[tuple[str, str], float]:
    """The least of each pair, in us."""
    return _extreme(case, LATENCY, min)


def _extreme(case: Case, quantity: str, choose: object) -> dict[tuple[str, str], float]:
    assert case.pair_map is not None
    values_of: dict[tuple[str, str], list[float]] = {}
    for value in case.pair_map.values:
        if value.quantity == quantity and value.value is not None:
            values_of.setdefault((value.source, value.target), []).append(value.value)
    assert callable(choose)
    return {pair: choose(values) for pair, values in values_of.items()}
