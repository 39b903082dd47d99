"""Who else used the link: every sentence, and all that must not
be one, on rank records made by hand.
"""

from __future__ import annotations

from typing import Any

import pytest

from reframe_tests.harness.evidence import traffic
from reframe_tests.harness.evidence.rank_records import RankEvidence
from reframe_tests.harness.machine.fabric import Fabric, Rail
from synthetic_evidence import INTERFACE, make_rank

MB = 1_000_000
ETH1G = Fabric("eth1g", "tcp", "cluster", (Rail("eth1", 1.0),))
ETH = Fabric("eth", "tcp", "cluster", (Rail("eth1"),))
EDR = Fabric("edr", "ucx", "cluster", (Rail("mlx5_0", 100.0),))
LO = Fabric("lo", "tcp", "node", (Rail("lo"),))
#: 2 s on 1 Gbit/s: 1 MB and 1 % of what the link carries.
ALLOWED = 1 * MB + 2.5 * MB
PAYLOAD = 1448
#: A connection as a kernel tells it that counts no packets.
OLD = {"local": "10.0.0.1", "peer": "10.0.0.9", "count": 1}
OLD |= {"sent_bytes": 1, "received_bytes": 1}


def connection(
    peer: str, own: str, out: float, received: float, again: float = 0, **more: Any
) -> dict[str, Any]:
    """One connection as the kernel tells it, full packets out and
    one acknowledgement for two packets in.
    """
    segments_out = int((out + again) / PAYLOAD)
    segments_in = int(received / PAYLOAD)
    return {
        "local": own,
        "peer": peer,
        "count": 1,
        "sent_bytes": int(out),
        "received_bytes": int(received),
        "out_bytes": int(out + again),
        "again_bytes": int(again),
        "segments_out": segments_out + segments_in // 2,
        "segments_in": segments_in + segments_out // 2,
        **more,
    }


def node(
    number: int, sent: float, received: float, *pairs: dict[str, Any], **changes: Any
) -> RankEvidence:
    """The one rank of node c1 or c2, and what eth1 carried there around its run of 2 s."""
    name = changes.pop("name", "eth1")
    counted = {name: {"rx_bytes": int(received), "tx_bytes": int(sent)}}
    where = "ports" if "/" in name else "interfaces"
    idle = {"eth1": {"rx_bytes": 0, "tx_bytes": 0}} if where == "ports" else {}
    zero = {name: {"rx_bytes": 0, "tx_bytes": 0}}
    settings: dict[str, Any] = {
        f"init__{where}": zero,
        f"finalize__{where}": counted,
        "node__interfaces": {"eth1": {**INTERFACE, "addresses": [f"10.0.0.{number + 1}"]}},
        "finalize__tcp": {"pairs": list(pairs), "uncounted": 0, "complete": True},
    }
    if idle:
        settings |= {"init__interfaces": idle, "finalize__interfaces": idle}
    return make_rank(number, f"c{number + 1}", **{**settings, **changes})


def wire(out: float, received: float, again: float = 0) -> float:
    """What an interface counts for a connection: IPv4, time stamps, Ethernet."""
    row = connection("", "", out, received, again)
    return float(row["out_bytes"] + row["segments_out"] * 66)


def job(
    extra_sent: float = 0, extra_received: float = 0, out: float = 100 * MB, **changes: Any
) -> list[RankEvidence]:
    """Two nodes that sent each other so much, and c1's link that carried something else too."""
    first = connection("10.0.0.2", "10.0.0.1", out, out)
    second = connection("10.0.0.1", "10.0.0.2", out, out)
    carried = wire(out, out)
    return [
        node(0, carried + extra_sent, carried + extra_received, first, **changes),
        node(1, carried, carried, second, **changes),
    ]


def sentences(
    ranks: list[RankEvidence], fabric: Fabric = ETH1G, *, balanced: bool = True
) -> list[str]:
    return traffic.check_use(ranks, fabric, balanced=balanced).sentences


def test_the_ranks_own_bytes_are_nobody_elses() -> None:
    finding = traffic.check_use(job(), ETH1G, balanced=True)
    assert finding.sentences == []
    for use in finding.nodes:
        assert use.most_sent is not None and use.sent < use.most_sent < 1.06 * use.sent
        assert use.allowed == ALLOWED


@pytest.mark.parametrize("way", ["sent", "received"])
def test_a_neighbour_is_reported_with_what_he_took_and_background_is_none(way: str) -> None:
    (sentence,) = sentences(job(**{f"extra_{way}": 60 * MB}))
    assert f"eth1 of c1 {way} 55 MB more than the 112 MB its ranks could have " in sentence
    assert sentences(job(**{f"extra_{way}": ALLOWED})) == []


def test_files_may_go_over_the_same_link() -> None:
    """A network file system's bytes are in no rank's connection."""
    busy = job(extra_sent=60 * MB)
    assert sentences(busy)
    finding = traffic.check_use(busy, ETH1G, balanced=False, files=True)
    assert finding.sentences == [] and [use.host for use in finding.nodes] == ["c1", "c2"]
    assert finding.notes == [
        "use of eth1g by others was not judged: file traffic may have gone over it"
    ]
    assert traffic.check_use(busy, ETH1G, balanced=False).notes == []


def test_background_grows_with_time_and_rate() -> None:
    slow = job(extra_sent=20 * MB, finalize__monotonic_ns=21_000_000_000)
    assert sentences(slow) == []
    assert sentences(job(extra_sent=20 * MB)) != []
    assert (
        sentences(
            job(extra_sent=20 * MB), Fabric("eth10g", "tcp", "cluster", (Rail("eth1", 10.0),))
        )
        == []
    )


def test_without_a_line_rate_the_background_is_a_share_of_what_was_carried() -> None:
    assert sentences(job(extra_sent=10 * MB), ETH) == []
    assert sentences(job(extra_sent=60 * MB), ETH) != []


def test_what_tcp_sent_again_is_the_ranks_own() -> None:
    again = 40 * MB
    first = connection("10.0.0.2", "10.0.0.1", 100 * MB, 0, again)
    second = connection("10.0.0.1", "10.0.0.2", 0, 100 * MB)
    ranks = [
        node(0, wire(100 * MB, 0, again), wire(0, 100 * MB), first),
        node(1, wire(0, 100 * MB), wire(100 * MB, 0), second),
    ]
    assert sentences(ranks) == []


def test_a_connection_closed_at_one_end_is_known_at_the_other() -> None:
    """Open MPI closes its socket when the peer finalises first."""
    second = connection("10.0.0.1", "10.0.0.2", 100 * MB, 100 * MB)
    carried = wire(100 * MB, 100 * MB)
    ranks = [node(0, carried, carried), node(1, carried, carried, second)]
    assert sentences(ranks) == []
    ranks = [node(0, carried + 60 * MB, carried), node(1, carried, carried, second)]
    assert len(sentences(ranks)) == 1


def test_a_connection_that_both_ends_lost_leaves_the_balance() -> None:
    """Nothing tells the ranks' bytes any more; but what c1 sent and
    c2 did not receive was somebody else's.
    """
    open_ = {"pairs": [connection("10.0.0.2", "10.0.0.1", 0, 0)], "uncounted": 0, "complete": True}
    back = {"pairs": [connection("10.0.0.1", "10.0.0.2", 0, 0)], "uncounted": 0, "complete": True}
    ranks = [
        node(0, 100 * MB, 100 * MB, init__tcp=open_),
        node(1, 100 * MB, 100 * MB, init__tcp=back),
    ]
    assert sentences(ranks) == []
    ranks = [
        node(0, 160 * MB, 100 * MB, init__tcp=open_),
        node(1, 100 * MB, 100 * MB, init__tcp=back),
    ]
    assert sentences(ranks) == [
        "somebody else used the link: c1 sent 160 MB and c2 received 100 MB, 60 MB less; this says "
        "nothing about eth1g: measure again when nobody else uses it (exclusive nodes)."
    ]


def test_counters_handed_over_late_may_hold_an_earlier_launchs_bytes() -> None:
    """One second of 1 Gbit/s, for hardware whose driver is not known to count at once."""
    card = {"eth1": {**INTERFACE, "slot": "0000:01:00.0", "addresses": ["10.0.0.1"]}}
    tg3 = {"node": {"driver of eth1": "tg3 5.10", "interfaces": card, "ports": {}}}
    assert sentences(job(extra_sent=120 * MB, **tg3)) == []
    mlx5 = {
        "node": {"driver of eth1": "mlx5_core 5.8 firmware 16.3", "interfaces": card, "ports": {}}
    }
    ranks = job(extra_sent=120 * MB)
    ranks[0] = job(extra_sent=120 * MB, **mlx5)[0]
    assert len(sentences(ranks)) == 1


# ---- RDMA: nobody counts a rank's bytes ----


def rdma(
    first: tuple[float, float], second: tuple[float, float], **changes: Any
) -> list[RankEvidence]:
    """Ports of two nodes that sent and received so much."""
    return [
        node(number, *carried, name="mlx5_0/1", **changes)
        for number, carried in enumerate((first, second))
    ]


def test_what_leaves_one_node_arrives_at_the_other() -> None:
    assert sentences(rdma((5e9, 4e9), (4e9, 5e9)), EDR) == []
    assert sentences(rdma((5e9, 4e9), (4.05e9, 4.95e9)), EDR) == []


def test_bytes_of_a_file_system_beside_the_benchmark() -> None:
    assert sentences(rdma((9e9, 4e9), (4e9, 5e9)), EDR) == [
        "somebody else used the link: c1 sent 9.0 GB and c2 received 5.0 GB, 4.0 GB less; this "
        "says nothing about edr: measure again when nobody else uses it (exclusive nodes)."
    ]
    assert (
        "c2 sent 4.0 GB and c1 received 6.0 GB, 2.0 GB more"
        in sentences(rdma((5e9, 6e9), (4e9, 5e9)), EDR)[0]
    )


def test_collectives_may_be_added_up_or_multiplied_by_a_switch() -> None:
    assert sentences(rdma((9e9, 4e9), (4e9, 5e9)), EDR, balanced=False) == []


def test_three_nodes_are_judged_by_their_sums() -> None:
    def three(third: float) -> list[RankEvidence]:
        return [
            node(number, sent, 5e9, name="mlx5_0/1")
            for number, sent in enumerate((5e9, 5e9, third))
        ]

    assert sentences(three(5e9), EDR) == []
    assert (
        "all nodes together sent 19 GB and the same nodes received 15 GB, 4.0 GB less"
        in sentences(three(9e9), EDR)[0]
    )


def test_ethernet_beside_roce_on_one_port() -> None:
    """The port counts RDMA only, the interface everything else; both share the wire."""
    port = {
        "mlx5_0/1": {
            "state": "4: ACTIVE",
            "rate": "100",
            "link_layer": "Ethernet",
            "slot": "0000:01:00.0",
        }
    }
    card = {"eth1": {**INTERFACE, "slot": "0000:01:00.0", "addresses": ["10.0.0.1"]}}
    about = {"node": {"driver of eth1": "mlx5_core 5", "interfaces": card, "ports": port}}
    busy = {"eth1": {"rx_bytes": 0, "tx_bytes": 2 * 10**9}}

    def ranks(**changes: Any) -> list[RankEvidence]:
        return [node(number, 5e9, 5e9, name="mlx5_0/1", **about, **changes) for number in (0, 1)]

    assert sentences(ranks(), EDR) == []
    (sentence,) = sentences(ranks(finalize__interfaces=busy), EDR)
    assert "eth1 of c1 sent 2.0 GB more than the 0 B its ranks could have sent" in sentence


def test_a_rail_nobody_counts_is_somebody_elses_sentence() -> None:
    assert sentences(job(), Fabric("eth2g", "tcp", "cluster", (Rail("eth2", 1.0),))) == []


@pytest.mark.parametrize(
    "known", [{"uncounted": 1}, {"complete": False}, {"pairs": [OLD]}], ids=lambda row: str(*row)
)
def test_ranks_whose_bytes_are_not_all_counted_are_not_flagged(known: dict[str, Any]) -> None:
    tcp = {"pairs": [], "uncounted": 0, "complete": True, **known}
    ranks = [node(number, 900 * MB, 900 * MB, finalize__tcp=tcp) for number in (0, 1)]
    finding = traffic.check_use(ranks, ETH1G, balanced=True)
    assert (finding.sentences, [use.most_sent for use in finding.nodes]) == ([], [None, None])


def test_the_loopback_is_no_link() -> None:
    assert sentences([node(0, 900 * MB, 900 * MB, name="lo")] * 2, LO) == []
