"""Strict reader of ``instrument.py``: a head of five lines, a row per benchmark and size, then a checksum."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..instrument_table import InstrumentTable, columns, wrong
from ..model import Said
from ..records import Record
from . import rows

TITLE = "# MPI bisection, format 1"
_NODE = r"([0-9]{1,9}):([A-Za-z0-9_-]{1,64})\(([A-Za-z0-9_-]{1,64})\)"
_PAIR = re.compile(rf"{_NODE}>{_NODE}")
_SPLIT = re.compile(
    r"# split: (by switches as (?:Slurm|the site) has them, [0-9]{1,9} of [0-9]{1,9} pairs of nodes on different ones"
    r"|plain halves, because (?:the switches are not known|(?:Slurm|the site) has all nodes on one switch"
    r" \([A-Za-z0-9_-]{1,64}\)))"
)
_PAIRS = re.compile(rf"# pairs: ({_NODE}>{_NODE}(?: {_NODE}>{_NODE})*)")
_TABLE = InstrumentTable(
    "bisection bandwidth",
    (
        re.compile(re.escape(TITLE)),
        re.compile(r"# ([1-9][0-9]{0,8}) ranks, ([1-9][0-9]{0,8}) a node, windows of 64 messages, time of the slowest pair"),
        _SPLIT,
        _PAIRS,
        columns("#", "benchmark", "bytes", "repetitions", "all[MB/s]", "slowest[MB/s]", "fastest[MB/s]", "slowest_pair"),
    ),
)
_ROW = re.compile(
    rf"({'|'.join(row.name for row in rows.ROWS)}) +([0-9]{{1,15}}) +([1-9][0-9]{{0,8}})"
    + r" +([0-9]{1,12}\.[0-9]{3})" * 3
    + r"  ([0-9]{1,9})>([0-9]{1,9})"
)


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order.

    :raises OutputError: if it is damaged, mixed up, cut off or empty, or its numbers contradict one another.
    """
    return _TABLE.read(text, source, _record)


def _record(source: str, number: int, line: str, head: Sequence[re.Match[str]]) -> Record:
    found = _ROW.fullmatch(line)
    if not found:
        raise _TABLE.refuse(source, number, line)
    ranks, ppn, pairs = int(head[1][1]), int(head[1][2]), _PAIR.findall(head[3][1])
    if 2 * len(pairs) * ppn != ranks:
        raise wrong(source, number, f"{len(pairs)} pairs of nodes are not those of {ranks} ranks; the output is damaged")
    together, slowest, fastest = (float(value) for value in found.groups()[3:6])
    # As printed, to three decimals.
    if not 0 < slowest <= fastest or abs(together - slowest * ranks / 2) > 0.0006 * ranks:
        raise wrong(source, number, "the bandwidth of all is not that of the slowest pair for each; the output is damaged")
    apart = sum(pair[2] != pair[5] for pair in pairs)
    split = head[2][1]
    if split.startswith("by") != (apart > 0) or (apart and f", {apart} of {len(pairs)} pairs" not in split):
        raise wrong(source, number, "the pairs are not split as it says; the output is damaged")
    values = dict(zip(rows.QUANTITIES, (together, slowest, apart / len(pairs)), strict=True))
    return Record(rows.NAME, found[1], ranks, 1, int(found[2]), int(found[3]), values)


def said(text: str) -> Said:
    """How the nodes were split, which pair was slowest with the largest messages, and where the pairs' first ranks were.

    :param text: an output that :func:`parse` reads.
    """
    split = re.search(rf"^{_SPLIT.pattern}\r?$", text, re.MULTILINE)
    paired = re.search(rf"^{_PAIRS.pattern}\r?$", text, re.MULTILINE)
    if not split or not paired:
        return Said()
    ends = [end for pair in _PAIR.findall(paired[1]) for end in (pair[:3], pair[3:])]
    slow = [f"{name} {size} B: ranks {one} and {other}" for name, size, *_, one, other in map(re.Match.groups, _rows(text))]
    notes = (f"the nodes were split {'into ' * split[1].startswith('plain')}{split[1]}",)
    return Said((*notes, *(f"the slowest pair of {line}" for line in slow[-1:])), {int(rank): host for rank, host, _ in ends})


def _rows(text: str) -> list[re.Match[str]]:
    return [found for line in text.splitlines() if (found := _ROW.fullmatch(line))]
