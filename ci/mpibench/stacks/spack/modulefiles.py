"""Modulefiles of built stacks, written by Spack.

Spack's settings are made for each stack, because names include that of the environment, for which
Spack's projections have no placeholder. With the MPI's name alone, ``openmpi`` and
``openmpi-clang`` would be the same module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from .lock import BENCHMARKS, SUITE, Lock, LockedSpec
from .project import Project

#: Kinds Spack writes -> where the folder is that goes on MODULEPATH, below that of the kind.
KINDS = {"tcl": "", "lmod": "Core"}


def list_packages(lock: Lock) -> list[LockedSpec]:
    """The packages of a stack that get a module: the bundle, its MPI, its benchmarks."""
    return [lock.suite, lock.mpi, *lock.benchmarks]


def module_of(lock: Lock) -> str:
    """Name of the module that loads a stack: two of one MPI
    have the names of their environments.
    """
    return f"{SUITE}/{lock.path.parent.name}-{lock.mpi.version}"


def module_path(root: Path, kind: str) -> Path:
    """What ``module use`` takes."""
    return root / kind / KINDS[kind]


def configure_modules(root: Path, lock: Lock) -> dict[str, Any]:
    """Spack's ``modules.yaml``: both kinds below ``root``, without
    folders of architectures or compilers.
    """
    environment = lock.path.parent.name
    other = "" if environment == lock.mpi.name else f"-{environment}"
    plain = {
        "hash_length": 0,
        "projections": {  # a benchmark is built for one MPI; an MPI is a module by itself
            SUITE: f"{{name}}/{environment}-{{^mpi.version}}",
            **dict.fromkeys(BENCHMARKS, f"{{name}}/{{version}}-{environment}-{{^mpi.version}}"),
            "all": f"{{name}}/{{version}}{other}",
        },
        # What a program needs from Spack's store it has as a run path.
        "all": {"autoload": "none"},
        # Two stacks in one shell would be the MPI of one and the benchmarks of the other.
        SUITE: {"autoload": "direct", "conflict": ["{name}"]},
    }
    return {
        "modules": {
            "default": {
                "enable:": list(KINDS),
                "roots": {kind: str(root / kind) for kind in KINDS},
                "arch_folder": False,
                "tcl:": plain,
                "lmod:": {
                    **plain,
                    "hierarchy": [],
                    "core_compilers": lock.compiler_names(*list_packages(lock)),
                },
            }
        }
    }


def write_modules(project: Project, name: str, root: Path) -> None:
    """Write the modulefiles of an installed stack, so that users can load exactly what was tested.

    One module a stack, such as ``mpibench-suite/openmpi-5.0.10``, loads its MPI and its benchmarks,
    which have modules of their own; nothing else of Spack's store gets one.
    """
    lock = project.concretized[name]
    scope = project.place / "modules" / name
    scope.mkdir(parents=True, exist_ok=True)
    # A key with a colon at its end replaces what other scopes say.
    text = (
        yaml.safe_dump(configure_modules(root, lock))
        .replace("'enable:':", "enable::")
        .replace("'tcl:':", "tcl::")
    )
    (scope / "modules.yaml").write_text(text.replace("'lmod:':", "lmod::"))
    specs = [f"{node.name}/{node.hash}" for node in list_packages(lock)]
    for kind in KINDS:
        words = ("module", kind, "refresh", "--yes-to-all", *specs)
        project.run(name, f"writing modulefiles ({kind})", *words, scopes=(str(scope),))
    tcl, lmod = (module_path(root, kind) for kind in KINDS)
    project.echo(
        f"{name}: modulefiles written; 'module use {tcl}' (Lmod: {lmod}), then 'module load "
        f"{module_of(lock)}'"
    )
