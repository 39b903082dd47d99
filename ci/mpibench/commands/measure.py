"""``mpibench doctor`` and ``catalogue``: what this machine offers and what can be measured.
``plan`` and ``nightly``: a night as one session, and the cases that it measures within its budget.
"""

from __future__ import annotations

import enum
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from reframe_tests.harness.printable import printable
from reframe_tests.harness.vocabulary import BadInput

from .options import RESULTS, Dataset, Json, expect_alone, say, say_json, write


class TableFormat(str, enum.Enum):
    """How records are printed."""

    table = "table"
    json = "json"
    csv = "csv"


def doctor(
    system: Annotated[
        str | None, typer.Option(help="System to check; default: the one that ReFrame selects.")
    ] = None,
    stacks_only: Annotated[
        bool,
        typer.Option(
            "--stacks", help="Check only whether each partition has the stacks that it names."
        ),
    ] = False,
    draft: Annotated[
        bool,
        typer.Option(
            "--draft",
            help="Print only a draft of 'extras' for a system of your ReFrame configuration.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Report what this machine and the selected system offer, what is missing, and how to get it.

    Checks Python and ReFrame, compiler and evidence library, stacks and the partitions that get
    them, topology, network and RDMA devices, the system's fabrics (is each device here?),
    scheduler, Spack and browser. For a system with published figures it also checks that these fit
    its links; that proves nothing about this machine. Exit status: 0 everything needed is there, 1
    something is missing.
    """
    from mpibench.commands.listings import doctor as examination

    if draft and as_json:
        raise BadInput(
            "options-exclude", "--draft prints a file, --json an answer: give one of them."
        )
    raise typer.Exit(
        examination.report(system, stacks_only=stacks_only, draft_only=draft, as_json=as_json)
    )


def catalogue(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME | FILE...]",
            help="A group (p2p, collectives), a suite (imb, osu), a benchmark (Allreduce) or a "
            "program; with --parse files.",
        ),
    ] = None,
    tests: Annotated[
        bool, typer.Option("--tests", help="List each group with the test that measures it.")
    ] = False,
    parse: Annotated[
        bool,
        typer.Option(
            "--parse",
            help="Parse outputs of any suite in the catalogue; FILE - is standard input.",
        ),
    ] = False,
    format: Annotated[
        TableFormat, typer.Option("--format", "-f", help="How --parse prints.")
    ] = TableFormat.table,
    as_json: Json = False,
) -> None:
    """List what the tests can measure (the groups of each suite), or parse benchmark output.

    With a name: its benchmarks with program, ranks, quantities with units, and the sizes that may
    have a reference. --parse makes records: benchmark, ranks, groups, message_bytes, repetitions,
    one field per column, whose name carries the unit (latency_us, bandwidth_mb_per_s with 1 MB =
    1e6 bytes). A truncated, mixed-up or empty output, or a log of a failed run, is an error that
    names file and line; nothing of it is printed. For OSU and IMB, each complete table of a job's
    log is read; lines of other programs around them are ignored and counted on standard error. If a
    step of a log failed, standard error says which one and what is left out with it; the others are
    printed. Exit status: 0 everything was read, 1 something in a log was left out, 2 a file was not
    read.
    """
    from mpibench.commands.listings import catalogue as listing
    from mpibench.commands.listings import parse as parsing

    if parse:
        expect_alone(context, "--parse", "parse", "names", "format", "as_json")
        if not names:
            raise BadInput(
                "bad-option",
                "--parse needs files: name the outputs to read, or - for standard input.",
            )
        kind = "json" if as_json else format.value
        faults = list[BadInput]()
        files = [Path(name) for name in names]
        sys.stdout.write(
            parsing.parse_files(files, kind, lambda text: typer.echo(text, err=True), faults.append)
        )
        for fault in faults:
            typer.echo(printable(f"mpibench: {fault} [{fault.code}]"), err=True)
        raise typer.Exit(bool(faults))
    if len(names or ()) > 1:
        raise BadInput(
            "ambiguous-name",
            f"the catalogue is asked for one name and not {len(names or ())}: give one, or "
            "--parse to read files.",
        )
    name = next(iter(names or ()), None)
    if format is not TableFormat.table:
        raise BadInput(
            "bad-option", "--format says how --parse prints: give files and --parse, or --json."
        )
    if as_json:
        say_json(listing.as_data(name))
    else:
        listing.show(name, tests_of_groups=tests)


def plan(
    context: typer.Context,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Budget of the night: minutes (10m) or hours (1.5h) for each partition, or "
            "node-hours (20nodeh) for all together; default: that of the mode on a batch "
            "system."
        ),
    ] = None,
    date: Annotated[
        str | None, typer.Option(help="Day (UTC) of the night, YYYY-MM-DD; default: today.")
    ] = None,
    mode: Annotated[str, typer.Option(help="Mode whose cases are planned.")] = "nightly",
    label: Annotated[
        str | None, typer.Option(help="Label of the night (run=...); default: the mode.")
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="SYSTEM or SYSTEM:PARTITION; default: as ReFrame selects.")
    ] = None,
    max_jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Jobs of a partition that may be queued or running at a time (ReFrame's "
            "max_jobs).",
        ),
    ] = None,
    dataset: Dataset = None,
    out: Annotated[Path | None, typer.Option(help="Write the plan to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Show which cases a night within a budget measures: what `BUDGET=... ci/nightly` would run.
    Measures nothing.

    Cases that have waited longest come first, as far as each partition has room, so every case
    returns; the answer says after how many nights. One case for each entry of expected.yaml, and
    what was not right when last tried, come before the others, in half of the room. Costs are those
    of earlier nights with the label, or of a model. The plan of a day is the same whenever it is
    made. Options for ReFrame may follow after `--`. Exit status: 0 the plan keeps these promises, 1
    it does not, or the budget is too small for any case, 2 bad input.
    """
    from mpibench.judge.plan import making
    from mpibench.night import settings

    try:
        day = (
            datetime.strptime(date, "%Y-%m-%d").date()
            if date
            else datetime.now(timezone.utc).date()
        )
    except ValueError:
        raise BadInput("bad-option", f"--date {date} is not a date: write YYYY-MM-DD.") from None
    folder = dataset or RESULTS / "dataset"
    most_jobs = str(max_jobs or "")
    options = [*context.args, *([f"--system={system}"] if system else [])]
    budget = budget or str(settings.mode_of(mode).get("budget", ""))
    if not budget:
        raise BadInput(
            "bad-option",
            f"mode {mode} has no default budget: give one, as in --budget 30m.",
        )
    request = settings.request(
        budget, mode, label or mode, options, folder, day=day, max_jobs=most_jobs
    )
    made = making.make(request)
    if out:
        write(out, made.record.text, err=True)
    if as_json:
        say_json(making.as_data(made))
    else:
        say(making.lines(made))
    raise typer.Exit(1 if made.record.broken else 0)


def nightly(context: typer.Context) -> None:
    """Measure a night as one session, export, report and judge it;
    further options are ReFrame's and make it partial.

    `ci/nightly` does this after the set-up; `ci/nightly --help` lists the environment variables of
    both (MODE, LABEL, BUDGET, PREFLIGHT, CONFIRM_MINUTES, ...). Exit status: 0 every measurable
    case is proven and meets its references, and no expected case is missing, 1 otherwise, 2 nothing
    was measured, 128 + N after signal N.
    """
    from mpibench.commands import nightly as night

    raise typer.Exit(night.main(context.args))
