"""Lower bounds on what benchmarks send: by hand, message by
message, and where nodes are filled in blocks.
"""

from __future__ import annotations

import pytest

from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.benchmark import SIZELESS
from reframe_tests.harness.suites.catalogue import ROWS


@pytest.mark.parametrize(
    ("binary", "names", "ranks", "bytes_per_byte"),
    [
        ("IMB-MPI1", "PingPong PingPing Allreduce", 2, 2),
        ("IMB-MPI1", "Sendrecv Allreduce", 4, 4),
        ("IMB-MPI1", "Exchange", 4, 8),
        ("IMB-MPI1", "Uniband", 4, 128),
        ("IMB-MPI1", "Biband", 4, 256),
        ("IMB-MPI1", "Bcast Gather Scatter Reduce Reduce_scatter", 4, 3),
        ("IMB-MPI1", "Allgather Alltoall", 4, 12),
        ("IMB-MPI1", "Reduce_local Barrier", 4, 0),
        ("IMB-P2P", "Birandom", 4, 8),
        ("IMB-P2P", "Stencil2D", 4, 16),
        ("IMB-P2P", "Stencil3D", 8, 48),
        ("IMB-RMA", "Unidir_put", 2, 1),
        ("IMB-MT", "PingPongMT", 5, 4),
        ("mpi4py.bench", "pingpong", 2, 2),
    ],
)
def test_bounds_by_hand(binary, names, ranks, bytes_per_byte):
    for name in names.split():
        assert catalogue.find(binary, name).traffic(1_000, ranks) == bytes_per_byte * 1_000


def test_bounds_grow_with_size_and_between_nodes_are_never_more_than_all():
    for row in ROWS:
        for nodes, ppn in ((1, 2), (1, 3), (1, 4), (2, 1), (2, 4), (8, 16)):
            ranks = nodes * ppn
            assert row.traffic(0, ranks) == 0 or row.sizes == SIZELESS
            assert 0 <= row.traffic(8, ranks) <= row.traffic(16, ranks)
            assert 0 <= row.traffic_between(8, ranks, nodes) <= row.traffic(8, ranks)


def ring(ranks: int, *steps: int) -> list[tuple[int, int]]:
    """(sender, receiver) of every message where each rank sends to those so many steps away."""
    return [(rank, (rank + step) % ranks) for rank in range(ranks) for step in steps]


@pytest.mark.parametrize(("nodes", "ppn"), [(2, 1), (2, 4), (3, 2), (4, 3)])
def test_bytes_between_nodes_are_those_whose_ends_differ(nodes, ppn):
    """Benchmarks with fixed partners, counted message by message, ranks filling nodes in blocks."""
    ranks = nodes * ppn
    half = ranks // 2
    patterns = {
        ("IMB-MPI1", "Sendrecv"): ring(ranks, 1),
        ("IMB-MPI1", "Exchange"): ring(ranks, 1, -1),
        ("IMB-MT", "SendRecvMT"): ring(ranks, half),
        ("IMB-RMA", "All_put_all"): ring(ranks, *range(1, ranks)),
        ("IMB-MPI1", "Scatter"): [(0, rank) for rank in range(1, ranks)],
        ("IMB-P2P", "PingPong"): ring(ranks, half),
        ("IMB-MPI1", "Uniband"): [(rank, rank + half) for rank in range(half)] * 64,
    }
    for (binary, name), messages in patterns.items():
        row = catalogue.find(binary, name)
        between = sum(8 for sender, receiver in messages if sender // ppn != receiver // ppn)
        assert row.traffic_between(8, ranks, nodes) == between, name
        assert row.traffic_between(8, ranks, 1) == 8 * len(messages), name


@pytest.mark.parametrize(
    ("name", "blocks"),
    {
        "Bcast": 1,  # one node tells the other, whose ranks pass it on
        "Reduce": 1,
        "Allreduce": 2,
        "Allgather": 8,  # 4 contributions each way
        "Gather": 4,
        "Reduce_scatter": 1,
        "Barrier": 0,
    }.items(),
)
def test_bytes_between_two_nodes_of_four_ranks(name, blocks):
    assert catalogue.find("IMB-MPI1", name).traffic_between(1_000, 8, 2) == blocks * 1_000
