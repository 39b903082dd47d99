"""STREAM as a program: built from ``stream.c`` where it is needed, found again as long as its source is the same."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ...evidence import recorder
from ...printable import one_line
from ...vocabulary import BadInput

SOURCE = Path(__file__).with_name("stream.c")
#: ``-O3`` as STREAM's own instructions have it; no ``-march``, since the nodes may be older than where it is built.
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O3", "-pthread", "-Wall", "-Wextra", "-Wpedantic")
#: Seconds that a compiler may take.
_MOST_S = 120


def path_in(directory: Path) -> Path:
    """Where :func:`build` puts the program of the present source and options for this machine's architecture."""
    digest = hashlib.sha256("\0".join(FLAGS).encode() + SOURCE.read_bytes()).hexdigest()[:12]
    return directory / f"stream-{platform.machine()}-{digest}"


def build(destination: Path, compilers: Sequence[Sequence[str]] | None = None) -> Path:
    """Compile STREAM into a folder unless the same source is already built there.

    :param compilers: argument vectors, tried in order; by default those of :func:`recorder.compilers`.
    :returns: absolute path of the program.
    :raises BadInput: there is no compiler, none compiles it, or the folder cannot be written.
    """
    program = path_in(destination.absolute())
    if program.exists():
        return program
    candidates = recorder.compilers() if compilers is None else compilers
    if not candidates:
        raise BadInput(f"No C compiler to build STREAM with ({', '.join(recorder.COMPILERS)}, ziglang); {recorder.REMEDY}.")
    said = []
    try:
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=program.parent, prefix=".build-") as scratch:
            made = Path(scratch) / program.name
            for compiler in candidates:
                said.append(_compile(compiler, made))
                if made.exists():
                    made.replace(program)  # at once: jobs may be looking for it
                    return program
    except OSError as error:
        raise BadInput(f"STREAM cannot be built in {destination} ({error}); make it writable.") from error
    raise BadInput(f"STREAM ({SOURCE}) does not compile ({'; '.join(said)}); {recorder.REMEDY}.")


def _compile(compiler: Sequence[str], made: Path) -> str:
    """Run one compiler; says in a few words why ``made`` is not there afterwards."""
    try:
        done = subprocess.run(
            [*compiler, *FLAGS, "-o", str(made), str(SOURCE)], capture_output=True, text=True, errors="replace", timeout=_MOST_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{compiler[0]}: {error}"
    return f"{compiler[0]}: {one_line(done.stderr.strip() or f'exit status {done.returncode}')[:200]}"
