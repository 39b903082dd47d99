"""``mpibench doctor``: what this machine offers and lacks; ``catalogue``: the benchmarks, and their outputs as records."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import Annotated

import typer

from reframe_tests.harness.vocabulary import BadInput

from .options import Json, expect_alone, say_json


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
    RDMA devices, the system's fabrics (is each device here?), scheduler, Spack and browser; of a system with published
    figures also whether the bandwidths that its paper prints fit its links, which proves nothing of this machine.
    Exit status: 0 the tests have all they need, 1 something they need is missing.
    """
    from mpibench.commands.listings import doctor as examination

    if draft and as_json:
        raise BadInput("options-exclude", "--draft prints a file and --json an answer: give one of them.")
    raise typer.Exit(examination.report(system, stacks_only=stacks_only, draft_only=draft, as_json=as_json))


def catalogue(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME | FILE...]",
            help="A group (p2p, collectives), a suite (imb, osu), a benchmark (Allreduce) or a program; with --parse files.",
        ),
    ] = None,
    tests: Annotated[bool, typer.Option("--tests", help="Each group in a line, with the test that measures it.")] = False,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="What releases of the suites offer, and which test measures it, as Markdown.")
    ] = False,
    parse: Annotated[
        bool, typer.Option("--parse", help="Read outputs of any suite of the catalogue as records; FILE - is standard input.")
    ] = False,
    format: Annotated[TableFormat, typer.Option("--format", "-f", help="How --parse prints.")] = TableFormat.table,
    as_json: Json = False,
) -> None:
    """List what the tests can measure: the groups of each suite; or read what benchmarks printed.

    With a name: its benchmarks with program, ranks, quantities with units, and the sizes that may have a reference.
    --parse makes records: benchmark, ranks, groups, message_bytes, repetitions, one field per column, whose name carries the
    unit (latency_us, bandwidth_mb_per_s with 1 MB = 1e6 bytes). A truncated, mixed-up or empty output is an error that names
    file and line, and nothing of it is printed, and so is a log that says that the run failed. Of OSU and IMB each whole table
    of a job's log is read; lines of other programs around them are set aside, and standard error says how many. Exit status: 0
    all were read, 2 one was not.
    """
    from mpibench.commands.listings import catalogue as listing
    from mpibench.commands.listings import coverage as coverage_page
    from mpibench.commands.listings import parse as parsing

    if parse:
        expect_alone(context, "--parse", "parse", "names", "format", "as_json")
        if not names:
            raise BadInput("parse-without-files", "--parse reads outputs: name their files, or - for standard input.")
        kind = "json" if as_json else format.value
        sys.stdout.write(parsing.parse_files([Path(name) for name in names], kind, lambda text: typer.echo(text, err=True)))
        return
    if len(names or ()) > 1:
        raise BadInput(
            "catalogue-one-name",
            f"the catalogue is asked for one name and not {len(names or ())}: give one, or --parse to read files.",
        )
    name = next(iter(names or ()), None)
    if format is not TableFormat.table:
        raise BadInput("parse-without-files", "--format says how --parse prints: give files and --parse, or --json.")
    if coverage:
        typer.echo(coverage_page.page(), nl=False)
    elif as_json:
        say_json(listing.as_data(name))
    else:
        listing.show(name, tests_of_groups=tests)
