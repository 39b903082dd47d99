"""Threads: several threads of each rank communicate at the same time."""

import reframe as rfm

from reframe_tests.harness.cases.fabric_test import FabricTest, UnboundMaintenanceTest


@rfm.simple_test
class ImbThreads(FabricTest):
    """Point to point and collectives of IMB-MT, two threads a rank."""

    group = "threads"
    #: A policy that names one core per rank would make its threads wait for each other.
    nightly_pinning = "none"


@rfm.simple_test
class OsuThreads(UnboundMaintenanceTest):
    """Latency of OSU between one pair of ranks, each with threads or processes."""

    group = "threads_osu"
