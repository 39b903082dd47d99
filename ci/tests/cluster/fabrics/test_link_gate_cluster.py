"""The 5 % gate on a link of the mini-cluster: a quarter of the rate is flagged by both layers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from live_cluster import LiveCluster
from reframe_tests.harness.sites import references
from reframe_tests.harness.stacks.stack import Stack
from studies import link_gate
from studies.link_gate import JUDGED

LIMIT = 125 * 1448 / 1538
LEARNED = {name: 0.99 * LIMIT for name, _ in JUDGED}


def test_a_quarter_of_the_rate_is_flagged(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch, require_stack: Callable[[str], Stack]
) -> None:
    """Two slow runs on a real link. Healthy ones are not judged here: on a busy machine they may really be slow."""
    stack = require_stack("mpich-wheels")
    monkeypatch.setattr(link_gate, "REPEATS", 1)
    where = link_gate.Site(tuple(cluster.command), cluster.environment)
    condition = link_gate.resolve(stack)
    healthy = link_gate.one_run(where, condition, JUDGED)
    assert all(0 < value < LIMIT * (1 + references.PAYLOAD_EXCESS) for value in healthy.mb_per_s.values())
    cluster.good("fault", "slow-link", "eth1g")
    for _ in range(2):
        slow = link_gate.one_run(where, condition, JUDGED)
        assert all(value < LIMIT / 4 * (1 + references.PAYLOAD_EXCESS) for value in slow.mb_per_s.values())
        wanted = {f"{name} {layer}" for name, _ in JUDGED for layer in ("physics", "learned")}
        assert set(link_gate.alarms(slow, condition, LEARNED)) == wanted
    cluster.good("fault", "clear")
