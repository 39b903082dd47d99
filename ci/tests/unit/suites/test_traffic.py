"""Lower bounds on what benchmarks send: by hand, message by message, and where nodes are filled in blocks."""

from __future__ import annotations

import pytest

from reframe_tests.harness.suites import catalogue, traffic
from reframe_tests.harness.suites.benchmark import SIZELESS
from reframe_tests.harness.suites.catalogue import ROWS


@pytest.mark.parametrize(
    ("binary", "name", "ranks", "bytes_per_repetition"),
    [
        ("IMB-MPI1", "PingPong", 2, 2_000),
        ("IMB-MPI1", "PingPing", 2, 2_000),
        ("IMB-MPI1", "Sendrecv", 4, 4_000),
        ("IMB-MPI1", "Exchange", 4, 8_000),
        ("IMB-MPI1", "Uniband", 4, 128_000),
        ("IMB-MPI1", "Biband", 4, 256_000),
        ("IMB-MPI1", "Bcast", 4, 3_000),
        ("IMB-MPI1", "Allgather", 4, 12_000),
        ("IMB-MPI1", "Alltoall", 4, 12_000),
        ("IMB-MPI1", "Gather", 4, 3_000),
        ("IMB-MPI1", "Scatter", 4, 3_000),
        ("IMB-MPI1", "Reduce", 4, 3_000),
        ("IMB-MPI1", "Allreduce", 2, 2_000),
        ("IMB-MPI1", "Allreduce", 4, 4_000),
        ("IMB-MPI1", "Reduce_scatter", 4, 3_000),
        ("IMB-MPI1", "Reduce_local", 4, 0),
        ("IMB-MPI1", "Barrier", 4, 0),
        ("IMB-P2P", "PingPong", 4, 4_000),
        ("IMB-P2P", "Birandom", 4, 8_000),
        ("IMB-P2P", "Stencil2D", 4, 16_000),
        ("IMB-P2P", "Stencil3D", 8, 48_000),
        ("IMB-RMA", "Unidir_put", 2, 1_000),
        ("IMB-RMA", "All_put_all", 4, 12_000),
        ("IMB-MT", "PingPongMT", 5, 4_000),
        ("mpi4py.bench", "pingpong", 2, 2_000),
    ],
)
def test_bounds_by_hand(binary, name, ranks, bytes_per_repetition):
    assert catalogue.find(binary, name).traffic(1_000, ranks) == bytes_per_repetition


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.binary}-{row.name}")
def test_bounds_grow_with_size_and_never_below_zero(row):
    for ranks in (2, 3, 8, 128):
        assert row.traffic(0, ranks) == 0 or row.sizes == SIZELESS
        assert 0 <= row.traffic(8, ranks) <= row.traffic(16, ranks)


def test_allreduce_is_bounded_below_what_the_best_algorithms_send():
    """Ring and tree send 2 (n-1) s; the bound must not exceed it anywhere."""
    for ranks in (2, 3, 4, 64):
        assert traffic.every_rank_receives(8, ranks) <= 2 * (ranks - 1) * 8


def ring(ranks: int, steps: tuple[int, ...]) -> list[tuple[int, int]]:
    """(sender, receiver) of every message where each rank sends to those so many steps away."""
    return [(rank, (rank + step) % ranks) for rank in range(ranks) for step in steps]


@pytest.mark.parametrize(("nodes", "ppn"), [(2, 1), (2, 2), (2, 4), (3, 2), (4, 3)])
def test_bytes_between_nodes_are_those_whose_ends_differ(nodes, ppn):
    """Benchmarks with fixed partners, counted message by message, ranks filling nodes in blocks."""
    ranks = nodes * ppn
    half = ranks // 2
    patterns = {
        ("IMB-MPI1", "Sendrecv"): ring(ranks, (1,)),
        ("IMB-MPI1", "Exchange"): ring(ranks, (1, -1)),
        ("IMB-P2P", "SendRecv_Replace"): ring(ranks, (1,)),
        ("IMB-RMA", "Exchange_put"): ring(ranks, (1, -1)),
        ("IMB-MT", "SendRecvMT"): ring(ranks, (half,)),
        ("IMB-MPI1", "Alltoall"): ring(ranks, tuple(range(1, ranks))),
        ("IMB-RMA", "All_put_all"): ring(ranks, tuple(range(1, ranks))),
        ("IMB-MPI1", "Scatter"): [(0, rank) for rank in range(1, ranks)],
        ("IMB-RMA", "One_put_all"): [(0, rank) for rank in range(1, ranks)],
    }
    if ranks % 2 == 0:
        patterns["IMB-P2P", "PingPong"] = ring(ranks, (half,))
        patterns["IMB-MPI1", "Uniband"] = [(rank, rank + half) for rank in range(half) for _ in range(64)]
    for (binary, name), messages in patterns.items():
        between = sum(8 for sender, receiver in messages if sender // ppn != receiver // ppn)
        assert catalogue.find(binary, name).traffic_between(8, ranks, nodes) == between, name
        assert catalogue.find(binary, name).traffic_between(8, ranks, 1) == 8 * len(messages), name


@pytest.mark.parametrize(
    ("name", "bytes_per_repetition"),
    [
        ("Bcast", 1_000),  # one node tells the other, whose ranks pass it on
        ("Reduce", 1_000),
        ("Allreduce", 2_000),
        ("Allgather", 8_000),  # 4 contributions each way
        ("Gather", 4_000),
        ("Reduce_scatter", 1_000),
        ("Barrier", 0),
    ],
)
def test_bytes_between_two_nodes_of_four_ranks(name, bytes_per_repetition):
    assert catalogue.find("IMB-MPI1", name).traffic_between(1_000, 8, 2) == bytes_per_repetition


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.binary}-{row.name}")
def test_bytes_between_nodes_are_never_more_than_all(row):
    for nodes, ppn in ((1, 4), (2, 1), (2, 4), (8, 16)):
        assert 0 <= row.traffic_between(8, nodes * ppn, nodes) <= row.traffic(8, nodes * ppn)
