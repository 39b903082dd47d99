"""Startup: how long ranks take to start and to initialise MPI."""

import reframe as rfm

from reframe_tests.harness.fabric_test import MaintenanceTest


@rfm.simple_test
class OsuStartup(MaintenanceTest):
    """Time in MPI_Init, and ranks that only say that they are there (OSU)."""

    group = "startup_osu"
