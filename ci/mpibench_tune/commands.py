"""``mpibench tune``: which algorithms of its collectives a library should take, with proof that
they are better; ``advise``: what to run an application with; ``settings``: the environment that was
proven.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from mpibench.commands.options import (
    DATABASE,
    RESULTS,
    Dataset,
    DatasetOnly,
    Db,
    Json,
    System,
    Where,
    open_store,
    say,
    say_json,
)
from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import BadInput, NotMeasured, meant

#: Exit status: nothing could be decided.
INCONCLUSIVE = 3

app = typer.Typer()


@app.command(rich_help_panel="Diagnose", context_settings={"allow_extra_args": True})
def tune(
    context: typer.Context,
    system: Annotated[str, typer.Option(envvar="RFM_SYSTEM", help="SYSTEM or SYSTEM:PARTITION.")],
    stack: Annotated[str, typer.Option(help="Stack whose MPI to tune.")],
    fabric: Annotated[str, typer.Option(help="Fabric, as the system names it.")],
    ppn: Annotated[int | None, typer.Option(min=1, help="Processes per node.")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Nodes; default: 1.")] = None,
    sacct: Annotated[
        Path | None,
        typer.Option(
            help="Instead of --nodes and --ppn: tune for the jobs of a system, most node-hours "
            "first, within one budget; a file from Slurm's sacct (see the page on tuning)."
        ),
    ] = None,
    pinning: Annotated[str, typer.Option(help="Pinning policy.")] = "bunch",
    collective: Annotated[
        list[str] | None,
        typer.Option(
            help="Collective, or NAME=ALGORITHM,ALGORITHM; repeatable. Default: all of the MPI."
        ),
    ] = None,
    budget: Annotated[
        str,
        typer.Option(help="Budget: minutes (30m), hours (1.5h) or node-hours (2nodeh)."),
    ] = "30m",
    wait: Annotated[
        str,
        typer.Option(
            help="Hours (12h) or minutes that jobs may wait for nodes, outside the budget."
        ),
    ] = "12h",
    level: Annotated[
        str, typer.Option(help="Message sizes: smoke, nightly or acceptance.")
    ] = "nightly",
    check: Annotated[
        bool, typer.Option("--check", help="Prove installed settings again, also after an upgrade.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Forget what was measured before.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write the first job scripts; measure nothing.")
    ] = False,
    profile: Annotated[
        Path | None,
        typer.Option(
            help="An application's MPI profile: its collectives, most time first; its sizes "
            "weigh single choices."
        ),
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option(
            help="Measure nothing; write a page with charts of all stacks tuned under this "
            "condition."
        ),
    ] = None,
) -> None:
    """Measure the algorithms of collectives, interleaved in one job;
    choose, prove, and write what the library reads.

    Round by round, algorithms that are clearly slower are measured no more. What is faster than the
    library's own choice by more than noise is proven in fresh jobs, default against tuned; only
    what is better there is written to site_configs/SYSTEM/tuning, with a modulefile, and `reframe
    -c reframe_tests -r -S tuned=yes` measures with it. An interrupted tuning goes on where it was.
    Options for ReFrame may follow after `--`.
    Exit status: 0 better settings are installed, or hold; 1 --check: they no longer hold, --sacct:
    a condition could not be measured; 2 bad input; 3 nothing is better than the library's own
    choice.
    """
    from mpibench.judge.plan.making import Budget
    from mpibench.night import supervision
    from mpibench_tune import charts, profiles, tuning, workload
    from mpibench_tune.measuring import Clock, TuneRequest
    from mpibench_tune.profiles import Usage
    from reframe_tests.harness.sites.tuned_settings import TunedPlace

    name, _, partition = system.partition(":")
    found_stack, controls = tuning.find_stack(stack)
    if (ppn is None) is (sacct is None) or (sacct and nodes):
        raise BadInput(
            "bad-option",
            "tune: give either --ppn and --nodes, or --sacct.",
        )
    wanted = _parse(collective or [], [control.collective for control in controls.controls])
    bound = Budget.parse(budget)
    waiting = Budget.parse(wait)
    if waiting.unit != "min":
        raise BadInput("bad-option", f"--wait {wait}: give hours (12h) or minutes (30m).")
    place = TunedPlace(name, stack, fabric, nodes or 1, ppn or 1, pinning)
    waits = tuning.check_place(place, partition)
    request = TuneRequest(
        place,
        partition,
        found_stack,
        controls,
        wanted,
        workload.seconds_of(bound, bound.amount, place.nodes),
        level,
        restart,
        check,
        dry_run,
        tuple(context.args),
        wait_s=60 * waiting.amount if waits else 0.0,
        say=_say,
    )
    try:
        if sacct:
            single = {"--check": check, "--chart": chart, "--profile": profile}
            if option := next((option for option, given in single.items() if given), ""):
                raise BadInput(
                    "bad-option",
                    f"tune: {option} is for one condition: give --ppn and --nodes instead of "
                    "--sacct.",
                )

            def ask(nodes: int, ppn: int, seconds: float) -> TuneRequest:
                return replace(
                    request,
                    place=replace(place, nodes=nodes, ppn=ppn),
                    budget_s=seconds,
                    clock=Clock(),
                )

            status = workload.tune_most_used(workload.read(sacct), bound, ask, _say)
        elif chart:
            charts.write(chart, place, tuple(wanted))
            _say(f"chart: {chart}")
            status = 0
        else:
            if profile:
                read = profiles.read(profile, place.ranks, exact=False)
                usage = Usage.of(read, str(profile), place.ranks)
                request = replace(
                    request,
                    usage=usage,
                    algorithms=of_application(wanted, usage.shares, str(profile)),
                )
            status = workload.tune_one(request)
    except supervision.Interrupted as signal:
        again = (
            f"the same command {'without --restart ' * restart}continues after the last complete "
            "round"
        )
        _say(f"interrupted by {signal.name}; {again}")
        status = signal.status
    raise typer.Exit(status)


@app.command(rich_help_panel="Diagnose")
def advise(
    profile: Annotated[
        Path,
        typer.Argument(help="File: mpiP, IPM, I_MPI_STATS, APS, Open MPI SPC, Darshan, or CSV."),
    ],
    sessions: Annotated[str, typer.Option(help="Sessions to use; a selector.")] = "latest",
    db: Db = DATABASE,
    dataset: Dataset = None,
    dataset_only: DatasetOnly = False,
    system: System = None,
    where: Where = None,
    ranks: Annotated[
        int | None,
        typer.Option(min=1, help="Ranks of the application, if the profile does not say."),
    ] = None,
    wall_s: Annotated[
        float | None,
        typer.Option(min=0.0, help="Its run time in seconds, if the profile does not say."),
    ] = None,
    covered: Annotated[
        float,
        typer.Option(
            min=1.0,
            max=100.0,
            help="Least share of the profile that must be covered for a ranking, in percent.",
        ),
    ] = 80.0,
    little: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=100.0,
            help="Share of the run in MPI, in percent, below which nothing can be gained.",
        ),
    ] = 10.0,
    profiled_on: Annotated[
        str | None,
        typer.Option(help="Stack that the profile was taken with, to check its prediction."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict what an application would spend in MPI with each stack, fabric
    and pinning that was measured, and rank them.

    Weighs the calls, sizes and ranks of a profile by the measured curves of proven cases. Nothing
    is extrapolated: what is not covered is named with its share, and below --covered nothing is
    ranked. Choices that differ by no more than noise are no choice. Exit status: 0 one is the
    fastest, or so little time is in MPI that none matters; 2 bad input, also a damaged profile; 3
    nothing could be decided (within noise, too little covered, or one choice only).
    """
    from mpibench.judge import policy as verdict_policy
    from mpibench_tune import advice
    from mpibench_tune.profiles import read

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


@app.command(rich_help_panel="Diagnose")
def settings(
    stack: Annotated[str, typer.Argument(help="Stack to set up.")],
    system: System = None,
    sessions: Annotated[
        str, typer.Option(help="Sessions that prove the settings; a selector.")
    ] = "latest",
    db: Db = DATABASE,
    dataset: Dataset = None,
    dataset_only: DatasetOnly = False,
    where: Where = None,
    out: Annotated[
        Path, typer.Option(help="Folder for modulefiles, Spack's fragment and the page.")
    ] = RESULTS / "settings",
    as_json: Json = False,
) -> None:
    """Write the environment that was proven best for a stack: modulefiles (Tcl, Lua), a Spack
    modules.yaml fragment, a page.

    Chooses fabric and pinning from proven measurements alone, and only where one is faster than all
    others by more than noise; what is not proven to be better is left as the stack has it. The page
    says what was measured, when, and how much it brings.
    Exit status: 0 written; 2 bad input; 3 nothing is proven, so that nothing is written.
    """
    from mpibench_tune import choice, documents

    store = open_store(db, dataset, dataset_only, err=as_json)
    try:
        found = choice.recommend(store, system, stack, sessions, where=where)
    except NotMeasured as error:
        typer.echo(f"mpibench: {one_line(str(error))}", err=True)
        raise typer.Exit(INCONCLUSIVE) from None
    written = documents.write(found, out)
    if as_json:
        say_json(documents.as_data(found))
    else:
        say([*documents.lines(found), *(f"wrote {path}" for path in written)])


def _say(line: str) -> None:
    typer.echo(one_line(line))


def _parse(given: list[str], known: list[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for text in given:
        name, _, words = text.partition("=")
        if name not in known:
            raise BadInput(
                "unknown-name",
                f"--collective {name!r} cannot be tuned for this MPI"
                f"{meant(name, known)}; there are "
                f"{', '.join(known)}.",
            )
        if name in found:
            raise BadInput("name-taken", f"--collective {name} comes twice.")
        found[name] = tuple(word for word in words.split(",") if word)
    return found or dict.fromkeys(known, ())


def of_application(
    wanted: Mapping[str, tuple[str, ...]], shares: Mapping[str, float], source: str
) -> dict[str, tuple[str, ...]]:
    """Of some collectives those that an application calls, most time first."""
    found = {name: wanted[name] for name in shares if name in wanted}
    if not found:
        raise BadInput(
            "nothing-measured",
            f"{source} has none of the collectives to tune: {', '.join(wanted)}.",
        )
    return found
