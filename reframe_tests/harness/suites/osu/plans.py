"""How the OSU Micro-Benchmarks are run: each benchmark is a binary, started once per band of sizes."""

from __future__ import annotations

from collections.abc import Mapping

from ..model import Group
from ..plans import SizeRange, at_levels, in_bands

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
}
