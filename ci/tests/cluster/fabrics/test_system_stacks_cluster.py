"""Debian's Open MPI and MPICH on the mini-cluster: measured with
proof, and another network is noticed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import synthetic_stack
from live_cluster import LiveCluster, SharedCluster
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from synthetic_project import outcome


@pytest.fixture(scope="module")
def place(shared_cluster: SharedCluster) -> Path:
    """Folder the stacks are registered in, and that the nodes of a cluster can see."""
    made = shared_cluster.folder / "system"
    made.mkdir()
    return made


@pytest.fixture(scope="module")
def registered(place: Path, require_stack: Callable[[str], Stack]) -> dict[str, Stack]:
    """Both MPIs, registered as a site would; MPICH runs the IMB of the Intel wheel."""
    imb = require_stack("intelmpi-wheels")
    if reason := synthetic_stack.missing():
        pytest.skip(f"[host-mpi] {reason}")
    return synthetic_stack.register_debian(place, {imb.abi: [Path(imb.prefix, "bin")]})


@pytest.fixture
def there(
    cluster: LiveCluster, place: Path, registered: dict[str, Stack], visible: Path
) -> LiveCluster:
    """The cluster for a user who has both registered."""
    settings = {
        metadata.EXTRA_STACKS: synthetic_stack.named(place),
        "RFM_COLORIZE": "no",
        "RFM_PREFIX": str(visible),
    }
    return LiveCluster(cluster.runtime, environment=settings)


def run_there(cluster: LiveCluster, root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """ReFrame on the cluster's head."""
    reframe = Path(cluster.python).parent / "reframe"
    words = ("-r", "-S", "level=smoke", "-S", "repeats=1", "-S", "limit_s=60", *options)
    tests = root / "reframe_tests" / "point_to_point.py"
    settings = f"RFM_CONFIG_FILES={root / 'site_configs' / 'settings.py'}"
    return cluster(
        "exec", "--", "env", settings, str(reframe), "-c", str(tests), *words, timeout_s=500
    )


def test_both_are_measured_with_proof(there: LiveCluster, root: Path) -> None:
    """Between nodes, by srun and by their own mpirun; inside a node is a test of the lane mpi."""
    pattern = "Mpi4pyPingPong%fabric=eth1g%nodes=2%ppn=1%pinning=default"
    words = ("--system=minicluster", "-p", "(openmpi|mpich)-debian", "-n", pattern)
    for _ in range(synthetic_stack.MOST_STARTS):
        done = run_there(there, root, *words)
        if synthetic_stack.HUNG not in done.stdout:
            break
    said = done.stdout + done.stderr
    # What a link reaches while others use the cores is not a test; whatever else may fail here is.
    rates = said.count("test failed during 'performance'")
    assert said.count("test failed during") == rates, said
    assert outcome(done) == {"ran": 2 * 2, "failed": rates, "aborted": 0}, said
    assert done.returncode == int(rates > 0), said
