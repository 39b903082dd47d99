"""The settings of a night: ReFrame's options, its variables, and its plan if it has a budget."""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

from reframe_tests.harness import command_line
from reframe_tests.harness.printable import few, plural
from reframe_tests.harness.sites import planned_cases, site, systems
from reframe_tests.harness.sites.session import session_folder
from reframe_tests.harness.vocabulary import ROOT, BadInput, meant

from ..judge.plan import making, record
from ..judge.plan.making import NightPlan, PlanRequest
from ..judge.plan.record import ListedCase, PlanRecord
from ..store import selection_options
from ..store.sessions import PAIRED, Session

#: ReFrame's options that change neither which cases are selected nor how they are measured.
_NEUTRAL = (
    (
        "--report-junit",
        "--session-extras",
        "--system",
        "--prefix",
        "-o",
        "--output",
        "-s",
        "--stage",
        "-J",
        "--job-option",
    ),
    ("-v", "--verbose", "-q", "--quiet", "--nocolor", "--keep-stage-files", "--save-log-files"),
)
#: ReFrame's options that a night sets itself, and what to do instead.
_OWN = {
    "--disable-hook": "a night proves its conditions and checks its references",
    "--mode": "set MODE=",
    "--skip-performance-check": "a night checks its references",
    "--skip-sanity-check": "a night proves its conditions",
    "--timestamp": "each session has folders of its own",
    "--report-file": "the run report is always results/tonight/run-report.json",
}
#: Variables of ``ci/nightly``: the budget, and jobs at once.
BUDGET = "BUDGET"
MAX_JOBS = "MAX_JOBS"
#: Word for no bound.
UNBOUNDED = "none"


def changing(options: Sequence[str]) -> list[str]:
    """Those of ReFrame's options that change what is selected or how it
    is measured; an unknown one counts as such.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False, exit_on_error=False)
    for name in _NEUTRAL[0]:
        parser.add_argument(name, action="append")
    for name in _NEUTRAL[1]:
        parser.add_argument(name, action="count")
    parser.add_argument("--performance-report", nargs="?")
    try:
        return parser.parse_known_args(list(options))[1]
    except (argparse.ArgumentError, SystemExit):  # as of -vn NAME, which ReFrame takes
        return list(options)


def places(options: Sequence[str]) -> list[str]:
    """Those of ReFrame's options that say where is measured, and how jobs get there."""
    given = command_line.arguments(options, {"--system": "system", "-J": "job_option"})
    system = [f"--system={name}" for name in given["system"][-1:]]
    return [*system, *(f"--job-option={option}" for option in given["job_option"])]


def confirm_minutes(text: str) -> float:
    """What ``CONFIRM_MINUTES`` asks for: the night's budget for measuring again.

    :raises BadInput: no number of minutes.
    """
    with contextlib.suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise BadInput(
        "bad-option",
        f"CONFIRM_MINUTES={text} is not a number of minutes: give 0 (measure nothing again) or "
        "more.",
    )


def check(options: Sequence[str]) -> None:
    """Refuse what would make a night something else, before anything is measured.

    :raises BadInput: an option that a night sets itself, a bad label, or
        suite options that ReFrame would take in part.
    """
    for word in options:
        name = word.partition("=")[0]
        # Long options may be cut short; one that is short for two is refused by ReFrame anyway.
        own = next(
            (
                option
                for option in _OWN
                if name.startswith("--") and len(name) > 2 and option.startswith(name)
            ),
            None,
        )
        if own:
            raise BadInput("options-exclude", f"ci/nightly does not take {own}: {_OWN[own]}.")
    session_folder.check_labels(options)
    if record.LABEL in [name for name, *_ in session_folder.labels(options)]:
        raise BadInput(
            "name-taken",
            f"the label '{record.LABEL}' is reserved: it would excuse a session by a plan that it "
            "did not follow; set BUDGET= for a planned night.",
        )
    command_line.check_settings(options)


def mode_of(name: str) -> Mapping[str, Any]:
    """A row of :data:`.site.MODES`.

    :raises BadInput: no such mode.
    """
    modes = {row["name"]: row for row in site.MODES}
    if name not in modes:
        raise BadInput(
            "unknown-name",
            f"MODE={name} is not a mode{meant(name, modes)}; there are {', '.join(modes)}.",
        )
    return modes[name]


def of_mode(mode: str, *, batch: bool = False) -> list[str]:
    """Options of a mode.

    Beside ``-p`` they must be given one by one, because ReFrame 4.10 forgets it beside ``--mode``
    (``frontend/argparse.py``: the default of an option that may be repeated is added to what was
    given).

    :param batch: whether a batch system runs the jobs.
    :raises BadInput: no such mode.
    """
    return [
        word
        for option in site.options_of_mode(mode_of(mode), batch)
        for word in shlex.split(option)
    ]


def on_batch(
    options: Sequence[str], environ: Mapping[str, str] = os.environ, root: Path = ROOT
) -> bool:
    """Whether a batch system runs the jobs of the system that
    ReFrame's options and variables select.

    :raises BadInput: no such system.
    """
    named = [
        *command_line.arguments(options, {"--system": "system"})["system"][-1:],
        environ.get("RFM_SYSTEM", ""),
    ]
    return site.on_batch(systems.select(named[0].partition(":")[0] or None, root))


def request(
    budget: str,
    mode: str,
    label: str,
    options: Sequence[str],
    dataset: Path,
    *,
    day: date | None = None,
    max_jobs: str = "",
    root: Path = ROOT,
) -> PlanRequest:
    """The request for a plan, from strings.

    :param options: for ReFrame, besides those of the mode.
    :param day: default: today (UTC).
    :raises BadInput: a bad budget, mode, option or number.
    """
    check(options)
    return PlanRequest(
        mode=mode,
        label=label,
        words=[*of_mode(mode, batch=on_batch(options, root=root)), *options],
        budget=making.Budget.parse(budget),
        day=day or datetime.now(timezone.utc).date(),
        dataset=dataset,
        max_jobs=site.most_jobs({site.MOST_JOBS: max_jobs}),
        root=root,
    )


def budget_of(
    environ: Mapping[str, str], mode: str, options: Sequence[str], root: Path = ROOT
) -> str:
    """The budget of a night; empty if it has none: it measures everything.

    Without :data:`BUDGET` that is the mode's own for a whole night whose jobs a batch system runs.

    :param options: for ReFrame, besides those of the mode.
    :raises BadInput: no such system.
    """
    given = environ.get(BUDGET, "")
    if given:
        return "" if given == UNBOUNDED else given
    usual: str = mode_of(mode).get("budget", "")
    if not usual or selection_options.narrowing(shlex.join(["reframe", *options])):
        return ""
    return usual if on_batch(options, environ, root) else ""


def not_set(plan: PlanRecord) -> str:
    """What a night prints if no budget is given."""
    return (
        f"{BUDGET} is not set: using {plan.budget}; {BUDGET}={UNBOUNDED} measures "
        f"everything of mode {plan.mode}"
    )


@dataclass(frozen=True)
class PlannedNight:
    """The plan of the night that runs, and its file in the dataset."""

    plan: NightPlan
    file: Path

    @property
    def environ(self) -> dict[str, str]:
        """Variables by which ReFrame makes the planned cases and no others."""
        most = self.plan.request.max_jobs
        return {
            planned_cases.VARIABLE: str(self.file),
            **({site.MOST_JOBS: str(most)} if most else {}),
        }

    def extra(self, session: Session) -> list[str]:
        """One sentence on what ran and was not planned; none where nothing
        did. What did not run is reported as missing.
        """
        ran = [
            case
            for case in session.cases
            if case.result != "skip" and not case.uuid.endswith(PAIRED)
        ]
        beyond = sorted(set(map(ListedCase.of, ran)) - self.plan.record.planned)
        if not beyond:
            return []
        return [
            f"{plural(len(beyond), 'case')} ran without being planned ({few(beyond)}): tests "
            "without the harness's base classes cannot be left out; measure them separately"
        ]

    def took(self, session: Session) -> str:
        """The plan against the outcome of it."""
        seconds = session.job_seconds
        nodes = {case.uuid: case.nodes or 1 for case in session.cases}
        node_seconds = sum(took * nodes[uuid] for uuid, took in seconds.items())
        return (
            "plan: "
            f"{making.difference(self.plan.record, len(seconds), session.seconds, node_seconds)}"
        )


def plan_night(
    environ: Mapping[str, str], mode: str, label: str, options: Sequence[str], dataset: Path
) -> PlannedNight | None:
    """Plan the night, and write its plan; ``None`` if it has no budget.

    :raises BadInput: the budget is no budget, or too small for what is
        measured every night; nothing can be planned.
    """
    budget = budget_of(environ, mode, options)
    if not budget:
        if given := environ.get(MAX_JOBS):
            raise BadInput(
                "bad-option",
                f"{MAX_JOBS}={given} needs a planned night: also set {BUDGET}, as in {BUDGET}=30m.",
            )
        return None
    asked = request(budget, mode, label, options, dataset, max_jobs=environ.get(MAX_JOBS, ""))
    plan = making.make(asked)
    if plan.misfit:
        raise BadInput(
            "too-large",
            f"{plan.misfit}{'' if environ.get(BUDGET) else f' ({not_set(plan.record)})'}; "
            "nothing is measured.",
        )
    return PlannedNight(plan, plan.record.write(dataset))


def forget_plans(environ: dict[str, str] | os._Environ[str]) -> None:
    """Take out of an environment what would make other sessions those of a plan."""
    for name in (planned_cases.VARIABLE, site.MOST_JOBS):
        environ.pop(name, None)
