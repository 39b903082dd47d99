"""Below MPI, as a cascade: what the wire carries, and what the transport libraries under MPIs make
of it.
"""

import reframe as rfm

from reframe_tests.harness.cases.cascade.pair_test import PairTest, WireMapTest


@rfm.simple_test
class WireTcp(PairTest):
    """Bandwidth of TCP between two nodes (iperf3), on IP fabrics."""

    group = "wire_tcp"


@rfm.simple_test
class WireRdma(PairTest):
    """RDMA writes, reads and sends between two adapters (perftest)."""

    group = "wire_rdma"


@rfm.simple_test
class TransportUcx(PairTest):
    """Latency and bandwidth of UCX (ucx_perftest)."""

    group = "transport_ucx"


@rfm.simple_test
class TransportLibfabric(PairTest):
    """Latency of libfabric (fi_pingpong)."""

    group = "transport_libfabric"


@rfm.simple_test
class WireTcpMap(WireMapTest):
    """Bandwidth of TCP between all pairs of a job's nodes (iperf3), in rounds of disjoint pairs."""

    group = "wire_tcp"


@rfm.simple_test
class WireRdmaMap(WireMapTest):
    """Bandwidth of RDMA writes between all pairs of a job's nodes
    (perftest), in rounds of disjoint pairs.
    """

    group = "wire_rdma"
