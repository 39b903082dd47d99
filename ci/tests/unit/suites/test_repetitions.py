"""Repetitions follow what a link can carry: whole curves everywhere, in seconds on any fabric."""

import pytest

from reframe_tests.harness.suites import catalogue


@pytest.mark.parametrize(
    ("name", "ranks", "nodes", "carried"),
    [
        ("PingPong", 2, 2, 2),
        ("Exchange", 2, 2, 4),
        ("Biband", 2, 2, 128),
        ("Uniband", 4, 2, 128),  # every rank of a node has a window of its own
        ("Alltoall", 4, 2, 8),
        ("Sendrecv", 8, 8, 2),  # links of other nodes work at the same time
        ("Barrier", 4, 2, 0),
    ],
)
def test_bytes_on_a_link_are_those_of_the_benchmark(name, ranks, nodes, carried):
    assert catalogue.find("IMB-MPI1", name).link_bytes(ranks, nodes) == carried
