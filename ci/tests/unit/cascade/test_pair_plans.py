"""What is started on which fabric: command lines, sizes,
repetitions, metrics and the keys of their references.
"""

from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.benchmark import LEVELS
from reframe_tests.harness.suites.pair import Start


def test_both_ends_name_port_and_address_and_measure_the_size():
    for group in catalogue.PAIRS.values():
        for plan in group.plans:
            for transport in group.transports:
                device = "eth1" if transport == "tcp" else "mlx5_0"
                start = Start(transport, device, 2, transport == "tcp", 1024, 100, 3)
                server, client = plan.words(start)
                assert "{port}" in server and {"{port}", "{address}", "1024"} <= set(client)
                assert any(device in word or word == "{own}" for word in client), plan.benchmark
            [row] = [row for row in catalogue.rows(group.name) if row.name == plan.benchmark]
            assert plan.variant in row.variants
            sizes = {size for each in plan.sizes.values() for size in each}
            assert all(set(gated) <= sizes for gated in row.gated_sizes.values())
            assert set(plan.sizes) == set(LEVELS)
            assert all(each == tuple(sorted(each)) for each in plan.sizes.values())
