"""How the time of a collective grows with the nodes, against the rounds it needs.

A dissemination barrier, an allreduce by recursive doubling and an alltoall by Bruck's algorithm, which MPIs use for small
messages, take ceil(log2 p) rounds on p ranks (Thakur, Rabenseifner, Gropp: "Optimization of collective communication operations
in MPICH", IJHPCA 19:49, 2005; Hensgen, Finkel, Manber: "Two algorithms for barrier synchronization", IJPP 17:1, 1988). A time
that grows faster names a network that gets slower with its size, or nodes that are late.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

from ...samples import Sample

#: The quantity that is compared: one late repetition moves it little.
QUANTITY = "latency_p50_us"
_VARIANT = "nodes="


class Growth(NamedTuple):
    """Time on ``nodes`` nodes over that on the fewest, over the rounds on as many; 1 is as expected.

    :param nodes: node count; ``first``: the fewest that were measured.
    """

    benchmark: str
    message_bytes: int | None
    first: int
    nodes: int
    ratio: float

    @property
    def variant(self) -> str:
        """As in the name of the times it is made of."""
        return f"{_VARIANT}{self.nodes}"


def rounds(ranks: int) -> int:
    """``ceil(log2 ranks)``."""
    return (ranks - 1).bit_length()


def compare(samples: Iterable[Sample], ppn: int) -> list[Growth]:
    """The growth of each benchmark and size, from the medians of the repeats.

    :param ppn: ranks of each node.
    """
    times: dict[tuple[str, int | None], dict[int, float]] = {}
    for sample in samples:
        values = [value for value in sample.values if value is not None]
        if sample.quantity == QUANTITY and sample.variant.startswith(_VARIANT) and values:
            row = times.setdefault((sample.benchmark, sample.message_bytes), {})
            row[int(sample.variant.removeprefix(_VARIANT))] = median(values)
    return [
        Growth(name, size, first, nodes, row[nodes] / row[first] * rounds(first * ppn) / rounds(nodes * ppn))
        for (name, size), row in times.items()
        for first in [min(row)]
        for nodes in sorted(row)
        if nodes != first
    ]
