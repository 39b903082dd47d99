"""Collectives: operations in which all ranks take part; blocking, nonblocking (with overlapped
computation), persistent.
"""

import reframe as rfm
from reframe.core.builtins import parameter

from reframe_tests.harness.cases.fabric_test import FabricTest, MaintenanceTest
from reframe_tests.harness.cases.sweep.sweep_test import AlgorithmTest


@rfm.simple_test
class ImbCollectives(FabricTest):
    """All blocking collectives of IMB-MPI1."""

    group = "collectives"


@rfm.simple_test
class OsuCollectives(FabricTest):
    """All blocking collectives of OSU."""

    group = "collectives_osu"


class _AllreduceAlltoall(MaintenanceTest):
    #: All cores of a node, and where messages are in GPU memory these.
    ppn = parameter(
        inherit_params=True,
        filter_params=lambda symbols: [
            symbol for symbol in symbols if symbol in ("gpu", symbols[-1])
        ],
        type=str,
        loggable=True,
    )


@rfm.simple_test
class ImbAllreduceAlltoall(_AllreduceAlltoall):
    """Allreduce and Alltoall of IMB-MPI1: what a night asks of
    collectives where it has no time for all.
    """

    group = "allreduce_alltoall"


@rfm.simple_test
class OsuAllreduceAlltoall(_AllreduceAlltoall):
    """Allreduce and Alltoall of OSU, likewise."""

    group = "allreduce_alltoall_osu"


@rfm.simple_test
class OsuNeighbourhood(MaintenanceTest):
    """Neighbourhood collectives of OSU on a ring, blocking and nonblocking."""

    group = "neighbourhood_osu"


@rfm.simple_test
class OsuPersistentCollectives(MaintenanceTest):
    """Persistent collectives of OSU (MPI 4)."""

    group = "persistent_osu"


@rfm.simple_test
class ImbPersistentCollectives(MaintenanceTest):
    """All persistent collectives of IMB-MPI4, each with its overlap."""

    group = "persistent"


@rfm.simple_test
class ImbNonblocking(FabricTest):
    """All nonblocking collectives of IMB-NBC, each with its overlap."""

    group = "nonblocking"
    nightly_pinning = "bunch"


@rfm.simple_test
class OsuNonblocking(MaintenanceTest):
    """All nonblocking collectives of OSU, each with its overlap."""

    group = "nonblocking_osu"


@rfm.simple_test
class ImbNonblockingPure(MaintenanceTest):
    """All nonblocking collectives of IMB-NBC without computation:
    the call and its completion alone.
    """

    group = "nonblocking_pure"


@rfm.simple_test
class WholeMachine(MaintenanceTest):
    """Barrier and small collectives on 2, 4, 8, ... nodes up to all of the
    job, with percentiles and growth over log2.
    """

    group = "growth"
    choose_counts = staticmethod(lambda counts: counts[-1:])


@rfm.simple_test
class CollectiveAlgorithms(AlgorithmTest):
    """Each algorithm of one collective, interleaved in one job, and what
    shows that it was taken: what `mpibench tune` asks.
    """

    group = "algorithms"
