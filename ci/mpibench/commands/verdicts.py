"""The commands that decide: accept, compare, drift, gate, rebaseline. Their modules do the work."""

from __future__ import annotations

import enum
import shutil
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reframe_tests.harness.printable import one_line, plural
from reframe_tests.harness.vocabulary import BadInput

from .options import (
    DATABASE,
    RESULTS,
    Dataset,
    DatasetOnly,
    Db,
    History,
    Json,
    System,
    Where,
    expect_alone,
    open_store,
    say,
    say_json,
    write,
)

if TYPE_CHECKING:  # what a command needs is loaded when it runs
    from mpibench.judge.accept import Acceptance
    from mpibench.store.store import Store


class Only(str, enum.Enum):
    """A question of the gate that can be asked alone."""

    completeness = "completeness"


Rename = Annotated[
    list[str] | None,
    typer.Option(
        help="OLD=NEW: a stack, benchmark, fabric or partition of the baseline has a new name; "
        "repeatable."
    ),
]
#: Sentences that ``accept`` prints; the record has all of them.
MOST_SENTENCES = 20
#: Exit status of a comparison in which nothing has a winner or a tie.
NOTHING_COMPARED = 3


def _say_at_width(lines: Iterable[str]) -> None:
    """On a terminal each line broken at its width, what follows indented;
    elsewhere as one line, for who searches in it.
    """
    if not sys.stdout.isatty():
        say(lines)
        return
    width = max(shutil.get_terminal_size().columns, 40)
    for line in map(one_line, lines):
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        parts = textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        typer.echo("\n".join(parts))


def _renames(pairs: list[str] | None) -> dict[str, str]:
    names = {}
    for pair in pairs or ():
        old, _, new = pair.partition("=")
        if not old or not new:
            raise BadInput("bad-option", f"--rename {pair!r} is not OLD=NEW.")
        names[old] = new
    return names


def accept(
    baseline: Annotated[str, typer.Option(help="Sessions before the upgrade; a selector.")],
    candidate: Annotated[str, typer.Option(help="Sessions after it; a selector.")] = "latest",
    db: Db = DATABASE,
    dataset: Dataset = None,
    dataset_only: DatasetOnly = False,
    system: System = None,
    where: Where = None,
    rename: Rename = None,
    allow_unproven: Annotated[
        bool,
        typer.Option(
            "--allow-unproven",
            help="Let unproven cases of the candidate make it inconclusive instead of refused.",
        ),
    ] = False,
    history: History = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the record; an earlier one moves to earlier/.")
    ] = RESULTS / "accept",
) -> None:
    """Decide whether the machine is as good after an upgrade as before; write a record to sign
    (HTML, JSON, JUnit).

    Selectors: a session id or its beginning, latest, latest~1, a period 20261101:20261115 or
    now-7d:now, labels ?'run == "nightly"', or several joined with commas. Margins and error rates:
    site_configs/<system>/policy.yaml.
    Exit status: 0 accepted, 1 refused (regressed, missing, or a case of the candidate is not
    proven), 2 bad input, 3 inconclusive (with the number of sessions that would decide), 70 no
    decision because of a defect in this program.
    """
    from mpibench.judge import accept as acceptance
    from mpibench.judge import text as verdict_text
    from mpibench.pages import acceptance as acceptance_record

    earlier = acceptance_record.move_aside(out)
    if earlier:
        typer.echo(f"mpibench: moved the earlier record to {earlier}", err=True)
    store = open_store(db, dataset, dataset_only)
    options = acceptance.AcceptanceOptions(system, where, _renames(rename), allow_unproven, history)
    result = _with_maps(acceptance.decide(store, baseline, candidate, options), store)
    written = acceptance_record.write(result, out)
    say([result.headline])
    for name, side in (("baseline", result.baseline), ("candidate", result.candidate)):
        say(f"  {line}" for line in verdict_text.identity_lines(name, side, result.decided))
    say(f"  {line}" for line in result.sentences[:MOST_SENTENCES])
    if len(result.sentences) > MOST_SENTENCES:
        typer.echo(f"  ... and {len(result.sentences) - MOST_SENTENCES} more in the record")
    say(f"  changed: {name}: {before} -> {after}" for name, before, after in result.changed)
    say(f"  note: {line}" for line in result.notes)
    say(f"wrote {path}" for path in written)
    raise typer.Exit(acceptance.STATUS[result.decision])


def _with_maps(result: Acceptance, store: Store) -> Acceptance:
    from mpibench.locate import nights

    sides = (result.baseline, result.candidate)
    before, after = (nights.stored(store, side.system, side.sessions) for side in sides)
    new, notes = nights.newly_flagged(before, after)
    return replace(result, suspects=tuple(new), map_notes=tuple(notes))


def drift(
    db: Db = DATABASE,
    dataset: Dataset = None,
    dataset_only: DatasetOnly = False,
    system: System = None,
    where: Where = None,
    sessions: Annotated[
        str | None,
        typer.Option(
            help="Only these sessions; a selector; default: those with the label of the newest."
        ),
    ] = None,
    recent: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of last nights whose improvements are reported; losses always are.",
        ),
    ] = 14,
    as_json: Json = False,
) -> None:
    """Report what became different, since when, on which stack, fabric and sizes, and what else
    changed that night.

    Compares the last nights (calendar days, UTC) with the baseline of every metric (its first
    nights, or an accepted level) and groups differences into events; prints nothing if there are
    none. Metrics missing from the last night are reported, too. Margins and accepted levels:
    site_configs/<system>/policy.yaml. Exit status: 0 no change, or only better or accepted ones, 1
    something is worse or missing, 2 bad input, 3 nights are too few or too noisy to find any
    change.
    """
    from mpibench.judge import drift as nightly_watch

    store = open_store(db, dataset, dataset_only, reported=as_json)
    answer = nightly_watch.watch(store, system, selector=sessions, where=where, recent=recent)
    if as_json:
        say_json(answer.as_data())
    else:
        say(answer.lines)
    raise typer.Exit(answer.status)


def gate(
    context: typer.Context,
    session: Annotated[
        str,
        typer.Option(
            help="Session: its id, the beginning of its id, latest, or night (the last whole "
            "session with a label)."
        ),
    ] = "night",
    only: Annotated[
        Only | None,
        typer.Option(
            help="Check only this: completeness lists each expected case that is missing."
        ),
    ] = None,
    db: Db = DATABASE,
    dataset: Dataset = None,
    dataset_only: DatasetOnly = False,
    system: System = None,
    recent: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of last nights whose changes count as new; older losses that last still "
            "fail.",
        ),
    ] = 14,
    max_age: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            help="Maximum age of the session in hours; default: max_age_hours of policy.yaml, or "
            "36.",
        ),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="Judge a partial session by what its options selected.",
        ),
    ] = False,
    history: History = None,
    as_json: Json = False,
) -> None:
    """Judge the last night in eleven lines: is it complete, proven, recent,
    within its references, and like those before?

    The first line of a failure names the worst problem. For CI, after ci/nightly:
    `mpibench gate --session "$(cat results/session-id)"`. A session must contain what was ever
    proven in a session of the same label, until site_configs/<system>/expected.yaml retires it;
    what that file names; each registered stack on each partition it fits; each fabric of each
    partition. A session started with selection options (-n, -p, ...) is partial and not complete;
    --partial judges it by what they selected. Exit status: 0 passed, 1 failed, 2 bad input, or the
    newest session cannot be read, 3 not judged: slow only on a busy machine, or earlier nights
    differ so much that no metric is judged.
    """
    from mpibench.judge import expected
    from mpibench.judge import gate as gates

    if only:
        beside = (
            "only",
            "session",
            "system",
            "db",
            "dataset",
            "dataset_only",
            "partial",
            "as_json",
        )
        expect_alone(context, f"--only {only.value}", *beside)
    store = open_store(db, dataset, dataset_only, reported=True)
    if only:
        night = store.find_session(session, system)
        whole = expected.judge(night, partial=partial)
        lost = [
            f"session {unread.session[:8]} is not counted: {unread.why}"
            for unread in store.lost(night.system)
        ]
        whole = replace(whole, notes=(*whole.notes, *lost))
        lines = whole.lines()
        data = whole.as_data()
        status = int(not whole.complete)
    else:
        answer = gates.decide(
            store, system, session, recent, max_age_hours=max_age, partial=partial, history=history
        )
        from mpibench.locate import nights

        misses = any(kind in gates.OF_CURVES for kind, _ in answer.by_kind)
        began = datetime.fromisoformat(answer.started)
        try:
            suspects = nights.suspects(
                store, answer.system, [answer.session], began, flagged_only=not misses
            )
        except BadInput as error:
            if answer.passed:  # and what the night's own map flags is unknown
                raise
            suspects = [f"suspects: not known: {error}"]
        answer.notes[:0] = suspects
        lines = answer.lines
        data = answer.as_data()
        status = gates.STATUS[answer.decision]
    if as_json:
        say_json(data)
    else:
        _say_at_width(lines)
    raise typer.Exit(status)


def rebaseline(
    context: typer.Context,
    sessions: Annotated[
        str | None,
        typer.Option(
            help="Sessions to learn from; a selector, e.g. now-30d:now; with --review now-14d:now."
        ),
    ] = None,
    db: Db = DATABASE,
    dataset: Dataset = None,
    dataset_only: DatasetOnly = False,
    system: System = None,
    where: Where = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for the diff of references.yaml (default: results/references.diff), or for "
            "the review."
        ),
    ] = None,
    expected_out: Annotated[
        Path, typer.Option(help="File for the diff of expected.yaml.")
    ] = RESULTS / "expected.diff",
    review: Annotated[
        str | None,
        typer.Option(
            metavar="BASE",
            help="Propose nothing; report in Markdown what the commits since BASE change: "
            "references applied to stored sessions before and after, and stacks that are "
            "built differently.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --review: print the whole answer as JSON.")
    ] = False,
) -> None:
    """Propose references.yaml and expected.yaml from past sessions, as diffs of
    site_configs/<system>/ to review.

    References: medians and robust quantiles over jobs, with their number, spread and dates, and the
    effect on past sessions; cases that failed, are not proven or missed a reference are not used,
    nor are metrics with too few jobs (reference_jobs in policy.yaml). Entries set by hand
    (provenance session: hand) stay. Expected: what is proven but not named yet, and, as lines to
    retire, what is no longer proven; such a line is rejected until it has a reason. No file is
    changed: review, then `patch -p1 <FILE`. Exit status: 0 proposed or reported, 2 bad input.
    """
    from mpibench.judge import rebaseline as references

    if review is not None:
        expect_alone(context, "--review", "review", "sessions", "db", "dataset", "out", "as_json")
        _review(review, sessions or "now-14d:now", dataset or db.parent / "dataset", out, as_json)
        return
    if not sessions or as_json:
        raise BadInput(
            "options-exclude",
            "rebaseline learns from the sessions that --sessions names; --json is for --review "
            "BASE.",
        )
    store = open_store(db, dataset, dataset_only)
    if not where:
        change = references.propose_expected(store, sessions, system=system)
        typer.echo(
            f"expected.yaml: {plural(change.added, 'line')} to add, {change.retired} to retire "
            "(write the reason into each)"
        )
        write(expected_out, change.diff())
    proposal = references.propose(store, sessions, system=system, where=where)
    typer.echo(
        f"references.yaml: {plural(proposal.learned, 'reference')} learned, {proposal.kept} set by "
        f"hand kept, {plural(proposal.refused, 'metric')} with too few jobs"
        + (f", {proposal.unjudged} the policy does not judge" if proposal.unjudged else "")
    )
    for row in proposal.effect.to_dicts():
        typer.echo(
            f"  {row['started']:%Y-%m-%d %H:%M} {row['session'][:8]}: "
            f"{plural(row['values'], 'value')}, {row['failed_before']} failed before, "
            f"{row['failed_after']} would fail"
        )
    write(out or RESULTS / "references.diff", proposal.diff())


def _review(base: str, sessions: str, dataset: Path, out: Path | None, as_json: bool) -> None:
    from mpibench.judge.review import review
    from mpibench.store.store import Store

    change = review(base, Store(dataset), sessions)
    if out:
        write(out, change.markdown(), err=as_json)
    if as_json:
        say_json(change.as_data())
    else:
        typer.echo(change.finding() if out else change.markdown())


def compare(
    first: Annotated[
        str,
        typer.Argument(help="A stack; with --by, a fabric, ppn, pinning or session selector."),
    ] = "",
    second: Annotated[
        str,
        typer.Argument(
            help="The other one; without both, all pairs of stacks are compared, a line each."
        ),
    ] = "",
    by: Annotated[
        str, typer.Option(help="What differs: stack, fabric, ppn, pinning or session.")
    ] = "stack",
    sessions: Annotated[
        str, typer.Option(help="Sessions from which both are taken; a selector.")
    ] = "latest",
    db: Db = DATABASE,
    dataset: Dataset = None,
    dataset_only: DatasetOnly = False,
    system: System = None,
    where: Where = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Condition that may differ: nodelist, placement or suites; repeatable."),
    ] = None,
    history: History = None,
    out: Annotated[
        Path,
        typer.Option(help="HTML page: Kiviat charts, best-stack heat map, pinning maps, curves."),
    ] = RESULTS / "compare.html",
    as_json: Json = False,
) -> None:
    """Compare two stacks (or fabrics, ppn, pinnings, sessions) on equal nodes
    and placement: which is how many times faster.

    Prints a summary by band of message sizes and by condition, then each benchmark with its 95 %
    interval and winner or tie; writes a page with all sizes. Unequal conditions are refused by
    name. Exit status: 0 compared, 2 bad input, 3 nothing could be compared: too few repeats, or no
    pair of stacks under equal conditions.
    """
    import polars as pl
    from rich.console import Console
    from rich.text import Text

    from mpibench.judge import pairing
    from mpibench.judge import text as verdict_text
    from mpibench.pages import comparison

    store = open_store(db, dataset, dataset_only, err=as_json)
    options = {"system": system, "where": where}
    console = Console(
        width=None if sys.stdout.isatty() else comparison.WIDTH, highlight=False, markup=False
    )
    if not first and by == "stack":
        compared = list(pairing.every_pair(store, sessions, allow=allow or (), **options))
        for part in () if as_json else comparison.every_pair(compared):
            console.print(part, soft_wrap=isinstance(part, Text))
        if as_json:
            say_json(
                [pair if isinstance(pair, str) else comparison.as_data(pair) for pair in compared]
            )
        if not any(pair.compares for pair in compared if not isinstance(pair, str)):
            raise typer.Exit(NOTHING_COMPARED)
        return
    if not second:
        raise BadInput(
            "options-exclude",
            f"compare {first} has nothing to compare with: give a second {by}.".replace("  ", " "),
        )
    result = pairing.pair(
        store, sessions, by, first, second, allow=allow or (), history=history, **options
    )
    for part in () if as_json else comparison.terminal(result):
        console.print(part, soft_wrap=isinstance(part, Text))
    now = datetime.now(timezone.utc)
    for name, side in () if as_json else zip((first, second), result.sides, strict=True):
        say(verdict_text.identity_lines(name, side, now))
    if by == "session":  # the two sides under the names they were given
        named = [
            side.values.with_columns(session=pl.lit(identity))
            for side, identity in zip(result.sides, (first, second), strict=True)
        ]
        values = pl.concat(named)
    else:
        values = store.select(store.system_of(system), sessions, where=where).values
    write(out, comparison.page(result, values), err=as_json)
    if as_json:
        say_json(comparison.as_data(result))
    if not result.compares:
        raise typer.Exit(NOTHING_COMPARED)
