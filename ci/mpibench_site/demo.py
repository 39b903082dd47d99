"""Every kind of page, of nights that were recorded (``recorded/README.md`` says where and how)."""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import typer

from mpibench.commands import diagnose
from mpibench.judge import pairing
from mpibench.pages import comparison, page, session
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import BadInput

from . import site

RECORDED = Path(__file__).parent / "recorded" / "dataset"
SITE = "site/index.html"
REPORT = "report.html"
COMPARISON = "compare.html"
MAP = "map.html"


def make(out: Path) -> list[str]:
    """Write the folder; what is in it, a line each.

    :raises BadInput: it exists or cannot be written.
    """
    with page.writing(out):
        try:
            out.mkdir(parents=True)
        except FileExistsError:
            raise BadInput("name-taken", f"{out} exists: name a new folder.") from None
        shutil.copytree(RECORDED, out / "dataset")
        return [*_pages(Store(out / "dataset"), out)]


def _pages(store: Store, out: Path) -> list[str]:
    [system] = store.systems
    green = store.session_rows(system)[0]["session"]
    shown = store.session()
    site.build(store, out / "site", now=shown.started + timedelta(hours=1))
    session.write(store, shown, out, out / REPORT)
    values = store.select(system, green).values
    sides = sorted(values["stack"].unique())
    compared = pairing.pair(store, green, "stack", *sides)
    page.write(out / COMPARISON, comparison.page(compared, values))
    with suppress(typer.Exit):  # its status is 1: somebody is accused
        diagnose.locate(shown.uuid, dataset=store.folder, dataset_only=True, out=out / MAP)
    about = {
        SITE: "the results site: start here",
        REPORT: "the report of the red night",
        COMPARISON: compared.finding,
        MAP: "the map of all pairs of nodes in the red night",
    }
    return [
        *(f"{out / name}: {text}" for name, text in about.items()),
        "try commands with: mpibench gate --partial --dataset-only --max-age 1000000 --dataset "
        f"{out}/dataset",
    ]
