"""Measures again, in fresh jobs, exactly what looked slower: which cases, ReFrame's command line,
and the result of each.

Nothing is decided here. What did not fit, did not run, was interrupted or did not prove its
condition gets a reason in :attr:`Remeasured.left`, and confirms nothing.

Why a separate session with ``-n`` instead of ReFrame's facilities for repeating (manual of 4.10,
"Options controlling ReFrame execution", "Test filtering"; ``frontend/cli.py``,
``frontend/executors/__init__.py``):

``--max-retries N``
    repeats failures at once, even without evidence, and forgets the first run;
    it cannot know what a later verdict reports.
``--restore-session REPORT --failed``
    selects what failed, even without evidence, but nothing that passed
    in ReFrame and was reported by a verdict.
``--reruns N``, ``--duration T``
    repeat a whole session.
``-n /HASH``
    as exact as a name, but no dataset has hashes, and a missing one tells a reader nothing.

The names are anchored and joined as alternatives, so a case that no longer exists is simply not
selected. ReFrame selects the product of names, environments (``-p``) and one partition
(``--system``); cases are therefore grouped until each product contains only reported cases.
Everything else on the first session's command line stays: levels, repeats, parameters, job options.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import polars as pl

from reframe_tests.harness import batch_systems
from reframe_tests.harness.printable import first_line
from reframe_tests.harness.sites.session import session_folder
from reframe_tests.harness.vocabulary import ROOT, BadInput

from ..judge.plan.record import ListedCase
from ..store import confirmations, eligibility
from ..store.confirmations import MeasuredOn, MissedReference
from ..store.dataset_layout import read_condition
from ..store.session_values import METRIC, Selection
from ..store.sessions import CONFIRMS, PAIRED, Session, read_report
from ..store.store import Store
from . import supervision
from .settings import of_mode

#: Minutes that measuring again may take.
BUDGET_MINUTES = 30.0
REPORT = "run-report.json"
LOG = "reframe.log"
#: Value of the label ``run``: these sessions are no nights of any series.
RUN = "confirmation"
#: What two measurements must have in common, besides the case's
#: name: of its condition, and its level.
ALIKE = (
    "level",
    "mpi_version",
    "lock_hash",
    "fabric",
    "nodes",
    "ppn",
    "pinning",
    *confirmations.APART,
)
#: ReFrame's options with a value that select cases, bound or repeat
#: a session, or say where its report goes.
_DROPPED = (
    "-n --name",
    "-x --exclude",
    "-t --tag",
    "-T --exclude-tag",
    "-p --prgenv",
    "-E --filter-expr",
    "--maintainer",
    "--system",
    "--session-extras",
    "--report-file",
    "--report-junit",
    "--timestamp",
    "--max-retries",
    "--retries-threshold",
    "--maxfail",
    "--reruns",
    "--duration",
)
#: Those without a value, and how much is said.
_DROPPED_FLAGS = (
    "-r --run",
    "--dry-run",
    "--cpu-only",
    "--gpu-only",
    "--failed",
    "-v --verbose",
    "-q --quiet",
    "--nocolor",
)
#: What ReFrame says where it ends before it runs anything: its own errors, and ours.
_ERROR = re.compile(r"^(?:ERROR: |reframe: )(.*)", re.MULTILINE)


@dataclass(frozen=True)
class CalledCase:
    """One ReFrame test case, on one partition with one environment, with something slower.

    :param session: that measured it.
    :param stack: ReFrame's environment.
    :param name: ReFrame's display name.
    :param slower: the largest change for the worse that was called, as a
        fraction; infinite where it has no ratio.
    :param on: the nodes that measured it: on others it is another case.
    """

    session: str
    system: str
    partition: str
    stack: str
    name: str
    slower: float = field(compare=False)
    on: MeasuredOn = field(default_factory=MeasuredOn)

    def __str__(self) -> str:
        return f"{self.name} @{self.system}:{self.partition}+{self.stack}"

    @property
    def place(self) -> ListedCase:
        """As :meth:`.ListedCase.of` of each of its runs."""
        return ListedCase(self.partition, self.stack, self.name)


def of_metrics(candidate: Selection, called: pl.DataFrame) -> list[CalledCase]:
    """The cases that measured some metrics; where several did on the same nodes, the newest.

    What an interleaved second stack measured belongs to the case whose job it ran in.

    :param called: :data:`METRIC` and ``slower``.
    """
    nodes = [
        MeasuredOn.of_row(row)
        for row in candidate.planned.select("nodelist", "condition").iter_rows(named=True)
    ]
    distinct = list(dict.fromkeys(nodes))
    places = {nodes_of: place for place, nodes_of in enumerate(distinct)}
    on = pl.Series("on", [places[nodes_of] for nodes_of in nodes], dtype=pl.Int64)
    cases = candidate.planned.select("case", "partition", "stack", "name").with_columns(on)
    rows = (
        candidate.measured.select(*METRIC, "session", "case", "started")
        .unique()
        .join(
            called.select(*METRIC, pl.col("slower").cast(pl.Float64)),
            on=METRIC,
            how="inner",
            nulls_equal=True,
        )
        .with_columns(pl.col("case").str.strip_suffix(PAIRED), pl.col("slower").fill_null(math.inf))
        .join(
            cases.select("case", "on", at="partition", environ="stack", test="name"),
            on="case",
            how="inner",
        )
        .sort("started", "session", "case")
        .unique([*METRIC, "on"], keep="last", maintain_order=True)
    )
    key = ["at", "environ", "test", "on"]
    worst = (
        rows.group_by(key)
        .agg(pl.col("slower").max(), pl.col("session").last())
        .sort("slower", *key, descending=True)
    )
    return [
        CalledCase(
            row["session"],
            candidate.system,
            row["at"],
            row["environ"],
            row["test"],
            row["slower"],
            distinct[row["on"]],
        )
        for row in worst.to_dicts()
    ]


def of_checks(system: str, missed: Iterable[MissedReference]) -> list[CalledCase]:
    """The case of each missed reference."""
    checks = [reference.check for reference in missed]
    return [
        CalledCase(
            check["session"],
            system,
            check["partition"],
            check["stack"],
            check["name"],
            confirmations.distance(check["value"], check["lower"], check["upper"]),
            MeasuredOn.of_row(check),
        )
        for check in checks
    ]


def worst_first(cases: Iterable[CalledCase]) -> list[CalledCase]:
    """The same, each case once."""
    return list(dict.fromkeys(sorted(cases, key=lambda case: (-case.slower, str(case)))))


def fit(
    cases: Iterable[CalledCase], took_s: Sequence[float | None], limit_s: float
) -> tuple[list[CalledCase], list[CalledCase]]:
    """The cases that fit into a time, the worst first, and those that do not.

    The jobs are taken to run one after the other and as long as they did. One whose time is not
    known counts as the longest of the others.

    :param took_s: of each case.
    """
    longest = max((seconds for seconds in took_s if seconds is not None), default=0.0)
    chosen = []
    left = []
    used = 0.0
    for case, known in sorted(zip(cases, took_s, strict=True), key=lambda pair: -pair[0].slower):
        needs = longest if known is None else known
        if used + needs > limit_s:
            left.append(case)
        else:
            chosen.append(case)
            used += needs
    return chosen, left


def group(cases: Iterable[CalledCase]) -> list[tuple[CalledCase, ...]]:
    """The fewest groups that one ReFrame can select exactly; those with the worst cases first.

    A group is of one session, partition and set of nodes, and has
    all its names with all its stacks.
    """
    by_stack: dict[tuple[object, ...], list[CalledCase]] = {}
    for case in cases:
        by_stack.setdefault(
            (case.session, case.system, case.partition, case.on.job, case.stack), []
        ).append(case)
    groups: dict[tuple[object, ...], list[CalledCase]] = {}
    for (*place, _), held in by_stack.items():
        groups.setdefault((*place, frozenset(case.name for case in held)), []).extend(held)
    return sorted(map(tuple, groups.values()), key=lambda held: -max(case.slower for case in held))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise argparse.ArgumentError(None, message)


def kept_options(command_line: str) -> list[str]:
    """Options of a session's command line that say how it measured.

    A mode becomes its options: ReFrame 4.10 forgets ``-p`` beside
    ``--mode`` (:func:`.settings.of_mode`).

    :param command_line: ReFrame's, quoted as for a shell.
    :raises BadInput: no shell would take it, or it names a mode that does not exist.
    """
    parser = _Parser(add_help=False)
    for names in _DROPPED:
        parser.add_argument(*names.split(), action="append", dest="dropped")
    for names in _DROPPED_FLAGS:
        parser.add_argument(*names.split(), action="count", dest="flag")
    parser.add_argument("--mode")
    parser.add_argument("-R", "--recursive", action="store_true")  # may stand in one word with -r
    parser.add_argument("--restore-session", nargs="?", dest="dropped_too")
    try:
        known, kept = parser.parse_known_args(shlex.split(command_line)[1:])
        if known.mode:
            again, more = parser.parse_known_args(of_mode(known.mode))
            kept = [*more, *kept]
            known.recursive |= again.recursive
    except (ValueError, argparse.ArgumentError) as error:
        raise BadInput(
            "output-unknown",
            f"cannot tell how the session was measured from its command line {command_line!r}: "
            f"{error}.",
        ) from None
    return [*kept, *(["-R"] if known.recursive else [])]


def words(
    cases: Sequence[CalledCase], command_line: str, report: Path, scheduler: str = ""
) -> list[str]:
    """The command line that measures a group of cases again.

    :param command_line: of the session that is confirmed.
    :param report: where the run report goes, from which the new session's id is read.
    :param scheduler: of its jobs, as ReFrame calls it; the nodes are
        requested where that takes their names.
    :raises BadInput: as :func:`kept_options`.
    """
    first = cases[0]
    # ReFrame as a night finds it, or that of our own Python where that was not activated.
    program = shutil.which("reframe") or str(Path(sys.executable).with_name("reframe"))
    return [
        program,
        "--nocolor",
        "-r",
        *kept_options(command_line),
        f"--system={first.system}:{first.partition}",
        *(
            ["-J", option]
            if (option := batch_systems.ask_for_nodes(scheduler, first.on.job))
            else []
        ),
        "-p",
        _any_of(case.stack for case in cases),
        "-n",
        _any_of(case.name.replace(" ", "") for case in cases),
        "--session-extras",
        f"run={RUN},{CONFIRMS}={first.session}",
        f"--report-file={report}",
    ]


def _any_of(names: Iterable[str]) -> str:
    """A regular expression that fits each of some names and nothing else;
    ReFrame takes an ``@`` for something else.
    """
    escaped = (re.escape(name).replace("@", ".") for name in sorted(set(names)))
    return f"^(?:{'|'.join(escaped)})$"


@dataclass(frozen=True)
class Workspace:
    """Where it is done.

    :param database: ReFrame's, which holds the sessions that are confirmed and gets the new ones.
    :param store: to which the new sessions are exported.
    :param folder: of logs and run reports; emptied first.
    :param lock: descriptors of locks that last as long as ReFrame does.
    """

    database: Path
    store: Store
    folder: Path
    lock: tuple[int, ...] = ()


def check_database(database: Path) -> None:
    """Make sure that ReFrame can store a session; otherwise it would only warn after measuring.

    :raises BadInput: it will not.
    """
    probe = database.parent / f".writable.{os.getpid()}"
    try:
        try:
            probe.write_bytes(bytes(4096))
        finally:
            probe.unlink(missing_ok=True)
        (database.parent / ".db.lock").open("a").close()
        if database.exists():
            with closing(
                sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, timeout=60)
            ) as connection:
                # BEGIN IMMEDIATE alone reads where it may not write (SQLite,
                # build.c, sqlite3BeginTransaction).
                connection.isolation_level = None
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("CREATE TABLE mpibench_can_write(x)")
                connection.execute("ROLLBACK")
    except (OSError, sqlite3.Error) as error:
        raise BadInput(
            "cannot-write",
            f"{database} cannot be written ({error}), so the session would be lost: correct its "
            "permissions or file system, or move it.",
        ) from None


@dataclass
class Remeasured:
    """What was measured again, with its result.

    :param cases: all called cases.
    :param sessions: the new sessions, in order.
    :param measured: cases that were measured again as before and proved
        their condition, each with the new case's id.
    :param left: why each of the others was not.
    :param stopped: the signal that ended it.
    """

    cases: tuple[CalledCase, ...]
    minutes: float
    sessions: list[Session] = field(default_factory=list)
    measured: dict[CalledCase, str] = field(default_factory=dict)
    left: dict[CalledCase, str] = field(default_factory=dict)
    stopped: supervision.Interrupted | None = None


def measure_again(
    cases: Sequence[CalledCase],
    place: Workspace,
    minutes: float,
    say: Callable[[str], None],
    show: Callable[[str], bool] = lambda line: True,
) -> Remeasured:
    """Measure cases again, the worst first.

    A signal (:func:`.supervision.heed_signals`) ends it, and what was measured until then is kept.

    :param say: takes a sentence on what is being done.
    :param show: which of ReFrame's lines are shown.
    :raises BadInput: the dataset does not hold a case's session, or how it
        was measured; or nothing can be written.
    """
    found = Remeasured(tuple(cases), minutes)
    known: dict[str, Session] = {}
    took: dict[tuple[str, object], float] = {}
    for uuid in dict.fromkeys(case.session for case in cases):
        known[uuid] = session = place.store.session(uuid)
        if not session.command_line:
            raise BadInput(
                "unknown-name",
                f"session {uuid} does not record its ReFrame command line, so nothing can be "
                "measured again in the same way.",
            )
        seconds = session.job_seconds
        took |= {
            (uuid, ListedCase.of(case)): seconds[case.uuid]
            for case in session.cases
            if case.uuid in seconds
        }
    took_s = [took.get((case.session, case.place)) for case in cases]
    chosen, late = fit(cases, took_s, 60 * minutes)
    known_s = dict(zip(cases, took_s, strict=True))
    for case in late:
        lasted = f": it took {known_s[case]:.0f} s before" if known_s[case] is not None else ""
        found.left[case] = f"no time in the budget of {minutes:g} min{lasted}"
    commands = []
    for number, held in enumerate(group(chosen), 1):
        source = known[held[0].session]
        folder = place.folder / str(number)
        schedulers = (
            case.entry.get("scheduler")
            for case in source.cases
            if case.partition == held[0].partition
        )
        scheduler = str(next(schedulers, "") or "")
        commands.append(
            (
                held,
                source,
                folder,
                words(held, source.command_line or "", folder / REPORT, scheduler),
            )
        )
    try:
        shutil.rmtree(place.folder, ignore_errors=True)
        place.folder.mkdir(parents=True)
    except OSError as error:
        raise BadInput(
            "cannot-write",
            f"cannot write {place.folder} ({error.strerror}): correct its permissions or file "
            "system.",
        ) from None
    deadline = time.monotonic() + 60 * minutes
    try:
        for held, source, folder, command in commands:
            rest_s = deadline - time.monotonic()
            if found.stopped or rest_s <= 0:
                break
            if why := _run(held, source, folder, command, place, rest_s, found, say, show):
                found.left.update(dict.fromkeys(held, why))
    except supervision.Interrupted as signal:
        found.stopped = signal
    ended = (
        f"interrupted by {found.stopped.name}"
        if found.stopped
        else f"the budget of {minutes:g} min was already used up"
    )
    found.left.update(
        (case, ended) for case in chosen if case not in found.measured and case not in found.left
    )
    return found


def _run(
    cases: Sequence[CalledCase],
    source: Session,
    folder: Path,
    command: Sequence[str],
    place: Workspace,
    limit_s: float,
    found: Remeasured,
    say: Callable[[str], None],
    show: Callable[[str], bool],
) -> str:
    """Run the session of a group; why none of its cases was measured, or empty."""
    first = cases[0]
    log = folder / LOG
    before = set(place.store.session_systems)
    stacks = ", ".join(dict.fromkeys(case.stack for case in cases))
    where = f"{first.system}:{first.partition}" + (
        f", {confirmations.named(first.on.job)}" if first.on.job else ""
    )
    count = f"{len(cases)} case{'s' if len(cases) > 1 else ''} of {stacks} on {where}"
    say(f"measuring again what looked slower: {count}; log: {log}")
    # With a run report, folders of its own and the settings of the first
    # session, whose JUnit file stays its own.
    environ = {
        **os.environ,
        "RFM_GENERATE_FILE_REPORTS": "yes",
        session_folder.CONFIRMING: source.uuid,
    }
    for name in (session_folder.VARIABLE, "RFM_REPORT_JUNIT"):
        environ.pop(name, None)
    files = source.info.get("config_files")
    workdir = source.info.get("workdir")
    own = (
        [str(name) for name in files if Path(str(name)).is_file()]
        if isinstance(files, list)
        else []
    )
    environ["RFM_CONFIG_FILES"] = ":".join(own) or environ.get(
        "RFM_CONFIG_FILES", str(ROOT / "site_configs" / "settings.py")
    )
    # Paths on its command line count from where it was started.
    start = Path(workdir) if isinstance(workdir, str) and Path(workdir).is_dir() else ROOT
    end = ""
    try:
        folder.mkdir()
        supervision.run(command, log, show, environ, place.lock, start, limit_s)
    except supervision.OutOfTime:
        end = (
            f"not finished on {where} within the budget of {found.minutes:g} min, including queue "
            "time"
        )
    except supervision.Interrupted as signal:
        found.stopped = signal
        end = f"interrupted by {signal.name}"
    except OSError as error:
        return f"ReFrame could not be started ({error.strerror})"
    try:
        if not (folder / REPORT).exists():
            raise BadInput("file-missing", "ReFrame ended before it wrote its run report")
        session = read_report(folder / REPORT)
        if session.uuid in before:
            raise BadInput("name-taken", f"session {session.uuid} is an earlier one, not a new one")
        if session.labels.get(CONFIRMS) != source.uuid:
            raise BadInput(
                "not-comparable",
                f"session {session.uuid} does not say that it confirms session {source.uuid}",
            )
        place.store.export(place.database, [session.uuid])
    except BadInput as error:
        errors = _ERROR.findall(log.read_text(errors="replace")) if log.exists() else []
        reason = end or (first_line(errors[0]) if errors else str(error))
        return f"{reason.rstrip('., ')}; see {log}"
    found.sessions.append(session)
    both = place.store.scan("cases", first.system, [source.uuid, session.uuid]).filter(
        ~pl.col("case").str.ends_with(PAIRED)
    )
    rows = both.with_columns(why=eligibility.WHY_NOT).collect().to_dicts()
    for case in cases:
        again = _last_run(rows, session.uuid, case)
        if again is None:
            found.left[case] = (
                "its test is gone or was left out while loading: see the log of session "
                f"{session.uuid}"
            )
        elif why := why_not(_last_run(rows, source.uuid, case), again, end):
            found.left[case] = why
        else:
            found.measured[case] = again["case"]
    return ""


def why_not(first: Mapping[str, Any] | None, again: Mapping[str, Any], end: str = "") -> str:
    """Why a case that was measured again confirms nothing; empty where
    it was as before and proved its condition.

    :param first: the row of the case that is confirmed.
    :param again: with ``why`` it is not eligible.
    :param end: why the new session ended early.
    """
    session = again["session"]
    if again["why"]:
        reason = end or first_line(again["reason"] or "")
        return f"session {session[:8]}: it {again['why']}" + (f": {reason}" if reason else "")
    conditions = (read_condition(row["condition"]) if row else {} for row in (first, again))
    before, after = ({**condition, "level": condition.get("depth")} for condition in conditions)
    unlike = [
        f"{name} {before.get(name)} and now {after.get(name)}"
        for name in ALIKE
        if before.get(name) != after.get(name)
    ]
    if unlike:
        return f"session {session[:8]} is another measurement: {', '.join(unlike)}"
    return MeasuredOn.of_row(first).unlike(MeasuredOn.of_row(again), session) if first else ""


def _last_run(
    rows: Sequence[Mapping[str, Any]], session: str, case: CalledCase
) -> Mapping[str, Any] | None:
    """The last run of a case in a session: on its nodes, where these are
    known, or, of one that measured again, on any.
    """
    own = [row for row in rows if row["session"] == session]
    runs = [
        row for row in reversed(own) if (row["partition"], row["stack"], row["name"]) == case.place
    ]
    if session == case.session and case.on != MeasuredOn():
        runs = [row for row in runs if MeasuredOn.of_row(row) == case.on]
    return next(iter(runs), None)
