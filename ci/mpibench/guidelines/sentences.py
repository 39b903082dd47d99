"""What is said of the guidelines: a sentence per violated one and condition, a count of the rest, and the same as data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..results.quantity_text import size_text
from ..verdicts.policy import Policy
from .judgement import HELD, INCONCLUSIVE, VIOLATED, Findings, Ratio

#: How many times more data, or how many parts, the rows of a call against itself have (``instrument.FACTOR``).
FACTOR = 4


def headline(judgement: Findings, policy: Policy) -> str:
    """Counts of all rows."""
    number, rows = judgement.counts, len(judgement.rows)
    conditions = len({row.condition for row in judgement.rows})
    return (
        f"{number[VIOLATED]} of {rows} guidelines violated, {number[HELD]} held, {number[INCONCLUSIVE]} inconclusive "
        f"({conditions} condition{'s'[: conditions != 1]}, margin {policy.guidelines_margin_percent:g} %, "
        f"false discovery rate {100 * policy.false_discovery_rate:g} %)"
    )


def violations(judgement: Findings) -> list[str]:
    """One sentence per violated guideline and condition: its worst size, and at which others it is violated."""
    groups: dict[tuple[str, str], list[Ratio]] = {}
    for row in judgement.violations:
        groups.setdefault((row.condition.text, row.guideline), []).append(row)
    worst = {key: max(rows, key=lambda row: row.ratio) for key, rows in groups.items()}
    ordered = sorted(groups, key=lambda key: (key[0], -worst[key].ratio))
    return [f"{key[0]}: {_sentence(worst[key], groups[key])}" for key in ordered]


def _sentence(worst: Ratio, rows: Sequence[Ratio]) -> str:
    others = [size_text(row.message_bytes) for row in rows if row is not worst]
    also = f"; also at {', '.join(others)}" if others else ""
    times = f"{worst.ratio:.2g} ({worst.low:.2g} to {worst.high:.2g})"
    call, against = call_of(worst.guideline), mockup_of(worst.guideline, worst.message_bytes)
    return f"{call} at {size_text(worst.message_bytes)} takes {times} times {against}{also}: tune it"


def call_of(guideline: str) -> str:
    """The call that is to be at least as fast."""
    return f"MPI_{guideline.partition('-vs-')[0]}"


def mockup_of(guideline: str, message_bytes: int) -> str:
    """What it is compared with, in words."""
    call, _, mockup = guideline.partition("-vs-")
    if mockup == "larger":
        return f"what it takes with {size_text(FACTOR * message_bytes)}"
    if mockup == "parts":
        return f"{FACTOR} times MPI_{call} with {size_text(message_bytes // FACTOR)}"
    return " + ".join(f"MPI_{name}" for name in mockup.split("-"))


def as_data(session: str, system: str, judgement: Findings, policy: Policy) -> dict[str, Any]:
    """All rows, for programs; a number that is not known is ``None``."""
    return {
        "session": session,
        "system": system,
        "margin_percent": policy.guidelines_margin_percent,
        "false_discovery_rate": policy.false_discovery_rate,
        "confidence": policy.confidence,
        **judgement.counts,
        "notes": list(judgement.notes),
        "guidelines": [_row(row) for row in judgement.rows],
    }


def _row(row: Ratio) -> dict[str, Any]:
    flat = {**asdict(row.condition), **{key: value for key, value in asdict(row).items() if key != "condition"}}
    words = {"call": call_of(row.guideline), "mockup": mockup_of(row.guideline, row.message_bytes)}
    known = {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in flat.items()}
    return {**known, **words}
