"""What HPCC must at least send between nodes: counted message by
message on small problems, and never more than that.
"""

from __future__ import annotations

import itertools
import math

import pytest

from hpcc_outputs import on_grid
from reframe_tests.harness.suites import catalogue, hpcc, reader
from reframe_tests.harness.suites.benchmark import NO_DATA

LAYOUTS = [(2, 1), (3, 2), (4, 3), (8, 16)]


def transposed_blocks(places: tuple[int, ...], rows_: int, columns: int, blocks: int) -> int:
    """Blocks of PTRANS that change their node, where ``places`` has
    the node of each process of the grid.
    """
    moved = 0
    for i, j in itertools.product(range(blocks), repeat=2):
        source = (i % rows_) * columns + j % columns
        target = (j % rows_) * columns + i % columns
        moved += places[source] != places[target]
    return moved


@pytest.mark.parametrize(("nodes", "ppn"), [(2, 1), (2, 2), (3, 2), (4, 1)])
@pytest.mark.parametrize("blocks", [1, 5, 12])
def test_no_order_of_the_ranks_moves_less_of_a_matrix(nodes: int, ppn: int, blocks: int) -> None:
    """PTRANS draws it by chance: here all orders are tried."""
    ranks = nodes * ppn
    height, width = hpcc.find_grid(ranks)
    problem = {"order": blocks * 4, "block": 4, "rows": height, "columns": width}
    placed = set(itertools.permutations([rank // ppn for rank in range(ranks)]))
    fewest = min(transposed_blocks(places, height, width, blocks) for places in placed)
    least = hpcc.transposition(problem, ranks, nodes)
    assert least <= 5 * 8 * 4 * 4 * fewest
    if ppn == 1:
        assert least == 5 * 8 * 4 * 4 * fewest, "nothing is left to chance"


@pytest.mark.parametrize(("nodes", "ppn"), LAYOUTS)
@pytest.mark.parametrize("panels", [2, 5, 20])
def test_a_factorisation_that_sends_each_panel_once_to_each_node_sends_more(
    nodes: int, ppn: int, panels: int
) -> None:
    """HPL panel by panel: a block goes to a node if a process there has
    something to update with it, and only once.
    """
    ranks = nodes * ppn
    height, width = hpcc.find_grid(ranks)
    sent = 0
    for k in range(panels):
        for other in range(k + 1, panels):
            # A block of L serves the columns to the right in its own row of the
            # grid, one of U the rows below in its column.
            row = other % height
            column = other % width
            in_row = {(row * width + later % width) // ppn for later in range(k + 1, panels)}
            in_column = {
                ((later % height) * width + column) // ppn for later in range(k + 1, panels)
            }
            sent += len(in_row - {(row * width + k % width) // ppn})
            sent += len(in_column - {((k % height) * width + column) // ppn})
    problem = {"order": panels * 10, "block": 10, "rows": height, "columns": width}
    least = hpcc.solution(problem, ranks, nodes)
    assert least <= 8 * 10 * 10 * sent
    assert least > 8 * 10 * 10 * sent / 6 or panels < 20, "half, but for the last panels"


def test_updates_of_other_nodes() -> None:
    """8 bytes for half of those that are not one's own: 1/2 of two nodes', 3/4 of four."""
    assert hpcc.updates({"updates": 1000}, 4, 2) == 2000
    assert hpcc.updates({"updates": 1000}, 4, 4) == 3000


@pytest.mark.parametrize(("nodes", "ppn"), LAYOUTS)
def test_a_transform_sends_more_than_one_exchange_between_nodes(nodes: int, ppn: int) -> None:
    """Of each node's share all but its own part, once there and once back."""
    ranks = nodes * ppn
    processes = 1 << int(math.log2(ranks))
    homes = [rank // ppn for rank in range(processes)]
    exchanged = sum(one != other for one, other in itertools.product(homes, repeat=2))
    problem = {"elements": processes**2 * 64, "processes": processes}
    assert hpcc.transform(problem, ranks, nodes) == 2 * 16 * 64 * exchanged


@pytest.mark.parametrize(("grid", "nodes"), [((1, 2), 2), ((2, 2), 4), ((2, 2), 2)])
def test_a_run_that_used_another_network_is_not_green(grid: tuple[int, int], nodes: int) -> None:
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
