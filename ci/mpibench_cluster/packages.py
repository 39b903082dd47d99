"""Slurm, munge, MariaDB and programs that measure below MPI: the host's
own, or Debian's packages unpacked beside the system.

Unpacking installs nothing: no maintainer script runs, no daemon starts, no user is made, ``/etc``
and ``/usr`` stay as they are, and no privilege is needed. The nodes see the unpacked files over
their ``/usr``, and the caller runs them, so that nobody else may own or write them. Which packages
these are depends on the distribution and not on what is installed: a library that some other
package brought could go again, and lies without the name Slurm opens it by.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from reframe_tests.harness.vocabulary import BadInput

if TYPE_CHECKING:
    import tarfile

#: Program the cluster runs to the Debian package that has it;
#: dependencies come along, recommendations do not.
PROGRAMS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurmdbd": "slurmdbd",
    "srun": "slurm-client",
    "munged": "munge",
    "mariadbd": "mariadb-server-core",
    "ip": "iproute2",
    "tc": "iproute2",
}
#: Packages without a program of their own: Slurm's MySQL storage, its PMIx
#: plugin's library, the clock fault's library.
LIBRARIES = ("slurm-wlm-mysql-plugin", "libpmix2", "libfaketime")
#: What a machine with apt has in any case, these with their dependencies
#: (the C library is among them), is left as it is.
BASE = ("apt", "dpkg")
SEARCH_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_MANIFEST = "packages.json"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def measuring() -> list[str]:
    """Packages of what measures below MPI on the nodes: without
    one of these its tests are skipped.
    """
    from reframe_tests.harness.suites import catalogue

    return sorted(group.debian for group in catalogue.PAIRS.values())


def wanted() -> list[str]:
    """Packages asked for by name."""
    return [*dict.fromkeys((*PROGRAMS.values(), *measuring())), *LIBRARIES]


def root() -> Path:
    """Where packages are unpacked: a folder in
    ``$XDG_CACHE_HOME/mpibench``, by default below ``~/.cache``.

    It is named for distribution, machine and the packages requested: a home directory may be seen
    by several machines, and what a running cluster uses is never replaced.
    """
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    made_for = [
        release.get("ID", "unknown"),
        release.get("VERSION_ID", "rolling"),
        platform.machine(),
    ]
    asked = hashlib.sha256(" ".join([*wanted(), "without", *BASE]).encode()).hexdigest()[:8]
    return Path(base).absolute() / "mpibench" / "-".join(["cluster-packages", *made_for, asked])


def missing_programs() -> list[str]:
    """Programs this machine does not have installed."""
    path = os.pathsep.join(SEARCH_PATH)
    return [program for program in PROGRAMS if shutil.which(program, path=path) is None]


def provide(say: Callable[[str], None]) -> Path | None:
    """The directory to lay over ``/usr``, fetching packages if need be;
    ``None`` if the machine has all programs itself.
    """
    target = root()
    if not (target / _MANIFEST).exists():
        missing = missing_programs()
        if not missing:
            return None
        if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
            raise BadInput(
                "tool-missing",
                f"this machine lacks {', '.join(missing)} and apt-get to fetch them; install Slurm "
                "22.05 or newer with slurmdbd, munge and MariaDB, or use a Debian-like machine.",
            )
        # XDG base directory specification: mode 0700
        for path in reversed([target.parent, *target.parent.parents]):
            try:
                path.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                sentence = (
                    f"{path} cannot be created ({error.strerror}); set XDG_CACHE_HOME to a "
                    "directory of your own."
                )
                raise BadInput("file-missing", sentence) from None
        _expect_unreachable(target.parent)
        with (target.parent / "cluster-packages.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (target / _MANIFEST).exists():
                say(
                    f"{', '.join(missing)}: not installed here; fetching Debian's packages into "
                    f"{target} (nothing is installed)"
                )
                say(f"unpacked {_fetch(target)} packages")
    _expect_unreachable(target)
    for path in target.rglob("*"):
        found = path.lstat()
        if found.st_uid != os.getuid() or (
            not stat.S_ISLNK(found.st_mode) and found.st_mode & _OTHERS_WRITE
        ):
            raise BadInput(
                "not-ours",
                f"{path} belongs to, or can be written by, another user, so it is not run; remove "
                f"{target} to fetch it again.",
            )
    return target


def _expect_unreachable(folder: Path) -> None:
    """Nobody but the caller and root can replace a directory, or one above it, by another."""
    # Whoever owns "/" can change everything anyway; that is root, by
    # another number in a user namespace.
    trusted = (os.getuid(), Path("/").stat().st_uid)
    for path in (folder, *folder.parents):
        found = path.lstat()
        # In a directory with the sticky bit, /tmp say, only owners rename and remove (inode(7)).
        shared = found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX
        if found.st_uid in trusted and stat.S_ISLNK(found.st_mode):
            _expect_unreachable(path.resolve())
        elif found.st_uid not in trusted or not stat.S_ISDIR(found.st_mode) or shared:
            raise BadInput(
                "not-ours",
                f"{path} is writable for others, but its programs are run; 'chmod go-w {path}' if "
                "it is yours, otherwise set XDG_CACHE_HOME to a directory of your own.",
            )


def _fetch(target: Path) -> int:
    """Download and unpack; number of packages."""
    # What a killed command left; the lock says that none is at work.
    for stale in target.parent.glob("fetch-*"):
        shutil.rmtree(stale)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetch-") as scratch:
        names = _download(Path(scratch))
        unpacked = Path(scratch) / "root"
        unpacked.mkdir()
        for package in sorted(Path(scratch).glob("*.deb")):
            _unpack(package, unpacked)
        # What maintainer scripts would have done: Debian names slurmd
        # ``slurmd-wlm`` and links it with update-alternatives.
        for program in (unpacked / "usr/sbin").glob("*-wlm"):
            link = program.with_name(program.name.removesuffix("-wlm"))
            if not link.exists():
                link.symlink_to(program.name)
        # Slurm's PMIx plugin opens the library by its development name, which only libpmix-dev has.
        for library in (unpacked / "usr/lib").glob("*/pmix2/lib/libpmix.so.2"):
            library.with_name("libpmix.so").symlink_to(library.name)
        (unpacked / _MANIFEST).write_text(json.dumps(names, indent=1) + "\n")
        # Directories that no package names came under the caller's umask.
        for path in (unpacked, *(path for path in unpacked.rglob("*") if not path.is_symlink())):
            path.chmod(path.stat().st_mode & 0o755)
        shutil.rmtree(target, ignore_errors=True)
        unpacked.rename(target)
    return len(names)


def _run(command: list[str], cwd: Path) -> str:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}
    )
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()
        raise BadInput(
            "tool-failed",
            f"'{' '.join(command)}' failed: {reason[-1] if reason else 'no message'}; check "
            "apt's sources.",
        )
    return done.stdout


def _download(folder: Path) -> list[str]:
    """Download the packages with their dependencies; their names and versions.

    With the machine's package lists if it has some, otherwise with lists of our own.
    """
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "cache" / "archives" / "partial").mkdir(parents=True)
    # Nothing counts as installed, and apt's index of that is none of
    # the machine's (apt.conf(5), "Dir").
    apt = ["apt-get", "-o", "Dir::State::status=/dev/null", "-o", f"Dir::Cache={folder / 'cache'}"]

    def resolve(asked: list[str]) -> list[str]:
        """Packages and versions that an empty machine would need for these."""
        listing = _run([*apt, "install", "--simulate", "--no-install-recommends", *asked], folder)
        # Inst slurmd (22.05.8-4 Debian:12/stable [amd64]): apt-get(8), option --simulate.
        rows = [line.split() for line in listing.splitlines() if line.startswith("Inst ")]
        return [
            f"{row[1]}={next(word for word in row[2:] if word.startswith('('))[1:]}" for row in rows
        ]

    try:
        names = resolve(wanted())
    except BadInput:
        apt += ["-o", f"Dir::State::lists={folder / 'lists'}", "-o", "Debug::NoLocking=1"]
        _run([*apt, "update"], folder)
        names = resolve(wanted())
    base = set(resolve(list(BASE)))
    names = [name for name in names if name not in base]
    # apt's own download user may not write here; it then says so and downloads as the caller.
    _run([*apt, "download", *names], folder)
    return names


def _unpack(package: Path, target: Path) -> None:
    import tarfile

    with subprocess.Popen(
        ["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            filtered = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
            for member in _members(archive):
                archive.extract(member, target, **filtered)  # type: ignore[arg-type]
    if process.returncode:
        raise BadInput(
            "checksum-differs",
            f"{package.name} cannot be unpacked; run the command again to fetch it again.",
        )


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Files of a package below ``usr``; what it has in ``/bin``, ``/sbin``
    or ``/lib`` belongs there too (merged /usr).
    """
    for member in archive:
        parts = PurePosixPath(member.name).parts
        if parts and parts[0] in ("bin", "sbin", "lib", "lib64"):
            parts = ("usr", *parts)
        if (
            not parts
            or parts[0] != "usr"
            or ".." in parts
            or parts[:3] in (("usr", "share", "doc"), ("usr", "share", "man"))
        ):
            continue
        member.name = str(PurePosixPath(*parts))
        # Owned by whoever unpacks: there may be no right to give files away. Nobody else writes
        # them; no set-user-ID program.
        member.uid = os.getuid()
        member.gid = os.getgid()
        member.mode &= 0o755
        member.uname = member.gname = ""
        yield member
