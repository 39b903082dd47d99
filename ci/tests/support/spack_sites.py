"""Copies of the project for a real Spack, whose environments are built apart from the user's own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from mpibench.spack import build

#: In front of the site's own settings: the OSU release whose sources a machine without a network can have, and the network
#: libraries of a distribution in place of the pinned ones.
SCOPE = {
    "packages": {
        "osu-micro-benchmarks": {"require:": ["@=7.5", 'cflags="-O2" cxxflags="-O2"']},
        "ucx": {"require:": ["@1.13:"]},
        "libfabric": {"require:": ["@1.17:"]},
        "hwloc": {"require:": ["@2.9:"]},
        # Without InfiniBand: MVAPICH2 over TCP and shared memory.
        "mvapich2": {"require": ["fabrics=nemesis process_managers=hydra"]},
    }
}


def overriding(scope: dict[str, Any]) -> str:
    """A Spack file; a key that ends with a colon replaces what scopes below it say (``require::``)."""
    return re.sub(r"'(\w+:)':", r"\1:", yaml.safe_dump(scope))


def copy_environments(root: Path, top: Path) -> None:
    """The environments as committed, with the settings they share."""
    shared = [path.name for path in sorted((root / "environments").glob("common*"))]
    for name in (*build.list_environments(root), *shared):
        folder = top / "environments" / name
        folder.mkdir(parents=True)
        for path in (root / "environments" / name).glob("*.yaml"):
            shutil.copy(path, folder)


def copy_project(root: Path, top: Path, scope: dict[str, str]) -> Path:
    """What building and measuring needs, with files of the site's configuration scope, by name."""
    copy_environments(root, top)
    shutil.copy(root / "environments" / "stack.schema.json", top / "environments")
    for name in ("site_configs", "reframe_tests"):
        shutil.copytree(root / name, top / name, ignore=shutil.ignore_patterns("__pycache__"))
    if (root / "results" / "recorder").is_dir():  # else it is compiled on first use
        shutil.copytree(root / "results" / "recorder", top / "results" / "recorder")
    (top / "repo").symlink_to(root / "repo")
    folder = top / "site_configs" / "generic" / "spack"
    folder.mkdir(exist_ok=True)
    for name, text in scope.items():
        (folder / name).write_text(text)
    return top
