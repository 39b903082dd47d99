"""``mpibench doctor`` and ``orphans``: what this machine offers and lacks, and what a killed ReFrame has left on it."""

from __future__ import annotations

from typing import Annotated

import typer


def doctor(
    system: Annotated[str | None, typer.Option(help="System to check; default: the one ReFrame selects here.")] = None,
    stacks_only: Annotated[
        bool, typer.Option("--stacks", help="Check only whether each partition gets the stacks it asks for.")
    ] = False,
    draft: Annotated[
        bool,
        typer.Option("--draft", help="Print only a draft of fabrics.yaml, for a system of your ReFrame configuration."),
    ] = False,
) -> None:
    """Report what this machine and the selected system offer, what is missing, and how to get it.

    Checks Python and ReFrame, compiler and evidence library, stacks and the partitions that get them, topology, network and
    RDMA devices, the system's fabrics (is each device here?), scheduler, Spack and browser. Exit status: 0 the tests have all
    they need, 1 something they need is missing.
    """
    from mpibench.listings import doctor as examination

    raise typer.Exit(examination.report(system, stacks_only=stacks_only, draft_only=draft))


def orphans(
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel them.")] = False,
) -> None:
    """List Slurm jobs and launches on this machine whose ReFrame was killed, so that nothing reads their results.

    Each job names the host and process of its ReFrame; only jobs that this user started from this host can be known to be
    orphans. Their files stay in the stage directory. Exit status: 0 none is left, 1 there are some that were not cancelled.
    """
    from mpibench.listings import orphans as search

    raise typer.Exit(search.report(cancel, typer.echo))


def register(program: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (doctor, orphans):
        program.command()(command)
