"""Nights that were called are no history of the nights after them: a loss that lasts stays a loss until somebody accepts it.

Each night of a history is judged by the prediction interval of the nights before it that count, as the gate does, and one
that is called, slower or faster, never counts. Nights after it wait, until :data:`RETURNED` in a row are as before, each and
together (their mean is held against the prediction interval of as many sessions, which finds what one night just misses), with
values of everything that was called; these then count, and what came and went between did not. One night that counted would
hide all losses of its size for a month, as nothing is unusual that happens in one of 30 nights; so how often a machine has
such nights is seen in what the gate calls, and measuring again (:mod:`mpibench.night.confirmation`) says which were nothing
else.

The first :data:`~mpibench.judge.statistics.prediction.FEWEST_SESSIONS` nights of a history are taken as they are, what
creeps by less than nights differ is learned, and so is what lasts longer than the sessions that are searched
(:data:`mpibench.judge.history.past.SEARCHED_SESSIONS`); references are for that. A level that is meant to stay is accepted with
``levels`` of policy.yaml (:mod:`mpibench.judge.history.levels`), and the history begins with it.

This is the usual handling of control charts: points outside the limits are taken out of what the limits are computed from until
their cause is known (Montgomery, Introduction to Statistical Quality Control, section 6.2, "trial control limits").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...store.session_values import CURVE, slowness
from ...store.store import Store
from ..history import past
from ..history.past import MOST_SESSIONS, Past
from ..history.strata import MEASURED, SHARED
from ..statistics import prediction
from ..statistics.prediction import FEWEST_SESSIONS, Units
from ..statistics.two_sides import Array
from . import curve_tests
from .policy import Policy

#: Nights in a row that must be as before until nights count again. On recorded noise (studies.lasting_changes) a loss that one
#: night in two shows is then hardly ever taken for the usual; nights after a disturbance count so much later.
RETURNED = 4
Mask = NDArray[np.bool_]


def find_history(store: Store, system: str, like: pl.DataFrame, policy: Policy, **options: Any) -> Past:
    """The sessions before a session that measured the same, without nights that were called and not accepted.

    Where a selector says which sessions are meant, all of these are used that belong to the level that was accepted last.

    :param options: of :func:`mpibench.judge.history.past.find`.
    """

    def judge(values: pl.DataFrame, cases: pl.DataFrame) -> past.Unlike:
        return unlike(values, cases, policy)

    return past.find(store, system, like, levels=policy.levels, unlike=judge, **options)


@dataclass(frozen=True)
class Rows:
    """Everything that is tested of a history, over all its sessions.

    :param units: one row per test, one column per session.
    :param kinds: of each row, for :func:`.prediction.learn`.
    :param margins: of each row, in log.
    :param things: of each row, number of what was measured.
    """

    units: Units
    kinds: NDArray[np.int_]
    margins: Array
    things: NDArray[np.int_]


def unlike(values: pl.DataFrame, cases: pl.DataFrame, policy: Policy) -> past.Unlike:
    """Which cases do not count as history, and why.

    :param values: as :attr:`~mpibench.store.session_values.Selection.values`.
    :param cases: the cases with these values.
    """
    nights = cases.select("session", "started").unique("session").sort("started", "session")
    if nights.height <= FEWEST_SESSIONS:
        return past.Unlike({}, False)
    things = cases.select(MEASURED).unique(maintain_order=True).with_row_index("thing")
    numbered = cases.join(things, on=MEASURED, nulls_equal=True)
    numbered = numbered.join(nights.select("session").with_row_index("night"), on="session").select("case", "thing", "night")
    curves = list(measured_curves(values.join(numbered.select("case", "thing"), on="case"), policy))
    if not curves:
        return past.Unlike({}, False)
    rows = tabulate(curves, nights["session"].to_list(), policy)
    measured = np.zeros((things.height, nights.height), dtype=bool)
    measured[numbered["thing"].to_numpy(), numbered["night"].to_numpy()] = True
    judged = judge_nights(rows, measured, policy)
    whys = _reasons(judged, nights["started"].to_list())
    reasons = ((case, whys.get((thing, night), "")) for case, thing, night in numbered.iter_rows())
    return past.Unlike({case: why for case, why in reasons if why}, judged.begin_early)


class MeasuredCurve(NamedTuple):
    """Jobs of one curve.

    :param logs: slowness, shape (sizes, jobs).
    :param sessions: of each job.
    :param stratum: number of what shares its spreads between sessions.
    :param thing: number of what was measured, and waits or counts as one.
    """

    quantity: str
    direction: str
    sizes: list[int | None]
    logs: Array
    sessions: list[str]
    stratum: int
    thing: int


def tabulate(curves: Sequence[MeasuredCurve], nights: Sequence[str], policy: Policy) -> Rows:
    """All tests of some curves, as ``accept`` and the gate make them.

    :param nights: all sessions, the oldest first.
    """
    parts: list[Units] = []
    tests: list[curve_tests.CurveTest] = []
    for number, one in enumerate(curves):
        own = curve_tests.tests_of_curve(number, one.sizes, one.logs, one.logs[:, :0], policy, stratum=one.stratum)
        parts.append(prediction.by_session(np.stack([test.baseline for test in own]), one.sessions, nights))
        tests += own
    kinds = {name: place for place, name in enumerate(dict.fromkeys((test.stratum, test.level) for test in tests))}
    return Rows(
        prediction.stack(parts),
        np.array([kinds[test.stratum, test.level] for test in tests]),
        curve_tests.margins(tests, [(one.quantity, one.direction, one.sizes) for one in curves], policy),
        np.array([curves[test.curve].thing for test in tests]),
    )


def measured_curves(values: pl.DataFrame, policy: Policy) -> Iterator[MeasuredCurve]:
    """What the policy judges.

    :param values: with ``thing``.
    """
    keys = [*CURVE, "thing"]
    curves = values.unique(keys, keep="first", maintain_order=True).select(*keys, "direction").with_row_index("curve")
    sized = values.with_columns(slowness=slowness(values)).join(curves, on=keys, nulls_equal=True, maintain_order="left")
    # A job's value at a size is the median of its repeats; jobs of a curve in the order in which they come.
    groups = sized.group_by("curve", "case", "message_bytes", maintain_order=True)
    medians = groups.agg(pl.col("session").first(), pl.col("slowness").median())
    strata: dict[tuple[object, ...], int] = {}
    described = curves.to_dicts()
    for (number,), part in medians.partition_by("curve", as_dict=True, maintain_order=True).items():
        curve = described[number]
        sizes = [size for size in part["message_bytes"].unique().sort() if policy.judges(curve["quantity"], policy.band(size))]
        if sizes:
            jobs = dict(zip(part["case"], part["session"], strict=True))
            place, job = ({one: at for at, one in enumerate(names)} for names in (sizes, jobs))
            logs = np.full((len(sizes), len(jobs)), np.nan)
            for size, case, value in part.select("message_bytes", "case", "slowness").iter_rows():
                if size in place:
                    logs[place[size], job[case]] = value
            stratum = strata.setdefault(tuple(curve[name] for name in SHARED), len(strata))
            sessions = list(jobs.values())
            yield MeasuredCurve(curve["quantity"], curve["direction"], sizes, logs, sessions, stratum, curve["thing"])


class Called(NamedTuple):
    """What is called of one thing.

    :param slower: whether the typical test is slower.
    :param rows: tests that are called, by their places.
    """

    slower: bool
    rows: NDArray[np.int_]


class Run(NamedTuple):
    """Nights of one thing that waited or wait.

    :param called: of each that was called, what.
    :param nights: these, and those in between and after.
    :param lasts: whether they wait still.
    """

    thing: int
    called: dict[int, Called]
    nights: list[int]
    lasts: bool

    def returned(self, night: int) -> list[int]:
        """The last :data:`RETURNED` nights, where none of them was called and the newest is this; else none."""
        last = self.nights[-RETURNED:]
        return last if night == last[-1] and len(self.nights) > RETURNED and max(self.called) < last[0] else []

    def rows(self) -> NDArray[np.int_]:
        """Everything that was called in any of them."""
        return np.unique(np.concatenate([called.rows for called in self.called.values()]))


@dataclass
class Nights:
    """What came of judging the nights of a history, one after the other.

    :param counts: which of them count as history, shape (things, nights).
    :param called: which were called.
    :param runs: what is over or waits still, and does not count.
    """

    counts: Mask
    called: Mask
    runs: list[Run]

    @property
    def begin_early(self) -> bool:
        """Whether something lasts that has fewer nights before it than a history has: older ones would be of use."""
        return any(run.lasts and self.counts[run.thing, : run.nights[0]].sum() < MOST_SESSIONS for run in self.runs)

    def end(self, run: Run) -> None:
        """A run is over: nights since the last that was called count."""
        last = max(run.called)
        self.counts[run.thing, [night for night in run.nights if night > last]] = True
        self.runs.append(run._replace(nights=[night for night in run.nights if night <= last], lasts=False))


def judge_nights(rows: Rows, measured: Mask, policy: Policy) -> Nights:
    """Judge each night by those before it that count.

    :param measured: shape (things, nights).
    """
    judged = Nights(np.zeros(measured.shape, dtype=bool), np.zeros(measured.shape, dtype=bool), [])
    waiting: dict[int, Run] = {}
    for night in range(measured.shape[1]):
        called = called_things(rows, judged.counts, [night], policy)
        judged.called[list(called), night] = True
        for thing in map(int, np.flatnonzero(measured[:, night])):
            if thing in called:
                waiting.setdefault(thing, Run(thing, {}, [], lasts=True)).called[night] = called[thing]
            elif thing not in waiting:
                judged.counts[thing, night] = True
                continue
            waiting[thing].nights.append(night)
        for thing, run in list(waiting.items()):
            last = run.returned(night)
            # What was not measured did not return.
            if not last or np.isnan(rows.units.values[run.rows()][:, last]).any():
                continue
            if not called_things(rows, judged.counts, last, policy, only=thing):
                judged.end(waiting.pop(thing))
    judged.runs += waiting.values()
    return judged


def _reasons(judged: Nights, started: Sequence[datetime]) -> dict[tuple[int, int], str]:
    """Why nights of what was measured do not count, by number of thing and night."""
    whys: dict[tuple[int, int], str] = {}
    for run in judged.runs:
        ways = {True: "slower", False: "faster"}
        way = " or ".join(ways[slower] for slower in sorted({called.slower for called in run.called.values()}, reverse=True))
        first, last = (f"{started[night]:%Y-%m-%d}" for night in (min(run.called), max(run.called)))
        days = f"on {first}" if first == last else f"from {first} to {last}"
        if run.lasts and run.nights[-1] in run.called:
            days = f"from {first} on, and not accepted (levels of policy.yaml)"
        elif run.lasts:
            days += f", and those since, until {RETURNED} in a row are as before"
        whys |= {(run.thing, night): f"called {way} than those before, {days}" for night in run.nights}
    return {(thing, night): why for (thing, night), why in whys.items() if not judged.counts[thing, night]}


def called_things(
    rows: Rows, counts: Mask, nights: Sequence[int], policy: Policy, *, only: int | None = None
) -> dict[int, Called]:
    """What is called in some nights together, held against the nights before them that count, by thing.

    :param counts: shape (things, nights).
    :param only: one thing alone.
    """
    newest = np.zeros_like(counts)
    for thing, line in enumerate(counts):
        newest[thing, np.flatnonzero(line)[-MOST_SESSIONS:]] = True
    used = newest.any(axis=0)
    values = np.where(newest[rows.things][:, used], rows.units.values[:, used], np.nan)
    new = rows.units.values[:, nights]
    chosen = ~np.isnan(new).all(axis=1) & ((~np.isnan(values)).sum(axis=1) >= FEWEST_SESSIONS)
    if only is not None:
        chosen &= rows.things == only
    # What differs by less than its margin is not called, however little the nights before differ.
    with np.errstate(invalid="ignore"):
        differs = np.abs(np.nanmean(new[chosen], axis=1) - np.nanmean(values[chosen], axis=1)) > rows.margins[chosen] / 2
    if not differs.any():
        return {}
    history = Units(values[chosen], rows.units.jobs[chosen][:, used], rows.units.within[chosen])
    together = Units(new[chosen], rows.units.jobs[chosen][:, nights], rows.units.within[chosen])
    baseline = prediction.learn(history, rows.kinds[chosen])
    effects = prediction.predict(baseline, together)
    sessions, beyond = int(history.count.max()), np.abs(effects.effect) > rows.margins[chosen]

    def called(factor: float) -> Mask:
        p = prediction.p_values(effects, factor)
        return beyond & prediction.called(p, policy.false_discovery_rate, sessions)

    found = called(1.0)
    if found.any():  # errors are only ever widened: what is not called without that is not called
        found = called(prediction.widening(baseline, policy.false_discovery_rate))
    places, worse = np.flatnonzero(chosen)[found], effects.effect[found]
    things = rows.things[places]
    return {
        int(thing): Called(bool(np.median(worse[things == thing]) > 0), places[things == thing]) for thing in np.unique(things)
    }
