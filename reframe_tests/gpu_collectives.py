"""Collectives between GPU memories, with NCCL or RCCL."""

import reframe as rfm

from reframe_tests.harness.cases.fabric_test import FabricTest


@rfm.simple_test
class NcclCollectives(FabricTest):
    """All-reduce, all-gather, reduce-scatter, all-to-all and broadcast
    of nccl-tests, one process for each GPU.
    """

    group = "nccl"


@rfm.simple_test
class NcclSendRecv(FabricTest):
    """Each GPU sends to the next one (nccl-tests sendrecv)."""

    group = "nccl_pairs"
