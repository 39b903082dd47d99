"""A benchmark as one row of the catalogue: what it is called, who takes part, what it prints, what it must send."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ..vocabulary import BadInput, NotMeasured
from .traffic import Bound, RunBound

#: The rule of ranks of a benchmark whose metrics are named with the nodes of the job, which its output does not say.
BY_NODES = "all_by_nodes"
#: Which ranks take part when a benchmark is started on ``n`` ranks. Where ``n`` is odd, IMB runs an ``even`` benchmark on
#: n-1 ranks, but from 2019 on the last rank's message to rank 0 is never received (IMB_init_communicator with the smaller
#: count of helper_init_scope), and MPICH then aborts in MPI_Finalize.
RANK_RULES: Mapping[str, str] = {
    "one": "exactly 1, the others wait",
    "pair": "exactly 2, the others wait",
    "only_pair": "2; refused on any other number",
    "even": "all; left out where n is odd",
    "even_only": "all; refused where n is odd",
    "all": "all",
    BY_NODES: "all; metrics say on how many nodes",
    "program": "all of one program, beside which others may share the node",
    "grid2d": "all; refused unless n = a x b with a, b >= 2",
    "halves": "all, on an even number of nodes",
    "square": "all; refused unless n is a square",
    "power_of_two": "all; refused unless n is a power of two",
    "growing": "those of the first 2, 4, 8, ... nodes up to all, one count after the other",
    "grid3d": "all; refused unless IMB finds n = a x b x c with a, b, c >= 2",
}

#: Ranks that take part at most, by the rule of ranks; without one here all may.
MOST_RANKS: Mapping[str, int] = {"one": 1, "pair": 2, "only_pair": 2}

#: What of a benchmark must cross between nodes that ranks fill in blocks. Every message; nothing that can be relied on;
#: or a number ``k``: nodes take the place of ranks in the bound, and one node's share of the data is ``s x ppn^k``.
EVERY_MESSAGE, NOTHING_SURE = "every message", "nothing sure"
#: Why nothing of a benchmark is held against the counters of a fabric, in the words of each case's evidence.
NO_DATA = "moves no data by design"

#: Questions that are asked on each level from the wire to the MPI: bandwidth of large messages without pause, that of large
#: messages one at a time, and latency of small ones. What answers the same question can be compared.
STREAM, SINGLE, SMALL = "stream", "single", "small"

#: Which sizes a benchmark has: a doubling series, one element of the reduction type, or none.
SERIES, ELEMENT, SIZELESS = "series", "element", "none"


#: Number of ranks in a variant, where a benchmark is run on several numbers of them.
_RANKS_OF_VARIANT = re.compile(r"\branks=([1-9][0-9]*)$")

#: Width of message sizes in metric names: text order is size order up to 10 GB - 1.
SIZE_DIGITS = 10


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    :param name: as the suite prints it.
    :param suite: :attr:`model.Suite.name`; also the feature a stack must have.
    :param binary: binary or command in the stack's metadata.
    :param group: key of :data:`catalogue.GROUPS`.
    :param ranks: key of :data:`RANK_RULES`.
    :param quantities: quantities in column order, as printed without ``-multi``.
    :param traffic: lower bound on bytes sent by all active ranks together per repetition.
    :param min_ranks: smallest number of ranks that makes sense.
    :param min_nodes: smallest number of nodes they must be on.
    :param sizes: :data:`SERIES`, :data:`ELEMENT` or :data:`SIZELESS`.
    :param options: arguments it needs beyond sizes and repetitions.
    :param newer_options: further ones, known to the suite from ``options_since`` on.
    :param gated_sizes: quantity to the sizes that may carry a reference; other sizes are recorded only.
    :param reduction: sizes are whole elements of the reduction type (4 bytes by default).
    :param variants: modes the suite runs one after the other, as in :attr:`records.Record.variant`.
    :param since: first version of the suite that has it.
    :param until: first version of the suite in which it can no longer be proven; empty: there is none.
    :param line_rate_from_bytes: smallest message whose bandwidth is held against the line rate. Below, a token bucket or a
        buffer may exceed it for a moment; and one message at a time still waits for its latency (1 MiB on 1 Gbit/s: 2 %).
    :param crossing: :data:`EVERY_MESSAGE`, :data:`NOTHING_SURE`, or the power of ranks per node one node's share grows with.
    :param of_run: lower bound on bytes of a whole run, where it depends on more than a message and its repetitions; then
        ``traffic`` is :func:`traffic.nothing`.
    :param unbounded: why no least number of bytes is known, or none where the layout of the ranks leaves none.
    :param title: what the suite calls it at the head of its output, where that is not the name.
    :param summed: its bandwidth is the sum of all pairs, half of the nodes sending to the other half.
    :param directions: 1 if the bandwidth of all pairs together flows one way over each link, 2 if both ways at once,
        0 where it says nothing about a link.
    :param launch_time: the quantity that its output does not say: the time of the whole launch, as the job takes it.
    :param first_ranks: only so many of the ranks take part, the first ones, in pairs half of these apart; 0: as ``ranks`` says.
    :param cascade: of :data:`STREAM`, :data:`SINGLE` and :data:`SMALL` what it answers with one rank, or program, on a node.
    """

    name: str
    suite: str
    binary: str
    group: str
    ranks: str
    quantities: tuple[str, ...]
    traffic: Bound
    min_ranks: int = 2
    min_nodes: int = 1
    sizes: str = SERIES
    options: tuple[str, ...] = ()
    newer_options: tuple[str, ...] = ()
    options_since: tuple[int, ...] = ()
    gated_sizes: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    reduction: bool = False
    variants: tuple[str, ...] = ("",)
    since: tuple[int, ...] = ()
    until: tuple[int, ...] = ()
    directions: int = 0
    summed: bool = False
    line_rate_from_bytes: int = 1 << 20
    crossing: str | int = EVERY_MESSAGE
    title: str = ""
    cascade: tuple[str, ...] = ()
    first_ranks: int = 0
    of_run: RunBound | None = None
    unbounded: str = ""
    launch_time: str = ""

    def known_to(self, version: tuple[int, ...]) -> bool:
        """Whether a version of the suite has it in a form that can be proven; an unknown version counts as such."""
        return not version or (self.since <= version and (not self.until or version < self.until))

    def shows_line_rate(self, quantity: str, size: int | None) -> bool:
        """Whether this quantity of a size is held against the line rate."""
        return quantity == "bandwidth_mb_per_s" and size is not None and size >= self.line_rate_from_bytes

    def traffic_between(self, message_bytes: int, ranks: int, nodes: int, launched: int = 0) -> int:
        """Lower bound on bytes per repetition between nodes, ranks filling them in equal blocks; inside one node, all bytes.

        Ranks of one node may use shared memory and may combine or share what they send, so only what one node as a whole
        must send another is counted: the argument of the bound with nodes in the place of ranks.

        :param launched: ranks on all nodes; a benchmark run on several numbers of ranks takes the first of them, and what they
            send counts where they fill two nodes or more.
        """
        if ranks < launched and self.growing_ranks(launched, nodes):
            nodes, rest = divmod(ranks, launched // nodes)
            if rest or nodes < 2:
                return 0
        if nodes == 1 or self.crossing == EVERY_MESSAGE:
            return self.traffic(message_bytes, ranks)
        if self.crossing == NOTHING_SURE:
            return 0
        return self.traffic(message_bytes * (ranks // nodes) ** int(self.crossing), nodes)

    def link_bytes(self, ranks: int, nodes: int) -> float:
        """About how many bytes one link carries per byte of a message and repetition, ranks filling nodes in blocks.

        All bytes between nodes count as if two nodes took turns: right for a pair, up to twice too much where both ways are
        busy at once. Fabrics of one node carry all bytes of all ranks.
        """
        size = 1 << 20
        if self.sizes == SIZELESS:  # there is no message that repetitions could be counted by
            return 0.0
        if nodes == 1 or self.crossing == NOTHING_SURE:
            carried = self.traffic(size, ranks)
        else:
            carried = self.traffic_between(size, ranks, nodes)
        return carried / size * 2 / max(2, min(nodes, ranks))

    def growing_ranks(self, ranks: int, nodes: int) -> tuple[int, ...]:
        """Ranks that take part in each variant: at each node count where these grow, or as the variants say; else nothing."""
        if self.ranks == "growing":
            return tuple(count * ranks // nodes for count in growing_node_counts(nodes))
        return tuple(int(said[1]) for said in map(_RANKS_OF_VARIANT.search, self.variants) if said)

    def variant_of_nodes(self, nodes: int) -> str:
        """What the nodes of the job add to its variants, as ``nodes=4``; empty where they are no part of what is measured."""
        return f"nodes={nodes}" if self.ranks == BY_NODES else ""

    def check_crossing(self, ranks: int, nodes: int) -> None:
        """Make sure that every pair of :attr:`first_ranks` is of two nodes where there are several.

        :raises NotMeasured: if one is not: its messages would not go over the fabric.
        """
        if nodes > 1 and 0 < self.first_ranks // 2 < ranks // nodes:
            raise NotMeasured(f"{self.first_ranks // 2} pairs stay on one node; ask for {ranks // nodes} or more")

    def links(self, nodes: int) -> float:
        """Links whose line rates its bandwidth is held against: one for each pair of nodes whose bandwidths are added up."""
        return max(1.0, nodes / 2) if self.summed else 1.0

    def active(self, ranks: int, nodes: int | None = None) -> int:
        """Ranks that take part when started on ``ranks``; 0 if the benchmark cannot be run on that number.

        :param nodes: the nodes they are on; ``None``: as many as the benchmark needs.
        """
        if ranks < max(self.min_ranks, self.min_nodes) or (nodes is not None and nodes < self.min_nodes):
            return 0
        if self.ranks == "halves" and nodes is not None and nodes % 2:
            return 0
        if most := MOST_RANKS.get(self.ranks):
            return 0 if self.ranks == "only_pair" and ranks != most else most
        if self.ranks in ("even", "even_only", "halves"):
            return 0 if ranks % 2 else self.first_ranks or ranks
        if self.ranks == "square":
            return ranks if math.isqrt(ranks) ** 2 == ranks else 0
        if self.ranks == "power_of_two":
            return 0 if ranks & (ranks - 1) else ranks
        if sides := self.grid(ranks):
            return ranks if min(sides) >= 2 else 0
        return ranks

    def grid(self, ranks: int) -> tuple[int, ...]:
        """Sides of the grid a stencil lays its ranks out on, as printed; empty for everything else."""
        if self.ranks == "grid2d":
            return _rectangle(ranks)
        return _cuboid(ranks) if self.ranks == "grid3d" else ()


def by_name(rows: Iterable[Benchmark]) -> dict[tuple[str, str], Benchmark]:
    """Rows by binary and name."""
    return {(row.binary, row.name): row for row in rows}


def find(rows: Mapping[tuple[str, str], Benchmark], binary: str, name: str) -> Benchmark:
    """The row of a benchmark.

    :raises BadInput: if there is none.
    """
    try:
        return rows[binary, name]
    except KeyError:
        raise BadInput(
            "benchmark-unknown", f"{binary} has no benchmark called '{name}' in the catalogue; 'mpibench catalogue' lists all."
        ) from None


def version_tuple(version: str) -> tuple[int, ...]:
    """Numbers of a suite's version: ``2021.11`` is ``(2021, 11)``, ``2019 Update 6`` is ``(2019, 6)``."""
    return tuple(int(number) for number in re.findall(r"[0-9]+", version))


def doubling_sizes(first: int, largest: int, *, unit: int = 1, zero: bool = True) -> tuple[int, ...]:
    """Message sizes of a run without a list of lengths, as helper_init_scope (src_cpp/helpers) and IMB.c (2018) make them.

    :param first: second smallest size in bytes (``2^min`` of ``-msglog min:max``), rounded up to whole elements.
    :param largest: largest size in bytes (``2^max``), rounded down to whole elements.
    :param unit: bytes of one element.
    :param zero: whether 0 bytes comes first.
    """
    top = largest // unit * unit
    sizes = [0] if zero else []
    size = -(-first // unit) * unit
    while not sizes or sizes[-1] < top:
        sizes.append(min(size, top))
        size *= 2
    return tuple(sizes)


def grow(rows: Collection[Benchmark]) -> bool:
    """Whether all that rows measure is named with the number of nodes it was measured on."""
    return bool(rows) and all(row.ranks in ("growing", BY_NODES) for row in rows)


def need_few_nodes(rows: Collection[Benchmark]) -> bool:
    """Whether rows use one rank or two, however many there are: further nodes would only wait."""
    return bool(rows) and all(row.ranks in MOST_RANKS for row in rows)


def growing_node_counts(nodes: int) -> tuple[int, ...]:
    """The powers of two from 2 on below ``nodes``, then ``nodes``: 2, 4, 6 of six nodes."""
    return (*(1 << log2 for log2 in range(1, nodes.bit_length()) if 1 << log2 < nodes), nodes)


def _rectangle(ranks: int) -> tuple[int, int]:
    """Sides IMB-P2P splits ``ranks`` into, as printed; a 1 among them where it finds none (imb_p2p_stencil2d.c)."""
    rows = 2
    while rows * rows < ranks:
        rows += 1
    while ranks % rows:
        rows -= 1
    return rows, ranks // rows


def _cuboid(ranks: int) -> tuple[int, int, int]:
    """Sides IMB-P2P splits ``ranks`` into, as printed; only ones where it refuses (imb_p2p_stencil3d.c).

    It is a greedy search: 104 = 13 x 4 x 2 ranks, for one, are refused.
    """
    layers = 2
    while layers**3 < ranks:
        layers += 1
    rows = columns = layers
    while layers * rows * columns > ranks:
        layers -= 1
        while ranks % layers:
            layers -= 1
        sides = _rectangle(ranks // layers)
        if sides[0] >= layers:
            rows, columns = sides
    return (layers, rows, columns) if layers * rows * columns == ranks else (1, 1, 1)


def metric_name(benchmark: str, quantity: str, message_bytes: int | None, variant: str = "") -> str:
    """Name of a performance variable, e.g. ``PingPong.latency.0000000008``, ``Barrier.t_max``.

    :param quantity: short name (:attr:`vocabulary.Quantity.short`).
    :param variant: part of the name where a benchmark has several, e.g. ``Unidir_put.aggregate.latency.0000000008``.
    """
    words = [benchmark]
    if variant:
        words.append(variant.replace("=", "").replace(",", "_"))
    words.append(quantity)
    if message_bytes is not None:
        words.append(f"{message_bytes:0{SIZE_DIGITS}d}")
    return ".".join(words)
