"""What is up: one runtime directory with a state file, configuration and logs. Removed by ``down``.

The state file says which processes' namespaces are entered, which for root means: what runs as root. It is believed only in a
directory and a file that belong to the caller and that nobody else can write to, and only about inits that the caller
started. A process is remembered with its start time, so that another one that got the same number later is never touched.
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

from reframe_tests.harness import process_stat
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file
from .plan import Plan

#: Overrides the place of the runtime directory.
RUNTIME_VARIABLE = "MPIBENCH_CLUSTER_DIR"
#: Lies over ``/etc`` on every node.
_NODE_MARK = Path("/etc/mpibench/node.json")
#: Name of the cluster's init in the process table; a node's is ``mc-`` and its name (:func:`init_name`).
INIT = "mc-init"
#: Directories of the runtime directory: what lies over the nodes' ``/etc``, logs, and the files of the clock fault.
ETC, LOG, CLOCK = "etc", "log", "clock"
#: Says that a directory is a cluster's runtime directory; without it nothing there is written or removed.
MARK = ".mpibench-cluster"
_STATE_FILE = "state.json"
_OWN_NAMES = (_STATE_FILE, ETC, LOG, CLOCK)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
#: Longest name the kernel keeps of a process (``TASK_COMM_LEN`` of ``linux/sched.h``, less the zero byte).
_LONGEST_NAME = 15


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
            now = process_stat.read(pid)
        except OSError:
            return None
        return None if now.state in "ZX" else cls(pid, now.start_ticks)

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return Process.observe(self.pid) == self

    @contextlib.contextmanager
    def held(self) -> Iterator[int]:
        """A descriptor of ``/proc/<pid>`` of this very process: nothing read through it is ever another process'.

        :raises ProcessLookupError: if it has ended.
        """
        try:
            folder = os.open(f"/proc/{self.pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise ProcessLookupError(f"process {self.pid} has ended") from None
        try:
            # Asked after opening: were it another process by now, its start time would show it.
            if not self.alive:
                raise ProcessLookupError(f"process {self.pid} has ended")
            yield folder
        finally:
            os.close(folder)

    def is_own(self, name: str) -> bool:
        """Whether it has this name and runs wholly as the caller: a user can give any name to a process of his own.

        ``proc(5)``, ``status``: ``Uid`` has real, effective, saved and file system user; a set-user-ID program that somebody
        else started differs in the first.
        """
        try:
            rows = dict(line.split(":", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines())
        except OSError:
            return False
        return rows["Name"].strip() == name and {int(word) for word in rows["Uid"].split()} == {os.getuid()}

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
    """Refuse to work from inside: a node sees the runtime directory, but not the processes it names.

    :raises BadInput: on a node of a cluster.
    """
    if _NODE_MARK.exists():
        raise BadInput("this is a node of the cluster; run 'mpibench cluster' on the machine that carries it.")


def init_name(node: str) -> str:
    """Name of a node's init in the process table."""
    return f"mc-{node}"[:_LONGEST_NAME]


def runtime_dir() -> Path:
    """Where state, configuration and logs live: ``$MPIBENCH_CLUSTER_DIR``; else ``/run`` for root, for others
    ``$XDG_RUNTIME_DIR`` or a folder of the user's own name in the place for temporary files."""
    if named := os.environ.get(RUNTIME_VARIABLE):
        return Path(named).absolute()
    # Nobody but root can make anything in /run; root's XDG_RUNTIME_DIR may be what sudo kept of somebody else.
    if os.geteuid() == 0:
        return Path("/run/mpibench-cluster")
    if base := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(base).absolute() / "mpibench-cluster"
    return Path(tempfile.gettempdir()).absolute() / f"mpibench-cluster-{os.getuid()}"


def _open_directory(path: Path) -> int | None:
    """A descriptor of a directory of the caller's own; ``None`` if nothing is there.

    :raises BadInput: if it is a link, belongs to someone else, or others can write to it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:  # a link, a file, or not for us to read
        descriptor = -1
    if descriptor >= 0:
        found = os.fstat(descriptor)
        if found.st_uid == os.getuid() and not found.st_mode & _OTHERS_WRITE:
            return descriptor
        os.close(descriptor)
    raise BadInput(
        f"{path} is not a directory of yours that only you can write to; remove it or set {RUNTIME_VARIABLE} to another."
    )


def _read_state_file() -> str | None:
    """Text of the state file, if directory and file belong to the caller; ``None`` if there is none.

    :raises BadInput: if either could have been written by somebody else.
    """
    directory = _open_directory(runtime_dir())
    if directory is None:
        return None
    try:
        descriptor = os.open(_STATE_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"{runtime_dir() / _STATE_FILE} cannot be read ({error.strerror}); remove it.") from None
    finally:
        os.close(directory)
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & _OTHERS_WRITE:
            raise BadInput(
                f"{runtime_dir() / _STATE_FILE} is not a file of yours that only you can write to, so it is not used; "
                "remove it, then run 'mpibench cluster down'."
            )
        return stream.read()


def _make_directory(path: Path) -> int:
    try:
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
    except OSError as error:
        raise BadInput(
            f"{path} cannot be made ({error.strerror}); set {RUNTIME_VARIABLE} to a directory whose parent exists."
        ) from None
    while (descriptor := _open_directory(path)) is None:  # removed again by another command's `down`
        path.mkdir(mode=0o700, exist_ok=True)
    return descriptor


def _mark(path: Path) -> None:
    """Mark an empty directory as a cluster's; one with a mark is.

    :raises BadInput: if something else is kept there.
    """
    if (path / MARK).exists():
        return
    if kept := sorted(os.listdir(path)):  # noqa: PTH208
        raise BadInput(
            f"{path} is not a runtime directory of a cluster: it holds {kept[0]} and no {MARK}; nothing in it is touched. "
            f"Set {RUNTIME_VARIABLE} to a new or empty directory."
        )
    (path / MARK).touch(mode=0o600)


@contextlib.contextmanager
def locked() -> Iterator[Path]:
    """The runtime directory, made if missing and locked against other commands that change the cluster.

    :raises BadInput: if it belongs to someone else, holds something else, or another command holds it.
    """
    expect_host()
    path = runtime_dir()
    while True:
        descriptor = _make_directory(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise BadInput(f"another mpibench cluster command is at work in {path}; wait until it ends.") from None
        # Another command's `down` may have removed the directory between making and locking it.
        if path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino:
            break
        os.close(descriptor)
    # Nobody else may write to what is made meanwhile: the nodes' daemons read their configuration from it.
    umask = os.umask(_OTHERS_WRITE)
    os.umask(umask | _OTHERS_WRITE)
    try:
        _mark(path)
        yield path
    finally:
        os.umask(umask)
        os.close(descriptor)


def remove() -> list[str]:
    """Remove what a cluster makes in its runtime directory, and the directory unless something else is in it.

    Names of what was left, because it is none of the cluster's or could not be removed.
    """
    path = runtime_dir()
    if not (path / MARK).exists():
        return []
    for target in (*(path / name for name in _OWN_NAMES), *whole_file.partials(path / _STATE_FILE)):
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
    path = runtime_dir() / _STATE_FILE
    row = {**asdict(state), "plan": state.plan.as_dict()}
    with whole_file.replacing(path) as partial:
        partial.unlink(missing_ok=True)
        partial.touch(mode=0o600, exist_ok=False)
        partial.write_text(json.dumps(row, indent=1))


def load() -> State | None:
    """The state file's content, or ``None`` if there is none.

    :raises BadInput: if it is damaged, could be somebody else's, or names a process that is not an init of the caller's.
    """
    text = _read_state_file()
    if text is None:
        return None
    try:
        row = json.loads(text)
        row["plan"] = Plan.from_dict(row["plan"])
        row["init"] = Process(**row["init"])
        row["nodes"] = {name: Process(**process) for name, process in row["nodes"].items()}
        found = State(**row)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(
            f"{runtime_dir() / _STATE_FILE} is damaged ({error!r}); remove it, then run 'mpibench cluster down'."
        ) from None
    for name, process in {INIT: found.init, **{init_name(node): process for node, process in found.nodes.items()}}.items():
        if process.alive and not process.is_own(name):
            raise BadInput(
                f"{runtime_dir() / _STATE_FILE} names process {process.pid}, which is not the {name} of a cluster of yours; "
                "remove the file, then run 'mpibench cluster down'."
            )
    return found


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
