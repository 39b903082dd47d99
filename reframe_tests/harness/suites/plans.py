"""How groups are run: what a plan says of one invocation, and what each level measures. Each suite has plans of its own.

Repetitions are bounded by count and volume (``-iter``), not by time, so that two stacks run the same work; ``-time`` is
only the ceiling that IMB needs. Volume is per size: the count at ``s`` bytes is min(count, volume / s), at least 1
(IMB User Guide, "-iter Option"). IMB times each size up to twice before it measures, so a launch takes about three times
what its counts say. Where a fabric has a line rate, the volume is at most what a link carries in :attr:`Level.link_s`, so
that a whole curve over 1 Gbit/s ends in the time one over 100 Gbit/s does; sizes stay, only repetitions shrink.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Level:
    """How thoroughly to measure.

    :param limit_s: seconds after which one launch is timed out.
    :param secs_per_sample: IMB's ``-time``: seconds per size. A benchmark that takes longer than one less than its sizes x
        this loses its last sizes (helper_time_check in IMB's src_cpp/helpers), so with few sizes it has to be generous.
    :param link_s: seconds a link may be busy with one size of one benchmark.
    :param link_share: share of the fabric's minimum efficiency that a link must reach. A few messages do not show a link that
        is some percent slow, but they show one that came up with one lane of four, or at a tenth of its rate.
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

    :param log2: logarithms to base 2 of the smallest and the largest message; IMB adds 0 bytes in front.
    :param count: most repetitions per size.
    :param volume_mib: MiB per size after which fewer repetitions are made.
    :param budget_s: seconds of one launch, for a suite whose repetitions are as many as there is time for; 0 for all others.
    """

    log2: tuple[int, int]
    count: int
    volume_mib: int
    budget_s: int = 0

    def limited(self, limits: Limits, level: Level, link_bytes: float) -> SizeRange:
        """The same sizes, with no more repetitions than the limits allow; a volume of 1 MiB is IMB's smallest.

        :param link_bytes: bytes the busiest link carries per byte of a message and repetition.
        """
        count = self.count if limits.most_repetitions is None else min(self.count, limits.most_repetitions)
        volume_mib = self.volume_mib
        if limits.line_rate_gbit_per_s is not None and link_bytes:
            carried_mib = limits.line_rate_gbit_per_s * 1e9 / 8 * level.link_s / link_bytes / (1 << 20)
            volume_mib = max(1, min(volume_mib, int(carried_mib)))
        return replace(self, count=count, volume_mib=volume_mib)

    @property
    def repetitions(self) -> int:
        """Repetitions of every size, where a binary cannot make more of the small ones: those the largest allows."""
        return max(1, min(self.count, (self.volume_mib << 20) >> self.log2[1]))


@dataclass(frozen=True)
class Plan:
    """One invocation of one binary.

    :param name: name of the launch; part of file names.
    :param benchmarks: rows run, in this order.
    :param size_ranges: one :class:`SizeRange` per level; at a level it has none for, the plan is left out.
    :param fan: its buffers hold one message per rank, so the largest size is bounded by memory.
    :param banded: other plans of its binary have the smaller sizes, so that it is left out where memory allows none of its own.
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


def at_levels(smoke: SizeRange, nightly: SizeRange, acceptance: SizeRange) -> Mapping[str, SizeRange]:
    """Size ranges of a plan that is run at every level."""
    return {"smoke": smoke, "nightly": nightly, "acceptance": acceptance}


#: Largest (ranks x message) of a plan whose buffers grow with the ranks, in bytes. Send and receive buffer of Alltoall
#: together stay at a quarter of the 1 GiB IMB allows itself per process (MAX_MEM_USAGE in src_c/IMB_mem_info.h).
FAN_BUFFER_BYTES = 128 << 20


def in_bands(binary: str, *bands: Mapping[str, SizeRange], fan: bool = False) -> tuple[Plan, ...]:
    """A binary that makes the same repetitions at every size of one run, as OSU's do: started once per band of sizes."""
    numbered = enumerate(bands, 1)
    return tuple(
        Plan(f"{binary}_{number}" if bands[1:] else binary, binary, (binary,), band, fan, banded=True)
        for number, band in numbered
    )
