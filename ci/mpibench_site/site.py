"""The site of all systems of a dataset as static pages that need no
network: nights, metrics over time, cases, nodes.

Written is what changed since the last build, and nothing else. Green is a claim: a whole session,
every case of it proven, and something it was compared with that it reached. What was not measured,
was measured in part, or was compared with nothing is never green.
"""

from __future__ import annotations

import calendar
import fcntl
import hashlib
import itertools
import json
import math
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jinja2 import ChoiceLoader, PackageLoader
from scipy import special

from mpibench import whole_file
from mpibench.judge import drift, gate
from mpibench.judge import policy as verdict_policy
from mpibench.judge.drift import Event
from mpibench.judge.engine import Array
from mpibench.pages import page
from mpibench.pages.outcomes import (
    KEY_FIGURES,
    OUTCOMES,
    Outcome,
    format_number,
    plain_reason,
    why,
)
from mpibench.pages.page import flat, plotly_script, writing
from mpibench.store import confirmations, eligibility, records, selection_options, session_values
from mpibench.store.dataset_layout import read_condition, read_labels
from mpibench.store.quantity_text import (
    better_text,
    directed_text,
    loss,
    metric_text,
    nodes_text,
    size_text,
    source_text,
    unit_text,
)
from mpibench.store.records import NO_SESSION, Withdrawal
from mpibench.store.session_values import CONDITION, METRIC, changes
from mpibench.store.sessions import CONFIRMS, UNJUDGED
from mpibench.store.store import Store, StoredNight, StoredPairMap
from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH, LATENCY, MEAN
from reframe_tests.harness.printable import clause, first_line, one_line, plural
from reframe_tests.harness.samples import (
    CONTRADICTED,
    FAIL,
    NO_REFERENCE,
    PASS,
    PROVEN,
    ReferenceCheck,
)
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.benchmark import metric_name
from reframe_tests.harness.suites.model import KeyFigure
from reframe_tests.harness.vocabulary import JUDGED, LOWER, MB_PER_GBIT, NONE, QUANTITIES, BadInput

from . import stored_files

#: Characters of a name that are for people; the rest tells names apart that read alike.
READABLE = 56


def digest(*words: object) -> str:
    return hashlib.sha256("\0".join(map(str, words)).encode("utf-8", "surrogatepass")).hexdigest()[
        :10
    ]


def file_name(*words: object) -> str:
    """A name of lower-case letters, digits and hyphens; the same
    words give the same name in every build.
    """
    text = re.sub(
        "[^a-z0-9]+", "-", "-".join("" if word is None else str(word) for word in words).lower()
    ).strip("-")
    return "-".join(filter(None, (text[:READABLE].strip("-"), digest(*words))))


def anchor(case: str) -> str:
    return f"c-{digest(case)}"


# Nights: the outcome of each session.

#: The label whose series is the system's own.
NIGHTLY = "nightly"
#: Characters of a reason that a page shows; the job's output has all of it.
LONGEST_REASON = 600
#: Of a problem that is a headline: two lines on a phone.
LONGEST_HEADLINE = 90
#: What a night can be. The first one that any session of a day has is that of the day.
STATES = {
    state.name: state
    for state in (
        Outcome(
            "red",
            "✕",
            "red",
            "something failed, was not proven, is missing, missed a reference or became worse",
        ),
        Outcome(
            "green",
            "✓",
            "green",
            "whole, every case proven, every reference met, and no slower than earlier nights",
        ),
        Outcome("part", "◐", "part", "partial (options selected cases): nothing failed"),
        Outcome(
            "unjudged",
            "○",
            "not judged",
            "measured and proven, but without anything to compare with, or too noisy to tell",
        ),
        Outcome("withdrawn", "W", "withdrawn", "taken back by somebody: part of no verdict"),
        Outcome("none", "", "not measured", "there is no session"),
    )
}
#: Columns of ``cases`` that pages of all nights are made of; what
#: is long is read for one night at a time.
LIGHT = (
    "case",
    "session",
    "started",
    "labels",
    "cmdline",
    "partition",
    "stack",
    "fabric",
    "nodes",
    "ppn",
    "ppn_symbol",
    "pinning",
    "group",
    "name",
    "result",
    "evidence",
    "superseded",
    "fail_phase",
    "samples",
    "measurement",
    "job_id",
    "nodelist",
    "outputdir",
    "session_seconds",
    "seconds",
)
_CHECKS = {"held": PASS, "missed": FAIL, "without": NO_REFERENCE}
_BROKEN = ("failed", "interrupted")


@dataclass(frozen=True)
class SiteNight:
    """One session.

    :param run: its label; empty without one.
    :param options: selection options of a partial session.
    :param state: of :data:`STATES`.
    :param finding: why it is what it is, in one sentence.
    :param problems: each reason why it is red.
    :param notes: what else was said of it.
    :param counts: cases by outcome (:data:`~mpibench.pages.outcomes.OUTCOMES`).
    :param references: reference checks held, missed and without a reference.
    :param withdrawn: who took it out of all verdicts.
    :param identity: changes when its files do.
    :param drifted: the gate said what became worse and lasts.
    :param headline: of a red night the finding in a line, without its problems.
    :param busy: that other programs used the machine; empty if they did not.
    """

    session: str
    started: datetime
    seconds: float | None
    run: str
    options: tuple[str, ...]
    state: Outcome
    finding: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    counts: Mapping[str, int]
    references: Mapping[str, int]
    withdrawn: Withdrawal | None
    identity: str
    drifted: bool = False
    headline: str = ""
    busy: str = ""

    @property
    def details(self) -> tuple[str, ...]:
        """What the headline leaves out."""
        return (*self.problems, *filter(None, [self.busy])) if self.headline else ()

    @property
    def page(self) -> str:
        return f"{self.started:%Y-%m-%d-%H%M}-{digest(self.session)}"

    @property
    def day(self) -> date:
        return self.started.date()


def light_cases(store: Store, system: str) -> pl.DataFrame:
    """All cases of a system that can be read, withdrawn ones among them, with ``outcome``, counts
    of reference checks, and the one that was missed by most as ``check``.

    :raises BadInput: a damaged dataset, or a session that appears twice.
    """
    counts = {name: eligibility.checks(outcome) for name, outcome in _CHECKS.items()}
    missed = pl.element().filter(pl.element().struct.field("outcome") == FAIL)
    value, lower, upper = (pl.element().struct.field(name) for name in ("value", "lower", "upper"))
    # as confirmations.distance
    beyond = pl.max_horizontal(lower / value, value / upper).fill_null(math.inf)
    # In two steps: Polars 1.44 sorts what it filtered in the same step by values of other lists.
    worst = pl.element().sort_by(beyond, descending=True)
    check = pl.col("gates").list.eval(missed).list.eval(worst).list.first()
    first = pl.col("sentences").list.first()
    texts = {"reason": pl.col("reason"), "sentence": first}
    short = {name: text.fill_null("").str.slice(0, LONGEST_REASON) for name, text in texts.items()}
    made = {
        "busy": session_values.LOST_CORES,
        **short,
        "check": check,
        "outcome": eligibility.OUTCOME,
        **counts,
    }
    return (
        store.scan("cases", system)
        .select(*LIGHT, **made)
        .sort("started", "session", "case")
        .collect()
    )


def identities(store: Store, system: str) -> dict[str, str]:
    """What changes with the files of each session."""
    found: dict[str, list[object]] = {}
    for table in ("cases", "samples"):
        for path in store.files(table, system):
            status = path.stat()
            found.setdefault(path.stem, []).append((table, status.st_mtime_ns, status.st_size))
    return {session: digest(*texts) for session, texts in found.items()}


def session_rows(cases: pl.DataFrame) -> list[dict[str, Any]]:
    """Sessions of :func:`light_cases`, the oldest first: when, with which
    label and options, and counts of their cases.
    """
    timed = pl.col("samples") > 0
    rows = cases.group_by("session", maintain_order=True).agg(
        *(
            pl.col(name).drop_nulls().first()
            for name in ("cmdline", "session_seconds", "labels", "started")
        ),
        *(pl.col(name).sum() for name in _CHECKS),
        busy=(pl.col("busy") & timed).sum(),
        timed=timed.sum(),
    )
    found = rows.to_dicts()
    for row in found:
        labels = read_labels(row["labels"])
        row["confirms"] = labels.get(CONFIRMS, "")
        row["run"] = (
            f"{CONFIRMS}={row['confirms']}" if CONFIRMS in labels else labels.get("run", "")
        )
        row["options"] = selection_options.narrowing(row["cmdline"] or "")
    return found


NOISY = "not judged: earlier nights differ so much that even a doubled time would go unnoticed"


def judge(
    store: Store, system: str, cases: pl.DataFrame, spoiled: Mapping[str, str]
) -> list[SiteNight]:
    """The outcome of each session of a system, the oldest first.

    :param cases: :func:`light_cases`.
    :param spoiled: why values of a session cannot be used, by session.
    """
    ids = identities(store, system)
    gone = store.withdrawn
    sessions = session_rows(cases)
    counted = cases.filter(pl.col("measurement").fill_null(True) | (pl.col("result") != "pass"))
    counts: dict[str, Counter[str]] = {}
    for session, outcome, count in counted.group_by("session", "outcome").len().iter_rows():
        counts.setdefault(session, Counter())[outcome] = count
    failing: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(counted.filter(pl.col("outcome") == "failed").to_dicts(), key=_worst_first):
        failing.setdefault(row["session"], []).append(row)
    again: dict[str, list[str]] = {}
    for row in sessions:
        again.setdefault(row["confirms"], []).append(row["session"])
    nights = []
    for row in sessions:
        session = row["session"]
        options = row["options"]
        own = counts.get(session, Counter())
        references = {name: int(row[name]) for name in _CHECKS}
        answers = store.answers.get(session, ())
        withdrawn = gone.get(session)
        found, unheld = (
            _missed(store, system, session, again.get(session, ()))
            if row["missed"]
            else ([], frozenset())
        )
        missed = [text for _, outcome, text in found if outcome not in confirmations.EXCUSED]
        excused = [text for _, outcome, text in found if outcome in confirmations.EXCUSED]
        unjudged = [text for _, outcome, text in found if outcome == confirmations.BUSY]
        failed = [case for case in failing.get(session, ()) if case["case"] not in unheld]
        own["failed"] -= len(unheld)
        own[UNJUDGED] += len(unheld)
        ran = sum(own[name] for name in OUTCOMES if name not in NOT_RUN)
        problems = (
            [f"values of this session cannot be used: {spoiled[session]}"]
            if session in spoiled
            else []
        )
        problems += [why_failed(case) for case in failed]
        if own["interrupted"]:
            problems.append(
                f"interrupted: {own['interrupted']} of {plural(ran, 'case')} did not run to the end"
            )
        problems += missed
        if not ran:
            problems.append("no case of this session ran")
        # What its own cases say need not be said twice.
        known = {gate.EVIDENCE: failed, gate.REFERENCE: missed}
        said = [
            pair
            for answer in answers
            for pair in itertools.zip_longest(answer.problems, answer.kinds)
        ]
        problems += dict.fromkeys(
            text for text, kind in said if text not in problems and not known.get(kind)
        )
        history = sum(answer.judged for answer in answers if answer.passed)
        headline = ""
        whole = sum(own[name] for name in ("passed", "recorded", "proven"))
        proven = f"{whole} of {plural(ran, 'case')} proven"
        if withdrawn is not None:
            state = "withdrawn"
            finding = f"Withdrawn by {withdrawn.who} on {withdrawn.when:%Y-%m-%d}: {withdrawn.why}"
        elif problems:
            head = f"{len(failed)} of {plural(ran, 'case')} failed" if failed else ""
            state = "red"
            finding = ": ".join(filter(None, (head, _first_of(problems))))
            headline = head or first_line(problems[0], LONGEST_HEADLINE)
        elif options:
            state = "part"
            finding = f"{proven}; measured in part"
        elif blind := next(
            (said.finding for said in answers if said.unjudged and said.finding),
            _first_of(unjudged),
        ):
            state = "unjudged"
            finding = f"{proven}; {blind}"
        elif references["held"] or history:
            like = f", {plural(history, 'metric')} as in the nights before" if history else ""
            seen = "".join(dict.fromkeys(f"; {said.seen}" for said in answers if said.seen))
            state = "green"
            finding = (
                f"{proven}, {plural(references['held'], 'reference')} held, none missed{like}{seen}"
            )
        else:
            state = "unjudged"
            finding = f"{proven}; nothing to compare with: no reference and no history"
        busy = session_values.busy_sentence(row["busy"], row["timed"])
        nights.append(
            SiteNight(
                session,
                row["started"],
                row["session_seconds"],
                row["run"],
                options,
                STATES[state],
                finding=". ".join(filter(None, (finding, busy))),
                problems=tuple(problems),
                notes=(
                    *excused,
                    *dict.fromkeys(note for answer in answers for note in answer.notes),
                ),
                counts={name: own[name] for name in OUTCOMES if own[name]},
                references=references,
                withdrawn=withdrawn,
                identity=digest(
                    ids.get(session, ""),
                    *answers,
                    withdrawn,
                    spoiled.get(session),
                    *missed,
                    *excused,
                ),
                drifted=gate.DRIFT in {kind for _, kind in said},
                headline=headline,
                busy=busy,
            )
        )
    # Nobody knows the label of what cannot be read: it may have been a night.
    labels = [row["run"] for row in sessions if "=" not in row["run"]]
    label = NIGHTLY if NIGHTLY in labels or not labels else labels[-1]
    there = {row["session"] for row in sessions}
    for lost in store.lost(system):
        if lost.session not in there:
            withdrawn = gone.get(lost.session)
            text = f"This session cannot be read: {lost.why}"
            nights.append(
                SiteNight(
                    lost.session,
                    lost.started,
                    None,
                    label,
                    (),
                    STATES["withdrawn" if withdrawn else "red"],
                    text,
                    (text,),
                    notes=(),
                    counts={},
                    references=dict.fromkeys(_CHECKS, 0),
                    withdrawn=withdrawn,
                    identity=digest(lost.session, lost.why, withdrawn),
                )
            )
    return sorted(nights, key=lambda night: (night.started, night.session))


def _missed(
    store: Store, system: str, session: str, again: Sequence[str]
) -> tuple[list[tuple[str, str, str]], frozenset[str]]:
    """References that a session missed: id of the case, what came
    of measuring it again, and a sentence; and the cases whose miss is not judged.

    :param again: sessions that say they measured it again.
    """
    own = store.scan("cases", system, [session]).collect()
    second = confirmations.confirming(
        store.scan("cases", system, [session, *again]), session, store.withdrawn
    )
    found = []
    earlier = StoredNight(store, system, session, withdrawn_too=True).earlier
    every = confirmations.missed_references(own, second, earlier)
    for missed in sorted(every, key=lambda one: -_beyond(one.check)):
        row = missed.check
        value = confirmations.value_text(row["value"], row)
        what = (
            f"reference ({source_text(row['layer'])}) missed: {row['stack']} on {row['fabric']}: "
            f"{metric_text(row['metric'])} is {value}"
        )
        busy = "machine busy" if missed.busy else ""
        text = "; ".join(filter(None, (what, busy, missed.outcome, missed.why)))
        found.append((row["case"], missed.outcome, text))
    return found, confirmations.excused(own, every)


def _beyond(check: Mapping[str, Any]) -> float:
    return confirmations.distance(check["value"], check["lower"], check["upper"])


def _worst_first(row: Mapping[str, Any]) -> tuple[bool, float]:
    """Key of a failed case: what went over another fabric, then what gave no
    value, then by how much a reference was missed.
    """
    return row["evidence"] != CONTRADICTED, -_beyond(row["check"]) if row["check"] else -math.inf


def _first_of(problems: Sequence[str]) -> str:
    if not problems:
        return ""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{first_line(problems[0], 220)}{more}"


def with_worse(night: SiteNight, problems: Sequence[str]) -> SiteNight:
    """The night with what became worse before or in it, and lasted: what holds nights before
    refused, however well they ran.
    """
    new = [text for text in problems if text not in night.problems]
    if not new or night.drifted or night.withdrawn:
        return night
    red = night.state.name == "red"
    finding = night.finding if red else _first_of(new)
    headline = night.headline if red else first_line(new[0], LONGEST_HEADLINE)
    problems = (*night.problems, *new)
    identity = digest(night.identity, *new)
    return replace(
        night,
        state=STATES["red"],
        finding=finding,
        problems=problems,
        identity=identity,
        headline=headline,
    )


def why_failed(row: Mapping[str, Any]) -> str:
    """A case of :func:`light_cases` and the first reason why it failed."""
    result, phase, evidence = (
        str(row[name] or "") for name in ("result", "fail_phase", "evidence")
    )
    missed = (
        [ReferenceCheck(**row["check"])] if row["check"] and phase in ("", "performance") else []
    )
    proof = [row["sentence"]] if row["sentence"] else []
    reasons = why(
        result, phase, evidence, row["measurement"] is not False, proof, missed, row["reason"]
    )
    more = f" {row['missed']} references missed." if missed and row["missed"] > 1 else ""
    return (
        f"{condition_text(row)}: "
        f"{first_line(next(iter(reasons), 'no reason was stored'), 300)}{more}"
    )


def condition_text(row: Mapping[str, Any]) -> str:
    """What a case measured under which condition: ``p2p of mpich on eth1g, 2 x 1, bunch``."""
    where = (
        f"{row['fabric'] or row['partition']}, "
        f"{nodes_by_ppn(row['nodes'], row['ppn'] or row['ppn_symbol'])}"
    )
    what = row["group"] or str(row["name"]).split(" ")[0]
    return f"{what} of {row['stack']} on {where}, {row['pinning'] or 'no pinning'}"


def nodes_by_ppn(nodes: int | None, ppn: object) -> str:
    return f"{'all' if nodes == 0 else '?' if nodes is None else nodes} x {ppn or '?'}"


def is_confirming(night: SiteNight) -> bool:
    return night.run.startswith(f"{CONFIRMS}=")


# Medians of a night, and what is kept of them between builds.

#: Changes when what is kept does: what an earlier program kept is computed again.
KEPT = f"4,{pl.__version__}"
#: What names a metric on the site: its condition, its benchmark, and the case that measures it.
IDENTITY = (
    *CONDITION,
    "suite",
    "benchmark",
    "variant",
    "ranks",
    "groups",
    "quantity",
    "message_bytes",
)
#: A metric of one benchmark in one case.
_POINT = ("case", *(name for name in IDENTITY if name not in CONDITION))
CONFIDENCE = 0.95
#: Columns of a night's values, in the units of the quantities: ``id`` (a hash of what names the
#: metric), number, median and interval of the repeats, bounds of the reference that night, line
#: rate in MB/s.
VALUES = pl.Schema(
    {
        "id": pl.UInt64(),
        "n": pl.UInt32(),
        **dict.fromkeys(("median", "low", "high", "lower", "upper", "line_rate"), pl.Float64()),
        "missed": pl.Boolean(),
        "judged": pl.Boolean(),
    }
)
#: Columns of the names of metrics.
NAMES = pl.Schema(
    {
        "id": pl.UInt64(),
        **dict.fromkeys((*IDENTITY, "name", "group", "direction"), pl.String()),
        **dict.fromkeys(("nodes", "ppn", "ranks", "groups"), pl.Int32()),
        "message_bytes": pl.Int64(),
    }
)


class Kept:
    """Medians of the nights of a system in a file, its metrics in
    another; what changed since is computed again.

    :param about: of each session what it is known by (``is``), its facts
        (:func:`~.session_values.facts`), and why its values cannot be used (``spoiled``).
    """

    def __init__(self, folder: Path, store: Store, system: str, ids: Mapping[str, str]) -> None:
        """:param ids: of :func:`identities`, of the sessions that are kept.

        :raises BadInput: the dataset cannot be read, or nothing can be written.
        """
        before: dict[str, dict[str, Any]] = {}
        self._values = pl.DataFrame(schema={**VALUES, "session": pl.String()})
        self._metrics = pl.DataFrame(schema=NAMES)
        # of another program, or damaged
        with suppress(OSError, ValueError, pl.exceptions.PolarsError):
            metadata = pl.read_parquet_metadata(folder / "values.parquet")
            if metadata.get("kept") == KEPT:
                stored = [
                    pl.read_parquet(folder / f"{name}.parquet") for name in ("values", "metrics")
                ]
                before, (self._values, self._metrics) = json.loads(metadata["about"]), stored
        self.about = {
            session: before[session]
            for session, is_ in ids.items()
            if before.get(session, {}).get("is") == is_
        }
        new = [session for session in ids if session not in self.about]
        if not new and len(self.about) == len(before):
            return
        values = [self._values.filter(pl.col("session").is_in(list(self.about)))]
        metrics = [self._metrics]
        for session in new:
            table, facts, spoiled = compute(store, system, session)
            values.append(table.select(*VALUES, session=pl.lit(session)))
            metrics.append(table.select(NAMES.names()))
            self.about[session] = {"is": ids[session], "facts": facts, "spoiled": spoiled}
        self._values = pl.concat(values)
        # Those of nights that are gone stay: who is killed between the two
        # files has all that the older one names.
        self._metrics = pl.concat(metrics).unique("id", keep="last", maintain_order=True)
        metadata = {"kept": KEPT, "about": json.dumps(self.about)}
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for name, table in (("metrics", self._metrics), ("values", self._values)):
                with whole_file.replacing(folder / f"{name}.parquet") as partial:
                    whole_file.write_parquet(
                        partial, table, compression="lz4", statistics=False, metadata=metadata
                    )

    def values(self, sessions: Sequence[str]) -> pl.DataFrame:
        """Values of some nights with ``night``, the place of each among them."""
        schema = {"session": pl.String, "night": pl.Int32}
        places = pl.DataFrame({"session": sessions, "night": range(len(sessions))}, schema=schema)
        return self._values.join(places, on="session").select(*VALUES, "night")

    def metrics(self, values: pl.DataFrame) -> pl.DataFrame:
        """Names of the metrics of some values, each once."""
        return self._metrics.join(values.select("id"), on="id", how="semi")


def compute(
    store: Store, system: str, session: str
) -> tuple[pl.DataFrame, dict[str, list[str]], str]:
    """Medians of the eligible cases of one session with their names (:data:`VALUES`,
    :data:`NAMES`), what the night said of machine and software, and why its values cannot be used;
    empty where they can.

    :raises BadInput: the dataset cannot be read.
    """
    nothing = pl.DataFrame(schema={**VALUES, **NAMES})
    cases = store.scan("cases", system, [session]).collect()
    try:
        facts = session_values.facts(cases.filter(pl.col("result") != "skip"))
        eligible = eligibility.split_cases(cases).eligible
        samples = store.scan("samples", system, [session]).filter(
            pl.col("case").is_in(eligible["case"].to_list()),
            pl.col("direction") != NONE,
            pl.col("value").is_not_null(),
        )
        values = _medians(session, samples.select(*_POINT, "unit", "direction", "value").collect())
        if not values.height:
            return nothing, facts, ""
        rates = [read_condition(text).get("line_rate_gbit_per_s") for text in eligible["condition"]]
        numbers = [
            float(rate) if isinstance(rate, (int, float)) and not isinstance(rate, bool) else None
            for rate in rates
        ]
        described = eligible.select(
            "case",
            *CONDITION,
            "name",
            "group",
            "gates",
            shared=session_values.SHARED_CORES,
            rate=pl.Series(numbers, dtype=pl.Float64),
        )
    except BadInput as error:
        return nothing, {}, clause(error)
    table = values.join(described.drop("gates"), on="case")
    # Ranks that shared cores are another measurement, and no part of a history.
    variant = (
        pl.when("shared")
        .then(
            pl.format("{},oversubscribed", pl.col("variant").fill_null("")).str.strip_chars_start(
                ","
            )
        )
        .otherwise("variant")
    )
    table = table.with_columns(variant=variant, judged=pl.col("judged") & ~pl.col("shared"))
    table = _bounded(table, described)
    table = table.with_columns(id=pl.struct(*IDENTITY, "name", "group").hash(seed=1)).unique(
        "id", keep="last"
    )
    return table.select(nothing.columns).cast(nothing.schema), facts, ""


def _medians(session: str, samples: pl.DataFrame) -> pl.DataFrame:
    """Median, interval and number of the repeats of each metric of each case.

    :raises BadInput: a value that is no number, or not in the unit of its quantity.
    """
    units = {quantity.name: quantity.unit for quantity in QUANTITIES.values()}
    wanted = pl.col("quantity").replace_strict(units, default=None, return_dtype=pl.String)
    odd = samples.filter(
        ~pl.col("value").is_finite() | wanted.is_null() | (pl.col("unit") != wanted)
    )
    if odd.height:
        row = odd.row(0, named=True)
        raise BadInput(
            "output-damaged",
            f"session {session}: {row['benchmark']} {row['quantity']} is {row['value']} "
            f"{row['unit']}: export it again.",
        )
    table = samples.group_by(_POINT, maintain_order=True).agg(
        pl.col("direction").first(),
        n=pl.len(),
        median=pl.col("value").median(),
        all=pl.col("value").sort(),
    )
    # Which of n sorted repeats, counted from either end, bounds the interval of the median: a
    # quantile of the binomial distribution (special.bdtr).
    share = (1 - CONFIDENCE) / 2
    ends = {
        n: max(1, next(k for k in range(n + 1) if special.bdtr(k, n, 0.5) >= share))
        for n in set(table["n"])
    }
    end = pl.col("n").replace_strict(ends, default=1, return_dtype=pl.Int64)
    # The same number in other words is judged once, and a median of
    # nothing is none; as the watch over nights does.
    ranks = {quantity: place for place, quantity in enumerate(JUDGED)}
    rank = pl.when(pl.col("median") > 0).then(
        pl.col("quantity").replace_strict(ranks, default=None, return_dtype=pl.Int8)
    )
    best = rank.min().over([name for name in _POINT if name != "quantity"])
    low = pl.col("all").list.get(end - 1)
    high = pl.col("all").list.get(pl.col("n") - end)
    return table.with_columns(low=low, high=high, judged=(rank == best).fill_null(False)).drop(
        "all"
    )


def _bounded(table: pl.DataFrame, cases: pl.DataFrame) -> pl.DataFrame:
    """Medians with the bounds of their references, whether these were missed, and line rates.

    :param cases: with ``case`` and ``gates``.
    """
    checks = (
        cases.select("case", "gates")
        .explode("gates", empty_as_null=True)
        .drop_nulls("gates")
        .unnest("gates")
    )
    checks = checks.with_columns(missed=pl.col("outcome") == FAIL).unique(
        ["case", "metric", "layer"], keep="last"
    )
    points = table.select("benchmark", "quantity", "message_bytes", "variant").unique()

    def metric_names(short: Callable[[str], str]) -> pl.Series:
        return pl.Series(
            [
                metric_name(benchmark, short(what), size, variant or "")
                for benchmark, what, size, variant in points.rows()
            ]
        )

    fraction = QUANTITIES["line_rate_fraction"].short
    named = points.with_columns(
        metric=metric_names(lambda what: QUANTITIES[what].short),
        fraction=metric_names(lambda _: fraction),
    )
    is_learned = pl.col("layer") == "learned"
    learned = checks.filter(is_learned).select("case", "metric", "lower", "upper", "missed")
    physics = checks.filter(~is_learned).select(
        "case", fraction="metric", share="value", least="lower", short="missed"
    )
    joined = (
        table.join(named, on=points.columns, nulls_equal=True, how="left")
        .join(learned, on=["case", "metric"], how="left")
        .join(physics, on=["case", "fraction"], how="left")
    )
    bandwidth = pl.col("quantity") == "bandwidth_mb_per_s"
    # How many ways data flow over a link at once; 1 where the catalogue does not know.
    ways = {
        row.name: float(row.directions)
        for suite in catalogue.SUITES.values()
        for row in suite.rows
        if row.directions
    }
    directions = pl.col("benchmark").replace_strict(ways, default=1.0, return_dtype=pl.Float64)
    # The check holds the median against line rate x directions x links;
    # without one the rate of one link is drawn.
    checked = pl.when(pl.col("share") > 0).then(pl.col("median") / pl.col("share"))
    rate = pl.when(bandwidth).then(pl.coalesce(checked, pl.col("rate") * MB_PER_GBIT * directions))
    return joined.with_columns(
        line_rate=rate,
        lower=pl.when(bandwidth)
        .then(pl.max_horizontal("lower", pl.col("least") * rate))
        .otherwise("lower"),
        missed=pl.col("missed").fill_null(False) | (bandwidth & pl.col("short").fill_null(False)),
    )


# Metrics over time.

#: Nights that are drawn, the newest of a series: 13 months of one a night.
MOST_NIGHTS = 400
#: Facts of one night that are named; the others are counted.
MOST_CHANGES = 12
#: What the metrics of one page have in common.
FAMILY = (
    "partition",
    "fabric",
    "nodes",
    "ppn",
    "suite",
    "benchmark",
    "variant",
    "groups",
    "quantity",
)
_DRAWN = ("median", "low", "high", "lower", "upper", "line_rate")
#: Beside stack, fabric and condition nothing else distinguishes what the watch calls one metric.
_WATCHED = tuple(name for name in METRIC if name in IDENTITY)
#: Something that was otherwise in the night before: what (``kernel
#: release``, ``nodes``), what it was, and what it is.
FactChange = tuple[str, str, str]


@dataclass(frozen=True)
class OverTime:
    """A series of nights.

    :param nights: those that count, oldest first.
    :param metrics: one row per metric: ``row`` and :data:`NAMES`.
    :param drawn: of each of :data:`_DRAWN` an array of shape (metrics, nights) in the metric's
        unit, NaN if there is none.
    :param judged: whether the watch over nights judges it, shape (metrics, nights).
    :param missed: whether its reference was missed, likewise.
    :param facts: of each night.
    """

    nights: Sequence[SiteNight]
    metrics: pl.DataFrame
    drawn: Mapping[str, Array]
    judged: np.ndarray
    missed: np.ndarray
    facts: Sequence[Mapping[str, list[str]]] = ()

    @cached_property
    def place(self) -> dict[str, int]:
        return {night.session: at for at, night in enumerate(self.nights)}

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        return self.metrics.to_dict(as_series=False)


def read_over_time(nights: Sequence[SiteNight], kept: Kept) -> OverTime:
    """Values of some nights, the oldest first."""
    chosen = [night for night in nights if night.session in kept.about][-MOST_NIGHTS:]
    values = kept.values([night.session for night in chosen])
    order = [
        "fabric",
        "suite",
        "benchmark",
        "quantity",
        "stack",
        "pinning",
        "message_bytes",
        "ranks",
        "name",
    ]
    metrics = kept.metrics(values).sort(order).with_row_index("row")
    placed = values.join(metrics.select("id", "row"), on="id")
    row = placed["row"].to_numpy()
    night = placed["night"].to_numpy()
    shape = (metrics.height, len(chosen))
    tables: dict[str, Any] = {name: np.full(shape, np.nan) for name in _DRAWN}
    tables |= {name: np.zeros(shape, dtype=bool) for name in ("judged", "missed")}
    for name, table in tables.items():
        table[row, night] = placed[name].fill_null(np.nan if name in _DRAWN else False).to_numpy()
    judged = tables.pop("judged")
    missed = tables.pop("missed")
    return OverTime(
        chosen,
        metrics,
        tables,
        judged,
        missed,
        [kept.about[night.session]["facts"] for night in chosen],
    )


def fact_changes(over: OverTime, nodes: Mapping[str, set[str]]) -> dict[str, list[FactChange]]:
    """What differs from the night before, by session: versions, kernel, firmware, settings, nodes.

    :param nodes: of each session.
    """
    found: dict[str, list[FactChange]] = {}
    for at, (before, now) in enumerate(itertools.pairwise(night.session for night in over.nights)):
        # What one night knows and the other never asked is no change of the machine.
        rows = [row for row in changes(over.facts[at], over.facts[at + 1]) if "-" not in row[1:]]
        old = nodes.get(before, set())
        new = nodes.get(now, set())
        gone = sorted(old - new)
        more = sorted(new - old)
        if old and new and (gone or more):
            rows.append(("nodes", ", ".join(gone) or "none less", ", ".join(more) or "none more"))
        if rows:
            found[now] = rows
    return found


def change_points(store: Store, system: str, over: OverTime) -> list[Event]:
    """Changes of all nights that are drawn, those for the worse that nobody
    accepted first: what ``mpibench drift`` finds.

    :raises BadInput: a damaged policy.
    """
    sessions = [night.session for night in over.nights]
    if not sessions:
        return []
    try:
        return list(drift.watch(store, system, sessions=sessions, recent=None).events)
    except drift.NothingJudged:
        return []


def _signs(metrics: pl.DataFrame) -> Array:
    """1 where less is better, -1 where more is."""
    return np.where((metrics["direction"] == LOWER).to_numpy(), 1.0, -1.0)


#: Nights before a change that say what was before it, and nights in a row that say what is.
_BEFORE = 14
_NOW = drift.FEWEST_CHANGED


def rows_of(over: OverTime, event: Event) -> np.ndarray:
    keys = event.metrics.select(*_WATCHED).unique()
    return over.metrics.join(keys, on=_WATCHED, how="semi", nulls_equal=True)["row"].to_numpy()


def held_from(over: OverTime, event: Event) -> list[int]:
    """Nights from a change on that are nearer to what came after it than
    to what was before, without a gap of three.
    """
    rows = rows_of(over, event)
    start = over.place.get(event.session)
    if not start or not len(rows):
        return []
    signs = _signs(over.metrics[rows.tolist()])
    table = over.drawn["median"][rows]
    before = _middle(table[:, max(0, start - _BEFORE) : start])
    held: list[int] = []
    for at in range(start, len(over.nights)):
        with np.errstate(all="ignore"):
            moved = signs * np.log(_middle(table[:, max(start, at + 1 - _NOW) : at + 1]) / before)
        known = moved[np.isfinite(moved)]
        if len(known) and np.median(known) > np.log1p(event.slower) / 2:
            held.append(at)
        elif len(known) and (not held or at - held[-1] >= _NOW):
            break
    return held


def _middle(table: Array) -> Array:
    """Median of each row; NaN where it has no value."""
    found = np.full(len(table), np.nan)
    known = ~np.isnan(table).all(axis=1)
    if known.any():
        found[known] = np.nanmedian(table[known], axis=1)
    return found


# Series: the nights, cases and metrics of one system under one label.

#: What makes cases of different nights the same case; a case that was
#: skipped knows its processes per node by symbol only.
CASE = ("partition", "stack", "name", "fabric", "nodes", "ppn_symbol", "pinning", "group")
#: The same as metrics name it.
_OF_METRIC = ("partition", "stack", "name", "fabric", "nodes", "ppn", "pinning", "group")
#: Outcomes that say nothing of a case.
NOT_RUN = ("skipped", "dry", "retried")


class CaseRun(NamedTuple):
    """A case in one night.

    :param outcome: a key of :data:`~mpibench.pages.outcomes.OUTCOMES`, or ``withdrawn``.
    :param nodes: of its job, comma-separated.
    """

    night: SiteNight
    outcome: str
    anchor: str
    job: str
    nodes: str


@dataclass(frozen=True)
class SiteCase:
    """One case over all nights of a series.

    :param file: name of its page, the same in every build.
    :param runs: oldest first; nights in which it was skipped are not among them.
    """

    file: str
    title: str
    runs: Sequence[CaseRun]

    @property
    def last(self) -> CaseRun:
        return self.runs[-1]

    @property
    def failing_since(self) -> SiteNight | None:
        """First of the nights in a row in which it failed, up to the
        last one; ``None`` if it does not fail.
        """
        counted = (run for run in reversed(self.runs) if run.outcome != "withdrawn")
        failing = list(itertools.takewhile(lambda run: run.outcome in _BROKEN, counted))
        return failing[-1].night if failing else None


@dataclass(frozen=True)
class Family:
    """Metrics that one page draws.

    :param of: :data:`FAMILY` of them.
    :param metrics: rows of :attr:`OverTime.metrics`.
    :param events: changes that some of them are part of, and how many of them.
    """

    of: Mapping[str, Any]
    metrics: pl.DataFrame
    events: Sequence[tuple[Event, int]]

    @cached_property
    def rows(self) -> np.ndarray:
        return self.metrics["row"].to_numpy()

    @cached_property
    def file(self) -> str:
        subject = self.of
        where = (
            subject["benchmark"],
            subject["quantity"],
            subject["fabric"] or subject["partition"],
            subject["nodes"],
            subject["ppn"],
        )
        return file_name(*where, *subject.values())

    @property
    def title(self) -> str:
        groups = f"{self.of['groups']} groups" if (self.of["groups"] or 1) > 1 else ""
        variant = (self.of["variant"] or "").split(",")
        words = filter(None, (self.of["benchmark"], *variant, groups))
        return f"{', '.join(words)}: {QUANTITIES[self.of['quantity']].title}"

    @property
    def place(self) -> str:
        fabric = self.of["fabric"]
        partition = self.of["partition"]
        where = f"{fabric} on {partition}" if fabric else partition
        return f"{where}, {nodes_by_ppn(self.of['nodes'], self.of['ppn'])}"

    @property
    def unit(self) -> str:
        return unit_text(QUANTITIES[self.of["quantity"]].unit)


@dataclass(frozen=True)
class Series:
    """Sessions of one system under one label.

    :param run: the label; empty without one.
    :param nights: all its sessions, oldest first, those that were
        withdrawn or cannot be read among them.
    :param cases: rows of :func:`light_cases`.
    :param changes: what differs from the night before, by session.
    :param lost: days on which a night of this label stored no session, with its answer.
    :param confirming: sessions that measured one of these again, by its id.
    """

    system: str
    run: str
    nights: Sequence[SiteNight]
    cases: pl.DataFrame
    over: OverTime
    events: Sequence[Event] = ()
    changes: Mapping[str, Sequence[FactChange]] = field(default_factory=dict)
    lost: Mapping[date, str] = field(default_factory=dict)
    confirming: Mapping[str, Sequence[SiteNight]] = field(default_factory=dict)

    @cached_property
    def folder(self) -> str:
        return file_name(self.system, self.run)

    @property
    def title(self) -> str:
        return self.run or "without label"

    @cached_property
    def counting(self) -> list[SiteNight]:
        """Nights that nobody withdrew."""
        return [night for night in self.nights if night.withdrawn is None]

    @cached_property
    def headline(self) -> SiteNight | None:
        """The last whole night that counts; where all are parts,
        the last one; ``None`` without any.
        """
        return next(
            (night for night in reversed(self.counting) if not night.options),
            next(reversed(self.counting), None),
        )

    @cached_property
    def parts_since(self) -> list[SiteNight]:
        return self.counting[self.counting.index(self.headline) + 1 :] if self.headline else []

    @cached_property
    def red_since(self) -> SiteNight | None:
        """First of the nights in a row that are red, up to the last one;
        ``None`` if the last one is not. Parts end no row.
        """
        last = self.headline
        until = self.counting[: self.counting.index(last) + 1] if last else []
        counted = [night for night in until if not night.options or (last and last.options)]
        red = list(itertools.takewhile(lambda night: night.state.name == "red", reversed(counted)))
        return red[-1] if red else None

    @cached_property
    def by_session(self) -> dict[str, SiteNight]:
        return {night.session: night for night in self.nights}

    @cached_property
    def days(self) -> dict[date, tuple[Outcome, list[SiteNight]]]:
        nights: dict[date, list[SiteNight]] = {day: [] for day in self.lost}
        for night in self.nights:
            nights.setdefault(night.day, []).append(night)
        order = list(STATES)

        def worst(day: date) -> Outcome:
            states = ["red"] if day in self.lost else [night.state.name for night in nights[day]]
            return STATES[min(states, key=order.index)]

        return {day: (worst(day), nights[day]) for day in nights}

    @cached_property
    def _ran(self) -> list[tuple[SiteCase, dict[str, Any], list[str]]]:
        """Cases that ran, each with its last row of ``cases``, and its ids in ReFrame."""
        found = []
        ran = self.cases.filter(~pl.col("outcome").is_in(NOT_RUN))
        for key, rows in ran.partition_by(CASE, as_dict=True, maintain_order=True).items():
            runs = []
            for session, outcome, case, job, nodes in rows.select(
                "session", "outcome", "case", "job_id", "nodelist"
            ).rows():
                night = self.by_session[session]
                shown = "withdrawn" if night.withdrawn else outcome
                runs.append(CaseRun(night, shown, anchor(case), job or "", nodes or ""))
            last = rows.row(-1, named=True)
            title = condition_text(last)
            test = str(last["name"]).split(" ")[0]
            found.append(
                (
                    SiteCase(file_name(title, *key), f"{test}: {title}", runs),
                    last,
                    rows["case"].to_list(),
                )
            )
        return sorted(found, key=lambda row: row[0].title)

    @cached_property
    def histories(self) -> list[SiteCase]:
        return [history for history, _, _ in self._ran]

    @cached_property
    def case_files(self) -> dict[str, str]:
        """Case id in ReFrame to the name of its page."""
        return {case: history.file for history, _, ids in self._ran for case in ids}

    @cached_property
    def _by_metric(self) -> dict[tuple[Any, ...], SiteCase]:
        return {tuple(last[name] for name in _OF_METRIC): history for history, last, _ in self._ran}

    def cases_of(self, family: Family) -> dict[str, SiteCase]:
        """Cases that measure metrics of a family, by the names of their pages."""
        keys = family.metrics.select(_OF_METRIC).unique(maintain_order=True).rows()
        return {case.file: case for key in keys if (case := self._by_metric.get(key))}

    @cached_property
    def families(self) -> list[Family]:
        touched = [(event, rows_of(self.over, event)) for event in self.events]
        found = []
        parts = self.over.metrics.partition_by(FAMILY, as_dict=True, maintain_order=True)
        for key in sorted(parts, key=lambda key: [str(word) for word in key]):
            counts = [
                (event, int(np.isin(parts[key]["row"], changed).sum()))
                for event, changed in touched
            ]
            events = [(event, count) for event, count in counts if count]
            found.append(Family(dict(zip(FAMILY, key, strict=True)), parts[key], events))
        return found

    @cached_property
    def family_of(self) -> dict[int, Family]:
        """Family of each row of the metrics."""
        return {row: family for family in self.families for row in family.metrics["row"]}

    @cached_property
    def families_of_case(self) -> dict[str, list[Family]]:
        found: dict[str, list[Family]] = {}
        for family in self.families:
            for file in self.cases_of(family):
                found.setdefault(file, []).append(family)
        return found


# Key figures: numbers that people quote, of each fabric.

#: Figures shown of each fabric.
MOST_FIGURES = 3
#: Nights that stand for the usual, and those in the small curve.
USUAL_NIGHTS = 30
CURVE_NIGHTS = 60
#: Metrics shown with their small curve, the farthest from the usual first.
MOST_CHANGED = 40
#: Nights before that are needed to say what is usual.
LEAST_USUAL = 3
#: Percent of the line rate above which a number is not that of the fabric
#: (``references.PAYLOAD_EXCESS``).
ABOVE_PERCENT = 103.0


def key_figures(series: Series, night: SiteNight) -> list[dict[str, Any]]:
    """Key figures of each fabric: the best median of a night over stacks and conditions."""
    over = series.over
    at = over.place.get(night.session)
    if at is None:
        return []
    medians = over.drawn["median"][:, at]
    columns = over.columns
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for figure in KEY_FIGURES:
        measured = (over.metrics["benchmark"] == figure.benchmark) & (
            over.metrics["quantity"] == figure.quantity
        )
        best: dict[tuple[str, str], tuple[tuple[float, float], int]] = {}
        for row in np.flatnonzero(measured.fill_null(False).to_numpy() & (medians > 0)).tolist():
            size = columns["message_bytes"][row]
            lower = columns["direction"][row] == LOWER
            if size == 0 and not figure.empty:
                continue
            place = (str(columns["partition"][row]), str(columns["fabric"][row] or ""))
            rank = (
                (size or 0) * (1 if figure.largest else -1),
                float(-medians[row] if lower else medians[row]),
            )
            if place not in best or rank > best[place][0]:
                best[place] = (rank, row)
        for place, (_, row) in best.items():
            if len(found.setdefault(place, [])) < MOST_FIGURES:
                found[place].append(_figure(series, at, row, figure))
    return [
        {"partition": place[0], "fabric": place[1], "figures": figures}
        for place, figures in sorted(found.items())
    ]


def bounds_text(lower: float | None, upper: float | None, unit: str = "") -> str:
    """What a reference asks for; a bound that is ``None`` or NaN is none."""
    bounds = [("at least", lower), ("at most", upper)]
    return " and ".join(
        f"{word} {format_number(value)} {unit}".rstrip()
        for word, value in bounds
        if value is not None and math.isfinite(value)
    )


def _figure(series: Series, at: int, row: int, figure: KeyFigure) -> dict[str, Any]:
    """One figure beside its line rate, its reference and what is usual;
    its curve has the line rate where that is near.
    """
    over = series.over
    metric = over.metrics.row(row, named=True)
    medians = over.drawn["median"][row]
    value = float(medians[at])
    rate = float(over.drawn["line_rate"][row, at])
    unit = unit_text(QUANTITIES[metric["quantity"]].unit)
    size = "" if metric["message_bytes"] is None else f", {size_text(metric['message_bytes'])}"
    title = f"{figure.title}{size}"
    text = format_number(value)
    percent = 100 * value / rate if rate > 0 else 0.0
    rate_text = (
        f"{percent:.0f} % of the line rate, {format_number(rate)} {unit}" if rate > 0 else ""
    )
    worse, usual = slower_than_usual(over, row, at)
    changes = (
        [f"{_changed(worse, 'than usual', 'as usual')} ({format_number(usual)} {unit})"]
        if usual
        else []
    )
    a_week_ago = [
        night
        for night in range(at)
        if over.nights[at].day - over.nights[night].day >= timedelta(days=7)
    ]
    if a_week_ago and medians[a_week_ago[-1]] > 0:
        worse = loss(value / float(medians[a_week_ago[-1]]), metric["quantity"])
        changes.append(_changed(worse, "than a week before", "as a week before"))
    drawn = medians[max(0, at + 1 - CURVE_NIGHTS) : at + 1]
    nights = (
        f"{title} over the last {plural(int((~np.isnan(drawn)).sum()), 'night')}, now {text} {unit}"
    )
    ppn = "" if metric["ppn"] is None else f" x {metric['ppn']}"
    return {
        "title": title,
        "text": text,
        "unit": unit,
        "where": f"{metric['stack']}, {nodes_text(metric['nodes'])}{ppn}, {metric['pinning']}; "
        f"{better_text(metric['quantity'])}",
        "rate": rate_text,
        "above_line_rate": percent > ABOVE_PERCENT,
        "bound": bounds_text(over.drawn["lower"][row, at], over.drawn["upper"][row, at], unit),
        "held": not over.missed[row, at],
        "change": "; ".join(changes),
        "file": series.family_of[row].file,
        "curve": spark(drawn, rate if 0 < rate < 2.5 * 1.05 * float(np.nanmax(drawn)) else None),
        "alternative": "; ".join(filter(None, (nights, rate_text))),
    }


def slower_than_usual(over: OverTime, row: int, at: int) -> tuple[float, float]:
    """How much worse a metric is than the median of earlier nights, as a
    fraction, and that median; 0 of too few nights.
    """
    before = over.drawn["median"][row, max(0, at - USUAL_NIGHTS) : at]
    before = before[~np.isnan(before)]
    if len(before) < LEAST_USUAL or not (usual := float(np.median(before))) > 0:
        return 0.0, 0.0
    return loss(over.drawn["median"][row, at] / usual, over.columns["quantity"][row]), usual


def _changed(worse: float, than: str, alike: str) -> str:
    return (
        f"{100 * abs(worse):.1f} % {'worse' if worse > 0 else 'better'} {than}".rstrip()
        if abs(worse) >= 0.005
        else alike
    )


def figure_lines(series: Series, night: SiteNight) -> list[str]:
    """For a terminal: of each fabric the first time and the first
    bandwidth, each with what it is compared with.
    """
    lines = []
    for place in key_figures(series, night):
        where = (
            f"{place['fabric']} on {place['partition']}" if place["fabric"] else place["partition"]
        )
        first = {figure["unit"]: figure for figure in reversed(place["figures"])}
        for figure in (first[unit] for unit in map(unit_text, ("us", "MB/s")) if unit in first):
            rate = figure["rate"] + (
                ": another network had a part in it" if figure["above_line_rate"] else ""
            )
            reference = f"reference {figure['bound']}" if figure["bound"] else "no reference"
            missed = "" if figure["held"] else "MISSED"
            words = (
                f"{figure['text']} {figure['unit']}",
                rate,
                reference,
                missed,
                figure["change"],
                figure["where"],
            )
            lines.append(f"{where}: {figure['title']}: {'; '.join(filter(None, words))}")
    return lines


def families_by_change(series: Series) -> list[dict[str, Any]]:
    """Each family by its metric that is farthest from the usual in the last
    night it was measured; the largest change first.

    Of a bandwidth the largest messages stand for all, of anything else the smallest.
    """
    over = series.over
    shown = []
    for family in series.families:
        medians = over.drawn["median"][family.rows]
        nights = np.flatnonzero(~np.isnan(medians).all(axis=0))
        if not len(nights):
            continue
        at = int(nights[-1])
        measured = ~np.isnan(medians[:, at])
        sizes = np.where(measured, family.metrics["message_bytes"].fill_null(-1).to_numpy(), np.nan)
        size = (
            np.nanmax(sizes) if family.of["quantity"] == "bandwidth_mb_per_s" else np.nanmin(sizes)
        )
        changes = {
            int(row): slower_than_usual(over, int(row), at) for row in family.rows[sizes == size]
        }
        row, (worse, usual) = max(changes.items(), key=lambda change: abs(change[1][0]))
        shown.append(
            {
                "family": family,
                "size": "" if size < 0 else size_text(int(size)),
                "value": format_number(float(over.drawn["median"][row, at])),
                "of": f"{over.columns['stack'][row]}, {over.columns['pinning'][row]}; "
                f"{better_text(family.of['quantity'])}",
                "worse": worse,
                "change": _changed(worse, "", "as usual") if usual else "",
                "curve": spark(over.drawn["median"][row, max(0, at + 1 - USUAL_NIGHTS) : at + 1]),
            }
        )
    return sorted(
        shown, key=lambda row: (-abs(row["worse"]), row["family"].place, row["family"].title)
    )


def spark(values: Iterable[float], limit: float | None = None) -> dict[str, Any]:
    """What the page's script draws a small curve from; nights without a value are left out."""
    return {
        "values": [float(f"{value:.5g}") if math.isfinite(value) else None for value in values],
        "limit": limit,
    }


# The page of a night, and that of its proofs.

#: Columns of ``cases`` that a proof is made of.
_PROOF = ("case", "library", "library_version", "sentences", "condition", "gates", "reason")
#: Problems and notes listed openly; the others are folded.
OPEN_LINES = 12
#: Characters of a value of a condition that a page shows.
LONGEST_VALUE = 2000


def night_shown(series: Series, night: SiteNight) -> dict[str, Any]:
    cases = series.cases.filter(pl.col("session") == night.session).to_dicts()
    rows = [_case_row(series, row) for row in cases if row["outcome"] not in ("skipped", "retried")]
    failed = [row for row in rows if row["outcome"] in _BROKEN]
    shown = {row["line"] for row in failed}
    others = [text for text in night.problems if text not in shown]
    skipped = [
        {
            "reason": first_line(plain_reason(row["reason"]), 240) or "no reason stored",
            "title": condition_text(row),
        }
        for row in cases
        if row["outcome"] == "skipped"
    ]
    place = list(series.by_session).index(night.session)
    return {
        "series": series,
        "night": night,
        "failed": failed,
        "problems": others[:OPEN_LINES],
        "more_problems": others[OPEN_LINES:],
        "changes": series.changes.get(night.session, ()),
        "events": [event for event in series.events if event.session == night.session],
        "fabrics": key_figures(series, night),
        "rows": sorted(rows, key=lambda row: row["title"]),
        "families": {family.file: family for row in rows for family in row["families"]}.values(),
        "skipped": skipped,
        "previous": series.nights[place - 1] if place else None,
        "confirming": series.confirming.get(night.session, ()),
        "same_day": [
            other for other in series.days[night.day][1] if other.session != night.session
        ],
    }


def _case_row(series: Series, row: Mapping[str, Any]) -> dict[str, Any]:
    file = series.case_files.get(str(row["case"]), "")
    return {
        "title": condition_text(row),
        "fabric": str(row["fabric"] or row["partition"]),
        "outcome": row["outcome"],
        "case": file,
        "anchor": anchor(str(row["case"])),
        "job": row["job_id"] or "",
        "held": row["held"],
        "missed": row["missed"],
        "line": why_failed(row) if row["outcome"] in _BROKEN else "",
        "families": series.families_of_case.get(file, ()),
    }


def night_proofs(
    store: Store, series: Series, night: SiteNight, page_folder: Path
) -> dict[str, Any]:
    """Each case that ran, with its job, its proof and its output.

    :param page_folder: where the page will be; links to the jobs' folders are relative to it.
    """
    ran = series.cases.filter(
        (pl.col("session") == night.session) & (pl.col("outcome") != "skipped")
    ).to_dicts()
    stored = store.scan("cases", series.system, [night.session]).select(_PROOF).collect()
    by_case = {row["case"]: row for row in stored.to_dicts()}
    conditions = {row["case"]: _flat_condition(by_case[row["case"]]["condition"]) for row in ran}
    first, *others = conditions.values() or [{}]
    shared = (
        dict(sorted(set(first.items()).intersection(*(other.items() for other in others))))
        if others
        else {}
    )
    cases = []
    for row in sorted(ran, key=lambda row: (row["outcome"] not in _BROKEN, condition_text(row))):
        proof = by_case[row["case"]]
        failed = row["outcome"] in _BROKEN
        reason = plain_reason(proof["reason"])
        gates = proof["gates"] or ()
        sentences = list(proof["sentences"] or ()) if row["evidence"] != PROVEN else []
        checks = [
            {
                **check,
                "shown": format_number(check["value"]),
                "bounds": bounds_text(check["lower"], check["upper"]),
            }
            for check in gates
        ]
        cases.append(
            {
                **_case_row(series, row),
                "evidence": row["evidence"] or "none",
                "nodes": row["nodelist"] or "",
                "seconds": row["seconds"],
                "name": row["name"],
                "reason": "" if not failed or _says(reason, sentences) else reason,
                "sentences": sentences,
                "library": proof["library"] or "",
                "version": next(iter((proof["library_version"] or "").strip().splitlines()), ""),
                "condition": [
                    (name, text)
                    for name, text in conditions[row["case"]].items()
                    if shared.get(name) != text
                ],
                "gates": checks,
                "references": references_title(gates),
                "place": stored_files.find(row, page_folder),
                "excerpts": list(stored_files.excerpts(row).items()) if failed else [],
            }
        )
    return {"series": series, "night": night, "shared": shared, "cases": cases}


def _says(reason: str, sentences: Sequence[str]) -> bool:
    """Whether a reason is made of these sentences."""
    return bool(sentences) and all(clause(text) in reason for text in sentences)


def references_title(checks: Sequence[Mapping[str, Any]]) -> str:
    """How many of a case's checks are against a reference: ``2 references, 13 metrics without``."""
    held = sum(check["outcome"] != NO_REFERENCE for check in checks)
    references = plural(held, "reference")
    without = len(checks) - held
    return f"{references}, {plural(without, 'metric')} without" if without else references


def _flat_condition(text: str | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in read_condition(text).items():
        inner = (
            {f"{name}: {key}": inner_value for key, inner_value in value.items()}
            if isinstance(value, Mapping)
            else {name: value}
        )
        found |= {key: flat(inner_value) for key, inner_value in inner.items()}
    short = {
        name: text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]} ..."
        for name, text in found.items()
    }
    return {name: text for name, text in short.items() if text}


# The page of a family of metrics; its values are in a script for each month: a page opened from a
# share may load nothing else.

#: Significant digits of medians and bounds.
DIGITS = 5
#: Nights in the table that stands on the page itself.
TABLE_NIGHTS = 14


def months(over: OverTime) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at, night in enumerate(over.nights):
        found.setdefault(f"{night.started:%Y-%m}", []).append(at)
    return found


def month_script(over: OverTime, family: Family, month: str, places: Sequence[int]) -> str:
    """The values of a month: of each metric the medians, both ends of their intervals, and its
    bounds where they change: place in the month, lower, upper, line rate.
    """
    nights = [over.nights[at] for at in places]
    start = datetime.strptime(month, "%Y-%m").replace(tzinfo=timezone.utc)
    drawn = np.stack(
        [over.drawn[name][family.rows][:, list(places)] for name in ("median", "low", "high")],
        axis=1,
    )
    bounds = np.stack(
        [
            over.drawn[name][family.rows][:, list(places)]
            for name in ("lower", "upper", "line_rate")
        ],
        axis=2,
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (DIGITS - 1 - np.floor(np.log10(np.abs(drawn))))
        rounded = np.where(drawn == 0, 0.0, np.round(drawn * scale) / scale)
        bounded = ~np.isnan(bounds).all(axis=(1, 2))
    parts = []
    for at, metric in enumerate(family.metrics["id"]):
        if not np.isnan(drawn[at, 0]).all():
            text = json.dumps(rounded[at].tolist(), separators=(",", ":"))[1:-1]
            numbers = text.replace("NaN", "null").replace(".0,", ",").replace(".0]", "]")
            parts.append(f'"{metric:x}":[{numbers},{_steps(bounds[at]) if bounded[at] else "[]"}]')
    days = [round((night.started - start).total_seconds() / 86400, 4) for night in nights]
    header = json.dumps({"month": month, "days": days, "pages": [night.page for night in nights]})
    return f"mpibenchValues({header},{{{','.join(parts)}}});\n"


def _steps(bounds: Array) -> str:
    found: list[list[float | None]] = []
    last: list[float | None] = [None] * bounds.shape[1]
    for at, night in enumerate(bounds.tolist()):
        now = [None if math.isnan(value) else float(f"{value:.6g}") for value in night]
        if now != last:
            found.append([at, *now])
        last = now
    return json.dumps(found, separators=(",", ":"))


def metric_shown(series: Series, family: Family) -> dict[str, Any]:
    over = series.over
    metrics = family.metrics.to_dicts()
    sizes = sorted(
        {row["message_bytes"] for row in metrics}, key=lambda size: -1 if size is None else size
    )
    bandwidth = family.of["quantity"] == "bandwidth_mb_per_s"
    chosen = sizes[-1] if bandwidth else sizes[0]
    # What the page's script draws the family from.
    stacks = sorted({str(row["stack"]) for row in metrics})
    several = len({row["ranks"] for row in metrics}) > 1
    lines = [
        {
            "key": f"{row['id']:x}",
            "stack": stacks.index(str(row["stack"])),
            "name": ", ".join(
                filter(
                    None,
                    (str(row["stack"]), row["pinning"], f"{row['ranks']} ranks" if several else ""),
                )
            ),
            "size": row["message_bytes"],
        }
        for row in metrics
    ]
    events = [{"day": event.since.isoformat(), "worse": event.worse} for event, _ in family.events]
    # The last nights as a table.
    shown = [row for row in metrics if row["message_bytes"] == chosen]
    known = ~np.isnan(over.drawn["median"][[row["row"] for row in shown]]).all(axis=0)
    last: list[int] = np.flatnonzero(known)[-TABLE_NIGHTS:][::-1].tolist()
    bounds = []
    for row in shown if last else ():
        lower, upper, rate = (
            float(over.drawn[name][row["row"], last[0]]) for name in ("lower", "upper", "line_rate")
        )
        line_rate = f"line rate {format_number(rate)} {family.unit}" if math.isfinite(rate) else ""
        bounds.append("; ".join(filter(None, (bounds_text(lower, upper, family.unit), line_rate))))
    return {
        "series": series,
        "family": family,
        "better": better_text(family.of["quantity"]),
        "bandwidth": bandwidth,
        "sizes": [(size, size_text(size)) for size in sizes],
        "chosen": chosen,
        "chosen_text": size_text(chosen),
        "heads": [
            f"{row['stack']}, {row['pinning']}"
            + (f", {row['ranks']} ranks" if row["ranks"] else "")
            for row in shown
        ],
        "rows": [(over.nights[at], [_cell(over, row["row"], at) for row in shown]) for at in last],
        "bounds": bounds,
        "cases": sorted((case.title, file) for file, case in series.cases_of(family).items()),
        "months": list(months(over)),
        "data": {
            "unit": family.unit,
            "quantity": directed_text(family.of["quantity"]),
            "lines": lines,
            "events": events,
        },
    }


def _cell(over: OverTime, row: int, at: int) -> dict[str, Any]:
    median, low, high = (float(over.drawn[name][row, at]) for name in ("median", "low", "high"))
    if math.isnan(median):
        return {"text": "", "interval": "", "missed": False}
    interval = f"{format_number(low)} to {format_number(high)}"
    return {
        "text": format_number(median),
        "interval": interval,
        "missed": bool(over.missed[row, at]),
    }


def changes_script(series: Series) -> str:
    """Nights in which something was otherwise than before, and those that
    were withdrawn, for the script of all curves.
    """

    def mark(night: SiteNight, **more: Any) -> dict[str, Any]:
        return {"at": f"{night.started:%Y-%m-%dT%H:%M:%SZ}", "page": night.page, **more}

    changed = []
    for night in series.over.nights:
        if rows := series.changes.get(night.session):
            texts = [
                f"{what}: {first_line(old, 80)} → {first_line(new, 80)}"
                for what, old, new in rows[:MOST_CHANGES]
            ]
            changed.append(mark(night, what=texts, more=max(0, len(rows) - MOST_CHANGES)))
    gone = [mark(night, why=night.finding) for night in series.nights if night.withdrawn]
    text = json.dumps({"changes": changed, "withdrawn": gone}, ensure_ascii=True).replace(
        "<", "\\u003c"
    )
    return f"mpibenchChanges({text});\n"


# The first screen: verdict, calendar, and what is worse now.

#: Months on the first screen; the page of the series has all.
FIRST_MONTHS = 4
#: Months of a calendar: a clock that was wrong once makes no page of half a century.
MOST_MONTHS = 120
#: Lines of what is worse on the first screen.
MOST_WORSE = 5


def calendar_months(series: Series, today: date) -> list[dict[str, Any]]:
    """All months from the first session to today, newest first, as weeks from Monday to Sunday. A
    day without a session is "not measured", and never green.
    """
    days = [day for day in series.days if day <= today + timedelta(days=1)]
    if not days:
        return []
    first = min(days)
    last = max(today, *days)
    found: list[dict[str, Any]] = []
    year = last.year
    month = last.month
    while (year, month) >= (first.year, first.month) and len(found) < MOST_MONTHS:
        weeks = [
            [
                _day(series, day, first <= day <= today) if day.month == month else None
                for day in week
            ]
            for week in calendar.Calendar().monthdatescalendar(year, month)
        ]
        found.append({"title": f"{calendar.month_name[month]} {year}", "weeks": weeks})
        year, month = (year, month - 1) if month > 1 else (year - 1, 12)
    return found


def _day(series: Series, day: date, owed: bool) -> dict[str, Any]:
    """State of a day (``None``: it is not to be judged), page of the session
    that stands for it, and what it was as text.
    """
    name = f"{day:%a} {day.day} {day:%b %Y}"
    if day not in series.days:
        return {
            "day": day,
            "state": STATES["none"] if owed else None,
            "page": "",
            "said": f"{name}: not measured",
        }
    state, nights = series.days[day]
    shown = next(
        (night for night in reversed(nights) if night.state is state),
        nights[-1] if nights else None,
    )
    lost = f"{series.lost[day]} " if day in series.lost else ""
    several = f" ({len(nights)} sessions)" if len(nights) > 1 else ""
    said = f"{name}: {state.word}{several}. {lost}{shown.finding if shown else ''}"
    return {
        "day": day,
        "state": state,
        "page": shown.page if shown else "",
        "said": first_line(said, 200),
    }


def worse_now(series: Series) -> list[dict[str, Any]]:
    """What is worse now, the longest first: cases that fail, and changes
    for the worse that last and nobody accepted.
    """
    lines = []
    failing: dict[str, list[SiteCase]] = {}
    for history in series.histories:
        since = history.failing_since
        if since is not None and history.last.night.day >= series.counting[-1].day - timedelta(
            days=7
        ):
            failing.setdefault(since.session, []).append(history)
    for session, histories in failing.items():
        since = series.by_session[session]
        more = f", and {plural(len(histories) - 1, 'more case')}" if len(histories) > 1 else ""
        text = f"{histories[0].title} fails{more}"
        lines.append(
            {
                "since": since.day,
                "page": since.page,
                "text": text,
                "href": f"cases/{histories[0].file}.html",
            }
        )
    for event in series.events:
        held = held_from(series.over, event) if event.worse else ()
        if held and held[-1] == len(series.over.nights) - 1:
            family = next(
                (
                    family
                    for family in series.families
                    if any(part is event for part, _ in family.events)
                ),
                None,
            )
            page = series.by_session[event.session].page
            text = event.what_changed
            href = f"metrics/{family.file}.html" if family else ""
            lines.append({"since": event.since, "page": page, "text": text, "href": href})
    return sorted(lines, key=lambda line: line["since"])


def max_age_hours(series: Series) -> float:
    """Age beyond which the last night says nothing of today: the
    policy's; of a damaged one the usual.
    """
    with suppress(BadInput):
        return verdict_policy.load(series.system).max_age_hours
    return verdict_policy.Policy().max_age_hours


def verdict(series: Series, now: datetime) -> tuple[str, Outcome]:
    """The last whole night in one sentence, and what was measured in part since; of one that is too
    old first that nothing else was measured whole since. With what state the whole is in.
    """
    night = series.headline
    if night is None:
        return "No measurement counts.", STATES["none"]

    def day_text(night: SiteNight) -> str:
        return f"{night.day.day} {night.day:%b %Y}"

    def said(night: SiteNight) -> str:
        text = (night.headline or night.finding).rstrip(".")
        return f"{day_text(night)}, {night.state.word}: {text}"

    old = now - night.started > timedelta(hours=max_age_hours(series))
    red = any(part.state.name == "red" for part in series.parts_since)
    state = STATES["red" if red else "none"] if red or old else night.state
    parts = "".join(f" In part since, {said(part)}." for part in series.parts_since[-1:])
    if old:
        since = (
            f"Not measured{' whole' if parts else ''} since {day_text(night)}, "
            f"{(now - night.started).days} days ago"
        )
        return (
            f"{since}. {said(night)}.{parts}",
            state,
        )
    first = series.red_since
    lasting = (
        f" Red since {day_text(first)}."
        if first is not None and first.session != night.session
        else ""
    )
    return f"{said(night)}.{lasting}{parts}", state


def card(series: Series, now: datetime) -> dict[str, Any]:
    night = series.headline
    lines = worse_now(series)
    lost = max(series.lost, default=None)
    over = series.over
    # Key figures are of the last whole night, or where it measured
    # nothing of the last one with values.
    at = over.place.get(night.session, -1) if night else -1
    measured = over.nights[at] if over.nights else None
    text, state = verdict(series, now)
    return {
        "series": series,
        "night": night,
        "state": state,
        "verdict": text,
        "lost": series.lost[lost] if lost and (night is None or lost >= night.day) else "",
        "worse": lines[:MOST_WORSE],
        "more_worse": len(lines) - MOST_WORSE,
        "fabrics": key_figures(series, measured) if measured else [],
        "figures_of": measured,
        "months": calendar_months(series, now.date()),
        "stale_after_h": max_age_hours(series),
    }


# Nodes: each beside the others, from the maps of pairs.

#: Newest nights with a map that are shown.
MOST_MAPS = 90


class NodeShare(NamedTuple):
    """What is compared.

    :param ends: of a pair that the node is.
    :param worse: 1 where more of it is worse, -1 where less is.
    """

    name: str
    title: str
    quantity: str
    ends: tuple[str, ...] = ("source", "target")
    worse: int = 1


SHARES = (
    NodeShare("sends", "sends", BANDWIDTH, ("source",), -1),
    NodeShare("receives", "receives", BANDWIDTH, ("target",), -1),
    NodeShare("latency", "latency", LATENCY),
    NodeShare("mean", "mean latency", MEAN),
)


class NodeHistory(NamedTuple):
    """One node on one stack and fabric.

    :param nights: with a map, oldest first, each with its shares in percent
        by name; what was not measured is absent.
    """

    node: str
    stack: str
    fabric: str
    nights: Sequence[tuple[SiteNight, Mapping[str, float]]]

    @property
    def worst(self) -> float:
        last = self.nights[-1][1]
        return max(share.worse * (last[share.name] - 100) for share in SHARES if share.name in last)

    def curve(self, share: NodeShare) -> dict[str, Any]:
        return spark((percent.get(share.name, math.nan) for _, percent in self.nights), 100.0)


def _pair_medians(stored: StoredPairMap) -> pl.LazyFrame:
    """Of each pair, direction, quantity and size, with the names of the nodes."""
    what = ("source", "target", "quantity", "message_bytes")
    rows = stored.pair_map.table().filter(pl.col("value") > 0)
    names = pl.lit(pl.Series(stored.pair_map.nodes, dtype=pl.String))
    condition = {name: pl.lit(stored.case[name]) for name in ("session", "stack", "fabric")}
    return (
        rows.group_by(what)
        .agg(pl.col("value").median())
        .with_columns(
            names.gather(pl.col("source")).alias("source"),
            names.gather(pl.col("target")).alias("target"),
            **condition,
        )
    )


def read_shares(maps: Sequence[StoredPairMap], series: Series) -> list[NodeHistory]:
    """Histories of all nodes of proven maps, the one that was
    last furthest behind the others first.

    :param maps: oldest first.
    """
    where = ("session", "stack", "fabric", "message_bytes")
    proven = [stored for stored in maps if stored.case["evidence"] == PROVEN]
    if not proven:
        return []
    pairs = pl.concat(map(_pair_medians, proven), how="vertical_relaxed").collect()
    sessions = list(dict.fromkeys(stored.case["session"] for stored in proven))
    found: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    for share in SHARES:
        chosen = pairs.filter(pl.col("quantity") == share.quantity)
        ends = pl.concat([chosen.select(*where, "value", node=pl.col(end)) for end in share.ends])
        shares = (
            ends.with_columns(whole=pl.col("value").median().over(where))
            .group_by(*where, "node")
            .agg(percent=100 * (pl.col("value") / pl.col("whole")).median())
            .group_by("session", "stack", "fabric", "node")
            .agg(pl.col("percent").mean())
        )
        for session, stack, fabric, node, percent in shares.iter_rows():
            found.setdefault((node, stack, fabric or ""), {}).setdefault(session, {})[
                share.name
            ] = percent
    histories = [
        NodeHistory(
            *key,
            [
                (series.by_session[session], nights[session])
                for session in sessions
                if session in nights
            ],
        )
        for key, nights in found.items()
    ]
    return sorted(
        histories, key=lambda history: (history.stack, history.fabric, -history.worst, history.node)
    )


# Building.

#: Its own templates, and those of the other pages.
TEMPLATES = page.TEMPLATES.overlay(loader=ChoiceLoader([PackageLoader(__package__), page.LOADER]))
TEMPLATES.globals.update(
    file_name=file_name, states=STATES, marks={**OUTCOMES, "withdrawn": STATES["withdrawn"]}
)
#: Lies in the folder of a site; a folder with other things in it is never taken for one.
MARKER = "mpibench-site.json"
#: Templates of pages with drawings.
DRAWN = ("index.html", "series.html", "night.html", "node.html", "metric.html")
#: Newest nights of a system that are compared with those before them, if nobody did that yet.
JUDGED_NIGHTS = 1


class SiteWriter:
    """One build of a site.

    :param folder: of the site.
    :param kept: folder beside it, with what the next build wants to know; not published.
    :param program: changes when a program or template does, and then everything is written again.
    """

    def __init__(self, folder: Path, kept: Path, program: str) -> None:
        self.folder = folder
        self._manifest = kept / "manifest.json"
        self._program = program
        self.written = self.unchanged = 0
        self._now: dict[str, str] = {}
        with writing(folder):
            if folder.exists() and not (folder / MARKER).is_file() and any(folder.iterdir()):
                raise BadInput(
                    "not-ours",
                    f"{folder} contains other files: give the site a folder of its own with --out.",
                )
            folder.mkdir(parents=True, exist_ok=True)
            kept.mkdir(parents=True, exist_ok=True)
            self._lock = (kept / "lock").open("a")
            whole_file.write_text(folder / MARKER, json.dumps({"site": "mpibench"}))
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(
                "busy", f"another `mpibench site` is writing {folder}: wait for it."
            ) from None
        self._before: dict[str, str] = {}
        with suppress(OSError, ValueError, KeyError, TypeError):
            stored = json.loads(self._manifest.read_text(encoding="utf-8"))
            self._before = (
                stored["files"]
                if stored["program"] == program
                else dict.fromkeys(stored["files"], "")
            )
        # After a build that ends half way the next one writes everything
        # again, and removes what that one would have.
        self._keep("", self._before)

    def _keep(self, program: str, files: Mapping[str, str]) -> None:
        with writing(self._manifest.parent):
            whole_file.write_text(self._manifest, json.dumps({"program": program, "files": files}))

    def is_there(self, name: str, content: str) -> bool:
        """Whether a file was written of the same content before."""
        return self._before.get(name) == content and (self.folder / name).is_file()

    def put(self, name: str, content: str, make: Callable[[], str]) -> None:
        """Write a file unless the same was written before.

        :param name: path below the site.
        :param content: changes when what ``make`` returns does.
        :raises BadInput: it cannot be written.
        """
        self._now[name] = content
        if self.is_there(name, content):
            self.unchanged += 1
            return
        made = make().encode("utf-8", "replace")
        path = self.folder / name
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file.replacing(path) as partial:
                partial.write_bytes(made)
        self.written += 1

    def leave(self, folder: str, content: str) -> bool:
        """Leave the files of a folder as they are; whether all of them are
        there and were written of the same content.
        """
        files = [name for name in self._before if name.startswith(f"{folder}/")]
        if not files or not all(self.is_there(name, content) for name in files):
            return False
        self._now.update(dict.fromkeys(files, content))
        self.unchanged += len(files)
        return True

    def finish(self) -> None:
        """Remove files of earlier builds that this one did not make, and
        keep what the next one wants to know.
        """
        with writing(self.folder):
            for name in self._before.keys() - self._now.keys():
                if ".." not in Path(name).parts:
                    (self.folder / name).unlink(missing_ok=True)
        self._keep(self._program, self._now)
        self._lock.close()


@dataclass(frozen=True)
class BuiltSite:
    """What a build did.

    :param sentences: what could not be shown, one sentence each.
    :param figures: :func:`figure_lines` of the last night of each series, by session.
    """

    index: Path
    systems: int
    nights: int
    written: int
    unchanged: int
    sentences: tuple[str, ...] = ()
    figures: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"site: {self.index} ({plural(self.systems, 'system')}, "
            f"{plural(self.nights, 'session')}; {plural(self.written, 'file')} written, "
            f"{self.unchanged} unchanged)"
        )


def build(
    store: Store, out: Path, *, judged: int = JUDGED_NIGHTS, now: datetime | None = None
) -> BuiltSite:
    """Bring the site of a dataset up to date.

    :param out: the site's folder.
    :param judged: newest nights of each system that are compared with
        those before, where no answer is stored.
    :raises BadInput: no dataset, a damaged one, or a site that cannot be written.
    """
    store.require()
    systems = sorted({system for there in store.session_systems.values() for system in there})
    kept_folder = out.with_name(f".{out.name}-kept")
    here = [
        path
        for path in sorted(Path(__file__).parent.rglob("*"))
        if path.suffix in (".py", ".html", ".css", ".js")
    ]
    program = hashlib.sha256(b"".join(path.read_bytes() for path in here)).hexdigest()[:16]
    writer = SiteWriter(out, kept_folder, program)
    site = _Build(store, writer, kept_folder, judged, now or datetime.now(timezone.utc))
    found = [series for system in systems for series in site.series_of(system)]
    site.assets()
    for series in found:
        site.pages(series)
    site.index(found)
    writer.finish()
    sessions = sum(len(series.nights) for series in found)
    last = {
        series.over.nights[-1].session: figure_lines(series, series.over.nights[-1])
        for series in found
        if series.over.nights
    }
    return BuiltSite(
        out / "index.html",
        len(systems),
        sessions,
        writer.written,
        writer.unchanged,
        tuple(site.sentences),
        last,
    )


class _Build:
    """One build; each part of it knows dataset, writer and time."""

    def __init__(
        self, store: Store, writer: SiteWriter, kept: Path, judged: int, now: datetime
    ) -> None:
        self.store = store
        self.writer = writer
        self.kept = kept
        self.judged = judged
        self.now = now
        self.sentences: list[str] = []
        self._maps: dict[str, Mapping[str, Path]] = {}
        answers = (
            answer
            for said in store.answers.values()
            for answer in said
            if answer.session.startswith(NO_SESSION)
        )
        self._lost = sorted(answers, key=lambda answer: answer.written)

    def series_of(self, system: str) -> list[Series]:
        """The series of a system: that of the nights first, then by their newest session."""
        cases = light_cases(self.store, system)
        ids = identities(self.store, system)
        measured = set(eligibility.split_cases(cases).eligible["session"])
        place = self.kept / "medians" / file_name(system)
        kept = Kept(
            place,
            self.store,
            system,
            {session: ids[session] for session in ids if session in measured},
        )
        self._ask_the_gate(
            system,
            [
                row
                for row in session_rows(cases)
                if row["session"] in measured and not row["confirms"]
            ],
        )
        spoiled = {
            session: about["spoiled"] for session, about in kept.about.items() if about["spoiled"]
        }
        nights = judge(self.store, system, cases, spoiled)
        newest = {night.run: night.started for night in nights if not is_confirming(night)}
        labels = sorted(newest, key=lambda run: (run != NIGHTLY, -newest[run].timestamp()))
        return [self._series(system, run, nights, cases, kept) for run in labels]

    def _ask_the_gate(self, system: str, sessions: Sequence[Mapping[str, Any]]) -> None:
        """Hold the newest nights with values against those before,
        where nobody did, and keep the answers.
        """
        counting = [row for row in sessions if row["session"] not in self.store.withdrawn]
        for row in counting[-self.judged :] if self.judged else ():
            session = row["session"]
            partial = bool(row["options"])
            answers = self.store.answers.setdefault(session, [])
            if any(answer.source == records.GATE for answer in answers):
                continue
            of = (self.store.folder, session, records.GATE, row["run"])
            try:
                said = gate.decide(self.store, system, session, partial=partial, now=row["started"])
            except BadInput as error:
                why = f"the gate could not judge: {clause(error)}"
                answers.append(records.answer(*of, [why], finding=why, now=self.now))
                continue
            unjudged_night = said.decision == gate.NOT_JUDGED
            busy = f"not judged: {_first_of(said.unjudged)}" if said.unjudged else NOISY
            blind = busy if unjudged_night else ""
            finding = said.finding or ("measured in part" if partial else blind)
            problems = [problem.text for _, problem in said.by_kind]
            held = said.counts.history.judged or 0
            answers.append(
                records.answer(
                    *of,
                    problems,
                    [*said.began, *said.notes],
                    finding=finding,
                    judged=held,
                    seen=said.counts.history.seen or "",
                    unjudged=unjudged_night,
                    kinds=[kind for kind, _ in said.by_kind],
                    now=self.now,
                )
            )

    def _series(
        self, system: str, run: str, every: Sequence[SiteNight], cases: pl.DataFrame, kept: Kept
    ) -> Series:
        own = [night for night in every if night.run == run and not is_confirming(night)]
        table = cases.filter(pl.col("session").is_in([night.session for night in own]))
        over = read_over_time([night for night in own if night.withdrawn is None], kept)
        nodes: dict[str, set[str]] = {}
        for session, text in table.select("session", "nodelist").drop_nulls().unique().iter_rows():
            nodes.setdefault(session, set()).update(filter(None, one_line(text).split(",")))
        confirming: dict[str, list[SiteNight]] = {}
        for night in filter(is_confirming, every):
            confirming.setdefault(night.run.partition("=")[2], []).append(night)
        lost = {
            date.fromisoformat(answer.day): answer.finding
            for answer in self._lost
            if answer.label == run
        }
        try:
            events = change_points(self.store, system, over)
        except BadInput as error:
            events = []
            self.sentences.append(f"{system}: no change points are shown: {error}")
        worse: dict[str, list[str]] = {}
        for event in events:
            for at in held_from(over, event) if event.worse else ():
                worse.setdefault(over.nights[at].session, []).append(f"drift: {event}")
        own = [with_worse(night, worse.get(night.session, ())) for night in own]
        by_session = {night.session: night for night in own}
        over = replace(over, nights=[by_session[night.session] for night in over.nights])
        return Series(
            system, run, own, table, over, events, fact_changes(over, nodes), lost, confirming
        )

    def assets(self) -> None:
        from plotly.offline import get_plotlyjs_version

        for name in ("page.css", "site.js"):
            text = TEMPLATES.get_template(name).render()
            self.writer.put(f"assets/{name}", digest(text), lambda text=text: text)  # type: ignore[misc]
        self.writer.put("assets/plotly.min.js", get_plotlyjs_version(), lambda: plotly_script()[1])

    def _put(
        self,
        name: str,
        content: str,
        template: str,
        shown: Callable[..., Mapping[str, Any]],
        *of: Any,
    ) -> None:
        """Write a page, unless the same was written before: what
        it shows is asked for only then.
        """

        def make() -> str:
            about = {
                "up": "../" * name.count("/"),
                "nonce": secrets.token_hex(16),
                "drawn": template in DRAWN,
            }
            return TEMPLATES.get_template(template).render(
                **shown(*of), **about, built=f"{self.now:%Y-%m-%dT%H:%M:%SZ}"
            )

        self.writer.put(name, content, make)

    def pages(self, series: Series) -> None:
        self._nodes(series)
        events = {event.session: digest(event.session, str(event)) for event in series.events}
        before = ""
        for night in series.nights:
            # What is said of a night rests on that before it, too.
            known = (
                night.identity,
                night.state.name,
                before,
                events.get(night.session),
                series.changes.get(night.session),
            )
            again = [other.identity for other in series.confirming.get(night.session, ())]
            content = digest(
                *known, *again, *(other.session for other in series.days[night.day][1])
            )
            name = f"{series.folder}/nights/{night.page}"
            self._put(f"{name}.html", content, "night.html", night_shown, series, night)
            if night.counts:
                of = (self.store, series, night, (self.writer.folder / name).parent)
                self._put(f"{name}-proof.html", content, "proof.html", night_proofs, *of)
            before = night.identity
        self._metrics(series)
        files = digest(*(family.file for family in series.families))
        for case in series.histories:
            runs = digest(
                files, *(part for run in case.runs for part in (run.night.identity, run.outcome))
            )
            shown = {"series": series, "history": case}
            self._put(f"{series.folder}/cases/{case.file}.html", runs, "case.html", dict, shown)

    def _metrics(self, series: Series) -> None:
        folder = f"{series.folder}/metrics"
        over = series.over
        script = changes_script(series)
        if series.families:
            self.writer.put(f"{folder}/data/changes.js", digest(script), lambda: script)
        places = months(over)
        digests = {
            month: digest(*(part for at in there for part in _known_by(over.nights[at])))
            for month, there in places.items()
        }
        for family in series.families:
            for month, there in places.items():
                content = digest(digests[month], *family.metrics["id"])
                make = partial(month_script, over, family, month, there)
                self.writer.put(f"{folder}/data/{family.file}.{month}.js", content, make)
            content = digest(*digests.values(), *(str(event) for event, _ in family.events))
            self._put(
                f"{folder}/{family.file}.html", content, "metric.html", metric_shown, series, family
            )

    def _nodes(self, series: Series) -> None:
        found = {path.stem: path for path in self.store.files("pair_maps", series.system)}
        there = [night.session for night in series.counting if night.session in found][-MOST_MAPS:]
        files = self._maps[series.folder] = {session: found[session] for session in there}
        if not files:
            return
        stats = [path.stat() for path in files.values()]
        content = digest(*files, *((stat.st_mtime_ns, stat.st_size) for stat in stats))
        folder = f"{series.folder}/nodes"
        if self.writer.leave(folder, content):
            return
        histories = read_shares(self.store.pair_maps(series.system, files), series)
        shown = {"series": series, "shares": SHARES}
        self._put(
            f"{folder}/index.html", content, "nodes.html", dict, {**shown, "histories": histories}
        )
        by_node: dict[str, list[NodeHistory]] = {}
        for history in histories:
            by_node.setdefault(history.node, []).append(history)
        for node, own in by_node.items():
            self._put(
                f"{folder}/{file_name(node)}.html",
                content,
                "node.html",
                dict,
                {**shown, "node": node, "histories": own},
            )

    def index(self, found: Sequence[Series]) -> None:
        built = self.now.isoformat()
        cards = {series.folder: card(series, self.now) for series in found}
        for series in found:
            of_metrics = {"by_change": families_by_change(series), "most": MOST_CHANGED}
            shown = {
                "series": series,
                "card": cards[series.folder],
                "maps": bool(self._maps[series.folder]),
                **of_metrics,
            }
            self._put(f"{series.folder}/index.html", built, "series.html", dict, shown)
        first = {series.system: series for series in reversed(found)}
        main = [cards[series.folder] for series in first.values()]
        main.sort(
            key=lambda card: (
                -(card["night"].started.timestamp() if card["night"] else 0),
                card["series"].system,
            )
        )
        others = [
            (series, cards[series.folder]["verdict"])
            for series in found
            if first[series.system] is not series
        ]
        lost = [
            answer for answer in self._lost if answer.label not in {series.run for series in found}
        ][-5:]
        of_all = {"cards": main, "others": others, "lost": lost, "months": FIRST_MONTHS}
        self._put("index.html", built, "index.html", dict, of_all)


def _known_by(night: SiteNight) -> tuple[str, ...]:
    return night.session, night.identity, night.state.name
