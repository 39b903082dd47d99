"""The ``mpibench`` command: what happens around the tests. A file in ``commands/`` is a command, or several of one subject."""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from typer.models import CommandInfo, TyperInfo

from mpibench.commands import (
    advice,
    cluster,
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
from reframe_tests.harness.sites import centre
from reframe_tests.harness.vocabulary import ROOT, BadInput

app = typer.Typer(
    name="mpibench",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

#: Modules with commands; ``register`` of each adds its own.
COMMANDS = (machine, stacks, planning, sessions, verdicts, locate, advice, tune, published, cluster)
#: What one wants to commands, both in the order of the help.
PURPOSES = {
    "Measure": ("doctor", "nightly", "stacks", "plan", "catalogue", "cluster"),
    "Look": ("report", "site", "compare", "published", "parse", "export"),
    "Decide": ("gate", "expected", "accept", "drift", "rebaseline", "review"),
    "Diagnose": ("locate", "guidelines", "tune", "advise", "settings"),
    "Maintain": ("sessions",),
}


def arrange(program: typer.Typer) -> None:
    """Put the commands and groups of commands under what one wants of them, in that order; others come last."""
    order = {
        name: (at, purpose) for at, (purpose, name) in enumerate((p, name) for p, names in PURPOSES.items() for name in names)
    }
    last = (len(order), "Others")
    for command in program.registered_commands:
        command.rich_help_panel = order.get(_name_of(command), last)[1]
    for group in program.registered_groups:
        group.rich_help_panel = order.get(_name_of(group), last)[1]
    program.registered_commands.sort(key=lambda each: order.get(_name_of(each), last))
    program.registered_groups.sort(key=lambda each: order.get(_name_of(each), last))


def _name_of(registered: CommandInfo | TyperInfo) -> str:
    """The word that calls it: its own, or that of its function or group."""
    if isinstance(registered, TyperInfo):
        inner = registered.typer_instance
        return str(registered.name or (inner.info.name if inner else ""))
    return registered.name or getattr(registered.callback, "__name__", "").replace("_", "-")


for module in COMMANDS:
    module.register(app)
arrange(app)


def _print_version(asked: bool) -> None:
    """Version, and where the program, its systems and its results are."""
    if asked:
        typer.echo(f"mpibench {metadata.version('mpibench')} of {ROOT}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and where it is.")
    ] = False,
) -> None:
    """Tools around the MPI fabric tests: check the machine, build and register stacks, report, compare and judge sessions."""


#: Exit status for bad input, as typer uses it for bad usage.
BAD_INPUT = 2
#: What a file system or the machine refuses, whatever the program asks: no room, no right, not now (``errno(3)``).
OF_THE_MACHINE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, errno.EBUSY),
    *(errno.EXDEV, errno.ETXTBSY, errno.EMFILE, errno.ENFILE, errno.ENOLCK, errno.EAGAIN, errno.ETIMEDOUT, errno.ENAMETOOLONG),
)
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
        centre.make_absolute(os.environ)  # ReFrame is started in the checkout
        run(args=argv, standalone_mode=True)
    except BadInput as error:
        typer.echo(printable(f"mpibench: {error}"), err=True)
        return BAD_INPUT
    except BrokenPipeError:
        return UNREAD
    except OSError as error:
        if error.errno not in OF_THE_MACHINE:
            return _crashed(error)
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(printable(f"mpibench: {where}{error.strerror}: this is no answer; put it right and repeat."), err=True)
        return BAD_INPUT
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
