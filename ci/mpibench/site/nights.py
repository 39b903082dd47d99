"""What became of each session of a system, from its cases and from what was answered of it: green, red, or none of both.

Green is a claim: a whole session, every case of it proven, and something it was held against that it reached. What was not
measured, was measured in part, or was held against nothing is never green.
"""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from reframe_tests.harness.printable import first_line
from reframe_tests.harness.samples import DRY_RUN, FAIL, NO_REFERENCE, PASS, ReferenceCheck

from .. import withdrawals
from ..report.summary import OUTCOMES, gate_sentence
from ..results import confirmations, dataset, dataset_layout, eligibility, selection_options, session_values
from ..results.answers import NO_SESSION, StoredAnswer
from ..results.dataset_layout import read_labels
from ..results.sessions import CONFIRMS
from ..results.unreadable import Unreadable
from ..withdrawals import Withdrawal
from . import names

#: The label whose series is the system's own.
NIGHTLY = "nightly"
#: Characters of a reason that a page shows; the job's output has all of it.
LONGEST_REASON = 600


@dataclass(frozen=True)
class NightState:
    """What a night can be.

    :param mark: a sign that needs no colour.
    :param meaning: what it claims, and no more.
    """

    name: str
    mark: str
    word: str
    meaning: str


#: The first one that any session of a day has is that of the day.
STATES = {
    one.name: one
    for one in (
        NightState("red", "✕", "red", "something failed, was not proven, is missing, missed a reference or became worse"),
        NightState("green", "✓", "green", "whole, every case proven, and everything it was held against was reached"),
        NightState("part", "◐", "part", "measured in part, with options that select cases: nothing failed"),
        NightState("unjudged", "○", "not judged", "measured and proven, and held against nothing: no reference, no history"),
        NightState("withdrawn", "W", "withdrawn", "withdrawn by somebody: part of no verdict"),
        NightState("none", "", "not measured", "nothing was measured"),
    )
}

#: Columns of ``cases`` that pages of all nights are made of; what is long is read for one night at a time.
LIGHT = (
    *("case", "session", "started", "labels", "cmdline", "partition", "stack", "fabric", "nodes", "ppn", "ppn_symbol"),
    *("pinning", "group", "name", "result", "evidence", "superseded", "fail_phase", "samples", "measurement", "job_id"),
    *("nodelist", "outputdir", "session_seconds", "seconds"),
)
_GATES = {"held": PASS, "missed": FAIL, "without": NO_REFERENCE}


@dataclass(frozen=True)
class SiteNight:
    """One session.

    :param run: its label; empty without one.
    :param options: selection options of a partial session.
    :param state: of :data:`STATES`.
    :param finding: why it is what it is, in one sentence.
    :param problems: each reason why it is red.
    :param notes: what else was said of it.
    :param counts: cases by outcome (:data:`~mpibench.report.summary.OUTCOMES`).
    :param references: reference checks held, missed and without a reference.
    :param withdrawn: who took it out of all verdicts.
    :param identity: changes when its files do.
    """

    system: str
    session: str
    started: datetime
    seconds: float | None
    run: str
    options: tuple[str, ...]
    state: NightState
    finding: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    counts: Mapping[str, int]
    references: Mapping[str, int]
    withdrawn: Withdrawal | None
    identity: str

    @property
    def page(self) -> str:
        """Name of its page without suffix."""
        return names.night_name(self.session, self.started)

    @property
    def day(self) -> date:
        """UTC day on which it started."""
        return self.started.date()


def outcome_of(row: Mapping[str, Any]) -> str:
    """Key of :data:`OUTCOMES` for a row of :func:`light_cases`; as the report calls it."""
    result, phase, evidence = (str(row[name] or "") for name in ("result", "fail_phase", "evidence"))
    facts = eligibility.Facts(result, phase, evidence, bool(row["superseded"]), bool(row["samples"]))
    if facts.superseded:
        return "retried"
    short = {eligibility.INTERRUPTED: "interrupted", "skip": "skipped", "fail_deps": "failed", "xfail": "known"}
    if facts.result in short:
        return short[facts.result]
    owes = row["measurement"] if row["measurement"] is not None else row["group"] is not None
    if facts.evidence == DRY_RUN and facts.result == "pass":
        return "dry"
    if facts.result != "pass" or (owes and not eligibility.is_proven(facts)) or row["missed"]:
        return "failed"
    return "passed" if row["held"] else "recorded" if facts.measured else "proven"


def light_cases(folder: Path, system: str, lost: Sequence[Unreadable]) -> pl.DataFrame:
    """All cases of a system that can be read, withdrawn ones among them, with ``outcome``, counts of reference checks, and
    the first that missed as ``check``.

    :param lost: sessions that cannot be read.
    :raises BadInput: a damaged dataset, or a session that is there twice.
    """
    outcome = pl.element().struct.field("outcome")
    counts = {name: pl.col("gates").list.eval(outcome == word).list.sum().fill_null(0) for name, word in _GATES.items()}
    reason = pl.col("reason").fill_null("").str.slice(0, LONGEST_REASON)
    first = pl.col("sentences").list.first().fill_null("").str.slice(0, LONGEST_REASON)
    check = pl.col("gates").list.eval(pl.element().filter(outcome == FAIL)).list.first()
    table = dataset.load_cases(folder, [system]).filter(~pl.col("session").is_in([one.session for one in lost]))
    found = (
        table.select(*LIGHT, reason=reason, sentence=first, check=check, busy=session_values.LOST_CORES, **counts)
        .collect()
        .sort("started", "session", "case")
    )
    if found["case"].is_duplicated().any():
        session_values.cases_of(folder, system)  # which says what is there twice
    return _with_outcomes(found)


def _with_outcomes(cases: pl.DataFrame) -> pl.DataFrame:
    """The cases with ``outcome``; one look per distinct combination."""
    counts = [(pl.col(name) > 0).cast(pl.Int64).alias(name) for name in ("held", "missed")]
    owes = pl.col("measurement").fill_null(pl.col("group").is_not_null()).alias("measurement")
    measured = (pl.col("samples") > 0).fill_null(False).cast(pl.Int64).alias("samples")
    facts = cases.select("result", "fail_phase", "evidence", "superseded", measured, owes, *counts)
    distinct = facts.unique()
    outcomes = [outcome_of({**row, "group": None}) for row in distinct.to_dicts()]
    distinct = distinct.with_columns(outcome=pl.Series(outcomes, dtype=pl.String))
    joined = facts.join(distinct, on=facts.columns, how="left", nulls_equal=True, maintain_order="left")
    return cases.with_columns(joined["outcome"])


def identities(folder: Path, system: str) -> dict[str, str]:
    """What changes when a session's files are written again, by session."""
    found: dict[str, list[object]] = {}
    for table in ("cases", "samples"):
        for path in sorted(folder.glob(f"{table}/system={system}/date=*/*.parquet")):
            status = path.stat()
            found.setdefault(path.stem, []).append((table, status.st_mtime_ns, status.st_size))
    return {session: names.digest(*parts) for session, parts in found.items()}


class Judging(NamedTuple):
    """What nights of a system are judged by.

    :param cases: :func:`light_cases`.
    :param ids: :func:`identities`.
    :param answers: by session.
    :param spoiled: why values of a session cannot be used, by session.
    :param lost: sessions that cannot be read.
    """

    folder: Path
    system: str
    cases: pl.DataFrame
    ids: Mapping[str, str]
    answers: Mapping[str, Sequence[StoredAnswer]]
    spoiled: Mapping[str, str]
    lost: Sequence[Unreadable]


def judge(by: Judging) -> list[SiteNight]:
    """Every session of a system, oldest first; also those that cannot be read."""
    gone = withdrawals.find(by.folder)
    counted = by.cases.filter(pl.col("measurement").fill_null(True) | (pl.col("result") != "pass"))
    failed: dict[str, list[dict[str, Any]]] = {}
    for row in counted.filter(pl.col("outcome").is_in(["failed", "interrupted"])).to_dicts():
        failed.setdefault(str(row["session"]), []).append(row)
    counts: dict[str, dict[str, int]] = {}
    for session, outcome, count in counted.group_by("session", "outcome").len().iter_rows():
        counts.setdefault(session, {})[outcome] = count
    said_first = [pl.col(name).drop_nulls().first() for name in ("cmdline", "session_seconds", "labels", "started")]
    busy = {"busy": (pl.col("busy") & (pl.col("samples") > 0)).sum(), "timed": (pl.col("samples") > 0).sum()}
    sums = (pl.col(name).sum() for name in _GATES)
    sessions = by.cases.group_by("session", maintain_order=True).agg(*said_first, *sums, **busy)
    again = _confirming(sessions)
    found = []
    for row in sessions.to_dicts():
        one = row["session"]
        found.append(_night(by, row, counts.get(one, {}), failed.get(one, []), gone.get(one), again.get(one, [])))
    known, labels = {one.session for one in found}, [one.run for one in found if "=" not in one.run]
    # Nobody knows its label: it may have been a night.
    label = NIGHTLY if NIGHTLY in labels or not labels else labels[-1]
    found += [_unreadable(by.system, one, gone.get(one.session), label) for one in by.lost if one.session not in known]
    return sorted(found, key=lambda one: (one.started, one.session))


def _confirming(sessions: pl.DataFrame) -> dict[str, list[str]]:
    """Sessions that measured another one again, withdrawn ones among them, by that one."""
    label = pl.col("labels").str.json_path_match(f"$.{CONFIRMS}")
    found: dict[str, list[str]] = {}
    for session, first in sessions.select("session", label).drop_nulls().iter_rows():
        found.setdefault(first, []).append(session)
    return found


def cases_of(folder: Path, system: str, sessions: Sequence[str]) -> pl.LazyFrame:
    """Table ``cases`` of some sessions; only their files are opened."""
    paths = [
        path for one in sessions for path in sorted(folder.glob(f"cases/system={system}/date=*/{glob.escape(one)}.parquet"))
    ]
    return dataset_layout.scan_files(paths, "cases")


def _missed(by: Judging, session: str, again: Sequence[str]) -> tuple[list[str], list[str]]:
    """References that a session missed, and those that were not missed again when they were measured again.

    :param again: sessions that say they measured it again.
    """
    own = cases_of(by.folder, by.system, [session]).collect()
    withdrawn = withdrawals.find(by.folder)
    second = confirmations.confirming(cases_of(by.folder, by.system, [session, *again]), session, withdrawn)
    held: list[str] = []
    gone: list[str] = []
    for one in confirmations.missed_references(own, second):
        row = one.check
        text = f"{row['stack']} on {row['fabric']}: {row['metric']} is {confirmations.value_text(row['value'])} {row['unit']}"
        (gone if one.outcome == confirmations.NOT_SEEN_AGAIN else held).append(
            f"reference ({row['layer']}) missed: {text}" + "".join(f"; {said}" for said in (one.outcome, one.why) if said)
        )
    return held, gone


def _night(
    by: Judging,
    session: Mapping[str, Any],
    counted: Mapping[str, int],
    failing: Sequence[Mapping[str, Any]],
    withdrawn: Withdrawal | None,
    again: Sequence[str],
) -> SiteNight:
    """A session that can be read.

    :param session: its row; ``counted``: its cases by outcome; ``failing``: rows of those that failed or were interrupted.
    :param again: sessions that measured it again.
    """
    uuid = str(session["session"])
    said, spoiled = list(by.answers.get(uuid, ())), by.spoiled.get(uuid)
    missed, excused = _missed(by, uuid, again) if session["missed"] else ([], [])
    counts, references = Counter(counted), {name: int(session[name]) for name in _GATES}
    failed = [row for row in failing if row["outcome"] == "failed" and not _only_excused(row, missed)]
    ran = sum(counts[name] for name in OUTCOMES if name not in ("skipped", "retried", "dry"))
    problems = [f"values of this session cannot be used: {spoiled}"] if spoiled else []
    problems += [why_failed(row) for row in failed]
    problems += [f"interrupted: {counts['interrupted']} of {ran} cases did not run to their end"] * bool(counts["interrupted"])
    problems += missed
    problems += ["no case of this session ran"] * (not ran)
    known = (["evidence: "] if failed else []) + (["reference: "] if missed else [])
    for answer in said:
        # What its own cases say need not be said twice.
        problems += [one for one in answer.problems if one not in problems and not one.startswith(tuple(known))]
    labels = read_labels(session["labels"])
    options = selection_options.narrowing(session["cmdline"] or "")
    state = _state(bool(problems), withdrawn is not None, options, references["held"] + _held_against(said))
    return SiteNight(
        by.system,
        uuid,
        session["started"],
        session["session_seconds"],
        labels.get("run", "") if CONFIRMS not in labels else f"{CONFIRMS}={labels[CONFIRMS]}",
        options,
        STATES[state],
        _finding(state, counts, references, problems, ran, said, withdrawn, len(failed)) + _busy(session),
        tuple(problems),
        (*excused, *dict.fromkeys(note for answer in said for note in answer.notes)),
        {name: counts[name] for name in OUTCOMES if counts[name]},
        references,
        withdrawn,
        names.digest(by.ids.get(uuid, ""), *said, withdrawn, spoiled, *missed, *excused),
    )


def _held_against(said: Sequence[StoredAnswer]) -> int:
    """Metrics that were held against the nights before and passed."""
    return sum(answer.judged for answer in said if answer.passed)


def is_worse(night: SiteNight, problems: Sequence[str]) -> SiteNight:
    """The night with what became worse before or in it, and lasted: what holds nights before refused, however well they ran."""
    said = any(one.startswith("drift: ") for one in night.problems)  # by the gate, of the same changes
    new = [] if said else [one for one in problems if one not in night.problems]
    if not new or night.withdrawn:
        return night
    red = night.state.name == "red"
    return replace(
        night,
        state=STATES["red"],
        finding=night.finding if red else _counted(new),
        problems=(*night.problems, *new),
        identity=names.digest(night.identity, *new),
    )


def _counted(problems: Sequence[str]) -> str:
    """The first problem, and how many others there are."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{first_line(problems[0], 220)}{more}"


def _only_excused(row: Mapping[str, Any], missed: Sequence[str]) -> bool:
    """Whether a case failed for nothing but references, none of which was missed again."""
    if not (row["result"] in ("pass", "fail") and row["missed"] and row["evidence"] == "proven"):
        return False
    return (row["fail_phase"] or "performance") == "performance" and not any(f"{row['stack']} on" in one for one in missed)


def _state(problems: bool, withdrawn: bool, options: Sequence[str], judged: int) -> str:
    if withdrawn:
        return "withdrawn"
    if problems:
        return "red"
    if options:
        return "part"
    return "green" if judged else "unjudged"


def why_failed(row: Mapping[str, Any]) -> str:
    """Why a case failed, as a line with its condition."""
    said = row["sentence"] if row["evidence"] != "proven" else _missed_reference(row)
    why = first_line(said or plain_reason(row["reason"]) or _without_reason(row), 300)
    return f"{condition_text(row)}: {why}"


def _missed_reference(row: Mapping[str, Any]) -> str:
    """The first reference that was missed, as the report says it; empty where another thing stopped the case."""
    if row["check"] is None or (row["fail_phase"] or "performance") != "performance":
        return ""
    more = f" {row['missed']} references missed." if row["missed"] > 1 else ""
    return f"{gate_sentence(ReferenceCheck(**row['check']))}{more}"


def plain_reason(text: str | None) -> str:
    """A reason without the name of the exception and the excerpt of the source below it."""
    lines = (line.strip() for line in (text or "").splitlines())
    kept = " ".join(line for line in lines if line and not line.startswith("|"))
    for word in ("sanity error: ", "performance error: ", "reframe error: "):
        kept = kept.removeprefix(word)
    return kept.strip().rstrip(":")


def _without_reason(row: Mapping[str, Any]) -> str:
    if row["missed"]:
        return f"{row['missed']} references missed"
    if row["result"] == "pass":
        return "ReFrame passed it, but no proof of its condition was stored"
    return f"ended with '{row['result']}' in phase '{row['fail_phase'] or 'unknown'}' and gave no reason"


def condition_text(row: Mapping[str, Any]) -> str:
    """What a case measured under which condition: ``p2p of mpich on eth1g, 2 x 1, bunch``."""
    ppn = row["ppn"] if row["ppn"] is not None else row["ppn_symbol"] or "?"
    nodes = "all" if row["nodes"] == 0 else row["nodes"] if row["nodes"] is not None else "?"
    what = row["group"] or str(row["name"]).split(" ")[0]
    return f"{what} of {row['stack']} on {row['fabric'] or row['partition']}, {nodes} x {ppn}, {row['pinning'] or 'no pinning'}"


def _finding(
    state: str,
    counts: Mapping[str, int],
    references: Mapping[str, int],
    problems: Sequence[str],
    ran: int,
    said: Sequence[StoredAnswer],
    withdrawn: Withdrawal | None,
    failed: int,
) -> str:
    """The night in one sentence."""
    if withdrawn is not None:
        return f"Withdrawn by {withdrawn.who} on {withdrawn.when[:10]}: {withdrawn.why}"
    if problems:
        head = f"{failed} of {ran} cases failed: " if failed else ""
        return f"{head}{_counted(problems)}"
    proven = sum(counts.get(name, 0) for name in ("passed", "recorded", "proven"))
    base = f"{proven} of {ran} cases proven"
    if state == "green":
        history = _held_against(said)
        beside = f", {history} metrics as in the nights before" if history else ""
        return f"{base}, {references['held']} references held, none missed{beside}"
    return f"{base}; measured in part" if state == "part" else f"{base}; held against nothing: no reference and no history"


def _busy(session: Mapping[str, Any]) -> str:
    """What is to be known of the numbers wherever they are shown; empty where there is nothing."""
    said = session_values.busy_sentence(session["busy"], session["timed"])
    return f". {said.rstrip('.')}" if said else ""


def _unreadable(system: str, lost: Unreadable, withdrawn: Withdrawal | None, label: str) -> SiteNight:
    state = STATES["withdrawn" if withdrawn else "red"]
    text = f"This session cannot be read: {lost.why}"
    none: dict[str, int] = dict.fromkeys(_GATES, 0)
    identity = names.digest(lost.session, lost.why, withdrawn)
    return SiteNight(
        system, lost.session, lost.started, None, label, (), state, text, (text,), (), {}, none, withdrawn, identity
    )


def without_session(answers: Mapping[str, Sequence[StoredAnswer]]) -> list[StoredAnswer]:
    """Answers of nights that stored no session, oldest first."""
    every: Iterable[StoredAnswer] = (one for said in answers.values() for one in said)
    return sorted((one for one in every if one.session.startswith(NO_SESSION)), key=lambda one: one.written)
