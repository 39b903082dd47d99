"""STREAM as a program: built from ``stream.c`` where it is needed, found again as long as its source is the same."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from pathlib import Path

from ...evidence import recorder

SOURCE = Path(__file__).with_name("stream.c")
#: ``-O3`` as STREAM's own instructions have it; no ``-march``, since the nodes may be older than where it is built.
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O3", "-pthread", "-Wall", "-Wextra", "-Wpedantic")


def path_in(directory: Path) -> Path:
    """Where :func:`build` puts the program of the present source and options for this machine's architecture."""
    digest = hashlib.sha256("\0".join(FLAGS).encode() + SOURCE.read_bytes()).hexdigest()[:12]
    return directory / f"stream-{platform.machine()}-{digest}"


def build(destination: Path, compilers: Sequence[Sequence[str]] | None = None) -> Path:
    """STREAM in a folder, as :func:`recorder.compile_once` makes it."""
    return recorder.compile_once("STREAM", SOURCE, path_in(destination.absolute()), FLAGS, candidates=compilers)
