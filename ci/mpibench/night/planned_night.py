"""A night that fits a budget: its plan, made before anything is measured, and what became of it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from pathlib import Path

from reframe_tests.harness import command_line
from reframe_tests.harness.sites import planned_cases, site, systems
from reframe_tests.harness.vocabulary import ROOT, BadInput

from ..judge import expected
from ..judge.plan import making, record
from ..judge.plan.costs import Budget
from ..judge.plan.making import NightPlan, Request, Wanted
from ..judge.plan.record import ListedCase
from ..store import selection_options
from ..store.sessions import PAIRED, Session
from . import options as night_options

#: Variables of ``ci/nightly``: the budget, nights in which each pair comes, jobs at once.
BUDGET, NIGHTS, MAX_JOBS = "BUDGET", "NIGHTS", "MAX_JOBS"
#: What a night may take on a batch system where :data:`BUDGET` is not set, and the word for no bound: seven such nights measure
#: each pair of values of a site of 8,000 cases (docs/how-to/budget.md).
USUAL, UNBOUNDED = "8h", "none"
NOT_SET = f"{BUDGET} is not set, and {USUAL} is taken; {BUDGET}={UNBOUNDED} measures everything"
#: Mode of such a night.
USUAL_MODE = "nightly"
#: Cases named in one sentence.
FEW = 3


def request(
    budget: str,
    mode: str,
    label: str,
    options: Sequence[str],
    dataset: Path,
    *,
    day: date | None = None,
    nights: str = "",
    max_jobs: str = "",
    root: Path = ROOT,
) -> Request:
    """What is asked for, from texts.

    :param options: for ReFrame, besides those of the mode.
    :param day: default: today (UTC).
    :raises BadInput: a bad budget, mode, option or number.
    """
    night_options.check(options)
    if nights and not re.fullmatch(r"[1-9][0-9]{0,3}", nights):
        raise BadInput("nights-range", f"NIGHTS={nights} is no number of nights: give 1 to {making.MOST_NIGHTS}.")
    return Request(
        mode=mode,
        label=label,
        words=[*night_options.of_mode(mode), *options],
        budget=Budget.parse(budget),
        day=day or datetime.now(timezone.utc).date(),
        dataset=dataset,
        nights=int(nights or making.NIGHTS),
        max_jobs=site.most_jobs({site.MOST_JOBS: max_jobs}),
        wanted=lambda system: _wanted(system, label, root),
        retired=lambda system, case, proven: expected.load_file(system, root).retires(expected.job_of(case), label, proven),
        root=root,
    )


def _wanted(system: str, label: str, root: Path) -> Iterable[Wanted]:
    """What ``expected.yaml`` names for each session of a label."""
    places = expected.load_file(system, root).expected.get(label, ()) if system else ()
    return dict.fromkeys((one.partition, one.stack, one.fabric, one.group) for one in places)


@dataclass(frozen=True)
class PlannedNight:
    """The plan of the night that runs.

    :param file: of the plan, in the dataset.
    """

    plan: NightPlan
    file: Path

    @property
    def environ(self) -> dict[str, str]:
        """Variables by which ReFrame makes the planned cases and no others."""
        most = self.plan.request.max_jobs
        return {planned_cases.VARIABLE: str(self.file), **({site.MOST_JOBS: str(most)} if most else {})}

    @property
    def labels(self) -> str:
        """Further labels of its session."""
        return f",{record.LABEL}={self.plan.record.id}"

    def extra(self, session: Session) -> list[str]:
        """One sentence on what ran and was not planned; none where nothing did. What did not run is reported as missing."""
        ran = [case for case in session.cases if case.result != "skip" and not case.uuid.endswith(PAIRED)]
        keys = (ListedCase(case.partition, str(case.entry.get("environ") or case.stack), case.name) for case in ran)
        beyond = sorted(set(keys) - self.plan.record.planned)
        if not beyond:
            return []
        more = f" and {len(beyond) - FEW} more" if len(beyond) > FEW else ""
        return [
            f"{len(beyond)} cases ran that were not planned ({', '.join(map(str, beyond[:FEW]))}{more}): tests that are not "
            "made of the harness's base classes cannot be left out; measure them by themselves"
        ]

    def took(self, session: Session) -> str:
        """The plan against what became of it."""
        seconds = session.job_seconds
        nodes = {case.uuid: case.nodes or 1 for case in session.cases}
        night = making.past_night(
            session.uuid,
            session.started,
            self.plan.record.id,
            session.seconds,
            [(took, nodes[uuid]) for uuid, took in seconds.items()],
        )
        return f"plan: {making.difference(self.plan.record, night)}"


def seconds_of(night: PlannedNight | None) -> dict[ListedCase, float] | None:
    """What each case is expected to take; ``None`` of a night without a plan."""
    return {one.case: one.seconds for one in night.plan.record.cases if one.planned} if night else None


def budget_of(environ: Mapping[str, str], mode: str, options: Sequence[str], root: Path = ROOT) -> str:
    """The budget of a night; empty where it has none: it measures everything.

    Without :data:`BUDGET` that is :data:`USUAL` for a whole night whose jobs a batch system runs.

    :param options: for ReFrame, besides those of the mode.
    :raises BadInput: no such system.
    """
    given = environ.get(BUDGET, "")
    if given:
        return "" if given == UNBOUNDED else given
    if mode != USUAL_MODE or selection_options.narrowing(shlex.join(["reframe", *options])):
        return ""
    named = [*command_line.arguments(options, {"--system": "system"})["system"], environ.get("RFM_SYSTEM", "")]
    system = systems.select(named[0].partition(":")[0] or None, root)
    measured = [row for row in system["partitions"] if row["extras"].get("fabrics")]
    return USUAL if any(row["scheduler"] != "local" for row in measured) else ""


def usual_budget(environ: Mapping[str, str]) -> list[str]:
    """What a planned night without :data:`BUDGET` says of it."""
    return [] if environ.get(BUDGET) else [NOT_SET]


def begin(environ: Mapping[str, str], mode: str, label: str, options: Sequence[str], dataset: Path) -> PlannedNight | None:
    """Plan the night, and write its plan; ``None`` where it has no budget.

    :raises BadInput: the budget is no budget, or too small for what is measured every night; nothing can be planned.
    """
    budget = budget_of(environ, mode, options)
    if not budget:
        given = [name for name in (NIGHTS, MAX_JOBS) if environ.get(name)]
        if given:
            raise BadInput(
                "planned-night-only",
                f"{given[0]}={environ[given[0]]} is of a planned night: set {BUDGET}, too, as in {BUDGET}=30m.",
            )
        return None
    asked = request(budget, mode, label, options, dataset, nights=environ.get(NIGHTS, ""), max_jobs=environ.get(MAX_JOBS, ""))
    made = making.make(asked)
    if made.misfit:
        raise BadInput(
            "budget-too-small", f"{made.misfit}{'' if environ.get(BUDGET) else f' ({NOT_SET})'}; nothing is measured."
        )
    return PlannedNight(made, made.record.write(dataset))


def forget(environ: dict[str, str] | os._Environ[str]) -> None:
    """Take out of an environment what would make other sessions those of a plan."""
    for name in (planned_cases.VARIABLE, site.MOST_JOBS):
        environ.pop(name, None)
