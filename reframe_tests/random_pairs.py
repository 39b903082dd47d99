"""Random pairs: all ranks exchange messages with partners that change, and with neighbours on a grid."""

import reframe as rfm

from reframe_tests.harness.fabric_test import FabricTest


@rfm.simple_test
class ImbRandomPairs(FabricTest):
    """Pairs, random partners and stencils of IMB-P2P."""

    group = "p2p_pairs"
    nightly_pinning = "bunch"
