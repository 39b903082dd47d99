"""The ranks' own sockets: whose bytes were counted, and what a closed connection leaves known."""

from __future__ import annotations

from typing import Any

import pytest

from reframe_tests.harness.evidence import traffic
from reframe_tests.harness.evidence.rank_records import RankEvidence
from reframe_tests.harness.machine.fabric import Fabric, Rail
from synthetic_evidence import INTERFACE, make_rank, pair

GB, MB = 1_000_000_000, 1_000_000
ETH1G = Fabric("eth1g", "tcp", "cluster", (Rail("eth1", 1.0),))
HOME = "127.0.0.1"


def test_closed_connection_makes_the_sockets_unknown():
    held = {
        "pairs": [{"local": HOME, "peer": HOME, "count": 2, "sent_bytes": 5, "received_bytes": 5}],
        "uncounted": 0,
        "complete": True,
    }
    fewer = {**held, "pairs": [{**held["pairs"][0], "count": 1}]}
    none = {**held, "pairs": []}
    for before, after, known in ((held, held, True), (none, held, True), (held, fewer, False), (held, none, False)):
        (node,) = traffic.node_traffic(pair(init__tcp=before, finalize__tcp=after))
        assert node.ranks_known == known


def test_bytes_sent_before_the_run_do_not_count():
    row = {"local": HOME, "peer": HOME, "count": 1, "sent_bytes": 100, "received_bytes": 0}
    tcp = {"pairs": [row], "uncounted": 0, "complete": True}
    later = {**tcp, "pairs": [{**row, "sent_bytes": 150}]}
    (node,) = traffic.node_traffic([make_rank(0, init__tcp=tcp, finalize__tcp=later)])
    assert node.sent_by_ranks == {"lo": 50}


def test_a_socket_closed_before_the_last_look_is_known_from_its_peer():
    """Open MPI closes the socket of a peer that finalises first; what it sent is what the peer received (seen on two nodes)."""

    def rank(number, host, address, pairs):
        facts = {"eth1": {**INTERFACE, "addresses": [address]}}
        counted = {"rx_bytes": int(0.62 * GB), "tx_bytes": int(0.62 * GB)}
        return make_rank(
            number,
            host,
            node__interfaces=facts,
            init__interfaces={"eth1": {"rx_bytes": 0, "tx_bytes": 0}},
            finalize__interfaces={"eth1": counted},
            finalize__tcp={"pairs": pairs, "uncounted": 0, "complete": True},
        )

    seen = {"local": "10.0.0.2", "peer": "10.0.0.1", "count": 1}
    ends = {**seen, "sent_bytes": int(0.61 * GB), "received_bytes": int(0.62 * GB)}
    ranks = [rank(0, "c1", "10.0.0.1", []), rank(1, "c2", "10.0.0.2", [ends])]
    assert [node.sent_by_ranks for node in traffic.node_traffic(ranks)] == [
        {"eth1": int(0.62 * GB)},
        {"eth1": int(0.61 * GB)},
    ]
    assert traffic.check_traffic(ranks, ETH1G, 1.2 * GB).sentences == []


@pytest.mark.parametrize(("there", "known"), [((1, 1), True), ((2, 1), False), ((0, 1), True), ((1, 0), False)])
def test_a_connection_closed_after_both_ends_connected_is_known_from_the_other_end(there: tuple[int, int], known: bool):
    """Two ranks that connect to each other at once keep one connection of two (seen with UCX on two busy nodes), while
    somebody else uses another network; where the other end lost one as well, nobody knows what it carried.

    :param there: the receiver's connections at MPI_Init and at MPI_Finalize.
    """

    def tcp(local: str, peer: str, count: int, size: float) -> dict[str, Any]:
        row = {"local": local, "peer": peer, "count": count, "sent_bytes": int(size), "received_bytes": int(size)}
        return {"pairs": [row] if count else [], "uncounted": 0, "complete": True}

    def rank(number: int, host: str, local: str, peer: str, counts: tuple[int, int]) -> RankEvidence:
        zero = {"rx_bytes": 0, "tx_bytes": 0}
        return make_rank(
            number,
            host,
            node__interfaces={
                "eth1": {**INTERFACE, "addresses": [local]},
                "eth2": {**INTERFACE, "addresses": [f"10.0.2.{number + 1}"]},
            },
            init__interfaces={"eth1": zero, "eth2": zero},
            finalize__interfaces={
                "eth1": {"rx_bytes": 12 * MB, "tx_bytes": 12 * MB},
                "eth2": {"rx_bytes": 48 * MB, "tx_bytes": 48 * MB},
            },
            init__tcp=tcp(local, peer, counts[0], 60),
            finalize__tcp=tcp(local, peer, counts[1], 11.6 * MB),
        )

    ranks = [rank(0, "c1", "10.0.0.1", "10.0.0.2", (2, 1)), rank(1, "c2", "10.0.0.2", "10.0.0.1", there)]
    assert traffic.node_traffic(ranks)[0].ranks_known == known
    finding = traffic.check_traffic(ranks, ETH1G, 20 * MB)
    if known:
        assert finding.sentences == []
        assert finding.notes == ["eth2 carried 96 MB that are not the ranks' (other traffic of the node)"]
    else:
        (sentence,) = finding.sentences
        assert "eth2 carried 96 MB of 120 MB: two networks were used at once" in sentence
