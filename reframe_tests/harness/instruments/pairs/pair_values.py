"""What a map of pairs gives: a value for each pair of nodes, direction and quantity, and the tree of switches between them.

Stored by the test with its case (``as_dict``) and read back by whoever judges it (``read_pair_map``). All rows of a map are
from one start of one MPI program with one rank a node. Bandwidths are those of one direction, in MB/s (1e6 bytes per second);
latencies are half of a round trip, in us: medians over the repetitions, and means, which also show who is stopped now and then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...machine.switches.tree import SwitchTree, read_tree
from ...vocabulary import BadInput

#: Quantities of a map, keys of :data:`vocabulary.QUANTITIES`.
LATENCY, BANDWIDTH, MEAN = QUANTITIES = ("latency_us", "bandwidth_mb_per_s", "latency_mean_us")
#: How pairs were chosen: each with each (circle method), or random perfect matchings, by switch where these are known.
ALL_PAIRS, SAMPLED = DESIGNS = ("all", "sampled")
#: Of the stored record; a reader refuses a newer one.
VERSION = 1


class PairValue(NamedTuple):
    """One measured value.

    Rows with the same order, round, quantity and phase were measured at the same time on disjoint pairs of nodes.

    :param order: number of the pass over all rounds, from 1; each has another order of rounds.
    :param round: number of the round in the job, from 1, through all passes, in the order in which they ran.
    :param phase: 1 or 2: each pair measures one direction, then the other.
    :param source: node that sends; of a latency, the one that starts the ping-pong.
    :param target: the other node.
    :param quantity: one of :data:`QUANTITIES`; with ``message_bytes`` the size of a message.
    :param repeat: number of the value in its phase, from 1.
    :param value: in the unit of the quantity; ``None`` where the pair was to be measured and was not.
    :param counted: whether the bytes that both nodes counted on the fabric are those of the schedule; ``None``: not known.
    """

    order: int
    round: int
    phase: int
    source: str
    target: str
    quantity: str
    message_bytes: int
    repeat: int
    value: float | None
    counted: bool | None


@dataclass(frozen=True)
class PairMapRecord:
    """A map of pairs.

    :param design: one of :data:`DESIGNS`; ``seed``: of the random numbers.
    :param rounds: rounds that were planned, in all passes; those that ran are in the values.
    :param nodes: hosts in the order of their ranks, without a domain.
    :param silent: nodes that stopped answering, and why that is known.
    :param tree: switches above the nodes; ``None`` where nobody says.
    :param oversubscription: what the nodes below a switch can send together over what its uplink is meant to carry; ``None``:
        nobody says.
    :param shared_cores: which ranks had to share a core, so that latency says nothing of a link; empty: none are known to.
    """

    design: str
    seed: int
    rounds: int
    nodes: tuple[str, ...]
    silent: Mapping[str, str]
    values: tuple[PairValue, ...]
    tree: SwitchTree | None = None
    oversubscription: float | None = None
    shared_cores: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionary, for the session's database: rows are lists, nodes in them numbers."""
        number = {node: at for at, node in enumerate(self.nodes)}
        rows = [
            [*row[:3], number[row.source], number[row.target], QUANTITIES.index(row.quantity), *row[6:]] for row in self.values
        ]
        return {
            "version": VERSION,
            "design": self.design,
            "seed": self.seed,
            "rounds": self.rounds,
            "nodes": list(self.nodes),
            "silent": dict(self.silent),
            "quantities": list(QUANTITIES),
            "columns": list(PairValue._fields),
            "rows": rows,
            "tree": self.tree.as_dict() if self.tree else None,
            "oversubscription": self.oversubscription,
            **({"shared_cores": self.shared_cores} if self.shared_cores else {}),
        }


#: What others call it, where no test of that name is near.
PairMap = PairMapRecord


def read_pair_map(value: Any, place: str) -> PairMapRecord | None:
    """Check the ``pair_map`` of a case; ``None`` where there is none.

    :raises BadInput: a field is absent or of the wrong type, a value is not finite, or the record is newer than this program.
    """
    if not value:
        return None
    if not isinstance(value, Mapping):
        raise BadInput(f"{place}: pair_map is {type(value).__name__}, expected a mapping.")
    version = value.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise BadInput(
            f"{place}: pair_map has version {version!r}, this program reads {VERSION}: read it with a newer mpibench."
        )
    nodes, silent, design = value.get("nodes"), value.get("silent") or {}, value.get("design")
    if not isinstance(nodes, (list, tuple)) or not all(isinstance(node, str) for node in nodes) or len(set(nodes)) < len(nodes):
        raise BadInput(f"{place}: the nodes of pair_map are not a list of different names.")
    if design not in DESIGNS or not isinstance(silent, Mapping):
        raise BadInput(
            f"{place}: design {design!r} or silent nodes of pair_map are not as written; expected {', '.join(DESIGNS)}."
        )
    # A map of before the means has the first two.
    quantities = value.get("quantities")
    if value.get("columns") != list(PairValue._fields) or quantities not in (list(QUANTITIES), list(QUANTITIES[:2])):
        raise BadInput(
            f"{place}: the columns of pair_map are {value.get('columns')} and its quantities {quantities}, "
            f"expected {list(PairValue._fields)} and {list(QUANTITIES)}."
        )
    share = value.get("oversubscription")
    if share is not None and (isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < math.inf):
        raise BadInput(f"{place}: oversubscription of pair_map is {share!r}, expected a number above 0.")
    return PairMapRecord(
        design=design,
        seed=_whole(value.get("seed"), f"{place}: seed of pair_map"),
        rounds=_whole(value.get("rounds"), f"{place}: rounds of pair_map"),
        nodes=tuple(nodes),
        silent={str(node): str(why) for node, why in silent.items()},
        values=tuple(_values(value.get("rows"), nodes, f"{place}: pair_map")),
        tree=read_tree(value.get("tree"), f"{place}: pair_map"),
        oversubscription=None if share is None else float(share),
        shared_cores=str(value.get("shared_cores") or ""),
    )


def _whole(value: Any, what: str, most: int = 1 << 62) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < most:
        raise BadInput(f"{what} is {value!r}, expected a whole number.")
    return value


def _values(rows: Any, nodes: Sequence[str], place: str) -> Iterator[PairValue]:
    if not isinstance(rows, (list, tuple)):
        raise BadInput(f"{place}: rows is {type(rows).__name__}, expected a list.")
    for index, row in enumerate(rows):
        where = f"{place}, row {index}"
        if not isinstance(row, (list, tuple)) or len(row) != len(PairValue._fields):
            raise BadInput(f"{where} has not {len(PairValue._fields)} fields.")
        *begin, source, target, quantity, size, repeat, value, counted = row
        order, round_, phase = (_whole(one, where) for one in begin)
        ends = [nodes[_whole(end, where, len(nodes))] for end in (source, target)]
        if ends[0] == ends[1]:
            raise BadInput(f"{where}: {ends[0]} is paired with itself.")
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value)):
            raise BadInput(f"{where}: value {value!r} is not a finite number and is refused.")
        if not (counted is None or isinstance(counted, bool)):
            raise BadInput(f"{where}: counted is {counted!r}, expected true, false or null.")
        yield PairValue(
            *(order, round_, phase, ends[0], ends[1]),
            *(QUANTITIES[_whole(quantity, where, len(QUANTITIES))], _whole(size, where), _whole(repeat, where)),
            None if value is None else float(value),
            counted,
        )
