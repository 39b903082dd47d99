"""Section of the report: what was measured again."""

from __future__ import annotations

from ..section import Content, Section
from ..view import View


def show(view: View) -> Content | None:
    """Both measurements of each case that missed a reference; nothing where no session measured this one again."""
    if not view.again:
        return None
    cases = {case.uuid: case for case in view.session.cases}
    return {
        "excused": sum(answer.excused for answer in view.again),
        "answers": [(cases[answer.uuid], answer) for answer in view.again],
    }


SECTION = Section("again", 25, show, "Measured again", "Again")
