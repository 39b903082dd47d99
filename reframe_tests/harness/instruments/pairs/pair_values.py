"""What a map of pairs gives: a value for each pair of nodes, direction and
quantity, and the tree of switches between them.

Stored by the test with its case (``as_dict``) and read back by whoever judges it
(``read_pair_map``). All rows of a map are from one start of one MPI program with one rank a node.
Bandwidths are those of one direction, in MB/s (1e6 bytes per second); latencies are half of a round
trip, in us: medians over the repetitions, and means, which also show who is stopped now and then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, NamedTuple

import msgspec

from ...machine.switches import SwitchTree
from ...samples import Count
from ...vocabulary import BadInput

#: Quantities of a map, keys of :data:`vocabulary.QUANTITIES`.
LATENCY, BANDWIDTH, MEAN = QUANTITIES = ("latency_us", "bandwidth_mb_per_s", "latency_mean_us")
#: How pairs were chosen: each with each (circle method), or random
#: perfect matchings, by switch where these are known.
ALL_PAIRS, SAMPLED = DESIGNS = ("all", "sampled")
#: Of the stored record; a reader refuses a newer one.
VERSION = 1


class PairValue(NamedTuple):
    """One measured value.

    Rows with the same order, round, quantity and phase were measured at
    the same time on disjoint pairs of nodes.

    :param order: number of the pass over all rounds, from 1; each has another order of rounds.
    :param round: number of the round in the job, from 1, through all
        passes, in the order in which they ran.
    :param phase: 1 or 2: each pair measures one direction, then the other.
    :param source: node that sends; of a latency, the one that starts the ping-pong.
    :param target: the other node.
    :param quantity: one of :data:`QUANTITIES`; with ``message_bytes`` the size of a message.
    :param repeat: number of the value in its phase, from 1.
    :param value: in the unit of the quantity; ``None`` where the
        pair was to be measured and was not.
    :param counted: whether the bytes that both nodes counted on the fabric are those of the
        schedule; ``None``: not known.
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
    :param oversubscription: what the nodes below a switch can send together over what its uplink is
        meant to carry; ``None``: nobody says.
    :param shared_cores: which ranks had to share a core, so that latency says
        nothing of a link; empty: none are known to.
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
        kept = {
            name: value
            for name, value in vars(self).items()
            if name != "values" and (name != "shared_cores" or value)
        }
        return {
            **kept,
            "version": VERSION,
            "nodes": list(self.nodes),
            "silent": dict(self.silent),
            "quantities": list(QUANTITIES),
            "columns": list(PairValue._fields),
            "rows": [
                [
                    *row[:3],
                    number[row.source],
                    number[row.target],
                    QUANTITIES.index(row.quantity),
                    *row[6:],
                ]
                for row in self.values
            ],
            "tree": asdict(self.tree) if self.tree else None,
        }


#: What others call it, where no test of that name is near.
PairMap = PairMapRecord


@dataclass(frozen=True)
class _Stored:
    """A record as :meth:`PairMapRecord.as_dict` writes it: rows are
    :class:`PairValue` with numbers for nodes and quantity.
    """

    version: int
    design: Annotated[str, msgspec.Meta(pattern="^(all|sampled)$")]
    seed: Count
    rounds: Count
    nodes: tuple[str, ...]
    rows: tuple[
        tuple[Count, Count, Count, Count, Count, Count, Count, Count, float | None, bool | None],
        ...,
    ]
    silent: Mapping[str, str] = field(default_factory=dict)
    tree: SwitchTree | None = None
    oversubscription: Annotated[float, msgspec.Meta(gt=0)] | None = None
    shared_cores: str = ""


def read_pair_map(value: Any, place: str) -> PairMapRecord | None:
    """The ``pair_map`` of a case; ``None`` where there is none.

    :raises BadInput: a field is absent or of the wrong type, or the
        record is newer than this program.
    """
    if not value:
        return None
    if (
        isinstance(value, Mapping)
        and isinstance(version := value.get("version"), int)
        and version > VERSION
    ):
        raise BadInput(
            "other-release",
            f"{place}: pair_map has version {version}, this program reads {VERSION}: read it "
            "with a newer mpibench.",
        )
    try:
        stored = msgspec.convert(value, _Stored)
        nodes = stored.nodes
        values = tuple(
            PairValue._make((*row[:3], nodes[row[3]], nodes[row[4]], QUANTITIES[row[5]], *row[6:]))
            for row in stored.rows
        )
    except (msgspec.ValidationError, IndexError) as error:
        raise BadInput(
            "output-damaged",
            f"{place}: pair_map: {error}; the record is damaged, run the case again.",
        ) from None
    return PairMapRecord(
        stored.design,
        stored.seed,
        stored.rounds,
        stored.nodes,
        stored.silent,
        values,
        stored.tree,
        stored.oversubscription,
        stored.shared_cores,
    )
