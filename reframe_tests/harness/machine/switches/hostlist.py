"""Slurm's lists of hosts: ``c[1-4,07],login`` (``scontrol show hostnames`` does the same)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...vocabulary import BadInput

#: More names than any machine has; a mistyped range must not fill the memory.
MOST_NAMES = 1_000_000
_PART = re.compile(r"[^,\[\]]*(?:\[[0-9,\-]+\][^,\[\]]*)*")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def expand(text: str) -> list[str]:
    """The names of a list, in order.

    :raises BadInput: it is no list of hosts.
    """
    names: list[str] = []
    at = 0
    while at <= len(text) and text:
        found = _PART.match(text, at)
        if not found or not found[0] or (found.end() < len(text) and text[found.end()] != ","):
            raise BadInput(f"'{text[:80]}' is no list of hosts as Slurm writes them, such as c[1-4,7].")
        for name in _names(found[0], text):
            names.append(name)
            if len(names) > MOST_NAMES:
                raise BadInput(f"'{text[:80]}' names more than {MOST_NAMES} hosts; correct its ranges.")
        at = found.end() + 1
    return names


def _names(part: str, text: str) -> Iterator[str]:
    """The names of one part, its first brackets first."""
    head, bracket, rest = part.partition("[")
    if not bracket:
        yield part
        return
    inside, _, tail = rest.partition("]")
    for piece in inside.split(","):
        found = _RANGE.fullmatch(piece)
        if not found or (found[2] and int(found[2]) < int(found[1])):
            raise BadInput(f"'{text[:80]}' has no range in '[{inside[:40]}]'; write it as in c[1-4,7].")
        for number in range(int(found[1]), int(found[2] or found[1]) + 1):
            for end in _names(tail, text):
                yield f"{head}{number:0{len(found[1])}d}{end}"
