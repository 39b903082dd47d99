"""``mpibench published`` and ``claims``: what papers print of their machines, held against itself."""

from __future__ import annotations

from typing import Annotated

import typer


def claims(system: Annotated[str, typer.Argument(help="A published system, e.g. openhpc-mini.")]) -> None:
    """Check a paper's claims against the figures it prints: each sentence with its ratio, the bounds and their source.

    Where a paper prints no numbers the answer is 'no figures', never that the claim holds.
    """
    from mpibench.published import claims as asked

    for line in asked.lines(system):
        typer.echo(line)


def published(system: Annotated[str, typer.Argument(help="A published system, e.g. openhpc-mini.")]) -> None:
    """Compare the bandwidths a paper prints with the links of its machine: line rate, payload limit, minimum efficiency.

    Nothing is run or parsed: the figures are the paper's and prove nothing. Exit status: 0 all agree, 1 one does not agree
    with its link, 2 the paper prints none that can be compared with one.
    """
    from mpibench.published import figures as published_figures

    lines, status = published_figures.report(system)
    for line in lines:
        typer.echo(line)
    raise typer.Exit(status)


def register(program: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (claims, published):
        program.command()(command)
