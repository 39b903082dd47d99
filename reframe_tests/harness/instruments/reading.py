"""The one reader of what the programs of this folder print (:mod:`common`)."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..printable import one_line
from ..vocabulary import BadInput

FORMAT = 3
#: Field to the types that its value may have; ``float`` is any finite number that is not negative, as ``int`` is.
Fields = Mapping[str, tuple[type, ...]]
TEXT, COUNT, NUMBER, LIST = (str,), (int,), (float,), (list,)


@dataclass(frozen=True)
class Printed:
    """What an instrument printed.

    :param head: what holds for all rows; ``rows``: in printed order, without other lines of the instrument (``notes``).
    :param whole: the last line is there.
    """

    head: dict[str, Any]
    rows: list[dict[str, Any]]
    notes: list[dict[str, Any]]
    whole: bool = True


def first_line(instrument: str) -> str:
    """Regular expression of how an output begins."""
    return rf'^\{{"instrument": "{instrument}", [^\r\n]*\r?$'


def read(
    text: str, source: str, instrument: str, head: Fields, rows: Sequence[Fields], *, notes: Sequence[Fields] | None = None
) -> Printed:
    """One output, which must be whole.

    :param head: fields of its first line beside the number of ranks; ``rows``: those that a row may have.
    :param notes: fields of lines that are no rows, of an instrument that says in between what can be used so far: lines of
        others are passed over then, and an output without an end is read up to there.
    :raises BadInput: if it is damaged, mixed up, cut off or empty.
    """
    facts: dict[str, Any] = {}
    found: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    used, checksum, whole = (0, 0), 0, False
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip():
            continue
        if whole and (notes is None or line.startswith("{")):
            raise _wrong(source, number, "something stands behind the last line; outputs are mixed up")
        try:
            content = _content(line, source, number)
            if not facts:
                if (content.get("instrument"), content.get("format")) != (instrument, FORMAT):
                    raise _wrong(source, number, f"this is not how an output of {instrument} begins")
                facts = _fitting(content, [{"instrument": TEXT, "format": COUNT, "ranks": COUNT, **head}], source, number)
            elif "crc32" not in content:
                kept = others if any(set(content) == set(fields) for fields in notes or ()) else found
                kept.append(_fitting(content, [*rows, *(notes or ())], source, number))
        except BadInput:
            if notes is None:
                raise
            continue  # of others, or damaged: then the next checksum is wrong
        if "crc32" in content:
            kind = "so_far" if notes is not None and "so_far" in content else "end"
            if content != {kind: instrument, "rows": len(found), "crc32": checksum}:
                raise _wrong(source, number, "rows and checksum do not fit together; the output is damaged")
            used, whole = (len(found), len(others)), kind == "end"
        checksum = zlib.crc32(f"{line}\n".encode(errors="replace"), checksum)
    if not facts:
        raise BadInput(
            "output-cut",
            f"{source}: the output of {instrument} has no beginning; it is cut off or of another program, run it again.",
        )
    if notes is None and not whole:
        raise BadInput("output-cut", f"{source}: the output of {instrument} has no last line; it was cut off, run it again.")
    if notes is None and not found:
        raise BadInput("output-empty", f"{source}: the output of {instrument} has no rows; run it again.")
    return Printed(facts, found[: used[0]], others[: used[1]], whole)


def _content(line: str, source: str, number: int) -> dict[str, Any]:
    try:
        content = json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise _wrong(source, number, f"'{one_line(line)[:60]}' is no line of JSON; the output is damaged, cut or mixed up")
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)


def _fitting(content: dict[str, Any], known: Sequence[Fields], source: str, number: int) -> dict[str, Any]:
    """The content, which has exactly the fields of one of the kinds of line."""
    fields = next((fields for fields in known if set(fields) == set(content)), None)
    if fields is None:
        raise _wrong(source, number, f"a line with {', '.join(map(one_line, content))[:100]} is none of this instrument")
    for name, value in content.items():
        number_like = type(value) in (int, float) and math.isfinite(value) and value >= 0
        right = type(value) in fields[name] and (number_like or type(value) not in (int, float))
        if not right:
            raise _wrong(source, number, f"{name} cannot be {one_line(str(value))[:60]}; the output is damaged")
    return content


def _wrong(source: str, number: int, what: str) -> BadInput:
    return BadInput("output-damaged", f"{source}, line {number}: {what}; run it again.")
