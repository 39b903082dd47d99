"""What an MPI took where nothing was forced: from the ranks'
sockets, else from the cards' counters.
"""

from dataclasses import replace

import pytest

from reframe_tests.harness.evidence import traffic
from reframe_tests.harness.evidence.rank_records import Bytes
from reframe_tests.harness.evidence.traffic import NodeTraffic
from reframe_tests.harness.machine.fabric import Fabric, Rail
from synthetic_stack import LO, SHM

GB = 10**9
SLOW = Fabric("slow", "tcp", "cluster", (Rail("eth1", 1.0),))
FAST = Fabric("fast", "tcp", "cluster", (Rail("eth2", 10.0),))
RDMA = Fabric("ib", "verbs", "cluster", (Rail("mlx5_0", 100.0),))
PLAIN = Fabric("plain", "as_shipped", "cluster", choices=(SLOW, FAST, RDMA))
INSIDE = Fabric("inside", "as_shipped", "node", choices=(SHM, LO))


def nodes(cards, sockets=None, problems=()):
    """Two nodes that sent half of everything each."""
    return [
        NodeTraffic(
            host,
            1.0,
            frozenset(cards),
            {name: Bytes(int(count / 2), int(count / 2)) for name, count in cards.items()},
            {name: int(count / 2) for name, count in (sockets or {}).items()},
            sockets is not None,
            {"ib0": frozenset({"mlx5_0/1"}), "mlx5_0/1": frozenset({"ib0"})},
            problems,
        )
        for host in ("c1", "c2")
    ]


def judge(found, fabric=PLAIN, expected=2 * GB):
    return traffic.find_choice(found, fabric, expected)


@pytest.mark.parametrize(
    ("cards", "sockets", "network"),
    [
        ({"eth1": 2.1 * GB, "eth2": 1e5, "lo": 0}, {"eth1": 2.05 * GB}, "slow"),
        # Somebody else's bytes are on a card, and not in the ranks' sockets.
        ({"eth1": 9.0 * GB, "eth2": 2.1 * GB}, {"eth2": 2.05 * GB}, "fast"),
        # RDMA is in no socket; the port counts the IP over it, too.
        ({"eth1": 1e5, "mlx5_0/1": 2.1 * GB, "ib0": 1e4}, {"eth1": 1e4}, "ib"),
        # IP over InfiniBand is not what the site calls ib: the sockets' addresses are those of ib0.
        ({"eth1": 1e5, "mlx5_0/1": 2.1 * GB, "ib0": 2.1 * GB}, {"ib0": 2.05 * GB}, "ib0"),
        # Ranks of one node that talk over the loopback take no network.
        ({"eth1": 2.1 * GB, "lo": 8.0 * GB}, {"eth1": 2.05 * GB, "lo": 8.0 * GB}, "slow"),
        ({"eth1": 0.7 * GB, "eth2": 1.4 * GB}, {"eth1": 0.7 * GB, "eth2": 1.4 * GB}, "eth1 + eth2"),
        # The ifb mirrors what eth1 receives.
        ({"eth1": 2.1 * GB, "ifb0": 2.1 * GB}, None, "slow"),
    ],
)
def test_the_network_is_the_one_that_carried_the_bytes(cards, sockets, network):
    found = judge(nodes(cards, sockets))
    assert (found.network, found.sentences) == (network, ())
    assert (found.fabric.name if found.fabric else "") == (
        network if network in ("slow", "fast", "ib") else ""
    )


def test_several_networks_at_once_are_noted_with_their_shares():
    found = judge(nodes({"eth1": 0.7 * GB, "eth2": 1.4 * GB}))
    assert found.notes == (
        "nothing was forced, and several networks were used at the same time: eth2 67 %, eth1 33 %",
    )


@pytest.mark.parametrize("carried", [1e5, 2.1 * GB])
def test_too_few_bytes_say_nothing(carried):
    found = nodes({"eth1": carried})
    assert judge(found, expected=1e5) == traffic.Choice(too_little=True)
    assert judge(found, expected=0) == traffic.Choice()


def test_a_case_in_which_nothing_shows_the_expected_network_is_not_proven():
    wanted = replace(PLAIN, expect="fast")
    small, seen, barrier = (
        traffic.Choice(too_little=True),
        traffic.Choice(network="fast"),
        traffic.Choice(),
    )
    [said] = traffic.judge_case(wanted, [small, barrier])
    assert said.startswith(
        "nothing was forced and the site expects fast, but no launch sent enough on plain"
    )
    for fabric, launches in (
        (wanted, [small, seen]),
        (wanted, [barrier]),
        (wanted, []),
        (PLAIN, [small]),  # any network will do
    ):
        assert traffic.judge_case(fabric, launches) == []


@pytest.mark.parametrize(
    ("cards", "words"),
    [
        ({"eth1": 1e5}, "no device carried more than usual background traffic"),
        ({"eth1": 1.0 * GB}, "eth1 100 %"),
    ],
)
def test_bytes_that_no_card_counted_prove_nothing(cards, words):
    found = judge(nodes(cards))
    assert found.network == "" and found.fabric is None
    [said] = found.sentences
    assert (
        said.startswith("nothing shows which network carried 2.0 GB of plain: ") and words in said
    )


def test_no_record_and_a_counter_that_went_backwards_prove_nothing():
    assert judge([]).sentences == ("no rank recorded counters, so nothing shows what plain used.",)
    assert (
        judge(nodes({"eth1": 2.1 * GB}, problems=("it went backwards.",))).sentences
        == ("it went backwards.",) * 2
    )


FAST_WANTED = replace(PLAIN, expect="fast")
SAID = "nothing was forced and the site expects {}, but the MPI took {} carried 2.1 GB)."


@pytest.mark.parametrize(
    ("cards", "fabric", "network", "said"),
    [
        ({"eth2": 2.1 * GB}, FAST_WANTED, "fast", ()),
        ({"eth1": 2.1 * GB}, FAST_WANTED, "slow", (SAID.format("fast", "slow (eth1"),)),
        # Inside a node bytes that no card counted were in memory.
        ({"lo": 1e4}, INSIDE, "shm", ()),
        ({"lo": 1e4}, replace(INSIDE, choices=(LO,)), "shared memory", ()),
        ({"lo": 2.1 * GB}, replace(INSIDE, expect="shm"), "lo", (SAID.format("shm", "lo (lo"),)),
    ],
)
def test_another_network_than_the_site_expects_is_a_contradiction(cards, fabric, network, said):
    found = judge(nodes(cards), fabric)
    assert (found.network, found.sentences) == (network, said)


def test_launches_that_took_different_networks_are_named_together():
    assert traffic.name_networks(["slow", "", "fast", "slow"]) == "fast / slow"
