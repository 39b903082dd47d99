"""What nights planned and did: the existing cases, the plan of a night as a file, and earlier
nights.

ReFrame lists the existing cases (``-lC``), because only it knows what its options, the system and
the stacks make of the tests. A session names its plan by a checksum of the file (label
:data:`LABEL`), which is stored in the dataset. So every reader notices a plan that is gone, was
edited, or belongs to another day or system.

Only nights before the day of the plan count, so the plan of a day is the same whenever it is made.
A night is a calendar day (UTC) with sessions of the label.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta, timezone
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from reframe_tests.harness.printable import first_line, plural
from reframe_tests.harness.samples import NO_REFERENCE, PASS
from reframe_tests.harness.sites import planned_cases, references
from reframe_tests.harness.sites.planned_cases import NOT_PLANNED
from reframe_tests.harness.vocabulary import ROOT, BadInput

from ...store import confirmations, eligibility, records, selectors
from ...store.dataset_layout import read_condition, read_labels
from ...store.sessions import PAIRED, Case
from ...store.store import Store

#: A line of ReFrame 4.10's ``-lC`` (``frontend/cli.py``,
#: ``list_checks``): name, parameters, hash, place.
_LINE = re.compile(
    r"- (?P<name>.+) /[0-9a-f]+ @(?P<system>[^\s:]+):(?P<partition>[^\s+]+)\+(?P<stack>\S+)",
    re.ASCII,
)
_COUNT = re.compile(r"^Concretized (\d+) test case\(s\)", re.MULTILINE)
#: What ReFrame says before a sentence of ours.
_STOPPED = re.compile(r"^(?:run session stopped: )?(?:command line error: )?")
_SAID = re.compile(r"^(?:ERROR: |reframe: )(.*)", re.MULTILINE)
_PARAMETER = re.compile(r" %(\w+)=(\S+)")
#: Label of a session that was planned; its value is the id of the plan.
LABEL = "plan"
#: Folder of plans in a dataset.
FOLDER = "plans"
#: Version of the files.
LAYOUT = 1
#: How long after the end of its day (UTC) a planned night may begin:
#: planned before midnight, it may start after it.
LATE = timedelta(hours=1)
_DIGITS = 16
#: Newest nights that are looked at: what is older counts as never measured.
NIGHTS_LOOKED_AT = 100
#: Newest runs of a case that its cost comes from.
RUNS = 3
#: Newest planned sessions of which it is looked up what they were to measure and did not.
MOST_PLANS = 14
#: What a case was that is owed.
SKIPPED = "skipped"
FAILED = "failed"
MISSED = "missed a reference"
NOT_RUN = "did not run"
SLOWER = "slower than the nights before"
#: Of a condition: its level, and what else makes it another measurement than the case's name says.
_ALIKE = ("depth", *confirmations.APART)
#: Names in one sentence.
FEW = 3
#: Rows of ``cases`` that say something: neither interrupted nor what ReFrame had to make beside
#: planned ones of the same test.
_SAYS = (pl.col("result") != eligibility.INTERRUPTED) & ~(
    (pl.col("result") == "skip") & (pl.col("reason").fill_null("") == NOT_PLANNED)
)
#: Rows of ReFrame's own cases, the last run of each.
_OWN = ~pl.col("superseded").fill_null(False) & ~pl.col("case").str.ends_with(PAIRED)


class ListedCase(NamedTuple):
    """One case, as ReFrame shows it.

    :param partition: without its system.
    :param stack: ReFrame's environment.
    """

    partition: str
    stack: str
    name: str

    @classmethod
    def of(cls, case: Case) -> ListedCase:
        """The case of a run in a session; all its runs there are of the same."""
        return cls(case.partition, str(case.entry.get("environ") or case.stack), case.name)

    def __str__(self) -> str:
        return f"{self.name} @{self.partition}+{self.stack}"

    @property
    def parameters(self) -> dict[str, str]:
        """Parameters of the test and their values: fabric, nodes, ppn, pinning, ..."""
        return _parameters(self.name)

    @property
    def test(self) -> str:
        return self.name.partition(" ")[0]

    @property
    def group(self) -> str:
        """Group of the catalogue; of a test that is not among the project's own, its name."""
        return references.tests().get(self.test, self.test)

    @property
    def nodes(self) -> int | None:
        """Nodes of its job; ``None`` for all that are idle, 1 where it has no such parameter."""
        text = self.parameters.get("nodes", "1")
        return int(text) if text.isdecimal() else None


#: What names a case in the table ``cases``.
CASE = ListedCase._fields


@cache
def _parameters(name: str) -> dict[str, str]:
    return dict(_PARAMETER.findall(name))


class Listing(NamedTuple):
    """What ReFrame lists: the selected system (empty where nothing is
    listed), and the cases, each once, sorted.
    """

    system: str
    cases: tuple[ListedCase, ...]


def parse(text: str) -> Listing:
    """Read ReFrame's list.

    :raises BadInput: it is truncated, or not such a list.
    """
    lines = [found for line in text.splitlines() if (found := _LINE.fullmatch(line.rstrip()))]
    count = _COUNT.search(text)
    if count is None or int(count[1]) < len(lines) or (int(count[1]) and not lines):
        raise BadInput(
            "output-unknown",
            "what ReFrame lists (-lC) is not a complete list of cases: use the ReFrame release "
            "named in pyproject.toml.",
        )
    systems = {found["system"] for found in lines}
    if len(systems) > 1:
        raise BadInput(
            "ambiguous-name",
            f"ReFrame lists cases of {len(systems)} systems ({', '.join(sorted(systems))}); a plan "
            "covers one: select it with --system.",
        )
    cases = {ListedCase(found["partition"], found["stack"], found["name"]) for found in lines}
    return Listing(next(iter(systems), ""), tuple(sorted(cases)))


def ask(
    words: Sequence[str], environ: Mapping[str, str] = os.environ, root: Path = ROOT
) -> Listing:
    """List what ReFrame selects by some options, those of a mode among them.

    :raises BadInput: with ReFrame's own sentence where it ends with an error.
    """
    program = shutil.which("reframe") or str(Path(sys.executable).with_name("reframe"))
    command = [program, "--nocolor", "-c", "reframe_tests", "-lC", *words]
    wanted = {"RFM_CONFIG_FILES": str(root / "site_configs" / "settings.py"), **environ}
    wanted.pop(planned_cases.VARIABLE, None)
    try:
        streams: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "capture_output": True,
            "text": True,
            "errors": "replace",
        }
        done = subprocess.run(command, cwd=root, env=wanted, check=False, **streams)
    except OSError as error:
        raise BadInput(
            "tool-failed",
            f"ReFrame cannot be started ({error.strerror}): run ci/setup and activate .venv.",
        ) from None
    if done.returncode:
        said = _SAID.findall(done.stdout + done.stderr)
        sentence = _STOPPED.sub("", said[0]) if said else ""
        reason = first_line(sentence, 400).rstrip(" .,") or f"exit status {done.returncode}"
        raise BadInput("tool-failed", f"ReFrame cannot list the cases: {reason}.")
    return parse(done.stdout)


@dataclass(frozen=True)
class PlannedCase:
    """One case that exists, tonight.

    :param why: why it is, or is not (:mod:`.choice`).
    :param proven: the day it was last proven before; ``None``: never.
    :param seconds: how long its job is expected to take.
    :param nodes: that its job is to ask for, as it was not right on these; none: any.
    """

    case: ListedCase
    planned: bool
    why: str
    proven: date | None
    seconds: float
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prediction:
    """What a night will take.

    :param launches: of MPI programs, in all jobs.
    """

    jobs: int
    launches: int
    node_hours: float
    minutes: float


@dataclass(frozen=True)
class PlanRecord:
    """A plan.

    :param nights: about how many it takes until each case has come.
    :param broken: why the plan does not keep what it promises, one sentence each.
    """

    system: str
    day: date
    label: str
    mode: str
    budget: str
    nights: int
    predicted: Prediction
    broken: tuple[str, ...]
    cases: tuple[PlannedCase, ...]

    @cached_property
    def planned(self) -> frozenset[ListedCase]:
        return frozenset(case.case for case in self.cases if case.planned)

    @cached_property
    def known(self) -> frozenset[ListedCase]:
        return frozenset(case.case for case in self.cases)

    @property
    def every(self) -> str:
        """When each case comes, as the end of a sentence."""
        whole = len(self.planned) == len(self.cases)
        return "tonight" if whole else f"in about {plural(self.nights, 'night')}"

    @cached_property
    def text(self) -> str:
        """The file: one line a case, so that two plans can be compared."""
        head = asdict(self)
        head |= {"layout": LAYOUT, "date": head.pop("day")}
        rows = [
            {**row.pop("case")._asdict(), **row, "seconds": round(float(row["seconds"]), 1)}
            for row in head.pop("cases")
        ]
        kept = (
            {key: value for key, value in row.items() if key != "nodes" or value} for row in rows
        )
        lines = ",\n".join(json.dumps(row, sort_keys=True, default=str) for row in kept)
        return f'{json.dumps(head, sort_keys=True, default=str)[:-1]}, "cases": [\n{lines}\n]}}\n'

    @property
    def id(self) -> str:
        """Beginning of the SHA-256 of the file."""
        return checksum(self.text)

    def write(self, folder: Path) -> Path:
        """Write the file into a dataset, and return its path.

        :raises BadInput: it cannot be written.
        """
        return records.write(
            folder, FOLDER, f"{self.day.isoformat()}-{self.system}-{self.id}", self.text
        )


def checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def read(path: Path) -> PlanRecord:
    """A plan from its file, checked against the checksum in the file's name.

    :raises BadInput: it cannot be read, was edited, or is no plan.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise BadInput("file-unreadable", f"the plan {path} cannot be read ({reason}).") from None
    if not path.stem.endswith(f"-{checksum(text)}"):
        raise BadInput(
            "changed-since",
            f"the plan {path} was changed after it was made: its checksum is now {checksum(text)}.",
        )
    try:
        content = json.loads(text)
        if content["layout"] != LAYOUT:
            raise BadInput(
                "other-release",
                f"the plan {path} has layout {content['layout']}, but this program reads {LAYOUT}: "
                "make it again.",
            )
        rows = [
            {**row, "case": (row["partition"], row["stack"], row["name"])}
            for row in content["cases"]
        ]
        found = msgspec.convert({**content, "day": content["date"], "cases": rows}, PlanRecord)
    except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
        raise BadInput(
            "file-damaged", f"the plan {path} is damaged ({type(error).__name__}: {error})."
        ) from None
    vars(found)["text"] = text  # its id is that of the file, also where that says more
    return found


def find(folder: Path, wanted: str) -> PlanRecord:
    """A plan of a dataset by its id.

    :raises BadInput: it is not there, or as :func:`read`.
    """
    found = sorted((folder / FOLDER).glob(f"*-{wanted}.json")) if wanted.isalnum() else []
    if not found:
        raise BadInput("file-missing", f"the plan {wanted} is not in {folder / FOLDER}.")
    return read(found[0])


def of_session(
    folder: Path, labels: Mapping[str, str], system: str, started: datetime
) -> PlanRecord | None:
    """The plan that a session says it was measured by; ``None`` if it names none.

    :raises BadInput: the plan is not there, was edited, or is of another system, label or day.
    """
    wanted = labels.get(LABEL)
    if wanted is None:
        return None
    plan = find(folder, wanted)
    if (plan.system, plan.label) != (system, labels.get("run")):
        raise BadInput(
            "not-comparable",
            f"plan {wanted} is for run={plan.label} on {plan.system}, but the session is "
            f"run={labels.get('run')} on {system}.",
        )
    begins = datetime.combine(plan.day, datetime.min.time(), timezone.utc)
    if not begins <= started < begins + timedelta(days=1) + LATE:
        raise BadInput(
            "not-comparable",
            f"plan {wanted} is for {plan.day}, but the session started at "
            f"{started:%Y-%m-%d %H:%M} UTC.",
        )
    return plan


@dataclass(frozen=True)
class CaseHistory:
    """One case in earlier nights.

    :param tried: the last day on which it ran, or was skipped with a reason.
    :param proven: the last day on which it was proven; ``None``: never.
    :param failed: whether it ran when it was last tried, and was not proven.
    :param seconds: how long its job took, the newest last; at most :data:`RUNS`. Of proven runs,
        where there are any: what a fault made of a run, say launches that timed out, is no cost,
        and no night would be planned again that showed otherwise.
    :param skipped: whether it was skipped then, with a reason.
    """

    tried: date
    proven: date | None
    failed: bool
    seconds: tuple[float, ...]
    session: str
    skipped: bool = False


class Owed(NamedTuple):
    """A case that was not right when it was last to be measured.

    :param why: in a word, with the reason.
    :param proven: the last day on which it was proven; ``None``: never.
    :param session: in which it was not right.
    :param nodes: of its job there, as the scheduler calls them: it is owed until it is right on
        these. None where it never ran, so that any do.
    :param lacks: in what the last try was no repetition of that one; empty: it was one.
    """

    why: str
    day: date
    proven: date | None
    session: str = ""
    nodes: tuple[str, ...] = ()
    lacks: str = ""

    def __str__(self) -> str:
        return f"{self.why} on {self.day}" + (
            f" on {confirmations.named(self.nodes)}" if self.nodes else ""
        )


@dataclass(frozen=True)
class EarlierNight:
    """One earlier session.

    :param plan: id of its plan; empty if it was measured without one.
    :param seconds: its wall time; ``None`` if that is not stored, or it was interrupted.
    :param job_seconds: of the jobs of the partition that had most;
        ``node_seconds``: of all, each times its nodes.
    """

    session: str
    started: datetime
    plan: str
    seconds: float | None
    job_seconds: float
    node_seconds: float
    jobs: int


@dataclass(frozen=True)
class PastNights:
    """Earlier nights of a label.

    :param nights: their days, the newest first.
    :param sessions: the newest first.
    :param ran: cases that ran, by day.
    """

    nights: tuple[date, ...] = ()
    sessions: tuple[EarlierNight, ...] = ()
    cases: Mapping[ListedCase, CaseHistory] = field(default_factory=dict)
    ran: Mapping[date, frozenset[ListedCase]] = field(default_factory=dict)
    owed: Mapping[ListedCase, Owed] = field(default_factory=dict)

    def skipped(self, nights: int) -> frozenset[ListedCase]:
        """Cases that could not be measured: skipped when they were last
        tried, which was in one of so many last nights.
        """
        days = set(self.nights[:nights])
        return frozenset(
            case
            for case, history in self.cases.items()
            if history.skipped and history.tried in days
        )


def read_past(store: Store, system: str, label: str, before: date) -> PastNights:
    """Earlier nights as the dataset has them; none if there is no
    dataset yet, or nothing of that system in it.
    """
    if not store.sessions_of(system):
        return PastNights()
    sessions = store.sessions(system)
    labelled = [session for session, run in selectors.runs_of(sessions).items() if run == label]
    mine = sessions.filter(pl.col("session").is_in(labelled), pl.col("started").dt.date() < before)
    days = sorted(set(mine["started"].dt.date()), reverse=True)[:NIGHTS_LOOKED_AT]
    wanted = mine.filter(pl.col("started").dt.date().is_in(days))["session"].to_list()
    frame = store.cases_of(system, wanted)
    proven = eligibility.split_cases(frame).proven["case"]
    rows = (
        frame.filter(_OWN, _SAYS)
        .with_columns(
            day=pl.col("started").dt.date(),
            proven=pl.col("case").is_in(proven.to_list()),
            skipped=pl.col("result") == "skip",
        )
        .drop_nulls(list(CASE))
        .sort("started", "run")
    )
    histories = rows.group_by(CASE).agg(
        tried=pl.col("day").last(),
        proven_on=pl.col("day").filter(pl.col("proven")).last(),
        failed=~pl.col("proven").last() & ~pl.col("skipped").last(),
        proven_seconds=pl.col("seconds").filter(pl.col("proven")).drop_nulls().tail(RUNS),
        ran_seconds=pl.col("seconds").filter(~pl.col("skipped")).drop_nulls().tail(RUNS),
        session=pl.col("session").last(),
        skipped=pl.col("skipped").last(),
    )
    cases = {
        ListedCase(*key): CaseHistory(
            tried, day, failed, tuple(proven_s or ran_s), session, skipped
        )
        for *key, tried, day, failed, proven_s, ran_s, session, skipped in histories.iter_rows()
    }
    ran: dict[date, set[ListedCase]] = {}
    for day, *key in rows.filter(~pl.col("skipped")).select("day", *CASE).unique().iter_rows():
        ran.setdefault(day, set()).add(ListedCase(*key))
    stopped = (pl.col("result") == eligibility.INTERRUPTED).any()
    busy = pl.col("seconds").sum().over("session", "partition")
    sums = (
        frame.with_columns(busy=busy)
        .group_by("session", "started")
        .agg(
            pl.col("labels").first(),
            # How long it would have taken is unknown of a session that was interrupted.
            wall=pl.when(~stopped).then(pl.col("session_seconds").max()),
            job_seconds=pl.col("busy").max(),
            node_seconds=(pl.col("seconds") * pl.col("nodes").fill_null(1)).sum(),
            jobs=pl.col("seconds").drop_nulls().len(),
        )
    )
    earlier = tuple(
        EarlierNight(session, started, read_labels(labels).get(LABEL, ""), *numbers)
        for session, started, labels, *numbers in sums.sort(
            "started", "session", descending=True
        ).iter_rows()
    )
    known = {day: frozenset(found) for day, found in ran.items()}
    return PastNights(tuple(days), earlier, cases, known, find_owed(store, system, frame))


class _Attempt(NamedTuple):
    """A case in one session.

    :param state: what it was; empty: right.
    :param on: the nodes of its job; none where it never ran.
    :param alike: level and further facts of its condition, of what failed the
        level alone; none where that is not stored.
    :param metrics: those with a reference that was missed; of what
        was right all that were looked at.
    :param judged: it was compared with earlier nights.
    """

    started: datetime
    session: str
    state: str
    reason: str = ""
    on: frozenset[str] = frozenset()
    alike: tuple[str, ...] = ()
    metrics: frozenset[str] = frozenset()
    judged: bool = True

    def lacks(self, owed: _Attempt) -> str:
        """How this differs from an earlier measurement that it should repeat; empty if it does not.
        What never ran may be repeated anywhere.
        """
        if not owed.on <= self.on:
            return f"on {confirmations.named(tuple(self.on))}"
        if owed.on and self.alike[: len(owed.alike)] != owed.alike:
            if not self.alike:
                return "under a condition that is not stored"
            # of what failed the level alone
            facts = zip(_ALIKE, self.alike, owed.alike, strict=False)
            unlike = [f"{name} {now} and not {was}" for name, now, was in facts if now != was]
            return f"with {', '.join(unlike)}"
        if owed.state == MISSED and not owed.metrics <= self.metrics:
            return f"without {', '.join(sorted(owed.metrics - self.metrics)[:FEW])}"
        return (
            "not compared with the nights before"
            if owed.state == SLOWER and not self.judged
            else ""
        )


def find_owed(
    store: Store, system: str, cases: pl.DataFrame, tonight: str = ""
) -> dict[ListedCase, Owed]:
    """Cases that were not right in the last session that was to measure
    them, and so are expected until they are.

    Right is what is proven, missed no reference, or none that was missed again
    (:mod:`~mpibench.store.confirmations`), and was not slower than earlier nights, or not when
    it was measured again (:class:`~mpibench.store.records.StoredAnswer`). What was skipped is not
    where it was proven before. Of what an interruption kept from running nothing is known. A fault
    of some nodes is none of others, and a shorter measurement does not see it: what was not right
    is owed until it is right on the same nodes, under the same condition, with all references that
    were missed, and compared with the nights before where it was slower than these.

    :param cases: rows of the table ``cases`` of the sessions of one label.
    :param tonight: the session among them that is about to be compared with earlier nights.
    """
    own = cases.filter(_OWN).drop_nulls(list(CASE))
    rows = own.filter(_SAYS)
    proven = set(eligibility.split_cases(rows).proven["case"])
    slower = {
        session: set(answer.slower)
        for session, said in store.answers.items()
        for answer in said
        if answer.slower is not None
    }
    tried: dict[ListedCase, list[_Attempt]] = {}
    days: dict[ListedCase, date] = {}
    columns = (
        *CASE,
        "started",
        "session",
        "case",
        "result",
        "reason",
        "gates",
        "nodelist",
        "condition",
    )
    for row in rows.sort("started", "run").select(columns).to_dicts():
        case = ListedCase(row["partition"], row["stack"], row["name"])
        if row["case"] in proven:
            days[case] = row["started"].date()
        judged = slower.get(row["session"])
        tried.setdefault(case, []).append(
            _read_try(row, case, row["case"] in proven, judged, row["session"] == tonight)
        )
    # What the newest plans have and their sessions do not hold.
    sessions = (
        own.select("session", "started", "labels")
        .unique("session")
        .sort("started", "session")
        .tail(MOST_PLANS)
    )
    for session, started, labels in sessions.iter_rows():
        label = read_labels(labels).get(LABEL)
        if not label:
            continue
        try:
            planned = find(store.folder, label).planned
        except BadInput:  # the gate said so of that session
            continue
        there = {
            ListedCase(*key)
            for key in own.filter(pl.col("session") == session).select(CASE).iter_rows()
        }
        for case in planned - there:
            tried.setdefault(case, []).append(_Attempt(started, session, NOT_RUN))
    left = {case: _debts(tries, case in days) for case, tries in tried.items()}
    # Of a session's missed references those that were reached when it was measured again are none.
    missed: dict[str, set[ListedCase]] = {}
    for case, debts in left.items():
        for debt in debts:
            if debt.state == MISSED and case not in slower.get(debt.session, ()):
                missed.setdefault(debt.session, set()).add(case)
    reached: set[tuple[str, ListedCase]] = set()
    for session, held in missed.items():
        again = confirmations.confirming(
            store.cases(system, withdrawn_too=True), session, store.withdrawn
        )
        stays = {
            ListedCase(*(reference.check[name] for name in CASE))
            for reference in confirmations.missed_references(
                cases.filter(pl.col("session") == session), again
            )
            if reference.outcome != confirmations.NOT_SEEN_AGAIN
        }
        reached |= {(session, case) for case in held - stays}
    owed = {}
    for case, debts in left.items():
        # One of a node is owed where others are none's: what is measured anywhere clears these.
        rest = [debt for debt in debts if (debt.session, case) not in reached]
        first = min(rest, key=lambda debt: (not debt.on, debt.started), default=None)
        if first:
            why = (
                f"{first.state}: {first.reason}"
                if first.reason and first.state != MISSED
                else first.state
            )
            last = max(
                (one for one in tried[case] if one.state != SKIPPED),
                key=lambda one: one[:2],
                default=first,
            )
            nodes = tuple(sorted(first.on))
            owed[case] = Owed(
                why, first.started.date(), days.get(case), first.session, nodes, last.lacks(first)
            )
    return owed


def _read_try(
    row: Mapping[str, Any],
    case: ListedCase,
    proven: bool,
    slower: set[tuple[str, str, str]] | None,
    tonight: bool,
) -> _Attempt:
    """The outcome of a case.

    :param slower: cases of its session that were slower than the nights
        before; ``None``: it was not compared with them.
    """
    gates = row["gates"] or ()
    missed = [gate["metric"] for gate in gates if gate["outcome"] not in (PASS, NO_REFERENCE)]
    if row["result"] == "skip":
        state = SKIPPED
    elif not proven:
        state = FAILED
    elif missed and row["result"] != "xfail":
        state = MISSED
    else:
        state = SLOWER if case in (slower or ()) else ""
    on = confirmations.MeasuredOn.of_row(row)
    condition = read_condition(row["condition"])
    facts = _ALIKE[:1] if state == FAILED else _ALIKE
    return _Attempt(
        row["started"],
        row["session"],
        state,
        first_line(row["reason"]) if state not in ("", SLOWER) else "",
        frozenset(() if state == SKIPPED else on.job or on.hosts),
        tuple(str(condition.get(name)) for name in facts) if "depth" in condition else (),
        frozenset(missed if state == MISSED else (gate["metric"] for gate in gates)),
        state not in ("", SLOWER) or slower is not None or tonight,
    )


def _debts(tries: Sequence[_Attempt], was_proven: bool) -> list[_Attempt]:
    """What a case still owes: for each set of nodes, the newest time it was not right.

    :param was_proven: ever: what never was and is skipped owes nothing.
    """
    debts: dict[frozenset[str], _Attempt] = {}
    for _, together in itertools.groupby(
        sorted(tries, key=lambda one: one[:2]), key=lambda one: one[:2]
    ):
        session = list(together)
        # Beside a run, what was skipped of the same case says nothing.
        ran = [attempt for attempt in session if attempt.state != SKIPPED] or session
        for attempt in ran:
            if not attempt.state:
                debts = {nodes: owed for nodes, owed in debts.items() if attempt.lacks(owed)}
        debts.update(
            {
                attempt.on: attempt
                for attempt in ran
                if attempt.state and (was_proven or attempt.state != SKIPPED)
            }
        )
    return list(debts.values())
