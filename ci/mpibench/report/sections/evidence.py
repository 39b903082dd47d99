"""Section of the report: evidence."""

from __future__ import annotations

from ..section import Content, Section
from ..summary import OUTCOMES
from ..view import View


def show(view: View) -> Content:
    """One row per case that ran: where its ranks were, which library, which devices, which transport."""
    ran = (case for case in view.session.cases if case.is_measurement and view.outcome(case) is not OUTCOMES["skipped"])
    return {"cases": list(ran)}


SECTION = Section("evidence", 80, show, "Evidence", "Evidence")
