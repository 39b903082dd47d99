"""Runs commands in a root file system of its own: other mounts, other processes, the machine's network.

Its process 1 is ours and collects the dead. When it ends, or whoever made it dies, the kernel ends everything inside and
takes the mounts away (``pid_namespaces(7)``).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from mpibench.bare.root import USER, USER_ID, Impossible
from mpibench.cluster import kernel

HEARTBEAT_S = 30.0
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Device files a program may count on (systemd's file-hierarchy(7), "/dev/").
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
#: Exit status of a step that ran into its limit, as timeout(1) has it.
TIMED_OUT = 124


@dataclass(frozen=True)
class Step:
    """Something to run inside.

    :param title: what it is, for people; also the name of its log.
    :param command: lines for bash, in the project's folder.
    :param as_root: as root, not as the ordinary user.
    :param says: words its output must have; a program that says nothing has not done it.
    :param limit_s: longest time.
    """

    title: str
    command: str
    as_root: bool = False
    says: tuple[str, ...] = ()
    limit_s: int = 1200


@dataclass(frozen=True)
class StepOutcome:
    """How a step ended; ``status`` is that of a shell."""

    title: str
    status: int
    seconds: float


def run(
    root: Path, project: str, steps: Sequence[Step], logs: Sequence[Path], environment: Mapping[str, str]
) -> Generator[StepOutcome, None, None]:
    """Run the steps one after the other inside ``root``; yields each one's outcome as it ends.

    :param project: the project's folder inside.
    :param logs: file per step, outside.
    :param environment: variables beside HOME, USER and PATH.
    :raises Impossible: if the kernel refuses a namespace or a mount.
    """
    files = [os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644) for log in logs]
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    middle = os.fork()
    if middle == 0:
        os.close(reading)
        _become_box(writing, lambda report: _work(root, project, steps, files, environment, report))
    os.close(writing)
    for descriptor in files:
        os.close(descriptor)
    try:
        with os.fdopen(reading, encoding="utf-8") as lines:
            for line in lines:
                message = json.loads(line)
                if "refused" in message:
                    raise Impossible(
                        f"this machine refuses a namespace or a mount ({message['refused']}); start it as real root."
                    )
                yield StepOutcome(**message)
    finally:
        # Ends when process 1 has, and that when everything inside has: whoever comes next meets a quiet tree.
        os.kill(middle, signal.SIGTERM)
        os.waitpid(middle, 0)


def _become_box(writing: int, work: Callable[[Callable[[object], None]], None]) -> None:
    """In a forked child: leave for new namespaces, be their process 1, work there; never returns."""

    def report(message: object) -> None:
        os.write(writing, (json.dumps(message) + "\n").encode())

    inits: list[int] = []

    def end(_number: int, _frame: FrameType | None) -> None:
        for pid in inits:
            os.kill(pid, signal.SIGKILL)
        if not inits:
            os._exit(0)

    try:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, end)
        os.setsid()
        kernel.die_with_parent(signal.SIGKILL)
        kernel.unshare(("ipc", "uts", "pid", "mnt"))
        init = os.fork()
        if init:
            inits.append(init)
            os.waitpid(init, 0)
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        kernel.die_with_parent(signal.SIGKILL)
        kernel.set_process_name("bare-init")
        work(report)
    except BaseException as error:
        report({"refused": str(error) or type(error).__name__})
    finally:
        os._exit(0)


def _work(
    root: Path,
    project: str,
    steps: Sequence[Step],
    files: Sequence[int],
    environment: Mapping[str, str],
    report: Callable[[object], None],
) -> None:
    _enter(root)
    for step, log in zip(steps, files, strict=True):
        began = time.monotonic()
        status = _run_step(step, project, log, environment)
        report(asdict(StepOutcome(step.title, status, time.monotonic() - began)))


def _enter(root: Path) -> None:
    """Mounts of a machine that has just started: proc, sysfs with the control groups, devices, /run, shared memory."""
    quiet = kernel.MS_NOSUID | kernel.MS_NOEXEC
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_SLAVE)
    devices = [(name, os.open(f"/dev/{name}", os.O_PATH)) for name in DEVICES if Path("/dev", name).exists()]
    groups = os.open("/sys/fs/cgroup", os.O_PATH) if Path("/sys/fs/cgroup").is_dir() else None
    kernel.mount("proc", root / "proc", "proc", quiet | kernel.MS_NODEV)
    kernel.mount("sysfs", root / "sys", "sysfs", quiet | kernel.MS_NODEV)
    kernel.mount("tmpfs", root / "dev", "tmpfs", kernel.MS_NOSUID, "mode=755")
    kernel.mount("tmpfs", root / "run", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755")
    for name, descriptor in devices:
        (root / "dev" / name).touch()
        kernel.mount(f"/proc/self/fd/{descriptor}", root / "dev" / name, flags=kernel.MS_BIND)
        os.close(descriptor)
    if groups is not None:
        kernel.mount(f"/proc/self/fd/{groups}", root / "sys/fs/cgroup", flags=kernel.MS_BIND | kernel.MS_REC)
        os.close(groups)
    for name, kind, data in (("pts", "devpts", "newinstance,ptmxmode=0666,mode=0620"), ("shm", "tmpfs", "mode=1777")):
        (root / "dev" / name).mkdir()
        kernel.mount(kind, root / "dev" / name, kind, quiet, data)
    links = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
    for name, target in links.items():
        (root / "dev" / name).symlink_to(target)
    kernel.set_hostname("bare")
    kernel.enter_root(root)


def _run_step(step: Step, project: str, log: int, environment: Mapping[str, str]) -> int:
    child = os.fork()
    if child == 0:
        try:
            _exec_step(step, project, log, environment)
        except BaseException as error:
            os.write(log, f"{error}\n".encode())
        finally:
            os._exit(127)
    deadline, beat, began = time.monotonic() + step.limit_s, time.monotonic() + HEARTBEAT_S, time.monotonic()
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            break
        if pid:
            continue
        now = time.monotonic()
        if now > deadline:
            os.write(log, f"\nbare-machine: ended at its limit of {step.limit_s} s\n".encode())
            status = TIMED_OUT << 8
            break
        if now > beat:
            print(f"bare-machine:     still at it after {now - began:.0f} s", flush=True)
            beat = now + HEARTBEAT_S
        time.sleep(0.05)
    _end_everything()
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _end_everything() -> None:
    """What a step leaves running does not meet the next one (kill(2): -1 is everything but process 1 itself)."""
    try:
        os.kill(-1, signal.SIGKILL)
        while True:
            os.waitpid(-1, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def _exec_step(step: Step, project: str, log: int, environment: Mapping[str, str]) -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.closerange(3, 1024)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    user = "root" if step.as_root else USER
    os.setgroups([])
    if not step.as_root:
        os.setgid(USER_ID)
        os.setuid(USER_ID)
    home = "/root" if step.as_root else f"/home/{USER}"
    own = {"HOME": home, "USER": user, "LOGNAME": user, "PATH": SEARCH_PATH, "LANG": "C.UTF-8"}
    os.chdir(project)
    os.execve("/bin/bash", ["bash", "-euo", "pipefail", "-c", step.command], {**environment, **own})
