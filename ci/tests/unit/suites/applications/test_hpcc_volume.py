"""What HPCC must at least send between nodes: counted message by
message on small problems, and never more than that.
"""

import math

import pytest

from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.suites.benchmark import NO_DATA
from synthetic_evidence import on_grid


@pytest.mark.parametrize(("grid", "nodes"), [((1, 2), 2), ((2, 2), 4), ((2, 2), 2)])
def test_a_run_that_used_another_network_is_not_green(grid, nodes):
    """The smallest problem is more than the background that
    ``counters.OTHER_FLOOR_BYTES`` allows a node; what has no bound says why not.
    """
    least = 0
    ranks = math.prod(grid)
    for record in reader.parse(on_grid(*grid)):
        row = catalogue.find("hpcc", record.benchmark)
        assert bool(record.problem) == (row.of_run is not None)
        between = row.traffic_between(0, ranks, nodes)
        if row.name.startswith(("Star", "Single")):
            assert (row.unbounded, row.of_run, between) == (NO_DATA, None, 0)
        elif row.of_run is None:
            assert between > 0
        least += row.of_run(record.problem, ranks, nodes) if row.of_run else between
    assert least > 2e6 * nodes
