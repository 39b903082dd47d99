"""``mpibench locate``: which node, cable or switch is slow, from a map of pairs or from ordinary sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mpibench import whole_file
from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import ROOT, BadInput

from .verdicts import System

if TYPE_CHECKING:
    from mpibench.locate.answers import Asked
    from mpibench.locate.judgement import Answer
    from mpibench.locate.nights import Trend
    from mpibench.store.store import Store

RESULTS = ROOT / "results"


def locate(
    session: Annotated[str, typer.Option(help="Session with a map of pairs: id, or its beginning, or 'latest'.")] = "latest",
    db: Annotated[Path, typer.Option(help="ReFrame's results database.")] = RESULTS / "results.db",
    ordinary: Annotated[
        str | None, typer.Option(help="No map, but what ordinary sessions measured; a selector, e.g. now-30d:now.")
    ] = None,
    dataset: Annotated[
        Path, typer.Option(help="Folder of the Parquet dataset, for --ordinary and the nights before.")
    ] = RESULTS / "dataset",
    system: System = None,
    where: Annotated[str | None, typer.Option(help="Only matching cases of --ordinary, e.g. 'fabric == \"eth1g\"'.")] = None,
    rate: Annotated[float, typer.Option(help="Innocents accused per run, expected at most.")] = 0.05,
    bandwidth_margin: Annotated[float, typer.Option(help="Loss of bandwidth that is called slow at least, in percent.")] = 7.0,
    latency_margin: Annotated[float, typer.Option(help="Added latency that is called slow at least, in percent.")] = 25.0,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Nodes of another kind, judged among themselves, e.g. gpu=g[0-9]*; repeatable."),
    ] = None,
    oversubscribed: Annotated[
        bool | None,
        typer.Option(
            "--oversubscribed/--full-rate",
            help="Whether links between switches are meant to be slower than what is below them; default: as the site says.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON on standard output.")] = False,
    junit: Annotated[Path | None, typer.Option(help="Also write a JUnit file: a test case for each node.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Also write an HTML page with the map, and with each node over the nights.")
    ] = None,
    nights: Annotated[int, typer.Option(min=1, help="Days back to which the page shows nodes, by the maps of --dataset.")] = 90,
) -> None:
    """Say which node, cable or switch is slow, with the rate at which innocents are accused.

    Judges what PairMap, WireTcpMap or WireRdmaMap measured, by a model that adds up on the log scale: node that sends, node
    that receives, switches and links between them, pairs. Commands for Slurm are printed and never run.
    Exit status: 0 nobody is accused and everything that should have been measured was, 1 somebody is accused, 2 bad input, also
    a session without a map, 3 nobody is accused, but not all could be decided.
    """
    from mpibench.locate import answers
    from mpibench.store.store import Store

    store = Store(dataset)
    margins = {"bandwidth_mb_per_s": bandwidth_margin, "latency_us": latency_margin, "latency_mean_us": latency_margin}
    if ordinary is not None:
        identity, name = ordinary, store.system_of(system)
        selection = store.select(name, ordinary, where=where)
        found = [answers.of_ordinary_sessions(selection, rate, margins)]
    else:
        identity, name, found = _maps(db, session, store, answers.Asked(rate, margins, kind or (), oversubscribed))
    if junit:
        _write(junit, answers.junit(found, name))
    if out:
        from mpibench.pages import map as locate_page

        trends = [] if ordinary else _trends(store, name, nights)
        _write(out, locate_page.page(found, f"{name}, session {identity}", trends))
    if as_json:
        typer.echo(json.dumps([answers.as_data(answer, identity, name) for answer in found], indent=2))
    else:
        for line in (line for answer in found for line in _lines(answer, identity, name)):
            typer.echo(one_line(line))
    statuses = [answer.status for answer in found]
    raise typer.Exit(1 if 1 in statuses else max(statuses))


def _maps(db: Path, session: str, store: Store, asked: Asked) -> tuple[str, str, list[Answer]]:
    """Session id, system and the answer of each map of a session that nobody withdrew."""
    from mpibench.locate.answers import answer_of
    from mpibench.pages.session import find_preflight
    from mpibench.store.sessions import Session, read_session

    read = read_session(db, None if session == "latest" else session)
    store.refuse_withdrawn(read.uuid)
    cases = [case for case in read.cases if case.pair_map is not None]
    if not cases:
        raise BadInput(
            f"session {read.uuid} holds no map of pairs; measure one with: reframe -c reframe_tests -r -n PairMap, or give "
            "ordinary sessions with --ordinary."
        )
    before = find_preflight(read, db)
    looked_at = before.cases if isinstance(before, Session) else ()
    return read.uuid, cases[0].system, [answer_of(read, case, asked, looked_at) for case in cases]


def _trends(store: Store, system: str, days: int) -> list[Trend]:
    """Nodes over the nights, where a dataset has maps of several."""
    from datetime import datetime, timedelta, timezone

    from mpibench.locate import nights

    since = datetime.now(timezone.utc) - timedelta(days=days)
    sessions = {row["session"] for row in store.pair_map_cases(system).iter_rows(named=True) if row["started"] >= since}
    return nights.trends(nights.stored(store, system, sessions)) if sessions else []


def _lines(answer: Answer, session: str, system: str) -> list[str]:
    from mpibench.locate import answers, sentences

    lines = [f"{system}, session {session[:8]}, {answer.title}: {sentences.headline(answer)}"]
    lines += [f"  {text}" for text in answer.evident.values()]
    lines += [f"  {sentences.say(answer, finding)}" for finding in answer.findings]
    lines += [f"  inconclusive: {text}" for text in answer.inconclusive]
    lines += [f"  note: {text}" for text in [*sentences.floors(answer), *answer.notes]]
    commands = answers.drain(answer, session)
    for title, rows in (("take them out of service", commands), ("measure their links without MPI", answer.wires)):
        lines += [*([f"  to {title}:"] if rows else []), *(f"    {line}" for line in rows)]
    return lines


def _write(path: Path, text: str) -> None:
    try:
        whole_file.write_text(path, text)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}.") from None
    typer.echo(f"wrote {path}", err=True)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(locate)
