"""Which network carried the bytes: every sentence and note, on rank records made by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from reframe_tests.harness.evidence import traffic
from reframe_tests.harness.evidence.rank_records import RankEvidence
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.printable import format_bytes
from synthetic_evidence import INTERFACE, exchange, make_rank, pair

GB, MB, KB = 1_000_000_000, 1_000_000, 1_000
LO = Fabric("lo", "tcp", "node", (Rail("lo"),))
SHM = Fabric("shm", "shm", "node")
ETH1G = Fabric("eth1g", "tcp", "cluster", (Rail("eth1", 1.0),))
BOND = Fabric("bond", "tcp", "cluster", (Rail("bond0", 2.0),))
IPOIB = Fabric("ipoib", "tcp", "cluster", (Rail("ib0", 100.0),))
EDR = Fabric("edr", "ucx", "cluster", (Rail("mlx5_0", 100.0),))
OPA = Fabric("opa100", "psm2", "cluster", (Rail("hfi1_0", 100.0), Rail("hfi1_1", 100.0)))
HOME = "127.0.0.1"
#: Sockets of a rank that also has some whose bytes nobody counts.
HIDDEN = {"pairs": [], "uncounted": 1, "complete": True}


def sentences(ranks: Sequence[RankEvidence], fabric: Fabric, expected: float) -> list[str]:
    return traffic.check_traffic(ranks, fabric, expected).sentences


def notes(ranks: Sequence[RankEvidence], fabric: Fabric, expected: float) -> list[str]:
    finding = traffic.check_traffic(ranks, fabric, expected)
    assert finding.sentences == []
    return finding.notes


#: The first rank's sockets sent all of it from eth1's address.
OWN = (("10.0.0.1", "10.0.0.2", 10 * GB),)
ASIDE = "(I_MPI_FABRICS=shm:ofi)"


def on_two_nodes(first: Sequence[RankEvidence], second: Sequence[RankEvidence]) -> list[RankEvidence]:
    return [first[0], second[1]]


@pytest.mark.parametrize(
    ("ranks", "fabric", "expected"),
    [
        # Also between two addresses of a card: the kernel keeps that on the loopback.
        (exchange({"lo": 2 * GB + 5 * MB}, ((HOME, HOME, 2 * GB),)), LO, 2 * GB),
        (exchange({"lo": 2 * GB + 5 * MB}, (("10.0.0.1", "10.0.0.1", 2 * GB),)), LO, 2 * GB),
        (exchange({"lo": 2 * GB, "ifb0": 2 * GB}), LO, 2 * GB),  # a mirror is no network
        (exchange({"lo": 200 * KB, "eth1": 100 * KB}), SHM, 2 * GB),
        (exchange({"lo": 900 * KB}), SHM, 0),
        (exchange({"lo": 100 * KB, "eth1": 10.3 * GB, "eth2": 40 * MB}, OWN), ETH1G, 10 * GB),
        (exchange({"mlx5_0/1": 10 * GB, "eth1": 50 * KB}), EDR, 10 * GB),
        # The floor is one per node.
        (on_two_nodes(*(exchange({"eth1": 2 * MB, "eth2": 900 * KB}, host=host) for host in ("c1", "c2"))), ETH1G, 4 * MB),
        # Node c2 may hide what its ranks sent: the ranks' own count is not relied on.
        (on_two_nodes(exchange({"eth1": 5 * GB, "eth2": 0}, ()), exchange({"eth1": 5 * GB}, host="c2")), ETH1G, 10 * GB),
    ],
)
def test_what_proves_the_fabric(ranks: list[RankEvidence], fabric: Fabric, expected: float) -> None:
    assert notes(ranks, fabric, expected) == []


@pytest.mark.parametrize(
    ("ranks", "fabric", "expected", "sentence"),
    [
        # Asked for the loopback, shared memory used.
        (
            *(exchange({"lo": 12 * KB}), LO, 2.2 * GB),
            f"asked for lo, 2.2 GB of at least 2.2 GB went elsewhere: lo carried 12 kB {ASIDE}.",
        ),
        (
            *(exchange({"lo": 100 * MB}, environment={}), LO, 2.2 * GB),
            "asked for lo, 2.1 GB of at least 2.2 GB went elsewhere: lo carried 100 MB.",
        ),
        # Somebody else's traffic does not prove ours.
        (
            *(exchange({"lo": 3 * GB}, ((HOME, HOME, 9 * KB),)), LO, 2.2 * GB),
            "asked for lo, lo carried 3.0 GB, but the ranks themselves sent only 9.0 kB of at least 2.2 GB there: the rest is "
            f"other traffic of the node {ASIDE}.",
        ),
        # Asked for shared memory, the loopback used; small runs have the floor as their limit.
        (
            *(exchange({"lo": 2.1 * GB}, ((HOME, HOME, 2.1 * GB),)), SHM, 2.2 * GB),
            f"asked for shm, but lo carried 2.1 GB of at least 2.2 GB {ASIDE}.",
        ),
        (exchange({"lo": 3 * GB}), SHM, 2 * GB, f"asked for shm, but lo carried 3.0 GB of at least 2.0 GB {ASIDE}."),
        (exchange({"lo": 1100 * KB}, environment={}), SHM, 0, "asked for shm, but lo carried 1.1 MB."),
        # Two networks at once, and four.
        (exchange({"eth1": 4 * MB, "eth2": 1800 * KB}), ETH1G, 4 * MB, f"... two networks were used at once {ASIDE}."),
        (
            *(exchange({"lo": 0, "eth1": 5.1 * GB, "eth2": 5.1 * GB}, environment={}), ETH1G, 10 * GB),
            "asked for eth1g (eth1), but eth2 carried 5.1 GB of 10 GB: two networks were used at once.",
        ),
        (
            exchange({"eth0": 2 * GB, "eth1": 3 * GB, "eth2": 3 * GB, "eth3": 2 * GB}, environment={}),
            *(ETH1G, 10 * GB, "... eth0 carried 2.0 GB, eth3 carried 2.0 GB of 10 GB: four networks were used at once."),
        ),
        # Striping is no traffic of others: what the ranks' sockets sent is not found again on eth1.
        (exchange({"eth1": 5 * GB, "eth2": 5 * GB}, OWN), ETH1G, 10 * GB, f"... two networks were used at once {ASIDE}."),
        (
            *(exchange({"eth1": 30 * KB, "eth2": 10 * GB}, environment={"UCX_TLS": "all"}), ETH1G, 10 * GB),
            "asked for eth1g (eth1), 10 GB of at least 10 GB went elsewhere: eth1 carried 30 kB, eth2 carried 10 GB "
            "(UCX_TLS=all).",
        ),
        # Two cards in one subnet: bytes bear the address of eth1 and leave through eth2.
        (
            *(exchange({"eth1": 30 * KB, "eth2": 10 * GB}, OWN), ETH1G, 10 * GB),
            f"... went elsewhere: eth1 carried 30 kB, eth2 carried 10 GB {ASIDE}.",
        ),
        # All of it would fit into the second that counters may lag, but eth2 shows where it went.
        (
            exchange({"eth1": 9 * KB, "eth2": 100 * MB}, (("10.0.0.1", "10.0.0.2", 100 * MB),), environment={}),
            *(ETH1G, 100 * MB, "... 100 MB of at least 100 MB went elsewhere: eth1 carried 9.0 kB, eth2 carried 100 MB."),
        ),
        # Node c2 may hide what its ranks sent: nothing is excused.
        (
            on_two_nodes(exchange({"eth1": 5 * GB, "eth2": 7 * GB}, (), environment={}), exchange({"eth1": 5 * GB}, host="c2")),
            *(ETH1G, 10 * GB, "asked for eth1g (eth1), but eth2 carried 7.0 GB of 17 GB: two networks were used at once."),
        ),
        (
            *(exchange({"mlx5_0/1": 0, "eth1": 10 * GB}, environment={"FI_PROVIDER": "tcp"}), EDR, 10 * GB),
            "asked for edr (mlx5_0/1), 10 GB of at least 10 GB went elsewhere: mlx5_0/1 carried 0 B, eth1 carried 10 GB "
            "(FI_PROVIDER=tcp).",
        ),
        # A port of others is never excused: no socket tells whose RDMA it is.
        (
            *(exchange({"mlx5_0/1": 10 * GB, "mlx5_1/1": 3 * GB}, environment={}), EDR, 10 * GB),
            "... but mlx5_1/1 carried 3.0 GB of 13 GB: two networks were used at once.",
        ),
        (
            *(exchange({"eth0": GB}), ETH1G, GB),
            "fabric eth1g names eth1, which c1 does not have (it has eth0); correct the system's description.",
        ),
    ],
)
def test_what_contradicts_the_fabric(ranks: list[RankEvidence], fabric: Fabric, expected: float, sentence: str) -> None:
    """Where a sentence begins with dots, its end is compared."""
    [said] = sentences(ranks, fabric, expected)
    assert said.endswith(sentence.removeprefix("... ")) if sentence.startswith("... ") else said == sentence


@pytest.mark.parametrize(
    ("ranks", "fabric", "note"),
    [
        (exchange({"lo": 3 * GB}, ()), SHM, "lo carried 3.0 GB that are not the ranks' (other traffic of the node)"),
        (
            *(exchange({"eth1": 10 * GB, "eth2": 7 * GB}, OWN), ETH1G),
            "eth2 carried 7.0 GB that are not the ranks' (other traffic of the node)",
        ),
        (
            *(exchange({"eth1": 10 * GB, "lo": 4 * GB}, (*OWN, (HOME, HOME, 4 * GB))), ETH1G),
            "ranks of one node exchanged 4.0 GB over lo, not in shared memory",
        ),
    ],
)
def test_what_is_noted(ranks: list[RankEvidence], fabric: Fabric, note: str) -> None:
    assert notes(ranks, fabric, 10 * GB if fabric is ETH1G else 2 * GB) == [note]


@pytest.mark.parametrize(("missing", "proven"), [(100 * MB, True), (400 * MB, False)])
def test_counters_that_lag_behind(missing: int, proven: bool):
    """1 Gbit/s is 125 MB in the second that adapters may take to count; 5 % of 1.9 GB may be missing anyway."""
    own = (("10.0.0.1", "10.0.0.2", 2 * GB),)
    ranks = exchange({"eth1": 1.9 * GB - missing}, own)
    assert (sentences(ranks, ETH1G, 2 * GB) == []) == proven
    if proven:
        assert notes(ranks, ETH1G, 2 * GB) == ["the counters of eth1g lag behind the ranks' sockets, which are used instead"]
    assert sentences(exchange({"eth1": 1.9 * GB - missing}), ETH1G, 2 * GB) != []


def test_lag_grows_with_rate_and_nodes():
    """10 Gbit/s are 1.25 GB a second, on two nodes 2.5 GB."""
    ten = Fabric("eth10g", "tcp", "cluster", (Rail("eth1", 10.0),))
    own = (("10.0.0.1", "10.0.0.2", 10 * GB),)
    for carried, both, proven in (
        (8.3 * GB, False, True),
        (8.2 * GB, False, False),
        (7.1 * GB, True, True),
        (6.9 * GB, True, False),
    ):
        ranks = exchange({"eth1": carried}, own)
        if both:
            ranks = [ranks[0], exchange({"eth1": 0}, (), host="c2")[1]]
        assert (sentences(ranks, ten, 10 * GB) == []) == proven, (carried, both)


def test_bytes_of_all_nodes_are_summed():
    first, second = exchange({"eth1": 5 * GB}), exchange({"eth1": 5 * GB}, host="c2")
    ranks = [first[0], second[1]]
    assert traffic.total_sent(traffic.node_traffic(ranks)) == {"eth1": 10 * GB}


def test_counters_span_the_first_start_and_the_last_end():
    early, _ = exchange({"lo": GB})
    late_init = {"lo": {"rx_bytes": 400 * MB, "tx_bytes": 400 * MB}}
    ranks = [
        early,
        make_rank(
            1,
            init__interfaces=late_init,
            init__monotonic_ns=2_000_000_000,
            finalize__monotonic_ns=4_000_000_000,
            finalize__interfaces={"lo": {"rx_bytes": 3 * GB, "tx_bytes": 3 * GB}},
        ),
    ]
    (node,) = traffic.node_traffic(ranks)
    assert (node.counted["lo"].tx, node.seconds) == (3 * GB, 3.0)


# ---- wires that are counted twice ----


def bonded(**changes: Any) -> dict[str, Any]:
    return {
        "lo": {**INTERFACE, "addresses": [HOME]},
        "bond0": {**INTERFACE, "lower": ["eth1", "eth2"], "addresses": ["10.0.0.1"]},
        "eth1": INTERFACE,
        "eth2": INTERFACE,
        "eth3": INTERFACE,
    } | changes


def test_members_of_a_bond_are_the_bond():
    own = (("10.0.0.1", "10.0.0.2", 10 * GB),)
    sent = {"bond0": 10 * GB, "eth1": 5 * GB, "eth2": 5 * GB}
    assert notes(exchange(sent, own, node__interfaces=bonded()), BOND, 10 * GB) == []
    (sentence,) = sentences(exchange({**sent, "eth3": 5 * GB}, node__interfaces=bonded(), environment={}), BOND, 10 * GB)
    assert sentence.endswith("eth3 carried 5.0 GB of 15 GB: two networks were used at once.")


def test_bond_asked_for_by_its_member_and_the_other_member_used():
    sent = {"bond0": 10 * GB, "eth1": 5 * GB, "eth2": 5 * GB}
    (sentence,) = sentences(exchange(sent, node__interfaces=bonded(), environment={}), ETH1G, 10 * GB)
    assert sentence.endswith("but eth2 carried 5.0 GB of 10 GB: two networks were used at once.")


def test_bond_used_instead_is_one_network():
    fabric = Fabric("eth3", "tcp", "cluster", (Rail("eth3"),))
    sent = {"bond0": 10 * GB, "eth1": 5 * GB, "eth2": 5 * GB, "eth3": 2 * GB}
    (sentence,) = sentences(exchange(sent, node__interfaces=bonded(), environment={}), fabric, 10 * GB)
    assert sentence == "asked for eth3, but bond0 carried 10 GB of 12 GB: two networks were used at once."


def infiniband(link_layer: str = "InfiniBand") -> dict[str, Any]:
    slot = "0000:3b:00.0"
    return {
        "node__interfaces": {"lo": INTERFACE, "ib0": {**INTERFACE, "slot": slot, "addresses": ["10.1.0.1"]}},
        "node__ports": {"mlx5_0/1": {"state": "4: ACTIVE", "rate": "100", "link_layer": link_layer, "slot": slot}},
    }


def test_ip_over_infiniband_is_counted_by_its_port_too():
    sent = {"ib0": 10 * GB, "mlx5_0/1": 10 * GB}
    own = (("10.1.0.1", "10.1.0.2", 10 * GB),)
    assert notes(exchange(sent, own, **infiniband()), IPOIB, 10 * GB) == []
    (sentence,) = sentences(exchange(sent, own, **infiniband("Ethernet"), environment={}), IPOIB, 10 * GB)
    assert sentence == "asked for ipoib (ib0), but mlx5_0/1 carried 10 GB of 20 GB: two networks were used at once."


def test_rdma_asked_for_ip_over_the_same_port_used():
    sent = {"ib0": 10 * GB, "mlx5_0/1": 10 * GB}
    own = (("10.1.0.1", "10.1.0.2", 10 * GB),)
    (sentence,) = sentences(exchange(sent, own, **infiniband(), environment={}), EDR, 10 * GB)
    assert sentence == "asked for edr (mlx5_0/1), but ib0 carried 10 GB of 20 GB: two networks were used at once."
    allowed = Fabric("edr", "ucx", "cluster", (Rail("mlx5_0", 100.0),), tcp_interfaces=("ib0",))
    assert sentences(exchange(sent, own, **infiniband()), allowed, 10 * GB) == []


# ---- ports ----


def test_every_rail_is_reported():
    used = exchange({"hfi1_0/1": 5 * GB, "hfi1_1/1": 5 * GB})
    assert notes(used, OPA, 10 * GB) == []
    assert notes(exchange({"hfi1_0/1": 10 * GB, "hfi1_1/1": 0}), OPA, 10 * GB) == ["rail hfi1_1/1 of opa100 carried nothing"]
    assert notes(exchange({"hfi1_0/1": 10 * KB, "hfi1_1/1": 0}), OPA, 10 * KB) == [], "too little to tell"
    (sentence,) = sentences(exchange({"hfi1_0/1": GB, "hfi1_1/1": 2 * GB}, environment={}), OPA, 10 * GB)
    assert sentence == (
        "asked for opa100 (hfi1_0/1, hfi1_1/1), 7.0 GB of at least 10 GB went elsewhere: hfi1_0/1 carried 1.0 GB, "
        "hfi1_1/1 carried 2.0 GB."
    )


def test_rail_without_a_byte_counter():
    ranks = pair(init__ports={"mlx5_0/1": {}}, finalize__ports={"mlx5_0/1": {}})
    assert sentences(ranks, EDR, GB)[0] == "mlx5_0/1 on c1 has no counter of sent bytes, so edr cannot be proven."


def test_port_whose_counter_came_up_late_proves_nothing():
    full = {"mlx5_0/1": {"rx_bytes": 10 * GB, "tx_bytes": 10 * GB}}
    ranks = pair(init__ports={"mlx5_0/1": {}}, finalize__ports=full)
    assert sentences(ranks, EDR, GB)[0] == "mlx5_0/1 on c1 has no counter of sent bytes, so edr cannot be proven."


# ---- counters that cannot be believed ----


@pytest.mark.parametrize("direction", ["rx_bytes", "tx_bytes"])
def test_counter_gone_backwards(direction: str):
    before = {"lo": {"rx_bytes": 0, "tx_bytes": 0}, "eth1": {"rx_bytes": 0, "tx_bytes": 0, direction: 4_294_000_000}}
    after = {"lo": {"rx_bytes": 0, "tx_bytes": 0}, "eth1": {"rx_bytes": 0, "tx_bytes": 0, direction: 5_000_000}}
    for fabric in (ETH1G, SHM):
        assert sentences(pair(init__interfaces=before, finalize__interfaces=after), fabric, 0) == [
            "the byte counters of eth1 on c1 went backwards during the run (reset or overflow), so they prove nothing; run "
            "the case again."
        ]


def test_interface_vanished():
    ranks = exchange({"lo": 2 * GB, "eth1": 0})
    gone = [
        make_rank(n, finalize__interfaces={"lo": {"rx_bytes": 2 * GB, "tx_bytes": 2 * GB}}, finalize__tcp=HIDDEN)
        for n in (0, 1)
    ]
    assert sentences(ranks, LO, 0) == []
    assert sentences(gone, LO, 0) == ["eth1 on c1 vanished during the run; what it carried is unknown."]
    assert sentences(gone, ETH1G, 0) == ["eth1 on c1 vanished during the run; what it carried is unknown."]


def test_interface_that_appeared_counts_from_nothing():
    zero = {"lo": {"rx_bytes": 0, "tx_bytes": 0}}
    late = {**zero, "eth9": {"rx_bytes": GB, "tx_bytes": GB}}
    ranks = pair(init__interfaces=zero, finalize__interfaces=late, finalize__tcp=HIDDEN)
    assert sentences(ranks, SHM, GB)[0].startswith("asked for shm, but eth9 carried 1.0 GB")


def test_saturated_port_counter():
    full = 4 * (2**32 - 1)
    ranks = exchange({"mlx5_0/1": full})
    assert sentences(ranks, EDR, GB)[0].startswith("a byte counter of mlx5_0/1 on c1 stands at its 32-bit limit")
    assert sentences(exchange({"eth1": full}), ETH1G, GB) == []


def test_nobody_left_counters():
    assert sentences([], LO, GB) == ["no rank left counters, so nothing proves that lo was used."]
    hung = dataclasses.replace(make_rank(0), finalize=None)
    assert sentences([hung], LO, GB) == sentences([], LO, GB)


# ---- how it is said ----


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (12_000, "12 kB"),
        (1_200, "1.2 kB"),
        (2_100 * MB, "2.1 GB"),
        (9_960 * MB, "10 GB"),
        (5e12, "5.0 TB"),
        (4e15, "4000 TB"),
        (2.5e6, "2.5 MB"),
    ],
)
def test_bytes_are_rounded_for_reading(count: float, text: str):
    assert format_bytes(count) == text


# ---- the ranks' own sockets: whose bytes were counted, and what a closed connection leaves known ----


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
    assert [node.sent_by_ranks for node in traffic.node_traffic(ranks)] == [{"eth1": int(0.62 * GB)}, {"eth1": int(0.61 * GB)}]
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
