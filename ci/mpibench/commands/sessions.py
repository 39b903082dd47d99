"""``mpibench export``, ``report`` and ``sessions``: work with stored sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mpibench import exit_status
from reframe_tests.harness import tools
from reframe_tests.harness.printable import FORMULA
from reframe_tests.harness.vocabulary import BadInput

from .options import (
    DATABASE,
    RESULTS,
    Dataset,
    DatasetOnly,
    Db,
    Json,
    Session,
    Show,
    System,
    Where,
    elsewhere,
    expect_alone,
    fetched,
    open_page,
    open_store,
    say,
    say_json,
    written,
)

if TYPE_CHECKING:
    from mpibench.store.store import Store

SessionId = Annotated[
    str, typer.Argument(help="Session id, or at least its first four characters.")
]

app = typer.Typer(
    name="sessions",
    help="List sessions, withdraw those that do not describe the machine, remove old files and "
    "orphaned jobs.",
    no_args_is_help=True,
)


#: What counts beside ``export --csv``.
_OF_CSV = ("csv", "db", "out", "sessions", "where", "system", "dataset_only")


def export(
    context: typer.Context,
    db: Annotated[Path, typer.Option(help="ReFrame's results database.")] = DATABASE,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the Parquet dataset; default: dataset beside the results database. To "
            "s3://BUCKET/FOLDER that one is copied, with its records, after what it lacks was "
            "exported.",
            show_default=False,
        ),
    ] = None,
    session: Annotated[
        list[str] | None, typer.Option(help="Only these sessions (uuid); default: all.")
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            help="Write the proven values of --sessions to this CSV file instead of exporting.",
        ),
    ] = None,
    sessions: Annotated[
        str, typer.Option(help="With --csv: sessions; a selector, e.g. latest or now-30d:now.")
    ] = "latest",
    where: Where = None,
    system: System = None,
    dataset_only: DatasetOnly = False,
) -> None:
    """Export sessions to a Parquet dataset: one row per repeat, metric
    and size, partitioned by system and date.

    Exporting a session again replaces its rows. Failed cases are kept, marked, and listed in the
    table `cases`. With --csv the values of proven cases become one CSV file, a row per repeat; an
    apostrophe precedes text that starts like a formula (=, +, -, @).
    """
    if csv:
        expect_alone(context, "--csv", *_OF_CSV)
        store = open_store(db, fetched(context, out), dataset_only)
        _write_values(store, csv, sessions, where, system)
        return
    if place := elsewhere(out):
        from mpibench.store.store import Store

        expect_alone(context, "export to a bucket", "db", "out", "dataset_only")
        store = Store(db.parent / "dataset")
        refused = store.bring_up_to_date(db, without_db=dataset_only)
        say([place.send(store.folder)])
        say(refused, err=True)
        raise typer.Exit(exit_status.BAD_INPUT if refused else 0)
    from mpibench.store import dataset

    expect_alone(context, "export without --csv", "db", "out", "session")
    typer.echo(dataset.export(db, out or db.parent / "dataset", session))


def _write_values(
    store: Store,
    path: Path,
    sessions: str,
    where: str | None,
    system: str | None,
) -> None:
    """Proven values as CSV, some rows after the other: years of nights do not fit in memory."""
    import polars as pl

    from mpibench.store.session_values import VALUES

    selection = store.select(store.system_of(system), sessions, where=where, only_zeros=True)
    jobs = selection.cases.lazy().select("session", "case", "job_id", "nodelist")
    # No bytes have no bandwidth; a zero where bytes were sent is the worst value there is.
    values = store.values(selection.system, selection.sessions).filter(
        (pl.col("value") != 0) | (pl.col("message_bytes") > 0)
    )
    rows = values.select(VALUES).join(jobs, on=["session", "case"], maintain_order="left")
    if rows.limit(1).collect(engine="streaming").is_empty():
        raise BadInput(
            "nothing-measured", f"the cases of {sessions} have no values: measure first."
        )
    say(selection.notes, err=True)
    texts = pl.col(pl.String).str.replace(FORMULA, "'$1")
    with written(path) as stream:
        rows.with_columns(texts).sink_csv(stream, quote_style="non_numeric")


def report(
    context: typer.Context,
    session: Session = "latest",
    db: Db = DATABASE,
    dataset: Dataset = None,
    dataset_only: DatasetOnly = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="HTML file to write, with a .md summary beside it; default: "
            "reports/<session>.html and report.html in the database's folder."
        ),
    ] = None,
    published: Annotated[
        list[str] | None,
        typer.Option(
            help="Show published figures beside a fabric, e.g. eth1g=openhpc-mini/eth1g; "
            "repeatable."
        ),
    ] = None,
    guidelines: Annotated[
        bool,
        typer.Option(
            "--guidelines",
            help="Write no page; list only the collective calls that are slower than equivalent "
            "ones (test Guidelines): tune these first.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --guidelines: print all as JSON.")
    ] = False,
    show: Show = False,
) -> None:
    """Write an HTML page for a session: verdicts, curves,
    heat maps, and the evidence behind each number.

    Published figures are shown beside measured ones, with the ratio, if a fabric in system.py has
    `published` or --published names it; they are never judged. --guidelines compares each call with
    a mock-up made of other calls, with itself on four times the data, and with the same data in
    four parts; margin, error rate and whether violations fail:
    site_configs/<system>/policy.yaml (guidelines_margin_percent, false_discovery_rate,
    guidelines_refuse). Exit status: 0 written, or judged (violations are advice), 2 bad input; with
    --guidelines also 1 if violations fail by policy, 3 if nothing could be decided.
    """
    from mpibench.pages import session as pages

    if as_json and not guidelines:
        raise BadInput(
            "options-exclude",
            "--json needs --guidelines; the numbers of a session are in the dataset.",
        )
    if published:
        tools.find(tools.PAGES, "published", "'mpibench report --published'")
    if guidelines:
        expect_alone(
            context,
            "--guidelines",
            "guidelines",
            "session",
            "db",
            "dataset",
            "dataset_only",
            "as_json",
        )
    judge = (
        tools.find(tools.PAGES, "guidelines", "'mpibench report --guidelines'").answer
        if guidelines
        else None
    )
    store = open_store(db, dataset, dataset_only, err=as_json)
    stored = store.session(session)
    if not judge:
        say(pages.write(store, stored, db.parent, out, published or ()))
        if show:
            open_page(out or db.parent / "report.html")
        return
    store.refuse_withdrawn(stored.uuid)
    raise typer.Exit(judge(stored, as_json))


@app.command()
def withdraw(
    session: SessionId,
    why: Annotated[str, typer.Option(help="The reason, in one line.")] = "",
    undo: Annotated[
        bool,
        typer.Option("--undo", help="Undo a withdrawal: the session takes part in verdicts again."),
    ] = False,
    dataset: Dataset = None,
) -> None:
    """Withdraw a session: its numbers stay and are shown as
    withdrawn, and it takes part in no verdict.

    For what was measured during maintenance, say, or with a wrong cable. Who withdrew it, when and
    why is recorded in the dataset (withdrawn/ID.json), and `gate` and the site say so. Exit status:
    0 withdrawn, 2 bad input.
    """
    from mpibench.store.store import Store

    store = Store(dataset or RESULTS / "dataset")
    if not undo:
        say([str(store.withdraw(session, why))])
    elif why:
        raise BadInput(
            "options-exclude",
            "--undo stores no reason: leave --why out.",
        )
    else:
        say([f"session {store.restore(session).session} takes part in verdicts again"])


@app.command("list")
def list_sessions(
    dataset: Dataset = None,
    system: System = None,
    withdrawn: Annotated[
        bool,
        typer.Option("--withdrawn", help="List only withdrawn sessions: by whom, when and why."),
    ] = False,
    as_json: Json = False,
) -> None:
    """List the sessions of the dataset, the newest last: when, system,
    label, cases, how many are proven, the verdicts.

    What `ci/nightly` and `gate` answered of a session was kept
    when they did; it is not asked again.
    """
    from mpibench.store.store import Store

    store = Store(dataset or RESULTS / "dataset")
    if system and not store.lost(system):
        store.system_of(system)  # refuses one that the dataset does not hold
    rows = store.session_rows(system, withdrawn_only=withdrawn)
    if as_json:
        say_json(rows)
    else:
        say(
            _lines(rows)
            or ["no session is withdrawn" if withdrawn else "no session is in the dataset"]
        )
    say(
        (
            f"session {lost.session[:8]} is not in the dataset: {lost.why}"
            for lost in store.lost(*filter(None, [system]))
        ),
        err=as_json,
    )


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    widths = [
        max((len(str(row[name] or "-")) for row in rows), default=0)
        for name in ("system", "label", "cases")
    ]
    return [
        f"{row['session'][:8]}  {row['started'][:16].replace('T', ' ')} UTC  "
        f"{row['system']:{widths[0]}}  {row['label'] or '-':{widths[1]}}  "
        f"{row['proven']:>{widths[2]}} of {row['cases']:>{widths[2]}} proven  {_state(row)}"
        for row in rows
    ]


def _state(row: dict[str, Any]) -> str:
    if gone := row["withdrawn"]:
        return f"withdrawn {gone['when'][:10]} by {gone['who']}: {gone['why']}"
    said = [f"{who}: {_word(answer)}" for who, answer in row["answers"].items()]
    return "; ".join(said) or "not judged"


def _word(answer: dict[str, Any]) -> str:
    word = "not judged" if answer["unjudged"] else "pass" if answer["passed"] else ""
    return ", ".join(filter(None, (word, answer["finding"])))


@app.command()
def prune(
    older_than: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Also files of sessions not written to for this many days.",
            show_default=False,
        ),
    ] = None,
    remove: Annotated[
        bool,
        typer.Option(
            "--remove",
            help="Remove files, cancel jobs and end processes; otherwise only list them.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="List what was found as JSON; remove nothing.")
    ] = False,
) -> None:
    """List or remove what sessions left: orphaned jobs, half-written files,
    and files of old sessions; nothing else does.

    Orphans are Slurm jobs and launches on this machine whose ReFrame was killed, so that nothing
    reads their results. Each names host and process of its ReFrame; only what this user started
    from this host can be known to be one. Half-written files (.NAME.NUMBER.PID.partial) go once
    they are a day old and their writer is gone. Files of old sessions are stage and output folders,
    logs and reports; links from other reports to them are dead afterwards. The numbers stay:
    results database, dataset, references and acceptance records are not touched. Exit status: 0 no
    orphan is left, 1 there are some, 2 bad input.
    """
    from mpibench.commands.listings import orphans
    from mpibench.store import session_files

    if remove and as_json:
        raise BadInput(
            "options-exclude",
            "--remove removes what is found, --json only lists it: give one of them.",
        )
    old = session_files.find(RESULTS, older_than)
    if as_json:
        found = orphans.as_data()
        say_json(
            {**found, "files": [{"path": str(item.path), "bytes": item.size_bytes} for item in old]}
        )
        raise typer.Exit(int(any(found.values())))
    if old or older_than:
        say(session_files.remove(old) if remove else session_files.lines(old))
    raise typer.Exit(orphans.report(remove, typer.echo))
