"""What of the software that Spack finds on a machine a site's stacks can be built on, and why not the rest.

``spack external find`` takes every program on PATH that answers to a name: the shim of a version manager, the Python of a
virtual environment, an MPI whose compiler is another MPI's, a library without its headers. A build on one of those fails late,
or measures something else than it says.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

#: Tools of builds that every distribution has, so that no stack builds them first.
BUILD_TOOLS = (
    "autoconf", "automake", "bison", "cmake", "diffutils", "findutils", "flex", "gettext", "gmake", "libtool", "m4",
    "ninja", "perl", "pkgconf", "tar", "texinfo",
)  # fmt: skip
#: What a site has and runs itself, with a header without which nothing can be built against it (empty: none is needed). A build
#: of its own would be another one than the daemons, drivers or certificates of the machine belong to.
SITE_SOFTWARE: Mapping[str, str] = {
    "cuda": "cuda.h",
    "curl": "curl/curl.h",
    "git": "",
    "hip": "hip/hip_runtime.h",
    "krb5": "krb5.h",
    "numactl": "numa.h",
    "openssh": "",
    "openssl": "openssl/ssl.h",
    "python": "Python.h",
    "rdma-core": "infiniband/verbs.h",
    "slurm": "",
}
#: Why a prefix is none that a stack can be built on, by what is in it.
MARKS: Mapping[str, str] = {
    "pyvenv.cfg": "it is a Python environment, which is made again or removed at any time",
    "conda-meta": "it is a Conda environment, whose libraries are not the machine's",
}
HIDDEN = "it lies in {}, where a version manager keeps what it chooses from"
INSIDE = "it belongs to this project, which makes and removes it"
GONE = "there is no such folder"
HEADERS = "{} has no {}, so nothing can be built against it; install its development package"
SHARED = (
    "{} has its programs there, too, and one of them has the names mpicc and mpirun; each needs a folder of links to its "
    "programs and an entry of its own (site_configs/template/spack/debian12)"
)
ABSENT_MPICC = "it has no bin/mpicc; install its development package"


@dataclass(frozen=True)
class External:
    """One installation that Spack has found.

    :param entry: as it stands under ``externals``.
    """

    package: str
    entry: Mapping[str, Any]

    @property
    def prefix(self) -> Path | None:
        """Where it is; ``None`` where only a module says so."""
        return Path(self.entry["prefix"]) if self.entry.get("prefix") else None

    @property
    def programs(self) -> Iterator[Path]:
        """Compilers it names, which may lie outside its prefix."""
        for path in ((self.entry.get("extra_attributes") or {}).get("compilers") or {}).values():
            yield Path(path)

    def __str__(self) -> str:
        return f"{self.entry['spec']} ({self.prefix or 'a module'})"


def curate(
    packages: Mapping[str, Mapping[str, Any]], checkout: Path, mpis: Iterable[str]
) -> tuple[dict[str, dict[str, Any]], list[tuple[External, str]]]:
    """Split what was found into what goes into the site's scope and what does not, with the reason.

    A package stays buildable, and so does every virtual package: Spack may still build what an entry does not fit. Only an MPI
    that is there is not built as well, because its stack is to measure the site's own.

    :param packages: settings by package, as ``spack external find`` writes them.
    :param checkout: top of the project.
    :param mpis: packages that are MPIs.
    """
    found = [External(name, row) for name, settings in packages.items() for row in settings.get("externals") or ()]
    providers = set(mpis)
    owners = {name: [row for row in found if row.package == name and row.prefix] for name in providers}
    kept: dict[str, dict[str, Any]] = {}
    dropped: list[tuple[External, str]] = []
    for row in found:
        others = [other for name, rows in owners.items() if name != row.package and row.package in providers for other in rows]
        reason = judge(row, checkout, others, row.package in providers)
        if reason:
            dropped.append((row, reason))
            continue
        settings = kept.setdefault(row.package, {"externals": []})
        if not any(_is_same(row.entry, other) for other in settings["externals"]):
            settings["externals"].append(dict(row.entry))
        if row.package in providers:
            settings["buildable"] = False
    return kept, dropped


def judge(found: External, checkout: Path, mpis: Sequence[External] = (), is_mpi: bool = False) -> str:
    """Why an installation is unusable; empty where it can be used.

    :param mpis: the other MPIs that were found.
    """
    for path in filter(None, (found.prefix, *found.programs)):
        reason = _judge_place(path, checkout)
        if reason:
            return reason
    prefix = found.prefix
    if prefix is None:
        return ""
    if not prefix.is_dir():
        return GONE
    shared = next((other for other in mpis if other.prefix and _same_folder(other.prefix, prefix)), None)
    if shared:
        return SHARED.format(shared.entry["spec"].split()[0])
    if is_mpi and not _has_program(prefix, "mpicc"):
        return ABSENT_MPICC
    header = SITE_SOFTWARE.get(found.package, "")
    return HEADERS.format(prefix, header) if header and not _has_header(prefix, header) else ""


def _judge_place(path: Path, checkout: Path) -> str:
    hidden = next((part for part in PurePath(path).parts if part.startswith(".") or part == "shims"), "")
    if hidden:
        return HIDDEN.format(hidden)
    real = path.resolve()
    if any(place.is_relative_to(checkout) or place.is_relative_to(checkout.resolve()) for place in (path, real)):
        return INSIDE
    for place in (path, *path.parents):
        for name, reason in MARKS.items():
            if (place / name).exists():
                return reason
    return ""


def _has_header(prefix: Path, header: str) -> bool:
    """Also where a distribution of several architectures, a Python or a CUDA of several targets has it one folder deeper."""
    places = [prefix / "include", *sorted((prefix / "include").glob("*/")), *sorted(prefix.glob("targets/*/include/"))]
    return any((place / header).is_file() for place in places)


def _has_program(prefix: Path, name: str) -> bool:
    """Intel MPI has its programs in a folder of its version."""
    return any(os.access(folder / name, os.X_OK) for folder in (prefix / "bin", *prefix.glob("mpi/*/bin")))


def _same_folder(left: Path, right: Path) -> bool:
    return left.resolve() == right.resolve()


def _is_same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Whether two entries are one installation by two names, as ``/`` and ``/usr`` are where ``/bin`` is a link."""
    if left["spec"] != right["spec"] or not left.get("prefix") or not right.get("prefix"):
        return left == right
    return (Path(left["prefix"]) / "bin").resolve() == (Path(right["prefix"]) / "bin").resolve()
