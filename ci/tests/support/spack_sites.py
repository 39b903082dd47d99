"""Copies of the project for a real Spack, whose environments
are built apart from the user's own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from folders import SUPPORT
from mpibench.stacks.spack import build
from mpibench.stacks.spack.project import Spack, list_by_default, locate_spack

#: In front of the site's own settings: the network libraries of a distribution in place of the
#: pinned ones. The benchmarks are those that the environments pin.
SCOPE = {
    "packages": {
        "ucx": {"require:": ["@1.13:"]},
        "libfabric": {"require:": ["@1.17:"]},
        "hwloc": {"require:": ["@2.9:"]},
        # Without InfiniBand: MVAPICH2 over TCP and shared memory.
        "mvapich2": {"require": ["fabrics=nemesis process_managers=hydra"]},
    }
}

#: MPIs that the site need not have, and what MVAPICH and MVAPICH2
#: are built with where it has none of it.
KEPT = ("bison", "gmake", "intel-oneapi-mpi", "libfabric", "libiconv", "libpciaccess", "libxml2", "numactl", "pkgconf", "ucx",
        "util-macros", "xz", "zlib", "zlib-ng")  # fmt: skip


def left_out(
    spack: Spack, words: Sequence[str], specs: Iterable[str], kept: Iterable[str] = ()
) -> dict[str, Any]:
    """Packages that are not to be built, for a scope: all that the specs
    reach and no solution needs (:mod:`spack_reach`).

    :param words: words before Spack's command, which say what its configuration is.
    :param kept: what may be built beside this project's packages.
    """
    with tempfile.TemporaryDirectory() as made:
        asked = Path(made, "asked.json")
        answer = Path(made, "answer.json")
        asked.write_text(json.dumps({"specs": [*specs], "kept": [*kept]}))
        command = [
            spack.program,
            "--color=never",
            *words,
            "python",
            str(SUPPORT / "spack_reach.py"),
            str(asked),
            str(answer),
        ]
        done = subprocess.run(
            command, env=dict(spack.environ), capture_output=True, text=True, timeout=1800
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return {name: {"buildable": False} for name in json.loads(answer.read_text())}


def find_spack() -> Spack:
    """The machine's Spack; the test is skipped where there is none. One
    that is there and does not answer fails the test.
    """
    if not os.environ.get("SPACK_ROOT") and not shutil.which("spack"):
        pytest.skip(
            "[spack] Spack is neither in SPACK_ROOT nor on PATH ('mpibench stacks build' says "
            "how to get it)"
        )
    return locate_spack()


def overriding(scope: dict[str, Any]) -> str:
    """A Spack file; a key that ends with a colon replaces what
    scopes below it say (``require::``).
    """
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
    # As in a checkout: what checks data and pinning is mpi4py, which
    # stacks of other origins have from the wheels.
    (top / "environments" / "wheels").symlink_to(root / "environments" / "wheels")
    folder = find_scope(top)
    folder.mkdir(exist_ok=True)
    for name, text in scope.items():
        (folder / name).write_text(text)
    return top


def find_scope(top: Path) -> Path:
    """Where a copy has its site's scope."""
    return top / "site_configs" / "generic" / "spack"


#: What :func:`left_out` has found, by Spack's program.
LEAN: dict[str, dict[str, Any]] = {}


def copy_lean_project(spack: Spack, root: Path, top: Path, scope: dict[str, str]) -> Path:
    """As :func:`copy_project` with :data:`SCOPE`, whose solutions consider only what they need."""
    place = copy_project(root, top, {"packages.yaml": overriding(SCOPE), **scope})
    if spack.program not in LEAN:
        inside = replace(spack, environ={**spack.environ, build.SCOPE: str(find_scope(place))})
        specs = [f"mpibench-suite ^{name}" for name in list_by_default(root)]
        LEAN[spack.program] = left_out(
            inside, ("-e", str(place / "environments" / "openmpi")), specs, KEPT
        )
    packages = {**LEAN[spack.program], **SCOPE["packages"]}
    (find_scope(place) / "packages.yaml").write_text(overriding({"packages": packages}))
    return place
