"""The question "what can this gate see here, and how often will it cry wolf?", and its answer as data and as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from mpibench.judge.policy import Policy
from reframe_tests.harness.vocabulary import JUDGED, BadInput

from .draws import MOST_SLOWER_PERCENT, judged, measure, settings
from .nights import nights_called
from .noise import Trace
from .shares import FOUND_WITH, share_interval

#: Jobs of the baseline and of the candidate that are asked for.
HISTORY_JOBS, CANDIDATE_JOBS = (5, 15, 30), (1, 3, 5)
#: Spreads of the typical metric, in percent, that recorded noise is scaled to; 0: as recorded.
SPREADS_PERCENT = (0.0, 1.0, 2.0)
#: Margin for recorded noise, which has no policy: a slowdown as large as the margin is called half the time by definition.
MARGIN_PERCENT = 2.0
#: The smallest slowdown found in 99 of 100 draws has an interval from 368 draws on.
DRAWS = 400
Row = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """What is asked of each trace.

    :param history: jobs; ``None``: the most of :data:`HISTORY_JOBS` that a trace has beside the smallest candidate.
    :param repeats: of each job; ``None``: all there are.
    :param in_order: jobs one after the other as recorded, and not at random.
    """

    draws: int
    history: Sequence[int] | None = HISTORY_JOBS
    candidate: Sequence[int] = CANDIDATE_JOBS
    spreads_percent: Sequence[float] = SPREADS_PERCENT
    repeats: int | None = None
    seed: int = 1
    in_order: bool = False

    def __post_init__(self) -> None:
        numbers = (("draws", [self.draws], 2), ("candidate", self.candidate, 1), ("repeats", [self.repeats or 1], 1))
        history = HISTORY_JOBS if self.history is None else self.history
        for name, given, least in (*numbers, ("history", history, 1), ("spread", self.spreads_percent, 0)):
            if not given or not min(given) >= least:
                raise BadInput(
                    "rates-range", f"--{name} is {', '.join(map(str, given)) or 'empty'}, expected numbers of at least {least}."
                )

    def histories(self, jobs: int) -> Sequence[int]:
        """Jobs of the baseline that are asked of a trace of so many."""
        if self.history is not None:
            return self.history
        return [max((one for one in HISTORY_JOBS if one + min(self.candidate) <= jobs), default=min(HISTORY_JOBS))]


def with_margin(policy: Policy, percent: float) -> Policy:
    """The policy with one margin for all."""
    if not 0 < percent < 100:
        raise BadInput("rates-range", f"--margin is {percent:g}, expected a percentage between 0 and 100.")
    return replace(policy, margins_percent=dict.fromkeys(JUDGED, percent))


def rows(traces: Iterable[Trace], question: Question, policy: Policy) -> Iterator[Row]:
    """One row for each trace and setting, as soon as it is known.

    :raises BadInput: no trace has jobs enough for any setting, or the policy judges nothing of a trace.
    """
    asked = 0
    known = [judged(trace, policy) for trace in traces]
    spreads = [None if percent == 0 else percent / 100 for percent in question.spreads_percent]
    for trace in known:
        histories = question.histories(trace.jobs)
        for spread in spreads:
            nights = None
            for setting in settings(trace, [spread], histories, question.candidate, question.repeats):
                nights = nights or nights_called(
                    trace.scaled(spread), policy, question.draws, question.seed, in_order=question.in_order
                )
                asked += 1
                rates = measure(trace, setting, policy, question.draws, question.seed, in_order=question.in_order)
                yield replace(rates, nights=nights and nights.nights, years=nights and nights.years).row()
    if not asked:
        most = max(trace.jobs for trace in known)
        least = min(min(question.histories(trace.jobs)) for trace in known)
        raise BadInput(
            "rates-range",
            f"there are {most} jobs at most, and --history {least} with --candidate {min(question.candidate)} "
            f"needs {least + min(question.candidate)}: ask for fewer, or measure more.",
        )


class Table(NamedTuple):
    """A table for a reader; all cells are text, the first two columns name the row."""

    title: str
    head: list[str]
    rows: list[list[str]]


def tables(answers: Sequence[Row]) -> list[Table]:
    """Error rates, and what is found, each with its interval."""
    slowdowns = list(answers[0]["found_percent"])
    patterns = list(answers[0]["found_percent"][slowdowns[0]])
    named = ["fabric", "spread", "history", "candidate"]
    return [
        Table(
            "Called where nothing has changed",
            [
                *named,
                "repeats",
                "units",
                "sessions refused",
                "with --confirm",
                "called of 1,000",
                "nights called",
                "years with a call",
                "95 % intervals hold",
            ],
            [
                [
                    *_name(row),
                    *(str(row["repeats"]), row["units"], _share(row, "sessions_refused_percent", "%")),
                    _share(row, "confirmed_refused_percent", "%"),
                    _share(row, "metrics_called_per_1000"),
                    _share(row, "nights_called_percent", "%"),
                    _share(row, "years_called_percent", "%"),
                    _share(row, "coverage_percent", "%"),
                ]
                for row in answers
            ],
        ),
        Table(
            f"Smallest slowdown found with {100 * FOUND_WITH:g} % probability",
            [*named, *(smallest := list(dict.fromkeys(one for row in answers for one in row["smallest_found_percent"])))],
            [[*_name(row), *(smallest_text(row, pattern) for pattern in smallest)] for row in answers],
        ),
        Table(
            "Found, in percent of sessions: at once; with --confirm",
            [*named, *(f"{slowdown} % slower: {', '.join(patterns)}" for slowdown in slowdowns)],
            [[*_name(row), *(_found(row, one) for one in slowdowns)] for row in answers],
        ),
    ]


def _name(row: Row) -> list[str]:
    return [row["fabric"], spread_text(row), str(row["history_jobs"]), str(row["candidate_jobs"])]


def spread_text(row: Row) -> str:
    """Spread of the typical metric."""
    return "as recorded" if row["spread_percent"] is None else f"{row['spread_percent']:g} %"


def _share(row: Row, name: str, unit: str = "") -> str:
    """A figure with its interval; nothing where it could not be asked."""
    if row[name] is None:
        return "too few"
    low, high = row["interval_95"][name]
    return f"{row[name]:.1f} [{low:.1f}, {high:.1f}] {unit}".strip()


def _found(row: Row, slowdown: str) -> str:
    """What is found of a slowdown, of each pattern, at once and with --confirm."""
    ways = [row["found_percent"], row["confirmed_found_percent"]]
    return "; ".join(", ".join(f"{share:.0f}" for share in way[slowdown].values()) if way else "too few" for way in ways)


def smallest_text(row: Row, pattern: str) -> str:
    """Smallest slowdown found, with its interval; nothing where the trace has no such size."""
    if pattern not in row["smallest_found_percent"]:
        return ""
    most = f"> {MOST_SLOWER_PERCENT:g}"
    value, ends = row["smallest_found_percent"][pattern], row["interval_95"]["smallest_found_percent"][pattern]
    low, high = (most if end is None else f"{end:.1f}" for end in ends)
    return f"{most if value is None else f'{value:.1f}'} [{low}, {high}] %"


def notes(question: Question, policy: Policy, margin_percent: float | None, answers: Sequence[Row]) -> list[str]:
    """What the figures rest on."""
    order = "one after the other as recorded" if question.in_order else "at random"
    margin = f"a margin of {margin_percent:g} %" if margin_percent else f"the margins of {policy.source}"
    few = min(answers, key=lambda row: row["jobs_recorded"] // row["candidate_jobs"])
    candidates = few["jobs_recorded"] // few["candidate_jobs"]
    return [
        f"{question.draws} draws a row, whole jobs {order}, {margin}, rate {100 * policy.false_discovery_rate:g} %; "
        "in brackets 95 % intervals (Clopper and Pearson) of what the draws alone leave open",
        f"the recording bounds them, too: {few['jobs_recorded']} jobs hold {candidates} candidates of {few['candidate_jobs']} "
        f"that share none, and what none of them shows may have a rate of {100 * share_interval(0, candidates)[1]:.1f} %",
        "found: what was slowed down is called; slower by 5 %: takes 1.05 times as long; a job drawn stands for a session",
    ]
