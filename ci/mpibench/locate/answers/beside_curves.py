"""Suspects beside curves that miss: what the maps of the same sessions, or the newest before them, accuse.

A map is used where its case is proven. It is not said that the suspect is the cause: a curve was measured on some nodes, a map
on others, and both are named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from reframe_tests.harness.samples import PROVEN

from ...store import dataset
from ...store.dataset import StoredPairMap
from .. import sentences
from ..judgement import Localisation
from .session_maps import judge_map

#: Days for which a map of before is worth naming: what is a month old has been seen to since.
DAYS = 31
#: Sentences of one map, at most.
_MOST = 3


@dataclass(frozen=True)
class MapAnswer:
    """What one stored map says.

    :param session: that measured it; ``started``: when that began.
    """

    session: str
    started: datetime
    stack: str
    fabric: str
    nodes: tuple[str, ...]
    answer: Localisation

    @property
    def key(self) -> tuple[str, str]:
        """What maps are held against each other by."""
        return self.stack, self.fabric

    @property
    def nobody(self) -> str:
        """What is said where it accuses nobody, which is not always that all are healthy."""
        unclear = f", and not all could be decided (mpibench locate {self.session[:8]})" if self.answer.inconclusive else ""
        return f"accuses nobody among {len(self.nodes)} nodes{unclear}"

    @property
    def accused(self) -> dict[tuple[str, ...], str]:
        """Sentence of each thing that is accused, by its kind and names."""
        found: dict[tuple[str, ...], str] = {("node", node): text for node, text in self.answer.evident.items()}
        for finding in self.answer.findings:
            found.setdefault((finding.kind, *finding.names), sentences.text(finding))
        return found


def stored(folder: Path, system: str, sessions: Collection[str] | None = None) -> list[MapAnswer]:
    """Answers of the proven maps of a dataset, oldest first.

    :param sessions: only these session ids.
    :raises BadInput: a damaged file of these sessions.
    """
    found = dataset.load_pair_maps(folder, sessions=None if sessions is None else list(sessions), systems=[system])
    return [_answer(one) for one in found if one.case["evidence"] == PROVEN]


def _answer(stored_map: StoredPairMap) -> MapAnswer:
    case, answer = stored_map.case, judge_map(stored_map.pair_map)
    identity = (case["session"], case["started"], case["stack"], case["fabric"] or "")
    return MapAnswer(*identity, stored_map.pair_map.nodes, answer)


def newest_before(folder: Path, system: str, until: datetime) -> list[MapAnswer]:
    """The newest map of each stack and fabric of the last :data:`DAYS` days before a time."""
    wanted: dict[tuple[Any, ...], str] = {}
    table = dataset.pair_map_cases(folder, [system])
    for row in table.iter_rows(named=True):
        if until - timedelta(days=DAYS) <= row["started"] < until and row["evidence"] == PROVEN:
            wanted[row["stack"], row["fabric"]] = row["session"]
    found = stored(folder, system, set(wanted.values())) if wanted else []
    return [one for one in found if wanted.get((one.stack, one.fabric)) == one.session]


def suspects(folder: Path, system: str, sessions: Sequence[str], began: datetime) -> list[str]:
    """Sentences beside the curves of sessions that miss; none where no map is younger than :data:`DAYS` days.

    :param began: of the first of the sessions.
    """
    own = stored(folder, system, sessions)
    others = [one for one in newest_before(folder, system, began) if one.key not in {mine.key for mine in own}]
    return [
        *(line for one in own for line in _said(one, "of this session")),
        *(line for one in others for line in _earlier(one)),
    ]


def _earlier(one: MapAnswer) -> Iterator[str]:
    yield from _said(one, f"of {one.started:%Y-%m-%d}, session {one.session[:8]}")


def _said(one: MapAnswer, when: str) -> Iterator[str]:
    where = f"the map {when} ({one.stack} on {one.fabric})"
    accused = list(one.accused.values())
    if not accused:
        yield f"suspects: {where} {one.nobody}"
        return
    more = f" and {len(accused) - _MOST} more (mpibench locate {one.session[:8]})" if len(accused) > _MOST else ""
    yield f"suspects: {where} accuses: {'; '.join(accused[:_MOST])}{more}"


def newly_accused(before: Sequence[MapAnswer], after: Sequence[MapAnswer]) -> tuple[list[str], list[str]]:
    """Sentences on what maps of a candidate accuse and those of the baseline do not, then notes on the rest.

    What the baseline did not measure, or accuses as well, is a note: it is not the upgrade's.
    """
    new, notes = [], []
    for mine in after:
        earlier = [one for one in before if one.key == mine.key]
        where = f"the map ({mine.stack} on {mine.fabric})"
        if not mine.accused:
            notes.append(f"{where} {mine.nobody}")
        for thing, text in mine.accused.items():
            if not earlier:
                notes.append(f"{where} accuses, and the baseline has no map to hold that against: {text}")
            elif any(thing in one.accused for one in earlier):
                notes.append(f"{where} accuses, as the baseline's does: {text}")
            else:
                new.append(f"{where} accuses what the baseline's does not: {text}")
    return new, notes
