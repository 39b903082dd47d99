"""Section of the report: failures."""

from __future__ import annotations

from ..section import Content, Section
from ..summary import OUTCOMES, failures, interrupted, sentences, skip_reasons
from ..view import View


def show(view: View) -> Content:
    """Failed cases with their sentences; interrupted, skipped and retried ones by reason."""
    stopped = [case for case in view.session.cases if view.outcome(case) is OUTCOMES["interrupted"]]
    reasons = [(OUTCOMES["interrupted"], interrupted(view.session), stopped)] if stopped else []
    reasons += [(OUTCOMES["skipped"], reason, cases) for reason, cases in skip_reasons(view.session)]
    retried = [case for case in view.session.cases if case.uuid in view.session.superseded]
    return {
        "failures": [(case, sentences(case)) for case in failures(view.session)],
        "reasons": [*reasons, *((OUTCOMES["retried"], " ".join(sentences(case)), [case]) for case in retried)],
    }


SECTION = Section("failures", 20, show, "Failures", "Failures")
