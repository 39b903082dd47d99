"""Plans in words."""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from datetime import date, timedelta
from typing import Any

from reframe_tests.harness.vocabulary import BadInput

from . import choice
from .budget import Budget
from .cases import ListedCase
from .making import NightPlan
from .past import EarlierNight
from .record import PlanRecord

#: Cases that one candidates may be about.
MOST_EXPLAINED = 12
#: Days that are looked ahead for the next time a case comes.
MOST_AHEAD = 60


def counts(plan: PlanRecord) -> str:
    """How many cases are planned, and why, as part of a sentence."""
    whys = Counter(one.why for one in plan.cases if one.planned)
    parts = ", ".join(f"{number} {why}" for why, number in whys.most_common())
    return f"{len(plan.planned)} of {len(plan.cases)} cases" + (f" ({parts})" if parts else "")


def headline(plan: NightPlan) -> str:
    """One line before anything is submitted: jobs, node-hours, minutes, and how far the last plan was off."""
    found = plan.record.predicted
    return (
        f"{found.jobs} jobs, {found.launches} launches, {found.node_hours:.1f} node-hours, {found.minutes:.1f} min "
        f"(budget {plan.record.budget}); {last_error(plan)}"
    )


def last_error(plan: NightPlan) -> str:
    """How far the plan of the last planned night was off, as part of a sentence."""
    if plan.last is None:
        known = sum(one.measured for one in plan.cost)
        return f"no planned night before: {known} of {len(plan.cost)} costs are measured, the others are those of a model"
    night, planned = plan.last
    return f"{planned.day}: {difference(planned, night)}"


def difference(planned: PlanRecord, night: EarlierNight) -> str:
    """A prediction against what became of it."""
    said, hours = planned.predicted, night.node_seconds / 3600
    parts = [f"predicted {said.jobs} jobs, ran {night.jobs}"] if said.jobs != night.jobs else []
    if night.seconds is not None:
        parts.append(
            f"predicted {said.minutes:.1f} min, took {night.seconds / 60:.1f} ({_off(night.seconds / 60, said.minutes)})"
        )
    parts.append(f"{said.node_hours:.2f} node-hours, took {hours:.2f} ({_off(hours, said.node_hours)})")
    return "; ".join(parts)


def _off(took: float, said: float) -> str:
    return f"{100 * (took / said - 1):+.0f} %" if said else "nothing was predicted"


def lines(plan: NightPlan) -> list[str]:
    """The answer for a terminal."""
    found, record = plan.candidates, plan.record
    head = f"{record.day}, {record.system}, run={record.label}: {counts(record)}"
    said = [head, f"  {headline(plan)}"]
    if not plan.misfit:
        seen = [{pair for one in night.reasons for pair in found.pairs.of[one]} for night in plan.ahead]
        week = len(set().union(*seen))
        whole = len(plan.tonight.reasons) == len(found.cases)
        number = _nights(found.nights_to_all(plan.state, plan.tonight, plan.ahead))
        said.append(
            f"  pairs of values: {record.pairs_tonight} of {record.pairs} tonight, {week} in {len(seen)} nights; every case "
            f"{'tonight' if whole else f'in {number}'}"
        )
    return [*said, *(f"  NOT KEPT: {sentence}" for sentence in record.broken)]


def _nights(number: float) -> str:
    return "no number of nights: nothing is left for the others" if math.isinf(number) else f"about {math.ceil(number)} nights"


def as_data(plan: NightPlan) -> dict[str, Any]:
    """The answer for programs."""
    record = plan.record
    last = None
    if plan.last is not None:
        night, planned = plan.last
        last = {
            **{"date": planned.day.isoformat(), "session": night.session, "jobs": night.jobs},
            **{"minutes": night.seconds and night.seconds / 60, "node_hours": night.node_seconds / 3600},
            "predicted": vars(planned.predicted),
        }
    return {
        **{"system": record.system, "date": record.day.isoformat(), "label": record.label, "mode": record.mode},
        **{"budget": record.budget, "nights": record.nights, "plan": record.id, "predicted": vars(record.predicted)},
        **{"pairs": record.pairs, "pairs_tonight": record.pairs_tonight, "broken": list(record.broken), "last": last},
        "cases": [
            {
                **vars_of(one.case),
                **{"planned": one.planned, "why": one.why, "proven": one.proven and one.proven.isoformat()},
                **{"seconds": one.seconds, "nodes": cost.nodes, "launches": cost.launches, "measured_cost": cost.measured},
            }
            for one, cost in zip(record.cases, plan.cost, strict=True)
        ],
    }


def vars_of(case: ListedCase) -> dict[str, str]:
    """What names a case."""
    return {"partition": case.partition, "stack": case.stack, "name": case.name}


def explain(plan: NightPlan, pattern: str) -> list[str]:
    """Why cases are in tonight's plan or not, when they were last measured and when they come next.

    :param pattern: searched for in ``NAME@PARTITION+STACK`` without blanks, as ``-n`` searches in names.
    :raises BadInput: it is no regular expression, or fits no case or too many.
    """
    try:
        wanted = re.compile(pattern.replace(" ", ""))
    except re.error as error:
        raise BadInput(f"--explain {pattern}: not a regular expression ({error}).") from None
    names = [str(case).replace(" ", "") for case in plan.candidates.cases]
    found = [number for number, name in enumerate(names) if wanted.search(name)]
    if not found:
        close = difflib.get_close_matches(pattern.replace(" ", ""), names, n=1, cutoff=0.3)
        meant = f" (did you mean {close[0]!r}?)" if close else ""
        raise BadInput(f"--explain {pattern} fits none of {len(names)} cases{meant}; 'reframe -lC' lists them.")
    if len(found) > MOST_EXPLAINED:
        raise BadInput(f"--explain {pattern} fits {len(found)} cases, more than {MOST_EXPLAINED}: say more of the name.")
    nexts = _next_days(plan, found)
    return [line for number in found for line in _explain(plan, number, nexts[number])]


def _explain(plan: NightPlan, number: int, comes: date | None) -> list[str]:
    case, cost = plan.candidates.cases[number], plan.cost[number]
    history = plan.past.cases.get(case)
    why = plan.tonight.reasons.get(number)
    budget = Budget.parse(plan.record.budget)
    source = "as its last runs" if cost.measured else "by the model"
    lines = [f"{case}: {'in' if why else 'out'}: {why or choice.NO_ROOM}"]
    where = f"{cost.nodes} node{'s'[: cost.nodes != 1]}"
    share = budget.format(plan.candidates.shares[number])
    lines.append(f"  {cost.seconds:.0f} s on {where}, {cost.launches} launches ({source}): {share}")
    if history is None:
        lines.append(f"  never measured in the {len(plan.past.nights)} nights of run={plan.record.label} that are stored")
    else:
        proven = f"last proven {history.proven}" if history.proven else "never proven"
        tried = f", last tried {history.tried} in session {history.session[:8]}" if history.tried != history.proven else ""
        lines.append(f"  {proven}{tried}{' and not proven then' if history.failed else ''}")
    if not why:
        within = f"not within {MOST_AHEAD} nights, if all goes as planned"
        lines.append(f"  comes next on {comes}, if all goes as planned" if comes else f"  {within}")
    return lines


def _next_days(plan: NightPlan, numbers: list[int]) -> dict[int, date | None]:
    """The next day on which each of some cases comes."""
    found: dict[int, date | None] = dict.fromkeys(numbers)
    state, chosen, day = plan.state, plan.tonight, plan.record.day
    for after in range(MOST_AHEAD if not plan.misfit else 0):
        if after:
            state = plan.candidates.after(state, chosen)
            chosen = plan.candidates.choose(state, day + timedelta(days=after))
        for number in numbers:
            if found[number] is None and number in chosen.reasons:
                found[number] = day + timedelta(days=after)
        if None not in found.values():
            break
    return found
