"""Lower bounds on what benchmarks send: by hand, message by
message, and where nodes are filled in blocks.
"""

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
