"""Section of the report: what was planned, and when each cell was last measured."""

from __future__ import annotations

from .. import planned
from ..section import Content, Section
from ..view import View


def show(view: View) -> Content | None:
    """A row for each stack and fabric, a column for each group; nothing where the session was measured without a plan."""
    if view.plan is None:
        return None
    plan = view.plan.plan
    if plan is None:
        return {"fault": view.plan.fault}
    found = planned.cells(plan, view.session)
    groups = sorted({group for _, _, group in found})
    places = sorted({(stack, fabric) for stack, fabric, _ in found})
    return {
        "fault": "",
        "plan": plan,
        "minutes": view.session.seconds / 60,
        "groups": groups,
        "rows": [(stack, fabric, [found.get((stack, fabric, group)) for group in groups]) for stack, fabric in places],
    }


SECTION = Section("plan", 27, show, "Planned tonight, and last measured", "Plan")
