"""A series of sessions of one system under one label, and each of its cases from night to night."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any, NamedTuple

import polars as pl

from ..results.sessions import CONFIRMS
from ..watch.drift import Event
from . import names
from .nights import NIGHTLY, STATES, NightState, SiteNight, condition_text
from .over_time import FAMILY, FactChange, OverTime

#: What makes cases of different nights the same case; a case that was skipped knows its processes per node by symbol only.
CASE = ("partition", "stack", "name", "fabric", "nodes", "ppn_symbol", "pinning", "group")
#: The same as metrics name it.
_OF_METRIC = ("partition", "stack", "name", "fabric", "nodes", "ppn", "pinning", "group")
#: Outcomes that say nothing of a case.
NOT_RUN = ("skipped", "dry", "retried")


class CaseRun(NamedTuple):
    """A case in one night.

    :param stored: its outcome, a key of :data:`~mpibench.report.summary.OUTCOMES`.
    :param case: its id in ReFrame.
    :param nodes: of its job, comma-separated.
    """

    night: SiteNight
    stored: str
    case: str
    job: str
    nodes: str

    @property
    def outcome(self) -> str:
        """Its outcome; of a withdrawn session ``withdrawn``."""
        return "withdrawn" if self.night.withdrawn else self.stored

    @property
    def anchor(self) -> str:
        """Place of its proof on the night's page of proofs."""
        return anchor(self.case)


def anchor(case: str) -> str:
    """Place of a case on the pages of its night."""
    return f"c-{names.digest(case)}"


@dataclass(frozen=True)
class SiteCase:
    """One case over all nights of a series.

    :param file: name of its page, the same in every build.
    :param runs: oldest first; nights in which it was skipped are not among them.
    :param of_metric: what its metrics are known by.
    """

    file: str
    title: str
    runs: Sequence[CaseRun]
    of_metric: tuple[Any, ...]

    @property
    def last(self) -> CaseRun:
        """The newest one."""
        return self.runs[-1]

    @property
    def failing_since(self) -> SiteNight | None:
        """First of the nights in a row in which it failed, up to the last one; ``None`` if it does not fail."""
        since = None
        for run in reversed(self.runs):
            if run.outcome == "withdrawn":
                continue
            if run.outcome not in ("failed", "interrupted"):
                break
            since = run.night
        return since


@dataclass(frozen=True)
class Series:
    """Sessions of one system under one label.

    :param run: the label; empty without one.
    :param nights: all its sessions, oldest first, those that were withdrawn or cannot be read among them.
    :param cases: rows of :func:`~.nights.light_cases`.
    :param changes: what differs from the night before, by session.
    :param lost: days on which a night of this label stored no session, with its answer.
    :param confirming: sessions that measured one of these again, by its id.
    """

    system: str
    run: str
    nights: Sequence[SiteNight]
    cases: pl.DataFrame
    over: OverTime
    events: Sequence[Event] = ()
    changes: Mapping[str, Sequence[FactChange]] = field(default_factory=dict)
    lost: Mapping[date, str] = field(default_factory=dict)
    confirming: Mapping[str, Sequence[SiteNight]] = field(default_factory=dict)

    @cached_property
    def folder(self) -> str:
        """Name of its folder."""
        return names.file_name((self.system, self.run))

    @property
    def title(self) -> str:
        """Label as a reader sees it."""
        return self.run or "without label"

    @cached_property
    def newest(self) -> SiteNight | None:
        """The last night that was not withdrawn; ``None`` without any."""
        return next((night for night in reversed(self.nights) if night.withdrawn is None), None)

    @cached_property
    def headline(self) -> SiteNight | None:
        """The last whole night that was not withdrawn; where all are parts, the last one; ``None`` without any."""
        whole = (night for night in reversed(self.nights) if night.withdrawn is None and not night.options)
        return next(whole, self.newest)

    @cached_property
    def parts_since(self) -> list[SiteNight]:
        """What was measured in part after the last whole night, oldest first."""
        last = self.headline
        later = self.nights[self.nights.index(last) + 1 :] if last else ()
        return [night for night in later if night.withdrawn is None]

    @cached_property
    def by_session(self) -> dict[str, SiteNight]:
        """Nights by their ids."""
        return {night.session: night for night in self.nights}

    @cached_property
    def days(self) -> dict[date, tuple[NightState, list[SiteNight]]]:
        """State and sessions of each day (UTC): the worst of its sessions is that of the day."""
        found: dict[date, list[SiteNight]] = {}
        for night in self.nights:
            found.setdefault(night.day, []).append(night)
        order = list(STATES)
        days = {
            day: (min((one.state for one in nights), key=lambda state: order.index(state.name)), nights)
            for day, nights in found.items()
        }
        for day in self.lost:
            days[day] = (STATES["red"], days[day][1] if day in days else [])
        return days

    @cached_property
    def red_since(self) -> SiteNight | None:
        """First of the nights in a row that are red, up to the last one; ``None`` if the last one is not. Parts end no row."""
        since, last = None, self.headline
        for night in reversed(self.nights[: self.nights.index(last) + 1] if last else ()):
            if night.withdrawn or (night.options and last and not last.options):
                continue
            if night.state.name != "red":
                break
            since = night
        return since

    @cached_property
    def histories(self) -> list[SiteCase]:
        """Each case that ran, in the order of their titles."""
        ran = self.cases.filter(~pl.col("outcome").is_in(NOT_RUN))
        found = []
        for key, part in ran.partition_by(CASE, as_dict=True, maintain_order=True).items():
            rows = part.select("session", "outcome", "case", "job_id", "nodelist").iter_rows()
            runs = [
                CaseRun(self.by_session[session], outcome, case, job or "", on or "")
                for session, outcome, case, job, on in rows
            ]
            last = part.row(-1, named=True)
            title = condition_text(last)
            test = str(last["name"]).split(" ")[0]
            of_metric = tuple(last[name] for name in _OF_METRIC)
            found.append(SiteCase(names.file_name((title, *key)), f"{test}: {title}", runs, of_metric))
        return sorted(found, key=lambda one: one.title)

    @cached_property
    def case_files(self) -> dict[str, str]:
        """Name of the page of each case, by its id in ReFrame."""
        return {run.case: one.file for one in self.histories for run in one.runs}

    @cached_property
    def _files_by_metric(self) -> dict[tuple[Any, ...], str]:
        return {one.of_metric: one.file for one in self.histories}

    def case_of_metric(self, row: Mapping[str, Any]) -> str:
        """Name of the page of the case that measures a metric; empty where there is none."""
        return self._files_by_metric.get(tuple(row[name] for name in _OF_METRIC), "")

    @cached_property
    def families_of_case(self) -> dict[str, list[tuple[Any, ...]]]:
        """Families that a case measures metrics of, by the name of its page."""
        columns = list(dict.fromkeys((*_OF_METRIC, *FAMILY)))
        found: dict[str, list[tuple[Any, ...]]] = {}
        for row in self.over.metrics.select(columns).unique(maintain_order=True).to_dicts():
            found.setdefault(self.case_of_metric(row), []).append(tuple(row[name] for name in FAMILY))
        return found


def family_file(family: Sequence[Any]) -> str:
    """Name of the page of a family, the same in every build."""
    named = dict(zip(FAMILY, family, strict=True))
    words = (named["benchmark"], named["quantity"], named["fabric"] or named["partition"], named["nodes"], named["ppn"])
    return names.file_name((*words, *family))


def labels_of(nights: Sequence[SiteNight]) -> list[str]:
    """Labels of the series of a system: that of the nights first, then by their newest session."""
    newest = {night.run: night.started for night in nights if not is_confirming(night)}
    return sorted(newest, key=lambda run: (run != NIGHTLY, -newest[run].timestamp()))


def is_confirming(night: SiteNight) -> bool:
    """Whether a session measured another one again."""
    return night.run.startswith(f"{CONFIRMS}=")
