"""``mpibench site``: the static site of results over nights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import ROOT

RESULTS = ROOT / "results"


def site(
    dataset: Annotated[Path, typer.Option(help="Folder of the Parquet dataset.")] = RESULTS / "dataset",
    out: Annotated[Path, typer.Option(help="Folder of the site; what the next build needs is kept beside it.")] = RESULTS
    / "site",
    judge: Annotated[
        int, typer.Option(min=0, help="Newest nights of each system to hold against those before, where nobody did.")
    ] = 1,
) -> None:
    """Bring the site of results up to date: systems and nights, metrics over time, cases, jobs' output and proof.

    Static pages for a file share or a web server; no network is asked for. Open index.html. A day is green only where a whole
    session proved every case and reached all it was held against; withdrawn sessions are shown as that. Pages link to the jobs'
    folders; script and output of failed cases are on the pages themselves. Only what changed is written again.
    Exit status: 0 written, 2 bad input, also a folder that cannot be written.
    """
    from mpibench.site import building

    built = building.build(dataset, out, judged=judge)
    for line in (*built.sentences, str(built)):
        typer.echo(one_line(line))


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(site)
