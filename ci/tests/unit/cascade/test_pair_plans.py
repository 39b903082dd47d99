"""What is started on which fabric: command lines, sizes,
repetitions, metrics and the keys of their references.
"""

from __future__ import annotations

from typing import Any

import pytest

from reframe_tests.harness.sites import references
from reframe_tests.harness.suites import catalogue, pair
from reframe_tests.harness.suites.benchmark import LEVELS
from reframe_tests.harness.suites.pair import PairPlan, Start

_EXTRAS = {"fabrics": {"hdr": {"transport": "ucx", "scope": "cluster"}}, "stacks": ["*"]}
SYSTEM = {"name": "big", "partitions": [{"name": "cpu", "extras": _EXTRAS}]}
RIGHT = (
    "TransportUcx",
    "big:cpu",
    "builtin",
    "hdr",
    2,
    1,
    "default",
    "tag_bw.bandwidth.0001048576",
)
PLANS = [(group, plan) for group in catalogue.PAIRS.values() for plan in group.plans]


def start(transport: str, size: int = 1024) -> Start:
    device = "eth1" if transport == "tcp" else "mlx5_0"
    return Start(transport, device, 2, transport == "tcp", size, 100, 3)


@pytest.mark.parametrize(
    ("group", "plan"),
    PLANS,
    ids=lambda one: one.benchmark if isinstance(one, PairPlan) else one.name,
)
def test_both_ends_name_port_and_address_and_measure_the_size(
    group: pair.PairGroup, plan: PairPlan
) -> None:
    for transport in group.transports:
        server, client = plan.words(start(transport))
        assert "{port}" in server and {"{port}", "{address}"} <= set(client)
        assert "1024" in client and any(
            "eth1" in word or "mlx5_0" in word or word == "{own}" for word in client
        )
    [row] = [row for row in catalogue.rows(group.name) if row.name == plan.benchmark]
    assert plan.variant in row.variants
    sizes = {size for each in plan.sizes.values() for size in each}
    assert all(set(gated) <= sizes for gated in row.gated_sizes.values())
    assert set(plan.sizes) == set(LEVELS) and all(
        each == tuple(sorted(each)) for each in plan.sizes.values()
    )


def faults(**changed: Any) -> list[str]:
    names = ("test", "partition", "stack", "fabric", "nodes", "ppn", "pinning", "metric")
    keys = tuple(changed.get(name, value) for name, value in zip(names, RIGHT, strict=True))
    return [fault] if (fault := references.fault_of_keys(keys, SYSTEM)) else []


def test_every_gated_metric_may_have_a_reference() -> None:
    assert faults() == []
    assert faults(test="TransportLibfabric", metric="pingpong.endpointrdm.latency.0000000008") == []
    assert faults(test="WireTcp", metric="TCP.streams4.bandwidth.0000131072") == []
    assert faults(test="WireRdma", metric="ib_read_lat.latency_p99.0000000008") == []
    # A map of the wire is of as many nodes as there are.
    assert faults(test="WireTcpMap", nodes=8, metric="TCP.streams1.bandwidth.0000131072") == []
