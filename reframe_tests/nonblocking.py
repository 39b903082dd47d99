"""Nonblocking collectives: how much of them a rank can compute meanwhile."""

import reframe as rfm

from reframe_tests.harness.fabric_test import FabricTest, MaintenanceTest


@rfm.simple_test
class ImbNonblocking(FabricTest):
    """All nonblocking collectives of IMB-NBC, each with its overlap."""

    group = "nonblocking"
    nightly_pinning = "bunch"


@rfm.simple_test
class OsuNonblocking(MaintenanceTest):
    """All nonblocking collectives of OSU, each with its overlap."""

    group = "nonblocking_osu"


@rfm.simple_test
class ImbNonblockingPure(MaintenanceTest):
    """All nonblocking collectives of IMB-NBC without computation: the call and its completion alone."""

    group = "nonblocking_pure"
