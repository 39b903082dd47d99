"""Outputs of the instruments, made or changed: JSON Lines with the
number of rows and the checksum they should have.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any

#: Between rows: what is above can be used.
SO_FAR = {"so_far": True}


def sealed(head: dict[str, Any], lines: Iterable[dict[str, Any]], rows: int | None = None) -> str:
    """An output.

    :param lines: rows, :data:`SO_FAR`, and lines that are no rows, which
        are those with ``silent`` or ``seconds``.
    """
    text = ""
    count = 0
    for line in (head, *lines, {"end": True}):
        if kind := next((kind for kind in ("so_far", "end") if kind in line), ""):
            line = {
                kind: head["instrument"],
                "rows": count if rows is None else rows,
                "crc32": zlib.crc32(text.encode()),
            }
        else:
            count += not (line is head or {"silent", "seconds"} & set(line))
        text += json.dumps(line) + "\n"
    return text


def lines_of(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """First line and all others but the last."""
    head, *rest = map(json.loads, text.splitlines())
    return head, [SO_FAR if "so_far" in line else line for line in rest[:-1]]
