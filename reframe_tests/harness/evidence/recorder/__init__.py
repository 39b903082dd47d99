"""The recorder library: built from ``recorder.c`` on demand, and reused as long as its source is
unchanged.

Preloaded into every rank of a launch, it writes one file per rank, the rank record (see
``recorder.c``); ``checks`` reads and judges them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ...batch_systems import BATCH_SYSTEMS
from ...launchers import registry as launchers
from ...launchers.model import Launcher
from ...machine.gpu import KINDS
from ...mpis import registry as mpis
from ...stacks.stack import Stack
from ...vocabulary import BadInput

SOURCE = Path(__file__).with_name("recorder.c")
#: Where the harness keeps the built library; on a cluster the
#: checkout is on a file system the nodes share.
DIRECTORY = Path(__file__).resolve().parents[4] / "results" / "recorder"

_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-Wall", "-Wextra", "-Wpedantic")
SHARED = ("-shared", "-fvisibility=hidden")
#: dlopen and dlsym are in libdl before glibc 2.34 (glibc NEWS,
#: version 2.34); later ones keep an empty libdl.
LIBRARIES = ("-ldl",)
#: C compilers tried in this order, before the one the ``ziglang`` wheel brings.
COMPILERS = ("cc", "gcc", "clang")
#: Oldest glibc the zig build runs on: that of RHEL 7, as for manylinux2014 (PEP 599).
OLDEST_GLIBC = "2.17"
#: Seconds that a compiler may take.
_MOST_S = 120
REMEDY = "install gcc or clang, or 'pip install ziglang'"


def compilers() -> list[tuple[str, ...]]:
    """C compilers of this machine as argument vectors, in the order
    they are tried; empty if there is none.
    """
    vectors: list[tuple[str, ...]] = [(name,) for name in COMPILERS if shutil.which(name)]
    if importlib.util.find_spec("ziglang"):
        target = f"{platform.machine()}-linux-gnu.{OLDEST_GLIBC}"
        vectors.append((sys.executable, "-m", "ziglang", "cc", "-target", target))
    return vectors


def flags() -> tuple[str, ...]:
    """Options of the compiler, with what the records of all MPIs and
    launchers know of libraries and variables.
    """
    gpus = (name for kind in KINDS.values() for name in (kind.visible, *kind.narrowing, *kind.env))
    lists = {
        "MPI_LIBRARIES": mpis.libraries(),
        "RUN_BOOKKEEPING": mpis.bookkeeping(),
        "RUN_SETTINGS": dict.fromkeys((*mpis.settings(), *launchers.settings(), *gpus)),
    }
    return (
        *_FLAGS,
        *(
            f"-D{name}=" + ",".join(f'"{prefix}"' for prefix in prefixes)
            for name, prefixes in lists.items()
        ),
    )


def variables(stack: Stack, launcher: Launcher) -> dict[str, str]:
    """What the recorder is told about a launch, by variable; empty if unknown (``recorder.c``).

    :param launcher: what starts the ranks.
    """
    identity = launcher.identity
    batch = (row.job for row in BATCH_SYSTEMS if row.job)
    return {
        "MPIBENCH_LIBRARY": stack.library,
        "MPIBENCH_WORLD": mpis.world_of(stack.mpi, stack.abi),
        "MPIBENCH_RANK_VARIABLES": ":".join(identity.rank),
        "MPIBENCH_SIZE_VARIABLES": ":".join(identity.size),
        "MPIBENCH_LOCAL_RANK_VARIABLES": ":".join(identity.local_rank),
        "MPIBENCH_JOB_VARIABLES": ":".join(dict.fromkeys((*identity.job, *batch))),
    }


def digest() -> str:
    """First 12 hex digits of the SHA-256 over source and flags."""
    return hashlib.sha256(
        "\0".join((*flags(), *SHARED, *LIBRARIES)).encode() + SOURCE.read_bytes()
    ).hexdigest()[:12]


def path_in(directory: Path) -> Path:
    """Where :func:`build` puts the library of the present
    source for this machine's architecture.
    """
    return directory / f"recorder-{platform.machine()}-{digest()}.so"


def build(destination: Path, compiler: Sequence[str] | None = None) -> Path:
    """The recorder in the folder ``destination``, compiled unless
    the same source is already built there.

    :param compiler: argument vector of a C compiler; by default each of
        :func:`compilers` until one succeeds, that of ziglang first: containers
        and other nodes may have an older glibc than this machine.
    """
    options = (*flags(), *SHARED)
    candidates = (
        sorted(compilers(), key=lambda vector: "ziglang" not in vector)
        if compiler is None
        else [compiler]
    )
    return compile_once(
        "the evidence library",
        SOURCE,
        path_in(destination.absolute()),
        options,
        LIBRARIES,
        candidates,
    )


def compile_once(
    noun: str,
    source: Path,
    built: Path,
    options: Sequence[str],
    libraries: Sequence[str] = (),
    candidates: Sequence[Sequence[str]] | None = None,
) -> Path:
    """A program or library, compiled by the first compiler that can unless it is there.

    :param noun: in sentences.
    :param built: absolute path; its name changes with source and options.
    :param candidates: argument vectors of compilers; by default :func:`compilers`.
    :raises BadInput: there is no compiler, none compiles it, or the folder cannot be written.
    """
    if built.exists():
        return built
    candidates = compilers() if candidates is None else candidates
    if not candidates:
        raise BadInput(
            "tool-missing",
            f"No C compiler to build {noun} with ({', '.join(COMPILERS)}, ziglang); {REMEDY}.",
        )
    try:
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent, prefix=".build-") as scratch:
            made = Path(scratch) / built.name
            files = ["-o", str(made), str(source), *libraries]
            errors = [
                _compile([*vector, *options, *files], made)
                for vector in candidates
                if not made.exists()
            ]
            if not made.exists():
                raise BadInput(
                    "build-failed",
                    f"{noun[0].upper()}{noun[1:]} ({source}) does not compile "
                    f"({'; '.join(errors)}); {REMEDY}.",
                )
            made.replace(built)  # at once: jobs may be looking for it
    except OSError as error:
        raise BadInput(
            "cannot-write",
            f"{noun[0].upper()}{noun[1:]} cannot be built in {built.parent} ({error}); make it "
            "writable.",
        ) from error
    return built


def _compile(command: Sequence[str], made: Path) -> str:
    """Run one compiler; says in a few words why ``made`` is not there afterwards."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
            timeout=_MOST_S,
        )
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{command[0]}: no end after {_MOST_S} s"
    if done.returncode:
        made.unlink(missing_ok=True)
    lines = (
        [line for line in done.stderr.splitlines() if "error" in line]
        or done.stderr.splitlines()
        or ["no message"]
    )
    return f"{command[0]}: exit status {done.returncode}, {lines[0].strip()[:200]}"


def locate() -> Path:
    """The recorder the harness preloads, built on first use.

    :raises BadInput: as :func:`build`.
    """
    return build(DIRECTORY)
