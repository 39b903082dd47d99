"""Modulefiles of the stacks Spack has built, so that users load what the tests have proved, and the tests can load it, too.

Spack writes them (``spack module tcl refresh``, ``spack module lmod refresh``). One module a stack, such as
``mpibench-suite/openmpi-5.0.10``, loads its MPI and its benchmarks, which have modules of their own; nothing else of Spack's
store gets one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from .consistency import BENCHMARKS
from .lock import SUITE, Lock, LockedSpec
from .project import Project

#: Kinds Spack writes -> where the folder is that goes on MODULEPATH, below that of the kind.
KINDS = {"tcl": "", "lmod": "Core"}


def list_packages(lock: Lock) -> list[LockedSpec]:
    """What of a stack gets a module: the bundle, its MPI, its benchmarks."""
    return [lock.suite, lock.mpi, *filter(None, map(lock.find, BENCHMARKS))]


def module_of(lock: Lock) -> str:
    """Name of the module that loads a stack: two of one MPI have the names of their environments."""
    return f"{SUITE}/{lock.path.parent.name}-{lock.mpi.version}"


def names_of(lock: Lock) -> dict[str, str]:
    """Names of modules (``projections``). A benchmark is built for one MPI; an MPI is a module by itself."""
    environment = lock.path.parent.name
    other = "" if environment == lock.mpi.name else f"-{environment}"
    return {
        SUITE: f"{{name}}/{environment}-{{^mpi.version}}",
        **dict.fromkeys(BENCHMARKS, f"{{name}}/{{version}}-{environment}-{{^mpi.version}}"),
        "all": f"{{name}}/{{version}}{other}",
    }


def module_path(root: Path, kind: str) -> Path:
    """What ``module use`` takes."""
    return root / kind / KINDS[kind]


def configure(root: Path, lock: Lock) -> dict[str, Any]:
    """Spack's ``modules.yaml``: both kinds below ``root``, without folders of architectures or compilers."""
    compilers = sorted({compiler for node in list_packages(lock) for compiler in lock.compilers(node).values()})
    plain = {
        "hash_length": 0,
        "projections": names_of(lock),
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
                "lmod:": {**plain, "hierarchy": [], "core_compilers": compilers},
            }
        }
    }


def write(project: Project, name: str, root: Path) -> list[Path]:
    """Write the modulefiles of an installed stack; the folders for ``module use``.

    :raises BadInput: when Spack does not.
    """
    lock = project.concretized[name]
    scope = project.place / "modules" / name
    scope.mkdir(parents=True, exist_ok=True)
    # A key with a colon at its end replaces what other scopes say.
    text = yaml.safe_dump(configure(root, lock)).replace("'enable:':", "enable::").replace("'tcl:':", "tcl::")
    (scope / "modules.yaml").write_text(text.replace("'lmod:':", "lmod::"))
    specs = [f"{node.name}/{node.hash}" for node in list_packages(lock)]
    for kind in KINDS:
        words = ("module", kind, "refresh", "--yes-to-all", *specs)
        project.run(name, f"writing modulefiles ({kind})", *words, remedy="see the log", scopes=(str(scope),))
    folders = [module_path(root, kind) for kind in KINDS]
    project.echo(
        f"{name}: modulefiles written; 'module use {folders[0]}' (Lmod: {folders[1]}), then 'module load {module_of(lock)}'"
    )
    return folders
