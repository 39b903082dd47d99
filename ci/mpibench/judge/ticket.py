"""A refused night as a ticket for whoever is on duty: one sentence for each place that is slow.

A place is a fabric of a partition. Its sentence says under which condition, how much, whether one
or all stacks, on which nodes, since when, and whether the machine was busy; the next command
follows. Problems keep the order in which they were decided.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import polars as pl

from reframe_tests.harness import batch_systems
from reframe_tests.harness.printable import one_line
from reframe_tests.harness.samples import FAIL, PASS
from reframe_tests.harness.suites.catalogue import PAIRS, WIRES
from reframe_tests.harness.vocabulary import BadInput

from .. import answers
from ..store import eligibility
from ..store.confirmations import MeasuredOn, named
from ..store.dataset_layout import read_condition
from ..store.session_values import CONDITION, LOST_CORES, METRIC, among, not_among, slowness
from ..store.store import StoredNight
from .history import OLDEST
from .nights import NightJudgement

#: What is suspected, by which stacks are slow: all of several, one of them, or what tells neither.
Suspect = Literal["the link or the nodes", "the stack", "the fabric or the stack"]
FABRIC, STACK, UNKNOWN = get_args(Suspect)
#: Nodes between which one link is measured; between more of them a map is.
A_PAIR = 2
#: Losses, in log of time, are alike where one is at most so many times the other (ours): what a
#: link lost, MPIs that wait more or less for it do not show in full.
ALIKE = 2.0
#: What makes two reference checks those of one metric of a case.
_CHECK = (*CONDITION, "name", "metric", "layer")


@dataclass(frozen=True)
class TicketSource:
    """The inputs of a ticket.

    :param values: judged values of the session and, where these are
        known, of those it was judged by.
    :param held: :data:`CONDITION` and ``benchmark`` of what is as in earlier nights; what
        nothing judged is not among it.
    """

    night: StoredNight
    values: pl.DataFrame
    held: pl.DataFrame


@dataclass(frozen=True)
class Began:
    """When something became slow.

    :param night: the first in which it was; ``None`` if nothing tells.
    :param before: the last session in which it was not; empty if none
        of those that are looked through was so.
    """

    night: date | None
    before: str = ""


Slow = answers.ReferenceProblem | answers.HistoryProblem | answers.DriftProblem


def write(
    night: StoredNight, judged: NightJudgement | None, problems: Sequence[Slow]
) -> list[answers.Ticket]:
    """A ticket for each place, that of the first problem first.

    :param judged: what the nights before say of it, where they were asked.
    :param problems: the worst first.
    """
    if judged:
        values = pl.concat([judged.tonight.measured, judged.past.values])
        held = judged.held()
    else:
        values = night.store.select(night.system, night.session).measured
        held = values.select(*CONDITION, "benchmark").clear()
    source = TicketSource(night, values, held)
    places: dict[tuple[str | None, str | None], list[Slow]] = {}
    for problem in problems:
        rows = conditions(problem)
        if rows.height:
            places.setdefault(rows.select("partition", "fabric").row(0), []).append(problem)
    return [_ticket(source, *place, found) for place, found in places.items()]


def conditions(problem: Slow) -> pl.DataFrame:
    """The conditions of a problem, with ``name`` or ``benchmark`` if it has only one; without
    missing ones.
    """
    if isinstance(problem, answers.DriftProblem):
        rows: Iterable[Any] = problem.metrics or ()
        columns: tuple[str, ...] = (*CONDITION, "benchmark")
    else:
        rows = [problem]
        columns = (
            *CONDITION,
            "name" if isinstance(problem, answers.ReferenceProblem) else "benchmark",
        )
    found = [{name: getattr(row, name) for name in columns} for row in rows]
    return pl.DataFrame(
        found, schema={name: _DTYPES.get(name, pl.String) for name in columns}
    ).unique(maintain_order=True)


_DTYPES = {"nodes": pl.Int64, "ppn": pl.Int64}


def _ticket(
    source: TicketSource, partition: str | None, fabric: str | None, problems: Sequence[Slow]
) -> answers.Ticket:
    night = source.night
    worst = problems[0]
    here = night.eligible.with_columns(busy=LOST_CORES).filter(
        pl.col("partition").eq_missing(partition), pl.col("fabric").eq_missing(fabric)
    )
    red = pl.concat([_cases_of(source, here, problem) for problem in problems]).unique(
        "case", maintain_order=True
    )
    held = pl.concat([_held_beside(source, here, problem) for problem in problems]).unique(
        "case", maintain_order=True
    )
    held = not_among(held, red, "case")
    slow, well = (list(dict.fromkeys(rows["stack"])) for rows in (red, held))
    others = [stack for stack in well if stack not in slow]
    nodes, cleared = _suspects(red, held)
    ran = eligibility.owed_proof(night.cases).filter(
        pl.col("partition").eq_missing(partition), pl.col("fabric").eq_missing(fabric)
    )
    asked = among(ran, red, _ALIKE)
    alike = _is_alike([loss for problem in problems for loss in _losses(problem)])
    suspect, said = _suspected(red, held.filter(pl.col("stack").is_in(others)), asked, alike)
    first = conditions(worst).row(0, named=True)
    began = _began(night, source.values, worst)
    busy = int(red["busy"].sum())
    loss = worst.loss if isinstance(worst.loss, str) else ""
    measured = [
        said,
        f"on {named(nodes)}" + (" in each of these cases and in none that held" if cleared else ""),
        f"machine busy in {busy} of {red.height} cases" if busy else "machine not busy",
    ]
    missing = [
        f"{named(conditions(worst)['stack'].unique().sort().to_list())}, which was not measured "
        "tonight"
    ]
    parts = [
        ": ".join(filter(None, [place_text(first), loss])),
        *(measured[:2] if red.height else missing),
        _began_text(night, began),
        *(measured[2:] if red.height else ()),
    ]
    return answers.Ticket(
        partition=partition,
        fabric=fabric,
        suspect=suspect,
        stacks=slow,
        others=others,
        nodes=list(nodes),
        since=None if began.night is None else began.night.isoformat(),
        cases=red.height,
        busy=busy,
        next=one_line(_next(night, red, suspect, fabric, nodes, began.before)),
        text=one_line("; ".join(parts)),
    )


def place_text(row: Mapping[str, Any]) -> str:
    """Where and under what condition something was measured, of whatever stack."""
    ranks = f"{row['nodes'] or 'all'} x {row['ppn']}" if row["ppn"] else ""
    place = f"{row['fabric'] or 'no fabric'} on {row['partition']}"
    return ", ".join(filter(None, [place, ranks, row["pinning"]]))


#: In what cases of several stacks are alike that measured the same there.
_ALIKE = ("group", "nodes", "ppn", "pinning")


def _cases_of(source: TicketSource, here: pl.DataFrame, problem: Slow) -> pl.DataFrame:
    """The cases of the night that measured what a problem is of; of several
    with one name those that missed the reference.
    """
    rows = conditions(problem)
    if isinstance(problem, answers.ReferenceProblem):
        return among(here, rows, rows.columns).filter(_checked(problem, FAIL))
    return _measured(source, here, rows, rows)


def _held_beside(source: TicketSource, here: pl.DataFrame, problem: Slow) -> pl.DataFrame:
    """The cases, of whatever stack, that measured the same there,
    and of which it was judged and held.
    """
    rows = conditions(problem)
    places = [name for name in rows.columns if name not in ("name", "stack")]
    if isinstance(problem, answers.ReferenceProblem):
        kept = among(here, rows, places)
        return kept.filter(_checked(problem, PASS), ~_checked(problem, FAIL))
    return _measured(source, here, among(source.held, rows, places), rows)


def _checked(problem: answers.ReferenceProblem, outcome: str) -> pl.Expr:
    check = pl.element().struct
    same = (check.field("metric") == problem.metric) & (check.field("outcome") == outcome)
    return pl.col("gates").list.eval(same).list.any().fill_null(False)


def _measured(
    source: TicketSource, here: pl.DataFrame, curves: pl.DataFrame, like: pl.DataFrame
) -> pl.DataFrame:
    """The cases of the night with values of some curves, named by the columns of ``like``."""
    values = (
        source.values.filter(pl.col("session") == source.night.session)
        .select(*like.columns, "case")
        .unique()
    )
    return among(here, among(values, curves, like.columns), "case")


def _nodes_of(rows: pl.DataFrame) -> list[set[str]]:
    found = (
        MeasuredOn.of_row(row) for row in rows.select("nodelist", "condition").iter_rows(named=True)
    )
    return [set(on.hosts or on.job) for on in found]


def _suspects(red: pl.DataFrame, held: pl.DataFrame) -> tuple[tuple[str, ...], bool]:
    """Nodes that all slow cases ran on, or else any; and whether these are
    fewer because others held on the rest of them.
    """
    each = _nodes_of(red)
    well = set().union(*_nodes_of(held))
    common = set.intersection(*each) if each else set()
    nodes = common or set().union(*each)
    odd = common - well
    return tuple(sorted(odd or nodes)), bool(odd) and bool(well)


class Loss(NamedTuple):
    """How much something of a stack lost under a condition, in log of time."""

    where: tuple[Any, ...]
    what: tuple[str, ...]
    stack: str | None
    loss: float


def _losses(problem: Slow) -> Iterator[Loss]:
    if isinstance(problem, answers.ReferenceProblem):
        where = (problem.nodes, problem.ppn, problem.pinning)
        value, low, high = problem.value or 0.0, problem.lower, problem.upper
        # beyond the bound that it missed, whichever that is
        ways = (low / value if low and value else None, value / high if high else None)
        loss = max((float(np.log(way)) for way in ways if way), default=np.inf)
        yield Loss(where, (problem.metric,), problem.stack, loss)
        return
    rows: Iterable[Any] = [problem]
    if isinstance(problem, answers.DriftProblem):
        rows = problem.metrics or ()
    for row in rows:
        where = (row.nodes, row.ppn, row.pinning)
        loss = np.inf if row.slower is None else float(np.log1p(row.slower))
        yield Loss(where, (row.benchmark, row.quantity), row.stack, loss)


def _is_alike(losses: Sequence[Loss]) -> bool:
    """Whether under every condition all slow stacks lost about as much of one thing, and that is
    among what lost most there.
    """
    places: dict[tuple[Any, ...], list[Loss]] = {}
    for one in losses:
        places.setdefault(one.where, []).append(one)

    def common(there: Sequence[Loss]) -> bool:
        worst = max(one.loss for one in there)
        stacks = {one.stack for one in there}
        by_what: dict[tuple[str, ...], dict[str | None, float]] = {}
        for one in there:
            of = by_what.setdefault(one.what, {})
            of[one.stack] = max(of.get(one.stack, 0.0), one.loss)
        return any(
            of.keys() == stacks
            and max(of.values()) >= worst / ALIKE
            and max(of.values()) <= ALIKE * min(of.values())
            for of in by_what.values()
        )

    several = any(len({one.stack for one in there}) > 1 for there in places.values())
    return several and all(common(there) for there in places.values())


def _suspected(
    red: pl.DataFrame, held: pl.DataFrame, asked: pl.DataFrame, alike: bool
) -> tuple[Suspect, str]:
    """What is suspected, by which stacks are slow and which are not.

    :param held: cases of the stacks of which none is slow.
    :param asked: all cases of these conditions that ran. A stack that nothing judged or proved, or
        that a busy machine excused, neither held nor is slow.
    :param alike: the slow ones lost about as much of the same (:func:`_is_alike`).
    """
    slow, others, every = (list(dict.fromkeys(rows["stack"])) for rows in (red, held, asked))
    unknown = [stack for stack in every if stack not in (*slow, *others)]
    not_judged = f" ({named(unknown)} not judged there)" if unknown else ""
    each, stacks = (rows.select(*_ALIKE, "stack").unique() for rows in (red, asked))
    unlike = not_among(stacks, each, stacks.columns).height
    if alike and not unlike and each.group_by(_ALIKE).len().filter(pl.col("len") > 1).height:
        return FABRIC, f"all {len(slow)} stacks alike, so {FABRIC}"
    if len(slow) == 1 and others:
        alone = "" if unknown else " alone"
        nodes = set().union(*_nodes_of(red))
        if nodes and nodes <= set().union(*_nodes_of(held)):
            return (
                STACK,
                f"{slow[0]}{alone}, and {named(others)} held there, so the stack{not_judged}",
            )
        return (
            UNKNOWN,
            f"{slow[0]}{alone}, and {named(others)} held on other nodes, so the stack or the "
            f"nodes{not_judged}",
        )
    if others:
        return UNKNOWN, f"{named(slow)}, and {named(others)} held{not_judged}"
    if len(slow) > 1:
        return UNKNOWN, f"{named(slow)}{'' if alike else ', not in all cases alike'}{not_judged}"
    return UNKNOWN, f"{named(slow)}{not_judged or ', the only stack there'}"


def _began(night: StoredNight, values: pl.DataFrame, worst: Slow) -> Began:
    if isinstance(worst, answers.DriftProblem):
        since = date.fromisoformat(worst.since) if isinstance(worst.since, str) else None
        sessions = night.store.sessions(night.system).filter(
            pl.col("session").is_in(night.alike.earlier), pl.col("started").dt.date() < since
        )
        return Began(since, next(reversed(sessions["session"].to_list()), ""))
    if isinstance(worst, answers.ReferenceProblem):
        cases = eligibility.split_cases(
            night.earlier.filter(pl.col("started") > OLDEST, pl.col("name") == worst.name)
        ).eligible
        checks = cases.explode("gates", empty_as_null=True).drop_nulls("gates").unnest("gates")
        wanted = pl.DataFrame(
            [{name: getattr(worst, name) for name in _CHECK}], schema=checks.select(_CHECK).schema
        )
        rows = among(checks, wanted, _CHECK)
        by_night = rows.group_by("session").agg(
            pl.col("started").first(), bad=(pl.col("outcome") == FAIL).any()
        )
    else:
        rows = values.filter(pl.col("quantity") == worst.quantity)
        rows = among(rows, conditions(worst), [*CONDITION, "benchmark"])
        rows = rows.with_columns(slower=slowness(rows))
        level = (
            rows.filter(pl.col("session") != night.session)
            .group_by(METRIC)
            .agg(usual=pl.col("slower").median())
        )
        beyond = rows.join(level, on=METRIC, nulls_equal=True).with_columns(
            pl.col("slower") - pl.col("usual")
        )
        # Only the sizes that lost: the others have nothing to say, and their noise would.
        lost = (pl.col("session") == night.session) & (pl.col("slower") >= _least_loss(worst))
        beyond = among(beyond, beyond.filter(lost), METRIC)
        by_night = beyond.group_by("session").agg(
            pl.col("started").first(), pl.col("slower").median()
        )
        tonight = by_night.filter(pl.col("session") == night.session)["slower"]
        half = tonight[0] / 2 if len(tonight) else np.inf
        by_night = by_night.filter(pl.col("session") != night.session).with_columns(
            bad=pl.col("slower") > half
        )
    first = night.started
    for session, started, bad in (
        by_night.sort("started", descending=True).select("session", "started", "bad").iter_rows()
    ):
        if not bad:
            return Began(first.date(), session)
        first = started
    return Began(first.date())


def _least_loss(problem: answers.HistoryProblem) -> float:
    """Half of what the called metrics and bands of a curve lost, in log of time."""
    parts = [part.slower for part in (*problem.metrics, *problem.bands) if part.slower is not None]
    return float(np.median(np.log1p(parts or [problem.slower or 0.0]))) / 2


def _began_text(night: StoredNight, began: Began) -> str:
    if began.night is None:
        return "since when is not known"
    first = began.night == night.started.date()
    if began.before:
        return "since tonight" if first else f"since {began.night:%d %b %Y}"
    return (
        "no night before tells since when" if first else f"since {began.night:%d %b %Y} or before"
    )


def _next(
    night: StoredNight,
    red: pl.DataFrame,
    suspect: Suspect,
    fabric: str | None,
    nodes: Sequence[str],
    before: str,
) -> str:
    """The command that tells more.

    :param red: the slow cases of one partition.
    :param before: the last session that was not slow.
    """
    report = f"mpibench report --session {night.session[:8]}"
    if not red.height:
        return report
    if red["busy"].all():
        return "ci/nightly, when nobody else uses these nodes"
    partition, stack = red.select("partition", "stack").row(0)
    if suspect == STACK and before:
        where = shlex.quote(f'stack == "{stack}"')
        return f"mpibench compare --by session {before[:8]} {night.session[:8]} --where {where}"
    condition: Mapping[str, Any] = read_condition(red["condition"][0])
    wires = [
        test
        for group, test in WIRES.items()
        if condition.get("transport") in PAIRS[group].transports
    ]
    if fabric is None or len(nodes) < A_PAIR or not wires:
        return report
    pair = len(nodes) == A_PAIR
    tests, test = ("reframe_tests/cascade.py", wires[0]) if pair else ("reframe_tests", "PairMap")
    # Ranks may call their nodes otherwise than the scheduler does, which is asked for nodes.
    jobs = set().union(*(text.split(",") for text in red["nodelist"].drop_nulls()))
    ask = batch_systems.ask_for_nodes(_scheduler(night), nodes) if jobs.issuperset(nodes) else ""
    # the pattern of a name would fit a longer one, too
    which = shlex.join(["-n", test, "-E", f'fabric=="{fabric}"'])
    words = (
        f"reframe -c {tests} -r {which} "
        f"--system={night.system}:{partition}{f' -J {ask}' if ask else ''}"
    )
    return words if pair else f"{words}, then mpibench locate"


def _scheduler(night: StoredNight) -> str:
    try:
        entries = (case.entry.get("scheduler") for case in night.store.session(night.session).cases)
        return str(next(filter(None, entries), ""))
    except BadInput:
        return ""
