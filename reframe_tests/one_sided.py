"""One-sided communication: a rank writes and reads another's memory."""

import reframe as rfm

from reframe_tests.harness.cases.fabric_test import FabricTest, MaintenanceTest


@rfm.simple_test
class ImbOneSided(FabricTest):
    """Put, get and atomic operations of IMB-RMA with passive
    targets, between pairs and among all ranks.
    """

    group = "one_sided"
    nightly_pinning = "bunch"


@rfm.simple_test
class OsuOneSided(FabricTest):
    """Put and get of OSU: latency and bandwidth, one pair of ranks."""

    group = "one_sided_osu"


@rfm.simple_test
class OsuAtomics(MaintenanceTest):
    """Accumulating and atomic operations of OSU, and puts both ways, one pair of ranks."""

    group = "atomics_osu"


@rfm.simple_test
class ImbLocalCompletion(MaintenanceTest):
    """Put and get of IMB-RMA until they are complete at the origin."""

    group = "one_sided_local"


@rfm.simple_test
class ImbActiveTarget(MaintenanceTest):
    """One-sided communication of IMB-EXT between fences, and the making of windows."""

    group = "active_target"
