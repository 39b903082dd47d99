"""Parallel transfer: all ranks send and receive at the same time, with the same partners or with others each time."""

import reframe as rfm

from reframe_tests.harness.fabric_test import FabricTest, MaintenanceTest


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
class OsuCongestion(MaintenanceTest):
    """Fan-in and fan-out of OSU: many nodes send to one, and one to many; on two nodes or more."""

    group = "congestion_osu"
