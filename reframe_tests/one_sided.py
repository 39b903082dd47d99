"""One-sided communication: a rank writes and reads another's memory."""

import reframe as rfm

from reframe_tests.harness.fabric_test import FabricTest


@rfm.simple_test
class ImbOneSided(FabricTest):
    """Put, get and atomic operations of IMB-RMA with passive targets, between pairs and among all ranks."""

    group = "one_sided"
    nightly_pinning = "bunch"


@rfm.simple_test
class OsuOneSided(FabricTest):
    """Put and get of OSU: latency and bandwidth, one pair of ranks."""

    group = "one_sided_osu"
