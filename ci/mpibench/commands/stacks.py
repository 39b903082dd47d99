"""``mpibench stacks``: list stacks, register or remove an MPI, build others with Spack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from reframe_tests.harness.vocabulary import BadInput

app = typer.Typer(
    name="stacks",
    help="List the MPI stacks that can be measured, register, build and remove them.\n\nThe list "
    "shows MPI, version, origin, ABI, benchmarks and lock hash. 'add' registers an MPI of the "
    "distribution or of a module, 'build' builds with Spack. Every metadata file is checked "
    "against environments/stack.schema.json. Exit status: 0 if all stacks can be used, 1 if "
    "one is broken (its prefix or library is gone); the list says why.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def stacks(
    context: typer.Context,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="List what differs between Spack-built stacks besides their MPI, what changed "
            "since it was installed, and MPI libraries built without optimisation; exit "
            "status 1 if there is anything to list.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List the stacks unless a sub-command is given."""
    if context.invoked_subcommand is None:
        from mpibench.commands.listings import stacks as listing

        if as_json and check:
            raise BadInput(
                "options-exclude",
                "--check compares stacks, --json lists them: give one of them.",
            )
        if as_json:
            data = listing.as_data()
            typer.echo(json.dumps(data, indent=2))
            raise typer.Exit(int(bool(data["problems"]) or not data["stacks"]))
        if not check:
            raise typer.Exit(listing.show())
        from mpibench.stacks import compilation
        from mpibench.stacks.spack import build, project

        try:
            project.locate_spack()
        except BadInput as error:
            typer.echo(f"installed files were not verified: {error}", err=True)
            raise typer.Exit(listing.check(ask=compilation.ask)) from None
        raise typer.Exit(listing.check(verify=build.verify, ask=compilation.ask))


@app.command()
def add(
    mpirun: Annotated[
        str,
        typer.Option(
            help="Launcher of the MPI: its path, or its name on PATH; default: the one that the "
            "modules provide."
        ),
    ] = "",
    module: Annotated[
        list[str] | None,
        typer.Option(
            help="Environment module that jobs load, e.g. openmpi/5.0.10; repeatable, in the "
            "order of loading."
        ),
    ] = None,
    module_path: Annotated[
        Path | None,
        typer.Option(help="Folder of modulefiles to search first, as 'module use' does."),
    ] = None,
    collection: Annotated[
        str, typer.Option(help="Module collection to restore before the modules are loaded.")
    ] = "",
    system: Annotated[
        str | None,
        typer.Option(
            help="System whose module system is used; default: the one that ReFrame selects."
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the stack; default: <mpi>-system.")] = "",
    binaries: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder with programs (IMB-*, osu_*, hpcc, bt.C.x, network_test) built for "
            "this MPI's ABI; repeatable."
        ),
    ] = None,
    build: Annotated[
        list[str] | None,
        typer.Option(
            help="Suite to build for it with its mpicc, beside its metadata: osu=7.5 or "
            "imb=2021.11 (from MPIBENCH_SOURCES, default ~/.cache/mpibench/sources, else "
            "fetched), osu=PATH or osu=URL of a release tarball; repeatable."
        ),
    ] = None,
    gpu: Annotated[
        str,
        typer.Option(
            help="cuda or rocm: this MPI can send GPU memory but does not say so itself (Open MPI "
            "over UCX built for CUDA). '--build osu=...' then builds for these GPUs, with the "
            "toolkit on PATH or in CUDA_HOME or ROCM_PATH."
        ),
    ] = "",
    library: Annotated[
        Path | None, typer.Option(help="Its libmpi, if that is not below the launcher's prefix.")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the metadata; default: environments/system/<name>. Add others to "
            "MPIBENCH_STACKS."
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE to set for the stack, as its module does; repeatable."),
    ] = None,
    prepend_path: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FOLDER to prepend to a search path variable; repeatable."),
    ] = None,
) -> None:
    """Register an MPI that is installed on this machine as a stack of origin 'system'.

    The library must identify itself and its launcher must start two ranks. A benchmark program that
    does not start on it is left out with the reason. The caller's environment is not used: name the
    modules with --module, or what the MPI needs with --env and --prepend-path. On any error nothing
    is registered.
    """
    from mpibench.stacks import modules as module_system
    from mpibench.stacks import system as installed
    from reframe_tests.harness.stacks.modules import Module

    paths: dict[str, list[str]] = {}
    for key, folder in _pairs("--prepend-path", prepend_path):
        paths.setdefault(key, []).append(folder)
    entered = [Module(collection, collection=True)] if collection else []
    entered += [
        Module(word, path=str(module_path.absolute()) if module_path else "")
        for word in module or ()
    ]
    if not mpirun and not entered:
        raise BadInput(
            "nothing-measured",
            "name an MPI by its launcher (--mpirun) or its environment module (--module).",
        )
    installed.add(
        mpirun,
        name=name,
        library=library.absolute() if library else None,
        binaries=[folder.absolute() for folder in binaries or ()],
        builds=build or (),
        env=dict(_pairs("--env", env)),
        prepend_path=paths,
        entered=entered,
        modules_system=module_system.find_system(system) if entered else "",
        into=into.absolute() if into else None,
        gpu=gpu,
        say=typer.echo,
    )


@app.command()
def abi(
    stacks: Annotated[
        list[str] | None,
        typer.Argument(help="Registered stacks; default: all whose MPI has this ABI."),
    ] = None,
    build: Annotated[
        list[str] | None,
        typer.Option(help="Suite to build once for all of them, as for 'add'; repeatable."),
    ] = None,
    binaries: Annotated[
        list[Path] | None,
        typer.Option(help="Folder with programs built for this ABI; repeatable."),
    ] = None,
    mpi4py: Annotated[
        Path | None,
        typer.Option(help="Folder with an mpi4py built for this ABI (pip --target)."),
    ] = None,
) -> None:
    """Register stacks, <stack>-abi, that run the same programs through the MPI Forum's ABI.

    MPI 5.0 defines an ABI, which MPICH 5.0, Intel MPI 2021.18 and Open MPI 6 offer beside their
    own. Programs are built with the mpicc_abi of one of them, into environments/programs. An
    existing stack is replaced.
    """
    from mpibench.stacks import forum_abi

    forum_abi.add(
        stacks or (),
        build or (),
        binaries=[folder.absolute() for folder in binaries or ()],
        mpi4py=mpi4py.absolute() if mpi4py else None,
        say=typer.echo,
    )


@app.command()
def image(
    name: Annotated[str, typer.Argument(help="Name of the new stack.")],
    on: Annotated[
        str,
        typer.Option(
            help="Registered stack whose launcher starts the ranks from outside the container."
        ),
    ],
    enter: Annotated[
        str,
        typer.Option(
            help="Command that runs a program in the container, e.g. 'apptainer exec omb.sif'; "
            "this checkout and the results folder must be visible inside."
        ),
    ],
    binaries: Annotated[
        list[str],
        typer.Option(help="Folder in the container with the programs; repeatable."),
    ],
    host_mpi: Annotated[
        bool,
        typer.Option(
            "--host-mpi",
            help="Run the programs with the MPI of that stack, visible inside under the same path; "
            "default: with the MPI of the image.",
        ),
    ] = False,
) -> None:
    """Register the benchmark programs of a container image as a stack.

    Each program is started on two ranks in the container, where a recorder shows which MPI it ran.
    Programs that do not run are left out with the reason; on any error nothing is registered.
    """
    from mpibench.stacks import images

    images.add(name, on, enter, binaries, host_mpi=host_mpi, say=typer.echo)


@app.command()
def remove(
    name: Annotated[str, typer.Argument(help="Name of a stack that 'add' registered.")],
) -> None:
    """Unregister a stack of origin 'system' and remove suites built for it; the MPI itself is not
    touched.
    """
    from mpibench.stacks import system

    typer.echo(f"removed {system.remove(name)}")


def _pairs(option: str, words: list[str] | None) -> list[tuple[str, str]]:
    for word in words or ():
        if not word.partition("=")[0] or "=" not in word:
            raise BadInput(
                "configuration-unusable",
                f"{option} {word} is not of the form NAME=VALUE; correct it.",
            )
    return [(word.partition("=")[0], word.partition("=")[2]) for word in words or ()]


@app.command()
def build(
    stacks: Annotated[
        list[str] | None,
        typer.Argument(
            help="Folders under environments/, e.g. openmpi; default: all that need no device."
        ),
    ] = None,
    modules: Annotated[
        Path | None,
        typer.Option(help="Folder for modulefiles of the built stacks: tcl/ and lmod/Core/ in it."),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(
            help="System whose site_configs/<system>/spack is used; default: the one that ReFrame "
            "selects."
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Concretize again although nothing has changed.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Concretize and show what would be built; build nothing."),
    ] = False,
    skip_tests: Annotated[
        bool, typer.Option("--skip-tests", help="Skip the install-time tests.")
    ] = False,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=0, help="Processes per build; 0: Spack's default.")
    ] = 0,
    find: Annotated[
        bool,
        typer.Option(
            "--find",
            help="Write the compilers, build tools, MPIs and libraries of this machine that stacks "
            "can use into the site's configuration scope; build nothing.",
        ),
    ] = False,
) -> None:
    """Build MPI stacks with Spack: concretize, install, test,
    register. Safe to repeat and to interrupt.

    A registered stack is a ReFrame environment without further configuration. Spack's own output is
    in results/spack/<stack>.log. Exit status: 0 all are ready, 1 a stack could not be built (the
    others are built anyway).
    """
    from mpibench.stacks.spack import build as builder
    from mpibench.stacks.spack import scope

    if find:
        if stacks:
            raise BadInput(
                "options-exclude",
                f"--find builds nothing; leave out {' '.join(stacks)}, or build them with a "
                "second command.",
            )
        scope.write_found(system=system, echo=typer.echo)
        return
    if dry_run and modules:
        raise BadInput("options-exclude", "--dry-run builds nothing; leave out --modules.")
    options = builder.BuildOptions(
        fresh=fresh,
        concretize_only=dry_run,
        skip_tests=skip_tests,
        jobs=jobs,
        modules=modules.absolute() if modules else None,
    )
    failures = builder.build(stacks or (), options, system=system, echo=typer.echo)
    for failure in failures:
        typer.echo(f"mpibench: {failure}", err=True)
    raise typer.Exit(int(bool(failures)))
