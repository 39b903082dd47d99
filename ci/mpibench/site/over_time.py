"""The metrics of a series of nights over time: values, bounds, change points, and what changed from night to night."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from reframe_tests.harness.vocabulary import LOWER

from ..results.session_values import METRIC, changes
from ..statistics.two_sides import Array
from ..verdicts import policy as verdict_policy
from ..watch import drift
from ..watch.drift import Event
from .medians import IDENTITY, Kept
from .nights import SiteNight

#: Nights that are drawn, the newest of a series: 13 months of one a night.
MOST_NIGHTS = 400
#: Facts of one night that are named; the others are counted.
MOST_CHANGES = 12
#: What makes metrics one family, drawn on one page.
FAMILY = ("partition", "fabric", "nodes", "ppn", "suite", "benchmark", "variant", "groups", "quantity")
_DRAWN = ("median", "low", "high", "lower", "upper", "line_rate")
#: Beside stack, fabric and condition nothing else distinguishes what the watch calls one metric.
_WATCHED = tuple(name for name in METRIC if name in IDENTITY)


@dataclass(frozen=True)
class FactChange:
    """Something that was otherwise in the night before.

    :param what: e.g. ``kernel release``, ``MPI of openmpi-spack``, ``nodes``.
    """

    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.what}: {_short(self.before)} \N{RIGHTWARDS ARROW} {_short(self.after)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:77]}..."


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
        """Column of each session."""
        return {night.session: at for at, night in enumerate(self.nights)}

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """The names of the metrics, a list for each column."""
        return self.metrics.to_dict(as_series=False)

    def families(self) -> list[tuple[tuple[Any, ...], pl.DataFrame]]:
        """Metrics of each family with ``row``, in the order of their names."""
        rows = self.metrics.with_row_index("row")
        parts = rows.partition_by(FAMILY, as_dict=True, maintain_order=True)
        return sorted(parts.items(), key=lambda item: tuple(str(word) for word in item[0]))


def read(nights: Sequence[SiteNight], kept: Kept, stems: Mapping[str, str]) -> OverTime:
    """Values of some nights, the oldest first.

    :param stems: names of the kept files by session.
    """
    chosen = [night for night in nights if night.session in stems][-MOST_NIGHTS:]
    files = [stems[night.session] for night in chosen]
    values = kept.values(files, nights[0].run if nights else "")
    metrics = kept.metrics(files, values).sort(
        ["fabric", "suite", "benchmark", "quantity", "stack", "pinning", "message_bytes"]
    )
    rows = metrics.select("id").with_row_index("row")
    placed = values.join(rows, on="id")
    row, night = placed["row"].to_numpy(), placed["night"].to_numpy()
    shape = (metrics.height, len(chosen))
    drawn = {}
    for name in _DRAWN:
        table = np.full(shape, np.nan)
        table[row, night] = placed[name].to_numpy()
        drawn[name] = table
    flags = {name: np.zeros(shape, dtype=bool) for name in ("judged", "missed")}
    for name, table in flags.items():
        table[row, night] = placed[name].fill_null(False).to_numpy()
    facts = [kept.about(stem).get("facts", {}) for stem in files]
    return OverTime(chosen, metrics, drawn, flags["judged"], flags["missed"], facts)


def fact_changes(over: OverTime, nodes: Mapping[str, Sequence[str]]) -> dict[str, list[FactChange]]:
    """What differs from the night before, by session: versions, kernel, firmware, settings, nodes.

    :param nodes: of each session.
    """
    found: dict[str, list[FactChange]] = {}
    for at in range(1, len(over.nights)):
        before, now = over.nights[at - 1].session, over.nights[at].session
        rows = [FactChange(*one) for one in changes(over.facts[at - 1], over.facts[at])]
        # What one night knows and the other never asked is no change of the machine.
        rows = [one for one in rows if "-" not in (one.before, one.after)]
        rows += _nodes(nodes.get(before, ()), nodes.get(now, ()))
        if rows:
            found[now] = rows
    return found


def _nodes(before: Sequence[str], after: Sequence[str]) -> list[FactChange]:
    gone, new = (sorted(set(one) - set(other)) for one, other in ((before, after), (after, before)))
    if not (gone or new) or not (before and after):
        return []
    return [FactChange("nodes", ", ".join(gone) or "none less", ", ".join(new) or "none more")]


def change_points(folder: Path, system: str, over: OverTime) -> list[Event]:
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
    found = drift.events(folder, history, drift.change_points(history, policy, None), policy.levels)
    return drift.name_moves(history, policy, found)


def _one_a_day(nights: Sequence[SiteNight]) -> list[int]:
    """Place of the last whole session of each day; of a day without one the last."""
    chosen: dict[Any, int] = {}
    for at, night in enumerate(nights):
        if night.day not in chosen or not night.options or nights[chosen[night.day]].options:
            chosen[night.day] = at
    return sorted(chosen.values())


#: Nights for which a change for the worse that lasts is held against a night, as the gate holds it.
REMEMBERED_NIGHTS = 90
#: Nights before a change that say what was before it, and nights in a row that say what is.
_BEFORE, _NOW = 14, drift.FEWEST_CHANGED


def rows_of(over: OverTime, event: Event) -> np.ndarray:
    """Rows of the metrics that are part of a change."""
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
    """Whether a change for the worse still holds in the last night."""
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
    for at in range(start, min(len(over.nights), start + REMEMBERED_NIGHTS)):
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
