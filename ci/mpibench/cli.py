"""The ``mpibench`` command: what happens around the tests. Each sub-command is thin; its module does the work."""

from __future__ import annotations

import enum
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from mpibench.commands import error_rates as error_rate_commands
from mpibench.commands import verdicts as verdict_commands
from mpibench.commands.cluster import app as cluster_app
from mpibench.commands.stacks import app as stacks_app
from reframe_tests.harness.printable import one_line, printable
from reframe_tests.harness.vocabulary import ROOT, BadInput

app = typer.Typer(
    name="mpibench",
    help="Tools around the MPI fabric tests: check the machine, build and register stacks, report, compare and judge sessions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(stacks_app, name="stacks")
app.add_typer(cluster_app, name="cluster")

RESULTS = ROOT / "results"
#: Exit status for bad input, as typer uses it for bad usage.
BAD_INPUT = 2
#: Exit status where the program itself fails (``sysexits(3)``, EX_SOFTWARE): never one that a command uses for an answer.
CRASHED = 70
#: Exit status where nobody reads the output to its end: 128 + SIGPIPE, as of a program that the signal ends.
UNREAD = 141


class TableFormat(str, enum.Enum):
    """How records are printed."""

    table = "table"
    json = "json"
    csv = "csv"


@app.command()
def doctor(
    system: Annotated[str | None, typer.Option(help="System to check; default: the one ReFrame selects here.")] = None,
    stacks_only: Annotated[
        bool, typer.Option("--stacks", help="Check only whether each partition gets the stacks it asks for.")
    ] = False,
) -> None:
    """Report what this machine and the selected system offer, what is missing, and how to get it.

    Checks Python and ReFrame, compiler and evidence library, stacks and the partitions that get them, topology, network and
    RDMA devices, the system's fabrics (is each device here?), scheduler, Spack and browser. Exit status: 0 the tests have all
    they need, 1 something they need is missing.
    """
    from mpibench.commands import doctor as examination

    raise typer.Exit(examination.report(system, stacks_only=stacks_only))


@app.command()
def build(
    stacks: Annotated[list[str] | None, typer.Argument(help="Folders under environments/, e.g. openmpi; default: all.")] = None,
    mirror: Annotated[
        list[str] | None,
        typer.Option(help="Folder or URL of a build cache or source mirror; signatures are not checked; repeatable."),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(help="System whose site_configs/<system>/spack is used; default: as ReFrame selects."),
    ] = None,
    cache_only: Annotated[
        bool, typer.Option("--cache-only", help="Take everything from build caches; compile nothing.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Concretize again although nothing has changed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Concretize and show what would be built; build nothing.")] = False,
    skip_tests: Annotated[bool, typer.Option("--skip-tests", help="Skip the install-time tests.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Processes per build; 0: Spack's default.")] = 0,
    find: Annotated[
        bool,
        typer.Option(
            "--find",
            help="Write this machine's compilers and build tools into the site's configuration scope; build nothing.",
        ),
    ] = False,
) -> None:
    """Build MPI stacks with Spack: concretize, install, test, register. Safe to repeat and to interrupt.

    A registered stack is a ReFrame environment without further configuration. Spack's own output is in
    results/spack/<stack>.log. Exit status: 0 all are ready, 1 a stack could not be built (the others are built all the same).
    """
    from mpibench.spack import build as builder
    from mpibench.spack import scope

    if find:
        if stacks:
            raise BadInput(f"--find builds nothing; leave out {' '.join(stacks)}, or build them with a second command.")
        scope.write_found(system=system, echo=typer.echo)
        return
    options = builder.BuildOptions(tuple(mirror or ()), cache_only, fresh, dry_run, skip_tests, jobs)
    failures = builder.build(stacks or (), options, system=system, echo=typer.echo)
    for failure in failures:
        typer.echo(f"mpibench: {failure}", err=True)
    raise typer.Exit(int(bool(failures)))


@app.command()
def orphans(
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel them.")] = False,
) -> None:
    """List Slurm jobs and launches on this machine whose ReFrame was killed, so that nothing reads their results.

    Each job names the host and process of its ReFrame; only jobs that this user started from this host can be known to be
    orphans. Their files stay in the stage directory. Exit status: 0 none is left, 1 there are some that were not cancelled.
    """
    from mpibench.commands import orphans as search

    raise typer.Exit(search.report(cancel, typer.echo))


@app.command()
def prune(
    older_than: Annotated[int, typer.Option(min=1, help="Days since the session's files were last written.")],
    remove: Annotated[bool, typer.Option("--remove", help="Remove them; without this they are only listed.")] = False,
) -> None:
    """List or remove stage and output folders, logs and reports of old sessions; nothing else ever removes them.

    Also what killed writers left half written (.NAME.PID.partial), once it is a day old and its process is gone.

    The numbers stay: results database, dataset, references and acceptance records are not touched. Links from other reports
    to removed folders are dead afterwards.
    """
    from mpibench.results import session_files

    for line in session_files.prune(RESULTS, older_than, remove):
        typer.echo(line)


@app.command()
def catalogue(
    group: Annotated[str | None, typer.Argument(help="Only this group, e.g. p2p, transfer, collectives.")] = None,
) -> None:
    """List the benchmarks: group, suite, binary, ranks, quantities with units, and the sizes that may have a reference."""
    from mpibench.commands import catalogue as catalogue_command

    catalogue_command.show(group)


@app.command()
def parse(
    files: Annotated[list[Path], typer.Argument(help="Outputs of IMB, OSU, mpi4py.bench or perftest; - reads standard input.")],
    format: Annotated[TableFormat, typer.Option("--format", "-f", help="How to print the records.")] = TableFormat.table,
) -> None:
    """Parse benchmark outputs into records: benchmark, ranks, groups, message_bytes, repetitions, one field per column.

    Field names carry the unit (latency_us, bandwidth_mb_per_s with 1 MB = 1e6 bytes). A truncated, mixed-up or empty
    output is an error that names file and line, and nothing of it is printed. Known lines of MPI library, launcher and batch
    system before the title are skipped, and standard error says how many. Exit status: 0 all were read, 2 one was not.
    """
    from mpibench.commands import parse as parse_command

    sys.stdout.write(parse_command.parse_files(files, format.value, lambda text: typer.echo(text, err=True)))


@app.command()
def export(
    db: Annotated[Path, typer.Option(help="ReFrame's results database.")] = RESULTS / "results.db",
    out: Annotated[Path, typer.Option(help="Folder of the Parquet dataset.")] = RESULTS / "dataset",
    session: Annotated[list[str] | None, typer.Option(help="Only these sessions (uuid); default: all.")] = None,
) -> None:
    """Export sessions to a Parquet dataset: one row per repeat, metric and size, partitioned by system and date.

    Exporting a session again replaces its rows. Failed cases are kept, marked, and listed in the table `cases`.
    """
    from mpibench.results import dataset

    typer.echo(dataset.export(db, out, session))


@app.command()
def report(
    db: Annotated[Path, typer.Option(help="ReFrame's results database.")] = RESULTS / "results.db",
    session: Annotated[str, typer.Option(help="Session uuid, or 'latest'.")] = "latest",
    out: Annotated[
        Path | None,
        typer.Option(
            help="HTML file to write, with a .md summary beside it; default: reports/<session>.html and report.html "
            "in the database's folder."
        ),
    ] = None,
    published: Annotated[
        list[str] | None,
        typer.Option(help="Show published figures beside a fabric, e.g. eth1g=openhpc-mini/eth1g; repeatable."),
    ] = None,
) -> None:
    """Write one self-contained HTML page for a session: verdicts, curves, heat maps, and the evidence behind each number.

    Published figures are shown beside the measured ones, with the ratio, where a fabric in system.py has `published` or
    --published names it; they are never judged.
    """
    from mpibench.report import report as pages

    for line in pages.write(db, session, out, published or ()):
        typer.echo(one_line(line))


verdict_commands.register(app)
error_rate_commands.register(app)


@app.command()
def claims(system: Annotated[str, typer.Argument(help="A published system, e.g. openhpc-mini.")]) -> None:
    """Check a paper's claims against the figures it prints: each sentence with its ratio, the bounds and their source.

    Where a paper prints no numbers the answer is 'no figures', never that the claim holds.
    """
    from mpibench.published import claims as asked

    for line in asked.lines(system):
        typer.echo(line)


@app.command()
def published(system: Annotated[str, typer.Argument(help="A published system, e.g. openhpc-mini.")]) -> None:
    """Compare the bandwidths a paper prints with the links of its machine: line rate, payload limit, minimum efficiency.

    Nothing is run or parsed: the figures are the paper's and prove nothing. Exit status: 0 all agree, 1 one does not agree
    with its link, 2 the paper prints none that can be compared with one.
    """
    from mpibench.published import figures as published_figures

    lines, status = published_figures.report(system)
    for line in lines:
        typer.echo(line)
    raise typer.Exit(status)


def require_checkout(root: Path) -> None:
    """Systems, stacks, schemas and results lie in the checkout; a copy of the modules alone knows none of them.

    :raises BadInput: if the modules were installed apart from it.
    """
    if not (root / "site_configs" / "settings.py").is_file():
        raise BadInput(
            f"{root} has the program without the systems and stacks of its checkout; run ci/setup of a checkout, or in an "
            "environment of your own pip install --editable CHECKOUT."
        )


def main(argv: list[str] | None = None, run: Callable[..., object] = app) -> int:
    """Entry point: bad input is one sentence on standard error and exit status 2, never a traceback.

    Status 0, 1 and 3 are answers of a command. What is none has another status: 2 bad input, 70 a defect of this program
    (with its traceback), 130 interrupted, 141 the output was not read to its end.
    """
    try:
        require_checkout(ROOT)
        run(args=argv, standalone_mode=True)
    except BadInput as error:
        typer.echo(printable(f"mpibench: {error}"), err=True)
        return BAD_INPUT
    except BrokenPipeError:
        return UNREAD
    except KeyboardInterrupt:
        return 130
    except SystemExit as end:
        # typer and rich end with 1 here, which commands use for "refused".
        if isinstance(end.__context__, BrokenPipeError):
            return UNREAD
        return int(end.code or 0) if _is_own(end) else _crashed(end)
    except Exception as error:
        return _crashed(error)
    return 0


def _is_own(end: SystemExit) -> bool:
    """Whether this program or typer ended it, and no file or library that a command has loaded."""
    ends = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(end.__traceback__)]
    return ends[-1].partition(".")[0] in ("typer", "mpibench")


def _crashed(error: BaseException) -> int:
    """Print what is neither an answer nor bad input; exit status."""
    traceback.print_exception(error)
    typer.echo(
        f"mpibench: this is a defect of mpibench and no answer ({type(error).__name__}); report it with the lines above.",
        err=True,
    )
    return CRASHED
