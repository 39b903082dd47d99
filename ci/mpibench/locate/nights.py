"""The stored maps of several nights: suspects next to curves that miss a reference, new ones after
an upgrade, and each node over time.

A map is used if its case is proven. A suspect is not claimed to be the cause: the curve was
measured on some nodes and the map on others, and both are named.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from reframe_tests.harness.machine.switch_paths import kind_of
from reframe_tests.harness.samples import PROVEN

from ..store.store import Store
from .answers import judge_map
from .findings import MapJudgement, QuantityFindings
from .maps import NODE, PAIR, Floats, grouped

#: Days for which a map of before is worth naming: what is a month old has been seen to since.
DAYS = 31
#: Sentences of one map, at most.
_MOST = 3
#: Nodes with a line of their own, at most: those flagged in any
#: night first, then those that were slowest.
MOST_NODES = 8
#: Quantiles of all nodes of a night, between which most lie.
BAND = (0.05, 0.95)


def stored(
    store: Store, system: str, sessions: Collection[str] | None = None
) -> list[MapJudgement]:
    """Answers of the proven maps of a dataset, oldest first.

    :param sessions: only these session ids.
    :raises BadInput: a damaged file of these sessions.
    """
    found = store.pair_maps(system, sessions)
    return [
        replace(
            judge_map(stored_map.pair_map),
            session=stored_map.case["session"],
            started=stored_map.case["started"],
            stack=stored_map.case["stack"],
            fabric=stored_map.case["fabric"] or "",
        )
        for stored_map in found
        if stored_map.case["evidence"] == PROVEN
    ]


def _condition(answer: MapJudgement) -> tuple[str, str]:
    """What maps are held against each other by."""
    return answer.stack, answer.fabric


def _nobody(answer: MapJudgement) -> str:
    """What is said where it flags nothing, which is not always that all are healthy."""
    unclear = (
        f"; some could not be decided (mpibench locate --session {answer.session[:8]})"
        if answer.inconclusive
        else ""
    )
    return f"flags nothing among {len(answer.nodes)} {kind_of(answer.nodes)}{unclear}"


def _things(answer: MapJudgement) -> dict[tuple[str, ...], str]:
    """Sentence of each thing that is flagged, by its kind and names."""
    found: dict[tuple[str, ...], str] = {
        (NODE, node): text for node, text in answer.evident.items()
    }
    for finding in answer.findings:
        found.setdefault((finding.kind, *finding.names), finding.text())
    return found


def newest_before(store: Store, system: str, until: datetime) -> list[MapJudgement]:
    """The newest map of each stack and fabric of the last :data:`DAYS` days before a time."""
    wanted: dict[tuple[Any, ...], str] = {}
    for row in store.pair_map_cases(system).iter_rows(named=True):
        if until - timedelta(days=DAYS) <= row["started"] < until and row["evidence"] == PROVEN:
            wanted[row["stack"], row["fabric"]] = row["session"]
    found = stored(store, system, set(wanted.values())) if wanted else []
    return [
        stored_map
        for stored_map in found
        if wanted.get(_condition(stored_map)) == stored_map.session
    ]


def suspects(
    store: Store,
    system: str,
    sessions: Sequence[str],
    began: datetime,
    *,
    flagged_only: bool = False,
) -> list[str]:
    """Sentences beside the curves of sessions that miss; none where
    no map is younger than :data:`DAYS` days.

    :param began: of the first of the sessions.
    :param flagged_only: no curve misses: only what their own maps flag.
    """
    own = [
        session
        for session in stored(store, system, sessions)
        if not flagged_only or _things(session)
    ]
    there = {_condition(stored_map) for stored_map in own}
    before = [] if flagged_only else newest_before(store, system, began)
    others = [stored_map for stored_map in before if _condition(stored_map) not in there]
    said_of = [(stored_map, "of this session") for stored_map in own]
    said_of += [
        (stored_map, f"of {stored_map.started:%Y-%m-%d}, session {stored_map.session[:8]}")
        for stored_map in others
    ]
    rows = []
    for answer, when in said_of:
        where = f"the map {when} ({answer.stack} on {answer.fabric})"
        flagged = list(_things(answer).values())
        rest = len(flagged) - _MOST
        more = (
            f" and {rest} more (mpibench locate --session {answer.session[:8]})" if rest > 0 else ""
        )
        said = f"flags: {'; '.join(flagged[:_MOST])}{more}" if flagged else _nobody(answer)
        rows.append(f"suspects: {where} {said}")
    return rows


def newly_flagged(
    before: Sequence[MapJudgement], after: Sequence[MapJudgement]
) -> tuple[list[str], list[str]]:
    """Sentences on what maps of a candidate flag and those of the
    baseline do not, then notes on the rest.

    What the baseline did not measure, or flags as well, is a note: it is not the upgrade's.
    """
    new = []
    notes = []
    for mine in after:
        earlier = [
            _things(stored_map)
            for stored_map in before
            if _condition(stored_map) == _condition(mine)
        ]
        there = [
            set(stored_map.nodes)
            for stored_map in before
            if _condition(stored_map) == _condition(mine)
        ]
        where = f"the map ({mine.stack} on {mine.fabric})"
        flagged = _things(mine)
        if not flagged:
            notes.append(f"{where} {_nobody(mine)}")
        for thing, text in flagged.items():
            if not earlier:
                notes.append(f"{where} flags (the baseline has none to compare with): {text}")
            elif any(thing in earlier_things for earlier_things in earlier):
                notes.append(f"{where}, like the baseline's, flags: {text}")
            elif thing[0] in (NODE, PAIR) and not any(
                nodes.issuperset(thing[1:]) for nodes in there
            ):
                notes.append(f"{where} flags what the baseline's did not measure: {text}")
            else:
                new.append(f"{where} flags, unlike the baseline's: {text}")
    return new, notes


@dataclass(frozen=True)
class Trend:
    """Nodes over the nights, by one quantity and direction of the maps of one stack and fabric.

    :param way: sends, receives or, of a latency, both.
    :param nights: start of each map and its session, oldest first.
    :param percent: of what others of the class reach, median of the pairs of
        each node that has a line; ``nan``: not measured.
    :param low: band of all nodes; ``high`` likewise.
    """

    stack: str
    fabric: str
    quantity: str
    way: str
    nights: tuple[tuple[datetime, str], ...]
    nodes: tuple[str, ...]
    percent: Floats
    low: Floats
    high: Floats


def trends(answers: Sequence[MapJudgement]) -> list[Trend]:
    """Trends of what two maps or more measured, the oldest map first."""
    kinds: dict[tuple[str, str, str, str], list[tuple[MapJudgement, QuantityFindings]]] = {}
    for answer in answers:
        for part in answer.parts:
            for way in dict.fromkeys(way for way, _ in part.seen.ends):
                kinds.setdefault((*_condition(answer), part.seen.quantity, way), []).append(
                    (answer, part)
                )
    found = []
    for (stack, fabric, quantity, way), maps in kinds.items():
        if len(maps) < 2:
            continue
        nodes = list(dict.fromkeys(node for _, part in maps for node in part.seen.nodes))
        place = {node: at for at, node in enumerate(nodes)}
        table = np.full((len(maps), len(nodes)), np.nan)
        for row, (_, part) in enumerate(maps):
            # The median of a node's pairs, in percent of what others reach.
            ends = [end for direction, end in part.seen.ends if direction == way]
            excess = np.tile(part.residuals.excess, len(ends))
            which, starts, counts, values = grouped(np.concatenate(ends), excess)
            middle = (values[starts + (counts - 1) // 2] + values[starts + counts // 2]) / 2
            table[row, [place[part.seen.nodes[at]] for at in which]] = 100 * np.exp(-middle)
        flagged = {node for stored_map, _ in maps for node in stored_map.flagged}
        worst = np.nanmin(np.where(np.isfinite(table), table, np.inf), axis=0)
        order = sorted(range(len(nodes)), key=lambda at: (nodes[at] not in flagged, worst[at]))[
            :MOST_NODES
        ]
        there = np.isfinite(table).any(axis=1)
        band = np.full((2, len(maps)), np.nan)
        band[:, there] = np.nanquantile(table[there], BAND, axis=1)
        starts_of = tuple(
            (stored_map.started, stored_map.session) for stored_map, _ in maps if stored_map.started
        )
        shown = tuple(nodes[at] for at in order)
        found.append(
            Trend(stack, fabric, quantity, way, starts_of, shown, table[:, order], band[0], band[1])
        )
    return found
