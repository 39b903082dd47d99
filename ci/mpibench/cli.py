"""The ``mpibench`` command: everything around the tests. Each file in ``commands/`` holds a
command, or several on one subject; installed tools add more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from mpibench import exit_status, help_text
from mpibench.commands import diagnose, measure, sessions, stacks, verdicts
from reframe_tests.harness import tools
from reframe_tests.harness.sites import centre
from reframe_tests.harness.vocabulary import ROOT, BadInput

app = typer.Typer(
    name="mpibench",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

BAD_INPUT = exit_status.BAD_INPUT
#: What one wants to commands and groups of commands, in the order of the help.
COMMANDS: dict[str, tuple[typer.Typer | Callable[..., None], ...]] = {
    "Measure": (measure.doctor, measure.nightly, stacks.app, measure.plan, measure.catalogue),
    "Look": (sessions.report, verdicts.compare, sessions.export),
    "Decide": (verdicts.gate, verdicts.accept, verdicts.drift, verdicts.rebaseline),
    "Diagnose": (diagnose.locate,),
    "Maintain": (sessions.app,),
}
#: Settings of commands that pass options on to ReFrame.
PASSING_ON: dict[Any, dict[str, bool]] = {
    measure.plan: {"allow_extra_args": True},
    measure.nightly: {"allow_extra_args": True, "ignore_unknown_options": True},
}
for purpose, commands in COMMANDS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=purpose)
        else:
            app.command(rich_help_panel=purpose, context_settings=PASSING_ON.get(command))(command)
for tool in dict.fromkeys(tools.load(tools.COMMANDS).values()):
    app.add_typer(tool, rich_help_panel=tool.rich_help_panel)
help_text.join_lines(app)


def _refuse(context: typer.Context) -> None:
    name = str(context.info_name)
    tools.find(tools.COMMANDS, name, f"'mpibench {name}'")


for name in tools.missing(tools.COMMANDS):
    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(name, hidden=True, add_help_option=False, context_settings=anything)(_refuse)


def _print_version(asked: bool) -> None:
    """Version, and where the program, its systems and its results are."""
    if asked:
        typer.echo(f"mpibench {metadata.version('mpibench')} of {ROOT}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and where it is.",
        ),
    ] = False,
) -> None:
    """Tools around the MPI fabric tests: check the machine, build and
    register stacks, report, compare and judge sessions.
    """


def require_checkout(root: Path) -> None:
    """Systems, stacks, schemas and results lie in the checkout; a copy
    of the modules alone knows none of them.
    """
    if not (root / "site_configs" / "settings.py").is_file():
        raise BadInput(
            "file-missing",
            f"{root} has only the program, not the systems and stacks of a checkout: run ci/setup "
            "in a checkout, or pip install --editable CHECKOUT in your own environment.",
        )


def prepare() -> None:
    """What a command needs that is not of its own alone.

    :raises BadInput: there is no checkout.
    """
    require_checkout(ROOT)
    centre.make_absolute(os.environ)  # ReFrame is started in the checkout


def main(argv: list[str] | None = None, run: Callable[..., object] = app) -> int:
    """Entry point; exit status, as :mod:`.exit_status` says."""

    def program(**named: object) -> object:
        prepare()
        return run(**named)

    return exit_status.command(program, argv)
