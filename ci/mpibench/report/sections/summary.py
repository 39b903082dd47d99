"""Section of the report: counts of cases."""

from __future__ import annotations

from collections import Counter

from reframe_tests.harness.samples import FAIL, NO_REFERENCE, PASS

from ..section import Content, Section
from ..summary import OUTCOMES, Outcome, counted, counts, gate_counts
from ..view import View


def show(view: View) -> Content:
    """Counts of cases, counts of comparisons, and the cases of each stack on each fabric."""
    number, gates = counts(view.session), gate_counts(view.session)
    shown = [name for name in OUTCOMES if number[name] or name in ("failed", "passed", "recorded")]
    rows: dict[tuple[str, str], Counter[Outcome]] = {}
    for case in counted(view.session):
        if case.is_measurement:
            rows.setdefault((case.stack, case.fabric), Counter())[view.outcome(case)] += 1
    return {
        "tiles": [(OUTCOMES[name], number[name]) for name in shown],
        "gates": {"reached": gates[PASS], "missed": gates[FAIL], "without": gates[NO_REFERENCE]},
        "columns": [one for one in OUTCOMES.values() if any(row[one] for row in rows.values())],
        "rows": sorted(rows.items(), key=lambda row: row[0]),
    }


SECTION = Section("summary", 10, show)
