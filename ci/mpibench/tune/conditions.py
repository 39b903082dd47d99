"""Tunes one condition, or those that the jobs of a system use most, within one budget; what is said, and the exit status."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from reframe_tests.harness.mpis.tuning.model import Tuning
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput

from ..judge.plan.costs import Budget
from ..night import supervision
from ..only_one import only_one
from . import answer, tuning, workload
from .workload import UsedCondition, Workload

#: Exit statuses: installed settings no longer hold; of several conditions, one could not be measured; nothing is better than
#: the library's own choice.
LOST, NOT_ALL, NOTHING_BETTER = 1, 1, 3


@dataclass(frozen=True)
class Kind:
    """What is done with a condition.

    :param check: installed settings are proven again; ``dry_run``: the first job scripts are written; else it is tuned.
    """

    stack: Stack
    tuning: Tuning
    check: bool = False
    dry_run: bool = False


def tune_one(request: tuning.TuneRequest, kind: Kind, say: Callable[[str], None]) -> int:
    """Exit status of a condition.

    :raises supervision.Interrupted: by a signal; what was measured is kept.
    """
    place = request.place
    one = only_one(request.folder.parent, "mpibench tune", f".{place.name}.lock", f"on {place.text}")
    with supervision.heeded(), one as lock:
        request = replace(request, held=(lock,))
        if kind.dry_run:
            tuning.write_jobs(request, kind.stack, kind.tuning, say)
            return 0
        if kind.check:
            checked = tuning.check(request, kind.stack, kind.tuning, say)
            _say_all(say, answer.of_check(checked, place, kind.tuning))
            return 0 if checked.renewed else LOST
        result = tuning.tune(request, kind.stack, kind.tuning, say)
    _say_all(say, answer.of_tuning(result, place, kind.tuning))
    return 0 if result.rules else NOTHING_BETTER


def seconds_of(bound: Budget, amount: float, nodes: int) -> float:
    """Seconds of an amount of a budget on so many nodes."""
    return 60 * amount if bound.unit == "min" else 3600 * amount / nodes


def tune_most_used(
    jobs: Workload,
    bound: Budget,
    ask: Callable[[UsedCondition, float], tuning.TuneRequest],
    kind: Kind,
    say: Callable[[str], None],
) -> int:
    """Tune one condition after the other, most used first, each with its part of what is left of the budget; exit status.

    What one does not need, the others have. A condition that cannot be measured is named and costs nothing more; one that an
    earlier call has tuned to its end is not tuned again.

    :param ask: a condition and its seconds to what is asked for.
    :raises supervision.Interrupted: by a signal; what was measured is kept.
    """
    _say_all(say, answer.of_workload(jobs))
    waiting, left = list(jobs.conditions), bound.amount
    done: list[UsedCondition] = []
    refused: list[UsedCondition] = []
    better, first = False, ""
    while fitting := [each for each in waiting if seconds_of(bound, left, each.nodes) >= workload.LEAST_S]:
        part = left * workload.part_of_first(fitting, [seconds_of(bound, left, each.nodes) for each in fitting])
        each = fitting[0]
        waiting.remove(each)
        request = ask(each, seconds_of(bound, part, each.nodes))
        if not kind.dry_run and (when := tuning.finished(request, kind.stack, kind.tuning)):
            say(f"{_name(each)} was tuned to its end on {when[:10]}: --restart tunes it again")
            done.append(each)
            better = better or tuning.installed(request.place) is not None
            continue
        share = f"{100 * jobs.share([each]):.0f} % of the node-hours"
        say(f"{_name(each)}, {share}: {bound.format(part)} of the budget")
        try:
            better = tune_one(request, kind, say) == 0 or better
            done.append(each)
        except BadInput as error:
            first = first or f"{_name(each)}: {error}"
            refused.append(each)
            say(f"not {'written' if kind.dry_run else 'tuned'}: {error}")
            part = 0.0
        spent = request.clock.spent_s
        left -= part if kind.dry_run else bound.amount * spent / seconds_of(bound, bound.amount, each.nodes)
    if not done:
        raise BadInput(
            "nothing-measured",
            f"no condition was tuned: {first or f'{bound.text} is too little for any condition: give a larger --budget.'}",
        )
    what = "written" if kind.dry_run else "tuned"
    say(f"{what}: {len(done)} of {len(jobs.conditions)} conditions, with {100 * jobs.share(done):.0f} % of the node-hours")
    for rows, why in ((refused, "could not be tuned"), (waiting, "have no budget left")):
        if rows:
            names = [*map(_name, rows[:8]), *["..."] * (len(rows) > 8)]
            say(f"{len(rows)} {why}, with {100 * jobs.share(rows):.0f} % of the node-hours: {', '.join(names)}")
    return NOT_ALL if refused else 0 if better else NOTHING_BETTER


def _name(each: UsedCondition) -> str:
    return f"{each.nodes} x {each.ppn}"


def _say_all(say: Callable[[str], None], lines: Iterable[str]) -> None:
    for line in lines:
        say(line)
