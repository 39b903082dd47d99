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
    sides = _sides(record)
    return page.render(
        TEMPLATES,
        "accept.html",
        kind=f"Acceptance of {record['system']}",
        title=record["headline"],
        record=record,
        sessions=_sessions(sides),
        unproven=[(side, _unproven(record[side]["unproven"])) for side in reversed(SIDES)],
        changed=[(row["what"], row["before"], row["after"]) for row in record["changed"]],
        bands=[_band(row) for row in record["bands"]],
        metrics=[_metric(row) for row in record["metrics"]],
        again=_measured_again(record["confirmation"]),
        jobs=job_rows({side: one["jobs"] for side, one in sides.items()}),
        facts=_facts(record),
        signing=_signing(record),
    )


def _sides(record: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Baseline, candidate, and what was measured again, if anything was."""
    again = (record["confirmation"] or {}).get("measured")
    return {**{side: record[side] for side in SIDES}, **({"measured again": again} if again else {})}


def _interval(row: Mapping[str, Any]) -> str:
    return "" if row["low"] is None else f"{number(row['low'])} to {number(row['high'])}"


def _why(row: Mapping[str, Any]) -> str:
    why = row["why"] or (verdict_text.needed_text(row) if row["verdict"] == INCONCLUSIVE else "")
    return "; ".join(filter(None, [row.get("confirmation"), why]))


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


def _measured_again(confirmation: Mapping[str, Any] | None) -> list[list[object]]:
    """What was called slower, with both measurements: metrics, and bands none of whose metrics was called."""
    return (
        [
            [
                *(*_what(row), size_text(row["message_bytes"]) if "message_bytes" in row else row["band"]),
                *(
                    cell
                    for one in (row["first"], row["again"])
                    for cell in (number(one["ratio"]), _interval(one), one["verdict"])
                ),
                *(row["outcome"], row["why"]),
            ]
            for row in (*confirmation["metrics"], *confirmation["bands"])
        ]
        if confirmation
        else []
    )


def _sessions(sides: Mapping[str, Mapping[str, Any]]) -> list[list[object]]:
    return [
        [
            *(name, side["selector"], one["session"], one["started"][:16].replace("T", " "), f"{one['age_days']:g}"),
            ", ".join(f"{key}={value}" for key, value in one["labels"].items()),
            *(one["cases"], " ".join(one["options"])),
        ]
        for name, side in sides.items()
        for one in side["identities"]
    ]


def _unproven(rows: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    return [[row["session"], row["name"], describe_condition(row), row["why"], row["outputdir"] or ""] for row in rows]


def _facts(record: Mapping[str, Any]) -> list[list[str]]:
    """Versions on both sides: what, before, after."""
    known = [record[side]["facts"] for side in SIDES]
    return [[name, *(", ".join(facts.get(name, ["-"])) for facts in known)] for name in sorted({*known[0], *known[1]})]


def _signing(record: Mapping[str, Any]) -> list[list[str]]:
    asked = ", ".join(f"{name} {value}" for name, value in record["options"].items() if value)
    return [
        ["decided", f"{record['decided']} on {record['decided_on']} by mpibench {record['mpibench']}"],
        ["asked for", asked or "everything both sides have"],
        ["policy", f"{record['policy']['source']}: {record['policy']['margins_percent']}"],
        *(
            [name, f"{', '.join(side['sessions'])}; {side['values']} values, SHA-256 {side['values_sha256']}"]
            for name, side in _sides(record).items()
        ),
        ["name, date, signature", "........................................................................"],
    ]
