"""Placement: where the ranks really are, for every pinning policy; nothing is timed."""

import reframe as rfm

from reframe_tests.harness.fabric_test import FabricTest


@rfm.simple_test
class Placement(FabricTest):
    """Starts and ends all ranks once; the evidence is the result."""

    group = "placement"
