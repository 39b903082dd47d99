"""Who else used the link: every sentence, and all that must not
be one, on rank records made by hand.
"""

from dataclasses import replace

import pytest

from reframe_tests.harness.evidence import traffic
from reframe_tests.harness.machine.fabric import Fabric, Rail
from synthetic_evidence import INTERFACE, counted, make_rank
from synthetic_stack import ETH, LO

MB = 1_000_000
ETH1G = replace(ETH, rails=(Rail("eth1", 1.0),))
ETH10G = replace(ETH1G, rails=(Rail("eth1", 10.0),))
EDR = Fabric("edr", "ucx", "cluster", (Rail("mlx5_0", 100.0),))
#: 2 s on 1 Gbit/s: 1 MB and 1 % of what the link carries.
ALLOWED = 1 * MB + 2.5 * MB
PAYLOAD = 1448
#: A connection as a kernel tells it that counts no packets.
OLD = {"local": "10.0.0.1", "peer": "10.0.0.9", "count": 1}
OLD |= {"sent_bytes": 1, "received_bytes": 1}


def connection(number, out, received, again=0):
    """A connection of a node to the other one as the kernel tells it, full
    packets out and one acknowledgement for two packets in.
    """
    own, peer = ("10.0.0.1", "10.0.0.2")[:: 1 - 2 * number]
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
    }


def sockets(*pairs):
    return {"pairs": list(pairs), "uncounted": 0, "complete": True}


def wire(out, received, again=0):
    """What an interface counts for a connection: IPv4, time stamps, Ethernet."""
    row = connection(0, out, received, again)
    return float(row["out_bytes"] + row["segments_out"] * 66)


def node(number, sent, received, *pairs, **changes):
    """The one rank of node c1 or c2, and what eth1 carried there around its run of 2 s."""
    name = changes.pop("name", "eth1")
    zero = counted(0)
    carried = {"rx_bytes": int(received), "tx_bytes": int(sent)}
    where = "ports" if "/" in name else "interfaces"
    settings = {
        "init__interfaces": {"eth1": zero},
        "finalize__interfaces": {"eth1": zero},
        f"init__{where}": {name: zero},
        f"finalize__{where}": {name: carried},
        "node__interfaces": {"eth1": {**INTERFACE, "addresses": [f"10.0.0.{number + 1}"]}},
        "finalize__tcp": sockets(*pairs),
    }
    return make_rank(number, f"c{number + 1}", **{**settings, **changes})


def job(extra_sent=0, extra_received=0, *, known_at="12", **changes):
    """Two nodes that sent each other 100 MB, and c1's link that carried something else too.

    :param known_at: nodes whose connection is still open at the end.
    """
    carried = wire(100 * MB, 100 * MB)
    ends = [
        [connection(number, 100 * MB, 100 * MB)] if str(number + 1) in known_at else []
        for number in (0, 1)
    ]
    return [
        node(0, carried + extra_sent, carried + extra_received, *ends[0], **changes),
        node(1, carried, carried, *ends[1], **changes),
    ]


def sentences(ranks, fabric=ETH1G, *, balanced=True):
    return traffic.check_use(ranks, fabric, balanced=balanced).sentences


def test_the_ranks_own_bytes_are_nobody_elses():
    finding = traffic.check_use(job(), ETH1G, balanced=True)
    assert finding.sentences == []
    for use in finding.nodes:
        assert use.most_sent is not None and use.sent < use.most_sent < 1.06 * use.sent
        assert use.allowed == ALLOWED


@pytest.mark.parametrize("way", ["sent", "received"])
def test_a_neighbour_is_reported_with_what_he_took(way):
    (sentence,) = sentences(job(**{f"extra_{way}": 60 * MB}))
    assert f"eth1 of c1 {way} 55 MB more than the 112 MB its ranks could have " in sentence
    assert sentences(job(**{f"extra_{way}": ALLOWED})) == []


@pytest.mark.parametrize(
    ("extra_mb", "fabric", "seconds", "reported"),
    [
        (20, ETH1G, 2, True),
        (20, ETH1G, 20, False),
        (20, ETH10G, 2, False),
        # Without a rate, as ETH is, a share of what was carried.
        (10, ETH, 2, False),
        (60, ETH, 2, True),
    ],
)
def test_background_grows_with_time_and_rate(extra_mb, fabric, seconds, reported):
    ranks = job(extra_mb * MB, finalize__monotonic_ns=(1 + seconds) * 10**9)
    assert bool(sentences(ranks, fabric)) == reported


def test_files_may_go_over_the_same_link():
    """A network file system's bytes are in no rank's connection."""
    finding = traffic.check_use(job(60 * MB), ETH1G, balanced=False, files=True)
    assert finding.sentences == [] and [use.host for use in finding.nodes] == ["c1", "c2"]
    assert finding.notes == [
        "use of eth1g by others was not judged: file traffic may have gone over it"
    ]


def test_what_tcp_sent_again_is_the_ranks_own():
    again = 40 * MB
    sent, received = wire(100 * MB, 0, again), wire(0, 100 * MB)
    ranks = [
        node(0, sent, received, connection(0, 100 * MB, 0, again)),
        node(1, received, wire(100 * MB, 0), connection(1, 0, 100 * MB)),
    ]
    assert sentences(ranks) == []


def test_a_connection_closed_at_one_end_is_known_at_the_other():
    """Open MPI closes its socket when the peer finalises first."""
    assert sentences(job(known_at="2")) == []
    assert len(sentences(job(60 * MB, known_at="2"))) == 1


def test_what_ranks_send_inside_their_node_is_not_on_the_link():
    inside = {**connection(0, 900 * MB, 900 * MB), "peer": "10.0.0.1"}
    carried = wire(100 * MB, 100 * MB)
    own = connection(0, 100 * MB, 100 * MB)
    assert len(sentences([node(0, carried + 60 * MB, carried, own, inside), job()[1]])) == 1


def test_a_connection_that_both_ends_lost_leaves_the_balance():
    """Nothing tells the ranks' bytes any more; but what c1 sent and
    c2 did not receive was somebody else's.
    """

    def lost(sent):
        return [
            node(number, out, 100 * MB, init__tcp=sockets(connection(number, 0, 0)))
            for number, out in enumerate((sent, 100 * MB))
        ]

    assert sentences(lost(100 * MB)) == []
    assert sentences(lost(160 * MB)) == [
        "somebody else used the link: c1 sent 160 MB and c2 received 100 MB, 60 MB less; this says "
        "nothing about eth1g: measure again when nobody else uses it (exclusive nodes)."
    ]


CARD = {"eth1": {**INTERFACE, "slot": "0000:01:00.0", "addresses": ["10.0.0.1"]}}


@pytest.mark.parametrize(
    ("driver", "reported"), [("tg3 5.10", 0), ("mlx5_core 5.8 firmware 16.3", 1)]
)
def test_counters_handed_over_late_may_hold_an_earlier_launchs_bytes(driver, reported):
    """One second of 1 Gbit/s, for hardware whose driver is not known to count at once."""
    about = {"driver of eth1": driver, "interfaces": CARD, "ports": {}}
    ranks = [job(120 * MB, node=about)[0], job(120 * MB)[1]]
    assert len(sentences(ranks)) == reported


# ---- RDMA: nobody counts a rank's bytes ----


def rdma(*carried, **changes):
    """Ports of nodes that sent and received so many GB."""
    return [
        node(number, sent * 1e9, received * 1e9, name="mlx5_0/1", **changes)
        for number, (sent, received) in enumerate(carried)
    ]


@pytest.mark.parametrize(
    ("carried", "wanted"),
    [
        (((5, 4), (4, 5)), ""),
        (((5, 4), (4.05, 4.95)), ""),
        # A file system's beside the benchmark.
        (((9, 4), (4, 5)), "c1 sent 9.0 GB and c2 received 5.0 GB, 4.0 GB less"),
        (((5, 6), (4, 5)), "c2 sent 4.0 GB and c1 received 6.0 GB, 2.0 GB more"),
        (((5, 5), (5, 5), (5, 5)), ""),
        (
            ((5, 5), (5, 5), (9, 5)),
            "all nodes together sent 19 GB and the same nodes received 15 GB, 4.0 GB less",
        ),
    ],
)
def test_what_leaves_one_node_arrives_at_another(carried, wanted):
    said = sentences(rdma(*carried), EDR)
    assert [wanted in one for one in said] == [True] * bool(wanted)
    assert sentences(rdma(*carried), EDR, balanced=False) == [], (
        "a switch may add up or multiply collectives"
    )


def test_ethernet_beside_roce_on_one_port():
    """The port counts RDMA only, the interface everything else; both share the wire."""
    port = {"state": "4: ACTIVE", "rate": "100", "link_layer": "Ethernet", "slot": "0000:01:00.0"}
    about = {"driver of eth1": "mlx5_core 5", "interfaces": CARD, "ports": {"mlx5_0/1": port}}
    busy = {"eth1": {"rx_bytes": 0, "tx_bytes": 2 * 10**9}}
    assert sentences(rdma((5, 5), (5, 5), node=about), EDR) == []
    (sentence,) = sentences(rdma((5, 5), (5, 5), node=about, finalize__interfaces=busy), EDR)
    assert "eth1 of c1 sent 2.0 GB more than the 0 B its ranks could have sent" in sentence


@pytest.mark.parametrize(
    "known", [{"uncounted": 1}, {"complete": False}, {"pairs": [OLD]}], ids=lambda row: str(*row)
)
def test_ranks_whose_bytes_are_not_all_counted_are_not_flagged(known):
    ranks = [
        node(number, 900 * MB, 900 * MB, finalize__tcp={**sockets(), **known}) for number in (0, 1)
    ]
    finding = traffic.check_use(ranks, ETH1G, balanced=True)
    assert (finding.sentences, [use.most_sent for use in finding.nodes]) == ([], [None, None])


def test_what_is_no_link_or_counted_by_nobody_has_no_sentence():
    assert sentences([node(0, 900 * MB, 900 * MB, name="lo")] * 2, LO) == []
    assert sentences(job(), replace(ETH1G, rails=(Rail("eth2", 1.0),))) == []
