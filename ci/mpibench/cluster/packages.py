"""Slurm, munge and MariaDB for the cluster's nodes: the host's own, or Debian's packages unpacked beside the system.

Unpacking installs nothing: no maintainer script runs, no daemon starts, no user is made, ``/etc`` and ``/usr`` stay as
they are, and no privilege is needed. The nodes see the unpacked files over their ``/usr``.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from reframe_tests.harness.vocabulary import BadInput

#: Program the cluster runs to the Debian package that has it; dependencies come along, recommendations do not.
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
#: Packages without a program of their own: Slurm's MySQL storage, its PMIx plugin's library, the clock fault's library.
LIBRARIES = ("slurm-wlm-mysql-plugin", "libpmix2", "libfaketime")
SEARCH_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_MANIFEST = "packages.json"


def root() -> Path:
    """Where packages are unpacked: ``$XDG_CACHE_HOME/mpibench/cluster-packages``, by default below ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base).absolute() / "mpibench" / "cluster-packages"


def missing_programs() -> list[str]:
    """Programs this machine does not have installed."""
    path = os.pathsep.join(SEARCH_PATH)
    return [program for program in PROGRAMS if shutil.which(program, path=path) is None]


def provide(say: Callable[[str], None]) -> Path | None:
    """The directory to lay over ``/usr``, fetching packages if need be; ``None`` if the machine has all programs itself.

    :raises BadInput: if programs are missing and cannot be had, saying which.
    """
    if (root() / _MANIFEST).exists():
        return root()
    missing = missing_programs()
    if not missing:
        return None
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise BadInput(
            f"this machine lacks {', '.join(missing)} and has no apt-get to fetch them; install Slurm 22.05 or newer with "
            "slurmdbd, munge and MariaDB, or use a Debian-like machine."
        )
    root().parent.mkdir(parents=True, exist_ok=True)
    with (root().parent / "cluster-packages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root() / _MANIFEST).exists():
            _fetch(missing, say)
    return root()


def _fetch(missing: list[str], say: Callable[[str], None]) -> None:
    say(f"{', '.join(missing)}: not installed here; fetching Debian's packages into {root()} (nothing is installed)")
    # What a killed command left; the lock says that none is at work.
    for stale in root().parent.glob("fetch-*"):
        shutil.rmtree(stale)
    with tempfile.TemporaryDirectory(dir=root().parent, prefix="fetch-") as scratch:
        names = _download(Path(scratch))
        unpacked = Path(scratch) / "root"
        unpacked.mkdir()
        for package in sorted(Path(scratch).glob("*.deb")):
            _unpack(package, unpacked)
        _complete(unpacked)
        (unpacked / _MANIFEST).write_text(json.dumps(names, indent=1) + "\n")
        shutil.rmtree(root(), ignore_errors=True)
        unpacked.rename(root())
    say(f"unpacked {len(names)} packages")


def _run(command: list[str], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()
        raise BadInput(f"'{' '.join(command)}' failed: {reason[-1] if reason else 'no message'}; check apt's sources.")
    return done.stdout


def _download(folder: Path) -> list[str]:
    """Download what is missing, dependencies included; names and versions of the packages.

    With the machine's package lists if it has some, otherwise with lists of our own.
    """
    wanted = [*dict.fromkeys(PROGRAMS.values()), *LIBRARIES]
    try:
        options: list[str] = []
        names = _resolve(wanted, options, folder)
    except BadInput:
        (folder / "lists" / "partial").mkdir(parents=True)
        (folder / "cache" / "archives" / "partial").mkdir(parents=True)
        places = {"Dir::State::lists": folder / "lists", "Dir::Cache": folder / "cache", "Debug::NoLocking": "1"}
        options = [word for key, value in places.items() for word in ("-o", f"{key}={value}")]
        _run(["apt-get", *options, "update"], folder)
        names = _resolve(wanted, options, folder)
    # apt's own download user may not write here; it then says so and downloads as the caller.
    _run(["apt-get", *options, "download", *names], folder)
    return names


def _resolve(wanted: list[str], options: list[str], folder: Path) -> list[str]:
    listing = _run(["apt-get", *options, "install", "--simulate", "--no-install-recommends", *wanted], folder)
    # Inst slurmd [installed] (22.05.8-4 Debian:12/stable [amd64]): apt-get(8), option --simulate.
    rows = [line.split() for line in listing.splitlines() if line.startswith("Inst ")]
    return [f"{row[1]}={next(word for word in row[2:] if word.startswith('('))[1:]}" for row in rows]


def _unpack(package: Path, target: Path) -> None:
    """Files of a package below ``usr``; what it has in ``/bin``, ``/sbin`` or ``/lib`` belongs there too (merged /usr)."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in _members(archive):
                if sys.version_info >= (3, 12):
                    archive.extract(member, target, filter="tar")
                else:
                    archive.extract(member, target)
    if process.returncode:
        raise BadInput(f"{package.name} cannot be unpacked; run the command again to fetch it anew.")


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for member in archive:
        parts = PurePosixPath(member.name).parts
        if parts and parts[0] in ("bin", "sbin", "lib", "lib64"):
            parts = ("usr", *parts)
        if not parts or parts[0] != "usr" or ".." in parts or parts[:3] in (("usr", "share", "doc"), ("usr", "share", "man")):
            continue
        member.name = str(PurePosixPath(*parts))
        # Owned by whoever unpacks: there may be no right to give files away.
        member.uid, member.gid = os.getuid(), os.getgid()
        member.uname = member.gname = ""
        yield member


def _complete(unpacked: Path) -> None:
    """What maintainer scripts would have done: Debian names slurmd ``slurmd-wlm`` and links it with update-alternatives."""
    for program in (unpacked / "usr/sbin").glob("*-wlm"):
        link = program.with_name(program.name.removesuffix("-wlm"))
        if not link.exists():
            link.symlink_to(program.name)
    # Slurm's PMIx plugin opens the library by its development name, which only libpmix-dev has.
    for library in (unpacked / "usr/lib").glob("*/pmix2/lib/libpmix.so.2"):
        library.with_name("libpmix.so").symlink_to(library.name)
