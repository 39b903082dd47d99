"""A mini-cluster for tests: of one test or shared by a folder, with leaf switches, with ReFrame on its
head as a user runs it, and taken down whatever happens.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import synthetic_tuning
from folders import write
from mpibench.store import sessions
from mpibench.store.sessions import Case
from mpibench_cluster import lifecycle, namespaces, packages, plan, slurm, state
from mpibench_cluster.plan import HEAD
from programs import begin, end_of, wait_for
from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH, LATENCY
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput
from synthetic_project import copy_checkout, last_cases
from synthetic_stack import sealed

# ---- A mini-cluster for tests: the real command, in a runtime directory of its own, taken down
# whatever happens.

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
        self.prefix = prefix
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
        return begin([*self.command, *words], self.environment["HOME"], self.environment)

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


# ---- A mini-cluster with leaf switches, and maps of its pairs as a user measures them.

WHERE = shlex.split(
    "-n PairMap%fabric=eth100m -p mpich-wheels --system=minicluster:eth100m -S orders=2"
)


def measure(cluster: LiveCluster, folder: Path, *options: str) -> Case:
    """The one case of a session."""
    (case,) = run(cluster, folder, *WHERE, *options, files=["parallel_transfer.py"]).measured
    assert case.pair_map is not None, case.reason
    return case


def bandwidths(case: Case) -> dict[tuple[str, str], float]:
    """The best of each direction of each pair, in MB/s: what a busy machine
    makes of it is never more than the link carries.
    """
    return {pair: max(values) for pair, values in _values(case, BANDWIDTH).items()}


def latencies(case: Case) -> dict[tuple[str, str], float]:
    """The least of each pair, in us."""
    return {pair: min(values) for pair, values in _values(case, LATENCY).items()}


def _values(case: Case, quantity: str) -> dict[tuple[str, str], list[float]]:
    assert case.pair_map is not None
    values_of: dict[tuple[str, str], list[float]] = {}
    for value in case.pair_map.rows():
        if value.quantity == quantity and value.value is not None:
            values_of.setdefault((value.source, value.target), []).append(value.value)
    return values_of


# ---- One mini-cluster for all tests that only use it: made whole after each of them, and a new
# one after one that broke it.

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
                self._refusal = unavailable(self._probe) or ""
            if self._refusal:
                pytest.skip(f"[cluster] no mini-cluster here: {self._refusal}")
            if self.ups:
                self.cluster("down")
            else:
                self._until_closed.enter_context(taken_down(self.cluster))
            self.cluster.good("up", "--share", str(self.folder))
            self.ups += 1
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
        running = [
            f"{name} (process {pid}) runs on {node}"
            for node, pid, name in self._strangers(snapshot)
        ]
        return [
            *(f"{node} {word}" for node, word in busy.items()),
            *queue.splitlines(),
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


# ---- ReFrame on the mini-cluster's head as a user runs it there, and its session as the database
# has it.

#: ReFrame on a shared, busy machine: seconds after which something hangs.
LIMIT_S = 900


@dataclass(frozen=True)
class Done:
    """One ReFrame run.

    :param status: exit status of ``reframe``.
    :param output: what it printed.
    :param folder: its prefix, with ``stage`` and ``output``.
    """

    status: int
    output: str
    folder: Path

    @property
    def session(self) -> sessions.Session:
        """The session as stored."""
        return sessions.read_session(self.folder / "results.db")

    @property
    def measured(self) -> list[sessions.Case]:
        """Cases that were not skipped."""
        return [case for case in self.session.cases if case.result != "skip"]


def run(
    cluster: LiveCluster,
    folder: Path,
    *options: str,
    files: Sequence[str] = ("point_to_point.py",),
    environ: dict[str, str] | None = None,
) -> Done:
    """Run the project's tests on the cluster.

    :param files: the test files to load; the others would cost time for nothing.
    :param folder: empty folder that all nodes see; stage, output and database go there.
    """
    folder.mkdir()
    words = reframe(ROOT, folder, files, "-S", "level=smoke", *options, environ=environ)
    done = cluster(*words, timeout_s=LIMIT_S)
    return Done(done.returncode, done.stdout + done.stderr, folder)


def reframe(
    top: Path,
    prefix: Path,
    files: Sequence[str],
    *options: str,
    environ: dict[str, str] | None = None,
) -> list[str]:
    """Sub-command that runs test files of a checkout on the head."""
    settings = {
        "RFM_CONFIG_FILES": f"{top}/site_configs/settings.py",
        "RFM_COLORIZE": "no",
        "RFM_PREFIX": prefix,
        "RFM_SQLITE_DB_FILE": prefix / "results.db",
        "RFM_SAVE_LOG_FILES": "no",
        **(environ or {}),
    }
    assignments = (f"{key}={value}" for key, value in settings.items())
    tests = (word for name in files for word in ("-c", f"{top}/reframe_tests/{name}"))
    program = str(Path(sys.executable).with_name("reframe"))
    return ["exec", "--", "env", *assignments, program, *tests, "--run", *options]


# ---- ReFrame on the head of a mini-cluster, with a checkout of its own: bundled systems, chosen
# stacks, results thrown away.

#: Name of the timestamped folder below stage and output, fixed so that a test knows it beforehand.
STAMP = "now"


class Box:
    """A checkout below ``top``, which the cluster shows on all its nodes,
    and ReFrame in it with the tests of two ranks.
    """

    def __init__(self, cluster: LiveCluster, top: Path, stacks: Iterable[Stack]) -> None:
        self.cluster = cluster
        self.top = top
        copy_checkout(top, stacks)

    def add_stack(self, document: dict[str, Any]) -> None:
        """Register a stack by its metadata."""
        path = self.top / "environments" / document["name"] / "stack.json"
        write(path, json.dumps(sealed(document)))

    def amend(self, text: str) -> None:
        """Append Python to the cluster's system.py; it may change ``system``
        and use ``by_name`` (partitions by name).
        """
        path = self.top / "site_configs" / "minicluster" / "system.py"
        known = 'by_name = {row["name"]: row for row in system["partitions"]}'
        path.write_text(f"{path.read_text()}\n{known}\n{text}\n")

    def keep_partitions(self, *names: str) -> None:
        """Leave only these partitions, in this order: cases run in it
        when they run one after the other.
        """
        self.amend(f'system["partitions"] = [by_name[name] for name in {names!r}]')

    @property
    def database(self) -> Path:
        """ReFrame's results database."""
        return self.top / "results" / "results.db"

    @property
    def stage(self) -> Path:
        """Stage directory of a session."""
        return self.top / "results" / "stage" / STAMP

    def begin(
        self, *options: str, names: str, system: str = "minicluster", level: str = "smoke"
    ) -> subprocess.Popen[str]:
        """Start a session on the cluster's head."""
        words = reframe(
            self.top,
            self.top / "results",
            ["point_to_point.py"],
            f"--system={system}",
            f"--timestamp={STAMP}",
            "-S",
            f"level={level}",
            "-n",
            names,
            *options,
        )
        return self.cluster.begin(*words)

    def run(
        self, *options: str, names: str, system: str = "minicluster", timeout_s: float = 400
    ) -> tuple[int, str]:
        """A whole session: exit status and output."""
        return end_of(self.begin(*options, names=names, system=system), timeout_s)

    def cases(self) -> dict[str, dict[str, Any]]:
        """Test cases of the last stored session, by partition and
        stack (``eth1g mpich-wheels``).
        """
        rows = last_cases(self.database)
        return {f"{case['partition']} {case['environ']}": case for case in rows}

    def sessions(self) -> int:
        """Number of stored sessions."""
        if not self.database.exists():
            return 0
        with sqlite3.connect(f"{self.database.as_uri()}?mode=ro", uri=True) as db:
            [(number,)] = db.execute("select count(*) from sessions").fetchall()
        return int(number)

    def files(self, partition: str, pattern: str) -> list[Path]:
        """Files below the stage directory of a partition's cases."""
        return sorted((self.stage / "minicluster" / partition).glob(f"*/*/{pattern}"))

    @staticmethod
    def command(*words: str) -> list[str]:
        """Command line of ``mpibench``."""
        return [sys.executable, "-c", synthetic_tuning.ENTRY, *words]

    def mpibench(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command, on this machine."""
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=180)
