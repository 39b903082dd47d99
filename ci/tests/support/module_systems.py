"""Lmod and Environment Modules for tests, and small trees of modulefiles.

Debian's packages of the two exclude each other, so ``ci/setup test`` unpacks both into
``results/module-systems`` and installs only the interpreters. What a host has installed itself is
used where it lies.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from folders import write
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack

UNPACKED = metadata.ROOT / "results" / "module-systems"
KINDS = ("lmod", "envmod")
#: The program of each, below the host's root or that of its unpacked package.
PROGRAMS = {
    "lmod": ("lmod", "usr/share/lmod/lmod/libexec/lmod", "lua5.3"),
    "envmod": ("environment-modules", "usr/lib/*/modulecmd.tcl", "tclsh"),
}
#: Defines ``module``, as the files ``init/bash`` of the two do.
INIT = {
    "lmod": 'module() {{ eval "$({program} bash "$@")"; }}\n',
    "envmod": 'module() {{ eval "$(tclsh {program} bash "$@")"; }}\n',
}


@dataclass(frozen=True)
class ModuleSystem:
    """One that is set up.

    :param kind: as ReFrame calls it.
    :param environ: variables that a login sets for it.
    :param tree: folder of modulefiles.
    """

    kind: str
    environ: Mapping[str, str]
    tree: Path

    def write(self, name: str, *lines: str) -> Path:
        """A modulefile in Tcl, which both read."""
        return write(self.tree / name, "\n".join(["#%Module1.0", *lines, ""]))

    def write_mpi(self, name: str, prefix: Path, *lines: str) -> Path:
        """The module of an MPI below a prefix."""
        paths = [f"prepend-path PATH {prefix}/bin", f"prepend-path LD_LIBRARY_PATH {prefix}/lib"]
        return self.write(name, *paths, f"setenv MPI_HOME {prefix}", *lines)

    def write_stack(self, name: str, stack: Stack, *lines: str) -> Path:
        """The module of a wheels stack: what its metadata set, but for
        mpi4py, which no module of a site has.
        """
        variables = {
            key: value for key, value in stack.env_vars.items() if not key.startswith("MPI4PY")
        }
        paths = {key: folders for key, folders in stack.prepend_path.items() if key != "PYTHONPATH"}
        return self.write(
            name,
            *(f"setenv {key} {{{value}}}" for key, value in variables.items()),
            *(
                f"prepend-path {key} {folder}"
                for key, folders in paths.items()
                for folder in folders
            ),
            *lines,
        )

    def shell(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a bash in which ``module`` is defined."""
        text = f". {self.environ['MODULESHOME']}/init/bash\n{script}"
        environ = {**os.environ, **self.environ}
        return subprocess.run(
            ["/bin/bash", "-c", text], env=environ, text=True, capture_output=True, timeout=120
        )


def missing(kind: str) -> str:
    """Why it is not here; empty where it is."""
    package, _, interpreter = PROGRAMS[kind]
    if find_program(kind) is None:
        return (
            f"no {package} here (Debian's package of that name; 'ci/setup test' unpacks it where "
            "it may)"
        )
    return "" if shutil.which(interpreter) else f"no {interpreter} here, which runs {package}"


def find_program(kind: str) -> Path | None:
    """What the host has, else what was unpacked."""
    package, pattern, _ = PROGRAMS[kind]
    return next(
        (path for root in (Path("/"), UNPACKED / package) for path in sorted(root.glob(pattern))),
        None,
    )


def set_up(kind: str, folder: Path) -> ModuleSystem:
    """A module system with an empty tree below a folder; the
    test is skipped where there is none.
    """
    if reason := missing(kind):
        pytest.skip(f"[modules] {reason}")
    program = find_program(kind)
    write(folder / "home/init/bash", INIT[kind].format(program=program))
    (folder / "tree").mkdir()
    environ = {"MODULESHOME": str(folder / "home"), "MODULEPATH": str(folder / "tree")}
    if kind == "lmod":
        environ |= {"LMOD_CMD": str(program), "LMOD_PAGER": "none"}
    else:
        write(
            folder / "bin/modulecmd",
            f'#!/bin/sh\nexec tclsh {program} "$@"\n',
            executable=True,
        )
        environ["PATH"] = f"{folder / 'bin'}:{os.environ['PATH']}"
    return ModuleSystem(kind, environ, folder / "tree")


def enter(system: ModuleSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process one of a shell in which the module
    system is set up and nothing is loaded.
    """
    for name in list(os.environ):
        if name.startswith(
            ("LMOD", "MODULE", "__MODULES", "__LMOD", "_ModuleTable", "LOADEDMODULES", "_LMFILES_")
        ):
            monkeypatch.delenv(name)
    for name, value in system.environ.items():
        monkeypatch.setenv(name, value)
