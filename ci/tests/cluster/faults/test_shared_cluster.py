"""The cluster that tests share: whole again after whatever a test left, and a new one after a test that broke it."""

from __future__ import annotations

import os
import signal

import pytest

import shared_cluster as sharing
from live_cluster import wait_for
from mpibench.cluster import namespaces
from mpibench.cluster.plan import HEAD
from shared_cluster import SharedCluster


def test_what_a_test_left_goes(shared_cluster: SharedCluster) -> None:
    cluster = shared_cluster.take()
    ups, before = shared_cluster.ups, cluster.state().init
    cluster.on(HEAD, "sbatch", "--parsable", "-N2", "-o/dev/null", "--wrap", "srun sleep 1000")
    cluster.on("c1", "sh", "-c", "nohup sleep 2000 >/dev/null 2>&1 &")
    nodes = cluster.state().nodes
    assert wait_for(lambda: "sleep" in namespaces.processes_of(nodes["c2"]).values())
    left = shared_cluster.left()
    assert {"c1 allocated", "c2 allocated"} <= set(left)
    assert any(line.startswith("job ") and line.endswith(" RUNNING") for line in left)
    assert any(line.startswith("sleep (process ") and line.endswith(" runs on c1") for line in left)
    cluster.good("fault", "link-down", "c2", "eth1g")
    assert "fault in force: link-down c2 eth1g" in shared_cluster.left()
    shared_cluster.restore()
    assert shared_cluster.left() == []
    assert (shared_cluster.take().state().init, shared_cluster.ups) == (before, ups)


def test_after_a_test_that_broke_it_there_is_a_new_one(shared_cluster: SharedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "GRACE_S", 1.0)
    monkeypatch.setattr(sharing, "HEALING_S", 1.0)
    cluster = shared_cluster.take()
    ups = shared_cluster.ups
    cluster.on("c2", "ip", "link", "set", "eth10g", "mtu", "1400")
    with pytest.raises(AssertionError, match=r"MTU of c2: .*'eth10g': 1400"):
        shared_cluster.restore()
    os.kill(cluster.state().init.pid, signal.SIGKILL)
    assert wait_for(lambda: not cluster.state().init.alive)
    with pytest.raises(AssertionError, match="the cluster is gone"):
        shared_cluster.restore()
    assert sorted(shared_cluster.take().on(HEAD, "srun", "-N", "2", "hostname").split()) == ["c1", "c2"]
    assert shared_cluster.ups == ups + 1
    assert wait_for(lambda: shared_cluster.left() == [])
