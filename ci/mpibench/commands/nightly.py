"""``mpibench nightly``: a night as one session: measured, stored, exported, reported, checked for completeness.

``ci/nightly`` calls this when it has set up what is missing.

The session's id comes from ReFrame's own run report. It is in ``results/session-id`` once the database holds the session, and
every later step is given this id; none asks for the newest session.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from reframe_tests.harness.samples import NUM_SELECTED
from reframe_tests.harness.vocabulary import ROOT, BadInput

from .. import exit_status, whole_file
from ..night import supervision
from .options import DATABASE, RESULTS, say

try:
    from reframe_tests.harness.sites import centre, site
    from reframe_tests.harness.sites.session import session_folder

    from ..judge import expected
    from ..judge.plan import making, record
    from ..night import monitoring, preflight, remeasuring, settings
    from ..night.progress import Progress, seconds_of_last_night
    from ..only_one import only_one
    from ..pages import junit
    from ..pages.outcomes import interrupted
    from ..store import records, selection_options, session_files
    from ..store.sessions import PAIRED, Session, label_of, list_sessions, read_report
    from ..store.store import Store
except BadInput as error:  # a further suite, MPI or launcher that cannot be used
    if __name__ != "__main__":
        raise
    print(f"nightly: {error} [{error.code}]", file=sys.stderr)
    sys.exit(2)

if TYPE_CHECKING:
    from ..night.confirmed_night import ReferenceAnswer

#: Id of tonight's session; absent until the database holds it.
SESSION_ID = RESULTS / "session-id"
#: Files of the night that runs or ran last, for a pipeline to take away: copies, emptied by the next night.
TONIGHT = RESULTS / "tonight"
#: ReFrame's own report of the session, and what it printed.
RUN_REPORT, LOG = TONIGHT / "run-report.json", TONIGHT / "nightly.log"
#: What a pipeline says of the night.
GATE = TONIGHT / "gate.txt"
#: Lines of ReFrame's that only the log has: cases that begin, and those that are skipped.
_HIDDEN = re.compile(r"\[ (RUN  |    SKIP)")
#: Labels name files, and ReFrame's ``--session-extras`` splits at commas.
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)


@dataclass
class Night:
    """What is known of a night so far.

    :param options: further options for ReFrame.
    :param confirm_minutes: what measuring again may take; 0: nothing is measured again.
    :param problems: one sentence for each reason why this night is not green.
    :param notes: what its answer says besides.
    :param slower: as :attr:`~mpibench.store.records.StoredAnswer.slower`.
    :param before: sessions the database held before anything was measured.
    :param junit: the JUnit file, where one is asked for, is completed.
    :param preflight: whether the nodes are looked at before, as :func:`.preflight.choice` says.
    :param plan: of what it measures; ``None``: everything.
    :param lock: descriptor of the file whose lock keeps other nights away.
    """

    mode: str
    label: str
    options: Sequence[str]
    say: Callable[[str], None]
    confirm_minutes: float = remeasuring.BUDGET_MINUTES
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    slower: list[tuple[str, str, str]] | None = None
    before: frozenset[str] = frozenset()
    junit: bool = False
    preflight: str = preflight.NO
    plan: settings.PlannedNight | None = None
    lock: int = -1
    store: Store = field(default_factory=lambda: Store(RESULTS / "dataset"))

    @property
    def narrowed(self) -> tuple[str, ...]:
        """Options that make the session smaller than a whole one of its mode."""
        return selection_options.narrowing(shlex.join(["reframe", *self.options]))


def run(night: Night) -> int:
    """The whole night; exit status."""
    with only_one(RESULTS) as night.lock:
        forget_earlier()
        settings.check(night.options)
        mode_options = settings.of_mode(night.mode)
        remeasuring.check_database(DATABASE)
        with contextlib.suppress(BadInput):  # none yet, or an empty file, which ReFrame fills
            night.before = frozenset(list_sessions(DATABASE))
        for sentence in site.configuration(ROOT)[1]:  # a stack that cannot be entered; the others are measured all the same
            night.problems.append(sentence.rstrip("."))
            night.say(sentence)
        make_plan(night)
        clean_up()  # what a killed session left running would be measured together with this one
        try:
            look_at_nodes(night)
            measure(night, mode_options)
            session = identify(night)
            if session:
                complete_junit(night, session)
                export(night, session)
                confirm(night, session)
                publish(night, session)
            show(night, session)
        except supervision.Interrupted as signal:
            return stop(night, signal)
        night.say(session_files.holdings(RESULTS))
        return answer(night, session)


def forget_earlier() -> None:
    """Take away what an earlier night left for its pipeline; all of it is elsewhere, too.

    :raises BadInput: it cannot be taken away.
    """
    try:
        SESSION_ID.unlink(missing_ok=True)
        if TONIGHT.exists():
            shutil.rmtree(TONIGHT)
        TONIGHT.mkdir(parents=True)
    except OSError as error:
        raise BadInput(
            "cannot-write", f"cannot make {error.filename} again ({error.strerror}): remove it, or correct its rights."
        ) from None


def make_plan(night: Night) -> None:
    """Choose what is measured, where the night has a budget, and say what it will take.

    :raises BadInput: the budget is too small for what is measured every night, or nothing can be planned.
    """
    if night.before and settings.budget_of(os.environ, night.mode, night.options):
        # What a night measured that was killed before it was exported is known to the plan, too.
        night.notes += night.store.bring_up_to_date(DATABASE)
    night.plan = settings.plan_night(os.environ, night.mode, night.label, night.options, night.store.folder)
    if night.plan:
        usual = [] if os.environ.get(settings.BUDGET) else [settings.NOT_SET]
        for line in (*usual, *making.lines(night.plan.plan)):
            night.say(line)
        night.problems += night.plan.plan.record.broken


def clean_up() -> None:
    """End what a killed session left running, and remove what a killed writer left; what fails is printed."""

    def work(**_: object) -> None:
        from .listings import orphans  # loads ReFrame, which a refused night does not need

        if old := session_files.find(RESULTS, None):
            say(session_files.remove(old))
        orphans.report(True, print)

    exit_status.run(work, ())


def look_at_nodes(night: Night) -> None:
    """Name the odd nodes before anything is measured on them, and leave them out where that is asked for."""
    found = preflight.look(night.options, preflight.NO if night.narrowed else night.preflight, TONIGHT, night.say, [night.lock])
    for sentence in (*found.problems, *found.notes):
        night.say(sentence)
    night.problems += found.problems
    night.notes += found.notes
    night.options = [*night.options, *found.options]


def measure(night: Night, mode_options: Sequence[str]) -> None:
    """Run ReFrame; its run report is ``results/tonight/run-report.json``."""
    stacks_chosen = any(option.startswith("--prgenv") for option in night.narrowed)
    mode = mode_options if stacks_chosen else [f"--mode={night.mode}"]
    plan = night.plan.plan.record if night.plan else None
    labels = f"run={night.label}" + (f",{record.LABEL}={plan.id}" if plan else "")
    words = [
        *("reframe", "--nocolor", "-c", "reframe_tests", "-r", *mode, *night.options),
        *("--session-extras", labels, f"--report-file={RUN_REPORT}"),
    ]
    night.say(f"measuring in mode '{night.mode}' (session label run={night.label}); skipped cases and all else are in {LOG}")
    environ = {**os.environ, "RFM_GENERATE_FILE_REPORTS": "yes", **(night.plan.environ if night.plan else {})}
    environ.pop(session_folder.VARIABLE, None)  # a name of somebody's own would be that of each night
    planned = {row.case: row.seconds for row in plan.cases if row.planned} if plan else {}
    seconds_of = (lambda system: planned) if plan else seconds_of_last_night(night.store.folder, night.label)
    progress = Progress(seconds_of, night.say)

    def show_line(line: str) -> bool:
        progress.read(line)
        return not _HIDDEN.match(line)

    if status := supervision.run(words, LOG, show_line, environ, [night.lock]):
        night.problems.append(_ended(status))


def _ended(status: int) -> str:
    return f"ReFrame ended with exit status {status}: see the failures above, or {LOG}"


def identify(night: Night) -> Session | None:
    """Tonight's session, which the database has; ``None``, and a reason among the problems, if it has none.

    Afterwards ``results/session-id`` holds its id.
    """
    if not RUN_REPORT.exists():
        night.problems.append("no session: ReFrame selected no case, or ended before it could write its run report")
        return None
    try:
        session = read_report(RUN_REPORT)
        uuid = session.uuid
        if not DATABASE.exists() or uuid not in list_sessions(DATABASE):
            raise BadInput(
                "session-not-stored",
                f"session {uuid} was measured and is not in {DATABASE}: correct what {LOG} says of it and "
                f"measure again; its run report is {RUN_REPORT}.",
            )
        if uuid in night.before:
            raise BadInput(
                "run-report-old",
                f"no session: ReFrame's run report is that of session {uuid}, which was stored before tonight.",
            )
        with whole_file.replacing(SESSION_ID) as partial:
            partial.write_text(f"{uuid}\n")
    except (BadInput, OSError) as error:
        night.problems.append(str(error).rstrip("."))
        return None
    night.problems += shortfall(session, session.info.get(NUM_SELECTED))
    # What is described, or should be, and is never measured.
    night.problems += [line.rstrip(".") for name in session.systems for line in site.left_unmeasured(name, ROOT)]
    night.problems += bad_references(session.systems)
    if night.plan:
        night.problems += night.plan.extra(session)
        night.notes.append(night.plan.took(session))
    return session


def shortfall(session: Session, selected: object) -> list[str]:
    """What a session lacks, one sentence each.

    :param selected: number of cases by ReFrame's run report. Its exit status alone does not do: that of a missed reference is
        excused where the reference is not missed again.
    """
    cases = [case for case in session.cases if case.run == 0 and not case.uuid.endswith(PAIRED)]
    problems = []
    if len(cases) != selected:
        problems.append(f"ReFrame stored {len(cases)} cases of {selected} it had selected")
    if all(case.result == "skip" for case in cases):
        problems.append("no case was measured: every one was skipped")
    if unproven := sum(case.result == "pass" and session.outcome(case) == "failed" for case in session.cases):
        problems.append(f"{unproven} cases passed in ReFrame, but no proof of their condition was stored")
    return problems


def bad_references(names: Sequence[str], root: Path = ROOT) -> list[str]:
    """One sentence for each system with references that cannot be used: cases were measured without what must hold them."""
    problems = []
    for name in names:
        try:
            faults = site.reference_faults(name, root)
        except BadInput as error:
            problems.append(str(error).rstrip("."))
            continue
        more = f"; and {len(faults) - 1} more entries of it" if len(faults) > 1 else ""
        problems += [f"{fault.sentence.rstrip('.')}{more}" for fault in faults[:1]]
    return problems


def complete_junit(night: Night, session: Session, answers: Sequence[ReferenceAnswer] = ()) -> None:
    """Say in the JUnit file, where one is asked for, of which cases ReFrame's own says nothing.

    :param answers: what measuring again gave; the file was completed without them before.
    """
    path = junit.file_of(night.options)
    try:
        if path and not night.junit:
            junit.complete(path, session)
            night.junit = True
        if path and answers:
            junit.confirm(path, session, answers)
    except BadInput as error:
        sentence = str(error).rstrip(".")
        night.problems += [] if sentence in night.problems else [sentence]


def _step(night: Night, problem: str, command: str, work: Callable[[], None]) -> None:
    """A step after measuring; its failure is printed and a problem of the night, which goes on.

    :param command: of ``mpibench``, which does the same.
    """
    if status := exit_status.run(lambda **_: work(), ()):
        night.problems.append(f"{problem}: `mpibench {command}` ended with exit status {status}")


def export(night: Night, session: Session) -> None:
    """Export the session, and what of earlier ones is not yet in the dataset."""

    def work() -> None:
        say([str(night.store.export(DATABASE, [session.uuid]))])

    _step(night, "tonight's session is not in the dataset", f"export --session {session.uuid}", work)
    try:
        night.notes += night.store.bring_up_to_date(DATABASE)
    except BadInput as error:
        night.problems.append(str(error).rstrip("."))


def confirm(night: Night, session: Session) -> None:
    """Measure the cases again that missed a reference or are slower than the nights before, in sessions of their own.

    A reference that is not missed again is no problem; what is slower than the nights before is the gate's to judge, with both
    measurements.
    """
    from ..night import confirmed_night  # which a night without a session does not need

    place = remeasuring.Workspace(DATABASE, night.store, TONIGHT / "again", (night.lock,))
    try:
        answer = confirmed_night.confirm(session, place, night.confirm_minutes, night.say, lambda line: not _HIDDEN.match(line))
    except Exception as defect:  # the session is measured: without its report it would be lost to whoever reads that
        traceback.print_exc()
        night.problems.append(f"not measured again, by a defect of this program ({type(defect).__name__}: {defect}): report it")
        return
    night.notes += answer.notes
    night.problems += answer.problems
    night.slower = None if answer.slower is None else [case.place for case in answer.slower]
    if answer.references:
        complete_junit(night, session, answer.references)
    if answer.all_excused and _ended(1) in night.problems:
        night.problems.remove(_ended(1))
    if answer.stopped:
        raise answer.stopped


def publish(night: Night, session: Session) -> None:
    """Report the session, and ask whether all that is expected is there."""

    def report() -> None:
        from ..pages import session as pages

        say(pages.write(night.store, night.store.session(session.uuid), RESULTS))

    _step(night, "there is no report", f"report --session {session.uuid}", report)
    for suffix in (".html", ".md"):
        with contextlib.suppress(OSError):  # of what is not there the step above has reported
            shutil.copyfile(RESULTS / "reports" / f"{session.uuid}{suffix}", TONIGHT / f"report{suffix}")
    changed = shlex.join(settings.changing(night.options)) or " ".join(night.narrowed)
    if night.narrowed:
        night.notes.insert(0, f"PARTIAL session, not a whole night's ({changed}): {selection_options.describe_part(session)}")
    elif changed:
        night.notes.insert(0, f"measured otherwise than a night is ({changed}): {selection_options.describe_part(session)}")
    partial = bool(night.narrowed)
    command = f"gate --only completeness --session {session.uuid}{' --partial' if partial else ''}"

    def check_completeness() -> None:
        whole = expected.judge(night.store, *night.store.find_session(session.uuid), partial=partial)
        say(whole.lines())
        if not whole.complete:
            logs = session.info.get("log_files")
            log = str(logs[-1]) if isinstance(logs, list) and logs else "ReFrame's log"
            night.problems.append(
                f"something expected is missing (cases left out when the tests were loaded: 'left out' in {log}): "
                f"`mpibench {command}` ended with exit status 1"
            )

    _step(night, "whether all that is expected is there could not be checked", command, check_completeness)


def show(night: Night, session: Session | None) -> None:
    """Keep the night's answer and bring the site up to date, whatever became of the night; a site that fails is a problem."""
    uuid = session.uuid if session else None
    try:
        reasons = (night.label, night.problems, night.notes)
        records.answer(night.store.folder, uuid, records.NIGHT, *reasons, slower=night.slower)
    except BadInput as error:
        night.problems.append(f"the answer of this night is not kept: {str(error).rstrip('.')}")
    night.store.reread()

    def build_site() -> None:
        from ..pages import site as pages

        built = pages.build(night.store, RESULTS / "site")
        night.notes += built.figures.get(uuid or "", ())
        say((*built.sentences, str(built)))

    if any((night.store.folder / "cases").glob("system=*")):
        _step(night, "the site of results is not that of tonight", "site", build_site)
    system = next(iter(session.systems if session else last_systems(night)), "")
    counts = Counter(case.result for case in session.cases) if session else {}
    # Not taken back by a server that is down: what is measured is as good as before.
    night.notes += monitoring.send(night.store.folder, system, night.label, uuid, night.problems, counts)


def last_systems(night: Night) -> Sequence[str]:
    """Systems of the newest session before tonight: those that a night without a session was meant to measure."""
    with contextlib.suppress(BadInput):  # a file that cannot be read, which the step before has said
        newest = [uuid for uuid in night.store.starts if uuid in night.before]
        return night.store.session_systems.get(newest[-1], ()) if newest else ()
    return ()


def stop(night: Night, signal: supervision.Interrupted) -> int:
    """End an interrupted night; exit status."""
    clean_up()
    night.say(f"INTERRUPTED by {signal.name}: nothing is measured any more; results of earlier sessions are as they were")
    with contextlib.suppress(OSError, BadInput):
        session = read_report(RUN_REPORT)
        complete_junit(night, session)
        uuid, lost = session.uuid, interrupted(session)
        with whole_file.replacing(GATE) as partial:
            partial.write_text(f"FAIL: ci/nightly got {signal.name}: {lost or 'every case had run'}\n")
        if lost:
            night.say(lost)
        if SESSION_ID.exists():
            night.say(
                f"session {uuid} is whole and stored; go on with 'mpibench export' and 'mpibench report', --session {uuid}"
            )
        elif uuid in list_sessions(DATABASE):
            night.say(
                f"what was measured is stored as session {uuid}, the latest; 'mpibench sessions withdraw {uuid} --why ...' "
                "leaves it out"
            )
    return signal.status


def answer(night: Night, session: Session | None) -> int:
    """Say how the night ended; exit status."""
    for note in night.notes:
        night.say(note)
    pages = f"results/report.html, results/reports/{session.uuid}.html" if session else ""
    if session:
        night.say(f"session {session.uuid} ({label_of(session)}) of {session.started:%Y-%m-%d %H:%M} UTC")
    if night.problems:
        night.say(f"NOT accepted; reasons: {len(night.problems)}")
        for problem in night.problems:
            night.say(f"  {problem}.")
        night.say(pages or "results/report.html, if there is one, is of an earlier session")
        return 1
    night.say(f"done: {pages}")
    return 0


def _name_configuration(environ: MutableMapping[str, str]) -> None:
    """This project's configuration behind the centre's own, where that is what the variable names."""
    centre.make_absolute(environ)
    named = environ.get(centre.VARIABLE, "").split(":")
    if not any(name.endswith("/site_configs/settings.py") for name in named):
        environ[centre.VARIABLE] = ":".join(filter(None, [*named, str(ROOT / "site_configs" / "settings.py")]))


def main(options: Sequence[str] | None = None) -> int:
    """Entry point of ``ci/nightly``: MODE and LABEL from the environment, options for ReFrame from the command line."""
    began = time.monotonic()

    def say_when(text: str) -> None:
        print(f"[{time.monotonic() - began:4.0f}s] {text}", flush=True)

    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--set-up-status", type=int, default=0)
    known, options = parser.parse_known_args(sys.argv[1:] if options is None else options)
    mode = os.environ.get("MODE", "nightly")
    night = Night(mode, os.environ.get("LABEL", mode), options, say_when)
    if known.set_up_status:
        night.problems.append("a stack could not be installed and was not measured: see the set-up above")
    supervision.heed_signals()
    try:
        if not _LABEL.fullmatch(night.label) or ".." in night.label:
            raise BadInput(
                "label-refused",
                f"LABEL={shlex.quote(night.label)} is refused: use 1 to 64 letters, digits, '_', '-' and '.', without '..' and "
                "not beginning with '-' or '.'.",
            )
        _name_configuration(os.environ)
        os.chdir(ROOT)
        settings.forget_plans(os.environ)
        night.confirm_minutes = settings.confirm_minutes(os.environ.get("CONFIRM_MINUTES", f"{remeasuring.BUDGET_MINUTES:g}"))
        night.preflight = preflight.choice(os.environ.get("PREFLIGHT"), mode)
        return run(night)
    except BadInput as error:
        print(f"nightly: {error} [{error.code}]", file=sys.stderr)
        return 2
    except supervision.Interrupted as signal:
        say_when(f"INTERRUPTED by {signal.name} before anything was measured")
        return signal.status


if __name__ == "__main__":
    sys.exit(main())
