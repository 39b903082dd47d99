"""The site of all systems of a dataset as static pages that need no network: nights, metrics over time, cases, nodes.

Written is what changed since the last build, and nothing else.
"""

from __future__ import annotations

import calendar
import fcntl
import hashlib
import json
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH, LATENCY, MEAN
from reframe_tests.harness.printable import first_line, one_line
from reframe_tests.harness.samples import NO_REFERENCE, PROVEN
from reframe_tests.harness.suites.model import KeyFigure
from reframe_tests.harness.vocabulary import LOWER, QUANTITIES, BadInput

from .. import whole_file
from ..judge import gate
from ..judge import policy as verdict_policy
from ..judge.statistics.two_sides import Array
from ..store import eligibility, records
from ..store.dataset_layout import read_condition
from ..store.quantity_text import nodes_text, size_text, unit_text
from ..store.records import StoredAnswer
from ..store.store import Store, scan_files
from . import job_files, nights
from .nights import (
    MOST_CHANGES,
    STATES,
    Family,
    Kept,
    MetricFamily,
    OverTime,
    Series,
    SiteCase,
    SiteNight,
    anchor,
    change_points,
    condition_text,
    fact_changes,
    file_name,
    is_confirming,
    labels_of,
    lasts,
    read_over_time,
    why_failed,
    worse_nights,
)
from .nights import (
    digest as digest_of,
)
from .outcomes import KEY_FIGURES, OUTCOMES, Outcome, bounds_text, format_number, plain_reason
from .page import TEMPLATES, flat, plotly_source, writing

#: Lies in the folder of a site; a folder with other things in it is never taken for one.
MARKER = "mpibench-site.json"


class SiteWriter:
    """One build of a site.

    :param folder: of the site.
    :param kept: folder beside it, with what the next build wants to know; not published.
    :param program: changes when a program or template does, and then everything is written again.
    """

    def __init__(self, folder: Path, kept: Path, program: str) -> None:
        self.folder, self._kept, self._program = folder, kept, program
        self.written = self.unchanged = 0
        self._now: dict[str, str] = {}
        with writing(folder):
            if folder.exists() and not (folder / MARKER).is_file() and any(folder.iterdir()):
                raise BadInput(
                    "not-a-site-folder",
                    f"{folder} holds other things than a site of mpibench: name a folder of its own with --out.",
                )
            folder.mkdir(parents=True, exist_ok=True)
            kept.mkdir(parents=True, exist_ok=True)
            self._lock = (kept / "lock").open("a")
            (folder / MARKER).write_text(json.dumps({"site": "mpibench"}), encoding="utf-8")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput("already-running", f"another `mpibench site` writes {folder}: wait for it.") from None
        self._before = self._read_manifest()
        # After a build that ends half way the next one writes everything again, and removes what that one would have.
        self._keep("", self._before)

    def _read_manifest(self) -> dict[str, str]:
        try:
            stored = json.loads((self._kept / "manifest.json").read_text(encoding="utf-8"))
            files: dict[str, str] = stored["files"]
            return files if stored["program"] == self._program else dict.fromkeys(files, "")
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def is_there(self, name: str, content: str) -> bool:
        """Whether a file was written of the same content before."""
        return self._before.get(name) == content and (self.folder / name).is_file()

    def put(self, name: str, content: str, make: Callable[[], str | bytes]) -> None:
        """Write a file unless the same was written before.

        :param name: path below the site.
        :param content: changes when what ``make`` returns does.
        :raises BadInput: it cannot be written.
        """
        self._now[name] = content
        if self.is_there(name, content):
            self.unchanged += 1
            return
        made = make()
        path = self.folder / name
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file.replacing(path) as partial:
                partial.write_bytes(made.encode("utf-8", "replace") if isinstance(made, str) else made)
        self.written += 1

    def leave(self, folder: str, content: str) -> bool:
        """Leave the files of a folder as they are; whether all of them are there and were written of the same content."""
        files = [name for name in self._before if name.startswith(f"{folder}/")]
        if not files or not all(self.is_there(name, content) for name in files):
            return False
        self._now.update(dict.fromkeys(files, content))
        self.unchanged += len(files)
        return True

    def finish(self) -> None:
        """Remove files of earlier builds that this one did not make, and keep what the next one wants to know."""
        with writing(self.folder):
            for name in self._before.keys() - self._now.keys():
                if ".." not in Path(name).parts:
                    (self.folder / name).unlink(missing_ok=True)
        self._keep(self._program, self._now)
        self._lock.close()

    def _keep(self, program: str, files: Mapping[str, str]) -> None:
        with writing(self._kept):
            whole_file.write_text(self._kept / "manifest.json", json.dumps({"program": program, "files": files}))


#: Figures shown of each fabric.
MOST_FIGURES = 3
#: Nights that stand for the usual.
USUAL_NIGHTS = 30
#: Percent of the line rate above which a number is not that of the fabric (``references.PAYLOAD_EXCESS``).
ABOVE_PERCENT = 103.0
#: Nights in the small curve.
CURVE_NIGHTS = 60


def of_last_night(over: OverTime, night: SiteNight) -> list[dict[str, Any]]:
    """Numbers that people quote, of each fabric: the best median of a night over stacks and conditions."""
    at = over.place.get(night.session)
    if at is None:
        return []
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for figure in KEY_FIGURES:
        for place, row in _best(over, at, figure).items():
            known = found.setdefault(place, [])
            if len(known) < MOST_FIGURES:
                known.append(_figure(over, at, row, figure))
    return [{"partition": place[0], "fabric": place[1], "figures": figures} for place, figures in sorted(found.items())]


def _best(over: OverTime, at: int, figure: KeyFigure) -> Mapping[tuple[str, str], int]:
    metrics, columns, medians = over.metrics, over.columns, over.drawn["median"][:, at]
    mask = ((metrics["benchmark"] == figure.benchmark) & (metrics["quantity"] == figure.quantity)).fill_null(False).to_numpy()
    best: dict[tuple[str, str], tuple[tuple[float, float], int]] = {}
    for row in map(int, np.flatnonzero(mask & (medians > 0))):
        size = columns["message_bytes"][row]
        if size == 0 and not figure.empty:
            continue
        place = (str(columns["partition"][row]), str(columns["fabric"][row] or ""))
        lower = columns["direction"][row] == LOWER
        rank = ((size or 0) * (1 if figure.largest else -1), float(-medians[row] if lower else medians[row]))
        if place not in best or rank > best[place][0]:
            best[place] = (rank, row)
    return {place: row for place, (_, row) in best.items()}


def _figure(over: OverTime, at: int, row: int, figure: KeyFigure) -> dict[str, Any]:
    """One figure beside its line rate, its reference and what is usual; its curve has the line rate where that is near."""
    named = over.metrics.row(row, named=True)
    medians = over.drawn["median"][row]
    value, rate = float(medians[at]), float(over.drawn["line_rate"][row, at])
    unit = unit_text(QUANTITIES[named["quantity"]].unit)
    size = "" if named["message_bytes"] is None else f", {size_text(named['message_bytes'])}"
    title, text = f"{figure.title}{size}", format_number(value)
    percent = 100 * value / rate if rate > 0 else 0.0
    rate_text = f"{percent:.0f} % of the line rate, {format_number(rate)} {unit}" if rate > 0 else ""
    drawn = medians[max(0, at + 1 - CURVE_NIGHTS) : at + 1]
    nights = f"{title} over the last {int((~np.isnan(drawn)).sum())} nights, now {text} {unit}"
    ppn = "" if named["ppn"] is None else f" x {named['ppn']}"
    return {
        "title": title,
        "text": text,
        "unit": unit,
        "where": f"{named['stack']}, {nodes_text(named['nodes'])}{ppn}, {named['pinning']}",
        "rate": rate_text,
        "above_line_rate": percent > ABOVE_PERCENT,
        "bound": bounds_text(over.drawn["lower"][row, at], over.drawn["upper"][row, at], unit),
        "held": not over.missed[row, at],
        "change": _change_text(medians[max(0, at - USUAL_NIGHTS) : at], value, unit, named["direction"] == LOWER),
        "file": Family(*(named[name] for name in Family._fields)).file,
        "curve": spark(drawn, rate if 0 < rate < 2.5 * 1.05 * float(np.nanmax(drawn)) else None),
        "alternative": "; ".join(filter(None, (nights, rate_text))),
    }


def _change_text(before: Array, value: float, unit: str, lower: bool) -> str:
    """How a value differs from the median of the nights before; nothing before there are three."""
    before = before[~np.isnan(before)]
    usual = float(np.median(before)) if len(before) >= 3 else 0.0
    if usual <= 0:
        return ""
    worse = (value / usual - 1) * (1 if lower else -1)
    if abs(worse) < 0.005:
        return f"as usual ({format_number(usual)} {unit})"
    return f"{abs(worse):.1%} {'worse' if worse > 0 else 'better'} than usual ({format_number(usual)} {unit})"


def spark(values: Iterable[float], limit: float | None = None) -> dict[str, Any]:
    """What the page's script draws a small curve from; nights without a value are left out."""
    return {"values": [float(f"{value:.5g}") if math.isfinite(value) else None for value in values], "limit": limit}


#: Columns of ``cases`` that a proof is made of.
_PROOF = ("case", "library", "library_version", "sentences", "condition", "gates", "reason")
#: Problems and notes listed openly; the others are folded.
OPEN_LINES = 12
#: Characters of a value of a condition that a page shows.
LONGEST_VALUE = 2000


def night_shown(series: Series, night: SiteNight) -> dict[str, Any]:
    cases = series.cases.filter(pl.col("session") == night.session).to_dicts()
    rows = [_row(series, row) for row in cases if row["outcome"] not in ("skipped", "retried")]
    failed = [row for row in rows if row["outcome"] in ("failed", "interrupted")]
    shown = {row["line"] for row in failed}
    others = [one for one in night.problems if one not in shown]
    skipped = [row for row in cases if row["outcome"] == "skipped"]
    place = next((at for at, one in enumerate(series.nights) if one.session == night.session), 0)
    return {
        "series": series,
        "night": night,
        "failed": failed,
        "problems": others[:OPEN_LINES],
        "more_problems": others[OPEN_LINES:],
        "changes": series.changes.get(night.session, ()),
        "events": [event for event in series.events if event.session == night.session],
        "fabrics": of_last_night(series.over, night),
        "rows": sorted(rows, key=lambda row: row["title"]),
        "families": {family for row in rows for family in row["families"]},
        "skipped": [{"reason": _skip_reason(row), "title": condition_text(row)} for row in skipped],
        "previous": series.nights[place - 1] if place else None,
        "confirming": series.confirming.get(night.session, ()),
        "same_day": [one for one in series.days[night.day][1] if one.session != night.session],
    }


def _skip_reason(row: Mapping[str, Any]) -> str:
    return first_line(plain_reason(row["reason"]), 240) or "no reason stored"


def _row(series: Series, row: Mapping[str, Any]) -> dict[str, Any]:
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
        "line": why_failed(row) if row["outcome"] in ("failed", "interrupted") else "",
        "families": series.families_of_case.get(file, ()),
    }


def night_proofs(store: Store, series: Series, night: SiteNight, page_folder: Path) -> dict[str, Any]:
    """Each case that ran, with its job, its proof and its output.

    :param page_folder: where the page will be; links to the jobs' folders are relative to it.
    """
    light = series.cases.filter((pl.col("session") == night.session) & ~pl.col("outcome").is_in(["skipped"])).to_dicts()
    long = store.scan("cases", series.system, [night.session]).select(_PROOF).collect()
    by_case = {row["case"]: row for row in long.to_dicts()}
    stored = {row["case"]: _flat_condition(by_case.get(row["case"], {}).get("condition")) for row in light}
    shared = _shared(list(stored.values()))
    return {
        "series": series,
        "night": night,
        "shared": shared,
        "cases": [
            _proof(series, row, by_case.get(row["case"], {}), stored[row["case"]], shared, page_folder)
            for row in sorted(light, key=lambda one: (one["outcome"] not in ("failed", "interrupted"), condition_text(one)))
        ],
    }


def _proof(
    series: Series,
    row: Mapping[str, Any],
    long: Mapping[str, Any],
    condition: Mapping[str, str],
    shared: Mapping[str, str],
    page_folder: Path,
) -> dict[str, Any]:
    failed = row["outcome"] in ("failed", "interrupted")
    reason = plain_reason(long.get("reason"))
    sentences = list(long.get("sentences") or ()) if row["evidence"] != "proven" else []
    version = str(long.get("library_version") or "").strip().splitlines()
    return {
        **_row(series, row),
        "meaning": OUTCOMES[row["outcome"]].meaning,
        "evidence": row["evidence"] or "none",
        "nodes": row["nodelist"] or "",
        "seconds": row["seconds"],
        "uuid": row["case"],
        "name": row["name"],
        "reason": reason if failed and reason not in sentences else "",
        "sentences": sentences,
        "library": long.get("library") or "",
        "version": version[0] if version else "",
        "condition": [(name, value) for name, value in condition.items() if shared.get(name) != value],
        "gates": [_gate(check) for check in long.get("gates") or ()],
        "references": references_title(long.get("gates") or ()),
        "place": job_files.find(row, page_folder),
        "excerpts": list(job_files.excerpts(row).items()) if failed else [],
    }


def references_title(checks: Sequence[Mapping[str, Any]]) -> str:
    """How many of a case's checks are against a reference: ``2 references, 13 metrics without``."""
    held = sum(check["outcome"] != NO_REFERENCE for check in checks)
    references, without = f"{held} reference{'' if held == 1 else 's'}", len(checks) - held
    return f"{references}, {without} metric{'' if without == 1 else 's'} without" if without else references


def _gate(check: Mapping[str, Any]) -> dict[str, Any]:
    return {**check, "shown": format_number(check["value"]), "bounds": bounds_text(check["lower"], check["upper"])}


def _flat_condition(text: str | None) -> dict[str, str]:
    found: dict[str, Any] = {}
    for name, value in read_condition(text).items():
        inner = {f"{name}: {key}": one for key, one in value.items()} if isinstance(value, Mapping) else {str(name): value}
        found.update(inner)
    texts = {name: flat(value) for name, value in found.items()}
    return {name: text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]} ..." for name, text in texts.items() if text}


def _shared(conditions: Sequence[Mapping[str, str]]) -> dict[str, str]:
    if len(conditions) < 2:
        return {}
    common: Iterable[tuple[str, str]] = set(conditions[0].items()).intersection(*(one.items() for one in conditions[1:]))
    return dict(sorted(common))


#: Significant digits of medians and bounds.
DIGITS = 5
#: Nights in the table that stands on the page itself.
TABLE_NIGHTS = 14


def key_of(metric: int) -> str:
    """Name of a metric in the files of values: short, and the same in every month."""
    return f"{metric:x}"


def months(over: OverTime) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at, night in enumerate(over.nights):
        found.setdefault(f"{night.started:%Y-%m}", []).append(at)
    return found


def month_digest(nights: Sequence[SiteNight]) -> str:
    return digest_of(*(part for night in nights for part in (night.session, night.identity, night.state.name)))


def month_script(family: MetricFamily, month: str, places: Sequence[int]) -> str:
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
        }
    )
    return f"mpibenchValues({header},{{{','.join(parts)}}});\n"


def round_digits(table: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (DIGITS - 1 - np.floor(np.log10(np.abs(table))))
        rounded: Array = np.where(table == 0, 0.0, np.round(table * scale) / scale)
    return rounded


def _numbers(lists: Array) -> str:
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


def metric_shown(family: MetricFamily) -> dict[str, Any]:
    series, over = family.series, family.series.over
    metrics = family.metrics.to_dicts()
    sizes = sorted({row["message_bytes"] for row in metrics}, key=lambda size: -1 if size is None else size)
    bandwidth = family.name.quantity == "bandwidth_mb_per_s"
    chosen = sizes[-1] if bandwidth else sizes[0]
    cases = {series.case_of_metric(row): f"{row['stack']}, {row['pinning']}" for row in metrics}
    titles = {one.file: one.title for one in series.histories}
    return {
        "series": series,
        "family": family.name,
        "bandwidth": bandwidth,
        "sizes": [(size, size_text(size)) for size in sizes],
        "chosen": chosen,
        "events": family.events,
        "table": _last_nights(family, metrics, chosen),
        "chosen_text": size_text(chosen),
        "cases": sorted((titles.get(file, text), file) for file, text in cases.items() if file),
        "months": list(months(over)),
        "data": _data(family, metrics),
    }


def _data(family: MetricFamily, metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the page's script draws the family from."""
    stacks = sorted({str(row["stack"]) for row in metrics})
    several = len({row["ranks"] for row in metrics}) > 1
    lines = []
    for row in metrics:
        words = (str(row["stack"]), row["pinning"], f"{row['ranks']} ranks" if several else "")
        name = ", ".join(filter(None, words))
        lines.append({"key": key_of(row["id"]), "stack": stacks.index(words[0]), "name": name, "size": row["message_bytes"]})
    return {
        "unit": family.name.unit,
        "quantity": QUANTITIES[family.name.quantity].title,
        "lines": lines,
        "events": [{"day": event.since.isoformat(), "worse": event.worse} for event, _ in family.events],
    }


def _change_line(what: str, before: str, after: str) -> str:
    return f"{what}: {first_line(before, 80)} \N{RIGHTWARDS ARROW} {first_line(after, 80)}"


def changes_script(series: Series) -> str:
    found = [
        {
            "at": f"{night.started:%Y-%m-%dT%H:%M:%SZ}",
            "page": night.page,
            "what": [_change_line(*one) for one in series.changes[night.session][:MOST_CHANGES]],
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


def _last_nights(family: MetricFamily, metrics: Sequence[Mapping[str, Any]], size: int | None) -> dict[str, Any]:
    over = family.series.over
    lines = [row for row in metrics if row["message_bytes"] == size]
    known = ~np.isnan(over.drawn["median"][[row["row"] for row in lines]]).all(axis=0)
    last = np.flatnonzero(known)[-TABLE_NIGHTS:][::-1].tolist()
    newest = last[0] if last else None
    return {
        "heads": [f"{row['stack']}, {row['pinning']}" + (f", {row['ranks']} ranks" if row["ranks"] else "") for row in lines],
        "rows": [(over.nights[at], [_cell(over, row["row"], at) for row in lines]) for at in last],
        "bounds": [_metric_bounds(family, row["row"], newest) for row in lines] if newest is not None else [],
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


def _metric_bounds(family: MetricFamily, row: int, at: int) -> str:
    lower, upper, rate = (float(family.series.over.drawn[name][row, at]) for name in ("lower", "upper", "line_rate"))
    line_rate = f"line rate {format_number(rate)} {family.name.unit}" if math.isfinite(rate) else ""
    return "; ".join(filter(None, (bounds_text(lower, upper, family.name.unit), line_rate)))


#: Months on the first screen; the page of the series has all.
FIRST_MONTHS = 4
#: Months of a calendar: a clock that was wrong once makes no page of half a century.
MOST_MONTHS = 120
#: Lines of what is worse on the first screen.
MOST_WORSE = 5


def calendar_months(series: Series, today: date) -> list[dict[str, Any]]:
    """All months from the first session to today, newest first, as weeks from Monday to Sunday. A day without a session is
    "not measured", and never green."""
    days = [day for day in series.days if day <= today + timedelta(days=1)]
    if not days:
        return []
    first, last = min(days), max(today, *days)
    found: list[dict[str, Any]] = []
    year, month = last.year, last.month
    while (year, month) >= (first.year, first.month) and len(found) < MOST_MONTHS:
        weeks = [
            [_day(series, day, first, today) if day.month == month else None for day in week]
            for week in calendar.Calendar().monthdatescalendar(year, month)
        ]
        found.append({"title": f"{calendar.month_name[month]} {year}", "weeks": weeks})
        year, month = (year, month - 1) if month > 1 else (year - 1, 12)
    return found


def _day(series: Series, day: date, first: date, today: date) -> dict[str, Any]:
    """State of a day (``None``: it is not to be judged), page of the session that stands for it, and what it was in words."""
    name = f"{day:%a} {day.day} {day:%b %Y}"
    if day not in series.days:
        if day > today or day < first:
            return {"day": day, "state": None}
        return {"day": day, "state": STATES["none"], "page": "", "said": f"{name}: not measured"}
    state, nights = series.days[day]
    shown = next((one for one in reversed(nights) if one.state is state), nights[-1] if nights else None)
    lost = f"{series.lost[day]} " if day in series.lost else ""
    several = f" ({len(nights)} sessions)" if len(nights) > 1 else ""
    said = f"{name}: {state.word}{several}. {lost}{shown.finding if shown else ''}"
    return {"day": day, "state": state, "page": shown.page if shown else "", "said": first_line(said, 200)}


def worse_now(series: Series) -> list[dict[str, Any]]:
    """What is worse now, the longest first: cases that fail, and changes for the worse that last and nobody accepted."""
    newest = series.newest
    if newest is None:
        return []
    lines = []
    by_night: dict[str, list[SiteCase]] = {}
    for history in series.histories:
        since = history.failing_since
        if since is not None and history.last.night.day >= newest.day - timedelta(days=7):
            by_night.setdefault(since.session, []).append(history)
    for session, histories in by_night.items():
        since = series.by_session[session]
        more = f", and {len(histories) - 1} more cases" if len(histories) > 1 else ""
        text = f"{histories[0].title} fails{more}"
        lines.append({"since": since.day, "page": since.page, "text": text, "href": f"cases/{histories[0].file}.html"})
    for event in series.events:
        if event.worse and lasts(series.over, event):
            family = next((one.file for one in series.families if any(changed is event for changed, _ in one.events)), "")
            page, text = series.by_session[event.session].page, str(event).partition(", ")[2]
            href = f"metrics/{family}.html" if family else ""
            lines.append({"since": event.since, "page": page, "text": text, "href": href})
    return sorted(lines, key=lambda line: line["since"])


def max_age_hours(series: Series) -> float:
    """Age beyond which the last night says nothing of today: the policy's; of a damaged one the usual."""
    try:
        return verdict_policy.load(series.system).max_age_hours
    except BadInput:
        return verdict_policy.Policy().max_age_hours


def is_old(series: Series, now: datetime) -> bool:
    night = series.headline
    return night is None or now - night.started > timedelta(hours=max_age_hours(series))


def verdict(series: Series, now: datetime) -> str:
    """The last whole night in one sentence, and what was measured in part since; of one that is too old first that nothing else
    was measured whole since."""
    night = series.headline
    if night is None:
        return "Nothing was measured that counts."
    parts = "".join(f" In part since, {_said(part)}." for part in series.parts_since[-1:])
    if is_old(series, now):
        days = (now - night.started).days
        since = f"{night.day.day} {night.day:%b %Y}"
        whole = " whole" if parts else ""
        said = f"that night was {night.state.word}: {night.finding.rstrip('.')}."
        return f"Not measured{whole} since {since}, {days} days ago; {said}{parts}"
    first = series.red_since
    lasting = f" Red since {first.day.day} {first.day:%b %Y}." if first is not None and first.session != night.session else ""
    return f"{_said(night)}.{lasting}{parts}"


def _said(night: SiteNight) -> str:
    return f"{night.day.day} {night.day:%b %Y}, {night.state.word}: {night.finding.rstrip('.')}"


def _card_state(series: Series, now: datetime) -> Outcome:
    night = series.headline
    red = any(part.state.name == "red" for part in series.parts_since)
    return STATES["red" if red else "none"] if night is None or red or is_old(series, now) else night.state


def card(series: Series, now: datetime) -> dict[str, Any]:
    night, last = series.headline, _measured(series)
    lines = worse_now(series)
    lost = max(series.lost, default=None)
    return {
        "series": series,
        "night": night,
        "state": _card_state(series, now),
        "verdict": verdict(series, now),
        "lost": series.lost[lost] if lost and (night is None or lost >= night.day) else "",
        "worse": lines[:MOST_WORSE],
        "more_worse": len(lines) - MOST_WORSE,
        "fabrics": of_last_night(series.over, last) if last else [],
        "figures_of": last,
        "months": calendar_months(series, now.date()),
        "stale_after_h": max_age_hours(series),
    }


def _measured(series: Series) -> SiteNight | None:
    """The night that key figures are taken of: the last whole one, or where it measured nothing the last one with values."""
    last = series.headline
    if last and last.session in series.over.place:
        return series.over.nights[series.over.place[last.session]]
    return series.over.nights[-1] if series.over.nights else None


#: Newest nights with a map that are shown.
MOST_NIGHTS = 90


class NodeShare(NamedTuple):
    """What is compared.

    :param quantity: of the map.
    :param end: the end of a pair that the node is; empty: either.
    :param lower: less of it is better.
    """

    name: str
    title: str
    quantity: str
    end: str = ""
    lower: bool = False


SHARES = (
    NodeShare("sends", "sends", BANDWIDTH, "source"),
    NodeShare("receives", "receives", BANDWIDTH, "target"),
    NodeShare("latency", "latency", LATENCY, lower=True),
    NodeShare("mean", "mean latency", MEAN, lower=True),
)


@dataclass(frozen=True)
class NodeHistory:
    """One node on one stack and fabric.

    :param nights: with a map, oldest first, each with its shares in percent by name; what was not measured is absent.
    """

    node: str
    stack: str
    fabric: str
    nights: Sequence[tuple[SiteNight, Mapping[str, float]]]

    @property
    def file(self) -> str:
        return node_file(self.node)

    @property
    def worst(self) -> float:
        signs = {share.name: 1 if share.lower else -1 for share in SHARES}
        return max(signs[name] * (percent - 100) for name, percent in self.nights[-1][1].items())

    def curve(self, share: NodeShare) -> dict[str, Any]:
        return spark((percent.get(share.name, math.nan) for _, percent in self.nights), 100.0)


def node_file(node: str) -> str:
    return file_name((node,))


def files_of(store: Store, series: Series) -> dict[str, Path]:
    """Files with maps of the newest nights of a series that have any, by session, oldest first."""
    found = {path.stem: path for path in store.files("pairs", series.system)}
    there = [night.session for night in series.nights if night.withdrawn is None and night.session in found]
    return {session: found[session] for session in there[-MOST_NIGHTS:]}


def maps_digest(files: Mapping[str, Path]) -> str:
    stats = ((session, path.stat()) for session, path in files.items())
    return digest_of(*(part for session, one in stats for part in (session, one.st_mtime_ns, one.st_size)))


def read_shares(files: Mapping[str, Path], series: Series) -> list[NodeHistory]:
    """Histories of all nodes of proven maps, the one that was last furthest behind the others first."""
    columns = ("session", "stack", "fabric", "source", "target", "quantity", "message_bytes", "value")
    measured = (pl.col("evidence") == PROVEN) & (pl.col("value") > 0)
    rows = scan_files(list(files.values()), "pairs").filter(measured).select(columns).collect()
    found: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    for share in SHARES:
        for session, stack, fabric, node, percent in _percent(rows, share):
            nights = found.setdefault((node, stack, fabric or ""), {})
            nights.setdefault(session, {})[share.name] = percent
    histories = [
        NodeHistory(*key, [(series.by_session[session], nights[session]) for session in files if session in nights])
        for key, nights in found.items()
    ]
    return sorted(histories, key=lambda one: (one.stack, one.fabric, -one.worst, one.node))


def _percent(rows: pl.DataFrame, share: NodeShare) -> Iterator[tuple[str, str, str | None, str, float]]:
    where = ("session", "stack", "fabric", "message_bytes")
    pairs = rows.filter(pl.col("quantity") == share.quantity).group_by(*where, "source", "target").agg(pl.col("value").median())
    ends = (share.end,) if share.end else ("source", "target")
    each = pl.concat([pairs.select(*where, "value", node=pl.col(end)) for end in ends])
    shares = (
        each.with_columns(whole=pl.col("value").median().over(where))
        .group_by(*where, "node")
        .agg(percent=100 * (pl.col("value") / pl.col("whole")).median())
        .group_by("session", "stack", "fabric", "node")
        .agg(pl.col("percent").mean())
    )
    yield from shares.select("session", "stack", "fabric", "node", "percent").iter_rows()


TEMPLATES.globals.update(states=STATES, marks={**OUTCOMES, "withdrawn": STATES["withdrawn"]})
#: Templates of pages with drawings.
DRAWN = ("index.html", "series.html", "night.html", "node.html", "metric.html")
#: Newest nights of a system that are held against those before them, if nobody did that yet.
JUDGED_NIGHTS = 1


@dataclass(frozen=True)
class BuiltSite:
    """What a build did.

    :param sentences: what could not be shown, one sentence each.
    """

    index: Path
    systems: int
    nights: int
    written: int
    unchanged: int
    sentences: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            f"site: {self.index} ({self.systems} systems, {self.nights} sessions; {self.written} files written, "
            f"{self.unchanged} unchanged)"
        )


def build(
    store: Store, out: Path, *, judged: int = JUDGED_NIGHTS, now: datetime | None = None, kept: Path | None = None
) -> BuiltSite:
    """Bring the site of a dataset up to date.

    :param out: the site's folder.
    :param judged: newest nights of each system that are held against those before, where no answer is stored.
    :param kept: folder of what is kept between builds; default: beside the site.
    :raises BadInput: no dataset, a damaged one, or a site that cannot be written.
    """
    moment = now or datetime.now(timezone.utc)
    store.require()
    systems = sorted({system for there in store.session_systems.values() for system in there})
    beside = kept or out.with_name(f".{out.name}-kept")
    writer = SiteWriter(out, beside, program_digest())
    build_of = _Build(store, out, writer, beside, judged, moment)
    found = [one for system in systems for one in build_of.series_of(system)]
    build_of.assets()
    for one in found:
        build_of.pages(one)
    build_of.index(found)
    writer.finish()
    count = sum(len(one.nights) for one in found)
    return BuiltSite(out / "index.html", len(systems), count, writer.written, writer.unchanged, tuple(build_of.sentences))


def program_digest() -> str:
    here = Path(__file__).parent
    files = sorted(here.rglob("*.*"))
    return hashlib.sha256(
        b"".join(path.read_bytes() for path in files if path.suffix in (".py", ".html", ".css", ".js"))
    ).hexdigest()[:16]


class _Build:
    """One build; each part of it knows folder, writer and time."""

    def __init__(self, store: Store, out: Path, writer: SiteWriter, kept: Path, judged: int, now: datetime) -> None:
        self.store, self.out, self.writer, self.kept, self.judged, self.now = store, out, writer, kept, judged, now
        self.sentences: list[str] = []
        self._maps: dict[str, Mapping[str, Path]] = {}
        self.answers = store.answers

    def series_of(self, system: str) -> list[Series]:
        cases = nights.light_cases(self.store, system)
        ids = nights.identities(self.store, system)
        measured = set(eligibility.split_cases(cases).eligible["session"])
        place = self.kept / "medians" / file_name((system,))
        kept = Kept(place, self.store, system, {session: ids[session] for session in ids if session in measured})
        spoiled = {session: about["spoiled"] for session, about in kept.about.items() if about["spoiled"]}
        by = nights.Judging(self.store, system, cases, ids, self.answers, spoiled, self.store.lost(system))
        every = nights.judge(by)
        if self._ask_the_gate(system, every, kept.about.keys()):
            every = nights.judge(by)
        return [self._series(system, run, every, cases, kept) for run in labels_of(every)]

    def _ask_the_gate(self, system: str, every: Sequence[SiteNight], measured: Set[str]) -> bool:
        """Hold the newest nights with values against those before, and keep the answers; whether there is a new one."""
        counting = [one for one in every if one.withdrawn is None and one.session in measured and not is_confirming(one)]
        asked = False
        for night in counting[-self.judged :] if self.judged else ():
            if any(one.source == records.GATE for one in self.answers.get(night.session, ())):
                continue
            self.answers.setdefault(night.session, []).append(self._gate(system, night))
            asked = True
        return asked

    def _gate(self, system: str, night: SiteNight) -> StoredAnswer:
        of = (self.store.folder, night.session, records.GATE, night.run)
        try:
            said = gate.decide(self.store, system, night.session, partial=bool(night.options), now=night.started)
        except BadInput as error:
            why = f"the gate could not judge: {str(error).rstrip('.')}"
            return records.answer(*of, [why], finding=why, now=self.now)
        judged = said.counts.history.judged or 0
        problems = [problem.text for _, problem in said.by_kind]
        finding = said.finding or ("measured in part" if night.options else "")
        return records.answer(*of, problems, said.notes, finding=finding, judged=judged, now=self.now)

    def _series(self, system: str, run: str, every: Sequence[SiteNight], cases: pl.DataFrame, kept: Kept) -> Series:
        own = [night for night in every if night.run == run and not is_confirming(night)]
        ids = [night.session for night in own]
        table = cases.filter(pl.col("session").is_in(ids))
        over = read_over_time([night for night in own if night.withdrawn is None], kept)
        nodes = {session: _nodes(part["nodelist"]) for (session,), part in table.group_by("session")}
        confirming: dict[str, list[SiteNight]] = {}
        for night in filter(is_confirming, every):
            confirming.setdefault(night.run.partition("=")[2], []).append(night)
        lost = {date.fromisoformat(one.day): one.finding for one in nights.without_session(self.answers) if one.label == run}
        try:
            events = change_points(self.store, system, over)
        except BadInput as error:
            events = []
            self.sentences.append(f"{system}: no change points are shown: {error}")
        slower = worse_nights(over, events)
        own = [nights.is_worse(night, slower.get(night.session, ())) for night in own]
        judged = {night.session: night for night in own}
        over = replace(over, nights=[judged[night.session] for night in over.nights])
        return Series(system, run, own, table, over, events, fact_changes(over, nodes), lost, confirming)

    def assets(self) -> None:
        from plotly.offline import get_plotlyjs_version

        for name in ("page.css", "site.js"):
            text = TEMPLATES.get_template(name).render()
            self.writer.put(f"assets/{name}", digest_of(text), text.encode)
        self.writer.put("assets/plotly.min.js", get_plotlyjs_version(), lambda: str(plotly_source()))

    def _put(self, name: str, content: str, template: str, shown: Callable[..., Mapping[str, Any]], *of: Any) -> None:
        """Write a page, unless the same was written before: what it shows is asked for only then."""

        def make() -> str:
            about = {"up": "../" * name.count("/"), "nonce": secrets.token_hex(16), "drawn": template in DRAWN}
            return TEMPLATES.get_template(template).render(**shown(*of), **about, built=f"{self.now:%Y-%m-%dT%H:%M:%SZ}")

        self.writer.put(name, content, make)

    def pages(self, series: Series) -> None:
        self._nodes_pages(series)
        events = {event.session: digest_of(event.session, str(event)) for event in series.events}
        before = ""
        for night in series.nights:
            # What is said of a night rests on that before it, too.
            known = digest_of(
                night.identity, night.state.name, before, events.get(night.session), series.changes.get(night.session)
            )
            again = [one.identity for one in series.confirming.get(night.session, ())]
            digest = digest_of(known, *again, *(one.session for one in series.days[night.day][1]))
            name = f"{series.folder}/nights/{night.page}"
            self._put(f"{name}.html", digest, "night.html", night_shown, series, night)
            if night.counts:
                of = (self.store, series, night, (self.out / name).parent)
                self._put(f"{name}-proof.html", digest, "proof.html", night_proofs, *of)
            before = night.identity
        self._metrics(series)
        files = digest_of(*(one.file for one in series.families))
        for history in series.histories:
            runs = digest_of(files, *(part for run in history.runs for part in (run.night.identity, run.outcome)))
            self._put(f"{series.folder}/cases/{history.file}.html", runs, "case.html", _case_shown, series, history)

    def _metrics(self, series: Series) -> None:
        folder = f"{series.folder}/metrics"
        changes = changes_script(series)
        if series.families:
            self.writer.put(f"{folder}/data/changes.js", digest_of(changes), lambda: changes)
        places = months(series.over)
        digests = {month: month_digest([series.over.nights[at] for at in there]) for month, there in places.items()}
        last = digest_of(*digests.values())
        for family in series.families:
            for month, there in places.items():
                content = digest_of(digests[month], *family.metrics["id"])
                make = partial(month_script, family, month, there)
                self.writer.put(f"{folder}/data/{family.file}.{month}.js", content, make)
            known = digest_of(last, *(str(event) for event, _ in family.events))
            self._put(f"{folder}/{family.file}.html", known, "metric.html", metric_shown, family)

    def _nodes_pages(self, series: Series) -> None:
        files = self._maps[series.folder] = files_of(self.store, series)
        if not files:
            return
        content, folder = maps_digest(files), f"{series.folder}/nodes"
        if self.writer.leave(folder, content):
            return
        histories = read_shares(files, series)
        shown = {"series": series, "shares": SHARES}
        self._put(f"{folder}/index.html", content, "nodes.html", lambda: {**shown, "histories": histories})
        by_node = sorted(histories, key=lambda one: (one.node, one.stack, one.fabric))
        for node, own in groupby(by_node, key=lambda one: one.node):
            of_node = {**shown, "node": node, "histories": list(own)}
            self._put(f"{folder}/{node_file(node)}.html", content, "node.html", dict, of_node)

    def index(self, found: Sequence[Series]) -> None:
        built = self.now.isoformat()
        cards = {series.folder: card(series, self.now) for series in found}
        for series in found:
            shown = {"series": series, "card": cards[series.folder], "maps": bool(self._maps[series.folder])}
            self._put(f"{series.folder}/index.html", built, "series.html", dict, shown)
        first = {series.system: series for series in reversed(found)}
        main = [cards[series.folder] for series in found if first[series.system] is series]
        main.sort(key=lambda card: -(card["night"].started.timestamp() if card["night"] else 0))
        others = [(series, verdict(series, self.now)) for series in found if first[series.system] is not series]
        labels = {series.run for series in found}
        lost = [one for one in nights.without_session(self.answers) if one.label not in labels][-5:]
        of_all = {"cards": main, "others": others, "lost": lost, "months": FIRST_MONTHS}
        self._put("index.html", built, "index.html", dict, of_all)


def _nodes(lists: pl.Series) -> list[str]:
    return sorted({node for text in lists.drop_nulls().unique() for node in one_line(text).split(",") if node})


def _case_shown(series: Series, history: SiteCase) -> dict[str, Any]:
    families = series.families_of_case.get(history.file, ())
    return {"series": series, "history": history, "families": families, "runs": list(reversed(history.runs))}
