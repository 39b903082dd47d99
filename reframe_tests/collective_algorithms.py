"""Algorithms of collectives, interleaved: what `mpibench tune` chooses from."""

import reframe as rfm

from reframe_tests.harness.sweep.sweep_test import AlgorithmTest


@rfm.simple_test
class CollectiveAlgorithms(AlgorithmTest):
    """Each algorithm of one collective, and what shows that it was taken."""

    group = "algorithms"
