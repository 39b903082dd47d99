"""Files that a job left, of which no more is read than they should have."""

from __future__ import annotations

from pathlib import Path

from ..job import script

#: Bytes that are looked at, at either end, of an output without end.
ENDLESS_BYTES = 64 << 10


def beginning_of(path: Path, most: int = script.MOST_OUTPUT_BYTES) -> str:
    """Content of a file, of a longer one its beginning (``most`` characters); empty if there is none."""
    if not path.exists():
        return ""
    with path.open(errors="replace") as file:
        return file.read(most)


def end_of(path: Path) -> str:
    """The last :data:`ENDLESS_BYTES` of a file; empty if there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - ENDLESS_BYTES))
        return file.read(ENDLESS_BYTES).decode(errors="replace")
