"""Cross-check: two suites measure the same link, interleaved; do they agree?"""

import reframe as rfm

from reframe_tests.harness.fabric_test import FabricTest


@rfm.simple_test
class CrossCheck(FabricTest):
    """Latency, bandwidth and bidirectional bandwidth of OSU over those of IMB."""

    group = "cross_check"
    #: Six are the fewest that give an interval of 95 % (``agreement``).
    repeats = 6
