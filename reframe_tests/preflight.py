"""Preflight: before anything is measured, is each node configured as it should be, and like the
others?
"""

import reframe as rfm

from reframe_tests.harness.cases.preflight.node_test import NodeTest


@rfm.simple_test
class NodePreflight(NodeTest):
    """Reads the settings of each idle node once and names the odd ones out."""
