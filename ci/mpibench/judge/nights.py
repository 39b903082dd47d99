"""A night against the nights before it that measured the same, and what measuring again says of what is called slower.

Called is what the prediction interval of the sessions before makes improbable (:mod:`.comparison`). Where a session measured it
again afterwards (label :data:`~mpibench.store.sessions.CONFIRMS`), the first value with proof is held against the same sessions
by the same decision, with nothing but the called curves; only what is called slower twice is held against the night. Error
rates: :mod:`mpibench.store.confirmations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from reframe_tests.harness.vocabulary import BadInput

from ..store import eligibility
from ..store.confirmations import NOT_MEASURED_AGAIN, NOT_SEEN_AGAIN, SEEN_TWICE, MeasuredOn, named, withdrawn_first
from ..store.session_values import BAND, CONDITION, CURVE, METRIC, Selection
from ..store.store import Store
from . import comparison
from . import text as verdict_text
from .comparison import Judgement
from .curve_tests import IMPROVED, MISSING, REGRESSED, SESSIONS
from .history import FACTS, MEASURED, NO_HISTORY, SHARED, Past, describe_facts, find_history
from .policy import Policy
from .statistics.prediction import FEWEST_SESSIONS

#: In what a case that was measured again must agree with the first: all but the label of its session.
_ALIKE = (*MEASURED, "name", *(fact.column for fact in FACTS if fact.column != "run"))
#: Of each metric, and of each band, that is called, for programs.
_SHOWN_METRIC = ("suite", "variant", "ranks", "groups", "message_bytes", "slower", "ratio", "low", "high")
_SHOWN_BAND = ("suite", "variant", "ranks", "groups", "band", "slower", "ratio", "low", "high")


@dataclass(frozen=True)
class NightJudgement:
    """One session against those before it.

    :param values: of these, what enough of them measured.
    :param again: of the called curves, held against the same; ``None`` where no session measured anything again.
    :param elsewhere: why a session that measured a condition again says nothing of it: other nodes, or it was withdrawn.
    :param damaged: why what was measured again cannot be read.
    """

    past: Past
    values: pl.DataFrame
    tonight: Selection
    first: Judgement
    policy: Policy
    again: Judgement | None = None
    elsewhere: Mapping[tuple[Any, ...], str] = field(default_factory=dict)
    damaged: str = ""

    def called(self) -> pl.DataFrame:
        """Metrics that are called slower, or stand for a band that is: :data:`METRIC` and ``slower``."""
        rows = comparison.called(self.first, self._side(self.values), self.tonight)
        return rows.filter(pl.col("verdict") == REGRESSED).select(*METRIC, "slower")

    def _side(self, values: pl.DataFrame) -> Selection:
        return replace(self.past, values=values).as_side(self.tonight.system)

    def measured_again(self, store: Store, cases: pl.DataFrame) -> NightJudgement:
        """The same with what sessions that measured again say.

        :param cases: of these sessions, oldest first (:func:`.confirmations.confirming`).
        """
        called = self.called()
        if not called.height or not cases.height:
            return self
        again, elsewhere = self._on_the_same(describe_facts(eligibility.split_cases(cases).eligible))
        again = cases.join(again, on="case", how="semi")
        values, damaged = self.tonight.values.clear(), ""
        try:
            values = store.values_of(self.tonight.system, again)[0] if again.height else values
        except BadInput as error:
            damaged = f"what was measured again is not used: {error}"
        # A zero is a repeat that failed, and its metric was not measured again.
        zeros = values.filter(pl.col("value") <= 0).select(METRIC).unique()
        values = _of_curves(values.join(zeros, on=METRIC, how="anti", nulls_equal=True), called)
        side = replace(self.tonight, values=values, zeros=values.clear(), cases=again, planned=again)
        second = comparison.judge(self._side(_of_curves(self.values, called)), side, self.policy)
        return replace(self, again=second, elsewhere=elsewhere, damaged=damaged)

    def _on_the_same(self, again: pl.DataFrame) -> tuple[pl.DataFrame, dict[tuple[Any, ...], str]]:
        """The first measurement of each case on each of the nodes that measured it tonight; and why others are none.

        A case that several jobs measured on several nodes was measured again where all of these measured it.

        :param again: eligible cases of sessions that measured again, as :func:`.describe_facts` has them.
        """
        groups: dict[tuple[Any, ...], dict[MeasuredOn, dict[str, Any] | None]] = {}
        for row in describe_facts(self.tonight.cases).to_dicts():
            groups.setdefault(tuple(row[name] for name in _ALIKE), {})[MeasuredOn.of_row(row)] = None
        why: dict[tuple[Any, ...], str] = {}
        for row in again.sort("started", "session", "case").to_dicts():
            key, on = tuple(row[name] for name in _ALIKE), MeasuredOn.of_row(row)
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
                why[key] = f"nothing measured it on {named(next(others))}, which measured it tonight, too"
        conditions = {key[: len(CONDITION)]: said for key, said in why.items() if said}
        return again.filter(pl.col("case").is_in(kept)), conditions

    def outcomes(self) -> dict[str, Judgement]:
        """What is called slower, by what came of measuring it again; by an empty word where nothing was measured again."""
        parts = {}
        for name, keys in (("metrics", METRIC), ("bands", BAND)):
            called = getattr(self.first, name).filter(pl.col("verdict") == REGRESSED)
            if self.again is None:
                parts[name] = called.with_columns(outcome=pl.lit(""))
                continue
            second = getattr(self.again, name).select(*keys, second="verdict", rests="units")
            # What rests on too few repeats is no measurement of a night.
            outcomes = (
                pl.when(pl.col("second") == REGRESSED)
                .then(pl.lit(SEEN_TWICE))
                .when(pl.col("rests") == SESSIONS, pl.col("second") != MISSING)
                .then(pl.lit(NOT_SEEN_AGAIN))
                .otherwise(pl.lit(NOT_MEASURED_AGAIN))
            )
            joined = called.join(second, on=keys, how="left", nulls_equal=True, maintain_order="left")
            parts[name] = joined.with_columns(outcome=outcomes).drop("second", "rests")
        found = {}
        for outcome in ("", SEEN_TWICE, NOT_MEASURED_AGAIN, NOT_SEEN_AGAIN):
            rows = {name: part.filter(pl.col("outcome") == outcome).drop("outcome") for name, part in parts.items()}
            if any(part.height for part in rows.values()):
                found[outcome] = replace(self.first, metrics=rows["metrics"], bands=rows["bands"])
        return found

    def second(self, part: Judgement) -> float | None:
        """The change for the worse of the second measurement of what was called, a fraction; ``None`` where it has none."""
        if self.again is None:
            return None
        rows = [
            getattr(self.again, name).join(getattr(part, name), on=keys, how="semi", nulls_equal=True).drop_nulls("slower")
            for name, keys in (("metrics", METRIC), ("bands", BAND))
        ]
        middle: float | None = (rows[0] if rows[0].height else rows[1]).select(pl.median("slower")).item()
        return middle

    def numbers(self) -> dict[str, Any]:
        """How many metrics were held against how many sessions, how many were called, and what came of measuring again."""
        rows = self.first.metrics
        judged = rows.filter((pl.col("units") == SESSIONS) | (pl.col("verdict") == REGRESSED))
        slower, faster = (judged.filter(pl.col("verdict") == verdict).height for verdict in (REGRESSED, IMPROVED))
        return {
            "judged": judged.height,
            "metrics": self.tonight.measured.select(METRIC).unique().height,
            "sessions": self.session_counts(),
            "slower": slower,
            "faster": faster,
            "again": {name: one.metrics.height for name, one in self.outcomes().items() if name and one.metrics.height},
        }

    @property
    def counts(self) -> str:
        """:meth:`numbers` in words."""
        count = self.numbers()
        known = ", ".join(f"{number} {name}" for name, number in count["again"].items())
        slower = f"{count['slower']} slower" + (f" ({known})" if known else "")
        held = f"{count['judged']} of {count['metrics']} metrics held against {_sessions_text(count['sessions'])} before"
        return f"{held}: {slower}, {count['faster']} faster"

    def session_counts(self, metrics: pl.DataFrame | None = None) -> tuple[int, int]:
        """How many sessions there are of the metric with the fewest, and of that with the most."""
        values = self.values if metrics is None else _of_curves(self.values, metrics)
        counts = values.group_by(CURVE).agg(pl.col("session").n_unique())["session"].to_list() or [0]
        return min(counts), max(counts)

    def unknown(self) -> list[str]:
        """How many sessions of which stratum there are, why others are not used, what these cannot tell; empty: all are."""
        past = self.past
        short = tuple(one for one in past.strata if not one.enough)
        apart = tuple(one for one in past.strata if one.enough and one.unlike)
        keys = pl.DataFrame([(one.partition, one.stack, one.fabric) for one in short], schema=list(SHARED), orient="row")
        values = past.values.join(keys, on=SHARED, how="semi") if short else past.values.clear()
        reach = verdict_text.reach_sentence(values, self.policy)
        few, minimum = self.first.metrics.filter(pl.col("units") != SESSIONS).height, self.policy.minimum_repeats
        seldom = (
            f"{few} metrics were not held against the sessions before: a night needs {minimum} repeats (minimum_repeats of "
            f"{self.policy.source}); measure with -S repeats={max(minimum, 5)}"
        )
        said = [reach, seldom if few else "", self.damaged]
        return [*replace(past, strata=short + apart).sentences(), *filter(None, said)]


def _of_curves(values: pl.DataFrame, metrics: pl.DataFrame) -> pl.DataFrame:
    return values.join(metrics, on=CURVE, how="semi", nulls_equal=True)


def _sessions_text(counts: tuple[int, int]) -> str:
    least, most = counts
    return f"{least} to {most} sessions" if least != most else f"{least} session{'s'[: least != 1]}"


def judge(
    store: Store, system: str, session: str, cases: pl.DataFrame, policy: Policy, selector: str | None = None
) -> NightJudgement | None:
    """Is this session one more of those before it that measured the same? ``None`` where it is not asked, or nothing can be.

    :raises BadInput: the selector cannot be read or selects nothing, or values of this session are damaged.
    """
    eligible = eligibility.split_cases(cases).eligible
    if not eligible.height or selector == NO_HISTORY:
        return None
    past = find_history(store, system, eligible, policy, selector=selector, counted=False)
    tonight = store.select(system, session)
    # A metric of fewer sessions has no prediction interval, and repeats are none for nights.
    long = past.values.filter(pl.col("session").n_unique().over(CURVE) >= FEWEST_SESSIONS)
    judgement = comparison.judge(replace(past, values=long).as_side(system), tonight, policy)
    return NightJudgement(past, long, tonight, judgement, policy)


@dataclass(frozen=True)
class NightFinding:
    """What was called of one benchmark under one condition.

    :param outcome: of measuring it again; empty where nothing was measured again.
    :param text: a sentence; ``short``: the same for a headline.
    :param facts: the same in names and numbers, as :class:`..answers.Gate` lists them.
    """

    outcome: str
    text: str
    short: str
    facts: Mapping[str, Any]

    @property
    def held(self) -> bool:
        """Whether it is held against the night."""
        return self.outcome != NOT_SEEN_AGAIN


def findings(judged: NightJudgement) -> list[NightFinding]:
    """What was called: what stays or was seen twice first, in each the worst first; what was not seen again last."""
    return [_finding(judged, outcome, part) for outcome, whole in judged.outcomes().items() for part in _by_benchmark(whole)]


def _finding(judged: NightJudgement, outcome: str, part: Judgement) -> NightFinding:
    rows = part.metrics if part.metrics.height else part.bands
    first, middle = rows.row(0, named=True), rows.select(pl.median("slower")).item()
    second = judged.second(part) if outcome != NOT_MEASURED_AGAIN else None
    counts = judged.session_counts(pl.concat([part.metrics.select(CURVE), part.bands.select(CURVE)]))
    sessions = _sessions_text(counts)
    said = "; ".join(line.removeprefix(f"{REGRESSED}: ") for line in verdict_text.sentences(part))
    elsewhere = judged.elsewhere.get(tuple(first[name] for name in CONDITION), "") if outcome == NOT_MEASURED_AGAIN else ""
    known = "" if second is None else f"measured again {verdict_text.change_text(second)}"
    again = ", ".join(filter(None, [outcome, known, elsewhere]))
    bands = [band for band in judged.policy.bands_bytes if band in set(rows["band"])]
    where = "all" if len(bands) == len(judged.policy.bands_bytes) else " and ".join(bands)
    what = f"{first['benchmark']} {verdict_text.quantity_text(first['quantity'])}, {where} messages"
    change = str(first["why"]) if middle is None else f"{verdict_text.change_text(middle)} than {sessions} before"
    return NightFinding(
        outcome,
        f"{said}, held against {sessions} before{again and f'; {again}'}",
        f"{first['stack']} on {first['fabric']}: {change} ({what})",
        {
            **{name: first[name] for name in (*CONDITION, "benchmark", "quantity")},
            "outcome": outcome,
            "slower": middle,
            "slower_again": second,
            "sessions": counts,
            "metrics": part.metrics.select(_SHOWN_METRIC).to_dicts(),
            "bands": part.bands.select(_SHOWN_BAND).to_dicts(),
        },
    )


def _by_benchmark(called: Judgement) -> list[Judgement]:
    """Parts of what was called of which each is one sentence, the worst first."""
    keys = [*CONDITION, "benchmark", "quantity"]
    worst = pl.concat([called.metrics.select(*keys, "slower"), called.bands.select(*keys, "slower")])
    order = worst.group_by(keys).agg(pl.max("slower")).sort("slower", *keys, descending=True, nulls_last=False).select(keys)
    parts = []
    for one in order.iter_slices(1):
        metrics, bands = (rows.join(one, on=keys, how="semi", nulls_equal=True) for rows in (called.metrics, called.bands))
        parts.append(replace(called, metrics=metrics, bands=bands))
    return parts
