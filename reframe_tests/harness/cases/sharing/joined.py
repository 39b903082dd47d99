"""From what a job of several programs left behind to one outcome: each program judged by itself, then all of them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...machine.placement import UNLISTED
from ...samples import CONTRADICTED, Evidence, Sample
from ...suites import side_by_side
from ...suites.catalogue import Launch
from ...vocabulary import QUANTITIES
from ..job import ending
from ..results import measurement
from ..results.measurement import Outcome
from . import proof
from .shared_node import SHARED, SharedNode, name_of

#: How the note on a job's check of received data begins, and that on a job without one; here one program has it for all.
_CHECKED, _UNCHECKED = "received data compared", "received data are not checked"


def evaluate(
    node: SharedNode,
    launches: Mapping[int, Sequence[Launch]],
    repeats: int,
    limit_s: int,
    directory: Path,
    end: ending.JobEnd,
) -> Outcome:
    """Read and judge everything that a job of several programs wrote into its directory.

    :param launches: what each program was started for, by its number.
    :param limit_s: seconds each launch was given.
    """
    whole = Outcome(repeats)
    parts: list[Outcome] = []
    for number, program in enumerate(node.programs, 1):
        part = measurement.evaluate(program, launches[number], repeats, limit_s, directory, end)
        parts.append(part)
        whole.take(part)
    notes: dict[str, None] = {}
    rows: list[dict[str, Any]] = []
    for repeat in range(1, repeats + 1):
        beside = {
            number: one
            for number, part in enumerate(parts, 1)
            for one in part.heard
            if (one.launch, one.repeat) == (name_of(SHARED, number), repeat)
        }
        # A program without records is missing, which its own part has said.
        ranks = {number: one.ranks for number, one in beside.items() if one.ranks}
        whole.add(SHARED, repeat, CONTRADICTED, proof.check_node(ranks))
        if node.pinning in UNLISTED:
            if len(ranks) > 1:
                notes[proof.describe_unaware(ranks, node.core_of)] = None
        else:
            whole.add(SHARED, repeat, CONTRADICTED, proof.check_apart(ranks, node.core_of))
        measured = {number: one.records for number, one in beside.items()}
        # What is missing or mixed up, each part has said.
        if len({tuple((row.benchmark, row.message_bytes) for row in each) for each in measured.values()}) == 1:
            whole.add(SHARED, repeat, CONTRADICTED, proof.check_overlap(measured))
        rows = rows or [{"program": number, **measurement.rank_row(rank)} for number, there in ranks.items() for rank in there]
    whole.samples += ratios(whole.samples)
    whole.evidence = _evidence(whole, [part.evidence for part in parts if part.evidence], rows, list(notes))
    return whole


def ratios(samples: Sequence[Sample]) -> list[Sample]:
    """Throughput of each program beside the others over that alone, repeat by repeat; a time is the inverse of a throughput."""
    found = []
    ends = tuple(f",{how}" for how in (side_by_side.ALONE, side_by_side.SHARED))
    by_key = {(one.benchmark, one.message_bytes, one.quantity, one.variant): one for one in samples}
    for (name, size, quantity, variant), alone in by_key.items():
        beside = by_key.get((name, size, quantity, variant.removesuffix(ends[0]) + ends[1]))
        if not variant.endswith(ends[0]) or beside is None:
            continue
        pairs = [
            (two, one) if QUANTITIES[quantity].direction == "higher" else (one, two)
            for one, two in zip(alone.values, beside.values, strict=True)
        ]
        values = tuple(above / below if above is not None and below else None for above, below in pairs)
        found.append(
            replace(alone, variant=variant.removesuffix(ends[0]), quantity=side_by_side.RATIO, repetitions=None, values=values)
        )
    return found


def _evidence(
    whole: Outcome, parts: Sequence[Evidence], rows: Sequence[Mapping[str, Any]], found: Sequence[str]
) -> Evidence | None:
    """The first program's facts of node and library, the ranks of all programs, and what was found of them together."""
    if not parts:
        return None
    everywhere = set.intersection(*(set(part.notes) for part in parts))
    notes = [
        note if note in everywhere or note.startswith(_CHECKED) else f"program {number}: {note}"
        for number, part in enumerate(parts, 1)
        for note in part.notes
        if not note.startswith(_UNCHECKED)
    ]
    return replace(
        parts[0],
        status=whole.status,
        sentences=tuple(whole.sentences),
        ranks=tuple(rows),
        seconds=tuple(seconds for part in parts for seconds in part.seconds),
        notes=tuple(dict.fromkeys([*found, *notes])),
    )
