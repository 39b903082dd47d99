"""Point to point: two ranks exchange messages of every size."""

import reframe as rfm

from reframe_tests.harness.cases.fabric_test import FabricTest, MaintenanceTest


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


@rfm.simple_test
class OsuPersistentPairs(MaintenanceTest):
    """Latency, bandwidth and bidirectional bandwidth of OSU with
    persistent requests, one pair of ranks.
    """

    group = "p2p_persistent_osu"


@rfm.simple_test
class OsuPartitioned(MaintenanceTest):
    """Messages in parts between one pair of ranks (OSU, MPI 4)."""

    group = "partitioned_osu"


@rfm.simple_test
class ImbMessageSources(MaintenanceTest):
    """PingPong and PingPing of IMB-MPI1, received from a named or from any source."""

    group = "p2p_sources"
