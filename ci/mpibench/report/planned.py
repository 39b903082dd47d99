"""The plan that a session was measured by, and when each cell of stack, fabric and group was last measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from reframe_tests.harness.vocabulary import BadInput

from ..plan import record
from ..plan.cases import ListedCase
from ..plan.record import PlanRecord
from ..results import eligibility
from ..results.sessions import PAIRED, Session


@dataclass(frozen=True)
class ReportPlan:
    """Of one session.

    :param plan: ``None`` where it cannot be read.
    :param fault: why not, one sentence.
    """

    plan: PlanRecord | None
    fault: str = ""


def find(session: Session, database: Path) -> ReportPlan | None:
    """The plan of a session; ``None`` where it was measured without one.

    :param database: beside which the dataset is.
    """
    if len(session.systems) != 1:
        return None
    try:
        plan = record.of_session(database.parent / "dataset", session.labels, session.systems[0], session.started)
    except BadInput as error:
        return ReportPlan(None, str(error))
    return ReportPlan(plan) if plan else None


@dataclass(frozen=True)
class Cell:
    """All cases of one stack, fabric and group.

    :param planned: how many of ``cases`` were planned; ``proven``: how many were proven in this session.
    :param oldest: the day on which the case that was not measured for longest was last proven; ``None``: it never was.
    :param never: how many were never proven.
    """

    planned: int
    cases: int
    proven: int
    oldest: date | None
    never: int


def cells(plan: PlanRecord, session: Session) -> dict[tuple[str, str, str], Cell]:
    """Each cell with when it was last measured, this session included."""
    own = [case for case in session.cases if not case.uuid.endswith(PAIRED)]
    proven = {
        ListedCase(case.partition, str(case.entry.get("environ") or case.stack), case.name)
        for case in own
        if eligibility.is_proven(eligibility.facts_of(session, case))
    }
    found: dict[tuple[str, str, str], list[record.PlannedCase]] = {}
    for one in plan.cases:
        found.setdefault(one.cell, []).append(one)
    return {cell: _cell(rows, proven, plan.day) for cell, rows in sorted(found.items())}


def _cell(rows: Sequence[record.PlannedCase], proven: set[ListedCase], today: date) -> Cell:
    days = [today if one.case in proven else one.proven for one in rows]
    known = [day for day in days if day is not None]
    return Cell(
        sum(one.planned for one in rows),
        len(rows),
        sum(one.case in proven for one in rows),
        min(known, default=None),
        len(days) - len(known),
    )
