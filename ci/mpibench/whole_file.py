"""Files that are written whole or not at all: readers see what was there before, or all of what is there now."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, in the same folder; it takes the place of ``path`` at the end, and is gone if anything fails.

    :raises OSError: it cannot take its place.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
