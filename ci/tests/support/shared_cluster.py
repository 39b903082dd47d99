"""One mini-cluster for all tests that only use it: made whole after each
of them, and a new one after one that broke it.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

import live_cluster
from live_cluster import LiveCluster
from mpibench_cluster import lifecycle, namespaces, slurm, state
from mpibench_cluster.plan import HEAD
from reframe_tests.harness.vocabulary import BadInput
from waiting import wait_for

#: Seconds for what ends by itself (a job's last steps), and for what had to be healed.
GRACE_S = 10.0
HEALING_S = 120.0


class SharedCluster:
    """The cluster, brought up when it is first wanted.

    :param top: folder for it; below it is ``folder``, which all nodes see.
    """

    def __init__(self, top: Path) -> None:
        self.folder = top / "shared"
        self.folder.mkdir()
        self.cluster = LiveCluster(top / "cluster")
        #: How often it was brought up.
        self.ups = 0
        self._whole = False
        self._usual: dict[str, dict[str, int]] = {}
        self._own: dict[str, set[str]] = {}
        self._probe = top / "probe"
        self._refusal: str | None = None
        self._until_closed = ExitStack()

    def take(self) -> LiveCluster:
        """The cluster, with nothing of other tests on it; the test is
        skipped, with the reason, where there can be none.
        """
        if not self._whole:
            if not self.ups and self._refusal is None:
                self._refusal = live_cluster.unavailable(self._probe) or ""
            if self._refusal:
                pytest.skip(f"[cluster] no mini-cluster here: {self._refusal}")
            if self.ups:
                self.cluster("down")
            else:
                self._until_closed.enter_context(live_cluster.taken_down(self.cluster))
            self.cluster.good("up", "--share", str(self.folder))
            self.ups += 1
            self._usual = self._mtus()
            snapshot = self.cluster.state()
            self._own = {
                node: set(namespaces.processes_of(init).values())
                for node, init in snapshot.nodes.items()
            }
            self._whole = True
        return self.cluster

    @contextmanager
    def lent(self) -> Iterator[LiveCluster]:
        """The cluster until somebody else may have it: ``take``, then ``restore``."""
        cluster = self.take()
        try:
            yield cluster
        finally:
            self.restore()

    def left(self) -> list[str]:
        """What a test has left of itself or broken; empty if everything is as it was brought up."""
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(state.RUNTIME_VARIABLE, str(self.cluster.runtime))
                if (there := lifecycle.look()).status:
                    return list(there.lines())
                snapshot = self.cluster.state()
                busy = {
                    node: word
                    for node, word in slurm.node_states(snapshot).items()
                    if word != "idle"
                }
                queue = namespaces.run(
                    snapshot,
                    snapshot.node_process(HEAD),
                    ["squeue", "--noheader", "-o", "job %i %T"],
                ).stdout
        except BadInput as error:
            return [str(error)]
        changed = [
            f"MTU of {node}: {mtus}"
            for node, mtus in self._mtus().items()
            if mtus != self._usual[node]
        ]
        running = [
            f"{name} (process {pid}) runs on {node}"
            for node, pid, name in self._strangers(snapshot)
        ]
        return [
            *(f"{node} {word}" for node, word in busy.items()),
            *queue.splitlines(),
            *changed,
            *running,
        ]

    def restore(self) -> None:
        """End jobs and programs that a test has left, heal faults, and see that this was all.

        :raises AssertionError: naming what is left. Who takes the cluster next gets a new one.
        """
        self._whole = False
        if not self.cluster.runtime.exists() or not self.cluster.state().init.alive:
            raise AssertionError("the cluster is gone")
        if self.cluster.state().faults or not wait_for(lambda: not self.left(), GRACE_S):
            self._heal()
            assert wait_for(lambda: not self.left(), HEALING_S), self.left()
        self._whole = True

    def close(self) -> None:
        """Take the cluster down."""
        self._until_closed.close()

    def _heal(self) -> None:
        # A stopped rank cannot be cancelled, and a cluster without its
        # daemons cancels nothing: healed first.
        cleared = self.cluster("fault", "clear")
        self.cluster("exec", "--", "scancel", "--me")
        for _, pid, _ in self._strangers(self.cluster.state()):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(pid, signal.SIGKILL)
        assert cleared.returncode == 0, cleared.stdout + cleared.stderr

    def _strangers(self, snapshot: state.State) -> list[tuple[str, int, str]]:
        """Node, process and name of what runs there and is none of the cluster's own."""
        return [
            (node, pid, name)
            for node, init in snapshot.nodes.items()
            for pid, name in namespaces.processes_of(init).items()
            if pid != init.pid and name not in self._own[node]
        ]

    def _mtus(self) -> dict[str, dict[str, int]]:
        """MTU of each interface of each node."""
        snapshot = self.cluster.state()
        shown = {
            node: namespaces.run(snapshot, init, ["ip", "-json", "link"]).stdout
            for node, init in snapshot.nodes.items()
        }
        return {
            node: {row["ifname"]: row["mtu"] for row in json.loads(text)}
            for node, text in shown.items()
        }
