"""From measurement to setting: ``mpibench guidelines`` (which calls to tune), ``advise`` (what to run an application with) and
``settings`` (the environment that was proven)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import ROOT, BadInput, NotMeasured

from .verdicts import Dataset, DatasetOnly, Db, System, Where

RESULTS = ROOT / "results"
#: Exit statuses: the policy refuses violations; nothing could be decided.
REFUSED, INCONCLUSIVE = 1, 3


def guidelines(
    session: Annotated[str, typer.Option(help="Session id, or its beginning, or 'latest'.")] = "latest",
    db: Annotated[Path, typer.Option(help="ReFrame's results database.")] = RESULTS / "results.db",
    as_json: Annotated[bool, typer.Option("--json", help="All guidelines as JSON on standard output.")] = False,
) -> None:
    """Name the collective calls that are slower than what could replace them, with how much slower: what to tune first.

    Judges what the test Guidelines measured: each call against a mock-up of it made of other calls, against itself with four
    times the data, and against the same data in four parts. Margin, error rate and whether violations are refused:
    site_configs/<system>/policy.yaml (guidelines_margin_percent, false_discovery_rate, guidelines_refuse).
    Exit status: 0 judged (violations are advice), 1 violated and the policy refuses that, 2 bad input, also a session without
    such measurements, 3 nothing could be decided.
    """
    from mpibench.judge import guidelines
    from mpibench.judge import policy as verdict_policy
    from mpibench.store.sessions import read_session
    from mpibench.store.store import Store

    read = read_session(db, None if session == "latest" else session)
    Store(db.parent / "dataset").refuse_withdrawn(read.uuid)
    if len(read.systems) != 1:
        raise BadInput(f"session {read.uuid} has cases on {len(read.systems)} systems, and one policy judges: give another.")
    policy = verdict_policy.load(read.systems[0])
    found = guidelines.judge(read, policy)
    if as_json:
        typer.echo(json.dumps(guidelines.as_data(read.uuid, read.systems[0], found, policy), indent=2))
    else:
        lines = [f"{read.systems[0]}, session {read.uuid[:8]}: {guidelines.headline(found, policy)}"]
        lines += [f"  {line}" for line in guidelines.violations(found)]
        lines += [f"  note: {line}" for line in found.notes]
        for line in lines:
            typer.echo(one_line(line))
    decided = len(found.rows) - found.counts[guidelines.INCONCLUSIVE]
    refused = policy.guidelines_refuse and found.violations
    raise typer.Exit(REFUSED if refused else 0 if decided else INCONCLUSIVE)


def advise(
    profile: Annotated[Path, typer.Argument(help="File: mpiP, IPM, I_MPI_STATS, APS, Open MPI SPC, Darshan, or CSV.")],
    sessions: Annotated[str, typer.Option(help="Sessions whose curves count; a selector.")] = "latest",
    db: Db = RESULTS / "results.db",
    dataset: Dataset = RESULTS / "dataset",
    dataset_only: DatasetOnly = False,
    system: System = None,
    where: Where = None,
    ranks: Annotated[int | None, typer.Option(min=1, help="Ranks of the application, where the profile does not say.")] = None,
    wall_s: Annotated[
        float | None, typer.Option(min=0.0, help="Its run time in seconds, where the profile does not say.")
    ] = None,
    covered: Annotated[
        float, typer.Option(min=1.0, max=100.0, help="Percent of the profile that must be covered before anything is ranked.")
    ] = 80.0,
    little: Annotated[
        float, typer.Option(min=0.0, max=100.0, help="Percent of the run in MPI below which there is nothing to gain.")
    ] = 10.0,
    profiled_on: Annotated[
        str | None, typer.Option(help="Stack the profile was taken with, to hold its prediction against it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The whole answer as JSON on standard output.")] = False,
) -> None:
    """Predict what an application would spend in MPI with each stack, fabric and pinning that was measured, and rank them.

    Weighs the calls, sizes and ranks of a profile by the measured curves of proven cases. Nothing is extrapolated: what is not
    covered is named with its share, and below --covered nothing is ranked. Choices that differ by no more than noise are no
    choice. Exit status: 0 one is the fastest, or so little time is in MPI that none matters; 2 bad input, also a damaged
    profile; 3 nothing could be decided (within noise, too little covered, or one choice only).
    """
    from mpibench.judge import policy as verdict_policy
    from mpibench.store.store import Store
    from mpibench.tune import advice
    from mpibench.tune.profiles import read

    found = read(profile, ranks, wall_s or None)
    terms = advice.Terms(covered / 100, little / 100, profiled_on)
    if advice.has_little(found, terms):
        result = advice.stop(found, verdict_policy.Policy(), terms)
    else:
        store = Store(dataset)
        _say(store.bring_up_to_date(db, without_db=dataset_only), as_json)
        name = store.system_of(system)
        measured = advice.read_curves(store, name, sessions, where=where)
        result = advice.advise(found, measured, verdict_policy.load(name), terms)
    if as_json:
        typer.echo(json.dumps(advice.as_data(result), indent=2))
    else:
        _say(advice.lines(result), False)
    raise typer.Exit(advice.STATUS[result.outcome])


def settings(
    stack: Annotated[str, typer.Argument(help="Stack to be set up.")],
    system: System = None,
    sessions: Annotated[str, typer.Option(help="Sessions that prove the settings; a selector.")] = "latest",
    db: Db = RESULTS / "results.db",
    dataset: Dataset = RESULTS / "dataset",
    dataset_only: DatasetOnly = False,
    where: Where = None,
    out: Annotated[Path, typer.Option(help="Folder for modulefiles, Spack's fragment and the page.")] = RESULTS / "settings",
    as_json: Annotated[bool, typer.Option("--json", help="What is recommended as JSON on standard output.")] = False,
) -> None:
    """Write the environment that was proven best for a stack: modulefiles (Tcl, Lua), a Spack modules.yaml fragment, a page.

    Chooses fabric and pinning from proven measurements alone, and only where one is faster than all others by more than noise;
    what is not proven to be better is left as the stack has it. The page says what was measured, when, and how much it brings.
    Exit status: 0 written; 2 bad input; 3 nothing is proven, so that nothing is written.
    """
    from mpibench.pages import settings as documents
    from mpibench.store.store import Store

    store = Store(dataset)
    _say(store.bring_up_to_date(db, without_db=dataset_only), as_json)
    try:
        found = documents.recommend(store, system, stack, sessions, where=where)
    except NotMeasured as error:
        typer.echo(f"mpibench: {one_line(str(error))}", err=True)
        raise typer.Exit(INCONCLUSIVE) from None
    written = documents.write(found, out)
    if as_json:
        typer.echo(json.dumps(documents.as_data(found), indent=2))
    else:
        _say([*documents.lines(found), *(f"wrote {path}" for path in written)], False)


def _say(lines: Iterable[str], as_json: bool) -> None:
    """Each line as one line; beside JSON on standard error."""
    for line in lines:
        typer.echo(one_line(line), err=as_json)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (guidelines, advise, settings):
        app.command()(command)
