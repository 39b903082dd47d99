"""Startup: where the ranks are, and how long they take to start and to initialise MPI."""

import reframe as rfm

from reframe_tests.harness.cases.fabric_test import FabricTest, MaintenanceTest


@rfm.simple_test
class Placement(FabricTest):
    """Starts and ends all ranks once; the evidence is the result."""

    group = "placement"


@rfm.simple_test
class OsuStartup(MaintenanceTest):
    """Time in MPI_Init and of a whole launch, a point for each of the node counts (OSU)."""

    group = "startup_osu"
