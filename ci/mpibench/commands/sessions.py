"""``mpibench export``, ``report``, ``site`` and ``sessions``: what becomes of stored sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import ROOT, BadInput

from .verdicts import System

RESULTS = ROOT / "results"

Dataset = Annotated[Path, typer.Option(help="Folder of the Parquet dataset.")]
Json = Annotated[bool, typer.Option("--json", help="The whole answer as JSON on standard output.")]
SessionId = Annotated[str, typer.Argument(help="Session id, or four characters and more of its beginning.")]

sessions_app = typer.Typer(
    help="List sessions, withdraw what is no measurement of the machine, remove old files and orphaned jobs.",
    no_args_is_help=True,
)


def export(
    db: Annotated[Path, typer.Option(help="ReFrame's results database.")] = RESULTS / "results.db",
    out: Annotated[Path, typer.Option(help="Folder of the Parquet dataset.")] = RESULTS / "dataset",
    session: Annotated[list[str] | None, typer.Option(help="Only these sessions (uuid); default: all.")] = None,
) -> None:
    """Export sessions to a Parquet dataset: one row per repeat, metric and size, partitioned by system and date.

    Exporting a session again replaces its rows. Failed cases are kept, marked, and listed in the table `cases`.
    """
    from mpibench.store import dataset

    typer.echo(dataset.export(db, out, session))


def report(
    db: Annotated[Path, typer.Option(help="ReFrame's results database.")] = RESULTS / "results.db",
    session: Annotated[str, typer.Option(help="Session uuid, or 'latest'.")] = "latest",
    out: Annotated[
        Path | None,
        typer.Option(
            help="HTML file to write, with a .md summary beside it; default: reports/<session>.html and report.html "
            "in the database's folder."
        ),
    ] = None,
    published: Annotated[
        list[str] | None,
        typer.Option(help="Show published figures beside a fabric, e.g. eth1g=openhpc-mini/eth1g; repeatable."),
    ] = None,
) -> None:
    """Write one self-contained HTML page for a session: verdicts, curves, heat maps, and the evidence behind each number.

    Published figures are shown beside the measured ones, with the ratio, where a fabric in system.py has `published` or
    --published names it; they are never judged.
    """
    from mpibench.pages import session as pages

    for line in pages.write(db, session, out, published or ()):
        typer.echo(one_line(line))


@sessions_app.command()
def withdraw(
    session: SessionId,
    why: Annotated[str, typer.Option(help="Why, for whoever asks a year later; one line.")],
    dataset: Dataset = RESULTS / "dataset",
) -> None:
    """Withdraw a session: its numbers stay and are shown as withdrawn, and it takes part in no verdict.

    For what was measured during maintenance, say, or with a wrong cable. Who withdrew it, when and why is recorded in the
    dataset (withdrawn/ID.json), and `gate` and the site say so. Exit status: 0 withdrawn, 2 bad input.
    """
    from mpibench.store.store import Store

    typer.echo(str(Store(dataset).withdraw(session, why)))


@sessions_app.command()
def restore(session: SessionId, dataset: Dataset = RESULTS / "dataset") -> None:
    """Take a withdrawal back: the session takes part in verdicts again."""
    from mpibench.store.store import Store

    typer.echo(f"session {Store(dataset).restore(session).session} takes part in verdicts again")


@sessions_app.command("list")
def list_sessions(
    dataset: Dataset = RESULTS / "dataset",
    system: System = None,
    withdrawn: Annotated[bool, typer.Option("--withdrawn", help="Only withdrawn ones: by whom, when and why.")] = False,
    as_json: Json = False,
) -> None:
    """List the sessions of the dataset, the newest last: when, system, label, cases, how many are proven, the verdicts.

    What `ci/nightly` and `gate` answered of a session was kept when they did; it is not asked again.
    """
    from mpibench.store.store import Store

    store = Store(dataset)
    rows = store.session_rows(system, withdrawn_only=withdrawn)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        for line in _lines(rows) if rows else ["no session is withdrawn" if withdrawn else "no session is in the dataset"]:
            typer.echo(one_line(line))
    for lost in store.lost(*filter(None, [system])):
        typer.echo(one_line(f"session {lost.session[:8]} is not in the dataset: {lost.why}"), err=as_json)


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    widths = [max(len(str(row[name] or "-")) for row in rows) for name in ("system", "label", "cases")]
    return [
        f"{row['session'][:8]}  {row['started'][:16].replace('T', ' ')} UTC  {row['system']:{widths[0]}}  "
        f"{row['label'] or '-':{widths[1]}}  {row['proven']:>{widths[2]}} of {row['cases']:>{widths[2]}} proven  {_state(row)}"
        for row in rows
    ]


def _state(row: dict[str, Any]) -> str:
    if gone := row["withdrawn"]:
        return f"withdrawn {gone['when'][:10]} by {gone['who']}: {gone['why']}"
    said = [
        f"{who}: {', '.join(filter(None, ('pass' if answer['passed'] else '', answer['finding'])))}"
        for who, answer in row["answers"].items()
    ]
    return "; ".join(said) or "not judged"


@sessions_app.command()
def prune(
    older_than: Annotated[int, typer.Option(min=1, help="Days since the session's files were last written.")],
    remove: Annotated[bool, typer.Option("--remove", help="Remove them; without this they are only listed.")] = False,
) -> None:
    """List or remove stage and output folders, logs and reports of old sessions; nothing else ever removes them.

    Also what killed writers left half written (.NAME.PID.partial), once it is a day old and its process is gone.

    The numbers stay: results database, dataset, references and acceptance records are not touched. Links from other reports
    to removed folders are dead afterwards.
    """
    from mpibench.store import session_files

    for line in session_files.prune(RESULTS, older_than, remove):
        typer.echo(line)


@sessions_app.command()
def orphans(
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel them.")] = False,
    as_json: Json = False,
) -> None:
    """List Slurm jobs and launches on this machine whose ReFrame was killed, so that nothing reads their results.

    Each job names the host and process of its ReFrame; only jobs that this user started from this host can be known to be
    orphans. Their files stay in the stage directory. Exit status: 0 none is left, 1 there are some that were not cancelled.
    """
    from mpibench.commands.listings import orphans as search

    if as_json and cancel:
        raise BadInput("--cancel ends what is found and --json only says what there is: give one of them.")
    if as_json:
        found = search.as_data()
        typer.echo(json.dumps(found, indent=2))
        raise typer.Exit(int(any(found.values())))
    raise typer.Exit(search.report(cancel, typer.echo))


def site(
    dataset: Annotated[Path, typer.Option(help="Folder of the Parquet dataset.")] = RESULTS / "dataset",
    out: Annotated[Path, typer.Option(help="Folder of the site; what the next build needs is kept beside it.")] = RESULTS
    / "site",
    judge: Annotated[
        int, typer.Option(min=0, help="Newest nights of each system to hold against those before, where nobody did.")
    ] = 1,
) -> None:
    """Bring the site of results up to date: systems and nights, metrics over time, cases, jobs' output and proof.

    Static pages for a file share or a web server; no network is asked for. Open index.html. A day is green only where a whole
    session proved every case and reached all it was held against; withdrawn sessions are shown as that. Pages link to the jobs'
    folders; script and output of failed cases are on the pages themselves. Only what changed is written again.
    Exit status: 0 written, 2 bad input, also a folder that cannot be written.
    """
    from mpibench.pages import site as building
    from mpibench.store.store import Store

    built = building.build(Store(dataset), out, judged=judge)
    for line in (*built.sentences, str(built)):
        typer.echo(one_line(line))


def register(program: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (export, report, site):
        program.command()(command)
    program.add_typer(sessions_app, name="sessions")
