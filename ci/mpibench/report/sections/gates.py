"""Section of the report: comparisons with references."""

from __future__ import annotations

from reframe_tests.harness.samples import FAIL, NO_REFERENCE, PASS, ReferenceCheck

from ...results.sessions import Case
from ..section import Content, Section
from ..summary import reference_checks
from ..view import View

#: Reached references listed at once; more are folded away.
OPEN_ROWS = 40


def show(view: View) -> Content:
    """Comparisons with references: missed ones first, then reached, then those that could not be judged."""
    groups: dict[str, list[tuple[Case, ReferenceCheck]]] = {FAIL: [], PASS: [], NO_REFERENCE: []}
    for case, gate in reference_checks(view.session):
        groups[gate.outcome].append((case, gate))
    titles = {FAIL: "✕ missed", PASS: "✓ reached", NO_REFERENCE: "○ without reference: recorded, not judged"}
    unfolded = {FAIL: True, PASS: len(groups[PASS]) <= OPEN_ROWS, NO_REFERENCE: False}
    return {"groups": [(titles[name], rows, unfolded[name]) for name, rows in groups.items() if rows]}


SECTION = Section("gates", 60, show, "Comparisons with references", "References")
