"""What is computed from the numbers of one job: whether two suites agree on its link, and how
collectives grow with its nodes.

Agreement: OSU's numbers over IMB's, measured interleaved on the same cores and link. Compared is
what both define alike. Latency: half of a round trip of a blocking send and receive, one buffer.
Bandwidth: a window of 64 nonblocking sends from one buffer, then one answer of 1 (IMB) or 4 bytes
(OSU), bytes / 1e6 / seconds; bidirectional: the same from both sides at once (IMB_pingpong.c,
IMB_bandwidth.c; osu_latency.c, osu_bw.c, osu_bibw.c). What differs: IMB times all repetitions as
one and takes the slower rank, OSU (since 5.7) adds up the first rank's repetitions; IMB makes up to
as many repetitions as the volume allows, OSU the same number at all sizes of a run. Below some KiB
the window's answer weighs, so there the ratio also shows how the suites count, not only what the
link does.

Its statistic: each repeat gives one ratio, so that a disturbance that lasts hits both; the estimate
is their median, its interval runs from one order statistic to another and makes no assumption on
the distribution: with n ratios, the k-th smallest to the k-th largest hold the true median with
probability 1 - 2 sum_{i<k} C(n,i) / 2^n (Conover, Practical Nonparametric Statistics, 3.2). Six
repeats are the fewest that give 95 %.

Growth: a dissemination barrier, an allreduce by recursive doubling and an alltoall by Bruck's
algorithm, which MPIs use for small messages, take ceil(log2 p) rounds on p ranks (Thakur,
Rabenseifner, Gropp: "Optimization of collective communication operations in MPICH", IJHPCA 19:49,
2005; Hensgen, Finkel, Manber: "Two algorithms for barrier synchronization", IJPP 17:1, 1988). A
time that grows faster names a network that gets slower with its size, or nodes that are late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb
from statistics import median
from typing import Any, NamedTuple

from ...samples import Sample

#: Compared are (benchmark, quantity) of OSU and of IMB.
PAIRS: tuple[tuple[tuple[str, str], tuple[str, str]], ...] = (
    (("osu_latency", "latency_us"), ("PingPong", "latency_us")),
    (("osu_bw", "bandwidth_mb_per_s"), ("Uniband", "bandwidth_mb_per_s")),
    (("osu_bibw", "bandwidth_mb_per_s"), ("Biband", "bandwidth_mb_per_s")),
)
#: Wanted probability of the interval; fewer repeats than it needs give
#: the whole range, with its own probability.
LEVEL = 0.95
#: Suites agree where the whole interval is this close to equality: a convention, not derived from
#: anything. An interval that holds equality and is wider says nothing; that is said, and never
#: called agreement.
MARGIN = 0.1
AGREE = "agree"
DIFFER = "differ"
INCONCLUSIVE = "inconclusive"
#: Both suites print two decimals, so a value may be off by half of the last one.
HALF_PRINTED = 0.005

#: Values of the repeats of one (benchmark, quantity, message
#: size), ``None`` if a repeat gave none.
Repeats = Mapping[tuple[str, str, int | None], Sequence[float | None]]


@dataclass(frozen=True)
class Agreement:
    """One comparison at one message size.

    :param low: lower end of its interval, rounding of the printed values included.
    :param level: probability that the interval holds the true median.
    """

    first: str
    second: str
    quantity: str
    message_bytes: int
    ratio: float
    low: float
    high: float
    level: float
    repeats: int

    @property
    def verdict(self) -> str:
        """``differ``: equality is outside the interval; ``agree``: all of it is within
        :data:`MARGIN`; else ``inconclusive``.

        Nothing is concluded from fewer repeats than the wanted probability takes.
        """
        if self.level < LEVEL:
            return INCONCLUSIVE
        if not self.low <= 1.0 <= self.high:
            return DIFFER
        return AGREE if self.low >= 1 - MARGIN and self.high <= 1 + MARGIN else INCONCLUSIVE

    @property
    def sentence(self) -> str:
        interval = (
            f"{self.low:.3f} to {self.high:.3f} with {100 * self.level:.0f} %, n = {self.repeats}"
        )
        few = "too few repeats to say" if self.level < LEVEL else "too much spread to say"
        verdicts = {
            AGREE: "they agree",
            DIFFER: f"they differ by {100 * (self.ratio - 1):+.1f} %",
            INCONCLUSIVE: few,
        }
        size = f"{self.message_bytes} bytes"
        return (
            f"{self.first} is {self.ratio:.3f} x {self.second} at {size} ({interval}): "
            f"{verdicts[self.verdict]}."
        )

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict, "sentence": self.sentence}


def compare_suites(repeats: Repeats) -> list[Agreement]:
    """Every pair at every message size both have, in order of :data:`PAIRS` and size."""
    agreements = []
    for first, second in PAIRS:
        name, quantity = first
        for size in sorted(key[2] for key in repeats if key[:2] == first and key[2]):
            both = zip(
                repeats[name, quantity, size], repeats.get((*second, size), ()), strict=False
            )
            pairs = [(value, other) for value, other in both if value and other]
            if pairs:
                ratios = [value / other for value, other in pairs]
                low, high, level = interval(ratios)
                # Relative rounding of a ratio is that of both values together.
                rounding = max(
                    HALF_PRINTED / value + HALF_PRINTED / other for value, other in pairs
                )
                ends = (low * (1 - rounding), high * (1 + rounding))
                agreements.append(
                    Agreement(
                        name, second[0], quantity, size, median(ratios), *ends, level, len(ratios)
                    )
                )
    return agreements


def interval(values: Iterable[float], level: float = LEVEL) -> tuple[float, float, float]:
    """Interval of the median between two order statistics: lower end, upper end, probability.

    The narrowest with at least the probability ``level``; if there is none, the whole range.
    """
    ordered = sorted(values)
    count = len(ordered)
    outside = 0.0
    rank = 1
    tail = 0.0
    for k in range(1, count // 2 + 1):
        tail += comb(count, k - 1) / 2**count
        if k == 1 or 1 - 2 * tail >= level:
            rank = k
            outside = 2 * tail
    return ordered[rank - 1], ordered[count - rank], 1 - outside if count > 1 else 0.0


#: The quantity that is compared: one late repetition moves it little.
QUANTITY = "latency_p50_us"
_VARIANT = "nodes="


class Growth(NamedTuple):
    """Time on ``nodes`` nodes over that on the fewest, over the
    rounds on as many; 1 is as expected.

    :param nodes: node count; ``first``: the fewest that were measured.
    """

    benchmark: str
    message_bytes: int | None
    first: int
    nodes: int
    ratio: float

    @property
    def variant(self) -> str:
        """As in the name of the underlying times."""
        return f"{_VARIANT}{self.nodes}"


def rounds(ranks: int) -> int:
    return (ranks - 1).bit_length()


def compare_nodes(samples: Iterable[Sample], ppn: int) -> list[Growth]:
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
        Growth(
            name,
            size,
            first,
            nodes,
            row[nodes] / row[first] * rounds(first * ppn) / rounds(nodes * ppn),
        )
        for (name, size), row in times.items()
        for first in [min(row)]
        for nodes in sorted(row)
        if nodes != first
    ]
