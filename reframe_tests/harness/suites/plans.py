"""How the groups are run: which benchmarks share one invocation, over which sizes and repetitions, at each depth.

Repetitions are bounded by count and volume (``-iter``), not by time, so that two stacks run the same work; ``-time`` is
only the ceiling that IMB needs. Volume is per size: the count at ``s`` bytes is min(count, volume / s), at least 1
(IMB User Guide, "-iter Option"). IMB times each size up to twice before it measures, so a launch takes about three times
what its counts say. Where a fabric has a line rate, the volume is at most what a link carries in :attr:`Depth.link_s`, so
that a whole curve over 1 Gbit/s ends in the time one over 100 Gbit/s does; sizes stay, only repetitions shrink.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Depth:
    """How deep to measure.

    :param limit_s: seconds after which one launch is taken for hung.
    :param secs_per_sample: IMB's ``-time``: seconds per size. A benchmark that takes longer than one less than its sizes x
        this loses its last sizes (helper_time_check in IMB's src_cpp/helpers), so with few sizes it has to be generous.
    :param link_s: seconds a link may be busy with one size of one benchmark.
    :param link_share: share of the fabric's minimum efficiency that a link must reach. A few messages do not tell a link that
        is some percent slow, but they tell one that came up with one lane of four, or at a tenth of its rate.
    """

    limit_s: int
    secs_per_sample: int
    link_s: float
    link_share: float = 1.0


DEPTHS: Mapping[str, Depth] = {
    "smoke": Depth(limit_s=60, secs_per_sample=60, link_s=0.25, link_share=0.4),
    "nightly": Depth(limit_s=300, secs_per_sample=30, link_s=0.5),
    "acceptance": Depth(limit_s=900, secs_per_sample=60, link_s=1.0),
}


@dataclass(frozen=True)
class Pace:
    """What bounds repetitions where a plan is run; ``None``: nothing does.

    :param line_rate_gbit_per_s: of all rails of the fabric together.
    :param most_repetitions: of any size; for sites where ranks wait for each other's cores.
    """

    line_rate_gbit_per_s: float | None = None
    most_repetitions: int | None = None


#: Nothing is known that bounds repetitions.
UNBOUNDED = Pace()


@dataclass(frozen=True)
class Amount:
    """Sizes and repetitions of one plan at one depth.

    :param sizes: logarithms to base 2 of the smallest and the largest message; IMB adds 0 bytes in front.
    :param count: most repetitions per size.
    :param volume_mib: MiB per size after which fewer repetitions are made.
    """

    sizes: tuple[int, int]
    count: int
    volume_mib: int

    def at(self, pace: Pace, depth: Depth, link_bytes: float) -> Amount:
        """The same sizes, with no more repetitions than the pace allows; a volume of 1 MiB is IMB's smallest.

        :param link_bytes: bytes the busiest link carries per byte of a message and repetition.
        """
        count = self.count if pace.most_repetitions is None else min(self.count, pace.most_repetitions)
        volume_mib = self.volume_mib
        if pace.line_rate_gbit_per_s is not None and link_bytes:
            carried_mib = pace.line_rate_gbit_per_s * 1e9 / 8 * depth.link_s / link_bytes / (1 << 20)
            volume_mib = max(1, min(volume_mib, int(carried_mib)))
        return Amount(self.sizes, count, volume_mib)

    @property
    def repetitions(self) -> int:
        """Repetitions of every size, where a binary cannot make more of the small ones: those the largest allows."""
        return max(1, min(self.count, (self.volume_mib << 20) >> self.sizes[1]))


@dataclass(frozen=True)
class Plan:
    """One invocation of one binary.

    :param name: name of the launch; part of file names.
    :param benchmarks: rows run, in this order.
    :param amounts: one :class:`Amount` per depth; at a depth it has none for, the plan is left out.
    :param fan: its buffers hold one message per rank, so the largest size is bounded by memory.
    :param threads: threads per rank (IMB-MT).
    """

    name: str
    binary: str
    benchmarks: tuple[str, ...]
    amounts: Mapping[str, Amount]
    fan: bool = False
    threads: int = 1


def _amounts(smoke: Amount, nightly: Amount, acceptance: Amount) -> Mapping[str, Amount]:
    return {"smoke": smoke, "nightly": nightly, "acceptance": acceptance}


#: Largest (ranks x message) of a plan whose buffers grow with the ranks, in bytes. Send and receive buffer of Alltoall
#: together stay at a quarter of the 1 GiB IMB allows itself per process (MAX_MEM_USAGE in src_c/IMB_mem_info.h).
FAN_BUFFER_BYTES = 128 << 20

# Up to the size from which a pair is held against the line rate, at every depth.
_PAIR = _amounts(Amount((18, 22), 200, 8), Amount((0, 22), 1000, 40), Amount((0, 22), 2000, 80))
_RING = {**_PAIR, "smoke": Amount((18, 20), 200, 8)}
# mpi4py.bench has a count for messages up to 16 KiB, up to 1 MiB and above.
_PAIR_IN_STEPS = _amounts(Amount((18, 22), 200, 40), Amount((0, 22), 1000, 200), Amount((0, 22), 2000, 400))
# One repetition is a window of 64 messages, so 4 MiB would be 256 MiB per repetition.
_WINDOW = _amounts(Amount((14, 16), 20, 1), Amount((0, 20), 40, 1), Amount((0, 22), 200, 4))
_COLLECTIVE = _amounts(Amount((10, 12), 50, 2), Amount((0, 22), 500, 16), Amount((0, 22), 1000, 40))
_FAN = _amounts(Amount((10, 12), 50, 1), Amount((0, 22), 200, 8), Amount((0, 22), 500, 16))
_SLOW = _amounts(Amount((10, 12), 20, 1), Amount((0, 22), 100, 4), Amount((0, 22), 200, 8))
# IMB-MT makes the same repetitions at every size.
_THREADS = _amounts(Amount((10, 12), 20, 1), Amount((0, 16), 50, 8), Amount((0, 18), 100, 64))


def _osu(binary: str, *bands: Mapping[str, Amount], fan: bool = False) -> tuple[Plan, ...]:
    """An OSU binary, started once per band of sizes: it makes the same repetitions at every size of one run."""
    numbered = enumerate(bands, 1)
    return tuple(Plan(f"{binary}_{number}" if bands[1:] else binary, binary, (binary,), band, fan) for number, band in numbered)


# Up to 8 KiB, where OSU's own defaults change; up to 128 KiB; above.
_OSU_PAIR = (
    _amounts(Amount((3, 3), 200, 8), Amount((0, 13), 1000, 40), Amount((0, 13), 2000, 80)),
    {"nightly": Amount((14, 17), 500, 40), "acceptance": Amount((14, 17), 1000, 80)},
    _amounts(Amount((20, 20), 20, 20), Amount((18, 22), 50, 80), Amount((18, 22), 100, 160)),
)
_OSU_WINDOW = (
    _amounts(Amount((3, 3), 20, 1), Amount((0, 13), 100, 4), Amount((0, 13), 200, 8)),
    {"nightly": Amount((14, 17), 40, 2), "acceptance": Amount((14, 17), 100, 4)},
    _amounts(Amount((20, 20), 2, 2), Amount((18, 20), 8, 4), Amount((18, 22), 16, 16)),
)
_OSU_COLLECTIVE = (
    _amounts(Amount((5, 5), 50, 2), Amount((2, 13), 500, 16), Amount((2, 13), 1000, 40)),
    {"nightly": Amount((14, 20), 50, 16), "acceptance": Amount((14, 20), 100, 40)},
)
# The same sizes in both suites.
_CROSS_PAIR = _amounts(Amount((3, 20), 200, 20), Amount((3, 20), 500, 40), Amount((3, 20), 1000, 80))
_CROSS_WINDOW = _amounts(Amount((3, 20), 20, 2), Amount((3, 20), 40, 4), Amount((3, 20), 100, 8))
_CROSS_OSU_PAIR = (
    _amounts(Amount((3, 13), 200, 20), Amount((3, 13), 500, 40), Amount((3, 13), 1000, 80)),
    _amounts(Amount((14, 20), 20, 20), Amount((14, 20), 40, 40), Amount((14, 20), 80, 80)),
)
_CROSS_OSU_WINDOW = (
    _amounts(Amount((3, 13), 20, 2), Amount((3, 13), 40, 4), Amount((3, 13), 100, 8)),
    _amounts(Amount((14, 20), 2, 2), Amount((14, 20), 4, 4), Amount((14, 20), 8, 8)),
)
_OSU_BARRIER = _amounts(Amount((0, 0), 50, 1), Amount((0, 0), 500, 1), Amount((0, 0), 1000, 1))

#: Group to its invocations, in this order.
PLANS: Mapping[str, tuple[Plan, ...]] = {
    "p2p": (Plan("pair", "IMB-MPI1", ("PingPong", "PingPing"), _PAIR),),
    "p2p_mpi4py": (Plan("mpi4py", "mpi4py.bench", ("pingpong",), _PAIR_IN_STEPS),),
    "transfer": (
        Plan("ring", "IMB-MPI1", ("Sendrecv", "Exchange"), _RING),
        Plan("window", "IMB-MPI1", ("Uniband", "Biband"), _WINDOW),
    ),
    "collectives": (
        Plan("rooted", "IMB-MPI1", ("Bcast", "Reduce", "Allreduce", "Reduce_local", "Barrier"), _COLLECTIVE),
        Plan(
            "fan",
            "IMB-MPI1",
            (
                "Allgather",
                "Allgatherv",
                "Gather",
                "Gatherv",
                "Scatter",
                "Scatterv",
                "Alltoall",
                "Alltoallv",
                "Reduce_scatter",
                "Reduce_scatter_block",
            ),
            _FAN,
            fan=True,
        ),
    ),
    "p2p_pairs": (
        Plan(
            "pairs",
            "IMB-P2P",
            (
                "PingPong",
                "PingPing",
                "Unirandom",
                "Birandom",
                "Corandom",
                "SendRecv_Replace",
                "Stencil2D",
                "Stencil3D",
            ),
            _COLLECTIVE,
        ),
    ),
    "nonblocking": (
        Plan("overlap_rooted", "IMB-NBC", ("Ibcast", "Ireduce", "Iallreduce", "Ibarrier"), _SLOW),
        Plan(
            "overlap_fan",
            "IMB-NBC",
            (
                "Iallgather",
                "Iallgatherv",
                "Igather",
                "Igatherv",
                "Iscatter",
                "Iscatterv",
                "Ialltoall",
                "Ialltoallv",
                "Ireduce_scatter",
            ),
            _SLOW,
            fan=True,
        ),
    ),
    "one_sided": (
        Plan(
            "passive_pair",
            "IMB-RMA",
            (
                "Unidir_put",
                "Unidir_get",
                "Bidir_put",
                "Bidir_get",
                "Accumulate",
                "Get_accumulate",
                "Fetch_and_op",
                "Compare_and_swap",
                "Truly_passive_put",
            ),
            _SLOW,
        ),
        Plan(
            "passive_all",
            "IMB-RMA",
            ("One_put_all", "One_get_all", "All_put_all", "All_get_all", "Exchange_put", "Exchange_get"),
            _SLOW,
        ),
    ),
    "p2p_osu": (
        *_osu("osu_latency", *_OSU_PAIR),
        *_osu("osu_bw", *_OSU_WINDOW),
        *_osu("osu_bibw", *_OSU_WINDOW),
    ),
    "transfer_osu": (*_osu("osu_multi_lat", *_OSU_PAIR), *_osu("osu_mbw_mr", *_OSU_WINDOW)),
    "one_sided_osu": (
        *_osu("osu_put_latency", *_OSU_PAIR),
        *_osu("osu_get_latency", *_OSU_PAIR),
        *_osu("osu_put_bw", *_OSU_WINDOW),
        *_osu("osu_get_bw", *_OSU_WINDOW),
    ),
    "collectives_osu": (
        *_osu("osu_bcast", *_OSU_COLLECTIVE),
        *_osu("osu_reduce", *_OSU_COLLECTIVE),
        *_osu("osu_allreduce", *_OSU_COLLECTIVE),
        *_osu("osu_barrier", _OSU_BARRIER),
        *_osu("osu_allgather", *_OSU_COLLECTIVE, fan=True),
        *_osu("osu_allgatherv", *_OSU_COLLECTIVE, fan=True),
        *_osu("osu_gather", *_OSU_COLLECTIVE, fan=True),
        *_osu("osu_gatherv", *_OSU_COLLECTIVE, fan=True),
        *_osu("osu_scatter", *_OSU_COLLECTIVE, fan=True),
        *_osu("osu_scatterv", *_OSU_COLLECTIVE, fan=True),
        *_osu("osu_alltoall", *_OSU_COLLECTIVE, fan=True),
        *_osu("osu_alltoallv", *_OSU_COLLECTIVE, fan=True),
        *_osu("osu_alltoallw", *_OSU_COLLECTIVE, fan=True),
        *_osu("osu_reduce_scatter", *_OSU_COLLECTIVE),
        *_osu("osu_reduce_scatter_block", *_OSU_COLLECTIVE),
    ),
    "cross_check": (
        Plan("imb_pair", "IMB-MPI1", ("PingPong",), _CROSS_PAIR),
        *_osu("osu_latency", *_CROSS_OSU_PAIR),
        Plan("imb_window", "IMB-MPI1", ("Uniband", "Biband"), _CROSS_WINDOW),
        *_osu("osu_bw", *_CROSS_OSU_WINDOW),
        *_osu("osu_bibw", *_CROSS_OSU_WINDOW),
    ),
    "threads": (
        Plan(
            "threads2",
            "IMB-MT",
            (
                "PingPongMT",
                "PingPingMT",
                "SendRecvMT",
                "ExchangeMT",
                "UniBandMT",
                "BiBandMT",
                "BarrierMT",
                "BcastMT",
                "ReduceMT",
                "AllReduceMT",
            ),
            _THREADS,
            threads=2,
        ),
    ),
}

#: Programs that only start and end all ranks, for the group that measures nothing: binary to suite and arguments. The first
#: one a stack has is used.
PROBES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "mpi4py.bench": ("mpi4py", ("helloworld",)),
    "IMB-MPI1": ("imb", ("-iter", "1", "Barrier")),
}
