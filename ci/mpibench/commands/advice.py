"""From measurement to setting: ``mpibench advise`` (what to run an application with) and ``settings`` (the environment that was
proven)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import NotMeasured

from .options import DATABASE, RESULTS, Dataset, DatasetOnly, Db, Json, System, Where, open_store, say, say_json

#: Exit status: nothing could be decided.
INCONCLUSIVE = 3


def advise(
    profile: Annotated[Path, typer.Argument(help="File: mpiP, IPM, I_MPI_STATS, APS, Open MPI SPC, Darshan, or CSV.")],
    sessions: Annotated[str, typer.Option(help="Sessions whose curves count; a selector.")] = "latest",
    db: Db = DATABASE,
    dataset: Dataset = None,
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
    as_json: Json = False,
) -> None:
    """Predict what an application would spend in MPI with each stack, fabric and pinning that was measured, and rank them.

    Weighs the calls, sizes and ranks of a profile by the measured curves of proven cases. Nothing is extrapolated: what is not
    covered is named with its share, and below --covered nothing is ranked. Choices that differ by no more than noise are no
    choice. Exit status: 0 one is the fastest, or so little time is in MPI that none matters; 2 bad input, also a damaged
    profile; 3 nothing could be decided (within noise, too little covered, or one choice only).
    """
    from mpibench.judge import policy as verdict_policy
    from mpibench.tune import advice
    from mpibench.tune.profiles import read

    found = read(profile, ranks, wall_s or None)
    terms = advice.Terms(covered / 100, little / 100, profiled_on)
    if terms.end_it(found):
        result = advice.advise(found, advice.NOTHING, verdict_policy.Policy(), terms)
    else:
        store = open_store(db, dataset, dataset_only, err=as_json)
        name = store.system_of(system)
        measured = advice.read_curves(store, name, sessions, where=where)
        result = advice.advise(found, measured, verdict_policy.load(name), terms)
    if as_json:
        say_json(msgspec.to_builtins(result))
    else:
        say(result.lines())
    raise typer.Exit(advice.STATUS[result.outcome])


def settings(
    stack: Annotated[str, typer.Argument(help="Stack to be set up.")],
    system: System = None,
    sessions: Annotated[str, typer.Option(help="Sessions that prove the settings; a selector.")] = "latest",
    db: Db = DATABASE,
    dataset: Dataset = None,
    dataset_only: DatasetOnly = False,
    where: Where = None,
    out: Annotated[Path, typer.Option(help="Folder for modulefiles, Spack's fragment and the page.")] = RESULTS / "settings",
    as_json: Json = False,
) -> None:
    """Write the environment that was proven best for a stack: modulefiles (Tcl, Lua), a Spack modules.yaml fragment, a page.

    Chooses fabric and pinning from proven measurements alone, and only where one is faster than all others by more than noise;
    what is not proven to be better is left as the stack has it. The page says what was measured, when, and how much it brings.
    Exit status: 0 written; 2 bad input; 3 nothing is proven, so that nothing is written.
    """
    from mpibench.pages import settings as documents

    store = open_store(db, dataset, dataset_only, err=as_json)
    try:
        found = documents.recommend(store, system, stack, sessions, where=where)
    except NotMeasured as error:
        typer.echo(f"mpibench: {one_line(str(error))}", err=True)
        raise typer.Exit(INCONCLUSIVE) from None
    written = documents.write(found, out)
    if as_json:
        say_json(documents.as_data(found))
    else:
        say([*documents.lines(found), *(f"wrote {path}" for path in written)])
