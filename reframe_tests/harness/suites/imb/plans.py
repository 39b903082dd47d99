"""How the Intel MPI Benchmarks are run: the groups of its eight binaries."""

from __future__ import annotations

from collections.abc import Mapping

from ..model import Group
from ..plans import Plan, SizeRange, at_levels
from .rows import ROWS

# Up to the size from which a pair is held against the line rate, at every level.
_PAIR = at_levels(SizeRange((18, 22), 200, 8), SizeRange((0, 22), 1000, 40), SizeRange((0, 22), 2000, 80))
_RING = {**_PAIR, "smoke": SizeRange((18, 20), 200, 8)}
# One repetition is a window of 64 messages, so 4 MiB would be 256 MiB per repetition.
_WINDOW = at_levels(SizeRange((14, 16), 20, 1), SizeRange((0, 20), 40, 1), SizeRange((0, 22), 200, 4))
_COLLECTIVE = at_levels(SizeRange((10, 12), 50, 2), SizeRange((0, 22), 500, 16), SizeRange((0, 22), 1000, 40))
_FAN = at_levels(SizeRange((10, 12), 50, 1), SizeRange((0, 22), 200, 8), SizeRange((0, 22), 500, 16))
_SLOW = at_levels(SizeRange((10, 12), 20, 1), SizeRange((0, 22), 100, 4), SizeRange((0, 22), 200, 8))
# IMB-MT makes the same repetitions at every size.
_THREADS = at_levels(SizeRange((10, 12), 20, 1), SizeRange((0, 16), 50, 8), SizeRange((0, 18), 100, 64))

# Files: each size has a file of its own, and in one mode every access is forced to the file system.
_FILES = at_levels(SizeRange((15, 16), 5, 1), SizeRange((10, 20), 20, 4), SizeRange((10, 22), 50, 16))


def _named(group: str, *start: str) -> tuple[str, ...]:
    """Benchmarks of a group whose names begin so, in the order of the rows."""
    return tuple(row.name for row in ROWS if row.group == group and row.name.startswith(start))


#: Group to what it measures and its invocations.
GROUPS: Mapping[str, Group] = {
    "p2p": Group(
        "Latency and bandwidth between one pair of ranks (IMB-MPI1 PingPong, PingPing)",
        (Plan("pair", "IMB-MPI1", ("PingPong", "PingPing"), _PAIR),),
    ),
    "transfer": Group(
        "All ranks transfer at the same time (IMB-MPI1 Sendrecv, Exchange, Uniband, Biband)",
        (
            Plan("ring", "IMB-MPI1", ("Sendrecv", "Exchange"), _RING),
            Plan("window", "IMB-MPI1", ("Uniband", "Biband"), _WINDOW),
        ),
    ),
    "collectives": Group(
        "Blocking collectives (IMB-MPI1)",
        (
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
        collective=True,
    ),
    "p2p_pairs": Group(
        "Pairs, random partners and stencils over all ranks (IMB-P2P)",
        (
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
    ),
    "nonblocking": Group(
        "Nonblocking collectives and their overlap with computation (IMB-NBC)",
        (
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
        collective=True,
    ),
    "one_sided": Group(
        "One-sided communication with passive targets (IMB-RMA)",
        (
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
        one_sided=True,
    ),
    "threads": Group(
        "Several threads of a rank communicating at the same time (IMB-MT)",
        (
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
                env={"OMP_NUM_THREADS": "2"},
            ),
        ),
        collective=True,
    ),
    "nonblocking_pure": Group(
        "Nonblocking collectives without computation (IMB-NBC)",
        (
            Plan(
                "pure_rooted", "IMB-NBC", _named("nonblocking_pure", "Ibcast", "Ireduce_pure", "Iallreduce", "Ibarrier"), _SLOW
            ),
            Plan(
                "pure_fan",
                "IMB-NBC",
                _named("nonblocking_pure", "Iallgather", "Igather", "Iscatter", "Ialltoall", "Ireduce_scatter"),
                _SLOW,
                fan=True,
            ),
        ),
        collective=True,
    ),
    "p2p_sources": Group(
        "One pair of ranks, received from a named or from any source (IMB-MPI1)",
        (Plan("sources", "IMB-MPI1", _named("p2p_sources", "PingP"), _PAIR),),
    ),
    "one_sided_local": Group(
        "One-sided communication until it is complete at the origin (IMB-RMA)",
        (
            Plan("local_pair", "IMB-RMA", ("Put_local", "Get_local"), _SLOW),
            Plan("local_all", "IMB-RMA", ("Put_all_local", "Get_all_local"), _SLOW),
        ),
        one_sided=True,
    ),
    "active_target": Group(
        "One-sided communication between fences (IMB-EXT)",
        (
            Plan("fence_pair", "IMB-EXT", _named("active_target", "Unidir", "Bidir"), _SLOW),
            Plan("fence_all", "IMB-EXT", ("Window", "Accumulate"), _SLOW),
        ),
        one_sided=True,
    ),
    "persistent": Group(
        "Persistent collectives and their overlap with computation (IMB-MPI4)",
        (
            Plan(
                "persistent_rooted",
                "IMB-MPI4",
                _named("persistent", "Bcast", "Reduce_persist", "Allreduce", "Barrier"),
                _SLOW,
            ),
            Plan(
                "persistent_fan",
                "IMB-MPI4",
                _named("persistent", "Allgather", "Gather", "Scatter", "Alltoall", "Reduce_scatter"),
                _SLOW,
                fan=True,
            ),
        ),
        collective=True,
    ),
    "file_io": Group(
        "Files written and read through MPI (IMB-IO)",
        (
            Plan("file_single", "IMB-IO", _named("file_io", "S_"), _FILES),
            Plan("file_parallel", "IMB-IO", _named("file_io", "P_"), _FILES),
            Plan("file_collective", "IMB-IO", _named("file_io", "C_"), _FILES),
            Plan("file_open", "IMB-IO", ("Open_Close",), _FILES),
        ),
        collective=True,
        files=True,
    ),
}
