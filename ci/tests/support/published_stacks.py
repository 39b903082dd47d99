"""The MPI stacks of the papers and of other machines, as metadata: nobody can build them here, but
their job scripts can be written and read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from synthetic_stack import sealed, write_stack

#: Name: (mpi, version, device, ABI, launcher family, library, version of IMB). Versions are the
#: papers'; where a paper says only "latest" (oneAPI, November 2021) or takes the distribution's
#: (CentOS 8.3) it is that of its date.
STACKS: dict[str, tuple[str, str, str, str, str, str, str]] = {
    "intelmpi-401": ("intelmpi", "4.0.1", "", "mpich", "hydra-intel", "libmpi.so.4", "3.2"),
    "openmpi-142": ("openmpi", "1.4.2", "", "openmpi", "orterun", "libmpi.so.0", "3.2"),
    "mvapich2-15": ("mvapich2", "1.5", "ch3:mrail", "mpich", "mpirun_rsh", "libmpich.so.1", "3.2"),
    "openmpi-ohpc": ("openmpi", "4.0.5", "", "openmpi", "orterun", "libmpi.so.40", "2021.3"),
    "intelmpi-oneapi": ("intelmpi", "2021.4", "", "mpich", "hydra-intel", "libmpi.so.12", "2021.3"),
    "intelmpi-2017": ("intelmpi", "2017.4", "", "mpich", "hydra-intel", "libmpi.so.12", "2018.1"),
    "intelmpi-2018": ("intelmpi", "2018.4", "", "mpich", "hydra-intel", "libmpi.so.12", "2018.1"),
    "intelmpi-2019": ("intelmpi", "2019.5", "", "mpich", "hydra-intel", "libmpi.so.12", "2018.1"),
    "pempi-43": ("pempi", "4.3", "", "pempi", "poe", "libmpi_r.a", "2018.1"),
}
#: Likewise, of the machines that site_configs/template has.
TODAY: dict[str, tuple[str, str, str, str, str, str, str]] = {
    "craympich-81": (
        "craympich",
        "8.1.28.2",
        "ch4:ofi",
        "mpich",
        "pals",
        "libmpi_gnu_91.so.12",
        "2021.7",
    ),
    "hpcx-224": ("openmpi", "4.1.7rc1", "", "openmpi", "orterun", "libmpi.so.40", "2021.7"),
    "mpich-43": ("mpich", "4.3.0", "ch4:ofi,ucx", "mpich", "hydra", "libmpi.so.12", "2021.7"),
    "openmpi-508": ("openmpi", "5.0.8", "", "openmpi", "prrte", "libmpi.so.40", "2021.7"),
    "parastation-510": ("parastation", "5.10.0", "", "mpich", "psmgmt", "libmpi.so.12", "2021.7"),
}
#: Launchers that are not called mpirun.
LAUNCHERS = {"poe": "poe", "mpirun_rsh": "mpirun_rsh", "pals": "mpiexec", "psmgmt": "mpiexec"}


def write_all(
    folder: Path, *, mpi4py: bool = False, rows: Mapping[str, tuple[str, ...]] = STACKS
) -> str:
    """Write every stack below ``folder`` and return the value of
    ``MPIBENCH_STACKS`` that registers them.

    :param mpi4py: with the one instrument of today that needs no compiling.
    :param rows: the stacks, as :data:`STACKS` has them.
    """
    return ":".join(
        str(_write(folder / name, name, row, mpi4py=mpi4py)) for name, row in rows.items()
    )


def _write(folder: Path, name: str, row: tuple[str, ...], *, mpi4py: bool) -> Path:
    mpi, version, device, abi, family, library, imb = row
    changes: dict[str, Any] = {
        "name": name,
        "mpi": {"name": mpi, "version": version, "device": device},
        "abi": abi,
        "launcher_family": family,
        "library": f"{folder}/lib/{library}",
        "library_version_pattern": version.replace(".", "[.]"),
        "commands": {"mpi4py.bench": ["/bin/true", "-m", "mpi4py.bench"]} if mpi4py else {},
        "suites": {
            "imb": {"version": imb, "built_with": f"{mpi} {version}"},
            **(
                {"mpi4py": {"version": "4.1.2", "built_with": f"{mpi} {version}"}} if mpi4py else {}
            ),
        },
        "env_vars": {},
        "prepend_path": {"LD_LIBRARY_PATH": [f"{folder}/lib"]},
    }
    path = write_stack(folder, **changes)
    (folder / "lib" / library).write_bytes(b"")
    if family in LAUNCHERS:
        launcher = folder / "bin" / LAUNCHERS[family]
        launcher.write_text("#!/bin/sh\n")
        launcher.chmod(0o755)
        commands = {**changes["commands"], "mpirun": [str(launcher)]}
        path.write_text(json.dumps(sealed({**json.loads(path.read_text()), "commands": commands})))
    return path
