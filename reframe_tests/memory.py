"""Memory: what a node reads and writes of its own memory, near and far, and what the page cache takes of that."""

import reframe as rfm

from reframe_tests.harness.memory.memory_test import MemoryTest


@rfm.simple_test
class Stream(MemoryTest):
    """Copy, scale, add and triad of STREAM on all cores of a node."""

    group = "memory"
