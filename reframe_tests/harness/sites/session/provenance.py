"""What a session was measured with: the commit of the tests, and the versions of what runs and
judges them.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from ... import records
from ...vocabulary import ROOT

#: Distributions whose version is reported also where it is the pinned
#: one: they run the tests and decide verdicts.
DECISIVE = ("reframe-hpc", "numpy", "scipy", "polars")
LOCK = "requirements.lock"
_LOCAL_S = 30


@functools.cache
def describe(root: Path = ROOT) -> dict[str, Any]:
    """Facts about this checkout and this environment, the same for all cases of a session.

    ``commit`` is empty outside a git checkout; ``modified`` is ``None`` if git cannot say;
    ``lock`` is the SHA-256 of ``requirements.lock``, and ``unlike_lock`` names what is installed in
    another version (``name version``); ``extensions`` are the site's own files that say what an
    MPI, a launcher or a suite is (:func:`extensions`).
    """
    return {
        "commit": read_commit(root),
        "modified": is_modified(root),
        "python": platform.python_version(),
        "lock": hashlib.sha256((root / LOCK).read_bytes()).hexdigest()
        if (root / LOCK).exists()
        else "",
        "packages": {name: version for name in DECISIVE if (version := installed(name))},
        "unlike_lock": differences(root / LOCK),
        "extensions": extensions(),
    }


def read_commit(root: Path) -> str:
    """The commit that is checked out, from git's own files
    (gitrepository-layout(5)); no program is needed.
    """
    folder = root / ".git"
    try:
        if folder.is_file():  # a worktree or submodule
            folder = root / folder.read_text().removeprefix("gitdir:").strip()
        head = (folder / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head
        name = head.removeprefix("ref:").strip()
        common = folder / "commondir"
        shared = folder / common.read_text().strip() if common.exists() else folder
        if (shared / name).exists():
            return (shared / name).read_text().strip()
        packed = shared / "packed-refs"
        match = re.search(
            rf"(?m)^([0-9a-f]{{40,64}}) {re.escape(name)}$",
            packed.read_text() if packed.exists() else "",
        )
        return match[1] if match else ""
    except OSError:
        return ""


def is_modified(root: Path) -> bool | None:
    """Whether tracked files differ from the commit; ``None`` where
    there is no git, or it refuses to look.
    """
    words = ["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_LOCAL_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return bool(done.stdout.strip()) if done.returncode == 0 else None


def extensions() -> list[str]:
    """Files of ``MPIBENCH_EXTENSIONS``, each with the first 12 hex digits of its SHA-256:
    ``/site/mpis/x.py 0123456789ab``.
    """
    return [
        f"{path} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
        for path in records.extension_files()
    ]


def installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def differences(lock: Path) -> list[str]:
    """What is installed here in a version that the lock does not
    have for any Python, as ``name version``.
    """
    pinned: dict[str, set[str]] = {}
    for name, version in re.findall(
        r"(?m)^([A-Za-z0-9._-]+)==([^\s;]+)", lock.read_text() if lock.exists() else ""
    ):
        pinned.setdefault(name, set()).add(version)
    return sorted(
        f"{name} {here}"
        for name, versions in pinned.items()
        if (here := installed(name)) and here not in versions
    )
