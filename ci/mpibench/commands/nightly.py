"""``mpibench nightly``: a night as one session, measured, stored, exported, reported and checked
for completeness.

``ci/nightly`` calls it after the set-up.

The session's id comes from ReFrame's own run report. It is written to ``results/session-id`` once
the database has the session, and every later step gets this id; none looks for the newest session.
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
from functools import partial
from pathlib import Path

from reframe_tests.harness import tools
from reframe_tests.harness.printable import clause, plural
from reframe_tests.harness.samples import NUM_SELECTED
from reframe_tests.harness.vocabulary import ROOT, BadInput

from .. import exit_status, whole_file
from ..night import supervision
from .options import DATABASE, RESULTS, say

try:
    from reframe_tests.harness import command_line
    from reframe_tests.harness.sites import centre, site, systems
    from reframe_tests.harness.sites.session import session_folder

    from ..judge import expected
    from ..judge.plan import making, record
    from ..night import preflight, remeasuring, settings
    from ..night.ended import EndedNight
    from ..night.progress import Progress, seconds_of_last_night
    from ..only_one import only_one
    from ..pages.outcomes import interrupted
    from ..store import records, selection_options, session_files
    from ..store.sessions import PAIRED, Session, label_of, list_sessions, read_report
    from ..store.store import Store
    from .listings import site_files
except BadInput as error:  # a further suite, MPI or launcher that cannot be used
    if __name__ != "__main__":
        raise
    print(f"nightly: {error} [{error.code}]", file=sys.stderr)
    sys.exit(2)

#: Id of tonight's session; absent until the database holds it.
SESSION_ID = RESULTS / "session-id"
#: Files of the night that runs or ran last, for a pipeline to take
#: away: copies, emptied by the next night.
TONIGHT = RESULTS / "tonight"
#: ReFrame's own report of the session, and what it printed.
RUN_REPORT = TONIGHT / "run-report.json"
LOG = TONIGHT / "nightly.log"
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
    :param reframe_status: exit status of ReFrame; 0 also where all
        that it counts as failed is excused.
    :param problems: one sentence for each reason why this night is not green.
    :param unjudged: what a busy machine made slow, and nothing measured again
        on a quiet one: this night is not green either.
    :param finding: what the gate says first of it.
    :param notes: what its answer says besides.
    :param slower: as :attr:`~mpibench.store.records.StoredAnswer.slower`.
    :param before: sessions the database held before anything was measured.
    :param preflight: whether the nodes are looked at before, as :func:`.preflight.choice` says.
    :param plan: of what it measures; ``None``: everything.
    :param lock: descriptor of the file whose lock keeps other nights away.
    """

    mode: str
    label: str
    options: Sequence[str]
    say: Callable[[str], None]
    confirm_minutes: float = remeasuring.BUDGET_MINUTES
    reframe_status: int = 0
    problems: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    finding: str = ""
    notes: list[str] = field(default_factory=list)
    slower: list[tuple[str, str, str]] | None = None
    before: frozenset[str] = frozenset()
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
        mode_options = settings.of_mode(night.mode, batch=settings.on_batch(night.options))
        remeasuring.check_database(DATABASE)
        with contextlib.suppress(BadInput):  # none yet, or an empty file, which ReFrame fills
            night.before = frozenset(list_sessions(DATABASE))
        # a stack that cannot be entered; the others are measured all the same
        for sentence in site.configuration(ROOT)[1]:
            night.problems.append(clause(sentence))
            night.say(sentence)
        require_files(night.options)
        make_plan(night)
        require_cases(night)
        clean_up()  # what a killed session left running would be measured together with this one
        try:
            look_at_nodes(night)
            measure(night, mode_options)
            session = identify(night)
            if session:
                export(night, session)
                confirm(night, session)
            if night.reframe_status:
                night.problems.append(
                    f"ReFrame ended with exit status {night.reframe_status}: see the failures "
                    f"above, or {LOG}"
                )
            if session:
                publish(night, session)
            show(night, session)
        except supervision.Interrupted as signal:
            return stop(night, signal)
        night.say(session_files.holdings(RESULTS))
        return answer(night, session)


def forget_earlier() -> None:
    """Remove what an earlier night left for its pipeline; all of it is stored elsewhere, too.

    :raises BadInput: it cannot be taken away.
    """
    try:
        SESSION_ID.unlink(missing_ok=True)
        if TONIGHT.exists():
            shutil.rmtree(TONIGHT)
        TONIGHT.mkdir(parents=True)
    except OSError as error:
        raise BadInput(
            "cannot-write",
            f"cannot recreate {error.filename} ({error.strerror}): remove it, or correct its "
            "permissions.",
        ) from None


def make_plan(night: Night) -> None:
    """Choose what is measured, where the night has a budget, and say what it will take.

    :raises BadInput: the budget is too small for what is measured
        every night, or nothing can be planned.
    """
    if night.before and settings.budget_of(os.environ, night.mode, night.options):
        # What a night measured that was killed before it was exported is known to the plan, too.
        night.notes += night.store.bring_up_to_date(DATABASE)
    night.plan = settings.plan_night(
        os.environ, night.mode, night.label, night.options, night.store.folder
    )
    if night.plan:
        usual = (
            [] if os.environ.get(settings.BUDGET) else [settings.not_set(night.plan.plan.record)]
        )
        for line in (*usual, *making.lines(night.plan.plan)):
            night.say(line)
        night.problems += night.plan.plan.record.broken


def require_files(options: Sequence[str]) -> None:
    """Read what the night will be judged by: a slip in it costs no night.

    :raises BadInput: there is no such system, or one of its files cannot be used.
    """
    named = [
        *command_line.arguments(options, {"--system": "system"})["system"][-1:],
        os.environ.get("RFM_SYSTEM", ""),
    ]
    for _, sentence in site_files.faults(systems.select(named[0].partition(":")[0] or None)):
        raise BadInput("system-description", sentence)


def require_cases(night: Night) -> None:
    """Refuse options that select nothing: they are a slip of whoever
    gave them, and no night to be recorded.

    :raises BadInput: with ReFrame's reason, where it has one.
    """
    one_partition = ":" in os.environ.get("RFM_SYSTEM", "")
    narrowed = settings.changing(night.options) or settings.places(night.options)
    if night.plan or not (narrowed or one_partition):
        return
    if not record.ask([*settings.of_mode(night.mode), *night.options]).cases:
        raise BadInput(
            "nothing-measured",
            f"no case of mode '{night.mode}' fits {shlex.join(night.options)} and can be measured "
            "here: nothing is measured.",
        )


def clean_up() -> None:
    """End what a killed session left running, and remove what a killed writer left; failures are
    printed.
    """

    def work(**_: object) -> None:
        from .listings import orphans  # loads ReFrame, which a refused night does not need

        if old := session_files.find(RESULTS, None):
            say(session_files.remove(old))
        orphans.report(True, print)

    exit_status.run(work, ())


def look_at_nodes(night: Night) -> None:
    """Name odd nodes before anything is measured on them, and leave them out if requested."""
    found = preflight.look(
        night.options,
        preflight.NO if night.narrowed else night.preflight,
        TONIGHT,
        night.say,
        [night.lock],
    )
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
        "reframe",
        "--nocolor",
        "-c",
        "reframe_tests",
        "-r",
        *mode,
        *night.options,
        "--session-extras",
        labels,
        f"--report-file={RUN_REPORT}",
    ]
    night.say(
        f"measuring in mode '{night.mode}' (session label run={night.label}); skipped cases and "
        f"all other output are in {LOG}"
    )
    environ = {
        **os.environ,
        "RFM_GENERATE_FILE_REPORTS": "yes",
        **(night.plan.environ if night.plan else {}),
    }
    # a name of somebody's own would be that of each night
    environ.pop(session_folder.VARIABLE, None)
    planned = {row.case: row.seconds for row in plan.cases if row.planned} if plan else {}
    seconds_of = (
        (lambda system: planned) if plan else seconds_of_last_night(night.store.folder, night.label)
    )
    progress = Progress(seconds_of, night.say)

    def show_line(line: str) -> bool:
        progress.read(line)
        return not _HIDDEN.match(line)

    night.reframe_status = supervision.run(
        words, LOG, show_line, environ, [night.lock], tell=progress.tell
    )


def identify(night: Night) -> Session | None:
    """Tonight's session, which the database has; ``None``, and a
    reason among the problems, if it has none.

    Afterwards ``results/session-id`` holds its id.
    """
    if not RUN_REPORT.exists():
        night.problems.append(
            "no session: ReFrame selected no cases, or ended before it wrote its run report"
        )
        return None
    try:
        session = read_report(RUN_REPORT)
        uuid = session.uuid
        if not DATABASE.exists() or uuid not in list_sessions(DATABASE):
            raise BadInput(
                "session-missing",
                f"session {uuid} was measured but is not in {DATABASE}: see {LOG} for the reason, "
                f"correct it and measure again; the run report is {RUN_REPORT}.",
            )
        if uuid in night.before:
            raise BadInput(
                "not-comparable",
                f"no session: ReFrame's run report is that of an earlier session, {uuid}.",
            )
        with whole_file.replacing(SESSION_ID) as partial:
            partial.write_text(f"{uuid}\n")
    except (BadInput, OSError) as error:
        night.problems.append(clause(error))
        return None
    night.problems += shortfall(session, session.info.get(NUM_SELECTED))
    # What is described, or should be, and is never measured.
    night.problems += [
        clause(line) for name in session.systems for line in site.left_unmeasured(name, ROOT)
    ]
    night.problems += bad_references(session.systems)
    if night.plan:
        night.problems += night.plan.extra(session)
        night.notes.append(night.plan.took(session))
    return session


def shortfall(session: Session, selected: object) -> list[str]:
    """What a session lacks, one sentence each.

    :param selected: number of cases by ReFrame's run report. Its exit status alone does not do:
        that of a missed reference is excused where the reference is not missed again.
    """
    cases = [case for case in session.cases if case.run == 0 and not case.uuid.endswith(PAIRED)]
    problems = []
    if len(cases) != selected:
        problems.append(
            f"ReFrame stored {plural(len(cases), 'case')} of {selected} it had selected"
        )
    if all(case.result == "skip" for case in cases):
        problems.append("no case was measured: all were skipped")
    if unproven := sum(
        case.result == "pass" and session.outcome(case) == "failed" for case in session.cases
    ):
        problems.append(
            f"{plural(unproven, 'case')} passed in ReFrame without stored proof of the condition"
        )
    return problems


def bad_references(names: Sequence[str], root: Path = ROOT) -> list[str]:
    """One sentence for each system with references that cannot be used:
    cases were measured without what must hold them.
    """
    problems = []
    for name in names:
        try:
            faults = site.reference_faults(name, root)
        except BadInput as error:
            problems.append(clause(error))
            continue
        more = f"; and {len(faults) - 1} more of its entries" if len(faults) > 1 else ""
        problems += [f"{fault.sentence.rstrip('.')}{more}" for fault in faults[:1]]
    return problems


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

    _step(
        night, "tonight's session is not in the dataset", f"export --session {session.uuid}", work
    )
    try:
        night.notes += night.store.bring_up_to_date(DATABASE)
    except BadInput as error:
        night.problems.append(clause(error))


def confirm(night: Night, session: Session) -> None:
    """Measure the cases again that missed a reference or are slower than
    earlier nights, in sessions of their own.

    A reference that is not missed again is no problem; what is slower than the nights before is the
    gate's to judge, with both measurements.
    """
    from ..night import confirmed_night  # which a night without a session does not need

    place = remeasuring.Workspace(DATABASE, night.store, TONIGHT / "again", (night.lock,))
    try:
        answer = confirmed_night.confirm(
            session, place, night.confirm_minutes, night.say, lambda line: not _HIDDEN.match(line)
        )
    except Exception as defect:
        # The session is measured: without its report its readers would never see it.
        traceback.print_exc()
        night.problems.append(
            f"not measured again because of a defect in mpibench ({type(defect).__name__}: "
            f"{defect}): report it"
        )
        return
    night.notes += answer.notes
    night.problems += answer.problems
    night.unjudged += answer.unjudged
    night.slower = None if answer.slower is None else [case.place for case in answer.slower]
    if answer.all_excused and night.reframe_status == 1:
        night.reframe_status = 0
    if answer.stopped:
        raise answer.stopped


def publish(night: Night, session: Session) -> None:
    """Report the session, and ask whether all that is expected is there."""

    from ..pages import page
    from ..pages import session as pages

    def report() -> None:
        say(pages.write(night.store, night.store.session(session.uuid), RESULTS))

    _step(night, "there is no report", f"report --session {session.uuid}", report)
    for suffix in (".html", ".md"):
        written = RESULTS / "reports" / f"{session.uuid}{suffix}"
        # of what is not there the step above has reported
        with contextlib.suppress(OSError):
            page.write(TONIGHT / f"report{suffix}", written.read_text(encoding="utf-8"))
    changed = shlex.join(settings.changing(night.options)) or " ".join(night.narrowed)
    if night.narrowed:
        night.notes.insert(
            0,
            f"PARTIAL session, not a whole night ({changed}): "
            f"{selection_options.describe_part(session)}",
        )
    elif changed:
        night.notes.insert(
            0,
            f"measured differently from a night ({changed}): "
            f"{selection_options.describe_part(session)}",
        )
    partial = bool(night.narrowed)
    command = f"gate --only completeness --session {session.uuid}{' --partial' if partial else ''}"

    def check_completeness() -> None:
        whole = expected.judge(night.store.find_session(session.uuid), partial=partial)
        say(whole.lines())
        if not whole.complete:
            logs = session.info.get("log_files")
            log = str(logs[-1]) if isinstance(logs, list) and logs else "ReFrame's log"
            night.problems.append(
                "something expected is missing (for cases left out while tests were loaded, see "
                f"'left out' in {log}): `mpibench {command}` ended with exit status 1"
            )

    _step(
        night,
        "could not check whether everything expected is there",
        command,
        check_completeness,
    )
    if night.problems:

        def find() -> None:
            from ..judge import gate

            said = gate.decide(night.store, session=session.uuid, partial=partial)
            night.finding = (
                f"{said.finding}; next: {said.tickets[0].next}" if said.tickets else said.finding
            )

        _step(night, "could not tell what is wrong first", f"gate --session {session.uuid}", find)


def show(night: Night, session: Session | None) -> None:
    """Store the night's answer and pass the night to tools, whatever its outcome; failures there
    are problems.
    """
    uuid = session.uuid if session else None
    try:
        reasons = (
            night.label,
            night.problems,
            [*(f"not judged: {line}" for line in night.unjudged), *night.notes],
        )
        records.answer(
            night.store.folder,
            uuid,
            records.NIGHT,
            *reasons,
            finding=night.finding or next(iter(night.unjudged), ""),
            slower=night.slower,
            unjudged=bool(night.unjudged),
        )
    except BadInput as error:
        night.problems.append(f"the answer of this night was not stored: {clause(error)}")
    night.store.reread()

    system = next(iter(session.systems if session else last_systems(night)), "")
    counts = Counter(case.result for case in session.cases) if session else {}
    ended = EndedNight(
        store=night.store,
        label=night.label,
        system=system,
        session=uuid,
        cases=counts,
        unjudged=bool(night.unjudged),
        problems=night.problems,
        notes=night.notes,
        step=partial(_step, night),
    )
    for name in tools.missing(tools.NIGHTS):
        night.say(f"{name} does not run after this night: its package is not installed (ci/setup)")
    for after in tools.load(tools.NIGHTS).values():
        after(ended)


def last_systems(night: Night) -> Sequence[str]:
    """Systems of the newest session before tonight: those that a night
    without a session was meant to measure.
    """
    # a file that cannot be read, which the step before has said
    with contextlib.suppress(BadInput):
        newest = [uuid for uuid in night.store.starts if uuid in night.before]
        return night.store.session_systems.get(newest[-1], ()) if newest else ()
    return ()


def stop(night: Night, signal: supervision.Interrupted) -> int:
    """End an interrupted night; exit status."""
    clean_up()
    night.say(
        f"INTERRUPTED by {signal.name}: measuring has stopped; results of earlier sessions are "
        "unchanged"
    )
    with contextlib.suppress(OSError, BadInput):
        session = read_report(RUN_REPORT)
        uuid = session.uuid
        lost = interrupted(session)
        with whole_file.replacing(GATE) as partial:
            partial.write_text(
                f"FAIL: ci/nightly got {signal.name}: {lost or 'every case had already run'}\n"
            )
        if lost:
            night.say(lost)
        if SESSION_ID.exists():
            night.say(
                f"session {uuid} is complete and stored; continue with 'mpibench export' and "
                f"'mpibench report', --session {uuid}"
            )
        elif uuid in list_sessions(DATABASE):
            night.say(
                f"what was measured is stored as session {uuid}, now the latest; to exclude it: "
                f"'mpibench sessions withdraw {uuid} --why ...'"
            )
    return signal.status


def answer(night: Night, session: Session | None) -> int:
    """Say how the night ended; exit status."""
    for note in night.notes:
        night.say(note)
    pages = f"results/report.html, results/reports/{session.uuid}.html" if session else ""
    if session:
        night.say(
            f"session {session.uuid} ({label_of(session)}) of {session.started:%Y-%m-%d %H:%M} UTC"
        )
    if night.problems:
        night.say(
            f"NOT accepted; reasons: {len(night.problems)}: {night.finding or night.problems[0]}"
        )
        for problem in night.problems:
            night.say(f"  {problem}.")
        night.say(pages or "results/report.html, if it exists, shows an earlier session")
        return 1
    if night.unjudged:
        night.say(
            "NOT JUDGED; measure again when nobody else uses the machine: "
            f"{'; '.join(night.unjudged)}"
        )
        night.say(pages)
        return 3
    night.say(f"done: {pages}")
    return 0


def _name_configuration(environ: MutableMapping[str, str]) -> None:
    """Put this project's configuration after the centre's own, if the variable names the latter."""
    centre.make_absolute(environ)
    named = environ.get(centre.VARIABLE, "").split(":")
    if not any(name.endswith("/site_configs/settings.py") for name in named):
        environ[centre.VARIABLE] = ":".join(
            filter(None, [*named, str(ROOT / "site_configs" / "settings.py")])
        )


def main(options: Sequence[str] | None = None) -> int:
    """Entry point of ``ci/nightly``: MODE and LABEL from the environment,
    options for ReFrame from the command line.
    """
    began = time.monotonic()

    def say_when(text: str) -> None:
        print(f"[{time.monotonic() - began:4.0f}s] {text}", flush=True)

    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--set-up-status", type=int, default=0)
    known, options = parser.parse_known_args(sys.argv[1:] if options is None else options)
    mode = os.environ.get("MODE", "nightly")
    night = Night(mode, os.environ.get("LABEL", mode), options, say_when)
    if known.set_up_status:
        night.problems.append(
            "a stack could not be installed and was not measured: see the output of the set-up "
            "above"
        )
    supervision.heed_signals()
    try:
        if not _LABEL.fullmatch(night.label) or ".." in night.label:
            raise BadInput(
                "bad-option",
                f"LABEL={shlex.quote(night.label)} is not a valid label: use 1 to 64 letters, "
                "digits, '_', '-' and '.', without '..', and do not begin with '-' or '.'.",
            )
        _name_configuration(os.environ)
        os.chdir(ROOT)
        settings.forget_plans(os.environ)
        night.confirm_minutes = settings.confirm_minutes(
            os.environ.get("CONFIRM_MINUTES", f"{remeasuring.BUDGET_MINUTES:g}")
        )
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
