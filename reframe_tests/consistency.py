"""Consistency: do two suites agree on one link, and is each collective call at least as fast as an
equivalent one?
"""

import reframe as rfm
from reframe.core.builtins import parameter

from reframe_tests.harness.cases.fabric_test import FabricTest


@rfm.simple_test
class CrossCheck(FabricTest):
    """Latency, bandwidth and bidirectional bandwidth of OSU over those of IMB."""

    group = "cross_check"
    #: Six are the fewest that give an interval of 95 % (``agreement``).
    repeats = 6


@rfm.simple_test
class Guidelines(FabricTest):
    """Each call against its mock-ups, interleaved in one program, once
    per stack and fabric: all cores of most nodes.
    """

    group = "guidelines"
    nightly = False
    #: Six give an interval of use for each of some two hundred ratios.
    repeats = 6
    choose_counts = staticmethod(lambda counts: counts[-1:])
    ppn = parameter(
        inherit_params=True, filter_params=lambda symbols: symbols[-1:], type=str, loggable=True
    )
    pinning = parameter(
        inherit_params=True,
        filter_params=lambda policies: (
            [policy for policy in policies if policy == "bunch"] or policies[:1]
        ),
        type=str,
        loggable=True,
    )
