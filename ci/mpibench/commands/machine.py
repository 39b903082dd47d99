"""``mpibench doctor``: what this machine offers and lacks; ``catalogue`` and ``parse``: the benchmarks, and their outputs as
records."""

from __future__ import annotations

import enum
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from reframe_tests.harness.vocabulary import BadInput

Json = Annotated[bool, typer.Option("--json", help="The whole answer as JSON on standard output.")]


class TableFormat(str, enum.Enum):
    """How records are printed."""

    table = "table"
    json = "json"
    csv = "csv"


def doctor(
    system: Annotated[str | None, typer.Option(help="System to check; default: the one ReFrame selects here.")] = None,
    stacks_only: Annotated[
        bool, typer.Option("--stacks", help="Check only whether each partition gets the stacks it asks for.")
    ] = False,
    draft: Annotated[
        bool,
        typer.Option("--draft", help="Print only a draft of extras, for a system of your ReFrame configuration."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Report what this machine and the selected system offer, what is missing, and how to get it.

    Checks Python and ReFrame, compiler and evidence library, stacks and the partitions that get them, topology, network and
    RDMA devices, the system's fabrics (is each device here?), scheduler, Spack and browser. Exit status: 0 the tests have all
    they need, 1 something they need is missing.
    """
    from mpibench.commands.listings import doctor as examination

    if draft and as_json:
        raise BadInput("--draft prints a file and --json an answer: give one of them.")
    raise typer.Exit(examination.report(system, stacks_only=stacks_only, draft_only=draft, as_json=as_json))


def catalogue(
    name: Annotated[
        str | None, typer.Argument(help="A group (p2p, collectives), a suite (imb, osu), a benchmark (Allreduce) or a program.")
    ] = None,
    tests: Annotated[bool, typer.Option("--tests", help="Each group in a line, with the test that measures it.")] = False,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="What releases of the suites offer, and which test measures it, as Markdown.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List what the tests can measure: the groups of each suite.

    With a name: its benchmarks with program, ranks, quantities with units, and the sizes that may have a reference.
    """
    from mpibench.commands.listings import catalogue as catalogue_command
    from mpibench.commands.listings import coverage as coverage_page

    if coverage:
        typer.echo(coverage_page.page(), nl=False)
        return
    if as_json:
        typer.echo(json.dumps(catalogue_command.as_data(name), indent=2))
        return
    catalogue_command.show(name, tests_of_groups=tests)


def parse(
    files: Annotated[list[Path], typer.Argument(help="Outputs of any suite of 'mpibench catalogue'; - reads standard input.")],
    format: Annotated[TableFormat, typer.Option("--format", "-f", help="How to print the records.")] = TableFormat.table,
) -> None:
    """Parse benchmark outputs into records: benchmark, ranks, groups, message_bytes, repetitions, one field per column.

    Field names carry the unit (latency_us, bandwidth_mb_per_s with 1 MB = 1e6 bytes). A truncated, mixed-up or empty
    output is an error that names file and line, and nothing of it is printed, and so is a log that says that the run failed.
    Of OSU and IMB each whole table of a job's log is read; lines of other programs around them are set aside, and standard
    error says how many. Exit status: 0 all were read, 2 one was not.
    """
    from mpibench.commands.listings import parse as parse_command

    sys.stdout.write(parse_command.parse_files(files, format.value, lambda text: typer.echo(text, err=True)))


def register(program: typer.Typer) -> None:
    """Add the commands to the program."""
    for command in (doctor, catalogue, parse):
        program.command()(command)
