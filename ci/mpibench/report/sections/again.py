"""Section of the report: what was measured again."""

from __future__ import annotations

from ..section import Content, Section
from ..view import NOT_AGAIN, View


def show(view: View) -> Content | None:
    """Both measurements of each case that missed a reference; nothing where no session did, or may have."""
    if view.again == NOT_AGAIN:
        return None
    cases = {case.uuid: case for case in view.session.cases}
    return {
        "unreadable": view.again.unreadable,
        "excused": sum(answer.excused for answer in view.again.answers),
        "answers": [(cases[answer.uuid], answer) for answer in view.again.answers],
    }


SECTION = Section("again", 25, show, "Measured again", "Again")
