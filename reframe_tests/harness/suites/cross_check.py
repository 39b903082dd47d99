"""The group made of rows of two suites: what one says of a link over what the other says (``results.agreement``)."""

from __future__ import annotations

from .model import Group
from .plans import Plan, SizeRange, at_levels, in_bands

# The same sizes in both suites.
_PAIR = at_levels(SizeRange((3, 20), 200, 20), SizeRange((3, 20), 500, 40), SizeRange((3, 20), 1000, 80))
_WINDOW = at_levels(SizeRange((3, 20), 20, 2), SizeRange((3, 20), 40, 4), SizeRange((3, 20), 100, 8))
_OSU_PAIR = (
    at_levels(SizeRange((3, 13), 200, 20), SizeRange((3, 13), 500, 40), SizeRange((3, 13), 1000, 80)),
    at_levels(SizeRange((14, 20), 20, 20), SizeRange((14, 20), 40, 40), SizeRange((14, 20), 80, 80)),
)
_OSU_WINDOW = (
    at_levels(SizeRange((3, 13), 20, 2), SizeRange((3, 13), 40, 4), SizeRange((3, 13), 100, 8)),
    at_levels(SizeRange((14, 20), 2, 2), SizeRange((14, 20), 4, 4), SizeRange((14, 20), 8, 8)),
)

GROUP = Group(
    "Latency and bandwidth of one pair in two suites, interleaved (OSU over IMB-MPI1)",
    (
        Plan("imb_pair", "IMB-MPI1", ("PingPong",), _PAIR),
        *in_bands("osu_latency", *_OSU_PAIR),
        Plan("imb_window", "IMB-MPI1", ("Uniband", "Biband"), _WINDOW),
        *in_bands("osu_bw", *_OSU_WINDOW),
        *in_bands("osu_bibw", *_OSU_WINDOW),
    ),
)
