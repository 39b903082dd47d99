"""What the gate answers: for people in at most ten lines, for programs as plain data (:class:`..answers.Gate`).

The first line of a refusal is its finding, so that a mail's subject or the first line of a log says what is wrong; counts
follow. Where the lines do not suffice, each kind of question that failed shows its worst problem before any shows a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from reframe_tests.harness.printable import first_line, plain_data

from ...store.records import Unreadable

#: Lines at most: three of a head, the worst problem of each of :data:`KINDS`, and one that says what is left out.
MOST_LINES = 10
#: Characters of the finding in the first line.
LONGEST_FINDING = 160
#: The questions the gate asks, in the order in which their problems are shown: first what leaves least of the others.
AGE, EVIDENCE, MISSING, REFERENCE, HISTORY, DRIFT = KINDS = ("age", "evidence", "missing", "reference", "history", "drift")
#: Those that ask of curves, which a slow node may explain.
OF_CURVES = (REFERENCE, HISTORY, DRIFT)


@dataclass(frozen=True)
class GateProblem:
    """One thing that is not as it must be.

    :param kind: of :data:`KINDS`.
    :param text: one line.
    :param finding: the same in short, for the first line of the answer.
    :param facts: the same in numbers and names, for programs.
    """

    kind: str
    text: str
    finding: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GateCheck:
    """One question the gate asks of a session.

    :param kind: of :data:`KINDS`.
    :param counts: the answer in counts, for the head; ``numbers``: for programs, empty where nothing could be counted.
    :param problems: the worst first.
    :param notes: what is to be known besides.
    """

    kind: str
    counts: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[GateProblem, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class GateAnswer:
    """The gate's answer on one session.

    :param label: its label ``run``; ``None`` without one.
    :param options: selection options of a partial session; empty for a whole one.
    :param checks: one of each of :data:`KINDS`, in their order.
    :param notes: what is no problem and is to be known.
    :param better: changes for the better, and accepted ones.
    :param lost: sessions of the system that could not be read.
    """

    system: str
    session: str
    label: str | None
    started: datetime
    options: tuple[str, ...]
    checks: tuple[GateCheck, ...]
    notes: tuple[str, ...] = ()
    better: tuple[str, ...] = ()
    lost: tuple[Unreadable, ...] = ()

    @property
    def problems(self) -> list[GateProblem]:
        """All of them, in the order of :data:`KINDS`, the worst of each first."""
        return [problem for check in self.checks for problem in check.problems]

    @property
    def passed(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    @property
    def finding(self) -> str:
        """The first problem in short and how many others there are of which kind; empty for a session that passed."""
        problems = self.problems
        if not problems:
            return ""
        rest = f" and {len(problems) - 1} more ({_kinds(problems[1:])})" if problems[1:] else ""
        return f"{first_line(problems[0].finding, LONGEST_FINDING)}{rest}"

    @property
    def lines(self) -> tuple[str, ...]:
        """At most :data:`MOST_LINES`; the first is the decision, of a refusal with its finding."""
        problems, head = self.problems, self._head()
        others = [*(f"note: {line}" for line in self.notes), *self.better]
        room = MOST_LINES - len(head)
        if len(problems) + len(others) <= room:
            return (*head, *(problem.text for problem in problems), *others)
        shown = _worst_of_each(problems, room - 1)
        hidden = [problem for place, problem in enumerate(problems) if place not in shown]
        kept = others[: room - 1 - len(shown)]
        notes = len(others) - len(kept)
        said = ", ".join(filter(None, [_kinds(hidden), f"{notes} note{'' if notes == 1 else 's'}" if notes else ""]))
        rest = f"... and {len(hidden) + notes} more ({said}): see `mpibench gate --json` and `mpibench report`"
        return (*head, *(problems[place].text for place in shown), *kept, rest)

    def _head(self) -> list[str]:
        counts = {check.kind: check.counts for check in self.checks}
        label = f"run={self.label}" if self.label is not None else "no label"
        refused = f"{len(self.lost)} ({self.lost[-1].why})" if self.lost else "none"
        who = f"{self.system}, session {self.session[:8]}"
        held = f"{counts[EVIDENCE]}; {counts[MISSING]}"
        rest = f"{counts[REFERENCE]}; {counts[DRIFT]}; {counts[HISTORY]}; sessions that could not be read: {refused}"
        when = f"{label}, {counts[AGE]}"
        if self.passed:
            numbers = {check.kind: check.numbers for check in self.checks}
            held_to = sum(numbers[REFERENCE].get(name, 0) for name in ("held", "missed", "not_seen_again"))
            judged = held_to + numbers[HISTORY].get("judged", 0)
            nothing = "" if judged else "no value was judged: there is no reference, and no history that is long enough; "
            return [f"PASS: {who} ({when}): {nothing}{held}", rest]
        return [f"FAIL: {who}: {self.finding}", f"{when}: {held}", rest]

    def as_data(self) -> dict[str, Any]:
        """The answer as plain data, as :class:`..answers.Gate` lists it."""
        data: dict[str, Any] = plain_data(
            {
                "decision": "PASS" if self.passed else "FAIL",
                "finding": self.finding,
                "system": self.system,
                "session": self.session,
                "label": self.label,
                "started": self.started.isoformat(),
                "options": self.options,
                "counts": {check.kind: {"text": check.counts, **check.numbers} for check in self.checks},
                "problems": {
                    check.kind: [{**one.facts, "text": one.text, "finding": one.finding} for one in check.problems]
                    for check in self.checks
                },
                "notes": self.notes,
                "better": self.better,
                "unreadable": [{"session": one.session, "why": one.why} for one in self.lost],
            }
        )
        return data


def _worst_of_each(problems: Sequence[GateProblem], room: int) -> list[int]:
    """Places of at most so many problems, ascending: the first of each kind, then the others in their order."""
    first = {problem.kind: place for place, problem in reversed(list(enumerate(problems)))}
    others = [place for place in range(len(problems)) if place not in first.values()]
    return sorted([*sorted(first.values()), *others][:room])


def _kinds(problems: Iterable[GateProblem]) -> str:
    """How many problems of which kind: ``22 evidence, 1 drift``."""
    return ", ".join(f"{count} {kind}" for kind, count in Counter(problem.kind for problem in problems).items())
