"""The nights of a system as its site shows them: what became of each session, its cases from night to
night, its metrics over time.

Green is a claim: a whole session, every case of it proven, and something it was held against that it reached. What was not
measured, was measured in part, or was held against nothing is never green.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy import special

from reframe_tests.harness.printable import first_line
from reframe_tests.harness.samples import FAIL, NO_REFERENCE, PASS, ReferenceCheck
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.benchmark import metric_name
from reframe_tests.harness.vocabulary import JUDGED, LOWER, MB_PER_GBIT, NONE, QUANTITIES, BadInput

from .. import whole_file
from ..judge import drift, gate
from ..judge import policy as verdict_policy
from ..judge.drift import Event
from ..judge.statistics.two_sides import Array
from ..store import confirmations, eligibility, selection_options, session_values
from ..store.dataset_layout import read_condition, read_labels
from ..store.quantity_text import unit_text
from ..store.records import NO_SESSION, StoredAnswer, Unreadable, Withdrawal
from ..store.session_values import CONDITION, METRIC, changes
from ..store.sessions import CONFIRMS
from ..store.store import Store
from .outcomes import OUTCOMES, Outcome, why
from .page import writing

#: Characters of a name that are for people; the rest tells names apart that read alike.
READABLE = 56


def digest(*words: object) -> str:
    return hashlib.sha256("\0".join(map(str, words)).encode("utf-8", "surrogatepass")).hexdigest()[:10]


def file_name(words: Sequence[object]) -> str:
    """A name of lower-case letters, digits and hyphens; the same words give the same name in every build."""
    text = re.sub("[^a-z0-9]+", "-", "-".join("" if word is None else str(word) for word in words).lower()).strip("-")
    return "-".join(filter(None, (text[:READABLE].strip("-"), digest(*words))))


#: The label whose series is the system's own.
NIGHTLY = "nightly"
#: Characters of a reason that a page shows; the job's output has all of it.
LONGEST_REASON = 600


#: What a night can be. The first one that any session of a day has is that of the day.
STATES = {
    one.name: one
    for one in (
        Outcome("red", "✕", "red", "something failed, was not proven, is missing, missed a reference or became worse"),
        Outcome("green", "✓", "green", "whole, every case proven, and everything it was held against was reached"),
        Outcome("part", "◐", "part", "measured in part, with options that select cases: nothing failed"),
        Outcome("unjudged", "○", "not judged", "measured and proven, and held against nothing: no reference, no history"),
        Outcome("withdrawn", "W", "withdrawn", "withdrawn by somebody: part of no verdict"),
        Outcome("none", "", "not measured", "nothing was measured"),
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
    :param counts: cases by outcome (:data:`~mpibench.pages.outcomes.OUTCOMES`).
    :param references: reference checks held, missed and without a reference.
    :param withdrawn: who took it out of all verdicts.
    :param identity: changes when its files do.
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

    @property
    def page(self) -> str:
        return f"{self.started:%Y-%m-%d-%H%M}-{digest(self.session)}"

    @property
    def day(self) -> date:
        return self.started.date()


def light_cases(store: Store, system: str) -> pl.DataFrame:
    """All cases of a system that can be read, withdrawn ones among them, with ``outcome``, counts of reference checks, and
    the first that missed as ``check``.

    :raises BadInput: a damaged dataset, or a session that is there twice.
    """
    counts = {name: eligibility.checks(word).alias(name) for name, word in _GATES.items()}
    reason = pl.col("reason").fill_null("").str.slice(0, LONGEST_REASON)
    first = pl.col("sentences").list.first().fill_null("").str.slice(0, LONGEST_REASON)
    check = pl.col("gates").list.eval(pl.element().filter(pl.element().struct.field("outcome") == FAIL)).list.first()
    columns = (*LIGHT, session_values.LOST_CORES.alias("busy"), reason.alias("reason"), first.alias("sentence"))
    cases = store.scan("cases", system).select(*columns, check=check, outcome=eligibility.OUTCOME, **counts)
    return cases.sort("started", "session", "case").collect()


def identities(store: Store, system: str) -> dict[str, str]:
    found: dict[str, list[object]] = {}
    for table in ("cases", "samples"):
        for path in store.files(table, system):
            status = path.stat()
            found.setdefault(path.stem, []).append((table, status.st_mtime_ns, status.st_size))
    return {session: digest(*parts) for session, parts in found.items()}


class Judging(NamedTuple):
    """What nights of a system are judged by.

    :param cases: :func:`light_cases`.
    :param ids: :func:`identities`.
    :param answers: by session.
    :param spoiled: why values of a session cannot be used, by session.
    :param lost: sessions that cannot be read.
    """

    store: Store
    system: str
    cases: pl.DataFrame
    ids: Mapping[str, str]
    answers: Mapping[str, Sequence[StoredAnswer]]
    spoiled: Mapping[str, str]
    lost: Sequence[Unreadable]


def judge(by: Judging) -> list[SiteNight]:
    gone = by.store.withdrawn
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
    found += [_unreadable(one, gone.get(one.session), label) for one in by.lost if one.session not in known]
    return sorted(found, key=lambda one: (one.started, one.session))


def _confirming(sessions: pl.DataFrame) -> dict[str, list[str]]:
    label = pl.col("labels").str.json_path_match(f"$.{CONFIRMS}")
    found: dict[str, list[str]] = {}
    for session, first in sessions.select("session", label).drop_nulls().iter_rows():
        found.setdefault(first, []).append(session)
    return found


def _missed(by: Judging, session: str, again: Sequence[str]) -> tuple[list[str], list[str]]:
    """References that a session missed, and those that were not missed again when they were measured again.

    :param again: sessions that say they measured it again.
    """
    own = by.store.scan("cases", by.system, [session]).collect()
    both = by.store.scan("cases", by.system, [session, *again])
    second = confirmations.confirming(both, session, by.store.withdrawn)
    held: list[str] = []
    gone: list[str] = []
    for one in confirmations.missed_references(own, second):
        row = one.check
        text = f"{row['stack']} on {row['fabric']}: {row['metric']} is {confirmations.value_text(row['value'], row)}"
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
    history = sum(answer.judged for answer in said if answer.passed)
    base = f"{sum(counts[name] for name in ('passed', 'recorded', 'proven'))} of {ran} cases proven"
    if withdrawn is not None:
        state, finding = "withdrawn", f"Withdrawn by {withdrawn.who} on {withdrawn.when:%Y-%m-%d}: {withdrawn.why}"
    elif problems:
        head = f"{len(failed)} of {ran} cases failed: " if failed else ""
        state, finding = "red", f"{head}{_first_of(problems)}"
    elif options:
        state, finding = "part", f"{base}; measured in part"
    elif references["held"] or history:
        beside = f", {history} metrics as in the nights before" if history else ""
        state, finding = "green", f"{base}, {references['held']} references held, none missed{beside}"
    else:
        state, finding = "unjudged", f"{base}; held against nothing: no reference and no history"
    busy = session_values.busy_sentence(session["busy"], session["timed"]).rstrip(".")
    return SiteNight(
        uuid,
        session["started"],
        session["session_seconds"],
        labels.get("run", "") if CONFIRMS not in labels else f"{CONFIRMS}={labels[CONFIRMS]}",
        options,
        STATES[state],
        ". ".join(filter(None, (finding, busy))),
        tuple(problems),
        (*excused, *dict.fromkeys(note for answer in said for note in answer.notes)),
        {name: counts[name] for name in OUTCOMES if counts[name]},
        references,
        withdrawn,
        digest(by.ids.get(uuid, ""), *said, withdrawn, spoiled, *missed, *excused),
    )


def _unreadable(lost: Unreadable, withdrawn: Withdrawal | None, label: str) -> SiteNight:
    state, text = STATES["withdrawn" if withdrawn else "red"], f"This session cannot be read: {lost.why}"
    none, identity = dict.fromkeys(_GATES, 0), digest(lost.session, lost.why, withdrawn)
    return SiteNight(lost.session, lost.started, None, label, (), state, text, (text,), (), {}, none, withdrawn, identity)


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
        finding=night.finding if red else _first_of(new),
        problems=(*night.problems, *new),
        identity=digest(night.identity, *new),
    )


def _first_of(problems: Sequence[str]) -> str:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{first_line(problems[0], 220)}{more}"


def _only_excused(row: Mapping[str, Any], missed: Sequence[str]) -> bool:
    if not (row["result"] in ("pass", "fail") and row["missed"] and row["evidence"] == "proven"):
        return False
    return (row["fail_phase"] or "performance") == "performance" and not any(f"{row['stack']} on" in one for one in missed)


def why_failed(row: Mapping[str, Any]) -> str:
    """A case of :func:`light_cases` and the first reason why it failed."""
    result, phase, evidence = (str(row[name] or "") for name in ("result", "fail_phase", "evidence"))
    missed = [ReferenceCheck(**row["check"])] if row["check"] and phase in ("", "performance") else []
    proof = [row["sentence"]] if row["sentence"] else []
    said = why(result, phase, evidence, row["measurement"] is not False, proof, missed, row["reason"])
    more = f" {row['missed']} references missed." if missed and row["missed"] > 1 else ""
    return f"{condition_text(row)}: {first_line(next(iter(said), 'no reason was stored'), 300)}{more}"


def condition_text(row: Mapping[str, Any]) -> str:
    """What a case measured under which condition: ``p2p of mpich on eth1g, 2 x 1, bunch``."""
    where = f"{row['fabric'] or row['partition']}, {nodes_by_ppn(row['nodes'], row['ppn'] or row['ppn_symbol'])}"
    what = row["group"] or str(row["name"]).split(" ")[0]
    return f"{what} of {row['stack']} on {where}, {row['pinning'] or 'no pinning'}"


def without_session(answers: Mapping[str, Sequence[StoredAnswer]]) -> list[StoredAnswer]:
    every: Iterable[StoredAnswer] = (one for said in answers.values() for one in said)
    return sorted((one for one in every if one.session.startswith(NO_SESSION)), key=lambda one: one.written)


#: Changes when what is kept does: what an earlier program kept is computed again.
KEPT = f"2,{pl.__version__}"
#: What names a metric on the site: its condition, its benchmark, and the case that measures it.
IDENTITY = (*CONDITION, "suite", "benchmark", "variant", "ranks", "groups", "quantity", "message_bytes")
#: Columns of the kept values beside ``id``.
VALUES = ("n", "median", "low", "high", "lower", "upper", "line_rate", "missed", "judged")
_BANDWIDTH = "bandwidth_mb_per_s"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class NightMedians:
    """What is kept of one night.

    :param values: ``id`` (a hash of :data:`IDENTITY`, ``name``, ``group``) and :data:`VALUES`, in the units of the quantities;
        ``lower`` and ``upper`` are the bounds of its reference that night, ``line_rate`` is in MB/s.
    :param metrics: ``id``, :data:`IDENTITY`, ``name``, ``group``, ``direction``.
    :param facts: what the night said of machine and software (:func:`~.session_values.facts`).
    :param spoiled: why the values cannot be used; empty where they can.
    """

    values: pl.DataFrame
    metrics: pl.DataFrame
    facts: Mapping[str, list[str]]
    spoiled: str = ""


class Kept:
    """Medians of the nights of a system in a file, its metrics in another; what changed since is computed again."""

    def __init__(self, folder: Path, store: Store, system: str, ids: Mapping[str, str]) -> None:
        """:param ids: of :func:`identities`, of the sessions that are kept.

        :raises BadInput: the dataset cannot be read, or nothing can be written.
        """
        self._values, self._metrics, about = self._read(folder)
        same = {session: about[session] for session, identity in ids.items() if about.get(session, {}).get("is") == identity}
        new = {session: compute(store, system, session) for session in ids if session not in same}
        said = {name: {"is": ids[name], "facts": night.facts, "spoiled": night.spoiled} for name, night in new.items()}
        self.about: dict[str, dict[str, Any]] = {**same, **said}
        if not new and len(same) == len(about):
            return
        old = self._values.filter(pl.col("session").is_in(list(same)))
        parts = (night.values.with_columns(session=pl.lit(name)) for name, night in new.items())
        self._values = pl.concat([old, *parts])
        # Those of nights that are gone stay: who is killed between the two files has all that the older one names.
        every = pl.concat([self._metrics, *(night.metrics for night in new.values())])
        self._metrics = every.unique("id", keep="last", maintain_order=True)
        metadata = {"kept": KEPT, "about": json.dumps(self.about)}
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for name, table in (("metrics", self._metrics), ("values", self._values)):
                with whole_file.replacing(folder / f"{name}.parquet") as partial:
                    whole_file.write_parquet(partial, table, compression="lz4", statistics=False, metadata=metadata)

    @staticmethod
    def _read(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, dict[str, Any]]]:
        """What an earlier build kept; nothing of what another program or a damaged file has."""
        with suppress(OSError, ValueError, pl.exceptions.PolarsError):
            metadata = pl.read_parquet_metadata(folder / "values.parquet")
            if metadata.get("kept") == KEPT:
                values, metrics = (pl.read_parquet(folder / f"{name}.parquet") for name in ("values", "metrics"))
                return values, metrics, json.loads(metadata["about"])
        return _NO_VALUES.with_columns(session=pl.lit("")), _NO_METRICS, {}

    def values(self, sessions: Sequence[str]) -> pl.DataFrame:
        """Values of some nights with ``night``, the place of each among them."""
        places = pl.DataFrame(
            {"session": sessions, "night": range(len(sessions))}, schema={"session": pl.String, "night": pl.Int32}
        )
        return self._values.join(places, on="session").select("id", *VALUES, "night")

    def metrics(self, values: pl.DataFrame) -> pl.DataFrame:
        """Names of the metrics of some values, each once."""
        return self._metrics.join(values.select("id"), on="id", how="semi")


_NUMBERS = dict.fromkeys(("median", "low", "high", "lower", "upper", "line_rate"), pl.Float64)
_NO_VALUES = pl.DataFrame(schema={"id": pl.UInt64, "n": pl.UInt32, **_NUMBERS, "missed": pl.Boolean, "judged": pl.Boolean})
_NO_METRICS = pl.DataFrame(
    schema={
        "id": pl.UInt64,
        **dict.fromkeys((*IDENTITY, "name", "group", "direction"), pl.String),
        **dict.fromkeys(("nodes", "ppn", "ranks", "groups"), pl.Int32),
        "message_bytes": pl.Int64,
    }
)


def compute(store: Store, system: str, session: str) -> NightMedians:
    """Medians of the eligible cases of one session.

    :raises BadInput: the dataset cannot be read.
    """
    cases = store.scan("cases", system, [session]).collect()
    try:
        facts = session_values.facts(cases.filter(pl.col("result") != "skip"))
        eligible = eligibility.split_cases(cases).eligible
        samples = store.scan("samples", system, [session]).filter(
            pl.col("case").is_in(eligible["case"].to_list()), pl.col("direction") != NONE, pl.col("value").is_not_null()
        )
        columns = ("case", *(name for name in IDENTITY if name not in CONDITION), "unit", "direction", "value")
        values = _medians(session, samples.select(columns).collect())
        if not values.height:
            return NightMedians(_NO_VALUES, _NO_METRICS, facts)
        shared = pl.col("condition").str.json_path_match(f"$.{session_values.OVERSUBSCRIBED}").is_not_null()
        described = eligible.select("case", *CONDITION, "name", "group", "gates", shared=shared, rate=_line_rates(eligible))
    except BadInput as error:
        return NightMedians(_NO_VALUES, _NO_METRICS, {}, str(error).rstrip("."))
    table = values.join(described.drop("gates"), on="case")
    # Ranks that shared cores are another measurement, and no part of a history.
    variant = pl.when("shared").then(pl.format("{}oversubscribed", pl.col("variant").fill_null(""))).otherwise("variant")
    table = table.with_columns(variant=variant, judged=pl.col("judged") & ~pl.col("shared"))
    table = _bounded(table, described)
    table = table.with_columns(id=pl.struct(*IDENTITY, "name", "group").hash(seed=1)).unique("id", keep="last")
    return NightMedians(
        table.select("id", *VALUES).cast(_NO_VALUES.schema),
        table.select("id", *IDENTITY, "name", "group", "direction").cast(_NO_METRICS.schema),
        facts,
    )


def _line_rates(cases: pl.DataFrame) -> pl.Series:
    found = [read_condition(text).get("line_rate_gbit_per_s") for text in cases["condition"]]
    numbers = [float(one) if isinstance(one, (int, float)) and not isinstance(one, bool) else None for one in found]
    return pl.Series(numbers, dtype=pl.Float64)


def _medians(session: str, samples: pl.DataFrame) -> pl.DataFrame:
    """Median, interval and number of the repeats of each metric of each case.

    :raises BadInput: a value that is no number, or not in the unit of its quantity.
    """
    units = {one.name: one.unit for one in QUANTITIES.values()}
    wanted = pl.col("quantity").replace_strict(units, default=None, return_dtype=pl.String)
    odd = samples.filter(~pl.col("value").is_finite() | wanted.is_null() | (pl.col("unit") != wanted))
    if odd.height:
        row = odd.row(0, named=True)
        raise BadInput(
            "value-not-finite",
            f"session {session}: {row['benchmark']} {row['quantity']} is {row['value']} {row['unit']}: export it again.",
        )
    point = ["case", *(name for name in IDENTITY if name not in CONDITION)]
    sorted_values = pl.col("value").sort()
    most = samples.group_by(point).len()["len"].max() or 0
    ranks = {n: _rank(n) for n in range(1, int(most) + 1)}  # type: ignore[arg-type]
    grouped = samples.group_by(point, maintain_order=True).agg(
        pl.len().alias("n"), pl.col("value").median().alias("median"), sorted_values.alias("all"), pl.col("direction").first()
    )
    below = pl.col("n").replace_strict(ranks, default=1, return_dtype=pl.Int64)
    table = grouped.with_columns(low=pl.col("all").list.get(below - 1), high=pl.col("all").list.get(pl.col("n") - below))
    # The same number in other words is judged once, and a median of nothing is none; as the watch over nights does.
    rank = pl.col("quantity").replace_strict(
        {one: place for place, one in enumerate(JUDGED)}, default=None, return_dtype=pl.Int8
    )
    table = table.with_columns(rank=pl.when(pl.col("median") > 0).then(rank))
    best = pl.col("rank") == pl.col("rank").min().over([name for name in point if name != "quantity"])
    return table.with_columns(judged=best.fill_null(False)).drop("all", "rank")


def _rank(n: int) -> int:
    """Which of ``n`` sorted repeats, counted from 1 at either end, bounds the interval of the median."""
    share = (1 - CONFIDENCE) / 2
    # The quantile of a binomial: special.bdtr(k, n, p) is its distribution function.
    return max(1, next(k for k in range(n + 1) if special.bdtr(k, n, 0.5) >= share))


def _bounded(table: pl.DataFrame, cases: pl.DataFrame) -> pl.DataFrame:
    checks = [
        (case, check["metric"], check["layer"], check["value"], check["lower"], check["upper"], check["outcome"] == FAIL)
        for case, gates in cases.select("case", "gates").iter_rows()
        for check in gates or ()
    ]
    words, numbers = dict.fromkeys(("case", "metric", "layer"), pl.String), ("measured", "lower", "upper")
    schema = {**words, **dict.fromkeys(numbers, pl.Float64), "missed": pl.Boolean}
    gates = pl.DataFrame(checks, schema=schema, orient="row").unique(["case", "metric", "layer"], keep="last")
    points = table.select("benchmark", "quantity", "message_bytes", "variant").unique()
    named = points.with_columns(
        metric=_metric_names(points, lambda quantity: QUANTITIES[quantity].short),
        fraction=_metric_names(points, lambda _: QUANTITIES["line_rate_fraction"].short),
    )
    joined = table.join(named, on=["benchmark", "quantity", "message_bytes", "variant"], nulls_equal=True, how="left")
    learned = gates.filter(pl.col("layer") == "learned").select("case", "metric", "lower", "upper", "missed")
    joined = joined.join(learned, on=["case", "metric"], how="left")
    physics = gates.filter(pl.col("layer") != "learned").select(
        "case", fraction="metric", share="measured", least="lower", short="missed"
    )
    joined = joined.join(physics, on=["case", "fraction"], how="left")
    bandwidth = pl.col("quantity") == _BANDWIDTH
    ways = pl.col("benchmark").replace_strict(_directions(points["benchmark"]), default=1.0, return_dtype=pl.Float64)
    # The check holds the median against line rate x directions x links; without one the rate of one link is drawn.
    checked = pl.when(pl.col("share") > 0).then(pl.col("median") / pl.col("share"))
    rate = pl.when(bandwidth).then(pl.coalesce(checked, pl.col("rate") * MB_PER_GBIT * ways))
    return joined.with_columns(
        line_rate=rate,
        lower=pl.when(bandwidth).then(pl.max_horizontal("lower", pl.col("least") * rate)).otherwise("lower"),
        missed=pl.col("missed").fill_null(False) | (bandwidth & pl.col("short").fill_null(False)),
    )


def _metric_names(points: pl.DataFrame, short: Any) -> pl.Series:
    rows = points.select("benchmark", "quantity", "message_bytes", "variant").iter_rows()
    return pl.Series([metric_name(one, short(quantity), size, variant or "") for one, quantity, size, variant in rows])


def _directions(benchmarks: Iterable[str]) -> dict[str, float]:
    """How many ways data flow over a link at once, by benchmark; 1 where the catalogue does not know."""
    known = {row.name: row.directions for suite in catalogue.SUITES.values() for row in suite.rows if row.directions}
    return {name: float(known.get(name, 1)) for name in set(benchmarks)}


#: Nights that are drawn, the newest of a series: 13 months of one a night.
MOST_NIGHTS = 400
#: Facts of one night that are named; the others are counted.
MOST_CHANGES = 12


class Family(NamedTuple):
    """What metrics have in common that one page draws."""

    partition: str
    fabric: str | None
    nodes: int | None
    ppn: int | None
    suite: str
    benchmark: str
    variant: str | None
    groups: int | None
    quantity: str

    @property
    def file(self) -> str:
        return file_name((self.benchmark, self.quantity, self.fabric or self.partition, self.nodes, self.ppn, *self))

    @property
    def title(self) -> str:
        groups = f"{self.groups} groups" if (self.groups or 1) > 1 else ""
        quantity = QUANTITIES[self.quantity].title
        return f"{', '.join(filter(None, (self.benchmark, self.variant, groups)))}: {quantity}"

    @property
    def place(self) -> str:
        where = f"{self.fabric} on {self.partition}" if self.fabric else self.partition
        return f"{where}, {nodes_by_ppn(self.nodes, self.ppn)}"

    @property
    def unit(self) -> str:
        return unit_text(QUANTITIES[self.quantity].unit)


def nodes_by_ppn(nodes: int | None, ppn: object) -> str:
    return f"{'all' if nodes == 0 else '?' if nodes is None else nodes} x {ppn or '?'}"


_DRAWN = ("median", "low", "high", "lower", "upper", "line_rate")
#: Beside stack, fabric and condition nothing else distinguishes what the watch calls one metric.
_WATCHED = tuple(name for name in METRIC if name in IDENTITY)


#: Something that was otherwise in the night before: what (``kernel release``, ``nodes``), what it was, and what it is.
FactChange = tuple[str, str, str]


@dataclass(frozen=True)
class OverTime:
    """A series of nights.

    :param nights: those that count, oldest first.
    :param metrics: one row per metric: ``id``, :data:`IDENTITY`, ``name``, ``group``, ``direction``.
    :param drawn: of each of :data:`_DRAWN` an array of shape (metrics, nights) in the metric's unit, NaN where there is none.
    :param judged: whether the watch over nights judges it, shape (metrics, nights).
    :param missed: whether its reference was missed, likewise.
    :param facts: of each night.
    """

    nights: Sequence[SiteNight]
    metrics: pl.DataFrame
    drawn: Mapping[str, Array]
    judged: np.ndarray
    missed: np.ndarray
    facts: Sequence[Mapping[str, list[str]]] = field(default_factory=tuple)

    @cached_property
    def place(self) -> dict[str, int]:
        return {night.session: at for at, night in enumerate(self.nights)}

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        return self.metrics.to_dict(as_series=False)

    def families(self) -> list[tuple[Family, pl.DataFrame]]:
        rows = self.metrics.with_row_index("row")
        parts = rows.partition_by(Family._fields, as_dict=True, maintain_order=True)
        return [(Family(*key), parts[key]) for key in sorted(parts, key=lambda key: [str(word) for word in key])]


def read_over_time(nights: Sequence[SiteNight], kept: Kept) -> OverTime:
    """Values of some nights, the oldest first."""
    chosen = [night for night in nights if night.session in kept.about][-MOST_NIGHTS:]
    values = kept.values([night.session for night in chosen])
    metrics = kept.metrics(values).sort(
        ["fabric", "suite", "benchmark", "quantity", "stack", "pinning", "message_bytes", "ranks", "name"]
    )
    rows = metrics.select("id").with_row_index("row")
    placed = values.join(rows, on="id")
    row, night = placed["row"].to_numpy(), placed["night"].to_numpy()
    shape = (metrics.height, len(chosen))
    drawn = {name: np.full(shape, np.nan) for name in _DRAWN}
    flags = {name: np.zeros(shape, dtype=bool) for name in ("judged", "missed")}
    for name, table in {**drawn, **flags}.items():
        table[row, night] = placed[name].fill_null(False if name in flags else np.nan).to_numpy()
    facts = [kept.about[night.session]["facts"] for night in chosen]
    return OverTime(chosen, metrics, drawn, flags["judged"], flags["missed"], facts)


def fact_changes(over: OverTime, nodes: Mapping[str, Sequence[str]]) -> dict[str, list[FactChange]]:
    """What differs from the night before, by session: versions, kernel, firmware, settings, nodes.

    :param nodes: of each session.
    """
    found: dict[str, list[FactChange]] = {}
    for at in range(1, len(over.nights)):
        before, now = over.nights[at - 1].session, over.nights[at].session
        rows = list(changes(over.facts[at - 1], over.facts[at]))
        # What one night knows and the other never asked is no change of the machine.
        rows = [row for row in rows if "-" not in row[1:]]
        rows += _node_changes(nodes.get(before, ()), nodes.get(now, ()))
        if rows:
            found[now] = rows
    return found


def _node_changes(before: Sequence[str], after: Sequence[str]) -> list[FactChange]:
    gone, new = (sorted(set(one) - set(other)) for one, other in ((before, after), (after, before)))
    if not (gone or new) or not (before and after):
        return []
    return [("nodes", ", ".join(gone) or "none less", ", ".join(new) or "none more")]


def change_points(store: Store, system: str, over: OverTime) -> list[Event]:
    """Changes of all nights that are drawn, those for the worse that nobody accepted first: as ``mpibench drift`` finds them.

    One session stands for each day (UTC), the last whole one. None are found where the policy gives nothing a margin.

    :raises BadInput: a damaged policy.
    """
    places = _one_a_day(over.nights)
    policy = verdict_policy.load(system)
    judged = over.judged[:, places]
    watched = np.flatnonzero(judged.any(axis=1)) if places else np.array([], dtype=int)
    if len(places) < drift.FEWEST_NIGHTS or not len(watched):
        return []
    chosen = over.metrics[watched]
    points = chosen.select("quantity", "message_bytes").iter_rows()
    if not any(policy.judges(quantity, policy.band(size)) for quantity, size in points):
        return []
    sign = np.where((chosen["direction"] == LOWER).to_numpy(), 1.0, -1.0)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = sign * np.log(np.where(judged[watched], over.drawn["median"][watched][:, places], np.nan))
    nights = pl.DataFrame(
        {
            "session": [over.nights[at].session for at in places],
            "started": pl.Series([over.nights[at].started for at in places], dtype=pl.Datetime("ms", "UTC")),
        }
    )
    history = drift.History(system, nights, chosen.select(*_WATCHED, "direction"), logs, ())
    return drift.events(store, history, drift.change_points(history, policy, None), policy)


def _one_a_day(nights: Sequence[SiteNight]) -> list[int]:
    chosen: dict[Any, int] = {}
    for at, night in enumerate(nights):
        if night.day not in chosen or not night.options or nights[chosen[night.day]].options:
            chosen[night.day] = at
    return sorted(chosen.values())


#: Nights before a change that say what was before it, and nights in a row that say what is.
_BEFORE, _NOW = 14, drift.FEWEST_CHANGED


def rows_of(over: OverTime, event: Event) -> np.ndarray:
    keys = event.metrics.select(*_WATCHED).unique()
    rows = over.metrics.with_row_index("row").join(keys, on=_WATCHED, how="semi", nulls_equal=True)
    return rows["row"].to_numpy()


def worse_nights(over: OverTime, events: Sequence[Event]) -> dict[str, list[str]]:
    """Nights in which a change for the worse holds that nobody accepted, with a sentence for each, by session."""
    found: dict[str, list[str]] = {}
    for event in events:
        for at in _held_from(over, event) if event.worse else ():
            found.setdefault(over.nights[at].session, []).append(f"drift: {event}")
    return found


def lasts(over: OverTime, event: Event) -> bool:
    held = _held_from(over, event)
    return bool(held) and held[-1] == len(over.nights) - 1


def _held_from(over: OverTime, event: Event) -> list[int]:
    """Nights from a change on that are nearer to what came after it than to what was before, without a gap of three."""
    rows = rows_of(over, event)
    start = over.place.get(event.session)
    if start is None or not len(rows) or not start:
        return []
    sign = np.where((over.metrics["direction"][rows.tolist()] == LOWER).to_numpy(), 1.0, -1.0)
    table = over.drawn["median"][rows]
    before = _middle(table[:, max(0, start - _BEFORE) : start])
    held: list[int] = []
    for at in range(start, min(len(over.nights), start + gate.REMEMBERED_NIGHTS)):
        with np.errstate(all="ignore"):
            moved = sign * np.log(_middle(table[:, max(start, at + 1 - _NOW) : at + 1]) / before)
        known = moved[np.isfinite(moved)]
        if len(known) and np.median(known) > np.log1p(event.slower) / 2:
            held.append(at)
        elif len(known) and (not held or at - held[-1] >= _NOW):
            break
    return held


def _middle(table: Array) -> Array:
    kept = table[:, ~np.isnan(table).all(axis=0)]
    empty = np.isnan(kept).all(axis=1)
    found = np.full(len(table), np.nan)
    if kept.shape[1] and not empty.all():
        found[~empty] = np.nanmedian(kept[~empty], axis=1)
    return found


#: What makes cases of different nights the same case; a case that was skipped knows its processes per node by symbol only.
CASE = ("partition", "stack", "name", "fabric", "nodes", "ppn_symbol", "pinning", "group")
#: The same as metrics name it.
_OF_METRIC = ("partition", "stack", "name", "fabric", "nodes", "ppn", "pinning", "group")
#: Outcomes that say nothing of a case.
NOT_RUN = ("skipped", "dry", "retried")


class CaseRun(NamedTuple):
    """A case in one night.

    :param stored: its outcome, a key of :data:`~mpibench.pages.outcomes.OUTCOMES`.
    :param case: its id in ReFrame.
    :param nodes: of its job, comma-separated.
    """

    night: SiteNight
    stored: str
    case: str
    job: str
    nodes: str

    @property
    def outcome(self) -> str:
        return "withdrawn" if self.night.withdrawn else self.stored

    @property
    def anchor(self) -> str:
        return anchor(self.case)


def anchor(case: str) -> str:
    return f"c-{digest(case)}"


@dataclass(frozen=True)
class SiteCase:
    """One case over all nights of a series.

    :param file: name of its page, the same in every build.
    :param runs: oldest first; nights in which it was skipped are not among them.
    :param of_metric: what its metrics are known by.
    """

    file: str
    title: str
    runs: Sequence[CaseRun]
    of_metric: tuple[Any, ...]

    @property
    def last(self) -> CaseRun:
        return self.runs[-1]

    @property
    def failing_since(self) -> SiteNight | None:
        """First of the nights in a row in which it failed, up to the last one; ``None`` if it does not fail."""
        counted = (run for run in reversed(self.runs) if run.outcome != "withdrawn")
        failing = list(itertools.takewhile(lambda run: run.outcome in ("failed", "interrupted"), counted))
        return failing[-1].night if failing else None


@dataclass(frozen=True)
class MetricFamily:
    """Metrics that one page draws.

    :param metrics: its metrics with ``row``.
    :param events: changes that some of them are part of, and how many of them.
    """

    series: Series
    name: Family
    metrics: pl.DataFrame
    events: Sequence[tuple[Event, int]]

    @cached_property
    def file(self) -> str:
        return self.name.file

    @cached_property
    def rows(self) -> np.ndarray:
        return self.metrics["row"].to_numpy()


@dataclass(frozen=True)
class Series:
    """Sessions of one system under one label.

    :param run: the label; empty without one.
    :param nights: all its sessions, oldest first, those that were withdrawn or cannot be read among them.
    :param cases: rows of :func:`~.nights.light_cases`.
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
        return file_name((self.system, self.run))

    @property
    def title(self) -> str:
        return self.run or "without label"

    @cached_property
    def newest(self) -> SiteNight | None:
        return next((night for night in reversed(self.nights) if night.withdrawn is None), None)

    @cached_property
    def headline(self) -> SiteNight | None:
        """The last whole night that was not withdrawn; where all are parts, the last one; ``None`` without any."""
        whole = (night for night in reversed(self.nights) if night.withdrawn is None and not night.options)
        return next(whole, self.newest)

    @cached_property
    def parts_since(self) -> list[SiteNight]:
        last = self.headline
        later = self.nights[self.nights.index(last) + 1 :] if last else ()
        return [night for night in later if night.withdrawn is None]

    @cached_property
    def by_session(self) -> dict[str, SiteNight]:
        return {night.session: night for night in self.nights}

    @cached_property
    def days(self) -> dict[date, tuple[Outcome, list[SiteNight]]]:
        found: dict[date, list[SiteNight]] = {}
        for night in self.nights:
            found.setdefault(night.day, []).append(night)
        order = list(STATES)
        days = {
            day: (min((one.state for one in nights), key=lambda state: order.index(state.name)), nights)
            for day, nights in found.items()
        }
        for day in self.lost:
            days[day] = (STATES["red"], days[day][1] if day in days else [])
        return days

    @cached_property
    def red_since(self) -> SiteNight | None:
        """First of the nights in a row that are red, up to the last one; ``None`` if the last one is not. Parts end no row."""
        last = self.headline
        until = self.nights[: self.nights.index(last) + 1] if last else ()
        counted = [night for night in until if not night.withdrawn and not (night.options and last and not last.options)]
        red = list(itertools.takewhile(lambda night: night.state.name == "red", reversed(counted)))
        return red[-1] if red else None

    @cached_property
    def histories(self) -> list[SiteCase]:
        ran = self.cases.filter(~pl.col("outcome").is_in(NOT_RUN))
        found = []
        for key, part in ran.partition_by(CASE, as_dict=True, maintain_order=True).items():
            rows = part.select("session", "outcome", "case", "job_id", "nodelist").iter_rows()
            runs = [
                CaseRun(self.by_session[session], outcome, case, job or "", on or "")
                for session, outcome, case, job, on in rows
            ]
            last = part.row(-1, named=True)
            title = condition_text(last)
            test = str(last["name"]).split(" ")[0]
            of_metric = tuple(last[name] for name in _OF_METRIC)
            found.append(SiteCase(file_name((title, *key)), f"{test}: {title}", runs, of_metric))
        return sorted(found, key=lambda one: one.title)

    @cached_property
    def families(self) -> list[MetricFamily]:
        touched = [(event, rows_of(self.over, event)) for event in self.events]
        found = []
        for family, metrics in self.over.families():
            counts = [(event, int(np.isin(metrics["row"], changed).sum())) for event, changed in touched]
            found.append(MetricFamily(self, family, metrics, [(event, count) for event, count in counts if count]))
        return found

    @cached_property
    def case_files(self) -> dict[str, str]:
        return {run.case: one.file for one in self.histories for run in one.runs}

    @cached_property
    def _files_by_metric(self) -> dict[tuple[Any, ...], str]:
        return {one.of_metric: one.file for one in self.histories}

    def case_of_metric(self, row: Mapping[str, Any]) -> str:
        return self._files_by_metric.get(tuple(row[name] for name in _OF_METRIC), "")

    @cached_property
    def families_of_case(self) -> dict[str, list[Family]]:
        columns = list(dict.fromkeys((*_OF_METRIC, *Family._fields)))
        found: dict[str, list[Family]] = {}
        for row in self.over.metrics.select(columns).unique(maintain_order=True).to_dicts():
            found.setdefault(self.case_of_metric(row), []).append(Family(*(row[name] for name in Family._fields)))
        return found


def labels_of(nights: Sequence[SiteNight]) -> list[str]:
    """Labels of the series of a system: that of the nights first, then by their newest session."""
    newest = {night.run: night.started for night in nights if not is_confirming(night)}
    return sorted(newest, key=lambda run: (run != NIGHTLY, -newest[run].timestamp()))


def is_confirming(night: SiteNight) -> bool:
    return night.run.startswith(f"{CONFIRMS}=")
