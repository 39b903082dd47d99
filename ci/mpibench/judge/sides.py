"""What two sides of a comparison are as a whole: which sessions, how old, at which level, what of them is not proven."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import polars as pl

from ..stacks.spack import consistency
from ..store import confirmations, eligibility, selection_options, session_values
from ..store.confirmations import MissedReference
from ..store.dataset_layout import read_condition, read_labels
from ..store.session_values import Selection
from .curve_tests import ABSENT, MISSING
from .history import own_programs

#: What the tests report of themselves that makes whole sessions unlike: the level, by its key in the stored condition.
_LEVEL = "depth"
#: What compilers of one family are called: by Spack, and by themselves.
_FAMILIES = {"gcc": "gcc", "clang": "clang", "llvm": "clang", "oneapi": "oneapi"}


def identities(selection: Selection, now: datetime) -> list[dict[str, Any]]:
    """The sessions of a side: ``session`` (whole id), ``started``, ``age_days``, ``labels``, ``cases``, ``options``."""
    rows = (
        selection.planned.group_by("session", "started", "labels", "cmdline")
        .agg(cases=pl.len())
        .sort("started", "session")
        .to_dicts()
    )
    return [
        {
            "session": row["session"],
            "started": row["started"].isoformat(),
            "age_days": round((now - row["started"]).total_seconds() / 86400, 1),
            "labels": read_labels(row["labels"]),
            "cases": row["cases"],
            "options": list(selection_options.narrowing(row["cmdline"])) if row["cmdline"] else [],
        }
        for row in rows
    ]


def identity_lines(name: str, selection: Selection, now: datetime) -> list[str]:
    """Which sessions a selector meant, one line each: whole id, start, age, labels."""
    lines = []
    side = name if name == selection.selector else f"{name} {selection.selector}"
    for one in identities(selection, now):
        cases = f"{one['cases']} case{'' if one['cases'] == 1 else 's'}"
        labels = ", ".join(f"{key}={value}" for key, value in one["labels"].items()) or "no label"
        lines.append(
            f"{side}: session {one['session']} of {one['started'][:16].replace('T', ' ')} UTC, "
            f"{one['age_days']:g} days old, {labels}, {cases}"
        )
    return lines


def facts(selection: Selection) -> dict[str, list[str]]:
    """What the sessions say of machine and software, and how they are labelled."""
    found = session_values.facts(selection.cases)
    labels: dict[str, set[str]] = {}
    for text in selection.cases["labels"].unique():
        for key, value in read_labels(text).items():
            labels.setdefault(f"session label {key}", set()).add(str(value))
    return {**{key: sorted(values) for key, values in sorted(labels.items())}, **found}


def unproven_rows(selection: Selection) -> list[dict[str, Any]]:
    """The cases of a side that were to prove their condition and did not, and why, as plain data."""
    names = ("session", "case", "name", "stack", "partition", "fabric", "nodes", "ppn", "pinning", "group", "outputdir")
    rows = selection.unproven.sort("started", "stack", "name").to_dicts()
    return [{**{name: row[name] for name in names}, "group": row["group"] or "", "why": _why(row)} for row in rows]


def _why(row: dict[str, Any]) -> str:
    if row["result"] == eligibility.INTERRUPTED:
        return f"did not run: the session was interrupted ({eligibility.cause_of(row['reason'])})"
    said = next(iter(row["sentences"] or ()), None) or next(iter((row["reason"] or "").splitlines()), None)
    phase = f" in phase {row['fail_phase']}" if row["fail_phase"] else ""
    return f"{row['evidence'] or 'no evidence'}, {row['result']}{phase}: {said or 'no reason was stored'}"


def unproven_sentences(selection: Selection) -> list[str]:
    """One sentence per reason and condition, most cases first."""
    counted: dict[tuple[str, str], int] = {}
    for row in unproven_rows(selection):
        where = session_values.describe_condition(row)
        counted[where, row["why"]] = counted.get((where, row["why"]), 0) + 1
    ordered = sorted(counted.items(), key=lambda item: -item[1])
    return [f"{where}: {count} {'case' if count == 1 else 'cases'} {why}" for (where, why), count in ordered]


def count_unproven(name: str, selection: Selection) -> str:
    """How much of a side is not proven; empty if nothing."""
    count = selection.unproven.height
    planned = count + selection.cases.height
    return f"{count} of {planned} cases of {name} are not proven" if count else ""


def beyond(missed: MissedReference) -> float:
    """How far a missed reference lies beyond its bounds, as a fraction."""
    return confirmations.distance(*(missed.check[name] for name in ("value", "lower", "upper")))


def _levels(selection: Selection) -> set[str]:
    """Levels the cases of a side were measured at; the label ``run`` where they do not say."""
    found = set()
    for row in selection.cases.select("condition", "labels").unique().to_dicts():
        level = read_condition(row["condition"]).get(_LEVEL) or read_labels(row["labels"]).get("run")
        if level:
            found.add(str(level))
    return found


def unlike(baseline: Selection, candidate: Selection, missing: int) -> tuple[tuple[str, ...], str]:
    """What makes the sides unlike as a whole, and what that says of what the candidate lacks.

    :returns: sentences, and the reason for absences without one of their own (empty: none is known).
    """
    sentences, reason = [], ""
    levels = [_levels(side) for side in (baseline, candidate)]
    if levels[0] != levels[1] and all(levels):
        before, after = (" and ".join(sorted(one)) for one in levels)
        lost = f"; {missing} metrics are missing, those among them that {after} does not measure" if missing else ""
        sentences.append(
            f"unlike: the baseline was measured as {before}, the candidate as {after}{lost}: measure both sides alike (--mode)"
        )
        reason = f"it was measured as {after}, the baseline as {before}"
    narrowed = {name: _narrowed(side) for name, side in (("baseline", baseline), ("candidate", candidate))}
    if set(narrowed["baseline"].values()) != set(narrowed["candidate"].values()):
        for name, sessions in narrowed.items():
            partial = {session: options for session, options in sessions.items() if options}
            for session, options in partial.items():
                sentences.append(f"unlike: {name} session {session} is a partial one, started with {' '.join(options)}")
            reason = reason or ("its session is a partial one" if partial and name == "candidate" else "")
    return tuple(sentences), reason


def _narrowed(selection: Selection) -> dict[str, tuple[str, ...]]:
    """Options of each session that made it smaller than a whole one."""
    rows = selection.planned.select("session", "cmdline").unique(maintain_order=True).to_dicts()
    return {row["session"]: selection_options.narrowing(row["cmdline"]) if row["cmdline"] else () for row in rows}


def explained(reason: str) -> pl.Expr:
    """Which metrics are missing for a reason that holds for the whole side."""
    return (pl.col("verdict") == MISSING) & (pl.col("why") == f"{ABSENT}: {reason}")


def with_reason(metrics: pl.DataFrame, reason: str) -> pl.DataFrame:
    """The metrics, with a reason for absences that have none of their own."""
    if not reason:
        return metrics
    bare = (pl.col("verdict") == MISSING) & (pl.col("why") == ABSENT)
    return metrics.with_columns(why=pl.when(bare).then(pl.lit(f"{ABSENT}: {reason}")).otherwise(pl.col("why")))


def built_otherwise(sides: Sequence[Selection], first: str, second: str) -> list[str]:
    """What both sides say of how their stacks and programs were built, and say differently: what a difference may come from."""
    if (things := differing(sides)) is not None:
        said = "; ".join(things.values())
        if len(things) > 1:
            return [f"{first} and {second} differ in {len(things)} things, each may be part of the difference: {said}"]
        return [
            f"{first} and {second} differ in {f'{said} and in nothing else' if said else 'nothing'} that their locks record"
        ]
    reported = [_how(side.cases) for side in sides]
    otherwise: dict[tuple[str, str], list[str]] = {}
    for suite, what in reported[0].keys() & reported[1].keys():
        one, two = (" or ".join(sorted(side[suite, what])) or "none" for side in reported)
        if one != two:
            otherwise.setdefault((what, f"{one} in {first} and {two} in {second}"), []).append(suite)
    return [
        f"built otherwise: {' and '.join(sorted(suites))} with {what} {text}: "
        f"part of the difference may be the {what}'{'' if what.endswith('s') else 's'}"
        for (what, text), suites in sorted(otherwise.items())
    ]


def _stored(cases: pl.DataFrame) -> dict[str, str]:
    """What the lock file of the one stack of these cases says (``build.facts`` of its ``stack.json``); else nothing."""
    found = {json.dumps(read_condition(text).get("built")) for text in cases["condition"].unique()}
    facts = json.loads(found.pop()) if len(found) == 1 else None
    return facts if isinstance(facts, dict) else {}


def differing(sides: Sequence[Selection]) -> dict[str, str] | None:
    """What the locks of the stacks of two sides differ in (:func:`consistency.things`); ``None`` if one is not known."""
    whole = [_stored(side.cases) for side in sides]
    if not all(whole):
        return None
    return consistency.things(*whole)


def _how(cases: pl.DataFrame) -> dict[tuple[str, str], set[str]]:
    """Values of :data:`session_values.BUILD_FACTS` by suite, of the suites that the cases ran."""
    found: dict[tuple[str, str], set[str]] = {}
    for group, text in cases.select("group", "condition").unique().iter_rows():
        suites = read_condition(text).get("suites") or {}
        for suite in own_programs(group):
            for what in set(session_values.BUILD_FACTS) & set(suites.get(suite, {})):
                value = suites[suite][what]
                found.setdefault((suite, what), set()).add(_name_compiler(value) if what == "compiler" else value)
    return found


def _name_compiler(said: str) -> str:
    """``gcc 12.2.0`` for what Spack calls ``gcc@12.2.0`` and the compiler ``gcc (Debian 12.2.0-14) 12.2.0``."""
    family = next((name for word, name in _FAMILIES.items() if word in said.lower()), "")
    versions = re.findall(r"\d+(?:\.\d+)+", said)
    return f"{family} {versions[-1]}" if family and versions and ", " not in said else said
