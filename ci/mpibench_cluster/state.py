"""What is up: one runtime directory with a state file, configuration and logs. Removed by ``down``.

The state file says which processes' namespaces are entered, which for root means: what runs as
root. It is believed only in a directory and a file that belong to the caller and that nobody else
can write to, and only about inits that the caller started. A process is remembered with its start
time, so that another one that got the same number later is never touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mpibench import whole_file
from reframe_tests.harness.process_stat import Process
from reframe_tests.harness.vocabulary import BadInput

from .plan import ClusterPlan

#: Overrides the place of the runtime directory.
RUNTIME_VARIABLE = "MPIBENCH_CLUSTER_DIR"
#: Lies over ``/etc`` on every node.
_NODE_MARK = Path("/etc/mpibench/node.json")
#: Name of the cluster's init in the process table; a node's is
#: ``mc-`` and its name (:func:`init_name`).
INIT = "mc-init"
#: Directories of the runtime directory: what lies over the nodes'
#: ``/etc``, logs, and the files of the clock fault.
ETC = "etc"
LOG = "log"
CLOCK = "clock"
#: Says that a directory is a cluster's runtime directory; without
#: it nothing there is written or removed.
MARK = ".mpibench-cluster"
_STATE_FILE = "state.json"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass
class State:
    """The cluster as it was brought up.

    :param init: the cluster's init; everything dies with it.
    :param own_user: whether the cluster has its own user namespace
        (it was brought up without root).
    :param nodes: init of each node, by node name.
    :param ready: false until ``up`` has finished.
    :param faults: faults in force, oldest first; each holds its ``name``, the ``words`` it was
        requested with, ``what`` it is made on, and what undoing it needs.
    """

    plan: ClusterPlan
    init: Process
    own_user: bool
    nodes: dict[str, Process] = field(default_factory=dict)
    ready: bool = False
    faults: list[dict[str, Any]] = field(default_factory=list)

    def node_process(self, name: str) -> Process:
        """Init of a node that is alive."""
        self.plan.node(name)
        process = self.nodes.get(name)
        if process is None or not process.alive:
            raise BadInput(
                "cluster-not-ready",
                f"node {name} is dead; 'mpibench cluster fault clear' brings it back.",
            )
        return process


def expect_host() -> None:
    """Refuse to work from inside: a node sees the runtime
    directory, but not the processes it names.
    """
    if _NODE_MARK.exists():
        raise BadInput(
            "not-ours",
            "this is a node of the cluster; run 'mpibench cluster' on its host.",
        )


def init_name(node: str) -> str:
    """Name of a node's init in the process table (``TASK_COMM_LEN`` of
    ``linux/sched.h``, less the zero byte).
    """
    return f"mc-{node}"[:15]


def runtime_dir() -> Path:
    """Where state, configuration and logs live: ``$MPIBENCH_CLUSTER_DIR``; else ``/run`` for root,
    for others ``$XDG_RUNTIME_DIR`` or a folder of the user's own name in the place for temporary
    files.
    """
    if named := os.environ.get(RUNTIME_VARIABLE):
        return Path(named).absolute()
    # Nobody but root can make anything in /run; root's XDG_RUNTIME_DIR
    # may be what sudo kept of somebody else.
    if os.geteuid() == 0:
        return Path("/run/mpibench-cluster")
    if base := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(base).absolute() / "mpibench-cluster"
    return Path(tempfile.gettempdir()).absolute() / f"mpibench-cluster-{os.getuid()}"


def log_dir() -> Path:
    """Where daemons write."""
    return runtime_dir() / LOG


def init_log() -> Path:
    """Where the inits write what goes wrong; a running init is known by it."""
    return log_dir() / "init.log"


def _open(path: Path, kind: str) -> int | None:
    """A descriptor of a directory or file of the caller's own; ``None`` if nothing is there."""
    flags, is_kind = {
        "directory": (os.O_DIRECTORY, stat.S_ISDIR),
        "file": (os.O_NONBLOCK, stat.S_ISREG),
    }[kind]
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags)
    except FileNotFoundError:
        return None
    except OSError:  # a link, a file, or not for us to read
        descriptor = -1
    if descriptor >= 0:
        found = os.fstat(descriptor)
        if (
            is_kind(found.st_mode)
            and found.st_uid == os.getuid()
            and not found.st_mode & _OTHERS_WRITE
        ):
            return descriptor
        os.close(descriptor)
    raise BadInput(
        "not-ours",
        f"{path} is not a {kind} that only you own and can write to, so it is not used; remove it, "
        f"or set {RUNTIME_VARIABLE} to another directory.",
    )


@contextlib.contextmanager
def locked() -> Iterator[Path]:
    """The runtime directory, made if missing and locked against
    other commands that change the cluster.
    """
    expect_host()
    path = runtime_dir()
    while True:
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise BadInput(
                "cannot-write",
                f"{path} cannot be created ({error.strerror}); set {RUNTIME_VARIABLE} to a "
                "directory whose parent exists.",
            ) from None
        descriptor = _open(path, "directory")
        if descriptor is None:  # removed again by another command's `down`
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise BadInput(
                "busy",
                f"another mpibench cluster command is running in {path}; wait until it ends.",
            ) from None
        # It may have been removed between making and locking it.
        if path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino:
            break
        os.close(descriptor)
    # Nobody else may write to what is made meanwhile: the nodes'
    # daemons read their configuration from it.
    umask = os.umask(_OTHERS_WRITE)
    os.umask(umask | _OTHERS_WRITE)
    try:
        if not (path / MARK).exists():
            if kept := sorted(os.listdir(path)):  # noqa: PTH208
                raise BadInput(
                    "not-ours",
                    f"{path} is not a cluster's runtime directory: it has {kept[0]} but no {MARK}; "
                    f"nothing was changed. Set {RUNTIME_VARIABLE} to a new or empty directory.",
                )
            (path / MARK).touch(mode=0o600)
        yield path
    finally:
        os.umask(umask)
        os.close(descriptor)


def remove() -> list[str]:
    """Remove what a cluster makes in its runtime directory, and the
    directory unless something else is in it.

    Names of what was left, because it is none of the cluster's or could not be removed.
    """
    path = runtime_dir()
    if not (path / MARK).exists():
        return []
    own = [path / name for name in (_STATE_FILE, ETC, LOG, CLOCK)]
    for target in (*own, *whole_file.partials(path / _STATE_FILE)):
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)
    left = sorted(set(os.listdir(path)) - {MARK})  # noqa: PTH208
    if not left:
        (path / MARK).unlink()
        path.rmdir()
    return left


def forget() -> None:
    """Remove the state file only, so that logs can be read until ``down``."""
    (runtime_dir() / _STATE_FILE).unlink(missing_ok=True)


def save(state: State) -> None:
    """Write the state file at once or not at all."""
    with whole_file.replacing(runtime_dir() / _STATE_FILE) as partial:
        partial.unlink(missing_ok=True)
        partial.touch(mode=0o600, exist_ok=False)
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(state), indent=1))


def load() -> State | None:
    """The state file's content, or ``None`` if there is none."""
    path = runtime_dir() / _STATE_FILE
    directory = _open(path.parent, "directory")
    if directory is None:
        return None
    os.close(directory)
    descriptor = _open(path, "file")
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        text = stream.read()
    try:
        found = msgspec.json.decode(text, type=State)
    except ValueError as error:
        raise BadInput(
            "file-damaged",
            f"{path} is damaged ({error}); remove it, then run 'mpibench cluster down'.",
        ) from None
    for name, process in {
        INIT: found.init,
        **{init_name(node): process for node, process in found.nodes.items()},
    }.items():
        if process.alive and not process.is_own(name):
            raise BadInput(
                "not-ours",
                f"{path} names process {process.pid}, which is not the {name} of your cluster; "
                "remove the file, then run 'mpibench cluster down'.",
            )
    return found


def running() -> State:
    """The state of a cluster that is up."""
    expect_host()
    state = load()
    if state is None or not state.init.alive:
        raise BadInput(
            "cluster-not-ready", "the cluster is not up; bring it up with 'mpibench cluster up'."
        )
    if not state.ready:
        raise BadInput(
            "cluster-not-ready",
            "the cluster did not come up completely; run 'mpibench cluster down', then "
            "'mpibench cluster up'.",
        )
    return state
