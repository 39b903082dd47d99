"""Section of the report: pinning and processes per node."""

from __future__ import annotations

from ..section import Content, Section
from ..view import View


def show(view: View) -> Content:
    """The script draws these, too."""
    return {}


SECTION = Section("heat", 50, show, "Pinning and processes per node", "Pinning")
