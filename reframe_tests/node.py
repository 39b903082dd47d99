"""What one node gives: its memory, near and far, and what it
leaves to several programs that share it.
"""

import reframe as rfm

from reframe_tests.harness.cases.memory.memory_test import MemoryTest
from reframe_tests.harness.cases.sharing.sharing_test import SharingTest


@rfm.simple_test
class Stream(MemoryTest):
    """Copy, scale, add and triad of STREAM on all cores of a node."""

    group = "memory"


@rfm.simple_test
class NodeSharing(SharingTest):
    """Several MPI programs side by side on one node, each alone and
    beside the others, pinned apart or unaware.
    """

    group = "sharing"
