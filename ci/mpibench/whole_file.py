"""Files that are written whole or not at all: readers see what was there before, or all of what is there now."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path

_PARTIAL = ".{name}.{pid}.partial"
#: How Rust's standard library, and so polars, ends what the system refused (``std::io::Error``).
_OS_ERROR = re.compile(r"\(os error ([0-9]+)\)")
_LEFT = re.compile(r"\..+\.(?P<pid>[0-9]+)\.partial", re.DOTALL)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, in the same folder; it takes the place of ``path`` at the end, and is gone if anything fails.

    :raises OSError: it cannot be written, or take its place; of a library that says so in its own words as well.
    """
    partial = path.with_name(_PARTIAL.format(name=path.name, pid=os.getpid()))
    try:
        yield partial
        partial.replace(path)
    except Exception as error:
        said = _OS_ERROR.search(str(error))
        number = error.errno if isinstance(error, OSError) else int(said[1]) if said else None
        if number is None:
            raise
        raise OSError(number, os.strerror(number), str(path)) from error
    finally:
        partial.unlink(missing_ok=True)


def partials(path: Path) -> list[Path]:
    """What was left beside a file by writers that were killed half way, or is being written."""
    return sorted(path.parent.glob(_PARTIAL.format(name=glob.escape(path.name), pid="[0-9]*")))


def abandoned(folder: Path) -> list[Path]:
    """What writers left in a folder itself whose process is not on this node."""
    found = ((path, _LEFT.fullmatch(path.name)) for path in sorted(folder.glob(".*.partial")))
    return [path for path, match in found if match and not Path("/proc", match["pid"]).exists()]


def write_text(path: Path, text: str) -> None:
    """Write what somebody asked for by name: a file whole or not at all, with its folder; a device or pipe as it is.

    :raises OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")  # /dev/stdout, or a folder, which is refused
        return
    with replacing(path.resolve()) as partial:  # what a link points to, not the link
        partial.write_text(text, encoding="utf-8")
