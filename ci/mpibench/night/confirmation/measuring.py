"""Runs the sessions that measure again, within a budget of time, and says of each called case whether it was measured.

Nothing here decides anything. What did not fit, did not run, was interrupted or did not prove its condition has a reason in
:attr:`Remeasured.left`, and confirms nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from reframe_tests.harness.printable import first_line
from reframe_tests.harness.sites.session import session_folder
from reframe_tests.harness.vocabulary import ROOT, BadInput

from ...store import confirmations, eligibility
from ...store.confirmations import MeasuredOn
from ...store.dataset_layout import read_condition
from ...store.sessions import CONFIRMS, PAIRED, Session, read_report
from ...store.store import Store
from .. import supervision
from .called import CalledCase, fit, seconds
from .rerun import Rerun, plan, words

#: Minutes that measuring again may take.
BUDGET_MINUTES = 30.0
REPORT, LOG = "run-report.json", "reframe.log"
#: What two measurements must have in common, besides the case's name: of its condition, and its level.
ALIKE = (
    *("level", "mpi_version", "lock_hash", "fabric", "nodes", "ppn", "pinning"),
    *("suite_options", "striped", "tuned", "oversubscribed", "network"),
)
#: What ReFrame says where it ends before it runs anything: its own errors, and ours.
_ERROR = re.compile(r"^(?:ERROR: |reframe: )(.*)", re.MULTILINE)


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


@dataclass
class Remeasured:
    """What was called and what became of it.

    :param cases: all called cases.
    :param sessions: the new sessions, in order.
    :param measured: cases that were measured again as before and proved their condition, each with the new case's id.
    :param left: why each of the others was not.
    :param stopped: the signal that ended it.
    """

    cases: tuple[CalledCase, ...]
    minutes: float
    sessions: list[Session] = field(default_factory=list)
    measured: dict[CalledCase, str] = field(default_factory=dict)
    left: dict[CalledCase, str] = field(default_factory=dict)
    stopped: supervision.Interrupted | None = None


def sources(store: Store, cases: Iterable[CalledCase]) -> dict[str, Session]:
    """The sessions whose cases are to be measured again, by id.

    :raises BadInput: the dataset does not hold one of them, or not how it was started.
    """
    found = {}
    for uuid in dict.fromkeys(case.session for case in cases):
        found[uuid] = store.session(uuid)
        if not found[uuid].command_line:
            raise BadInput(
                "command-line-unknown",
                f"session {uuid} does not say how ReFrame was started, so nothing can be measured again as it was.",
            )
    return found


def measure_again(
    cases: Sequence[CalledCase],
    known: Mapping[str, Session],
    place: Workspace,
    minutes: float,
    say: Callable[[str], None],
    show: Callable[[str], bool] = lambda line: True,
) -> Remeasured:
    """Measure cases again, the worst first.

    A signal (:func:`.supervision.heed_signals`) ends it, and what was measured until then is kept.

    :param known: :func:`sources`.
    :param say: takes a sentence on what is being done.
    :param show: which of ReFrame's lines are shown.
    :raises BadInput: how a session was measured cannot be read, or nothing can be written.
    """
    found = Remeasured(tuple(cases), minutes)
    took = {uuid: seconds(session) for uuid, session in known.items()}
    took_s = [took[case.session].get(case.place) for case in cases]
    chosen, late = fit(cases, took_s, 60 * minutes)
    known_s = dict(zip(cases, took_s, strict=True))
    for case in late:
        lasted = f": it took {known_s[case]:.0f} s before" if known_s[case] is not None else ""
        found.left[case] = f"no room in the budget of {minutes:g} min{lasted}"
    reruns = plan(chosen)
    commands = [_command(rerun, known[rerun.session], _folder(place, at) / REPORT) for at, rerun in enumerate(reruns)]
    _empty(place.folder)
    deadline = time.monotonic() + 60 * minutes
    try:
        for at, (rerun, command) in enumerate(zip(reruns, commands, strict=True)):
            rest_s = deadline - time.monotonic()
            if found.stopped or rest_s <= 0:
                break
            why = _run(rerun, command, known[rerun.session], _folder(place, at), place, rest_s, found, say, show)
            found.left.update((case, why) for case in rerun.cases if why)
    except supervision.Interrupted as signal:
        found.stopped = signal
    ended = f"interrupted by {found.stopped.name}" if found.stopped else f"the budget of {minutes:g} min was used up before"
    found.left.update((case, ended) for case in chosen if case not in found.measured and case not in found.left)
    return found


def _command(rerun: Rerun, source: Session, report: Path) -> list[str]:
    schedulers = (case.entry.get("scheduler") for case in source.cases if case.partition == rerun.partition)
    return words(rerun, source.command_line or "", report, str(next(schedulers, "") or ""))


def _folder(place: Workspace, number: int) -> Path:
    return place.folder / str(number + 1)


def _empty(folder: Path) -> None:
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    except OSError as error:
        raise BadInput(
            "cannot-write", f"cannot write {folder} ({error.strerror}): correct its rights or its file system."
        ) from None


def _run(
    rerun: Rerun,
    command: Sequence[str],
    source: Session,
    folder: Path,
    place: Workspace,
    limit_s: float,
    found: Remeasured,
    say: Callable[[str], None],
    show: Callable[[str], bool],
) -> str:
    """Run one session; why none of its cases was measured, or empty."""
    log = folder / LOG
    before = set(place.store.session_systems)
    count = f"{len(rerun.cases)} case{'s' if len(rerun.cases) > 1 else ''} of {', '.join(rerun.stacks)}"
    where = f"{rerun.system}:{rerun.partition}" + (f", {confirmations.named(rerun.nodes)}" if rerun.nodes else "")
    say(f"measuring again what was called slower or left inconclusive: {count} on {where}; log: {log}")
    end = ""
    try:
        folder.mkdir()
        supervision.run(command, log, show, _environ(source), place.lock, _directory(source), limit_s)
    except supervision.OutOfTime:
        end = f"not done on {where} when the budget of {found.minutes:g} min was used up, the queue's time included"
    except supervision.Interrupted as signal:
        found.stopped, end = signal, f"interrupted by {signal.name}"
    except OSError as error:
        return f"ReFrame could not be started ({error.strerror})"
    try:
        session = _stored(folder / REPORT, rerun, before, place)
    except BadInput as error:
        said = _ERROR.findall(log.read_text(errors="replace")) if log.exists() else []
        reason = end or (first_line(said[0]) if said else str(error))
        return f"{reason.rstrip('., ')}; see {log}"
    found.sessions.append(session)
    both = place.store.scan("cases", rerun.system, [source.uuid, session.uuid]).filter(~pl.col("case").str.ends_with(PAIRED))
    rows = both.with_columns(why=eligibility.WHY_NOT).collect().to_dicts()
    for case in rerun.cases:
        again = _last_run(rows, session.uuid, case)
        if again is None:
            found.left[case] = (
                f"no longer among the tests here, or left out when they were loaded: see the log of session {session.uuid}"
            )
        elif why := why_not(_last_run(rows, source.uuid, case), again, end):
            found.left[case] = why
        else:
            found.measured[case] = again["case"]
    return ""


def _environ(source: Session) -> dict[str, str]:
    """ReFrame's environment: with a run report, folders of its own, no JUnit file, and the settings of its session."""
    environ = {**os.environ, "RFM_GENERATE_FILE_REPORTS": "yes"}
    environ.pop(session_folder.VARIABLE, None)
    environ[session_folder.CONFIRMING] = source.uuid
    environ.pop("RFM_REPORT_JUNIT", None)  # the file of the session that is confirmed stays its own
    files = source.info.get("config_files")
    own = [name for name in files if Path(str(name)).is_file()] if isinstance(files, list) else []
    if own:
        environ["RFM_CONFIG_FILES"] = ":".join(map(str, own))
    else:
        environ.setdefault("RFM_CONFIG_FILES", str(ROOT / "site_configs" / "settings.py"))
    return environ


def _directory(source: Session) -> Path:
    """Where the session was started: paths on its command line count from there."""
    workdir = source.info.get("workdir")
    return Path(workdir) if isinstance(workdir, str) and Path(workdir).is_dir() else ROOT


def _stored(report: Path, rerun: Rerun, before: set[str], place: Workspace) -> Session:
    """The new session, in database and dataset.

    :raises BadInput: there is none, or it is not what was asked for.
    """
    if not report.exists():
        raise BadInput("run-report-missing", "ReFrame ended before it could write its run report")
    session = read_report(report)
    if session.uuid in before:
        raise BadInput("session-not-new", f"session {session.uuid} was there before and is not new")
    if session.labels.get(CONFIRMS) != rerun.session:
        raise BadInput(
            "session-confirms-another", f"session {session.uuid} does not say that it confirms session {rerun.session}"
        )
    place.store.export(place.database, [session.uuid])
    return session


def why_not(first: Mapping[str, Any] | None, again: Mapping[str, Any], end: str = "") -> str:
    """Why a case that was measured again confirms nothing; empty where it was as before and proved its condition.

    :param first: the row of the case that is confirmed.
    :param again: with ``why`` it is not eligible.
    :param end: why the new session ended early.
    """
    session = again["session"]
    if again["why"]:
        said = end or first_line(again["reason"] or "")
        return f"session {session[:8]}: it {again['why']}" + (f": {said}" if said else "")
    conditions = (read_condition(row["condition"]) if row else {} for row in (first, again))
    before, after = ({**condition, "level": condition.get("depth")} for condition in conditions)
    unlike = [f"{name} {before.get(name)} and now {after.get(name)}" for name in ALIKE if before.get(name) != after.get(name)]
    if unlike:
        return f"session {session[:8]} is another measurement: {', '.join(unlike)}"
    return MeasuredOn.of_row(first).unlike(MeasuredOn.of_row(again), session) if first else ""


def _last_run(rows: Sequence[Mapping[str, Any]], session: str, case: CalledCase) -> Mapping[str, Any] | None:
    """The last run of a case in a session: on its nodes, where these are known, or, of one that measured again, on any."""
    own = [row for row in rows if row["session"] == session]
    runs = [row for row in reversed(own) if (row["partition"], row["stack"], row["name"]) == case.place]
    on = (MeasuredOn(), case.on) if session == case.session and case.on != MeasuredOn() else ()
    return next((row for row in runs if not on or MeasuredOn.of_row(row) in on[1:]), None)
