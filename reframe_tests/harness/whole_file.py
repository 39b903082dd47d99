"""Files that are replaced at once, as a whole."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

#: Name of what is being written: of no other writer, on whichever node.
PARTIAL = ".{name}.{pid}.partial"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, in the same folder; it replaces ``path`` at the end, and is removed if
    anything fails.
    """
    own = f"{secrets.randbits(32)}.{os.getpid()}"
    partial = path.with_name(PARTIAL.format(name=path.name, pid=own))
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
    finally:
        partial.unlink(missing_ok=True)
