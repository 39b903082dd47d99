"""What GPCNeT 1.3 must at least send between nodes, so that a run past its fabric is not taken for one on it.

How often a message was sent is printed nowhere: tests end after 10 s or so many measurements. The first measurement is always
made whole, since the time is looked at between two (``random_ring`` of random_ring.c, ``a2a_test`` and ``allreduce_test`` of
collectives.c), and that is what is counted. Each communicator has one rank of every node (``node_slice_subcomms`` of
subcomms.c), so that every message of a ring, whatever its order, leaves its node. Warm-up is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..traffic import RunBound

#: Constants of network_test.c and network_load_test.c, alike: orders of a ring in a measurement (``NUM_LAT_RANDS``,
#: ``NUM_BW_RANDS``), iterations of each (``NUM_LAT_ITERS``, ``NUM_BW_ITERS``), and messages on their way (``BW_OUTSTANDING``).
_ORDERS, _PINGS, _WINDOWS, _WINDOW = 30, 200, 8, 8
#: Iterations of a collective (``NUM_ALLREDUCE_ITERS``, ``NUM_A2A_ITERS``), the latter on up to so many nodes, fewer on more
#: (``A2A_BASE_NODES`` of collectives.c).
_ALLREDUCES, _ALLTOALLS, _ALLTOALL_NODES = 200, 64, 64
#: A rank sends to both its neighbours.
_NEIGHBOURS = 2


def tested_nodes(nodes: int, *, loaded: bool) -> int:
    """Nodes that run the tests: all, or those that cause no congestion (``build_subcomms`` of network_load_test.c)."""
    return nodes - nodes * 8 // 10 if loaded else nodes


def bound_of(title: str, message_bytes: int, *, timed: bool, loaded: bool) -> RunBound:
    """The bound of a test.

    :param title: as printed, without the size.
    :param timed: it prints a time, and so sends one message at a time.
    :param loaded: it runs on the nodes that are left of those which cause congestion.
    """

    def least(problem: Mapping[str, int], ranks: int, nodes: int) -> int:
        tested = tested_nodes(nodes, loaded=loaded)
        if title == "Multiple Allreduce":
            # Each rank's result depends on the others' sum (traffic.every_rank_receives).
            messages = _ALLREDUCES
        elif title == "Multiple Alltoall":
            messages = max(1, _ALLTOALLS * _ALLTOALL_NODES // max(tested, _ALLTOALL_NODES)) * (tested - 1)
        else:
            messages = _NEIGHBOURS * _ORDERS * (_PINGS if timed else _WINDOWS * _WINDOW)
        return messages * message_bytes * tested * (ranks // nodes)

    return least
