"""``mpibench tune``: which algorithms of its collectives a library should take, with proof that they are better."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import BadInput

#: Exit statuses: installed settings no longer hold; nothing is better than the library's own choice.
LOST, NOTHING_BETTER = 1, 3


def tune(
    context: typer.Context,
    system: Annotated[str, typer.Argument(help="SYSTEM or SYSTEM:PARTITION.")],
    stack: Annotated[str, typer.Option(help="Stack whose MPI is tuned.")],
    fabric: Annotated[str, typer.Option(help="Fabric as the system names it.")],
    ppn: Annotated[int, typer.Option(min=1, help="Processes per node.")],
    nodes: Annotated[int, typer.Option(min=1, help="Nodes.")] = 1,
    pinning: Annotated[str, typer.Option(help="Pinning policy.")] = "bunch",
    collective: Annotated[
        list[str] | None, typer.Option(help="Collective, or NAME=ALGORITHM,ALGORITHM; repeatable. Default: all of the MPI.")
    ] = None,
    budget: Annotated[str, typer.Option(help="What it may take: minutes (30m), hours (1.5h), node-hours (2nodeh).")] = "30m",
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
    Exit status: 0 better settings are installed, or hold; 1 --check: they no longer hold; 2 bad input; 3 nothing is better than
    the library's own choice.
    """
    from mpibench.night import preconditions, supervision
    from mpibench.plan.budget import Budget
    from mpibench.profiles import record, registry
    from mpibench.tune import answer, charts, times, tuning
    from reframe_tests.harness.sites.tuned_settings import Place

    name, _, partition = system.partition(":")
    found_stack, controls = tuning.find_stack(stack)
    place = Place(name, stack, fabric, nodes, ppn, pinning)
    tuning.check_place(place, partition)
    wanted = _parse(collective or [], [control.collective for control in controls.controls])
    usage = None
    if profile:
        read = registry.read(profile, record.Given(place.ranks), exact=False)
        usage = times.Usage.of(read, str(profile), place.ranks)
        wanted = of_application(wanted, usage.shares, str(profile))
    bound = Budget.parse(budget)
    minutes = bound.amount if bound.unit == "min" else 60 * bound.amount / nodes
    request = tuning.TuneRequest(
        place, partition, tuple(wanted), wanted, 60 * minutes, level, restart, tuple(context.args), usage=usage
    )

    def say(line: str) -> None:
        typer.echo(one_line(line))

    try:
        if chart:
            charts.write(chart, place, tuple(wanted))
            say(f"chart: {chart}")
            raise typer.Exit
        one = preconditions.only_one(request.folder.parent, "mpibench tune", f".{place.name}.lock", f"on {place.text}")
        with supervision.heeded(), one as lock:
            request = replace(request, held=(lock,))
            if dry_run:
                tuning.write_jobs(request, found_stack, controls, say)
                raise typer.Exit
            if check:
                checked = tuning.check(request, found_stack, controls, say)
                _print(answer.of_check(checked, place, controls))
                raise typer.Exit(0 if checked.renewed else LOST)
            result = tuning.tune(request, found_stack, controls, say)
    except supervision.Interrupted as signal:
        say(f"interrupted by {signal.name}; the same command goes on after the last whole round")
        raise typer.Exit(signal.status) from None
    _print(answer.of_tuning(result, place, controls))
    raise typer.Exit(0 if result.rules else NOTHING_BETTER)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(one_line(line))


def _parse(given: list[str], known: list[str]) -> dict[str, tuple[str, ...]]:
    """Collective to the algorithms named with it.

    :raises BadInput: a collective is not known or comes twice.
    """
    found: dict[str, tuple[str, ...]] = {}
    for text in given:
        name, _, words = text.partition("=")
        if name not in known:
            raise BadInput(f"--collective {name!r} is none that can be tuned of this MPI; there are {', '.join(known)}.")
        if name in found:
            raise BadInput(f"--collective {name} comes twice.")
        found[name] = tuple(word for word in words.split(",") if word)
    return found or dict.fromkeys(known, ())


def of_application(
    wanted: Mapping[str, tuple[str, ...]], shares: Mapping[str, float], source: str
) -> dict[str, tuple[str, ...]]:
    """Of some collectives those that an application calls, most time first.

    :raises BadInput: it calls none of them.
    """
    found = {name: wanted[name] for name in shares if name in wanted}
    if not found:
        raise BadInput(f"{source} has none of the collectives that are to be tuned: {', '.join(wanted)}.")
    return found


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(context_settings={"allow_extra_args": True})(tune)
