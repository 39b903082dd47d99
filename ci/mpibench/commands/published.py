"""``mpibench published``: what papers print of their machines, held against the links of these machines."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def published(
    system: Annotated[str, typer.Argument(help="A published system, e.g. openhpc-mini.")],
    as_json: Annotated[bool, typer.Option("--json", help="The whole answer as JSON on standard output.")] = False,
) -> None:
    """Compare the bandwidths a paper prints with the links of its machine: line rate, payload limit, minimum efficiency.

    Nothing is run or parsed: the figures are the paper's and prove nothing. Exit status: 0 all agree, 1 one does not agree
    with its link, 2 the paper prints none that can be compared with one.
    """
    from mpibench.pages import published as papers

    found = papers.bandwidths(system)
    if as_json:
        typer.echo(json.dumps([curve.as_data() for curve in found], indent=2))
    else:
        typer.echo("\n".join(papers.bandwidth_lines(found)))
    raise typer.Exit(int(any(curve.problem() for curve in found)))


def register(program: typer.Typer) -> None:
    """Add the command to the program."""
    program.command()(published)
