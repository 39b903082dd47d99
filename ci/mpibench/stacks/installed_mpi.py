"""Finds out what an MPI installation is, from its launcher and its library: prefix, process manager, ABI, version, device."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from reframe_tests.harness.launchers import registry as launchers
from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.vocabulary import BadInput

from . import logged, probe

#: Folders every process looks in for programs and needs no variable for.
SYSTEM_BIN = ("/usr/local/bin", "/usr/bin", "/bin")
#: Variables that a probe keeps from the caller: what else a stack needs must be in its metadata, not in this shell.
KEPT_VARIABLES = ("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TERM", "XDG_RUNTIME_DIR")
#: Where a prefix has its libraries: GNU directory variables, Debian's multiarch folders, Intel MPI's build kinds.
LIBRARY_FOLDERS = ("lib", "lib64", "lib/*-linux-gnu*", "lib/release")
LIMIT_S = 60.0


@dataclass(frozen=True)
class Identity:
    """An MPI library, in the words of ``stack.json``.

    :param device: ``ch4:ucx``, ``ch4:ucx,ofi``; empty where the implementation names none.
    :param pattern: value of ``library_version_pattern``.
    :param families: process managers that come with it.
    """

    mpi: str
    version: str
    device: str
    abi: str
    pattern: str
    families: tuple[str, ...]


def identify(answer: str, who: str) -> Identity:
    """The identity behind an answer of ``MPI_Get_library_version``.

    An MPI made of another may name that one, too, further down: the first name counts.

    :param who: file that gave the answer, for the sentence, and for the device where only its folder says it.
    """
    banners = [(mpi, mpi.banner) for mpi in mpis.known().values() if mpi.banner]
    fitting = [(match, mpi, banner) for mpi, banner in banners if (match := re.search(banner.version, answer, re.M))]
    if not fitting:
        first = next((line.strip() for line in answer.splitlines() if line.strip()), "nothing")
        known = ", ".join(mpi.name for mpi, _ in banners)
        raise BadInput("mpi-unknown", f"{who} says it is {first!r}, an MPI not known here ({known}); {mpis.remedy()}.")
    match, mpi, banner = min(fitting, key=lambda row: row[0].start())
    device = re.search(banner.device, answer, re.M) if banner.device else None
    place = os.path.realpath(who)
    by_path = next((name for pattern, name in banner.device_by_path.items() if re.search(pattern, place)), "")
    # "ch4:ucx ofi" is a build with --with-device=ch4:ucx,ofi.
    words = re.split(r"[ ,]+", device[1].strip()) if device else [by_path] * bool(by_path)
    pattern = banner.pattern.replace("{version}", re.escape(match[1]))
    return Identity(mpi.name, match[1], ",".join(words), mpi.abi, pattern, mpi.launchers)


@dataclass(frozen=True)
class Installation:
    """An MPI as it is installed.

    :param mpirun: its launcher.
    :param library: its libmpi under the name programs ask for.
    :param answer: what the library says of itself.
    :param found_by_loader: true when processes find the library without ``LD_LIBRARY_PATH``.
    """

    mpirun: Path
    family: str
    prefix: Path
    library: Path
    identity: Identity
    answer: str
    found_by_loader: bool


def clean_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a fresh login: nothing that a module has set."""
    kept = {name: value for name, value in environ.items() if name in KEPT_VARIABLES}
    return {**kept, "PATH": ":".join(SYSTEM_BIN)}


def examine(
    mpirun: str, library: Path | None = None, environ: Mapping[str, str] | None = None, say: Callable[[str], object] = print
) -> Installation:
    """What is installed where a launcher lies.

    :param mpirun: path of the launcher, or its name on PATH.
    :param library: its libmpi, where it cannot be found from the launcher's prefix.
    :param environ: what to start it in; :func:`clean_environment` by default.
    :raises BadInput: when there is no launcher, it is of no known MPI, or no library of that MPI answers.
    """
    launcher = _find_launcher(mpirun)
    clean = dict(clean_environment() if environ is None else environ)
    clean["PATH"] = f"{launcher.parent}:{clean['PATH']}"
    family = _ask_family(launcher, clean)
    prefix = launcher.resolve().parent.parent
    candidates = [library] if library else find_libraries(prefix)
    if not candidates:
        raise BadInput(
            "libmpi-missing",
            f"there is no libmpi below {prefix}/lib, where {launcher} belongs; name the library with --library.",
        )
    fitting: list[tuple[Path, Identity, str]] = []
    refusals = []
    for candidate in candidates:
        paths = ":".join(filter(None, [str(candidate.parent), clean.get("LD_LIBRARY_PATH", "")]))  # to find its neighbours
        answer, complaint = probe.ask_library(str(candidate), {**clean, "LD_LIBRARY_PATH": paths}, LIMIT_S)
        if complaint:
            refusals.append(f"{candidate} does not answer ({complaint.rstrip('.')})")
            continue
        try:
            identity = identify(answer, str(candidate))
        except BadInput as error:
            refusals.append(str(error).rstrip("."))
            continue
        if family in identity.families:
            fitting.append((candidate, identity, answer))
        else:
            refusals.append(
                f"{candidate} is {identity.mpi} {identity.version}, whose launcher is {' or '.join(identity.families)}"
            )
    if not fitting:
        raise BadInput(
            "libmpi-silent",
            f"{launcher} is {family}, and no library of that MPI answers: {'; '.join(refusals)}; name the right library "
            "with --library, or what it needs with --env and --prepend-path.",
        )
    if len(fitting) > 1:
        listed = ", ".join(str(candidate) for candidate, _, _ in fitting)
        raise BadInput("libmpi-ambiguous", f"{launcher} may belong to any of {listed}; name the one meant with --library.")
    chosen, identity, answer = fitting[0]
    bare = {name: value for name, value in clean.items() if name != "LD_LIBRARY_PATH"}
    found_by_loader = find_by_loader(chosen, bare) == chosen.resolve()
    return Installation(launcher, family, prefix, chosen, identity, answer, found_by_loader)


def _find_launcher(word: str) -> Path:
    """The launcher as an absolute path that no later change of the system's alternatives turns into another MPI's."""
    found = shutil.which(word)
    if not found:
        exists = "is not a program" if Path(word).exists() else "does not exist"
        where = exists if "/" in word else "is not on PATH"
        raise BadInput(
            "mpirun-missing",
            f"launcher {word} {where}; name the mpirun of an MPI that is installed, e.g. --mpirun $(which mpirun).",
        )
    path = Path(found).absolute()
    while path.is_symlink():
        target = path.parent / path.readlink()
        if "alternatives" not in target.parts and "alternatives" not in path.parts:
            break
        path = target
    return path


def _ask_family(launcher: Path, environ: Mapping[str, str]) -> str:
    """The process manager a launcher is."""
    rows = {name: row.introduction for name, row in launchers.families().items() if row.introduction}
    printed: dict[str, str] = {}
    for family, row in rows.items():
        if row.program and not re.search(row.program, launcher.name):
            continue
        if row.option not in printed:
            printed[row.option] = _ask(launcher, row.option, environ)
        if re.search(row.pattern, printed[row.option]):
            return family
    said = next((line.strip() for text in printed.values() for line in text.splitlines() if line.strip()), "nothing")
    raise BadInput(
        "mpirun-unknown",
        f"{launcher} says {said!r} and is the mpirun of no MPI known here ({', '.join(rows)}); name the mpirun of the "
        "installation itself, not a script or a batch system's launcher.",
    )


def _ask(launcher: Path, option: str, environ: Mapping[str, str]) -> str:
    """What a launcher prints, given one option."""
    try:
        done = logged.ask([launcher, option], environ, LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput("mpirun-failed", f"{launcher} {option} cannot be run ({error}); name the mpirun of an MPI.") from error
    return done.stdout + done.stderr


def is_library_name(name: str) -> bool:
    """Whether an MPI's C library is called so, as the loader looks for it (SONAME): one number after ``.so``, or none."""
    stem, dot, number = name.partition(".so")
    known = any(stem in mpi.libraries for mpi in mpis.known().values())
    return bool(dot) and known and re.fullmatch(r"(\.\d+)?", number) is not None


def find_libraries(prefix: Path) -> list[Path]:
    """The libmpi files below a prefix, each installation's once, by the name programs ask for."""
    folders = [folder for pattern in LIBRARY_FOLDERS for folder in sorted(prefix.glob(pattern))]
    found: dict[Path, Path] = {}
    for names in ("lib*.so.*", "lib*.so"):  # one without a number is that of linkers, unless the library has no other
        paths = [path for folder in folders for path in sorted(folder.glob(names))] if not found else []
        for path in paths:
            if is_library_name(path.name) and path.is_file():
                found.setdefault(path.resolve(), path)
    return list(found.values())


#: Loads argv[1] by the name alone and prints the files mapped for it.
_LOADED = """
import ctypes, re, sys
ctypes.CDLL(sys.argv[1])
for path in sorted(set(re.findall(r"(/\\S.*)$", open("/proc/self/maps").read(), re.M))):
    print(path)
"""


def find_by_loader(library: Path, environ: Mapping[str, str]) -> Path | None:
    """The file that processes get when they ask for a library by its name; ``None`` where they find none."""
    command = [sys.executable, "-I", "-c", _LOADED, library.name]
    done = logged.ask(command, environ, LIMIT_S)
    stem = library.name.partition(".so")[0]
    mapped = [Path(line) for line in done.stdout.splitlines()] if done.returncode == 0 else []
    return next((path for path in mapped if path == library.resolve() or path.name.partition(".so")[0] == stem), None)
