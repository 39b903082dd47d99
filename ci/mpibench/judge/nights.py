"""Compares a night with earlier ones that measured the same, and applies the confirmation run of
what looks slower.

:func:`.engine.tonight` decides. If a later session measured a metric again (label
:data:`~mpibench.store.sessions.CONFIRMS`), its first proven value replaces the night's and is
judged in the same way by the same nights; only what is slower twice fails the night. Error rates:
:mod:`mpibench.store.confirmations`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from reframe_tests.harness.printable import plural
from reframe_tests.harness.vocabulary import BadInput

from .. import answers
from ..store import eligibility
from ..store.confirmations import (
    BUSY,
    FEWEST_LOADS,
    MORE_LOAD,
    NOT_MEASURED_AGAIN,
    NOT_SEEN_AGAIN,
    SEEN_TWICE,
    WORST_FIRST,
    MeasuredOn,
    named,
    withdrawn_first,
)
from ..store.quantity_text import change_text, changes_text, own_loss, with_own_loss
from ..store.session_values import (
    BAND,
    CONDITION,
    CURVE,
    LOST_CORES,
    METRIC,
    STRETCH,
    Selection,
    among,
    beside,
    not_among,
)
from ..store.store import Store, StoredNight
from . import comparison
from . import text as verdict_text
from .comparison import IMPROVED, INCONCLUSIVE, PASS, REGRESSED, SESSIONS, Judgement, Question
from .engine import FEWEST, GROSS, RowOutcome
from .history import ASKED_FACTS, FACTS, MEASURED, NO_HISTORY, Past, describe_facts, find_history
from .policy import Policy

#: In what a case that was measured again must agree with the
#: first: all but the label of its session.
_ALIKE = (*MEASURED, "name", *(fact.column for fact in FACTS if fact.column != "run"))


@dataclass(frozen=True)
class NightJudgement:
    """One session against those before it.

    :param again: of the called curves, compared with the same; ``None``
        where no session measured anything again.
    :param second: what was measured again.
    :param began: of metrics of too few nights, what they are
        against nights that measured otherwise.
    :param elsewhere: why a session that measured a condition again says
        nothing of it: other nodes, or it was withdrawn.
    """

    past: Past
    tonight: Selection
    first: Judgement
    policy: Policy
    again: Judgement | None = None
    second: Selection | None = None
    elsewhere: Mapping[tuple[Any, ...], str] = field(default_factory=dict)
    damaged: str = ""
    began: str = ""

    def called(self) -> pl.DataFrame:
        """Metrics that are slower, or represent a slower band: :data:`METRIC` and ``slower``."""
        return comparison.called(self.first).select(*METRIC, "slower")

    def held(self) -> pl.DataFrame:
        """What was judged and is not slower: :data:`CONDITION` and ``benchmark``."""
        keys = (*CONDITION, "benchmark")
        judged = self.first.metrics.filter(
            pl.col("units") == SESSIONS, pl.col("verdict").is_in([PASS, IMPROVED])
        )
        called = pl.concat(
            [
                table.filter(pl.col("verdict") == REGRESSED).select(keys)
                for table in (self.first.metrics, self.first.bands)
            ]
        )
        return not_among(judged.select(keys).unique(), called, keys)

    def measured_again(self, store: Store, cases: pl.DataFrame) -> NightJudgement:
        """The same with what sessions that measured again say.

        :param cases: of these sessions, oldest first (:func:`.confirmations.confirming`).
        """
        called = self.called()
        if not called.height or not cases.height:
            return self
        again, elsewhere = self._on_the_same(
            describe_facts(eligibility.split_cases(cases).eligible)
        )
        again = among(cases, again, "case")
        values = self.tonight.values.clear()
        damaged = ""
        try:
            values = store.values_of(self.tonight.system, again)[0] if again.height else values
        except BadInput as error:
            damaged = f"what was measured again is not used: {error}"
        # A zero is a repeat that failed, and its metric was not measured again.
        zeros = values.filter(pl.col("value") <= 0).select(METRIC).unique()
        values = _of_curves(not_among(values, zeros, METRIC), called)
        side = replace(
            self.tonight, values=values, zeros=values.clear(), cases=again, planned=again
        )
        before = replace(self.past, values=_of_curves(self.past.values, called)).as_side(
            self.tonight.system
        )
        second = comparison.judge(before, side, self.policy, asked=Question.NIGHT)
        return replace(self, again=second, second=side, elsewhere=elsewhere, damaged=damaged)

    def _on_the_same(self, again: pl.DataFrame) -> tuple[pl.DataFrame, dict[tuple[Any, ...], str]]:
        """The first measurement of each case on each of the nodes that
        measured it tonight; and why others are none.

        A case that several jobs measured on several nodes was measured
        again where all of these measured it.

        :param again: eligible cases of sessions that measured again, as
            :func:`.describe_facts` has them.
        """
        groups: dict[tuple[Any, ...], dict[MeasuredOn, dict[str, Any] | None]] = {}
        for row in describe_facts(self.tonight.cases).to_dicts():
            groups.setdefault(tuple(row[name] for name in _ALIKE), {})[MeasuredOn.of_row(row)] = (
                None
            )
        why: dict[tuple[Any, ...], str] = {}
        for row in again.sort("started", "session", "case").to_dicts():
            key = tuple(row[name] for name in _ALIKE)
            on = MeasuredOn.of_row(row)
            if not (wanted := groups.get(key)):
                continue
            if on in wanted and not on.unlike(on, ""):
                wanted[on] = wanted[on] or row
            else:
                why.setdefault(key, next(iter(wanted)).unlike(on, row["session"]))
        kept = []
        for key, wanted in groups.items():
            first = [row for row in wanted.values() if row]
            if gone := next((row for row in first if row["withdrawn"]), None):
                why[key] = withdrawn_first(gone["session"])
            elif len(first) == len(wanted):
                kept += [row["case"] for row in first]
                why.pop(key, None)
            elif first:
                others = (on.job or on.hosts for on, row in wanted.items() if not row)
                why[key] = (
                    f"no earlier session measured it on {named(next(others))}, which also measured "
                    "it tonight"
                )
        conditions = {key[: len(CONDITION)]: said for key, said in why.items() if said}
        return again.filter(pl.col("case").is_in(kept)), conditions

    def outcomes(self) -> dict[str, Judgement]:
        """What is called slower, by what came of measuring it again; by an
        empty word where nothing was measured again.

        What a busy machine slowed counts where it was slower again while ranks kept their cores,
        and where it is as busy as in most sessions before (:mod:`.confirmations`).
        """
        past = _busy(self.past.as_side(self.tonight.system)).filter(pl.col("usual"))
        more = pl.col("stretch") > MORE_LOAD * pl.col("stretch_before")
        busy = (
            beside(
                _busy(self.tonight).drop("usual"),
                past.select(*CURVE, "usual", stretch_before="stretch"),
                CURVE,
            )
            .filter(pl.col("usual").is_null() | more)
            .select(*CURVE, "busy")
        )
        again = self.again
        busy_again = None
        if again is not None and self.second is not None:
            busy_again = _busy(self.second).select(*CURVE, busy_again="busy")

        def with_outcome(table: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
            called = beside(table.filter(pl.col("verdict") == REGRESSED), busy, CURVE)
            # A value of nothing has no loss: other programs do not make it.
            called = called.with_columns(pl.col("busy") & pl.col("slower").is_not_null())
            if again is None or busy_again is None:
                unknown = pl.when(pl.col("busy")).then(pl.lit(BUSY)).otherwise(pl.lit(""))
                return called.with_columns(outcome=unknown).drop("busy")
            second = again.metrics if "message_bytes" in keys else again.bands
            second = second.select(*keys, second="verdict", rests="units", change="slower")
            # What rests on too few repeats is no measurement of a night; what could not be judged
            # is over where most of it is.
            known = pl.col("second").is_in([PASS, IMPROVED]) | (
                pl.col("change") < pl.col("slower") / 2
            )
            outcomes = (
                pl.when(pl.col("second") == REGRESSED, ~(pl.col("busy") & pl.col("busy_again")))
                .then(pl.lit(SEEN_TWICE))
                .when(pl.col("rests") == SESSIONS, known, pl.col("second") != REGRESSED)
                .then(pl.lit(NOT_SEEN_AGAIN))
                .when(pl.col("busy"))
                .then(pl.lit(BUSY))
                .otherwise(pl.lit(NOT_MEASURED_AGAIN))
            )
            joined = beside(beside(called, second, keys), busy_again, CURVE)
            flags = pl.col("busy", "busy_again").fill_null(False)
            joined = joined.with_columns(flags).with_columns(outcome=outcomes)
            return joined.drop("second", "rests", "change", "busy", "busy_again")

        tables = [with_outcome(self.first.metrics, METRIC), with_outcome(self.first.bands, BAND)]
        found = {}
        for outcome in ("", *WORST_FIRST):
            mine = pl.col("outcome") == outcome
            metrics, bands = (table.filter(mine).drop("outcome") for table in tables)
            if metrics.height or bands.height:
                found[outcome] = replace(self.first, metrics=metrics, bands=bands)
        return found

    def counts(self) -> answers.HistoryCounts:
        """How many metrics were compared with how many sessions, how many are slower, and which
        loss would have been reported.
        """
        rows = self.first.metrics.filter(pl.col("units") == SESSIONS)
        held, slower, faster = (
            rows.filter(pl.col("verdict") == word).height for word in (PASS, REGRESSED, IMPROVED)
        )
        metrics = self.tonight.measured.select(METRIC).unique().height
        sessions = self.session_counts()
        again = {
            name: part.metrics.height
            for name, part in self.outcomes().items()
            if name and part.metrics.height
        }
        known = ", ".join(f"{number} {name}" for name, number in again.items())
        judged = held + slower + faster
        before = f"{_sessions_text(sessions)} before"
        text = (
            f"{judged} of {plural(metrics, 'metric')} compared with {before}"
            if judged
            else f"nothing was compared with {before}"
        )
        if judged:
            text += f": {slower} slower{known and f' ({known})'}, {faster} faster"
        new = not_among(self.first.new, self.first.metrics, METRIC).height
        unknown = f"{plural(new, 'metric')} not judged: no earlier night" if new else ""
        sight = verdict_text.sight(rows)
        return answers.HistoryCounts(
            text="; ".join(filter(None, [text, sight, unknown])),
            seen=sight,
            judged=judged,
            metrics=metrics,
            sessions=sessions,
            slower=slower,
            faster=faster,
            blind=self.first.blind,
            again=again,
        )

    def session_counts(self, metrics: pl.DataFrame | None = None) -> tuple[int, int]:
        """How many sessions the metric with the fewest is compared with, and that with the most."""
        rows = self.first.metrics if metrics is None else _of_curves(self.first.metrics, metrics)
        counts = rows["sessions"].drop_nulls().to_list() or [0]
        return min(counts), max(counts)

    def unknown(self) -> list[str]:
        """How many sessions each stratum has, why others are not used, and what cannot be decided;
        empty if all are used.
        """
        strata = self.past.strata
        apart = tuple(stratum for stratum in strata if not stratum.enough or stratum.unlike)
        few = self.first.metrics.filter(pl.col("units") != SESSIONS).height
        minimum = self.policy.minimum_repeats
        seldom = (
            f"{plural(few, 'metric')} not compared with the sessions before: a night needs "
            f"{minimum} repeats (minimum_repeats of {self.policy.source}); measure with -S "
            f"repeats={max(minimum, 5)}"
        )
        return [
            *replace(self.past, strata=apart).sentences(),
            *filter(None, [self.began, seldom if few else "", self.damaged]),
        ]


def _busy(side: Selection) -> pl.DataFrame:
    """The curves of a side: whether ranks of all cases (``busy``), and of
    usually many (``usual``), often lost their cores; how much that stretched their time.
    """
    cases = side.cases.select("case", busy=LOST_CORES, stretch=STRETCH)
    rows = side.measured.select(*CURVE, "case").unique().join(cases, on="case")
    usual = (pl.len() >= FEWEST_LOADS) & (2 * pl.col("busy").sum() > pl.len())
    return rows.group_by(CURVE).agg(
        usual.alias("usual"), pl.col("busy").all(), pl.col("stretch").median()
    )


def _of_curves(values: pl.DataFrame, metrics: pl.DataFrame) -> pl.DataFrame:
    return among(values, metrics, CURVE)


def _sessions_text(counts: tuple[int, int]) -> str:
    least, most = counts
    return f"{least} to {most} sessions" if least != most else plural(least, "session")


def judge(night: StoredNight, policy: Policy, selector: str | None = None) -> NightJudgement | None:
    """Is this session one more of those before it that measured the same?
    ``None`` if it is not asked, or nothing can be.

    :raises BadInput: the selector cannot be read or selects nothing,
        or values of this session are damaged.
    """
    eligible = night.eligible
    if not eligible.height or selector == NO_HISTORY:
        return None
    store, system = night.store, night.system
    past = find_history(store, system, eligible, policy, selector=selector, counted=False)
    tonight = store.select(system, night.session)
    judgement = comparison.judge(past.as_side(system), tonight, policy, asked=Question.NIGHT)
    began = ""
    known = judgement.metrics.filter(pl.col("sessions") >= FEWEST).select(METRIC)
    young = not_among(tonight.values.select(METRIC).unique(), known, METRIC)
    young = young.filter(pl.Series(np.isfinite(policy.margins(young)), dtype=pl.Boolean))
    if young.height:
        # A gross loss is none of what somebody accepted.
        gross = tuple(level for level in policy.levels if level.slower_percent >= MOST_ACCEPTED)
        every = replace(policy, levels=gross)
        older = find_history(
            store, system, eligible, every, selector=selector, counted=False, facts=ASKED_FACTS
        )
        values = among(tonight.values, young, METRIC)
        judgement, began = _with_older(judgement, older, replace(tonight, values=values), policy)
    return NightJudgement(past, tonight, judgement, policy, began=began)


#: Percent from which on an accepted level may itself be a gross loss.
MOST_ACCEPTED = 40.0


def _with_older(
    first: Judgement, older: Past, tonight: Selection, policy: Policy
) -> tuple[Judgement, str]:
    """Metrics of too few nights, compared with nights of another MPI version, lock, placement or
    level: a gross loss is called.

    :param tonight: nothing but these metrics.

    :returns: the judgement with these, and what they are against such nights; empty without any.
    """
    if not older.values.height:
        return first, ""
    second = comparison.judge(older.as_side(tonight.system), tonight, policy, asked=Question.NIGHT)
    rows = second.metrics.filter(pl.col("ratio").is_not_null())
    # No more than those before it that measured as tonight.
    own = first.metrics.filter(pl.col("sessions") < FEWEST).select(*METRIC, own="sessions")
    rows = beside(rows, own, METRIC)
    rows = rows.filter(pl.col("sessions") > pl.col("own").fill_null(0)).drop("own")
    if not rows.height:
        return first, ""
    gross = (pl.col("verdict") == REGRESSED) & (pl.col("slower") > math.expm1(GROSS))
    rows = rows.with_columns(
        verdict=pl.when(gross).then(pl.lit(REGRESSED)).otherwise(pl.lit(INCONCLUSIVE)),
        why=pl.when(gross).then(pl.lit("")).otherwise(pl.lit(RowOutcome.TOO_FEW.value)),
    )
    others = not_among(first.metrics, rows, METRIC)
    sessions = _sessions_text(
        (int(rows.select(pl.min("sessions")).item()), int(rows.select(pl.max("sessions")).item()))
    )
    began = (
        f"{plural(rows.height, 'metric')} began anew: {changes_text(rows)} than in {sessions} "
        "before that measured differently; for these, only a gross loss is reported"
    )
    merged = pl.concat([others, rows.select(others.columns)]).sort(METRIC)
    return replace(
        first, metrics=merged, blind=first.blind or (second.blind and not first.metrics.height)
    ), began


def findings(judged: NightJudgement) -> list[answers.HistoryProblem]:
    """What is slower, by benchmark and condition: first what is confirmed or stays, worst first;
    last what was not confirmed and does not fail the night.
    """
    found = []
    keys = [*CONDITION, "benchmark", "quantity"]
    for outcome, called in judged.outcomes().items():
        worst = pl.concat(
            [called.metrics.select(*keys, "slower"), called.bands.select(*keys, "slower")]
        )
        order = (
            worst.group_by(keys)
            .agg(pl.max("slower"))
            .sort("slower", *keys, descending=True, nulls_last=False)
            .select(keys)
        )
        for row in order.iter_slices(1):
            metrics, bands = (among(table, row, keys) for table in (called.metrics, called.bands))
            part = replace(called, metrics=metrics, bands=bands)
            found.append(_finding(judged, outcome, part))
    return found


def _finding(judged: NightJudgement, outcome: Any, called: Judgement) -> answers.HistoryProblem:
    rows = called.metrics if called.metrics.height else called.bands
    first = rows.row(0, named=True)
    middle = rows.select(pl.median("slower")).item()
    second = None
    if judged.again is not None and outcome != NOT_MEASURED_AGAIN:
        of_metrics = among(judged.again.metrics, called.metrics, METRIC).drop_nulls("slower")
        of_bands = among(judged.again.bands, called.bands, BAND).drop_nulls("slower")
        known = of_metrics if of_metrics.height else of_bands
        second = known.select(pl.median("slower")).item()
    counts = judged.session_counts(
        pl.concat([called.metrics.select(CURVE), called.bands.select(CURVE)])
    )
    sessions = _sessions_text(counts)
    sentences = "; ".join(
        said.text if said.verdict == REGRESSED else str(said)
        for said in verdict_text.sentences(called)
    )
    elsewhere = (
        judged.elsewhere.get(tuple(first[name] for name in CONDITION), "")
        if outcome == NOT_MEASURED_AGAIN
        else ""
    )
    measured = "" if second is None else f"measured again {change_text(second, first['quantity'])}"
    again = ", ".join(
        filter(None, [outcome, "machine busy" if outcome == BUSY else "", measured, elsewhere])
    )
    bands = [band for band in judged.policy.bands_bytes if band in set(rows["band"])]
    where = "all" if len(bands) == len(judged.policy.bands_bytes) else " and ".join(bands)
    what = f"{first['benchmark']} {verdict_text.quantity_text(first['quantity'])}, {where} messages"
    change = (
        str(first["why"])
        if middle is None
        else f"{change_text(middle, first['quantity'])} than {sessions} before"
    )
    shown = ("suite", "variant", "ranks", "groups", "slower", "ratio", "seen_percent")
    return answers.HistoryProblem(
        **{name: first[name] for name in (*CONDITION, "benchmark", "quantity")},
        outcome=outcome,
        slower=None if middle is None else own_loss(middle, first["quantity"]),
        slower_again=None if second is None else own_loss(second, first["quantity"]),
        sessions=counts,
        metrics=[
            answers.SlowerPart(**row)
            for row in with_own_loss(called.metrics).select(*shown, "message_bytes").to_dicts()
        ],
        bands=[
            answers.SlowerPart(**row)
            for row in with_own_loss(called.bands).select(*shown, "band").to_dicts()
        ],
        text=f"{'' if outcome == BUSY else 'history: '}{sentences}, compared with {sessions} "
        f"before{again and f'; {again}'}",
        loss=f"{change} ({what}){again and f'; {again}'}",
        finding=f"{first['stack']} on {first['fabric']}: {change} ({what})",
    )
