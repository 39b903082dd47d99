"""``mpibench export``, ``report``, ``site``, ``prune`` and ``sessions``: what becomes of stored sessions."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import ROOT

RESULTS = ROOT / "results"

Dataset = Annotated[Path, typer.Option(help="Folder of the Parquet dataset.")]
SessionId = Annotated[str, typer.Argument(help="Session id, or four characters and more of its beginning.")]

sessions_app = typer.Typer(
    help="Withdraw sessions that are no measurement of the machine, and take that back.", no_args_is_help=True
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
def withdraw(
    session: SessionId,
    why: Annotated[str, typer.Option(help="Why, for whoever asks a year later; one line.")],
    dataset: Dataset = RESULTS / "dataset",
) -> None:
    """Withdraw a session: its numbers stay and are shown as withdrawn, and it takes part in no verdict.

    For what was measured during maintenance, say, or with a wrong cable. Who withdrew it, when and why is recorded in the
    dataset (withdrawn/ID.json), and `gate` and the site say so. Exit status: 0 withdrawn, 2 bad input.
    """
    from mpibench.store import withdrawals

    typer.echo(str(withdrawals.withdraw(dataset, session, why)))


@sessions_app.command()
def restore(session: SessionId, dataset: Dataset = RESULTS / "dataset") -> None:
    """Take a withdrawal back: the session takes part in verdicts again."""
    from mpibench.store import withdrawals

    typer.echo(f"session {withdrawals.restore(dataset, session).session} takes part in verdicts again")


@sessions_app.command()
def withdrawn(
    dataset: Dataset = RESULTS / "dataset",
    as_json: Annotated[bool, typer.Option("--json", help="The whole answer as JSON on standard output.")] = False,
) -> None:
    """List the withdrawn sessions: by whom, when and why."""
    from mpibench.store import withdrawals

    found = sorted(withdrawals.find(dataset).values(), key=lambda one: one.when)
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], indent=2))
        return
    for line in map(str, found) if found else ["no session is withdrawn"]:
        typer.echo(one_line(line))


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

    built = building.build(dataset, out, judged=judge)
    for line in (*built.sentences, str(built)):
        typer.echo(one_line(line))


def register(program: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (export, report, site, prune):
        program.command()(command)
    program.add_typer(sessions_app, name="sessions")
