"""``python -m studies.error_rates``: how often the verdicts are wrong on recorded noise, or on a system's own history."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mpibench import cli, whole_file
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import ROOT, BadInput

if TYPE_CHECKING:
    from rich.table import Table

RESULTS = ROOT / "results"
#: Columns of the table where nobody looks at a terminal.
WIDTH = 200


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
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
    history: Annotated[
        list[int] | None,
        typer.Option(
            help="Jobs of the baseline; repeatable. Default: 5, 15, 30; of the own history the most there is of these."
        ),
    ] = None,
    candidate: Annotated[list[int] | None, typer.Option(help="Jobs of the candidate; repeatable. Default: 1, 3, 5.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Repeats used of each job. Default: all.")] = None,
    spread: Annotated[
        list[float] | None,
        typer.Option(help="Scale the noise so that the typical metric spreads by so many percent; 0: as recorded. Repeatable."),
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Margin in percent. Default: the policy's; 2 with --noise, which has no policy.")
    ] = None,
    draws: Annotated[int, typer.Option(help="Sessions drawn for each row.")] = 400,
    seed: Annotated[int, typer.Option(help="Seed of the random draws.")] = 1,
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Jobs one after the other as recorded, with slow changes of the machine.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Rows as JSON on standard output.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write an HTML page with charts and tables.")] = None,
    pictures: Annotated[Path | None, typer.Option(help="Also save the charts as SVG and PNG into this folder.")] = None,
) -> None:
    """Say what the gate can see here, and how often it cries wolf: false alarms, and slowdowns of which size are found.

    Whole jobs, with all their curves, are drawn at random and judged as accept and compare do: as recorded (a reported change
    is a false alarm) and slowed down (a reported change is found). As nights they are given to the search that the gate fails
    by. --noise FILE takes noise recorded elsewhere. Exit status: 0 answered, 2 bad input.
    """
    from mpibench.judge import policy as verdict_policy
    from studies.error_rates import answer, page, summary
    from studies.error_rates import history as own_history
    from studies.error_rates import noise as recorded

    own = noise is None
    asked = answer.Question(
        draws=draws,
        history=history or (None if own else answer.HISTORY_JOBS),
        candidate=candidate or answer.CANDIDATE_JOBS,
        spreads_percent=spread or ((0.0,) if own else answer.SPREADS_PERCENT),
        repeats=repeats,
        seed=seed,
        in_order=in_order,
    )
    if noise is None:
        name = Store(dataset).system_of(system)
        traces, left = own_history.read(dataset, system, sessions, where)
        policy = verdict_policy.load(name)
    else:
        name = f"noise of {noise.name}"
        traces, left, policy = recorded.read_file(noise), [], verdict_policy.Policy()
    percent = margin if margin is not None or own else answer.MARGIN_PERCENT
    if percent is not None:
        policy = answer.with_margin(policy, percent)
    rows = []
    for row in answer.rows(traces, asked, policy):
        rows.append(row)
        if sys.stderr.isatty():
            typer.echo(f"{len(rows)} rows", err=True)
    said = summary.sentences(rows, name)
    notes = [*answer.notes(asked, policy, percent, rows), *(f"left out: {one}" for one in left)]
    if out:
        _write(out, page.page(rows, said, notes, f"Error rates of verdicts: {name}"))
    if pictures:
        from mpibench.pages import pictures as drawing

        saved = drawing.save(page.figures(rows), pictures)
        typer.echo(f"wrote {len(saved)} pictures into {pictures}", err=True)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    for line in said:
        console.print(line, markup=False)
    for title, head, cells in answer.tables(rows):
        console.print()
        console.print(_table(title, head, cells))
    console.print()
    for line in notes:
        console.print(line, markup=False, soft_wrap=True)


def _table(title: str, head: list[str], rows: list[list[str]]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for name in head:
        table.add_column(escape(name), overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _write(path: Path, text: str) -> None:
    try:
        whole_file.write_text(path, text)
    except OSError as error:
        raise BadInput("cannot-write", f"cannot write {path}: {error.strerror}.") from None
    typer.echo(f"wrote {path}", err=True)


def main(argv: list[str] | None = None) -> int:
    """Entry point; exit statuses as of mpibench."""
    return cli.main(argv, app)


if __name__ == "__main__":
    sys.exit(main())
