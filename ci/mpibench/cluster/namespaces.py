"""The cluster's init and its nodes: each is process 1 of its own namespaces, nested so that one death ends everything.

The cluster's init owns the switch (its network namespace) and what all nodes share (its mounts over ``/etc`` and
``/usr``). A node's init is made inside the cluster's pid namespace; the kernel kills whatever a dead init leaves
(``pid_namespaces(7)``), and a namespace without a process goes away with its links and mounts.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from reframe_tests.harness.vocabulary import BadInput

from . import kernel
from .packages import SEARCH_PATH
from .plan import Node
from .state import INIT, Process, State, init_name

#: Paths each node has for itself, with their mode.
PRIVATE = {"/tmp": 0o1777, "/dev/shm": 0o1777, "/run": 0o755}
_NODE_NAMESPACES = ("net", "mnt", "uts", "ipc", "pid")
_TOOL_ENVIRONMENT = {"PATH": os.pathsep.join(SEARCH_PATH), "LC_ALL": "C", "HOME": "/root"}
_READY = b"ready"
#: Switches of the kernel that take namespaces away from users: its own, Debian's, Ubuntu's.
_REMEDY = (
    "run as root, or allow users to make namespaces (user.max_user_namespaces, kernel.unprivileged_userns_clone, "
    "kernel.apparmor_restrict_unprivileged_userns)"
)
#: Longest time for an init to get ready, in seconds; a loaded machine needs a few.
_PATIENCE_S = 60
_LOWEST_KEPT = 3
_DESCRIPTORS = 1024


def namespaces_of(state: State) -> tuple[str, ...]:
    """Namespaces to join; the user namespace only where the cluster has its own."""
    return tuple(name for name in kernel.NAMESPACES if name != "user" or state.own_user)


def hidden(paths: Sequence[Path]) -> list[Path]:
    """The outermost of these directories that nodes would not see, because they lie below a private path."""
    below = sorted({path for path in paths if any(Path(private) in path.parents for private in PRIVATE)})
    return [path for path in below if not any(other in path.parents for other in below)]


def create_cluster(etc: Path, package_root: Path | None, own_user: bool, log: Path) -> tuple[Process, int]:
    """Start the cluster's init; it and a descriptor.

    The init dies when the descriptor is closed before a byte has been written to it: an interrupted ``up`` leaves nothing.

    :raises BadInput: if the kernel refuses a namespace or a mount.
    """
    watched, lifeline = os.pipe()

    def enter() -> None:
        uid, gid = os.getuid(), os.getgid()
        if own_user:
            kernel.unshare(["user"])
            kernel.map_user_to_root(uid, gid)
        kernel.unshare(_NODE_NAMESPACES)

    def set_up() -> None:
        # Mounts of the host go on arriving here, and from here reach the nodes; nothing goes back.
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SLAVE)
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SHARED)
        _mount_proc()
        _overlay(etc, "/etc")
        if package_root:
            _overlay(package_root / "usr", "/usr")

    try:
        return _spawn(INIT, enter, set_up, log, watched), lifeline
    except BaseException:
        os.close(lifeline)
        raise
    finally:
        os.close(watched)


def inits_logging_to(log: Path) -> set[Process]:
    """Clusters' inits whose output goes to this file; finds one that a lost state file no longer names."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text().strip() == INIT:
                out = str((entry / "fd/1").readlink()).removesuffix(" (deleted)")
                process = Process.observe(int(entry.name))
                if out == str(log) and process and process.is_own(INIT):
                    found.add(process)
        except OSError:
            continue
    return found


def create_node(state: State, node: Node, log: Path) -> Process:
    """Start a node's init inside the cluster; no interfaces yet.

    :raises BadInput: if the kernel refuses a namespace or a mount.
    """

    def enter() -> None:
        _join(state, state.init)
        _continue_in_child()
        kernel.unshare(_NODE_NAMESPACES)

    def set_up() -> None:
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SLAVE)
        kept = [(path, os.open(path, os.O_PATH)) for path in state.plan.shared]
        _mount_proc()
        kernel.mount("sysfs", "/sys", "sysfs", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
        for path, mode in PRIVATE.items():
            kernel.mount("tmpfs", path, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"mode={mode:o}")
        for path, descriptor in kept:
            Path(path).mkdir(parents=True, exist_ok=True)
            kernel.mount(f"/proc/self/fd/{descriptor}", path, flags=kernel.MS_BIND | kernel.MS_REC)
            os.close(descriptor)
        kernel.set_hostname(node.name)

    return _spawn(init_name(node.name), enter, set_up, log)


def _join(state: State, process: Process) -> None:
    with process.held() as folder:
        kernel.join(folder, namespaces_of(state))


def _mount_proc() -> None:
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)


def _overlay(upper: Path, target: str) -> None:
    """Lay a directory over another, read-only (``overlayfs``, "Multiple lower layers")."""
    escaped = str(upper).replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
    kernel.mount("overlay", target, "overlay", kernel.MS_RDONLY, f"lowerdir={escaped}:{target}")


def _continue_in_child() -> None:
    """Go on in a child, the first process inside a pid namespace just joined; the parent waits for it and ends."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        os._exit(0)


def _spawn(name: str, enter: Callable[[], None], set_up: Callable[[], None], log: Path, lifeline: int | None = None) -> Process:
    """Start an init: ``enter`` leaves for new namespaces, ``set_up`` runs as their process 1; the process seen from here."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # The kernel attaches the sender's process id, translated to our pid namespace (unix(7), SO_PASSCRED).
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            enter()
            if os.fork():
                os._exit(0)
            _detach(log, {theirs.fileno()} | ({lifeline} if lifeline is not None else set()))
            kernel.set_process_name(name)
            set_up()
            theirs.send(_READY)
            theirs.close()
            _reap_forever(lifeline)
        except BaseException as error:
            theirs.send(str(error).encode() or b"interrupted")
        finally:
            os._exit(1)
    theirs.close()
    with ours:
        os.waitpid(child, 0)
        if not select.select([ours], [], [], _PATIENCE_S)[0]:
            raise BadInput(f"{name} did not start within {_PATIENCE_S} s; see {log}.")
        text, ancillary, _, _ = ours.recvmsg(4096, socket.CMSG_SPACE(struct.calcsize("3i")))
    pid = next(
        (struct.unpack("3i", data)[0] for _, kind, data in ancillary if kind == socket.SCM_CREDENTIALS),
        0,
    )
    process = Process.observe(pid) if pid else None
    if text != _READY or process is None:
        remedy = "inside a container, start that one privileged" if kernel.privileged() else _REMEDY
        reason = text.decode() or f"{name} died"
        raise BadInput(f"this machine refuses the cluster a namespace or a mount ({reason}); {remedy}.")
    return process


def _detach(log: Path, keep: set[int]) -> None:
    """Let go of the caller's terminal, files and signal handlers."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (out, 1), (out, 2)):
        os.dup2(source, target)
    for descriptor in range(_LOWEST_KEPT, _DESCRIPTORS):
        if descriptor not in keep:
            try:
                os.close(descriptor)
            except OSError:
                continue
    os.chdir("/")


def _reap_forever(lifeline: int | None) -> NoReturn:
    """What process 1 does: collect the dead. With a lifeline, end when it closes before it carried a byte."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    while True:
        if lifeline is None:
            signal.sigwait([signal.SIGCHLD])
        elif select.select([lifeline], [], [], 0.1)[0]:
            if not os.read(lifeline, 1):
                os._exit(1)
            os.close(lifeline)
            lifeline = None
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            continue


def _entering(state: State, process: Process, detach: bool) -> Callable[[], None]:
    """A ``preexec_fn`` that goes into all namespaces of a process; the program runs in a child, inside the pid namespace.

    All, because tools read ``/proc``: without it ``tc`` silently takes a wrong clock (``/proc/net/psched``).
    """

    def enter() -> None:
        denied = Path(f"/proc/{process.pid}/setgroups").read_text().startswith("deny")
        _join(state, process)
        if denied:
            kernel.ignore_setgroups()
        child = os.fork()
        if child:
            # subprocess waits until the last holder of its pipe has gone or become the program.
            os.closerange(_LOWEST_KEPT, _DESCRIPTORS)
            os._exit(exit_status(os.waitpid(child, 0)[1]))
        if not detach:
            kernel.die_with_parent(signal.SIGKILL)
        elif os.fork():
            # Its parent was inside, so the orphan goes to the node's init, not to the host's.
            os._exit(0)
        os.chdir("/")

    return enter


def exit_status(status: int) -> int:
    """Exit status as a shell reports it: 128 plus the signal for a killed program."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def run(
    state: State, process: Process, words: Sequence[str], *, input: str = "", timeout_s: float = 90
) -> subprocess.CompletedProcess[str]:
    """Run a tool in all namespaces of a process and wait for it.

    :raises BadInput: if it cannot be started, or does not end in time.
    """
    try:
        return subprocess.run(
            list(words),
            input=input,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=_TOOL_ENVIRONMENT,
            preexec_fn=_entering(state, process, False),
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BadInput(
            f"'{' '.join(words)}' could not be run in the cluster ({error}); see 'mpibench cluster status'."
        ) from error


def start(state: State, process: Process, words: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
    """Start a program that stays, in all namespaces of a process.

    :raises BadInput: if it cannot be started.
    """
    with log.open("ab") as out:
        try:
            subprocess.Popen(
                list(words),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**_TOOL_ENVIRONMENT, **environment},
                start_new_session=True,
                preexec_fn=_entering(state, process, True),
            ).wait()
        except (OSError, subprocess.SubprocessError) as error:
            raise BadInput(f"{words[0]} could not be started ({error}); see {log}.") from error


def execute(state: State, process: Process, words: Sequence[str], environment: Mapping[str, str], cwd: Path) -> int:
    """Run a user's program on a node with the caller's terminal and files; its exit status.

    Signals that ask to end are handed on; if this process is killed, so is the program.

    :raises BadInput: if the program or the directory does not exist there.
    """
    read_end, write_end = os.pipe()
    middle = os.fork()
    if middle == 0:
        try:
            os.close(read_end)
            kernel.die_with_parent(signal.SIGKILL)
            _join(state, process)
            child = os.fork()
            if child:
                os.close(write_end)
                _hand_on_signals(child)
                os._exit(exit_status(_wait(child)))
            kernel.die_with_parent(signal.SIGKILL)
            os.chdir(cwd)
            os.execvpe(words[0], list(words), dict(environment))
        except BaseException as error:
            os.write(write_end, (getattr(error, "strerror", None) or str(error)).encode())
        finally:
            os._exit(127)
    os.close(write_end)
    _hand_on_signals(middle)
    with os.fdopen(read_end, "rb") as messages:
        problem = messages.read().decode()
    status = exit_status(_wait(middle))
    if problem:
        raise BadInput(f"'{words[0]}' could not be started in {cwd} ({problem}); directories are shared with 'up --share'.")
    return status


def _hand_on_signals(child: int) -> None:
    def hand_on(number: int, _frame: object) -> None:
        os.kill(child, number)

    signal.signal(signal.SIGTERM, hand_on)
    signal.signal(signal.SIGHUP, hand_on)
    # The terminal sends this one to the whole foreground group, the program included.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _wait(child: int) -> int:
    return os.waitpid(child, 0)[1]


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Poll every 10 ms; whether the condition came true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
