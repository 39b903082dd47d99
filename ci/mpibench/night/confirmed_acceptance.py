"""An acceptance whose refusals were measured again: refused is what both measurements call slower.

What was called is held against the same baseline by the same decision a second time, with the values of the new jobs only and
nothing but the called curves. A metric (or a band none of whose metrics was called) then is

seen twice
    regressed again: it stays regressed;
not seen again
    its second verdict, whatever that is, becomes its verdict: pass, improved, or inconclusive where the new job cannot tell;
not measured again
    it stays regressed: no room in the budget, a case that is gone, failed or did not prove its condition, a signal.

Error rates. Let one comparison refuse an unchanged machine with probability f and find a slowdown with probability p. As far as
the two candidates are independent, both call with f² and p² (p 0.99: 0.98; 0.8: 0.64). They share the baseline: of n sessions
its error is 1 / (n + 1) of the variance of each comparison's error, which is the correlation of the two. With 15 sessions that
is 0.06 and the product nearly holds; with one it is 0.5, and a baseline that happened to be fast refuses twice. What lasts
longer than both jobs is shared likewise. Judged again are only the called curves, each among fewer and at the same level: that
helps p. On the noise of ``ci/tests/data/golden_noise`` at a spread of 1 % one job against one with jobs 5 % slower is refused
at once in 80 % of draws on eth1g and twice in 71 % (p²: 64 %), unchanged in none (400 draws, ± 5). ``python -m
studies.error_rates`` gives both (``confirmed_refused_percent``, ``confirmed_found_percent``) for a site's own history.

**What one session leaves inconclusive** although it is slower than the margin and than every night of the history is measured
again until its sessions can tell. The prediction interval of a history is widened by what its own nights did to it
(:func:`mpibench.judge.statistics.prediction.widening`); one odd night among few widens it so much that no number of sessions is
called. What still holds is that sessions are exchangeable as long as nothing has changed: **all k later sessions are slower
than all n nights with probability** ``1 / C(n + k, k)``, whatever the noise is (the extreme rank sum of H. B. Mann and D. R.
Whitney, Annals of Mathematical Statistics 18 (1947) 50-60). Of m metrics and bands that were looked at and r that are still
slower in every session, the fewest k with ``C(n + k, k) >= m / (r * rate)`` decide, with the policy's false discovery rate
(:func:`sessions_wanted`; of 50 all, or one alone: 4 or 12 sessions against 5 nights, 3 or 7 against 8, 2 or 5 against 15, 2 or
3 against 30). Regressed is what was slower in each of them than in every night while the fresh ones alone are, by their median,
slower than the margin. Otherwise all sessions together are judged as one candidate, and that verdict counts, unless it is
regressed: then it stays inconclusive, since nothing is refused by another rule than this one.

Where nothing has changed this refuses with at most the policy's rate, however the metrics depend on one another and whenever
the measuring ends: ``C(n + k, k)`` for as long as all k are slower, and 0 afterwards, is on average 1 after each session, so
that its mean over the m ever exceeds ``1 / rate`` with a probability of at most ``rate`` (J. Ville, Étude critique de la notion
de collectif, 1939; of some of many: R. Wang, A. Ramdas, J. R. Stat. Soc. B 84 (2022) 822-852). What lasts longer than all k
sessions, such as an hour's traffic of somebody else, makes them no exchangeable sessions and is refused.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ..judge import comparison, curve_tests
from ..judge import text as verdict_text
from ..judge.accept import Acceptance, Confirmation
from ..judge.comparison import Judgement
from ..judge.curve_tests import INCONCLUSIVE, MISSING, REGRESSED, SESSIONS, SIZE
from ..judge.history import SHARED
from ..judge.policy import Policy
from ..judge.statistics.prediction import FEWEST_SESSIONS
from ..store import confirmations
from ..store.confirmations import NOT_MEASURED_AGAIN, NOT_SEEN_AGAIN, SEEN_TWICE, MissedReference
from ..store.quantity_text import change_text, own_loss
from ..store.session_values import BAND, CONDITION, CURVE, METRIC, Selection, describe_condition, slowness
from ..store.sessions import PAIRED
from ..store.store import Store
from . import remeasuring, supervision
from .remeasuring import CalledCase, Remeasured, Workspace, of_checks, of_metrics, worst_first

#: For the record.
RULE = "Refused is what both measurements call slower: that of the candidate, and that of a fresh job afterwards."
INCONCLUSIVE_RULE = (
    "What one session leaves inconclusive is refused if each of the candidate's sessions is slower than every night of its "
    "history, and the fresh ones are slower than the margin. There are so many that, of all metrics and bands, as many are "
    "slower in all of them at most at the false discovery rate, if nothing has changed."
)
#: Of each measurement in the record.
_SHOWN = ("verdict", "slower", "ratio", "low", "high", "units", "baseline", "candidate", "unit")
#: What became of something inconclusive.
SLOWER_IN_ALL, JUDGED_TOGETHER, TOO_FEW = "slower in every session", "judged together", "too few sessions"

Key = tuple[object, ...]


def _key(row: Mapping[str, Any], keys: Sequence[str]) -> Key:
    return tuple(row[name] for name in keys)


def sessions_wanted(nights: int, rate: float, share: float) -> int:
    """Sessions that are all slower than all nights, in this share of what is looked at, by chance at most at this rate."""
    count = 2
    while math.comb(nights + count, count) * rate * share < 1:
        count += 1
    return count


@dataclass(frozen=True)
class Inconclusive:
    """One metric or band that the first judgement left inconclusive.

    :param row: of that judgement.
    :param keys: :data:`METRIC` or :data:`BAND`.
    :param nights: slowness (log) in each night of the history.
    :param sessions: slowness in each session of the candidate, in order: ``first`` of them the first judgement knew.
    :param tests: metrics and bands that it is one of.
    :param needed: sessions that bring the probability down.
    :param why: why some of it was not measured again.
    """

    row: Mapping[str, Any]
    keys: tuple[str, ...]
    nights: tuple[float, ...]
    sessions: tuple[float, ...]
    first: int
    tests: int
    needed: int = 2
    why: str = ""

    @property
    def key(self) -> Key:
        return _key(self.row, self.keys)

    @property
    def wanted(self) -> int:
        """Sessions that decide: at least one of them fresh."""
        return max(self.needed, self.first + 1)

    @property
    def measured_again(self) -> bool:
        return len(self.sessions) > self.first

    @property
    def slower_in_all(self) -> bool:
        """Each session so far is slower than every night."""
        return bool(self.sessions) and min(self.sessions) > max(self.nights)

    @property
    def wants_more(self) -> bool:
        """Another session could decide it."""
        return self.slower_in_all and len(self.sessions) < self.wanted

    @property
    def regressed(self) -> bool:
        if not self.slower_in_all or len(self.sessions) < self.wanted:
            return False
        return statistics.median(self.sessions[self.first :]) - statistics.median(self.nights) >= self.margin

    @property
    def margin(self) -> float:
        """As a change for the worse in log: of a value that sank by 4 % the inverse, 1 / 0.96."""
        share = self.row["margin_percent"] / 100
        return -math.log1p(-share) if self.row["ratio"] < 1 else math.log1p(share)

    @property
    def outcome(self) -> str:
        return SLOWER_IN_ALL if self.regressed else TOO_FEW if self.wants_more else JUDGED_TOGETHER

    def percents(self, values: Sequence[float]) -> list[float]:
        """How much worse these are than the median night (:func:`own_loss`)."""
        middle, quantity = statistics.median(self.nights), self.row["quantity"]
        return [100 * own_loss(math.expm1(value - middle), quantity) for value in values]

    def text(self) -> str:
        """What was measured in words."""
        changes = ", ".join(f"{percent:+.1f} %" for percent in self.percents(self.sessions))
        [slowest] = self.percents([max(self.nights)])
        count = f"{len(self.sessions)} session{'s' if self.sessions[1:] else ''}"
        measured = f"{self.outcome}: {changes} in {count}, the slowest of {len(self.nights)} nights {slowest:+.1f} %"
        more = f"{self.wanted} would decide" if self.wants_more else ""
        return "; ".join(filter(None, [measured, more, self.why]))

    def line(self) -> str:
        """One sentence that names it."""
        is_size = "message_bytes" in self.row
        at = f"at {verdict_text.size_text(self.row['message_bytes'])}" if is_size else f"in {self.row['band']} messages"
        return f"inconclusive at first, {describe_condition(self.row)}: {self.row['benchmark']} {at}: {self.text()}"

    def as_dict(self) -> dict[str, Any]:
        """For the record."""
        return {
            **{name: self.row[name] for name in CURVE},
            "level": SIZE if self.keys == METRIC else curve_tests.BAND,
            "message_bytes": self.row.get("message_bytes"),
            "band": self.row["band"],
            "why": self.why,
            "outcome": self.outcome,
            "wanted_sessions": self.wanted,
            "session_percents": self.percents(self.sessions),
            "night_percents": self.percents(self.nights),
        }


def find_inconclusive(first: Acceptance) -> list[Inconclusive]:
    """What the first judgement left inconclusive and more sessions may decide, the slowest first."""
    levels = [
        (keys, rows.filter(pl.col("units") == SESSIONS))
        for keys, rows in ((METRIC, first.judgement.metrics), (BAND, first.judgement.bands))
    ]
    tests = sum(rows.height for _, rows in levels)
    found = []
    for keys, rows in levels:
        open_rows = rows.filter(pl.col("verdict") == INCONCLUSIVE, pl.col("slower") > 0)
        if not open_rows.height:
            continue
        nights, own = (_levels(values, keys, open_rows, first.policy) for values in (_history(first), first.candidate.values))
        for row in open_rows.to_dicts():
            before, now = (tuple(side.get(_key(row, keys), {}).values()) for side in (nights, own))
            if len(before) < FEWEST_SESSIONS:  # of this size, though the curve has a history
                continue
            pair = Inconclusive(row, keys, before, now, len(now), tests)
            if pair.slower_in_all and math.log1p(row["slower"]) >= pair.margin:
                found.append(pair)
    return _with_needed(sorted(found, key=lambda one: -one.row["slower"]), first.policy)


def _with_needed(found: Sequence[Inconclusive], policy: Policy) -> list[Inconclusive]:
    """The same with the sessions that each needs beside those that have been slower for as long."""
    rate = policy.false_discovery_rate
    lasting = [math.comb(len(pair.nights) + len(pair.sessions), len(pair.sessions)) * pair.slower_in_all for pair in found]
    shares = [sum(own <= other for other in lasting) / pair.tests for pair, own in zip(found, lasting, strict=True)]
    return [
        replace(pair, needed=sessions_wanted(len(pair.nights), rate, share)) for pair, share in zip(found, shares, strict=True)
    ]


def _curves(first: Acceptance, inconclusive: Iterable[Inconclusive]) -> pl.DataFrame:
    """The curves they lie on."""
    rows = list(dict.fromkeys(_key(pair.row, CURVE) for pair in inconclusive))
    return pl.DataFrame(rows, schema={name: first.candidate.values.schema[name] for name in CURVE}, orient="row")


def inconclusive_cases(first: Acceptance, inconclusive: Sequence[Inconclusive]) -> list[CalledCase]:
    """The candidate's cases that measured them, the worst first."""
    slower: dict[Key, float] = {}
    for pair in inconclusive:
        key = _key(pair.row, CURVE)
        slower[key] = max(pair.row["slower"], slower.get(key, 0.0))
    metrics = first.candidate.values.join(_curves(first, inconclusive), on=CURVE, how="semi", nulls_equal=True)
    metrics = metrics.select(METRIC).unique()
    changes = pl.Series("slower", [slower[row[: len(CURVE)]] for row in metrics.iter_rows()], dtype=pl.Float64)
    return of_metrics(first.candidate, metrics.with_columns(changes))[0]


def _history(first: Acceptance) -> pl.DataFrame:
    """Values of the nights the first judgement held the candidate against."""
    own, past = first.baseline.values, first.past.values
    unlike = pl.DataFrame(list(first.judgement.unlike_past), schema=dict.fromkeys(SHARED, pl.String), orient="row")
    alike = past.join(unlike, on=SHARED, how="anti", nulls_equal=True)
    return pl.concat([alike.select(own.columns), own])


def _levels(values: pl.DataFrame, keys: Sequence[str], wanted: pl.DataFrame, policy: Policy) -> dict[Key, dict[object, float]]:
    """Slowness (log) of each metric or band in each session, oldest first; of a band the mean of its sizes.

    A session that lacks a size of a band has no value of the band.
    """
    held = values.join(wanted.select(CURVE).unique(), on=CURVE, how="semi", nulls_equal=True)
    bands = pl.Series([policy.band(size) for size in held["message_bytes"]], dtype=pl.String)
    table = held.with_columns(slowness(held), bands.alias("band"))
    # The median of a job's repeats, the mean of a session's jobs, the mean of a band's sizes.
    for by, middle in (
        ((*METRIC, "band", "session", "case"), pl.col("slowness").median()),
        ((*METRIC, "band", "session"), pl.col("slowness").mean()),
        ((*keys, "session"), pl.col("slowness").mean()),
    ):
        table = table.group_by(by, maintain_order=True).agg(middle, pl.col("started").min(), sizes=pl.len())
    table = table.join(wanted.select(*keys).unique(), on=keys, how="semi", nulls_equal=True)
    table = table.filter(pl.col("sizes") == pl.col("sizes").max().over(*keys)).sort("started", "session")
    found: dict[Key, dict[object, float]] = {}
    for row in table.to_dicts():
        found.setdefault(_key(row, keys), {})[row["session"]] = row["slowness"]
    return found


def inconclusive_after(first: Acceptance, store: Store, rounds: Sequence[Remeasured]) -> list[Inconclusive]:
    """What the first judgement left inconclusive, with what was measured again of it."""
    found = find_inconclusive(first)
    fresh = _values_again(first, store, rounds, _curves(first, found)) if found else None
    if fresh is not None:
        history = _history(first)
        # A band is the mean of its sizes: of those that the nights have, and of all of them.
        known = fresh.values.select(history.columns).join(history, on=METRIC, how="semi", nulls_equal=True)
        new, longer = set(fresh.values["session"]), []
        for pair in found:
            schema = {name: fresh.values.schema.get(name, pl.String()) for name in pair.keys}
            wanted = pl.DataFrame([pair.key], schema=schema, orient="row")
            levels = _levels(pl.concat([history, known]), pair.keys, wanted, first.policy).get(pair.key, {})
            again = (value for session, value in levels.items() if session in new)
            longer.append(replace(pair, sessions=(*pair.sessions, *again)))
        found = _with_needed(longer, first.policy)
    # Why its case was not measured in the last round that was to.
    left = [again.left for again in reversed(rounds)]
    cases = [inconclusive_cases(first, [pair]) for pair in found]
    whys = [next((reasons[case] for reasons in left for case in own if case in reasons), "") for own in cases]
    return [replace(pair, why=why) for pair, why in zip(found, whys, strict=True)]


def called_metrics(acceptance: Acceptance) -> pl.DataFrame:
    """Metrics that are called slower, or stand for a band that is: :data:`METRIC` and ``slower``."""
    return comparison.called(acceptance.judgement).select(*METRIC, "slower")


def called_cases(acceptance: Acceptance) -> list[CalledCase]:
    """The candidate's cases that measured them, the worst first."""
    return of_metrics(acceptance.candidate, called_metrics(acceptance))[0]


def cases_to_measure(acceptance: Acceptance) -> list[CalledCase]:
    """Those, the ones that missed a reference, and the ones that measured what another session may decide."""
    open_ = inconclusive_cases(acceptance, find_inconclusive(acceptance))
    return worst_first([*called_cases(acceptance), *of_checks(acceptance.candidate.system, acceptance.references), *open_])


def measure(
    first: Acceptance,
    place: Workspace,
    minutes: float,
    say: Callable[[str], None],
    show: Callable[[str], bool] = lambda line: True,
) -> list[Remeasured]:
    """Measure :func:`cases_to_measure` again: all of them once, and the inconclusive ones until their sessions can tell.

    A signal ends it wherever it comes, and what was measured until then is kept.

    :param minutes: of all of it together.
    :raises BadInput: as :func:`.remeasuring.measure_again`.
    """
    began, called = time.monotonic(), cases_to_measure(first)
    rounds: list[Remeasured] = []
    try:
        with supervision.heeded():
            rounds.append(remeasuring.measure_again(called, place, minutes, say, show))
            while not rounds[-1].stopped:
                place.store.reread()
                # A session that lacks what it was measured for brings nobody nearer to a decision.
                wanting = [
                    pair
                    for pair in inconclusive_after(first, place.store, rounds)
                    if pair.wants_more and len(rounds) < pair.wanted - pair.first
                ]
                cases = [case for case in inconclusive_cases(first, wanting) if case in rounds[-1].measured]
                rest = minutes - (time.monotonic() - began) / 60
                if not cases or rest <= 0:
                    break
                folder = place.folder.with_name(f"{place.folder.name}-{len(rounds) + 1}")
                rounds.append(remeasuring.measure_again(cases, replace(place, folder=folder), rest, say, show))
    except supervision.Interrupted as signal:  # while nothing was measured
        ended = dict.fromkeys(called, f"interrupted by {signal.name}")
        rounds = rounds or [Remeasured(tuple(called), minutes, left=ended)]
        rounds[-1].stopped = signal
    return rounds


@dataclass(frozen=True)
class _Called:
    """One metric or band that was called, with both measurements.

    :param row: of the first judgement; ``again`` of the second, if there is one.
    :param why: why it was not measured again.
    """

    row: Mapping[str, Any]
    outcome: str
    again: Mapping[str, Any] | None
    why: str = ""

    def text(self) -> str:
        """The other measurement in words, beside the one that decides."""
        if self.again is None:
            return f"{self.outcome}: {self.why}"
        other, name = (self.again, "again") if self.outcome == SEEN_TWICE else (self.row, "first")
        return f"{self.outcome}: {name} {_change([other])}"

    def as_dict(self, keys: Sequence[str]) -> dict[str, Any]:
        """For the record: its keys, ``outcome``, ``why``, and what both measurements said."""
        sides = {"first": self.row, "again": self.again or {}}
        shown = {side: {name: row.get(name) for name in _SHOWN} for side, row in sides.items()}
        for side in shown.values():
            if side["slower"] is not None:
                side["slower"] = own_loss(side["slower"], self.row["quantity"])
        return {**{name: self.row[name] for name in keys}, "outcome": self.outcome, "why": self.why, **shown}


def confirm(first: Acceptance, store: Store, rounds: Sequence[Remeasured]) -> Acceptance:
    """The acceptance after what was measured again.

    :param store: holds the new sessions.
    :param rounds: of :func:`measure`; the first decides what was called, all of them what was inconclusive.
    """
    again = rounds[0]
    values = _values_again(first, store, [again], called_metrics(first))
    second = _judge_curves(first, values, called_metrics(first)) if values else None
    why = _why_left(first, again)
    open_ = inconclusive_after(first, store, rounds)
    together = _judge_together(first, store, rounds, open_)
    judgements = (first.judgement, second, together)
    metrics, called = _verdicts("metrics", METRIC, *judgements, why, open_)
    bands, called_bands = _verdicts("bands", BAND, *judgements, why, open_)
    within = {_key(called_pair.row, BAND) for called_pair in called}
    lone = [called_band for called_band in called_bands if _key(called_band.row, BAND) not in within]
    everything = [*called, *lone]
    stopped = next((again_round.stopped for again_round in rounds if again_round.stopped), None)
    record = {
        "rule": RULE,
        "budget_minutes": again.minutes,
        "interrupted": stopped.name if stopped else "",
        "cases": [
            {
                **{name: getattr(case, name) for name in ("session", "system", "partition", "stack", "name", "slower")},
                **{"nodes": [*(case.on.job or case.on.hosts)], "measured_again": case in again.measured},
                "why": again.left.get(case, ""),
            }
            for case in again.cases
        ],
        "metrics": [called_row.as_dict(METRIC) for called_row in called],
        "bands": [band_row.as_dict(BAND) for band_row in lone],
        "inconclusive_rule": INCONCLUSIVE_RULE,
        "inconclusive": [pair.as_dict() for pair in open_],
    }
    summary = []
    if everything:
        outcomes = Counter(pair.outcome for pair in everything)
        counts = (f"{outcomes[name]} {name}" for name in (SEEN_TWICE, NOT_SEEN_AGAIN, NOT_MEASURED_AGAIN) if outcomes[name])
        summary.append(f"{len(everything)} called slower at first: {', '.join(counts)}")
    if open_:
        counts = (f"{count} {name}" for name, count in Counter(pair.outcome for pair in open_).items())
        summary.append(f"{len(open_)} inconclusive at first: {', '.join(counts)}")
    nothing = () if summary else ("nothing was called slower or left inconclusive, so nothing was measured again",)
    refusing, others = ([pair.line() for pair in open_ if pair.regressed is wanted] for wanted in (True, False))
    curves = pl.concat([called_metrics(first).select(CURVE), _curves(first, open_)])
    confirmation = Confirmation(
        "; ".join(summary),
        (*_lines(everything, NOT_MEASURED_AGAIN), *_lines(everything, SEEN_TWICE), *refusing),
        (*_lines(everything, NOT_SEEN_AGAIN), *others, *nothing),
        record,
        _values_again(first, store, rounds, curves),
    )
    judgement = replace(first.judgement, metrics=metrics, bands=bands)
    references = _references_again(first, store, again)
    withdrawn = {_key(called_row.row, METRIC) for called_row in called if called_row.outcome == NOT_SEEN_AGAIN}
    # A switch of protocol explains what is called; of one that is not seen again nothing is known.
    moves = tuple(move for move in first.moves if withdrawn.isdisjoint(move.metrics.select(METRIC).iter_rows()))
    return replace(first, judgement=judgement, moves=moves, confirmation=confirmation, references=references)


def _references_again(first: Acceptance, store: Store, again: Remeasured) -> tuple[MissedReference, ...]:
    """The references that were missed, and what came of measuring them again."""
    if not first.references:
        return ()
    table = store.cases(first.candidate.system)
    rows = table.filter(pl.col("case").is_in(list(again.measured.values()))).sort("started", "session", "case").collect()
    found = confirmations.measured_again([reference.check for reference in first.references], rows)
    cases = of_checks(first.candidate.system, first.references)
    return tuple(
        replace(pair, why=pair.why or again.left.get(case, "")) if pair.outcome == NOT_MEASURED_AGAIN else pair
        for pair, case in zip(found, cases, strict=True)
    )


def _values_again(first: Acceptance, store: Store, rounds: Sequence[Remeasured], curves: pl.DataFrame) -> Selection | None:
    """Values of some curves in the cases that were measured again as before; ``None`` if there is none."""
    measured = [case for again in rounds for case in again.measured.values()]
    if not measured or not curves.height:
        return None
    sessions = ",".join(session.uuid for again in rounds for session in again.sessions)
    found = store.select(first.candidate.system, sessions, unproven_too=True)
    own = pl.col("case").str.strip_suffix(PAIRED).is_in(measured)
    found = _of_curves(replace(found, values=found.values.filter(own), zeros=found.zeros.filter(own)), curves)
    return found if found.measured.height else None


def _of_curves(selection: Selection, curves: pl.DataFrame) -> Selection:
    """A side with nothing but some curves."""
    kept = [table.join(curves, on=CURVE, how="semi", nulls_equal=True) for table in (selection.values, selection.zeros)]
    return replace(selection, values=kept[0], zeros=kept[1])


def _judge_curves(first: Acceptance, candidate: Selection, curves: pl.DataFrame) -> Judgement:
    """The decision of ``accept`` on some curves of a candidate."""
    past = first.past.values.join(curves, on=CURVE, how="semi", nulls_equal=True)
    return comparison.judge(_of_curves(first.baseline, curves), candidate, first.policy, past=past)


def _judge_together(
    first: Acceptance, store: Store, rounds: Sequence[Remeasured], open_: Sequence[Inconclusive]
) -> Judgement | None:
    """What the decision of ``accept`` says of all the candidate's sessions as one candidate; ``None`` without a fresh one."""
    curves = _curves(first, [pair for pair in open_ if pair.measured_again])
    fresh = _values_again(first, store, rounds, curves)
    if fresh is None:
        return None
    own = _of_curves(first.candidate, curves)
    tables = {
        name: pl.concat([getattr(own, name), getattr(fresh, name).select(getattr(own, name).columns)])
        for name in ("values", "zeros", "cases")
    }
    return _judge_curves(first, replace(own, sessions=(*own.sessions, *fresh.sessions), **tables), curves)


def _why_left(first: Acceptance, again: Remeasured) -> dict[Key, str]:
    """Why a called metric, and its band, was not measured again, where that is known of one of the cases that measured it."""
    called = comparison.called(first.judgement)
    cases, numbers = of_metrics(first.candidate, called)
    rows = called.join(numbers, on=METRIC, how="inner", nulls_equal=True).to_dicts()
    left = {number: again.left[case] for number, case in enumerate(cases) if case in again.left}
    return {_key(row, keys): left[row["number"]] for row in rows for keys in (METRIC, BAND) if row["number"] in left}


def _verdicts(
    table: str,
    keys: tuple[str, ...],
    first: Judgement,
    second: Judgement | None,
    together: Judgement | None,
    why: Mapping[Key, str],
    open_: Sequence[Inconclusive],
) -> tuple[pl.DataFrame, list[_Called]]:
    """A table with the verdicts that stand, and ``confirmation``: the other measurement in words; and what was called.

    :param second: verdicts on what was called, with the new jobs only; ``together``: on what was inconclusive, with all jobs.
    """
    own: pl.DataFrame = getattr(first, table)
    again, joint = (
        {_key(row, keys): row for row in getattr(other, table).to_dicts()} if other else {} for other in (second, together)
    )
    inconclusive = {pair.key: pair for pair in open_ if pair.keys == keys}
    rows, called = [], []
    for row in own.to_dicts():
        key, decides, text = _key(row, keys), row, None
        if row["verdict"] == REGRESSED:
            twice, left = again.get(key), why.get(key)
            if twice is None or twice["verdict"] == MISSING or left:
                called_again = _Called(row, NOT_MEASURED_AGAIN, None, left or "the new job has no value of it")
            else:
                called_again = _Called(row, SEEN_TWICE if twice["verdict"] == REGRESSED else NOT_SEEN_AGAIN, twice)
                decides = row if called_again.outcome == SEEN_TWICE else twice
            called.append(called_again)
            text = called_again.text()
        elif key in inconclusive:
            undecided, other = inconclusive[key], joint.get(key)
            text = undecided.text()
            if undecided.regressed:
                decides = {**row, "verdict": REGRESSED, "needed": None}
            elif other and other["verdict"] != REGRESSED and undecided.measured_again and not undecided.wants_more:
                decides = other
        rows.append({**{name: decides.get(name) for name in own.columns}, "confirmation": text})
    return pl.DataFrame(rows, schema={**own.schema, "confirmation": pl.String}, orient="row"), called


def _change(rows: Sequence[Mapping[str, Any]]) -> str:
    """The change of one row with its verdict, or the middle one of several."""
    known = [row["slower"] for row in rows if row["slower"] is not None]
    quantity = rows[0]["quantity"]
    verdicts = "/".join(dict.fromkeys(str(row["verdict"]) for row in rows))
    return f"{change_text(statistics.median(known), quantity)} ({verdicts})" if known else verdicts


def _lines(called: Sequence[_Called], outcome: str) -> list[str]:
    """One sentence per condition, benchmark and reason, the worst first."""
    groups: dict[Key, list[_Called]] = {}
    for called_row in called:
        if called_row.outcome == outcome:
            groups.setdefault((*_key(called_row.row, (*CONDITION, "benchmark", "quantity")), called_row.why), []).append(
                called_row
            )
    lines = []
    for group in sorted(groups.values(), key=lambda group: -max(called_row.row["slower"] or 0.0 for called_row in group)):
        row = group[0].row
        sizes = [called_row.row["message_bytes"] for called_row in group if "message_bytes" in called_row.row]
        bands = ", ".join(dict.fromkeys(called_row.row["band"] for called_row in group))
        at = verdict_text.sizes_text(sizes) if sizes else f"{bands} messages"
        seconds = [called_row.again for called_row in group if called_row.again is not None]
        again = f"again {_change(seconds)}" if seconds else group[0].why
        where = f"{outcome}: {describe_condition(row)}: {row['benchmark']} at {at}"
        lines.append(f"{where}: first {_change([called_row.row for called_row in group])}, {again}")
    return lines
