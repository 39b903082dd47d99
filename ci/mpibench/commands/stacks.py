"""``mpibench stacks``: list the stacks, register an MPI that is installed on this machine, forget it again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reframe_tests.harness.vocabulary import BadInput

app = typer.Typer(
    name="stacks",
    help="List the MPI stacks that can be measured: MPI, version, origin, ABI, benchmarks, lock hash. With 'add', register an "
    "MPI of the distribution or of a module. Every metadata file is checked against environments/stack.schema.json; a stack "
    "that is broken (its prefix gone, its library missing) is listed with the reason and makes the command exit 1.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def stacks(
    context: typer.Context,
    check: Annotated[
        bool,
        typer.Option("--check", help="List what stacks built by Spack differ in apart from their MPI; exit 1 if anything."),
    ] = False,
) -> None:
    """List the stacks unless a sub-command is given."""
    if context.invoked_subcommand is None:
        from mpibench.commands import stack_listing as listing

        raise typer.Exit(listing.check() if check else listing.show())


@app.command()
def add(
    mpirun: Annotated[str, typer.Option(help="Launcher of the MPI: its path, or its name on PATH.")],
    name: Annotated[str, typer.Option(help="Name of the stack; default: <mpi>-system.")] = "",
    binaries: Annotated[
        list[Path] | None,
        typer.Option(help="Folder with IMB-* or osu_* programs built for this MPI's ABI; may be given again."),
    ] = None,
    library: Annotated[Path | None, typer.Option(help="Its libmpi, where it is not below the launcher's prefix.")] = None,
    into: Annotated[
        Path | None,
        typer.Option(help="Folder for the metadata; default: environments/system/<name>. Name another one in MPIBENCH_STACKS."),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE to set when the stack is entered, such as a module sets; repeatable.")
    ] = None,
    prepend_path: Annotated[
        list[str] | None, typer.Option(help="NAME=FOLDER to put in front of a search path variable; repeatable.")
    ] = None,
) -> None:
    """Register an MPI that is installed on this machine as a stack of origin 'system'.

    The library is asked who it is, its launcher must start two ranks of it, and every benchmark program must start on it;
    one that cannot is left out with the reason. Nothing of the caller's environment counts: what a module sets and the MPI
    needs is given with --env and --prepend-path. On any error nothing is registered.
    """
    from mpibench.stacks import system

    paths: dict[str, list[str]] = {}
    for key, folder in _pairs("--prepend-path", prepend_path):
        paths.setdefault(key, []).append(folder)
    system.add(
        mpirun,
        name=name,
        library=library.absolute() if library else None,
        binaries=[folder.absolute() for folder in binaries or ()],
        env=dict(_pairs("--env", env)),
        prepend_path=paths,
        into=into.absolute() if into else None,
        say=typer.echo,
    )


@app.command()
def remove(name: Annotated[str, typer.Argument(help="Name of a stack that 'add' registered.")]) -> None:
    """Forget a stack of origin 'system'; the MPI itself and its binaries are not touched."""
    from mpibench.stacks import system

    typer.echo(f"removed {system.remove(name)}")


def _pairs(option: str, words: list[str] | None) -> list[tuple[str, str]]:
    for word in words or ():
        if not word.partition("=")[0] or "=" not in word:
            raise BadInput(f"{option} {word} is not NAME=VALUE; write it so.")
    return [(word.partition("=")[0], word.partition("=")[2]) for word in words or ()]
