"""The record of an acceptance as a page: headline first, then why, then every metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..pages import page
from ..results.quantity_text import size_text
from ..results.session_values import describe_condition
from ..verdicts import text as verdict_text
from ..verdicts.words import INCONCLUSIVE
from .parts import TEMPLATES, job_rows, number

SIDES = ("baseline", "candidate")


def acceptance(record: Mapping[str, Any]) -> str:
    """The page of a record (``acceptance_record.as_dict``)."""
    return page.render(
        TEMPLATES,
        "accept.html",
        kind=f"Acceptance of {record['system']}",
        title=record["headline"],
        record=record,
        sessions=_sessions(record),
        unproven=[(side, _unproven(record[side]["unproven"])) for side in reversed(SIDES)],
        changed=[(row["what"], row["before"], row["after"]) for row in record["changed"]],
        bands=[_band(row) for row in record["bands"]],
        metrics=[_metric(row) for row in record["metrics"]],
        jobs=job_rows({side: record[side]["jobs"] for side in SIDES}),
        facts=_facts(record),
        signing=_signing(record),
    )


def _interval(row: Mapping[str, Any]) -> str:
    return "" if row["low"] is None else f"{number(row['low'])} to {number(row['high'])}"


def _why(row: Mapping[str, Any]) -> str:
    return row["why"] or (verdict_text.needed_text(row) if row["verdict"] == INCONCLUSIVE else "")


def _what(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Condition, benchmark, quantity."""
    return describe_condition(row), verdict_text.benchmark_text(row), verdict_text.quantity_text(row["quantity"])


def _band(row: Mapping[str, Any]) -> list[object]:
    what = *_what(row), row["band"], row["sizes"] or ""
    limits = number(row["margin_percent"], 0), number(row["spread_percent"], 1)
    return [*what, number(row["ratio"]), _interval(row), *limits, row["verdict"], _why(row)]


def _metric(row: Mapping[str, Any]) -> list[object]:
    """A metric with both sides, ratio, interval and verdict."""
    values = (number(row.get(side), 2) for side in SIDES)
    repeats = f"{row.get('baseline_repeats') or 0} / {row.get('candidate_repeats') or 0}"
    size, unit = size_text(row["message_bytes"]), row.get("unit") or ""
    return [*_what(row), size, *values, unit, number(row["ratio"]), _interval(row), repeats, row["verdict"], _why(row)]


def _sessions(record: Mapping[str, Any]) -> list[list[object]]:
    return [
        [
            *(side, record[side]["selector"], one["session"], one["started"][:16].replace("T", " "), f"{one['age_days']:g}"),
            ", ".join(f"{key}={value}" for key, value in one["labels"].items()),
            *(one["cases"], " ".join(one["options"])),
        ]
        for side in SIDES
        for one in record[side]["identities"]
    ]


def _unproven(rows: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    return [[row["session"], row["name"], describe_condition(row), row["why"], row["outputdir"] or ""] for row in rows]


def _facts(record: Mapping[str, Any]) -> list[list[str]]:
    """Versions on both sides: what, before, after."""
    known = [record[side]["facts"] for side in SIDES]
    return [[name, *(", ".join(facts.get(name, ["-"])) for facts in known)] for name in sorted({*known[0], *known[1]})]


def _signing(record: Mapping[str, Any]) -> list[list[str]]:
    asked = ", ".join(f"{name} {value}" for name, value in record["options"].items() if value)
    values = (f"{record[side]['values']} values, SHA-256 {record[side]['values_sha256']}" for side in SIDES)
    return [
        ["decided", f"{record['decided']} on {record['decided_on']} by mpibench {record['mpibench']}"],
        ["asked for", asked or "everything both sides have"],
        ["policy", f"{record['policy']['source']}: {record['policy']['margins_percent']}"],
        *([side, f"{', '.join(record[side]['sessions'])}; {text}"] for side, text in zip(SIDES, values, strict=True)),
        ["name, date, signature", "........................................................................"],
    ]
