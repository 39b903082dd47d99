"""Reader of ``instrument.py``: a head of five lines, rows with a checksum behind each step, silent nodes, and an end.

An output that ends too early is read up to its last checksum; who needs it whole asks (:attr:`MapOutput.whole`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from ..switches.tree import SLURM, YAML, Switch, SwitchTree
from ..vocabulary import BadInput
from .pair_values import QUANTITIES, PairValue

TITLE = "# MPI pair map, format 2"
_HOST = r"[A-Za-z0-9_-]{1,64}"
_HEAD = (
    re.compile(re.escape(TITLE)),
    re.compile(
        r"# ([0-9]{1,6}) ranks, one a node; design (all|sampled), seed ([0-9]{1,18}), ([0-9]{1,7}) rounds, "
        r"([0-9]{1,4}) passes, ([0-9]{1,4}) values; ([0-9]{1,9}) repetitions of ([0-9]{1,9}) B, "
        r"([0-9]{1,9}) messages of ([0-9]{1,12}) B"
    ),
    re.compile(r"# (?:switches as (Slurm|the site) has them|the switches are not known)"),
    re.compile(rf"# nodes: ([0-9]+:{_HOST}\([A-Za-z0-9_.-]+\)(?: [0-9]+:{_HOST}\([A-Za-z0-9_.-]+\))*)"),
    re.compile(r"# order round phase source target quantity bytes repeat value"),
)
_ROW = re.compile(
    rf"([0-9]{{1,4}}) ([0-9]{{1,7}}) ([12]) ([0-9]{{1,6}}) ([0-9]{{1,6}}) ({'|'.join(QUANTITIES)}) ([0-9]{{1,12}}) "
    r"([0-9]{1,4}) (-|[0-9]{1,12}\.[0-9]{3})"
)
_SO_FAR = re.compile(r"# so far: ([0-9]{1,9}) rows, CRC-32 ([0-9a-f]{8})")
_SILENT = re.compile(rf"# silent: ({_HOST}): (.{{1,200}})")
_TOOK = re.compile(r"# took ([0-9]{1,7}\.[0-9]) s")
_END = re.compile(r"# end: ([0-9]{1,9}) rows, received data all right, CRC-32 ([0-9a-f]{8})")


@dataclass(frozen=True)
class MapOutput:
    """What an output says.

    :param rounds: planned, in all passes.
    :param nodes: hosts in the order of their ranks; ``tree``: the switches above them, as the ranks had them.
    :param latency_count: repetitions of a latency; ``message_count``: messages of a bandwidth.
    :param whole: it has its end, and its rows are those of all rounds.
    :param seconds: the measurement took.
    """

    design: str
    seed: int
    rounds: int
    repeats: int
    nodes: tuple[str, ...]
    tree: SwitchTree | None
    latency_count: int
    message_count: int
    values: tuple[PairValue, ...]
    silent: Mapping[str, str]
    whole: bool
    seconds: float | None


def read(text: str, source: str) -> MapOutput:
    """One output, up to its last checksum.

    :raises BadInput: it is not of this instrument, or damaged before its first checksum.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    first = next((at for at, line in enumerate(lines) if line == TITLE), None)
    if first is None:
        raise BadInput(f"{source}: the pair map has no title; the output is cut off or of another program, run it again.")
    head, checksum = [], 0
    for number, pattern in enumerate(_HEAD, first):
        found = pattern.fullmatch(lines[number]) if number < len(lines) else None
        if not found:
            raise BadInput(
                f"{source}, line {number + 1}: the head is not that of a pair map; the output is damaged, run it again."
            )
        head.append(found)
        checksum = zlib.crc32(f"{lines[number]}\n".encode(), checksum)
    ranks, seed, rounds, orders, repeats, latency_count, _, message_count, _ = (
        int(head[1][at]) for at in (1, 3, 4, 5, 6, 7, 8, 9, 10)
    )
    listed = [re.fullmatch(rf"([0-9]+):({_HOST})\((.+)\)", word) for word in head[3][1].split(" ")]
    nodes = tuple(one[2] for one in listed if one)
    if [int(one[1]) for one in listed if one] != list(range(ranks)) or len(set(nodes)) != ranks:
        raise BadInput(
            f"{source}: the nodes of the pair map are not those of {ranks} ranks; the output is damaged, run it again."
        )
    above = {one[2]: () if one[3] == "-" else tuple(one[3].split(".")) for one in listed if one}
    body = _read_body(lines[first + len(_HEAD) :], nodes, checksum, source)
    expected = _planned_rows(head[1][2], ranks, rounds) * orders * repeats * 2 * len(QUANTITIES)
    return MapOutput(
        head[1][2],
        seed,
        rounds * orders,
        repeats,
        nodes,
        tree_of(above, SLURM if head[2][1] == "Slurm" else YAML) if head[2][1] else None,
        latency_count,
        message_count,
        body.values,
        body.silent,
        body.ended and len(body.values) == expected,
        body.seconds,
    )


def _planned_rows(design: str, ranks: int, rounds: int) -> int:
    """Pairs of a pass."""
    return ranks * (ranks - 1) // 2 if design == "all" else rounds * (ranks // 2)


@dataclass
class _Body:
    values: tuple[PairValue, ...]
    silent: dict[str, str]
    ended: bool
    seconds: float | None


def _read_body(lines: list[str], nodes: tuple[str, ...], checksum: int, source: str) -> _Body:
    """Rows up to the last right checksum, silent nodes and the end; lines of others in between are passed over."""
    values: list[PairValue] = []
    body, took = _Body((), {}, False, None), None
    for line in lines:
        if row := _ROW.fullmatch(line):
            values.append(_value(row, nodes, source))
        elif silent := _SILENT.fullmatch(line):
            body.silent[silent[1]] = silent[2]
        elif end := _SO_FAR.fullmatch(line) or _END.fullmatch(line):
            if int(end[1]) != len(values) or int(end[2], 16) != checksum:
                raise BadInput(
                    f"{source}: rows and checksum of the pair map do not fit together; the output is damaged, run it again."
                )
            body.values, body.seconds, body.ended = tuple(values), took, line.startswith("# end")
            continue
        else:
            took = float(found[1]) if (found := _TOOK.fullmatch(line)) else took
            continue
        checksum = zlib.crc32(f"{line}\n".encode(), checksum)
    return body


def _value(row: re.Match[str], nodes: tuple[str, ...], source: str) -> PairValue:
    order, round_, phase, first, second = (int(row[at]) for at in range(1, 6))
    if max(first, second) >= len(nodes) or first == second:
        raise BadInput(f"{source}: the pair map has no pair {first} and {second}; the output is damaged, run it again.")
    value = None if row[9] == "-" else float(row[9])
    if value == 0:
        raise BadInput(f"{source}: {row[6]} of {nodes[first]} and {nodes[second]} is 0; the output is damaged, run it again.")
    return PairValue(order, round_, phase, nodes[first], nodes[second], row[6], int(row[7]), int(row[8]), value, None)


def tree_of(above: Mapping[str, tuple[str, ...]], origin: str) -> SwitchTree | None:
    """The tree of paths (the top switch first) of nodes; ``None`` where a node has none, or they are no tree."""
    switches: dict[str, Switch] = {}
    for node, path in above.items():
        if not path:
            return None
        for at, name in enumerate(path):
            parent = path[at - 1] if at else None
            known = switches.setdefault(name, Switch(parent))
            if known.parent != parent:
                return None
        switches[path[-1]] = Switch(switches[path[-1]].parent, (*switches[path[-1]].nodes, node))
    return SwitchTree(origin, switches)
