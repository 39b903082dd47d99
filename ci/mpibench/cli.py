"""The ``mpibench`` command: what happens around the tests. A file in ``commands/`` is a command, or several of one subject."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from typer.models import CommandInfo, TyperInfo

from mpibench import exit_status
from mpibench.commands import (
    advice,
    cluster,
    locate,
    machine,
    planning,
    sessions,
    stacks,
    tune,
    verdicts,
)
from reframe_tests.harness.sites import centre
from reframe_tests.harness.vocabulary import ROOT, BadInput

app = typer.Typer(
    name="mpibench",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

BAD_INPUT = exit_status.BAD_INPUT
#: Modules with commands; ``register`` of each adds its own.
COMMANDS = (machine, stacks, planning, sessions, verdicts, locate, advice, tune, cluster)
#: What one wants to commands, both in the order of the help.
PURPOSES = {
    "Measure": ("doctor", "nightly", "stacks", "plan", "catalogue", "cluster"),
    "Look": ("report", "site", "compare", "export"),
    "Decide": ("gate", "accept", "drift", "rebaseline"),
    "Diagnose": ("locate", "tune", "advise", "settings"),
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
    """Entry point; exit status, as :mod:`.exit_status` says."""

    def program(**named: object) -> object:
        require_checkout(ROOT)
        centre.make_absolute(os.environ)  # ReFrame is started in the checkout
        return run(**named)

    return exit_status.run(program, argv)
