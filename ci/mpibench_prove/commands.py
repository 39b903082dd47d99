"""``mpibench prove``: what one run really used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from mpibench import exit_status, whole_file
from mpibench_prove import BYTES_FROM, FORMS
from reframe_tests.harness.printable import printable
from reframe_tests.harness.vocabulary import BadInput

app = typer.Typer(
    pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)


@app.command(
    rich_help_panel="Diagnose",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def prove(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND...", help="The command that starts the ranks: mpirun -n 64 ./app"
        ),
    ],
    expect: Annotated[
        list[str] | None,
        typer.Option(
            help=f"{', '.join(FORMS.values())}; repeatable. Exit status 3 if one is not met, or "
            "cannot be decided."
        ),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", dir_okay=False, help="Write all details to this file."
        ),
    ] = None,
    bytes_from: Annotated[
        int,
        typer.Option(min=0, help="Ignore fewer bytes than this between nodes."),
    ] = BYTES_FROM,
    dir: Annotated[
        Path,
        typer.Option(
            "--dir",
            file_okay=False,
            exists=True,
            help="Folder for the records that all nodes share.",
        ),
    ] = Path(),
    keep: Annotated[bool, typer.Option("--keep", help="Keep the records.")] = False,
) -> None:
    """Run a command that starts MPI ranks, and say what they really used: which MPI library, which
    network and how much of it, which cores, memory and GPUs.

    Nothing has to be described or installed first: a small library is preloaded into the ranks,
    which reads the kernel's counters when MPI begins and when it ends, and nothing in between. The
    command keeps its output and its exit status; the answer goes to standard error.
    Exit status: the command's own; 3 where it is 0 and something expected does not hold.
    """
    # Late: every command loads this module, also where a site's own records cannot be read.
    from mpibench_prove import answer, launch

    words = command[1:] if command[0] == "--" else command
    if not words:
        raise BadInput("bad-option", "no command given: mpibench prove -- mpirun -n 2 ./app.")
    answer.check_words(expect or ())
    if json and not os.access(json if json.exists() else json.parent, os.W_OK):
        raise BadInput(
            "cannot-write", f"{json}: cannot be written, or its folder is missing (--json)."
        )
    run = launch.run(words, dir, keep=keep)
    proof = answer.prove(run, expect or (), bytes_from)
    lines = [*proof.lines(), *([f"records: {run.folder}"] if keep else [])]
    status = proof.status
    try:
        if json:
            text = msgspec.json.format(msgspec.json.encode(proof)).decode()
            whole_file.write_text(json, text)
    except OSError as error:
        lines.append(f"{json}: {error.strerror}; not written.")
        status = status or exit_status.BAD_INPUT
    try:
        for line in lines:
            typer.echo(printable(f"prove: {line}"), err=True)
    except OSError:  # nobody hears it: where the command did well, that is no answer
        status = status or exit_status.BAD_INPUT
    raise typer.Exit(status)
