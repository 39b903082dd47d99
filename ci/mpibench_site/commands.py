"""``mpibench site``: a static site of what a dataset holds; ``mpibench demo``: one of nights that
were recorded, with the other pages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mpibench.commands.options import (
    DATABASE,
    RESULTS,
    Dataset,
    DatasetOnly,
    Db,
    Show,
    elsewhere,
    open_page,
    open_store,
    say,
)

app = typer.Typer()


@app.command(rich_help_panel="Look")
def site(
    db: Db = DATABASE,
    dataset: Dataset = None,
    dataset_only: DatasetOnly = False,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of the site; files for the next build are stored beside it. To "
            "s3://BUCKET/FOLDER the site in results/site is copied."
        ),
    ] = RESULTS / "site",
    judge: Annotated[
        int,
        typer.Option(
            min=0,
            help="How many of the newest nights of each system to judge, if not yet judged.",
        ),
    ] = 1,
) -> None:
    """Bring the site of results up to date: systems and nights, metrics
    over time, cases, jobs' output and proof.

    Static pages for a file share or a web server; no network is needed. Open index.html. A day
    is green only where a whole session proved every case, reached its references and is like the
    nights before; withdrawn sessions are shown as that. Pages link to the jobs' folders; script and
    output of failed cases are on the pages themselves. Only what changed is written again.
    Exit status: 0 written, 2 bad input, also a folder that cannot be written.
    """
    from mpibench.store.store import Store
    from mpibench_site import site as building

    alone = dataset_only or not db.is_file()
    store = Store(dataset or db.parent / "dataset") if alone else open_store(db, dataset)
    place = elsewhere(out)
    here = RESULTS / "site" if place else out
    built = building.build(store, here, judged=judge)
    say((*built.sentences, str(built)))
    if place:
        say([place.send(here)])


@app.command(rich_help_panel="Look")
def demo(
    out: Annotated[Path, typer.Argument(help="Folder to create; it must not exist.")] = Path(
        "mpibench-demo"
    ),
    show: Show = False,
) -> None:
    """Look at results before measuring any: pages of six recorded nights, the last one red.

    Writes the results site, the report of the red night, a comparison of two MPI stacks and the map
    of all pairs of nodes, and a copy of the dataset for commands to try. Nothing is measured.
    Exit status: 0 written, 2 bad input, also a folder that exists or cannot be written.
    """
    from mpibench_site import demo as recorded

    say(recorded.make(out))
    if show:
        open_page(out / recorded.SITE)
