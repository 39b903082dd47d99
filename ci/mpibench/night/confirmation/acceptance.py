"""An acceptance whose refusals were measured again: refused is what both measurements call slower.

What one session leaves inconclusive is measured again, too, and decided by :mod:`mpibench.night.confirmation.inconclusive`.

What was called is held against the same baseline by the same decision a second time, with the values of the new jobs only and
nothing but the called curves. A metric (or a band none of whose metrics was called) then is

seen twice
    regressed again: it stays regressed;
not seen again
    its second verdict, whatever that is, becomes its verdict: pass, improved, or inconclusive where the new job cannot tell;
not measured again
    it stays regressed: no room in the budget, a case that is gone, failed or did not prove its condition, a signal.

Error rates. Let one comparison refuse an unchanged machine with probability f and find a slowdown with probability p. Given
the baseline, the two candidates are different jobs; as far as these are independent both call with probability f² and p²:
what is refused without reason becomes rarer by the factor f, and what is found by the factor p (0.99: 0.98; 0.8: 0.64).
They share the baseline, whose own error does not become smaller: of n sessions it is 1 / (n + 1) of the variance of each
comparison's error, which is the correlation of the two errors. With 15 sessions that is 0.06 and the product nearly holds;
with one it is 0.5, and a baseline that happened to be fast refuses twice. What lasts longer than both jobs is shared
likewise. Judged again are only the called curves, so each is tested among fewer and at the same level: that helps p. On the
noise of ``ci/tests/data/golden_noise`` at a spread of 1 % one job against one with jobs 5 % slower is refused at once in 80 %
of draws on eth1g and twice in 71 % (p²: 64 %), unchanged in none (400 draws, ± 5). ``python -m studies.error_rates`` gives f
(``sessions_refused_percent``), p (``found_percent``) and what both ways of measuring again refuse and find
(``confirmed_refused_percent``, ``confirmed_found_percent``) on a site's own history.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ...judge import comparison
from ...judge import text as verdict_text
from ...judge.accept import Acceptance, Confirmation
from ...judge.comparison import Judgement
from ...judge.curve_tests import MISSING, REGRESSED
from ...store import confirmations
from ...store.confirmations import NOT_MEASURED_AGAIN, NOT_SEEN_AGAIN, SEEN_TWICE, MeasuredOn, MissedReference
from ...store.session_values import BAND, CONDITION, CURVE, METRIC, Selection, describe_condition
from ...store.sessions import PAIRED, Session
from ...store.store import Store
from . import inconclusive, measuring
from .called import CalledCase, of_checks, of_metrics, worst_first
from .inconclusive import Inconclusive
from .measuring import Remeasured, Workspace

#: Of each measurement in the record.
_SHOWN = ("verdict", "slower", "ratio", "low", "high", "units", "baseline", "candidate", "unit")
#: For the record.
RULE = "Refused is what both measurements call slower: that of the candidate, and that of a fresh job afterwards."


def called_metrics(acceptance: Acceptance) -> pl.DataFrame:
    """Metrics that are called slower, or stand for a band that is: :data:`METRIC` and ``slower``."""
    rows = comparison.called(acceptance.judgement, acceptance.baseline, acceptance.candidate)
    return rows.filter(pl.col("verdict") == REGRESSED).select(*METRIC, "slower")


def called_cases(acceptance: Acceptance) -> list[CalledCase]:
    """The candidate's cases that measured them, the worst first."""
    return of_metrics(acceptance.candidate, called_metrics(acceptance))[0]


def cases_to_measure(acceptance: Acceptance) -> list[CalledCase]:
    """Those, and the ones that measured what another session may decide."""
    open_ = inconclusive.cases(acceptance, inconclusive.find(acceptance))
    return worst_first([*called_cases(acceptance), *of_checks(acceptance.candidate.system, acceptance.references), *open_])


def measure(
    first: Acceptance,
    known: Mapping[str, Session],
    place: Workspace,
    minutes: float,
    say: Callable[[str], None],
    show: Callable[[str], bool] = lambda line: True,
) -> list[Remeasured]:
    """Measure :func:`cases_to_measure` again: all of them once, and the inconclusive ones until their sessions can tell.

    :param known: :func:`.measuring.sources` of these cases.
    :param minutes: of all of it together.
    :raises BadInput: as :func:`.measuring.measure_again`.
    """
    began = time.monotonic()
    rounds = [measuring.measure_again(cases_to_measure(first), known, place, minutes, say, show)]
    while not rounds[-1].stopped:
        place.store.reread()
        wanting = [one for one in inconclusive_after(first, place.store, rounds) if one.wants_more]
        # A session that lacks what it was measured for brings nobody nearer to a decision.
        wanting = [one for one in wanting if len(rounds) < one.wanted - one.first]
        cases = [case for case in inconclusive.cases(first, wanting) if case in rounds[-1].measured]
        rest = minutes - (time.monotonic() - began) / 60
        if not cases or rest <= 0:
            break
        folder = place.folder.with_name(f"{place.folder.name}-{len(rounds) + 1}")
        rounds.append(measuring.measure_again(cases, known, replace(place, folder=folder), rest, say, show))
    return rounds


def inconclusive_after(first: Acceptance, store: Store, rounds: Sequence[Remeasured]) -> list[Inconclusive]:
    """What the first judgement left inconclusive, with what was measured again of it."""
    found = inconclusive.find(first)
    values = _values_again(first, store, rounds, inconclusive.curves(first, found)) if found else None
    if values is not None:
        found = inconclusive.with_sessions(first, found, values.values)
    return [replace(one, why=_left(first, one, rounds)) for one in found]


def _left(first: Acceptance, one: Inconclusive, rounds: Sequence[Remeasured]) -> str:
    """Why its case was not measured in the last round that was to."""
    cases = inconclusive.cases(first, [one])
    return next((again.left[case] for again in reversed(rounds) for case in cases if case in again.left), "")


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
        return {**{name: self.row[name] for name in keys}, "outcome": self.outcome, "why": self.why, **shown}


def confirm(first: Acceptance, store: Store, rounds: Sequence[Remeasured]) -> Acceptance:
    """The acceptance after what was measured again.

    :param store: holds the new sessions.
    :param rounds: of :func:`measure`; the first decides what was called, all of them what was inconclusive.
    """
    rounds = [_on_the_same(one, first.candidate.system, store) for one in rounds]
    again = rounds[0]
    values = _values_again(first, store, [again], called_metrics(first))
    second = _judge_again(first, values) if values else None
    why = _reasons(first, again)
    metrics, called = _merge(first.judgement.metrics, second.metrics if second else None, METRIC, why)
    bands, called_bands = _merge(first.judgement.bands, second.bands if second else None, BAND, why)
    within = {_key(one.row, BAND) for one in called}
    lone = [one for one in called_bands if _key(one.row, BAND) not in within]
    open_ = inconclusive_after(first, store, rounds)
    together = _judge_together(first, store, rounds, open_)
    metrics = _decide(metrics, METRIC, open_, together.metrics if together else None)
    bands = _decide(bands, BAND, open_, together.bands if together else None)
    stopped = next((one.stopped for one in rounds if one.stopped), None)
    record = {
        "rule": RULE,
        "budget_minutes": again.minutes,
        "interrupted": stopped.name if stopped else "",
        "cases": [
            {**case.as_dict(), "measured_again": case in again.measured, "why": again.left.get(case, "")}
            for case in again.cases
        ],
        "metrics": [one.as_dict(METRIC) for one in called],
        "bands": [one.as_dict(BAND) for one in lone],
        "inconclusive_rule": inconclusive.RULE,
        "inconclusive": [one.as_dict() for one in open_],
    }
    everything = [*called, *lone]
    counts = [
        (sum(one.outcome == name for one in everything), name) for name in (SEEN_TWICE, NOT_SEEN_AGAIN, NOT_MEASURED_AGAIN)
    ]
    known = ", ".join(f"{count} {name}" for count, name in counts if count)
    summary = [f"{len(everything)} called slower at first: {known}"] if everything else []
    summary += [inconclusive.summary(open_)] if open_ else []
    nothing = () if everything or open_ else ("nothing was called slower or left inconclusive, so nothing was measured again",)
    refusing, others = ([one.line() for one in open_ if one.regressed is wanted] for wanted in (True, False))
    curves = pl.concat([called_metrics(first).select(CURVE), inconclusive.curves(first, open_)])
    confirmation = Confirmation(
        "; ".join(summary),
        (*_lines(everything, NOT_MEASURED_AGAIN), *_lines(everything, SEEN_TWICE), *refusing),
        (*_lines(everything, NOT_SEEN_AGAIN), *others, *nothing),
        record,
        _values_again(first, store, rounds, curves),
    )
    judgement = replace(first.judgement, metrics=metrics, bands=bands)
    references = _references_again(first, store, again)
    withdrawn = {_key(one.row, METRIC) for one in called if one.outcome == NOT_SEEN_AGAIN}
    # A switch of protocol explains what is called; of one that is not seen again nothing is known.
    moves = tuple(move for move in first.moves if withdrawn.isdisjoint(move.metrics.select(METRIC).iter_rows()))
    return replace(first, judgement=judgement, moves=moves, confirmation=confirmation, references=references)


def _references_again(first: Acceptance, store: Store, again: Remeasured) -> tuple[MissedReference, ...]:
    """The references that were missed, and what came of measuring them again."""
    if not first.references:
        return ()
    table = store.cases(first.candidate.system)
    rows = table.filter(pl.col("case").is_in(list(again.measured.values()))).sort("started", "session", "case").collect()
    found = confirmations.measured_again([one.check for one in first.references], rows)
    cases = [of_checks(first.candidate.system, [one])[0] for one in first.references]
    return tuple(
        replace(one, why=one.why or again.left.get(case, "")) if one.outcome == NOT_MEASURED_AGAIN else one
        for one, case in zip(found, cases, strict=True)
    )


def _on_the_same(again: Remeasured, system: str, store: Store) -> Remeasured:
    """The same, without what other nodes than those of the case measured, which is left."""
    rows = store.cases(system).filter(pl.col("case").is_in(list(again.measured.values()))).collect()
    known = {row["case"]: row for row in rows.to_dicts()}
    why = {
        case: case.on.unlike(MeasuredOn.of_row(known[uuid]), known[uuid]["session"])
        for case, uuid in again.measured.items()
        if uuid in known
    }
    measured = {case: uuid for case, uuid in again.measured.items() if not why.get(case)}
    return replace(again, measured=measured, left={**again.left, **{case: text for case, text in why.items() if text}})


def _values_again(first: Acceptance, store: Store, rounds: Sequence[Remeasured], curves: pl.DataFrame) -> Selection | None:
    """Values of some curves in the cases that were measured again as before; ``None`` if there is none."""
    measured = [case for again in rounds for case in again.measured.values()]
    if not measured or not curves.height:
        return None
    sessions = ",".join(session.uuid for again in rounds for session in again.sessions)
    found = store.select(first.candidate.system, sessions, unproven_too=True)
    own = pl.col("case").str.strip_suffix(PAIRED).is_in(measured)
    found = replace(found, values=found.values.filter(own), zeros=found.zeros.filter(own))
    found = _of_curves(found, curves)
    return found if found.measured.height else None


def _judge_together(
    first: Acceptance, store: Store, rounds: Sequence[Remeasured], open_: Sequence[Inconclusive]
) -> Judgement | None:
    """What the decision of ``accept`` says of all the candidate's sessions as one candidate; ``None`` without a fresh one."""
    curves = inconclusive.curves(first, [one for one in open_ if one.measured_again])
    fresh = _values_again(first, store, rounds, curves)
    if fresh is None:
        return None
    own = _of_curves(first.candidate, curves)
    both = replace(
        own,
        sessions=(*own.sessions, *fresh.sessions),
        values=pl.concat([own.values, fresh.values.select(own.values.columns)]),
        zeros=pl.concat([own.zeros, fresh.zeros.select(own.zeros.columns)]),
        cases=pl.concat([own.cases, fresh.cases.select(own.cases.columns)]),
    )
    past = first.past.values.join(curves, on=CURVE, how="semi", nulls_equal=True)
    return comparison.judge(_of_curves(first.baseline, curves), both, first.policy, past=past)


def _decide(
    table: pl.DataFrame, keys: Sequence[str], open_: Sequence[Inconclusive], together: pl.DataFrame | None
) -> pl.DataFrame:
    """The table with the verdicts on what was inconclusive."""
    known = {one.key: one for one in open_ if one.keys == tuple(keys)}
    joint = {} if together is None else {_key(row, keys): row for row in together.to_dicts()}
    rows = []
    for row in table.to_dicts():
        one = known.get(_key(row, keys))
        if one is not None and one.regressed:
            row = {**row, "verdict": REGRESSED, "needed": None, "confirmation": one.text()}
        elif one is not None:
            other = joint.get(one.key) if one.measured_again and not one.wants_more else None
            decides = {name: other.get(name) for name in table.columns} if other and other["verdict"] != REGRESSED else row
            row = {**decides, "confirmation": one.text()}
        rows.append(row)
    return pl.DataFrame(rows, schema=table.schema, orient="row")


def _judge_again(first: Acceptance, values: Selection) -> Judgement:
    called = called_metrics(first)
    past = first.past.values.join(called, on=CURVE, how="semi", nulls_equal=True)
    return comparison.judge(_of_curves(first.baseline, called), values, first.policy, past=past)


def _of_curves(selection: Selection, called: pl.DataFrame) -> Selection:
    """A side with nothing but the curves of some metrics."""
    kept = [table.join(called, on=CURVE, how="semi", nulls_equal=True) for table in (selection.values, selection.zeros)]
    return replace(selection, values=kept[0], zeros=kept[1])


def _reasons(first: Acceptance, again: Remeasured) -> dict[tuple[object, ...], str]:
    """Why a called metric, and its band, was not measured again, where that is known of its case."""
    called = comparison.called(first.judgement, first.baseline, first.candidate).filter(pl.col("verdict") == REGRESSED)
    cases, numbers = of_metrics(first.candidate, called)
    rows = called.join(numbers, on=METRIC, how="inner", nulls_equal=True).to_dicts()
    return {
        _key(row, keys): again.left[cases[row["number"]]]
        for row in rows
        for keys in (METRIC, BAND)
        if cases[row["number"]] in again.left
    }


def _key(row: Mapping[str, Any], keys: Sequence[str]) -> tuple[object, ...]:
    return tuple(row[name] for name in keys)


def _merge(
    first: pl.DataFrame, second: pl.DataFrame | None, keys: Sequence[str], why: Mapping[tuple[object, ...], str]
) -> tuple[pl.DataFrame, list[_Called]]:
    """The table with the verdicts that stand, and ``confirmation``: the other measurement in words; and what was called."""
    known = {} if second is None else {_key(row, keys): row for row in second.to_dicts()}
    rows, called = [], []
    for row in first.to_dicts():
        if row["verdict"] != REGRESSED:
            rows.append({**row, "confirmation": None})
            continue
        again = known.get(_key(row, keys))
        left = why.get(_key(row, keys))  # of one of the jobs that measured it
        if again is None or again["verdict"] == MISSING or left:
            again, reason = None, left or "the new job has no value of it"
            one = _Called(row, NOT_MEASURED_AGAIN, None, reason)
        else:
            one = _Called(row, SEEN_TWICE if again["verdict"] == REGRESSED else NOT_SEEN_AGAIN, again)
        called.append(one)
        decides = {name: again.get(name) for name in first.columns} if again and one.outcome == NOT_SEEN_AGAIN else row
        rows.append({**decides, "confirmation": one.text()})
    return pl.DataFrame(rows, schema={**first.schema, "confirmation": pl.String}, orient="row"), called


def _change(rows: Sequence[Mapping[str, Any]]) -> str:
    """The change of one row with its verdict, or the middle one of several."""
    known = [row["slower"] for row in rows if row["slower"] is not None]
    verdicts = "/".join(dict.fromkeys(str(row["verdict"]) for row in rows))
    return f"{verdict_text.change_text(statistics.median(known))} ({verdicts})" if known else verdicts


def _lines(called: Sequence[_Called], outcome: str) -> list[str]:
    """One sentence per condition, benchmark and reason, the worst first."""
    groups: dict[tuple[object, ...], list[_Called]] = {}
    for one in called:
        if one.outcome == outcome:
            groups.setdefault((*_key(one.row, (*CONDITION, "benchmark")), one.why), []).append(one)
    worst = sorted(groups.values(), key=lambda group: -max(one.row["slower"] or 0.0 for one in group))
    return [_line(outcome, group) for group in worst]


def _line(outcome: str, group: Sequence[_Called]) -> str:
    row = group[0].row
    sizes = [one.row["message_bytes"] for one in group if "message_bytes" in one.row]
    at = verdict_text.sizes_text(sizes) if sizes else f"{', '.join(dict.fromkeys(one.row['band'] for one in group))} messages"
    where = f"{outcome}: {describe_condition(row)}: {row['benchmark']} at {at}"
    first = f"first {_change([one.row for one in group])}"
    seconds = [one.again for one in group if one.again is not None]
    return f"{where}: {first}, {f'again {_change(seconds)}' if seconds else group[0].why}"
