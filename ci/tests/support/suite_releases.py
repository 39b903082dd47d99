"""Releases of OSU and IMB on the wheel of MPICH: built by ``stacks add
--build``, kept in the cache, run by one ReFrame.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stand_in_cuda
from mpibench.stacks import probe, suite_builds, system
from mpibench.store.sessions import Case, read_session
from reframe_tests.harness.stacks.stack import Stack

#: Suite to its releases whose tarballs are looked for in the sources folder.
RELEASES = {
    "osu": [
        "5.6.3",
        "5.7",
        "5.7.1",
        "5.8",
        "5.9",
        "6.0",
        "6.1",
        "6.2",
        "7.0",
        "7.0.1",
        "7.1",
        "7.1-1",
        "7.2",
        "7.3",
        "7.4",
        "7.5",
    ],
    "imb": "2018.1 2019.6 2021.2 2021.7 2021.11".split(),  # noqa: SIM905
}
#: Most repetitions of any size.
REPETITIONS = 4
#: This machine with a few repetitions: nobody looks at the numbers.
SYSTEM = {
    "name": "box",
    "descr": "this machine, for tests",
    "hostnames": [".*"],
    "max_local_jobs": 1,
    "partitions": [
        {
            "name": "node",
            "scheduler": "local",
            "launcher": "local",
            "max_jobs": 1,
            "extras": {
                "fabrics": {"shm": {"transport": "shm", "scope": "node"}},
                "most_repetitions": REPETITIONS,
            },
        },
    ],
}


@dataclass(frozen=True)
class Release:
    """A release whose tarball is here."""

    suite: str
    version: str
    tarball: Path

    @property
    def name(self) -> str:
        """Name of its stack."""
        return f"{self.suite}_{re.sub(r'[^0-9]', '_', self.version)}"


def path_of(suite: str, version: str) -> Path:
    """Where the tarball of a release is, if it is here."""
    return suite_builds.sources_folder() / suite_builds.url_of(suite, version).rpartition("/")[2]


def here(suite: str) -> list[Release]:
    """Releases of a suite whose tarballs are here."""
    releases = [Release(suite, version, path_of(suite, version)) for version in RELEASES[suite]]
    return [release for release in releases if release.tarball.is_file()]


def register(release: Release, mpi: Stack, into: Path, gpu: str = "", toolkit: str = "") -> Stack:
    """A stack with the programs of a release: built with the MPI's
    own wrappers, or kept from an earlier run.

    :param gpu: platform of GPUs to build it for, and the folder of its toolkit.

    What is kept depends on the tarball, the MPI and the compiler; empty
    the folder where the way to build has changed.
    """
    compilers = suite_builds.find_compilers(Path(mpi.mpirun[0]), Path(mpi.prefix), dict(os.environ))
    inputs = [suite_builds.digest_of(release.tarball), mpi.lock_hash, compilers.says]
    inputs += (
        [gpu, stand_in_cuda.HEADER, stand_in_cuda.SOURCE, stand_in_cuda.DRIVER, stand_in_cuda.NVCC]
        if gpu
        else []
    )
    more: dict[str, Any] = {}
    if gpu:
        home = {"cuda": "CUDA_HOME", "rocm": "ROCM_PATH"}[gpu]
        more = {
            "gpu": gpu,
            "env": {home: toolkit},
            "prepend_path": {"LD_LIBRARY_PATH": [f"{toolkit}/lib64"]},
        }
    key = hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]
    kept = (
        suite_builds.sources_folder().parent / "builds" / f"{release.suite}-{release.version}-{key}"
    )
    folder = into / release.name
    if kept.is_dir():
        return system.add(
            mpi.mpirun[0], name=release.name, binaries=[kept], into=folder, say=_nothing, **more
        )
    word = f"{release.suite}={release.tarball}"
    stack = system.add(
        mpi.mpirun[0], name=release.name, builds=[word], into=folder, say=_nothing, **more
    )
    kept.parent.mkdir(parents=True, exist_ok=True)
    partial = kept.with_name(f".{kept.name}.{os.getpid()}")
    shutil.copytree(folder / release.suite, partial)
    try:
        partial.rename(kept)
    except OSError:  # somebody else was faster
        shutil.rmtree(partial)
    return stack


def _nothing(text: str) -> None:
    """What is said while a stack is registered."""


def offered(release: Release) -> set[str]:
    """Programs for MPI in C that a tarball has the sources of, but for
    IMB-HALO, which upstream has no target for.
    """
    names: set[str] = set()
    with tarfile.open(release.tarball) as archive:
        for member in archive:
            inside = member.name.partition("/")[2]
            if release.suite == "imb":
                part = re.fullmatch(
                    r"src_cpp/([A-Z0-9]+)/Makefile.*\.mk|src_c/(P2P)/Makefile"
                    r"|src/IMB_parse_name_(\w+)\.c",
                    inside,
                )
                names |= {f"IMB-{name.upper()}" for name in (part.groups() if part else ()) if name}
            elif re.fullmatch(r"(c/)?mpi/.*/Makefile\.am", inside):
                text = archive.extractfile(member).read().decode().replace("\\\n", " ")
                for line in re.findall(r"^\s*\w*_PROGRAMS *\+?= *(.*)$", text, re.M):
                    names |= {
                        word for word in line.split() if probe.suite_of(word) == release.suite
                    }
    return names - {"IMB-HALO"}


def write_site(top: Path, system: dict[str, Any] = SYSTEM) -> Path:
    """A system in a copy of the project, by default the one
    above; its settings file, for ReFrame.
    """
    folder = top / "site_configs" / str(system["name"])
    folder.mkdir()
    (folder / "system.py").write_text(f"system = {system!r}\n")
    return top / "site_configs" / "settings.py"


def table(cases: Iterable[Case]) -> str:
    """Cases a line: stack, leaf, ranks, result, and why it was not measured or failed."""
    rows = sorted(
        f"{case.stack:12} {case.name:26} ppn={case.ppn_symbol} {case.result:5} {case.reason[:160]}"
        for case in cases
    )
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(case for name in sys.argv[1:] for case in read_session(Path(name)).cases))
