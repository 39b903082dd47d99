"""Section of the report: performance guidelines."""

from __future__ import annotations

from reframe_tests.harness.vocabulary import BadInput

from ...guidelines import judgement, sentences
from ...verdicts import policy as verdict_policy
from ..section import Content, Section
from ..view import View


def show(view: View) -> Content | None:
    """Violated guidelines of each condition, and what could not be decided; nothing where none was measured."""
    if not judgement.has_guidelines(view.session):
        return None
    systems = view.session.systems
    if len(systems) != 1:
        return {"refusal": f"Not judged: the session has cases on {len(systems)} systems, and one policy judges."}
    try:
        policy = verdict_policy.load(systems[0])
        found = judgement.judge(view.session, policy)
    except BadInput as error:
        return {"refusal": f"Not judged: {error}"}
    return {
        "refusal": "",
        "headline": sentences.headline(found, policy),
        "refused": policy.guidelines_refuse,
        "minimum_repeats": policy.minimum_repeats,
        "conditions": [
            {
                "condition": condition,
                "counts": of_condition.counts,
                "violations": [(sentences.sentence(rows), rows) for rows in sentences.by_guideline(of_condition.violations)],
                "inconclusive": [row for row in of_condition.rows if row.outcome == judgement.INCONCLUSIVE],
            }
            for condition, of_condition in found.by_condition().items()
        ],
        "notes": found.notes,
        "call_of": sentences.call_of,
        "mockup_of": sentences.mockup_of,
        "times_of": sentences.times_of,
    }


SECTION = Section("guidelines", 65, show, "Performance guidelines", "Guidelines")
