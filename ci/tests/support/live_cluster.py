"""A mini-cluster for tests: the real command, in a runtime
directory of its own, taken down whatever happens.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mpibench_cluster import namespaces, packages, plan, state
from reframe_tests.harness.vocabulary import BadInput

#: What `mpibench cluster` does, without the other commands' imports.
ENTRY = (
    "import sys; from mpibench.cli import main; from mpibench_cluster.commands import app; "
    "sys.exit(main(run=app))"
)
#: Does it once its standard input has ended: when who holds the other end closes it, or is killed.
DELAYED = f"import sys; sys.stdin.read(); {ENTRY}"
#: Sends argv[2] MiB to host argv[1] (or receives, without arguments) and prints MB/s from the first
#: byte until the receiver says that it has the last one: a process that waits for a core can only
#: make that slower.
STREAM = """
import socket, sys, time
if len(sys.argv) == 1:
    with socket.create_server(("", 7000)) as server:
        link, _ = server.accept()
        while link.recv(1 << 20):
            pass
        link.sendall(b"!")
else:
    for _ in range(3000):
        try:
            link = socket.create_connection((sys.argv[1], 7000), timeout=60)
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    size, first = int(sys.argv[2]) << 20, time.monotonic()
    link.sendall(bytes(size))
    link.shutdown(socket.SHUT_WR)
    assert link.recv(1) == b"!"
    print(size / (time.monotonic() - first) / 1e6)
"""


class LiveCluster:
    """The command in one runtime directory."""

    def __init__(
        self, runtime: Path, prefix: Sequence[str] = (), environment: dict[str, str] | None = None
    ) -> None:
        self.runtime = runtime
        self.python = sys.executable
        self.prefix = list(prefix)
        self.environment = {
            **os.environ,
            state.RUNTIME_VARIABLE: str(runtime),
            **(environment or {}),
        }

    @property
    def command(self) -> list[str]:
        """Command line up to the sub-command."""
        return [*self.prefix, self.python, "-c", ENTRY]

    def __call__(self, *words: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a sub-command and wait for it."""
        return subprocess.run(
            [*self.command, *words],
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=timeout_s,
            cwd=self.environment["HOME"],
        )

    def good(self, *words: str) -> str:
        """Output of a sub-command that must succeed."""
        done = self(*words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def on(self, node: str, *words: str) -> str:
        """Output of a program on a node that must succeed."""
        return self.good("exec", "--node", node, "--", *words)

    def ask(self, *words: str) -> str:
        """Output of a tool on the head that must succeed, without the start of
        a command: for what is asked again and again.
        """
        snapshot = self.state()
        done = namespaces.run(snapshot, snapshot.node_process(plan.HEAD), words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Start a sub-command."""
        return subprocess.Popen(
            [*self.command, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            cwd=self.environment["HOME"],
        )

    def state(self) -> state.State:
        """The state file, as the user sees it whose cluster it is: nobody else believes it."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(state.RUNTIME_VARIABLE, str(self.runtime))
            owner = self.runtime.stat().st_uid
            patch.setattr(os, "getuid", lambda: owner)
            snapshot = state.load()
        assert snapshot is not None
        return snapshot

    def shown(self) -> dict[str, Any]:
        """What a node's site description is made of (``slurm.node_json``)."""
        shown: dict[str, Any] = json.loads(self.on(plan.HEAD, "cat", "/etc/mpibench/node.json"))
        return shown

    def stream(self, fabric: str, mib: int = 32) -> float:
        """MB/s of one TCP stream from c1 to c2 over a fabric; at most what
        the link carries, on a busy machine less.
        """
        receiver = self.begin("exec", "--node", "c2", "--", self.python, "-c", STREAM)
        rate = float(self.on("c1", self.python, "-c", STREAM, f"c2-{fabric}", str(mib)))
        out, _ = receiver.communicate(timeout=120)
        assert receiver.returncode == 0, out
        return rate

    def reaches(self, fabric: str, mb_per_s: float, mib: int = 32) -> float:
        """The first of five streams that is faster than that, else the
        fastest: other programs may slow some down.
        """
        rates: list[float] = []
        while len(rates) < 5 and (not rates or rates[-1] <= mb_per_s):
            rates.append(self.stream(fabric, mib))
        return max(rates)


def unavailable(tmp: Path) -> str | None:
    """Why this machine cannot carry a cluster, or ``None``: no Slurm to
    be had, or namespaces and mounts refused.
    """
    from mpibench_cluster import kernel

    try:
        packages.provide(print)
        (tmp / "etc").mkdir(parents=True)
        _, lifeline = namespaces.create_cluster(
            tmp / "etc", None, not kernel.privileged(), tmp / "log"
        )
    except BadInput as error:
        return str(error)
    os.close(lifeline)
    return None


@contextmanager
def taken_down(cluster: LiveCluster) -> Iterator[None]:
    """Afterwards the cluster is down; also when this process is killed, as an interrupted
    pytest-xdist kills its workers.
    """
    watcher = subprocess.Popen(
        [*cluster.prefix, cluster.python, "-c", DELAYED, "down"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=cluster.environment,
        cwd=cluster.environment["HOME"],
        start_new_session=True,
    )
    assert watcher.stdin is not None
    try:
        yield
    finally:
        watcher.stdin.close()
        watcher.wait(300)


@contextmanager
def running(tmp: Path, *options: str) -> Iterator[LiveCluster]:
    """A cluster that is up; the test is skipped, with the reason, where there can be none."""
    if reason := unavailable(tmp / "probe"):
        pytest.skip(f"[cluster] no mini-cluster here: {reason}")
    cluster = LiveCluster(tmp / "cluster")
    with taken_down(cluster):
        cluster.good("up", *options)
        yield cluster
