"""System calls the cluster is made of, through ctypes: Python has
them only since 3.12, and not all of them.

Numbers and flags are those of Linux' UAPI headers (``linux/sched.h``, ``linux/mount.h``,
``linux/prctl.h``, ``linux/seccomp.h``, ``linux/bpf_common.h``). Each raises OSError, which names
what the kernel refused.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterable
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 4]

#: Namespace name, as under ``/proc/<pid>/ns``, to its clone flag; in
#: the order in which they must be joined.
NAMESPACES = {
    "user": 0x10000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "net": 0x40000000,
    "pid": 0x20000000,
    "mnt": 0x00020000,
}
MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_SLAVE = 0x80000
MS_SHARED = 0x100000

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_SECCOMP_RET_ALLOW = 0x7FFF0000
_SECCOMP_RET_ERRNO = 0x00050000
_BPF_LOAD_WORD = 0x20
_BPF_JUMP_EQUAL = 0x15
_BPF_RETURN = 0x06
#: ``setgroups`` by machine (``asm/unistd_64.h``, ``asm-generic/unistd.h``).
_SETGROUPS = {"x86_64": 116, "aarch64": 159}


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(names: Iterable[str]) -> None:
    """Leave these namespaces for new ones (``unshare(2)``); a new
    pid namespace holds only children.
    """
    names = list(names)
    _check(
        _libc.unshare(sum(NAMESPACES[name] for name in names)),
        f"new namespaces ({', '.join(names)})",
    )


def join(folder: int, names: Iterable[str]) -> None:
    """Join namespaces of a process by a descriptor of its ``/proc/<pid>``
    (``setns(2)``); only children are in its pid one.
    """
    # All descriptors first: after joining the mount namespace, /proc is another one.
    opened = [
        (name, os.open(f"ns/{name}", os.O_RDONLY, dir_fd=folder))
        for name in NAMESPACES
        if name in set(names)
    ]
    for name, descriptor in opened:
        _check(
            _libc.setns(descriptor, NAMESPACES[name]), f"joining the {name} namespace of a process"
        )
        os.close(descriptor)


def mount(
    source: str,
    target: str | Path,
    kind: str | None = None,
    flags: int = 0,
    data: str | None = None,
) -> None:
    """``mount(2)``; a source of the form ``/proc/self/fd/N`` is followed
    by the kernel even if its path is hidden.
    """
    arguments = (
        source.encode(),
        str(target).encode(),
        kind and kind.encode(),
        ctypes.c_ulong(flags),
        data and data.encode(),
    )
    _check(_libc.mount(*arguments), f"mounting {kind or source} on {target}")


def set_process_name(name: str) -> None:
    """Name shown by ``ps`` (15 characters)."""
    _check(_libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0), "naming the process")


def die_with_parent(signal_number: int) -> None:
    """Get this signal when the parent dies."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "binding to the parent")


def privileged() -> bool:
    """Whether this process may make namespaces as it is: it has
    CAP_NET_ADMIN (12) and CAP_SYS_ADMIN (21).

    Asked of the capabilities and not of the user, because root of a
    container may lack them (``capabilities(7)``).
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    effective = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    return bool(effective >> 12 & 1 and effective >> 21 & 1)


def map_user_to_root(uid: int, gid: int) -> None:
    """Become root of a new user namespace just entered
    (``user_namespaces(7)``, "Defining user and group ID mappings").
    """
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def ignore_setgroups() -> None:
    """Make ``setgroups(2)`` succeed without doing anything, here and in all descendants.

    A user namespace made without privilege denies that call, and slurmd
    and slurmstepd give up a job when it fails.
    """
    machine = platform.machine()
    if machine not in _SETGROUPS:
        raise OSError(f"the system call number of setgroups on {machine} is not known")
    program = [
        (_BPF_LOAD_WORD, 0, 0, 0),  # offset 0 of struct seccomp_data: the system call's number
        (_BPF_JUMP_EQUAL, 0, 1, _SETGROUPS[machine]),
        (_BPF_RETURN, 0, 0, _SECCOMP_RET_ERRNO),  # "error" 0: success
        (_BPF_RETURN, 0, 0, _SECCOMP_RET_ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in program))
    header = ctypes.create_string_buffer(
        struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    )
    _check(
        _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0),
        "installing the setgroups filter",
    )
