"""``mpibench locate``: which node, cable or switch is slow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reframe_tests.harness.vocabulary import BadInput

from .options import (
    DATABASE,
    Dataset,
    DatasetOnly,
    Db,
    Json,
    Session,
    System,
    Where,
    open_store,
    say,
    say_json,
    write,
)

if TYPE_CHECKING:
    from mpibench.locate.answers import MapOptions
    from mpibench.locate.findings import MapJudgement
    from mpibench.locate.nights import Trend
    from mpibench.store.store import Store


def locate(
    session: Session = "latest",
    db: Db = DATABASE,
    dataset: Dataset = None,
    dataset_only: DatasetOnly = False,
    ordinary: Annotated[
        str | None,
        typer.Option(help="Use ordinary sessions instead of a map; a selector, e.g. now-30d:now."),
    ] = None,
    system: System = None,
    where: Where = None,
    rate: Annotated[
        float, typer.Option(help="Largest expected number of false positives per run.")
    ] = 0.05,
    bandwidth_margin: Annotated[
        float, typer.Option(help="Smallest loss of bandwidth to report, in percent.")
    ] = 7.0,
    latency_margin: Annotated[
        float, typer.Option(help="Smallest added latency to report, in percent.")
    ] = 25.0,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="Nodes of another kind, judged among themselves, e.g. gpu=g[0-9]*; repeatable."
        ),
    ] = None,
    oversubscribed: Annotated[
        bool | None,
        typer.Option(
            "--oversubscribed/--full-rate",
            help="Whether links between switches are slower by design than the links below them; "
            "default: what the site says.",
        ),
    ] = None,
    as_json: Json = False,
    junit: Annotated[
        Path | None, typer.Option(help="Also write a JUnit file: a test case for each node.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write an HTML page with the map and the history of each node."),
    ] = None,
    nights: Annotated[
        int,
        typer.Option(min=1, help="How many days of maps the page shows for each node."),
    ] = 90,
) -> None:
    """Find slow nodes, cables and switches, with a stated rate of false positives.

    Judges the maps of PairMap, WireTcpMap or WireRdmaMap with an additive model on the log scale:
    sending node, receiving node, switches and links between them, pairs. Commands for Slurm are
    printed, never run. Exit status: 0 nothing is flagged, and everything that should have been
    measured was; 1 something is flagged; 2 bad input, including a session without a map; 3 nothing
    is flagged, but the result is inconclusive.
    """
    from mpibench.locate import answers, findings

    store = open_store(db, dataset, dataset_only, err=True)
    margins = {
        "bandwidth_mb_per_s": bandwidth_margin,
        "latency_us": latency_margin,
        "latency_mean_us": latency_margin,
    }
    if ordinary is not None:
        identity = ordinary
        name = store.system_of(system)
        selection = store.select(name, ordinary, where=where)
        found = [answers.of_ordinary_sessions(selection, rate, margins)]
    else:
        identity, name, found = _maps(
            session, store, system, answers.MapOptions(rate, margins, kind or (), oversubscribed)
        )
    if junit:
        write(junit, findings.junit(found, name), err=True)
    if out:
        from mpibench.pages import map as locate_page

        trends = [] if ordinary else _trends(store, name, nights)
        write(out, locate_page.page(found, f"{name}, session {identity}", trends), err=True)
    if as_json:
        say_json([answer.as_data(identity, name) for answer in found])
    else:
        say(line for answer in found for line in answer.lines(identity, name))
    statuses = [answer.status for answer in found]
    raise typer.Exit(1 if 1 in statuses else max(statuses))


def _maps(
    session: str, store: Store, system: str | None, asked: MapOptions
) -> tuple[str, str, list[MapJudgement]]:
    """Session id, system and the answer of each map of a session that nobody
    withdrew; ``latest`` is the newest with a map.
    """
    from mpibench.locate.answers import answer_of
    from mpibench.night import preflight

    with_map = store.pair_map_cases(system)["session"].to_list() if session == "latest" else ()
    night = store.find_session(session, system, among=with_map)
    name, uuid = night.system, night.session
    read = store.session(uuid)
    cases = [case for case in read.cases if case.pair_map is not None and case.system == name]
    if not cases:
        raise BadInput(
            "session-missing",
            f"session {read.uuid} of {name} holds no map of pairs; measure one with: reframe -c "
            f"reframe_tests -r -n PairMap --system={name}, or give ordinary sessions with "
            "--ordinary.",
        )
    before = preflight.find(read, store)
    looked_at = before.cases if before else ()
    return read.uuid, name, [answer_of(read, case, asked, looked_at) for case in cases]


def _trends(store: Store, system: str, days: int) -> list[Trend]:
    from datetime import datetime, timedelta, timezone

    from mpibench.locate import nights

    since = datetime.now(timezone.utc) - timedelta(days=days)
    sessions = {
        row["session"]
        for row in store.pair_map_cases(system).iter_rows(named=True)
        if row["started"] >= since
    }
    return nights.trends(nights.stored(store, system, sessions)) if sessions else []
