"""What a session must hold, proven, and what of it is not there. A hole is never learned from, only retired by hand.

Expected of a session is, by partition, stack, fabric, group and benchmark,

- everything that was ever proven in an earlier session of the same label (``run``; without one: of the same kind,
  :class:`.selectors.Alike`) on the same system, however long ago and whatever became of it since, until ``expected.yaml``
  retires it (:mod:`.expected_file`), and under each number of nodes, of processes per node, and pinning under which it was, at
  as many sizes and in as many repeats as usual (:func:`_lost`): half of the cores or of a curve gone is a hole, not a new
  normal, and with one repeat nothing would be held against the nights before;
- what ``expected.yaml`` names for that label;
- the system the label was measured on first, unless ``expected.yaml`` names the label, too (:func:`_moved`);
- each registered stack on each partition it fits, and each fabric that ``system.py`` describes for a partition: at least one
  proven case, so that a first night is not complete by itself.

A session started with selection options (:mod:`.selection_options`) is partial. It is not complete unless the caller asks for a
partial answer; then what it was not asked for is counted and said. What it was asked for is not what became a case of it: a
case that is left out when the tests are loaded is a hole like any other. Only where the options select by something that is not
stored (a tag, an expression) do its own cases say what it was asked for.

Of a session that was measured by a plan (:mod:`mpibench.judge.plan`) what was not planned is not expected, and every planned
case is (:mod:`.planned`); a plan that is gone, was edited or is of another day or system excuses nothing and is a hole itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import polars as pl

from reframe_tests.harness.printable import first_line
from reframe_tests.harness.sites import folders, site, systems
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import SITE_FILES, BadInput

from ...store import eligibility, selection_options, selectors
from ...store.store import Store, scan_files
from ..plan.cases import ListedCase
from . import expected_file
from . import planned as planned_cases
from .expected_file import CoverageKey, ExpectedFile
from .planned import SessionPlan

#: Fields of a place that is one test: what a job measures.
JOB = ("partition", "stack", "fabric", "group")
#: The rest of a condition; a place was proven under at least one, and stays expected under each.
UNDER = ("nodes", "ppn", "pinning")
#: Conditions named in one sentence.
MOST_CONDITIONS = 4


@dataclass(frozen=True)
class LastProven:
    """When something was last proven before the session that is judged."""

    session: str
    started: datetime


@dataclass(frozen=True)
class Completeness:
    """Whether a session is complete.

    :param run: its label; ``None`` without one.
    :param expected: how many things were expected; ``there``: how many of them were proven.
    :param missing: a sentence for each hole, the largest first.
    :param not_asked: expected things a partial session was not started for.
    :param options: selection options of a partial session; empty for a whole one.
    :param rests_on: where the expectation comes from.
    :param notes: what a reader should know and what is not a hole.
    :param partial: the caller asked for a partial answer.
    """

    system: str
    session: str
    run: str | None
    started: datetime
    expected: int
    there: int
    missing: tuple[str, ...]
    not_asked: int
    options: tuple[str, ...]
    rests_on: str
    notes: tuple[str, ...]
    partial: bool = False

    @property
    def complete(self) -> bool:
        """Nothing that was expected is missing, and nothing was left out without leave."""
        return not self.missing

    @property
    def summary(self) -> str:
        """Counts and their ground, as part of a sentence."""
        counts = f"{self.there} of {self.expected} expected there ({self.rests_on})"
        if not self.options:
            return counts
        rest = f", {self.not_asked} more not asked for" if self.partial else ""
        return f"partial (started with {' '.join(self.options)}): {counts}{rest}"

    def as_data(self) -> dict[str, Any]:
        """The whole answer, for JSON: ``complete`` and what :class:`Completeness` has; times in ISO 8601."""
        return {"complete": self.complete, **asdict(self), "started": self.started.isoformat()}

    def lines(self) -> list[str]:
        """The answer for a terminal."""
        word = "complete" if self.complete else "INCOMPLETE"
        label = f"run={self.run}" if self.run is not None else "no label"
        head = f"{word}: {self.system}, session {self.session[:8]} ({label}, {self.started:%Y-%m-%d %H:%M} UTC): {self.summary}"
        return [head, *(f"  {line}" for line in self.missing), *(f"  note: {line}" for line in self.notes)]


def judge(store: Store, system: str, session: str, *, partial: bool = False, root: Path = ROOT) -> Completeness:
    """Hold a session against what is expected of it.

    :param session: its whole id.
    :param partial: judge a partial session by what it was asked for.
    :param root: checkout with ``site_configs`` and ``environments``.
    :raises BadInput: a damaged dataset, ``expected.yaml``, ``system.py``, or two stacks of one name.
    """
    table = store.cases(system)
    alike = selectors.alike(selectors.sessions_table(table), session)
    cases = table.filter(pl.col("session").is_in([*alike.earlier, session])).collect()
    tonight = cases.filter(pl.col("session") == session)
    proofs = everything = _proofs(store, system, eligibility.split_cases(cases).proven)
    plan, fault = _plan(store, system, cases, session)
    proofs = plan.expected(everything, session) if plan else everything
    now = _places(proofs.filter(pl.col("session") == session))
    past = _places(proofs.filter(pl.col("session") != session))
    file = expected_file.load(system, root)
    registered, problems, described = _registered(system, root)
    wanted, retired = _wanted(file, alike.run, past if file.history else {}, registered)
    left_out = [one for one in wanted if plan and one not in past and not plan.is_asked(one, everything)]
    wanted = [one for one in wanted if one not in set(left_out)]
    planned = _planned(tonight)
    options = file.narrowing(next(iter(tonight["cmdline"].drop_nulls()), None), alike.run)
    wholly = not (partial and options)
    asked = wanted if wholly else _asked(wanted, proofs, options, planned)
    covered = _covered(asked, now, past)
    holes = [one for one, there in zip(asked, covered, strict=True) if not there]
    remedy = f"never proven here: if it cannot be, retire it in {folders.shown(expected_file.path_of(system, root), root)}"
    missing = _sentences(holes, asked, past, now, planned, dict.fromkeys(registered, remedy))
    if file.history:
        missing += _lost(proofs if wholly else _selected(proofs, session, options), session, alike.run, file, set(now), wholly)
    missing += fault
    unready: list[str] = []
    if plan:
        before = everything.filter(pl.col("session") != session).select(planned_cases.CASE).unique().iter_rows()
        known = (ListedCase(*key) for key in before)
        lines, unready = planned_cases.missing(plan, tonight, known, file, alike.run, wholly=wholly)
        missing += [f"plan: {line}" for line in plan.plan.broken] + lines
    missing += _moved(store, system, session, alike.run, file, root)
    if not asked and not (plan and plan.plan.planned):
        missing.append(f"missing: nothing says what this session must hold: no earlier session, expected.yaml, {SITE_FILES}")
    elif not now:
        missing.append("missing: no case of this session is proven")
    notes = [f"{file.source}: runs.{label}: no session carries this label" for label in sorted(set(file.expected) - alike.runs)]
    notes += unready
    if options and not partial:
        missing.insert(
            0,
            f"partial: started with {' '.join(options)}, so it cannot stand for a whole session: run it whole, or say "
            "--partial to judge only what was asked for",
        )
    (notes if options and partial else missing).extend(problems)
    if tonight["cmdline"].null_count():
        notes.append("the command line of this session is not stored: whether it was partial is not known")
    rests_on = [str(alike)]
    rests_on = rests_on if file.history else [f"{file.source}, without history"]
    rests_on.append(described)
    rests_on += [f"{file.source}"] if file.expected.get(alike.run or "") and file.history else []
    rests_on += [f"{retired} retired"] if retired else []
    rests_on += [planned_cases.describe(plan)] if plan else []
    wanted_there = len(asked), len(asked) - len(holes)
    if plan and not asked:  # nothing is known of earlier nights, and the plan says what was to be measured
        here = everything.filter(pl.col("session") == session).select(planned_cases.CASE).unique().iter_rows()
        wanted_there = len(plan.plan.planned), len(plan.plan.planned & {ListedCase(*key) for key in here})
    return Completeness(
        system=system,
        session=session,
        run=alike.run,
        started=tonight["started"][0],
        expected=wanted_there[0],
        there=wanted_there[1],
        missing=tuple(missing),
        not_asked=len(wanted) - len(asked),
        options=options,
        rests_on=", ".join(rests_on),
        notes=tuple(notes),
        partial=partial,
    )


def _plan(store: Store, system: str, cases: pl.DataFrame, session: str) -> tuple[SessionPlan | None, list[str]]:
    """The plan of a session, and a hole where it names one that cannot be used."""
    try:
        return planned_cases.find(store, system, cases, session), []
    except BadInput as error:
        return None, [f"plan: {str(error).rstrip('.')}: what was planned is not known, so everything is expected"]


def _moved(store: Store, system: str, session: str, run: str | None, file: ExpectedFile, root: Path) -> list[str]:
    """Says so where the series of a label began on another system, whose history this one does not have; empty if it did not.

    A system whose ``expected.yaml`` names the label is accepted.
    """
    if run is None or run in file.expected:
        return []
    # A damaged file of another system stops no verdict on this one, whose own were looked at before.
    paths = [path for path in store.files("cases", unreadable_too=True) if path.stem not in store.withdrawn]
    everywhere = selectors.sessions_table(scan_files(paths, "cases"))
    labels = selectors.runs_of(everywhere)
    series = everywhere.filter(pl.col("session").is_in([one for one, label in labels.items() if label == run]))
    before = series.filter(pl.col("started") < series.filter(pl.col("session") == session)["started"].max())
    first = before.filter(pl.col("session") == before["session"][0])["system"].to_list() if before.height else []
    if not first or system in first:
        return []
    last = before.filter(pl.col("system").is_in(first)).row(-1, named=True)
    return [
        f"system: sessions of run={run} are of {', '.join(first)} (last {last['started']:%Y-%m-%d}, session "
        f"{last['session'][:8]}) and this one is of {system}: correct site_configs, or if it is meant to be, give it a label "
        f"of its own or name {run} under runs in {folders.shown(expected_file.path_of(system, root), root)}"
    ]


def proven_places(store: Store, system: str, sessions: Sequence[str]) -> dict[CoverageKey, LastProven]:
    """Everything that is proven in some sessions, each with its newest proof.

    :raises BadInput: a damaged dataset.
    """
    cases = store.cases(system).filter(pl.col("session").is_in(list(sessions))).collect()
    return _places(_proofs(store, system, eligibility.split_cases(cases).proven))


def _proofs(store: Store, system: str, proven: pl.DataFrame) -> pl.DataFrame:
    """Session, start, name, place, condition of everything proven, and at how many ``sizes`` and in how many ``repeats`` it has
    values.

    A case that times nothing has no benchmark. A value of zero says that nothing arrived.
    """
    wanted = proven.select("case", "session", "started", "name", *JOB, *UNDER)
    samples = store.scan("samples", system).filter(pl.col("session").is_in(proven["session"].unique().to_list()))
    points = samples.filter(pl.col("value") > 0).group_by("case", "benchmark")
    counts = {"sizes": pl.col("message_bytes"), "repeats": pl.col("repeat")}
    names = points.agg(**{name: column.n_unique().cast(pl.Int64) for name, column in counts.items()}).collect()
    return wanted.join(names, on="case", how="left").drop("case").unique().sort("started", "sizes")


def _places(proofs: pl.DataFrame) -> dict[CoverageKey, LastProven]:
    """Each place with its newest proof."""
    rows = proofs.select(*CoverageKey._fields, "session", "started").iter_rows()
    return {CoverageKey(*values): LastProven(session, started) for *values, session, started in rows}


def _planned(tonight: pl.DataFrame) -> dict[CoverageKey, str]:
    """Each job of the session with what became of it where it was not proven."""
    found: dict[CoverageKey, str] = {}
    for row in tonight.filter(~pl.col("superseded").fill_null(False)).to_dicts():
        place = CoverageKey(*(row[name] for name in JOB))
        first = first_line(row["reason"])
        skipped = row["result"] == "skip"
        word = "skipped" if skipped else "failed" if row["result"] != "pass" else "passed without proof"
        text = f"{word}: {first}" if first else word
        if row["result"] == eligibility.INTERRUPTED:
            text = f"interrupted ({eligibility.cause_of(row['reason'])})"
        # A failure says more than a skip beside it.
        if place not in found or (found[place].startswith("skipped") and not skipped):
            found[place] = text
    return found


def _registered(system: str, root: Path) -> tuple[list[CoverageKey], list[str], str]:
    """Stacks on the partitions they fit and fabrics of each partition; what is wrong with a stack; what this rests on."""
    described = systems.find(system, root)
    if described is None:
        return [], [], f"no {SITE_FILES} in site_configs/{system} here, so neither registered stacks nor fabrics"
    stacks, problems = metadata.discover(root)
    names = [stack.name for stack in stacks]
    found = []
    for partition in described["partitions"]:
        extras = partition["extras"]
        if not extras.get("fabrics"):  # of a centre's own configuration, and nothing is measured on it
            continue
        found += [CoverageKey(partition["name"], stack=name) for name in site.fitting_stacks(extras, names)]
        found += [CoverageKey(partition["name"], fabric=name) for name in extras.get("fabrics", {})]
    return found, problems, f"{len(names)} registered stacks"


def _wanted(
    file: ExpectedFile, run: str | None, past: Mapping[CoverageKey, LastProven], registered: Iterable[CoverageKey]
) -> tuple[list[CoverageKey], int]:
    """Everything expected, each once, and how many things are retired."""
    dated: list[tuple[CoverageKey, date | None]] = [(place, proof.started.date()) for place, proof in past.items()]
    dated += [(place, None) for place in registered if not any(place.covers(known) for known in past)]
    kept = [place for place, last in dated if not any(one.covers(place, run, last) for one in file.retired)]
    return list(dict.fromkeys([*kept, *file.expected.get(run or "", ())])), len(dated) - len(kept)


def _asked(
    wanted: Sequence[CoverageKey], proofs: pl.DataFrame, options: Sequence[str], planned: Collection[CoverageKey]
) -> list[CoverageKey]:
    """What of everything expected a partial session was asked for, by its options and by its cases."""
    names: dict[CoverageKey, set[str | None]] = {}
    for *values, name in proofs.select(*CoverageKey._fields, "name").unique().iter_rows():
        names.setdefault(CoverageKey(*values), set()).add(name)

    def is_asked(place: CoverageKey) -> bool:
        partition, stack = (None if set(value or "*") & set("*?[") else value for value in (place.partition, place.stack))
        answers = [selection_options.asks_for(options, partition, stack, name) for name in names.get(place, {None})]
        return True in answers or any(place.job().covers(other) for other in planned)

    return [place for place in wanted if is_asked(place)]


def _selected(proofs: pl.DataFrame, session: str, options: Sequence[str]) -> pl.DataFrame:
    """Proofs of a partial session, and those of earlier ones that its options surely ask for."""
    cases = proofs.select("partition", "stack", "name").unique()
    asked = [selection_options.asks_for(options, *values) is True for values in cases.iter_rows()]
    chosen = proofs.join(
        cases.filter(pl.Series(asked, dtype=pl.Boolean)), on=cases.columns, how="semi", nulls_equal=True, maintain_order="left"
    )
    return pl.concat([chosen.filter(pl.col("session") != session), proofs.filter(pl.col("session") == session)])


def _covered(
    wanted: Sequence[CoverageKey], now: Mapping[CoverageKey, LastProven], past: Mapping[CoverageKey, LastProven]
) -> list[bool]:
    """Which expected places are proven; those of the history are names, the others may be patterns."""
    return [one in now or (one not in past and any(one.covers(other) for other in now)) for one in wanted]


def _sentences(
    holes: Sequence[CoverageKey],
    wanted: Sequence[CoverageKey],
    past: Mapping[CoverageKey, LastProven],
    now: Iterable[CoverageKey],
    planned: Mapping[CoverageKey, str],
    remedies: Mapping[CoverageKey, str],
) -> list[str]:
    """One sentence for a partition, stack, fabric or group all of which is missing, then one per job.

    :param remedies: what to do about places that were never proven.
    """
    left, lines = list(holes), []
    for kind in JOB:
        for name in dict.fromkeys(getattr(one, kind) for one in left):
            whole = [one for one in wanted if getattr(one, kind) == name]
            if name is None or len(whole) < 2 or not set(whole) <= set(left):
                continue
            why = _why(whole, past, planned, remedies)
            lines.append(f"missing: {kind} {name}: none of the {len(whole)} expected of it is proven{why}")
            left = [one for one in left if one not in set(whole)]
    jobs = {other.job() for other in now}
    for job in dict.fromkeys(one.job() for one in left):
        names = sorted(one.benchmark for one in left if one.job() == job and one.benchmark)
        text = ", ".join(f"{kind} {value}" for kind, value in zip(JOB, job[:-1], strict=True) if value)
        if names and any(job.covers(other) for other in jobs):
            text += f": benchmark{'' if len(names) == 1 else 's'} {', '.join(names)}"
        lines.append(
            f"missing: {text or ', '.join(names)}{_why([one for one in left if one.job() == job], past, planned, remedies)}"
        )
    return lines


def _lost(
    proofs: pl.DataFrame, session: str, run: str | None, file: ExpectedFile, there: Collection[CoverageKey], wholly: bool
) -> list[str]:
    """One sentence per job for conditions under which something that is there was proven before, and is not in this session.

    :param proofs: of this session and the earlier ones, oldest first.
    :param there: what is proven in this session under any condition; what is not is reported as a whole.
    :param wholly: fewer message sizes than before count as not proven, too: the rest of the curve is missing.
    """
    here = pl.col("session") == session
    keys = [*CoverageKey._fields, *UNDER]
    most = {"now": pl.col("sizes").max(), "repeats_now": pl.col("repeats").max()}
    now = proofs.filter(here).group_by(keys).agg(**most, here=pl.lit(True))
    # As many as most sessions had: one that took more of them is no new normal. Of the retired ones nothing is wanted.
    before = _without_retired(proofs.filter(~here), run, file)
    before = before.with_columns(usual=pl.col("repeats").mode().max().over(keys))
    fewer = (pl.lit(wholly) & (pl.col("now") < pl.col("sizes"))) | (pl.col("repeats_now") < pl.col("usual"))
    gone = (
        before.join(now, on=keys, how="left", nulls_equal=True, maintain_order="left")
        .filter(pl.col("here").is_null() | fewer)
        .unique(keys, keep="last", maintain_order=True)
    )
    jobs: dict[CoverageKey, list[dict[str, Any]]] = {}
    for row in gone.to_dicts():
        place = CoverageKey(*(row[name] for name in CoverageKey._fields))
        if place in there:
            jobs.setdefault(place.job(), []).append(row)
    return sorted(_lost_sentence(job, rows) for job, rows in jobs.items())


def _without_retired(proofs: pl.DataFrame, run: str | None, file: ExpectedFile) -> pl.DataFrame:
    """The proofs of what is still expected."""
    if not file.retired:
        return proofs
    dated = proofs.with_columns(day=pl.col("started").dt.date())
    places = dated.select(*CoverageKey._fields, "day").unique()
    kept = [not any(one.covers(CoverageKey(*place), run, day) for one in file.retired) for *place, day in places.iter_rows()]
    wanted = places.filter(pl.Series(kept, dtype=pl.Boolean))
    return dated.join(wanted, on=places.columns, how="semi", nulls_equal=True, maintain_order="left").drop("day")


def _lost_sentence(job: CoverageKey, rows: Sequence[Mapping[str, Any]]) -> str:
    """What of a job is missing, under which conditions, and when it was last proven."""
    names = sorted({f"{row['benchmark']}{_part(row)}" for row in rows if row["benchmark"]})
    under = sorted({f"{row['nodes']} x {row['ppn']} {row['pinning']}" for row in rows})
    last = max(rows, key=lambda row: row["started"])
    where = ", ".join(f"{kind} {value}" for kind, value in zip(JOB, job[:-1], strict=True) if value)
    more = f" and {len(under) - MOST_CONDITIONS} more" if len(under) > MOST_CONDITIONS else ""
    return (
        f"missing: {where}: not proven at {', '.join(under[:MOST_CONDITIONS])}{more} (nodes x processes per node, pinning)"
        f"{': ' + ', '.join(names) if names else ''}; last proven {last['started']:%Y-%m-%d} in session {last['session'][:8]}"
    )


def _part(row: Mapping[str, Any]) -> str:
    """How much of a curve that is there is missing."""
    counts = ((row["now"], row["sizes"], "sizes"), (row["repeats_now"], row["usual"], "repeats")) if row["here"] else ()
    fewer = [f"{now} of {before} {what}" for now, before, what in counts if now < before]
    return f" ({', '.join(fewer)})" if fewer else ""


def _why(
    places: Sequence[CoverageKey],
    past: Mapping[CoverageKey, LastProven],
    planned: Mapping[CoverageKey, str],
    remedies: Mapping[CoverageKey, str],
) -> str:
    """When it was last proven and what became of it in this session; of what never was, what to do."""
    proofs = [past[one] for one in places if one in past]
    last = max(proofs, key=lambda proof: proof.started, default=None)
    remedy = next((f"; {remedies[one]}" for one in places if one in remedies), "")
    before = f"; last proven {last.started:%Y-%m-%d} in session {last.session[:8]}" if last else remedy
    jobs = {one.job() for one in places}
    became = [text for job, text in planned.items() if any(one.covers(job) for one in jobs)]
    shown = min(became, key=lambda text: (text.startswith("skipped"), text), default="not among the cases of this session")
    return f"; {shown}{before}"
