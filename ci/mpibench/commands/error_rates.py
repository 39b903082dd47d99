"""``mpibench error-rates``: how often the verdicts are wrong on recorded noise, or on a system's own history."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reframe_tests.harness.vocabulary import ROOT

RESULTS = ROOT / "results"
#: Columns of the table where nobody looks at a terminal.
WIDTH = 200


def error_rates(
    noise: Annotated[
        Path | None,
        typer.Option(
            help="Parquet or CSV file: fabric, benchmark, quantity, job, repeat, message_bytes, value; default: own history."
        ),
    ] = None,
    dataset: Annotated[Path, typer.Option(help="Folder of the Parquet dataset with the history.")] = RESULTS / "dataset",
    system: Annotated[str | None, typer.Option(help="System; needed if the dataset holds several.")] = None,
    sessions: Annotated[str, typer.Option(help="The history; a selector.")] = "now-365d:now",
    where: Annotated[str | None, typer.Option(help="Only matching cases, e.g. 'fabric == \"eth1g\"'.")] = None,
    history: Annotated[list[int] | None, typer.Option(help="Jobs of the baseline; repeatable. Default: 5, 15, 30.")] = None,
    candidate: Annotated[list[int] | None, typer.Option(help="Jobs of the candidate; repeatable. Default: 1, 3.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Repeats used of each job. Default: all.")] = None,
    spread: Annotated[
        list[float] | None,
        typer.Option(help="Scale the noise so that the typical metric spreads by so many percent; 0: as recorded. Repeatable."),
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Margin in percent. Default: the policy's; 2 with --noise, which has no policy.")
    ] = None,
    draws: Annotated[int, typer.Option(help="Sessions drawn for each row.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the random draws.")] = 1,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Jobs one after the other as recorded, with slow changes of the machine.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Rows as JSON on standard output.")] = False,
) -> None:
    """Measure how often the verdicts are wrong on recorded noise: false alarms, and slowdowns of which size are found.

    Whole jobs, with all their curves, are drawn at random and judged as accept and compare do: as recorded (a reported change
    is a false alarm) and slowed down (a reported change is found). --noise FILE takes noise recorded elsewhere.
    Exit status: 0 answered, 2 bad input.
    """
    from mpibench.error_rates import answer
    from mpibench.error_rates import noise as recorded
    from mpibench.results import session_values
    from mpibench.verdicts import policy as verdict_policy

    own = noise is None
    asked = answer.Question(
        draws=draws,
        history=history or answer.HISTORY_JOBS,
        candidate=candidate or answer.CANDIDATE_JOBS,
        spreads_percent=spread or ((0.0,) if own else answer.SPREADS_PERCENT),
        repeats=repeats,
        seed=seed,
        in_order=in_order,
    )
    if noise is None:
        traces, left = recorded.read_history(dataset, system, sessions, where)
        policy = verdict_policy.load(session_values.system_of(dataset, system))
    else:
        traces, left, policy = recorded.read_file(noise), [], verdict_policy.Policy()
    percent = margin if margin is not None or own else answer.MARGIN_PERCENT
    if percent is not None:
        policy = answer.with_margin(policy, percent)
    rows = []
    for row in answer.rows(traces, asked, policy):
        rows.append(row)
        if sys.stderr.isatty():
            typer.echo(f"{len(rows)} rows", err=True)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    console.print(answer.table(rows))
    for line in (*answer.notes(asked, policy, percent), *(f"left out: {one}" for one in left)):
        console.print(line, markup=False, soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(error_rates)
