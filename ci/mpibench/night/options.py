"""ReFrame's options as a night takes them: which leave it what it is, which it sets itself, and those of its mode."""

from __future__ import annotations

import argparse
import contextlib
import math
import shlex
from collections.abc import Sequence

from reframe_tests.harness import command_line
from reframe_tests.harness.sites import site
from reframe_tests.harness.sites.session import session_folder
from reframe_tests.harness.vocabulary import BadInput

from ..judge.plan import record

#: ReFrame's options that change neither which cases are selected nor how they are measured.
_NEUTRAL = (
    ("--report-junit", "--session-extras", "--system", "--prefix", "-o", "--output", "-s", "--stage", "-J", "--job-option"),
    ("-v", "--verbose", "-q", "--quiet", "--nocolor", "--keep-stage-files", "--save-log-files"),
)
#: ReFrame's options that a night sets itself, and what to do instead.
_OWN = {
    "--disable-hook": "a night proves its conditions and is held against its references",
    "--mode": "set MODE=",
    "--skip-performance-check": "a night is held against its references",
    "--skip-sanity-check": "a night proves its conditions",
    "--timestamp": "each session has folders of its own",
    "--report-file": "results/tonight/run-report.json is the run report",
}


def changing(options: Sequence[str]) -> list[str]:
    """Those of ReFrame's options that change what is selected or how it is measured; an unknown one counts as such."""
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
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--system")
    parser.add_argument("-J", "--job-option", action="append", default=[])
    known, _ = parser.parse_known_args(list(options))
    return [
        *([f"--system={known.system}"] if known.system else []),
        *(f"--job-option={option}" for option in known.job_option),
    ]


def confirm_minutes(text: str) -> float:
    """What ``CONFIRM_MINUTES`` asks for: the night's budget for measuring again.

    :raises BadInput: no number of minutes.
    """
    with contextlib.suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise BadInput(
        "confirm-minutes", f"CONFIRM_MINUTES={text} is no number of minutes: give one of 0 (nothing is measured again) or more."
    )


def check(options: Sequence[str]) -> None:
    """Refuse what would make a night something else, before anything is measured.

    :raises BadInput: an option that a night sets itself, a bad label, or suite options that ReFrame would take in part.
    """
    for word in options:
        name = word.partition("=")[0]
        # Long options may be cut short; one that is short for two is refused by ReFrame anyway.
        own = next((option for option in _OWN if name.startswith("--") and len(name) > 2 and option.startswith(name)), None)
        if own:
            raise BadInput("option-not-taken", f"ci/nightly does not take {own}: {_OWN[own]}.")
    session_folder.check_labels(options)
    if record.LABEL in [name for name, *_ in session_folder.labels(options)]:
        raise BadInput(
            "label-reserved",
            f"the label '{record.LABEL}' is not for anybody to give: with it a session would be excused by a plan that it was "
            "not measured by; set BUDGET= for a planned night.",
        )
    command_line.check_suite_options(options)


def of_mode(mode: str) -> list[str]:
    """Options of a mode.

    Beside ``-p`` they must be given one by one, because ReFrame 4.10 forgets it beside ``--mode`` (``frontend/argparse.py``:
    the default of an option that may be repeated is added to what was given).

    :raises BadInput: no such mode.
    """
    modes = {row["name"]: row["options"] for row in site.MODES}
    if mode not in modes:
        raise BadInput("mode-unknown", f"MODE={mode} is not a mode; there are {', '.join(modes)}.")
    return [word for option in modes[mode] for word in shlex.split(option)]
