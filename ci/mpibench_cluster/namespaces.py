"""The cluster's init and its nodes: each is process 1 of its own
namespaces, nested so that one death ends everything.

The cluster's init owns the switch (its network namespace) and what all nodes share (its mounts over
``/etc`` and ``/usr``). A node's init is made inside the cluster's pid namespace; the kernel kills
whatever a dead init leaves (``pid_namespaces(7)``), and a namespace without a process goes away
with its links and mounts.
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

from reframe_tests.harness.process_stat import Process
from reframe_tests.harness.vocabulary import BadInput

from . import kernel
from .packages import SEARCH_PATH
from .plan import ClusterNode
from .state import INIT, State, init_name

#: Paths each node has for itself, with their mode.
PRIVATE = {"/tmp": 0o1777, "/dev/shm": 0o1777, "/run": 0o755}
_NODE_NAMESPACES = ("net", "mnt", "uts", "ipc", "pid")
_TOOL_ENVIRONMENT = {"PATH": os.pathsep.join(SEARCH_PATH), "LC_ALL": "C", "HOME": "/root"}
#: Switches of the kernel that take namespaces away from users: its own, Debian's, Ubuntu's.
_REMEDY = (
    "run as root, or allow users to make namespaces (user.max_user_namespaces, "
    "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
)
#: Longest time for an init to get ready, in seconds; a loaded machine needs a few.
_PATIENCE_S = 60
#: Descriptors that a process of the cluster lets go of.
_INHERITED = range(3, 1024)
_SYSTEM = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC


def hidden(paths: Sequence[Path]) -> list[Path]:
    """The outermost of these directories that nodes would not see,
    because they lie below a private path.
    """
    below = sorted(
        {path for path in paths if any(Path(private) in path.parents for private in PRIVATE)}
    )
    return [path for path in below if not any(other in path.parents for other in below)]


def create_cluster(
    etc: Path, package_root: Path | None, own_user: bool, log: Path
) -> tuple[Process, int]:
    """Start the cluster's init; it and a descriptor.

    The init dies when the descriptor is closed before a byte has been
    written to it: an interrupted ``up`` leaves nothing.
    """
    watched, lifeline = os.pipe()

    def enter() -> None:
        uid = os.getuid()
        gid = os.getgid()
        if own_user:
            kernel.unshare(["user"])
            kernel.map_user_to_root(uid, gid)
        kernel.unshare(_NODE_NAMESPACES)

    def set_up() -> None:
        # Mounts of the host go on arriving here, and from here reach the nodes; nothing goes back.
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SLAVE)
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SHARED)
        kernel.mount("proc", "/proc", "proc", _SYSTEM)
        for upper, target in ((etc, "/etc"), (package_root and package_root / "usr", "/usr")):
            if upper:  # laid over the other, read-only (overlayfs, "Multiple lower layers")
                escaped = str(upper).replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
                kernel.mount(
                    "overlay", target, "overlay", kernel.MS_RDONLY, f"lowerdir={escaped}:{target}"
                )

    try:
        return _spawn(INIT, enter, set_up, log, watched), lifeline
    except BaseException:
        os.close(lifeline)
        raise
    finally:
        os.close(watched)


def inits_logging_to(log: Path) -> set[Process]:
    """Clusters' inits whose output goes to this file; finds one
    that a lost state file no longer names.
    """
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


def create_node(state: State, node: ClusterNode, log: Path) -> Process:
    """Start a node's init inside the cluster; no interfaces yet."""

    def enter() -> None:
        _join(state, state.init)
        if child := os.fork():  # the first process inside the pid namespace just joined
            os.waitpid(child, 0)
            os._exit(0)
        kernel.unshare(_NODE_NAMESPACES)

    def set_up() -> None:
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SLAVE)
        kept = [(path, os.open(path, os.O_PATH)) for path in state.plan.shared]
        kernel.mount("proc", "/proc", "proc", _SYSTEM)
        kernel.mount("sysfs", "/sys", "sysfs", _SYSTEM)
        for path, mode in PRIVATE.items():
            kernel.mount(
                "tmpfs", path, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"mode={mode:o}"
            )
        for path, descriptor in kept:
            Path(path).mkdir(parents=True, exist_ok=True)
            kernel.mount(f"/proc/self/fd/{descriptor}", path, flags=kernel.MS_BIND | kernel.MS_REC)
            os.close(descriptor)
        socket.sethostname(node.name)

    return _spawn(init_name(node.name), enter, set_up, log)


def _join(state: State, process: Process) -> None:
    """Join all namespaces of a process; a user namespace only where the cluster has its own."""
    with process.held() as folder:
        kernel.join(
            folder, [name for name in kernel.NAMESPACES if name != "user" or state.own_user]
        )


def _spawn(
    name: str,
    enter: Callable[[], None],
    set_up: Callable[[], None],
    log: Path,
    lifeline: int | None = None,
) -> Process:
    """Start an init: ``enter`` leaves for new namespaces, ``set_up`` runs
    as their process 1; the process seen from here.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # The kernel attaches the sender's process id, translated to our
    # pid namespace (unix(7), SO_PASSCRED).
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
            _detach(log, {theirs.fileno(), lifeline})
            kernel.set_process_name(name)
            set_up()
            theirs.send(b"ready")
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
            raise BadInput(
                "cluster-not-ready", f"{name} did not start within {_PATIENCE_S} s; see {log}."
            )
        text, ancillary, _, _ = ours.recvmsg(4096, socket.CMSG_SPACE(struct.calcsize("3i")))
    pids = [
        struct.unpack("3i", data)[0]
        for _, kind, data in ancillary
        if kind == socket.SCM_CREDENTIALS
    ]
    process = Process.observe(pids[0]) if pids and pids[0] else None
    if text != b"ready" or process is None:
        remedy = "in a container, start it privileged" if kernel.privileged() else _REMEDY
        reason = text.decode() or f"{name} died"
        raise BadInput(
            "not-ours",
            f"this machine does not allow a namespace or mount ({reason}); {remedy}.",
        )
    return process


def _detach(log: Path, keep: set[int | None]) -> None:
    """Let go of the caller's terminal, files and signal handlers."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (out, 1), (out, 2)):
        os.dup2(source, target)
    for descriptor in set(_INHERITED) - keep:
        os.closerange(descriptor, descriptor + 1)  # says nothing of one that is not open
    os.chdir("/")


def _reap_forever(lifeline: int | None) -> NoReturn:
    """What process 1 does: collect the dead. With a lifeline, end
    when it closes before it carried a byte.
    """
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


def _entering(
    state: State, process: Process, *, stays: bool = False, cwd: str = "/"
) -> Callable[[], None]:
    """A ``preexec_fn`` that goes into all namespaces of a process; the
    program runs in a child, inside the pid namespace.

    All, because tools read ``/proc``: without it ``tc`` silently takes a wrong clock
    (``/proc/net/psched``). The process between hands signals on; a program that does not stay is
    killed with the command that started it.
    """
    caller = os.getpid()

    def enter() -> None:
        denied = Path(f"/proc/{process.pid}/setgroups").read_text().startswith("deny")
        _join(state, process)
        if not stays:
            kernel.die_with_parent(signal.SIGKILL)
            if os.getppid() != caller:
                os._exit(1)
        if denied:
            kernel.ignore_setgroups()
        child = os.fork()
        if child:
            # subprocess waits until the last holder of its pipe has gone or become the program.
            os.closerange(_INHERITED.start, _INHERITED.stop)
            _hand_on_signals(child)
            os._exit(exit_status(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
        if not stays:
            kernel.die_with_parent(signal.SIGKILL)
        elif os.fork():
            # Its parent was inside, so the orphan goes to the node's init, not to the host's.
            os._exit(0)
        os.chdir(cwd)

    return enter


def _hand_on_signals(child: int) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: os.kill(child, number))
    # The terminal sends this one to the whole foreground group, the program included.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def exit_status(code: int) -> int:
    """Exit status as a shell reports it: 128 plus the signal for a killed
    program, which Python has as a negative one.
    """
    return 128 - code if code < 0 else code


def run(
    state: State, process: Process, words: Sequence[str], *, input: str = "", timeout_s: float = 90
) -> subprocess.CompletedProcess[str]:
    """Run a tool in all namespaces of a process and wait for it."""
    enter = _entering(state, process)
    try:
        return subprocess.run(
            words,
            input=input,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=_TOOL_ENVIRONMENT,
            preexec_fn=enter,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BadInput(
            "tool-failed",
            f"'{' '.join(words)}' could not run in the cluster ({error}); see 'mpibench "
            "cluster status'.",
        ) from error


def batch(state: State, process: Process, tool: str, lines: Sequence[str]) -> None:
    """Run lines through ``ip`` or ``tc`` in the network of a process.
    Shapers to delete that are not there are forgiven.
    """
    if not lines:
        return
    done = run(state, process, [tool, "-force", "-batch", "-"], input="\n".join(lines) + "\n")
    failed = [
        int(line.rpartition(":")[2])
        for line in done.stderr.splitlines()
        if line.startswith("Command failed")
    ]
    if any(not lines[number - 1].startswith("qdisc del") for number in failed):
        raise BadInput(
            "system-description",
            f"'{tool}' rejected a setting of the cluster's network: "
            f"{' '.join(done.stderr.split())}",
        )


def start(
    state: State, process: Process, words: Sequence[str], log: Path, environment: Mapping[str, str]
) -> None:
    """Start a program that stays, in all namespaces of a process."""
    enter = _entering(state, process, stays=True)
    env = {**_TOOL_ENVIRONMENT, **environment}
    null = subprocess.DEVNULL
    with log.open("ab") as out:
        try:
            subprocess.run(
                words,
                stdin=null,
                stdout=out,
                stderr=out,
                env=env,
                start_new_session=True,
                preexec_fn=enter,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise BadInput(
                "tool-failed", f"{words[0]} could not be started ({error}); see {log}."
            ) from error


def execute(
    state: State, process: Process, words: Sequence[str], environment: Mapping[str, str], cwd: Path
) -> int:
    """Run a user's program on a node with the caller's terminal and files; its exit status.

    Signals that ask to end are passed on; if this process is killed, so is the program.
    """
    try:
        if not Path(f"/proc/{process.pid}/root{cwd}").is_dir():
            raise FileNotFoundError("the node has no such directory")
        enter = _entering(state, process, cwd=str(cwd))
        program = subprocess.Popen(
            list(words), env=dict(environment), close_fds=False, preexec_fn=enter
        )
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(
            "not-ours",
            f"'{words[0]}' could not be started in {cwd} ({reason}); directories are shared with "
            "'up --share'.",
        ) from None
    _hand_on_signals(program.pid)
    return exit_status(program.wait())


def processes_of(process: Process) -> dict[int, str]:
    """Processes in the pid namespace of a node's init, as seen from here: process id to name."""
    found = {}
    try:
        wanted = Path(f"/proc/{process.pid}/ns/pid").readlink()
    except OSError:
        return {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "ns/pid").readlink() == wanted:
                found[int(entry.name)] = (entry / "comm").read_text().strip()
        except OSError:
            continue
    return found


def kill(process: Process, *names: str) -> int:
    """Kill all processes of these names on a node; how many there were."""
    victims = [pid for pid, name in processes_of(process).items() if name in names]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not set(names) & set(processes_of(process).values()), 5)
    return len(victims)


def interfaces(process: Process) -> set[str]:
    """Network interfaces in the namespace of a process (``proc(5)``, ``net/dev``)."""
    lines = Path(f"/proc/{process.pid}/net/dev").read_text().splitlines()[2:]
    return {line.partition(":")[0].strip() for line in lines}


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Poll every 10 ms; whether the condition came true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
