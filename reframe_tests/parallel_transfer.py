"""Parallel transfer: all ranks send and receive at once, with fixed or changing partners."""

import reframe as rfm

from reframe_tests.harness.cases.fabric_test import FabricTest, MaintenanceTest
from reframe_tests.harness.cases.pair_map.map_test import MapTest, TurnTest


@rfm.simple_test
class ImbParallelTransfer(FabricTest):
    """Sendrecv, Exchange, Uniband and Biband of IMB-MPI1."""

    group = "transfer"


@rfm.simple_test
class ImbRandomPairs(FabricTest):
    """Pairs, random partners and stencils of IMB-P2P."""

    group = "p2p_pairs"
    nightly_pinning = "bunch"


@rfm.simple_test
class OsuParallelTransfer(FabricTest):
    """Latency, bandwidth and message rate of OSU, all pairs of ranks at the same time."""

    group = "transfer_osu"


@rfm.simple_test
class Bisection(MaintenanceTest):
    """Streams between two halves of all nodes, paired across switches where these are known."""

    group = "bisection"
    choose_counts = staticmethod(lambda counts: counts[-1:])


@rfm.simple_test
class LoadedLatency(MaintenanceTest):
    """Latency between pairs of nodes, alone and while their other ranks stream, from two nodes with
    two ranks each on; from four nodes on also while other nodes stream, by where these are.
    """

    group = "loaded_latency"


@rfm.simple_test
class GpcnetRings(MaintenanceTest):
    """Random and natural rings, Allreduce and Alltoall of GPCNeT
    over all nodes of the job, mean and tail.
    """

    group = "gpcnet"
    #: Eight tests of up to ten seconds each, whatever the level.
    limit_s = 600


@rfm.simple_test
class GpcnetCongestion(MaintenanceTest):
    """Latency, bandwidth and Allreduce of GPCNeT on a fifth of the nodes,
    alone and while all others cause congestion.
    """

    group = "gpcnet_congestion"
    choose_counts = staticmethod(lambda counts: counts[-1:])
    #: As above, and with congestors until the last test has ended.
    limit_s = 1800


@rfm.simple_test
class OsuCongestion(MaintenanceTest):
    """Fan-in and fan-out of OSU: many nodes send to one, and one to many; on two nodes or more."""

    group = "congestion_osu"


@rfm.simple_test
class PairMap(MapTest):
    """Latency and bandwidth between all nodes of a job, or a sample
    of pairs, in rounds of disjoint pairs.
    """

    group = "pair_map"


@rfm.simple_test
class PairTurn(TurnTest):
    """A part of the pairs of nodes each night, continued the next night: a map that takes up to a
    month of nights.
    """

    group = "pair_map"
