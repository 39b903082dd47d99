"""Preflight: is each node set as it should be, and as the others
are, before anything is measured on it?
"""

import reframe as rfm

from reframe_tests.harness.cases.preflight.node_test import NodeTest


@rfm.simple_test
class NodePreflight(NodeTest):
    """Reads the settings of each idle node once and names the odd ones out."""
