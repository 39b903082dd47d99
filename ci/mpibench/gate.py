"""What nightly CI calls: evidence, references and drift of the newest session -> at most ten lines and one exit status.

Exit status: 0 all is well; 1 something is not; 2 bad input. "No reference" is said and is no failure (`acceptance` mode and
``accept`` are the places that insist).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from . import drift, session_selectors, usable, verdict_data

#: Lines at most.
MOST_LINES = 10


@dataclass(frozen=True)
class Result:
    """The gate's answer.

    :param lines: at most :data:`MOST_LINES`; the first is the decision.
    """

    passed: bool
    lines: tuple[str, ...]


def decide(folder: Path, system: str | None = None, session: str = "latest", recent: int = 14) -> Result:
    """Judge one session.

    :param recent: nights back to which a change counts as new.
    :raises BadInput: no dataset, a damaged one, or a selector that means no session.
    """
    name = verdict_data.system_of(folder, system)
    table = verdict_data.cases_of(folder, name)
    chosen = session_selectors.select(session, session_selectors.sessions_table(table))
    cases = table.filter(pl.col("session").is_in(chosen)).collect()
    sorted_cases = usable.sort_cases(cases)
    measured = cases.filter(pl.col("result") != "skip", ~pl.col("superseded").fill_null(False))
    unproven = measured.filter(~pl.col("case").is_in(sorted_cases.usable["case"].to_list()), pl.col("result") != "pass")
    gates = (
        sorted_cases.usable.select("stack", "fabric", "gates")
        .explode("gates", empty_as_null=True)
        .drop_nulls("gates")
        .unnest("gates")
    )
    failed = gates.filter(pl.col("outcome") == "fail") if gates.height else gates
    history, found = drift.watch(folder, name, selector=_alike(table, chosen[-1]), recent=recent)
    worse = [event for event in found if event.slower > 0]
    problems = [f"evidence: {_who(row)}: {_first(row['reason'])}" for row in unproven.to_dicts()]
    problems += [
        f"reference: {row['stack']} on {row['fabric']}: {row['metric']} is {row['value']:g} {row['unit']}, "
        f"must be {_bounds(row['lower'], row['upper'])} ({row['layer']})"
        for row in failed.to_dicts()
    ]
    problems += [f"drift: {event}" for event in worse]
    problems += drift.absent(history)
    if not sorted_cases.usable.height:
        problems.insert(0, "evidence: no case of this session may be used")
    passed = not problems
    without = gates.filter(pl.col("outcome") == "no reference").height if gates.height else 0
    head = (
        f"{'PASS' if passed else 'FAIL'}: {name}, session {chosen[-1][:8]}: {sorted_cases.usable.height} of {measured.height} "
        f"cases proven, {gates.height - without - failed.height} references held, {failed.height} missed, {without} without; "
        f"{len(worse)} changes for the worse in {min(recent, history.nights.height)} nights of {history.nights.height}"
    )
    notes = [f"better: {event}" for event in found if event.slower <= 0]
    body = [*problems, *notes]
    if len(body) > MOST_LINES - 1:
        left = len(body) - (MOST_LINES - 2)
        body = [*body[: MOST_LINES - 2], f"... and {left} more: see `mpibench report` and `mpibench drift`"]
    return Result(passed, (head, *body))


def _alike(table: pl.LazyFrame, session: str) -> str:
    """Selector of the sessions with the same label ``run`` up to this one: a smoke test is no night of the nightly series."""
    sessions = session_selectors.sessions_table(table)
    runs = sessions.with_columns(
        run=pl.Series([json.loads(labels or "{}").get("run") for labels in sessions["labels"]], dtype=pl.String)
    )
    judged = runs.filter(pl.col("session") == session).row(0, named=True)
    alike = runs.filter(pl.col("run").eq_missing(judged["run"]), pl.col("started") <= judged["started"])
    return ",".join(alike["session"].unique(maintain_order=True))


def _who(row: dict[str, object]) -> str:
    return f"{row['name']} [{row['stack']}]"


def _first(reason: object) -> str:
    return (str(reason or "failed without a reason").splitlines() or [""])[0][:200]


def _bounds(lower: float | None, upper: float | None) -> str:
    if lower is None:
        return f"at most {upper:g}"
    return f"at least {lower:g}" if upper is None else f"between {lower:g} and {upper:g}"
