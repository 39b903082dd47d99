"""What one node offers: its memory, near and far, and what several programs that share it get."""

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
