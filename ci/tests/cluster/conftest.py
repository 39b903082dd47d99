"""The mini-cluster that the tests of a folder share: one worker gets them all (:mod:`lanes`)."""

import pytest

from live_cluster import Box, SharedCluster


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory):
    """For runs that several tests look at: ``with shared_cluster.lent() as cluster``."""
    made = SharedCluster(tmp_path_factory.mktemp("shared-cluster"))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def cluster(shared_cluster):
    """A healthy cluster with layout ``spread``, which nobody else
    uses; whatever a test breaks must heal.
    """
    with shared_cluster.lent() as lent:
        yield lent


@pytest.fixture
def mpich(require_stack):
    """The stack that is measured where any will do."""
    return require_stack("mpich-wheels")


@pytest.fixture
def visible(shared_cluster, cluster, request):
    """A folder of the test's own that all nodes see."""
    folder = shared_cluster.folder / f"{request.path.stem}-{request.node.name}"
    folder.mkdir()
    return folder


@pytest.fixture
def box(cluster, visible, mpich):
    """A checkout of its own with MPICH, on a healthy cluster."""
    return Box(cluster, visible, [mpich])
