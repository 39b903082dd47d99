"""Writes files completely or not at all: readers see either the old contents or all of the new."""

from __future__ import annotations

import contextlib
import glob
import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from reframe_tests.harness.whole_file import PARTIAL
from reframe_tests.harness.whole_file import replacing as replacing

if TYPE_CHECKING:  # commands without tables do not wait for it
    import polars as pl

_LEFT = re.compile(r"\..+\.(?P<pid>[0-9]+)\.partial", re.DOTALL)


def partials(path: Path) -> list[Path]:
    """What was left beside a file by writers that were killed half way, or is being written."""
    return sorted(path.parent.glob(PARTIAL.format(name=glob.escape(path.name), pid="[0-9]*")))


def abandoned(folder: Path) -> list[Path]:
    """What writers left in a folder itself whose process is not on this node."""
    found = ((path, _LEFT.fullmatch(path.name)) for path in sorted(folder.glob(".*.partial")))
    return [path for path, match in found if match and not Path("/proc", match["pid"]).exists()]


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file that the user named, to be written: completely or not at all, with its folder; a
    device, a pipe, or an open file of this process directly.
    """
    if (descriptor := _descriptor(path)) is not None:
        with os.fdopen(os.dup(descriptor), "wb") as stream:
            yield stream
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:  # /dev/stdout, or a folder, which is refused
            yield stream
        return
    # What a link points to, not the link.
    with replacing(path.resolve()) as partial, partial.open("wb") as stream:
        yield stream


def write_text(path: Path, text: str) -> None:
    """Write a text to a file that the user named, as :func:`opened` does."""
    with opened(path) as stream:
        stream.write(text.encode())


def _descriptor(path: Path) -> int | None:
    """What this process has open under a name such as ``/dev/stdout`` (proc(5), ``/proc/pid/fd``),
    which may well be a file; none, where it is another name.
    """
    while path.is_symlink():
        folder = path.parent.resolve()
        if folder == Path(f"/proc/{os.getpid()}/fd"):
            return int(path.name)
        path = folder / path.readlink()
    return None


def write_parquet(
    path: Path, frame: pl.DataFrame, finish: Callable[[bytes], bytes] = bytes, **options: Any
) -> None:
    """Write a table; where the disk is full Polars itself would say
    that the file is out of specification.

    :param finish: makes of the bytes of the file those that are written.
    :param options: of :meth:`polars.DataFrame.write_parquet`.
    """
    content = io.BytesIO()
    frame.write_parquet(content, **options)
    path.write_bytes(finish(content.getvalue()))
