"""``mpibench published`` and ``claims``: what papers print of their machines and say of them, held against figures."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import ROOT, BadInput

from .verdicts import DatasetOnly, Db, Where

RESULTS = ROOT / "results"


def claims(
    system: Annotated[str, typer.Argument(help="A published system, e.g. openhpc-mini; with --session one of your own.")],
    session: Annotated[
        str | None,
        typer.Option(help="Ask these sessions of the system and not what a paper prints; a selector, e.g. latest."),
    ] = None,
    db: Db = RESULTS / "results.db",
    dataset: Annotated[Path, typer.Option(help="Folder of the Parquet dataset.")] = RESULTS / "dataset",
    dataset_only: DatasetOnly = False,
    where: Where = None,
    as_json: Annotated[bool, typer.Option("--json", help="The whole answer as JSON on standard output.")] = False,
) -> None:
    """Check the papers' claims: one paper's against the figures it prints, or with --session all of them against your own.

    Without --session: each sentence with its ratio, the bounds and their source. Where a paper prints no numbers the answer is
    'no figures', never that the claim holds. With it every claim that carries over is scaled by the line rate and the rails in
    site_configs/SYSTEM/system.py and asked for each stack, fabric and pinning: it holds, does not hold (value, bound, size) or
    was not measured (with the command that measures it). Exit status then: 0 all that was measured holds, 1 something does not
    hold, 2 bad input, 3 nothing was measured that a claim asks for, or a case of one may not be used.
    """
    if session is None and (where or dataset_only):
        raise BadInput("--where and --dataset-only choose among sessions: give --session, too.")
    if session is None:
        from mpibench.published import claims as asked

        if as_json:
            typer.echo(json.dumps(asked.as_data(system), indent=2))
        else:
            _say(asked.lines(system))
        return
    from mpibench.published import session_answer, session_claims
    from mpibench.results import session_values

    session_values.bring_up_to_date(db, dataset, without_db=dataset_only)  # the answer names what cannot be read
    found = session_claims.ask(dataset, system, session, where=where)
    if as_json:
        typer.echo(json.dumps(session_answer.as_data(found), indent=2))
    else:
        _say(map(one_line, session_answer.lines(found)))
    raise typer.Exit(session_answer.status(found))


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def published(
    system: Annotated[str, typer.Argument(help="A published system, e.g. openhpc-mini.")],
    as_json: Annotated[bool, typer.Option("--json", help="The whole answer as JSON on standard output.")] = False,
) -> None:
    """Compare the bandwidths a paper prints with the links of its machine: line rate, payload limit, minimum efficiency.

    Nothing is run or parsed: the figures are the paper's and prove nothing. Exit status: 0 all agree, 1 one does not agree
    with its link, 2 the paper prints none that can be compared with one.
    """
    from mpibench.published import figures as published_figures

    found = published_figures.curves(system)
    if as_json:
        typer.echo(json.dumps(published_figures.as_data(found), indent=2))
    else:
        _say(published_figures.lines(found))
    raise typer.Exit(published_figures.status(found))


def register(program: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (claims, published):
        program.command()(command)
