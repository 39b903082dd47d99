"""``mpibench tune``: which algorithms of its collectives a library should take, with proof that they are better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import BadInput


def tune(
    context: typer.Context,
    system: Annotated[str, typer.Option(envvar="RFM_SYSTEM", help="SYSTEM or SYSTEM:PARTITION.")],
    stack: Annotated[str, typer.Option(help="Stack whose MPI is tuned.")],
    fabric: Annotated[str, typer.Option(help="Fabric as the system names it.")],
    ppn: Annotated[int | None, typer.Option(min=1, help="Processes per node.")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="Nodes; default: 1.")] = None,
    sacct: Annotated[
        Path | None,
        typer.Option(
            help="Instead of --nodes and --ppn: those of a system's jobs, most node-hours first, within one budget; what "
            "Slurm's sacct printed, as the page on tuning says."
        ),
    ] = None,
    pinning: Annotated[str, typer.Option(help="Pinning policy.")] = "bunch",
    collective: Annotated[
        list[str] | None, typer.Option(help="Collective, or NAME=ALGORITHM,ALGORITHM; repeatable. Default: all of the MPI.")
    ] = None,
    budget: Annotated[str, typer.Option(help="What it may take: minutes (30m), hours (1.5h), node-hours (2nodeh).")] = "30m",
    wait: Annotated[str, typer.Option(help="Hours (12h) or minutes that jobs may wait for nodes; not of the budget.")] = "12h",
    level: Annotated[str, typer.Option(help="Message sizes: smoke, nightly or acceptance.")] = "nightly",
    check: Annotated[bool, typer.Option("--check", help="Prove installed settings again, also after an upgrade.")] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Forget what was measured before.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write the first job scripts and measure nothing.")] = False,
    profile: Annotated[
        Path | None,
        typer.Option(help="An application's MPI profile: its collectives, most time first; its sizes weigh single choices."),
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option(help="Measure nothing: write a page with charts of all stacks that were tuned under this condition."),
    ] = None,
) -> None:
    """Measure the algorithms of collectives, interleaved in one job; choose, prove, and write what the library reads.

    Round by round, algorithms that are clearly slower are measured no more. What is faster than the library's own choice by
    more than noise is proven in fresh jobs, default against tuned; only what is better there is written to
    site_configs/SYSTEM/tuning, with a modulefile, and `reframe -S tuned=yes` measures with it. An interrupted tuning goes on
    where it was. Options for ReFrame may follow after `--`.
    Exit status: 0 better settings are installed, or hold; 1 --check: they no longer hold, --sacct: a condition could not be
    measured; 2 bad input; 3 nothing is better than the library's own choice.
    """
    from mpibench.judge.plan.making import Budget
    from mpibench.night import supervision
    from mpibench.pages import tuning as tuning_page
    from mpibench.tune import profiles, tuning, workload
    from mpibench.tune.measuring import Clock, TuneRequest
    from mpibench.tune.profiles import Usage
    from reframe_tests.harness.sites.tuned_settings import Place

    name, _, partition = system.partition(":")
    found_stack, controls = tuning.find_stack(stack)
    if (ppn is None) is (sacct is None) or (sacct and nodes):
        raise BadInput(
            "tune-condition",
            "tune: give --ppn and --nodes, or --sacct with what the jobs of the system used: one of both.",
        )
    wanted = _parse(collective or [], [control.collective for control in controls.controls])
    bound, waiting = Budget.parse(budget), Budget.parse(wait)
    if waiting.unit != "min":
        raise BadInput("wait-format", f"--wait {wait}: give hours (12h) or minutes (30m).")
    place = Place(name, stack, fabric, nodes or 1, ppn or 1, pinning)
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
                    "tune-condition", f"tune: {option} is for one condition: give --ppn and --nodes in place of --sacct."
                )

            def ask(nodes: int, ppn: int, seconds: float) -> TuneRequest:
                return replace(request, place=replace(place, nodes=nodes, ppn=ppn), budget_s=seconds, clock=Clock())

            status = workload.tune_most_used(workload.read(sacct), bound, ask, _say)
        elif chart:
            tuning_page.write(chart, place, tuple(wanted))
            _say(f"chart: {chart}")
            status = 0
        else:
            if profile:
                read = profiles.read(profile, place.ranks, exact=False)
                usage = Usage.of(read, str(profile), place.ranks)
                request = replace(request, usage=usage, algorithms=of_application(wanted, usage.shares, str(profile)))
            status = workload.tune_one(request)
    except supervision.Interrupted as signal:
        again = f"the same command {'without --restart ' * restart}goes on after the last whole round"
        _say(f"interrupted by {signal.name}; {again}")
        status = signal.status
    raise typer.Exit(status)


def _say(line: str) -> None:
    typer.echo(one_line(line))


def _parse(given: list[str], known: list[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for text in given:
        name, _, words = text.partition("=")
        if name not in known:
            raise BadInput(
                "collective-unknown",
                f"--collective {name!r} is none that can be tuned of this MPI; there are {', '.join(known)}.",
            )
        if name in found:
            raise BadInput("collective-twice", f"--collective {name} comes twice.")
        found[name] = tuple(word for word in words.split(",") if word)
    return found or dict.fromkeys(known, ())


def of_application(
    wanted: Mapping[str, tuple[str, ...]], shares: Mapping[str, float], source: str
) -> dict[str, tuple[str, ...]]:
    """Of some collectives those that an application calls, most time first."""
    found = {name: wanted[name] for name in shares if name in wanted}
    if not found:
        raise BadInput(
            "profile-lacks-collectives", f"{source} has none of the collectives that are to be tuned: {', '.join(wanted)}."
        )
    return found
