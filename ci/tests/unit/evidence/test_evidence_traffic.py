"""Which network carried the bytes: every sentence and note, on rank records made by hand."""

import dataclasses

import pytest

from reframe_tests.harness.evidence import traffic
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.printable import format_bytes
from synthetic_evidence import INTERFACE, counted, exchange, make_rank, pair
from synthetic_stack import LO, SHM

GB = 1_000_000_000
MB = 1_000_000
KB = 1_000
ETH1G = Fabric("eth1g", "tcp", "cluster", (Rail("eth1", 1.0),))
IPOIB = Fabric("ipoib", "tcp", "cluster", (Rail("ib0", 100.0),))
EDR = Fabric("edr", "ucx", "cluster", (Rail("mlx5_0", 100.0),))
OPA = Fabric("opa100", "psm2", "cluster", (Rail("hfi1_0", 100.0), Rail("hfi1_1", 100.0)))
HOME = "127.0.0.1"
#: Sockets of a rank that also has some whose bytes nobody counts.
HIDDEN = {"pairs": [], "uncounted": 1, "complete": True}


def sentences(ranks, fabric, expected):
    return traffic.check_traffic(ranks, fabric, expected).sentences


def notes(ranks, fabric, expected):
    finding = traffic.check_traffic(ranks, fabric, expected)
    assert finding.sentences == []
    return finding.notes


#: The first rank's sockets sent all of it from eth1's address.
OWN = (("10.0.0.1", "10.0.0.2", 10 * GB),)


def on_two_nodes(
    first,
    second,
    own=None,
):
    """A rank on each; what those of c2 sent is not known."""
    return [exchange(first, own)[0], exchange(second, host="c2")[1]]


@pytest.mark.parametrize(
    ("ranks", "fabric", "expected"),
    [
        # Also between two addresses of a card: the kernel keeps that on the loopback.
        (exchange({"lo": 2 * GB + 5 * MB}, (("10.0.0.1", "10.0.0.1", 2 * GB),)), LO, 2 * GB),
        (exchange({"lo": 2 * GB, "ifb0": 2 * GB}), LO, 2 * GB),
        (exchange({"lo": 100 * KB, "eth1": 10.3 * GB, "eth2": 40 * MB}, OWN), ETH1G, 10 * GB),
        (exchange({"mlx5_0/1": 10 * GB, "eth1": 50 * KB}), EDR, 10 * GB),
        # The floor is one per node.
        (
            on_two_nodes(*[{"eth1": 2 * MB, "eth2": 900 * KB}] * 2),
            ETH1G,
            4 * MB,
        ),
        # Node c2 may hide what its ranks sent: the ranks' own count is not relied on.
        (
            on_two_nodes({"eth1": 5 * GB, "eth2": 0}, {"eth1": 5 * GB}, ()),
            ETH1G,
            10 * GB,
        ),
    ],
)
def test_what_proves_the_fabric(ranks, fabric, expected):
    assert notes(ranks, fabric, expected) == []


@pytest.mark.parametrize(
    ("ranks", "fabric", "expected", "sentence"),
    [
        # Asked for the loopback, shared memory used.
        (
            exchange({"lo": 12 * KB}),
            LO,
            2.2 * GB,
            "asked for lo, 2.2 GB of at least 2.2 GB went elsewhere: lo carried 12 kB "
            "(I_MPI_FABRICS=shm:ofi).",
        ),
        # Somebody else's traffic does not prove ours.
        (
            exchange({"lo": 3 * GB}, ((HOME, HOME, 9 * KB),)),
            LO,
            2.2 * GB,
            "asked for lo, lo carried 3.0 GB, but the ranks themselves sent only 9.0 kB of at "
            "least 2.2 GB there: the rest is other traffic of the node",
        ),
        # Asked for shared memory, the loopback used; small runs have the floor as their limit.
        (
            exchange({"lo": 2.1 * GB}, ((HOME, HOME, 2.1 * GB),)),
            SHM,
            2.2 * GB,
            "asked for shm, but lo carried 2.1 GB of at least 2.2 GB",
        ),
        (
            exchange({"lo": 1100 * KB}),
            SHM,
            0,
            "asked for shm, but lo carried 1.1 MB",
        ),
        (
            exchange({"lo": 0, "eth1": 5.1 * GB, "eth2": 5.1 * GB}),
            ETH1G,
            10 * GB,
            "asked for eth1g (eth1), but eth2 carried 5.1 GB of 10 GB: two networks were used at "
            "the same time",
        ),
        # Striping is no traffic of others: what the ranks' sockets sent is not found again on eth1.
        (
            exchange({"eth1": 5 * GB, "eth2": 5 * GB}, OWN),
            ETH1G,
            10 * GB,
            "two networks were used at the same time",
        ),
        # Two cards in one subnet: bytes bear the address of eth1 and leave through eth2.
        (
            exchange({"eth1": 30 * KB, "eth2": 10 * GB}, OWN),
            ETH1G,
            10 * GB,
            "went elsewhere: eth1 carried 30 kB, eth2 carried 10 GB",
        ),
        # All of it would fit into the second that counters may lag, but eth2 shows where it went.
        (
            exchange(
                {"eth1": 9 * KB, "eth2": 100 * MB},
                (("10.0.0.1", "10.0.0.2", 100 * MB),),
            ),
            ETH1G,
            100 * MB,
            "100 MB of at least 100 MB went elsewhere: eth1 carried 9.0 kB, eth2 carried 100 MB",
        ),
        # Node c2 may hide what its ranks sent: nothing is excused.
        (
            on_two_nodes({"eth1": 5 * GB, "eth2": 7 * GB}, {"eth1": 5 * GB}, ()),
            ETH1G,
            10 * GB,
            "asked for eth1g (eth1), but eth2 carried 7.0 GB of 17 GB: two networks were used at "
            "the same time",
        ),
        # A port of others is never excused: no socket tells whose RDMA it is.
        (
            exchange({"mlx5_0/1": 10 * GB, "mlx5_1/1": 3 * GB}),
            EDR,
            10 * GB,
            "but mlx5_1/1 carried 3.0 GB of 13 GB: two networks were used at the same time",
        ),
        (
            exchange({"eth0": GB}),
            ETH1G,
            GB,
            "fabric eth1g names eth1, which c1 lacks (it has eth0); correct the "
            "system's description.",
        ),
    ],
)
def test_what_contradicts_the_fabric(ranks, fabric, expected, sentence):
    [said] = sentences(ranks, fabric, expected)
    assert sentence in said


@pytest.mark.parametrize(
    ("ranks", "fabric", "note"),
    [
        (
            exchange({"lo": 3 * GB}, ()),
            SHM,
            "lo carried 3.0 GB that are not the ranks' (other traffic of the node)",
        ),
        (
            exchange({"eth1": 10 * GB, "eth2": 7 * GB}, OWN),
            ETH1G,
            "eth2 carried 7.0 GB that are not the ranks' (other traffic of the node)",
        ),
        (
            exchange({"eth1": 10 * GB, "lo": 4 * GB}, (*OWN, (HOME, HOME, 4 * GB))),
            ETH1G,
            "ranks of one node exchanged 4.0 GB over lo instead of shared memory",
        ),
    ],
)
def test_what_is_noted(ranks, fabric, note):
    assert notes(ranks, fabric, 10 * GB if fabric is ETH1G else 2 * GB) == [note]


def test_counters_span_the_first_start_and_the_last_end():
    early, _ = exchange({"lo": GB})
    ranks = [
        early,
        make_rank(
            1,
            init__interfaces={"lo": counted(400 * MB)},
            init__monotonic_ns=2_000_000_000,
            finalize__monotonic_ns=4_000_000_000,
            finalize__interfaces={"lo": counted(3 * GB)},
        ),
    ]
    (node,) = traffic.node_traffic(ranks)
    assert (node.counted["lo"].tx, node.seconds) == (3 * GB, 3.0)


# ---- wires that are counted twice ----


BONDED = {
    "lo": {**INTERFACE, "addresses": [HOME]},
    "bond0": {**INTERFACE, "lower": ["eth1", "eth2"], "addresses": ["10.0.0.1"]},
    **dict.fromkeys(("eth1", "eth2", "eth3"), INTERFACE),
}


@pytest.mark.parametrize(
    ("rail", "beside", "other"),
    [
        ("bond0", 0, ""),
        ("bond0", 5 * GB, "eth3 carried 5.0 GB of 15 GB"),
        ("eth3", 2 * GB, "bond0 carried 10 GB of 12 GB"),
    ],
)
def test_members_of_a_bond_are_the_bond(rail, beside, other):
    sent = {"bond0": 10 * GB, "eth1": 5 * GB, "eth2": 5 * GB, "eth3": beside}
    ranks = exchange(sent, None if beside else OWN, node__interfaces=BONDED)
    found = traffic.check_traffic(ranks, Fabric("asked", "tcp", "cluster", (Rail(rail),)), 10 * GB)
    assert found.notes == []
    assert [f"but {other}: two networks" in said for said in found.sentences] == [True] * bool(
        other
    )


def on_one_port(link_layer="InfiniBand"):
    """A node whose IP over InfiniBand goes over the port of its adapter."""
    slot = "0000:3b:00.0"
    port = {"state": "4: ACTIVE", "rate": "100", "link_layer": link_layer, "slot": slot}
    address = {**INTERFACE, "slot": slot, "addresses": ["10.1.0.1"]}
    return {
        "node__interfaces": {"lo": INTERFACE, "ib0": address},
        "node__ports": {"mlx5_0/1": port},
    }


@pytest.mark.parametrize(
    ("fabric", "link_layer", "other"),
    [
        (IPOIB, "InfiniBand", ""),
        (IPOIB, "Ethernet", "mlx5_0/1"),
        (EDR, "InfiniBand", "ib0"),
        (dataclasses.replace(EDR, tcp_interfaces=("ib0",)), "InfiniBand", ""),
    ],
)
def test_ip_over_infiniband_is_counted_by_its_port_too(fabric, link_layer, other):
    own = (("10.1.0.1", "10.1.0.2", 10 * GB),)
    ranks = exchange({"ib0": 10 * GB, "mlx5_0/1": 10 * GB}, own, **on_one_port(link_layer))
    said = sentences(ranks, fabric, 10 * GB)
    wanted = f"but {other} carried 10 GB of 20 GB: two networks were used at the same time"
    assert [wanted in one for one in said] == [True] * bool(other)


@pytest.mark.parametrize("header", [-1, 0, 1])
def test_ip_over_infiniband_is_one_wire_whichever_counted_more(header):
    nodes = traffic.node_traffic(
        exchange({"ib0": GB, "mlx5_0/1": GB + header}, (), **on_one_port())
    )
    assert len(traffic.each_wire_once(traffic.total_sent(nodes), nodes)) == 1


# ---- ports ----


def test_every_rail_is_reported():
    used = exchange({"hfi1_0/1": 5 * GB, "hfi1_1/1": 5 * GB})
    assert notes(used, OPA, 10 * GB) == []
    assert notes(exchange({"hfi1_0/1": 10 * GB, "hfi1_1/1": 0}), OPA, 10 * GB) == [
        "rail hfi1_1/1 of opa100 carried nothing"
    ]


def test_port_whose_counter_came_up_late_proves_nothing():
    full = {"mlx5_0/1": counted(10 * GB)}
    ranks = pair(init__ports={"mlx5_0/1": {}}, finalize__ports=full)
    assert (
        sentences(ranks, EDR, GB)[0]
        == "mlx5_0/1 on c1 has no counter of sent bytes, so edr cannot be proven."
    )


# ---- counters that cannot be believed ----


def test_interface_that_appeared_counts_from_nothing():
    zero = {"lo": counted(0)}
    late = {**zero, "eth9": counted(GB)}
    ranks = pair(init__interfaces=zero, finalize__interfaces=late, finalize__tcp=HIDDEN)
    assert sentences(ranks, SHM, GB)[0].startswith("asked for shm, but eth9 carried 1.0 GB")


def test_saturated_port_counter():
    full = 4 * (2**32 - 1)
    ranks = exchange({"mlx5_0/1": full})
    assert sentences(ranks, EDR, GB)[0].startswith(
        "a byte counter of mlx5_0/1 on c1 stands at its 32-bit limit"
    )
    assert sentences(exchange({"eth1": full}), ETH1G, GB) == []


def test_nobody_left_counters():
    assert sentences([], LO, GB) == [
        "no rank recorded counters, so nothing proves that lo was used."
    ]
    hung = dataclasses.replace(make_rank(0), finalize=None)
    assert sentences([hung], LO, GB) == sentences([], LO, GB)


# ---- how it is said ----


@pytest.mark.parametrize(
    ("count", "text"), [(999, "999 B"), (1_200, "1.2 kB"), (9_960 * MB, "10 GB"), (4e15, "4000 TB")]
)
def test_bytes_are_rounded_for_reading(count, text):
    assert format_bytes(count) == text


# ---- the ranks' own sockets: whose bytes were counted, and what
# a closed connection leaves known ----


def test_bytes_sent_before_the_run_do_not_count():
    row = {"local": HOME, "peer": HOME, "count": 1, "sent_bytes": 100, "received_bytes": 0}
    tcp = {"pairs": [row], "uncounted": 0, "complete": True}
    later = {**tcp, "pairs": [{**row, "sent_bytes": 150}]}
    (node,) = traffic.node_traffic([make_rank(0, init__tcp=tcp, finalize__tcp=later)])
    assert node.sent_by_ranks == {"lo": 50}


@pytest.mark.parametrize(
    ("here", "there", "known"),
    [
        # Open MPI closes the socket of a peer that finalises first (seen on two nodes).
        ((0, 0), (0, 1), True),
        # Two ranks that connect to each other at once keep one connection of two (UCX).
        ((2, 1), (1, 1), True),
        ((2, 1), (2, 1), False),
        ((2, 1), (1, 0), False),
    ],
)
def test_what_a_closed_connection_carried_is_known_from_the_other_end(here, there, known):
    """Unless that end lost one as well; then what eth2 carried may be the ranks' own.

    :param here: connections of the sender at MPI_Init and MPI_Finalize; ``there``: the receiver's.
    """

    def tcp(ends, count, size):
        row = {"local": ends[0], "peer": ends[1], "count": count}
        row |= {"sent_bytes": size, "received_bytes": size}
        return {"pairs": [row] * bool(count), "uncounted": 0, "complete": True}

    zero, used = (
        {name: counted(count) for name, count in counts.items()}
        for counts in ({"eth1": 0, "eth2": 0}, {"eth1": 12 * MB, "eth2": 48 * MB})
    )
    ends = ("10.0.0.1", "10.0.0.2")
    ranks = [
        make_rank(
            number,
            f"c{number + 1}",
            node__interfaces={"eth1": {**INTERFACE, "addresses": own[:1]}, "eth2": INTERFACE},
            init__interfaces=zero,
            finalize__interfaces=used,
            init__tcp=tcp(own, counts[0], 60),
            finalize__tcp=tcp(own, counts[1], 11_600_000),
        )
        for number, own, counts in ((0, ends, here), (1, ends[::-1], there))
    ]
    assert traffic.node_traffic(ranks)[0].ranks_known == known
    finding = traffic.check_traffic(ranks, ETH1G, 20 * MB)
    others = "eth2 carried 96 MB that are not the ranks' (other traffic of the node)"
    assert finding.notes == [others] * known
    wanted = "eth2 carried 96 MB of 120 MB: two networks were used at the same time"
    assert [wanted in said for said in finding.sentences] == [True] * (not known)


@pytest.mark.parametrize("direction", ["rx_bytes", "tx_bytes"])
def test_counter_gone_backwards(direction):
    before, after = ({"eth1": {**counted(9), direction: last}} for last in (9, 5))
    (said,) = sentences(pair(init__interfaces=before, finalize__interfaces=after), SHM, 0)
    assert said.startswith("the byte counters of eth1 on c1 went backwards during the run")


def test_interface_vanished():
    gone = pair(finalize__interfaces={"lo": counted(2 * GB)})
    for fabric in (LO, ETH1G):
        assert sentences(gone, fabric, 0) == [
            "eth1 on c1 disappeared during the run, so what it carried is unknown."
        ]


@pytest.mark.parametrize(
    ("carried", "both", "proven"),
    [(8.3, False, True), (8.2, False, False), (7.1, True, True), (6.9, True, False)],
)
def test_counters_may_lag_behind_sockets_by_a_second_of_each_node(carried, both, proven):
    """10 Gbit/s are 1.25 GB a second, on two nodes 2.5 GB."""
    ten = Fabric("eth10g", "tcp", "cluster", (Rail("eth1", 10.0),))
    ranks = exchange({"eth1": carried * GB}, OWN)
    if both:
        ranks[1] = exchange({"eth1": 0}, (), host="c2")[1]
    finding = traffic.check_traffic(ranks, ten, 10 * GB)
    assert (finding.sentences == []) == (["lag behind" in note for note in finding.notes] == [True])
    assert (finding.sentences == []) == proven
    assert sentences(exchange({"eth1": carried * GB}), ten, 10 * GB), "no socket tells"
