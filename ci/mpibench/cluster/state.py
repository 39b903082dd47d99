"""What is up: one runtime directory with a state file, configuration and logs. Removed by ``down``.

A process is remembered with its start time, so that another one that got the same number later is never touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reframe_tests.harness.vocabulary import BadInput

from .plan import Plan

#: Overrides the place of the runtime directory.
RUNTIME_VARIABLE = "MPIBENCH_CLUSTER_DIR"
#: Lies over ``/etc`` on every node.
_NODE_MARK = Path("/etc/mpibench/node.json")
_STATE_FILE = "state.json"


@dataclass(frozen=True)
class Process:
    """A process that is still the same one.

    :param pid: process id as seen from where the command runs.
    :param start_ticks: start time in clock ticks after boot (``proc(5)``, field 22 of ``/proc/<pid>/stat``).
    """

    pid: int
    start_ticks: int

    @classmethod
    def observe(cls, pid: int) -> Process | None:
        """The process of this number as it is now; ``None`` if there is none, or only its corpse."""
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        # The name, in parentheses, may hold anything.
        fields = text[text.rindex(")") + 2 :].split()
        return None if fields[0] in "ZX" else cls(pid, int(fields[19]))

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return Process.observe(self.pid) == self

    @property
    def pid_in_parent(self) -> int:
        """Process id of a namespace's process 1 in the namespace around it (``proc(5)``, ``NSpid`` of ``status``).

        :raises OSError: if the process is gone.
        """
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[-2]) for line in lines if line.startswith("NSpid:"))


@dataclass
class State:
    """The cluster as it was brought up.

    :param init: the cluster's init; everything dies with it.
    :param nodes: init of each node, by node name.
    :param ready: false until ``up`` has finished.
    :param package_root: unpacked packages that lie over ``/usr``, or none where the host has its own Slurm.
    :param own_user: whether the cluster has its own user namespace (it was brought up without root).
    :param faults: faults in force, oldest first; each holds its ``name`` and what healing needs.
    """

    plan: Plan
    init: Process
    package_root: str | None
    own_user: bool
    nodes: dict[str, Process] = field(default_factory=dict)
    ready: bool = False
    faults: list[dict[str, Any]] = field(default_factory=list)

    def node_process(self, name: str) -> Process:
        """Init of a node that is alive.

        :raises BadInput: if the node is unknown or dead.
        """
        self.plan.node(name)
        process = self.nodes.get(name)
        if process is None or not process.alive:
            raise BadInput(f"node {name} is dead; 'mpibench cluster fault heal' brings it back.")
        return process


def expect_host() -> None:
    """Refuse to work from inside: a node sees the runtime directory, but not the processes it tells of.

    :raises BadInput: on a node of a cluster.
    """
    if _NODE_MARK.exists():
        raise BadInput("this is a node of the cluster; run 'mpibench cluster' on the machine that carries it.")


def runtime_dir() -> Path:
    """Where state, configuration and logs live: ``$MPIBENCH_CLUSTER_DIR``, else below ``$XDG_RUNTIME_DIR`` or ``/tmp``."""
    if named := os.environ.get(RUNTIME_VARIABLE):
        return Path(named).absolute()
    if base := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(base).absolute() / "mpibench-cluster"
    return Path(tempfile.gettempdir()).absolute() / f"mpibench-cluster-{os.getuid()}"


def _directory(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise BadInput(
            f"{path} is not a directory of yours that only you can write to; remove it or set {RUNTIME_VARIABLE} to another."
        )


@contextlib.contextmanager
def locked() -> Iterator[Path]:
    """The runtime directory, made if missing and locked against other commands that change the cluster.

    :raises BadInput: if it belongs to someone else, or another command holds it.
    """
    expect_host()
    path = runtime_dir()
    while True:
        _directory(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise BadInput(f"another mpibench cluster command is at work in {path}; wait until it ends.") from None
        # Another command's `down` may have removed the directory between making and locking it.
        if path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino:
            break
        os.close(descriptor)
    try:
        yield path
    finally:
        os.close(descriptor)


def remove() -> None:
    """Remove the runtime directory with all in it."""
    shutil.rmtree(runtime_dir(), ignore_errors=True)


def forget() -> None:
    """Remove the state file only, so that logs can be read until ``down``."""
    (runtime_dir() / _STATE_FILE).unlink(missing_ok=True)


def save(state: State) -> None:
    """Write the state file at once or not at all."""
    path = runtime_dir() / _STATE_FILE
    row = {**asdict(state), "plan": state.plan.as_dict()}
    scratch = path.with_suffix(".new")
    scratch.write_text(json.dumps(row, indent=1))
    scratch.replace(path)


def load() -> State | None:
    """The state file's content, or ``None`` if there is none."""
    try:
        row = json.loads((runtime_dir() / _STATE_FILE).read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise BadInput(
            f"{runtime_dir() / _STATE_FILE} is damaged ({error}); remove it, then run 'mpibench cluster down'."
        ) from None
    row["plan"] = Plan.from_dict(row["plan"])
    row["init"] = Process(**row["init"])
    row["nodes"] = {name: Process(**process) for name, process in row["nodes"].items()}
    return State(**row)


def running() -> State:
    """The state of a cluster that is up.

    :raises BadInput: if none is.
    """
    expect_host()
    state = load()
    if state is None or not state.init.alive:
        raise BadInput("the cluster is not up; bring it up with 'mpibench cluster up'.")
    if not state.ready:
        raise BadInput("the cluster did not come up completely; run 'mpibench cluster down', then 'mpibench cluster up'.")
    return state
