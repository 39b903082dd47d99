"""The page of one night, and beside it the proofs of all its cases with their jobs' output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl

from reframe_tests.harness.printable import first_line
from reframe_tests.harness.samples import NO_REFERENCE
from reframe_tests.harness.vocabulary import QUANTITIES

from ..report.summary import OUTCOMES, format_number
from ..results.dataset_layout import read_condition
from . import figures, outputs
from .nights import SiteNight, cases_of, condition_text, plain_reason, why_failed
from .over_time import FAMILY
from .series import Series, anchor, family_file

#: Columns of ``cases`` that a proof is made of.
_PROOF = ("case", "library", "library_version", "sentences", "condition", "gates", "reason")
#: Problems and notes listed openly; the others are folded.
OPEN_LINES = 12
#: Characters of a value of a condition that a page shows.
LONGEST_VALUE = 2000


def family_title(family: Sequence[Any]) -> str:
    """Benchmark and quantity of a family."""
    named = dict(zip(FAMILY, family, strict=True))
    groups = f"{named['groups']} groups" if (named["groups"] or 1) > 1 else ""
    quantity = QUANTITIES[named["quantity"]].title if named["quantity"] in QUANTITIES else named["quantity"]
    return f"{', '.join(filter(None, (named['benchmark'], named['variant'], groups)))}: {quantity}"


def family_place(family: Sequence[Any]) -> str:
    """Where a family was measured: ``eth1g on node, 2 x 1``."""
    named = dict(zip(FAMILY, family, strict=True))
    nodes = "all" if named["nodes"] == 0 else "?" if named["nodes"] is None else named["nodes"]
    where = f"{named['fabric']} on {named['partition']}" if named["fabric"] else str(named["partition"])
    return f"{where}, {nodes} x {'?' if named['ppn'] is None else named['ppn']}"


def content(series: Series, night: SiteNight) -> dict[str, Any]:
    """What the template ``night.html`` shows."""
    cases = series.cases.filter(pl.col("session") == night.session).to_dicts()
    rows = [_row(series, row) for row in cases if row["outcome"] not in ("skipped", "retried")]
    failed = [row for row in rows if row["outcome"] in ("failed", "interrupted")]
    shown = {row["line"] for row in failed}
    others = [one for one in night.problems if one not in shown]
    skipped = sorted((row for row in cases if row["outcome"] == "skipped"), key=_skip_reason)
    place = next((at for at, one in enumerate(series.nights) if one.session == night.session), 0)
    return {
        "night": night,
        "failed": failed,
        "problems": others[:OPEN_LINES],
        "more_problems": others[OPEN_LINES:],
        "changes": series.changes.get(night.session, ()),
        "events": [event for event in series.events if event.session == night.session],
        "fabrics": figures.of_last_night(series.over, night),
        "parts": [
            (fabric, list(part))
            for fabric, part in groupby(
                sorted(rows, key=lambda row: (row["fabric"], row["title"])), key=lambda row: row["fabric"]
            )
        ],
        "families": _families(series, rows),
        "skipped": [(reason, [condition_text(row) for row in part]) for reason, part in groupby(skipped, key=_skip_reason)],
        "outcomes_of": [(OUTCOMES[name], count) for name, count in night.counts.items()],
        "previous": series.nights[place - 1] if place else None,
        "confirming": series.confirming.get(night.session, ()),
        "same_day": [one for one in series.days[night.day][1] if one.session != night.session],
    }


def _skip_reason(row: Mapping[str, Any]) -> str:
    return first_line(plain_reason(row["reason"]), 240) or "no reason stored"


def _row(series: Series, row: Mapping[str, Any]) -> dict[str, Any]:
    file = series.case_files.get(str(row["case"]), "")
    families = series.families_of_case.get(file, [])
    return {
        "title": condition_text(row),
        "fabric": str(row["fabric"] or row["partition"]),
        "outcome": row["outcome"],
        "mark": OUTCOMES[row["outcome"]].mark,
        "word": OUTCOMES[row["outcome"]].word,
        "case": file,
        "anchor": anchor(str(row["case"])),
        "job": row["job_id"] or "",
        "held": row["held"],
        "missed": row["missed"],
        "line": why_failed(row) if row["outcome"] in ("failed", "interrupted") else "",
        "families": [(family_title(one), family_file(one)) for one in families],
    }


def _families(series: Series, rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Families that the cases of a night measured, by where they were measured: title and file."""
    found = dict.fromkeys(family for row in rows for family in series.families_of_case.get(row["case"], ()))
    placed = sorted((family_place(one), family_title(one), family_file(one)) for one in found)
    return [(place, [(title, file) for _, title, file in part]) for place, part in groupby(placed, key=lambda one: one[0])]


def proofs(folder: Path, series: Series, night: SiteNight, page_folder: Path) -> dict[str, Any]:
    """What the template ``proof.html`` shows: each case that ran, with its job, its proof and its output.

    :param folder: the dataset.
    :param page_folder: where the page will be; links to the jobs' folders are relative to it.
    """
    light = series.cases.filter((pl.col("session") == night.session) & ~pl.col("outcome").is_in(["skipped"])).to_dicts()
    long = cases_of(folder, series.system, [night.session]).select(_PROOF).collect()
    by_case = {row["case"]: row for row in long.to_dicts()}
    flat = {row["case"]: _flat_condition(by_case.get(row["case"], {}).get("condition")) for row in light}
    shared = _shared(list(flat.values()))
    return {
        "night": night,
        "shared": shared,
        "cases": [
            _proof(series, row, by_case.get(row["case"], {}), flat[row["case"]], shared, page_folder)
            for row in sorted(light, key=lambda one: (one["outcome"] not in ("failed", "interrupted"), condition_text(one)))
        ],
    }


def _proof(
    series: Series,
    row: Mapping[str, Any],
    long: Mapping[str, Any],
    flat: Mapping[str, str],
    shared: Mapping[str, str],
    page_folder: Path,
) -> dict[str, Any]:
    failed = row["outcome"] in ("failed", "interrupted")
    reason = plain_reason(long.get("reason"))
    sentences = list(long.get("sentences") or ()) if row["evidence"] != "proven" else []
    version = str(long.get("library_version") or "").strip().splitlines()
    return {
        **_row(series, row),
        "meaning": OUTCOMES[row["outcome"]].meaning,
        "evidence": row["evidence"] or "none",
        "nodes": row["nodelist"] or "",
        "seconds": row["seconds"],
        "uuid": row["case"],
        "name": row["name"],
        "reason": reason if failed and reason not in sentences else "",
        "sentences": sentences,
        "library": long.get("library") or "",
        "version": version[0] if version else "",
        "condition": [(name, value) for name, value in flat.items() if shared.get(name) != value],
        "gates": [_gate(check) for check in long.get("gates") or ()],
        "references": references_title(long.get("gates") or ()),
        "place": outputs.find(row, page_folder),
        "excerpts": list(outputs.excerpts(row).items()) if failed else [],
    }


def references_title(checks: Sequence[Mapping[str, Any]]) -> str:
    """How many of a case's checks are against a reference: ``2 references, 13 metrics without``."""
    held = sum(check["outcome"] != NO_REFERENCE for check in checks)
    references, without = f"{held} reference{'' if held == 1 else 's'}", len(checks) - held
    return f"{references}, {without} metric{'' if without == 1 else 's'} without" if without else references


def _gate(check: Mapping[str, Any]) -> dict[str, Any]:
    bounds = [
        f"{word} {format_number(check[name])}" for name, word in (("lower", "at least"), ("upper", "at most")) if check[name]
    ]
    return {**check, "shown": format_number(check["value"]), "bounds": " and ".join(bounds)}


def _flat_condition(text: str | None) -> dict[str, str]:
    """A stored condition as names and texts; of what cannot be read that."""
    found: dict[str, str] = {}
    for name, value in read_condition(text).items():
        if isinstance(value, Mapping):
            found.update({f"{name}: {key}": _flat(inner) for key, inner in value.items()})
        else:
            found[str(name)] = _flat(value)
    return {name: value for name, value in found.items() if value}


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        text = ", ".join(f"{key}={_flat(inner)}" for key, inner in value.items())
    elif isinstance(value, (list, tuple)):
        text = " ".join(_flat(inner) for inner in value)
    else:
        text = "" if value is None else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]} ..."


def _shared(conditions: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What is the same in all of several cases, and so is said once."""
    if len(conditions) < 2:
        return {}
    common: Iterable[tuple[str, str]] = set(conditions[0].items()).intersection(*(one.items() for one in conditions[1:]))
    return dict(sorted(common))
