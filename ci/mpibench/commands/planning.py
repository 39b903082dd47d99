"""``mpibench nightly``, a night as one session, and ``plan``: which cases it measures, so that it fits a budget and nothing is
forgotten."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated

import typer

from reframe_tests.harness.vocabulary import BadInput

from .options import RESULTS, Dataset, Json, say, say_json, write


def plan(
    context: typer.Context,
    budget: Annotated[str, typer.Option(help="What the night may take: minutes (30m), hours (1.5h), node-hours (20nodeh).")],
    nights: Annotated[int, typer.Option(help="Nights in which every pair of values comes at least once.")] = 7,
    date: Annotated[str | None, typer.Option(help="Day (UTC) of the night, YYYY-MM-DD; default: today.")] = None,
    mode: Annotated[str, typer.Option(help="Mode whose cases are planned.")] = "nightly",
    label: Annotated[str | None, typer.Option(help="Label of the night (run=...); default: the mode.")] = None,
    max_jobs: Annotated[
        int | None, typer.Option(min=1, help="Jobs of a partition that are queued or run at once (ReFrame's max_jobs).")
    ] = None,
    explain: Annotated[
        str | None, typer.Option(help="Say of the cases that this regular expression fits why they are in or out.")
    ] = None,
    dataset: Dataset = None,
    out: Annotated[Path | None, typer.Option(help="File for the plan, to look at.")] = None,
    as_json: Json = False,
) -> None:
    """Say which cases a night measures that fits a budget: what `BUDGET=... ci/nightly` would run. Nothing is measured.

    Each night has the smoke cases on the fewest nodes of each fabric and all cases with learned references. Every pair of
    values (stack, fabric, group, ppn, pinning, nodes, partition) that some case has comes at least once in so many nights, the
    stalest first, and the rest of the budget is for the stalest cases. What a case takes is known from earlier nights of the
    label, else from a model. The plan of a day is the same whenever it is made. Options for ReFrame may follow after `--`.
    Exit status: 0 the plan keeps all this, 1 the budget is too small for it, 2 bad input.
    """
    from mpibench.judge.plan import making
    from mpibench.night import settings

    try:
        day = datetime.strptime(date, "%Y-%m-%d").date() if date else datetime.now(timezone.utc).date()
        day + timedelta(days=making.MOST_NIGHTS + making.MOST_AHEAD)  # to which it is looked ahead
    except (ValueError, OverflowError):
        raise BadInput("date-format", f"--date {date} is no day: write YYYY-MM-DD.") from None
    folder, most_jobs = dataset or RESULTS / "dataset", str(max_jobs or "")
    request = settings.request(
        budget, mode, label or mode, context.args, folder, day=day, nights=str(nights), max_jobs=most_jobs
    )
    made = making.make(request)
    if out:
        write(out, made.record.text, err=True)
    if explain:
        typer.echo("\n".join(making.explain(made, explain)))
    elif as_json:
        say_json(making.as_data(made))
    else:
        say(making.lines(made))
    raise typer.Exit(1 if made.record.broken else 0)


def nightly(context: typer.Context) -> None:
    """Measure a night as one session, export, report and judge it; further options are ReFrame's and make it partial.

    What `ci/nightly` does when it has set up what is missing; `ci/nightly --help` has the environment variables that both heed
    (MODE, LABEL, BUDGET, PREFLIGHT, CONFIRM_MINUTES, ...). Exit status: 0 every case that can be measured is proven and reaches
    its references and no expected one is missing, 1 otherwise, 2 nothing was measured, 128 + N after signal N.
    """
    from mpibench.commands import nightly as night

    raise typer.Exit(night.main(context.args))
