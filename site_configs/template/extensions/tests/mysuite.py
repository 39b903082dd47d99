"""The test of a suite of your own, to copy: without it the suite is never run.

Run it with ``reframe -c reframe_tests -c FOLDER/tests -r -n MysuiteRing``.
"""

import reframe as rfm

from reframe_tests.harness.cases.fabric_test import FabricTest


@rfm.simple_test
class MysuiteRing(FabricTest):
    """A message round all ranks."""

    group = "mysuite_ring"  # a group of suites/mysuite.py
