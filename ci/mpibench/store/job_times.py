"""How long the jobs of a session ran, from what ReFrame stores of each case."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from .eligibility import INTERRUPTED
from .sessions import PAIRED, Case, Session


def seconds(session: Session) -> dict[str, float]:
    """Seconds each job held its nodes, by the id of its case; no entry where nothing was submitted or run to its end.

    ReFrame 4.10 (``frontend/reporting/__init__.py``, ``update_run_stats``) stores the time from submission to the end
    (``time_run``) and, where the scheduler knows it, the end itself. The jobs of the tests have their nodes for themselves, so
    that none began before the one before it on one of its nodes had ended. What it waited for others' jobs is before its script
    began, where the session has that (``job_started``); the clock of its node is believed as far as it fits.
    """
    found: dict[str, float] = {}
    busy_until: dict[str, float] = {}
    # What was interrupted may have waited all the time.
    own = [case for case in session.cases if not case.uuid.endswith(PAIRED) and case.result != INTERRUPTED]
    jobs = [case for case in own if _number(case.entry.get("time_run")) is not None]
    for case in sorted(jobs, key=lambda case: _number(case.entry.get("job_completion_time_unix")) or 0.0):
        took, end = _number(case.entry["time_run"]) or 0.0, _number(case.entry.get("job_completion_time_unix"))
        nodes = [name for name in case.nodelist.split(",") if name]
        if end is not None:
            began = max([_started(case, end - took, end), *(busy_until.get(name, 0.0) for name in nodes)])
            took = max(end - began, 0.0)
            busy_until.update(dict.fromkeys(nodes, end))
        found[case.uuid] = took
    return found


def _started(case: Case, submitted: float, end: float) -> float:
    """When its script began; when it was submitted where that is not known, or not between the two."""
    try:
        began = datetime.fromisoformat(str(case.entry.get("job_started", "")).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return submitted
    return began if submitted <= began <= end else submitted


def _number(value: Any) -> float | None:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    return float(value) if good else None
