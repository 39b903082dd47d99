"""A table of stacks with tiny wheels of its own, so that
installing can be tested without network and MPI.

The MPI in them is two files: an ``mpirun`` that runs its command, and a ``libmpi`` that a matching
``mpi4py`` maps and whose version it reports from ``lib/version``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

MPIRUN = '#!/bin/sh\nshift 2\nexec "$@"\n'
IMB = '#!/bin/sh\necho "#    Intel(R) MPI Benchmarks 2021.11"\n'
MPI4PY = """
import mmap, os, pathlib

library = pathlib.Path(os.environ["MPI4PY_LIBMPI"])
stream = library.open("rb")
mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


class MPI:
    def Get_library_version():
        return library.with_name("version").read_text()
"""


def make_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> Path:
    """Write a wheel; paths below ``bin/`` and ``lib/`` are data files
    of the prefix, the others Python modules.
    """
    info = f"{name}-{version}.dist-info"
    data = f"{name}-{version}.data/data"
    content = {
        f"{data}/{path}" if path.split("/")[0] in ("bin", "lib") else path: text
        for path, text in files.items()
    }
    content[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    content[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    rows = []
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in content.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (0o100755 if "/bin/" in path else 0o100644) << 16
            archive.writestr(entry, text)
            digest = (
                base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
                .rstrip(b"=")
                .decode()
            )
            rows.append(f"{path},sha256={digest},{len(text.encode())}\n")
        archive.writestr(f"{info}/RECORD", "".join([*rows, f"{info}/RECORD,,\n"]))
    return wheel


def make_mpi_wheel(folder: Path, name: str, version: str, imb: bool = False) -> Path:
    """A wheel with an MPI that reports ``<name> <version>``, with ``IMB-MPI1`` on request."""
    files = {"bin/mpirun": MPIRUN, "lib/libmpi.so.12": name, "lib/version": f"{name} {version}\0"}
    return make_wheel(folder, name, version, files | ({"bin/IMB-MPI1": IMB} if imb else {}))


def make_mpi4py_wheel(folder: Path) -> Path:
    """A wheel that stands in for mpi4py 4.1.2."""
    return make_wheel(folder, "mpi4py", "4.1.2", {"mpi4py/__init__.py": MPI4PY})


def pin(wheel: Path) -> str:
    """The line of a requirement file for a wheel, with its checksum."""
    name, version = wheel.name.split("-")[:2]
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


def row(folder: str, wheel: str, **changes: Any) -> dict[str, Any]:
    """One row of the table, for the wheel pinned in ``<folder>.txt``."""
    return {
        "mpi": "mpich",
        "wheel": wheel,
        "requirements": [f"{folder}.txt", "mpi4py.txt"],
        "download_mb": 1,
        "machines": ["x86_64"],
        "glibc": "2.28",
        "device": "",
        "abi": "mpich",
        "launcher_family": "hydra",
        "library": "lib/libmpi.so.12",
        "library_version_pattern": f"^{wheel} {{version}}$",
        "env_vars": {"ROOT": "{prefix}"},
        **changes,
    }


def write_table(wheels: Path, index: Path, schema: Path) -> None:
    """Two stacks in ``wheels``: ``donor``, which ships IMB, and
    ``guest``, which runs it; their wheels in ``index``.
    """
    wheels.mkdir(parents=True)
    imb = {"version": "2021.11", "from": "donor", "binaries": ["IMB-MPI1"]}
    table = {
        "stacks": {
            "donor": row("donor", "donormpi", programs=imb),
            "guest": row("guest", "guestmpi", programs=imb),
        }
    }
    (wheels / "stacks.yaml").write_text(json.dumps(table))  # JSON is YAML
    (wheels / "stacks.schema.json").write_text(schema.read_text())
    (wheels / "donor.txt").write_text(pin(make_mpi_wheel(index, "donormpi", "1.2", imb=True)))
    (wheels / "guest.txt").write_text(pin(make_mpi_wheel(index, "guestmpi", "3.4")))
    (wheels / "mpi4py.txt").write_text(pin(make_mpi4py_wheel(index)))
