"""Point to point: two ranks exchange messages of every size."""

import reframe as rfm

from reframe_tests.harness.fabric_test import FabricTest


@rfm.simple_test
class ImbPointToPoint(FabricTest):
    """PingPong and PingPing of IMB-MPI1."""

    group = "p2p"


@rfm.simple_test
class Mpi4pyPingPong(FabricTest):
    """Ping-pong of mpi4py.bench: the one instrument that runs on every stack without compiling."""

    group = "p2p_mpi4py"


@rfm.simple_test
class OsuPointToPoint(FabricTest):
    """Latency, bandwidth and bidirectional bandwidth of OSU, one pair of ranks."""

    group = "p2p_osu"
