"""A stack that is only files: a folder with everything a valid
``stack.json`` names, for tests that run no MPI.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack


def made_stack(mpi: str, version: str, **changes: Any) -> Stack:
    """A stack as metadata describe it, of which no file is there."""
    place = {
        "prefix": "/opt/mpi",
        "library": "/opt/mpi/lib/libmpi.so",
        "library_version_pattern": "",
    }
    nothing: dict[str, Any] = {
        "binaries": {},
        "commands": {},
        "suites": {},
        "env_vars": {},
        "prepend_path": {},
    }
    known = {
        "name": f"{mpi}-spack",
        "origin": "spack",
        "mpi": mpi,
        "mpi_version": version,
        "device": "",
    }
    known |= {"abi": "openmpi" if mpi == "openmpi" else "mpich", "launcher_family": "hydra"}
    return Stack(**{**known, **place, **nothing, **changes})


def sealed(document: dict[str, Any]) -> Any:
    """As it is registered; what is no valid document stays as it is."""
    try:
        return metadata.seal(document, "stack.json")
    except metadata.StackError:
        return document


def write_stack(folder: Path, **changes: Any) -> Path:
    """Make a complete stack in ``folder`` and return its metadata
    file; ``changes`` replace top-level keys.
    """
    for name in ("bin", "lib", "python"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "lib" / "libmpi.so.12").write_bytes(b"")
    program = folder / "bin" / "IMB-MPI1"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = folder / "stack.json"
    path.write_text(json.dumps(sealed({**describe(folder), **changes})))
    return path


def describe(folder: Path) -> dict[str, Any]:
    """Valid metadata of a stack in ``folder``."""
    return {
        "schema_version": 1,
        "name": "mpich-system",
        "origin": "system",
        "mpi": {"name": "mpich", "version": "5.0.2", "device": "ch4:ucx"},
        "abi": "mpich",
        "launcher_family": "hydra",
        "prefix": str(folder),
        "library": f"{folder}/lib/libmpi.so.12",
        "library_version_pattern": r"MPICH Version:\s+5\.0\.2\s",
        "binaries": {"IMB-MPI1": f"{folder}/bin/IMB-MPI1"},
        "commands": {"mpi4py.bench": ["/bin/true", "-m", "mpi4py.bench"]},
        "suites": {"imb": {"version": "2021.11", "built_with": "gcc 12.2"}},
        "env_vars": {"ROOT": str(folder)},
        "prepend_path": {
            "PATH": [f"{folder}/bin"],
            "LD_LIBRARY_PATH": [f"{folder}/lib", f"{folder}/python"],
        },
        "build": {"lock_hash": "0123abcd"},
    }


DOCUMENT = describe(Path("/opt/mpich"))
#: Stands for the absence of a key.
DELETED = object()


def change(keys: str, value: Any) -> dict[str, Any]:
    """The valid document with one key replaced, added or (``DELETED``) removed."""
    document = copy.deepcopy(DOCUMENT)
    *parents, last = keys.split("/")
    place = document
    for key in parents:
        place = place[key]
    if value is DELETED:
        del place[last]
    else:
        place[last] = value
    return document
