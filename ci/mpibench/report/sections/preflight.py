"""Section of the report: what the nodes were set to, as they were looked at before anything was measured."""

from __future__ import annotations

from reframe_tests.harness.preflight import node_judgement
from reframe_tests.harness.printable import first_line

from ...results.sessions import Case
from ..section import Content, Section
from ..view import View


def show(view: View) -> Content | None:
    """Odd nodes of each partition: what was found and expected, why, how to put it right; nothing without a preflight."""
    if view.preflight is None:
        return None
    session = view.preflight.session
    return {
        "fault": view.preflight.fault,
        "uuid": session.uuid if session else "",
        "parts": [_part(case) for case in session.cases] if session else [],
    }


def _part(case: Case) -> Content:
    """What is said of a partition; what is in no row of the table is a sentence, as nodes that were silent."""
    said = case.proof
    try:
        found = node_judgement.read(case.entry.get("odd_nodes") or [])
    except ValueError:
        found = []
    rows, shown = node_judgement.group(found), set(node_judgement.texts(found))
    looked_at = case.result != "skip" and said is not None
    return {
        "partition": case.partition,
        "nodes": len(said.kernel) if said else 0,
        "failed": not (case.result == "pass" and case.evidence == "proven"),
        "rows": [(odd.what(instances), odd) for odd, instances in rows],
        "sentences": [one for one in said.sentences if one not in shown] if looked_at and said else [first_line(case.reason)],
        "notes": [one for one in said.notes if one not in shown] if said else [],
    }


SECTION = Section("preflight", 15, show, "Preflight of the nodes", "Preflight")
