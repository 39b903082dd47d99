"""``mpibench guidelines``: which collective calls of the measured MPI stacks are slower than what could replace them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from reframe_tests.harness.printable import one_line
from reframe_tests.harness.vocabulary import ROOT, BadInput

RESULTS = ROOT / "results"
#: Exit statuses: the policy refuses violations; nothing could be decided.
REFUSED, INCONCLUSIVE = 1, 3


def guidelines(
    session: Annotated[str, typer.Argument(help="Session id, or its beginning, or 'latest'.")] = "latest",
    db: Annotated[Path, typer.Option(help="ReFrame's results database.")] = RESULTS / "results.db",
    as_json: Annotated[bool, typer.Option("--json", help="All guidelines as JSON on standard output.")] = False,
) -> None:
    """Name the collective calls that are slower than what could replace them, with how much slower: what to tune first.

    Judges what the test Guidelines measured: each call against a mock-up of it made of other calls, against itself with four
    times the data, and against the same data in four parts. Margin, error rate and whether violations are refused:
    site_configs/<system>/policy.yaml (guidelines_margin_percent, false_discovery_rate, guidelines_refuse).
    Exit status: 0 judged (violations are advice), 1 violated and the policy refuses that, 2 bad input, also a session without
    such measurements, 3 nothing could be decided.
    """
    from mpibench import withdrawals
    from mpibench.guidelines import judgement, sentences
    from mpibench.results.sessions import read_session
    from mpibench.verdicts import policy as verdict_policy

    read = read_session(db, None if session == "latest" else session)
    withdrawals.refuse(withdrawals.find(db.parent / "dataset"), read.uuid)
    if len(read.systems) != 1:
        raise BadInput(f"session {read.uuid} has cases on {len(read.systems)} systems, and one policy judges: give another.")
    policy = verdict_policy.load(read.systems[0])
    found = judgement.judge(read, policy)
    if as_json:
        typer.echo(json.dumps(sentences.as_data(read.uuid, read.systems[0], found, policy), indent=2))
    else:
        lines = [f"{read.systems[0]}, session {read.uuid[:8]}: {sentences.headline(found, policy)}"]
        lines += [f"  {line}" for line in sentences.violations(found)]
        lines += [f"  note: {line}" for line in found.notes]
        for line in lines:
            typer.echo(one_line(line))
    decided = len(found.rows) - found.counts[judgement.INCONCLUSIVE]
    refused = policy.guidelines_refuse and found.violations
    raise typer.Exit(REFUSED if refused else 0 if decided else INCONCLUSIVE)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(guidelines)
