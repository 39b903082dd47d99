"""A family of metrics over time: the page, and its values in a file a month, so that a night adds to the last one only."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from reframe_tests.harness.vocabulary import QUANTITIES

from ..report.summary import format_number
from ..results.quantity_text import size_text, unit_text
from ..statistics.two_sides import Array
from ..watch.drift import Event
from . import names, over_time
from .figures import bounds_text
from .night_page import family_place, family_title
from .nights import SiteNight
from .over_time import FAMILY, MOST_CHANGES, OverTime
from .series import Series, family_file

#: Significant digits of medians and bounds.
DIGITS = 5
#: Nights in the table that stands on the page itself.
TABLE_NIGHTS = 14


@dataclass(frozen=True)
class MetricFamily:
    """Metrics that one page draws.

    :param family: words of :data:`FAMILY`.
    :param metrics: its metrics with ``row``.
    :param events: changes that some of them are part of, and how many of them.
    """

    series: Series
    family: tuple[Any, ...]
    metrics: pl.DataFrame
    events: Sequence[tuple[Event, int]]

    @cached_property
    def file(self) -> str:
        """Name of its page."""
        return family_file(self.family)

    @property
    def title(self) -> str:
        """Benchmark and quantity."""
        return family_title(self.family)

    @property
    def place(self) -> str:
        """Where it was measured."""
        return family_place(self.family)

    @property
    def unit(self) -> str:
        """Unit as on an axis."""
        return unit_text(QUANTITIES[str(self.family[FAMILY.index("quantity")])].unit)

    @property
    def is_bandwidth(self) -> bool:
        """Whether a line rate belongs into its chart."""
        return self.family[FAMILY.index("quantity")] == "bandwidth_mb_per_s"

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows of its metrics."""
        return self.metrics["row"].to_numpy()


def families(series: Series) -> list[MetricFamily]:
    """All families of a series."""
    touched = [(event, over_time.rows_of(series.over, event)) for event in series.events]
    found = []
    for family, metrics in series.over.families():
        rows = metrics["row"].to_numpy()
        counts = [(event, int(np.isin(rows, changed).sum())) for event, changed in touched]
        found.append(MetricFamily(series, family, metrics, [(event, count) for event, count in counts if count]))
    return found


def key_of(metric: int) -> str:
    """Name of a metric in the files of values: short, and the same in every month."""
    return f"{metric:x}"


def months(over: OverTime) -> dict[str, list[int]]:
    """Places of the nights of each month (UTC), as ``2026-11``."""
    found: dict[str, list[int]] = {}
    for at, night in enumerate(over.nights):
        found.setdefault(f"{night.started:%Y-%m}", []).append(at)
    return found


def month_digest(nights: Sequence[SiteNight]) -> str:
    """Changes when a night of a month does."""
    return names.digest(*(part for night in nights for part in (night.session, night.identity, night.state.name)))


def values(family: MetricFamily, month: str, places: Sequence[int]) -> str:
    """The values of a month as a script: files that a page opened from a share may load are scripts."""
    over = family.series.over
    nights = [over.nights[at] for at in places]
    start = datetime.strptime(month, "%Y-%m").replace(tzinfo=nights[0].started.tzinfo)
    parts = []
    chosen = list(places)
    drawn = np.stack([over.drawn[name][family.rows][:, chosen] for name in ("median", "low", "high")], axis=1)
    bounds = np.stack([over.drawn[name][family.rows][:, chosen] for name in ("lower", "upper", "line_rate")], axis=2)
    rounded, bounded = round_digits(drawn), ~np.isnan(bounds).all(axis=(1, 2))
    for at, metric in enumerate(family.metrics["id"]):
        if not np.isnan(drawn[at, 0]).all():
            steps = _steps(bounds[at]) if bounded[at] else "[]"
            parts.append(f'"{key_of(metric)}":[{_numbers(rounded[at])},{steps}]')
    header = json.dumps(
        {
            "month": month,
            "days": [round((night.started - start).total_seconds() / 86400, 4) for night in nights],
            "pages": [night.page for night in nights],
            "states": [night.state.name for night in nights],
        }
    )
    return f"mpibenchValues({header},{{{','.join(parts)}}});\n"


def round_digits(table: Array) -> Array:
    """Each number to :data:`DIGITS` significant digits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (DIGITS - 1 - np.floor(np.log10(np.abs(table))))
        rounded: Array = np.where(table == 0, 0.0, np.round(table * scale) / scale)
    return rounded


def _numbers(lists: Array) -> str:
    """Lists of numbers as text, each whole number without its point."""
    text = json.dumps(lists.tolist(), separators=(",", ":"))[1:-1]
    return text.replace("NaN", "null").replace(".0,", ",").replace(".0]", "]")


def _steps(bounds: Array) -> str:
    """Bounds where they change: place in the month, lower, upper, line rate.

    :param bounds: of each night.
    """
    found: list[list[float | None]] = []
    last: list[float | None] | None = None
    for at, night in enumerate(bounds.tolist()):
        now = [None if math.isnan(value) else float(f"{value:.6g}") for value in night]
        if now != last and (last is not None or any(one is not None for one in now)):
            found.append([at, *now])
        last = now
    return json.dumps(found, separators=(",", ":"))


def content(family: MetricFamily) -> dict[str, Any]:
    """What the template ``metric.html`` shows."""
    series, over = family.series, family.series.over
    metrics = family.metrics.to_dicts()
    sizes = sorted({row["message_bytes"] for row in metrics}, key=lambda size: -1 if size is None else size)
    chosen = sizes[-1] if family.is_bandwidth else sizes[0]
    cases = {series.case_of_metric(row): f"{row['stack']}, {row['pinning']}" for row in metrics}
    titles = {one.file: one.title for one in series.histories}
    return {
        "family": family,
        "sizes": [(size, size_text(size)) for size in sizes],
        "chosen": chosen,
        "events": family.events,
        "table": _table(family, metrics, chosen),
        "chosen_text": size_text(chosen),
        "cases": sorted((titles.get(file, text), file) for file, text in cases.items() if file),
        "months": list(months(over)),
        "data": _data(family, metrics, chosen),
    }


def _data(family: MetricFamily, metrics: Sequence[Mapping[str, Any]], chosen: int | None) -> dict[str, Any]:
    """What the script of the page is to know: names only, as text."""
    stacks = sorted({str(row["stack"]) for row in metrics})
    several = len({row["ranks"] for row in metrics}) > 1
    return {
        "unit": family.unit,
        "quantity": QUANTITIES[str(family.family[FAMILY.index("quantity")])].title,
        "stacks": stacks,
        "chosen": chosen,
        "lines": [
            {
                "key": key_of(row["id"]),
                "stack": stacks.index(str(row["stack"])),
                "name": ", ".join(
                    filter(None, (str(row["stack"]), str(row["pinning"] or ""), f"{row['ranks']} ranks" if several else ""))
                ),
                "size": row["message_bytes"],
            }
            for row in metrics
        ],
        "events": [
            {
                "day": event.since.isoformat(),
                "text": str(event),
                "worse": event.worse,
                "page": next((n.page for n in family.series.over.nights if n.session == event.session), ""),
            }
            for event, _ in family.events
        ],
    }


def changes_script(series: Series) -> str:
    """What changed each night, for all pages of a series, as a script."""
    found = [
        {
            "at": f"{night.started:%Y-%m-%dT%H:%M:%SZ}",
            "page": night.page,
            "what": [str(one) for one in series.changes[night.session][:MOST_CHANGES]],
            "more": max(0, len(series.changes[night.session]) - MOST_CHANGES),
        }
        for night in series.over.nights
        if night.session in series.changes
    ]
    gone = [
        {"at": f"{night.started:%Y-%m-%dT%H:%M:%SZ}", "page": night.page, "why": night.finding}
        for night in series.nights
        if night.withdrawn
    ]
    text = json.dumps({"changes": found, "withdrawn": gone}, ensure_ascii=True).replace("<", "\\u003c")
    return f"mpibenchChanges({text});\n"


def _table(family: MetricFamily, metrics: Sequence[Mapping[str, Any]], size: int | None) -> dict[str, Any]:
    """The last nights of one size as a table, for who has no script or does not see charts."""
    over = family.series.over
    lines = [row for row in metrics if row["message_bytes"] == size]
    known = ~np.isnan(over.drawn["median"][[row["row"] for row in lines]]).all(axis=0)
    last = np.flatnonzero(known)[-TABLE_NIGHTS:][::-1].tolist()
    newest = last[0] if last else None
    return {
        "heads": [f"{row['stack']}, {row['pinning']}" + (f", {row['ranks']} ranks" if row["ranks"] else "") for row in lines],
        "rows": [(over.nights[at], [_cell(over, row["row"], at) for row in lines]) for at in last],
        "bounds": [_bounds(family, row["row"], newest) for row in lines] if newest is not None else [],
    }


def _cell(over: OverTime, row: int, at: int) -> dict[str, Any]:
    median, low, high = (float(over.drawn[name][row, at]) for name in ("median", "low", "high"))
    if math.isnan(median):
        return {"text": "", "interval": "", "missed": False}
    return {
        "text": format_number(median),
        "interval": f"{format_number(low)} to {format_number(high)}",
        "missed": bool(over.missed[row, at]),
    }


def _bounds(family: MetricFamily, row: int, at: int) -> str:
    over = family.series.over
    lower, upper, rate = (float(over.drawn[name][row, at]) for name in ("lower", "upper", "line_rate"))
    said = [
        bounds_text(lower, upper, family.unit),
        f"line rate {format_number(rate)} {family.unit}" if math.isfinite(rate) else "",
    ]
    return "; ".join(filter(None, said))
