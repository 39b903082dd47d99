"""``mpibench vet``: may these nodes go back into service?"""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from mpibench.commands.options import DATABASE, Db, Json, System, say, say_json, write
from reframe_tests.harness.vocabulary import BadInput

app = typer.Typer(
    rich_help_panel="Decide",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class AppliedChange(str, enum.Enum):
    """What ``--apply`` does."""

    drain = "drain"
    resume = "resume"


class NodeCheck(str, enum.Enum):
    """What ``--check`` looks at."""

    facts = "facts"
    wire = "wire"
    pairs = "pairs"
    memory = "memory"


@app.command(rich_help_panel="Decide")
def vet(
    nodes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NODES...]",
            help="Nodes as Slurm writes them: c[1-4,7] n01. Default, inside a job: its nodes.",
        ),
    ] = None,
    local: Annotated[
        bool,
        typer.Option(
            "--local",
            help="Check only this node's own facts, for Slurm's HealthCheckProgram and prolog.",
        ),
    ] = False,
    learned: Annotated[
        Path | None,
        typer.Option(help="With --local: facts of a good node, as written by --learn."),
    ] = None,
    learn: Annotated[
        bool,
        typer.Option(
            "--learn", help="With --local: write --learned from this node, which is good."
        ),
    ] = False,
    state: Annotated[
        Path | None,
        typer.Option(help="With --local: file for error counters, to notice new errors."),
    ] = None,
    system: System = None,
    partition: Annotated[
        str | None,
        typer.Option(
            help="Partition, as the site names it; default: the first with all these nodes."
        ),
    ] = None,
    fabric: Annotated[
        str | None, typer.Option(help="Fabric; default: the partition's first between nodes.")
    ] = None,
    stack: Annotated[
        str | None,
        typer.Option(help="Stack for the map of pairs; default: the first that can measure it."),
    ] = None,
    check: Annotated[
        list[NodeCheck] | None, typer.Option(help="Only this; repeatable. Default: all.")
    ] = None,
    reservation: Annotated[str, typer.Option(help="Slurm reservation that the nodes are in.")] = "",
    job_option: Annotated[
        list[str] | None,
        typer.Option(
            "-J", "--job-option", help="Further option of the job, e.g. account=ops; repeatable."
        ),
    ] = None,
    apply: Annotated[
        list[AppliedChange] | None,
        typer.Option(
            help="drain: drain nodes that fail. resume: also measure nodes that this command "
            "drained, in a reservation, and return those that pass to service. Default: only "
            "print.",
        ),
    ] = None,
    most_drained: Annotated[
        int, typer.Option(min=0, help="Drain no node if more than this fail.")
    ] = 2,
    db: Db = DATABASE,
    as_json: Json = False,
    out: Annotated[Path | None, typer.Option(help="Also write an HTML page with the maps.")] = None,
) -> None:
    """Say whether nodes may go back into service: facts unlike the others', links, all pairs over
    the wire and by MPI, memory, in one job on just these nodes, or inside the job this runs in.

    `locate` judges the nodes at its stated rate of false positives. They must also reach what the
    partition reached in earlier maps, or the line rate if there are none. The session has the
    label run=vet and is part of no night. Nothing is drained without --apply.
    Exit status: 0 all pass, 1 a node fails, 2 bad input, 3 none fails, and not all could be
    decided.
    """
    if local:
        from mpibench_vet import local as own_facts

        raise typer.Exit(own_facts.run(learned, state, learn=learn))
    if learned or state or learn:
        raise BadInput("options-exclude", "--learned, --learn and --state need --local.")
    from mpibench import cli, only_one
    from mpibench.night import supervision
    from mpibench.store.store import Store
    from mpibench_vet import reasons, vetting

    cli.prepare()
    asked = vetting.VetRequest(
        names=nodes or [],
        database=db,
        store=Store(db.parent / "dataset"),
        folder=db.parent / "vet",
        say=lambda text: typer.echo(text, err=True),
        system=system,
        partition=partition,
        fabric=fabric,
        stack=stack,
        checks=[one.value for one in check] if check else reasons.CHECKS,
        reservation=reservation,
        apply=[one.value for one in apply or ()],
        most_drained=most_drained,
        options=job_option or (),
    )
    alone = only_one.only_one(db.parent, "mpibench vet", ".vet.lock", waiting=asked.say)
    with supervision.heeded(), alone:
        answer = vetting.vet(asked)
    if as_json:
        import msgspec

        say_json(msgspec.to_builtins(answer))
    else:
        say(answer.lines())
    if out:  # last: where it cannot be written the answer is there all the same
        from mpibench_vet import vet_page

        write(out, vet_page.page(answer, asked.maps), err=True)
    raise typer.Exit(answer.status)
