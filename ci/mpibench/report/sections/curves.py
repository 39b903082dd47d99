"""Section of the report: curves, and pinning with processes per node."""

from __future__ import annotations

from ..section import Content, Section
from ..view import View


def show(view: View) -> Content:
    """The script draws these."""
    return {}


SECTION = Section("curves", 40, show, "Curves", "Curves", {"heat": "Pinning"})
