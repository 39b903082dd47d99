"""How the OSU Micro-Benchmarks are run: each benchmark is a binary, started once per band of sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .. import traffic
from ..benchmark import SERIES
from ..model import Group
from ..plans import Plan, SizeRange, at_levels, in_bands
from .rows import ROWS

# Up to 8 KiB, where OSU's own defaults change; up to 128 KiB; above.
_PAIR = (
    at_levels(SizeRange((3, 3), 200, 8), SizeRange((0, 13), 1000, 40), SizeRange((0, 13), 2000, 80)),
    {"nightly": SizeRange((14, 17), 500, 40), "acceptance": SizeRange((14, 17), 1000, 80)},
    at_levels(SizeRange((20, 20), 20, 20), SizeRange((18, 22), 50, 80), SizeRange((18, 22), 100, 160)),
)
_WINDOW = (
    at_levels(SizeRange((3, 3), 20, 1), SizeRange((0, 13), 100, 4), SizeRange((0, 13), 200, 8)),
    {"nightly": SizeRange((14, 17), 40, 2), "acceptance": SizeRange((14, 17), 100, 4)},
    at_levels(SizeRange((20, 20), 2, 2), SizeRange((18, 20), 8, 4), SizeRange((18, 22), 16, 16)),
)
_COLLECTIVE = (
    at_levels(SizeRange((5, 5), 50, 2), SizeRange((2, 13), 500, 16), SizeRange((2, 13), 1000, 40)),
    {"nightly": SizeRange((14, 20), 50, 16), "acceptance": SizeRange((14, 20), 100, 40)},
)
_BARRIER = at_levels(SizeRange((0, 0), 50, 1), SizeRange((0, 0), 500, 1), SizeRange((0, 0), 1000, 1))

_ELEMENT = at_levels(SizeRange((0, 0), 200, 1), SizeRange((0, 0), 1000, 1), SizeRange((0, 0), 2000, 1))
# Two timed loops a repetition, and three means of ranks waiting for each other.
_SLOW = (
    at_levels(SizeRange((5, 5), 20, 1), SizeRange((2, 13), 100, 4), SizeRange((2, 13), 200, 8)),
    {"nightly": SizeRange((14, 20), 20, 4), "acceptance": SizeRange((14, 20), 50, 16)},
)
_PARTS = (
    at_levels(SizeRange((10, 10), 50, 2), SizeRange((8, 13), 500, 16), SizeRange((8, 13), 1000, 40)),
    {"nightly": SizeRange((14, 20), 50, 16), "acceptance": SizeRange((14, 20), 100, 40)},
)
_ONCE = at_levels(*[SizeRange((0, 0), 1, 1)] * 3)
_SLOW_BARRIER = at_levels(SizeRange((0, 0), 20, 1), SizeRange((0, 0), 100, 1), SizeRange((0, 0), 200, 1))


def _all(group: str, bands: Sequence[Mapping[str, SizeRange]], sizeless: Mapping[str, SizeRange]) -> tuple[Plan, ...]:
    """Every row of a group, each in bands; buffers of those that collect from all ranks are bounded by memory."""
    return tuple(
        plan
        for row in ROWS
        if row.group == group
        for plan in in_bands(
            row.name,
            *((sizeless,) if row.sizes != SERIES else bands),
            fan=row.traffic in (traffic.all_to_all, traffic.one_per_other_rank) and row.crossing in (1, 2),
        )
    )


#: Group to what it measures and its invocations.
GROUPS: Mapping[str, Group] = {
    "p2p_osu": Group(
        "Latency and bandwidth between one pair of ranks (OSU latency, bw, bibw)",
        (
            *in_bands("osu_latency", *_PAIR),
            *in_bands("osu_bw", *_WINDOW),
            *in_bands("osu_bibw", *_WINDOW),
        ),
    ),
    "transfer_osu": Group(
        "All ranks transfer at the same time (OSU multi_lat, mbw_mr)",
        (*in_bands("osu_multi_lat", *_PAIR), *in_bands("osu_mbw_mr", *_WINDOW)),
    ),
    "one_sided_osu": Group(
        "One-sided communication between one pair of ranks (OSU put and get)",
        (
            *in_bands("osu_put_latency", *_PAIR),
            *in_bands("osu_get_latency", *_PAIR),
            *in_bands("osu_put_bw", *_WINDOW),
            *in_bands("osu_get_bw", *_WINDOW),
        ),
        one_sided=True,
    ),
    "collectives_osu": Group(
        "Blocking collectives (OSU)",
        (
            *in_bands("osu_bcast", *_COLLECTIVE),
            *in_bands("osu_reduce", *_COLLECTIVE),
            *in_bands("osu_allreduce", *_COLLECTIVE),
            *in_bands("osu_barrier", _BARRIER),
            *in_bands("osu_allgather", *_COLLECTIVE, fan=True),
            *in_bands("osu_allgatherv", *_COLLECTIVE, fan=True),
            *in_bands("osu_gather", *_COLLECTIVE, fan=True),
            *in_bands("osu_gatherv", *_COLLECTIVE, fan=True),
            *in_bands("osu_scatter", *_COLLECTIVE, fan=True),
            *in_bands("osu_scatterv", *_COLLECTIVE, fan=True),
            *in_bands("osu_alltoall", *_COLLECTIVE, fan=True),
            *in_bands("osu_alltoallv", *_COLLECTIVE, fan=True),
            *in_bands("osu_alltoallw", *_COLLECTIVE, fan=True),
            *in_bands("osu_reduce_scatter", *_COLLECTIVE),
            *in_bands("osu_reduce_scatter_block", *_COLLECTIVE),
        ),
        collective=True,
    ),
    "p2p_persistent_osu": Group(
        "One pair of ranks with persistent requests (OSU latency, bw, bibw)",
        (
            *in_bands("osu_latency_persistent", *_PAIR),
            *in_bands("osu_bw_persistent", *_WINDOW),
            *in_bands("osu_bibw_persistent", *_WINDOW),
        ),
    ),
    "threads_osu": Group(
        "One pair of ranks, two threads or two processes in each (OSU latency_mt, latency_mp)",
        (*in_bands("osu_latency_mt", *_PAIR), *in_bands("osu_latency_mp", *_PAIR)),
    ),
    "partitioned_osu": Group(
        "One pair of ranks, a message in parts (OSU partitioned_latency)",
        in_bands("osu_partitioned_latency", *_PARTS),
    ),
    "atomics_osu": Group(
        "Accumulating and atomic one-sided operations, and puts both ways (OSU)",
        (
            *in_bands("osu_acc_latency", *_PAIR),
            *in_bands("osu_get_acc_latency", *_PAIR),
            *in_bands("osu_cas_latency", _ELEMENT),
            *in_bands("osu_fop_latency", _ELEMENT),
            *in_bands("osu_put_bibw", *_WINDOW),
        ),
        one_sided=True,
    ),
    "nonblocking_osu": Group(
        "Nonblocking collectives and their overlap with computation (OSU)",
        _all("nonblocking_osu", _SLOW, _SLOW_BARRIER),
        collective=True,
    ),
    "neighbourhood_osu": Group(
        "Neighbourhood collectives on a ring, blocking and nonblocking (OSU)",
        _all("neighbourhood_osu", _SLOW, _SLOW_BARRIER),
        collective=True,
    ),
    "persistent_osu": Group("Persistent collectives (OSU)", _all("persistent_osu", _COLLECTIVE, _BARRIER), collective=True),
    "startup_osu": Group(
        "Time to start and initialise all ranks, by the number of nodes (OSU init, hello)", _all("startup_osu", (), _ONCE)
    ),
    "congestion_osu": Group(
        "All other nodes send to one, one sends to all others (OSU bw_fan_in, bw_fan_out)",
        _all("congestion_osu", _WINDOW, _ONCE),
    ),
}
