"""Names of the site's files: whatever a benchmark, stack or label is called, its file has a plain name of its own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime

#: Characters of a name that are for people; the rest tells names apart that read alike.
READABLE = 56


def digest(*words: object) -> str:
    """Ten hexadecimal digits that stand for some words."""
    return hashlib.sha256("\0".join(map(str, words)).encode("utf-8", "surrogatepass")).hexdigest()[:10]


def file_name(words: Sequence[object]) -> str:
    """A name of lower-case letters, digits and hyphens; the same words give the same name in every build."""
    text = re.sub("[^a-z0-9]+", "-", "-".join("" if word is None else str(word) for word in words).lower()).strip("-")
    return "-".join(filter(None, (text[:READABLE].strip("-"), digest(*words))))


def night_name(session: str, started: datetime) -> str:
    """Name of a night's page: day, time (UTC) and session."""
    return f"{started:%Y-%m-%d-%H%M}-{digest(session)}"
