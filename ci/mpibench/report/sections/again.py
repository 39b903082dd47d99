"""Section of the report: what was measured again."""

from __future__ import annotations

from ..section import Content, Section
from ..view import View


def show(view: View) -> Content | None:
    """Both measurements of each case that missed a reference; nothing where no session measured this one again."""
    if not view.again:
        return None
    return {
        "excused": sum(answer.excused for answer in view.again),
        "answers": [(case, answer) for answer in view.again for case in view.session.cases if answer.is_on(case)],
    }


SECTION = Section("again", 25, show, "Measured again", "Again")
