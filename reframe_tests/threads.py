"""Threads: several threads of each rank communicate at the same time."""

import reframe as rfm
from reframe.core.builtins import parameter

from reframe_tests.harness.fabric_test import FabricTest, MaintenanceTest
from reframe_tests.harness.job import parameters


@rfm.simple_test
class ImbThreads(FabricTest):
    """Point to point and collectives of IMB-MT, two threads a rank."""

    group = "threads"
    #: A policy that names one core per rank would make its threads wait for each other.
    nightly_pinning = "none"


@rfm.simple_test
class OsuThreads(MaintenanceTest):
    """Latency of OSU between one pair of ranks, each with threads or processes."""

    group = "threads_osu"
    #: As above: on one core they would wait for each other.
    pinning = parameter(parameters.usual_policy_of_system("none"), type=str, loggable=True)
