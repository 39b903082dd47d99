"""How a suite is described: a benchmark as one row of the catalogue (its name, the ranks that take
part, what it prints, what it must send), how its group runs at each level, and a row of its output
as data.

Repetitions are bounded by count and volume (``-iter``), not by time, so that two stacks run the
same work; ``-time`` is only the ceiling that IMB needs. Volume is per size: the count at ``s``
bytes is min(count, volume / s), at least 1 (IMB User Guide, "-iter Option"). IMB times each size up
to twice before it measures, so a launch takes about three times what its counts say. If a fabric
has a line rate, the volume is at most what a link carries in :attr:`Level.link_s`, so that a whole
curve takes as long over 1 Gbit/s as over 100 Gbit/s; sizes stay, only repetitions shrink.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..vocabulary import LINK_BANDWIDTHS, BadInput
from .traffic import Bound, RunBound

#: The rule of ranks of a benchmark whose metrics are named with the
#: nodes of the job, which its output does not say.
BY_NODES = "all_by_nodes"
#: Which ranks take part when a benchmark is started on ``n`` ranks. Where ``n`` is odd, IMB runs an
#: ``even`` benchmark on n-1 ranks, but from 2019 on the last rank's message to rank 0 is never
#: received (IMB_init_communicator with the smaller count of helper_init_scope), and MPICH then
#: aborts in MPI_Finalize.
RANK_RULES: Mapping[str, str] = {
    "one": "exactly 1; the others wait",
    "pair": "exactly 2; the others wait",
    "only_pair": "2; refused on any other number",
    "even": "all; left out where n is odd",
    "even_only": "all; refused where n is odd",
    "all": "all",
    BY_NODES: "all; metrics say on how many nodes",
    "program": "all of one program; other programs may share the node",
    "grid2d": "all; refused unless n = a x b with a, b >= 2",
    "halves": "all, on an even number of nodes",
    "square": "all; refused unless n is a square",
    "power_of_two": "all; refused unless n is a power of two",
    "growing": "those of the first 2, 4, 8, ... nodes up to all, one after the other",
    "grid3d": "all; refused unless IMB finds n = a x b x c with a, b, c >= 2",
}

#: Ranks that take part at most, by the rule of ranks; without one here all may.
MOST_RANKS: Mapping[str, int] = {"one": 1, "pair": 2, "only_pair": 2}

#: What of a benchmark must cross between nodes that ranks fill in blocks. Every message; nothing
#: that can be relied on; or a number ``k``: nodes take the place of ranks in the bound, and one
#: node's share of the data is ``s x ppn^k``.
EVERY_MESSAGE = "every message"
NOTHING_SURE = "nothing sure"
#: Why nothing of a benchmark is compared with the counters of a
#: fabric, in the words of each case's evidence.
NO_DATA = "moves no data by design"

#: Questions that are asked on each level from the wire to the MPI: bandwidth of large messages
#: without pause, that of large messages one at a time, and latency of small ones. What answers the
#: same question can be compared.
STREAM = "stream"
SINGLE = "single"
SMALL = "small"

#: Which sizes a benchmark has: a doubling series, one element of the reduction type, or none.
SERIES = "series"
ELEMENT = "element"
SIZELESS = "none"


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
    :param min_ppn: smallest number of ranks on each.
    :param sizes: :data:`SERIES`, :data:`ELEMENT` or :data:`SIZELESS`.
    :param options: arguments it needs beyond sizes and repetitions.
    :param newer_options: further ones, known to the suite from ``options_since`` on.
    :param gated_sizes: quantity to the sizes that may carry a
        reference; other sizes are recorded only.
    :param reduction: sizes are whole elements of the reduction type (4 bytes by default).
    :param variants: modes the suite runs one after the other, as in :attr:`Record.variant`.
    :param since: first version of the suite that has it.
    :param until: first version of the suite in which it can no
        longer be proven; empty: there is none.
    :param line_rate_from_bytes: smallest message whose bandwidth is compared with the line rate.
        Below, a token bucket or a buffer may exceed it for a moment; and one message at a time
        still waits for its latency (1 MiB on 1 Gbit/s: 2 %).
    :param crossing: :data:`EVERY_MESSAGE`, :data:`NOTHING_SURE`, or the power
        of ranks per node one node's share grows with.
    :param of_run: lower bound on bytes of a whole run, where it depends on more than a message and
        its repetitions; then ``traffic`` is :func:`traffic.nothing`.
    :param unbounded: why no least number of bytes is known, or none
        where the layout of the ranks leaves none.
    :param title: what the suite calls it at the head of its output, where that is not the name.
    :param summed: its bandwidth is the sum of all pairs, half of
        the nodes sending to the other half.
    :param directions: 1 if the bandwidth of all pairs together flows one way over each link, 2 if
        both ways at once, 0 where it says nothing about a link.
    :param launch_time: the quantity that its output does not say: the time
        of the whole launch, as the job takes it.
    :param most_over_link: of ranks and nodes, the largest bandwidth over what the links of a node
        carry, for bandwidths of ranks; ``None``: at most that of the links.
    :param per_rank: its bandwidth is that of a rank with its share of
        the node's links, and not of all of them.
    :param link_share: share of the fabric's minimum efficiency that is enough: what all ranks do
        together waits for each; 0: its share is recorded, and nothing is asked of it.
    :param operations: kinds it is of that not every MPI does in GPU memory
        (:data:`mpis.transport.ONE_SIDED`, ...).
    :param cascade: of :data:`STREAM`, :data:`SINGLE` and :data:`SMALL` what it
        answers with one rank, or program, on a node.
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
    min_ppn: int = 1
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
    operations: tuple[str, ...] = ()
    of_run: RunBound | None = None
    unbounded: str = ""
    launch_time: str = ""
    most_over_link: Callable[[int, int], float] | None = None
    per_rank: bool = False
    link_share: float = 1.0

    def known_to(self, version: tuple[int, ...]) -> bool:
        """Whether a version of the suite has it in a provable form; an unknown version counts as
        having it.
        """
        return not version or (self.since <= version and (not self.until or version < self.until))

    def shows_line_rate(self, quantity: str, size: int | None) -> bool:
        return (
            quantity in LINK_BANDWIDTHS and size is not None and size >= self.line_rate_from_bytes
        )

    def traffic_between(self, message_bytes: int, ranks: int, nodes: int, launched: int = 0) -> int:
        """Lower bound on bytes per repetition between nodes, ranks filling them
        in equal blocks; inside one node, all bytes.

        Ranks of one node may use shared memory and may combine or share what they send, so only
        what one node as a whole must send another is counted: the argument of the bound with nodes
        instead of ranks.

        :param launched: ranks on all nodes; a benchmark run on several numbers of ranks takes the
            first of them, and what they send counts where they fill two nodes or more.
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
        """About how many bytes one link carries per byte of a message and
        repetition, ranks filling nodes in blocks.

        All bytes between nodes count as if two nodes took turns: right for a pair, up to twice too
        much where both ways are busy at once. Fabrics of one node carry all bytes of all ranks.
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
        """Ranks that take part at each node count, where these grow; else nothing."""
        if self.ranks != "growing":
            return ()
        return tuple(count * ranks // nodes for count in growing_node_counts(nodes))

    def variant_of_nodes(self, nodes: int) -> str:
        """What the job's nodes add to the variant, as ``nodes=4``; empty if they are not part of
        the measurement.
        """
        return f"nodes={nodes}" if self.ranks == BY_NODES else ""

    def links(self, ranks: int, nodes: int) -> float:
        """Links whose line rates its bandwidth is compared with: one for each
        pair, of nodes or of one's GPUs, in its sum.
        """
        if self.per_rank and nodes > 1:
            return nodes / ranks
        return max(1.0, (nodes if nodes > 1 else ranks) / 2) if self.summed else 1.0

    def carried(self, ranks: int, nodes: int) -> float:
        """By how much its bandwidth may exceed the line rate: links whose
        bandwidths it adds up, or ranks that share theirs.
        """
        return (
            self.most_over_link(ranks, nodes) if self.most_over_link else self.links(ranks, nodes)
        )

    def active(self, ranks: int, nodes: int | None = None) -> int:
        """Ranks that take part when started on ``ranks``; 0 if the
        benchmark cannot be run on that number.

        :param nodes: the nodes they are on; ``None``: as many as the benchmark needs.
        """
        if ranks < max(self.min_ranks, self.min_nodes * self.min_ppn) or (
            nodes is not None and (nodes < self.min_nodes or ranks < nodes * self.min_ppn)
        ):
            return 0
        if self.ranks == "halves" and nodes is not None and nodes % 2:
            return 0
        if most := MOST_RANKS.get(self.ranks):
            return 0 if self.ranks == "only_pair" and ranks != most else most
        if self.ranks in ("even", "even_only", "halves"):
            return 0 if ranks % 2 else ranks
        if self.ranks == "square":
            return ranks if math.isqrt(ranks) ** 2 == ranks else 0
        if self.ranks == "power_of_two":
            return 0 if ranks & (ranks - 1) else ranks
        if sides := self.grid(ranks):
            return ranks if min(sides) >= 2 else 0
        return ranks

    def grid(self, ranks: int) -> tuple[int, ...]:
        """Sides of the grid a stencil lays its ranks out on, as
        printed; empty for everything else.
        """
        if self.ranks == "grid2d":
            return _rectangle(ranks)
        return _cuboid(ranks) if self.ranks == "grid3d" else ()


def by_name(rows: Iterable[Benchmark]) -> dict[tuple[str, str], Benchmark]:
    return {(row.binary, row.name): row for row in rows}


def find(rows: Mapping[tuple[str, str], Benchmark], binary: str, name: str) -> Benchmark:
    """The row of a benchmark."""
    try:
        return rows[binary, name]
    except KeyError:
        raise BadInput(
            "unknown-name",
            f"{binary} has no benchmark called '{name}' in the catalogue; 'mpibench catalogue' "
            "lists all.",
        ) from None


def version_tuple(version: str) -> tuple[int, ...]:
    """Numbers of a suite's version: ``2021.11`` is ``(2021, 11)``,
    ``2019 Update 6`` is ``(2019, 6)``.
    """
    return tuple(int(number) for number in re.findall(r"[0-9]+", version))


def doubling_sizes(
    first: int, largest: int, *, unit: int = 1, zero: bool = True
) -> tuple[int, ...]:
    """Message sizes of a run without a list of lengths, as helper_init_scope
    (src_cpp/helpers) and IMB.c (2018) make them.

    :param first: second smallest size in bytes (``2^min`` of ``-msglog
        min:max``), rounded up to whole elements.
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
    """Sides IMB-P2P splits ``ranks`` into, as printed; a 1 among them
    where it finds none (imb_p2p_stencil2d.c).
    """
    rows = 2
    while rows * rows < ranks:
        rows += 1
    while ranks % rows:
        rows -= 1
    return rows, ranks // rows


def _cuboid(ranks: int) -> tuple[int, int, int]:
    """Sides IMB-P2P splits ``ranks`` into, as printed; only ones
    where it refuses (imb_p2p_stencil3d.c).

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
    :param variant: part of the name where a benchmark has several, e.g.
        ``Unidir_put.aggregate.latency.0000000008``.
    """
    words = [benchmark]
    if variant:
        words.append(variant.replace("=", "").replace(",", "_"))
    words.append(quantity)
    if message_bytes is not None:
        words.append(f"{message_bytes:0{SIZE_DIGITS}d}")
    return ".".join(words)


# How groups are run.


@dataclass(frozen=True)
class Level:
    """How thoroughly to measure.

    :param limit_s: seconds after which one launch is timed out.
    :param secs_per_sample: IMB's ``-time``: seconds per size. A benchmark that takes longer than
        one less than its sizes x this loses its last sizes (helper_time_check in IMB's
        src_cpp/helpers), so with few sizes it has to be generous.
    :param link_s: seconds a link may be busy with one size of one benchmark.
    :param link_share: share of the fabric's minimum efficiency that a link must reach. A few
        messages do not show a link that is some percent slow, but they show one that came up with
        one lane of four, or at a tenth of its rate.
    """

    limit_s: int
    secs_per_sample: int
    link_s: float
    link_share: float = 1.0


LEVELS: Mapping[str, Level] = {
    "smoke": Level(limit_s=60, secs_per_sample=60, link_s=0.25, link_share=0.4),
    "nightly": Level(limit_s=300, secs_per_sample=30, link_s=0.5),
    "acceptance": Level(limit_s=900, secs_per_sample=60, link_s=1.0),
}


@dataclass(frozen=True)
class Limits:
    """Limits of the repetitions where a plan is run; ``None``: there is none.

    :param line_rate_gbit_per_s: of all rails of the fabric together.
    :param most_repetitions: of any size; for sites where ranks wait for each other's cores.
    """

    line_rate_gbit_per_s: float | None = None
    most_repetitions: int | None = None


#: No limit is known.
UNBOUNDED = Limits()


@dataclass(frozen=True)
class SizeRange:
    """Message sizes of one plan at one level, and their repetitions.

    :param log2: logarithms to base 2 of the smallest and the largest
        message; IMB adds 0 bytes in front.
    :param count: most repetitions per size.
    :param volume_mib: MiB per size after which fewer repetitions are made.
    :param budget_s: seconds of one launch, for a suite whose repetitions are as
        many as there is time for; 0 for all others.
    """

    log2: tuple[int, int]
    count: int
    volume_mib: int
    budget_s: int = 0

    def limited(self, limits: Limits, level: Level, link_bytes: float) -> SizeRange:
        """The same sizes, with no more repetitions than the limits
        allow; a volume of 1 MiB is IMB's smallest.

        :param link_bytes: bytes the busiest link carries per byte of a message and repetition.
        """
        count = (
            self.count
            if limits.most_repetitions is None
            else min(self.count, limits.most_repetitions)
        )
        volume_mib = self.volume_mib
        if limits.line_rate_gbit_per_s is not None and link_bytes:
            carried_mib = (
                limits.line_rate_gbit_per_s * 1e9 / 8 * level.link_s / link_bytes / (1 << 20)
            )
            volume_mib = max(1, min(volume_mib, int(carried_mib)))
        return replace(self, count=count, volume_mib=volume_mib)

    @property
    def repetitions(self) -> int:
        """Repetitions of every size, where a binary cannot make more of
        the small ones: those the largest allows.
        """
        return max(1, min(self.count, (self.volume_mib << 20) >> self.log2[1]))


@dataclass(frozen=True)
class Plan:
    """One invocation of one binary.

    :param name: name of the launch; part of file names.
    :param benchmarks: rows run, in this order.
    :param size_ranges: one :class:`SizeRange` per level; at a level it
        has none for, the plan is left out.
    :param fan: its buffers hold one message per rank, so the largest size is bounded by memory.
    :param banded: other plans of its binary have the smaller sizes, so that it is left out where
        memory allows none of its own.
    :param threads: threads per rank that communicate; 0 where the benchmark does not say.
    :param env: variables the binary needs.
    """

    name: str
    binary: str
    benchmarks: tuple[str, ...]
    size_ranges: Mapping[str, SizeRange]
    fan: bool = False
    banded: bool = False
    threads: int = 0
    env: Mapping[str, str] = field(default_factory=dict)


def at_levels(
    smoke: SizeRange, nightly: SizeRange, acceptance: SizeRange
) -> Mapping[str, SizeRange]:
    return {"smoke": smoke, "nightly": nightly, "acceptance": acceptance}


#: Largest (ranks x message) of a plan whose buffers grow with the ranks, in bytes. Send and receive
#: buffer of Alltoall together stay at a quarter of the 1 GiB IMB allows itself per process
#: (MAX_MEM_USAGE in src_c/IMB_mem_info.h).
FAN_BUFFER_BYTES = 128 << 20


def in_bands(binary: str, *bands: Mapping[str, SizeRange], fan: bool = False) -> tuple[Plan, ...]:
    """A binary with the same repetitions at every size of a run, as OSU's: started once per band of
    sizes.
    """
    numbered = enumerate(bands, 1)
    return tuple(
        Plan(
            f"{binary}_{number}" if bands[1:] else binary, binary, (binary,), band, fan, banded=True
        )
        for number, band in numbered
    )


# Outputs.

_NUMBER_LIKE = r"(?=\S*\d)[\d.+-]*(?:[A-Za-z?,][\d.+-]*)?"
#: A line of numbers in columns, one of them with a point; each may have a
#: sign wrong, and so may be of a damaged table.
ROW_LIKE = (
    rf"[ \t]*(?=.*\.)(?:{_NUMBER_LIKE}|nan|inf)"
    rf"(?:[ \t]+(?:{_NUMBER_LIKE}|-?nan|-?inf|Pass|Fail|passed|failed|skipped))+[ \t\r]*"
)


@dataclass(frozen=True)
class Record:
    """One row of a benchmark's table.

    :param suite: name of the suite (:attr:`model.Suite.name`).
    :param benchmark: name as the suite prints it (``PingPong``, ``Allreduce``).
    :param ranks: processes active in the benchmark (per group, where there are several); ``None``
        where the suite prints no number (collectives of OSU).
    :param groups: number of groups running at the same time (1 unless ``-multi``).
    :param message_bytes: message size in bytes; ``None`` if the
        benchmark has none (``Barrier``).
    :param repetitions: repetitions the row averages over; ``None`` if the suite prints none.
    :param values: quantity name (a key of :data:`vocabulary.QUANTITIES`) to value in that
        quantity's unit.
    :param variant: what else the section head says that makes it another measurement (``aggregate``
        or ``non-aggregate`` mode of IMB-RMA, the threads of IMB-MT, the group of a ``-multi`` run,
        the window and synchronisation of OSU's one-sided benchmarks); empty otherwise.
    :param validated: whether the row itself says that the data received was right (``-c`` of OSU).
    :param problem: sizes of the problem, as printed, by which bytes
        are counted (:data:`traffic.RunBound`).
    :param measured_ns: from when to when it was measured, in ns of
        CLOCK_MONOTONIC, where the suite says so.
    """

    suite: str
    benchmark: str
    ranks: int | None
    groups: int
    message_bytes: int | None
    repetitions: int | None
    values: Mapping[str, float]
    variant: str = ""
    validated: bool = False
    measured_ns: tuple[int, int] | None = None
    problem: Mapping[str, int] = field(default_factory=dict)


class OutputError(BadInput):
    """An output that is truncated, mixed up, empty or not understood; nothing of it is used."""
