"""The state of links: every sentence and note, and links nothing
must be said of, on rank records made by hand.
"""

import pytest

from reframe_tests.harness.evidence import link_state
from reframe_tests.harness.machine.fabric import Fabric, Rail
from synthetic_evidence import INTERFACE, make_rank

ETH1G = Fabric("eth1g", "tcp", "cluster", (Rail("eth1", 1.0),), mtu_bytes=1500)
UNDESCRIBED = Fabric("eth", "tcp", "cluster", (Rail("eth1"),))
CARD = {**INTERFACE, "slot": "0000:01:00.0"}
GOOD = {
    "mtu_bytes": 1500,
    "speed_mbit_per_s": 1000,
    "duplex": "full",
    "state": "up",
    "carrier_changes": 2,
}
TIDY = {"rx_bytes": 0, "tx_bytes": 0, "rx_errors": 0, "rx_dropped": 5, "tx_dropped": 0}


def node(
    number=0,
    link=None,
    end=None,
    **changes,
):
    """The one rank of node c1 or c2 on a card of 1 Gbit/s, its link at
    the start and what was otherwise at the end.
    """
    start = {**GOOD, **(link or {})}
    start = {key: value for key, value in start.items() if value is not None}
    settings = {
        "init__links": {"eth1": start},
        "finalize__links": {"eth1": {**start, **(end or {})}},
        "node": {"driver of eth1": "igb 5.6", "interfaces": {"eth1": CARD}, "ports": {}},
        "init__interfaces": {"eth1": TIDY},
        "finalize__interfaces": {"eth1": TIDY},
    }
    return make_rank(number, f"c{number + 1}", **{**settings, **changes})


def sentences(*ranks, fabric=ETH1G):
    return link_state.check_links(ranks, fabric).sentences


def notes_of(*ranks):
    finding = link_state.check_links(ranks, ETH1G)
    assert finding.sentences == []
    return link_state.error_notes({"launch": "pair", "repeat": 2, **row} for row in finding.errors)


def test_a_link_that_is_well_says_nothing():
    finding = link_state.check_links([node(0), node(1)], ETH1G)
    assert (finding.sentences, finding.notes, finding.errors) == ([], [], [])
    assert (
        link_state.describe(finding.states[0].settings)
        == "MTU 1500, speed in Mbit/s 1000, duplex full, state up"
    )


@pytest.mark.parametrize(
    ("address", "guid"),
    [
        ("00:00:10:28:fe:80:00:00:00:00:00:00:98:03:9b:00:00:00:00:01", "98039b0000000001"),
        ("02:42:ac:11:00:02", None),
    ],
)
def test_the_guid_of_a_port_is_the_end_of_its_address(address, guid):
    (row,) = link_state.settings_of(
        link_state.check_links([node(link={"address": address})], ETH1G).states
    )
    assert row.get(link_state.PORT_GUID) == guid


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        (
            {"mtu_bytes": 1400},
            "eth1 on c2 has an MTU of 1400, but the site says 1500 for eth1g; set it, or correct "
            "the system's description.",
        ),
        (
            {"speed_mbit_per_s": 100},
            "eth1 on c2 came up at 0.1 Gbit/s, but the site says 1 for eth1g; check cable and port.",
        ),
        (
            {"duplex": "half"},
            "the link of eth1 on c2 runs at half duplex; let both ends negotiate, or set both "
            "alike.",
        ),
        ({"state": "down"}, "the link of eth1 on c2 is not up (state down); check cable and port."),
        (
            {"state": None},
            "the state of eth1 on c2 could not be read, so it may be down; check its "
            "operstate (ports/*/state) in /sys/",
        ),
    ],
)
def test_a_link_that_is_not_as_described(link, sentence):
    assert any(said.startswith(sentence) for said in sentences(node(0), node(1, link)))


def test_nodes_whose_links_are_not_alike():
    found = sentences(node(0), node(1, {"speed_mbit_per_s": 100}), fabric=UNDESCRIBED)
    assert found == ["the nodes' links differ: speed in Mbit/s of eth1 is 100 on c2; 1000 on c1."]


@pytest.mark.parametrize(
    ("link", "words"),
    [(dict.fromkeys(GOOD), "state, MTU, rate"), ({"speed_mbit_per_s": -1}, "rate")],
)
def test_what_a_link_does_not_show_is_noted(link, words):
    finding = link_state.check_links([node(0), node(1, link)], ETH1G)
    wanted = [f"{words} of eth1 on c2 could not be read, so it was not compared"] if words else []
    assert finding.notes == wanted
    assert [sentence for sentence in finding.sentences if "differ" not in sentence] == []


@pytest.mark.parametrize(
    ("device", "layer", "known"),
    [
        ("mlx5_0", "Ethernet", True),
        ("mlx5_bond_0", "Ethernet", False),
        ("efa_0", "Unspecified", False),
    ],
)
def test_the_rate_of_an_rdma_port_that_is_no_single_link(device, layer, known):
    name = f"{device}/1"
    links = {name: {"state": "4: ACTIVE", "rate": "100 Gb/sec (4X EDR)"}}
    port = {
        "state": "4: ACTIVE",
        "rate": "100 Gb/sec (4X EDR)",
        "link_layer": layer,
        "slot": "0000:01:00.0",
    }
    rank = node(
        0, node={"interfaces": {}, "ports": {name: port}}, init__links=links, finalize__links=links
    )
    assert (
        bool(sentences(rank, fabric=Fabric("two", "ucx", "cluster", (Rail(device, 200.0),))))
        == known
    )


def test_a_link_that_changed_during_the_run():
    assert sentences(node(0, end={"mtu_bytes": 9000, "pcie_speed": "2.5 GT/s PCIe"})) == [
        "the link of eth1 on c1 changed during the run: MTU 1500 to 9000."
    ]
    assert (
        sentences(node(0, {"pcie_speed": "8.0 GT/s PCIe"}, end={"pcie_speed": "2.5 GT/s PCIe"}))
        == []
    )
    (sentence,) = sentences(node(0, end={"carrier_changes": 4}))
    assert sentence == (
        "the link of eth1 on c1 was interrupted during the run: its carrier changed "
        "(carrier_changes +2); check cable, port and its log."
    )


def test_a_member_of_a_bond_that_fails_is_the_bonds_sentence():
    bond = Fabric("bond", "tcp", "cluster", (Rail("bond0", 2.0),))
    about = {"interfaces": {"bond0": {**INTERFACE, "lower": ["eth1"]}, "eth1": CARD}, "ports": {}}
    links = {"bond0": {"mtu_bytes": 1500, "state": "up"}, "eth1": GOOD}
    broken = {**links, "eth1": {**GOOD, "carrier_changes": 3}}
    ranks = [node(0, node=about, init__links=links, finalize__links=links)]
    assert sentences(*ranks, fabric=bond) == []
    (sentence,) = sentences(
        node(0, node=about, init__links=links, finalize__links=broken), fabric=bond
    )
    assert sentence.startswith("the link of eth1 on c1 was interrupted")


def test_new_errors_are_noted_with_launch_and_number():
    assert notes_of(
        node(0, finalize__interfaces={"eth1": {**TIDY, "rx_errors": 3, "tx_dropped": 1}})
    ) == [
        "eth1 on c1: rx_errors +3 in pair.2 (received packets with errors)",
        "eth1 on c1: tx_dropped +1 in pair.2 (packets dropped before sending)",
    ]


@pytest.mark.parametrize(("dropped", "noted"), [(7, False), (8, True)])
def test_packets_nobody_listens_to_are_dropped_on_healthy_links_too(dropped, noted):
    """One a second is common; the run takes 2 s and began with 5."""
    rank = node(0, finalize__interfaces={"eth1": {**TIDY, "rx_dropped": dropped}})
    assert bool(notes_of(rank)) == noted
    assert link_state.check_links([rank], ETH1G).errors[0]["new"] == dropped - 5


@pytest.mark.parametrize(
    ("out", "again", "whole", "noted"),
    [
        (10**9, 900_000, 250, []),
        (10**9, 1_100_000, 0, ["TCP of the ranks on c1: again_bytes +1100000"]),
        # A few packets are probed for again in healthy runs.
        (10**6, 80_000, 0, []),
        # The whole node's are kept always, noted only where nothing tells the ranks' own.
        (0, 0, 250, ["TCP of the whole node on c1: RetransSegs +250"]),
    ],
)
def test_what_tcp_sent_again(out, again, whole, noted):
    row = {"local": "10.0.0.1", "peer": "10.0.0.2", "count": 1}
    row |= {"sent_bytes": out, "received_bytes": 0, "out_bytes": out, "again_bytes": again}
    row |= {"segments_out": 7 * 10**5, "segments_in": 3 * 10**5}
    rank = node(
        0,
        finalize__tcp={"pairs": [row] if out else [], "uncounted": 0, "complete": True},
        init__tcp_node={"OutSegs": 0, "RetransSegs": 0},
        finalize__tcp_node={"OutSegs": 10**5, "RetransSegs": whole},
    )
    assert [note.partition(" in pair.2 ")[0] for note in notes_of(rank)] == noted
    counters = [item["counter"] for item in link_state.check_links([rank], ETH1G).errors]
    assert counters == ["again_bytes"] * bool(again) + ["RetransSegs"] * bool(whole)


SOFTWARE = {"interfaces": {"eth1": INTERFACE}, "ports": {}}
VIRTUAL = {"driver of eth1": "virtio_net 1.0.0", "interfaces": {"eth1": CARD}, "ports": {}}


@pytest.mark.parametrize(
    ("fabric", "ranks", "notes"),
    [
        (
            ETH1G,
            [node(link={"speed_mbit_per_s": 10000})],
            ["eth1 on c1 reports 10 Gbit/s, but the site says 1 for eth1g"],
        ),
        # Its signalling rate, of which a site says the data rate.
        (
            Fabric("qdr", "tcp", "cluster", (Rail("eth1", 32.0),)),
            [node(link={"speed_mbit_per_s": 40000})],
            [],
        ),
        # One in a narrower slot.
        (
            ETH1G,
            [node(0, {"pcie_width": 16}), node(1, {"pcie_width": 8})],
            ["PCIe lanes of eth1 differ: 16 on c1; 8 on c2"],
        ),
        # What one node does not tell is not held against it: a container without /sys.
        (UNDESCRIBED, [node(0), node(1, {"speed_mbit_per_s": None, "duplex": None})], []),
        (
            UNDESCRIBED,
            [node(0), node(1, init__links={}, finalize__links={})],
            ["state of eth1 on c2 could not be read, so it was not compared"],
        ),
        # The speed of software is nobody's, nor is that of a virtual machine's adapter.
        (
            UNDESCRIBED,
            [node(0, node=SOFTWARE), node(1, {"speed_mbit_per_s": 10}, node=SOFTWARE)],
            [],
        ),
        (UNDESCRIBED, [node(end={"speed_mbit_per_s": 10}, node=SOFTWARE)], []),
        (ETH1G, [node(link={"speed_mbit_per_s": 100}, node=VIRTUAL)], []),
        # The driver's at the end of a run.
        (ETH1G, [node(end={"duplex": "unknown"})], []),
        # These have no links.
        (Fabric("shm", "shm", "node"), [node(link={"state": "down"})], []),
        (Fabric("lo", "tcp", "node", (Rail("lo"),)), [node()], []),
    ],
)
def test_what_must_not_be_said_of_a_link(fabric, ranks, notes):
    finding = link_state.check_links(ranks, fabric)
    assert (finding.sentences, finding.notes) == ([], notes)
    assert bool(finding.states) == (fabric.scope == "cluster")
