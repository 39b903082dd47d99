"""Before a night: is each node configured as it should be? A separate session (label
``run=preflight``) that runs only the node test.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from pathlib import Path

from reframe_tests.harness.cases.preflight import node_answers
from reframe_tests.harness.cases.preflight.node_answers import NO_LAUNCHER
from reframe_tests.harness.printable import clause, first_line
from reframe_tests.harness.sites import systems
from reframe_tests.harness.sites.session import session_folder
from reframe_tests.harness.vocabulary import BadInput

from ..store.sessions import Case, Session, read_report
from ..store.store import Store
from . import supervision
from .settings import places

#: What ``PREFLIGHT`` may be: nothing is looked at; odd nodes are named;
#: they are named and nothing is measured on them.
CHOICES = NO, YES, EXCLUDE = ("no", "yes", "exclude")
#: Nobody asked: they are looked at where there is a way to, as with ``yes``.
DEFAULT = ""
#: Label ``run`` of these sessions.
RUN = "preflight"
#: Minutes it may take, the queue's time included.
LIMIT_MINUTES = 15.0
#: Sentences on a partition at most.
FEW = 5
#: What to do where nodes cannot be looked at, as with a scheduler that the test does not know.
WITHOUT = "PREFLIGHT=no measures without"
LOG = "preflight.log"
REPORT = "preflight.json"
#: In the log, why a partition's nodes cannot be looked at: ``system:partition: reason``; and that
#: this holds for all of them.
_LEFT_OUT = re.compile(rf"([^\s@]+: {re.escape(NO_LAUNCHER)} \w+)")
_NONE_LEFT = "nothing is measured: no test case fits all options together"


#: An option of Slurm's that leaves nodes out, in a partition's
#: ``access`` or behind ``-J`` (sbatch(1)).
_EXCLUDE_OPTION = re.compile(r"(?:(?:--)?exclude=|-?x[= ]|-x)(.+)")


@dataclass
class PreflightAnswer:
    """What came of it.

    :param problems: one sentence for each thing that is odd, or why
        the nodes could not be looked at.
    :param notes: what else is to be known.
    :param excluded: nodes that nothing is to be measured on.
    :param kept_out: nodes that the site's or the night's own options leave out.
    """

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)
    kept_out: list[str] = field(default_factory=list)

    @property
    def options(self) -> list[str]:
        """ReFrame's options that leave these nodes out (``sbatch
        --exclude``, of which the last counts alone).
        """
        return (
            [f"--job-option=exclude={','.join([*self.kept_out, *self.excluded])}"]
            if self.excluded
            else []
        )


def choice(text: str | None, mode: str = "nightly") -> str:
    """What ``PREFLIGHT`` asks for; by default :data:`DEFAULT`, and nothing in smoke mode.

    :param text: ``None``: it is not set.
    :raises BadInput: none of :data:`CHOICES`.
    """
    if text is None:
        return NO if mode == "smoke" else DEFAULT
    if text not in CHOICES:
        raise BadInput("bad-option", f"PREFLIGHT={text} is not one of {', '.join(CHOICES)}.")
    return text


def look(
    options: Sequence[str],
    wanted: str,
    folder: Path,
    say: Callable[[str], None],
    lock: Sequence[int],
) -> PreflightAnswer:
    """Look at all idle nodes.

    :param options: the night's own for ReFrame; its system counts here, too.
    :param wanted: one of :data:`CHOICES`, or :data:`DEFAULT`.
    :param folder: for log and run report.
    :raises Interrupted: by a signal.
    """
    if wanted == NO:
        return PreflightAnswer()
    words = [
        "reframe",
        "--nocolor",
        "-v",
        "-c",
        "reframe_tests",
        "-r",
        "-n",
        "^NodePreflight$",
        *places(options),
        "--session-extras",
        f"run={RUN}",
        f"--report-file={folder / REPORT}",
    ]
    say(f"checking the nodes first (session label run={RUN}); log: {folder / LOG}")
    environ = {**os.environ, "RFM_GENERATE_FILE_REPORTS": "yes"}
    environ.pop(session_folder.VARIABLE, None)
    try:
        supervision.run(
            words, folder / LOG, lambda _: False, environ, lock, limit_s=60 * LIMIT_MINUTES
        )
        session = read_report(folder / REPORT)
    except supervision.OutOfTime:
        return PreflightAnswer(
            [
                f"preflight: not finished after {LIMIT_MINUTES:g} min, including queue time: see "
                f"{folder / LOG}"
            ]
        )
    except BadInput:
        text, reasons = _left_out(folder / LOG)
        if _NONE_LEFT not in text or not reasons:
            return PreflightAnswer(
                [
                    f"preflight: ReFrame ended before it checked any node: see {folder / LOG}; "
                    f"{WITHOUT}"
                ]
            )
        sentence = f"preflight: no node was checked: {'; '.join(reasons)}"
        return (
            PreflightAnswer(notes=[sentence])
            if wanted == DEFAULT
            else PreflightAnswer([f"{sentence}; {WITHOUT}"])
        )
    answer = judge(session, exclude=wanted == EXCLUDE)
    access = (
        row.get("access", ())
        for name in session.systems
        for row in (systems.find(name) or {}).get("partitions", ())
    )
    own = [option.removeprefix("--job-option=") for option in places(options)]
    answer.kept_out = [
        found[1] for word in (*chain(*access), *own) if (found := _EXCLUDE_OPTION.fullmatch(word))
    ]
    answer.notes += [f"preflight: not checked: {reason}" for reason in _left_out(folder / LOG)[1]]
    return answer


def _left_out(log: Path) -> tuple[str, list[str]]:
    """What ReFrame said, and the partitions that it left out, each with the reason."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return text, list(dict.fromkeys(_LEFT_OUT.findall(text)))


def judge(session: Session, *, exclude: bool) -> PreflightAnswer:
    """What a session of preflight says.

    :param exclude: leave out nodes that are odd or silent, where most of their partition's are not.
    """
    answer = PreflightAnswer()
    for case in session.cases:
        where = f"preflight of {case.partition}"
        if case.result == "skip":
            answer.notes.append(f"{where}: not checked: {first_line(case.reason)}")
        elif case.entry.get("never_started"):
            answer.notes.append(
                f"{where}: not checked: {first_line(case.reason).removeprefix('sanity error: ')}"
            )
        elif case.result != "pass" or case.evidence != "proven":
            _judge_case(case, where, exclude, answer)
        others = case.entry.get("not_idle")
        if isinstance(others, dict) and all(isinstance(count, int) for count in others.values()):
            answer.notes += [
                f"{where}: {sentence}" for sentence in node_answers.describe_others(others)
            ]
        gone = node_answers.read_out_of_service(case.entry.get("out_of_service"))
        answer.notes += [f"{where}: {sentence}" for sentence in node_answers.others(gone)]
        # Also where the case failed for too many reasons to name, or its job never started.
        missed = [f"{where}: {sentence}" for sentence in node_answers.missed(gone)]
        answer.problems += [sentence for sentence in missed if sentence not in answer.problems]
    if all(case.result == "skip" or case.entry.get("never_started") for case in session.cases):
        why = "see the notes" if session.cases else "the session has no case"
        answer.problems.append(f"preflight: no node was checked: {why}; {WITHOUT}")
    answer.excluded = list(dict.fromkeys(answer.excluded))
    return answer


def _judge_case(case: Case, where: str, exclude: bool, answer: PreflightAnswer) -> None:
    sentences = list(case.proof.sentences if case.proof else ()) or [
        first_line(case.reason) or "failed without a reason"
    ]
    answer.problems += [f"{where}: {clause(sentence)}" for sentence in sentences[:FEW]]
    if len(sentences) > FEW:
        answer.problems.append(f"{where}: and {len(sentences) - FEW} more: see its session")
    # Nodes that did not answer, and those with something that fails, as the scheduler calls them.
    try:
        silent = [str(node) for node in case.entry.get("silent_nodes") or ()]
        failing = [row for row in case.entry.get("odd_nodes") or () if not row.get("note")]
        rows = [str(node) for row in failing for value in row["values"] for node in value["nodes"]]
    except (
        AttributeError,
        KeyError,
        TypeError,
    ):  # another release wrote it otherwise: no node is left out
        return
    odd = list(dict.fromkeys([*silent, *rows]))
    asked = (case.nodes or 0) + len(silent)
    if exclude and odd and 2 * len(odd) < asked:
        answer.excluded += odd
        answer.notes.append(f"{where}: nothing is measured on {', '.join(odd)}")
    elif exclude and odd:
        answer.notes.append(
            f"{where}: no node is left out: {len(odd)} of {asked} differ or did not answer"
        )


#: A night starts to measure so much after its preflight has started, at
#: most: its time, and what loading all tests takes.
WITHIN = timedelta(minutes=LIMIT_MINUTES + 5)


def find(session: Session, store: Store) -> Session | None:
    """The preflight session of a session; ``None`` if it has none that can be read.

    One that other sessions followed, or another system's, is not its own.
    """
    # The dataset has starts to a millisecond, by which a session would stand before itself.
    before = [
        (uuid, began)
        for uuid, began in store.starts.items()
        if began < session.started and uuid != session.uuid
    ]
    if not before or session.started - before[-1][1] > WITHIN:
        return None
    try:
        found = store.session(before[-1][0])
    except BadInput:
        return None
    return found if found.labels.get("run") == RUN and found.systems == session.systems else None
