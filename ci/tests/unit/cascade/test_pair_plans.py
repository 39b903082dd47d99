"""What is started on which fabric: command lines, sizes,
repetitions, metrics and the keys of their references.
"""

from __future__ import annotations

import pytest

from reframe_tests.harness.suites import catalogue, pair
from reframe_tests.harness.suites.benchmark import LEVELS
from reframe_tests.harness.suites.pair import PairPlan, Start

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
