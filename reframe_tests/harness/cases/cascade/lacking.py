"""Nodes that lack a program, from the records that their ends left all the same, and what to do about it."""

from __future__ import annotations

import re
from pathlib import Path

from ...suites import pair

#: In an end's record: why it could not measure (``end.py``, ``require``), and where it ran.
_ABSENT = re.compile(r'"failed": "there is no program (\S+) on PATH"')
_HOST = re.compile(r'"host": "([^"]+)"')


def find_lacking(directory: Path) -> dict[str, str]:
    """Host of each end that left its record and lacks its program, to that."""
    found = {}
    for path in sorted(path for which in pair.ENDS for path in directory.rglob(f"*.{which}")):
        text = path.read_text(errors="replace")
        host, absent = _HOST.search(text), _ABSENT.search(text)
        if host and absent:
            found[host[1]] = absent[1]
    return found


def describe_remedy(group: pair.PairGroup) -> str:
    """What to do where a group's program is not there."""
    return f"install Debian's {group.debian} or Spack's {group.spack}, or load its module (-S modules=...)"
