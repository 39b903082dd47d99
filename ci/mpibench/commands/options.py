"""Options that commands share, and how all of them handle a dataset and an answer."""

from __future__ import annotations

import contextlib
import json
import re
import webbrowser
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from mpibench import whole_file
from reframe_tests.harness import tools
from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import ROOT, BadInput

if TYPE_CHECKING:  # what a command needs is loaded when it runs
    from mpibench.store.store import Store

RESULTS = ROOT / "results"
DATABASE = RESULTS / "results.db"


def elsewhere(folder: Path | None) -> Any:
    """What copies folders to the address, such as ``s3://BUCKET/FOLDER``, that was given instead of
    a folder, and back; ``None`` for a folder.
    """
    # A Path has one slash there, or none. A folder whose name ends so is given with all before it.
    said = re.fullmatch(r"([^/]*):(?:/(.*))?", str(folder), re.DOTALL)
    if said is None:
        return None
    scheme, place = said[1], said[2] or ""
    return tools.find(tools.PLACES, scheme.lower(), repr(f"{scheme}://{place}"))(place)


def fetched(context: typer.Context, folder: Path | None) -> Path | None:
    """A folder; instead of an address a copy of what is there, until the command ends. What the
    command changes in it goes back.
    """
    place = elsewhere(folder)
    if place is None or context.resilient_parsing:  # a shell that completes the command
        return folder
    return Path(context.with_resource(place.fetched()))


Db = Annotated[
    Path,
    typer.Option(
        help="ReFrame's results database. New sessions are exported first; those of this checkout "
        "only into its own dataset."
    ),
]
Dataset = Annotated[
    Path | None,
    typer.Option(
        callback=fetched,
        help="Folder of the Parquet dataset, or s3://BUCKET/FOLDER; default: dataset beside the "
        "results database.",
        show_default=False,
    ),
]
DatasetOnly = Annotated[
    bool,
    typer.Option("--dataset-only", help="Use the dataset as it is, without a results database."),
]
System = Annotated[
    str | None,
    typer.Option(
        envvar="RFM_SYSTEM",
        # ReFrame's variable may name a partition
        callback=lambda name: name and name.partition(":")[0],
        help="System; needed if the dataset or the session has several.",
    ),
]
Session = Annotated[str, typer.Option(help="Session: its id, the beginning of its id, or latest.")]
Where = Annotated[
    str | None, typer.Option(help="Only matching cases, e.g. 'fabric == \"eth1g\" and ppn == 1'.")
]
History = Annotated[
    str | None,
    typer.Option(
        help="Sessions from which to learn how much nights differ: a selector (now-90d:now), or "
        "none; default: the 30 newest earlier ones that measured the same."
    ),
]
Show = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
Json = Annotated[bool, typer.Option("--json", help="Print the whole answer as JSON.")]


def expect_alone(context: typer.Context, option: str, *beside: str) -> None:
    """Refuse options that would do nothing beside one that asks something else.

    :param option: as it is written; ``beside``: parameters that count with it.
    """
    sources = {
        param.opts[0]: context.get_parameter_source(str(param.name))
        for param in context.command.params
        if param.name not in beside
    }
    given = [
        word
        for word, source in sources.items()
        if source is not None and source.name == "COMMANDLINE"
    ]
    if given:
        raise BadInput(
            "options-exclude", f"{option} stands alone: leave {' and '.join(given)} out."
        )


def open_store(
    db: Path,
    dataset: Path | None,
    dataset_only: bool = False,
    *,
    reported: bool = False,
    err: bool = False,
) -> Store:
    """The dataset, with what it lacked of the database; one that
    :func:`is_foreign` is taken as it is.

    :param reported: the command itself says which sessions could not be read.
    """
    from mpibench.store.store import Store

    store = Store(dataset or db.parent / "dataset")
    refused = store.bring_up_to_date(db, without_db=dataset_only or is_foreign(db, dataset))
    say([] if reported else refused, err=err)
    return store


def is_foreign(db: Path, dataset: Path | None) -> bool:
    """Whether the database is this checkout's, and the dataset another one than its own."""
    own = (DATABASE.resolve(), (RESULTS / "dataset").resolve())
    return dataset is not None and db.resolve() == own[0] and dataset.resolve() != own[1]


def say(lines: Iterable[str], *, err: bool = False) -> None:
    """Each line as one line, whatever is stored in the dataset."""
    for line in lines:
        typer.echo(one_line(line), err=err)


def say_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=2))


def write(path: Path, text: str, *, err: bool = False) -> None:
    """Write a requested file, and say so."""
    from mpibench.pages import page

    with _said(path, err=err):
        page.write(path, text)


@contextlib.contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """A requested file that is written piece by piece, and what says so."""
    with _said(path), whole_file.opened(path) as stream:
        yield stream


@contextlib.contextmanager
def _said(path: Path, *, err: bool = False) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or error  # Polars gives no number of an error
        raise BadInput(
            "cannot-write", f"cannot write {path} ({why}): give another --out."
        ) from None
    typer.echo(f"wrote {path}", err=err)


def open_page(page: Path) -> None:
    """Open a page in a browser; print a hint if there is none."""
    try:
        opened = webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        opened = False
    if not opened:
        say([f"no browser found: open {page} on another machine"], err=True)
