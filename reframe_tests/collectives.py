"""Collectives: operations all ranks take part in."""

import reframe as rfm

from reframe_tests.harness.fabric_test import FabricTest


@rfm.simple_test
class ImbCollectives(FabricTest):
    """All blocking collectives of IMB-MPI1."""

    group = "collectives"


@rfm.simple_test
class OsuCollectives(FabricTest):
    """All blocking collectives of OSU."""

    group = "collectives_osu"
