"""The first screen, and the page of each series: verdict, what is worse since when, key figures, every day of every year."""

from __future__ import annotations

import calendar
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from reframe_tests.harness.printable import first_line
from reframe_tests.harness.vocabulary import BadInput

from ..report.summary import OUTCOMES
from ..verdicts import policy as verdict_policy
from . import figures, over_time
from .figures import FabricFigures
from .metric_page import MetricFamily
from .nights import STATES, NightState, SiteNight
from .series import Series, SiteCase

#: Months on the first screen; the page of the series has all.
FIRST_MONTHS = 4
#: Months of a calendar: a clock that was wrong once makes no page of half a century.
MOST_MONTHS = 120
#: Lines of what is worse on the first screen.
MOST_WORSE = 5


@dataclass(frozen=True)
class CalendarDay:
    """One day.

    :param state: of :data:`STATES`; ``None``: not to be judged, since it is to come.
    :param page: of the session that stands for it; empty without one.
    :param said: what it was, for who points at it or listens to it.
    """

    day: date
    state: NightState | None
    page: str
    said: str


@dataclass(frozen=True)
class CalendarMonth:
    """A month as weeks of seven days, Monday first; ``None``: a day of another month."""

    title: str
    weeks: Sequence[Sequence[CalendarDay | None]]


@dataclass(frozen=True)
class WorseLine:
    """Something that is worse, and since when.

    :param since: the first night; ``text``: what, in a sentence.
    :param page: of that night; ``case``: of the case, empty where it is several.
    """

    since: date
    text: str
    page: str
    case: str = ""
    family: str = ""


def calendar_months(series: Series, today: date) -> list[CalendarMonth]:
    """All months from the first session to today, newest first. A day without a session is "not measured", and never green."""
    days = [day for day in series.days if day <= today + timedelta(days=1)]
    if not days:
        return []
    first, last = min(days), max(today, *days)
    found: list[CalendarMonth] = []
    year, month = last.year, last.month
    while (year, month) >= (first.year, first.month) and len(found) < MOST_MONTHS:
        weeks = [
            [_day(series, day, first, today) if day.month == month else None for day in week]
            for week in calendar.Calendar().monthdatescalendar(year, month)
        ]
        found.append(CalendarMonth(f"{calendar.month_name[month]} {year}", weeks))
        year, month = (year, month - 1) if month > 1 else (year - 1, 12)
    return found


def _day(series: Series, day: date, first: date, today: date) -> CalendarDay:
    name = f"{day:%a} {day.day} {day:%b %Y}"
    if day not in series.days:
        if day > today or day < first:
            return CalendarDay(day, None, "", "")
        return CalendarDay(day, STATES["none"], "", f"{name}: not measured")
    state, nights = series.days[day]
    shown = next((one for one in reversed(nights) if one.state is state), nights[-1] if nights else None)
    lost = f"{series.lost[day]} " if day in series.lost else ""
    several = f" ({len(nights)} sessions)" if len(nights) > 1 else ""
    finding = f"{shown.finding}" if shown else ""
    return CalendarDay(
        day, state, shown.page if shown else "", first_line(f"{name}: {state.word}{several}. {lost}{finding}", 200)
    )


def worse(series: Series, found: Sequence[MetricFamily]) -> list[WorseLine]:
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
        lines.append(WorseLine(since.day, f"{histories[0].title} fails{more}", since.page, histories[0].file))
    for event in series.events:
        if event.worse and over_time.lasts(series.over, event):
            family = next((one.file for one in found if any(changed is event for changed, _ in one.events)), "")
            page = series.by_session[event.session].page
            lines.append(WorseLine(event.since, str(event).partition(", ")[2], page, family=family))
    return sorted(lines, key=lambda line: line.since)


def max_age_hours(series: Series) -> float:
    """Age beyond which the last night says nothing of today: the policy's; of a damaged one the usual."""
    try:
        return verdict_policy.load(series.system).max_age_hours
    except BadInput:
        return verdict_policy.Policy().max_age_hours


def is_old(series: Series, now: datetime) -> bool:
    """Whether the last whole night is too old to say anything of today."""
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
    """Day, state and finding of a night."""
    return f"{night.day.day} {night.day:%b %Y}, {night.state.word}: {night.finding.rstrip('.')}"


def _state(series: Series, now: datetime) -> NightState:
    """The last whole night's, unless what was measured in part since is red."""
    night = series.headline
    red = any(part.state.name == "red" for part in series.parts_since)
    return STATES["red" if red else "none"] if night is None or red or is_old(series, now) else night.state


def card(series: Series, found: Sequence[MetricFamily], now: datetime) -> dict[str, Any]:
    """What the first screen and the page of the series say first."""
    night, last = series.headline, _measured(series)
    fabrics: list[FabricFigures] = figures.of_last_night(series.over, last) if last else []
    lines = worse(series, found)
    lost = max(series.lost, default=None)
    return {
        "series": series,
        "night": night,
        "state": _state(series, now),
        "verdict": verdict(series, now),
        "lost": series.lost[lost] if lost and (night is None or lost >= night.day) else "",
        "worse": lines[:MOST_WORSE],
        "more_worse": len(lines) - MOST_WORSE,
        "fabrics": fabrics,
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


def content(series: Series, found: Sequence[MetricFamily], now: datetime) -> dict[str, Any]:
    """What the template ``series.html`` shows."""
    return {
        "card": card(series, found, now),
        "places": list(_by_place(found)),
        "cases": [
            {"history": one, "mark": _mark(one), "since": one.failing_since, "nights": len(one.runs)}
            for one in series.histories
        ],
        "events": series.events,
        "event_pages": {event.session: series.by_session[event.session].page for event in series.events},
        "nights": list(reversed(series.nights)),
        "states": STATES.values(),
    }


def _mark(history: SiteCase) -> tuple[str, str]:
    """Sign and word of the last run of a case."""
    outcome = history.last.outcome
    return ("W", "withdrawn") if outcome == "withdrawn" else (OUTCOMES[outcome].mark, OUTCOMES[outcome].word)


def _by_place(found: Sequence[MetricFamily]) -> Iterator[tuple[str, list[MetricFamily]]]:
    places: dict[str, list[MetricFamily]] = {}
    for one in found:
        places.setdefault(one.place, []).append(one)
    for place in sorted(places):
        yield place, sorted(places[place], key=lambda one: one.title)
