"""The answer to "what can this gate see here, and how often will it cry wolf?", as data and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.markup import escape
from rich.table import Table

from reframe_tests.harness.vocabulary import JUDGED, BadInput

from ..verdicts.policy import Policy
from .draws import measure, settings
from .noise import Trace

#: Jobs of the baseline and of the candidate that are asked for.
HISTORY_JOBS, CANDIDATE_JOBS = (5, 15, 30), (1, 3)
#: Spreads of the typical metric, in percent, that recorded noise is scaled to; 0: as recorded.
SPREADS_PERCENT = (0.0, 1.0, 2.0)
#: Margin for recorded noise, which has no policy: a slowdown as large as the margin is called half the time by definition.
MARGIN_PERCENT = 2.0


@dataclass(frozen=True)
class Question:
    """What is asked of each trace.

    :param repeats: of each job; ``None``: all there are.
    :param in_order: jobs one after the other as recorded, and not at random.
    """

    draws: int
    history: Sequence[int] = HISTORY_JOBS
    candidate: Sequence[int] = CANDIDATE_JOBS
    spreads_percent: Sequence[float] = SPREADS_PERCENT
    repeats: int | None = None
    seed: int = 1
    in_order: bool = False

    def __post_init__(self) -> None:
        numbers = (("draws", [self.draws], 2), ("history", self.history, 1), ("candidate", self.candidate, 1))
        for name, given, least in (*numbers, ("repeats", [self.repeats or 1], 1), ("spread", self.spreads_percent, 0)):
            if not given or min(given) < least:
                raise BadInput(f"--{name} is {', '.join(map(str, given)) or 'empty'}, expected numbers of at least {least}.")


def with_margin(policy: Policy, percent: float) -> Policy:
    """The policy with one margin for all."""
    if not 0 < percent < 100:
        raise BadInput(f"--margin is {percent:g}, expected a percentage between 0 and 100.")
    return replace(policy, margins_percent=dict.fromkeys(JUDGED, percent))


def rows(traces: Iterable[Trace], question: Question, policy: Policy) -> Iterator[dict[str, Any]]:
    """One row for each trace and setting, as soon as it is known.

    :raises BadInput: no trace has jobs enough for any setting.
    """
    asked = 0
    known = list(traces)
    spreads = [None if percent == 0 else percent / 100 for percent in question.spreads_percent]
    for trace in known:
        for setting in settings(trace, spreads, question.history, question.candidate, question.repeats):
            asked += 1
            yield measure(trace, setting, policy, question.draws, question.seed, in_order=question.in_order).row()
    if not asked:
        most = max(trace.jobs for trace in known)
        raise BadInput(
            f"there are {most} jobs at most, and --history {min(question.history)} with --candidate {min(question.candidate)} "
            f"needs {min(question.history) + min(question.candidate)}: ask for fewer, or measure more."
        )


def table(answers: Sequence[dict[str, Any]]) -> Table:
    """The answers for a reader; each share with its Monte Carlo error."""
    found = Table(box=None, header_style="bold", pad_edge=False)
    slowdowns = list(answers[0]["found_percent"]) if answers else []
    patterns = list(answers[0]["found_percent"][slowdowns[0]]) if answers else []
    heads = (
        "fabric",
        "spread",
        "history",
        "candidate",
        "repeats",
        "units",
        "sessions refused",
        "called of 1,000",
        "95 % holds",
    )
    for head in (*heads, *(f"{slowdown} % slower: {', '.join(patterns)}" for slowdown in slowdowns)):
        found.add_column(head, overflow="fold")
    for row in answers:
        error = row["monte_carlo_error"]

        def share(name: str, unit: str = " %", row: dict[str, Any] = row, error: dict[str, Any] = error) -> str:
            return f"{row[name]:.1f} ± {error[name]:.1f}{unit}"

        spread = "as recorded" if row["spread_percent"] is None else f"{row['spread_percent']:g} %"
        found.add_row(
            *(escape(row["fabric"]), spread, str(row["history_jobs"]), str(row["candidate_jobs"]), str(row["repeats"])),
            *(row["units"], share("sessions_refused_percent"), share("metrics_called_per_1000", ""), share("coverage_percent")),
            *(", ".join(f"{row['found_percent'][slowdown][pattern]:.0f}" for pattern in patterns) for slowdown in slowdowns),
        )
    return found


def notes(question: Question, policy: Policy, margin_percent: float | None) -> list[str]:
    """What the figures rest on."""
    order = "one after the other as recorded" if question.in_order else "at random"
    margin = f"a margin of {margin_percent:g} %" if margin_percent else f"the margins of {policy.source}"
    return [
        f"{question.draws} draws a row, whole jobs {order}, {margin}, rate {100 * policy.false_discovery_rate:g} %; ± is the "
        "error of the draws, not that of the recording, at 95 %",
        "found: percent of sessions in which what was slowed down is called; a job drawn stands for a session",
    ]
