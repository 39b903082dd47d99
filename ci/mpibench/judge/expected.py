"""What a session must contain, proven, and what is missing from it. Missing cases are never
accepted by learning; they must be retired by hand.

By partition, stack, fabric, group and benchmark, a session is expected to contain

- what was ever proven in an earlier session of the same label (``run``; without one: of the same
  kind, :class:`.selectors.Alike`) on the same system, however long ago, until ``expected.yaml``
  retires it; under each number of nodes, of processes per node, and pinning under which it was, at
  as many sizes and in as many repeats as usual (:func:`_lost`): half of the cores or of a curve
  missing is a hole, and with one repeat nothing is compared with earlier nights;
- what ``expected.yaml`` names for that label;
- the system on which the label was first measured, unless
  ``expected.yaml`` also names the label (:func:`_moved`);
- for each registered stack on each partition it fits, and for each fabric that ``system.py``
  describes for a partition, at least one proven case, so that a first night is not complete by
  itself.

A session started with selection options (:mod:`.selection_options`) is partial, and complete only
if the caller asks for a partial answer; what it did not select is then counted and reported. The
selection is not derived from the cases that ran: a case that is left out while tests are loaded is
a hole. Only if the options select by something that is not stored (a tag, an expression), or
nothing known, do the session's own cases define what was selected.

If a session followed a plan (:mod:`mpibench.judge.plan`), every planned case is expected. Unplanned
cases are excused (:class:`SessionPlan`) if the plan knew and left them out, and they were right
when last tried (or never tried). So what failed, missed a reference, or was skipped after having
been proven stays expected until it is right again or retired, and so does a case that no longer
exists. A plan that is gone, was edited, or belongs to another day or system excuses nothing and is
itself a hole.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta, timezone
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from reframe_tests.harness import optional_file, schema, yaml_file
from reframe_tests.harness.printable import clause, few, first_line, plural
from reframe_tests.harness.sites import site, systems
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import SITE_FILES, BadInput

from ..store import eligibility, selection_options, selectors
from ..store.dataset_layout import read_labels
from ..store.session_values import among, beside, not_among
from ..store.sessions import PAIRED
from ..store.store import Store, StoredNight, scan_files
from .plan import record
from .plan.record import CASE, ListedCase, Owed, PlanRecord


class CoverageKey(NamedTuple):
    """Something that can be proven; a field of ``None`` means any."""

    partition: str | None = None
    stack: str | None = None
    fabric: str | None = None
    group: str | None = None
    benchmark: str | None = None

    def covers(self, other: CoverageKey) -> bool:
        """Whether ``other`` matches this one, read as patterns."""
        pairs = zip(self, other, strict=True)
        return all(
            mine is None or (theirs is not None and fnmatchcase(theirs, mine))
            for mine, theirs in pairs
        )

    def job(self) -> CoverageKey:
        """The same without the benchmark: what one test covers."""
        return self._replace(benchmark=None)

    def __str__(self) -> str:
        return ", ".join(f"{kind} {value}" for kind, value in self._asdict().items() if value)


@dataclass(frozen=True)
class Retired:
    """A reviewed line: what matches and was last proven on
    ``proven_until`` or before is no longer expected.

    :param runs: labels it is for; empty: all.
    """

    places: tuple[CoverageKey, ...]
    runs: tuple[str, ...]
    proven_until: date
    reason: str

    def covers(self, place: CoverageKey, run: str | None, last: date | None) -> bool:
        """Whether a place is retired; ``last``: the day it was last
        proven, ``None`` if it never was.
        """
        if self.runs and not any(fnmatchcase(run or "", pattern) for pattern in self.runs):
            return False
        return (last is None or last <= self.proven_until) and any(
            mine.covers(place) for mine in self.places
        )


@dataclass(frozen=True)
class ExpectedFile:
    """The contents of a system's file; an empty one if there is none.

    :param options: label to the selection options of its whole sessions, as
        :func:`.selection_options.narrowing` gives them.
    :param history: whether what was proven before is expected, too.
    """

    source: str = ""
    expected: Mapping[str, tuple[CoverageKey, ...]] = field(default_factory=dict)
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    retired: tuple[Retired, ...] = ()
    history: bool = True

    def retires(self, place: CoverageKey, run: str | None, last: date | None) -> bool:
        """Whether a place is retired that was last proven on a day (``None``: never)."""
        return any(line.covers(place, run, last) for line in self.retired)

    def narrowing(self, command_line: str | None, run: str | None) -> tuple[str, ...]:
        """Selection options of a session, unless its label is always measured with just these.

        Those of the mode the label is named after are what makes it that
        mode, also where they are given one by one.
        """
        rows = (
            site.options_of_mode(row, batch)
            for row in site.MODES
            if row["name"] == run
            for batch in (False, True)
        )
        mode = " ".join(option for row in rows for option in row)
        own = selection_options.narrowing(f"reframe {mode}")
        found = tuple(
            option
            for option in selection_options.narrowing(command_line or "reframe")
            if option not in own
        )
        return () if sorted(found) == sorted(self.options.get(run or "", ())) else found


def path_of(system: str, root: Path = ROOT) -> Path:
    return systems.folder_of(system, root) / "expected.yaml"


def load_file(system: str, root: Path = ROOT) -> ExpectedFile:
    """Read a system's file.

    :raises BadInput: it cannot be read, is not YAML, or, with the key, breaks the schema.
    """
    path = path_of(system, root)
    if not optional_file.is_there(path):
        return ExpectedFile()
    source = systems.shown(path, root)
    content = yaml_file.parse_mapping(yaml_file.read_text(path), source)
    fault = schema.find_fault(ROOT / "site_configs" / "expected.schema.json", content)
    if fault:
        raise BadInput(
            "configuration-unusable",
            f"{source}: {fault.key}: {fault.message}; see site_configs/expected.schema.json.",
        )
    runs = content.get("runs", {})
    given = {label: " ".join(row["options"]) for label, row in runs.items() if "options" in row}
    options = {
        label: selection_options.narrowing(f"reframe {words}") for label, words in given.items()
    }
    for label, narrowed in options.items():
        if not narrowed:
            raise BadInput(
                "bad-option",
                f"{source}: runs.{label}.options: {given[label]!r} selects nothing; remove it.",
            )
    return ExpectedFile(
        source,
        {
            label: tuple(
                place for row in runs[label].get("expected", ()) for place in _keys_of(row)
            )
            for label in runs
        },
        options,
        tuple(
            _retired(row, f"{source}: retired.{number}")
            for number, row in enumerate(content.get("retired", ()))
        ),
        content.get("history", True),
    )


def _keys_of(row: Mapping[str, Any]) -> list[CoverageKey]:
    """An entry with lists as one place for each combination."""
    values = [row.get(name) for name in CoverageKey._fields]
    return [
        CoverageKey(*place)
        for place in itertools.product(*(v if isinstance(v, list) else [v] for v in values))
    ]


def _retired(row: Mapping[str, Any], where: str) -> Retired:
    day = row["date"]
    try:
        day = day if type(day) is date else date.fromisoformat(str(day))
    except ValueError:
        raise BadInput(
            "bad-option", f"{where}.date is {row['date']!r}, expected YYYY-MM-DD."
        ) from None
    if day > datetime.now(timezone.utc).date() + timedelta(days=1):
        raise BadInput(
            "bad-option",
            f"{where}.date is {day}, which is in the future: it would also retire what is still "
            "measured.",
        )
    if not set(row) & set(CoverageKey._fields):
        raise BadInput(
            "nothing-measured",
            f"{where} does not say what is retired: give one of {', '.join(CoverageKey._fields)}.",
        )
    runs = row.get("run") or []
    return Retired(
        tuple(_keys_of(row)), tuple(runs if isinstance(runs, list) else [runs]), day, row["reason"]
    )


@dataclass(frozen=True)
class SessionPlan:
    """The plan of a session, with what earlier sessions say.

    :param excused: cases that are not to be expected tonight.
    :param still: what is owed with tonight's measurements, from earlier sessions.
    """

    plan: PlanRecord
    excused: frozenset[ListedCase]
    owed: Mapping[ListedCase, Owed] = field(default_factory=dict)
    still: Mapping[ListedCase, Owed] = field(default_factory=dict)

    def is_asked(self, place: CoverageKey, proofs: pl.DataFrame) -> bool:
        """Whether this session must contain what whole sessions must: not if only excused cases
        could prove it.

        :param proofs: of all sessions: ``partition``, ``stack``, ``name``, ``benchmark``, ...
        """
        fitting = [case for case in self.plan.known if place.job().covers(job_of(case))]
        if place.benchmark is not None:
            known = proofs.select(*CASE, "benchmark").drop_nulls("benchmark").unique().iter_rows()
            under = {ListedCase(*key) for *key, name in known if fnmatchcase(name, place.benchmark)}
            fitting = [case for case in fitting if case in under] or fitting
        return not fitting or any(case not in self.excused for case in fitting)

    def expected(self, proofs: pl.DataFrame, session: str) -> pl.DataFrame:
        """Proofs without those of earlier sessions that are excused."""
        names = [(case.partition, case.stack, case.name) for case in self.excused]
        excused = pl.DataFrame(names, schema=dict.fromkeys(CASE, pl.String), orient="row")
        kept = not_among(proofs.filter(pl.col("session") != session), excused, CASE)
        return pl.concat([kept, proofs.filter(pl.col("session") == session)])


def job_of(case: ListedCase) -> CoverageKey:
    return CoverageKey(
        case.partition, case.stack, case.parameters.get("fabric") or None, case.group
    )


def find_plan(stored: StoredNight, cases: pl.DataFrame) -> SessionPlan | None:
    """The plan of a session; ``None`` if it names none.

    :param cases: rows of ``cases`` of its series up to it.
    :raises BadInput: it names one that is not there, was edited, or
        is of another system, label or day.
    """
    store, system, session = stored.store, stored.system, stored.session
    labels = read_labels(stored.cases["labels"][0])
    plan = record.of_session(store.folder, labels, system, stored.started)
    if plan is None:
        return None
    owed = record.find_owed(store, system, cases.filter(pl.col("session") != session))
    debts = record.find_owed(store, system, cases, session)
    still = {case: debt for case, debt in debts.items() if debt.session != session}
    return SessionPlan(plan, plan.known - plan.planned - set(owed), owed, still)


def missing_planned(
    planned: SessionPlan,
    tonight: pl.DataFrame,
    before: Collection[ListedCase],
    file: ExpectedFile,
    run: str | None,
    *,
    wholly: bool = True,
) -> tuple[list[str], list[str]]:
    """Sentences on planned cases that are not proven, owed ones that were not planned, and those
    measured tonight under another condition than where they were not right, one for each job; and
    notes on those that could never be measured so far.

    :param tonight: rows of ``cases`` of the session.
    :param before: cases that were proven before.
    :param wholly: also what was owed and no longer exists.
    """
    rows = tonight.filter(
        ~pl.col("superseded").fill_null(False), ~pl.col("case").str.ends_with(PAIRED)
    )
    proven = {
        ListedCase(*key)
        for key in eligibility.split_cases(rows).proven.select(CASE).drop_nulls().iter_rows()
    }
    there = {
        ListedCase(row["partition"], row["stack"], row["name"]): row
        for row in rows.to_dicts()
        if row["name"]
    }
    retire = f"retire it in {file.source or 'expected.yaml'}"
    lost: list[tuple[ListedCase, str]] = []
    skipped = []
    for case in sorted(planned.plan.planned - proven):
        row = there.get(case)
        if row is not None and row["result"] == "skip" and case not in before:
            skipped.append(f"{case.name}: {first_line(row['reason'])}")
        elif not file.retires(job_of(case), run, None):
            why = (
                "did not run"
                if row is None
                else f"{row['result']}: {first_line(row['reason']) or 'without proof'}"
            )
            lost.append((case, why))
    owing = []
    for case, owed in sorted(planned.owed.items()):
        known = case in planned.plan.known
        if case in planned.plan.planned or case in proven or not (known or wholly):
            continue
        if not file.retires(job_of(case), run, owed.proven):
            owing.append(
                (
                    case,
                    f"{owed}" if known else f"{owed}; it no longer exists: restore it, or {retire}",
                )
            )
    elsewhere = [
        (case, f"{owed}; tonight {owed.lacks or 'not right either'}")
        for case, owed in sorted(planned.still.items())
        if case in proven and not file.retires(job_of(case), run, owed.proven)
    ]
    lines = []
    for head, cases, remedy in (
        ("planned but not proven", lost, ""),
        ("not right when last tried, but not planned", owing, ""),
        (
            "not measured again under the condition in which it was not right",
            elsewhere,
            f": measure it as then, or {retire}",
        ),
    ):
        jobs: dict[CoverageKey, list[str]] = {}
        for case, why in cases:
            jobs.setdefault(job_of(case), []).append(f"{case.name} ({why})")
        lines += [f"{head}: {job}: {few(names)}{remedy}" for job, names in jobs.items()]
    return lines, [f"planned but skipped, and never proven here: {few(skipped)}"] if skipped else []


#: Fields of a place that is one test: what a job measures.
JOB = ("partition", "stack", "fabric", "group")
#: The rest of a condition; a place was proven under at least one, and stays expected under each.
UNDER = ("nodes", "ppn", "pinning")
#: Conditions named in one sentence.
MOST_CONDITIONS = 4


class LastProven(NamedTuple):
    """When something was last proven before the session that is judged."""

    session: str
    started: datetime


class Hole(NamedTuple):
    """Something that stops a session from being complete.

    :param word: what a line of it begins with; empty if it says so itself.
    """

    finding: str
    word: str = "missing: "

    def __str__(self) -> str:
        return f"{self.word}{self.finding}"


@dataclass(frozen=True)
class Completeness:
    """Whether a session is complete.

    :param expected: how many things were expected; ``there``: how many of them were proven.
    :param holes: the largest first.
    :param not_asked: expected things a partial session was not started for.
    :param rests_on: where the expectation comes from.
    """

    system: str
    session: str
    run: str | None
    started: datetime
    expected: int
    there: int
    holes: tuple[Hole, ...]
    not_asked: int
    options: tuple[str, ...]
    rests_on: str
    notes: tuple[str, ...]
    partial: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """A line for each hole."""
        return tuple(map(str, self.holes))

    @property
    def complete(self) -> bool:
        """Nothing that was expected is missing, and nothing was left out without leave."""
        return not self.holes

    @property
    def summary(self) -> str:
        """Counts and their ground, as part of a sentence."""
        counts = f"{self.there} of {self.expected} expected there ({self.rests_on})"
        if not self.options:
            return counts
        rest = f", {self.not_asked} more were not selected" if self.partial else ""
        return f"partial (started with {' '.join(self.options)}): {counts}{rest}"

    def as_data(self) -> dict[str, Any]:
        """The whole answer, for JSON: ``complete`` and what
        :class:`Completeness` has; times in ISO 8601.
        """
        data = {
            "missing" if name == "holes" else name: value for name, value in asdict(self).items()
        }
        return {
            "complete": self.complete,
            **data,
            "missing": self.missing,
            "started": self.started.isoformat(),
        }

    def lines(self) -> list[str]:
        word = "complete" if self.complete else "INCOMPLETE"
        label = f"run={self.run}" if self.run is not None else "no label"
        head = (
            f"{word}: {self.system}, session {self.session[:8]} ({label}, "
            f"{self.started:%Y-%m-%d %H:%M} UTC): {self.summary}"
        )
        return [
            head,
            *(f"  {line}" for line in self.missing),
            *(f"  note: {line}" for line in self.notes),
        ]


@dataclass(frozen=True)
class _Night:
    """A session, and what is known of it and of those before it.

    :param everything: proofs of this session and the earlier ones of its series
        (:func:`_proofs`); ``proofs``: without what the plan excuses.
    :param plan_fault: why its plan is unknown.
    :param options: that made it a partial one.
    :param partial: only what these ask for is to be there.
    """

    stored: StoredNight
    everything: pl.DataFrame
    proofs: pl.DataFrame
    plan: SessionPlan | None
    plan_fault: str
    file: ExpectedFile
    options: tuple[str, ...]
    partial: bool

    @property
    def run(self) -> str | None:
        return self.stored.alike.run

    @property
    def wholly(self) -> bool:
        """All that is expected of a whole session is to be there."""
        return not (self.partial and self.options)

    @cached_property
    def now(self) -> dict[CoverageKey, LastProven]:
        return _places(self.proofs.filter(self._here))

    @cached_property
    def past(self) -> dict[CoverageKey, LastProven]:
        return _places(self.proofs.filter(~self._here))

    @cached_property
    def became(self) -> dict[CoverageKey, Became]:
        return _not_proven(self.stored.cases)

    @property
    def _here(self) -> pl.Expr:
        return pl.col("session") == self.stored.session

    def proven_cases(self, *, before: bool) -> set[ListedCase]:
        rows = self.everything.filter(~self._here if before else self._here)
        return {ListedCase(*key) for key in rows.select(CASE).iter_rows()}


def _read_night(stored: StoredNight, *, partial: bool, root: Path) -> _Night:
    store, system = stored.store, stored.system
    cases = store.cases_of(system, stored.series)
    everything = _proofs(store, system, eligibility.split_cases(cases).proven)
    plan = None
    fault = ""
    try:
        plan = find_plan(stored, cases)
    except BadInput as error:
        fault = f"plan: {clause(error)}: the plan cannot be read, so everything is expected"
    file = load_file(system, root)
    command_line = next(iter(stored.cases["cmdline"].drop_nulls()), None)
    return _Night(
        stored=stored,
        everything=everything,
        proofs=plan.expected(everything, stored.session) if plan else everything,
        plan=plan,
        plan_fault=fault,
        file=file,
        options=file.narrowing(command_line, stored.alike.run),
        partial=partial,
    )


class _Wanted(NamedTuple):
    """What is expected of a whole session, and how much of it is retired."""

    places: list[CoverageKey]
    retired: int


def _wanted(night: _Night, registered: Sequence[CoverageKey]) -> _Wanted:
    """History, registered stacks and described fabrics without what is
    retired; and what the file names.
    """
    file = night.file
    dated = {place: proof.started.date() for place, proof in night.past.items()}
    dated = dated if file.history else {}
    unproven = [place for place in registered if not any(place.covers(known) for known in dated)]
    kept = [place for place, last in dated.items() if not file.retires(place, night.run, last)]
    kept += [place for place in unproven if not file.retires(place, night.run, None)]
    places = dict.fromkeys([*kept, *file.expected.get(night.run or "", ())])
    plan = night.plan
    return _Wanted(
        [
            place
            for place in places
            if not plan or place in night.past or plan.is_asked(place, night.everything)
        ],
        len(dated) + len(unproven) - len(kept),
    )


def _absent(night: _Night, asked: Sequence[CoverageKey]) -> list[CoverageKey]:
    """Places that are not proven. Those of the history are names, the others may be patterns."""
    return [
        place
        for place in asked
        if place not in night.now
        and (place in night.past or not any(place.covers(other) for other in night.now))
    ]


def _lost_conditions(night: _Night) -> list[Hole]:
    """What of the conditions that were proven before is not there."""
    if not night.file.history:
        return []
    proofs = night.proofs
    if not night.wholly:
        proofs = _selected(proofs, night.stored.session, night.options)
    return _lost(proofs, night.stored.session, night.run, night.file, set(night.now), night.wholly)


def _against_plan(night: _Night) -> tuple[list[Hole], list[str]]:
    """What of the plan is not there, and notes on what nobody could measure yet."""
    if night.plan is None:
        return [Hole(night.plan_fault, "")] if night.plan_fault else [], []
    lines, unready = missing_planned(
        night.plan,
        night.stored.cases,
        night.proven_cases(before=True),
        night.file,
        night.run,
        wholly=night.wholly,
    )
    broken = [Hole(f"plan: {line}", "") for line in night.plan.plan.broken]
    return [*broken, *map(Hole, lines)], unready


def _notes(night: _Night, unready: Iterable[str], problems: Iterable[str]) -> list[str]:
    """What is worth knowing but is not a hole.

    :param problems: with stacks, which a partial session never selects.
    """
    notes = [
        f"{night.file.source}: runs.{label}: no session has this label"
        for label in sorted(set(night.file.expected) - night.stored.alike.runs)
    ]
    notes += [*unready, *(() if night.wholly else problems)]
    if night.stored.cases["cmdline"].null_count():
        notes.append("the command line of this session is not stored, so it may have been partial")
    return notes


def _ground(night: _Night, described: str, retired: int, *, own: bool) -> str:
    """Where the expectation comes from.

    :param own: nothing was known, and its own jobs say what was requested.
    """
    file = night.file
    named = file.source if file.expected.get(night.run or "") and file.history else ""
    parts = [
        str(night.stored.alike) if file.history else f"{file.source}, without history",
        described,
        named,
        f"{retired} retired" if retired else "",
        "only its own jobs are expected, because nothing else is known to have been selected"
        if own
        else "",
    ]
    if night.plan:
        plan = night.plan.plan
        parts.append(
            f"plan {plan.id} of {plan.day}: {len(plan.planned)} of "
            f"{plural(len(plan.known), 'case')}"
        )
    return ", ".join(filter(None, parts))


def judge(stored: StoredNight, *, partial: bool = False, root: Path = ROOT) -> Completeness:
    """Hold a session against what is expected of it.

    :param root: checkout with ``site_configs`` and ``environments``.
    :raises BadInput: a damaged dataset, ``expected.yaml``,
        ``system.py``, or two stacks of one name.
    """
    system = stored.system
    night = _read_night(stored, partial=partial, root=root)
    registered, problems, described = _registered(system, root)
    wanted, retired = _wanted(night, registered)
    planned = night.plan.plan.planned if night.plan else frozenset[ListedCase]()
    known = wanted
    if not night.wholly:
        known = _asked(wanted, night.proofs, night.options, night.became)
    # Nothing like it was ever proven here: its own cases say what was requested.
    own = [] if known or night.wholly else list(night.became)
    asked = known or own
    absent = _absent(night, asked)
    file = systems.shown(path_of(system, root), root)
    remedies = dict.fromkeys(
        registered, f"never proven here; if it never can be, retire it in {file}"
    )
    of_plan, unready = _against_plan(night)
    holes = [
        *_holes(absent, asked, night.past, night.now, night.became, remedies),
        *_lost_conditions(night),
        *of_plan,
        *(Hole(line, "") for line in _moved(night, root)),
    ]
    if not asked and not planned:
        where = f"no earlier session, expected.yaml, {SITE_FILES}"
        holes.append(Hole(f"nothing defines what this session must contain: {where}"))
    elif not night.now:
        holes.append(Hole("no case of this session is proven"))
    if night.wholly:
        holes += [Hole(line, "") for line in problems]
    if night.options and not partial:
        why = (
            f"partial: started with {' '.join(night.options)}, so it is not a whole session: run a "
            "whole one, or give --partial to judge only what was selected"
        )
        holes.insert(0, Hole(why, ""))
    counts = len(asked), len(asked) - len(absent)
    if planned and not asked:  # nothing is known of earlier nights: the plan says what was to be
        counts = len(planned), len(planned & night.proven_cases(before=False))
    return Completeness(
        system=system,
        session=stored.session,
        run=night.run,
        started=stored.started,
        expected=counts[0],
        there=counts[1],
        holes=tuple(holes),
        not_asked=len(wanted) - len(known),
        options=night.options,
        rests_on=_ground(night, described, retired, own=bool(own)),
        notes=tuple(_notes(night, unready, problems)),
        partial=partial,
    )


def _moved(night: _Night, root: Path) -> list[str]:
    """Says so where the series of a label began on another system, whose
    history this one does not have; empty if it did not.

    A system whose ``expected.yaml`` names the label is accepted.
    """
    run = night.run
    store, system = night.stored.store, night.stored.system
    if run is None or run in night.file.expected or store.systems == [system]:
        return []
    # A damaged file of another system stops no verdict on this
    # one, whose own were looked at before.
    paths = [
        path
        for path in store.files("cases", unreadable_too=True)
        if path.stem not in store.withdrawn
    ]
    everywhere = selectors.sessions_table(scan_files(paths, "cases"))
    labels = selectors.runs_of(everywhere)
    series = everywhere.filter(
        pl.col("session").is_in([name for name, label in labels.items() if label == run])
    )
    before = series.filter(pl.col("started") < night.stored.started)
    first = (
        before.filter(pl.col("session") == before["session"][0])["system"].to_list()
        if before.height
        else []
    )
    if not first or system in first:
        return []
    last = before.filter(pl.col("system").is_in(first)).row(-1, named=True)
    return [
        f"system: sessions of run={run} are of {', '.join(first)} (last "
        f"{last['started']:%Y-%m-%d}, session {last['session'][:8]}), but this one is of {system}: "
        f"correct site_configs; or, if intended, use another label or name {run} under runs in "
        f"{systems.shown(path_of(system, root), root)}"
    ]


def proven_places(
    store: Store, system: str, sessions: Sequence[str]
) -> dict[CoverageKey, LastProven]:
    """Everything that is proven in some sessions, each with its newest proof.

    :raises BadInput: a damaged dataset.
    """
    cases = store.cases_of(system, sessions)
    return _places(_proofs(store, system, eligibility.split_cases(cases).proven))


def _proofs(store: Store, system: str, proven: pl.DataFrame) -> pl.DataFrame:
    """Session, start, name, place, condition of everything proven, and at how many ``sizes`` and in
    how many ``repeats`` it has values.

    A case that times nothing has no benchmark. A value of zero says that nothing arrived.
    """
    wanted = proven.select("case", "session", "started", "name", *JOB, *UNDER)
    samples = store.scan("samples", system).filter(
        pl.col("session").is_in(proven["session"].unique().to_list())
    )
    points = samples.filter(pl.col("value") > 0).group_by("case", "benchmark")
    counts = {"sizes": pl.col("message_bytes"), "repeats": pl.col("repeat")}
    names = points.agg(
        **{name: column.n_unique().cast(pl.Int64) for name, column in counts.items()}
    ).collect()
    return wanted.join(names, on="case", how="left").drop("case").unique().sort("started", "sizes")


def _places(proofs: pl.DataFrame) -> dict[CoverageKey, LastProven]:
    """Each place with its newest proof."""
    rows = proofs.select(*CoverageKey._fields, "session", "started").iter_rows()
    return {
        CoverageKey(*values): LastProven(session, started) for *values, session, started in rows
    }


class Became(NamedTuple):
    """The outcome of a job that is not proven; the least says most."""

    skipped: bool
    text: str


def _not_proven(tonight: pl.DataFrame) -> dict[CoverageKey, Became]:
    """Each job of the session with the outcome of it where it was not proven."""
    found: dict[CoverageKey, Became] = {}
    for row in tonight.filter(~pl.col("superseded").fill_null(False)).to_dicts():
        place = CoverageKey(*(row[name] for name in JOB))
        first = first_line(row["reason"])
        word = {"skip": "skipped", "pass": "passed without proof"}.get(row["result"], "failed")
        text = f"{word}: {first}" if first else word
        if row["result"] == eligibility.INTERRUPTED:
            text = f"interrupted ({eligibility.cause_of(row['reason'])})"
        skipped = row["result"] == "skip"
        # A failure says more than a skip beside it.
        if place not in found or (found[place].skipped and not skipped):
            found[place] = Became(skipped, text)
    return found


def _registered(system: str, root: Path) -> tuple[list[CoverageKey], list[str], str]:
    """Stacks on the partitions they fit and fabrics of each partition;
    what is wrong with a stack; what this rests on.
    """
    described = systems.find(system, root)
    if described is None:
        return [], [], f"{system} is not described here, so its stacks and fabrics are unknown"
    stacks, problems = metadata.discover(root)
    names = [stack.name for stack in stacks]
    found = []
    for partition in described["partitions"]:
        extras = partition["extras"]
        # of a centre's own configuration, and nothing is measured on it
        if not extras.get("fabrics"):
            continue
        found += [
            CoverageKey(partition["name"], stack=name)
            for name in site.fitting_stacks(extras, names)
        ]
        found += [
            CoverageKey(partition["name"], fabric=name) for name in systems.fabrics_of(extras)
        ]
    return found, problems, f"{len(names)} registered stacks"


def _asked(
    wanted: Sequence[CoverageKey],
    proofs: pl.DataFrame,
    options: Sequence[str],
    planned: Collection[CoverageKey],
) -> list[CoverageKey]:
    """What of everything expected a partial session was asked
    for, by its options and by its cases.
    """
    names: dict[CoverageKey, set[str | None]] = {}
    for *values, name in proofs.select(*CoverageKey._fields, "name").unique().iter_rows():
        names.setdefault(CoverageKey(*values), set()).add(name)
    asked = []
    for place in wanted:
        partition, stack = (
            None if set(value or "*") & set("*?[") else value
            for value in (place.partition, place.stack)
        )
        answers = [
            selection_options.asks_for(options, partition, stack, name)
            for name in names.get(place, {None})
        ]
        if True in answers or any(place.job().covers(other) for other in planned):
            asked.append(place)
    return asked


def _selected(proofs: pl.DataFrame, session: str, options: Sequence[str]) -> pl.DataFrame:
    """Proofs of a partial session, and those of earlier ones that its options surely ask for."""
    cases = proofs.select("partition", "stack", "name").unique()
    asked = [selection_options.asks_for(options, *values) is True for values in cases.iter_rows()]
    cases = cases.filter(pl.Series(asked, dtype=pl.Boolean))
    earlier = proofs.filter(pl.col("session") != session)
    chosen = among(earlier, cases, cases.columns)
    return pl.concat([chosen, proofs.filter(pl.col("session") == session)])


def _holes(
    holes: Sequence[CoverageKey],
    wanted: Sequence[CoverageKey],
    past: Mapping[CoverageKey, LastProven],
    now: Iterable[CoverageKey],
    became: Mapping[CoverageKey, Became],
    remedies: Mapping[CoverageKey, str],
) -> list[Hole]:
    """One for a partition, stack, fabric or group all of which is missing, then one per job.

    :param remedies: what to do about places that were never proven.
    """

    def why(places: Sequence[CoverageKey]) -> str:
        """When it was last proven and the outcome of it in this
        session; of what never was, what to do.
        """
        proofs = [past[place] for place in places if place in past]
        before = next((f"; {remedies[place]}" for place in places if place in remedies), "")
        if proofs:
            last = max(proofs, key=lambda proof: proof.started)
            before = f"; last proven {last.started:%Y-%m-%d} in session {last.session[:8]}"
        own = {place.job() for place in places}
        known = [what for job, what in became.items() if any(mine.covers(job) for mine in own)]
        return f"; {min(known).text if known else 'not among the cases of this session'}{before}"

    left = list(holes)
    found = []
    for kind in JOB:
        for name in dict.fromkeys(getattr(place, kind) for place in left):
            whole = {place for place in wanted if getattr(place, kind) == name}
            if name is not None and len(whole) > 1 and whole <= set(left):
                said = why([place for place in wanted if place in whole])
                found.append(
                    Hole(f"{kind} {name}: none of its {len(whole)} expected cases is proven{said}")
                )
                left = [place for place in left if place not in whole]
    jobs = {place.job() for place in now}
    for job in dict.fromkeys(place.job() for place in left):
        places = [place for place in left if place.job() == job]
        names = sorted(place.benchmark for place in places if place.benchmark)
        text = str(job)
        if names and any(job.covers(other) for other in jobs):
            text += f": benchmark{'s' if names[1:] else ''} {', '.join(names)}"
        found.append(Hole(f"{text or ', '.join(names)}{why(places)}"))
    return found


def _lost(
    proofs: pl.DataFrame,
    session: str,
    run: str | None,
    file: ExpectedFile,
    there: Collection[CoverageKey],
    wholly: bool,
) -> list[Hole]:
    """One per job for conditions under which something that is there was
    proven before, and is not in this session.

    :param proofs: of this session and the earlier ones, oldest first.
    :param there: what is proven in this session under any condition;
        what is not is reported as a whole.
    :param wholly: fewer message sizes than before count as not proven,
        too: the rest of the curve is missing.
    """
    here = pl.col("session") == session
    keys = [*CoverageKey._fields, *UNDER]
    most = {"now": pl.col("sizes").max(), "repeats_now": pl.col("repeats").max()}
    now = proofs.filter(here).group_by(keys).agg(**most, here=pl.lit(True))
    before = proofs.filter(~here)
    if file.retired:
        before = before.with_columns(day=pl.col("started").dt.date())
        days = before.select(*CoverageKey._fields, "day").unique()
        wanted = [
            not file.retires(CoverageKey(*place), run, day) for *place, day in days.iter_rows()
        ]
        days = days.filter(pl.Series(wanted, dtype=pl.Boolean))
        before = among(before, days, days.columns)
    # As many as most sessions had: one that took more of them is no new normal.
    before = before.with_columns(usual=pl.col("repeats").mode().max().over(keys))
    fewer = (pl.lit(wholly) & (pl.col("now") < pl.col("sizes"))) | (
        pl.col("repeats_now") < pl.col("usual")
    )
    gone = (
        beside(before, now, keys)
        .filter(pl.col("here").is_null() | fewer)
        .unique(keys, keep="last", maintain_order=True)
    )
    jobs: dict[CoverageKey, list[dict[str, Any]]] = {}
    for row in gone.to_dicts():
        place = CoverageKey(*(row[name] for name in CoverageKey._fields))
        if place in there:
            jobs.setdefault(place.job(), []).append(row)
    lines = []
    for job, rows in jobs.items():
        names = set()
        for row in rows:
            counts = (
                ((row["now"], row["sizes"], "sizes"), (row["repeats_now"], row["usual"], "repeats"))
                if row["here"]
                else ()
            )
            part = ", ".join(
                f"{now} of {before} {what}" for now, before, what in counts if now < before
            )
            names |= {f"{row['benchmark']}{part and f' ({part})'}"} if row["benchmark"] else set()
        under = sorted({f"{row['nodes']} x {row['ppn']} {row['pinning']}" for row in rows})
        last = max(rows, key=lambda row: row["started"])
        lines.append(
            f"{job}: not proven at {few(under, MOST_CONDITIONS)} (nodes x processes "
            f"per node, pinning){': ' + ', '.join(sorted(names)) if names else ''}; last proven "
            f"{last['started']:%Y-%m-%d} in session {last['session'][:8]}"
        )
    return [Hole(line) for line in sorted(lines)]
