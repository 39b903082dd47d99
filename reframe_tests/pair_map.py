"""Pairs of nodes: which node, cable or switch is slow."""

import reframe as rfm

from reframe_tests.harness.pair_map.map_test import MapTest


@rfm.simple_test
class PairMap(MapTest):
    """Latency and bandwidth between all nodes of a job, or a sample of pairs, in rounds of disjoint pairs."""

    group = "pair_map"
