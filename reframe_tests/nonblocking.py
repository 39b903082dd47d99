"""Nonblocking collectives: how much of them a rank can compute meanwhile."""

import reframe as rfm

from reframe_tests.harness.fabric_test import FabricTest


@rfm.simple_test
class ImbNonblocking(FabricTest):
    """All nonblocking collectives of IMB-NBC, each with its overlap."""

    group = "nonblocking"
    nightly_pinning = "bunch"
