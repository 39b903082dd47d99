"""Congestion: many nodes send to one, and one to many."""

import reframe as rfm

from reframe_tests.harness.fabric_test import MaintenanceTest


@rfm.simple_test
class OsuCongestion(MaintenanceTest):
    """Fan-in and fan-out of OSU; on two nodes or more."""

    group = "congestion_osu"
