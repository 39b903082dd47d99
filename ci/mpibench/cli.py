"""The ``mpibench`` command: what happens around the tests. A file in ``commands/`` is a command, or several of one subject."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import typer

from mpibench.commands import (
    advice,
    cluster,
    error_rates,
    locate,
    machine,
    planning,
    published,
    sessions,
    stacks,
    tune,
    verdicts,
)
from reframe_tests.harness.printable import printable
from reframe_tests.harness.vocabulary import ROOT, BadInput

app = typer.Typer(
    name="mpibench",
    help="Tools around the MPI fabric tests: check the machine, build and register stacks, report, compare and judge sessions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

#: Modules with commands, in the order of the help; ``register`` of each adds its own.
COMMANDS = (machine, stacks, planning, sessions, verdicts, error_rates, locate, advice, tune, published, cluster)
for module in COMMANDS:
    module.register(app)

#: Exit status for bad input, as typer uses it for bad usage.
BAD_INPUT = 2
#: Exit status where the program itself fails (``sysexits(3)``, EX_SOFTWARE): never one that a command uses for an answer.
CRASHED = 70
#: Exit status where nobody reads the output to its end: 128 + SIGPIPE, as of a program that the signal ends.
UNREAD = 141


def require_checkout(root: Path) -> None:
    """Systems, stacks, schemas and results lie in the checkout; a copy of the modules alone knows none of them.

    :raises BadInput: if the modules were installed apart from it.
    """
    if not (root / "site_configs" / "settings.py").is_file():
        raise BadInput(
            f"{root} has the program without the systems and stacks of its checkout; run ci/setup of a checkout, or in an "
            "environment of your own pip install --editable CHECKOUT."
        )


def main(argv: list[str] | None = None, run: Callable[..., object] = app) -> int:
    """Entry point: bad input is one sentence on standard error and exit status 2, never a traceback.

    Status 0, 1 and 3 are answers of a command. What is none has another status: 2 bad input, 70 a defect of this program
    (with its traceback), 130 interrupted, 141 the output was not read to its end.
    """
    try:
        require_checkout(ROOT)
        run(args=argv, standalone_mode=True)
    except BadInput as error:
        typer.echo(printable(f"mpibench: {error}"), err=True)
        return BAD_INPUT
    except BrokenPipeError:
        return UNREAD
    except KeyboardInterrupt:
        return 130
    except SystemExit as end:
        # typer and rich end with 1 here, which commands use for "refused".
        if isinstance(end.__context__, BrokenPipeError):
            return UNREAD
        return int(end.code or 0) if _is_own(end) else _crashed(end)
    except Exception as error:
        return _crashed(error)
    return 0


def _is_own(end: SystemExit) -> bool:
    """Whether this program or typer ended it, and no file or library that a command has loaded."""
    ends = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(end.__traceback__)]
    return ends[-1].partition(".")[0] in ("typer", "mpibench")


def _crashed(error: BaseException) -> int:
    """Print what is neither an answer nor bad input; exit status."""
    traceback.print_exception(error)
    typer.echo(
        f"mpibench: this is a defect of mpibench and no answer ({type(error).__name__}); report it with the lines above.",
        err=True,
    )
    return CRASHED
