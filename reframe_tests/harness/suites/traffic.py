"""Lower bounds on what a benchmark must send: bytes from all ranks together to other ranks, per
repetition.

Evidence compares byte counters with ``bound x repetitions``: less than the bound cannot have
carried the benchmark. So every function errs on the low side. Only payload is counted, without
headers, acknowledgements, warm-up, barriers or calibration, and never more than any correct MPI
must move. Two arguments are used:

*sent by the program*: the benchmark itself calls this many sends of ``s`` bytes (IMB sources, file
named in each function).

*information*: IMB's buffers differ from rank to rank, so a rank whose result depends on data of
other ranks must receive at least as many bytes as those data fix of its result, whatever the
algorithm (one receive may carry a combination, such as a partial sum, but not fewer bytes than the
part of the result it determines).

``s`` is the size as printed in the table's first column, ``n`` the number of active ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

#: ``(message_bytes, ranks)`` to bytes per repetition.
Bound = Callable[[int, int], int]
#: ``(problem, ranks, nodes)`` to bytes that a whole run sends between nodes, which ranks fill in
#: blocks: of the sizes that the run printed (:attr:`benchmark.Record.problem`). Inside one node
#: each rank stands for a node of its own.
RunBound = Callable[[Mapping[str, int], int, int], int]

#: Messages in flight in one repetition of Uniband and Biband. Fixed at 64 up to IMB 2021.1
#: (``MAX_WIN_SIZE`` in src_c/IMB_settings.h); 256 by default since 2021.2, where launches ask for
#: 64 with ``-window_size``.
WINDOW = 64


def _messages(count: int) -> Bound:
    return lambda message_bytes, ranks: count * message_bytes


def _of_each_rank(count: int) -> Bound:
    return lambda message_bytes, ranks: count * ranks * message_bytes


def _of_each_pair(count: int) -> Bound:
    """So many messages of each pair of ranks, one being left over where their number is odd."""
    return lambda message_bytes, ranks: count * (ranks // 2) * message_bytes


#: No payload has to move: Barrier, Reduce_local (works inside each rank).
nothing = _messages(0)
#: One message or one-sided access per repetition (IMB_rma_put.c, IMB_rma_get.c, IMB_rma_atomic.c),
#: also for accesses that return data (Get_accumulate, Fetch_and_op, Compare_and_swap): the way back
#: is not counted.
one_way = _messages(1)
#: One message in each direction between one pair (IMB_pingpong.c, IMB_pingping.c, mpi4py/bench.py).
both_ways = _messages(2)
#: One pair of ranks sends 16 messages each way (``instruments/loaded_latency.py``, ``stream``).
stream_window = _messages(2 * 16)
#: To one other rank (IMB_sendrecv.c; imb_p2p_pingpong.c: each rank sends once per turn); to both
#: neighbours (IMB_exchange.c; IMB_rma_exchange_put; imb_p2p_birandom.c); to those on a periodic
#: grid (imb_p2p_stencil2d.c, imb_p2p_stencil3d.c).
every_rank_once, every_rank_twice, every_rank_four_times, every_rank_six_times = map(
    _of_each_rank, (1, 2, 4, 6)
)
#: Pairs of ranks, one message each way (MT_benchmark.cpp, ``mt_pt2pt`` and ``mt_ipt2pt``).
pairs_both_ways = _of_each_pair(2)
#: The lower half sends a window of messages each to the upper half; both
#: halves at the same time (IMB_bandwidth.c).
window_one_way = _of_each_pair(WINDOW)
window_both_ways = _of_each_pair(2 * WINDOW)


def with_window(bound: Bound, window: int) -> Bound:
    """A bound whose repetition has :data:`WINDOW` messages, for another number of them."""
    return lambda message_bytes, ranks: bound(message_bytes, ranks) // WINDOW * window


def window_fan(message_bytes: int, ranks: int) -> int:
    """Each of the others sends one, or gets from it, a window
    (osu_bw_fan_in.c, osu_bw_fan_out.c).
    """
    return WINDOW * (ranks - 1) * message_bytes


def one_per_other_rank(message_bytes: int, ranks: int) -> int:
    """``(n-1) s``: Bcast, Scatter, Gather, Reduce, Reduce_scatter and
    one rank's put to, or get from, all others.

    Bcast, Scatter: each of the n-1 other ranks ends with ``s`` bytes that only the root had.
    Gather: the root ends with ``s`` bytes of each other rank. Reduce: the result depends on all
    ``s`` bytes of each other rank, so each must send at least ``s``. Reduce_scatter: with blocks of
    ``b`` bytes each rank must pass on its part of n-1 blocks, in total n (n-1) b; ``s = n b`` in
    IMB 2018 (IMB_get_rank_portion) and ``s = b`` since 2019, so (n-1) s holds for both.
    """
    return (ranks - 1) * message_bytes


def all_to_all(message_bytes: int, ranks: int) -> int:
    """``n (n-1) s``: Allgather(v), Alltoall(v), one-sided all to all.

    Each rank ends with ``s`` bytes from each of the n-1 others. IMB's
    Alltoallv and Allgatherv use equal counts.
    """
    return ranks * (ranks - 1) * message_bytes


def every_rank_receives(message_bytes: int, ranks: int) -> int:
    """``n s`` for Allreduce: each rank's result depends on the others' sum,
    ``s`` bytes it cannot know without receiving.

    For two ranks this is what the best algorithm sends; for more it is below the 2 (n-1) s that
    tree and ring algorithms send in total, and needs no assumption on how partial sums travel.
    """
    return ranks * message_bytes if ranks > 1 else 0


def equal_blocks(message_bytes: int, ranks: int) -> int:
    """``n (n-1) b`` for a vector of ``s`` bytes in n equal blocks of ``b`` =
    whole 4-byte elements, what is left over unused.

    Each block's result depends on that block of every other rank
    (osu_reduce_scatter_block.c: ``portion``).
    """
    return ranks * (ranks - 1) * (message_bytes // 4 // ranks * 4)
