"""What is said of the guidelines: a sentence per violated one and condition, a count of the rest, and the same as data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from ...store.quantity_text import size_text
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
    return [f"{rows[0].condition.text}: {sentence(rows)}" for rows in by_guideline(judgement.violations)]


def by_guideline(rows: Iterable[Ratio]) -> list[list[Ratio]]:
    """Rows of each condition and guideline together, by condition, and of one condition the worst first."""
    groups: dict[tuple[str, str], list[Ratio]] = {}
    for row in rows:
        groups.setdefault((row.condition.text, row.guideline), []).append(row)
    return [groups[key] for key in sorted(groups, key=lambda key: (key[0], -_worst(groups[key]).ratio))]


def _worst(rows: Sequence[Ratio]) -> Ratio:
    return max(rows, key=lambda row: row.ratio)


def sentence(rows: Sequence[Ratio]) -> str:
    """What is said of a violated guideline under one condition.

    :param rows: the sizes at which it is violated.
    """
    worst = _worst(rows)
    others = [size_text(row.message_bytes) for row in rows if row is not worst]
    also = f"; also at {', '.join(others)}" if others else ""
    call, against = call_of(worst.guideline), mockup_of(worst.guideline, worst.message_bytes)
    return f"{call} at {size_text(worst.message_bytes)} takes {times_of(worst)} times {against}{also}: tune it"


def times_of(row: Ratio) -> str:
    """How many times as long as its mock-up a call takes, with the interval where there is one."""
    interval = f" ({row.low:.2g} to {row.high:.2g})" if math.isfinite(row.low) and math.isfinite(row.high) else ""
    return f"{row.ratio:.2g}{interval}"


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
