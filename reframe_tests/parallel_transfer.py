"""Parallel transfer: all ranks send and receive at the same time."""

import reframe as rfm

from reframe_tests.harness.fabric_test import FabricTest


@rfm.simple_test
class ParallelTransfer(FabricTest):
    """Sendrecv, Exchange, Uniband and Biband of IMB-MPI1."""

    group = "transfer"
