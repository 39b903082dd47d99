"""Section of the report: glossary."""

from __future__ import annotations

from reframe_tests.harness.vocabulary import QUANTITIES

from ..section import Content, Section
from ..summary import OUTCOMES
from ..view import View


def show(view: View) -> Content:
    """What the words of the report mean."""
    names = {way: [one.name for one in QUANTITIES.values() if one.direction == way] for way in ("lower", "higher")}
    return {"outcomes": OUTCOMES.values(), "directions": names}


SECTION = Section("words", 100, show, "Glossary", "Glossary")
