"""The nightly watch: what became different, where, since when, and what else changed that night.
Silent if nothing did.

A night is a calendar day (UTC) by the start of its sessions; the last whole session of a day
counts. It gives each metric one value, the median of eligible repeats. The level of the last nights
is compared with each metric's baseline: its first nights, or a level that somebody accepted,
whatever was measured in between (:func:`.engine.lasting`). So a permanent loss, sudden or gradual,
is reported with its first night until it is accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl

from reframe_tests.harness.printable import plain_data, plural
from reframe_tests.harness.vocabulary import JUDGED, LOWER, QUANTITIES, BadInput

from .. import answers
from ..store import dataset_layout, eligibility, selectors, session_values
from ..store.quantity_text import (
    changes_by_kind,
    changes_text,
    own_loss,
    slowness_of,
    with_own_loss,
)
from ..store.session_values import BENCHMARK, CONDITION, CURVE, METRIC, among, not_among
from ..store.store import Store, StoredNight, scan_files
from . import engine, expected, switches
from . import policy as verdict_policy
from . import text as verdict_text
from .engine import Array, RowOutcome
from .history import OLDEST, SHARED, missing_metrics
from .plan.record import LABEL
from .policy import AcceptedLevel, Policy
from .switches import MovedSwitch

#: Nights before the last that must have had what the last one lacks; and
#: the fewest nights of which a change is found.
FEWEST_CHANGED = 3
FEWEST_NIGHTS = engine.FEWEST_LEVEL
#: Sessions read together.
NIGHTS_AT_ONCE = 16
#: Columns of ``samples`` that name a metric beside its condition.
_POINT = (*BENCHMARK, "message_bytes", "direction")
#: Columns of ``cases``: what is used of each, what the series are made of, and what
#: :func:`session_values.facts` reads.
_USED = ("case", "session", pl.struct(CONDITION).hash(seed=1).alias("condition"), *CONDITION)
_CASES = ("case", "session", "started", "cmdline", *CONDITION, *eligibility.FACT_COLUMNS)
_FACTS = ("session", "stack", "mpi", "mpi_version", "lock_hash", "library_version", "condition")


class NothingJudged(BadInput):
    """No night holds a metric that could change: only placement was
    proven, say, or the policy gives none a margin.
    """


@dataclass(frozen=True)
class History:
    """A system's nights.

    :param metrics: one row per series: :data:`METRIC`, ``direction``.
    :param logs: slowness in log, shape (metrics, nights), NaN where a night lacks it.
    :param partial: selection options of the last session, empty for a whole
        one; ``planned``: whether it was planned.
    """

    system: str
    nights: pl.DataFrame
    metrics: pl.DataFrame
    logs: Array
    notes: tuple[str, ...]
    partial: tuple[str, ...] = ()
    planned: bool = False

    @property
    def rows(self) -> pl.DataFrame:
        """The metrics with the ``row`` of :attr:`logs` that each has."""
        return self.metrics.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))

    @property
    def too_few(self) -> str:
        """Says that no change could have been found; empty where one could."""
        count = self.nights.height
        return "" if count >= FEWEST_NIGHTS else f"too few nights: {count} of {FEWEST_NIGHTS}"

    @property
    def young(self) -> str:
        """Says how many metrics of the last night are too new for a
        change to be found; empty if none is.
        """
        if self.too_few or not len(self.logs):
            return ""
        known = ~np.isnan(self.logs)
        young = int((known[:, -1] & (known.sum(axis=1) < FEWEST_NIGHTS)).sum())
        return (
            f"fewer than {FEWEST_NIGHTS} nights: {young} of "
            f"{plural(int(known[:, -1].sum()), 'metric')}"
            if young
            else ""
        )


@dataclass(frozen=True)
class Event:
    """Metrics that changed together.

    :param since: night of the first changed value.
    :param metrics: with ``slower`` in log.
    :param slower: median change for the worse, as a fraction of time.
    :param changed: facts that differ from the night before: name, before, after.
    """

    since: date
    session: str
    stack: str
    fabric: str
    metrics: pl.DataFrame
    slower: float
    changed: tuple[tuple[str, str, str], ...]
    moves: tuple[MovedSwitch, ...] = ()
    accepted: AcceptedLevel | None = None

    @property
    def worse(self) -> bool:
        return self.slower > 0 and self.accepted is None

    @property
    def what(self) -> str:
        return ", ".join(sorted(set(self.metrics["benchmark"])))

    @property
    def sizes(self) -> str:
        return verdict_text.sizes_text(self.metrics["message_bytes"])

    def change(self) -> answers.Change:
        """The same for programs."""
        metrics = with_own_loss(self._changes).select(
            *CONDITION, *BENCHMARK, "message_bytes", "slower"
        )
        return answers.Change(
            text=str(self),
            since=self.since.isoformat(),
            session=self.session,
            stack=self.stack,
            fabric=self.fabric,
            slower=changes_by_kind(self._changes)[0][0],
            worse=self.worse,
            accepted=None if self.accepted is None else str(self.accepted),
            changed=[
                answers.Fact(what=name, before=before, after=after)
                for name, before, after in self.changed
            ],
            metrics=[answers.DriftedMetric(**row) for row in metrics.to_dicts()],
        )

    @property
    def _changes(self) -> pl.DataFrame:
        """The metrics, with ``slower`` as a fraction of time."""
        return self.metrics.with_columns(
            slower=pl.Series(np.expm1(self.metrics["slower"].to_numpy()))
        )

    @property
    def finding(self) -> str:
        change = f"{changes_text(self._changes)} since {self.since:%d %b %Y}"
        return f"{self.stack} on {self.fabric}: {change} ({self.what}, {self.sizes})"

    @property
    def loss(self) -> str:
        """How much of what, without stack, fabric and night."""
        return f"{changes_text(self._changes)} than its baseline ({self.what}, {self.sizes})"

    def __str__(self) -> str:
        return f"since {self.since:%d %b %Y}, {self.what_changed}"

    @property
    def what_changed(self) -> str:
        """All but since when."""
        count = self.metrics.height
        text = f"{self.stack} on {self.fabric}"
        if len(self.moves) == 1 and self.moves[0].metrics.height == count:
            text += (
                f": {verdict_text.moved_text(self.moves[0])}; "
                f"{verdict_text.because_text(self.moves[0])} ({self.what})"
            )
        else:
            text += (
                f", {self.sizes}: {changes_text(self._changes)}, {plural(count, 'metric')} "
                f"({self.what})"
            )
            for move in self.moves:
                text += f"; {move.metrics.height} of them because {verdict_text.moved_text(move)}"
        changed = ", ".join(f"{name} {old} -> {new}" for name, old, new in self.changed[:4])
        text += (
            f"; that night: {changed}" if changed else "; no other stored fact changed that night"
        )
        return f"{text}; part of {self.accepted}" if self.accepted else text


def read(
    store: Store,
    system: str | None = None,
    selector: str | None = None,
    where: str | None = None,
    *,
    sessions: Sequence[str] = (),
) -> History:
    """The nights of a system, from its eligible cases.

    :param selector: only these sessions; by default those with the label of the newest one.
    :param sessions: their ids, where they are known.
    :raises BadInput: no dataset, a damaged one, a newest session that
        cannot be read, or a clock that was wrong.
    """
    name = store.system_of(system)
    lost = store.lost(name)
    known = store.sessions(name)
    if sessions:
        chosen = list(sessions)
    elif selector is None:
        newest = selectors.select("latest", known, unreadable=lost)[0]
        chosen = StoredNight(store, name, newest).series
    else:
        chosen = selectors.select(selector, known, unreadable=lost)
    table = store.cases(name).filter(pl.col("session").is_in(chosen), ~session_values.SHARED_CORES)
    # An expression may ask for any column; without one the long ones stay in their files.
    held = table.collect() if where else table.select(_CASES).collect()
    split = eligibility.split_cases(selectors.filter_cases(held, where))
    cases = split.eligible
    first = cases.select(pl.min("started")).item()
    if first is not None and first < OLDEST:
        raise BadInput(
            "tool-failed",
            f"a session of {name} says it started at {first:%Y-%m-%d %H:%M} UTC: the clock was "
            "wrong; withdraw it.",
        )
    file = expected.load_file(name)
    runs = selectors.runs_of(known)
    lines = cases.select("session", "cmdline").unique().iter_rows()
    options = {session: file.narrowing(line, runs[session]) for session, line in lines}
    nights, second = _nights(cases, options)
    used = cases.select(_USED).join(nights.select("session").with_row_index("night"), on="session")
    files = store.files("samples", name)
    paths = [path for path in files if path.stem in set(nights["session"])]
    # Some nights at a time, so that a year needs the memory of its medians and not of its repeats.
    points = [
        _medians(paths[start : start + NIGHTS_AT_ONCE], used)
        for start in range(0, len(paths), NIGHTS_AT_ONCE)
    ]
    known_metrics = (
        pl.concat([named for named, _ in points]).unique("id") if points else pl.DataFrame()
    )
    if not known_metrics.height:
        raise NothingJudged(
            "nothing-measured", f"the nights of {name} hold no metric that can be judged."
        )
    conditions = used.select("condition", *CONDITION).unique("condition")
    metrics = (
        known_metrics.join(conditions, on="condition")
        .select("id", *METRIC, "direction")
        .sort(METRIC)
    )
    placed = pl.concat([values for _, values in points]).join(
        metrics.select("id", "direction").with_row_index("row"), on="id"
    )
    logs = np.full((metrics.height, nights.height), np.nan)
    sign = np.where((placed["direction"] == LOWER).to_numpy(), 1.0, -1.0)
    logs[placed["row"].to_numpy(), placed["night"].to_numpy()] = sign * np.log(
        placed["value"].to_numpy()
    )
    notes = [
        *split.sentences(),
        *(f"session {unread.session[:8]} is not used: {unread.why}" for unread in lost),
    ]
    if second:
        notes.append(
            f"{plural(second, 'session')} not used: another session of the same day (UTC) stands "
            "for that night"
        )
    last = nights["session"][-1]
    labels = dict(known.select("session", "labels").iter_rows())
    planned = LABEL in dataset_layout.read_labels(labels[last])
    return History(name, nights, metrics.drop("id"), logs, tuple(notes), options[last], planned)


def _nights(cases: pl.DataFrame, options: Mapping[str, Sequence[str]]) -> tuple[pl.DataFrame, int]:
    """Session and start of each calendar day's session, oldest first,
    and how many other sessions there were.

    The newest of all stands for its day; of the others a partial one
    does so only where the day has no whole one.

    :param options: selection options of each partial session.
    """
    sessions = (
        cases.group_by("session")
        .agg(pl.col("started").first())
        .sort("started", "session")
        .with_row_index("place")
    )
    whole = pl.Series([not options[session] for session in sessions["session"]], dtype=pl.Boolean)
    ranked = sessions.with_columns(
        day=pl.col("started").dt.date(),
        newest=pl.col("place") == pl.col("place").max(),
        whole=whole,
    )
    kept = ranked.sort("newest", "whole", "place").unique("day", keep="last").sort("place")
    return kept.select("session", "started"), sessions.height - kept.height


def _medians(paths: Sequence[Path], used: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Median of each judged metric of each session; the metric's ``id`` is a hash of its name.

    :param used: ``case``, ``night`` and ``condition`` (a hash) of the cases that may be used.
    :returns: metrics (``id``, ``condition``, :data:`_POINT`) and
        values (``id``, ``night``, ``value``).
    :raises BadInput: a value that is not a number, or in another unit than its quantity's.
    """
    judged = pl.col("quantity").is_in(JUDGED)
    table = (
        scan_files(paths, "samples")
        .select(*_POINT, "unit", "case", "value")
        .filter(judged)
        .collect()
    )
    units = pl.DataFrame({"quantity": JUDGED, "unit": [QUANTITIES[name].unit for name in JUDGED]})
    pairs = not_among(table.select("quantity", "unit").unique(), units, ["quantity", "unit"])
    odd = pl.concat(
        [
            table.filter(~pl.col("value").is_finite()),
            among(table, pairs, ["quantity", "unit"]),
        ]
    )
    for row in odd[:1].to_dicts():
        raise BadInput(
            "output-damaged",
            f"session {row['case'].partition(':')[0]}: {row['benchmark']} {row['quantity']} is "
            f"{row['value']} {row['unit']}, expected a number of "
            f"{QUANTITIES[row['quantity']].unit}: export that session again.",
        )
    rank = pl.col("quantity").replace_strict(
        {quantity: place for place, quantity in enumerate(JUDGED)}, return_dtype=pl.Int8
    )
    name = ["condition", *BENCHMARK, "message_bytes"]
    named = table.join(used.select("case", "night", "condition"), on="case").with_columns(
        id=pl.struct(name).hash(seed=1)
    )
    medians = named.group_by("id", "night").agg(
        pl.col("value").median(),
        (pl.col("value") > 0).any().alias("positive"),
        pl.col("condition", *_POINT).first(),
    )
    # A zero is a repeat that failed: it counts in the median, and a night whose median is zero
    # lacks the metric. The same number in other words is judged once.
    medians = medians.with_columns(rank=pl.when(pl.col("positive")).then(rank))
    medians = medians.filter(
        rank
        == pl.col("rank")
        .min()
        .over([*(column for column in name if column != "quantity"), "night"])
    )
    medians = medians.filter(pl.col("value") > 0)
    return medians.select("id", "condition", *_POINT).unique("id"), medians.select(
        "id", "night", "value"
    )


class DriftLevels(NamedTuple):
    """What the last nights' levels are against the baseline.

    :param points: ``row`` of the metric, ``night`` of the first changed value, ``slower`` in log.
    :param accepted: likewise what is worse by no more than somebody accepted.
    :param seen: the least loss that would be called, for a reader; empty if none would be.
    :param noisy: metrics that are too noisy to judge.
    """

    points: pl.DataFrame
    accepted: pl.DataFrame
    seen: str
    noisy: int


def levels(history: History, policy: Policy) -> DriftLevels:
    """The level of each metric in the last nights, compared with its baseline."""
    margins = policy.margins(history.metrics)
    chosen = np.flatnonzero(np.isfinite(margins))
    metrics = history.metrics[chosen]
    logs = slowness_of(margins[chosen], metrics["quantity"])
    bands = policy.bands(metrics["message_bytes"]).to_list()
    rows = engine.rows_of(logs, metrics.select(CURVE).rows(), bands, metrics.select(SHARED).rows())
    accepted = _accepted(history, metrics, policy)
    raw = engine.lasting(history.logs[chosen], rows)
    judged = engine.lasting(history.logs[chosen], rows, accepted) if accepted else raw
    count = len(chosen)

    def table(found: engine.Verdicts, which: engine.Mask) -> pl.DataFrame:
        places = np.flatnonzero(which[:count])
        # What is called with its group changed when the group did.
        group = np.where(found.with_group[places] >= 0, found.with_group[places], places)
        columns = {
            "row": chosen[places],
            "night": found.since[group],
            "slower": found.effect[places],
        }
        schema = {"row": pl.Int64, "night": pl.Int64, "slower": pl.Float64}
        return pl.DataFrame(columns, schema=schema)

    slower = judged.of(RowOutcome.SLOWER)
    faster = judged.of(RowOutcome.FASTER)
    covered = raw.of(RowOutcome.SLOWER) & ~slower
    known = judged.outcome[:count]
    percents = [
        100 * own_loss(float(np.expm1(limit)), quantity)
        for quantity, limit, outcome in zip(
            metrics["quantity"], judged.limit[:count], known, strict=True
        )
        if outcome in (RowOutcome.HELD, RowOutcome.SLOWER, RowOutcome.FASTER)
    ]
    seen = f"lasting loss seen from {verdict_text.from_to(percents)}" if percents else ""
    noisy = int((known == RowOutcome.TOO_NOISY).sum())
    return DriftLevels(table(judged, slower | faster), table(raw, covered), seen, noisy)


def _accepted(history: History, metrics: pl.DataFrame, policy: Policy) -> list[engine.Accepted]:
    """The levels that were accepted up to the last night."""
    days = history.nights["started"].dt.date().to_list()
    places = metrics.select(SHARED).rows()
    slower: dict[int, Array] = {}
    for level in policy.levels:
        night = next((place for place, day in enumerate(days) if day >= level.since), None)
        if night is not None:
            # Of two levels of one night the larger one holds, and not their sum.
            own = np.array(
                [level.slower_percent / 100 if level.covers(*key) else -1.0 for key in places]
            )
            slower[night] = np.maximum(slower.get(night, own), own)
    return [
        engine.Accepted(
            losses >= 0, night, slowness_of(np.maximum(losses, 0.0), metrics["quantity"])
        )
        for night, losses in slower.items()
    ]


def events(
    store: Store, history: History, points: pl.DataFrame, policy: Policy, *, accepted: bool = False
) -> list[Event]:
    """Changes grouped by stack, fabric and direction, in the same or neighbouring nights; losses
    first, then the newest, then the largest.

    :param accepted: they are worse by no more than somebody accepted.
    """
    if not points.height:
        return []
    clusters: list[tuple[int, pl.DataFrame]] = []
    table = points.join(history.rows, on="row").with_columns(worse=pl.col("slower") > 0)
    for _, part in table.group_by([*SHARED, "worse"], maintain_order=True):
        ordered = part.sort("night")
        # A step may be seen a night early or late where noise blurs it.
        number = (ordered["night"].diff().fill_null(0) > 1).cum_sum()
        for _, near in ordered.group_by(number, maintain_order=True):
            clusters.append((int(near["night"].mode().sort()[0]), near))
    nights = history.nights["session"]
    last = history.nights["started"][-1].date()
    wanted = {nights[night - back] for night, _ in clusters for back in (0, 1) if night}
    cases = store.cases(history.system)
    known = (
        cases.filter(pl.col("session").is_in(wanted), pl.col("result") != "skip")
        .select(_FACTS)
        .collect()
    )
    found = []
    for night, metrics in clusters:
        session, started = history.nights.row(night)
        partition, stack, fabric = metrics.select(SHARED).row(0)
        facts = [
            session_values.facts(known.filter(pl.col("stack") == stack, pl.col("session") == name))
            for name in nights[max(night - 1, 0) : night + 1]
        ]
        middle = float(np.expm1(metrics.select(pl.median("slower")).item()))
        # What is to come accepts nothing yet.
        covering = [
            level
            for level in policy.levels
            if level.since <= last and level.covers(partition, stack, fabric)
        ]
        event = Event(
            since=started.date(),
            session=session,
            stack=stack,
            fabric=fabric,
            metrics=metrics,
            slower=middle,
            changed=tuple(session_values.changes(*facts)) if night and all(facts) else (),
            moves=_moves(history, policy, points, night, metrics),
            accepted=max(covering, key=lambda level: level.since, default=None)
            if accepted
            else None,
        )
        found.append(event)
    return sorted(
        found, key=lambda event: (not event.worse, -event.since.toordinal(), -event.metrics.height)
    )


def _moves(
    history: History, policy: Policy, points: pl.DataFrame, night: int, metrics: pl.DataFrame
) -> tuple[MovedSwitch, ...]:
    """The switches of protocol that moved in a night.

    :param points: all change points; ``metrics``: those of this night.
    """
    curves = among(history.rows, metrics, CURVE).sort("message_bytes")
    changes = among(points.select("row", "night"), curves, "row")
    near = (pl.col("night") - night).abs() <= 1
    others = changes.filter(~near)["night"].to_numpy()
    start = max([0, night - policy.drift_window_nights, *others[others < night]])
    end = min([history.logs.shape[1], night + policy.drift_window_nights, *others[others > night]])
    before, after = (
        history.logs[curves["row"].to_numpy(), first:last]
        for first, last in ((start, night), (night, end))
    )
    curves = curves.with_columns(
        slower=pl.Series(
            np.expm1(engine.describe(after).location - engine.describe(before).location)
        ),
        called=pl.col("row").is_in(changes.filter(near)["row"].to_list()),
        margin=pl.Series(slowness_of(policy.margins(curves), curves["quantity"])),
        place=pl.int_range(pl.len()),
    )
    changed = (
        (curve, before[curve["place"].to_numpy()], after[curve["place"].to_numpy()])
        for curve in curves.partition_by(CURVE, maintain_order=True)
    )
    # Of sizes that became better and worse each is reported once, where its own change is.
    moves = []
    for move in switches.explain(changed):
        own = among(move.metrics, metrics, METRIC)
        moves += [replace(move, metrics=own)] if own.height else []
    return tuple(moves)


def absent(history: History, *, whole: bool = True) -> list[str]:
    """Metrics that each of the :data:`FEWEST_CHANGED` nights before the last
    had and the last has not: a sentence per group.

    Of a partial session it is unknown what it should have had. What a
    planned one lacks is for :mod:`.expected`.

    :param whole: also benchmarks of which the last night has nothing at all under a condition.
    """
    if history.nights.height <= FEWEST_CHANGED or history.partial:
        return []
    there = ~np.isnan(history.logs[:, -1 - FEWEST_CHANGED :])
    measured = history.metrics.filter(pl.Series(there[:, -1]))
    gone = missing_metrics(
        history.metrics.filter(pl.Series(there[:, :-1].all(axis=1) & ~there[:, -1])), measured
    )
    if not whole or history.planned:
        gone = among(gone, measured, [*CONDITION, "benchmark"])
    lines = []
    for (stack, fabric, benchmark), rows in gone.group_by(
        "stack", "fabric", "benchmark", maintain_order=True
    ):
        sizes = verdict_text.sizes_text(rows["message_bytes"])
        lines.append(
            f"{stack} on {fabric}, {benchmark}, {sizes}: {plural(rows.height, 'metric')} not "
            f"measured in the last {FEWEST_CHANGED} nights, or renamed"
        )
    return lines


#: Exit status where no change could have been found.
NOT_JUDGED = 3


class DriftAnswer(NamedTuple):
    """Changes of the last nights, with :class:`DriftLevels`' ``seen`` and ``noisy``."""

    history: History
    events: Sequence[Event]
    seen: str = ""
    noisy: int = 0

    @property
    def absent(self) -> list[str]:
        """A sentence for each group of metrics that the last night lacks."""
        return [f"missing: {text}" for text in absent(self.history)]

    @property
    def status(self) -> int:
        """Exit status: 0 no change, or only better or accepted ones; 1
        something is worse or missing; 3 not judged.
        """
        if self.absent or any(event.worse for event in self.events):
            return 1
        return NOT_JUDGED if self.history.too_few or self.blind else 0

    @property
    def blind(self) -> bool:
        """Whether every metric of enough nights is too noisy to judge."""
        return bool(self.noisy) and not self.seen

    @property
    def noise(self) -> str:
        """Says how many metrics are too noisy to judge; empty if none is."""
        return f"{plural(self.noisy, 'metric')} too noisy to judge" if self.noisy else ""

    @property
    def notes(self) -> list[str]:
        """What could not be looked for."""
        options = " ".join(self.history.partial)
        partial = (
            options
            and f"the last session is partial (started with {options}): missing metrics are not "
            "reported"
        )
        return [*filter(None, [partial, self.history.too_few, self.history.young, self.noise])]

    @property
    def lines(self) -> list[str]:
        """The answer for a terminal; empty if nothing changed."""
        return [*map(str, self.events), *self.absent, *self.notes]

    def as_data(self) -> dict[str, Any]:
        nights = self.history.nights
        unknown = "too noisy" if self.blind else "too few nights"
        decisions: dict[int, Any] = {0: "unchanged", 1: "worse", NOT_JUDGED: unknown}
        answer = answers.Drift(
            decision=decisions[self.status],
            system=self.history.system,
            session=nights["session"][-1],
            started=nights["started"][-1].isoformat(),
            first_night=nights["started"][0].date().isoformat(),
            nights=nights.height,
            metrics=self.history.metrics.height,
            options=list(self.history.partial),
            events=[event.change() for event in self.events],
            absent=self.absent,
            notes=[*self.notes, *self.history.notes],
        )
        data: dict[str, Any] = plain_data(msgspec.to_builtins(answer))
        return data


def watch(
    store: Store,
    system: str | None = None,
    *,
    selector: str | None = None,
    where: str | None = None,
    sessions: Sequence[str] = (),
    recent: int | None = 14,
    policy: Policy | None = None,
) -> DriftAnswer:
    """What is worse for good, and what became better or was accepted in the last nights.

    :param recent: nights up to the last whose changes for the better, and
        accepted ones, are told; ``None``: all.
    :param policy: of the system, where it was read already.
    :raises BadInput: as :func:`read`.
    """
    history = read(store, system, selector, where, sessions=sessions)
    policy = policy or verdict_policy.load(history.system)
    if not np.isfinite(policy.margins(history.metrics)).any():
        raise NothingJudged(
            "configuration-unusable",
            f"{policy.source} gives none of the {history.metrics.height} metrics of "
            f"{history.system} a margin.",
        )
    found = levels(history, policy)
    told = events(store, history, found.points, policy) + events(
        store, history, found.accepted, policy, accepted=True
    )
    first = 0 if recent is None else max(0, history.nights.height - recent)
    since = history.nights["started"][first].date()
    return DriftAnswer(
        history,
        [event for event in told if event.worse or event.since >= since],
        found.seen,
        found.noisy,
    )
